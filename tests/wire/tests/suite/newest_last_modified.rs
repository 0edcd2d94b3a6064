//! Mechanism `nlm`: waits for all and takes the answer modified last. Contract: ALB page, 5 and 6.4.

use ringway_wire::{Gate, Origin, Setup, eventually};

use crate::fan_out::{alb, answer, backend, breaking, gated, pool, silent};

const OLD: &str = "Last-Modified: Sat, 05 Nov 1994 08:49:37 GMT\r\n";
const NEW: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";

fn saying(status: u16, headers: &'static str, body: &'static str) -> Origin {
    Origin::answering(move |_| answer(status, headers, body))
}

/// What a pool of members with these answers says, bodies by place: `a`, `b`, …
#[track_caller]
fn chosen(answers: &[(u16, &'static str)]) -> (u16, String) {
    let bodies = ["a", "b", "c", "d"];
    let members: Vec<_> = answers
        .iter()
        .zip(bodies)
        .map(|((status, headers), body)| saying(*status, headers, body))
        .collect();
    let all: Vec<_> = members.iter().collect();
    let ringway = pool("nlm", &all, &[]).start();
    let answer = ringway.get("/");
    ringway.stop();
    (answer.status, answer.text())
}

fn is(status: u16, body: &str) -> (u16, String) {
    (status, body.to_owned())
}

#[test]
fn every_member_is_waited_for_and_the_newest_wins() {
    let gate = Gate::new();
    let members = [
        saying(200, OLD, "a"),
        gated(&gate, |_| answer(200, NEW, "b")),
        saying(200, OLD, "c"),
    ];
    let ringway = pool("nlm", &[&members[0], &members[1], &members[2]], &[]).start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    for name in ["a", "c"] {
        eventually("the others have answered", || {
            ringway
                .metric("trickster_proxy_requests_total", &[("backend_name", name)])
                .filter(|count| *count == 1.0)
        });
    }
    gate.open();
    let answer = client.answer();
    assert_eq!(answer.text(), "b");
    assert_eq!(
        answer.header("last-modified"),
        NEW.trim().strip_prefix("Last-Modified: ")
    );
    assert_eq!(
        answer.header("x-trickster-result"),
        Some("engine=HTTPProxy; status=proxy-only")
    );
    let attempts = ringway.metric(
        "trickster_alb_fanout_attempts_total",
        &[("mechanism", "nlm")],
    );
    assert_eq!(attempts, Some(1.0));
    ringway.stop();
}

#[test]
fn equal_dates_go_by_pool_order_in_whatever_form_they_are_written() {
    assert_eq!(chosen(&[(200, OLD), (200, NEW), (200, NEW)]), is(200, "b"));
    let forms = [
        (200, "Last-Modified: Sun Nov  6 08:49:37 1994\r\n"),
        (200, NEW),
        (200, "Last-Modified: Sunday, 06-Nov-94 08:49:37 GMT\r\n"),
    ];
    assert_eq!(chosen(&forms), is(200, "a"));
    let asctime_is_newer = [
        (200, OLD),
        (200, "Last-Modified: Sun Nov  6 08:49:37 1994\r\n"),
    ];
    assert_eq!(chosen(&asctime_is_newer), is(200, "b"));
}

#[test]
fn an_answer_without_a_valid_date_is_dropped_when_another_has_one() {
    assert_eq!(chosen(&[(200, ""), (200, OLD)]), is(200, "b"));
    let invalid = "Last-Modified: a fine day\r\n";
    assert_eq!(chosen(&[(200, invalid), (200, OLD)]), is(200, "b"));
}

#[test]
fn without_any_date_the_first_of_the_best_class_in_pool_order_wins() {
    assert_eq!(chosen(&[(200, ""), (201, "")]), is(200, "a"));
    assert_eq!(
        chosen(&[(503, ""), (404, ""), (204, "")]),
        (204, String::new())
    );
    assert_eq!(chosen(&[(503, ""), (404, ""), (410, "")]), is(404, "b"));
}

#[test]
fn dates_are_compared_within_the_best_status_class_only() {
    assert_eq!(chosen(&[(404, NEW), (200, OLD), (500, NEW)]), is(200, "b"));
    assert_eq!(chosen(&[(404, NEW), (301, "")]), is(301, "b"));
}

#[test]
fn when_time_is_up_the_newest_of_those_that_answered_wins() {
    let members = [silent(), saying(200, OLD, "b")];
    let ringway = pool("nlm", &[&members[0], &members[1]], &["timeout: 500ms"]).start();
    assert_eq!(ringway.get("/").text(), "b");
    members[0].next_close();
    ringway.stop();
}

#[test]
fn members_that_fail_or_are_over_the_cap_do_not_count() {
    let members = [
        breaking(b"", true),
        breaking(b"HTTP/1.1 200 OK\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 2\r\n\r\nx", false),
        saying(200, NEW, "too long"),
        saying(200, OLD, "d"),
    ];
    let all: Vec<_> = members.iter().collect();
    let ringway = pool("nlm", &all, &["max_capture_bytes: 2"]).start();
    assert_eq!(ringway.get("/").text(), "d");
    for reason in ["no_contribution", "short_read", "truncated"] {
        let lost = ringway.metric(
            "trickster_alb_fanout_failures_total",
            &[("mechanism", "nlm"), ("reason", reason)],
        );
        assert_eq!(lost, Some(1.0), "{reason}");
    }
    ringway.stop();
}

#[test]
fn nothing_usable_is_502_with_an_empty_body() {
    let members = [breaking(b"", true), breaking(b"", false)];
    let ringway = pool("nlm", &[&members[0], &members[1]], &[]).start();
    let answer = ringway.get("/");
    assert_eq!((answer.status, answer.text().as_str()), (502, ""));
    ringway.stop();
}

#[test]
fn head_chooses_as_get_does() {
    let members = [
        Origin::answering(|_| {
            format!("HTTP/1.1 200 OK\r\n{OLD}Content-Length: 1\r\n\r\n").into_bytes()
        }),
        Origin::answering(|_| {
            format!("HTTP/1.1 200 OK\r\n{NEW}Content-Length: 2\r\n\r\n").into_bytes()
        }),
    ];
    let ringway = pool("nlm", &[&members[0], &members[1]], &[]).start();
    let mut client = ringway.client();
    for _ in 0..2 {
        let answer = client
            .send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            .answer_to("HEAD");
        assert_eq!(answer.header("content-length"), Some("2"));
    }
    ringway.stop();
}

#[test]
fn members_may_be_other_albs() {
    let (old, new) = (saying(200, OLD, "old"), saying(200, NEW, "new"));
    let backends = [
        backend("old", old.address()),
        backend("new", new.address()),
        alb("turns", "rr", &["pool: [new]"]),
        alb("race", "fr", &["pool: [new, turns]"]),
        alb("good", "fgr", &["pool: [new, turns]"]),
        alb("newest", "nlm", &["pool: [old, new]"]),
    ]
    .concat();
    for member in ["turns", "race", "good", "newest"] {
        let all = alb("all", "nlm", &[&format!("pool: [old, {member}]")]);
        let ringway =
            Setup::new(format!("backends:\n{backends}{all}    is_default: true\n")).start();
        assert_eq!(ringway.get("/").text(), "new", "{member}");
        ringway.stop();
    }
}
