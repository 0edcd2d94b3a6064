//! The generator against real sockets on the loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use super::super::target::Target;
use super::*;
use crate::origin::Origin;

/// An origin on a thread that lives as long as the test process.
fn origin() -> SocketAddr {
    let (send, receive) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let origin = Origin::bind(SocketAddr::from(([127, 0, 0, 1], 0)), 0).unwrap();
        send.send(origin.address().unwrap()).unwrap();
        origin.serve()
    });
    receive.recv().unwrap()
}

fn options(address: SocketAddr, path: &str) -> Options {
    let mut options = Options::new(Target::parse(&format!("http://{address}{path}")).unwrap());
    options.connections = 4;
    options.duration = Duration::from_millis(300);
    options.warmup = Duration::from_millis(50);
    options.timeout = Duration::from_secs(5);
    options
}

#[test]
fn the_closed_loop_keeps_every_connection_busy() {
    let summary = run(&options(origin(), "/bytes/1000")).unwrap();
    assert!(summary.answers > 100, "{summary:?}");
    assert_eq!(summary.errors.total(), 0, "{summary:?}");
    assert_eq!(summary.statuses[&200], summary.answers_total);
    assert_eq!(summary.body_bytes_total, summary.answers_total * 1000);
    assert!(summary.corrected.is_some() && summary.generator_lag.is_none());
}

#[test]
fn the_open_loop_sends_what_was_asked_for() {
    let mut options = options(origin(), "/");
    options.rate = Some(1000.0);
    let summary = run(&options).unwrap();
    // 50 ms of warm-up and 300 ms, at 1,000/s.
    assert_eq!(summary.answers_total, 350, "{summary:?}");
    assert_eq!(summary.errors.total(), 0, "{summary:?}");
    assert!(summary.corrected.is_none() && summary.generator_lag.is_some());
}

#[test]
fn bodies_larger_than_any_buffer_arrive_whole() {
    let address = origin();
    let mut options = options(address, "/api/v1/query_range?query=up");
    options.connections = 1;
    let summary = run(&options).unwrap();
    assert!(
        summary.answers_total > 0 && summary.errors.total() == 0,
        "{summary:?}"
    );
    let each = summary.body_bytes_total / summary.answers_total;
    assert_eq!(
        each as usize,
        crate::fixtures::RangeAnswer::EIGHT_MB.json().len()
    );
}

#[test]
fn a_request_larger_than_the_socket_takes_is_sent_in_pieces() {
    let path = std::env::temp_dir().join(format!("ringway-load-{}.body", std::process::id()));
    std::fs::write(&path, vec![b'b'; 8 << 20]).unwrap();
    let mut options = options(origin(), "/");
    options.body = Some(path.clone());
    options.connections = 2;
    let summary = run(&options).unwrap();
    std::fs::remove_file(path).unwrap();
    assert!(
        summary.answers_total > 0 && summary.errors.total() == 0,
        "{summary:?}"
    );
}

/// A server that treats each connection as the function says.
fn server(on_connection: fn(std::net::TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || on_connection(stream.unwrap()));
        }
    });
    address
}

#[test]
fn a_connection_that_is_closed_after_each_answer_is_made_anew() {
    let address = server(|mut stream| {
        let mut buffer = [0; 1024];
        if stream.read(&mut buffer).is_ok_and(|count| count > 0) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nend by close");
        }
    });
    let summary = run(&options(address, "/")).unwrap();
    assert!(summary.answers_total > 8, "{summary:?}");
    assert_eq!(summary.errors.total(), 0, "{summary:?}");
}

#[test]
fn silence_is_a_timeout_and_is_in_the_histogram() {
    let address = server(|mut stream| while stream.read(&mut [0; 64]).is_ok_and(|n| n > 0) {});
    let mut options = options(address, "/");
    options.warmup = Duration::ZERO;
    options.timeout = Duration::from_millis(100);
    let summary = run(&options).unwrap();
    assert_eq!(summary.answers_total, 0);
    assert!(summary.errors.timeout >= 4, "{summary:?}");
    assert!(summary.latency.unwrap().p50 >= 100_000.0, "{summary:?}");
}

#[test]
fn nonsense_and_breaks_are_counted_apart() {
    let garbage = server(|mut stream| {
        let mut buffer = [0; 1024];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(b"SSH-2.0-nonsense\r\n\r\n");
    });
    let summary = run(&options(garbage, "/")).unwrap();
    assert!(
        summary.errors.malformed > 0 && summary.answers_total == 0,
        "{summary:?}"
    );
    let cut = server(|mut stream| {
        let mut buffer = [0; 1024];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    });
    let summary = run(&options(cut, "/")).unwrap();
    assert!(
        summary.errors.broken > 0 && summary.answers_total == 0,
        "{summary:?}"
    );
}

#[test]
fn nobody_there_is_an_error_at_once() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut options = options(free, "/");
    options.timeout = Duration::from_millis(200);
    let error = run(&options).unwrap_err().to_string();
    assert!(error.contains("0 of 4 connections"), "{error}");
}

#[test]
fn the_request_has_one_host_and_its_body() {
    let mut options = options(SocketAddr::from(([127, 0, 0, 1], 1)), "/a?b");
    let plain = String::from_utf8(request_bytes(&options).unwrap()).unwrap();
    assert!(
        plain.starts_with("GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:1\r\n"),
        "{plain}"
    );
    options.headers = vec!["host: other".to_owned(), "X-A: b".to_owned()];
    options.method = Some("HEAD".to_owned());
    let custom = String::from_utf8(request_bytes(&options).unwrap()).unwrap();
    assert_eq!(
        custom.to_ascii_lowercase().matches("host:").count(),
        1,
        "{custom}"
    );
    assert!(
        custom.starts_with("HEAD ") && custom.ends_with("X-A: b\r\n\r\n"),
        "{custom}"
    );
}
