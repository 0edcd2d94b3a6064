//! From settings to sources: one connection for each discoverer, one source for each of its queries.

use std::sync::Arc;
use std::time::Duration;

use super::settings::{Provider, Query};
use super::watching::Pace;
use super::{Failure, Next, Source};
use super::{aws, azure, consul, dns_records, docker, file, gcp, http_sd, kubernetes, nomad};

/// What the queries of one discoverer share: clients, credentials, caches.
#[derive(Clone)]
pub enum Connection {
    /// See [`kubernetes`].
    Kubernetes(kubernetes::Connection),
    /// See [`dns_records`].
    Dns(dns_records::Connection),
    /// See [`mod@file`].
    File(file::Connection),
    /// See [`http_sd`].
    HttpSd(http_sd::Connection),
    /// See [`consul`].
    Consul(consul::Connection),
    /// See [`nomad`].
    Nomad(nomad::Connection),
    /// See [`aws`].
    Aws(aws::Connection),
    /// See [`gcp`].
    Gcp(gcp::Connection),
    /// See [`azure`].
    Azure(azure::Connection),
    /// See [`docker`].
    Docker(docker::Connection),
}

/// The connection of a discoverer. Asks nobody yet. Where one of `others` does the same, it is shared.
///
/// # Errors
/// When the settings make no client.
pub fn connect<'a>(
    provider: &Provider,
    mut others: impl Iterator<Item = &'a Connection>,
) -> Result<Connection, Failure> {
    Ok(match provider {
        Provider::Kubernetes(own) => {
            // Watches are the dear part of an API server.
            let same = others.find_map(|other| match other {
                Connection::Kubernetes(other) if other.serves(own) => Some(other.clone()),
                _ => None,
            });
            Connection::Kubernetes(same.map_or_else(|| kubernetes::connect(own), Ok)?)
        }
        Provider::DnsSrv(own) | Provider::DnsA(own) => Connection::Dns(dns_records::connect(own)?),
        Provider::File(own) => Connection::File(file::connect(own)?),
        Provider::HttpSd(own) => Connection::HttpSd(http_sd::connect(own)?),
        Provider::Consul(own) => Connection::Consul(consul::connect(own)?),
        Provider::Nomad(own) => Connection::Nomad(nomad::connect(own)?),
        Provider::Docker(own) => Connection::Docker(docker::connect(own)?),
        Provider::Aws(own) => Connection::Aws(aws::connect(own)?),
        Provider::Gcp(own) => Connection::Gcp(gcp::connect(own)?),
        Provider::Azure(own) => Connection::Azure(azure::connect(own)?),
    })
}

/// The source of one query; `must_work` says that a start depends on it. Without a connection it fails each time, as a
/// source that is down.
pub fn source(
    connection: &Result<Connection, Failure>,
    query: Arc<Query>,
    must_work: bool,
) -> Box<dyn Source> {
    match connection {
        Ok(Connection::Kubernetes(own)) if must_work => own.checked_source(query),
        Ok(Connection::Kubernetes(own)) => own.source(query),
        Ok(Connection::Dns(own)) => own.source(query),
        Ok(Connection::File(own)) => own.source(query),
        Ok(Connection::HttpSd(own)) => own.source(query),
        Ok(Connection::Consul(own)) => own.source(query),
        Ok(Connection::Nomad(own)) => own.source(query),
        Ok(Connection::Aws(own)) => own.source(query),
        Ok(Connection::Gcp(own)) => own.source(query),
        Ok(Connection::Azure(own)) => own.source(query),
        Ok(Connection::Docker(own)) => own.source(query),
        Err(failure) => Box::new(Broken(failure.clone())),
    }
}

/// When a source is read.
pub fn pace(provider: &Provider, begins_at_once: bool) -> Pace {
    let interval = match provider {
        Provider::Kubernetes(_) => Duration::from_secs(1),
        Provider::DnsSrv(dns) | Provider::DnsA(dns) => dns.interval,
        // It waits for the next change or poll by itself.
        Provider::File(_) => Duration::from_millis(100),
        Provider::HttpSd(own) => own.http.interval,
        Provider::Consul(own) => own.http.interval,
        Provider::Nomad(own) => own.http.interval,
        Provider::Aws(own) => own.http.interval,
        Provider::Gcp(own) => own.http.interval,
        Provider::Azure(own) => own.http.interval,
        Provider::Docker(own) => own.http.interval,
    };
    Pace {
        interval,
        backs_off: matches!(
            provider,
            Provider::Aws(_) | Provider::Gcp(_) | Provider::Azure(_)
        ),
        begins_at_once: begins_at_once || matches!(provider, Provider::File(_)),
    }
}

/// How long a first reading may take where the start depends on it.
pub fn start_limit(provider: &Provider) -> Duration {
    /// A question and its repeats over TCP and at other servers.
    const DNS: Duration = Duration::from_secs(15);
    /// Reading a file.
    const FILE: Duration = Duration::from_secs(5);
    match provider {
        Provider::Kubernetes(own) => own.timeout * 2,
        Provider::DnsSrv(_) | Provider::DnsA(_) => DNS,
        Provider::File(_) => FILE,
        Provider::HttpSd(own) => own.http.timeout,
        // The first reading of both does not wait for news.
        Provider::Consul(own) => own.http.timeout.saturating_sub(own.wait),
        Provider::Nomad(own) => own.http.timeout.saturating_sub(own.wait),
        Provider::Aws(own) => own.http.timeout * 2,
        Provider::Gcp(own) => own.http.timeout * 2,
        Provider::Azure(own) => own.http.timeout * 2,
        Provider::Docker(own) => own.http.timeout,
    }
}

struct Broken(Failure);

impl Source for Broken {
    fn next(&mut self) -> Next<'_> {
        let failure = self.0.clone();
        Box::pin(async move { Err(failure) })
    }
}
