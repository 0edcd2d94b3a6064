//! Retries of `rr`: a request that a member failed goes to another one, but never twice to any where that could
//! do harm, and never once an answer has begun.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringway_wire::{Client, Event, Gate, Origin, Port, Ringway, Setup, eventually, ok};

/// Probes that see a change at once.
const PROBED: &str = "healthcheck: {path: /probe, interval: 100ms, timeout: 1s, failure_threshold: 1, \
                      recovery_threshold: 1}";

/// An ALB as the default backend: members with a line of further keys, and lines of the ALB's own.
fn pool(members: &[(&str, SocketAddr, &str)], lines: &[&str]) -> String {
    let mut yaml = "backends:\n".to_owned();
    let mut names = Vec::new();
    for (name, address, keys) in members {
        yaml.push_str(&format!(
            "  {name}:\n    provider: reverseproxy\n    origin_url: http://{address}\n"
        ));
        if !keys.is_empty() {
            yaml.push_str(&format!("    {keys}\n"));
        }
        names.push(*name);
    }
    yaml.push_str(&format!(
        "  pool:\n    provider: alb\n    is_default: true\n    alb:\n      mechanism: rr\n      \
         pool: [{}]\n",
        names.join(", ")
    ));
    for line in lines {
        yaml.push_str(&format!("      {line}\n"));
    }
    yaml
}

/// A pool of two on one shard. Two requests in a row meet `bad` at least once, whoever's turn is first.
fn start(bad: SocketAddr, good: &Origin, keys: &str, lines: &[&str]) -> Ringway {
    let members = [("bad", bad, keys), ("good", good.address(), "")];
    Setup::new(pool(&members, lines)).shards(1).start()
}

fn good() -> Origin {
    Origin::answering(|request| ok(&request.body))
}

/// Reads a request whole and closes without a word.
fn silent() -> Origin {
    Origin::start(|conn| {
        conn.request();
    })
}

/// Reads a request whole, answers these bytes and closes.
fn saying(bytes: &'static str) -> Origin {
    Origin::start(move |conn| {
        if conn.request().is_some() {
            conn.send(bytes);
        }
    })
}

/// Reads a request whole and never answers.
fn hanging() -> Origin {
    Origin::start(|conn| {
        if conn.request().is_some() {
            conn.until_closed();
        }
    })
}

fn request(method: &str, body: &str) -> String {
    format!(
        "{method} /it HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[track_caller]
fn ask(ringway: &Ringway, method: &str, body: &str) -> (u16, String) {
    let answer = ringway
        .client()
        .send(request(method, body))
        .answer_to(method);
    (answer.status, answer.text())
}

fn counted(ringway: &Ringway, name: &str, backend: &str) -> f64 {
    ringway
        .metric(name, &[("backend_name", backend)])
        .unwrap_or_default()
}

#[test]
fn a_member_that_cannot_be_connected_to_is_passed_over_whatever_the_method_and_the_budget() {
    let (bad, good) = (Port::claim(), good());
    let lines = ["retry: {attempts: 1, budget_percent: 0, floor_per_second: 0}"];
    let ringway = start(bad.address(), &good, "", &lines);
    for method in ["GET", "POST", "PATCH"] {
        for _ in 0..2 {
            assert_eq!(ask(&ringway, method, "abc"), (200, "abc".to_owned()));
        }
    }
    assert_eq!(good.requests().len(), 6, "each once");
    assert!(counted(&ringway, "ringway_member_failovers_total", "good") > 0.0);
    let refused = counted(&ringway, "ringway_alb_retry_budget_exhausted_total", "pool");
    assert_eq!(refused, 0.0);
    ringway.stop();
}

#[test]
fn a_request_without_retries_still_passes_over_a_member_that_cannot_be_connected_to() {
    let (bad, good) = (Port::claim(), good());
    let ringway = start(bad.address(), &good, "", &["retry: {attempts: 0}"]);
    assert_eq!(ask(&ringway, "POST", "abc").0, 200);
    assert_eq!(ask(&ringway, "POST", "abc").0, 200);
    ringway.stop();
}

#[test]
fn an_idempotent_request_that_got_no_byte_goes_to_another_member() {
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let (bad, good) = (silent(), good());
        let ringway = start(bad.address(), &good, "", &[]);
        for _ in 0..2 {
            assert_eq!(ask(&ringway, method, "abc").0, 200, "{method}");
        }
        let (bad, good) = (bad.requests(), good.requests());
        assert_eq!(good.len(), 2, "{method}");
        assert!((1..=2).contains(&bad.len()), "{method}: {}", bad.len());
        assert!(good.iter().all(|request| request.text() == "abc"));
        let retries = counted(&ringway, "ringway_member_retries_total", "bad");
        assert_eq!(retries, bad.len() as f64, "{method}");
        let retries = counted(&ringway, "trickster_proxy_upstream_retries_total", "pool");
        assert_eq!(retries, bad.len() as f64, "{method}");
        ringway.stop();
    }
}

#[test]
fn a_request_that_is_not_idempotent_is_never_seen_twice_once_it_was_sent() {
    for method in ["POST", "PATCH", "LOCK"] {
        let (bad, good) = (silent(), good());
        let ringway = start(bad.address(), &good, "", &[]);
        let mut statuses = [
            ask(&ringway, method, "abc").0,
            ask(&ringway, method, "abc").0,
        ];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 502], "{method}");
        assert_eq!(bad.requests().len(), 1, "{method}");
        assert_eq!(good.requests().len(), 1, "{method}");
        ringway.stop();
    }
}

#[test]
fn after_a_byte_of_an_answer_nobody_else_is_asked() {
    for begun in [
        "H",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
        "nonsense\r\n\r\n",
    ] {
        let (bad, good) = (saying(begun), good());
        let ringway = start(bad.address(), &good, "", &[]);
        let mut statuses = [ask(&ringway, "GET", "").0, ask(&ringway, "GET", "").0];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 502], "{begun:?}");
        assert_eq!(bad.requests().len(), 1, "{begun:?}");
        assert_eq!(good.requests().len(), 1, "{begun:?}");
        ringway.stop();
    }
}

#[test]
fn an_answer_that_breaks_off_inside_its_body_is_cut_and_nobody_else_is_asked() {
    let bad = saying("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    let good = good();
    let ringway = start(bad.address(), &good, "", &[]);
    let mut cut = 0;
    for _ in 0..2 {
        let mut client = ringway.client();
        client.send(request("GET", ""));
        cut += usize::from(client.try_answer_to("GET").is_err());
    }
    assert_eq!(cut, 1);
    assert_eq!((bad.requests().len(), good.requests().len()), (1, 1));
    ringway.stop();
}

#[test]
fn a_member_that_hangs_is_given_up_after_the_try_timeout_if_the_method_is_idempotent() {
    let (bad, good) = (hanging(), good());
    let lines = ["retry: {try_timeout: 100ms}"];
    let ringway = start(bad.address(), &good, "timeout: 1s", &lines);
    for _ in 0..2 {
        assert_eq!(ask(&ringway, "PUT", "abc"), (200, "abc".to_owned()));
    }
    let tries = bad.requests().len();
    assert!((1..=2).contains(&tries), "{tries}");
    assert_eq!(good.requests().len(), 2);
    // The tries that were given up are gone, so that the origin has nothing left to do for them.
    for _ in 0..tries {
        bad.next_close();
    }
    let mut statuses = [
        ask(&ringway, "POST", "abc").0,
        ask(&ringway, "POST", "abc").0,
    ];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 504], "only the member's own timeout counts");
    assert_eq!(bad.requests().len(), 1);
    ringway.stop();
}

#[test]
fn a_try_that_nobody_else_could_take_over_goes_on() {
    let gate = Gate::new();
    let wait = gate.clone();
    let slow = Origin::start(move |conn| {
        while conn.request().is_some() {
            wait.pass();
            conn.send(ok("late"));
        }
    });
    let members = [("slow", slow.address(), "")];
    let ringway = Setup::new(pool(&members, &["retry: {try_timeout: 50ms}"])).start();
    let mut client = ringway.client();
    client.send(request("GET", ""));
    slow.next_request();
    // The try timeout passes for certain: another request takes longer than it.
    let mut other = ringway.client();
    other.send(request("GET", ""));
    slow.next_request();
    gate.open();
    gate.open();
    assert_eq!(client.answer().text(), "late");
    assert_eq!(other.answer().text(), "late");
    assert!(slow.requests().is_empty());
    ringway.stop();
}

#[test]
fn when_the_members_timeout_passes_another_is_asked_while_the_albs_lasts() {
    let (bad, good) = (hanging(), good());
    let ringway = start(bad.address(), &good, "timeout: 200ms", &["timeout: 1m"]);
    for _ in 0..2 {
        assert_eq!(ask(&ringway, "GET", "").0, 200);
    }
    let mut statuses = [ask(&ringway, "POST", "").0, ask(&ringway, "POST", "").0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 504]);
    assert_eq!(good.requests().len(), 3);
    ringway.stop();
}

/// Sends a body in two parts and returns the status and what came back.
fn put(ringway: &Ringway, head: &str, parts: &[&[u8]]) -> (u16, Vec<u8>) {
    let mut client = ringway.client();
    client.send(format!("PUT /it HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n"));
    for part in parts {
        // A refusal may come before all is sent.
        let _ = client.try_send(part);
    }
    let answer = client.answer();
    (answer.status, answer.body)
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in body.chunks(1000) {
        bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

#[test]
fn a_body_up_to_the_bound_is_sent_again_and_a_longer_one_is_not() {
    let lines = ["retry: {max_body_bytes: 20000}"];
    for (length, expected) in [
        (19_999, [200, 200]),
        (20_000, [200, 200]),
        (20_001, [200, 502]),
    ] {
        let (bad, good) = (silent(), good());
        let ringway = start(bad.address(), &good, "", &lines);
        let body: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
        let head = format!("Content-Length: {length}");
        let mut statuses = Vec::new();
        for _ in 0..2 {
            let (status, echo) = put(&ringway, &head, &[&body[..9000], &body[9000..]]);
            assert!(status != 200 || echo == body, "{length}: another body came");
            statuses.push(status);
        }
        statuses.sort_unstable();
        assert_eq!(statuses, expected, "{length}");
        ringway.stop();
    }
}

#[test]
fn a_chunked_body_is_sent_again_within_the_bound() {
    let lines = ["retry: {max_body_bytes: 20000}"];
    for (length, expected) in [(15_000, [200, 200]), (25_000, [200, 502])] {
        let (bad, good) = (silent(), good());
        let ringway = start(bad.address(), &good, "", &lines);
        let body: Vec<u8> = (0..length).map(|at: u32| (at % 251) as u8).collect();
        let bytes = chunked(&body);
        let mut statuses = Vec::new();
        for _ in 0..2 {
            let (status, echo) = put(&ringway, "Transfer-Encoding: chunked", &[&bytes]);
            assert!(status != 200 || echo == body, "{length}: another body came");
            statuses.push(status);
        }
        statuses.sort_unstable();
        assert_eq!(statuses, expected, "{length}");
        ringway.stop();
    }
}

/// Reads the head, reports it, and as many bytes of the body; then closes without a word.
fn breaking_off(count: usize) -> Origin {
    Origin::start(move |conn| {
        let Some(_) = conn.head() else { return };
        let mut seen = 0;
        while seen < count {
            let bytes = conn.some();
            if bytes.is_empty() {
                return;
            }
            seen += bytes.len();
        }
        conn.report(Event::Heard(Vec::new()));
        conn.reset_at_end();
    })
}

#[test]
fn a_body_that_is_still_coming_goes_on_to_the_next_member_after_the_replayed_part() {
    for head in ["Content-Length: 9", "Transfer-Encoding: chunked"] {
        let (one, two) = match head.starts_with('C') {
            true => ("abc", "defghi"),
            false => ("3\r\nabc\r\n", "6\r\ndefghi\r\n0\r\n\r\n"),
        };
        let (bad, good) = (breaking_off(3), good());
        let members = [("bad", bad.address(), ""), ("good", good.address(), "")];
        let ringway = Setup::new(pool(&members, &[])).start();
        let mut broken = 0;
        for _ in 0..2 {
            let mut client = ringway.client();
            client.send(format!(
                "PUT /it HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n{one}"
            ));
            // One of the two has the request now.
            eventually("a member has the first part", || {
                let heard = bad.opened() + good.opened();
                (heard > 0).then_some(())
            });
            if bad.opened() > 0 {
                bad.next_open();
                bad.next_heard();
                broken += 1;
            }
            client.send(two);
            let answer = client.answer();
            assert_eq!(
                (answer.status, answer.text()),
                (200, "abcdefghi".to_owned()),
                "{head}"
            );
            while good.opened() > 0 {
                good.next_open();
            }
        }
        assert!(broken > 0, "{head}: the broken member had its turn");
        ringway.stop();
    }
}

#[test]
fn a_client_that_waits_to_be_told_to_send_is_told_when_its_member_breaks_off() {
    let (bad, good) = (breaking_off(0), good());
    let ringway = start(bad.address(), &good, "", &[]);
    for _ in 0..2 {
        let mut client = ringway.client();
        client.send(
            "PUT /it HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
        );
        if bad.opened() + good.opened() == 0 {
            eventually("a member is asked", || {
                (bad.opened() + good.opened() > 0).then_some(())
            });
        }
        if bad.opened() > 0 {
            bad.next_open();
            assert_eq!(client.head().0, 100);
        } else {
            good.next_open();
        }
        client.send("abc");
        let answer = client.answer();
        assert_eq!((answer.status, answer.text()), (200, "abc".to_owned()));
        while good.opened() > 0 {
            good.next_open();
        }
    }
    ringway.stop();
}

#[test]
fn nothing_is_lost_while_one_of_many_members_can_answer() {
    let refusing: Vec<_> = (0..4).map(|_| Port::claim()).collect();
    let resetting: Vec<_> = (0..4).map(|_| silent()).collect();
    let good = good();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let dead = refusing.iter().map(Port::address);
    let addresses = dead.chain(resetting.iter().map(Origin::address));
    let mut listed: Vec<_> = names
        .iter()
        .zip(addresses)
        .map(|(n, a)| (*n, a, ""))
        .collect();
    listed.push(("good", good.address(), ""));
    let budget = "retry: {budget_percent: 100, floor_per_second: 1000}";
    let ringway = Setup::new(pool(&listed, &[budget])).shards(1).start();
    for turn in 0..2 * listed.len() {
        assert_eq!(ask(&ringway, "GET", "").0, 200, "{turn}");
    }
    ringway.stop();
}

#[test]
fn no_more_members_are_asked_than_the_attempts_allow() {
    for (attempts, tried) in [(0, 1), (1, 2), (2, 3)] {
        let members: Vec<_> = (0..4).map(|_| silent()).collect();
        let names = ["a", "b", "c", "d"];
        let listed: Vec<_> = names
            .iter()
            .zip(&members)
            .map(|(name, origin)| (*name, origin.address(), ""))
            .collect();
        let lines = [format!(
            "retry: {{attempts: {attempts}, budget_percent: 100}}"
        )];
        let ringway = Setup::new(pool(&listed, &[&lines[0]])).shards(1).start();
        assert_eq!(ask(&ringway, "GET", "").0, 502);
        let seen: Vec<_> = members
            .iter()
            .map(|member| member.requests().len())
            .collect();
        assert_eq!(seen.iter().sum::<usize>(), tried, "{attempts}: {seen:?}");
        assert!(seen.iter().all(|&count| count <= 1), "{attempts}: {seen:?}");
        ringway.stop();
    }
}

#[test]
fn without_budget_the_failure_is_answered_and_counted() {
    let (bad, good) = (silent(), good());
    let lines = ["retry: {budget_percent: 0, floor_per_second: 0}"];
    let ringway = start(bad.address(), &good, "", &lines);
    let mut statuses = [ask(&ringway, "GET", "").0, ask(&ringway, "GET", "").0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 502]);
    assert_eq!((bad.requests().len(), good.requests().len()), (1, 1));
    let refused = counted(&ringway, "ringway_alb_retry_budget_exhausted_total", "pool");
    assert_eq!(refused, 1.0);
    assert_eq!(
        counted(&ringway, "ringway_member_retries_total", "bad"),
        0.0
    );
    ringway.stop();
}

#[test]
fn the_floor_of_the_budget_is_used_up() {
    let (bad, good) = (silent(), good());
    let lines = ["retry: {budget_percent: 0, floor_per_second: 1}"];
    let ringway = start(bad.address(), &good, "", &lines);
    // Turns alternate but for retries, which take one too: one retry is granted, then none for a second.
    let statuses: Vec<_> = (0..4).map(|_| ask(&ringway, "GET", "").0).collect();
    let refused = counted(&ringway, "ringway_alb_retry_budget_exhausted_total", "pool");
    let failed = statuses.iter().filter(|&&status| status == 502).count();
    assert_eq!(refused, failed as f64, "{statuses:?}");
    assert!(counted(&ringway, "ringway_member_retries_total", "bad") >= 1.0);
    ringway.stop();
}

#[test]
fn a_reused_connection_that_died_is_made_anew_without_budget() {
    let origin = Origin::start(|conn| {
        // Two exchanges each: the second of them is never answered.
        if conn.request().is_some() && conn.send(ok("once")) {
            conn.request();
        }
    });
    let members = [("only", origin.address(), "")];
    let lines = ["retry: {budget_percent: 0, floor_per_second: 0}"];
    let ringway = Setup::new(pool(&members, &lines)).shards(1).start();
    for _ in 0..4 {
        assert_eq!(ask(&ringway, "GET", "").0, 200);
    }
    let resends = counted(&ringway, "ringway_member_resends_total", "only");
    assert_eq!(resends, 3.0);
    let refused = counted(&ringway, "ringway_alb_retry_budget_exhausted_total", "pool");
    assert_eq!(refused, 0.0);
    ringway.stop();
}

/// Hangs on everything but probes, which it answers until told to fail; told to go on, it answers.
fn stoppable(failing: &Arc<AtomicBool>, gate: &Gate) -> Origin {
    let (failing, gate) = (Arc::clone(failing), gate.clone());
    Origin::start(move |conn| {
        while let Some(mut request) = conn.head() {
            if request.target == "/probe" {
                let status = match failing.load(Ordering::SeqCst) {
                    true => "500 Down",
                    false => "200 OK",
                };
                conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
                continue;
            }
            if conn.body(&mut request).is_none() {
                return;
            }
            conn.report(Event::Request(Box::new(request)));
            gate.pass();
            conn.send(ok("after all"));
        }
    })
}

#[test]
fn a_member_whose_probes_fail_loses_the_idempotent_requests_that_wait_for_it() {
    let (failing, gate) = (Arc::new(AtomicBool::new(false)), Gate::new());
    let (bad, good) = (stoppable(&failing, &gate), good());
    // No budget: what the table says needs none.
    let lines = ["retry: {budget_percent: 0, floor_per_second: 0}"];
    let ringway = start(bad.address(), &good, PROBED, &lines);
    let mut waiting: Vec<(&str, Client)> = Vec::new();
    for method in ["GET", "GET", "PUT", "PUT", "POST", "POST"] {
        let mut client = ringway.client();
        client.send(request(method, "abc"));
        waiting.push((method, client));
    }
    // Each second one waits.
    let stuck: Vec<_> = (0..3).map(|_| bad.next_request().method).collect();
    assert!(stuck.contains(&"POST".to_owned()), "{stuck:?}");
    failing.store(true, Ordering::SeqCst);
    for (method, client) in &mut waiting {
        if *method != "POST" {
            assert_eq!(client.answer().text(), "abc", "{method}");
        }
    }
    assert_eq!(
        good.requests().len(),
        5,
        "all but the one that may have been done"
    );
    gate.open();
    gate.open();
    gate.open();
    let mut posts: Vec<_> = waiting
        .iter_mut()
        .filter(|(method, _)| *method == "POST")
        .map(|(_, client)| client.answer().text())
        .collect();
    posts.sort_unstable();
    assert_eq!(posts, ["abc", "after all"]);
    ringway.stop();
}

#[test]
fn a_member_that_a_reload_removes_loses_the_idempotent_requests_that_wait_for_it() {
    let (bad, good) = (hanging(), good());
    let ringway = start(bad.address(), &good, "", &[]);
    let mut clients = [ringway.client(), ringway.client()];
    for client in &mut clients {
        client.send(request("GET", ""));
    }
    bad.next_request();
    ringway.write_config(&pool(&[("good", good.address(), "")], &[]));
    ringway.signal(rustix::process::Signal::HUP);
    for client in &mut clients {
        assert_eq!(client.answer().status, 200);
    }
    assert_eq!(good.requests().len(), 2);
    ringway.stop();
}

#[test]
fn in_nested_pools_every_live_member_is_found() {
    let (bad, worse, good) = (silent(), silent(), good());
    let inner =
        "  inner:\n    provider: alb\n    alb:\n      mechanism: rr\n      pool: [bad, worse]\n";
    let yaml = pool(
        &[
            ("bad", bad.address(), ""),
            ("worse", worse.address(), ""),
            ("good", good.address(), ""),
        ],
        &["retry: {budget_percent: 100}"],
    );
    let yaml = yaml.replace("pool: [bad, worse, good]", "pool: [inner, good]");
    let ringway = Setup::new(format!("{yaml}{inner}")).shards(1).start();
    for _ in 0..6 {
        assert_eq!(ask(&ringway, "GET", "").0, 200);
    }
    assert_eq!(good.requests().len(), 6);
    ringway.stop();
}
