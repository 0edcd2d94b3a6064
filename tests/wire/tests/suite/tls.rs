//! TLS on both sides: certificates by name towards clients, verification and client certificates
//! towards origins.

use std::net::SocketAddr;
use std::path::Path;

use ringway_wire::{
    Authority, Client, Origin, Ringway, Setup, TlsClient, client_tls, eventually, ok, server_tls,
};

/// A backend as YAML, with further lines of its own.
fn backend(name: &str, origin: &str, lines: &[String]) -> String {
    let mut yaml = format!("  {name}:\n    provider: reverseproxy\n    origin_url: {origin}\n");
    for line in lines {
        yaml.push_str(&format!("    {line}\n"));
    }
    yaml
}

fn server_keys(authority: &Authority, folder: &Path, name: &str) -> Vec<String> {
    let (certificate, key) = authority.issue(&[name]).write(folder, name);
    vec![
        format!("hosts: [{name}]"),
        "tls:".to_owned(),
        format!("  full_chain_cert_path: {}", certificate.display()),
        format!("  private_key_path: {}", key.display()),
    ]
}

/// Two backends with certificates of their own; the first is the default.
fn two_names(authority: &Authority, one: SocketAddr, two: SocketAddr) -> Ringway {
    let setup = Setup::new("backends:\n");
    let mut first = server_keys(authority, setup.folder(), "one.test");
    first.push("is_default: true".to_owned());
    let second = server_keys(authority, setup.folder(), "two.test");
    // `is_default` must not end up inside `tls`.
    first.rotate_right(1);
    let one = backend("one", &format!("http://{one}"), &first);
    let two = backend("two", &format!("http://{two}"), &second);
    setup.section(&one).section(&two).start()
}

#[test]
fn a_client_gets_the_certificate_of_the_name_it_asks_for() {
    let authority = Authority::new();
    let one = Origin::answering(|_| ok("one"));
    let two = Origin::answering(|_| ok("two"));
    let ringway = two_names(&authority, one.address(), two.address());
    let tls = client_tls(&authority);
    let mut certificates = Vec::new();
    for (name, body) in [("one.test", "one"), ("two.test", "two")] {
        // The client verifies the name, so a wrong certificate would fail here.
        let mut client = TlsClient::connect_tls(ringway.tls_address(), name, &tls);
        client.send(format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n"));
        assert_eq!(client.answer().text(), body);
        certificates.push(client.peer_certificate().expect("one was shown").to_vec());
    }
    assert_ne!(certificates[0], certificates[1]);
    assert_eq!(
        one.next_request()
            .header("forwarded")
            .map(|hop| hop.contains("proto=https")),
        Some(true)
    );
    ringway.stop();
}

#[test]
fn requests_under_tls_are_framed_as_in_the_clear_and_end_properly() {
    let authority = Authority::new();
    let origin = Origin::answering(|request| ok(&request.body));
    let ringway = two_names(&authority, origin.address(), origin.address());
    let mut client =
        TlsClient::connect_tls(ringway.tls_address(), "one.test", &client_tls(&authority));
    let body = vec![b'x'; 1 << 20];
    for _ in 0..3 {
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ));
        assert_eq!(client.send(&body).answer().body, body);
    }
    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.answer().text(), "abc");
    assert_eq!(client.answer().text(), "");
    assert_eq!(client.rest_until_proper_end(), b"");
    ringway.stop();
}

#[test]
fn a_malformed_request_under_tls_is_refused_with_400_and_close() {
    let authority = Authority::new();
    let origin = Origin::answering(|_| ok(""));
    let ringway = two_names(&authority, origin.address(), origin.address());
    let mut client =
        TlsClient::connect_tls(ringway.tls_address(), "one.test", &client_tls(&authority));
    client.send("GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n");
    assert_eq!(client.answer().status, 400);
    client.assert_closed();
    assert!(origin.requests().is_empty());
    ringway.stop();
}

#[test]
fn what_is_no_tls_on_the_tls_port_is_closed_and_others_are_served_on() {
    let authority = Authority::new();
    let origin = Origin::answering(|_| ok("x"));
    let ringway = two_names(&authority, origin.address(), origin.address());
    let tls = client_tls(&authority);
    for garbage in [
        &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
        b"\0\0\0\0\0\0\0\0",
        b"\x16\x03\x01\xff\xff",
    ] {
        let mut client = Client::connect(ringway.tls_address());
        client.send(garbage);
        client.half_close();
        // An alert may come first.
        client.rest();
        let mut client = TlsClient::connect_tls(ringway.tls_address(), "one.test", &tls);
        assert_eq!(client.get("/").text(), "x");
    }
    // A client that does not trust the certificate goes away by itself.
    let strangers = client_tls(&Authority::new());
    let mut client = TlsClient::connect_tls(ringway.tls_address(), "one.test", &strangers);
    assert!(
        client
            .try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .is_err()
    );
    ringway.stop();
}

/// One TLS origin behind one backend with these keys under `tls`.
fn to_origin(origin: &Origin, name: &str, setup: Setup, keys: &[String]) -> Ringway {
    let mut lines = vec!["is_default: true".to_owned()];
    if !keys.is_empty() {
        lines.push("tls:".to_owned());
        lines.extend(keys.iter().map(|key| format!("  {key}")));
    }
    let url = format!("https://{name}:{}", origin.address().port());
    setup.section(&backend("web", &url, &lines)).start()
}

#[test]
fn an_origin_with_a_trusted_certificate_is_served() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost", "127.0.0.1"]);
    let origin = Origin::start_tls(server_tls(&identity, None), |conn| {
        while let Some(request) = conn.request() {
            conn.send(ok(format!(
                "{} {}",
                conn.number,
                request.header("host").unwrap_or_default()
            )));
        }
    });
    for name in ["localhost", "127.0.0.1"] {
        let setup = Setup::new("backends:\n");
        let trust = format!(
            "certificate_authority_paths: [{}]",
            authority.write(setup.folder()).display()
        );
        let ringway = to_origin(&origin, name, setup, &[trust]);
        let mut client = ringway.client();
        let first = client.get("/").text();
        assert!(
            first.ends_with(&format!("{name}:{}", origin.address().port())),
            "{first}"
        );
        assert_eq!(client.get("/").text(), first, "the session is reused");
        ringway.stop();
    }
}

#[test]
fn an_origin_that_cannot_be_verified_is_answered_502_and_sees_no_request() {
    let authority = Authority::new();
    let good = authority.issue(&["localhost"]);
    let other_name = authority.issue(&["other.test"]);
    let stranger = Authority::new().issue(&["localhost"]);
    for (name, identity) in [
        ("unknown authority", &stranger),
        ("other name", &other_name),
    ] {
        let origin = Origin::start_tls(server_tls(identity, None), |conn| {
            conn.request();
        });
        let setup = Setup::new("backends:\n");
        let trust = format!(
            "certificate_authority_paths: [{}]",
            authority.write(setup.folder()).display()
        );
        let ringway = to_origin(&origin, "localhost", setup, &[trust]);
        assert_eq!(ringway.get("/").status, 502, "{name}");
        assert!(origin.requests().is_empty(), "{name}");
        ringway.stop();
    }
    // The same certificate authority is not trusted unless configured.
    let origin = Origin::start_tls(server_tls(&good, None), |conn| {
        conn.request();
    });
    let ringway = to_origin(&origin, "localhost", Setup::new("backends:\n"), &[]);
    assert_eq!(ringway.get("/").status, 502);
    ringway.stop();
}

#[test]
fn verification_can_be_switched_off() {
    let origin = Origin::start_tls(
        server_tls(&Authority::new().issue(&["other.test"]), None),
        |conn| {
            while conn.request().is_some() {
                conn.send(ok("unverified"));
            }
        },
    );
    let keys = ["insecure_skip_verify: true".to_owned()];
    let ringway = to_origin(&origin, "localhost", Setup::new("backends:\n"), &keys);
    assert_eq!(ringway.get("/").text(), "unverified");
    ringway.stop();
}

#[test]
fn an_origin_that_demands_a_client_certificate_gets_it() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"]);
    let origin = Origin::start_tls(server_tls(&identity, Some(&authority)), |conn| {
        while conn.request().is_some() {
            conn.send(ok("known"));
        }
    });
    for with_certificate in [true, false] {
        let setup = Setup::new("backends:\n");
        let trust = authority.write(setup.folder());
        let mut keys = vec![format!(
            "certificate_authority_paths: [{}]",
            trust.display()
        )];
        if with_certificate {
            let (certificate, key) = authority
                .issue(&["ringway.test"])
                .write(setup.folder(), "client");
            keys.push(format!("client_cert_path: {}", certificate.display()));
            keys.push(format!("client_key_path: {}", key.display()));
        }
        let ringway = to_origin(&origin, "localhost", setup, &keys);
        let answer = ringway.get("/");
        let expected = if with_certificate {
            (200, "known")
        } else {
            (502, "")
        };
        assert_eq!((answer.status, answer.text().as_str()), expected);
        ringway.stop();
    }
}

#[test]
fn a_plain_origin_where_tls_is_expected_is_answered_502() {
    let origin = Origin::start(|conn| {
        conn.some();
        conn.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let keys = ["insecure_skip_verify: true".to_owned()];
    let ringway = to_origin(&origin, "localhost", Setup::new("backends:\n"), &keys);
    assert_eq!(ringway.get("/").status, 502);
    eventually("the origin's connection is given up", || {
        (origin.opened() > 0).then_some(())
    });
    ringway.stop();
}

#[test]
fn a_slow_head_under_tls_is_answered_408_and_nothing_panics() {
    let authority = Authority::new();
    let origin = Origin::answering(|_| ok("one"));
    let setup = Setup::new("backends:\n").listener("read_header_timeout: 300ms");
    let mut keys = server_keys(&authority, setup.folder(), "one.test");
    keys.insert(0, "is_default: true".to_owned());
    let one = backend("one", &format!("http://{}", origin.address()), &keys);
    let ringway = setup.section(&one).start();
    let tls = client_tls(&authority);
    let mut client = TlsClient::connect_tls(ringway.tls_address(), "one.test", &tls);
    client.send("GET / HTTP/1.1\r\nHost:");
    assert_eq!(client.answer().status, 408);
    let panics = ringway.metric("ringway_shard_panics_total", &[]);
    assert_eq!(panics, Some(0.0));
    ringway.stop();
}
