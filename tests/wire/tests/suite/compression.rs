//! Compression towards clients: what is compressed, for whom, and that slow streams keep flowing.

use std::io::Read;

use ringway_wire::{Answer, Framing, Gate, Origin, Ringway, Setup};

use crate::fake_prometheus::{Server, matrix, start};

/// Text that compresses, of about this many bytes.
fn text(bytes: usize) -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < bytes {
        text.push_str(&format!("line {number} of a text\n"));
        number += 1;
    }
    text
}

fn origin(headers: &'static str, body: String) -> Origin {
    Origin::answering(move |_| {
        format!(
            "HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    })
}

fn ask(ringway: &Ringway, path: &str, accept: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n");
    ringway.client().send(request).answer()
}

/// The body with its coding undone.
#[track_caller]
fn undone(answer: &Answer) -> String {
    let mut out = String::new();
    let bytes = answer.body.as_slice();
    let read = match answer.header("content-encoding") {
        None => return answer.text(),
        Some("gzip") => flate2::read::GzDecoder::new(bytes).read_to_string(&mut out),
        Some("zstd") => zstd::stream::read::Decoder::new(bytes)
            .expect("a decoder")
            .read_to_string(&mut out),
        Some("br") => brotli::Decompressor::new(bytes, 4096).read_to_string(&mut out),
        Some(other) => panic!("{other}?"),
    };
    read.expect("it is whole");
    out
}

#[test]
fn the_coding_that_the_client_likes_best_is_used() {
    let body = text(300_000);
    let origin = origin(
        "Content-Type: text/plain; charset=utf-8\r\nETag: \"v\"\r\n",
        body.clone(),
    );
    let ringway = Setup::web(origin.address(), "").start();
    let cases = [
        ("gzip", Some("gzip")),
        ("gzip, br", Some("br")),
        ("gzip, br, zstd", Some("zstd")),
        ("gzip;q=0.9, br;q=0.1", Some("gzip")),
        ("gzip;q=0", None),
        ("identity", None),
        ("deflate", None),
    ];
    for (accept, expected) in cases {
        let answer = ask(&ringway, "/", accept);
        assert_eq!(answer.header("content-encoding"), expected, "{accept}");
        assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
        assert!(undone(&answer) == body, "{accept}");
        if expected.is_some() {
            assert!(answer.body.len() < body.len() / 2);
            assert_eq!(answer.framing, Framing::Chunked);
            assert_eq!(answer.header("etag"), Some("W/\"v\""));
        } else {
            assert_eq!(answer.framing, Framing::Length);
            assert_eq!(answer.header("etag"), Some("\"v\""));
        }
    }
    ringway.stop();
}

#[test]
fn what_is_not_worth_it_or_forbidden_passes_as_it_is() {
    let cases: [(&'static str, usize); 5] = [
        ("Content-Type: image/png\r\n", 5000),
        ("Content-Type: text/plain\r\n", 900),
        (
            "Content-Type: text/plain\r\nContent-Encoding: deflate\r\n",
            5000,
        ),
        (
            "Content-Type: text/plain\r\nCache-Control: no-transform\r\n",
            5000,
        ),
        ("", 5000),
    ];
    for (headers, bytes) in cases {
        let body = text(bytes);
        let origin = origin(headers, body.clone());
        let ringway = Setup::web(origin.address(), "").start();
        let answer = ask(&ringway, "/", "gzip");
        assert_eq!(
            (answer.framing, answer.text()),
            (Framing::Length, body),
            "{headers}"
        );
        assert_eq!(answer.header("vary"), None, "{headers}");
        ringway.stop();
    }
}

#[test]
fn an_empty_list_turns_it_off_and_another_list_counts() {
    for (keys, expected) in [
        ("compressible_types: []", None),
        ("compressible_types: ['text/*']", Some("gzip")),
        ("compressible_types: [text/html]", None),
    ] {
        let origin = origin("Content-Type: Text/Csv\r\n", text(5000));
        let ringway = Setup::web(origin.address(), keys).start();
        let answer = ask(&ringway, "/", "gzip");
        assert_eq!(answer.header("content-encoding"), expected, "{keys}");
        ringway.stop();
    }
}

#[test]
fn head_has_no_coding_and_http10_gets_it_until_the_close() {
    let body = text(5000);
    let origin = origin("Content-Type: text/html\r\n", body.clone());
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    let old = client
        .send(
            "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nAccept-Encoding: gzip\r\n\r\n",
        )
        .answer();
    assert_eq!((old.framing, undone(&old)), (Framing::Close, body.clone()));
    assert_eq!(old.header("connection"), Some("close"));
    ringway.stop();

    let length = body.len();
    let origin = Origin::answering(move |_| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n")
            .into_bytes()
    });
    let ringway = Setup::web(origin.address(), "").start();
    let head = ringway
        .client()
        .send("HEAD / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
        .answer_to("HEAD");
    assert_eq!(head.header("content-encoding"), None);
    assert_eq!(head.header("vary"), Some("Accept-Encoding"));
    assert_eq!(
        head.header("content-length"),
        Some(length.to_string().as_str())
    );
    ringway.stop();
}

#[test]
fn a_slow_stream_is_not_held_back() {
    for coding in ["gzip", "zstd", "br"] {
        let gate = Gate::new();
        let passed = gate.clone();
        let origin = Origin::start(move |conn| {
            while conn.request().is_some() {
                conn.send(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n",
                );
                passed.pass();
                conn.send(b"7\r\nsecond\n\r\n0\r\n\r\n");
            }
        });
        let ringway = Setup::web(origin.address(), "").start();
        let mut client = ringway.client();
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n"
        ));
        let (status, head) = client.head();
        assert_eq!(status, 200);
        // The first line can be read before the origin sends the second.
        let mut bytes = client.chunk();
        let mut first = [0; 6];
        let read = match coding {
            "gzip" => flate2::read::GzDecoder::new(bytes.as_slice()).read_exact(&mut first),
            "zstd" => zstd::stream::read::Decoder::new(bytes.as_slice())
                .expect("a decoder")
                .read_exact(&mut first),
            _ => brotli::Decompressor::new(bytes.as_slice(), 4096).read_exact(&mut first),
        };
        read.unwrap_or_else(|error| panic!("{coding}: {error}"));
        assert_eq!(&first, b"first\n", "{coding}");
        gate.open();
        loop {
            let chunk = client.chunk();
            if chunk.is_empty() {
                break;
            }
            bytes.extend(chunk);
        }
        let answer = Answer {
            status,
            head,
            body: bytes,
            trailers: Vec::new(),
            framing: Framing::Chunked,
        };
        assert_eq!(undone(&answer), "first\nsecond\n", "{coding}");
        ringway.stop();
    }
}

#[test]
fn an_origins_broken_body_breaks_the_compressed_one() {
    let origin = Origin::start(|conn| {
        conn.request();
        conn.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\nbegin",
        );
    });
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert!(client.try_answer_to("GET").is_err());
    ringway.stop();
}

#[test]
fn local_and_merged_answers_are_compressed_too() {
    let body = text(3000);
    let port = ringway_wire::Port::claim();
    let keys = format!(
        "paths: [{{path: /l, handler: localresponse, response_body: {:?}}}]",
        body
    );
    let ringway = Setup::web(port.address(), &keys).start();
    let local = ask(&ringway, "/l", "br");
    assert_eq!(local.header("content-encoding"), Some("br"));
    assert_eq!(undone(&local), body);
    ringway.stop();

    let points: Vec<String> = (0..2000)
        .map(|index| format!("[{},\"{index}\"]", 1_700_000_000 + 15 * index))
        .collect();
    let points = points.join(",");
    let servers = [
        Server::saying("one", matrix(&[(r#""job":"a""#, &points)])),
        Server::saying("two", matrix(&[(r#""job":"b""#, &points)])),
    ];
    let ringway = start(&servers, &[]);
    let path = "/api/v1/query_range?query=up&start=1700000000&end=1700030000&step=15";
    let plain = ask(&ringway, path, "identity");
    let packed = ask(&ringway, path, "gzip");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.header("vary"), Some("Accept-Encoding"));
    assert!(packed.body.len() < plain.body.len() / 2);
    assert_eq!(undone(&packed), plain.text());
    ringway.stop();
}
