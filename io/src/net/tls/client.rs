//! The side of an origin: who vouches for it, and who we say we are.

use std::fmt;
use std::io;
use std::sync::Arc;

use monoio::net::TcpStream;
use monoio_rustls::TlsConnector;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::certificate::CertificateFacts;
use super::pem::parse_certificates;
use super::{CertKeyPem, CertPem, ConnectedStream, TlsError, VERSIONS, owned_protocols, provider};

/// The certificate authorities of the operating system, read once for all settings.
#[derive(Clone)]
pub struct SystemRoots(Arc<RootCertStore>);

impl fmt::Debug for SystemRoots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("SystemRoots")
            .field(&self.0.len())
            .finish()
    }
}

impl SystemRoots {
    /// Reads the system's authorities, and says what could not be read. Blocks on files, so it is
    /// for the start of the program.
    pub fn load() -> (SystemRoots, Vec<String>) {
        let found = rustls_native_certs::load_native_certs();
        let mut warnings: Vec<String> = found
            .errors
            .iter()
            .map(|error| format!("system CA certificates: {error}"))
            .collect();
        let mut roots = RootCertStore::empty();
        let (_, ignored) = roots.add_parsable_certificates(found.certs);
        if ignored > 0 {
            warnings.push(format!("system CA certificates: {ignored} cannot be used"));
        }
        (SystemRoots(Arc::new(roots)), warnings)
    }

    /// No authority at all: only those of the options count.
    pub fn none() -> SystemRoots {
        SystemRoots(Arc::new(RootCertStore::empty()))
    }
}

/// How an origin is checked, and what it is shown.
#[derive(Debug, Clone, Default)]
pub struct ClientTlsOptions {
    /// Accept whatever certificate the origin shows.
    pub insecure_skip_verify: bool,
    /// Authorities in addition to the system's. A certificate listed here that is no authority is
    /// trusted as the origin's own.
    pub extra_ca: Vec<CertPem>,
    /// What to show an origin that asks who we are.
    pub client: Option<CertKeyPem>,
}

/// How an origin is spoken to over TLS. Cloning copies a pointer.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Settings for an origin. Offers the protocols of `alpn`, the best first; an empty list
    /// negotiates none.
    ///
    /// # Errors
    /// The first file that is wrong, and how; or that nothing would vouch for the origin.
    pub fn build(
        options: &ClientTlsOptions,
        system: &SystemRoots,
        alpn: &[&[u8]],
    ) -> Result<ClientTls, TlsError> {
        let settings = |source| TlsError::Settings { source };
        let client_key = options.client.as_ref().map(CertKeyPem::parse).transpose()?;
        let verifier: Arc<dyn ServerCertVerifier> = if options.insecure_skip_verify {
            Arc::new(AcceptAny {
                schemes: supported_schemes(),
            })
        } else {
            Arc::new(verifier(&options.extra_ca, system)?)
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .map_err(settings)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match client_key {
            Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key))),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = owned_protocols(alpn);
        Ok(ClientTls {
            config: Arc::new(config),
        })
    }

    /// The library's settings, for the probes of the control core.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// Shakes hands with the origin called `name`: a host name or an address, which is both asked
    /// for and checked. Sets no deadline.
    ///
    /// # Errors
    /// When the name is none, the origin's certificate is not accepted, or the handshake breaks.
    pub async fn connect(&self, stream: TcpStream, name: &str) -> io::Result<ConnectedStream> {
        let name = server_name(name).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "invalid TLS server name")
        })?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        // In a box of its own: kilobytes that matter only until the handshake is over.
        Ok(Box::pin(connector.connect(name, stream)).await?)
    }

    /// Whether [`ClientTls::connect`] takes `name`: a host name, or an address with or without
    /// brackets.
    pub fn is_valid_name(name: &str) -> bool {
        server_name(name).is_some()
    }
}

/// The form the library wants: no brackets around an address, no dot behind a name.
pub(super) fn server_name(name: &str) -> Option<ServerName<'static>> {
    let bare = match name.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None => name.strip_suffix('.').unwrap_or(name),
    };
    let parsed = ServerName::try_from(bare.to_owned()).ok()?;
    let bracketed_name = name.starts_with('[') && matches!(parsed, ServerName::DnsName(_));
    (!bracketed_name).then_some(parsed)
}

/// A verifier that trusts the system's authorities and these.
fn verifier(extra_ca: &[CertPem], system: &SystemRoots) -> Result<Verifier, TlsError> {
    let mut roots = RootCertStore::clone(&system.0);
    let mut listed = Vec::new();
    for file in extra_ca {
        for (index, certificate) in parse_certificates(&file.label, &file.pem)?
            .into_iter()
            .enumerate()
        {
            let invalid = |problem| TlsError::InvalidCertificate {
                label: file.label.clone(),
                index: index + 1,
                problem,
            };
            let facts = CertificateFacts::read(&certificate).map_err(invalid)?;
            roots
                .add(certificate.clone())
                .map_err(|error| invalid(error.to_string()))?;
            listed.push((certificate, facts));
        }
    }
    if roots.is_empty() {
        return Err(TlsError::NoAuthorities);
    }
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| TlsError::Settings {
            source: rustls::Error::General(error.to_string()),
        })?;
    Ok(Verifier { inner, listed })
}

/// Checks an origin's certificate against the authorities. One that the operator lists is
/// accepted as itself too, which self-signed certificates need: the library takes no authority's
/// certificate for a server's.
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    listed: Vec<(CertificateDer<'static>, CertificateFacts)>,
}

impl Verifier {
    fn accepts_listed(
        &self,
        shown: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> bool {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let is_listed = self
            .listed
            .iter()
            .any(|(certificate, facts)| certificate == shown && facts.is_valid_at(now));
        is_listed
            && ParsedCertificate::try_from(shown)
                .and_then(|parsed| rustls::client::verify_server_name(&parsed, name))
                .is_ok()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.accepts_listed(end_entity, server_name, now) {
            return Ok(ServerCertVerified::assertion());
        }
        self.inner
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Checks nothing. Contract: `insecure_skip_verify`. A signature by a key nobody vouches for says
/// nothing either, so it is not looked at, and certificates too old to be parsed work as well.
#[derive(Debug)]
struct AcceptAny {
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

fn supported_schemes() -> Vec<SignatureScheme> {
    provider()
        .signature_verification_algorithms
        .supported_schemes()
}
