//! Section `listeners` and what it inherits from `frontend`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ringway_io::net::tls::ServerTls;
use ringway_shards::plan::{Listener, ListenerId, Network, RouteTable};
use serde_json::Value as Json;

use super::admin::Admin;
use super::context::Context;
use super::effective::Provenance;
use super::roster::Roster;
use super::{networks, routes, tls};
use crate::config::defaults::{self, Preset};
use crate::config::listeners::Listener as Written;
use crate::config::units::{Period, Port};
use crate::config::{Caution, Fault, Path};

/// The listener of backends that name none.
pub(super) const DEFAULT: &str = "default";
/// Listeners of the control core.
pub(super) const ADMIN: &[&str] = &["metrics", "mgmt"];
/// Most listeners of one configuration.
const LISTENERS_MAX: usize = 1_000;

/// All proxy listeners that are started, with their routes.
pub(super) fn compile(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    admin: &mut Admin,
) -> Vec<Listener> {
    let document = context.document;
    let mut names = vec![DEFAULT];
    let written = document.written.listeners.keys().map(String::as_str);
    names.extend(written.filter(|name| *name != DEFAULT && !ADMIN.contains(name)));
    if names.len() > LISTENERS_MAX {
        let listeners_max = LISTENERS_MAX;
        let at = Path::of(&["listeners"]);
        context.fail_key(&at, Fault::TooManyListeners { listeners_max });
        return Vec::new();
    }
    routes::check_listener_names(context, roster, &names);
    let mut listeners = Vec::new();
    let mut taken = Taken::new(admin);
    for name in names {
        let at = Path::of(&["listeners", name]);
        if name.is_empty() {
            context.fail_key(&at, Fault::EmptyName);
            continue;
        }
        let settings = Settings::new(context, name, &at);
        let table = routes::compile(context, roster, (name, &admin.ping_path));
        let is_used = routes::is_used(roster, name);
        if !is_used && name != DEFAULT {
            let listener = name.to_owned();
            context.warn_key(&at, Caution::UnusedListener { listener });
            continue;
        }
        let tls = tls::server(context, roster, name);
        let sides = settings.sides(context, tls);
        for (address, tls, key) in sides {
            taken.take(context, &at.key(key), name, address);
            let id = ListenerId(u16::try_from(listeners.len()).unwrap_or(u16::MAX));
            listeners.push(settings.listener(id, address, tls, &table, &admin.ping_path));
        }
    }
    listeners
}

/// One listener's settings.
struct Settings {
    name: String,
    at: Path,
    address: String,
    port: Port,
    tls_address: String,
    tls_port: Port,
    connections_limit: Option<u32>,
    read_header_timeout: Period,
    idle_timeout: Period,
    body_progress_timeout: Period,
    body_bytes: i64,
    truncate: bool,
    trusted_proxies: Option<Vec<Network>>,
}

/// An address under its new or its old key.
fn address_text(
    context: &mut Context<'_>,
    keys: (Path, Path),
    own: &Option<String>,
    old: &Option<String>,
) -> String {
    let preset = Preset {
        value: defaults::ADDRESS.value.to_owned(),
        contract: defaults::ADDRESS.contract,
    };
    context.pick_first(&[(keys.0, own.clone()), (keys.1, old.clone())], preset)
}

/// Most bytes of a request body, and whether more are cut off.
fn body_limits(
    context: &mut Context<'_>,
    own: &Written,
    old: &crate::config::listeners::Frontend,
    both: &dyn Fn(&str, &str) -> (Path, Path),
) -> (i64, bool) {
    let same = |key| both(key, key);
    let (k, o) = same("max_request_body_size_bytes");
    let bytes = [
        (k, own.max_request_body_size_bytes),
        (o, old.max_request_body_size_bytes),
    ];
    let (k, o) = same("truncate_request_body_too_large");
    let truncate = [
        (k, own.truncate_request_body_too_large),
        (o, old.truncate_request_body_too_large),
    ];
    (
        context.pick_first(&bytes, defaults::REQUEST_BODY_BYTES),
        context.pick_first(&truncate, defaults::TRUNCATE_REQUEST_BODY),
    )
}

impl Settings {
    fn new(context: &mut Context<'_>, name: &str, at: &Path) -> Self {
        let document = context.document;
        let none = Written::default();
        let own = document.written.listeners.get(name).unwrap_or(&none);
        let is_default = name == DEFAULT;
        // `frontend` is the older spelling of the default listener, and of no other.
        let old = match is_default {
            true => document.written.frontend.clone(),
            false => crate::config::listeners::Frontend::default(),
        };
        let old_at = Path::of(&["frontend"]);
        let both = |new: &str, old: &str| (at.key(new), old_at.key(old));
        let (port_preset, tls_preset) = match is_default {
            true => (defaults::PROXY_PORT, defaults::PROXY_TLS_PORT),
            false => (defaults::OTHER_PORT, defaults::OTHER_PORT),
        };
        protocol(context, at, own);
        let address = address_text(
            context,
            both("address", "listen_address"),
            &own.address,
            &old.listen_address,
        );
        let (k, o) = both("port", "listen_port");
        let port = context.pick_first(&[(k, own.port), (o, old.listen_port)], port_preset);
        let tls_address = address_text(
            context,
            both("tls_address", "tls_listen_address"),
            &own.tls_address,
            &old.tls_listen_address,
        );
        let (k, o) = both("tls_port", "tls_listen_port");
        let tls_port =
            context.pick_first(&[(k, own.tls_port), (o, old.tls_listen_port)], tls_preset);
        let (k, o) = both("connections_limit", "connections_limit");
        let limits = [(k, own.connections_limit), (o, old.connections_limit)];
        let connections_limit = noted_limit(context, &limits);
        let (k, o) = both("read_header_timeout", "read_header_timeout");
        let read_header = [(k, own.read_header_timeout), (o, old.read_header_timeout)];
        let (body_bytes, truncate) = body_limits(context, own, &old, &both);
        Settings {
            name: name.to_owned(),
            at: at.clone(),
            address,
            port,
            tls_address,
            tls_port,
            connections_limit,
            read_header_timeout: context.pick_first(&read_header, defaults::READ_HEADER_TIMEOUT),
            idle_timeout: context.pick(
                &at.key("idle_timeout"),
                own.idle_timeout,
                defaults::IDLE_TIMEOUT,
            ),
            body_progress_timeout: context.pick(
                &at.key("body_progress_timeout"),
                own.body_progress_timeout,
                defaults::BODY_PROGRESS_TIMEOUT,
            ),
            body_bytes,
            truncate,
            trusted_proxies: networks::list(
                context,
                &at.key("trusted_proxies"),
                own.trusted_proxies.as_deref(),
            ),
        }
    }

    /// The addresses to listen on: without TLS, with TLS, or both.
    fn sides(
        &self,
        context: &mut Context<'_>,
        tls: Option<ServerTls>,
    ) -> Vec<(SocketAddr, Option<ServerTls>, &'static str)> {
        let mut sides = Vec::new();
        let plain = address(context, &self.at.key("address"), &self.address, self.port);
        sides.extend(plain.map(|address| (address, None, "port")));
        let secure = address(
            context,
            &self.at.key("tls_address"),
            &self.tls_address,
            self.tls_port,
        );
        match (secure, tls) {
            (Some(address), Some(tls)) => sides.push((address, Some(tls), "tls_port")),
            // By default the port is set, so only a written one is worth a warning.
            (Some(_), None)
                if context
                    .document
                    .written_at(&self.at.key("tls_port"))
                    .is_some() =>
            {
                let listener = self.name.clone();
                context.warn_key(
                    &self.at.key("tls_port"),
                    Caution::NoCertificate { listener },
                );
            }
            _ => {}
        }
        sides
    }

    fn listener(
        &self,
        id: ListenerId,
        address: SocketAddr,
        tls: Option<ServerTls>,
        routes: &RouteTable,
        ping_path: &str,
    ) -> Listener {
        Listener {
            id,
            name: self.name.as_str().into(),
            address,
            tls,
            connections_limit: self.connections_limit,
            read_header_timeout: self.read_header_timeout.0,
            idle_timeout: self.idle_timeout.0,
            body_progress_timeout: self.body_progress_timeout.0,
            request_body_bytes_max: u64::try_from(self.body_bytes).ok(),
            truncate_request_body: self.truncate,
            trusted_proxies: self.trusted_proxies.clone(),
            ping_path: ping_path.into(),
            routes: routes.clone(),
        }
    }
}

/// Only HTTP is spoken. Decisions, 28.
pub(super) fn protocol(context: &mut Context<'_>, at: &Path, written: &Written) {
    let at = at.key("protocol");
    let protocol = context.pick_text(&at, written.protocol.as_deref(), defaults::PROTOCOL);
    if protocol != defaults::PROTOCOL.value {
        context.fail_value(&at, Fault::Protocol { protocol });
    }
}

/// A connection limit with 0 for none.
pub(super) fn noted_limit(
    context: &mut Context<'_>,
    places: &[(Path, Option<u32>)],
) -> Option<u32> {
    let limit = context.pick_first(places, defaults::CONNECTIONS_LIMIT);
    (limit > 0).then_some(limit)
}

/// Where to bind; `None` when it is off or the address is refused.
pub(super) fn address(
    context: &mut Context<'_>,
    at: &Path,
    written: &str,
    port: Port,
) -> Option<SocketAddr> {
    let bare = written.trim_start_matches('[').trim_end_matches(']');
    let ip = match bare {
        "" => context.inputs.host.any_address,
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => match bare.parse() {
            Ok(ip) => ip,
            Err(_) => {
                let address = written.to_owned();
                context.fail_value(at, Fault::BadAddress { address });
                return None;
            }
        },
    };
    match port {
        Port::Off => None,
        Port::Any => Some(SocketAddr::new(ip, 0)),
        Port::Number(number) => Some(SocketAddr::new(ip, number)),
    }
}

/// Addresses that listeners already have.
struct Taken(Vec<(SocketAddr, String)>);

impl Taken {
    fn new(admin: &Admin) -> Self {
        let named = |l: &super::AdminListener| (l.address, l.name.to_owned());
        Taken(admin.listeners.iter().map(named).collect())
    }

    fn take(&mut self, context: &mut Context<'_>, at: &Path, name: &str, address: SocketAddr) {
        if let Some((_, other)) = self.0.iter().find(|(taken, _)| overlap(*taken, address)) {
            let other = other.clone();
            let address = address.to_string();
            context.fail_value(at, Fault::AddressTaken { address, other });
        }
        self.0.push((address, name.to_owned()));
    }
}

/// Whether two listeners would get each other's connections: one port, and one address or all.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() != 0
        && a.port() == b.port()
        && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
}

/// Notes what the routing of a backend came to.
pub(super) fn note_default(context: &mut Context<'_>, backend: &str, from: &str) {
    let at = Path::of(&["backends", backend, "is_default"]);
    context.note(&at, Json::Bool(true), Provenance::Derived(from.to_owned()));
}
