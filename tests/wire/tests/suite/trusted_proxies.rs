//! `trusted_proxies`: whose word about who is behind it counts.

use ringway_wire::{Origin, Request, Setup, ok};

const CLAIMS: &str = "Forwarded: for=192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\nX-Forwarded-Host: public.test\r\n\
                      X-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n";

fn ask(listener: &str, keys: &str) -> Request {
    let origin = Origin::answering(|_| ok(""));
    let mut setup = Setup::web(origin.address(), keys);
    if !listener.is_empty() {
        setup = setup.listener(listener);
    }
    let ringway = setup.section("main:\n  server_name: front\n").start();
    let mut client = ringway.client();
    client
        .send(format!("GET / HTTP/1.1\r\nHost: asked\r\n{CLAIMS}\r\n"))
        .answer();
    let request = origin.next_request();
    ringway.stop();
    request
}

const OWN: &str = "by=front;for=127.0.0.1;host=asked;proto=http";

/// Earlier hops stand in front of this one in both forms.
#[track_caller]
fn assert_keeps_hops(request: &Request) {
    assert_eq!(
        request.headers("forwarded").join(", "),
        format!("for=192.0.2.1, {OWN}")
    );
    assert_eq!(
        request.header("x-forwarded-for"),
        Some("192.0.2.2, 127.0.0.1")
    );
}

#[test]
fn a_trusted_proxy_is_believed() {
    let request = ask("trusted_proxies: [127.0.0.0/8]", "forwarded_headers: both");
    assert_keeps_hops(&request);
    assert_eq!(request.header("x-forwarded-host"), Some("public.test"));
    assert_eq!(request.header("x-forwarded-proto"), Some("https"));
    assert_eq!(request.header("x-forwarded-port"), Some("443"));
}

#[test]
fn a_trusted_proxy_that_only_sends_forwarded_is_believed_in_the_older_headers() {
    let origin = Origin::answering(|_| ok(""));
    let ringway = Setup::web(origin.address(), "forwarded_headers: x")
        .listener("trusted_proxies: [127.0.0.0/8]")
        .start();
    let told = "for=192.0.2.1;proto=https;host=public.test, for=192.0.2.9;proto=http";
    ringway
        .client()
        .send(format!(
            "GET / HTTP/1.1\r\nHost: asked\r\nForwarded: {told}\r\n\r\n"
        ))
        .answer();
    let request = origin.next_request();
    assert_eq!(
        request.header("x-forwarded-for"),
        Some("192.0.2.1, 192.0.2.9, 127.0.0.1")
    );
    assert_eq!(request.header("x-forwarded-host"), Some("public.test"));
    assert_eq!(request.header("x-forwarded-proto"), Some("https"));
    ringway.stop();
}

#[test]
fn nobody_else_is() {
    for list in ["trusted_proxies: [192.0.2.0/24]", "trusted_proxies: []"] {
        let request = ask(list, "forwarded_headers: both");
        assert_eq!(request.headers("forwarded"), [OWN], "{list}");
        assert_eq!(request.header("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(request.header("x-forwarded-host"), Some("asked"));
        assert_eq!(request.header("x-forwarded-proto"), Some("http"));
        assert_eq!(request.header("x-forwarded-port"), None);
        let request = ask(list, "forwarded_headers: none");
        for (name, _) in &request.head.headers {
            let name = name.to_ascii_lowercase();
            assert!(!name.contains("forwarded"), "{name}");
        }
    }
}

#[test]
fn without_a_list_hops_are_kept_and_scheme_and_host_told_anew() {
    let request = ask("", "forwarded_headers: both");
    assert_keeps_hops(&request);
    assert_eq!(request.header("x-forwarded-host"), Some("asked"));
    assert_eq!(request.header("x-forwarded-proto"), Some("http"));
}
