//! Mechanism `rr`: exact turns over all shards, weights, floors, nesting, and nobody left.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use ringway_wire::{Client, Origin, Ringway, Setup, eventually, ok};

/// An origin that answers its own name, and 500 to probes while it is told to fail.
struct Member {
    name: &'static str,
    origin: Origin,
    failing: Arc<AtomicBool>,
}

impl Member {
    fn new(name: &'static str) -> Self {
        let failing = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&failing);
        let origin = Origin::answering(move |request| {
            if request.target == "/probe" && fails.load(Ordering::SeqCst) {
                b"HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n".to_vec()
            } else {
                ok(name)
            }
        });
        Self {
            name,
            origin,
            failing,
        }
    }

    fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// As a backend; `probe` holds further lines of `healthcheck`, none for no probes.
    fn yaml(&self, probe: &[&str]) -> String {
        let mut yaml = format!(
            "  {}:\n    provider: reverseproxy\n    origin_url: http://{}\n",
            self.name,
            self.origin.address()
        );
        if !probe.is_empty() {
            yaml.push_str("    healthcheck:\n      path: /probe\n");
        }
        for line in probe {
            yaml.push_str(&format!("      {line}\n"));
        }
        yaml
    }
}

const QUICK: &[&str] = &[
    "interval: 100ms",
    "timeout: 1s",
    "failure_threshold: 1",
    "recovery_threshold: 1",
];
/// Probes that begin at once and never come to a verdict within a test.
const UNDECIDED: &[&str] = &[
    "interval: 1h",
    "failure_threshold: 9",
    "recovery_threshold: 9",
];

fn members(names: &[&'static str]) -> Vec<Member> {
    names.iter().map(|name| Member::new(name)).collect()
}

/// The default backend: an ALB with further lines under `alb`.
fn alb(name: &str, default: bool, lines: &[&str]) -> String {
    let mut yaml = format!("  {name}:\n    provider: alb\n");
    if default {
        yaml.push_str("    is_default: true\n");
    }
    yaml.push_str("    alb:\n      mechanism: rr\n");
    for line in lines {
        yaml.push_str(&format!("      {line}\n"));
    }
    yaml
}

fn start(members: &[Member], probe: &[&str], lines: &[&str]) -> Ringway {
    let backends: String = members.iter().map(|member| member.yaml(probe)).collect();
    Setup::new(format!("backends:\n{backends}{}", alb("pool", true, lines))).start()
}

/// One request on a connection of its own, so that any shard may get it.
#[track_caller]
fn pick(ringway: &Ringway) -> String {
    let answer = ringway.get("/");
    assert_eq!(answer.status, 200);
    answer.text()
}

fn count<'a>(picks: impl IntoIterator<Item = &'a String>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for pick in picks {
        *counts.entry(pick.as_str()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn equal_members_take_exact_turns_over_all_shards() {
    let members = members(&["a", "b", "c"]);
    let ringway = start(&members, &[], &["pool: [a, b, c]"]);
    let picks: Vec<_> = (0..60).map(|_| pick(&ringway)).collect();
    for window in picks.chunks(3) {
        assert_eq!(
            count(window),
            BTreeMap::from([("a", 1), ("b", 1), ("c", 1)])
        );
    }
    ringway.stop();
}

const WEIGHTED: &str = "pool: [{name: a, weight: 1}, {name: b, weight: 2}, {name: c, weight: 3}]";

#[test]
fn weighted_members_get_exactly_their_weight_in_every_window_and_no_bursts() {
    let members = members(&["a", "b", "c"]);
    let ringway = start(&members, &[], &[WEIGHTED]);
    let picks: Vec<_> = (0..120).map(|_| pick(&ringway)).collect();
    // Any six consecutive requests, not only aligned ones.
    for window in picks.windows(6) {
        assert_eq!(
            count(window),
            BTreeMap::from([("a", 1), ("b", 2), ("c", 3)]),
            "{window:?}"
        );
    }
    for window in picks.windows(3) {
        assert!(window.iter().any(|pick| pick != "c"), "a burst: {window:?}");
    }
    ringway.stop();
}

#[test]
fn weights_are_exact_among_concurrent_clients_on_all_shards() {
    let members = members(&["a", "b", "c"]);
    let ringway = start(&members, &[], &[WEIGHTED]);
    let (sender, picks) = mpsc::channel();
    let shared = &ringway;
    thread::scope(|scope| {
        for _ in 0..16 {
            let sender = sender.clone();
            scope.spawn(move || {
                let mut client = shared.client();
                for _ in 0..75 {
                    sender
                        .send(client.get("/").text())
                        .expect("the test listens");
                }
            });
        }
    });
    drop(sender);
    let picks: Vec<_> = picks.iter().collect();
    assert_eq!(
        count(&picks),
        BTreeMap::from([("a", 200), ("b", 400), ("c", 600)])
    );
    ringway.stop();
}

#[test]
fn a_name_that_is_repeated_counts_once_for_each_time() {
    let members = members(&["a", "b"]);
    for (pool, a, b) in [
        ("pool: [a, a, b]", 2, 1),
        ("pool: [a, b, a, a]", 3, 1),
        ("pool: [{name: a, weight: 2}, a, {name: b}]", 3, 1),
        ("pool: [{name: a, weight: 0}, {name: b, weight: 1}]", 1, 1),
    ] {
        let ringway = start(&members, &[], &[pool]);
        let picks: Vec<_> = (0..(a + b) * 5).map(|_| pick(&ringway)).collect();
        for window in picks.chunks(a + b) {
            assert_eq!(
                count(window),
                BTreeMap::from([("a", a), ("b", b)]),
                "{pool}"
            );
        }
        ringway.stop();
    }
}

#[test]
fn a_members_answer_is_the_answer_whatever_its_status() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 503 Busy\r\nX-Own: 1\r\nContent-Length: 4\r\n\r\nbusy".to_vec()
    });
    let ringway = Setup::new(format!(
        "backends:\n  a:\n    provider: reverseproxy\n    origin_url: http://{}\n{}",
        origin.address(),
        alb("pool", true, &["pool: [a]"])
    ))
    .start();
    let answer = ringway.get("/x?y");
    assert_eq!(
        (
            answer.status,
            answer.text().as_str(),
            answer.header("x-own")
        ),
        (503, "busy", Some("1"))
    );
    assert_eq!(origin.next_request().target, "/x?y");
    ringway.stop();
}

/// Waits until the health page says this of a member.
#[track_caller]
fn await_state(ringway: &Ringway, member: &str, list: &str) {
    eventually(&format!("{member} is {list}"), || {
        let page = Client::connect(ringway.metrics_address()).get("/trickster/health?json");
        let page: serde_json::Value = serde_json::from_slice(&page.body).ok()?;
        let found = page[list]
            .as_array()?
            .iter()
            .any(|entry| entry["name"] == member);
        found.then_some(())
    });
}

#[test]
fn unprobed_and_undecided_members_are_admitted_at_the_default_floor() {
    let members = members(&["a", "b"]);
    for probe in [&[][..], UNDECIDED] {
        let ringway = start(&members, probe, &["pool: [a, b]"]);
        let picks: Vec<_> = (0..10).map(|_| pick(&ringway)).collect();
        assert_eq!(count(&picks), BTreeMap::from([("a", 5), ("b", 5)]));
        ringway.stop();
    }
}

#[test]
fn a_failing_member_leaves_the_pool_and_comes_back_after_recovery() {
    let members = members(&["a", "b"]);
    let ringway = start(&members, QUICK, &["pool: [a, b]"]);
    await_state(&ringway, "b", "available");
    members[1].fail(true);
    await_state(&ringway, "b", "unavailable");
    // The page and the pools are told by the same publication, but by another message.
    eventually("only a is chosen", || {
        (0..4).all(|_| pick(&ringway) == "a").then_some(())
    });
    let picks: Vec<_> = (0..10).map(|_| pick(&ringway)).collect();
    assert_eq!(count(&picks), BTreeMap::from([("a", 10)]));
    members[1].fail(false);
    await_state(&ringway, "b", "available");
    eventually("b is chosen again", || {
        (pick(&ringway) == "b").then_some(())
    });
    let picks: Vec<_> = (0..10).map(|_| pick(&ringway)).collect();
    assert_eq!(count(&picks), BTreeMap::from([("a", 5), ("b", 5)]));
    ringway.stop();
}

#[test]
fn with_no_live_member_the_answer_is_502_without_a_body() {
    let members = members(&["a", "b"]);
    members[0].fail(true);
    members[1].fail(true);
    let ringway = start(&members, QUICK, &["pool: [a, b]"]);
    eventually("nobody is live", || {
        (ringway.get("/").status == 502).then_some(())
    });
    let mut client = ringway.client();
    let answer = client.get("/");
    assert_eq!((answer.status, answer.body.as_slice()), (502, &b""[..]));
    members[0].fail(false);
    eventually("a serves again, on the same connection", || {
        (client.get("/").status == 200).then_some(())
    });
    ringway.stop();
}

#[test]
fn floor_1_admits_only_members_that_proved_themselves() {
    let pair = members(&["a", "b"]);
    let ringway = start(&pair, UNDECIDED, &["pool: [a, b]", "healthy_floor: 1"]);
    assert_eq!(ringway.get("/").status, 502);
    ringway.stop();

    let pair = members(&["a", "b"]);
    pair[1].fail(true);
    let ringway = start(&pair, QUICK, &["pool: [a, b]", "healthy_floor: 1"]);
    eventually("a proves itself", || {
        (ringway.get("/").status == 200).then_some(())
    });
    let picks: Vec<_> = (0..10).map(|_| pick(&ringway)).collect();
    assert_eq!(count(&picks), BTreeMap::from([("a", 10)]));
    assert_eq!(
        ringway.metric(
            "trickster_alb_pool_floor_reset",
            &[("backend_name", "pool")]
        ),
        Some(0.0)
    );
    ringway.stop();
}

#[test]
fn floor_1_is_reset_to_0_where_a_member_is_never_probed() {
    let pair = members(&["a", "b"]);
    let backends = format!("{}{}", pair[0].yaml(UNDECIDED), pair[1].yaml(&[]));
    let pool = alb("pool", true, &["pool: [a, b]", "healthy_floor: 1"]);
    let ringway = Setup::new(format!("backends:\n{backends}{pool}")).start();
    let picks: Vec<_> = (0..10).map(|_| pick(&ringway)).collect();
    assert_eq!(count(&picks), BTreeMap::from([("a", 5), ("b", 5)]));
    assert_eq!(
        ringway.metric(
            "trickster_alb_pool_floor_reset",
            &[("backend_name", "pool")]
        ),
        Some(1.0)
    );
    let log = ringway.log();
    assert!(
        log.contains("pool") && log.contains('b'),
        "the log names both: {log}"
    );
    ringway.stop();
}

#[test]
fn floor_minus_1_admits_failing_members() {
    let members = members(&["a", "b"]);
    members[1].fail(true);
    let ringway = start(&members, QUICK, &["pool: [a, b]", "healthy_floor: -1"]);
    await_state(&ringway, "b", "unavailable");
    let picks: Vec<_> = (0..10).map(|_| pick(&ringway)).collect();
    assert_eq!(count(&picks), BTreeMap::from([("a", 5), ("b", 5)]));
    let gauge = ringway.metric(
        "trickster_alb_pool_admits_failing",
        &[("backend_name", "pool")],
    );
    assert_eq!(gauge, Some(1.0));
    ringway.stop();
}

#[test]
fn a_pool_inside_a_pool_takes_its_own_turns() {
    let members = members(&["a", "b", "c"]);
    let backends: String = members.iter().map(|member| member.yaml(&[])).collect();
    let inner = alb("inner", false, &["pool: [a, b]"]);
    let outer = alb("outer", true, &["pool: [inner, c]"]);
    let ringway = Setup::new(format!("backends:\n{backends}{inner}{outer}")).start();
    let picks: Vec<_> = (0..40).map(|_| pick(&ringway)).collect();
    for window in picks.chunks(4) {
        assert_eq!(
            count(window),
            BTreeMap::from([("a", 1), ("b", 1), ("c", 2)])
        );
    }
    ringway.stop();
}

#[test]
fn a_pool_inside_a_pool_is_live_only_while_one_of_its_members_is() {
    let members = members(&["a", "b", "c"]);
    members[0].fail(true);
    members[1].fail(true);
    let backends: String = members.iter().map(|member| member.yaml(QUICK)).collect();
    let inner = alb("inner", false, &["pool: [a, b]"]);
    let outer = alb("outer", true, &["pool: [inner, c]"]);
    let ringway = Setup::new(format!("backends:\n{backends}{inner}{outer}")).start();
    eventually("inner is out", || {
        let picks: Vec<_> = (0..6).map(|_| ringway.get("/").text()).collect();
        picks.iter().all(|pick| pick == "c").then_some(())
    });
    members[1].fail(false);
    eventually("inner is back", || {
        (ringway.get("/").text() == "b").then_some(())
    });
    let picks: Vec<_> = (0..10).map(|_| pick(&ringway)).collect();
    assert_eq!(count(&picks), BTreeMap::from([("b", 5), ("c", 5)]));
    ringway.stop();
}

#[test]
fn a_pool_is_reached_by_its_name_and_members_by_theirs() {
    let members = members(&["a", "b"]);
    let ringway = start(&members, &[], &["pool: [a, b]"]);
    assert_eq!(ringway.get("/a/x").text(), "a");
    assert_eq!(members[0].origin.next_request().target, "/x");
    let picks: Vec<_> = (0..2).map(|_| ringway.get("/pool/y").text()).collect();
    assert_eq!(count(&picks).len(), 2);
    assert_eq!(members[1].origin.next_request().target, "/y");
    ringway.stop();
}

#[test]
fn a_member_that_refuses_connections_costs_no_request_while_another_is_up() {
    let pair = members(&["a", "b"]);
    let gone = ringway_wire::Port::claim();
    let backends = format!(
        "{}  b:\n    provider: reverseproxy\n    origin_url: http://{}\n",
        pair[0].yaml(&[]),
        gone.address()
    );
    let ringway = Setup::new(format!(
        "backends:\n{backends}{}",
        alb("pool", true, &["pool: [a, b]"])
    ))
    .start();
    for _ in 0..10 {
        assert_eq!(pick(&ringway), "a");
    }
    ringway.stop();
}
