//! The parsers under test: one file each, and one line in [`TARGETS`].

mod chunked_body;
mod config_yaml;
mod discovery_answers;
mod documents;
mod member_list;
mod promql_plan;
mod request_head;
mod response_head;
mod series_json;
mod tls_pem;

use crate::random::Random;

/// One parser and what to feed it with.
pub struct Target {
    /// Name on the command line.
    pub name: &'static str,
    /// What it checks.
    pub about: &'static str,
    /// Iterations of a run that is not told a number: a few seconds' worth.
    pub count: u64,
    /// Inputs to start from, mostly valid.
    pub seeds: &'static [&'static [u8]],
    /// Text that means something to the parser.
    pub words: &'static [&'static [u8]],
    /// Feeds one input; panics when a promise is broken.
    pub run: fn(&[u8], &mut Random),
}

/// All targets, in the order they run.
pub static TARGETS: &[&Target] = &[
    &request_head::TARGET,
    &response_head::TARGET,
    &chunked_body::TARGET,
    &tls_pem::TARGET,
    &config_yaml::TARGET,
    &promql_plan::TARGET,
    &series_json::TARGET,
    &documents::TARGET,
    &member_list::TARGET,
    &discovery_answers::TARGET,
];
