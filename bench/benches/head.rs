//! How fast message heads are read.
//!
//! Models one keep-alive connection: the head lies in one buffer, as after one read, and the tables are
//! reused from message to message. Beside each: `httparse` alone, which is the tokenizer underneath,
//! and a copy of the same bytes, which is the least that touching them can cost.
//!
//! The sum on paper: a proxied request reads one request and one response head. At 16 us of CPU per
//! request, 0.5 us for both is 3 %.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ringway_io::net::http1::{HeadLimits, KnownHeader, Method, Parsed, RequestHead, ResponseHead};

/// What a command-line client sends.
const SMALL_REQUEST: &str = "GET /api/v1/items/42 HTTP/1.1\r\n\
    Host: shop.example.com\r\n\
    User-Agent: curl/8.10.1\r\n\
    Accept: */*\r\n\r\n";

/// What a browser sends, cookies included.
const BROWSER_REQUEST: &str = "GET /checkout/cart?session=8f14e45f&lang=de&page=2 HTTP/1.1\r\n\
    Host: shop.example.com\r\n\
    Connection: keep-alive\r\n\
    Cache-Control: max-age=0\r\n\
    sec-ch-ua: \"Chromium\";v=\"142\", \"Not=A?Brand\";v=\"24\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-User: ?1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Referer: https://shop.example.com/checkout\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: de-DE,de;q=0.9,en;q=0.8\r\n\
    Cookie: sid=c9f0f895fb98ab9159f51fd0297e236d; theme=dark; consent=analytics%3D0%26ads%3D0; cart=45c48cce2e2d7fbdea1afc51c7c6ad26\r\n\
    If-None-Match: \"6512bd43d9caa6e02c990b0a82652dca\"\r\n\r\n";

/// What an origin answers.
const RESPONSE: &str = "HTTP/1.1 200 OK\r\n\
    Date: Mon, 05 Jan 2026 10:00:00 GMT\r\n\
    Server: nginx\r\n\
    Content-Type: application/json; charset=utf-8\r\n\
    Content-Length: 200\r\n\
    Connection: keep-alive\r\n\
    Cache-Control: private, max-age=0\r\n\
    ETag: \"c20ad4d76fe97759aa27a0c99bff6710\"\r\n\
    X-Request-Id: 4e732ced-3463-4d06-a0ca-9a15b6153677\r\n\r\n";

fn copy(group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>, text: &str) {
    let mut target = vec![0; text.len()];
    group.bench_function("memcpy", |bencher| {
        bencher.iter(|| black_box(&mut target[..]).copy_from_slice(black_box(text.as_bytes())));
    });
}

fn requests(criterion: &mut Criterion) {
    for (name, text) in [
        ("request_small", SMALL_REQUEST),
        ("request_browser", BROWSER_REQUEST),
    ] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(text.len() as u64));
        let limits = HeadLimits::default();
        let mut head = RequestHead::new();
        group.bench_function("ringway", |bencher| {
            bencher.iter(|| {
                let parsed = head.parse(black_box(text.as_bytes()), &limits);
                assert_eq!(parsed, Ok(Parsed::Complete(text.len())));
            });
        });
        group.bench_function("ringway_and_lookups", |bencher| {
            let bytes = text.as_bytes();
            bencher.iter(|| {
                let _ = head.parse(black_box(bytes), &limits);
                black_box((
                    head.framing(),
                    head.keep_alive(),
                    head.upgrade(),
                    head.path(bytes),
                ));
                black_box((
                    head.host(bytes),
                    head.first(bytes, KnownHeader::AcceptEncoding),
                ));
            });
        });
        group.bench_function("httparse", |bencher| {
            bencher.iter(|| {
                let mut fields = [httparse::EMPTY_HEADER; 128];
                let mut head = httparse::Request::new(&mut fields);
                black_box(
                    head.parse(black_box(text.as_bytes()))
                        .is_ok_and(|s| s.is_complete()),
                );
            });
        });
        copy(&mut group, text);
        group.finish();
    }
}

fn responses(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("response");
    group.throughput(Throughput::Bytes(RESPONSE.len() as u64));
    let limits = HeadLimits::default();
    let mut head = ResponseHead::new();
    group.bench_function("ringway", |bencher| {
        bencher.iter(|| {
            let parsed = head.parse(black_box(RESPONSE.as_bytes()), Method::Get, &limits);
            assert_eq!(parsed, Ok(Parsed::Complete(RESPONSE.len())));
        });
    });
    group.bench_function("httparse", |bencher| {
        bencher.iter(|| {
            let mut fields = [httparse::EMPTY_HEADER; 128];
            let mut head = httparse::Response::new(&mut fields);
            black_box(
                head.parse(black_box(RESPONSE.as_bytes()))
                    .is_ok_and(|s| s.is_complete()),
            );
        });
    });
    copy(&mut group, RESPONSE);
    group.finish();
}

/// The heads reach the parser byte by byte: the time must grow with the length, not its square.
fn pieces(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("request_browser_in_pieces");
    group.throughput(Throughput::Bytes(BROWSER_REQUEST.len() as u64));
    let limits = HeadLimits::default();
    let mut head = RequestHead::new();
    for step in [1, 64] {
        group.bench_function(format!("{step}_bytes_each"), |bencher| {
            bencher.iter(|| {
                let mut end = 0;
                loop {
                    end = BROWSER_REQUEST.len().min(end + step);
                    let seen = &black_box(BROWSER_REQUEST.as_bytes())[..end];
                    if head.parse(seen, &limits) != Ok(Parsed::Partial) {
                        break;
                    }
                }
                assert_eq!(end, BROWSER_REQUEST.len());
            });
        });
    }
    group.finish();
}

criterion_group!(benches, requests, responses, pieces);
criterion_main!(benches);
