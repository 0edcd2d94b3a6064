//! Listening sockets: one per shard on the same address, kept apart by the kernel with SO_REUSEPORT.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::pin;

use monoio::io::Canceller;
use monoio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, Socket, Type};

use super::deadline::Watch;
use super::stream::Conn;
use super::tls::ServerTls;

/// Connections the kernel may hold ready for one shard; it is cut to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A bound, listening socket of this thread.
pub struct Listening {
    socket: TcpListener,
    /// The same socket, to ask it without the runtime.
    bare: Socket,
    address: SocketAddr,
}

/// Binds `address` and listens.
///
/// # Errors
/// Those of the kernel, such as an address in use by another process.
pub fn listen(address: SocketAddr) -> io::Result<Listening> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        // An operator's `::` means all addresses, as it does for the other sockets of a Linux host.
        socket.set_only_v6(false)?;
    }
    // Accepted sockets inherit it, which saves a system call for each.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    if monoio::utils::is_legacy() {
        // epoll needs it; io_uring would answer EAGAIN instead of waiting.
        socket.set_nonblocking(true)?;
    }
    let bare = socket.try_clone()?;
    let socket: std::net::TcpListener = socket.into();
    let address = socket.local_addr()?;
    Ok(Listening {
        socket: TcpListener::from_std(socket)?,
        bare,
        address,
    })
}

impl Listening {
    /// The bound address, with the port the kernel chose when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next connection; `None` once `watch` has tripped. A connection that the kernel has handed
    /// over by then is given back all the same, and the next call says `None`.
    ///
    /// # Errors
    /// Those of the kernel; running out of file descriptors is one, so callers pause before trying again.
    pub async fn accept(&self, watch: &Watch) -> Option<io::Result<Incoming>> {
        if watch.tripped().is_some() {
            return None;
        }
        let canceller = Canceller::new();
        let mut accept = pin!(self.socket.cancelable_accept(canceller.handle()));
        let accepted = match watch.guard(pin!(accept.as_mut())).await {
            Ok(accepted) => accepted,
            Err(_) => {
                canceller.cancel();
                // The kernel may have won.
                Ok(accept.await.ok()?)
            }
        };
        Some(accepted.map(|(stream, peer)| Incoming { stream, peer }))
    }

    /// A connection that the kernel has ready; never waits. To be called before a listening socket is closed,
    /// since the kernel resets what is still in its queue. No [`Listening::accept`] may be waiting.
    pub fn accept_ready(&self) -> Option<Incoming> {
        self.bare.set_nonblocking(true).ok()?;
        let (stream, peer) = self.bare.accept().ok()?;
        // Under epoll the runtime wants it so; under io_uring the kernel would answer EAGAIN instead of waiting.
        stream.set_nonblocking(monoio::utils::is_legacy()).ok()?;
        let stream = TcpStream::from_std(stream.into()).ok()?;
        Some(Incoming {
            stream,
            peer: peer.as_socket()?,
        })
    }
}

/// A connection that was accepted and not spoken on yet.
pub struct Incoming {
    stream: TcpStream,
    peer: SocketAddr,
}

impl Incoming {
    /// Who connected.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The descriptor, for the watchdog.
    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Speaks without TLS.
    pub fn plain(self) -> Conn {
        Conn::plain(self.stream, self.peer)
    }

    /// Shakes hands as a TLS server.
    ///
    /// # Errors
    /// When the client does not complete the handshake.
    pub async fn tls(self, settings: &ServerTls) -> io::Result<Conn> {
        Conn::tls_server(self.stream, self.peer, settings).await
    }
}
