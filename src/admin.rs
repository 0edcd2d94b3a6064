//! The control core's own HTTP: metrics, health, configuration, reload.
//!
//! `server` speaks HTTP and asks the control core, `metrics` writes what a scrape gets, `process` reads what the
//! kernel knows of this process.

pub mod metrics;
pub mod process;
pub mod server;
