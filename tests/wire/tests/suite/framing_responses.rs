//! Malformed answers of origins: 502 while nothing was passed on yet, a visible cut afterwards, and the
//! connection is never used again.

use ringway_wire::{Framing, Gate, Origin, Setup, ok};

/// Sends `bytes` to every request on a connection's first use and good answers from then on.
fn misbehaving(bytes: Vec<u8>, close: bool) -> Origin {
    Origin::start(move |conn| {
        if conn.request().is_none() || !conn.send(&bytes) || close {
            return;
        }
        while conn.request().is_some() {
            conn.send(ok("reused"));
        }
    })
}

/// Asks twice over one client connection: both answers must be 502, from two origin connections.
#[track_caller]
fn refused(name: &str, bytes: &[u8]) {
    for close in [false, true] {
        let origin = misbehaving(bytes.to_vec(), close);
        let ringway = Setup::web(origin.address(), "").shards(1).start();
        let mut client = ringway.client();
        for _ in 0..2 {
            let answer = client.get("/");
            assert_eq!((answer.status, answer.text().as_str()), (502, ""), "{name}");
        }
        let seen: Vec<_> = origin
            .requests()
            .iter()
            .map(|request| request.connection)
            .collect();
        assert_eq!(
            seen,
            [0, 1],
            "{name}: sent once each, on connections of their own"
        );
        ringway.stop();
    }
}

#[test]
fn an_answer_with_a_malformed_status_line_is_answered_502() {
    let rows: &[(&str, &[u8])] = &[
        ("no protocol", b"200 OK\r\nContent-Length: 0\r\n\r\n"),
        (
            "other protocol",
            b"HTTQ/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ),
        ("version 2", b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (
            "version 0.9",
            b"HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "letter in the status",
            b"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
        ),
        ("two digits", b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
        (
            "four digits",
            b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "status below 100",
            b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
        ),
        ("no status", b"HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
        ("a body without a head", b"<html>\r\n\r\n</html>"),
        ("bare LF", b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"),
        (
            "NUL in the reason",
            b"HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n",
        ),
    ];
    for (name, bytes) in rows {
        refused(name, bytes);
    }
}

#[test]
fn an_answer_with_a_malformed_header_is_answered_502() {
    let rows: &[(&str, &[u8])] = &[
        (
            "bare LF",
            b"HTTP/1.1 200 OK\r\nX: y\nContent-Length: 0\r\n\r\n",
        ),
        (
            "bare CR",
            b"HTTP/1.1 200 OK\r\nX: y\rZ: w\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "NUL",
            b"HTTP/1.1 200 OK\r\nX: y\0\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "no colon",
            b"HTTP/1.1 200 OK\r\nX\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "no name",
            b"HTTP/1.1 200 OK\r\n: y\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "obs-fold",
            b"HTTP/1.1 200 OK\r\nX: y\r\n z\r\nContent-Length: 0\r\n\r\n",
        ),
        (
            "space before the colon",
            b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
        ),
    ];
    for (name, bytes) in rows {
        refused(name, bytes);
    }
}

#[test]
fn an_answer_framed_in_conflicting_ways_is_answered_502() {
    let rows: &[(&str, &[u8])] = &[
        (
            "length and chunked",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "two lengths",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        ),
        (
            "signed length",
            b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na",
        ),
        (
            "negative length",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\na",
        ),
        (
            "huge length",
            b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n\r\na",
        ),
        (
            "empty length",
            b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\na",
        ),
        (
            "unknown coding",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\na",
        ),
        (
            "chunked twice",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "chunked not last",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        ),
        (
            "chunked in 1.0",
            b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
    ];
    for (name, bytes) in rows {
        refused(name, bytes);
    }
}

#[test]
fn an_answer_with_an_endless_head_is_answered_502() {
    let long = format!(
        "HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n",
        "a".repeat(256 << 10)
    );
    refused("long value", long.as_bytes());
    let many = format!(
        "HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n",
        "X: a\r\n".repeat(5_000)
    );
    refused("many headers", many.as_bytes());
    let hints = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(5_000);
    let origin = misbehaving(hints.into_bytes(), false);
    let ringway = Setup::web(origin.address(), "timeout: 2s").start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.0\r\n\r\n");
    let status = client.answer().status;
    assert!(
        matches!(status, 502 | 504),
        "{status}: interim answers without end"
    );
    ringway.stop();
}

#[test]
fn a_head_cut_short_is_answered_502() {
    for bytes in [
        "H",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
    ] {
        let origin = misbehaving(bytes.as_bytes().to_vec(), true);
        let ringway = Setup::web(origin.address(), "").start();
        assert_eq!(ringway.get("/").status, 502, "{bytes:?}");
        assert_eq!(origin.requests().len(), 1, "{bytes:?}: not retried");
        ringway.stop();
    }
}

#[test]
fn a_body_cut_short_is_cut_visibly_for_the_client() {
    for reset in [false, true] {
        let origin = Origin::start(move |conn| {
            conn.request();
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
            // The reset must not overtake the bytes: the client has them before the script ends.
            if reset {
                conn.reset_at_end();
            }
        });
        let ringway = Setup::web(origin.address(), "").start();
        let mut client = ringway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        match client.try_answer_to("GET") {
            Ok(answer) => assert!(reset && answer.status == 502, "{answer:?}"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{error}"),
        }
        ringway.stop();
    }
}

#[test]
fn a_chunked_body_cut_short_or_malformed_never_gets_a_last_chunk() {
    let rows = [
        ("cut between chunks", "2\r\nok\r\n", true),
        ("cut inside a chunk", "2\r\nok\r\n9\r\nhalf", true),
        (
            "cut before the end of the trailers",
            "2\r\nok\r\n0\r\nT: v\r\n",
            true,
        ),
        ("bad size", "2\r\nok\r\nzz\r\nxx\r\n0\r\n\r\n", false),
        (
            "data longer than its size",
            "2\r\nok\r\n1\r\nxx\r\n0\r\n\r\n",
            false,
        ),
        ("bare LF", "2\r\nok\r\n1\nx\r\n0\r\n\r\n", false),
        (
            "huge size",
            "2\r\nok\r\n10000000000000001\r\nx\r\n0\r\n\r\n",
            false,
        ),
    ];
    for (name, body, close) in rows {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let origin = misbehaving(format!("{head}{body}").into_bytes(), close);
        let ringway = Setup::web(origin.address(), "").shards(1).start();
        let mut client = ringway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        // What is wrong may be seen before anything was passed on: then it is a plain 502.
        match client.try_answer_to("GET") {
            Ok(answer) => assert_eq!(answer.status, 502, "{name}: ended as if it were whole"),
            Err(error) => {
                assert_eq!(
                    error.kind(),
                    std::io::ErrorKind::UnexpectedEof,
                    "{name}: {error}"
                );
            }
        }
        let again = origin.requests().len();
        drop(
            ringway
                .client()
                .send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .try_answer_to("GET"),
        );
        assert_eq!(again, 1, "{name}");
        assert_eq!(
            origin.next_request().connection,
            1,
            "{name}: the connection was used again"
        );
        ringway.stop();
    }
}

#[test]
fn a_body_that_ends_with_the_connection_is_marked_by_its_framing() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\n\r\nall of it");
    });
    let ringway = Setup::web(origin.address(), "").start();
    let answer = ringway.get("/");
    assert_eq!(answer.text(), "all of it");
    assert!(
        matches!(answer.framing, Framing::Chunked | Framing::Close),
        "{:?}",
        answer.framing
    );
    ringway.stop();
}

#[test]
fn bytes_behind_an_answer_reach_nobody_and_the_connection_is_not_reused() {
    let extra = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    for first in [
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood",
        "HTTP/1.1 204 No Content\r\n\r\n",
    ] {
        let origin = misbehaving(format!("{first}{extra}").into_bytes(), false);
        let ringway = Setup::web(origin.address(), "").shards(1).start();
        let mut client = ringway.client();
        for number in 0..5 {
            let answer = client.get("/");
            assert!(
                answer.status == 204 || answer.text() == "good",
                "{answer:?}"
            );
            assert_eq!(origin.next_request().connection, number);
        }
        ringway.stop();
    }
}

#[test]
fn a_body_in_an_answer_to_head_reaches_nobody_and_the_connection_is_not_reused() {
    let bytes = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    let origin = misbehaving(bytes.as_bytes().to_vec(), false);
    let ringway = Setup::web(origin.address(), "").shards(1).start();
    let mut client = ringway.client();
    for number in 0..5 {
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer_to("HEAD").status, 200);
        assert_eq!(origin.next_request().connection, number);
    }
    ringway.stop();
}

#[test]
fn bytes_that_come_while_a_connection_is_idle_are_not_taken_for_an_answer() {
    let (answered, poisoned) = (Gate::new(), Gate::new());
    let (heard, sent) = (answered.clone(), poisoned.clone());
    let origin = Origin::start(move |conn| {
        conn.request();
        conn.send(ok("good"));
        heard.pass();
        conn.send(ok("poison"));
        sent.open();
        while conn.request().is_some() {
            conn.send(ok("reused"));
        }
    });
    let ringway = Setup::web(origin.address(), "").shards(1).start();
    let mut client = ringway.client();
    for _ in 0..20 {
        assert_eq!(client.get("/").text(), "good");
        // The next request is sent when the bytes are there: later than that nobody could tell.
        answered.open();
        poisoned.pass();
    }
    ringway.stop();
}

#[test]
fn a_status_line_without_a_reason_is_accepted() {
    let origin = Origin::answering(|_| b"HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\nx".to_vec());
    let ringway = Setup::web(origin.address(), "").start();
    assert_eq!(ringway.get("/").text(), "x");
    ringway.stop();
}

#[test]
fn every_header_value_of_an_answer_is_passed_on_in_order() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nX-One: 1\r\nSet-Cookie: b=2\r\nset-cookie: c=3\r\nContent-Length: 0\r\n\r\n"
            .to_vec()
    });
    let ringway = Setup::web(origin.address(), "").start();
    let answer = ringway.get("/");
    assert_eq!(
        ringway_wire::headers_of(&answer.head.headers, "set-cookie"),
        ["a=1", "b=2", "c=3"]
    );
    ringway.stop();
}
