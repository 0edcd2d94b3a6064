//! TLS settings, being built.

use monoio::net::TcpStream;

/// Certificates a listener answers with.
#[derive(Clone, Debug)]
pub struct ServerTls;
/// How an origin is spoken to over TLS.
#[derive(Clone, Debug)]
pub struct ClientTls;
/// A server-side TLS stream.
pub type AcceptedStream = monoio_rustls::ServerTlsStream<TcpStream>;
/// A client-side TLS stream.
pub type ConnectedStream = monoio_rustls::ClientTlsStream<TcpStream>;

impl ServerTls {
    /// Placeholder.
    pub async fn accept(&self, _stream: TcpStream) -> std::io::Result<AcceptedStream> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
impl ClientTls {
    /// Placeholder.
    pub async fn connect(&self, _s: TcpStream, _name: &str) -> std::io::Result<ConnectedStream> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
