//! TLS settings of both sides, and the handshakes that use them.
//!
//! Owns what has to be decided before a handshake: which certificate answers which name, which
//! authorities vouch for an origin, which versions and application protocols are offered. Settings
//! are built from file contents by the control core, which reports every mistake before anything
//! serves, and are then shared by all shards: cloning one copies a pointer. Called by
//! `net::stream` for its handshakes; the probes of the control core take [`ClientTls::config`].
//!
//! Promises: TLS 1.2 and 1.3 only, cryptography by ring, no private key in any error or debug
//! text. Errors name the file they are about. Handshakes set no deadline: their caller does, and
//! drops a stream whose handshake it gave up on.
//!
//! The door to `rustls`, `rustls-native-certs`, `x509-parser` and the connectors of
//! `monoio-rustls`.

mod certificate;
mod client;
mod pem;
mod server;
#[cfg(test)]
mod tests;

pub use client::{ClientTls, ClientTlsOptions, SystemRoots};
pub use pem::{CertKeyPem, CertPem};
pub use server::ServerTls;

use std::sync::Arc;

use monoio::net::TcpStream;
use rustls::crypto::CryptoProvider;

/// A server-side TLS stream.
pub type AcceptedStream = monoio_rustls::ServerTlsStream<TcpStream>;
/// A client-side TLS stream.
pub type ConnectedStream = monoio_rustls::ClientTlsStream<TcpStream>;

/// Application protocols to offer when only HTTP/1.1 is spoken.
pub const ALPN_HTTP11: &[&[u8]] = &[b"http/1.1"];

/// Versions spoken. Contract: TLS server, minimum 1.2.
static VERSIONS: &[&rustls::SupportedProtocolVersion] =
    &[&rustls::version::TLS13, &rustls::version::TLS12];

/// Why TLS settings were refused. `label` is the caller's name for the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A TLS listener was given no certificate at all.
    #[error("a TLS listener needs at least one certificate and key")]
    NoCertificate,
    /// A file that is not PEM.
    #[error("{label}: not valid PEM: {problem}")]
    InvalidPem {
        /// The file.
        label: String,
        /// What is wrong, without any of its content.
        problem: &'static str,
    },
    /// A certificate file without a certificate.
    #[error("{label}: no certificate found; expected a section BEGIN CERTIFICATE")]
    EmptyChain {
        /// The file.
        label: String,
    },
    /// A key file without a usable key.
    #[error(
        "{label}: no private key found; expected a section BEGIN PRIVATE KEY, BEGIN RSA PRIVATE \
         KEY or BEGIN EC PRIVATE KEY, not encrypted"
    )]
    NoKey {
        /// The file.
        label: String,
    },
    /// A key file with several keys.
    #[error("{label}: {found} private keys found; expected one")]
    SeveralKeys {
        /// The file.
        label: String,
        /// How many.
        found: usize,
    },
    /// A key of a kind or size that is not supported, or damaged.
    #[error(
        "{label}: private key cannot be used; expected RSA of 2048 to 8192 bits, P-256, P-384 or Ed25519"
    )]
    UnusableKey {
        /// The file.
        label: String,
    },
    /// Certificate and key do not belong together.
    #[error("{label}: the private key does not belong to the certificate")]
    KeyMismatch {
        /// The files.
        label: String,
    },
    /// A certificate that cannot be read.
    #[error("{label}: certificate {index} cannot be read: {problem}")]
    InvalidCertificate {
        /// The file.
        label: String,
        /// Which one of the file, from 1.
        index: usize,
        /// What is wrong.
        problem: String,
    },
    /// Nothing vouches for any origin.
    #[error(
        "no certificate authority to check origins against; install the system's CA certificates \
         or name some"
    )]
    NoAuthorities,
    /// What was put together is refused as a whole.
    #[error("TLS settings refused: {source}")]
    Settings {
        /// What the library says.
        #[source]
        source: rustls::Error,
    },
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn owned_protocols(alpn: &[&[u8]]) -> Vec<Vec<u8>> {
    alpn.iter().map(|protocol| protocol.to_vec()).collect()
}
