//! What the control core itself runs by: the part of a compiled configuration that no shard sees.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ringway_io::net::tls::ClientTls;
use ringway_shards::plan::{BackendId, PoolId, Scheme};
use ringway_shards::spawn::ShardOptions;

use super::effective::Effective;
use super::templates::Template;
use crate::config::Warning;
use crate::discovery::settings::DiscoverySettings;

/// Everything compiled for the control core.
#[derive(Debug)]
pub struct ControlSettings {
    /// The `metrics` and `mgmt` listeners that are on.
    pub admin: Vec<AdminListener>,
    /// Where the log goes.
    pub log: LogSettings,
    /// When the configuration is read again.
    pub reload: ReloadSettings,
    /// Probes, one for each backend that has any: see [`HealthCheck::interval`].
    pub health_checks: Vec<HealthCheck>,
    /// Templates of discovered members.
    pub templates: Vec<Template>,
    /// Health floors, by [`PoolId`].
    pub floors: Vec<PoolFloor>,
    /// Pools that leave failing members out for a while; a pool without is not listed.
    pub ejections: Vec<PoolEjection>,
    /// Host names and addresses behind origins, one for each origin.
    pub origins: Vec<OriginName>,
    /// Who is asked for members, and for which pools.
    pub discovery: DiscoverySettings,
    /// How many shards run, where, and on what.
    pub shards: ShardOptions,
    /// Processor of the control thread; `None`: not pinned.
    pub control_cpu: Option<usize>,
    /// Files with users: the configuration is read again when one of them changes.
    pub users_files: Vec<PathBuf>,
    /// Changes exactly when a source or a file it names changes.
    pub fingerprint: u64,
    /// Every effective value and where it came from; also the redacted dump.
    pub effective: Effective,
    /// What was accepted but probably not meant, in the order of the sources.
    pub warnings: Vec<Warning>,
}

/// One listener of the control core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminListener {
    /// `metrics` or `mgmt`.
    pub name: &'static str,
    /// Where it is bound; port 0 is any free port.
    pub address: SocketAddr,
    /// Most concurrent connections; `None`: no limit.
    pub connections_limit: Option<u32>,
    /// Longest wait for a request head.
    pub read_header_timeout: Duration,
    /// What it answers, by exact path.
    pub routes: Vec<AdminRoute>,
}

/// One path of an [`AdminListener`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminRoute {
    /// Path without query.
    pub path: String,
    /// What answers.
    pub page: AdminPage,
}

/// What an admin path answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminPage {
    /// Prometheus metrics.
    Metrics,
    /// Health of all backends; a further path segment is a backend to probe on demand.
    Health,
    /// `pong`.
    Ping,
    /// The effective configuration with secrets masked.
    Config,
    /// Reads the configuration again.
    Reload,
}

/// Where the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Lowest level written.
    pub level: LogLevel,
    /// File, with the instance number already in its name; `None`: standard output.
    pub file: Option<PathBuf>,
}

/// Levels of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What failed. Also the contract's `fatal`.
    Error,
    /// What will fail or is degraded.
    Warn,
    /// Transitions.
    Info,
    /// Everything.
    Debug,
}

/// When the configuration is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadSettings {
    /// Life of replaced listeners and idle peers.
    pub drain_timeout: Duration,
    /// Shortest time between two attempts.
    pub rate_limit: Duration,
    /// How often the sources are looked at; `None`: never.
    pub auto_interval: Option<Duration>,
}

/// How one backend is probed.
#[derive(Clone, Debug)]
pub struct HealthCheck {
    /// The backend.
    pub backend: BackendId,
    /// Its name.
    pub backend_name: Box<str>,
    /// Time between probes; `None`: only on demand, the backend stays unknown.
    pub interval: Option<Duration>,
    /// Limit of a whole probe.
    pub timeout: Duration,
    /// Consecutive failures that make it unavailable.
    pub failure_threshold: u32,
    /// Consecutive successes that make it available.
    pub recovery_threshold: u32,
    /// Method.
    pub verb: Box<str>,
    /// Plain or TLS.
    pub scheme: Scheme,
    /// Host to dial, without port and brackets.
    pub host: Box<str>,
    /// Port to dial.
    pub port: u16,
    /// Value of `Host`.
    pub authority: Box<str>,
    /// Path and query, as sent.
    pub target: Box<str>,
    /// Request headers.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// Request body; empty: none.
    pub body: Box<str>,
    /// Acceptable status codes.
    pub expected_codes: Vec<RangeInclusive<u16>>,
    /// Headers that must be there with just this first value.
    pub expected_headers: Vec<(Box<str>, Box<str>)>,
    /// The whole body that is expected; `None`: not looked at.
    pub expected_body: Option<Box<str>>,
    /// TLS settings, when `scheme` is [`Scheme::Https`].
    pub tls: Option<ClientTls>,
}

/// The health floor of one pool. Contract: ALB page, 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolFloor {
    /// The pool.
    pub pool: PoolId,
    /// Name of the ALB that owns it.
    pub alb_name: Box<str>,
    /// As configured.
    pub configured: i8,
    /// In force: 0 where a floor of 1 was reset.
    pub effective: i8,
    /// Members that are never probed and so forced the reset; empty without one.
    pub unprobed: Vec<Box<str>>,
}

impl PoolFloor {
    /// Whether a floor of 1 was reset to 0 because of members without probes.
    pub fn was_reset(&self) -> bool {
        self.configured != self.effective
    }

    /// Whether members get requests though their probes fail.
    pub fn admits_failing(&self) -> bool {
        self.effective < 0
    }
}

/// When a member of a pool is left out because requests to it fail. New in ringway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolEjection {
    /// The pool.
    pub pool: PoolId,
    /// Failed requests in a row that eject a member, at least 1.
    pub consecutive_failures: u32,
    /// How long it is left out.
    pub time: Duration,
}

/// What stands behind one origin, to be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginName {
    /// The origin.
    pub backend: BackendId,
    /// Host name or address, without brackets.
    pub host: Box<str>,
    /// Port.
    pub port: u16,
}
