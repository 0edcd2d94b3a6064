//! Certificates made for one test, and TLS settings of its clients and origins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, as PEM files and in memory.
#[derive(Debug)]
pub struct Identity {
    /// Certificate chain.
    pub certificate: String,
    /// Private key.
    pub key: String,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new authority, trusted by nobody yet.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names to refuse");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "wire test authority");
        let key = KeyPair::generate().expect("the generator works");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("the parameters are valid");
        Self { issuer }
    }

    /// Issues a certificate for names and addresses.
    pub fn issue(&self, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(names).expect("the names are valid");
        let key = KeyPair::generate().expect("the generator works");
        let certificate = params
            .signed_by(&key, &self.issuer)
            .expect("the issuer can sign");
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Writes its own certificate into a folder.
    pub fn write(&self, folder: &Path) -> PathBuf {
        write(folder, "authority.pem", &self.pem())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.issuer.der().clone())
            .expect("the authority is a certificate");
        roots
    }
}

impl Identity {
    /// Writes certificate and key into a folder; their paths.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let certificate = write(folder, &format!("{name}.pem"), &self.certificate);
        let key = write(folder, &format!("{name}.key"), &self.key);
        (certificate, key)
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        let pem = CertificateDer::pem_slice_iter(self.certificate.as_bytes());
        pem.collect::<Result<_, _>>().expect("our own PEM")
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("our own PEM")
    }
}

fn write(folder: &Path, name: &str, pem: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, pem).expect("the test folder can be written");
    path
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// TLS of a client that trusts an authority.
pub fn client_tls(authority: &Authority) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder
        .with_safe_default_protocol_versions()
        .expect("versions are compiled in");
    Arc::new(
        builder
            .with_root_certificates(authority.roots())
            .with_no_client_auth(),
    )
}

/// TLS of an origin; with `clients`, only those who show a certificate of that authority.
pub fn server_tls(identity: &Identity, clients: Option<&Authority>) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder
        .with_safe_default_protocol_versions()
        .expect("versions are compiled in");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let roots = Arc::new(authority.roots());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            builder.with_client_cert_verifier(verifier.build().expect("the roots are valid"))
        }
    };
    let config = builder.with_single_cert(identity.chain(), identity.private_key());
    Arc::new(config.expect("key and certificate belong together"))
}
