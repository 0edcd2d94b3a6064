//! Compares ringway with the proxies found on this machine.
//!
//! [`run`] starts one origin and, in turns, each proxy, has `ringway-load` offer load through it, and
//! reads what the proxy used. Turns are interleaved (A B C A B C …) and medians reported, so that a
//! machine that slows down for a while slows all of them. Parts: [`placement`] (CPUs), `process`
//! (start and stop), `proxy` (the programs and their configurations), `usage` (CPU and memory),
//! `compare`, `idle`, `tail`, `churn` and `members` (the scenarios), `results` and `table` (the output).
//!
//! Bounds: no new measurement starts after the time budget; every child ends with the harness,
//! also when that is killed.

mod churn;
mod compare;
mod idle;
mod launch;
mod measure;
mod members;
mod options;
pub mod placement;
mod process;
mod proxy;
mod report;
mod results;
mod run;
mod table;
mod tail;
mod usage;

pub use launch::{LAUNCH, launch};
pub use options::{HELP, Options, parse};
pub use placement::{place, raise_file_limit};
pub use run::run;
