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
    /// Peers whose `Forwarded` and `X-Forwarded-*` headers are believed. New in ringway; `None`: everybody is, as
    /// the contract has it.
    pub trusted_proxies: Option<Vec<Network>>,
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

/// A network: all addresses that agree with `address` in the first `prefix` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Any address of it, in canonical form (never an IPv4 address mapped into IPv6).
    pub address: std::net::IpAddr,
    /// Length of the common part in bits, at most 32 or 128.
    pub prefix: u8,
}

impl Network {
    /// Whether the address is of this network.
    pub fn contains(&self, address: std::net::IpAddr) -> bool {
        use std::net::IpAddr;
        // A shift by the whole width stands for a prefix of 0.
        let shift = |width: u32| width.saturating_sub(u32::from(self.prefix));
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                let differs = u32::from(mine) ^ u32::from(other);
                differs.checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => {
                let differs = u128::from(mine) ^ u128::from(other);
                differs.checked_shr(shift(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_the_addresses_that_share_its_prefix() {
        let holds = |network: &str, prefix: u8, address: &str| {
            let address_of = |text: &str| text.parse().expect("an address");
            let network = Network {
                address: address_of(network),
                prefix,
            };
            network.contains(address_of(address))
        };
        assert!(holds("10.1.2.3", 8, "10.9.9.9"));
        assert!(!holds("10.1.2.3", 8, "11.1.2.3"));
        assert!(holds("10.1.2.3", 32, "::ffff:10.1.2.3"));
        assert!(!holds("10.1.2.3", 32, "10.1.2.2"));
        assert!(holds("10.1.2.3", 0, "192.0.2.1"));
        assert!(holds("2001:db8::", 32, "2001:db8:1::1"));
        assert!(!holds("2001:db8::", 32, "2001:db9::1"));
        assert!(holds("::", 0, "2001:db9::1"));
        assert!(!holds("::", 0, "10.1.2.3"));
    }
}
