//! Support for tests that start the real binary and look at the bytes on both of its sides.
//!
//! A test starts fake [`Origin`]s, writes a configuration, starts [`Ringway`] on free ports, talks to
//! it through a raw [`Client`] and checks what either side received. Nothing here shares code with the
//! product, so that a mistake in the product's codec cannot hide in the test's.
//!
//! Waiting is always for something to happen ([`eventually`], a read, a channel), never for time to
//! pass; all of it ends after [`patience`].

mod answer;
mod browser;
mod certificates;
mod client;
mod origin;
mod patience;
mod ports;
mod product;
mod setup;

pub use answer::{Answer, Framing, Head, Headers, header_of, headers_of};
pub use browser::{Rendered, browse};
pub use certificates::{Authority, Identity, client_tls, server_tls};
pub use client::{Client, TlsClient, Wire};
pub use origin::{Conn, Event, Origin, Request, ok};
pub use patience::{Gate, eventually, patience};
pub use ports::Port;
pub use product::{Finished, Ringway, binary, run, run_in};
pub use setup::Setup;
