//! The control core's own HTTP: metrics, health, configuration, reload.
//!
//! `server` speaks HTTP and asks the control core, `health` answers for it on health, `metrics` writes what a scrape gets, `process` reads what the
//! kernel knows of this process.

mod health;
pub mod metrics;
pub mod process;
pub mod server;
