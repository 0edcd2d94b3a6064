//! The monoio half: sockets, deadlines, TLS and the HTTP/1 codec of a shard.
//!
//! Called by `ringway-shards`, on a shard's own thread only (except the pure codec and the TLS settings,
//! which the control core builds and hands over).

pub mod connect;
pub mod deadline;
pub mod http1;
pub mod listen;
pub mod runtime;
pub mod stream;
pub mod tls;
