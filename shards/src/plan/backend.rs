//! Backends: origins and virtual ones.

use std::time::Duration;

use ringway_io::net::tls::ClientTls;

use super::pool::{Mechanism, PoolId};

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
#[derive(Debug)]
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
    /// What it is.
    pub kind: BackendKind,
}

/// What a backend does with a request.
#[derive(Debug)]
pub enum BackendKind {
    /// Sends it to an origin server.
    Origin(Box<Origin>),
    /// Sends it to one or all members of a pool.
    Alb(Alb),
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
#[derive(Debug)]
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

/// An application load balancer.
#[derive(Debug)]
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
    /// Settings of `tsm`; the defaults under other mechanisms.
    pub tsm: TimeSeriesMerge,
}

/// Settings of the time series merge mechanism.
#[derive(Clone, Debug, Default)]
pub struct TimeSeriesMerge {
    /// Members in flight at once; `None`: all.
    pub concurrency_max: Option<u32>,
    /// Points of one series this close together count as one; 0: only equal timestamps.
    pub dedup_tolerance_ms: u64,
}
