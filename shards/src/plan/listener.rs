//! Listeners and the routes behind them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use ringway_io::net::tls::ServerTls;

use super::BackendId;

/// Index of a listener in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u16);

/// One address that every shard listens on with its own socket.
///
/// A configured listener with a TLS port compiles to two of these that share their routes.
#[derive(Debug)]
pub struct Listener {
    /// This listener's index.
    pub id: ListenerId,
    /// Operator's name, such as `default`.
    pub name: Box<str>,
    /// Where it is bound. A port of 0 is bound to any free port by the first shard and shared by the others.
    pub address: SocketAddr,
    /// Certificates, when this is the TLS side.
    pub tls: Option<ServerTls>,
    /// Most concurrent client connections over all shards; `None`: no limit. Each shard admits its share.
    pub connections_limit: Option<u32>,
    /// Longest time from the first wait for a head to its last byte.
    pub read_header_timeout: Duration,
    /// Longest time a kept-alive connection may wait for its next request.
    pub idle_timeout: Duration,
    /// Longest time without progress while a body is read or an answer is written.
    pub body_progress_timeout: Duration,
    /// Most bytes of a request body; `None`: no limit.
    pub request_body_bytes_max: Option<u64>,
    /// A larger body is cut instead of refused with 413.
    pub truncate_request_body: bool,
    /// Path of the ping handler; empty: off.
    pub ping_path: Box<str>,
    /// Which backend serves what.
    pub routes: RouteTable,
}

/// How a request finds its first backend. Contract: config page, 5.
///
/// Order: the request's host (exact, lower case, port removed), then `/<name>/`, then the default.
#[derive(Clone, Debug, Default)]
pub struct RouteTable {
    /// Backends by virtual host.
    pub hosts: HashMap<Box<str>, Route>,
    /// Backends by first path segment; the segment is removed before forwarding.
    pub names: HashMap<Box<str>, Route>,
    /// Catch-all of this listener.
    pub default: Option<Route>,
}

/// The end of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Backend that gets the request.
    pub backend: BackendId,
}
