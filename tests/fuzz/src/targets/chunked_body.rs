//! Chunked bodies: the same content and end whatever the pieces, and the same as a slow, obvious
//! reader finds.

use ringway_io::net::http1::{BodyDecoder, BodyError, BodyFraming, TrailerLimits, write};

use super::Target;
use crate::random::Random;

/// See the module.
pub static TARGET: Target = Target {
    name: "chunked-body",
    about: "chunked bodies and their trailers",
    count: 500_000,
    seeds: &[
        b"0\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
        b"1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n",
        b"000000000000000A\r\n\r\n0\r\n\r\n5\r\n\r\n0\r\n\r\n",
        b"3;a=\"b\";c\r\nxyz\r\n0;last\r\n\r\n",
        b"1f\r\n0123456789abcdef0123456789abcde\r\n000\r\nA:\r\n\r\nrest",
    ],
    words: &[
        b"\r\n",
        b"\n",
        b"\r",
        b"0\r\n\r\n",
        b"5\r\nhello\r\n",
        b";a=b",
        b" ",
        b"0x",
        b"-",
        b"+",
        b"ffffffffffffffff\r\n",
        b"10000000000000000\r\n",
        b"Content-Length: 5\r\n",
        b"Host: a\r\n",
        b"A: b\r\n",
        b": b\r\n",
        b"A : b\r\n",
        b"\r\n c",
        b"\0",
    ],
    run,
};

/// Content, bytes used, whether it has ended, trailers.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    content: Vec<u8>,
    consumed: usize,
    done: bool,
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

fn run(input: &[u8], random: &mut Random) {
    let whole = decode(&[input]);
    let mut pieces = Vec::new();
    let mut rest = input;
    while !rest.is_empty() {
        let (piece, others) = rest.split_at(1 + random.below(rest.len().min(20)));
        pieces.push(piece);
        rest = others;
    }
    assert_eq!(decode(&pieces), whole, "in pieces");
    match (&whole, model(input)) {
        (Ok(outcome), Some((content, body_end))) if outcome.done => {
            assert_eq!(outcome.content, content);
            assert!(
                outcome.consumed >= body_end + 2,
                "ended before its trailers"
            );
            check_written_again(outcome);
        }
        (Ok(outcome), None) => assert!(!outcome.done, "accepted what the model refuses"),
        _ => {}
    }
}

fn decode(pieces: &[&[u8]]) -> Result<Outcome, BodyError> {
    let mut decoder = BodyDecoder::new(BodyFraming::Chunked, TrailerLimits::default());
    let mut outcome = Outcome {
        content: Vec::new(),
        consumed: 0,
        done: false,
        trailers: Vec::new(),
    };
    for piece in pieces {
        let mut rest = *piece;
        // Each step uses at least one byte.
        for _ in 0..=piece.len() {
            if rest.is_empty() || outcome.done {
                break;
            }
            let decoded = decoder.decode(rest)?;
            assert!(decoded.consumed > 0 && decoded.data.len() <= decoded.consumed);
            outcome.content.extend_from_slice(decoded.data);
            outcome.consumed += decoded.consumed;
            outcome.done = decoded.done;
            rest = &rest[decoded.consumed..];
        }
        assert!(rest.is_empty() || outcome.done, "stuck");
    }
    if outcome.done {
        outcome.trailers = decoder
            .trailers()
            .map(|field| (field.name.to_vec(), field.value.to_vec()))
            .collect();
    }
    assert_eq!(decoder.end_of_input().is_ok(), outcome.done);
    Ok(outcome)
}

/// Content and where the trailers begin, of a body whose chunks are all there.
fn model(input: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut content = Vec::new();
    let mut at = 0;
    loop {
        let length = input[at..]
            .windows(2)
            .position(|window| window == b"\r\n")?;
        let line = &input[at..at + length];
        let (digits, extension) = match line.iter().position(|&byte| byte == b';') {
            Some(semicolon) => line.split_at(semicolon),
            None => (line, &line[..0]),
        };
        let is_text = |byte: &u8| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..);
        if !extension.iter().all(is_text) {
            return None;
        }
        let digits = std::str::from_utf8(digits).ok()?;
        if digits.len() > 16 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let size = usize::try_from(i64::from_str_radix(digits, 16).ok()?).ok()?;
        at += length + 2;
        if size == 0 {
            return Some((content, at));
        }
        let end = at.checked_add(size)?;
        content.extend_from_slice(input.get(at..end)?);
        if input.get(end..end.checked_add(2)?)? != b"\r\n" {
            return None;
        }
        at = end + 2;
    }
}

/// What was read, written out and read again, is the same.
fn check_written_again(outcome: &Outcome) {
    let mut out = Vec::new();
    for chunk in outcome.content.chunks(7) {
        write::chunk_header(&mut out, chunk.len() as u64);
        out.extend_from_slice(chunk);
        out.extend_from_slice(write::CHUNK_END);
    }
    out.extend_from_slice(write::LAST_CHUNK);
    for (name, value) in &outcome.trailers {
        write::header(&mut out, name, value);
    }
    write::end_of_head(&mut out);
    let again = decode(&[&out]).expect("what is written is valid");
    assert_eq!(again.content, outcome.content);
    assert_eq!(again.trailers, outcome.trailers);
    assert!(again.done && again.consumed == out.len());
}
