//! Mechanism `fgr`: the first whole answer with a good status wins, else the lowest status. Contract: ALB page, 5 and
//! 6.3.

use ringway_wire::{Framing, Gate, Origin, Setup, eventually, headers_of, ok};

use crate::fan_out::{alb, answer, backend, breaking, gated, pool, silent};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn the_first_good_answer_wins_over_earlier_bad_ones_and_the_others_are_cancelled() {
    let gate = Gate::new();
    let bad = Origin::answering(|_| answer(500, "", "bad"));
    let good = gated(&gate, |_| answer(302, "Location: /x\r\n", "good"));
    let slow = silent();
    let ringway = pool("fgr", &[&slow, &bad, &good], &[]).shards(1).start();
    let mut client = ringway.client();
    client.send(GET);
    bad.next_request();
    eventually("the bad answer is in", || {
        ringway
            .metric("trickster_proxy_requests_total", &[("backend_name", "b")])
            .filter(|count| *count == 1.0)
    });
    gate.open();
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().as_str()), (302, "good"));
    assert_eq!(answer.header("location"), Some("/x"));
    slow.next_close();
    let losers = ringway.metric(
        "trickster_alb_fanout_loser_drain_seconds_count",
        &[("mechanism", "fgr")],
    );
    assert_eq!(losers, Some(1.0));
    ringway.stop();
}

#[test]
fn the_list_of_good_codes_says_what_is_good() {
    let members = [
        Origin::answering(|_| answer(200, "", "a")),
        Origin::answering(|request| match request.target.as_str() {
            "/missing" => answer(404, "", "b"),
            _ => answer(500, "", "b"),
        }),
    ];
    let lines = ["fgr: {status_codes: [404, 410]}"];
    let ringway = pool("fgr", &[&members[0], &members[1]], &lines).start();
    let mut client = ringway.client();
    let answer = client.get("/missing");
    assert_eq!((answer.status, answer.text().as_str()), (404, "b"));
    let answer = client.get("/");
    assert_eq!((answer.status, answer.text().as_str()), (200, "a"));
    ringway.stop();
}

#[test]
fn no_more_members_are_asked_at_once_than_the_limit_says() {
    let gate = Gate::new();
    let members = [
        gated(&gate, |_| answer(500, "", "a")),
        gated(&gate, |_| answer(500, "", "b")),
        Origin::answering(|_| answer(200, "", "c")),
    ];
    let lines = ["fgr: {query_concurrency_limit: 1, query_concurrency_multiplier: 2}"];
    let all: Vec<_> = members.iter().collect();
    let ringway = pool("fgr", &all, &lines).start();
    let mut client = ringway.client();
    client.send(GET);
    members[0].next_request();
    members[1].next_request();
    assert_eq!(members[2].opened(), 0, "its turn has not come");
    gate.open();
    assert_eq!(client.answer().text(), "c");
    ringway.stop();
}

#[test]
fn without_a_good_answer_the_lowest_status_wins_and_ties_go_by_pool_order() {
    let gate = Gate::new();
    let members = [
        Origin::answering(|_| answer(503, "", "a")),
        gated(&gate, |_| answer(404, "", "b")),
        Origin::answering(|_| answer(404, "", "c")),
    ];
    let ringway = pool("fgr", &[&members[0], &members[1], &members[2]], &[]).start();
    let mut client = ringway.client();
    client.send(GET);
    members[2].next_request();
    gate.open();
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().as_str()), (404, "b"));
    ringway.stop();
}

#[test]
fn when_time_is_up_the_lowest_status_of_those_that_answered_wins() {
    let members = [
        silent(),
        Origin::answering(|_| answer(503, "", "b")),
        Origin::answering(|_| answer(502, "", "c")),
    ];
    let setup = pool(
        "fgr",
        &[&members[0], &members[1], &members[2]],
        &["timeout: 500ms"],
    );
    let ringway = setup.start();
    let answer = ringway.get("/");
    assert_eq!((answer.status, answer.text().as_str()), (502, "c"));
    members[0].next_close();
    let late = ringway.metric(
        "trickster_alb_fanout_failures_total",
        &[("mechanism", "fgr"), ("reason", "no_contribution")],
    );
    assert_eq!(late, Some(1.0));
    ringway.stop();
}

#[test]
fn an_answer_over_the_cap_or_short_never_wins_and_its_connection_is_closed() {
    let members = [
        Origin::start(|conn| {
            if conn.request().is_some() {
                // More than the cap is announced: none of it is waited for.
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n");
                conn.until_closed();
            }
        }),
        Origin::start(|conn| {
            if conn.request().is_some() {
                conn.send(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n",
                );
                conn.until_closed();
            }
        }),
        breaking(
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n012345678",
            false,
        ),
        Origin::answering(|_| answer(500, "", "0123456789")),
    ];
    let all: Vec<_> = members.iter().collect();
    let ringway = pool("fgr", &all, &["max_capture_bytes: 10"]).start();
    let answer = ringway.get("/");
    assert_eq!((answer.status, answer.text().as_str()), (500, "0123456789"));
    members[0].next_close();
    members[1].next_close();
    let lost = |reason| {
        ringway.metric(
            "trickster_alb_fanout_failures_total",
            &[("mechanism", "fgr"), ("reason", reason)],
        )
    };
    assert_eq!(
        (lost("truncated"), lost("short_read")),
        (Some(2.0), Some(1.0))
    );
    ringway.stop();
}

#[test]
fn the_cap_of_a_member_counts_where_it_is_lower() {
    let members = [
        Origin::answering(|_| answer(200, "", "012345")),
        Origin::answering(|_| answer(200, "", "01234")),
    ];
    let backends = [
        backend("a", members[0].address()),
        "    max_capture_bytes: 5\n".to_owned(),
        backend("b", members[1].address()),
        "    max_capture_bytes: 5\n".to_owned(),
        alb("all", "fgr", &["pool: [a, b]"]),
    ];
    let setup = Setup::new(format!(
        "backends:\n{}    is_default: true\n",
        backends.concat()
    ));
    let ringway = setup.start();
    assert_eq!(ringway.get("/").text(), "01234");
    ringway.stop();
}

#[test]
fn members_that_would_overdraw_the_fan_outs_budget_fail() {
    let gate = Gate::new();
    let members = [
        Origin::answering(|_| answer(500, "", "0123456789")),
        gated(&gate, |_| answer(200, "", "0123456789")),
        gated(&gate, |_| answer(200, "", "0123456789")),
    ];
    let all: Vec<_> = members.iter().collect();
    let ringway = pool("fgr", &all, &["max_fanout_capture_bytes: 19"]).start();
    let mut client = ringway.client();
    client.send(GET);
    eventually("the first answer is in", || {
        ringway
            .metric("trickster_proxy_requests_total", &[("backend_name", "a")])
            .filter(|count| *count == 1.0)
    });
    gate.open();
    gate.open();
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().as_str()), (500, "0123456789"));
    let refused = ringway.metric(
        "trickster_alb_fanout_failures_total",
        &[("mechanism", "fgr"), ("reason", "aggregate_cap")],
    );
    assert_eq!(refused, Some(2.0));
    ringway.stop();
}

#[test]
fn nothing_usable_is_502_with_an_empty_body() {
    let members = [
        breaking(b"", true),
        breaking(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", false),
    ];
    let ringway = pool("fgr", &[&members[0], &members[1]], &[]).start();
    let mut client = ringway.client();
    for _ in 0..2 {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.text().as_str()), (502, ""));
    }
    ringway.stop();
}

#[test]
fn nobody_in_time_is_502_too() {
    let members = [silent(), silent()];
    let ringway = pool("fgr", &[&members[0], &members[1]], &["timeout: 200ms"]).start();
    assert_eq!(ringway.get("/").status, 502);
    ringway.stop();
}

#[test]
fn the_winner_is_passed_on_as_it_came_coding_and_all_header_values_included() {
    let body = "\u{1f}\u{8b} coded or not, nobody looks";
    let origin = Origin::answering(move |_| {
        let headers = "Content-Encoding: gzip\r\nSet-Cookie: a=1\r\nX: y\r\nSet-Cookie: b=2\r\n\
                       X-Trickster-Result: engine=Other; status=hit\r\nConnection: X-Hop\r\nX-Hop: no\r\n";
        answer(200, headers, body)
    });
    let slow = silent();
    let ringway = pool("fgr", &[&slow, &origin], &[]).start();
    let answer = ringway.get("/");
    assert_eq!(answer.head.start, "HTTP/1.1 200 Status");
    assert_eq!(answer.text(), body);
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert_eq!(
        headers_of(&answer.head.headers, "set-cookie"),
        ["a=1", "b=2"]
    );
    assert_eq!(
        answer.header("x-trickster-result"),
        Some("engine=Other; status=hit")
    );
    assert_eq!(answer.header("x-hop"), None);
    ringway.stop();
}

#[test]
fn a_body_of_unknown_length_leaves_with_its_length() {
    let members = [
        Origin::answering(|_| {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nT: v\r\n\r\n".to_vec()
        }),
        breaking(b"HTTP/1.1 200 OK\r\n\r\nabc", false),
    ];
    let slow = silent();
    for member in &members {
        let ringway = pool("fgr", &[&slow, member], &[]).start();
        let answer = ringway.get("/");
        assert_eq!(
            (answer.text().as_str(), answer.framing),
            ("abc", Framing::Length)
        );
        let mut old = ringway.client();
        for _ in 0..2 {
            old.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
            let answer = old.answer();
            assert_eq!(
                (answer.text().as_str(), answer.framing),
                ("abc", Framing::Length)
            );
        }
        ringway.stop();
    }
}

#[test]
fn answers_without_a_body_are_whole_with_their_head() {
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/204" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        "/304" => b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 9\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n".to_vec(),
    });
    let slow = silent();
    let ringway = pool("fgr", &[&slow, &origin], &["max_fanout_capture_bytes: 100"]).start();
    let mut client = ringway.client();
    for _ in 0..2 {
        let answer = client.get("/204");
        assert_eq!(
            (answer.status, answer.header("content-length")),
            (204, None)
        );
        let answer = client.get("/304");
        assert_eq!(answer.header("etag"), Some("\"x\""));
        let answer = client
            .send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n")
            .answer_to("HEAD");
        assert_eq!(
            (answer.status, answer.header("content-length")),
            (200, Some("1099511627776"))
        );
    }
    ringway.stop();
}

#[test]
fn connections_of_captured_answers_are_kept() {
    let members = [
        Origin::answering(|_| answer(500, "", "a")),
        Origin::answering(|_| answer(404, "", "b")),
    ];
    let ringway = pool("fgr", &[&members[0], &members[1]], &[])
        .shards(1)
        .start();
    let mut client = ringway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "b");
        for member in &members {
            assert_eq!(member.next_request().connection, 0);
        }
    }
    ringway.stop();
}

#[test]
fn a_client_that_leaves_cancels_every_member() {
    let members = [silent(), silent()];
    let ringway = pool("fgr", &[&members[0], &members[1]], &[]).start();
    let mut client = ringway.client();
    client.send(GET);
    members.iter().for_each(|member| {
        member.next_request();
    });
    client.reset();
    members.iter().for_each(|member| {
        member.next_close();
    });
    ringway.stop();
}

#[test]
fn a_large_answer_is_passed_on_whole() {
    let body: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    let sent = body.clone();
    let origin = Origin::answering(move |request| match request.target.as_str() {
        "/length" => ok(&sent),
        _ => {
            let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for chunk in sent.chunks(77_777) {
                bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
            bytes
        }
    });
    let slow = silent();
    let ringway = pool("fgr", &[&slow, &origin], &[]).start();
    let mut client = ringway.client();
    for path in ["/length", "/chunked"] {
        assert!(client.get(path).body == body, "{path}");
    }
    let written = ringway.metric(
        "trickster_frontend_written_byte_total",
        &[("backend_name", "all")],
    );
    assert_eq!(written, Some(10_000_000.0));
    ringway.stop();
}

#[test]
fn members_may_be_other_albs() {
    let (good, bad) = (
        Origin::answering(|_| {
            answer(
                200,
                "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
                "good",
            )
        }),
        Origin::answering(|_| answer(500, "", "bad")),
    );
    let backends = [
        backend("good", good.address()),
        backend("bad", bad.address()),
        alb("turns", "rr", &["pool: [good]"]),
        alb("race", "fr", &["pool: [good, turns]"]),
        alb("newest", "nlm", &["pool: [bad, good]"]),
        alb("first", "fgr", &["pool: [bad, newest]"]),
    ]
    .concat();
    for member in ["turns", "race", "newest", "first"] {
        let all = alb("all", "fgr", &[&format!("pool: [bad, {member}]")]);
        let ringway =
            Setup::new(format!("backends:\n{backends}{all}    is_default: true\n")).start();
        assert_eq!(ringway.get("/").text(), "good", "{member}");
        ringway.stop();
    }
}
