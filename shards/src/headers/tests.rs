//! Heads as origins and clients get them.

use std::time::Duration;

use ringway_io::net::http1::{HeadLimits, Method, Parsed};

use super::*;
use crate::plan::{OriginProvider, Scheme};

fn origin(forwarded: ForwardedHeaders) -> Origin {
    Origin {
        provider: OriginProvider::ReverseProxy,
        scheme: Scheme::Http,
        host: "origin".into(),
        port: 9090,
        authority: "origin:9090".into(),
        path_prefix: "/base".into(),
        tls: None,
        peer_key: "http://origin".into(),
        timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(10),
        keep_alive_timeout: Duration::from_secs(120),
        idle_max: 20,
        connections_max: 20,
        forwarded,
        injected_labels: Vec::new(),
    }
}

/// The lines of the request as an origin gets it.
fn sent(client: &str, head_text: &str, forwarded: ForwardedHeaders) -> Vec<String> {
    let bytes = head_text.as_bytes();
    let mut head = RequestHead::new();
    let parsed = head
        .parse(bytes, &HeadLimits::default())
        .expect("a good head");
    assert_eq!(parsed, Parsed::Complete(bytes.len()));
    let hop = Hop {
        server_name: "rw",
        client: client.parse().expect("an address"),
        client_tls: false,
    };
    let asks = Outgoing {
        method: head.method_text(bytes),
        path: head.path(bytes),
        query: head.query(bytes),
        framing: head.framing(),
        upgrade: head.upgrade(),
        expect_continue: false,
        remade: None,
    };
    let mut out = Vec::new();
    request(&mut out, (&head, bytes), &origin(forwarded), &hop, &asks);
    let text = String::from_utf8(out).expect("ASCII");
    let text = text
        .strip_suffix("\r\n\r\n")
        .expect("one empty line ends the head");
    text.split("\r\n").map(str::to_owned).collect()
}

#[test]
fn hop_by_hop_headers_and_those_connection_names_stay() {
    let lines = sent(
        "192.0.2.1",
        "GET /a?b=c HTTP/1.1\r\nHost: x\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n\
         TE: trailers\r\nProxy-Authorization: secret\r\nX-Other: 1\r\nX-Other: 2\r\n\r\n",
        ForwardedHeaders::Standard,
    );
    assert_eq!(
        lines,
        [
            "GET /base/a?b=c HTTP/1.1",
            "Host: origin:9090",
            "X-Other: 1",
            "X-Other: 2",
            "Forwarded: by=rw;for=192.0.2.1;host=x;proto=http",
            "Via: 1.1 rw",
        ]
    );
}

#[test]
fn earlier_hops_are_kept_in_each_form() {
    let with_x = "GET / HTTP/1.1\r\nHost: h:1\r\nX-Forwarded-For: 198.51.100.7, bogus\r\n\r\n";
    let standard = sent("2001:db8::1", with_x, ForwardedHeaders::Standard);
    let expected =
        "Forwarded: for=198.51.100.7, by=rw;for=\"[2001:db8::1]\";host=\"h:1\";proto=http";
    assert_eq!(standard[2], expected);
    let x = sent("192.0.2.1", with_x, ForwardedHeaders::X);
    assert_eq!(x[2], "X-Forwarded-For: 198.51.100.7, bogus, 192.0.2.1");
    assert_eq!(x[3], "X-Forwarded-Host: h:1");
    assert_eq!(x[4], "X-Forwarded-Proto: http");
    let none = sent("192.0.2.1", with_x, ForwardedHeaders::None);
    assert_eq!(none[2], "X-Forwarded-For: 198.51.100.7, bogus");
    assert_eq!(none[3], "Via: 1.1 rw");
}

#[test]
fn an_upgrade_is_asked_for_anew() {
    let lines = sent(
        "192.0.2.1",
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
        ForwardedHeaders::None,
    );
    assert_eq!(
        lines[2..],
        ["Via: 1.1 rw", "Connection: upgrade", "Upgrade: websocket"]
    );
}

#[test]
fn an_answer_gets_one_framing_and_its_result() {
    let bytes =
        b"HTTP/1.1 404 Gone Fishing\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nConnection: close\r\n\
                  Transfer-Encoding: chunked\r\n\r\n";
    let mut head = ResponseHead::new();
    let parsed = head
        .parse(bytes, Method::Get, &HeadLimits::default())
        .expect("a good head");
    assert_eq!(parsed, Parsed::Complete(bytes.len()));
    let frame = Frame {
        method: Method::Get,
        version: Version::Http11,
        keep: true,
    };
    let relay = Relay {
        framing: BodyFraming::Chunked,
        declared_length: None,
        frame,
    };
    let mut out = Vec::new();
    response(&mut out, (&head, bytes), "rw", &relay);
    assert_eq!(
        String::from_utf8(out).expect("ASCII"),
        "HTTP/1.1 404 Gone Fishing\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nVia: 1.1 rw\r\n\
         X-Trickster-Result: engine=HTTPProxy; status=proxy-error\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
}
