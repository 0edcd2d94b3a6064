//! Sections `listeners` and the deprecated `frontend`.

use serde::Deserialize;

use super::schema::{Key, Kind};
use super::units::{Period, Port};

const LIMIT: Kind = Kind::Int {
    min: 0,
    max: 10_000_000,
};
const BODY: Kind = Kind::Int {
    min: i64::MIN,
    max: i64::MAX,
};
const TIMEOUT: Kind = Kind::Duration {
    min_ms: 1,
    max_ms: 0,
};

/// Keys of the sections.
pub const KEYS: &[Key] = &[
    Key::new("listeners", Kind::Names),
    Key::new("listeners.*", Kind::Section),
    Key::new("listeners.*.protocol", Kind::Text),
    Key::new("listeners.*.address", Kind::Text),
    Key::new("listeners.*.port", Kind::Port),
    Key::new("listeners.*.tls_address", Kind::Text),
    Key::new("listeners.*.tls_port", Kind::Port),
    Key::new("listeners.*.connections_limit", LIMIT),
    Key::new("listeners.*.read_header_timeout", TIMEOUT),
    Key::new("listeners.*.idle_timeout", TIMEOUT),
    Key::new("listeners.*.body_progress_timeout", TIMEOUT),
    Key::new("listeners.*.max_request_body_size_bytes", BODY),
    Key::new("listeners.*.truncate_request_body_too_large", Kind::Bool),
    Key::new("listeners.*.trusted_proxies", Kind::Texts),
    Key::new("frontend", Kind::Section).deprecated("listeners.default"),
    Key::new("frontend.listen_address", Kind::Text),
    Key::new("frontend.listen_port", Kind::Port),
    Key::new("frontend.tls_listen_address", Kind::Text),
    Key::new("frontend.tls_listen_port", Kind::Port),
    Key::new("frontend.connections_limit", LIMIT),
    Key::new("frontend.read_header_timeout", TIMEOUT),
    Key::new("frontend.max_request_body_size_bytes", BODY),
    Key::new("frontend.truncate_request_body_too_large", Kind::Bool),
];

/// One entry of `listeners` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// What is spoken on it.
    pub protocol: Option<String>,
    /// Address without TLS.
    pub address: Option<String>,
    /// Port without TLS.
    pub port: Option<Port>,
    /// Address with TLS.
    pub tls_address: Option<String>,
    /// Port with TLS.
    pub tls_port: Option<Port>,
    /// Most concurrent connections; 0: no limit.
    pub connections_limit: Option<u32>,
    /// Longest wait for a request head.
    pub read_header_timeout: Option<Period>,
    /// Longest wait for the next request.
    pub idle_timeout: Option<Period>,
    /// Longest time without progress of a body.
    pub body_progress_timeout: Option<Period>,
    /// Most bytes of a request body; negative: no limit.
    pub max_request_body_size_bytes: Option<i64>,
    /// Cut a larger body instead of refusing it.
    pub truncate_request_body_too_large: Option<bool>,
    /// Addresses and networks whose forwarding headers are believed.
    pub trusted_proxies: Option<Vec<String>>,
}

/// Section `frontend` as written: overlays `listeners.default`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frontend {
    /// See [`Listener::address`].
    pub listen_address: Option<String>,
    /// See [`Listener::port`].
    pub listen_port: Option<Port>,
    /// See [`Listener::tls_address`].
    pub tls_listen_address: Option<String>,
    /// See [`Listener::tls_port`].
    pub tls_listen_port: Option<Port>,
    /// See [`Listener::connections_limit`].
    pub connections_limit: Option<u32>,
    /// See [`Listener::read_header_timeout`].
    pub read_header_timeout: Option<Period>,
    /// See [`Listener::max_request_body_size_bytes`].
    pub max_request_body_size_bytes: Option<i64>,
    /// See [`Listener::truncate_request_body_too_large`].
    pub truncate_request_body_too_large: Option<bool>,
}
