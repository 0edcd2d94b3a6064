//! Mechanism `fr`: the first answer that begins wins, whatever its status. Contract: ALB page, 5 and 6.2.

use std::io::Write;
use std::thread;

use ringway_wire::{Event, Framing, Gate, Origin, Port, Setup, eventually, headers_of, ok};

use crate::fan_out::{alb, answer, backend, breaking, gated, pool, silent};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn the_first_answer_wins_whatever_its_status_and_the_others_are_cancelled() {
    let (slow, fast) = (
        silent(),
        Origin::answering(|_| answer(500, "X: y\r\n", "no")),
    );
    let ringway = pool("fr", &[&slow, &fast], &[]).start();
    let answer = ringway.get("/");
    assert_eq!((answer.status, answer.text().as_str()), (500, "no"));
    assert_eq!(answer.header("x"), Some("y"));
    assert_eq!(
        answer.header("x-trickster-result"),
        Some("engine=HTTPProxy; status=proxy-error")
    );
    slow.next_close();
    ringway.stop();
}

#[test]
fn the_winner_is_relayed_from_its_head_on() {
    let gate = Gate::new();
    let wait = gate.clone();
    let winner = Origin::start(move |conn| {
        while conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
            wait.pass();
            conn.send("3\r\ntwo\r\n0\r\nT: v\r\n\r\n");
        }
    });
    let loser = silent();
    let ringway = pool("fr", &[&loser, &winner], &[]).start();
    let mut client = ringway.client();
    client.send(GET);
    assert_eq!(client.head().0, 200);
    assert_eq!(client.chunk(), b"one");
    loser.next_close();
    gate.open();
    assert_eq!(client.chunk(), b"two");
    ringway.stop();
}

#[test]
fn a_chunked_winner_keeps_its_trailers_and_reaches_a_client_of_http_1_0() {
    let chunked = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: v\r\n\r\n"
            .to_vec()
    });
    let slow = silent();
    let ringway = pool("fr", &[&slow, &chunked], &[]).start();
    let answer = ringway.get("/");
    assert_eq!(
        (answer.text().as_str(), answer.framing),
        ("ab", Framing::Chunked)
    );
    assert_eq!(answer.trailers, [("T".to_owned(), "v".to_owned())]);
    let mut old = ringway.client();
    let answer = old.send("GET / HTTP/1.0\r\n\r\n").answer();
    assert_eq!(
        (answer.text().as_str(), answer.framing),
        ("ab", Framing::Close)
    );
    ringway.stop();
}

#[test]
fn a_member_that_refuses_resets_closes_or_speaks_no_http_is_no_answer() {
    let gate = Gate::new();
    let good = gated(&gate, |_| ok("good"));
    let closed = Port::claim();
    let refusing = backend("refusing", closed.address());
    let broken = [
        breaking(b"", true),
        breaking(b"", false),
        breaking(b"HTTP/1.1 200 OK\r\nContent-", false),
        breaking(b"220 mail.example ESMTP\r\n\r\n", false),
        breaking(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
            false,
        ),
    ];
    let mut yaml = format!("backends:\n{refusing}{}", backend("good", good.address()));
    let mut names = "refusing".to_owned();
    for (index, origin) in broken.iter().enumerate() {
        yaml.push_str(&backend(&format!("b{index}"), origin.address()));
        names.push_str(&format!(", b{index}"));
    }
    yaml.push_str(&alb("all", "fr", &[&format!("pool: [{names}, good]")]));
    let ringway = Setup::new(yaml + "    is_default: true\n").start();
    let mut client = ringway.client();
    client.send(GET);
    let lost = |reason| {
        ringway.metric(
            "trickster_alb_fanout_failures_total",
            &[("mechanism", "fr"), ("reason", reason)],
        )
    };
    eventually("the others have failed", || {
        (lost("no_contribution") == Some(5.0) && lost("short_read") == Some(1.0)).then_some(())
    });
    gate.open();
    assert_eq!(client.answer().text(), "good");
    ringway.stop();
}

#[test]
fn when_all_failed_the_answer_is_502_and_the_connection_goes_on() {
    let members = [breaking(b"", true), breaking(b"", false)];
    let ringway = pool("fr", &[&members[0], &members[1]], &[]).start();
    let mut client = ringway.client();
    for _ in 0..2 {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.text().as_str()), (502, ""));
        assert_eq!(
            answer.header("x-trickster-result"),
            Some("engine=HTTPProxy; status=proxy-error")
        );
    }
    ringway.stop();
}

#[test]
fn when_time_ran_out_the_answer_is_502_and_the_members_are_cancelled() {
    let members = [silent(), silent()];
    let ringway = pool("fr", &[&members[0], &members[1]], &["timeout: 200ms"]).start();
    let mut client = ringway.client();
    let answer = client.get("/");
    assert_eq!((answer.status, answer.text().as_str()), (502, ""));
    members.iter().for_each(|member| {
        member.next_close();
    });
    assert_eq!(client.get("/trickster/ping").text(), "pong");
    ringway.stop();
}

#[test]
fn a_winner_that_does_not_end_before_the_deadline_is_cut_off() {
    let endless = Origin::start(|conn| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
            conn.until_closed();
        }
    });
    let slow = silent();
    let inner = alb("inner", "fr", &["pool: [slow, endless]", "timeout: 300ms"]);
    for (pool, keys) in [
        ("pool: [slow, endless]", "timeout: 300ms"),
        ("pool: [slow, inner]", "timeout: 1h"),
    ] {
        let backends = [
            backend("slow", slow.address()),
            backend("endless", endless.address()),
            inner.clone(),
            alb("all", "fr", &[pool, keys]),
        ]
        .concat();
        let ringway = Setup::new(format!("backends:\n{backends}    is_default: true\n")).start();
        let mut client = ringway.client();
        client.send(GET);
        assert_eq!(client.head().0, 200);
        assert_eq!(client.chunk(), b"one");
        assert_eq!(client.rest(), b"", "{pool}: it ends without a last chunk");
        ringway.stop();
    }
}

#[test]
fn every_live_member_is_asked_once_the_same_request_and_weights_are_ignored() {
    let gate = Gate::new();
    let members = [silent(), gated(&gate, |_| ok("x")), silent()];
    let backends: String = ["a", "b", "c"]
        .iter()
        .zip(&members)
        .map(|(name, member)| backend(name, member.address()))
        .collect();
    let pool = alb("all", "fr", &["pool: [a, {name: b, weight: 5}, c, a]"]);
    let ringway = Setup::new(format!("backends:\n{backends}{pool}    is_default: true\n")).start();
    let mut client = ringway.client();
    client.send(
        "PATCH /p/q?r=s HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\nX: 1\r\nX: 2\r\n\
         Connection: X-Hop\r\nX-Hop: no\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    );
    for member in &members {
        let request = member.next_request();
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("PATCH", "/p/q?r=s")
        );
        assert_eq!(
            (request.text().as_str(), request.framing),
            ("abcde", Framing::Length)
        );
        assert_eq!(request.headers("x"), ["1", "2"]);
        assert_eq!(request.header("accept-encoding"), Some("br"));
        assert_eq!(request.header("x-hop"), None);
    }
    gate.open();
    assert_eq!(client.answer().text(), "x");
    for member in &members {
        assert!(member.requests().is_empty(), "asked more than once");
        assert_eq!(member.opened(), 1);
    }
    ringway.stop();
}

#[test]
fn one_live_member_gets_the_request_straight_and_streamed() {
    let origin = Origin::start(|conn| {
        while let Some(mut request) = conn.head() {
            conn.report(Event::Request(Box::new(request.clone())));
            if conn.body(&mut request).is_none() {
                return;
            }
            conn.send(ok(&request.body));
        }
    });
    let backends = backend("a", origin.address()) + &alb("all", "fr", &["pool: [a, a]"]);
    let ringway = Setup::new(format!("backends:\n{backends}    is_default: true\n")).start();
    let mut client = ringway.client();
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    assert_eq!(
        origin.next_request().header("content-length"),
        Some("4"),
        "it is there before its body is"
    );
    assert_eq!(client.send("cd").answer().text(), "abcd");
    assert_eq!(
        ringway.metric("trickster_alb_fanout_attempts_total", &[]),
        None
    );
    ringway.stop();
}

#[test]
fn without_a_live_member_the_answer_is_502_with_an_empty_body() {
    let failing = Origin::answering(|_| answer(500, "", ""));
    let member = backend("a", failing.address())
        + "    healthcheck:\n      path: /\n      interval: 100ms\n      failure_threshold: 1\n";
    let pool = alb("all", "fr", &["pool: [a]"]);
    let setup = Setup::new(format!("backends:\n{member}{pool}    is_default: true\n"));
    let ringway = setup.start();
    let answer = eventually("the member is down", || {
        let answer = ringway.get("/");
        (answer.status == 502).then_some(answer)
    });
    assert_eq!(answer.text(), "");
    assert!(
        ringway.metric(
            "trickster_alb_fanout_attempts_total",
            &[("mechanism", "fr")]
        ) >= Some(1.0)
    );
    ringway.stop();
}

#[test]
fn interim_answers_are_passed_over() {
    let interim = Origin::answering(|_| {
        let mut bytes = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n".to_vec();
        bytes.extend(ok("final"));
        bytes
    });
    let slow = silent();
    let ringway = pool("fr", &[&slow, &interim], &[]).start();
    let mut client = ringway.client();
    client.send(GET);
    let (status, head) = client.head();
    assert_eq!(status, 200, "{head:?}");
    ringway.stop();
}

#[test]
fn an_answer_to_head_has_the_length_and_no_body() {
    let origin = Origin::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n".to_vec());
    let slow = silent();
    let ringway = pool("fr", &[&slow, &origin], &[]).start();
    let mut client = ringway.client();
    for _ in 0..2 {
        let answer = client
            .send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            .answer_to("HEAD");
        assert_eq!(answer.header("content-length"), Some("7"));
    }
    ringway.stop();
}

#[test]
fn answers_without_a_body_end_with_their_head() {
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/204" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n".to_vec(),
    });
    let slow = silent();
    let ringway = pool("fr", &[&slow, &origin], &[]).start();
    let mut client = ringway.client();
    for _ in 0..2 {
        assert_eq!(client.get("/204").status, 204);
        assert_eq!(client.get("/304").header("etag"), Some("\"x\""));
    }
    ringway.stop();
}

#[test]
fn connections_are_kept_on_both_sides() {
    let winner = Origin::answering(|_| ok("x"));
    let slow = silent();
    let ringway = pool("fr", &[&slow, &winner], &[]).shards(1).start();
    let mut client = ringway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "x");
        assert_eq!(winner.next_request().connection, 0);
    }
    ringway.stop();
}

#[test]
fn a_client_that_leaves_cancels_every_member() {
    let members = [silent(), silent(), silent()];
    let ringway = pool("fr", &[&members[0], &members[1], &members[2]], &[]).start();
    let mut client = ringway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    members.iter().for_each(|member| {
        member.next_request();
    });
    drop(client);
    members.iter().for_each(|member| {
        member.next_close();
    });
    ringway.stop();
}

#[test]
fn a_request_body_over_the_listeners_bound_is_answered_413_and_nobody_is_asked() {
    let members = [silent(), silent()];
    let ringway = pool("fr", &[&members[0], &members[1]], &[])
        .listener("max_request_body_size_bytes: 4")
        .start();
    for body in [
        "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\n",
    ] {
        let mut client = ringway.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{body}"));
        assert_eq!(client.answer().status, 413);
        client.assert_closed();
    }
    assert_eq!(members.iter().map(Origin::opened).sum::<usize>(), 0);
    ringway.stop();
}

#[test]
fn a_client_that_waits_for_100_continue_is_told_to_go_on() {
    let gate = Gate::new();
    let members = [gated(&gate, |_| ok("x")), silent()];
    let ringway = pool("fr", &[&members[0], &members[1]], &[]).start();
    let mut client = ringway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head().0, 100);
    client.send("abc");
    for member in &members {
        let request = member.next_request();
        assert_eq!(
            (request.text().as_str(), request.header("expect")),
            ("abc", None)
        );
    }
    gate.open();
    assert_eq!(client.answer().text(), "x");
    ringway.stop();
}

#[test]
fn a_long_request_body_reaches_every_member_whole() {
    const BYTES: usize = 5 << 20;
    let gate = Gate::new();
    let members = [gated(&gate, |_| ok("x")), silent()];
    let ringway = pool("fr", &[&members[0], &members[1]], &[])
        .shards(1)
        .start();
    let body: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
    let mut client = ringway.client();
    for round in 0..2 {
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n"
        ));
        client.send(&body);
        for member in &members {
            let request = member.next_request();
            assert!(request.body == body, "round {round}");
        }
        gate.open();
        assert_eq!(client.answer().text(), "x");
    }
    ringway.stop();
}

#[test]
fn a_member_may_answer_before_it_has_read_a_long_body() {
    let early = Origin::start(|conn| {
        while let Some(mut request) = conn.head() {
            // Most of the body is still to come.
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n");
            if conn.body(&mut request).is_none() {
                return;
            }
            let rest = format!("{:x}\r\n{}\r\n0\r\n\r\n", 8, request.body.len());
            conn.send(rest);
        }
    });
    const BYTES: usize = 10_000_000;
    let slow = silent();
    let ringway = pool("fr", &[&slow, &early], &[]).start();
    let mut client = ringway.client();
    let mut writer = client.writer();
    let upload = thread::spawn(move || {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n");
        writer.write_all(head.as_bytes()).expect("it is read");
        writer.write_all(&vec![b'x'; BYTES]).expect("it is read");
    });
    assert_eq!(client.answer().text(), format!("early{BYTES}"));
    upload.join().expect("the upload ends");
    assert_eq!(client.get("/trickster/ping").text(), "pong");
    ringway.stop();
}

#[test]
fn an_upgrade_is_not_offered_to_several() {
    let gate = Gate::new();
    let members = [gated(&gate, |_| ok("plain")), silent()];
    let ringway = pool("fr", &[&members[0], &members[1]], &[]).start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    for member in &members {
        let request = member.next_request();
        assert_eq!(request.header("upgrade"), None);
        assert_eq!(request.header("connection"), None);
    }
    gate.open();
    assert_eq!(client.answer().text(), "plain");
    ringway.stop();
}

#[test]
fn all_values_of_a_header_are_kept_in_order() {
    let origin = Origin::answering(|_| {
        let headers = "Set-Cookie: a=1\r\nX: y\r\nSet-Cookie: b=2\r\nX-Trickster-Result: engine=Other; status=hit\r\n";
        answer(200, headers, "x")
    });
    let slow = silent();
    let ringway = pool("fr", &[&slow, &origin], &[]).start();
    let answer = ringway.get("/");
    let cookies = headers_of(&answer.head.headers, "set-cookie");
    assert_eq!(cookies, ["a=1", "b=2"]);
    assert_eq!(
        answer.header("x-trickster-result"),
        Some("engine=Other; status=hit"),
        "it is the member's own"
    );
    ringway.stop();
}

#[test]
fn members_may_be_other_albs() {
    let (left, right) = (Origin::answering(|_| ok("left")), silent());
    let backends = [
        backend("left", left.address()),
        backend("right", right.address()),
        alb("turns", "rr", &["pool: [left]"]),
        alb("good", "fgr", &["pool: [right, left]"]),
        alb("newest", "nlm", &["pool: [left]"]),
        alb("race", "fr", &["pool: [right, turns]"]),
    ]
    .concat();
    for members in [
        "right, turns",
        "right, good",
        "right, newest",
        "right, race",
    ] {
        let all = alb("all", "fr", &[&format!("pool: [{members}]")]);
        let ringway =
            Setup::new(format!("backends:\n{backends}{all}    is_default: true\n")).start();
        let mut client = ringway.client();
        for _ in 0..2 {
            assert_eq!(client.get("/").text(), "left", "{members}");
        }
        ringway.stop();
    }
}

#[test]
fn losers_and_attempts_are_counted() {
    let winner = Origin::answering(|_| ok("x"));
    let losers = [silent(), silent()];
    let ringway = pool("fr", &[&losers[0], &winner, &losers[1]], &[]).start();
    assert_eq!(ringway.get("/").text(), "x");
    let mechanism = [("mechanism", "fr"), ("variant", "")];
    let value = |name| ringway.metric(name, &mechanism);
    assert_eq!(value("trickster_alb_fanout_attempts_total"), Some(1.0));
    assert_eq!(
        value("trickster_alb_fanout_loser_drain_seconds_count"),
        Some(2.0)
    );
    assert_eq!(value("trickster_alb_fanout_failures_total"), None);
    ringway.stop();
}

#[test]
fn a_client_gets_its_answers_in_order_when_it_sends_ahead() {
    let echo = Origin::answering(|request| ok(&request.target));
    let ringway = pool("fr", &[&echo, &echo], &[]).start();
    let mut client = ringway.client();
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().text(), "/1");
    assert_eq!(client.answer().text(), "/2");
    ringway.stop();
}
