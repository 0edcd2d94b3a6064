//! Heads of clients: no panic, no dependence on how they are cut, nothing ambiguous accepted.

use ringway_io::net::http1::{
    BodyFraming, HeadLimits, KnownHeader, Method, Parsed, RequestHead, Version, write,
};

use super::Target;
use crate::random::Random;

/// See the module.
pub static TARGET: Target = Target {
    name: "request-head",
    about: "HTTP/1 request heads",
    count: 500_000,
    seeds: &[
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /a/b?c=d&e=f HTTP/1.1\r\nHost: example.org:8080\r\nConnection: keep-alive, x-y\r\nX-Y: z\r\nCookie: a=b\r\n\r\n",
        b"\r\nPOST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"PUT http://[::1]:81/p HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\nhello, world",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\nProxy-Authorization: Basic eDp5\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\nX-Text: caf\xe9\t \r\n\r\n",
    ],
    words: &[
        b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\r\n ", b"\r\n\t", b"\0", b" : ", b"HTTP/1.0",
        b"HTTP/1.1", b"HTTP/2.0", b"GET", b"HEAD", b"CONNECT", b"OPTIONS", b"Host: b\r\n",
        b"Content-Length: 5\r\n", b"Content-Length: 5, 5\r\n", b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n", b"transfer-encoding", b"content-length",
        b"chunked", b"identity", b"Connection: host, content-length\r\n", b"close", b"upgrade",
        b"Expect: 100-continue\r\n", b"http://", b"https://u@h:1/", b"[::1]", b"%0d%0a", b"*",
        b"//", b"?", b"#", b"\xef\xbb\xbf",
    ],
    run,
};

fn run(input: &[u8], random: &mut Random) {
    let limits = match random.below(4) {
        0 => HeadLimits {
            bytes_max: 200,
            start_line_max: 60,
            headers_max: 4,
        },
        _ => HeadLimits::default(),
    };
    let mut whole = RequestHead::new();
    let result = whole.parse(input, &limits);
    if let Ok(Parsed::Complete(length)) = result {
        check_accepted(&whole, &input[..length], &limits);
    }
    check_pieces(input, &limits, random, result);
}

/// The same answer, whatever the pieces the input arrives in.
fn check_pieces(
    input: &[u8],
    limits: &HeadLimits,
    random: &mut Random,
    whole: Result<Parsed, ringway_io::net::http1::HeadError>,
) {
    let mut head = RequestHead::new();
    let mut end = 0;
    loop {
        end = (end + 1 + random.below(60)).min(input.len());
        match head.parse(&input[..end], limits) {
            Ok(Parsed::Partial) if end < input.len() => {}
            result => {
                assert_eq!(result, whole, "in pieces, the last one up to byte {end}");
                return;
            }
        }
    }
}

fn check_accepted(head: &RequestHead, text: &[u8], limits: &HeadLimits) {
    check_raw(text);
    assert!(text.len() <= limits.bytes_max);
    let headers: Vec<_> = head.headers(text).collect();
    assert!(headers.len() <= limits.headers_max);
    let count = |known| {
        headers
            .iter()
            .filter(|header| header.known == known)
            .count()
    };
    let (lengths, codings) = (
        count(KnownHeader::ContentLength),
        count(KnownHeader::TransferEncoding),
    );
    assert!(
        lengths <= 1 && (lengths == 0 || codings == 0),
        "ambiguous framing"
    );
    assert!(count(KnownHeader::Host) <= 1);
    assert!(
        head.version() == Version::Http10 || head.host(text).is_some(),
        "no host"
    );
    match head.framing() {
        BodyFraming::Chunked => {
            let value = head
                .first(text, KnownHeader::TransferEncoding)
                .expect("the header");
            assert!(codings == 1 && value.eq_ignore_ascii_case(b"chunked"));
        }
        BodyFraming::Length(length) => {
            let value = head
                .first(text, KnownHeader::ContentLength)
                .expect("the header");
            let value = std::str::from_utf8(value).expect("digits");
            assert!(value.bytes().all(|byte| byte.is_ascii_digit()));
            assert_eq!(value.parse(), Ok(length));
        }
        BodyFraming::None => {
            assert!(codings == 0 && (lengths == 0 || head.method() == Method::Connect))
        }
        BodyFraming::UntilClose => panic!("a request does not end with its connection"),
    }
    for header in &headers {
        assert!(
            write::is_valid_header_name(header.name) && write::is_valid_header_value(header.value)
        );
        assert_eq!(
            header.value,
            header.value.trim_ascii(),
            "whitespace around a value"
        );
    }
    assert!(write::is_valid_target(head.target(text)));
    assert!(head.path(text).starts_with(b"/") || matches!(head.path(text), b"*" | b""));
    check_written_again(head, text);
}

/// No byte that a neighbour might take for the end of a line or of the head.
pub(super) fn check_raw(text: &[u8]) {
    assert!(text.ends_with(b"\r\n\r\n"));
    let first_end = text.windows(4).position(|window| window == b"\r\n\r\n");
    assert_eq!(first_end, Some(text.len() - 4), "an empty line inside");
    for (index, &byte) in text.iter().enumerate() {
        match byte {
            b'\r' => assert_eq!(text.get(index + 1), Some(&b'\n')),
            b'\n' => assert_eq!(text.get(index.wrapping_sub(1)), Some(&b'\r')),
            _ => assert!(
                byte == b'\t' || (byte >= 0x20 && byte != 0x7f),
                "byte {byte:#x}"
            ),
        }
    }
}

/// What was read, written out and read again, is the same.
fn check_written_again(head: &RequestHead, text: &[u8]) {
    let mut out = Vec::new();
    write::request_line(
        &mut out,
        head.method_text(text),
        head.target(text),
        head.version(),
    );
    for header in head.headers(text) {
        write::header(&mut out, header.name, header.value);
    }
    write::end_of_head(&mut out);
    let mut again = RequestHead::new();
    let limits = HeadLimits {
        bytes_max: out.len(),
        ..HeadLimits::default()
    };
    assert_eq!(again.parse(&out, &limits), Ok(Parsed::Complete(out.len())));
    assert!(again.headers(&out).eq(head.headers(text)), "headers differ");
    assert_eq!(again.framing(), head.framing());
    assert_eq!(again.authority(&out), head.authority(text));
    assert_eq!(again.keep_alive(), head.keep_alive());
    assert_eq!(
        (again.path(&out), again.query(&out)),
        (head.path(text), head.query(text))
    );
}
