//! Which answers are compressed, and that what comes out is what went in.

use std::io::Read;

use ringway_io::net::http1::{HeadLimits, Parsed};

use super::*;

const ALL: &str = "gzip, br, zstd";

fn request(method: &str, accept: &str) -> (RequestHead, Vec<u8>) {
    let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n");
    let bytes = bytes.into_bytes();
    let mut head = RequestHead::new();
    let parsed = head.parse(&bytes, &HeadLimits::default());
    assert_eq!(parsed, Ok(Parsed::Complete(bytes.len())));
    (head, bytes)
}

/// What becomes of an answer with these header lines: the lines, and whether it is compressed.
fn begun(
    (method, accept): (&str, &str),
    (status, length): (u16, Option<u64>),
    lines: &str,
) -> (String, bool) {
    let (client, client_bytes) = request(method, accept);
    let types: [Box<str>; 2] = ["application/json".into(), "text/*".into()];
    let answer = Answer {
        status,
        length,
        types: &types,
        client: &client,
        client_bytes: &client_bytes,
        places: &Places::default(),
    };
    let mut out = lines.as_bytes().to_vec();
    let compressor = begin(&mut out, 0, Lines::Written(0), &answer);
    // From an origin's head the same is read.
    let text = format!("HTTP/1.1 {status} X\r\n{lines}\r\n").into_bytes();
    let mut head = ResponseHead::new();
    let parsed = head.parse(&text, Method::Get, &HeadLimits::default());
    assert_eq!(parsed, Ok(Parsed::Complete(text.len())));
    let mut again = lines.as_bytes().to_vec();
    let other = begin(&mut again, 0, Lines::Head(&head, &text), &answer);
    assert_eq!((&again, other.is_some()), (&out, compressor.is_some()));
    let out = String::from_utf8(out).expect("ASCII");
    (out, compressor.is_some())
}

#[test]
fn an_answer_worth_it_is_compressed_and_says_so() {
    let lines = "Content-Type: Application/JSON; charset=utf-8\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\n\
                 X: 1\r\nContent-MD5: x\r\n";
    let (out, compressed) = begun(("GET", ALL), (200, None), lines);
    assert!(compressed);
    assert_eq!(
        out,
        "Content-Type: Application/JSON; charset=utf-8\r\nX: 1\r\nVary: Accept-Encoding\r\nETag: W/\"a\"\r\n\
         Content-Encoding: zstd\r\n"
    );
}

#[test]
fn what_depends_on_the_client_varies_whether_compressed_or_not() {
    let text = "Content-Type: text/css\r\n";
    let cases = [
        (("GET", "gzip"), "", true),
        (("GET", "identity"), "", false),
        (("HEAD", "gzip"), "", false),
        (("GET", "gzip"), "Vary: Cookie, accept-encoding\r\n", true),
        (("GET", "gzip"), "Vary: *\r\n", true),
    ];
    for (asked, vary, expected) in cases {
        let (out, compressed) = begun(asked, (200, Some(5000)), &format!("{text}{vary}"));
        assert_eq!(compressed, expected, "{asked:?}");
        let added = out.matches("Vary: Accept-Encoding\r\n").count();
        assert_eq!(added, usize::from(vary.is_empty()), "{out}");
    }
}

#[test]
fn other_answers_stay_as_they_are() {
    let json = "Content-Type: application/json\r\n";
    let coded = format!("{json}Content-Encoding: gzip\r\n");
    let fixed = format!("{json}Cache-Control: public, No-Transform\r\n");
    let cases = [
        (200, Some(COMPRESSED_BYTES_MIN - 1), json),
        (204, None, json),
        (206, None, json),
        (304, None, json),
        (200, None, &coded),
        (200, None, &fixed),
        (200, None, "Content-Type: image/png\r\n"),
        (200, None, "Content-Type: application/json5\r\n"),
        (200, None, "X: text/css\r\n"),
    ];
    for (status, length, lines) in cases {
        let (out, compressed) = begun(("GET", ALL), (status, length), lines);
        assert_eq!((out.as_str(), compressed), (lines, false), "{status}");
    }
    let (out, compressed) = begun(("GET", ALL), (200, Some(COMPRESSED_BYTES_MIN)), json);
    assert!(compressed, "{out}");
    let identity = format!("{json}Content-Encoding: identity\r\n");
    let (out, compressed) = begun(("GET", "br"), (404, None), &identity);
    assert!(
        compressed && out.ends_with("Content-Encoding: br\r\n"),
        "{out}"
    );
    assert!(!out.contains("identity"), "{out}");
}

fn undone(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let read = match coding {
        Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut out),
        Coding::Zstd => zstd::stream::read::Decoder::new(bytes)
            .expect("a decoder")
            .read_to_end(&mut out),
        Coding::Brotli => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out),
    };
    read.expect("it is whole");
    out
}

/// As much as can be read of a stream that has not ended.
fn begun_to_be_undone(coding: Coding, bytes: &[u8], want: usize) -> Vec<u8> {
    let mut out = vec![0; want];
    let read = match coding {
        Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_exact(&mut out),
        Coding::Zstd => zstd::stream::read::Decoder::new(bytes)
            .expect("a decoder")
            .read_exact(&mut out),
        Coding::Brotli => brotli::Decompressor::new(bytes, 4096).read_exact(&mut out),
    };
    read.expect("so much is here");
    out
}

const CODINGS: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Brotli];

#[test]
fn what_comes_out_is_what_went_in() {
    let text: Vec<u8> = (0..40_000_u32)
        .flat_map(|number| format!("{number},").into_bytes())
        .collect();
    for coding in CODINGS {
        let mut compressor = Compressor::new(coding, &Places::default()).expect("a place");
        let mut made = Vec::new();
        for step in text.chunks(COMPRESS_STEP_BYTES) {
            compressor.push(step).expect("it takes all");
            made.extend(compressor.take());
        }
        made.extend(compressor.finish().expect("it ends"));
        assert!(made.len() < text.len() / 2, "{coding:?}: {}", made.len());
        assert!(undone(coding, &made) == text, "{coding:?}");
    }
}

#[test]
fn what_was_flushed_can_be_read_before_the_end() {
    for coding in CODINGS {
        let mut compressor = Compressor::new(coding, &Places::default()).expect("a place");
        compressor.flush().expect("nothing to do");
        assert_eq!(compressor.ready_len(), 0, "{coding:?}");
        compressor.push(b"event: 1\n").expect("it takes all");
        compressor.flush().expect("it can");
        let mut made = compressor.take();
        assert_eq!(begun_to_be_undone(coding, &made, 9), b"event: 1\n");
        made.extend(compressor.finish().expect("it ends"));
        assert_eq!(undone(coding, &made), b"event: 1\n");
    }
}

#[test]
fn an_empty_body_is_still_of_its_coding() {
    for coding in CODINGS {
        let compressor = Compressor::new(coding, &Places::default()).expect("a place");
        let made = compressor.finish().expect("it ends");
        assert!(undone(coding, &made).is_empty());
    }
}

#[test]
fn compressors_are_bounded_and_give_their_place_back() {
    let places = Places::default();
    let taken: Vec<Place> = (0..COMPRESSORS_MAX).filter_map(|_| places.take()).collect();
    assert_eq!(taken.len(), COMPRESSORS_MAX);
    assert!(Compressor::new(Coding::Gzip, &places).is_none());
    drop(taken);
    let compressor = Compressor::new(Coding::Gzip, &places).expect("a place");
    assert_eq!(places.0.get(), 1);
    drop(compressor);
    assert_eq!(places.0.get(), 0);
}
