//! The idle scenario: what a keep-alive connection that does nothing costs in memory.
//!
//! A fresh proxy answers one request on each of N connections, which then stay open.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::measure::{connect, exchange};
use super::proxy::{Program, Setup};
use super::usage::Usage;
use crate::clock::pause;

/// Time for the proxy to put its buffers away before its memory is read.
const SETTLE: Duration = Duration::from_millis(300);

/// Memory of a proxy with idle connections.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Idle {
    /// Idle connections at the time of reading.
    pub(super) connections: usize,
    /// Resident memory after the first request.
    pub(super) rss_before_bytes: u64,
    /// Resident memory with all connections open.
    pub(super) rss_bytes: u64,
}

impl Idle {
    /// Memory that each connection added.
    pub(super) fn bytes_per_connection(&self) -> f64 {
        self.rss_bytes.saturating_sub(self.rss_before_bytes) as f64 / self.connections as f64
    }
}

/// Opens the connections through a fresh proxy and reads its memory.
pub(super) fn idle(program: &Program, setup: &Setup<'_>, connections: usize) -> Result<Idle> {
    let proxy = program.start(setup)?;
    let before = Usage::of_tree(proxy.process.pid())?;
    let mut held = Vec::with_capacity(connections);
    for at in 0..connections {
        let opened = connect(proxy.address).and_then(|mut stream| {
            let status = exchange(&mut stream, "/")?;
            if status != 200 {
                bail!("answered {status}");
            }
            Ok(stream)
        });
        held.push(opened.with_context(|| format!("connection {} of {connections}", at + 1))?);
    }
    pause(SETTLE);
    let after = Usage::of_tree(proxy.process.pid())?;
    let alive = held.iter().filter(|stream| is_open(stream)).count();
    if alive < connections {
        bail!(
            "{} of {connections} connections were closed",
            connections - alive
        );
    }
    Ok(Idle {
        connections,
        rss_before_bytes: before.rss_bytes,
        rss_bytes: after.rss_bytes,
    })
}

/// Whether the other side has neither closed nor said anything.
fn is_open(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let peeked = stream.peek(&mut [0]);
    peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_closed_connection_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(is_open(&client));
        drop(server);
        client.set_nonblocking(false).unwrap();
        // Returns when the close has arrived.
        client.peek(&mut [0]).unwrap();
        assert!(!is_open(&client));
    }

    #[test]
    fn memory_is_divided_among_the_connections() {
        let idle = Idle {
            connections: 4,
            rss_before_bytes: 100,
            rss_bytes: 500,
        };
        assert_eq!(idle.bytes_per_connection(), 100.0);
    }
}
