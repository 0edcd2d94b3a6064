//! The side of a listener: which certificate answers which name.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use monoio::net::TcpStream;
use monoio_rustls::TlsAcceptor;
use rustls::ServerConfig;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::certificate::CertificateFacts;
use super::{AcceptedStream, CertKeyPem, TlsError, VERSIONS, owned_protocols, provider};

/// Certificates a listener answers with. Cloning copies pointers.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    certificates: Arc<Vec<Described>>,
}

/// A certificate as it appears in messages.
struct Described {
    label: String,
    facts: CertificateFacts,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<&str> = self.certificates.iter().map(|one| &one.label[..]).collect();
        formatter
            .debug_struct("ServerTls")
            .field("certificates", &labels)
            .finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Settings for these certificates. The first one that is for a name answers it; the first of
    /// all answers clients that name none, or one nobody has. Offers the protocols of `alpn`, the
    /// best first; an empty list negotiates none.
    ///
    /// # Errors
    /// The first file that is wrong, and how.
    pub fn build(certificates: &[CertKeyPem], alpn: &[&[u8]]) -> Result<ServerTls, TlsError> {
        let mut names = NameTable::default();
        let mut described = Vec::with_capacity(certificates.len());
        let mut fallback = None;
        for one in certificates {
            let key = Arc::new(one.parse()?);
            let facts = read_facts(&one.label, &key)?;
            names.add(&facts.dns_names, &key);
            described.push(Described {
                label: one.label.clone(),
                facts,
            });
            fallback.get_or_insert(key);
        }
        let fallback = fallback.ok_or(TlsError::NoCertificate)?;
        let settings = |source| TlsError::Settings { source };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .map_err(settings)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Resolver { names, fallback }));
        config.alpn_protocols = owned_protocols(alpn);
        // Tickets carry all of a session, so resumption needs no memory that shards would share.
        config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(settings)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(ServerTls {
            config: Arc::new(config),
            certificates: Arc::new(described),
        })
    }

    /// What an operator should know at `now`, in seconds since 1970: certificates that are out of
    /// their time, or that no client can ask for.
    pub fn warnings(&self, now: i64) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut taken: HashMap<&str, &str> = HashMap::new();
        for (index, one) in self.certificates.iter().enumerate() {
            let label = &one.label;
            warnings.extend(one.facts.time_warning(label, now));
            if index > 0 && one.facts.dns_names.is_empty() {
                warnings.push(format!(
                    "{label}: certificate has no DNS names and is never chosen"
                ));
            }
            for name in &one.facts.dns_names {
                let first = taken.entry(name).or_insert(label);
                if *first != label {
                    warnings.push(format!(
                        "{label}: name {name} is already answered by {first}"
                    ));
                }
            }
        }
        warnings
    }

    /// The library's settings, for listeners of the control core.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// Shakes hands with a client. Sets no deadline.
    ///
    /// # Errors
    /// When the client breaks the handshake off or both sides have nothing in common.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<AcceptedStream> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
        // In a box of its own: kilobytes that matter only until the handshake is over.
        Ok(Box::pin(acceptor.accept(stream)).await?)
    }
}

fn read_facts(label: &str, key: &CertifiedKey) -> Result<CertificateFacts, TlsError> {
    let leaf = key.cert.first().ok_or_else(|| TlsError::EmptyChain {
        label: label.to_owned(),
    })?;
    CertificateFacts::read(leaf).map_err(|problem| TlsError::InvalidCertificate {
        label: label.to_owned(),
        index: 1,
        problem,
    })
}

/// Certificates by the names they are for.
#[derive(Default)]
struct NameTable {
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// By what follows `*.`: such a name stands for exactly one label more.
    wildcard: HashMap<String, Arc<CertifiedKey>>,
}

impl NameTable {
    fn add(&mut self, names: &[String], key: &Arc<CertifiedKey>) {
        for name in names {
            let (table, name) = match name.strip_prefix("*.") {
                Some(parent) => (&mut self.wildcard, parent),
                None => (&mut self.exact, &name[..]),
            };
            table
                .entry(name.to_owned())
                .or_insert_with(|| Arc::clone(key));
        }
    }

    /// `name` is in small letters.
    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        self.exact.get(name).or_else(|| {
            let (label, parent) = name.split_once('.')?;
            if label.is_empty() {
                None
            } else {
                self.wildcard.get(parent)
            }
        })
    }
}

struct Resolver {
    names: NameTable,
    fallback: Arc<CertifiedKey>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| {
            if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                self.names.find(&name.to_ascii_lowercase())
            } else {
                self.names.find(name)
            }
        });
        Some(Arc::clone(named.unwrap_or(&self.fallback)))
    }
}
