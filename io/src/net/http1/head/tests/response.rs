//! Heads of origins.

use super::*;
use BodyFraming::{Chunked, Length, None, UntilClose};

fn response_to(method: Method, text: &[u8]) -> Result<ResponseHead, HeadError> {
    let mut head = ResponseHead::new();
    match head.parse(text, method, &HeadLimits::default())? {
        Parsed::Complete(length) => {
            assert_eq!(length, text.len(), "{}", text.escape_ascii());
            Ok(head)
        }
        Parsed::Partial => panic!("incomplete: {}", text.escape_ascii()),
    }
}

fn response(text: &[u8]) -> Result<ResponseHead, HeadError> {
    response_to(Method::Get, text)
}

fn refusal(text: &[u8]) -> HeadError {
    match response(text) {
        Err(error) => error,
        Ok(_) => panic!("accepted: {}", text.escape_ascii()),
    }
}

#[test]
fn gives_back_what_was_sent() {
    let text = b"HTTP/1.1 200 Fine, thanks\r\nServer: x\r\nConnection: X-A\r\nX-A: 1\r\n\
        Content-Length: 3\r\n\r\n";
    let head = response(text).unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.reason(text), b"Fine, thanks");
    assert_eq!(head.version(), Version::Http11);
    assert_eq!(head.framing(), BodyFraming::Length(3));
    assert_eq!(head.content_length(), Some(3));
    assert!(head.keep_alive() && !head.is_informational() && !head.upgrade());
    assert_eq!(head.first(text, KnownHeader::Server), Some(&b"x"[..]));
    assert_eq!(head.find(text, b"x-a"), Some(&b"1"[..]));
    assert_eq!(
        head.headers(text)
            .filter(|header| header.hop_by_hop)
            .count(),
        2
    );
    assert!(head.is_hop_by_hop(text, b"x-a"));
}

#[test]
fn reasons() {
    let rows: [(&[u8], &[u8]); 5] = [
        (b"HTTP/1.1 200\r\n\r\n", b""),
        (b"HTTP/1.1 200 \r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"OK"),
        (b"HTTP/1.1 200 a\tb  c\r\n\r\n", b"a\tb  c"),
        (b"HTTP/1.1 999 caf\xe9\r\n\r\n", b"caf\xe9"),
    ];
    for (text, reason) in rows {
        assert_eq!(
            response(text).unwrap().reason(text),
            reason,
            "{}",
            text.escape_ascii()
        );
    }
}

type Row = (Method, &'static str, &'static str, BodyFraming, bool);

/// Request method, status line, headers; how the body ends, and whether the connection is kept.
const FRAMING: [Row; 30] = [
    (Method::Get, "HTTP/1.1 200 OK", "", UntilClose, false),
    (
        Method::Get,
        "HTTP/1.1 200 OK",
        "Connection: keep-alive\r\n",
        UntilClose,
        false,
    ),
    (
        Method::Get,
        "HTTP/1.1 200 OK",
        "Content-Length: 0\r\n",
        Length(0),
        true,
    ),
    (
        Method::Get,
        "HTTP/1.1 200 OK",
        "Content-Length: 5\r\n",
        Length(5),
        true,
    ),
    (
        Method::Get,
        "HTTP/1.1 200 OK",
        "Content-Length: 5\r\nConnection: close\r\n",
        Length(5),
        false,
    ),
    (
        Method::Get,
        "HTTP/1.1 200 OK",
        "Transfer-Encoding: Chunked\r\n",
        Chunked,
        true,
    ),
    (
        Method::Get,
        "HTTP/1.1 500 No",
        "Transfer-Encoding: chunked\r\nConnection: close\r\n",
        Chunked,
        false,
    ),
    (Method::Get, "HTTP/1.0 200 OK", "", UntilClose, false),
    (
        Method::Get,
        "HTTP/1.0 200 OK",
        "Content-Length: 5\r\n",
        Length(5),
        false,
    ),
    (
        Method::Get,
        "HTTP/1.0 200 OK",
        "Content-Length: 5\r\nConnection: keep-alive\r\n",
        Length(5),
        true,
    ),
    (Method::Head, "HTTP/1.1 200 OK", "", None, true),
    (
        Method::Head,
        "HTTP/1.1 200 OK",
        "Content-Length: 5\r\n",
        None,
        true,
    ),
    (
        Method::Head,
        "HTTP/1.1 200 OK",
        "Transfer-Encoding: chunked\r\n",
        None,
        true,
    ),
    (
        Method::Head,
        "HTTP/1.1 404 No",
        "Content-Length: 5\r\n",
        None,
        true,
    ),
    (Method::Get, "HTTP/1.1 204 No", "", None, true),
    (
        Method::Get,
        "HTTP/1.1 204 No",
        "Content-Length: 0\r\n",
        None,
        true,
    ),
    (
        Method::Get,
        "HTTP/1.1 204 No",
        "Content-Length: 5\r\n",
        None,
        false,
    ),
    (
        Method::Get,
        "HTTP/1.1 204 No",
        "Transfer-Encoding: chunked\r\n",
        None,
        false,
    ),
    (
        Method::Get,
        "HTTP/1.1 304 No",
        "Content-Length: 5\r\n",
        None,
        true,
    ),
    (Method::Get, "HTTP/1.1 304 No", "", None, true),
    (Method::Get, "HTTP/1.1 100 Go", "", None, true),
    (Method::Get, "HTTP/1.1 103 Hints", "Link: x\r\n", None, true),
    (
        Method::Get,
        "HTTP/1.1 101 Switch",
        "Connection: upgrade\r\nUpgrade: x\r\n",
        None,
        true,
    ),
    (
        Method::Get,
        "HTTP/1.1 100 Go",
        "Content-Length: 5\r\n",
        None,
        false,
    ),
    (Method::Connect, "HTTP/1.1 200 OK", "", None, true),
    (
        Method::Connect,
        "HTTP/1.1 299 OK",
        "Content-Length: 5\r\n",
        None,
        true,
    ),
    (
        Method::Connect,
        "HTTP/1.1 200 OK",
        "Transfer-Encoding: chunked\r\n",
        None,
        true,
    ),
    (
        Method::Connect,
        "HTTP/1.1 407 No",
        "Content-Length: 5\r\n",
        Length(5),
        true,
    ),
    (Method::Connect, "HTTP/1.1 300 No", "", UntilClose, false),
    (
        Method::Post,
        "HTTP/1.1 205 Reset",
        "Content-Length: 0\r\n",
        Length(0),
        true,
    ),
];

#[test]
fn framing_and_reuse() {
    for (method, line, lines, framing, keep_alive) in FRAMING {
        let text = format!("{line}\r\n{lines}\r\n").into_bytes();
        let head = response_to(method, &text).unwrap();
        assert_eq!(head.framing(), framing, "{method:?} {line} {lines}");
        assert_eq!(head.keep_alive(), keep_alive, "{method:?} {line} {lines}");
    }
}

#[test]
fn interim_answers() {
    for (status, informational, switching) in [
        (100, true, false),
        (101, false, true),
        (103, true, false),
        (199, true, false),
        (200, false, false),
    ] {
        let text = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        let head = response(text.as_bytes()).unwrap();
        assert_eq!(head.is_informational(), informational, "{status}");
        assert_eq!(head.is_switching_protocols(), switching, "{status}");
    }
    let text = b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert!(response(text).unwrap().upgrade());
}

#[test]
fn start_lines_that_are_refused() {
    use HeadError::{InvalidStartLine, InvalidStatus};
    let rows = [
        ("HTTP/1.1", InvalidStartLine),
        ("HTTP/1.1 ", InvalidStatus),
        ("HTTP/1.1 20", InvalidStatus),
        ("HTTP/1.1 2000", InvalidStatus),
        ("HTTP/1.1 20x OK", InvalidStatus),
        ("HTTP/1.1 099 Low", InvalidStatus),
        ("HTTP/1.1 000 Low", InvalidStatus),
        ("HTTP/1.1  200 OK", InvalidStatus),
        ("HTTP/1.1 -20 OK", InvalidStatus),
        ("HTTP/1.1200 OK", InvalidStartLine),
        ("http/1.1 200 OK", InvalidStartLine),
        ("HTTP/2.0 200 OK", HeadError::UnsupportedVersion),
        ("HTTP/1.2 200 OK", HeadError::UnsupportedVersion),
        ("ICY 200 OK", InvalidStartLine),
        ("GET / HTTP/1.1", InvalidStartLine),
        ("\r\nHTTP/1.1 200 OK", HeadError::EmptyStartLine),
        (" HTTP/1.1 200 OK", HeadError::LeadingWhitespace { at: 0 }),
        (
            "HTTP/1.1 200 O\0K",
            HeadError::ControlByte { at: 14, byte: 0 },
        ),
        ("HTTP/1.1 200 OK\n", HeadError::BareLineFeed { at: 15 }),
    ];
    for (line, expected) in rows {
        let text = format!("{line}\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(refusal(text.as_bytes()), expected, "{line:?}");
    }
}

#[test]
fn headers_that_are_refused() {
    use HeadError::{
        ConflictingFraming, DuplicateContentLength, InvalidContentLength, InvalidHeaderName,
        InvalidTransferEncoding, UnknownTransferCoding,
    };
    let rows = [
        ("X : a\r\n", InvalidHeaderName),
        (": a\r\n", InvalidHeaderName),
        ("X\r\n", InvalidHeaderName),
        ("X: a\r\n b\r\n", HeadError::LeadingWhitespace { at: 23 }),
        ("X: a\rb\r\n", HeadError::BareCarriageReturn { at: 21 }),
        ("X: a\x01\r\n", HeadError::ControlByte { at: 21, byte: 1 }),
        (
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            DuplicateContentLength,
        ),
        ("Content-Length: 5, 5\r\n", InvalidContentLength),
        ("Content-Length: -1\r\n", InvalidContentLength),
        ("Content-Length:\r\n", InvalidContentLength),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            ConflictingFraming,
        ),
        ("Transfer-Encoding: identity\r\n", InvalidTransferEncoding),
        (
            "Transfer-Encoding: chunked, chunked\r\n",
            InvalidTransferEncoding,
        ),
        (
            "Transfer-Encoding: gzip, chunked\r\n",
            UnknownTransferCoding,
        ),
    ];
    for (lines, expected) in rows {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        assert_eq!(refusal(text.as_bytes()), expected, "{lines:?}");
    }
    let old = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refusal(old), HeadError::TransferEncodingInHttp10);
    // Expect and Host mean nothing in an answer.
    response(b"HTTP/1.1 200 OK\r\nExpect: x\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
}
