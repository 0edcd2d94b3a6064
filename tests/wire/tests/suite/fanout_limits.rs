//! Memory of fan-outs over many members, and the merge as one of their members. Contract: ALB page, 5 and 7.

use ringway_wire::{Gate, Origin, Ringway, Setup, eventually};

use crate::fan_out::{alb, answer, pool, pour, silent};

const MEMBERS: usize = 28;
const MIB: u64 = 1 << 20;
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Resident memory once the process serves, and is warm.
#[track_caller]
fn resident_kib(ringway: &Ringway) -> u64 {
    assert_eq!(ringway.get("/trickster/ping").status, 200);
    ringway.resident_kib().0
}

#[track_caller]
fn assert_grew_less(ringway: &Ringway, before: u64, mib: u64) {
    let (_, peak) = ringway.resident_kib();
    assert!(
        peak < before + mib * 1024,
        "memory grew from {before} to {peak} KiB"
    );
}

#[test]
fn a_large_winner_of_many_takes_no_memory_of_its_size() {
    const BYTES: u64 = 64 * MIB;
    let origins: Vec<_> = (0..MEMBERS)
        .map(|_| {
            Origin::start(|conn| {
                while conn.request().is_some() {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
                    if !pour(conn, &head, BYTES) {
                        return;
                    }
                }
            })
        })
        .collect();
    let all: Vec<_> = origins.iter().collect();
    let ringway = pool("fr", &all, &["max_capture_bytes: 1048576"]).start();
    let before = resident_kib(&ringway);
    let mut client = ringway.client();
    client.send(GET);
    assert_eq!(client.head().0, 200);
    client.skip(BYTES);
    assert_grew_less(&ringway, before, 32);
    ringway.stop();
}

/// One good member that waits for the gate, one that never ends, and the others pouring without end.
fn mixed(gate: &Gate) -> Vec<Origin> {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    let wait = gate.clone();
    let good = Origin::start(move |conn| {
        if conn.request().is_some() {
            wait.pass();
            conn.send(answer(200, "", "good"));
        }
    });
    let endless = Origin::start(|conn| {
        if conn.request().is_some() {
            pour(conn, HEAD, MIB / 2);
            conn.until_closed();
        }
    });
    let oversize = || {
        Origin::start(|conn| {
            if conn.request().is_some() && !pour(conn, HEAD, u64::MAX) {
                conn.until_closed();
            }
        })
    };
    let mut origins = vec![endless, good];
    origins.extend((2..MEMBERS).map(|_| oversize()));
    origins
}

/// Runs the mixed pool; the members that pour must be cut off before the good one answers.
#[track_caller]
fn cut_off(mechanism: &str, lines: &[&str], reason: &str, grows_mib: u64) {
    let gate = Gate::new();
    let origins = mixed(&gate);
    let all: Vec<_> = origins.iter().collect();
    let mut lines = lines.to_vec();
    lines.push("timeout: 10s");
    let ringway = pool(mechanism, &all, &lines).start();
    let before = resident_kib(&ringway);
    let mut client = ringway.client();
    client.send(GET);
    for origin in &origins[2..] {
        origin.next_close();
    }
    let lost = eventually("they are counted", || {
        ringway.metric(
            "trickster_alb_fanout_failures_total",
            &[("mechanism", mechanism), ("reason", reason)],
        )
    });
    assert!(lost >= 1.0, "{reason}: {lost}");
    gate.open();
    assert_eq!(client.answer().text(), "good");
    origins[0].next_close();
    assert_grew_less(&ringway, before, grows_mib);
    ringway.stop();
}

#[test]
fn members_over_their_cap_are_cut_off_and_memory_stays_within_the_caps() {
    // 28 members of 1 MiB, and what is being read of each.
    cut_off("fgr", &["max_capture_bytes: 1048576"], "truncated", 48);
}

#[test]
fn the_budget_of_the_fan_out_bounds_all_members_together() {
    // 4 MiB, and what is being read of each.
    let lines = [
        "max_capture_bytes: 1048576",
        "max_fanout_capture_bytes: 4194304",
    ];
    let gate = Gate::new();
    let origins = mixed(&gate);
    let all: Vec<_> = origins[2..].iter().collect();
    let ringway = pool("nlm", &all, &lines).start();
    let before = resident_kib(&ringway);
    assert_eq!(ringway.get("/").status, 502);
    all.iter().for_each(|origin| {
        origin.next_close();
    });
    let lost = |reason| {
        ringway.metric(
            "trickster_alb_fanout_failures_total",
            &[("mechanism", "nlm"), ("reason", reason)],
        )
    };
    // What one gives back as it fails, another may use: some come to their own cap.
    let (over_all, over_own) = (lost("aggregate_cap"), lost("truncated"));
    assert!(over_all >= Some(1.0), "{over_all:?}");
    let all_lost = over_all.unwrap_or_default() + over_own.unwrap_or_default();
    assert_eq!(all_lost, all.len() as f64);
    assert_grew_less(&ringway, before, 24);
    ringway.stop();
}

#[test]
fn a_member_that_breaks_the_budget_fails_alone() {
    for head in ["Content-Length: 8388608", "Connection: close"] {
        let gate = Gate::new();
        let large = Origin::start(move |conn| {
            if conn.request().is_some() {
                pour(conn, &format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n"), 8 * MIB);
                conn.until_closed();
            }
        });
        let wait = gate.clone();
        let small = Origin::start(move |conn| {
            if conn.request().is_some() {
                wait.pass();
                conn.send(answer(200, "", "small"));
            }
        });
        let lines = ["max_fanout_capture_bytes: 4194304", "timeout: 10s"];
        let ringway = pool("nlm", &[&large, &small], &lines).start();
        let mut client = ringway.client();
        client.send(GET);
        large.next_close();
        gate.open();
        assert_eq!(client.answer().text(), "small", "{head}");
        ringway.stop();
    }
}

#[test]
fn a_merge_is_a_member_like_any_other_and_takes_others_as_members() {
    let body = r#"{"status":"success","data":["a","b"]}"#;
    let server =
        Origin::answering(move |_| answer(200, "Content-Type: application/json\r\n", body));
    let (slow, other) = (silent(), Origin::answering(|_| answer(500, "", "no")));
    let prometheus = |name: &str, origin: &Origin| {
        let address = origin.address();
        format!("  {name}:\n    provider: prometheus\n    origin_url: http://{address}\n")
    };
    let backends = [
        prometheus("a", &server),
        prometheus("b", &server),
        prometheus("slow", &slow),
        prometheus("other", &other),
        alb("merge", "tsm", &["pool: [a, b]"]),
        alb("race", "fr", &["pool: [slow, a]"]),
        alb("good", "fgr", &["pool: [other, a]"]),
    ]
    .concat();
    for (mechanism, members) in [
        ("fr", "slow, merge"),
        ("fgr", "other, merge"),
        ("nlm", "other, merge"),
        ("tsm", "race, b"),
        ("tsm", "good, b"),
        ("tsm", "merge, race"),
    ] {
        let all = alb("all", mechanism, &[&format!("pool: [{members}]")]);
        let setup = Setup::new(format!("backends:\n{backends}{all}    is_default: true\n"));
        let ringway = setup.start();
        let mut client = ringway.client();
        for request in [
            "GET /api/v1/labels?start=1 HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST /api/v1/labels HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: 7\r\n\r\nstart=1",
        ] {
            let answer = client.send(request).answer();
            assert_eq!(answer.status, 200, "{mechanism}: {members}");
            assert_eq!(answer.text(), body, "{mechanism}: {members}");
            assert_eq!(
                answer.header("x-trickster-result"),
                Some("engine=HTTPProxy; status=proxy-only")
            );
        }
        let head = client
            .send("HEAD /api/v1/labels HTTP/1.1\r\nHost: a\r\n\r\n")
            .answer_to("HEAD");
        assert_eq!(
            head.header("content-length"),
            Some(body.len().to_string().as_str()),
            "{mechanism}: {members}"
        );
        // What is not merged goes to the merge's first live member.
        let other = client.get("/api/v1/status/walreplay");
        assert_eq!(other.text(), body, "{mechanism}: {members}");
        ringway.stop();
    }
}
