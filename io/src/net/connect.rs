//! Dialling an origin.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use monoio::net::TcpStream;

use super::stream::Conn;
use super::tls::ClientTls;
use crate::task::within;

/// Why an origin could not be connected to. None of it sent a byte of a request.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kernel's answer.
    #[error("connect to {address}: {source}")]
    Refused {
        /// Who was dialled.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// No answer in time.
    #[error("connect to {address}: no answer within {} ms", limit.as_millis())]
    Timeout {
        /// Who was dialled.
        address: SocketAddr,
        /// The limit.
        limit: Duration,
    },
    /// The TLS handshake failed.
    #[error("TLS handshake with {address}: {source}")]
    Handshake {
        /// Who was dialled.
        address: SocketAddr,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
}

/// Dials `address`; with `tls`, shakes hands as a client of that name. Each step has `limit`.
///
/// # Errors
/// [`ConnectError`] says which step failed.
pub async fn connect(
    address: SocketAddr,
    tls: Option<(&ClientTls, &str)>,
    limit: Duration,
) -> Result<Conn, ConnectError> {
    let stream = match within(limit, TcpStream::connect_addr(address)).await {
        Some(Ok(stream)) => stream,
        Some(Err(source)) => return Err(ConnectError::Refused { address, source }),
        None => return Err(ConnectError::Timeout { address, limit }),
    };
    stream
        .set_nodelay(true)
        .map_err(|source| ConnectError::Refused { address, source })?;
    let Some((settings, name)) = tls else {
        return Ok(Conn::plain(stream, address));
    };
    match within(limit, Conn::tls_client(stream, address, settings, name)).await {
        Some(Ok(conn)) => Ok(conn),
        Some(Err(source)) => Err(ConnectError::Handshake { address, source }),
        None => Err(ConnectError::Timeout { address, limit }),
    }
}
