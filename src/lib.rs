//! Control core of the appliance.

pub mod cli;
pub mod compile;
pub mod config;
