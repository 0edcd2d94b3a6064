//! What a backend does with requests and answers as they pass: `paths`, and the same edits on the backend itself.

use serde::Deserialize;

use super::load::Named;
use super::schema::{Key, Kind};

/// Methods that a path may list; `*` stands for all.
pub const METHODS: &[&str] = &[
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PURGE", "*",
];

const MODE: Kind = Kind::Choice(&["preserve", "merge", "replace", "disable"]);
/// Longest simulated latency.
const LATENCY: Kind = Kind::Duration {
    min_ms: 0,
    max_ms: 300_000,
};

/// Keys of paths, and those on backends that count for all their paths.
pub const KEYS: &[Key] = &[
    Key::new("backends.*.authenticator_name", Kind::Text),
    Key::new("backends.*.latency_min", LATENCY),
    Key::new("backends.*.latency_max", LATENCY),
    Key::new("backends.*.compressible_types", Kind::Texts),
    Key::new("backends.*.request_headers", Kind::TextMap)
        .env()
        .secret(),
    Key::new("backends.*.request_params", Kind::TextMap)
        .env()
        .secret(),
    Key::new("backends.*.response_headers", Kind::TextMap).env(),
    Key::new("backends.*.cors", Kind::Section),
    Key::new("backends.*.cors.mode", MODE),
    Key::new("backends.*.cors.headers", Kind::TextMap).env(),
    Key::new("backends.*.paths", Kind::Items),
    Key::new("backends.*.paths.[]", Kind::Section),
    Key::new("backends.*.paths.[].path", Kind::Text),
    Key::new(
        "backends.*.paths.[].match_type",
        Kind::Choice(&["exact", "prefix"]),
    ),
    Key::new("backends.*.paths.[].methods", Kind::Choices(METHODS)),
    Key::new("backends.*.paths.[].handler", Kind::Text),
    Key::new("backends.*.paths.[].authenticator_name", Kind::Text),
    Key::new("backends.*.paths.[].request_headers", Kind::TextMap)
        .env()
        .secret(),
    Key::new("backends.*.paths.[].request_params", Kind::TextMap)
        .env()
        .secret(),
    Key::new("backends.*.paths.[].response_headers", Kind::TextMap).env(),
    Key::new(
        "backends.*.paths.[].response_code",
        Kind::Int { min: 200, max: 599 },
    ),
    Key::new("backends.*.paths.[].response_body", Kind::Text),
    Key::new("backends.*.paths.[].no_metrics", Kind::Bool),
    Key::new("backends.*.paths.[].cors", Kind::Section),
    Key::new("backends.*.paths.[].cors.mode", MODE),
    Key::new("backends.*.paths.[].cors.headers", Kind::TextMap).env(),
    Key::later("backends.*.paths.[].cache_key_params", "caching"),
    Key::later("backends.*.paths.[].cache_key_headers", "caching"),
    Key::later("backends.*.paths.[].cache_key_form_fields", "caching"),
    Key::later("backends.*.paths.[].collapsed_forwarding", "caching"),
];

/// One entry of `paths` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathEntry {
    /// Whole path, or how it begins.
    pub path: Option<String>,
    /// Which of the two.
    pub match_type: Option<String>,
    /// Methods it serves.
    pub methods: Option<Vec<String>>,
    /// Who answers.
    pub handler: Option<String>,
    /// Who asks for credentials; `none`: nobody.
    pub authenticator_name: Option<String>,
    /// Changes to request headers, in written order.
    pub request_headers: Option<Named<String>>,
    /// Changes to query parameters, in written order.
    pub request_params: Option<Named<String>>,
    /// Changes to answer headers, in written order.
    pub response_headers: Option<Named<String>>,
    /// Status of the answer.
    pub response_code: Option<u16>,
    /// Body of the answer.
    pub response_body: Option<String>,
    /// Not counted.
    pub no_metrics: Option<bool>,
    /// Cross-origin headers.
    pub cors: Option<Cors>,
    /// Rewriter of its requests.
    pub req_rewriter_name: Option<String>,
}

/// Block `cors` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// What happens to the origin's headers.
    pub mode: Option<String>,
    /// Changes, in written order.
    pub headers: Option<Named<String>>,
}
