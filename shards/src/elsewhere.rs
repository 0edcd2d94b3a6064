//! Origins that a rewriter has put in place of a backend's own: another scheme, host or port.
//!
//! All else is the backend's: path prefix, TLS settings, limits, timeouts. Shards resolve no names: addresses are
//! those of an origin of the same name, of a name that a rewriter writes out, which the control core resolves as it
//! does those of origins, or the name is an address. Any other name, made of captures, the control core is asked for
//! ([`crate::lookups`]), and the request waits as long as it would for a connection. Connections are in groups of
//! their own, at most [`ELSEWHERE_MAX`](crate::limits::ELSEWHERE_MAX) of them. Contract: rewriters page, 5.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use ringway_io::task;

use crate::limits::LOOKUP_TIME_MAX;
use crate::link::{Event, Lookup};
use crate::lookups::Standing;
use crate::metrics::Count;
use crate::passage::Passage;
use crate::peers::PeerGroup;
use crate::plan::{Backend, BackendKind, Origin, Scheme};
use crate::respond::Failure;
use crate::rewrite::{Authority, PortChange};
use crate::shard::{Shard, View};

/// Where a request goes instead of its origin.
pub(crate) struct Elsewhere {
    pub(crate) origin: Origin,
    pub(crate) peers: Rc<PeerGroup>,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// Where a request goes instead of this origin; `None`: nowhere else.
///
/// # Errors
/// When no address of that is known or found.
pub(crate) async fn of(
    (shard, view): (&Shard, &View),
    (backend, origin): (&Backend, &Origin),
    passage: &Passage<'_>,
) -> Result<Option<Rc<Elsewhere>>, Failure> {
    match passage.authority() {
        None => Ok(None),
        // Boxed, like everything rare: every connection's future would be larger.
        Some(authority) => Box::pin(by((shard, view), (backend, origin), authority)).await,
    }
}

async fn by(
    (shard, view): (&Shard, &View),
    (backend, origin): (&Backend, &Origin),
    authority: &Authority,
) -> Result<Option<Rc<Elsewhere>>, Failure> {
    let Some(other) = replaced(origin, authority) else {
        return Ok(None);
    };
    let unknown = || Failure::UnknownHost {
        host: other.host.clone(),
    };
    if other.scheme == Scheme::Https && other.tls.is_none() {
        return Err(unknown());
    }
    let addresses = match known(view, (backend, origin), &other) {
        Some(known) => known,
        None => looked_up(shard, &other).await,
    };
    if addresses.is_empty() {
        return Err(unknown());
    }
    let peers = shard.peers_elsewhere(backend, &other, view.active.cells(backend.id));
    Ok(Some(Rc::new(Elsewhere {
        peers: peers.ok_or_else(unknown)?,
        origin: other,
        addresses,
    })))
}

/// The origin with what the authority changes; `None` where that is nothing.
pub(crate) fn replaced(origin: &Origin, authority: &Authority) -> Option<Origin> {
    let scheme = authority.scheme.unwrap_or(origin.scheme);
    let host = authority.host.as_ref().unwrap_or(&origin.host);
    let has_default = origin.port == origin.scheme.default_port();
    let port = match authority.port {
        PortChange::Set(port) => port,
        PortChange::Keep if !has_default => origin.port,
        PortChange::Keep | PortChange::Default => scheme.default_port(),
    };
    if scheme == origin.scheme && *host == origin.host && port == origin.port {
        return None;
    }
    let bracketed = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_string(),
    };
    let written = match port == scheme.default_port() {
        true => bracketed,
        false => format!("{bracketed}:{port}"),
    };
    let mut other = origin.clone();
    if other.tls.is_none() {
        other.tls = other.spare_tls.take();
    }
    if scheme == Scheme::Http {
        other.tls = None;
    }
    let name = scheme.name();
    other.peer_key = format!("{} > {name}://{written}", origin.peer_key).into();
    other.scheme = scheme;
    other.host = host.clone();
    other.port = port;
    other.authority = written.into();
    Some(other)
}

/// Where the other origin is dialled, as far as the table says; `None` where it says nothing of that name.
fn known(
    view: &View,
    (backend, origin): (&Backend, &Origin),
    other: &Origin,
) -> Option<Vec<SocketAddr>> {
    let at = |ip: IpAddr| SocketAddr::new(ip, other.port);
    if let Ok(ip) = other.host.parse::<IpAddr>() {
        return Some(vec![at(ip)]);
    }
    let of_backend = |backend: &Backend| {
        let known = view.table.backend(backend.id).addresses.iter();
        known.map(|address| at(address.ip())).collect::<Vec<_>>()
    };
    if other.host == origin.host {
        return Some(of_backend(backend));
    }
    if let Some(known) = view.table.hosts.get(&other.host) {
        return Some(known.iter().copied().map(at).collect());
    }
    let is_it = |backend: &&Arc<Backend>| matches!(&backend.kind, BackendKind::Origin(origin) if origin.host == other.host);
    let named = view.active.plan.backends.iter().find(is_it);
    named.map(|backend| of_backend(backend))
}

/// Where the other origin is dialled, as the control core finds; nowhere when it finds nothing in time.
async fn looked_up(shard: &Shard, other: &Origin) -> Vec<SocketAddr> {
    let ask = |token, known_alone| {
        shard.report(Event::LookUp(Lookup {
            token,
            host: other.host.clone(),
            known_alone,
        }))
    };
    let now_ms = shard.dog.now_ms();
    let addresses = match shard.lookups.look_up(&other.host, now_ms, ask) {
        Standing::Known(addresses) => addresses,
        Standing::Asked(waiter) => {
            let limit = other.connect_timeout.min(LOOKUP_TIME_MAX);
            let found = task::within(limit, waiter.answer()).await;
            found.unwrap_or_default()
        }
        Standing::Full => {
            shard.cells.refused_lookups.bump();
            return Vec::new();
        }
    };
    let addresses = addresses.iter();
    addresses
        .map(|ip| SocketAddr::new(*ip, other.port))
        .collect()
}
