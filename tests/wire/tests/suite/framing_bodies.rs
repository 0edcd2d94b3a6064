//! Bodies: both framings in both directions, trailers, interim answers, answers without a body, and
//! bodies far larger than what may be kept in memory.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ringway_wire::{Framing, Gate, Origin, Setup, eventually, headers_of, ok};

#[test]
fn a_chunked_request_arrives_whole_with_its_trailers() {
    let origin = Origin::answering(|request| ok(&request.body));
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n");
    client.send("3\r\nabc\r\nA\r\n0123456789\r\n0000\r\nT: v\r\nU: w\r\n\r\n");
    assert_eq!(client.answer().text(), "abc0123456789");
    let request = origin.next_request();
    assert_eq!(request.framing, Framing::Chunked);
    assert_eq!(headers_of(&request.trailers, "t"), ["v"]);
    assert_eq!(headers_of(&request.trailers, "u"), ["w"]);
    assert_eq!(
        client.get("/next").status,
        200,
        "the connection stays usable"
    );
    ringway.stop();
}

#[test]
fn a_trailer_cannot_change_framing_or_routing() {
    let origin = Origin::answering(|request| ok(&request.body));
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n");
    client.send("Content-Length: 7\r\nTransfer-Encoding: chunked\r\nHost: b\r\nT: v\r\n\r\n");
    // Refused or dropped: both keep the origin from ever seeing them.
    let status = client.answer().status;
    assert!(matches!(status, 200 | 400), "{status}");
    for request in origin.requests() {
        for name in ["content-length", "transfer-encoding", "host"] {
            assert!(headers_of(&request.trailers, name).is_empty(), "{name}");
        }
    }
    ringway.stop();
}

#[test]
fn a_request_with_a_length_arrives_with_that_length() {
    let origin = Origin::answering(|request| ok(&request.body));
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    let body = vec![b'x'; 300_000];
    client.send(format!(
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(&body);
    assert_eq!(client.answer().body, body);
    let request = origin.next_request();
    assert_eq!(
        (request.framing, request.body.len()),
        (Framing::Length, body.len())
    );
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.answer().body, b"");
    assert_eq!(origin.next_request().header("content-length"), Some("0"));
    ringway.stop();
}

#[test]
fn a_get_with_a_body_keeps_it() {
    let origin = Origin::answering(|request| ok(&request.body));
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.answer().text(), "abc");
    ringway.stop();
}

#[test]
fn a_chunked_answer_is_passed_on_as_it_comes_with_its_trailers() {
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
        wait.pass();
        conn.send("6\r\nsecond\r\n0\r\nT: v\r\nSum: 1\r\n\r\n");
        conn.request();
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
    let (status, head) = client.head();
    assert_eq!(
        (status, headers_of(&head.headers, "transfer-encoding")),
        (200, vec!["chunked"])
    );
    // The origin says nothing more before the first part has reached the client.
    assert_eq!(client.chunk(), b"first");
    gate.open();
    assert_eq!(client.chunk(), b"second");
    let end = b"0\r\nT: v\r\nSum: 1\r\n\r\n";
    assert_eq!(client.bytes(end.len()), end);
    ringway.stop();
}

#[test]
fn a_request_body_is_passed_on_as_it_comes() {
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.head();
        let mut seen = Vec::new();
        while !seen.windows(5).any(|window| window == b"first") {
            seen.extend(conn.some());
        }
        wait.open();
        while !seen.ends_with(b"0\r\n\r\n") {
            seen.extend(conn.some());
        }
        conn.send(ok("done"));
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    // The rest is sent only when the first part has reached the origin alone.
    gate.pass();
    client.send("6\r\nsecond\r\n0\r\n\r\n");
    assert_eq!(client.answer().text(), "done");
    ringway.stop();
}

#[test]
fn a_body_that_ends_with_the_connection_reaches_the_client_whole() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\n\r\nuntil the end");
    });
    let ringway = Setup::web(origin.address(), "").start();
    assert_eq!(ringway.get("/").text(), "until the end");
    ringway.stop();
}

#[test]
fn an_answer_of_an_http_1_0_origin_reaches_the_client_whole() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send("HTTP/1.0 200 OK\r\nX: y\r\n\r\nold");
    });
    let ringway = Setup::web(origin.address(), "").start();
    let answer = ringway.get("/");
    assert_eq!(
        (answer.text().as_str(), answer.head.start.as_str()),
        ("old", "HTTP/1.1 200 OK")
    );
    ringway.stop();
}

#[test]
fn a_chunked_answer_to_an_http_1_0_client_ends_with_the_connection() {
    let origin = Origin::answering(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: v\r\n\r\n"
            .to_vec()
    });
    let ringway = Setup::web(origin.address(), "").start();
    for headers in ["", "Connection: keep-alive\r\n"] {
        let mut client = ringway.client();
        client.send(format!("GET / HTTP/1.0\r\n{headers}\r\n"));
        let answer = client.answer();
        assert_eq!(answer.text(), "abc");
        assert_eq!(answer.header("transfer-encoding"), None);
        assert!(
            matches!(answer.framing, Framing::Close | Framing::Length),
            "{:?}",
            answer.framing
        );
    }
    ringway.stop();
}

#[test]
fn answers_that_have_no_body_leave_the_connection_usable() {
    let origin = Origin::answering(|request| match request.target.as_str() {
        "/204" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        "/304" => b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: \"a\"\r\n\r\n".to_vec(),
        "/chunked" => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n".to_vec(),
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    let rows = [
        ("GET", "/204", 204),
        ("GET", "/304", 304),
        ("HEAD", "/", 200),
        ("HEAD", "/chunked", 200),
        ("HEAD", "/304", 304),
    ];
    for (method, path, status) in rows {
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answer = client.answer_to(method);
        assert_eq!(answer.status, status, "{method} {path}");
        if path == "/" {
            assert_eq!(
                answer.header("content-length"),
                Some("7"),
                "{method} {path}"
            );
        }
        if status == 204 {
            assert_eq!(answer.header("content-length"), None);
            assert_eq!(answer.header("transfer-encoding"), None);
        }
    }
    assert_eq!(origin.requests().len(), rows.len());
    ringway.stop();
}

#[test]
fn interim_answers_are_relayed_to_an_http_1_1_client_only() {
    let origin = Origin::answering(|_| {
        let mut answer = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec();
        answer.extend_from_slice(b"HTTP/1.1 102 Processing\r\n\r\n");
        answer.extend(ok("final"));
        answer
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (status, hint) = client.head();
    assert_eq!(
        (status, headers_of(&hint.headers, "link")),
        (103, vec!["</a>"])
    );
    assert_eq!(client.head().0, 102);
    assert_eq!(client.answer().text(), "final");
    assert_eq!(client.get("/again").text(), "final");

    let mut old = ringway.client();
    old.send("GET / HTTP/1.0\r\n\r\n");
    let (status, _) = old.head();
    assert_eq!(status, 200, "an HTTP/1.0 client knows no interim answers");
    ringway.stop();
}

#[test]
fn a_client_that_expects_100_continue_gets_it_and_its_body_arrives() {
    let origin = Origin::start(|conn| {
        while let Some(mut request) = conn.head() {
            if request.header("expect").is_some() && !conn.send("HTTP/1.1 100 Continue\r\n\r\n") {
                return;
            }
            if conn.body(&mut request).is_none() || !conn.send(ok(&request.body)) {
                return;
            }
        }
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    for _ in 0..2 {
        client.send(
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
        );
        assert_eq!(client.head().0, 100, "the body is not sent before this");
        client.send("body");
        let (status, head) = client.head();
        assert_eq!(
            (status, headers_of(&head.headers, "content-length")),
            (200, vec!["4"])
        );
        assert_eq!(client.bytes(4), b"body");
    }
    // A client that does not wait is served as well.
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody",
    );
    assert_eq!(client.answer().text(), "body");
    ringway.stop();
}

#[test]
fn an_origin_that_answers_before_the_body_is_heard_at_once() {
    let origin = Origin::start(|conn| {
        if conn.head().is_some() {
            conn.send(
                "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig",
            );
            conn.until_closed();
        }
    });
    let ringway = Setup::web(origin.address(), "").start();
    for expect in ["Expect: 100-continue\r\n", ""] {
        let mut client = ringway.client();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{expect}Content-Length: 1000000\r\n\r\n"
        ));
        let answer = client.answer();
        assert_eq!((answer.status, answer.text().as_str()), (413, "big"));
        origin.next_close();
        // The rest of the body can no longer be told from a request: closed, not answered again.
        drop(client.try_send("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.assert_closed();
    }
    assert!(origin.requests().is_empty());
    ringway.stop();
}

#[test]
fn a_large_answer_waits_for_a_slow_client_in_bounded_memory() {
    const BYTES: u64 = 200 << 20;
    let sent = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sent);
    let origin = Origin::start(move |conn| {
        let block = vec![b'x'; 256 << 10];
        while conn.request().is_some() {
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"
            ));
            for _ in 0..BYTES / block.len() as u64 {
                if !conn.send(&block) {
                    return;
                }
                count.fetch_add(block.len() as u64, Ordering::Relaxed);
            }
        }
    });
    let ringway = Setup::web(origin.address(), "").start();
    assert_eq!(ringway.get("/trickster/ping").status, 200);
    let (before, _) = ringway.resident_kib();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().0, 200);
    let mut last = (0, 0);
    eventually("the origin is held back", || {
        let now = sent.load(Ordering::Relaxed);
        last = if now == last.0 {
            (now, last.1 + 1)
        } else {
            (now, 0)
        };
        (last.1 > 20).then_some(())
    });
    assert!(
        last.0 < BYTES / 2,
        "{} MiB were taken for a client that reads nothing",
        last.0 >> 20
    );
    client.skip(BYTES);
    let (_, peak) = ringway.resident_kib();
    assert!(
        peak < before + 30 * 1024,
        "memory grew from {before} to {peak} KiB"
    );
    ringway.stop();
}

#[test]
fn a_large_request_waits_for_a_slow_origin_in_bounded_memory() {
    const BYTES: u64 = 200 << 20;
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.head();
        wait.pass();
        let mut seen = 0;
        while seen < BYTES {
            let some = conn.some();
            if some.is_empty() {
                return;
            }
            seen += some.len() as u64;
        }
        conn.send(ok(seen.to_string()));
    });
    let setup =
        Setup::web(origin.address(), "").listener("max_request_body_size_bytes: 1073741824");
    let ringway = setup.start();
    assert_eq!(ringway.get("/trickster/ping").status, 200);
    let (before, _) = ringway.resident_kib();
    let mut client = ringway.client();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n"
    ));
    let sent = Arc::new(AtomicU64::new(0));
    let (mut writer, count) = (client.writer(), Arc::clone(&sent));
    let upload = thread::spawn(move || {
        let block = vec![b'x'; 256 << 10];
        for _ in 0..BYTES / block.len() as u64 {
            writer.write_all(&block).expect("the upload is taken");
            count.fetch_add(block.len() as u64, Ordering::Relaxed);
        }
    });
    let mut last = (0, 0);
    eventually("the client is held back", || {
        let now = sent.load(Ordering::Relaxed);
        last = if now == last.0 {
            (now, last.1 + 1)
        } else {
            (now, 0)
        };
        (last.1 > 20).then_some(())
    });
    assert!(
        last.0 < BYTES / 2,
        "{} MiB were taken for an origin that reads nothing",
        last.0 >> 20
    );
    gate.open();
    assert_eq!(client.answer().text(), BYTES.to_string());
    upload.join().expect("the upload ends");
    let (_, peak) = ringway.resident_kib();
    assert!(
        peak < before + 30 * 1024,
        "memory grew from {before} to {peak} KiB"
    );
    ringway.stop();
}

#[test]
fn a_request_body_beyond_its_limit_is_refused_with_413() {
    let origin = Origin::answering(|request| ok(request.body.len().to_string()));
    let setup = Setup::web(origin.address(), "").listener("max_request_body_size_bytes: 1000");
    let ringway = setup.start();
    let mut client = ringway.client();
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
        .send([b'x'; 1000]);
    assert_eq!(client.answer().text(), "1000");
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n");
    assert_eq!(client.answer().status, 413);
    client.assert_closed();
    let mut client = ringway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n");
    drop(client.try_send([b'x'; 1001]));
    drop(client.try_send("\r\n0\r\n\r\n"));
    assert_eq!(client.answer().status, 413);
    client.assert_closed();
    assert_eq!(
        origin.requests().len(),
        1,
        "no more than the first arrived whole"
    );
    ringway.stop();
}
