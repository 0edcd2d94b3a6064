//! Bodies whole, in pieces, and damaged.

use super::*;
use crate::net::http1::head::KnownHeader;

/// What a body was: content, bytes used, trailers as text.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Outcome {
    content: Vec<u8>,
    consumed: usize,
    done: bool,
    trailers: Vec<(String, String)>,
}

/// Shows the pieces one after another, as a relay does.
fn run(framing: BodyFraming, pieces: &[&[u8]]) -> Result<Outcome, BodyError> {
    let mut decoder = BodyDecoder::new(framing, TrailerLimits::default());
    let mut outcome = Outcome {
        content: vec![],
        consumed: 0,
        done: decoder.is_done(),
        trailers: vec![],
    };
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() && !decoder.is_done() {
            let decoded = decoder.decode(rest)?;
            assert!(decoded.consumed > 0, "a step makes progress");
            assert!(decoded.data.len() <= decoded.consumed);
            assert_eq!(decoded.done, decoder.is_done());
            outcome.content.extend_from_slice(decoded.data);
            outcome.consumed += decoded.consumed;
            rest = &rest[decoded.consumed..];
        }
    }
    outcome.done = decoder.is_done();
    if outcome.done {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        outcome.trailers = decoder
            .trailers()
            .map(|field| (text(field.name), text(field.value)))
            .collect();
    }
    Ok(outcome)
}

fn chunked(text: &[u8]) -> Result<Outcome, BodyError> {
    run(BodyFraming::Chunked, &[text])
}

const CHUNKED: [&[u8]; 5] = [
    b"0\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
    b"00000000000000A\r\n0123456789\r\n1\r\n\r\r\n00\r\n\r\n",
    b"3\r\nabc\r\n0\r\nX-Sum:  1 2 \r\nx-other:\r\n\r\nrest",
    b"b\r\n\r\n\r\n0\r\n\r\n5a\r\nF\r\n0123456789abcde\r\n0\r\n\r\n",
];

#[test]
fn chunks_are_joined() {
    type Row = (
        &'static [u8],
        usize,
        &'static [(&'static str, &'static str)],
    );
    let rows: [Row; 5] = [
        (b"", 5, &[]),
        (b"hello", 15, &[]),
        (b"0123456789\r", 41, &[]),
        (b"abc", 37, &[("X-Sum", "1 2"), ("x-other", "")]),
        (b"\r\n\r\n0\r\n\r\n5a0123456789abcde", 41, &[]),
    ];
    for (text, (content, consumed, trailers)) in CHUNKED.iter().zip(rows) {
        let outcome = chunked(text).unwrap_or_else(|error| panic!("{error}"));
        let given: Vec<(&str, &str)> = outcome
            .trailers
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        assert_eq!(outcome.content, content, "{}", text.escape_ascii());
        assert_eq!(outcome.consumed, consumed, "{}", text.escape_ascii());
        assert_eq!(given, trailers);
        assert!(outcome.done);
    }
}

#[test]
fn content_is_a_slice_of_the_input_and_ends_its_call() {
    let text = b"5\r\nhello\r\n2\r\nab\r\n0\r\n\r\n";
    let mut decoder = BodyDecoder::new(BodyFraming::Chunked, TrailerLimits::default());
    let first = decoder.decode(text).unwrap();
    assert_eq!(first.data.as_ptr(), text[3..].as_ptr());
    assert_eq!(
        (first.data, first.consumed, first.done),
        (&b"hello"[..], 13, false)
    );
    assert_eq!(decoder.remaining_known(), 2);
    let second = decoder.decode(&text[13..]).unwrap();
    assert_eq!(
        (second.data, second.consumed, second.done),
        (&b"ab"[..], 9, true)
    );
    let after = decoder.decode(b"GET").unwrap();
    assert_eq!(
        (after.data, after.consumed, after.done),
        (&b""[..], 0, true)
    );
}

#[test]
fn other_framings() {
    type Row = (BodyFraming, &'static [u8], &'static [u8], usize, bool);
    let rows: [Row; 6] = [
        (BodyFraming::None, b"abc", b"", 0, true),
        (BodyFraming::Length(0), b"abc", b"", 0, true),
        (BodyFraming::Length(2), b"abc", b"ab", 2, true),
        (BodyFraming::Length(3), b"abc", b"abc", 3, true),
        (BodyFraming::Length(u64::MAX), b"abc", b"abc", 3, false),
        (
            BodyFraming::UntilClose,
            b"0\r\n\r\n",
            b"0\r\n\r\n",
            5,
            false,
        ),
    ];
    for (framing, text, content, consumed, done) in rows {
        let outcome = run(framing, &[text]).unwrap();
        assert_eq!(outcome.content, content, "{framing:?}");
        assert_eq!(
            (outcome.consumed, outcome.done),
            (consumed, done),
            "{framing:?}"
        );
    }
}

#[test]
fn end_of_the_connection() {
    let limits = TrailerLimits::default();
    let mut decoder = BodyDecoder::new(BodyFraming::UntilClose, limits);
    decoder.decode(b"abc").unwrap();
    assert_eq!(decoder.end_of_input(), Ok(()));
    assert!(decoder.is_done());
    decoder.reset(BodyFraming::None);
    assert_eq!(decoder.end_of_input(), Ok(()));
    decoder.reset(BodyFraming::Length(3));
    decoder.decode(b"ab").unwrap();
    assert_eq!(decoder.remaining_known(), 1);
    assert_eq!(decoder.end_of_input(), Err(BodyError::Truncated));
    let text = b"5\r\nhello\r\n0\r\nA: b\r\n\r\n";
    for end in 0..text.len() {
        decoder.reset(BodyFraming::Chunked);
        let mut rest = &text[..end];
        while !rest.is_empty() {
            rest = &rest[decoder.decode(rest).unwrap().consumed..];
        }
        assert_eq!(decoder.end_of_input(), Err(BodyError::Truncated), "{end}");
    }
}

#[test]
fn chunk_framing_that_is_refused() {
    use BodyError::{
        ChunkSizeTooLarge, ChunkSizeTooLong, InvalidChunkExtension, InvalidChunkSize,
        InvalidLineEnd, MissingChunkEnd,
    };
    let rows: [(&[u8], BodyError); 28] = [
        (b"\r\n", InvalidChunkSize { byte: b'\r' }),
        (b"\n", InvalidChunkSize { byte: b'\n' }),
        (b";x\r\n", InvalidChunkSize { byte: b';' }),
        (b" 5\r\n", InvalidChunkSize { byte: b' ' }),
        (b"5 \r\n", InvalidChunkSize { byte: b' ' }),
        (b"5\t\r\n", InvalidChunkSize { byte: b'\t' }),
        (b"+5\r\n", InvalidChunkSize { byte: b'+' }),
        (b"-5\r\n", InvalidChunkSize { byte: b'-' }),
        (b"0x5\r\n", InvalidChunkSize { byte: b'x' }),
        (b"g\r\n", InvalidChunkSize { byte: b'g' }),
        (b"5_0\r\n", InvalidChunkSize { byte: b'_' }),
        (b"\0", InvalidChunkSize { byte: 0 }),
        (b"5\0\r\n", InvalidChunkSize { byte: 0 }),
        (b"5;a=b\nhello\r\n", InvalidLineEnd),
        (b"5;a\x01\r\nhello\r\n", InvalidChunkExtension { byte: 1 }),
        (b"5;a\r;\r\nhello\r\n", InvalidLineEnd),
        (b"ffffffffffffffff\r\n", ChunkSizeTooLarge),
        (b"5\nhello", InvalidLineEnd),
        (b"5\rhello", InvalidLineEnd),
        (b"5\r\r\nhello", InvalidLineEnd),
        (b"0\n\n", InvalidLineEnd),
        (
            b"00000000000000005\r\n",
            ChunkSizeTooLong { digits_max: 16 },
        ),
        (
            b"fffffffffffffffff\r\n",
            ChunkSizeTooLong { digits_max: 16 },
        ),
        (
            b"10000000000000000\r\n",
            ChunkSizeTooLong { digits_max: 16 },
        ),
        (b"5\r\nhello!\r\n", MissingChunkEnd),
        (b"5\r\nhello\n0\r\n", MissingChunkEnd),
        (b"5\r\nhello\r0\r\n", MissingChunkEnd),
        (b"5\r\nhello0\r\n\r\n", MissingChunkEnd),
    ];
    for (text, expected) in rows {
        assert_eq!(chunked(text), Err(expected), "{}", text.escape_ascii());
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(
            run(BodyFraming::Chunked, &bytes),
            Err(expected),
            "{}",
            text.escape_ascii()
        );
    }
    // Sixteen digits fit, up to the largest length there is.
    let outcome = chunked(b"7fffffffffffffff\r\nabc").unwrap();
    assert_eq!((outcome.content, outcome.done), (b"abc".to_vec(), false));
}

#[test]
fn trailers_that_are_refused() {
    use BodyError::{ForbiddenTrailer, InvalidLineEnd, InvalidTrailer};
    let rows: [(&str, BodyError); 27] = [
        ("A: b\n", InvalidLineEnd),
        ("A: b\rc\r\n", InvalidLineEnd),
        ("\n", InvalidLineEnd),
        ("A: b\r\r\n", InvalidLineEnd),
        ("A: b\0\r\n", InvalidTrailer),
        ("A: b\x7f\r\n", InvalidTrailer),
        (" A: b\r\n", InvalidTrailer),
        ("A: b\r\n c\r\n", InvalidTrailer),
        ("A: b\r\n\tc\r\n", InvalidTrailer),
        ("A : b\r\n", InvalidTrailer),
        (": b\r\n", InvalidTrailer),
        ("A\r\n", InvalidTrailer),
        ("A b\r\n", InvalidTrailer),
        ("Content-Length: 5\r\n", ForbiddenTrailer),
        ("transfer-encoding: chunked\r\n", ForbiddenTrailer),
        ("Host: a\r\n", ForbiddenTrailer),
        ("X: y\r\nTrailer: z\r\n", ForbiddenTrailer),
        ("Connection: close\r\n", ForbiddenTrailer),
        ("Authorization: x\r\n", ForbiddenTrailer),
        ("Proxy-Authorization: x\r\n", ForbiddenTrailer),
        ("Content-Type: x\r\n", ForbiddenTrailer),
        ("Content-Encoding: x\r\n", ForbiddenTrailer),
        ("Cookie: x\r\n", ForbiddenTrailer),
        ("Expect: x\r\n", ForbiddenTrailer),
        ("X-Forwarded-For: x\r\n", ForbiddenTrailer),
        ("TE: x\r\n", ForbiddenTrailer),
        ("Upgrade: x\r\n", ForbiddenTrailer),
    ];
    for (lines, expected) in rows {
        let text = format!("0\r\n{lines}\r\n");
        assert_eq!(chunked(text.as_bytes()), Err(expected), "{lines:?}");
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(
            run(BodyFraming::Chunked, &bytes),
            Err(expected),
            "{lines:?}"
        );
    }
}

#[test]
fn trailer_bounds() {
    let text = b"0\r\nA: b\r\nC: d\r\n\r\n";
    let bytes = text.len() - 3;
    let run = |bytes_max, fields_max| {
        let limits = TrailerLimits {
            bytes_max,
            fields_max,
        };
        BodyDecoder::new(BodyFraming::Chunked, limits)
            .decode(text)
            .map(|decoded| decoded.done)
    };
    assert_eq!(run(bytes, 2), Ok(true));
    let bytes_max = bytes - 1;
    assert_eq!(
        run(bytes_max, 2),
        Err(BodyError::TrailersTooLarge { bytes_max })
    );
    assert_eq!(
        run(bytes, 1),
        Err(BodyError::TooManyTrailers { fields_max: 1 })
    );

    let many = |count: usize| format!("0\r\n{}\r\n", "A: b\r\n".repeat(count)).into_bytes();
    assert!(chunked(&many(TRAILERS_MAX)).unwrap().done);
    let limits = TrailerLimits {
        fields_max: 1_000,
        ..TrailerLimits::default()
    };
    let mut decoder = BodyDecoder::new(BodyFraming::Chunked, limits);
    let refused = Err(BodyError::TooManyTrailers {
        fields_max: TRAILERS_MAX,
    });
    assert_eq!(decoder.decode(&many(TRAILERS_MAX + 1)), refused);
}

#[test]
fn a_decoder_is_reused() {
    let mut decoder = BodyDecoder::new(BodyFraming::Chunked, TrailerLimits::default());
    decoder.decode(b"0\r\nVia: b\r\n\r\n").unwrap();
    let fields: Vec<_> = decoder.trailers().collect();
    assert_eq!(fields.len(), 1);
    assert_eq!(
        (fields[0].known, fields[0].hop_by_hop),
        (KnownHeader::Via, false)
    );
    decoder.reset(BodyFraming::Chunked);
    let decoded = decoder.decode(b"0\r\n\r\n").unwrap();
    assert!(decoded.done);
    assert_eq!(decoder.trailers().len(), 0);
}

#[test]
fn every_split_gives_the_same() {
    for text in CHUNKED {
        let whole = chunked(text).unwrap();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                let parts = run(BodyFraming::Chunked, &pieces).unwrap();
                assert_eq!(
                    parts,
                    whole,
                    "cut at {first} and {second}: {}",
                    text.escape_ascii()
                );
            }
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(run(BodyFraming::Chunked, &bytes).unwrap(), whole);
    }
}

#[test]
fn damaged_bodies_never_panic_and_splits_agree() {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound as u64) as usize
    };
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut text = CHUNKED[round % CHUNKED.len()].to_vec();
        for _ in 0..=below(2) {
            let at = below(text.len());
            match below(4) {
                0 => text[at] = below(256) as u8,
                1 => drop(text.remove(at)),
                2 => text.insert(at, b"\r\n0;: a\0"[below(8)]),
                _ => text[at] ^= 1 << below(8),
            }
        }
        let whole = chunked(&text);
        let cut = below(text.len() + 1);
        let parts = run(BodyFraming::Chunked, &[&text[..cut], &text[cut..]]);
        assert_eq!(parts, whole, "cut at {cut}: {}", text.escape_ascii());
        accepted += usize::from(whole.is_ok_and(|outcome| outcome.done));
    }
    assert!(
        accepted > 1_000,
        "damage so great that only refusals are tested: {accepted}"
    );
}

#[test]
fn chunk_extensions_are_dropped_up_to_a_bound() {
    let mut decoder = BodyDecoder::new(BodyFraming::Chunked, TrailerLimits::default());
    let mut content = Vec::new();
    let mut input: &[u8] = b"5;a=\"b c\";d\r\nhello\r\n0;x\r\n\r\n";
    while !decoder.is_done() {
        let decoded = decoder.decode(input).expect("well-formed");
        content.extend_from_slice(decoded.data);
        input = &input[decoded.consumed..];
    }
    assert_eq!(content, b"hello");
    let mut endless = b"1;".to_vec();
    endless.resize(5000, b'a');
    decoder.reset(BodyFraming::Chunked);
    let error = decoder.decode(&endless).expect_err("too long");
    assert_eq!(error, BodyError::ChunkExtensionsTooLong { bytes_max: 4096 });
}
