//! Discovery whatever the source: guard rails, starts, reloads, and what operators are shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ringway_wire::{Client, Gate, Origin, Port, Request, Ringway, Setup, eventually, ok, run_in};

use crate::discovery_support::{
    all_named, becomes, errors, fails, is_listed, is_rejected, list, named, picks, reload, replace,
    row, sections, sections_of, snapshots, stays, tables, who,
};

/// A list that is noticed when it changes, beside the configuration.
const FILE: &str = "provider: file, file: {poll_interval: 1h}";
const QUERY: &str = "query: {path: members}";

fn write(ringway: &Ringway, text: &str) {
    replace(&ringway.folder().join("members"), text);
}

/// Ringway over a list of these, with further keys of `alb.discovery` and of the template.
fn start(members: &[&Origin], keys: &str, template: &str) -> Ringway {
    let addresses: Vec<_> = members.iter().map(|origin| origin.address()).collect();
    let setup = Setup::new(sections_of(FILE, &format!("{QUERY}{keys}"), template));
    replace(&setup.folder().join("members"), &list(&addresses));
    setup.start()
}

// === what operators are shown ===

#[test]
fn rows_of_a_member_are_there_while_it_is_and_go_with_it() {
    let [a, b] = all_named(["a", "b"]);
    let probe = "healthcheck: {interval: 100ms, timeout: 2s}";
    let ringway = start(&[], "", probe);
    let entry = |name: &str, origin: &Origin| {
        format!(
            "{{\"name\": \"{name}\", \"address\": \"{}\"}}",
            origin.address()
        )
    };
    write(
        &ringway,
        &format!("[{}, {}]", entry("Web 1", &a), entry("web-2", &b)),
    );
    becomes(&ringway, &["a", "b"]);
    let item = is_listed(&ringway, "lb-web-1", "available");
    assert_eq!(item["provider"], "proxy (lb via src)");
    assert!(row(&ringway, "tpl").is_none(), "a template is nobody");
    let members = || {
        ringway.metric(
            "trickster_alb_discovery_members",
            &[("alb_name", "lb"), ("discoverer", "src")],
        )
    };
    assert_eq!(members(), Some(2.0));
    let changes = |event| {
        ringway.metric(
            "trickster_alb_discovery_member_changes_total",
            &[("event", event)],
        )
    };
    assert_eq!((changes("add"), changes("remove")), (Some(2.0), Some(0.0)));
    let metrics = || {
        Client::connect(ringway.metrics_address())
            .get("/metrics")
            .text()
    };
    eventually("both have rows", || {
        let text = metrics();
        let has = |row: &str| {
            text.lines()
                .any(|line| line.starts_with(row) && line.contains("\"lb-web-1\""))
        };
        (has("ringway_healthcheck_probes_total") && has("ringway_member_selected_total"))
            .then_some(())
    });
    assert!(!metrics().contains("\"tpl\""));
    write(&ringway, &format!("[{}]", entry("web-2", &b)));
    becomes(&ringway, &["b"]);
    assert_eq!((members(), changes("remove")), (Some(1.0), Some(1.0)));
    assert!(row(&ringway, "lb-web-1").is_none());
    let text = metrics();
    let left: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("lb-web-1"))
        .collect();
    assert!(left.is_empty(), "{left:#?}");
    is_told_of(&ringway, "member=lb-web-1");
    // No probe of who is gone, however long one waits: the other's go on.
    a.requests();
    b.requests();
    for _ in 0..3 {
        b.next_request();
    }
    assert!(a.requests().is_empty());
    ringway.stop();
}

/// Waits until the coming and going of a member is logged.
#[track_caller]
fn is_told_of(ringway: &Ringway, member: &str) {
    for event in ["member added", "member removed"] {
        let is_it = |line: &str| {
            line.contains(event) && line.contains("scope=discovery") && line.contains(member)
        };
        eventually(&format!("{event:?} is logged of {member}"), || {
            ringway.log().lines().any(is_it).then_some(())
        });
    }
}

#[test]
fn discovered_members_come_beside_static_ones() {
    let [fixed, a] = all_named(["fixed", "a"]);
    let yaml = sections(FILE, QUERY).replace("mechanism: rr,", "mechanism: rr, pool: [fixed],");
    let yaml = format!(
        "{yaml}  fixed: {{provider: reverseproxy, origin_url: 'http://{}'}}\n",
        fixed.address()
    );
    let ringway = Setup::new(yaml).start();
    stays(&ringway, &["fixed"]);
    assert!(errors(&ringway) >= 1.0, "there is no list yet");
    write(&ringway, &list(&[a.address()]));
    becomes(&ringway, &["a", "fixed"]);
    write(&ringway, "[]");
    becomes(&ringway, &["fixed"]);
    ringway.stop();
}

// === guard rails ===

#[test]
fn within_the_debounce_window_only_the_newest_snapshot_counts() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let ringway = start(&[], ", debounce_window: 6s", "");
    write(&ringway, &list(&[a.address()]));
    // Read first, applied when the window of the first snapshot ends.
    becomes(&ringway, &["a"]);
    let (before, applied) = (tables(&ringway), snapshots(&ringway, "applied"));
    for origin in [&b, &c] {
        write(&ringway, &list(&[origin.address()]));
        let refreshed = || {
            ringway.metric(
                "trickster_alb_discovery_last_refresh_success_time_seconds",
                &[],
            )
        };
        let last = refreshed();
        eventually("it is read", || (refreshed() > last).then_some(()));
    }
    let mut seen = who(&ringway);
    eventually("the newest is applied", || {
        let now = who(&ringway);
        seen.extend(now.clone());
        (now == ["c".to_owned()].into()).then_some(())
    });
    assert!(!seen.contains("b"), "{seen:?}");
    assert_eq!(tables(&ringway), before + 1.0);
    assert_eq!(snapshots(&ringway, "applied"), applied + 1.0);
    ringway.stop();
}

#[test]
fn a_snapshot_that_takes_too_many_away_is_rejected_until_a_reload() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let all = [a.address(), b.address(), c.address()];
    let ringway = start(&[&a, &b, &c], ", max_shrink: 50", "");
    stays(&ringway, &["a", "b", "c"]);
    is_rejected(&ringway, || write(&ringway, &list(&all[..1])));
    stays(&ringway, &["a", "b", "c"]);
    write(&ringway, &list(&all[..2]));
    becomes(&ringway, &["a", "b"]);
    is_rejected(&ringway, || write(&ringway, "[]"));
    stays(&ringway, &["a", "b"]);
    reload(&ringway);
    becomes(&ringway, &["502"]);
    ringway.stop();
}

// === start ===

/// A configuration whose source is a port that nobody listens at.
fn nowhere(gone: &Port, policy: &str) -> String {
    let source = format!(
        "provider: http_sd, http: {{endpoint: 'http://{}', interval: 1s, timeout: 2s}}",
        gone.address()
    );
    sections(&source, &format!("query: {{}}, startup_policy: {policy}"))
}

#[test]
fn a_start_that_depends_on_a_source_fails_with_it() {
    let [gone, proxy, metrics, mgmt] = [Port::claim(), Port::claim(), Port::claim(), Port::claim()];
    let setup = Setup::new("");
    let listener = |name: &str, port: &Port| {
        format!(
            "  {name}: {{address: 127.0.0.1, port: {}}}\n",
            port.number()
        )
    };
    let yaml = format!(
        "listeners:\n{}{}{}shards: {{count: 1, pin: false}}\n{}",
        listener("default", &proxy),
        listener("metrics", &metrics),
        listener("mgmt", &mgmt),
        nowhere(&gone, "fail")
    );
    std::fs::write(setup.folder().join("fail.yaml"), yaml).expect("the folder is ours");
    let ended = run_in(setup.folder(), &["run", "--config", "fail.yaml"]);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let said = format!("{}{}", ended.out, ended.err);
    for part in ["discovery.src: ", "startup_policy"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    std::fs::remove_dir_all(setup.folder()).expect("the folder is ours");
}

#[test]
fn a_start_that_depends_on_a_source_waits_for_it() {
    let origin = named("a");
    let document = list(&[origin.address()]);
    let source = Origin::answering(move |_| {
        // Long enough for listeners to open, if they did not wait.
        thread::park_timeout(std::time::Duration::from_millis(300));
        ok(&document)
    });
    let yaml = format!(
        "provider: http_sd, http: {{endpoint: 'http://{}', interval: 1h}}",
        source.address()
    );
    let ringway = Setup::new(sections(&yaml, "query: {}, startup_policy: fail")).start();
    stays(&ringway, &["a"]);
    ringway.stop();
}

#[test]
fn a_start_that_may_retry_serves_what_it_has() {
    let (gone, fixed) = (Port::claim(), named("fixed"));
    let yaml = nowhere(&gone, "retry").replace("mechanism: rr,", "mechanism: rr, pool: [fixed],");
    let yaml = format!(
        "{yaml}  fixed: {{provider: reverseproxy, origin_url: 'http://{}'}}\n",
        fixed.address()
    );
    let ringway = Setup::new(yaml).start();
    stays(&ringway, &["fixed"]);
    fails(&ringway, 2);
    stays(&ringway, &["fixed"]);
    ringway.stop();
}

// === reloads ===

/// Asks one request after the other until told to stop; the number of answers, or what went wrong.
pub(crate) fn load(
    ringway: &Ringway,
    stop: &Arc<AtomicBool>,
) -> thread::JoinHandle<Result<usize, String>> {
    let (address, stop) = (ringway.address(), Arc::clone(stop));
    thread::spawn(move || {
        let mut answers = 0;
        let mut kept: Option<Client> = None;
        while !stop.load(Ordering::SeqCst) {
            let fault = |error| format!("request {answers}: {error}");
            let mut client = match kept.take() {
                Some(client) => client,
                None => Client::try_connect(address).map_err(fault)?,
            };
            client
                .try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .map_err(fault)?;
            let answer = client.try_answer_to("GET").map_err(fault)?;
            if answer.status != 200 {
                return Err(format!("request {answers}: status {}", answer.status));
            }
            answers += 1;
            if answer.header("connection") != Some("close") {
                kept = Some(client);
            }
        }
        Ok(answers)
    })
}

#[test]
fn a_pool_is_never_empty_for_a_reload() {
    let [a, b] = all_named(["a", "b"]);
    let ringway = start(&[&a, &b], "", "");
    let text = std::fs::read_to_string(ringway.config_path()).expect("it was written");
    let stop = Arc::new(AtomicBool::new(false));
    let loads = [load(&ringway, &stop), load(&ringway, &stop)];
    for round in 0..10 {
        let next = text.replace(
            "is_template: true,",
            &format!("is_template: true, timeout: {}s,", 60 + round),
        );
        std::fs::write(ringway.config_path(), next).expect("the folder is ours");
        reload(&ringway);
    }
    stop.store(true, Ordering::SeqCst);
    for load in loads {
        let answers = load.join().expect("no panic").expect("no request is lost");
        assert!(answers > 0);
    }
    stays(&ringway, &["a", "b"]);
    ringway.stop();
}

#[test]
fn with_another_query_the_old_pool_serves_until_it_is_answered() {
    let [a, b] = all_named(["a", "b"]);
    let (old, new) = (list(&[a.address()]), list(&[b.address()]));
    let gate = Gate::new();
    let wait = gate.clone();
    let source = Origin::answering(move |request: &Request| match &*request.target {
        "/old" => ok(&old),
        _ => {
            wait.pass();
            ok(&new)
        }
    });
    let yaml = |path: &str| {
        let own = format!(
            "provider: http_sd, http: {{endpoint: 'http://{}', interval: 1h}}",
            source.address()
        );
        sections(&own, &format!("query: {{path: {path}}}, max_shrink: 10"))
    };
    let ringway = Setup::new(yaml("/old")).start();
    becomes(&ringway, &["a"]);
    ringway.write_config(&yaml("/new"));
    reload(&ringway);
    source.next_request();
    assert_eq!(source.next_request().target, "/new");
    stays(&ringway, &["a"]);
    assert_eq!(picks(&ringway, 30), vec!["a"; 30]);
    gate.open();
    becomes(&ringway, &["b"]);
    ringway.stop();
}

#[test]
fn a_reload_without_discovery_ends_it() {
    let [a, fixed] = all_named(["a", "fixed"]);
    let ringway = start(&[&a], "", "");
    stays(&ringway, &["a"]);
    ringway.write_config(&format!(
        "mgmt: {{reload_rate_limit: 0}}\nbackends:\n  fixed: {{provider: reverseproxy, is_default: true, origin_url: 'http://{}'}}\n",
        fixed.address()
    ));
    reload(&ringway);
    becomes(&ringway, &["fixed"]);
    assert_eq!(ringway.metric("trickster_alb_discovery_members", &[]), None);
    assert_eq!(
        ringway.metric("trickster_discovery_refresh_errors_total", &[]),
        None
    );
    assert!(row(&ringway, "lb-127.0.0.1").is_none());
    ringway.stop();
}

#[test]
fn a_refused_reload_leaves_discovery_as_it_is() {
    let [a, b] = all_named(["a", "b"]);
    let ringway = start(&[&a], "", "");
    let good = std::fs::read_to_string(ringway.config_path()).expect("it was written");
    std::fs::write(
        ringway.config_path(),
        good.replace("query: {path", "query: {srv_name"),
    )
    .expect("the folder is ours");
    ringway.signal(rustix::process::Signal::HUP);
    eventually("it is refused", || {
        let refused = ringway.metric("trickster_config_reload_failures_total", &[]);
        (refused == Some(1.0)).then_some(())
    });
    stays(&ringway, &["a"]);
    write(&ringway, &list(&[b.address()]));
    becomes(&ringway, &["b"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}
