//! Section `backends`, without the blocks `alb` and `healthcheck`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::alb::{Alb, BYTES};
use super::healthcheck::HealthCheck;
use super::load::Named;
use super::paths::{Cors, PathEntry};
use super::schema::{Key, Kind, Providers};
use super::units::Period;

const TIMEOUT: Kind = Kind::Duration {
    min_ms: 1,
    max_ms: 0,
};
const CONNECTIONS: Kind = Kind::Int {
    min: 1,
    max: 1_000_000,
};

/// Keys of the section.
pub const KEYS: &[Key] = &[
    Key::new("backends", Kind::Names),
    Key::new("backends.*", Kind::Section),
    Key::new("backends.*.provider", Kind::Text),
    Key::new("backends.*.origin_url", Kind::Text).only(Providers::Origin),
    Key::new("backends.*.hosts", Kind::Texts),
    Key::new("backends.*.path_routing_disabled", Kind::Bool),
    Key::new("backends.*.is_default", Kind::Bool),
    Key::new("backends.*.is_template", Kind::Bool),
    Key::new("backends.*.listener_name", Kind::Text),
    Key::new("backends.*.replica_group", Kind::Text),
    Key::new("backends.*.max_capture_bytes", BYTES),
    Key::new("backends.*.max_fanout_capture_bytes", BYTES),
    Key::new(
        "backends.*.max_query_range",
        Kind::Duration {
            min_ms: 0,
            max_ms: 0,
        },
    )
    .only(Providers::Alb),
    Key::new("backends.*.timeout", TIMEOUT).only(Providers::Origin),
    Key::new("backends.*.connect_timeout", TIMEOUT).only(Providers::Origin),
    Key::new("backends.*.keep_alive_timeout", TIMEOUT).only(Providers::Origin),
    Key::new("backends.*.max_idle_conns", CONNECTIONS).only(Providers::Origin),
    Key::new("backends.*.max_concurrent_conns", CONNECTIONS).only(Providers::Origin),
    Key::new(
        "backends.*.forwarded_headers",
        Kind::Choice(&["standard", "x", "both", "none"]),
    )
    .only(Providers::Origin),
    Key::new("backends.*.prometheus", Kind::Section).only(Providers::Prometheus),
    Key::new("backends.*.prometheus.labels", Kind::TextMap),
    Key::new("backends.*.tls", Kind::Section),
    Key::new("backends.*.tls.full_chain_cert_path", Kind::Text),
    Key::new("backends.*.tls.private_key_path", Kind::Text),
    Key::new("backends.*.tls.insecure_skip_verify", Kind::Bool).only(Providers::Origin),
    Key::new("backends.*.tls.certificate_authority_paths", Kind::Texts).only(Providers::Origin),
    Key::new("backends.*.tls.client_cert_path", Kind::Text).only(Providers::Origin),
    Key::new("backends.*.tls.client_key_path", Kind::Text).only(Providers::Origin),
];

/// One entry of `backends` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// What it is.
    pub provider: Option<String>,
    /// Where it is.
    pub origin_url: Option<String>,
    /// Virtual hosts.
    pub hosts: Option<Vec<String>>,
    /// No `/<name>/` route.
    pub path_routing_disabled: Option<bool>,
    /// Catch-all of its listener.
    pub is_default: Option<bool>,
    /// Only to be cloned.
    pub is_template: Option<bool>,
    /// Listener it is served on.
    pub listener_name: Option<String>,
    /// Replica group in a merge.
    pub replica_group: Option<String>,
    /// Most bytes captured of one answer.
    pub max_capture_bytes: Option<u64>,
    /// Most bytes captured of one fan-out.
    pub max_fanout_capture_bytes: Option<u64>,
    /// Longest range of a query.
    pub max_query_range: Option<Period>,
    /// Whole exchange.
    pub timeout: Option<Period>,
    /// Connect and handshake.
    pub connect_timeout: Option<Period>,
    /// Life of an idle connection.
    pub keep_alive_timeout: Option<Period>,
    /// Idle connections kept.
    pub max_idle_conns: Option<u32>,
    /// Open connections.
    pub max_concurrent_conns: Option<u32>,
    /// Forwarding headers.
    pub forwarded_headers: Option<String>,
    /// Settings of the Prometheus provider.
    pub prometheus: Option<Prometheus>,
    /// TLS, both sides.
    pub tls: Option<Tls>,
    /// Who asks for credentials; `none`: nobody.
    pub authenticator_name: Option<String>,
    /// Shortest simulated latency.
    pub latency_min: Option<Period>,
    /// Longest simulated latency.
    pub latency_max: Option<Period>,
    /// Content types that are compressed towards clients.
    pub compressible_types: Option<Vec<String>>,
    /// Changes to request headers on all paths, in written order.
    pub request_headers: Option<Named<String>>,
    /// Changes to query parameters on all paths, in written order.
    pub request_params: Option<Named<String>>,
    /// Changes to answer headers on all paths, in written order.
    pub response_headers: Option<Named<String>>,
    /// Cross-origin headers of all paths.
    pub cors: Option<Cors>,
    /// Rule that it runs.
    pub rule_name: Option<String>,
    /// Rewriter of all its requests.
    pub req_rewriter_name: Option<String>,
    /// What is done on single paths.
    pub paths: Option<Vec<PathEntry>>,
    /// Probes.
    pub healthcheck: Option<HealthCheck>,
    /// Balancing.
    pub alb: Option<Alb>,
}

/// Block `prometheus` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prometheus {
    /// Labels added to each series.
    pub labels: Option<BTreeMap<String, String>>,
}

/// Block `tls` as written.
#[derive(Clone, Debug, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate chain towards clients.
    pub full_chain_cert_path: Option<String>,
    /// Its key.
    pub private_key_path: Option<String>,
    /// Accept any certificate of the origin.
    pub insecure_skip_verify: Option<bool>,
    /// Further authorities for the origin's certificate.
    pub certificate_authority_paths: Option<Vec<String>>,
    /// Certificate shown to the origin.
    pub client_cert_path: Option<String>,
    /// Its key.
    pub client_key_path: Option<String>,
}

/// What a `provider` value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider<'a> {
    /// No value.
    Unset,
    /// `prometheus`.
    Prometheus,
    /// `reverseproxy` and its short names.
    ReverseProxy,
    /// `alb`.
    Alb,
    /// `rule`.
    Rule,
    /// Of the contract, to come; the feature.
    Later(&'static str),
    /// None of the contract.
    Unknown(&'a str),
}

/// All values of the contract.
pub const PROVIDERS: &[&str] = &[
    "prometheus",
    "reverseproxy",
    "rp",
    "proxy",
    "alb",
    "reverseproxycache",
    "rpc",
    "influxdb",
    "clickhouse",
    "rule",
];

impl<'a> Provider<'a> {
    /// Reads a value.
    pub fn of(value: &'a str) -> Self {
        match value {
            "prometheus" => Provider::Prometheus,
            // Nothing is cached yet, which an origin that allows caching allows too; the compiler warns.
            "reverseproxy" | "rp" | "proxy" | "reverseproxycache" | "rpc" => Provider::ReverseProxy,
            "alb" => Provider::Alb,
            "influxdb" => Provider::Later("provider influxdb"),
            "clickhouse" => Provider::Later("provider clickhouse"),
            "rule" => Provider::Rule,
            other => Provider::Unknown(other),
        }
    }

    /// Reads it from an entry of `backends`.
    pub(super) fn of_entry(node: &'a super::tree::Node) -> Self {
        match node.get("provider").and_then(super::tree::Node::text) {
            Some(value) => Provider::of(value),
            None => Provider::Unset,
        }
    }

    /// Canonical name of a provider that is built.
    pub fn built_name(self) -> Option<&'static str> {
        match self {
            Provider::Prometheus => Some("prometheus"),
            Provider::ReverseProxy => Some("reverseproxy"),
            Provider::Alb => Some("alb"),
            Provider::Rule => Some("rule"),
            Provider::Unset | Provider::Later(_) | Provider::Unknown(_) => None,
        }
    }
}
