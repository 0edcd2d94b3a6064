//! Deadlines and connection limits. Each is set short here and everything else is left at its default
//! of many seconds, so that whatever ends the wait is the deadline under test.

use ringway_wire::{Client, Gate, Origin, Port, Setup, eventually, ok};

#[test]
fn a_head_that_does_not_become_complete_in_time_is_answered_408_and_closed() {
    let origin = Origin::answering(|_| ok(""));
    let setup = Setup::web(origin.address(), "").listener("read_header_timeout: 200ms");
    let ringway = setup.start();
    for begun in [
        "G",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y",
    ] {
        let mut client = ringway.client();
        client.send(begun);
        let answer = client.answer();
        assert_eq!(
            (answer.status, answer.header("connection")),
            (408, Some("close")),
            "{begun:?}"
        );
        client.assert_closed();
    }
    // A second request of a connection has the same deadline.
    let mut client = ringway.client();
    assert_eq!(client.get("/").status, 200);
    client.send("GET / HT");
    assert_eq!(client.answer().status, 408);
    client.assert_closed();
    assert_eq!(origin.requests().len(), 1);
    ringway.stop();
}

#[test]
fn bytes_that_trickle_in_do_not_extend_the_head_deadline() {
    let origin = Origin::answering(|_| ok(""));
    let setup = Setup::web(origin.address(), "").listener("read_header_timeout: 200ms");
    let ringway = setup.start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
    let mut writer = client.writer();
    let trickle = std::thread::spawn(move || {
        use std::io::Write;
        eventually("the connection is closed", || {
            writer.write_all(b"x").is_err().then_some(())
        });
    });
    assert_eq!(client.answer().status, 408);
    client.assert_closed();
    drop(client);
    trickle.join().expect("the writer ends");
    ringway.stop();
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let origin = Origin::answering(|_| ok("x"));
    let setup = Setup::web(origin.address(), "").listener("idle_timeout: 200ms");
    let ringway = setup.start();
    let mut client = ringway.client();
    assert_eq!(client.get("/").text(), "x");
    client.assert_closed();
    ringway.stop();
}

#[test]
fn a_request_body_without_progress_is_answered_408_and_ends_the_request_at_the_origin() {
    let origin = Origin::start(|conn| {
        conn.head();
        conn.until_closed();
    });
    let setup = Setup::web(origin.address(), "").listener("body_progress_timeout: 200ms");
    let ringway = setup.start();
    for framing in ["Content-Length: 9", "Transfer-Encoding: chunked"] {
        let mut client = ringway.client();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n5\r\nab"
        ));
        let answer = client.answer();
        assert_eq!(
            (answer.status, answer.header("connection")),
            (408, Some("close")),
            "{framing}"
        );
        client.assert_closed();
        origin.next_close();
    }
    ringway.stop();
}

#[test]
fn a_client_that_does_not_take_its_answer_is_let_go() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut chunk = b"10000\r\n".to_vec();
        chunk.extend([b'x'; 0x10000]);
        chunk.extend(b"\r\n");
        while conn.send(&chunk) {}
        conn.until_closed();
    });
    let setup = Setup::web(origin.address(), "").listener("body_progress_timeout: 200ms");
    let ringway = setup.start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().0, 200);
    origin.next_close();
    ringway.stop();
}

#[test]
fn an_origin_that_does_not_answer_in_time_is_answered_504() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.until_closed();
    });
    let ringway = Setup::web(origin.address(), "timeout: 200ms").start();
    for _ in 0..2 {
        let mut client = ringway.client();
        let answer = client.get("/");
        assert_eq!(answer.status, 504);
        origin.next_close();
        match answer.header("connection") {
            Some("close") => client.assert_closed(),
            _ => assert_eq!(client.get("/trickster/ping").status, 200),
        }
    }
    assert_eq!(origin.requests().len(), 2, "nothing is sent twice");
    ringway.stop();
}

#[test]
fn an_answer_that_stops_midway_is_cut_visibly_at_the_deadline() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        conn.until_closed();
    });
    let ringway = Setup::web(origin.address(), "timeout: 300ms").start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().0, 200);
    assert_eq!(client.rest(), b"half");
    origin.next_close();
    ringway.stop();
}

#[test]
fn an_origin_that_refuses_connections_is_answered_502() {
    let port = Port::claim();
    let ringway = Setup::web(port.address(), "").start();
    let mut client = ringway.client();
    for _ in 0..3 {
        let answer = client.get("/");
        assert_eq!((answer.status, answer.body.as_slice()), (502, &b""[..]));
    }
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.answer().status, 502);
    ringway.stop();
}

#[test]
fn an_origin_that_never_accepts_is_given_up_at_the_deadline() {
    // A full backlog: the kernel then drops further connection attempts.
    let port = Port::claim();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    socket
        .bind(&port.address().into())
        .expect("the port is claimed");
    socket.listen(0).expect("a listener");
    let mut held = Vec::new();
    for _ in 0..4 {
        let attempt = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let attempt = attempt.expect("a socket");
        attempt.set_nonblocking(true).expect("an open socket");
        // In progress, or accepted into the backlog: either fills it.
        drop(attempt.connect(&port.address().into()));
        held.push(attempt);
    }
    let ringway = Setup::web(port.address(), "timeout: 300ms").start();
    let status = ringway.get("/").status;
    assert!(matches!(status, 502 | 504), "{status}");
    ringway.stop();
}

#[test]
fn connections_beyond_the_limit_wait_or_are_closed_and_room_is_used_again() {
    let origin = Origin::answering(|_| ok("x"));
    let setup = Setup::web(origin.address(), "")
        .listener("connections_limit: 4")
        .shards(1);
    let ringway = setup.start();
    let mut served: Vec<Client> = (0..4).map(|_| ringway.client()).collect();
    for client in &mut served {
        assert_eq!(client.get("/").text(), "x");
    }
    let active = ringway.metric("trickster_proxy_active_connections", &[]);
    assert_eq!(active, Some(4.0));
    let mut late: Vec<Client> = (0..8)
        .filter_map(|_| Client::try_connect(ringway.address()).ok())
        .collect();
    for client in &mut late {
        drop(client.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    assert_eq!(served[0].get("/").text(), "x", "those inside are served on");
    let active = ringway.metric("trickster_proxy_active_connections", &[]);
    assert!(active <= Some(4.0), "{active:?}");
    drop((served, late));
    eventually("there is room again", || {
        let mut client = Client::try_connect(ringway.address()).ok()?;
        client.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").ok()?;
        client.try_answer_to("GET").ok()
    });
    ringway.stop();
}

#[test]
fn a_stalled_request_does_not_hold_up_others_on_the_same_shard() {
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::start(move |conn| {
        while let Some(request) = conn.request() {
            if request.target == "/stall" {
                wait.pass();
            }
            conn.send(ok(&request.target));
        }
    });
    let ringway = Setup::web(origin.address(), "").shards(1).start();
    let mut stalled = ringway.client();
    stalled.send("GET /stall HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.next_request();
    for _ in 0..20 {
        assert_eq!(ringway.get("/quick").text(), "/quick");
    }
    gate.open();
    assert_eq!(stalled.answer().text(), "/stall");
    ringway.stop();
}
