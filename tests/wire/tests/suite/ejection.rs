//! Members whose connections fail are left out of their pool for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringway_wire::{Client, Origin, Port, Ringway, Setup, eventually, ok};
use rustix::process::Signal;
use serde_json::Value;

use crate::fan_out::{self, silent};

/// An origin that answers with its name, or ends connections, as it is told; but for `/well`, which it always
/// answers.
struct Moody {
    origin: Origin,
    fails: Arc<AtomicBool>,
}

impl Moody {
    fn new(name: &'static str) -> Self {
        let fails = Arc::new(AtomicBool::new(false));
        let flag = fails.clone();
        let origin = Origin::start(move |conn| {
            while let Some(request) = conn.request() {
                if flag.load(Ordering::SeqCst) && request.target != "/well" {
                    conn.reset_at_end();
                    return;
                }
                conn.send(ok(name));
            }
        });
        Self { origin, fails }
    }

    fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }
}

/// A pool of these, with this `ejection` and further keys of each member.
fn yaml(members: &[(&str, std::net::SocketAddr)], ejection: &str, keys: &str) -> String {
    let mut yaml = "mgmt: {reload_rate_limit: 0}\nbackends:\n".to_owned();
    for (name, address) in members {
        yaml.push_str(&format!(
            "  {name}: {{provider: rp, origin_url: 'http://{address}'{keys}}}\n"
        ));
    }
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    yaml.push_str(&format!(
        "  lb: {{provider: alb, is_default: true, alb: {{mechanism: rr, pool: [{}]{ejection}}}}}\n",
        names.join(", ")
    ));
    yaml
}

const LONG: &str = ", ejection: {consecutive_failures: 3, time: 1h}";

fn ejected(ringway: &Ringway, member: &str) -> Option<f64> {
    let labels = [("alb_name", "lb"), ("member", member)];
    ringway.metric("ringway_alb_member_ejected", &labels)
}

fn ejections(ringway: &Ringway, member: &str) -> Option<f64> {
    let labels = [("alb_name", "lb"), ("member", member)];
    ringway.metric("trickster_alb_member_ejections_total", &labels)
}

/// Sends requests until the member is left out.
#[track_caller]
fn ask_until_ejected(ringway: &Ringway, member: &str) {
    eventually(&format!("{member} is ejected"), || {
        for _ in 0..8 {
            ringway.get("/");
        }
        (ejected(ringway, member) == Some(1.0)).then_some(())
    });
}

/// Who answers, over enough requests that every live member has its turn.
fn who(ringway: &Ringway) -> Vec<String> {
    let mut names: Vec<String> = (0..12).map(|_| ringway.get("/").text()).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_member_that_refuses_connections_is_left_out_and_shown_so() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    let gone = Port::claim();
    let members = [
        ("a", a.origin.address()),
        ("b", b.origin.address()),
        ("gone", gone.address()),
    ];
    let ringway = Setup::new(yaml(&members, LONG, "")).start();
    assert_eq!(ejected(&ringway, "gone"), Some(0.0), "its row is there");
    ask_until_ejected(&ringway, "gone");
    assert_eq!(ejections(&ringway, "gone"), Some(1.0));
    assert_eq!(ejected(&ringway, "a"), Some(0.0));
    let live = ringway.metric("ringway_alb_live_members", &[("backend_name", "lb")]);
    assert_eq!(live, Some(2.0));
    let failovers = || {
        ringway.metric(
            "ringway_member_dial_failures_total",
            &[("backend_name", "gone")],
        )
    };
    eventually("no shard tries it any more", || {
        let before = failovers();
        let names = who(&ringway);
        (names == ["a", "b"] && failovers() == before).then_some(())
    });
    let page = Client::connect(ringway.metrics_address()).get("/trickster/health");
    assert!(page.text().contains(" e:[gone]"), "{}", page.text());
    let page = Client::connect(ringway.metrics_address()).get("/trickster/health?json");
    let page: Value = serde_json::from_slice(&page.body).expect("it is JSON");
    assert_eq!(page["available"][0]["ejectedPoolMembers"][0], "gone");
    let log = ringway.log();
    assert!(
        log.contains("member ejected") && log.contains("member=gone"),
        "{log}"
    );
    ringway.stop();
}

#[test]
fn nobody_is_left_out_unless_the_pool_says_so() {
    let a = Moody::new("a");
    let gone = Port::claim();
    let members = [("a", a.origin.address()), ("gone", gone.address())];
    let ringway = Setup::new(yaml(&members, "", "")).start();
    for _ in 0..40 {
        assert_eq!(ringway.get("/").text(), "a", "another member is tried");
    }
    let live = ringway.metric("ringway_alb_live_members", &[("backend_name", "lb")]);
    assert_eq!(live, Some(2.0));
    assert_eq!(ejected(&ringway, "gone"), None);
    ringway.stop();
}

#[test]
fn answers_of_any_status_are_no_failures() {
    let a = Moody::new("a");
    let ill = Origin::answering(|_| {
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec()
    });
    let members = [("a", a.origin.address()), ("ill", ill.address())];
    let ringway = Setup::new(yaml(&members, LONG, "")).start();
    for _ in 0..40 {
        ringway.get("/");
    }
    assert!(ill.requests().len() >= 20);
    assert_eq!(ejected(&ringway, "ill"), Some(0.0));
    ringway.stop();
}

#[test]
fn an_answer_between_failures_starts_the_count_anew() {
    let a = Moody::new("a");
    // Two failures, an answer, and so on: never three in a row.
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let flaky = Origin::start(move |conn| {
        while conn.request().is_some() {
            if turn.fetch_add(1, Ordering::SeqCst) % 3 < 2 {
                conn.reset_at_end();
                return;
            }
            conn.send(ok("flaky"));
        }
    });
    let members = [("a", a.origin.address()), ("flaky", flaky.address())];
    let ringway = Setup::new(yaml(&members, LONG, "")).shards(1).start();
    let count = || {
        let labels = [("backend_name", "flaky")];
        ringway.metric("trickster_proxy_requests_total", &labels)
    };
    eventually("it has failed many times", || {
        // POST is never sent twice, so that each of these is one exchange at most.
        let mut client = ringway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        client.answer_to("POST");
        count().filter(|count| *count >= 30.0)
    });
    assert_eq!(ejected(&ringway, "flaky"), Some(0.0));
    ringway.stop();
}

#[test]
fn broken_connections_and_silence_count_as_failures() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    let silent = Origin::start(|conn| while conn.request().is_some() {});
    let members = [
        ("a", a.origin.address()),
        ("b", b.origin.address()),
        ("silent", silent.address()),
    ];
    let ringway = Setup::new(yaml(&members, LONG, ", timeout: 100ms")).start();
    ask_until_ejected(&ringway, "silent");
    ringway.stop();

    a.fail(true);
    let ringway = Setup::new(yaml(&members[..2], LONG, "")).start();
    ask_until_ejected(&ringway, "a");
    eventually("all shards leave it out", || {
        (who(&ringway) == ["b"]).then_some(())
    });
    ringway.stop();
}

#[test]
fn members_of_a_fan_out_that_are_late_for_its_deadline_count_and_cancelled_ones_do_not() {
    let (quick, late, slow) = (
        Origin::answering(|_| ok("quick")),
        silent(),
        Origin::start(|conn| {
            if conn.request().is_some() {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1");
                conn.until_closed();
            }
        }),
    );
    let origins = [("quick", &quick), ("late", &late), ("slow", &slow)];
    let backends: String = origins
        .iter()
        .map(|(name, origin)| fan_out::backend(name, origin.address()))
        .collect();
    let ejection = "ejection: {consecutive_failures: 2, time: 1h}";
    let nested = fan_out::alb("turns", "rr", &["pool: [late]"]);
    for (mechanism, pool, lines) in [
        ("nlm", "pool: [quick, slow, late]", ""),
        (
            "fgr",
            "pool: [slow, quick, late]",
            "fgr: {status_codes: [299]}",
        ),
        // Behind a turn it is still who was asked.
        ("fr", "pool: [turns, late]", ""),
    ] {
        let lines = [pool, ejection, "timeout: 200ms", lines];
        let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        let lb = fan_out::alb("lb", mechanism, &lines);
        let yaml = format!("backends:\n{backends}{nested}{lb}    is_default: true\n");
        let ringway = Setup::new(yaml).start();
        eventually(&format!("{mechanism}: the late one is ejected"), || {
            ringway.get("/");
            (ejected(&ringway, "late") == Some(1.0)).then_some(())
        });
        if mechanism != "fr" {
            assert_eq!(
                ejected(&ringway, "slow"),
                Some(0.0),
                "{mechanism}: it has begun"
            );
            assert_eq!(ejected(&ringway, "quick"), Some(0.0), "{mechanism}");
        }
        ringway.stop();
    }
    // Whoever only loses, or is left by the client, has not failed.
    let lb = fan_out::alb("lb", "fr", &["pool: [late, quick]", ejection]);
    let ringway = Setup::new(format!("backends:\n{backends}{lb}    is_default: true\n")).start();
    for _ in 0..8 {
        assert_eq!(ringway.get("/").text(), "quick");
    }
    assert_eq!(ejections(&ringway, "late"), Some(0.0));
    ringway.stop();
}

#[test]
fn the_time_ends_and_the_member_is_back() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    a.fail(true);
    let members = [("a", a.origin.address()), ("b", b.origin.address())];
    let short = ", ejection: {consecutive_failures: 3, time: 1s}";
    let ringway = Setup::new(yaml(&members, short, "")).start();
    ask_until_ejected(&ringway, "a");
    a.fail(false);
    eventually("it answers again", || {
        (who(&ringway) == ["a", "b"]).then_some(())
    });
    assert_eq!(ejected(&ringway, "a"), Some(0.0));
    assert_eq!(ejections(&ringway, "a"), Some(1.0), "counted on");
    assert!(
        ringway.log().contains("its time is up"),
        "{}",
        ringway.log()
    );
    ringway.stop();
}

#[test]
fn a_passing_probe_brings_a_member_back_before_its_time() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    a.fail(true);
    let members = [("a", a.origin.address()), ("b", b.origin.address())];
    let keys = ", healthcheck: {interval: 50ms, timeout: 2s, path: /well}";
    let ringway = Setup::new(yaml(&members, LONG, keys)).start();
    eventually("it was ejected and is back", || {
        for _ in 0..8 {
            ringway.get("/");
        }
        let log = ringway.log();
        (log.contains("member ejected") && log.contains("a probe passed")).then_some(())
    });
    a.fail(false);
    eventually("it answers", || (who(&ringway) == ["a", "b"]).then_some(()));
    ringway.stop();
}

#[test]
fn the_larger_half_of_a_pool_is_never_left_out() {
    let moody = [Moody::new("a"), Moody::new("b"), Moody::new("c")];
    moody.iter().for_each(|moody| moody.fail(true));
    let members = [
        ("a", moody[0].origin.address()),
        ("b", moody[1].origin.address()),
        ("c", moody[2].origin.address()),
    ];
    for (count, most) in [(1, 0.0), (2, 1.0), (3, 1.0)] {
        let ringway = Setup::new(yaml(&members[..count], LONG, "")).start();
        let failed = || ringway.metric("trickster_proxy_requests_total", &[("http_status", "")]);
        eventually("everybody has failed often", || {
            ringway.get("/");
            failed().filter(|failed| *failed >= 40.0)
        });
        let out = || ringway.metric("ringway_alb_member_ejected", &[("alb_name", "lb")]);
        eventually("as many are out as may be", || {
            ringway.get("/");
            (out() == Some(most)).then_some(())
        });
        for _ in 0..20 {
            ringway.get("/");
        }
        assert_eq!(out(), Some(most), "of {count}");
        let live = ringway.metric("ringway_alb_live_members", &[("backend_name", "lb")]);
        assert_eq!(live, Some(count as f64 - most), "of {count}");
        ringway.stop();
    }
}

#[test]
fn a_reload_keeps_who_is_left_out() {
    let (a, b) = (Moody::new("a"), Moody::new("b"));
    a.fail(true);
    let members = [("a", a.origin.address()), ("b", b.origin.address())];
    let ringway = Setup::new(yaml(&members, LONG, "")).start();
    ask_until_ejected(&ringway, "a");
    a.fail(false);
    ringway.write_config(&yaml(&members, LONG, ", timeout: 59s"));
    ringway.signal(Signal::HUP);
    eventually("the new configuration is in force", || {
        (ringway.metric("ringway_plan_generation", &[])? == 2.0).then_some(())
    });
    assert_eq!(ejected(&ringway, "a"), Some(1.0));
    assert_eq!(ejections(&ringway, "a"), Some(1.0));
    eventually("only the other is asked", || {
        (who(&ringway) == ["b"]).then_some(())
    });
    ringway.write_config(&yaml(&members, "", ""));
    ringway.signal(Signal::HUP);
    eventually("without the key it is back", || {
        (who(&ringway) == ["a", "b"]).then_some(())
    });
    ringway.stop();
}
