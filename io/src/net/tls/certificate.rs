//! What a certificate says about itself: its names and its time.

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// What ringway reads out of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CertificateFacts {
    /// DNS names it is for, in small letters; a name may begin with `*.`.
    pub(super) dns_names: Vec<String>,
    /// First second it is valid, since 1970.
    pub(super) not_before: i64,
    /// Last second it is valid, since 1970.
    pub(super) not_after: i64,
}

impl CertificateFacts {
    /// Reads them, or says why the certificate is none.
    pub(super) fn read(der: &[u8]) -> Result<CertificateFacts, String> {
        let (rest, certificate) =
            X509Certificate::from_der(der).map_err(|_| "not an X.509 certificate".to_owned())?;
        if !rest.is_empty() {
            return Err("bytes behind its end".to_owned());
        }
        let names = certificate
            .subject_alternative_name()
            .map_err(|_| "its alternative names are given twice or malformed".to_owned())?;
        let mut dns_names = Vec::new();
        for name in names
            .iter()
            .flat_map(|extension| &extension.value.general_names)
        {
            if let GeneralName::DNSName(name) = name {
                dns_names.push(name.to_ascii_lowercase());
            }
        }
        let validity = certificate.validity();
        Ok(CertificateFacts {
            dns_names,
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
        })
    }

    /// What an operator should know about its time at `now`, in seconds since 1970.
    pub(super) fn time_warning(&self, label: &str, now: i64) -> Option<String> {
        if now > self.not_after {
            let days = (now - self.not_after) / 86_400;
            return Some(format!("{label}: certificate expired {days} days ago"));
        }
        if now < self.not_before {
            return Some(format!("{label}: certificate is not valid yet"));
        }
        None
    }

    /// Whether it may be used at `now`.
    pub(super) fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }
}
