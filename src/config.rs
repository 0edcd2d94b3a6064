//! The WRITTEN configuration: what operators put into YAML, with the place of every key and value.
//!
//! [`load`](load::load) reads and checks sources into a [`Document`]; [`files`] reads what it names. No default
//! is applied here except in messages: [`defaults`] holds them all and `compile` puts them in.

pub mod admin;
pub mod alb;
pub mod authenticators;
pub mod backends;
mod check;
pub mod defaults;
pub mod discovery;
pub mod document;
mod environment;
mod fault;
pub mod files;
pub mod healthcheck;
pub mod later;
pub mod listeners;
mod load;
pub mod logging;
pub mod origin_url;
pub mod paths;
mod problem;
pub mod rewriters;
pub mod rules;
pub mod schema;
pub mod server;
pub mod shards;
pub mod tree;
pub mod units;

pub use environment::Environment;
pub use fault::{Caution, Fault};
pub use load::{
    DEFAULT_PATHS, Document, FILES_MAX, INCLUDE_FOLDER, LoadOptions, Named, Override, Written, load,
};
pub use problem::{Mark, Place, Problem, Warning};
pub use tree::{Path, Step};
