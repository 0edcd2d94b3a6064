//! The server that stands behind the proxies under test: one thread, answers prepared beforehand.
//!
//! It must never be the bottleneck, so an answer is one `write` of bytes that exist already. Paths:
//!
//! - `/bytes/N`: N bytes, at most [`BYTES_MAX`];
//! - `/api/v1/query_range`: the 8 MB Prometheus answer of [`crate::fixtures`], any query;
//! - anything else: the 200-byte JSON of [`crate::fixtures::SMALL_BODY`].
//!
//! Bounds: heads as in [`crate::http`]; answers of at most [`ANSWERS_HELD_MAX`] different sizes are
//! kept. A client that does not read its answers is not read from.

mod options;
mod server;

pub use options::{HELP, Options, parse};
pub use server::{ANSWERS_HELD_MAX, BYTES_MAX, Origin};
