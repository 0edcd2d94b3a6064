//! Providers `dns_srv` and `dns_a`: members of SRV records, and of A and AAAA records.
//!
//! `hickory-resolver`'s pool of name servers carries questions (UDP with EDNS, the repeats, TCP where an answer is
//! cut, checks of id, peer and question); nothing of it remembers anything, since pools live for one question. Its
//! `Resolver` is not used: it answers some names by itself, rewrites answers on the way through its cache, and asks
//! a further server only within the time of the first. Reading is in [`reply`]. Contract: autodiscovery page, 8.

pub mod reply;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::xfer::{DnsHandle, FirstAnswer};
use hickory_resolver::net::{DnsError, NetError, NoRecords};
use hickory_resolver::proto::op::{DnsRequest, DnsRequestOptions, Query as Question, ResponseCode};
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{NameServerPool, PoolContext, TlsConfig};
use tokio::time::timeout;

use self::reply::{Found, NO_SUCH_NAME, OTHER_QUESTION};
use super::settings::{Dns, Port, Query};
use super::{Again, Failure, Member, Next, Reading, Source};

/// Limit of one question to one server, its repeats and its second try over TCP included.
const LIMIT: Duration = Duration::from_secs(5);
/// Most servers that one question goes to.
const SERVERS_MAX: usize = 3;
/// The system's resolver file.
const SYSTEM_FILE: &str = "/etc/resolv.conf";

/// How questions are asked.
#[derive(Clone, Debug)]
pub struct Connection {
    settings: Arc<Dns>,
    system_file: PathBuf,
    limit: Duration,
}

/// A connection with these settings; asks nothing yet.
///
/// # Errors
/// Never so far.
pub fn connect(settings: &Dns) -> Result<Connection, Failure> {
    Ok(Connection {
        settings: Arc::new(settings.clone()),
        system_file: SYSTEM_FILE.into(),
        limit: LIMIT,
    })
}

impl Connection {
    /// The members of a name: of its SRV records where the query has `srv_name`, else of its addresses.
    pub fn source(&self, query: Arc<Query>) -> Box<dyn Source> {
        let connection = self.clone();
        match query.srv_name {
            Some(_) => Box::new(Services { connection, query }),
            None => Box::new(Addresses {
                connection,
                query,
                families: [Family::new("A"), Family::new("AAAA")],
            }),
        }
    }

    /// Who is asked, the first first. The system's file is read each time: whoever changes networks changes it.
    async fn servers(&self) -> Result<Vec<SocketAddr>, String> {
        let mut servers: Vec<SocketAddr> = match &self.settings.resolver {
            Some((host, port)) => timeout(self.limit, tokio::net::lookup_host((&**host, *port)))
                .await
                .map_err(|_| format!("resolver {host}: no address within {:?}", self.limit))?
                .map_err(|error| format!("resolver {host}: {error}"))?
                .collect(),
            None => {
                let shown = self.system_file.display();
                let text = tokio::fs::read(&self.system_file)
                    .await
                    .map_err(|error| format!("{shown}: {error}"))?;
                let (system, _) =
                    parse_resolv_conf(text).map_err(|error| format!("{shown}: {error}"))?;
                let addresses = system.name_servers().iter().map(|server| server.ip);
                addresses.map(|ip| SocketAddr::new(ip, 53)).collect()
            }
        };
        servers.truncate(SERVERS_MAX);
        Ok(servers)
    }

    /// What the first server that knows says of a name. One that says that there is no such name knows.
    async fn ask(
        &self,
        servers: &[SocketAddr],
        name: &Name,
        kind: RecordType,
    ) -> Result<Found, String> {
        let mut reasons = Vec::new();
        for server in servers {
            let asked = timeout(self.limit, self.ask_one(*server, name, kind)).await;
            match asked {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(reason)) => {
                    let is_final = reason == NO_SUCH_NAME;
                    reasons.push(format!("{server}: {reason}"));
                    if is_final {
                        break;
                    }
                }
                Err(_) => reasons.push(format!("{server}: no answer within {:?}", self.limit)),
            }
        }
        match reasons.is_empty() {
            true => Err("no server to ask".into()),
            false => Err(reasons.join("; ")),
        }
    }

    async fn ask_one(
        &self,
        server: SocketAddr,
        name: &Name,
        kind: RecordType,
    ) -> Result<Found, String> {
        let pool = pool(server, self.limit)?;
        let question = Question::query(name.clone(), kind);
        // Recursion desired and EDNS with 1232 bytes are the library's defaults.
        let request = DnsRequest::from_query(question, DnsRequestOptions::default());
        match pool.send(request).first_answer().await {
            Ok(answer) => reply::read(answer.as_buffer(), name, kind),
            Err(NetError::Dns(DnsError::NoRecordsFound(nothing))) => {
                let asked = &nothing.query;
                if asked.name() != name || asked.query_type() != kind {
                    return Err(OTHER_QUESTION.into());
                }
                no_records(&nothing)
            }
            Err(NetError::Dns(DnsError::ResponseCode(code))) => Err(reply::code_text(code)),
            Err(NetError::Timeout) => Err(format!("no answer within {:?}", self.limit)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The way to one server, for one question.
fn pool(
    server: SocketAddr,
    limit: Duration,
) -> Result<NameServerPool<TokioRuntimeProvider>, String> {
    let mut config = NameServerConfig::udp_and_tcp(server.ip());
    let set_port = |connection: &mut ConnectionConfig| connection.port = server.port();
    config.connections.iter_mut().for_each(set_port);
    let mut options = ResolverOpts::default();
    options.timeout = limit;
    let tls = TlsConfig::new().map_err(|error| error.to_string())?;
    let context = Arc::new(PoolContext::new(options, tls));
    Ok(NameServerPool::from_config(
        [config],
        context,
        TokioRuntimeProvider::default(),
    ))
}

/// What an answer without any record says.
fn no_records(nothing: &NoRecords) -> Result<Found, String> {
    match nothing.response_code {
        // Other servers named and nothing more: this one does not resolve. That is not "no records".
        ResponseCode::NoError if nothing.ns.is_some() && nothing.soa.is_none() => {
            Err("it only refers to other servers: name one that resolves".into())
        }
        ResponseCode::NoError => Ok(Found::default()),
        code => Err(reply::code_text(code)),
    }
}

/// A configured name: fully qualified, whether or not it ends in a dot.
fn qualified(text: &str) -> Result<Name, Failure> {
    let mut name = Name::from_str_relaxed(text)
        .map_err(|error| Failure::new(format!("{text:?} is not a name: {error}")))?;
    name.set_fqdn(true);
    Ok(name)
}

// === dns_srv ===

struct Services {
    connection: Connection,
    query: Arc<Query>,
}

impl Services {
    async fn read(&self) -> Result<Reading, Failure> {
        let text = self.query.srv_name.as_deref().unwrap_or_default();
        let fail = |reason| Failure::new(format!("SRV {text}: {reason}"));
        let name = qualified(text)?;
        let servers = self.connection.servers().await.map_err(fail)?;
        let asked = self.connection.ask(&servers, &name, RecordType::SRV);
        let found = asked.await.map_err(fail)?;
        let members = reply::services(&found, self.query.scheme()).map_err(fail)?;
        let interval = self.connection.settings.interval;
        Ok(Reading {
            members: Some(members),
            excluded: Vec::new(),
            again: Again::After(interval.max(found.ttl.unwrap_or_default())),
        })
    }
}

impl Source for Services {
    fn next(&mut self) -> Next<'_> {
        Box::pin(self.read())
    }
}

// === dns_a ===

struct Addresses {
    connection: Connection,
    query: Arc<Query>,
    families: [Family; 2],
}

/// One of the two questions.
struct Family {
    label: &'static str,
    /// Its last good answer.
    addresses: Vec<IpAddr>,
    is_failing: bool,
}

impl Family {
    fn new(label: &'static str) -> Family {
        Family {
            label,
            addresses: Vec::new(),
            is_failing: false,
        }
    }

    /// Takes an answer, or keeps the last one; the time to live of what was answered now.
    fn take(&mut self, hostname: &str, answer: Result<Found, String>) -> Option<Duration> {
        let record = self.label;
        match answer {
            Ok(found) => {
                if self.is_failing {
                    tracing::info!(scope = "discovery", hostname, record, "answered again");
                }
                self.is_failing = false;
                self.addresses = reply::addresses(&found);
                found.ttl
            }
            Err(error) => {
                if !self.is_failing {
                    tracing::warn!(
                        scope = "discovery",
                        hostname,
                        record,
                        error,
                        "no answer for one address family; its last members stay"
                    );
                }
                self.is_failing = true;
                None
            }
        }
    }
}

impl Addresses {
    async fn read(&mut self) -> Result<Reading, Failure> {
        let text = self.query.hostname.as_deref().unwrap_or_default();
        let Some(Port::Number(port)) = self.query.port else {
            return Err(Failure::new(format!(
                "{text}: the query has no port number"
            )));
        };
        let name = qualified(text)?;
        let connection = &self.connection;
        let servers = connection
            .servers()
            .await
            .map_err(|reason| Failure::new(format!("{text}: {reason}")))?;
        let (four, six) = tokio::join!(
            connection.ask(&servers, &name, RecordType::A),
            connection.ask(&servers, &name, RecordType::AAAA),
        );
        if let (Err(four), Err(six)) = (&four, &six) {
            let reason = match four == six {
                true => format!("{text}: {four}"),
                false => format!("A {text}: {four}; AAAA {text}: {six}"),
            };
            return Err(Failure::new(reason));
        }
        let [first, second] = &mut self.families;
        let ttls = [first.take(text, four), second.take(text, six)];
        let ttl = ttls.into_iter().flatten().min().unwrap_or_default();
        let addresses = first.addresses.iter().chain(&second.addresses);
        let members = addresses.map(|address| {
            let host = address.to_string();
            let mut member = Member::at(self.query.scheme(), &host, port);
            member.name = host.into();
            member
        });
        Ok(Reading {
            members: Some(members.collect()),
            excluded: Vec::new(),
            again: Again::After(connection.settings.interval.max(ttl)),
        })
    }
}

impl Source for Addresses {
    fn next(&mut self) -> Next<'_> {
        Box::pin(self.read())
    }
}

#[cfg(test)]
mod tests;
