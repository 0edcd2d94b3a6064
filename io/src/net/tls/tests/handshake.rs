//! Which handshakes succeed, and with which certificate.

use std::io::{Read, Write};

use monoio::io::{AsyncReadRent, AsyncReadRentExt, AsyncWriteRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, TcpStream};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConnection, ServerConnection};

use super::*;

/// Both ends after a handshake in memory.
#[derive(Debug)]
struct Pair {
    client: ClientConnection,
    server: ServerConnection,
}

fn client(options: &ClientTlsOptions) -> ClientTls {
    ClientTls::build(options, &SystemRoots::none(), ALPN_HTTP11).unwrap()
}

fn server(certificates: &[CertKeyPem]) -> ServerTls {
    ServerTls::build(certificates, ALPN_HTTP11).unwrap()
}

/// Carries bytes between the two until neither has any, or one gives up.
fn shake_hands(client: &ClientTls, server: &ServerTls, name: &str) -> Result<Pair, rustls::Error> {
    let name = crate::net::tls::client::server_name(name).expect("a valid name");
    let mut pair = Pair {
        client: ClientConnection::new(client.config(), name)?,
        server: ServerConnection::new(server.config())?,
    };
    loop {
        let mut wire = Vec::new();
        while pair.client.wants_write() {
            pair.client.write_tls(&mut wire).unwrap();
        }
        let to_server = wire.len();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            pair.server.read_tls(&mut rest).unwrap();
            pair.server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while pair.server.wants_write() {
            pair.server.write_tls(&mut wire).unwrap();
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            pair.client.read_tls(&mut rest).unwrap();
            pair.client.process_new_packets()?;
        }
        if to_server == 0 && wire.is_empty() {
            return Ok(pair);
        }
    }
}

fn leaf(pem: &CertKeyPem) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(&pem.chain_pem).unwrap()
}

#[test]
fn certificates_are_chosen_by_name() {
    let authority = Authority::new();
    let certificates = [
        authority.sign(&["first.example", "shared.example"]),
        authority.sign(&["*.wild.example", "Second.Example"]),
        authority.sign(&["shared.example", "exact.wild.example"]),
    ];
    let tls = server(&certificates);
    // Looks only at which certificate comes, so the name need not match.
    let any = client(&ClientTlsOptions {
        insecure_skip_verify: true,
        ..Default::default()
    });
    let rows = [
        ("first.example", 0),
        ("shared.example", 0),
        ("second.example", 1),
        ("SECOND.example", 1),
        ("x.wild.example", 1),
        ("exact.wild.example", 2),
        ("wild.example", 0),
        ("x.y.wild.example", 0),
        ("unknown.example", 0),
        ("127.0.0.1", 0),
    ];
    for (name, expected) in rows {
        let pair = shake_hands(&any, &tls, name).unwrap();
        let shown = &pair.client.peer_certificates().unwrap()[0];
        assert_eq!(*shown, leaf(&certificates[expected]), "{name}");
        assert_eq!(pair.client.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(
            pair.client.protocol_version(),
            Some(rustls::ProtocolVersion::TLSv1_3)
        );
    }
}

#[test]
fn origins_are_checked() {
    let authority = Authority::new();
    let tls = server(&[authority.sign(&["a.example", "127.0.0.1"])]);
    let trusting = client(&authority.options());
    shake_hands(&trusting, &tls, "a.example").unwrap();
    shake_hands(&trusting, &tls, "127.0.0.1").unwrap();
    let refused = |client: &ClientTls, name: &str| {
        let error = shake_hands(client, &tls, name).expect_err("refused");
        assert!(
            matches!(error, rustls::Error::InvalidCertificate(_)),
            "{error}"
        );
    };
    refused(&trusting, "b.example");
    refused(&trusting, "127.0.0.2");
    refused(&client(&Authority::new().options()), "a.example");
    let any = ClientTlsOptions {
        insecure_skip_verify: true,
        ..Default::default()
    };
    shake_hands(&client(&any), &tls, "b.example").unwrap();

    let mut expired = params(&["a.example"]);
    expired.not_after = rcgen::date_time_ymd(2001, 1, 1);
    expired.not_before = rcgen::date_time_ymd(2000, 1, 1);
    let old = server(&[authority.sign_params(expired, "old.pem")]);
    assert!(shake_hands(&trusting, &old, "a.example").is_err());
    shake_hands(&client(&any), &old, "a.example").unwrap();
}

#[test]
fn a_listed_certificate_is_trusted_as_itself() {
    for is_ca in [false, true] {
        let own = self_signed(&["a.example"], is_ca);
        let tls = server(std::slice::from_ref(&own));
        let extra_ca = vec![CertPem {
            label: "own.pem".into(),
            pem: own.chain_pem.clone(),
        }];
        let trusting = client(&ClientTlsOptions {
            extra_ca,
            ..Default::default()
        });
        shake_hands(&trusting, &tls, "a.example").unwrap();
        assert!(shake_hands(&trusting, &tls, "b.example").is_err());
        let stranger = server(&[self_signed(&["a.example"], is_ca)]);
        assert!(shake_hands(&trusting, &stranger, "a.example").is_err());
    }
}

#[test]
fn a_client_certificate_is_shown_when_asked_for() {
    let authority = Authority::new();
    let own = authority.sign(&["client"]);
    let options = ClientTlsOptions {
        client: Some(own.clone()),
        ..authority.options()
    };
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap())
        .unwrap();
    let asking =
        rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .unwrap();
    let certificate = authority.sign(&["a.example"]);
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(VERSIONS)
        .unwrap()
        .with_client_cert_verifier(asking)
        .with_single_cert(
            vec![leaf(&certificate)],
            rustls::pki_types::PrivateKeyDer::from_pem_slice(&certificate.key_pem).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = owned_protocols(ALPN_HTTP11);
    let config = Arc::new(config);
    for (options, expected) in [(options, Some(leaf(&own))), (authority.options(), None)] {
        let name = crate::net::tls::client::server_name("a.example").unwrap();
        let mut client = ClientConnection::new(client(&options).config(), name).unwrap();
        let mut server = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut failed = false;
        for _ in 0..4 {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            server.read_tls(&mut &wire[..]).unwrap();
            failed |= server.process_new_packets().is_err();
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            client.read_tls(&mut &wire[..]).unwrap();
            failed |= client.process_new_packets().is_err();
        }
        assert_eq!(failed, expected.is_none());
        let shown = server.peer_certificates().and_then(|chain| chain.first());
        assert_eq!(shown, expected.as_ref());
    }
}

#[test]
fn sessions_are_resumed() {
    let authority = Authority::new();
    let tls = server(&[authority.sign(&["a.example"])]);
    let trusting = client(&authority.options());
    let kinds: Vec<_> = (0..2)
        .map(|_| {
            let mut pair = shake_hands(&trusting, &tls, "a.example").unwrap();
            pair.client.writer().write_all(b"x").unwrap();
            let mut wire = Vec::new();
            pair.client.write_tls(&mut wire).unwrap();
            pair.server.read_tls(&mut &wire[..]).unwrap();
            pair.server.process_new_packets().unwrap();
            let mut byte = [0];
            pair.server.reader().read_exact(&mut byte).unwrap();
            pair.server.handshake_kind().unwrap()
        })
        .collect();
    assert_eq!(
        kinds,
        [rustls::HandshakeKind::Full, rustls::HandshakeKind::Resumed]
    );
}

#[test]
fn no_common_protocol_is_refused() {
    let authority = Authority::new();
    let tls = server(&[authority.sign(&["a.example"])]);
    let h2 = ClientTls::build(&authority.options(), &SystemRoots::none(), &[b"h2"]).unwrap();
    assert!(shake_hands(&h2, &tls, "a.example").is_err());
    let silent = ClientTls::build(&authority.options(), &SystemRoots::none(), &[]).unwrap();
    let pair = shake_hands(&silent, &tls, "a.example").unwrap();
    assert_eq!(pair.client.alpn_protocol(), None);
}

/// The connectors themselves, over the driver that needs nothing of the kernel.
#[test]
fn streams_on_loopback() {
    let authority = Authority::new();
    let tls = server(&[authority.sign(&["localhost"])]);
    let trusting = client(&authority.options());
    let mut runtime = monoio::RuntimeBuilder::<monoio::LegacyDriver>::new()
        .enable_timer()
        .build()
        .unwrap();
    runtime.block_on(async move {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = monoio::spawn(async move {
            for _ in 0..2 {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = tls.accept(stream).await else {
                    continue;
                };
                let (result, bytes) = stream.read_exact(vec![0; 100_000]).await;
                result.unwrap();
                stream.write_all(bytes).await.0.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
        let stream = TcpStream::connect(address).await.unwrap();
        let error = trusting
            .connect(stream, "other")
            .await
            .expect_err("refused");
        assert!(error.to_string().contains("certificate"), "{error}");
        let stream = TcpStream::connect(address).await.unwrap();
        let mut stream = trusting.connect(stream, "localhost.").await.unwrap();
        let sent: Vec<u8> = (0..100_000_u32).map(|index| index as u8).collect();
        stream.write_all(sent.clone()).await.0.unwrap();
        let (result, received) = stream.read_exact(vec![0; 100_000]).await;
        result.unwrap();
        assert_eq!(received, sent);
        // close_notify is a clean end.
        let (result, _) = stream.read(vec![0; 1]).await;
        assert_eq!(result.unwrap(), 0);
        let bad = TcpStream::connect(address).await;
        if let Ok(stream) = bad {
            let error = trusting.connect(stream, "a b").await.expect_err("no name");
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        }
        accepting.await;
    });
}
