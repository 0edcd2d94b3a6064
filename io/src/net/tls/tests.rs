//! Settings with generated certificates: refusals in memory, handshakes on loopback.

mod handshake;
mod refused;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::*;

/// An authority and what it signs.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    fn sign(&self, names: &[&str]) -> CertKeyPem {
        self.sign_params(params(names), names.first().unwrap_or(&"nameless"))
    }

    fn sign_params(&self, params: CertificateParams, label: &str) -> CertKeyPem {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        CertKeyPem {
            label: label.to_owned(),
            chain_pem: certificate.pem().into_bytes(),
            key_pem: key.serialize_pem().into_bytes(),
        }
    }

    fn options(&self) -> ClientTlsOptions {
        let extra_ca = vec![CertPem {
            label: "ca.pem".into(),
            pem: self.pem.clone().into_bytes(),
        }];
        ClientTlsOptions {
            extra_ca,
            ..ClientTlsOptions::default()
        }
    }
}

fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>(),
    )
    .unwrap()
}

/// A certificate that vouches for itself.
fn self_signed(names: &[&str], is_ca: bool) -> CertKeyPem {
    let key = KeyPair::generate().unwrap();
    let mut params = params(names);
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    CertKeyPem {
        label: "self.pem".into(),
        chain_pem: params.self_signed(&key).unwrap().pem().into_bytes(),
        key_pem: key.serialize_pem().into_bytes(),
    }
}
