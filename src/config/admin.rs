//! Sections `metrics` and `mgmt`.

use serde::Deserialize;

use super::schema::{Key, Kind};
use super::units::{Period, Port};

/// Where an admin page is offered.
pub const PAGE_LISTENERS: &[&str] = &["metrics", "mgmt", "both", "off"];

const DURATION: Kind = Kind::Duration {
    min_ms: 0,
    max_ms: 0,
};

/// Keys of the sections.
pub const KEYS: &[Key] = &[
    Key::new("metrics", Kind::Section),
    Key::new("metrics.listen_address", Kind::Text).deprecated("listeners.metrics.address"),
    Key::new("metrics.listen_port", Kind::Port).deprecated("listeners.metrics.port"),
    Key::new("mgmt", Kind::Section),
    Key::new("mgmt.listen_address", Kind::Text).deprecated("listeners.mgmt.address"),
    Key::new("mgmt.listen_port", Kind::PortOrMinusOne).deprecated("listeners.mgmt.port"),
    Key::new("mgmt.config_handler_path", Kind::Text),
    Key::new("mgmt.config_handler_listener", Kind::Choice(PAGE_LISTENERS)),
    Key::new("mgmt.ping_handler_path", Kind::Text),
    Key::new("mgmt.health_handler_path", Kind::Text),
    Key::new("mgmt.reload_handler_path", Kind::Text),
    Key::new("mgmt.reload_drain_timeout", DURATION),
    Key::new("mgmt.reload_rate_limit", DURATION),
    Key::new(
        "mgmt.auto_reload_interval",
        Kind::DurationOrOff { min_ms: 10 },
    ),
    Key::later("mgmt.purge_by_key_path", "caching"),
    Key::later("mgmt.purge_by_path_path", "caching"),
    Key::later("mgmt.pprof_listener", "the profile endpoint"),
];

/// Section `metrics` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Overlays `listeners.metrics.address`.
    pub listen_address: Option<String>,
    /// Overlays `listeners.metrics.port`.
    pub listen_port: Option<Port>,
}

/// Section `mgmt` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mgmt {
    /// Overlays `listeners.mgmt.address`.
    pub listen_address: Option<String>,
    /// Overlays `listeners.mgmt.port`.
    pub listen_port: Option<Port>,
    /// Path of the configuration dump.
    pub config_handler_path: Option<String>,
    /// Listener of the configuration dump.
    pub config_handler_listener: Option<String>,
    /// Path of the ping answer.
    pub ping_handler_path: Option<String>,
    /// Path of the health page.
    pub health_handler_path: Option<String>,
    /// Path that reloads.
    pub reload_handler_path: Option<String>,
    /// Life of replaced listeners and peers.
    pub reload_drain_timeout: Option<Period>,
    /// Shortest time between reloads.
    pub reload_rate_limit: Option<Period>,
    /// How often the sources are looked at.
    pub auto_reload_interval: Option<Period>,
}
