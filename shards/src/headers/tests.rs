//! Heads as origins and clients get them.

use std::time::Duration;

use ringway_io::net::deadline::Watchdog;
use ringway_io::net::http1::{HeadLimits, Method, Parsed};

use super::*;
use crate::passage::tests::{backend, changing, enter};
use crate::plan::{Edit, Edits, OriginProvider, Scheme, Secret};

pub(crate) fn origin(forwarded: ForwardedHeaders) -> Origin {
    Origin {
        provider: OriginProvider::ReverseProxy,
        scheme: Scheme::Http,
        host: "origin".into(),
        port: 9090,
        authority: "origin:9090".into(),
        path_prefix: "/base".into(),
        tls: None,
        spare_tls: None,
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
    let web = backend(Vec::new());
    sent_by(&Passage::at(&web), (client, head_text), forwarded)
}

/// As [`sent`], for a request that came this way.
fn sent_by(
    passage: &Passage<'_>,
    (client, head_text): (&str, &str),
    forwarded: ForwardedHeaders,
) -> Vec<String> {
    sent_with(Claims::Keep, passage, (client, head_text), forwarded)
}

/// As [`sent_by`], with what is made of the client's claims.
fn sent_with(
    claims: Claims,
    passage: &Passage<'_>,
    (client, head_text): (&str, &str),
    forwarded: ForwardedHeaders,
) -> Vec<String> {
    let bytes = head_text.as_bytes();
    let mut head = RequestHead::new();
    let parsed = head
        .parse(bytes, &HeadLimits::default())
        .expect("a good head");
    assert_eq!(parsed, Parsed::Complete(bytes.len()));
    let hop = Hop {
        received: (&head, bytes),
        server: &Server::named("rw"),
        client: &Sender::at(client.parse().expect("an address")),
        client_tls: false,
        claims,
    };
    let asks = Outgoing {
        method: head.method_text(bytes),
        path: head.path(bytes),
        query: head.query(bytes),
        framing: head.framing(),
        upgrade: offers_upgrade(&head, bytes),
        expect_continue: false,
        remade: None,
        passage,
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
fn a_peer_is_believed_wholly_partly_or_not_at_all() {
    let text = "GET / HTTP/1.1\r\nHost: h\r\nForwarded: for=198.51.100.7\r\nX-Forwarded-For: 198.51.100.8\r\n\
                X-Forwarded-Host: public.test\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n\r\n";
    let web = backend(Vec::new());
    let lines = |claims, forwarded| {
        let lines = sent_with(claims, &Passage::at(&web), ("192.0.2.1", text), forwarded);
        let end = lines.len() - 1;
        lines[2..end].to_vec()
    };
    let own = "Forwarded: by=rw;for=192.0.2.1;host=h;proto=http";
    assert_eq!(lines(Claims::Drop, ForwardedHeaders::Standard), [own]);
    assert_eq!(
        lines(Claims::Drop, ForwardedHeaders::X),
        [
            "X-Forwarded-For: 192.0.2.1",
            "X-Forwarded-Host: h",
            "X-Forwarded-Proto: http"
        ]
    );
    assert!(lines(Claims::Drop, ForwardedHeaders::None).is_empty());
    assert_eq!(
        lines(Claims::Believe, ForwardedHeaders::X),
        [
            "X-Forwarded-Port: 443",
            "X-Forwarded-For: 198.51.100.8, 192.0.2.1",
            "X-Forwarded-Host: public.test",
            "X-Forwarded-Proto: https"
        ]
    );
    let standard = lines(Claims::Believe, ForwardedHeaders::Standard);
    assert_eq!(
        standard,
        ["Forwarded: for=198.51.100.7", "X-Forwarded-Port: 443", own]
    );
    assert_eq!(lines(Claims::Keep, ForwardedHeaders::Standard), standard);
    let x_only = text.replace("Forwarded: for=198.51.100.7\r\n", "");
    let passage = Passage::at(&web);
    let translated = |claims| {
        let asked = ("192.0.2.1", x_only.as_str());
        sent_with(claims, &passage, asked, ForwardedHeaders::Standard)[3].clone()
    };
    assert_eq!(
        translated(Claims::Believe),
        "Forwarded: for=198.51.100.8;host=public.test;proto=https, by=rw;for=192.0.2.1;host=h;proto=http"
    );
    assert_eq!(
        translated(Claims::Keep),
        "Forwarded: for=198.51.100.8, by=rw;for=192.0.2.1;host=h;proto=http"
    );
    assert_eq!(
        lines(Claims::Keep, ForwardedHeaders::X)[2..],
        ["X-Forwarded-Host: h", "X-Forwarded-Proto: http"]
    );
}

#[test]
fn hops_that_came_as_forwarded_are_told_in_the_older_form() {
    let text = "GET / HTTP/1.1\r\nHost: h\r\nForwarded: for=\"[2001:db8::7]:99\";proto=https;host=public.test\r\n\
                Forwarded: for=_hidden, for=198.51.100.7;proto=http;host=inner.test\r\n\r\n";
    let web = backend(Vec::new());
    let lines = |claims, forwarded, text: &str| {
        let lines = sent_with(claims, &Passage::at(&web), ("192.0.2.1", text), forwarded);
        let lines = lines.into_iter();
        let lines = lines.filter(|line| line.starts_with("X-Forwarded-"));
        lines.collect::<Vec<_>>()
    };
    let hops = "X-Forwarded-For: 2001:db8::7, 198.51.100.7, 192.0.2.1";
    let own = ["X-Forwarded-Host: h", "X-Forwarded-Proto: http"];
    for form in [ForwardedHeaders::X, ForwardedHeaders::Both] {
        assert_eq!(
            lines(Claims::Believe, form, text),
            [
                hops,
                "X-Forwarded-Host: public.test",
                "X-Forwarded-Proto: https"
            ]
        );
        assert_eq!(
            lines(Claims::Keep, form, text),
            [&[hops][..], &own].concat()
        );
        let dropped = [&["X-Forwarded-For: 192.0.2.1"][..], &own].concat();
        assert_eq!(lines(Claims::Drop, form, text), dropped);
    }
    // Who sends both forms is believed in the one that is asked for.
    let both = text.replace(
        "Host: h\r\n",
        "Host: h\r\nX-Forwarded-For: 198.51.100.8\r\n",
    );
    assert_eq!(
        lines(Claims::Believe, ForwardedHeaders::X, &both),
        [&["X-Forwarded-For: 198.51.100.8, 192.0.2.1"][..], &own].concat()
    );
}

#[test]
fn a_list_of_trusted_proxies_decides_whom_to_believe() {
    let peer = "10.0.0.9".parse().expect("an address");
    let network = |address: &str| Network {
        address: address.parse().expect("an address"),
        prefix: 24,
    };
    assert_eq!(Claims::of(None, peer), Claims::Keep);
    assert_eq!(Claims::of(Some(&[]), peer), Claims::Drop);
    let networks = [network("10.1.0.0"), network("10.0.0.0")];
    assert_eq!(Claims::of(Some(&networks), peer), Claims::Believe);
    assert_eq!(Claims::of(Some(&networks[..1]), peer), Claims::Drop);
}

#[test]
fn http2_is_never_offered_to_an_origin() {
    let with = |upgrade: &str| {
        let text = format!(
            "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\n\
             HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
        );
        sent("192.0.2.1", &text, ForwardedHeaders::None)
    };
    assert_eq!(with("h2c")[2..], ["Via: 1.1 rw"]);
    assert_eq!(
        with("H2C, websocket")[2..],
        ["Via: 1.1 rw", "Connection: upgrade", "Upgrade: websocket"]
    );
    let alone = "GET / HTTP/1.1\r\nHost: x\r\nHTTP2-Settings: AAMA\r\n\r\n";
    let lines = sent("192.0.2.1", alone, ForwardedHeaders::None);
    assert_eq!(lines[2..], ["Via: 1.1 rw"]);
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
fn rules_have_the_final_say_but_not_about_framing() {
    let edits = Edits {
        request_headers: vec![
            Edit::set("host", "other.test"),
            Edit::set("x-a", "2"),
            Edit::set("Via", "nobody"),
            Edit::set("X-Forwarded-Proto", "https"),
            Edit::set("Content-Length", "7"),
            Edit::set("Connection", "x-a"),
            Edit::set("Transfer-Encoding", "chunked"),
            Edit::set("Proxy-Authorization", "x"),
        ],
        ..Edits::default()
    };
    let web = backend(vec![changing(edits)]);
    let mut passage = Passage::at(&web);
    let text = "GET / HTTP/1.1\r\nHost: x\r\nX-A: 1\r\nX-A: 1\r\nX-B: 1\r\n\r\n";
    enter(&mut passage, text).expect("a rule");
    let lines = sent_by(&passage, ("192.0.2.1", text), ForwardedHeaders::None);
    assert_eq!(
        lines[1..],
        [
            "Host: other.test",
            "X-B: 1",
            "x-a: 2",
            "Via: nobody",
            "X-Forwarded-Proto: https"
        ]
    );
}

#[test]
fn credentials_pass_stay_or_are_others() {
    let web = backend(Vec::new());
    let text = "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic old\r\n\r\n";
    let cases: [(Credentials, &[&str]); 3] = [
        (Credentials::Keep, &["Authorization: Basic old"]),
        (Credentials::Remove, &[]),
        (
            Credentials::Replace(Secret::new("Basic new")),
            &["Authorization: Basic new"],
        ),
    ];
    for (credentials, expected) in cases {
        let mut passage = Passage::at(&web);
        passage.credentials = credentials;
        let lines = sent_by(&passage, ("192.0.2.1", text), ForwardedHeaders::None);
        let found: Vec<&String> = lines
            .iter()
            .filter(|l| l.starts_with("Authorization"))
            .collect();
        assert_eq!(found, expected);
    }
}

/// An answer's head as the client gets it, from an origin's.
fn answered(passage: &Passage<'_>, bytes: &[u8], relay: impl Fn(&mut Relay<'_>)) -> String {
    let mut head = ResponseHead::new();
    let parsed = head
        .parse(bytes, Method::Get, &HeadLimits::default())
        .expect("a good head");
    assert_eq!(parsed, Parsed::Complete(bytes.len()));
    let client_bytes = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut client = RequestHead::new();
    client
        .parse(client_bytes, &HeadLimits::default())
        .expect("a good head");
    let places = Places::default();
    let mut how = Relay {
        status: head.status(),
        framing: BodyFraming::Chunked,
        declared_length: None,
        frame: Frame {
            method: Method::Get,
            version: Version::Http11,
            keep: true,
        },
        body: None,
        client: (&client, client_bytes),
        compressors: &places,
        front: passage.front(),
    };
    relay(&mut how);
    let mut out = Vec::new();
    let dog = Watchdog::new(Duration::from_millis(5));
    response(
        &mut out,
        (&head, bytes),
        (&Server::named("rw"), &Clock::new(&dog)),
        &how,
    );
    let text = String::from_utf8(out).expect("ASCII");
    let (before, after) = text.split_once("Date: ").expect("a date");
    let (date, after) = after.split_once("\r\n").expect("it ends");
    assert!(date.ends_with(" GMT"), "{date}");
    format!("{before}{after}")
}

#[test]
fn another_body_is_not_described_by_the_origins_headers() {
    let edits = Edits {
        response_headers: vec![Edit::set("ETag", "\"mine\"")],
        ..Edits::default()
    };
    let web = backend(vec![changing(edits)]);
    let mut passage = Passage::at(&web);
    enter(&mut passage, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("a rule");
    let bytes = b"HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Encoding: gzip\r\nX-A: 1\r\n\
                  Last-Modified: x\r\nContent-MD5: x\r\nContent-Length: 9\r\n\r\n";
    let text = answered(&passage, bytes, |relay| {
        relay.status = 202;
        relay.framing = BodyFraming::None;
        relay.declared_length = Some(2);
        relay.body = Some(b"me");
    });
    assert_eq!(
        text,
        "HTTP/1.1 202 Accepted\r\nX-A: 1\r\nVia: 1.1 rw\r\n\
         X-Trickster-Result: engine=HTTPProxy; status=proxy-only\r\n\
         Access-Control-Allow-Origin: *\r\nETag: \"mine\"\r\nContent-Length: 2\r\n\r\n"
    );
}

#[test]
fn an_answer_gets_one_framing_and_its_result() {
    let bytes =
        b"HTTP/1.1 404 Gone Fishing\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nConnection: close\r\n\
                  Transfer-Encoding: chunked\r\n\r\n";
    let web = backend(Vec::new());
    assert_eq!(
        answered(&Passage::at(&web), bytes, |_| {}),
        "HTTP/1.1 404 Gone Fishing\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nVia: 1.1 rw\r\n\
         X-Trickster-Result: engine=HTTPProxy; status=proxy-error\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
}
