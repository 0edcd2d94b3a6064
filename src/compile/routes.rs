//! Which backend serves which host and path on a listener. Contract: configuration page, 5.

use ringway_shards::plan::{BackendId, Route, RouteTable};
use serde_json::Value as Json;

use super::context::Context;
use super::listeners::{ADMIN, DEFAULT, note_default};
use super::roster::{Entry, Roster};
use crate::config::origin_url::Authority;
use crate::config::{Caution, Fault, Path, defaults, schema};

/// The backend that is the catch-all when none says so.
const DEFAULT_BACKEND: &str = "default";

/// Every backend must name a proxy listener that is there.
pub(super) fn check_listener_names(context: &mut Context<'_>, roster: &Roster<'_>, names: &[&str]) {
    for (_, _, entry) in roster.live() {
        let at = Path::of(&["backends", entry.name, "listener_name"]);
        let written = entry.written.listener_name.as_deref();
        let listener = context.pick_text(&at, written, defaults::LISTENER_NAME);
        if ADMIN.contains(&listener.as_str()) {
            context.fail_value(&at, Fault::ReservedListener { listener });
        } else if !names.contains(&listener.as_str()) {
            let hint = schema::hint(&listener, names.iter().copied());
            context.fail_value(&at, Fault::UnknownListener { listener, hint });
        }
    }
}

/// Whether any backend is served on a listener.
pub(super) fn is_used(roster: &Roster<'_>, listener: &str) -> bool {
    on_listener(roster, listener).next().is_some()
}

/// The backends of a listener.
pub(super) fn on_listener<'r, 'a>(
    roster: &'r Roster<'a>,
    listener: &'r str,
) -> impl Iterator<Item = (BackendId, &'r Entry<'a>)> {
    roster
        .live()
        .filter(move |(_, _, entry)| {
            entry.written.listener_name.as_deref().unwrap_or(DEFAULT) == listener
        })
        .map(|(id, _, entry)| (id, entry))
}

/// The routes of a listener.
pub(super) fn compile(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    (listener, ping_path): (&str, &str),
) -> RouteTable {
    let own = ping_path.trim_start_matches('/').split('/').next();
    let mut table = RouteTable::default();
    for (id, entry) in on_listener(roster, listener) {
        let at = Path::of(&["backends", entry.name]);
        let hidden = context.pick(
            &at.key("path_routing_disabled"),
            entry.written.path_routing_disabled,
            defaults::PATH_ROUTING_DISABLED,
        );
        if !hidden {
            if !is_segment(entry.name) {
                let name = entry.name.to_owned();
                context.warn_key(&at, Caution::NameNotSegment { name });
            }
            if own == Some(entry.name) {
                let path = ping_path.to_owned();
                context.warn_key(&at, Caution::NameOfOwnPath { path });
            }
            table.names.insert(entry.name.into(), Route { backend: id });
        }
        hosts(context, roster, listener, (id, entry), &mut table);
    }
    table.default = default_backend(context, roster, listener).map(|backend| Route { backend });
    table
}

/// Whether a name can be a path segment as clients write it.
fn is_segment(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    name.bytes().all(fits)
}

fn hosts(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    listener: &str,
    (id, entry): (BackendId, &Entry<'_>),
    table: &mut RouteTable,
) {
    let at = Path::of(&["backends", entry.name, "hosts"]);
    let Some(written) = &entry.written.hosts else {
        return;
    };
    for (index, host) in written.iter().enumerate() {
        let here = at.item(index);
        let key = match host_key(host) {
            Ok(key) => key,
            Err(reason) => {
                let host = host.clone();
                context.fail_value(&here, Fault::BadHost { host, reason });
                continue;
            }
        };
        match table.hosts.get(key.as_str()) {
            Some(route) if route.backend != id => {
                let fault = Fault::SharedHost {
                    host: host.clone(),
                    other: roster.name(route.backend).to_owned(),
                    listener: listener.to_owned(),
                };
                context.fail_value(&here, fault);
            }
            _ => {
                table.hosts.insert(key.into(), Route { backend: id });
            }
        }
    }
    context.note_written(&at, Json::from(written.clone()));
}

/// A host as requests are matched: lower case, without port and last dot, IPv6 addresses in brackets.
fn host_key(host: &str) -> Result<String, String> {
    let authority = Authority::parse(host)?;
    if authority.port.is_some() {
        return Err("leave the port out: hosts are matched without it".into());
    }
    Ok(match authority.host.contains(':') {
        true => format!("[{}]", authority.host),
        false => {
            let name = authority.host;
            name.strip_suffix('.').map_or(name.clone(), str::to_owned)
        }
    })
}

/// The catch-all: the backend that says so, the one named `default`, or the only one.
fn default_backend(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    listener: &str,
) -> Option<BackendId> {
    let mut chosen: Option<&str> = None;
    for (_, entry) in on_listener(roster, listener) {
        let at = Path::of(&["backends", entry.name, "is_default"]);
        if let Some(flag) = entry.written.is_default {
            context.note_written(&at, Json::Bool(flag));
        }
        if entry.written.is_default != Some(true) {
            continue;
        }
        match chosen {
            None => chosen = Some(entry.name),
            Some(other) => {
                let fault = Fault::SecondDefault {
                    other: other.to_owned(),
                    listener: listener.to_owned(),
                };
                context.fail_key(&at, fault);
            }
        }
    }
    let (id, because) = catch_all(roster, listener)?;
    if let Some(because) = because {
        note_default(context, roster.name(id), because);
    }
    Some(id)
}

/// The catch-all, and why it is one when it does not say so itself.
fn catch_all(roster: &Roster<'_>, listener: &str) -> Option<(BackendId, Option<&'static str>)> {
    let mut all = on_listener(roster, listener);
    if let Some((id, _)) = all.find(|(_, entry)| entry.written.is_default == Some(true)) {
        return Some((id, None));
    }
    let open = |entry: &Entry<'_>| entry.written.is_default.is_none();
    let mut all = on_listener(roster, listener);
    if let Some((id, _)) = all.find(|(_, e)| e.name == DEFAULT_BACKEND && open(e)) {
        return Some((id, Some("its name")));
    }
    let mut all = on_listener(roster, listener);
    match (all.next(), all.next()) {
        (Some((id, entry)), None) if open(entry) => {
            Some((id, Some("the only backend of its listener")))
        }
        _ => None,
    }
}

/// The backends that clients, and rules that lead to `frontend`, can get to by the routes of the main listener.
pub(super) fn of_frontend(roster: &Roster<'_>) -> impl Iterator<Item = BackendId> {
    let default = catch_all(roster, DEFAULT).map(|(id, _)| id);
    let reached = on_listener(roster, DEFAULT).filter(move |(id, entry)| {
        let hosts = entry.written.hosts.as_deref().unwrap_or_default();
        let is_named = entry.written.path_routing_disabled != Some(true);
        is_named || !hosts.is_empty() || default == Some(*id)
    });
    reached.map(|(id, _)| id)
}
