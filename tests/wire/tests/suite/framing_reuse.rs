//! Connections to origins: reused when clean, closed when not, retried only where that is safe, and
//! ended when the client is gone.

use ringway_wire::{Conn, Gate, Origin, Request, Setup, ok};

/// Serves the first request of the first connection, then closes it on the next without a byte.
/// Other connections serve everything.
fn dying_after_one() -> Origin {
    Origin::start(|conn| {
        if conn.request().is_none() || !conn.send(ok("first")) {
            return;
        }
        if conn.number == 0 {
            conn.request();
            return;
        }
        while conn.request().is_some() {
            conn.send(ok("again"));
        }
    })
}

#[test]
fn one_client_connection_reuses_one_origin_connection() {
    let origin = Origin::answering(|request| ok(request.connection.to_string()));
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    let numbers: Vec<_> = (0..20).map(|_| client.get("/").text()).collect();
    assert!(
        numbers.iter().all(|number| number == &numbers[0]),
        "{numbers:?}"
    );
    ringway.stop();
}

#[test]
fn an_idempotent_request_is_retried_when_a_reused_connection_dies_without_a_byte() {
    for method in ["GET", "HEAD", "OPTIONS", "DELETE", "PUT"] {
        let origin = dying_after_one();
        let ringway = Setup::web(origin.address(), "").start();
        let mut client = ringway.client();
        assert_eq!(client.get("/").text(), "first");
        client.send(format!(
            "{method} /b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(client.answer_to(method).status, 200, "{method}");
        let seen: Vec<_> = origin
            .requests()
            .iter()
            .map(|request| request.connection)
            .collect();
        assert_eq!(
            seen,
            [0, 0, 1],
            "{method}: once on the old connection, once on a new one"
        );
        ringway.stop();
    }
}

#[test]
fn a_request_that_is_not_idempotent_is_never_sent_twice() {
    for method in ["POST", "PATCH", "LOCK"] {
        let origin = dying_after_one();
        let ringway = Setup::web(origin.address(), "").start();
        let mut client = ringway.client();
        assert_eq!(client.get("/").text(), "first");
        client.send(format!(
            "{method} /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
        ));
        assert_eq!(client.answer().status, 502, "{method}");
        assert_eq!(origin.requests().len(), 2, "{method}");
        ringway.stop();
    }
}

#[test]
fn a_connection_closed_while_idle_is_not_used_for_the_next_request() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send(ok("once"));
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    for _ in 0..10 {
        assert_eq!(client.get("/").text(), "once");
    }
    // A POST as well: there is nothing to retry when the close was seen before it was sent.
    assert_eq!(origin.requests().len(), 10);
    ringway.stop();
}

#[test]
fn a_first_use_that_dies_without_a_byte_is_answered_502_and_not_retried() {
    let origin = Origin::start(|conn| {
        conn.request();
    });
    let ringway = Setup::web(origin.address(), "").start();
    assert_eq!(ringway.get("/").status, 502);
    assert_eq!(origin.requests().len(), 1);
    ringway.stop();
}

#[test]
fn a_reused_connection_that_dies_after_an_answer_byte_is_not_retried() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send(ok("first"));
        conn.request();
        conn.send("HTTP/1.1 2");
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    assert_eq!(client.get("/").text(), "first");
    assert_eq!(client.get("/").status, 502);
    assert_eq!(origin.requests().len(), 2);
    ringway.stop();
}

#[test]
fn an_origin_that_says_close_is_not_reused() {
    let origin = Origin::start(|conn| {
        while let Some(request) = conn.request() {
            let number = conn.number;
            let answer = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n{number}"
            );
            conn.send(answer);
            assert!(request.target == "/");
        }
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    let numbers: Vec<_> = (0..5).map(|_| client.get("/").text()).collect();
    assert_eq!(
        numbers,
        ["0", "1", "2", "3", "4"],
        "the client's own connection stays"
    );
    ringway.stop();
}

#[test]
fn a_client_that_goes_away_ends_the_request_at_the_origin() {
    // Closed while the origin thinks, and while it sends.
    let thinking = |conn: &mut Conn| {
        conn.request();
        conn.until_closed();
    };
    let sending = |conn: &mut Conn| {
        conn.request();
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n");
        conn.until_closed();
    };
    for (name, origin) in [
        ("thinking", Origin::start(thinking)),
        ("sending", Origin::start(sending)),
    ] {
        let ringway = Setup::web(origin.address(), "").start();
        for reset in [false, true] {
            let mut client = ringway.client();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            origin.next_request();
            if name == "sending" {
                assert_eq!(client.head().0, 200);
            }
            if reset {
                client.reset()
            } else {
                drop(client)
            }
            origin.next_close();
        }
        ringway.stop();
    }
}

#[test]
fn a_client_that_goes_away_inside_its_body_ends_the_request_at_the_origin() {
    let origin = Origin::start(|conn| {
        conn.head();
        conn.until_closed();
    });
    let ringway = Setup::web(origin.address(), "").start();
    for framing in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let mut client = ringway.client();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n3\r\nabc\r\n"
        ));
        origin.next_open();
        drop(client);
        origin.next_close();
    }
    assert!(origin.requests().is_empty());
    ringway.stop();
}

#[test]
fn a_client_that_only_stops_sending_still_gets_its_answer() {
    let gate = Gate::new();
    let wait = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.request();
        wait.pass();
        conn.send(ok("late"));
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx");
    origin.next_request();
    gate.open();
    assert_eq!(client.answer().text(), "late");
    client.assert_closed();
    ringway.stop();
}

#[test]
fn no_more_connections_than_allowed_are_open_to_an_origin_and_all_requests_are_served() {
    let open = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&open);
    let origin = Origin::start(move |conn| {
        use std::sync::atomic::Ordering::SeqCst;
        let now = count.fetch_add(1, SeqCst) + 1;
        while conn.request().is_some() {
            conn.send(ok(now.to_string()));
        }
        count.fetch_sub(1, SeqCst);
    });
    let ringway = Setup::web(origin.address(), "max_concurrent_conns: 2")
        .shards(1)
        .start();
    let mut clients: Vec<_> = (0..10).map(|_| ringway.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for client in &mut clients {
        let answer = client.answer();
        assert_eq!(answer.status, 200);
        let connections: usize = answer.text().parse().expect("a number");
        assert!(connections <= 2, "{connections} at once");
    }
    ringway.stop();
}

#[test]
fn the_origin_sees_its_own_host_name_and_one_request_line_form() {
    let origin = Origin::answering(|_: &Request| ok(""));
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client
        .send("GET http://front.test:99/a HTTP/1.1\r\nHost: front.test:99\r\n\r\n")
        .answer();
    let request = origin.next_request();
    assert_eq!(request.headers("host"), [origin.address().to_string()]);
    assert_eq!(
        (request.target.as_str(), request.version.as_str()),
        ("/a", "HTTP/1.1")
    );
    ringway.stop();
}
