//! Where members and their addresses come from.
//!
//! A provider per file answers one question, again and again: who belongs to this query now? It is a [`Source`];
//! everything else (pace, failures, exclusions, comparing, sharing between ALBs) is done once, around it. `dns`
//! resolves the host names of configured origins. Contract: autodiscovery page.

pub mod aws;
pub mod azure;
pub mod blocking;
pub mod cloud;
pub mod connect;
pub mod consul;
pub mod dns;
pub mod dns_records;
pub mod docker;
pub mod file;
pub mod gcp;
pub mod http;
pub mod http_sd;
pub mod kubernetes;
pub mod members;
pub mod nomad;
pub mod settings;
pub mod snapshot;
#[cfg(test)]
mod stub;
pub mod watching;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ringway_shards::plan::Scheme;

/// What the source says of a member's readiness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    /// The source does not say.
    #[default]
    Unknown,
    /// It serves.
    Ready,
    /// It does not serve yet, or not now.
    NotReady,
}

/// One discovered member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What the source calls it; its backend's name is made of this. No identity: two may share it.
    pub name: Box<str>,
    /// Plain or TLS.
    pub scheme: Scheme,
    /// Host name or address, without brackets.
    pub host: Box<str>,
    /// Port, at least 1.
    pub port: u16,
    /// Path before every request's; empty: the template's.
    pub path_prefix: Box<str>,
    /// Turns of a rotation; 0: the source said nothing, which counts as 1.
    pub weight: u32,
    /// Name of its replica group; empty: the source said nothing.
    pub replica_group: Box<str>,
    /// Whether it serves.
    pub ready: Readiness,
    /// For people only. Nothing that changes by itself may be among them, or every reading is a change.
    pub labels: Arc<BTreeMap<Box<str>, Box<str>>>,
}

impl Member {
    /// A member at an address, of which nothing else is known; its name is the address.
    pub fn at(scheme: Scheme, host: &str, port: u16) -> Member {
        let mut member = Member {
            name: Box::default(),
            scheme,
            host: host.into(),
            port,
            path_prefix: Box::default(),
            weight: 0,
            replica_group: Box::default(),
            ready: Readiness::Unknown,
            labels: Arc::default(),
        };
        member.name = member.address().into();
        member
    }

    /// `host:port`, an IPv6 address in brackets.
    pub fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Its identity: scheme, address and path prefix.
    pub fn key(&self) -> String {
        let scheme = self.scheme.name();
        format!("{scheme}://{}{}", self.address(), self.path_prefix)
    }

    /// Adds a label, unless its value is empty.
    pub fn label(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            Arc::make_mut(&mut self.labels).insert(name.into(), value.into());
        }
    }
}

/// Something that the source names and that cannot be a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exclusion {
    /// What the source calls it.
    pub name: Box<str>,
    /// Why it cannot.
    pub reason: String,
}

/// When to ask again after a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// At once: the source itself waits for news.
    Now,
    /// After so long.
    After(Duration),
}

/// What a source says at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// All members; `None`: the same as in the last reading (304, an index that stood still).
    pub members: Option<Vec<Member>>,
    /// What was left out that an operator may have expected; what is stopping is not among it.
    pub excluded: Vec<Exclusion>,
    /// When to ask again.
    pub again: Again,
}

/// Why there is no reading. Holds no secret: it is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong and, where ringway knows it, what to do.
    pub reason: String,
    /// How long the source asks to be left alone, from `Retry-After`. No time at all: the source waits by itself, as
    /// one that is told of changes does.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure with this text.
    pub fn new(reason: impl Into<String>) -> Failure {
        Failure {
            reason: reason.into(),
            retry_after: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Failure {}

/// The answer of a source, on its way.
pub type Next<'a> = Pin<Box<dyn Future<Output = Result<Reading, Failure>> + Send + 'a>>;

/// A provider's view of one query: what a new provider implements.
///
/// [`next`](Source::next) is called again and again, never twice at once. The first call reads everything; later
/// ones may wait for news as long as the source likes (blocking queries, watches, notifications) and then return
/// all members again. A reading is whole or it is a failure: pages are collected first, and an entry that cannot
/// be read fails it, so that the members of before stay. An empty list is an answer, and empties the pool. The
/// future may be dropped at any time, which must end what it does.
pub trait Source: Send {
    /// The next reading.
    ///
    /// # Errors
    /// When the source cannot be asked, or its answer not be understood; it is asked again after the interval.
    fn next(&mut self) -> Next<'_>;
}
