//! Free ports that no other test takes.
//!
//! Asking the kernel for port 0 and releasing it again is a race: another test, or any outgoing
//! connection, may get the same number. A [`Port`] lies below the range of outgoing connections and is
//! claimed, for all test processes of the machine, by the name of an abstract Unix socket.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Lowest port handed out.
const FIRST: u32 = 12_000;
/// How many there are: the last lies below 32768, where outgoing connections begin.
const COUNT: u32 = 20_000;

/// A port of 127.0.0.1, ours until dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: UnixListener,
}

impl Port {
    /// Claims a free port.
    ///
    /// # Panics
    /// When there is none.
    pub fn claim() -> Self {
        Self::claim_with(|number| TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)).ok()).0
    }

    /// Claims a free port and listens on it, so that there is no moment in which it could be lost.
    ///
    /// # Panics
    /// When there is none.
    pub fn claim_listening() -> (Self, TcpListener) {
        Self::claim_with(|number| TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok())
    }

    /// As [`Port::claim_listening`], on every address.
    pub fn claim_listening_everywhere() -> (Self, TcpListener) {
        Self::claim_with(|number| TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)).ok())
    }

    fn claim_with(bind: impl Fn(u16) -> Option<TcpListener>) -> (Self, TcpListener) {
        static TURN: AtomicU32 = AtomicU32::new(0);
        for _ in 0..COUNT {
            let turn = TURN.fetch_add(1, Ordering::Relaxed);
            // Processes start far apart: 7919 is prime to COUNT.
            let offset = (std::process::id().wrapping_mul(7919)).wrapping_add(turn) % COUNT;
            let number = u16::try_from(FIRST + offset).expect("the range ends below 32768");
            let Some(claim) = Self::name(number) else {
                continue;
            };
            if let Some(listener) = bind(number) {
                return (
                    Self {
                        number,
                        _claim: claim,
                    },
                    listener,
                );
            }
        }
        panic!("no free port between {FIRST} and {}", FIRST + COUNT);
    }

    /// Takes the name that stands for a port; `None` when another test has it.
    fn name(number: u16) -> Option<UnixListener> {
        let name = UnixAddr::from_abstract_name(format!("ringway-test-port-{number}")).ok()?;
        UnixListener::bind_addr(&name).ok()
    }

    /// The number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The address on loopback.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.number))
    }
}
