//! Upgrades: after 101 both directions are passed on as they are, each to its own end.

use ringway_wire::{Client, Conn, Event, Origin, Setup, ok};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";

/// Answers an upgrade request with 101 and goes on with `script`.
fn tunnelling(script: impl Fn(&mut Conn) + Send + Sync + 'static) -> Origin {
    Origin::start(move |conn| {
        let Some(request) = conn.request() else {
            return;
        };
        assert_eq!(request.header("upgrade"), Some("websocket"));
        assert_eq!(
            request
                .header("connection")
                .map(str::to_ascii_lowercase)
                .as_deref(),
            Some("upgrade")
        );
        conn.send(SWITCH);
        script(conn);
    })
}

#[track_caller]
fn upgraded(client: &mut Client) {
    let answer = client.answer();
    assert_eq!(answer.status, 101);
    assert_eq!(answer.header("upgrade"), Some("websocket"));
    assert_eq!(answer.header("sec-websocket-accept"), Some("x"));
    let connection = answer
        .header("connection")
        .unwrap_or_default()
        .to_ascii_lowercase();
    assert_eq!(connection, "upgrade");
}

#[test]
fn an_upgraded_connection_passes_bytes_both_ways_unchanged() {
    let origin = tunnelling(|conn| {
        loop {
            let some = conn.some();
            if some.is_empty() || !conn.send(some) {
                return;
            }
        }
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    upgraded(client.send(UPGRADE));
    for message in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\0\x01\xff\r\n",
        &[7; 100_000],
    ] {
        client.send(message);
        assert_eq!(client.bytes(message.len()), message);
    }
    client.half_close();
    client.assert_closed();
    ringway.stop();
}

#[test]
fn bytes_sent_right_behind_the_upgrade_request_are_passed_on() {
    let origin = tunnelling(|conn| {
        let mut seen = Vec::new();
        while seen.len() < 5 {
            seen.extend(conn.some());
        }
        conn.send(seen);
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    upgraded(client.send(format!("{UPGRADE}early")));
    assert_eq!(client.rest(), b"early");
    drop(client);
    ringway.stop();
}

#[test]
fn bytes_sent_right_behind_101_are_passed_on() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send(format!("{SWITCH}hello"));
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    upgraded(client.send(UPGRADE));
    assert_eq!(client.rest(), b"hello");
    drop(client);
    ringway.stop();
}

#[test]
fn a_client_that_has_said_everything_still_hears_the_origin() {
    let origin = tunnelling(|conn| {
        let all = conn.until_closed();
        for part in all.chunks(3) {
            conn.send(part);
        }
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    upgraded(client.send(UPGRADE));
    client.send("everything there is to say");
    client.half_close();
    assert_eq!(client.rest(), b"everything there is to say");
    ringway.stop();
}

#[test]
fn an_origin_that_has_said_everything_still_hears_the_client() {
    let origin = tunnelling(|conn| {
        conn.send("bye");
        conn.half_close();
        let heard = conn.until_closed();
        conn.report(Event::Heard(heard));
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    upgraded(client.send(UPGRADE));
    assert_eq!(client.rest(), b"bye");
    client.send("still here");
    client.half_close();
    assert_eq!(origin.next_heard(), b"still here");
    ringway.stop();
}

#[test]
fn a_reset_on_one_side_of_a_tunnel_ends_the_other() {
    let origin = tunnelling(|conn| {
        conn.until_closed();
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    upgraded(client.send(UPGRADE));
    client.reset();
    origin.next_close();

    let origin = tunnelling(|conn| conn.reset_at_end());
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    upgraded(client.send(UPGRADE));
    client.assert_closed();
    ringway.stop();
}

#[test]
fn an_upgrade_that_the_origin_declines_is_an_ordinary_answer() {
    let origin = Origin::answering(|request| ok(&request.target));
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    assert_eq!(client.send(UPGRADE).answer().text(), "/chat");
    assert_eq!(
        client.get("/next").text(),
        "/next",
        "the connection stays usable"
    );
    ringway.stop();
}

#[test]
fn a_101_that_nobody_asked_for_is_answered_502() {
    let origin = Origin::start(|conn| {
        if conn.request().is_some() {
            conn.send(SWITCH);
            conn.until_closed();
        }
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    assert_eq!(client.get("/").status, 502);
    origin.next_close();
    ringway.stop();
}

#[test]
fn an_upgrade_from_http_1_0_is_ignored() {
    let origin = Origin::answering(|request| ok(request.header("upgrade").unwrap_or("none")));
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.answer().text(), "none");
    ringway.stop();
}
