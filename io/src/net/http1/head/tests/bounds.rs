//! Every bound met and crossed.

use super::*;

fn parse(text: &[u8], limits: HeadLimits) -> Result<Parsed, HeadError> {
    RequestHead::new().parse(text, &limits)
}

#[test]
fn whole_head() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\nX: yyyyyyyy\r\n\r\n";
    let bytes_max = text.len();
    let met = HeadLimits {
        bytes_max,
        ..HeadLimits::default()
    };
    assert_eq!(parse(text, met), Ok(Parsed::Complete(bytes_max)));
    // What follows the head does not count.
    let mut longer = text.to_vec();
    longer.extend_from_slice(&[b'z'; 100]);
    assert_eq!(parse(&longer, met), Ok(Parsed::Complete(bytes_max)));
    for crossed in 24..bytes_max {
        let limits = HeadLimits {
            bytes_max: crossed,
            ..met
        };
        assert_eq!(
            parse(text, limits),
            Err(HeadError::TooLarge { bytes_max: crossed })
        );
    }
}

#[test]
fn a_head_without_end_is_refused_once_it_is_too_long() {
    let limits = HeadLimits {
        bytes_max: 100,
        start_line_max: 50,
        headers_max: 4,
    };
    let mut text = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
    text.resize(100, b'y');
    assert_eq!(parse(&text, limits), Ok(Parsed::Partial));
    text.push(b'y');
    assert_eq!(
        parse(&text, limits),
        Err(HeadError::TooLarge { bytes_max: 100 })
    );
}

#[test]
fn start_line() {
    let limits = HeadLimits {
        bytes_max: 1_000,
        start_line_max: 20,
        headers_max: 4,
    };
    let met = b"GET /123456 HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(parse(met, limits), Ok(Parsed::Complete(met.len())));
    let crossed = b"GET /1234567 HTTP/1.1\r\nHost: a\r\n\r\n";
    let refused = Err(HeadError::StartLineTooLong { bytes_max: 20 });
    assert_eq!(parse(crossed, limits), refused);
    assert_eq!(parse(&crossed[..20], limits), Ok(Parsed::Partial));
    assert_eq!(parse(&crossed[..21], limits), refused);
    // The bound is on the line, so an empty line in front of it takes nothing away.
    let after_empty = b"\r\nGET /123456 HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(
        parse(after_empty, limits),
        Ok(Parsed::Complete(after_empty.len()))
    );
    // A first line that alone is longer than a head may be is the target's fault.
    let small = HeadLimits {
        bytes_max: 10,
        ..limits
    };
    assert_eq!(
        parse(met, small),
        Err(HeadError::StartLineTooLong { bytes_max: 10 })
    );
}

#[test]
fn number_of_headers() {
    let with = |count: usize| {
        let lines: String = (1..count).map(|index| format!("X{index}: y\r\n")).collect();
        get_with(&lines)
    };
    for headers_max in [1, 2, 128, HEADERS_MAX_CEILING] {
        let limits = HeadLimits {
            headers_max,
            ..HeadLimits::default()
        };
        let met = with(headers_max);
        assert_eq!(parse(&met, limits), Ok(Parsed::Complete(met.len())));
        let refused = Err(HeadError::TooManyHeaders { headers_max });
        assert_eq!(parse(&with(headers_max + 1), limits), refused);
    }
    let beyond = HeadLimits {
        headers_max: 10_000,
        ..HeadLimits::default()
    };
    let refused = Err(HeadError::TooManyHeaders {
        headers_max: HEADERS_MAX_CEILING,
    });
    assert_eq!(parse(&with(HEADERS_MAX_CEILING + 1), beyond), refused);
}

#[test]
fn refused_as_soon_as_it_is_seen() {
    // No need to wait for the rest of a head that cannot become valid.
    for text in [
        "GET / HTTP/1.1\n",
        "\x16\x03\x01\x02",
        "GET / HTTP/1.1\r\nA: b\r\n c",
        " G",
        "\r\n\r\n",
    ] {
        assert!(
            parse(text.as_bytes(), HeadLimits::default()).is_err(),
            "{text:?}"
        );
    }
}
