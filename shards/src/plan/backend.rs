//! Backends: origins and virtual ones.

use std::sync::Arc;
use std::time::Duration;

use ringway_io::net::tls::ClientTls;

use super::authenticator::UserRouter;
use super::merging::TimeSeriesMerge;
use super::path::PathRule;
use super::pool::{Mechanism, PoolId};
use super::rule::Rule;

/// Index of a backend in its plan and in every table of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub u32);

impl BackendId {
    /// The id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One entry of `backends`, compiled.
#[derive(Clone, Debug)]
pub struct Backend {
    /// This backend's index.
    pub id: BackendId,
    /// Operator's name.
    pub name: Box<str>,
    /// Value of the `provider` metric label.
    pub provider_label: &'static str,
    /// Replica group; the backend's own name unless configured. Contract: tsm page, 3.
    pub replica_group: Box<str>,
    /// Most bytes one answer may take when it is captured for a fan-out.
    pub capture_bytes_max: u64,
    /// Its path table, in the order of matching; never empty.
    pub paths: Arc<[PathRule]>,
    /// Simulated latency of requests that clients make of it; `None`: none.
    pub latency: Option<Latency>,
    /// Content types (lower case, without parameters) whose answers are compressed towards clients; `/*` at the
    /// end stands for all of a kind. Empty: none.
    pub compressible_types: Arc<[Box<str>]>,
    /// What it is.
    pub kind: BackendKind,
}

impl Backend {
    /// Labels that it adds to each series. Those of origins below an ALB are theirs.
    pub fn injected_labels(&self) -> &[(String, String)] {
        match &self.kind {
            BackendKind::Origin(origin) => &origin.injected_labels,
            BackendKind::Alb(_) | BackendKind::Rule(_) => &[],
        }
    }
}

/// What a backend does with a request.
#[derive(Clone, Debug)]
pub enum BackendKind {
    /// Sends it to an origin server.
    Origin(Box<Origin>),
    /// Sends it to one or all members of a pool.
    Alb(Alb),
    /// Looks at it and sends it on.
    Rule(Arc<Rule>),
}

/// What the origin speaks above HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginProvider {
    /// Nothing that matters here.
    ReverseProxy,
    /// The Prometheus API; may be a member of a time series merge.
    Prometheus,
}

/// Scheme of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain TCP.
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    /// As URLs write it.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port it stands for.
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// Which forwarding headers a request gets. Contract: config page, 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHeaders {
    /// `Forwarded`.
    Standard,
    /// `X-Forwarded-*`.
    X,
    /// Both.
    Both,
    /// Neither.
    None,
}

/// How an origin is reached. Addresses are in the pool table, since they change with DNS.
#[derive(Clone, Debug)]
pub struct Origin {
    /// What it speaks.
    pub provider: OriginProvider,
    /// Plain or TLS.
    pub scheme: Scheme,
    /// Host of `origin_url`, without port and brackets: resolved by the control core, verified by TLS.
    pub host: Box<str>,
    /// Port, given or the scheme's.
    pub port: u16,
    /// Value of `Host`: host, and the port where it is not the scheme's.
    pub authority: Box<str>,
    /// Path prefix without trailing slash; empty for none.
    pub path_prefix: Box<str>,
    /// TLS settings, when `scheme` is [`Scheme::Https`].
    pub tls: Option<ClientTls>,
    /// TLS settings for requests that a rewriter turns to HTTPS, where the configuration has one that may.
    pub spare_tls: Option<ClientTls>,
    /// All that makes connections differ besides the address, as one text: scheme, host, TLS settings. Peers
    /// are kept over a reload only where it is equal.
    pub peer_key: Box<str>,
    /// Whole exchange, body included, and wait for the response head.
    pub timeout: Duration,
    /// Limit of a TCP connect, and again of a TLS handshake.
    pub connect_timeout: Duration,
    /// Life of an idle connection.
    pub keep_alive_timeout: Duration,
    /// Idle connections kept, over all shards; each keeps its share (at least one).
    pub idle_max: u32,
    /// Open connections, over all shards; each opens its share (at least one). More requests wait.
    pub connections_max: u32,
    /// Forwarding headers.
    pub forwarded: ForwardedHeaders,
    /// Labels that `prometheus.labels` adds to each series.
    pub injected_labels: Vec<(String, String)>,
}

/// Time added to each request, evenly spread between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Least.
    pub min: Duration,
    /// Most.
    pub max: Duration,
}

/// When a request that failed at one member goes to another. New in ringway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Most members tried after the first; 0: never.
    pub attempts_max: u8,
    /// Retries in flight, in percent of the ALB's requests in flight.
    pub budget_percent: u8,
    /// Retries a second that the budget always grants, over all shards.
    pub floor_per_second: u32,
    /// Most bytes of a request body that are kept so that they can be sent again.
    pub body_bytes_max: u64,
    /// How long a member may take to its first byte before another is asked; `None`: its own timeout.
    pub try_timeout: Option<Duration>,
}

impl Retry {
    /// No other member is ever asked.
    pub const NONE: Retry = Retry {
        attempts_max: 0,
        budget_percent: 0,
        floor_per_second: 0,
        body_bytes_max: 0,
        try_timeout: None,
    };
}

/// An application load balancer.
///
/// `pool` of a user router holds its targets, so that one walk finds who is below an ALB; nobody takes turns
/// there.
#[derive(Clone, Debug)]
pub struct Alb {
    /// How it chooses.
    pub mechanism: Mechanism,
    /// From whom.
    pub pool: PoolId,
    /// Most bytes captured over all members of one fan-out; `None`: no aggregate bound.
    pub fanout_bytes_max: Option<u64>,
    /// Deadline of a whole fan-out. Contract: decisions, 16.
    pub timeout: Duration,
    /// Longest `end - start` of a range query; `None`: no limit. Contract: tsm page, 2.
    pub query_range_max: Option<Duration>,
    /// Members in flight at once in a fan-out; `None`: all. Contract: decisions, 14.
    pub concurrency_max: Option<u32>,
    /// Status codes that are good for `fgr`; `None`: all below 400.
    pub good_status: Option<Vec<u16>>,
    /// When another member is asked; for `rr`.
    pub retry: Retry,
    /// Settings of `ur`.
    pub user_router: Option<UserRouter>,
    /// Settings of `tsm`; the defaults under other mechanisms.
    pub tsm: Box<TimeSeriesMerge>,
}
