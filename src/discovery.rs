//! Where members and their addresses come from.
//!
//! `dns` resolves the host names of configured origins; a provider per file follows with discovery.

pub mod dns;
