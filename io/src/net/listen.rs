//! Listening sockets: one per shard on the same address, kept apart by the kernel with SO_REUSEPORT.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use monoio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, Socket, Type};

use super::stream::Conn;
use super::tls::ServerTls;

/// Connections the kernel may hold ready for one shard; it is cut to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A bound, listening socket of this thread.
pub struct Listening {
    socket: TcpListener,
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
    let socket: std::net::TcpListener = socket.into();
    let address = socket.local_addr()?;
    Ok(Listening {
        socket: TcpListener::from_std(socket)?,
        address,
    })
}

impl Listening {
    /// The bound address, with the port the kernel chose when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// Those of the kernel; running out of file descriptors is one, so callers pause before trying again.
    pub async fn accept(&self) -> io::Result<Incoming> {
        let (stream, peer) = self.socket.accept().await?;
        Ok(Incoming { stream, peer })
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
