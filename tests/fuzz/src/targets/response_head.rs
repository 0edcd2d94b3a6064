//! Heads of origins: no panic, no dependence on how they are cut, nothing ambiguous accepted.

use ringway_io::net::http1::{
    BodyFraming, HeadLimits, KnownHeader, Method, Parsed, ResponseHead, write,
};

use super::Target;
use super::request_head::check_raw;
use crate::random::Random;

/// See the module.
pub static TARGET: Target = Target {
    name: "response-head",
    about: "HTTP/1 response heads",
    count: 300_000,
    seeds: &[
        b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close, x\r\nX: y\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 404 Not Found\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nuntil close",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304\r\nETag: \"x\"\r\nContent-Length: 100\r\n\r\n",
        b"HTTP/1.0 200 caf\xe9\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
    ],
    words: &[
        b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\r\n ", b"\0", b" : ", b"HTTP/1.0", b"HTTP/1.1",
        b"HTTP/2.0", b" 204 ", b" 099 ", b" 999 ", b" 1000 ", b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n", b"chunked", b"gzip, chunked", b"close", b"keep-alive",
        b"upgrade", b"Host: a\r\n", b"Expect: x\r\n",
    ],
    run,
};

fn run(input: &[u8], random: &mut Random) {
    let limits = HeadLimits::default();
    let method = *random.pick(&[&Method::Get, &Method::Head, &Method::Connect, &Method::Post]);
    let mut whole = ResponseHead::new();
    let result = whole.parse(input, method, &limits);
    if let Ok(Parsed::Complete(length)) = result {
        check_accepted(&whole, &input[..length], method);
    }
    let mut head = ResponseHead::new();
    let mut end = 0;
    loop {
        end = (end + 1 + random.below(60)).min(input.len());
        match head.parse(&input[..end], method, &limits) {
            Ok(Parsed::Partial) if end < input.len() => {}
            in_pieces => {
                assert_eq!(
                    in_pieces, result,
                    "in pieces, the last one up to byte {end}"
                );
                return;
            }
        }
    }
}

fn check_accepted(head: &ResponseHead, text: &[u8], method: Method) {
    check_raw(text);
    let headers: Vec<_> = head.headers(text).collect();
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
    let status = head.status();
    assert!((100..=999).contains(&status));
    let has_no_body = method == Method::Head || status < 200 || matches!(status, 204 | 304);
    match head.framing() {
        BodyFraming::None => assert!(has_no_body || method == Method::Connect),
        BodyFraming::Length(length) => assert_eq!(head.content_length(), Some(length)),
        BodyFraming::Chunked => assert_eq!(codings, 1),
        BodyFraming::UntilClose => {
            assert!(lengths == 0 && codings == 0 && !head.keep_alive() && !has_no_body);
        }
    }
    assert!(write::is_valid_header_value(head.reason(text)));
    let mut out = Vec::new();
    write::status_line_with_reason(&mut out, status, head.reason(text));
    for header in &headers {
        assert!(
            write::is_valid_header_name(header.name) && write::is_valid_header_value(header.value)
        );
        write::header(&mut out, header.name, header.value);
    }
    write::end_of_head(&mut out);
    let mut again = ResponseHead::new();
    let parsed = again.parse(&out, method, &HeadLimits::default());
    assert_eq!(parsed, Ok(Parsed::Complete(out.len())));
    assert!(again.headers(&out).eq(headers), "headers differ");
    assert_eq!(
        (again.status(), again.reason(&out)),
        (status, head.reason(text))
    );
    assert_eq!(again.framing(), head.framing());
}
