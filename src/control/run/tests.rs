//! The whole control core over fake shards, with real admin sockets on loopback.

use super::*;
use crate::control::fixture::Configured;
use ringway_shards::link::{Check, Found, Lookup, ShardEnd, Verdict, links};
use ringway_shards::plan::Secret;
use ringway_shards::snapshot::PoolTable;
use std::net::{IpAddr, Ipv4Addr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time::timeout;

mod members;

const PATIENCE: Duration = Duration::from_secs(20);

/// A configuration with one origin; `{extra}` goes into the origin.
fn yaml(extra: &str) -> String {
    format!(
        "listeners:\n  default: {{address: 127.0.0.1, port: any}}\n  \
         metrics: {{address: 127.0.0.1, port: any}}\n  \
         mgmt: {{address: 127.0.0.1, port: any}}\n\
         mgmt:\n  reload_rate_limit: 0\n  reload_drain_timeout: 200ms\n\
         backends:\n  a:\n    provider: reverseproxy\n{extra}\n  \
         lb:\n    provider: alb\n    alb:\n      mechanism: rr\n      pool: [a]\n"
    )
}

const PLAIN: &str = "    origin_url: http://127.0.0.1:9";

/// What a fake shard did.
#[derive(Debug)]
enum Seen {
    Prepared(u64),
    Committed(Arc<PoolTable>),
    Aborted,
    Table(Arc<PoolTable>),
    Members(Arc<PoolTable>),
    Drained,
    Verdict(u64, Verdict),
    Found(u64, Found),
}

/// How a fake shard behaves.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Willing,
    /// Refuses every plan but the first.
    RefusesReloads,
    RefusesAll,
    /// Answers no scrape and no drain.
    Mute,
    /// Has two passwords checked as soon as it serves.
    Asks,
    /// Has two hosts looked up as soon as it serves.
    LooksUp,
}

async fn fake_shard(mut end: ShardEnd, role: Role, seen: mpsc::UnboundedSender<Seen>) {
    let tell = |event| {
        let _ = end.events.send((end.id, event));
    };
    tell(ShardEvent::Started {
        driver: Driver::Epoll,
        refused: Some("a test".into()),
    });
    while let Some(command) = end.commands.recv().await {
        let _ = seen.send(match command {
            Command::Prepare(plan) => {
                let refuses = match role {
                    Role::RefusesAll => true,
                    Role::RefusesReloads => plan.generation.0 > 1,
                    Role::Willing | Role::Mute | Role::Asks | Role::LooksUp => false,
                };
                let result = match refuses {
                    true => Err("port 80 is in use".to_owned()),
                    false => Ok(plan.listeners.iter().map(|l| (l.id, l.address)).collect()),
                };
                tell(ShardEvent::Prepared(plan.generation, result));
                Seen::Prepared(plan.generation.0)
            }
            Command::Commit(table) => {
                if role == Role::Asks {
                    for (token, offered) in (7..).zip(["open sesame", "wrong"]) {
                        tell(ShardEvent::Verify(Box::new(Check {
                            token,
                            stored: Secret::new("$apr1$Zo7pTq1x$XYTeBEuZiORIT0981GTGE/"),
                            offered: Secret::new(offered),
                        })));
                    }
                }
                if role == Role::LooksUp {
                    for (token, host) in (7..).zip(["abc.localhost", "abc.invalid"]) {
                        tell(ShardEvent::LookUp(Lookup {
                            token,
                            host: host.into(),
                            known_alone: false,
                        }));
                    }
                }
                Seen::Committed(table)
            }
            Command::Found(token, found) => Seen::Found(token, found),
            Command::Verdict(token, verdict) => Seen::Verdict(token, verdict),
            Command::Abort => Seen::Aborted,
            Command::Table(table) => Seen::Table(table),
            Command::Members(_, table) => {
                tell(ShardEvent::Members(table.version));
                Seen::Members(table)
            }
            Command::Scrape(token) => {
                if role != Role::Mute {
                    tell(ShardEvent::Metrics(token, Box::default()));
                }
                continue;
            }
            Command::Drain(_) => {
                if role != Role::Mute {
                    tell(ShardEvent::Drained(1));
                }
                Seen::Drained
            }
        });
    }
}

/// A control core that runs.
struct Rig {
    config: Configured,
    signals: mpsc::Sender<Signal>,
    serving: Option<oneshot::Receiver<Serving>>,
    seen: Vec<mpsc::UnboundedReceiver<Seen>>,
    ended: tokio::task::JoinHandle<Ended>,
}

impl Rig {
    fn start(yaml: &str, roles: &[Role]) -> Rig {
        let config = Configured::new(yaml);
        let links = links(u16::try_from(roles.len()).unwrap());
        let mut seen = Vec::new();
        for (end, role) in links.ends.into_iter().zip(roles) {
            let (tx, rx) = mpsc::unbounded_channel();
            tokio::task::spawn_local(fake_shard(end, *role, tx));
            seen.push(rx);
        }
        let (signals, signals_in) = mpsc::channel(4);
        let mut loader = config.loader();
        let first = loader(Generation(1)).unwrap();
        let (mut core, inputs) = Core::new(links.commands, links.events, signals_in, loader, None);
        let (bell, serving) = oneshot::channel();
        core.tell_when_serving(bell);
        let ended = tokio::task::spawn_local(async move { core.run(first, inputs).await.0 });
        Rig {
            config,
            signals,
            serving: Some(serving),
            seen,
            ended,
        }
    }

    async fn serving(&mut self) -> Serving {
        let serving = self.serving.take().unwrap();
        timeout(PATIENCE, serving).await.unwrap().unwrap()
    }

    async fn next(&mut self, shard: usize) -> Seen {
        timeout(PATIENCE, self.seen[shard].recv())
            .await
            .unwrap()
            .unwrap()
    }

    async fn ended(self) -> Ended {
        timeout(PATIENCE, self.ended).await.unwrap().unwrap()
    }
}

fn admin(serving: &Serving, name: &str) -> SocketAddr {
    let found = serving.admin.iter().find(|(known, _)| *known == name);
    found.unwrap().1
}

/// Status, head and body of one request.
async fn request(
    to: SocketAddr,
    method: &str,
    target: &str,
    headers: &str,
) -> (u16, String, String) {
    let exchange = async {
        let mut stream = TcpStream::connect(to).await.unwrap();
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    };
    let answer = timeout(PATIENCE, exchange).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head[9..12].parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

async fn get(to: SocketAddr, target: &str) -> (u16, String) {
    let (status, _, body) = request(to, "GET", target, "").await;
    (status, body)
}

async fn local<F: Future<Output = ()>>(test: F) {
    LocalSet::new().run_until(Box::pin(test)).await;
}

#[tokio::test]
async fn a_first_configuration_is_prepared_and_committed_everywhere() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Willing, Role::Willing]);
        let serving = rig.serving().await;
        for shard in 0..2 {
            assert!(matches!(rig.next(shard).await, Seen::Prepared(1)));
            let Seen::Committed(table) = rig.next(shard).await else {
                panic!("no commit");
            };
            assert_eq!(
                *table.backends[0].addresses,
                ["127.0.0.1:9".parse().unwrap()]
            );
        }
        assert_ne!(
            serving.listeners[0].1.port(),
            0,
            "port 0 is chosen once for all shards"
        );
        let metrics = admin(&serving, "metrics");
        let (status, text) = get(metrics, "/metrics").await;
        assert_eq!(status, 200);
        assert!(
            text.contains("\ntrickster_config_reload_successes_total 1\n"),
            "{text}"
        );
        assert!(
            text.contains("\nringway_scrape_shards_missing 0\n"),
            "{text}"
        );
        assert!(text.contains("ringway_shard_driver_info{shard=\"1\",driver=\"epoll\"} 1"));
        let (status, text) = get(admin(&serving, "mgmt"), "/trickster/config").await;
        assert_eq!(status, 200);
        assert!(text.contains("mechanism: rr"), "{text}");
        rig.signals.send(Signal::Stop).await.unwrap();
        assert_eq!(rig.ended().await, Ended::Drained { cut: 2 });
    })
    .await;
}

#[tokio::test]
async fn a_password_is_checked_for_the_shard_that_asks() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Willing, Role::Asks]);
        let serving = rig.serving().await;
        for _ in 0..2 {
            rig.next(0).await;
            rig.next(1).await;
        }
        let mut verdicts = [Verdict::Busy; 2];
        for _ in 0..2 {
            let Seen::Verdict(token, verdict) = rig.next(1).await else {
                panic!("no verdict");
            };
            verdicts[usize::try_from(token).unwrap() - 7] = verdict;
        }
        assert_eq!(verdicts, [Verdict::Match, Verdict::Mismatch]);
        assert!(rig.seen[0].try_recv().is_err(), "nobody else is told");
        let (_, text) = get(admin(&serving, "metrics"), "/metrics").await;
        assert!(
            text.contains("\nringway_password_checks_total{result=\"match\"} 1\n"),
            "{text}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_host_is_looked_up_for_the_shard_that_asks() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Willing, Role::LooksUp]);
        let serving = rig.serving().await;
        for _ in 0..2 {
            rig.next(0).await;
            rig.next(1).await;
        }
        let mut known = [None, None];
        for _ in 0..2 {
            let Seen::Found(token, found) = rig.next(1).await else {
                panic!("no answer");
            };
            known[usize::try_from(token).unwrap() - 7] = Some(!found.addresses.is_empty());
        }
        assert_eq!(known, [Some(true), Some(false)]);
        assert!(rig.seen[0].try_recv().is_err(), "nobody else is told");
        let (_, text) = get(admin(&serving, "metrics"), "/metrics").await;
        for result in ["ok", "failed"] {
            let row = format!("\nringway_lookups_total{{result=\"{result}\"}} 1\n");
            assert!(text.contains(&row), "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_first_configuration_that_one_shard_refuses_ends_the_start() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Willing, Role::RefusesAll]);
        for shard in 0..2 {
            assert!(matches!(rig.next(shard).await, Seen::Prepared(1)));
        }
        let refusal = Refusal::NotPrepared(vec!["port 80 is in use".into()]);
        assert_eq!(rig.ended().await, Ended::Refused(refusal));
    })
    .await;
}

#[tokio::test]
async fn a_reload_that_one_shard_refuses_changes_nothing() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Willing, Role::RefusesReloads]);
        let serving = rig.serving().await;
        let mgmt = admin(&serving, "mgmt");
        rig.config
            .write(&yaml("    origin_url: http://127.0.0.1:10"));
        let (status, body) = get(mgmt, "/trickster/config/reload").await;
        assert_eq!(status, 500, "{body}");
        assert_eq!(body, "configuration NOT reloaded\nport 80 is in use\n");
        for shard in 0..2 {
            assert!(matches!(rig.next(shard).await, Seen::Prepared(1)));
            assert!(matches!(rig.next(shard).await, Seen::Committed(_)));
            assert!(matches!(rig.next(shard).await, Seen::Prepared(2)));
            assert!(matches!(rig.next(shard).await, Seen::Aborted));
        }
        let (_, config) = get(mgmt, "/trickster/config").await;
        assert!(config.contains("127.0.0.1:9\n"), "{config}");
        let (_, text) = get(admin(&serving, "metrics"), "/metrics").await;
        assert!(
            text.contains("\ntrickster_config_last_reload_successful 0\n"),
            "{text}"
        );
        assert!(text.contains("\nringway_plan_generation 1\n"), "{text}");
    })
    .await;
}

#[tokio::test]
async fn a_reload_serves_the_new_configuration_and_keeps_ports() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Willing]);
        let serving = rig.serving().await;
        let mgmt = admin(&serving, "mgmt");
        rig.next(0).await;
        rig.next(0).await;
        rig.config
            .write(&yaml("    origin_url: http://127.0.0.1:10"));
        let (status, _, body) = request(mgmt, "POST", "/trickster/config/reload", "").await;
        assert_eq!((status, &*body), (200, "configuration reloaded\n"));
        assert!(matches!(rig.next(0).await, Seen::Prepared(2)));
        let Seen::Committed(table) = rig.next(0).await else {
            panic!("no commit");
        };
        assert_eq!(table.generation.0, 2);
        assert_eq!(table.backends[0].addresses[0].port(), 10);
        let (_, config) = get(mgmt, "/trickster/config").await;
        assert!(config.contains("127.0.0.1:10\n"), "{config}");
    })
    .await;
}

#[tokio::test]
async fn an_invalid_configuration_is_refused_with_its_problems() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Willing]);
        let serving = rig.serving().await;
        rig.config.write("backends:\n  a:\n    provder: rp\n");
        let (status, body) = get(admin(&serving, "mgmt"), "/trickster/config/reload").await;
        assert_eq!(status, 422, "{body}");
        assert!(body.contains(".yaml:3:5: backends.a.provder: "), "{body}");
        rig.next(0).await;
        rig.next(0).await;
        assert!(rig.seen[0].try_recv().is_err(), "no shard hears of it");
    })
    .await;
}

#[tokio::test]
async fn attempts_are_spaced_but_no_signal_is_lost() {
    local(async {
        let spaced = yaml(PLAIN).replace("reload_rate_limit: 0", "reload_rate_limit: 300ms");
        let mut rig = Rig::start(&spaced, &[Role::Willing]);
        let serving = rig.serving().await;
        let (status, _) = get(admin(&serving, "mgmt"), "/trickster/config/reload").await;
        assert_eq!(status, 429);
        rig.signals.send(Signal::Reload).await.unwrap();
        for _ in 0..2 {
            rig.next(0).await;
        }
        assert!(matches!(rig.next(0).await, Seen::Prepared(2)));
        assert!(matches!(rig.next(0).await, Seen::Committed(_)));
    })
    .await;
}

#[tokio::test]
async fn a_changed_source_is_found_by_looking() {
    local(async {
        let looking = |origin: &str| {
            yaml(origin).replace(
                "mgmt:\n  reload",
                "mgmt:\n  auto_reload_interval: 20ms\n  reload",
            )
        };
        let mut rig = Rig::start(&looking(PLAIN), &[Role::Willing]);
        rig.serving().await;
        for _ in 0..2 {
            rig.next(0).await;
        }
        rig.config
            .write(&looking("    origin_url: http://127.0.0.1:10"));
        assert!(matches!(rig.next(0).await, Seen::Prepared(_)));
        let Seen::Committed(table) = rig.next(0).await else {
            panic!("no commit");
        };
        assert_eq!(table.backends[0].addresses[0].port(), 10);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(
            rig.seen[0].try_recv().is_err(),
            "an unchanged source is left alone"
        );
    })
    .await;
}

#[tokio::test]
async fn a_second_stop_ends_at_once_and_a_drain_that_does_not_end_is_cut() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Mute]);
        let serving = rig.serving().await;
        rig.signals.send(Signal::Stop).await.unwrap();
        while !matches!(rig.next(0).await, Seen::Drained) {}
        let (status, body) = get(admin(&serving, "mgmt"), "/trickster/config/reload").await;
        assert_eq!(status, 503, "{body}");
        rig.signals.send(Signal::Stop).await.unwrap();
        assert_eq!(rig.ended().await, Ended::Cut);

        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Mute]);
        rig.serving().await;
        rig.signals.send(Signal::Stop).await.unwrap();
        assert_eq!(rig.ended().await, Ended::Cut);
    })
    .await;
}

#[tokio::test]
async fn a_shard_that_does_not_answer_is_missing_from_the_scrape() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Willing, Role::Mute]);
        let serving = rig.serving().await;
        let (_, text) = get(admin(&serving, "metrics"), "/metrics").await;
        assert!(
            text.contains("\nringway_scrape_shards_missing 1\n"),
            "{text}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_shard_that_ends_ends_the_process() {
    local(async {
        let config = Configured::new(&yaml(PLAIN));
        let links = links(1);
        drop(links.ends);
        let (_signals, signals_in) = mpsc::channel(1);
        let mut loader = config.loader();
        let first = loader(Generation(1)).unwrap();
        let (core, inputs) = Core::new(links.commands, links.events, signals_in, loader, None);
        let ended = timeout(PATIENCE, core.run(first, inputs)).await.unwrap().0;
        assert!(matches!(ended, Ended::ShardEnded(_)), "{ended:?}");
    })
    .await;
}

/// An origin that answers every connection with `answer`, until it is dropped.
async fn origin(answer: &'static str) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, task)
}

/// A rig whose origin `a` is probed often; its host name has to be resolved.
fn probed(address: SocketAddr) -> Rig {
    let origin = format!(
        "    origin_url: http://localhost:{}\n    healthcheck: {{interval: 50ms, \
         timeout: 500ms, failure_threshold: 2, recovery_threshold: 2}}",
        address.port()
    );
    Rig::start(&yaml(&origin), &[Role::Willing])
}

const HELLO: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Who: me\r\nConnection: close\r\n\r\nhello";

/// The first table in which `a` has this health.
async fn table_with(rig: &mut Rig, health: i8) -> Arc<PoolTable> {
    loop {
        if let Seen::Table(table) = rig.next(0).await
            && table.backends[0].health.value() == health
        {
            return table;
        }
    }
}

#[tokio::test]
async fn probes_move_members_in_and_out() {
    local(async {
        let (address, task) = origin(HELLO).await;
        let mut rig = probed(address);
        rig.next(0).await;
        let Seen::Committed(table) = rig.next(0).await else {
            panic!("no commit");
        };
        assert_eq!(
            table.pools[0].live.len(),
            1,
            "unknown is admitted at floor 0"
        );
        let is_local = |a: &SocketAddr| a.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert!(
            table.backends[0].addresses.iter().any(is_local),
            "the host name is resolved before the first table"
        );
        table_with(&mut rig, 1).await;
        task.abort();
        let _ = task.await;
        let table = table_with(&mut rig, -1).await;
        assert!(table.pools[0].live.is_empty());
    })
    .await;
}

#[tokio::test]
async fn the_page_shows_what_probes_found() {
    local(async {
        let (address, task) = origin(HELLO).await;
        let mut rig = probed(address);
        let metrics = admin(&rig.serving().await, "metrics");
        table_with(&mut rig, 1).await;
        let (status, head, body) = request(metrics, "GET", "/trickster/health/a", "").await;
        assert_eq!((status, &*body), (200, "hello"));
        assert!(head.contains("x-who: me"), "{head}");
        assert!(head.contains("trk-hc-status: 1"), "{head}");
        assert_eq!(get(metrics, "/trickster/health/lb").await.0, 404);

        task.abort();
        let _ = task.await;
        table_with(&mut rig, -1).await;
        let (_, page) = get(metrics, "/trickster/health").await;
        let rows = [
            "\na            proxy        unavailable since 20",
            "unavailable u:[a]\n",
        ];
        assert!(rows.iter().all(|row| page.contains(row)), "{page}");
        let (_, json) = get(metrics, "/trickster/health?json").await;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let detail = json["unavailable"][0]["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("error probing target: dial tcp "),
            "{detail}"
        );
        // Probes on demand are limited to one within 100 ms for each backend.
        let (status, head) = loop {
            let (status, head, _) = request(metrics, "GET", "/trickster/health/a", "").await;
            if status != 429 {
                break (status, head);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(status, 500);
        assert!(head.contains("trk-hc-status: -1"), "{head}");
        let (_, text) = get(metrics, "/metrics").await;
        let row = "ringway_healthcheck_target_state{backend_name=\"a\"} -1";
        assert!(text.contains(row), "{text}");
    })
    .await;
}

#[tokio::test]
async fn a_probe_on_demand_answers_503_when_an_expectation_fails() {
    local(async {
        let (address, _task) = origin(HELLO).await;
        let checked =
            format!("    origin_url: http://{address}\n    healthcheck: {{expected_body: ok}}");
        let mut rig = Rig::start(&yaml(&checked), &[Role::Willing]);
        let metrics = admin(&rig.serving().await, "metrics");
        let (status, head, body) = request(metrics, "GET", "/trickster/health/a", "").await;
        assert_eq!((status, &*body), (503, "hello"));
        assert!(head.contains("trk-hc-origin-status: 200"), "{head}");
        assert!(
            head.contains("trk-hc-expectation: required response body mismatch"),
            "{head}"
        );
        assert!(head.contains("trk-hc-status: 0"), "{head}");
    })
    .await;
}

#[tokio::test]
async fn the_page_is_not_sent_again_when_nothing_changed() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Willing]);
        let metrics = admin(&rig.serving().await, "metrics");
        let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(5));
        let header = format!("If-Modified-Since: {later}\r\n");
        let (status, head, body) = request(metrics, "GET", "/trickster/health", &header).await;
        assert_eq!((status, &*body), (304, ""));
        assert!(head.contains("last-modified: "), "{head}");
        let header = "If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT\r\n";
        assert_eq!(
            request(metrics, "GET", "/trickster/health", header).await.0,
            200
        );
        let header = "If-Modified-Since: yesterday\r\n";
        assert_eq!(
            request(metrics, "GET", "/trickster/health", header).await.0,
            200
        );
    })
    .await;
}

#[tokio::test]
async fn admin_listeners_answer_only_what_they_should() {
    local(async {
        let mut rig = Rig::start(&yaml(PLAIN), &[Role::Willing]);
        let serving = rig.serving().await;
        let (metrics, mgmt) = (admin(&serving, "metrics"), admin(&serving, "mgmt"));
        for (to, method, target, status) in [
            (metrics, "GET", "/", 404),
            (metrics, "GET", "/metrics/", 404),
            (metrics, "GET", "/debug/pprof/", 404),
            (metrics, "HEAD", "/metrics", 200),
            (metrics, "POST", "/metrics", 405),
            (metrics, "GET", "/trickster/health/", 404),
            (metrics, "GET", "/trickster/health/nobody", 404),
            (metrics, "GET", "/trickster/config", 404),
            (mgmt, "DELETE", "/trickster/config/reload", 405),
            (mgmt, "HEAD", "/trickster/config/reload", 200),
            (mgmt, "GET", "/trickster/config?x=1", 200),
        ] {
            let (found, _, body) = request(to, method, target, "").await;
            assert_eq!(found, status, "{method} {target}");
            assert!(method != "HEAD" || body.is_empty(), "{method} {target}");
        }
        rig.next(0).await;
        rig.next(0).await;
        assert!(rig.seen[0].try_recv().is_err(), "nothing was reloaded");
    })
    .await;
}
