//! From file contents to certificates and keys.

use std::fmt;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::{TlsError, provider};

/// Certificates in PEM, and what to call them in messages.
#[derive(Clone)]
pub struct CertPem {
    /// The file, or whatever the operator knows them by.
    pub label: String,
    /// The text.
    pub pem: Vec<u8>,
}

/// A certificate chain and its private key in PEM, and what to call them in messages.
#[derive(Clone)]
pub struct CertKeyPem {
    /// The files, or whatever the operator knows them by.
    pub label: String,
    /// The certificate, then those that lead to its authority.
    pub chain_pem: Vec<u8>,
    /// The key.
    pub key_pem: Vec<u8>,
}

impl fmt::Debug for CertPem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A key may have been put here by mistake.
        formatter
            .debug_struct("CertPem")
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CertKeyPem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CertKeyPem")
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}

impl CertKeyPem {
    /// Parses both and makes sure they belong together.
    pub(super) fn parse(&self) -> Result<CertifiedKey, TlsError> {
        let chain = parse_certificates(&self.label, &self.chain_pem)?;
        let key = parse_key(&self.label, &self.key_pem)?;
        let label = || self.label.clone();
        let signing_key = provider()
            .key_provider
            .load_private_key(key)
            .map_err(|_| TlsError::UnusableKey { label: label() })?;
        let certified = CertifiedKey::new(chain, signing_key);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
                Ok(certified)
            }
            Err(rustls::Error::InconsistentKeys(_)) => {
                Err(TlsError::KeyMismatch { label: label() })
            }
            Err(error) => Err(TlsError::InvalidCertificate {
                label: label(),
                index: 1,
                problem: error.to_string(),
            }),
        }
    }
}

/// All certificates of a file, at least one.
pub(super) fn parse_certificates(
    label: &str,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text) {
        certificates.push(certificate.map_err(|error| invalid(label, &error))?);
    }
    if certificates.is_empty() {
        return Err(TlsError::EmptyChain {
            label: label.to_owned(),
        });
    }
    Ok(certificates)
}

fn parse_key(label: &str, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    let mut keys = Vec::new();
    for key in PrivateKeyDer::pem_slice_iter(text) {
        keys.push(key.map_err(|error| invalid(label, &error))?);
    }
    let found = keys.len();
    match keys.pop() {
        None => Err(TlsError::NoKey {
            label: label.to_owned(),
        }),
        Some(key) if found == 1 => Ok(key),
        Some(_) => Err(TlsError::SeveralKeys {
            label: label.to_owned(),
            found,
        }),
    }
}

/// The library's own message may quote a line of the file, which may be a key.
fn invalid(label: &str, error: &pem::Error) -> TlsError {
    let problem = match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no END line",
        pem::Error::IllegalSectionStart { .. } => "malformed BEGIN line",
        pem::Error::Base64Decode(_) => "a section is not base64",
        pem::Error::SectionTooLarge => "a section is too large",
        _ => "cannot be parsed",
    };
    TlsError::InvalidPem {
        label: label.to_owned(),
        problem,
    }
}
