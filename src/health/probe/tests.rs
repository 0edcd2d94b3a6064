//! Probes against servers on loopback.

use super::*;
use ringway_shards::plan::{BackendId, Scheme};
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const LOCAL: [IpAddr; 1] = [IpAddr::V4(Ipv4Addr::LOCALHOST)];

fn check(port: u16) -> HealthCheck {
    HealthCheck {
        backend: BackendId(0),
        backend_name: "a".into(),
        interval: None,
        timeout: Duration::from_secs(5),
        failure_threshold: 3,
        recovery_threshold: 3,
        verb: "GET".into(),
        scheme: Scheme::Http,
        host: "127.0.0.1".into(),
        port,
        authority: "a.test:81".into(),
        target: "/health?x=1".into(),
        headers: Vec::new(),
        body: "".into(),
        expected_codes: vec![200..=200],
        expected_headers: Vec::new(),
        expected_body: None,
        tls: None,
    }
}

/// Answers one connection; what was asked comes back.
async fn origin(answer: Vec<u8>) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = vec![0; 8192];
        let length = stream.read(&mut asked).await.unwrap();
        let _ = stream.write_all(&answer).await;
        String::from_utf8_lossy(&asked[..length]).into_owned()
    });
    (port, task)
}

fn answer(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{headers}\r\n{body}").into_bytes()
}

async fn outcome(check: impl FnOnce(&mut HealthCheck), answer: Vec<u8>) -> Outcome {
    let (port, _) = origin(answer).await;
    let mut checked = super::tests::check(port);
    check(&mut checked);
    probe(&checked, &LOCAL).await
}

fn failed(outcome: &Outcome, with: &str) -> bool {
    matches!(outcome, Outcome::Failed(detail) if detail.contains(with))
}

#[tokio::test]
async fn the_request_is_as_configured() {
    let (port, asked) = origin(answer(200, "", "")).await;
    let mut check = check(port);
    check.verb = "POST".into();
    check.body = "ping".into();
    check.headers = vec![
        ("X-Key".into(), "k".into()),
        ("User-Agent".into(), "mine".into()),
    ];
    assert_eq!(probe(&check, &LOCAL).await, Outcome::Passed);
    let asked = asked.await.unwrap().to_ascii_lowercase();
    assert!(
        asked.starts_with("post /health?x=1 http/1.1\r\n"),
        "{asked}"
    );
    for header in [
        "host: a.test:81",
        "x-key: k",
        "user-agent: mine",
        "content-length: 4",
    ] {
        assert!(
            asked.contains(&format!("\r\n{header}\r\n")),
            "{header}: {asked}"
        );
    }
    assert!(asked.ends_with("\r\n\r\nping"), "{asked}");
}

#[tokio::test]
async fn an_unset_user_agent_names_ringway() {
    let (port, asked) = origin(answer(200, "", "")).await;
    probe(&check(port), &LOCAL).await;
    let asked = asked.await.unwrap();
    assert!(
        asked.contains(&format!("user-agent: {}\r\n", user_agent())),
        "{asked}"
    );
}

#[tokio::test]
async fn expectations_are_checked_in_order() {
    let found = outcome(|_| {}, answer(503, "", "")).await;
    assert!(failed(&found, "expected [200] got 503"), "{found:?}");
    let codes = |check: &mut HealthCheck| check.expected_codes = vec![200..=204, 301..=301];
    assert_eq!(outcome(codes, answer(204, "", "")).await, Outcome::Passed);
    let found = outcome(codes, answer(302, "", "")).await;
    assert!(
        failed(&found, "expected [200-204 301] got 302"),
        "{found:?}"
    );
    let header =
        |check: &mut HealthCheck| check.expected_headers = vec![("X-A".into(), "1".into())];
    assert_eq!(
        outcome(header, answer(200, "x-a: 1\r\n", "")).await,
        Outcome::Passed
    );
    let found = outcome(header, answer(200, "x-a: 2\r\n", "")).await;
    assert!(failed(&found, "header mismatch"), "{found:?}");
    let found = outcome(header, answer(200, "", "")).await;
    assert!(failed(&found, "header mismatch"), "{found:?}");
    let body = |check: &mut HealthCheck| check.expected_body = Some("ok".into());
    assert_eq!(outcome(body, answer(200, "", "ok")).await, Outcome::Passed);
    let found = outcome(body, answer(200, "", "okay")).await;
    assert!(failed(&found, "body mismatch"), "{found:?}");
}

#[tokio::test]
async fn a_body_is_read_up_to_its_bound() {
    let whole = "x".repeat(PROBE_BODY_BYTES_MAX);
    let expected = whole.clone();
    let body = |check: &mut HealthCheck| check.expected_body = Some(expected.into());
    assert_eq!(
        outcome(body, answer(200, "", &whole)).await,
        Outcome::Passed
    );
    let longer = format!("{whole}y");
    let body = |check: &mut HealthCheck| check.expected_body = Some(whole.into());
    let found = outcome(body, answer(200, "", &longer)).await;
    assert!(failed(&found, "longer than 65536 bytes"), "{found:?}");
    // Unless the body counts, a long one is no fault.
    assert_eq!(
        outcome(|_| {}, answer(200, "", &longer)).await,
        Outcome::Passed
    );
}

#[tokio::test]
async fn transport_failures_say_what_failed() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut silent = check(port);
    silent.timeout = Duration::from_millis(100);
    let found = probe(&silent, &LOCAL).await;
    assert!(
        failed(&found, "error probing target: no answer within 100ms"),
        "{found:?}"
    );
    drop(listener);
    let found = probe(&check(port), &LOCAL).await;
    let wanted = format!("error probing target: dial tcp 127.0.0.1:{port}: ");
    assert!(failed(&found, &wanted), "{found:?}");
    let found = probe(&check(port), &[]).await;
    assert!(failed(&found, "no address for 127.0.0.1"), "{found:?}");
    let found = outcome(|_| {}, b"SSH-2.0-x\r\n".to_vec()).await;
    assert!(failed(&found, "error probing target: "), "{found:?}");
    let short = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".to_vec();
    let found = outcome(|_| {}, short).await;
    assert!(failed(&found, "error probing target: "), "{found:?}");
    let mut odd = check(port);
    odd.verb = "G T".into();
    let (port, _origin) = origin(answer(200, "", "")).await;
    odd.port = port;
    let found = probe(&odd, &LOCAL).await;
    assert!(failed(&found, "cannot send"), "{found:?}");
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let (port, _origin) = origin(answer(200, "", "")).await;
    let refusing = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
    assert_eq!(
        probe(&check(port), &[refusing, LOCAL[0]]).await,
        Outcome::Passed
    );
}

/// An origin with a certificate of its own for `localhost`, and what trusts it.
async fn tls_origin() -> (u16, ringway_io::net::tls::ClientTls) {
    use ringway_io::net::tls::{
        CertKeyPem, CertPem, ClientTls, ClientTlsOptions, ServerTls, SystemRoots,
    };
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let pair = CertKeyPem {
        label: "own".into(),
        chain_pem: made.cert.pem().into_bytes(),
        key_pem: made.signing_key.serialize_pem().into_bytes(),
    };
    let trusted = ClientTlsOptions {
        extra_ca: vec![CertPem {
            label: "own".into(),
            pem: pair.chain_pem.clone(),
        }],
        ..ClientTlsOptions::default()
    };
    let server = ServerTls::build(&[pair], &[]).unwrap();
    let client = ClientTls::build(&trusted, &SystemRoots::none(), &[b"http/1.1"]).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = tokio_rustls::TlsAcceptor::from(server.config());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut asked = vec![0; 8192];
            let _ = stream.read(&mut asked).await;
            let _ = stream.write_all(&answer(200, "", "")).await;
        }
    });
    (port, client)
}

#[tokio::test]
async fn a_tls_origin_is_asked_over_tls_and_its_name_is_checked() {
    let (port, client) = tls_origin().await;
    let mut check = check(port);
    check.scheme = Scheme::Https;
    check.tls = Some(client);
    check.host = "localhost".into();
    assert_eq!(probe(&check, &LOCAL).await, Outcome::Passed);
    check.host = "other.test".into();
    let found = probe(&check, &LOCAL).await;
    assert!(
        failed(&found, "error probing target: tls other.test: "),
        "{found:?}"
    );
    // Plain text to a TLS port is no answer.
    check.tls = None;
    let found = probe(&check, &LOCAL).await;
    assert!(failed(&found, "error probing target: "), "{found:?}");
}
