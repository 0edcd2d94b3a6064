//! Kernels and bytes: the one package that names the runtimes of the data plane.
//!
//! `net` is the monoio half, used by shards. A disk half comes with the disk cache. `cross` holds the only
//! channel between threads. Nothing here knows HTTP routing, PromQL or configuration.

pub mod buffer;
pub mod cross;
pub mod memory;
pub mod net;
pub mod pin;
pub mod task;
