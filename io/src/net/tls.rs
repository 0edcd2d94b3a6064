//! TLS settings, being built.

/// Certificates a listener answers with.
#[derive(Clone, Debug)]
pub struct ServerTls;
/// How an origin is spoken to over TLS.
#[derive(Clone, Debug)]
pub struct ClientTls;
