//! One row per rule of the head grammar.

mod bounds;
mod refused;
mod response;
mod robustness;

use super::*;

/// Parses a whole request, or says why it is none.
fn request(text: &[u8]) -> Result<RequestHead, HeadError> {
    let mut head = RequestHead::new();
    match head.parse(text, &HeadLimits::default())? {
        Parsed::Complete(length) => {
            assert_eq!(length, text.len(), "{}", text.escape_ascii());
            Ok(head)
        }
        Parsed::Partial => panic!("incomplete: {}", text.escape_ascii()),
    }
}

/// A GET with these lines behind a valid Host.
fn get_with(lines: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
}

#[test]
fn gives_back_what_was_sent() {
    let text = b"POST /a/b?c=d&e HTTP/1.1\r\nHost: Example.org:8080\r\nX-Empty:\r\n\
        Content-Length:  12 \t\r\nCookie: a=b\r\ncookie: c=d\r\nX-Text: caf\xe9\r\n\r\n";
    let head = request(text).unwrap();
    assert_eq!(head.method(), Method::Post);
    assert_eq!(head.method_text(text), b"POST");
    assert_eq!(head.version(), Version::Http11);
    assert_eq!(head.target(text), b"/a/b?c=d&e");
    assert_eq!(head.target_form(), TargetForm::Origin);
    assert_eq!(head.path(text), b"/a/b");
    assert_eq!(head.query(text), Some(&b"c=d&e"[..]));
    assert_eq!(head.host(text), Some(&b"Example.org:8080"[..]));
    assert_eq!(head.authority(text), head.host(text));
    assert_eq!(head.framing(), BodyFraming::Length(12));
    assert_eq!(head.find(text, b"x-empty"), Some(&b""[..]));
    assert_eq!(head.find(text, b"X-TEXT"), Some(&b"caf\xe9"[..]));
    assert_eq!(head.first(text, KnownHeader::Cookie), Some(&b"a=b"[..]));
    assert_eq!(head.first(text, KnownHeader::Via), None);
    let names: Vec<&[u8]> = head.headers(text).map(|header| header.name).collect();
    let expected: [&[u8]; 6] = [
        b"Host",
        b"X-Empty",
        b"Content-Length",
        b"Cookie",
        b"cookie",
        b"X-Text",
    ];
    assert_eq!(names, expected);
    assert_eq!(head.headers(text).len(), 6);
}

#[test]
fn what_follows_the_head_is_left_alone() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /two HTTP/1.1\r\nHost: b\r\n\r\n\0\n";
    let limits = HeadLimits::default();
    let mut head = RequestHead::new();
    let Ok(Parsed::Complete(first)) = head.parse(text, &limits) else {
        panic!("first")
    };
    assert_eq!(head.host(text), Some(&b"a"[..]));
    let rest = &text[first..];
    let Ok(Parsed::Complete(second)) = head.parse(rest, &limits) else {
        panic!("second")
    };
    assert_eq!(head.path(rest), b"/two");
    assert_eq!(head.host(rest), Some(&b"b"[..]));
    assert_eq!(&rest[second..], b"\0\n");
}

#[test]
fn one_empty_line_may_come_first() {
    let text = b"\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n";
    let head = request(text).unwrap();
    assert_eq!(head.path(text), b"/x");
    assert_eq!(head.host(text), Some(&b"a"[..]));
}

#[test]
fn methods_are_known_by_name() {
    let rows: [(&str, Method, bool); 12] = [
        ("GET", Method::Get, true),
        ("HEAD", Method::Head, true),
        ("POST", Method::Post, false),
        ("PUT", Method::Put, true),
        ("DELETE", Method::Delete, true),
        ("OPTIONS", Method::Options, true),
        ("TRACE", Method::Trace, true),
        ("PATCH", Method::Patch, false),
        ("PURGE", Method::Purge, false),
        ("get", Method::Other, false),
        ("PROPFIND", Method::Other, false),
        ("M-SEARCH!", Method::Other, false),
    ];
    for (name, method, idempotent) in rows {
        let text = format!("{name} / HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
        let head = request(&text).unwrap();
        assert_eq!(head.method(), method, "{name}");
        assert_eq!(head.method_text(&text), name.as_bytes());
        assert_eq!(head.method().is_idempotent(), idempotent, "{name}");
    }
    assert!(!Method::Connect.is_idempotent());
}

type Target = (
    &'static str,
    TargetForm,
    &'static str,
    Option<&'static str>,
    &'static str,
);

/// Method and target; form, path, query, authority.
const TARGETS: [Target; 14] = [
    ("GET /", TargetForm::Origin, "/", None, "host"),
    ("GET //a//b", TargetForm::Origin, "//a//b", None, "host"),
    ("GET /?", TargetForm::Origin, "/", Some(""), "host"),
    (
        "GET /a?b?c/d",
        TargetForm::Origin,
        "/a",
        Some("b?c/d"),
        "host",
    ),
    (
        "GET /q?query=up{job=\"x\"}|`^",
        TargetForm::Origin,
        "/q",
        Some("query=up{job=\"x\"}|`^"),
        "host",
    ),
    (
        "GET http://o.example",
        TargetForm::Absolute,
        "/",
        None,
        "o.example",
    ),
    (
        "GET http://o.example/",
        TargetForm::Absolute,
        "/",
        None,
        "o.example",
    ),
    (
        "GET HTTP://o:81?x=/y",
        TargetForm::Absolute,
        "/",
        Some("x=/y"),
        "o:81",
    ),
    (
        "PUT https://[::1]:8/a?b",
        TargetForm::Absolute,
        "/a",
        Some("b"),
        "[::1]:8",
    ),
    ("OPTIONS *", TargetForm::Asterisk, "*", None, "host"),
    ("OPTIONS /", TargetForm::Origin, "/", None, "host"),
    ("OPTIONS http://o", TargetForm::Absolute, "/", None, "o"),
    (
        "CONNECT o.example:443",
        TargetForm::Authority,
        "",
        None,
        "o.example:443",
    ),
    (
        "CONNECT [2001:db8::1]:443",
        TargetForm::Authority,
        "",
        None,
        "[2001:db8::1]:443",
    ),
];

#[test]
fn targets_are_cut_into_parts() {
    for (line, form, path, query, authority) in TARGETS {
        let text = format!("{line} HTTP/1.1\r\nHost: host\r\n\r\n").into_bytes();
        let head = request(&text).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(head.target_form(), form, "{line}");
        assert_eq!(head.path(&text), path.as_bytes(), "{line}");
        assert_eq!(head.query(&text), query.map(str::as_bytes), "{line}");
        assert_eq!(head.authority(&text), Some(authority.as_bytes()), "{line}");
        assert_eq!(head.target_is_https(), line.contains("https"), "{line}");
    }
}

#[test]
fn hosts_that_are_accepted() {
    for host in [
        "a",
        "a.b-c_d.e",
        "10.0.0.1",
        "10.0.0.1:80",
        "[::1]",
        "[::ffff:1.2.3.4]:65535",
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
        let head = request(&text).unwrap_or_else(|error| panic!("{host}: {error}"));
        assert_eq!(head.host(&text), Some(host.as_bytes()));
    }
    let head = request(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(head.authority(b""), None);
}

#[test]
fn framing_of_requests() {
    let rows = [
        ("", BodyFraming::None),
        ("Content-Length: 0\r\n", BodyFraming::Length(0)),
        (
            "content-length: 18446744073709551615\r\n",
            BodyFraming::Length(u64::MAX),
        ),
        ("Content-Length: 007\r\n", BodyFraming::Length(7)),
        ("Transfer-Encoding: chunked\r\n", BodyFraming::Chunked),
        ("TRANSFER-ENCODING:\t cHuNkEd \r\n", BodyFraming::Chunked),
    ];
    for (lines, framing) in rows {
        assert_eq!(
            request(&get_with(lines)).unwrap().framing(),
            framing,
            "{lines}"
        );
    }
    let connect = b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(request(connect).unwrap().framing(), BodyFraming::None);
}

#[test]
fn connection_is_kept_or_not() {
    let rows = [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: keep-alive, CLOSE\r\n", false),
        ("1.1", "Connection: x\r\nConnection: , close ,\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ];
    for (version, lines, keep_alive) in rows {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n").into_bytes();
        assert_eq!(
            request(&text).unwrap().keep_alive(),
            keep_alive,
            "{version} {lines}"
        );
    }
}

#[test]
fn expectation_and_upgrade() {
    let head = request(&get_with("Expect: 100-Continue\r\n")).unwrap();
    assert!(head.expect_continue());
    let old =
        b"GET / HTTP/1.0\r\nExpect: 100-continue\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let head = request(old).unwrap();
    assert!(!head.expect_continue() && !head.upgrade());

    let text = get_with("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n");
    let head = request(&text).unwrap();
    assert!(head.upgrade());
    assert_eq!(
        head.first(&text, KnownHeader::Upgrade),
        Some(&b"websocket"[..])
    );
    for lines in [
        "Connection: upgrade\r\n",
        "Upgrade: websocket\r\n",
        "Upgrade:\r\nConnection: upgrade\r\n",
    ] {
        assert!(!request(&get_with(lines)).unwrap().upgrade(), "{lines}");
    }
}

#[test]
fn hop_by_hop_headers_are_marked() {
    let text = get_with(
        "Connection: close, X-Secret,x-other, host, content-length, bad name\r\nKeep-Alive: 5\r\n\
         TE: trailers\r\nX-SECRET: 1\r\nX-Other: 2\r\nX-Third: 3\r\nContent-Length: 0\r\n\
         Proxy-Connection: close\r\nTrailer: x\r\nProxy-Authorization: y\r\nUpgrade: z\r\n",
    );
    let head = request(&text).unwrap();
    let kept: Vec<&[u8]> = head
        .headers(&text)
        .filter(|header| !header.hop_by_hop)
        .map(|header| header.name)
        .collect();
    let expected: [&[u8]; 3] = [b"Host", b"X-Third", b"Content-Length"];
    assert_eq!(kept, expected);
    for (name, expected) in [
        ("x-secret", true),
        ("TE", true),
        ("x-third", false),
        ("host", false),
    ] {
        assert_eq!(
            head.is_hop_by_hop(&text, name.as_bytes()),
            expected,
            "{name}"
        );
    }
}

#[test]
fn known_headers_are_told_apart_in_any_case() {
    let rows: [(&str, KnownHeader); 26] = [
        ("Accept-Encoding", KnownHeader::AcceptEncoding),
        ("Authorization", KnownHeader::Authorization),
        ("Cache-Control", KnownHeader::CacheControl),
        ("Connection", KnownHeader::Connection),
        ("Content-Encoding", KnownHeader::ContentEncoding),
        ("Content-Length", KnownHeader::ContentLength),
        ("Content-Type", KnownHeader::ContentType),
        ("Cookie", KnownHeader::Cookie),
        ("Date", KnownHeader::Date),
        ("Expect", KnownHeader::Expect),
        ("Forwarded", KnownHeader::Forwarded),
        ("Host", KnownHeader::Host),
        ("Keep-Alive", KnownHeader::KeepAlive),
        ("Last-Modified", KnownHeader::LastModified),
        ("Proxy-Authenticate", KnownHeader::ProxyAuthenticate),
        ("Proxy-Authorization", KnownHeader::ProxyAuthorization),
        ("Proxy-Connection", KnownHeader::ProxyConnection),
        ("Server", KnownHeader::Server),
        ("TE", KnownHeader::Te),
        ("Trailer", KnownHeader::Trailer),
        ("Transfer-Encoding", KnownHeader::TransferEncoding),
        ("Upgrade", KnownHeader::Upgrade),
        ("Via", KnownHeader::Via),
        ("X-Forwarded-For", KnownHeader::XForwardedFor),
        ("X-Forwarded-Host", KnownHeader::XForwardedHost),
        ("X-Forwarded-Proto", KnownHeader::XForwardedProto),
    ];
    for (name, known) in rows {
        assert_eq!(KnownHeader::classify(name.as_bytes()), known);
        assert_eq!(KnownHeader::classify(name.to_uppercase().as_bytes()), known);
        assert_eq!(KnownHeader::classify(name.to_lowercase().as_bytes()), known);
        let near = format!("{}~", &name[..name.len() - 1]);
        assert_eq!(KnownHeader::classify(near.as_bytes()), KnownHeader::Other);
    }
    assert_eq!(KnownHeader::classify(b""), KnownHeader::Other);
}
