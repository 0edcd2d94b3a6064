//! What measures ringway: a load generator, an origin, and the harness that compares proxies.
//!
//! Three binaries stand on this library: `ringway-load` ([`load`]), `ringway-origin` ([`origin`]) and
//! `ringway-bench` ([`harness`]), which runs the first two around each proxy under test. Nothing
//! here uses the proxy's own code: a bug in the proxy's codec must not hide in the instrument too.
//! The criterion benches in `benches/` are the exception; they time the proxy's parts.

pub mod args;
pub mod clock;
pub mod fixtures;
pub mod harness;
pub mod http;
pub mod load;
pub mod origin;
