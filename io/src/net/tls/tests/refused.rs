//! What is refused, in words an operator can act on.

use super::*;

fn server_error(certificates: &[CertKeyPem]) -> TlsError {
    ServerTls::build(certificates, ALPN_HTTP11).expect_err("refused")
}

fn client_error(options: &ClientTlsOptions) -> TlsError {
    ClientTls::build(options, &SystemRoots::none(), ALPN_HTTP11).expect_err("refused")
}

fn with_chain(chain: &[u8]) -> CertKeyPem {
    let good = self_signed(&["a"], false);
    CertKeyPem {
        label: "chain.pem".into(),
        chain_pem: chain.to_vec(),
        ..good
    }
}

fn with_key(key: &[u8]) -> CertKeyPem {
    let good = self_signed(&["a"], false);
    CertKeyPem {
        label: "key.pem".into(),
        key_pem: key.to_vec(),
        ..good
    }
}

const SECRET: &str = "c2VjcmV0LXNlY3JldC1zZWNyZXQ=";

#[test]
fn certificates_and_keys_of_a_listener() {
    let not_a_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let not_base64 = "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n";
    let no_end = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    let unusable = format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n");
    let broken_key = format!("-----BEGIN PRIVATE KEY {SECRET}\n");
    let encrypted = format!(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\n{SECRET}\n-----END ENCRYPTED PRIVATE KEY-----\n"
    );
    let two_keys = [
        self_signed(&["a"], false).key_pem,
        self_signed(&["b"], false).key_pem,
    ]
    .concat();
    let other_key = self_signed(&["b"], false).key_pem;
    let rows: [(CertKeyPem, &str); 12] = [
        (with_chain(b""), "chain.pem: no certificate found"),
        (with_chain(b"hello"), "chain.pem: no certificate found"),
        (with_chain(&other_key), "chain.pem: no certificate found"),
        (
            with_chain(not_a_certificate.as_bytes()),
            "chain.pem: certificate 1 cannot be read",
        ),
        (
            with_chain(not_base64.as_bytes()),
            "chain.pem: not valid PEM: a section is not base64",
        ),
        (
            with_chain(no_end.as_bytes()),
            "chain.pem: not valid PEM: a section has no END line",
        ),
        (with_key(b""), "key.pem: no private key found"),
        (
            with_key(encrypted.as_bytes()),
            "key.pem: no private key found",
        ),
        (
            with_key(unusable.as_bytes()),
            "key.pem: private key cannot be used",
        ),
        (
            with_key(broken_key.as_bytes()),
            "key.pem: not valid PEM: malformed BEGIN line",
        ),
        (
            with_key(&two_keys),
            "key.pem: 2 private keys found; expected one",
        ),
        (
            with_key(&other_key),
            "key.pem: the private key does not belong to the certificate",
        ),
    ];
    for (certificate, expected) in rows {
        let good = self_signed(&["good"], false);
        let error = server_error(&[good, certificate]);
        let texts = format!("{error} {error:?}");
        assert!(
            error.to_string().starts_with(expected),
            "{error}, not {expected}"
        );
        assert!(!texts.contains(&SECRET[..8]), "{texts}");
    }
    assert!(matches!(server_error(&[]), TlsError::NoCertificate));
}

#[test]
fn authorities_and_keys_for_an_origin() {
    assert!(matches!(
        client_error(&ClientTlsOptions::default()),
        TlsError::NoAuthorities
    ));
    let authority = Authority::new();
    let mut options = authority.options();
    options.extra_ca.push(CertPem {
        label: "empty.pem".into(),
        pem: b"\n".to_vec(),
    });
    assert!(
        client_error(&options)
            .to_string()
            .starts_with("empty.pem: no certificate found")
    );

    let mut options = authority.options();
    options.extra_ca[0]
        .pem
        .extend_from_slice(b"\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert!(
        client_error(&options)
            .to_string()
            .starts_with("ca.pem: certificate 2 cannot be read")
    );

    let mut options = authority.options();
    options.client = Some(with_key(b""));
    assert!(
        client_error(&options)
            .to_string()
            .starts_with("key.pem: no private key found")
    );
}

#[test]
fn names_of_origins() {
    for name in [
        "a",
        "a.example.org",
        "a.example.org.",
        "10.0.0.1",
        "::1",
        "[::1]",
        "A_b.c",
    ] {
        assert!(ClientTls::is_valid_name(name), "{name}");
    }
    for name in [
        "", ".", "a b", "[a]", "[::1", "::1]", "a:80", "[::1]:80", "-", "a..b", "\u{e9}",
    ] {
        assert!(!ClientTls::is_valid_name(name), "{name}");
    }
}

#[test]
fn debug_text_has_no_secrets() {
    let authority = Authority::new();
    let certificate = authority.sign(&["a"]);
    let key_line = certificate
        .key_pem
        .split(|&byte| byte == b'\n')
        .nth(1)
        .unwrap()
        .to_vec();
    let key_line = String::from_utf8(key_line).unwrap();
    assert!(key_line.len() > 20);
    let server = ServerTls::build(std::slice::from_ref(&certificate), ALPN_HTTP11).unwrap();
    let options = ClientTlsOptions {
        client: Some(certificate.clone()),
        ..authority.options()
    };
    let client = ClientTls::build(&options, &SystemRoots::none(), ALPN_HTTP11).unwrap();
    let text = format!("{certificate:?} {server:?} {options:?} {client:?}");
    assert!(!text.contains(&key_line), "{text}");
    // As a list of numbers, which is how a vector of bytes is printed.
    let bytes = format!("{:?}", key_line.as_bytes());
    assert!(!text.contains(&bytes[1..bytes.len() - 1]), "{text}");
    assert!(text.len() < 500, "{text}");
}

#[test]
fn warnings_about_certificates() {
    let authority = Authority::new();
    let mut old = params(&["old"]);
    old.not_before = rcgen::date_time_ymd(2001, 1, 1);
    old.not_after = rcgen::date_time_ymd(2001, 1, 11);
    let certificates = [
        authority.sign(&["a", "b"]),
        authority.sign_params(old, "old.pem"),
        authority.sign_params(params(&["b"]), "again.pem"),
        authority.sign_params(params(&[]), "nameless.pem"),
    ];
    let server = ServerTls::build(&certificates, ALPN_HTTP11).unwrap();
    let at = |now| server.warnings(now);
    let january_2001 = 978_307_200;
    let year = 366 * 86_400;
    let always = [
        "again.pem: name b is already answered by a".to_owned(),
        "nameless.pem: certificate has no DNS names and is never chosen".to_owned(),
    ];
    assert_eq!(at(january_2001 + 5 * 86_400), always);
    let late = at(january_2001 + year);
    assert_eq!(late[0], "old.pem: certificate expired 356 days ago");
    assert_eq!(late[1..], always);
    assert_eq!(
        at(january_2001 - 1)[0],
        "old.pem: certificate is not valid yet"
    );
}
