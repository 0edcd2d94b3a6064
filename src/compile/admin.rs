//! Sections `metrics` and `mgmt`, and the listeners `metrics` and `mgmt`.

use super::context::Context;
use super::control::{AdminListener, AdminPage, AdminRoute, ReloadSettings};
use super::listeners::{address, noted_limit, protocol};
use super::unless_zero;
use crate::config::defaults::{self, Preset};
use crate::config::listeners::Listener;
use crate::config::units::Port;
use crate::config::{Fault, Path};

/// The administration side.
pub(super) struct Admin {
    pub(super) listeners: Vec<AdminListener>,
    pub(super) reload: ReloadSettings,
    /// Answered on every proxy listener; empty: off.
    pub(super) ping_path: String,
}

/// The two listeners and what they offer.
pub(super) fn compile(context: &mut Context<'_>) -> Admin {
    let pages = Pages::new(context);
    let mgmt = Path::of(&["mgmt"]);
    let written = &context.document.written.mgmt;
    let drain = context.pick(
        &mgmt.key("reload_drain_timeout"),
        written.reload_drain_timeout,
        defaults::RELOAD_DRAIN,
    );
    let rate = context.pick(
        &mgmt.key("reload_rate_limit"),
        written.reload_rate_limit,
        defaults::RELOAD_RATE,
    );
    let auto = context.pick(
        &mgmt.key("auto_reload_interval"),
        written.auto_reload_interval,
        defaults::AUTO_RELOAD,
    );
    let metrics = &context.document.written.metrics;
    let metrics = Side {
        name: "metrics",
        legacy: Path::of(&["metrics"]),
        legacy_address: metrics.listen_address.clone(),
        legacy_port: metrics.listen_port,
        address: defaults::ADDRESS,
        port: defaults::METRICS_PORT,
    };
    let mgmt = Side {
        name: "mgmt",
        legacy: mgmt,
        legacy_address: written.listen_address.clone(),
        legacy_port: written.listen_port,
        address: defaults::MGMT_ADDRESS,
        port: defaults::MGMT_PORT,
    };
    let mut listeners = Vec::new();
    for side in [metrics, mgmt] {
        let routes = pages.of(context, side.name);
        listeners.extend(listener(context, &side, routes));
    }
    Admin {
        listeners,
        reload: ReloadSettings {
            drain_timeout: drain.0,
            rate_limit: rate.0,
            auto_interval: unless_zero(auto),
        },
        ping_path: pages.ping,
    }
}

/// The configurable paths; empty: off.
struct Pages {
    config: String,
    config_listener: String,
    ping: String,
    health: String,
    reload: String,
}

impl Pages {
    fn new(context: &mut Context<'_>) -> Self {
        let at = Path::of(&["mgmt"]);
        let written = &context.document.written.mgmt;
        let mut path = |key: &str, written: &Option<String>, preset: Preset<&'static str>| {
            let at = at.key(key);
            let path = context.pick_text(&at, written.as_deref(), preset);
            if !path.is_empty() && !is_path(&path) {
                context.fail_value(&at, Fault::BadPath);
            }
            path
        };
        Pages {
            config: path(
                "config_handler_path",
                &written.config_handler_path,
                defaults::CONFIG_PATH,
            ),
            ping: path(
                "ping_handler_path",
                &written.ping_handler_path,
                defaults::PING_PATH,
            ),
            health: path(
                "health_handler_path",
                &written.health_handler_path,
                defaults::HEALTH_PATH,
            ),
            reload: path(
                "reload_handler_path",
                &written.reload_handler_path,
                defaults::RELOAD_PATH,
            ),
            config_listener: context.pick_text(
                &at.key("config_handler_listener"),
                written.config_handler_listener.as_deref(),
                defaults::CONFIG_LISTENER,
            ),
        }
    }

    /// The routes of one listener; two pages on one path are a problem.
    fn of(&self, context: &mut Context<'_>, listener: &str) -> Vec<AdminRoute> {
        let has_config = self.config_listener == listener || self.config_listener == "both";
        let sanitized = format!("{}{}", self.config, defaults::SANITIZED_SUFFIX);
        let mut pages = Vec::new();
        if listener == "metrics" {
            pages.push((defaults::METRICS_PATH, AdminPage::Metrics, "metrics_path"));
            pages.push((&self.health, AdminPage::Health, "health_handler_path"));
        } else {
            pages.push((&self.reload, AdminPage::Reload, "reload_handler_path"));
        }
        if has_config && !self.config.is_empty() {
            pages.push((&self.config, AdminPage::Config, "config_handler_path"));
            pages.push((&sanitized, AdminPage::Config, "config_handler_path"));
        }
        pages.push((&self.ping, AdminPage::Ping, "ping_handler_path"));
        let mut routes: Vec<(AdminRoute, &'static str)> = Vec::new();
        for (path, page, key) in pages.into_iter().filter(|(path, _, _)| !path.is_empty()) {
            if let Some((_, other)) = routes.iter().find(|(route, _)| route.path == path) {
                let other = *other;
                let path = path.to_owned();
                let at = Path::of(&["mgmt", key]);
                context.fail_value(&at, Fault::PathTaken { path, other });
                continue;
            }
            let path = path.to_owned();
            routes.push((AdminRoute { path, page }, key));
        }
        routes.into_iter().map(|(route, _)| route).collect()
    }
}

fn is_path(path: &str) -> bool {
    path.starts_with('/')
        && path
            .chars()
            .all(|c| c.is_ascii_graphic() && c != '?' && c != '#')
}

/// What makes one administration listener.
struct Side {
    name: &'static str,
    /// Section of the older keys `listen_address` and `listen_port`.
    legacy: Path,
    legacy_address: Option<String>,
    legacy_port: Option<Port>,
    address: Preset<&'static str>,
    port: Preset<Port>,
}

fn listener(
    context: &mut Context<'_>,
    side: &Side,
    routes: Vec<AdminRoute>,
) -> Option<AdminListener> {
    let at = Path::of(&["listeners", side.name]);
    let none = Listener::default();
    let document = context.document;
    let written = document.written.listeners.get(side.name).unwrap_or(&none);
    refuse_proxy_keys(context, side.name, &at);
    protocol(context, &at, written);
    let addresses = [
        (at.key("address"), written.address.clone()),
        (
            side.legacy.key("listen_address"),
            side.legacy_address.clone(),
        ),
    ];
    let preset = Preset {
        value: side.address.value.to_owned(),
        contract: side.address.contract,
    };
    let ip = context.pick_first(&addresses, preset);
    let ports = [
        (at.key("port"), written.port),
        (side.legacy.key("listen_port"), side.legacy_port),
    ];
    let port = context.pick_first(&ports, side.port);
    let limit = noted_limit(
        context,
        &[(at.key("connections_limit"), written.connections_limit)],
    );
    let read_header_timeout = context.pick(
        &at.key("read_header_timeout"),
        written.read_header_timeout,
        defaults::READ_HEADER_TIMEOUT,
    );
    let address = address(context, &at.key("address"), &ip, port)?;
    Some(AdminListener {
        name: side.name,
        address,
        connections_limit: limit,
        read_header_timeout: read_header_timeout.0,
        routes,
    })
}

/// Keys that only proxy listeners have.
fn refuse_proxy_keys(context: &mut Context<'_>, listener: &'static str, at: &Path) {
    for key in context.document.keys_at(at) {
        let fault = match key {
            "tls_port" | "tls_address" => Fault::AdminTls { listener },
            "idle_timeout"
            | "body_progress_timeout"
            | "trusted_proxies"
            | "max_request_body_size_bytes"
            | "truncate_request_body_too_large" => Fault::AdminListenerKey { listener },
            _ => continue,
        };
        context.fail_key(&at.key(key), fault);
    }
}
