//! What is written, byte for byte, and read back by the parser next door.

use super::*;
use crate::net::http1::{HeadLimits, Method, Parsed, RequestHead, ResponseHead};

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = b">".to_vec();
    write(&mut out);
    out.split_off(1)
}

#[test]
fn numbers() {
    let values = [
        0,
        1,
        9,
        10,
        15,
        16,
        99,
        100,
        255,
        256,
        65_535,
        u64::MAX - 1,
        u64::MAX,
    ];
    let powers = (0..64).map(|shift| 1_u64 << shift);
    for value in values.into_iter().chain(powers) {
        assert_eq!(
            written(|out| decimal(out, value)),
            value.to_string().as_bytes()
        );
        assert_eq!(
            written(|out| hex(out, value)),
            format!("{value:x}").as_bytes()
        );
    }
}

#[test]
fn lines() {
    assert_eq!(written(|out| status_line(out, 200)), b"HTTP/1.1 200 OK\r\n");
    assert_eq!(written(|out| status_line(out, 599)), b"HTTP/1.1 599 \r\n");
    let own = written(|out| status_line_with_reason(out, 200, b"Fine"));
    assert_eq!(own, b"HTTP/1.1 200 Fine\r\n");
    let line = written(|out| request_line(out, b"GET", b"/a?b", Version::Http11));
    assert_eq!(line, b"GET /a?b HTTP/1.1\r\n");
    let line = written(|out| request_line(out, b"PUT", b"*", Version::Http10));
    assert_eq!(line, b"PUT * HTTP/1.0\r\n");
    assert_eq!(
        written(|out| header(out, b"Via", b"1.1 x")),
        b"Via: 1.1 x\r\n"
    );
    assert_eq!(written(|out| header(out, b"X", b"")), b"X: \r\n");
    assert_eq!(written(|out| header_decimal(out, b"Age", 7)), b"Age: 7\r\n");
    assert_eq!(
        written(|out| content_length(out, 120)),
        b"Content-Length: 120\r\n"
    );
    assert_eq!(
        written(transfer_encoding_chunked),
        b"Transfer-Encoding: chunked\r\n"
    );
    assert_eq!(written(end_of_head), b"\r\n");
    assert_eq!(written(|out| chunk_header(out, 255)), b"ff\r\n");
}

#[test]
fn what_is_written_can_be_read() {
    let mut out = Vec::new();
    status_line(&mut out, 404);
    header(&mut out, b"Server", b"x");
    content_length(&mut out, 12);
    end_of_head(&mut out);
    let mut head = ResponseHead::new();
    let parsed = head.parse(&out, Method::Get, &HeadLimits::default());
    assert_eq!(parsed, Ok(Parsed::Complete(out.len())));
    assert_eq!((head.status(), head.reason(&out)), (404, &b"Not Found"[..]));

    let mut out = Vec::new();
    request_line(&mut out, b"POST", b"/x", Version::Http11);
    header(&mut out, b"Host", b"a");
    transfer_encoding_chunked(&mut out);
    end_of_head(&mut out);
    let mut head = RequestHead::new();
    let parsed = head.parse(&out, &HeadLimits::default());
    assert_eq!(parsed, Ok(Parsed::Complete(out.len())));

    let mut head = ResponseHead::new();
    let parsed = head.parse(CONTINUE, Method::Put, &HeadLimits::default());
    assert_eq!(parsed, Ok(Parsed::Complete(CONTINUE.len())));
    assert!(head.is_informational());
}

#[test]
fn every_reason_can_be_written() {
    for status in 100..=999 {
        assert!(
            is_valid_header_value(reason_phrase(status).as_bytes()),
            "{status}"
        );
    }
    assert_eq!(reason_phrase(502), "Bad Gateway");
    assert_eq!(reason_phrase(299), "");
}

#[test]
fn names_values_and_targets_are_judged() {
    for name in [&b"A"[..], b"x-y_z.1", b"!#$%&'*+-.^_`|~"] {
        assert!(is_valid_header_name(name));
    }
    for name in [&b""[..], b"a b", b"a:", b"a\r\n", b"(a)", b"\xe9", b"a\0"] {
        assert!(!is_valid_header_name(name));
    }
    for value in [&b""[..], b"a b\tc", b"caf\xe9", b"~"] {
        assert!(is_valid_header_value(value));
    }
    for value in [&b"a\r\nB: c"[..], b"\n", b"\0", b"a\x7f", b"\x1b"] {
        assert!(!is_valid_header_value(value));
    }
    assert!(is_valid_target(b"/a?b") && is_valid_target(b"*"));
    for target in [&b""[..], b"/a b", b"/\r\n", b"/\xe9", b"/\x7f"] {
        assert!(!is_valid_target(target));
    }
}

#[test]
fn dates() {
    let rows = [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (59, "Thu, 01 Jan 1970 00:00:59 GMT"),
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
        (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
        (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ];
    let mut cache = DateCache::new();
    assert_eq!(cache.at(0), rows[0].1.as_bytes());
    for (seconds, text) in rows {
        assert_eq!(cache.at(seconds), text.as_bytes(), "{seconds}");
        assert_eq!(
            cache.at(seconds),
            text.as_bytes(),
            "{seconds}, from the cache"
        );
    }
}

#[test]
fn every_day_follows_the_one_before() {
    // Counts days with a calendar of its own: month lengths and the leap rule.
    let (mut year, mut month, mut day) = (1970_u64, 1_usize, 1_u64);
    let mut cache = DateCache::new();
    for days in 0..60_000_u64 {
        let text = std::str::from_utf8(cache.at(days * 86_400))
            .unwrap()
            .to_owned();
        assert_eq!(text[5..7].parse(), Ok(day), "{text}");
        assert_eq!(text[12..16].parse(), Ok(year), "{text}");
        let name = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
        assert_eq!(&text[..3], name, "{text}");
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 => 28 + u64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        day += 1;
        if day > length {
            (day, month) = (1, month + 1);
        }
        if month > 12 {
            (month, year) = (1, year + 1);
        }
    }
}
