//! Block `backends.*.healthcheck`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::schema::{Key, Kind, Providers};
use super::units::Period;

const THRESHOLD: Kind = Kind::Int {
    min: 0,
    max: 1_000_000,
};

/// Known methods; `x` is the contract's old word for "none".
pub const VERBS: &[&str] = &[
    "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE",
];

/// Keys of the block.
pub const KEYS: &[Key] = &[
    Key::new("backends.*.healthcheck", Kind::Section).only(Providers::Origin),
    Key::new(
        "backends.*.healthcheck.interval",
        Kind::DurationOrOff { min_ms: 10 },
    ),
    Key::new(
        "backends.*.healthcheck.timeout",
        Kind::Duration {
            min_ms: 100,
            max_ms: 30_000,
        },
    ),
    Key::new("backends.*.healthcheck.failure_threshold", THRESHOLD),
    Key::new("backends.*.healthcheck.recovery_threshold", THRESHOLD),
    Key::new("backends.*.healthcheck.verb", Kind::Choice(VERBS)),
    Key::new(
        "backends.*.healthcheck.scheme",
        Kind::Choice(&["http", "https"]),
    ),
    Key::new("backends.*.healthcheck.host", Kind::Text),
    Key::new("backends.*.healthcheck.path", Kind::Text),
    Key::new("backends.*.healthcheck.query", Kind::Text),
    Key::new("backends.*.healthcheck.headers", Kind::TextMap)
        .env()
        .secret(),
    Key::new("backends.*.healthcheck.body", Kind::Text),
    Key::new("backends.*.healthcheck.expected_codes", Kind::Codes),
    Key::new("backends.*.healthcheck.expected_headers", Kind::TextMap),
    Key::new("backends.*.healthcheck.expected_body", Kind::Text),
];

/// The block as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthCheck {
    /// Time between probes; 0: none.
    pub interval: Option<Period>,
    /// Limit of a probe.
    pub timeout: Option<Period>,
    /// Failures that make unavailable.
    pub failure_threshold: Option<u32>,
    /// Successes that make available.
    pub recovery_threshold: Option<u32>,
    /// Method.
    pub verb: Option<String>,
    /// Scheme instead of the origin's.
    pub scheme: Option<String>,
    /// Host, perhaps with port, instead of the origin's.
    pub host: Option<String>,
    /// Path instead of the provider's.
    pub path: Option<String>,
    /// Query instead of the provider's.
    pub query: Option<String>,
    /// Request headers.
    pub headers: Option<BTreeMap<String, String>>,
    /// Request body.
    pub body: Option<String>,
    /// Acceptable codes and ranges.
    pub expected_codes: Option<Vec<String>>,
    /// Headers that must be there.
    pub expected_headers: Option<BTreeMap<String, String>>,
    /// The whole expected body.
    pub expected_body: Option<String>,
}
