//! The control core: one thread that owns every fact that changes while the process runs.
//!
//! `run` gathers events and performs actions, `state` decides (`ejection` for it, whom pools leave out), `publish`
//! makes the tables, `members` is who was discovered, `reload` brings a new configuration in. Shards hold replicas and never decide.

pub mod ejection;
pub mod files;
#[cfg(test)]
pub(crate) mod fixture;
pub mod lookups;
pub mod members;
pub mod publish;
pub mod reload;
pub mod run;
pub mod state;
pub mod verify;
