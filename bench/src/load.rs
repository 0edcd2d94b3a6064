//! The load generator: one thread, N keep-alive connections, one request in flight on each.
//!
//! [`run`] drives [`engine`] over [`connection`]s; [`pace`] says when requests are due and
//! [`recorder`] turns their times into a [`Summary`]. Two ways to offer load:
//!
//! - *open loop* (`--rate`): requests are due at fixed times whatever the server does, and latency
//!   counts from the time a request was *due*, so a stalled server is charged for everyone who
//!   would have been waiting;
//! - *closed loop*: each connection sends again as soon as it is answered. This finds the most a
//!   server can do, but it sends less while the server stalls; the summary therefore carries the
//!   histogram as measured and a corrected one beside it.
//!
//! Bounds: a run ends at the latest one `--timeout` after its duration.

mod connection;
mod engine;
mod options;
mod pace;
mod recorder;
mod summary;
mod target;

pub use engine::run;
pub use options::{HELP, Options, parse};
pub use summary::{Errors, Quantiles, Summary, micros};
