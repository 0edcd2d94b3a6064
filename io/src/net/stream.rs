//! One connection, plain or TLS, whose two directions can move at the same time.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;

use monoio::buf::IoBufMut;
use monoio::io::{
    AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt, OwnedReadHalf, OwnedWriteHalf, Splitable,
};
use monoio::net::TcpStream;

use super::deadline;
use super::tls::{AcceptedStream, ClientTls, ConnectedStream, ServerTls};

/// A connected socket.
pub struct Conn {
    /// From the peer.
    pub reader: Reader,
    /// To the peer.
    pub writer: Writer,
    fd: RawFd,
    peer: SocketAddr,
}

/// Receiving direction of a connection.
pub struct Reader(ReadHalf);

/// Sending direction of a connection.
pub struct Writer(WriteHalf);

/// What became of the first bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All of it went to the kernel.
    All,
    /// The connection broke, and a part of it may have been sent.
    Some,
    /// The connection was broken before: not a byte was sent.
    None,
}

enum ReadHalf {
    Plain(OwnedReadHalf<TcpStream>),
    Server(OwnedReadHalf<AcceptedStream>),
    Client(OwnedReadHalf<ConnectedStream>),
}

enum WriteHalf {
    Plain(OwnedWriteHalf<TcpStream>),
    Server(OwnedWriteHalf<AcceptedStream>),
    Client(OwnedWriteHalf<ConnectedStream>),
    Absent,
}

impl Conn {
    /// A plain TCP connection.
    pub fn plain(stream: TcpStream, peer: SocketAddr) -> Conn {
        let fd = stream.as_raw_fd();
        let (read, write) = stream.into_split();
        Conn {
            reader: Reader(ReadHalf::Plain(read)),
            writer: Writer(WriteHalf::Plain(write)),
            fd,
            peer,
        }
    }

    /// Shakes hands as a server.
    ///
    /// # Errors
    /// When the client does not complete the handshake.
    pub async fn tls_server(
        stream: TcpStream,
        peer: SocketAddr,
        settings: &ServerTls,
    ) -> io::Result<Conn> {
        let fd = stream.as_raw_fd();
        let (read, write) = settings.accept(stream).await?.into_split();
        Ok(Conn {
            reader: Reader(ReadHalf::Server(read)),
            writer: Writer(WriteHalf::Server(write)),
            fd,
            peer,
        })
    }

    /// Shakes hands as a client of the server called `name`.
    ///
    /// # Errors
    /// When the server's certificate is not accepted or the handshake breaks.
    pub async fn tls_client(
        stream: TcpStream,
        peer: SocketAddr,
        settings: &ClientTls,
        name: &str,
    ) -> io::Result<Conn> {
        let fd = stream.as_raw_fd();
        let (read, write) = settings.connect(stream, name).await?.into_split();
        Ok(Conn {
            reader: Reader(ReadHalf::Client(read)),
            writer: Writer(WriteHalf::Client(write)),
            fd,
            peer,
        })
    }

    /// The descriptor, for [`deadline::Watchdog::watch`].
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Who is at the other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Makes the coming close a reset, so that the peer does not take what it got for the whole.
    pub fn reset_on_close(&self) {
        deadline::reset_on_close(self.fd);
    }

    /// True when an idle connection was closed by the peer, or has bytes that nobody asked for.
    pub fn disturbed(&self) -> bool {
        deadline::disturbed(self.fd)
    }
}

impl Reader {
    /// Reads once into the free capacity behind `buf`; the count is 0 at the end of the stream or when there
    /// is no free capacity.
    pub async fn read(&mut self, mut buf: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let len = buf.len();
        if len == 0 {
            // The common case needs no slice around the buffer.
            return match &mut self.0 {
                ReadHalf::Plain(half) => half.read(buf).await,
                ReadHalf::Server(half) => half.read(buf).await,
                ReadHalf::Client(half) => half.read(buf).await,
            };
        }
        if len == buf.capacity() {
            buf.reserve(len);
        }
        let end = buf.capacity();
        let slice = buf.slice_mut(len..end);
        let (result, slice) = match &mut self.0 {
            ReadHalf::Plain(half) => half.read(slice).await,
            ReadHalf::Server(half) => half.read(slice).await,
            ReadHalf::Client(half) => half.read(slice).await,
        };
        (result, slice.into_inner())
    }
}

impl Writer {
    /// What stands in a connection while its writer is in other hands; it takes no byte.
    pub fn absent() -> Writer {
        Writer(WriteHalf::Absent)
    }

    /// Writes all of `buf` and gives it back.
    pub async fn write_all(&mut self, buf: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let (result, buf) = match &mut self.0 {
            WriteHalf::Plain(half) => {
                // The common case is one write, and needs no slice around the buffer.
                let (result, buf) = half.write(buf).await;
                let sent = match result {
                    Ok(sent) if sent == buf.len() => return (Ok(()), buf),
                    Ok(sent) => sent,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                    Err(error) => return (Err(error), buf),
                };
                let range = sent..buf.len();
                return self.write_range(buf, range).await;
            }
            WriteHalf::Server(half) => half.write_all(buf).await,
            WriteHalf::Client(half) => half.write_all(buf).await,
            WriteHalf::Absent => return (Err(absent()), buf),
        };
        match result {
            Ok(_) => (self.flush().await, buf),
            Err(error) => (Err(error), buf),
        }
    }

    /// As [`Writer::write_all`], but knows of a failure whether anything was sent. Under TLS it does not, since
    /// what the session took may have left with other records.
    pub async fn write_first(&mut self, buf: Vec<u8>) -> (Written, Vec<u8>) {
        let WriteHalf::Plain(half) = &mut self.0 else {
            let (result, buf) = self.write_all(buf).await;
            return (result.map_or(Written::Some, |()| Written::All), buf);
        };
        let (result, buf) = half.write(buf).await;
        let sent = match result {
            Ok(sent) if sent == buf.len() => return (Written::All, buf),
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(_) => return (Written::None, buf),
        };
        let range = sent..buf.len();
        let (result, buf) = self.write_range(buf, range).await;
        (result.map_or(Written::Some, |()| Written::All), buf)
    }

    /// Writes all of a buffer that others may be writing too.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn write_shared(&mut self, buf: Rc<Vec<u8>>) -> io::Result<()> {
        let (result, _) = match &mut self.0 {
            WriteHalf::Plain(half) => half.write_all(buf).await,
            WriteHalf::Server(half) => half.write_all(buf).await,
            WriteHalf::Client(half) => half.write_all(buf).await,
            WriteHalf::Absent => return Err(absent()),
        };
        result?;
        self.flush().await
    }

    /// Writes `buf[range]` and gives the buffer back.
    pub async fn write_range(
        &mut self,
        buf: Vec<u8>,
        range: std::ops::Range<usize>,
    ) -> (io::Result<()>, Vec<u8>) {
        let slice = monoio::buf::IoBuf::slice(buf, range);
        let (result, slice) = match &mut self.0 {
            WriteHalf::Plain(half) => half.write_all(slice).await,
            WriteHalf::Server(half) => half.write_all(slice).await,
            WriteHalf::Client(half) => half.write_all(slice).await,
            WriteHalf::Absent => return (Err(absent()), slice.into_inner()),
        };
        match result {
            Ok(_) => (self.flush().await, slice.into_inner()),
            Err(error) => (Err(error), slice.into_inner()),
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            WriteHalf::Plain(_) | WriteHalf::Absent => Ok(()),
            WriteHalf::Server(half) => half.flush().await,
            WriteHalf::Client(half) => half.flush().await,
        }
    }

    /// Says that nothing more will be sent: FIN, after close_notify under TLS.
    ///
    /// # Errors
    /// Those of the kernel.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        match &mut self.0 {
            WriteHalf::Plain(half) => half.shutdown().await,
            WriteHalf::Server(half) => half.shutdown().await,
            WriteHalf::Client(half) => half.shutdown().await,
            WriteHalf::Absent => Ok(()),
        }
    }
}

/// A write where no writer is.
fn absent() -> io::Error {
    io::Error::from(io::ErrorKind::NotConnected)
}
