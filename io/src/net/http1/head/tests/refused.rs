//! Requests that are refused, and with what.

use super::*;

fn refusal(text: &[u8]) -> HeadError {
    match request(text) {
        Err(error) => error,
        Ok(_) => panic!("accepted: {}", text.escape_ascii()),
    }
}

/// Start line and further lines, with a valid Host between them.
fn check(rows: &[(&str, HeadError)], wrap: impl Fn(&str) -> Vec<u8>) {
    for (part, expected) in rows {
        let text = wrap(part);
        let error = refusal(&text);
        assert_eq!(&error, expected, "{}", text.escape_ascii());
    }
}

#[test]
fn start_lines() {
    use HeadError::{EmptyStartLine, InvalidMethod, InvalidStartLine, InvalidTarget};
    let rows = [
        ("\r\n\r\nGET / HTTP/1.1", EmptyStartLine),
        (" GET / HTTP/1.1", HeadError::LeadingWhitespace { at: 0 }),
        ("\tGET / HTTP/1.1", HeadError::LeadingWhitespace { at: 0 }),
        (
            "\r\n GET / HTTP/1.1",
            HeadError::LeadingWhitespace { at: 2 },
        ),
        ("GE(T / HTTP/1.1", InvalidMethod),
        ("G\u{e9}T / HTTP/1.1", InvalidMethod),
        ("GET:/ / HTTP/1.1", InvalidMethod),
        ("\"GET\" / HTTP/1.1", InvalidMethod),
        ("GET", InvalidTarget),
        ("GET /", InvalidTarget),
        ("GET / ", InvalidStartLine),
        ("GET / x", InvalidStartLine),
        ("GET  / HTTP/1.1", InvalidTarget),
        ("GET /  HTTP/1.1", InvalidStartLine),
        ("GET /a b HTTP/1.1", InvalidStartLine),
        ("GET\t/ HTTP/1.1", InvalidMethod),
        ("GET / HTTP/1.1 ", InvalidStartLine),
        ("GET / http/1.1", InvalidStartLine),
        ("GET / HTTP/1", InvalidStartLine),
        ("GET / HTTP/11", InvalidStartLine),
        ("GET / HTTP/1.10", InvalidStartLine),
        ("GET / HTTP/x.1", InvalidStartLine),
        ("GET / HTTP/1.2", HeadError::UnsupportedVersion),
        ("GET / HTTP/0.9", HeadError::UnsupportedVersion),
        ("PRI * HTTP/2.0", HeadError::UnsupportedVersion),
        ("GET / HTTP/3.0", HeadError::UnsupportedVersion),
        ("HTTP/1.1 200 OK", InvalidMethod),
    ];
    check(&rows, |line| {
        format!("{line}\r\nHost: a\r\n\r\n").into_bytes()
    });
}

#[test]
fn targets() {
    let rows = [
        "GET a",
        "GET a/b",
        "GET *",
        "GET **",
        "OPTIONS **",
        "GET ?a",
        "GET #",
        "GET /#a",
        "GET /a#",
        "GET /a?b#c",
        "GET /\u{e9}",
        "GET http:/a",
        "GET http:a",
        "GET http://",
        "GET http:///a",
        "GET http://?a",
        "GET http://u@a/",
        "GET http://u:p@a/",
        "GET http://a:/",
        "GET http://a:b/",
        "GET http://a:65536/",
        "GET http://a:123456/",
        "GET http://[::1/",
        "GET http://[::1]x/",
        "GET http://[x]/",
        "GET http://[]/",
        "GET ftp://a/",
        "GET ws://a/",
        "GET a:80",
        "GET //",
        "CONNECT a",
        "CONNECT a:",
        "CONNECT a:x",
        "CONNECT a:1/",
        "CONNECT /",
        "CONNECT *",
        "CONNECT http://a:1",
        "CONNECT :443",
        "CONNECT [::1]",
        "CONNECT u@a:443",
        "CONNECT a:443:443",
        "CONNECT a%2e:443",
    ];
    for line in rows.iter().filter(|line| **line != "GET //") {
        let text = format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(refusal(text.as_bytes()), HeadError::InvalidTarget, "{line}");
    }
}

#[test]
fn raw_bytes() {
    let valid = b"GET / HTTP/1.1\r\nHost: a\r\nX: b c\r\n\r\n";
    request(valid).unwrap();
    for position in 0..valid.len() {
        for byte in (0..0x20).chain([0x7f]) {
            let mut text = valid.to_vec();
            if text[position] == byte {
                continue;
            }
            text[position] = byte;
            let result = RequestHead::new().parse(&text, &HeadLimits::default());
            // A tab may stand in front of a value and inside one.
            if byte == b'\t' && [21, 27, 28, 29, 30].contains(&position) {
                assert_eq!(
                    result,
                    Ok(Parsed::Complete(text.len())),
                    "{}",
                    text.escape_ascii()
                );
            } else {
                let error = result.expect_err("a control byte is refused");
                assert_eq!(error.status(), 400, "{}", text.escape_ascii());
            }
        }
    }
}

#[test]
fn line_ends() {
    let rows: [(&[u8], HeadError); 9] = [
        (
            b"GET / HTTP/1.1\nHost: a\n\n",
            HeadError::BareLineFeed { at: 14 },
        ),
        (
            b"GET / HTTP/1.1\r\nHost: a\n\r\n",
            HeadError::BareLineFeed { at: 23 },
        ),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\n\n",
            HeadError::BareLineFeed { at: 25 },
        ),
        (
            b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            HeadError::BareLineFeed { at: 0 },
        ),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
            HeadError::BareCarriageReturn { at: 23 },
        ),
        (
            b"GET / HTTP/1.1\rHost: a\r\n\r\n",
            HeadError::BareCarriageReturn { at: 14 },
        ),
        (
            b"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n",
            HeadError::BareCarriageReturn { at: 23 },
        ),
        (
            b"\rGET / HTTP/1.1\r\n",
            HeadError::BareCarriageReturn { at: 0 },
        ),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\r",
            HeadError::BareCarriageReturn { at: 25 },
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(refusal(text), expected, "{}", text.escape_ascii());
    }
}

#[test]
fn header_lines() {
    use HeadError::InvalidHeaderName;
    let rows = [
        ("X : a\r\n", InvalidHeaderName),
        ("X\t: a\r\n", InvalidHeaderName),
        (": a\r\n", InvalidHeaderName),
        ("X\r\n", InvalidHeaderName),
        ("X a\r\n", InvalidHeaderName),
        ("X(: a\r\n", InvalidHeaderName),
        ("X/Y: a\r\n", InvalidHeaderName),
        ("\u{e9}: a\r\n", InvalidHeaderName),
        ("X: a\r\n b\r\n", HeadError::LeadingWhitespace { at: 31 }),
        ("X: a\r\n\tb\r\n", HeadError::LeadingWhitespace { at: 31 }),
        ("X: a\r\n \r\n", HeadError::LeadingWhitespace { at: 31 }),
        ("X: a\0b\r\n", HeadError::ControlByte { at: 29, byte: 0 }),
        (
            "X: a\u{7f}\r\n",
            HeadError::ControlByte { at: 29, byte: 0x7f },
        ),
        (
            "X: \u{1b}[0m\r\n",
            HeadError::ControlByte { at: 28, byte: 0x1b },
        ),
    ];
    check(&rows, get_with);
    let before_first = b"GET / HTTP/1.1\r\n Host: a\r\n\r\n";
    assert_eq!(
        refusal(before_first),
        HeadError::LeadingWhitespace { at: 16 }
    );
}

#[test]
fn hosts() {
    let none = b"GET / HTTP/1.1\r\nX: a\r\n\r\n";
    assert_eq!(refusal(none), HeadError::MissingHost);
    let none = b"GET http://a/ HTTP/1.1\r\n\r\n";
    assert_eq!(refusal(none), HeadError::MissingHost);
    assert_eq!(refusal(&get_with("Host: a\r\n")), HeadError::DuplicateHost);
    assert_eq!(refusal(&get_with("host: b\r\n")), HeadError::DuplicateHost);
    let twice = b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n";
    assert_eq!(refusal(twice), HeadError::DuplicateHost);
    let hosts = [
        "",
        " ",
        "a b",
        "a/b",
        "a?b",
        "a#b",
        "a@b",
        "a,b c",
        "http://a",
        "a:",
        "a:x",
        "a:80:80",
        "a:65536",
        "a:+80",
        ":80",
        "[::1",
        "::1",
        "[::1]:",
        "[::1]80",
        "[::g]",
        "[1.2.3.4]",
        "[fe80::1%25eth0]",
        "a%00",
        "a\\b",
        "\u{e9}",
        "\"a\"",
        "<a>",
        "a\tb",
    ];
    for host in hosts {
        for version in ["1.0", "1.1"] {
            let text = format!("GET / HTTP/{version}\r\nHost: {host}\r\n\r\n");
            assert_eq!(refusal(text.as_bytes()), HeadError::InvalidHost, "{host:?}");
        }
    }
}

#[test]
fn content_lengths() {
    let values = [
        "",
        " ",
        "+5",
        "-5",
        "0x5",
        "5a",
        "a5",
        "5, 5",
        "5,5",
        "5 5",
        "5.0",
        "5;",
        "5e0",
        "\"5\"",
        "18446744073709551616",
        "99999999999999999999",
        "1844674407370955161500",
        "\u{ff15}",
        "5,",
    ];
    for value in values {
        let text = get_with(&format!("Content-Length: {value}\r\n"));
        assert_eq!(refusal(&text), HeadError::InvalidContentLength, "{value:?}");
    }
    for lines in [
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\ncontent-length: 6\r\n",
        "Content-Length: 0\r\nX: y\r\nContent-Length: 0\r\n",
    ] {
        assert_eq!(
            refusal(&get_with(lines)),
            HeadError::DuplicateContentLength,
            "{lines}"
        );
    }
}

#[test]
fn transfer_encodings() {
    use HeadError::{InvalidTransferEncoding, UnknownTransferCoding};
    let rows = [
        ("", InvalidTransferEncoding),
        (",", InvalidTransferEncoding),
        ("gzip", InvalidTransferEncoding),
        ("identity", InvalidTransferEncoding),
        ("xchunked", InvalidTransferEncoding),
        ("chunkedx", InvalidTransferEncoding),
        ("chunked;q=1", InvalidTransferEncoding),
        ("\"chunked\"", InvalidTransferEncoding),
        ("chunked,", InvalidTransferEncoding),
        (", chunked", InvalidTransferEncoding),
        ("chunked, chunked", InvalidTransferEncoding),
        ("chunked, gzip", InvalidTransferEncoding),
        ("chunked, gzip, chunked", InvalidTransferEncoding),
        (
            "chunked\r\nTransfer-Encoding: chunked",
            InvalidTransferEncoding,
        ),
        (
            "chunked\r\nTransfer-Encoding: identity",
            InvalidTransferEncoding,
        ),
        ("chunked gzip", InvalidTransferEncoding),
        ("a b, chunked", InvalidTransferEncoding),
        ("gzip, chunked", UnknownTransferCoding),
        ("identity, chunked", UnknownTransferCoding),
        ("x;y=z, chunked", UnknownTransferCoding),
        ("gzip\r\nTransfer-Encoding: chunked", UnknownTransferCoding),
    ];
    check(&rows, |value| {
        get_with(&format!("Transfer-Encoding: {value}\r\n"))
    });
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: gzip\r\nContent-Length: 5\r\n",
        "Transfer-Encoding:\r\nContent-Length: 5\r\n",
    ] {
        assert_eq!(
            refusal(&get_with(lines)),
            HeadError::ConflictingFraming,
            "{lines}"
        );
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refusal(old), HeadError::TransferEncodingInHttp10);
}

#[test]
fn bodies_on_connect_and_odd_expectations() {
    for line in ["Content-Length: 1", "Transfer-Encoding: chunked"] {
        let text = format!("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n{line}\r\n\r\n");
        assert_eq!(
            refusal(text.as_bytes()),
            HeadError::ConnectWithBody,
            "{line}"
        );
    }
    for value in ["", "100", "200-ok", "100-continue, x"] {
        let text = get_with(&format!("Expect: {value}\r\n"));
        assert_eq!(refusal(&text), HeadError::UnknownExpectation, "{value}");
    }
}

#[test]
fn statuses() {
    let rows = [
        (HeadError::TooLarge { bytes_max: 1 }, 431),
        (HeadError::TooManyHeaders { headers_max: 1 }, 431),
        (HeadError::StartLineTooLong { bytes_max: 1 }, 414),
        (HeadError::UnsupportedVersion, 505),
        (HeadError::UnknownTransferCoding, 501),
        (HeadError::UnknownExpectation, 417),
        (HeadError::ConflictingFraming, 400),
        (HeadError::InvalidStatus, 400),
    ];
    for (error, status) in rows {
        assert_eq!(error.status(), status);
        let message = error.to_string();
        assert!(!message.ends_with('.') && !message.is_empty(), "{message}");
    }
}
