//! Control core of the appliance.

pub mod admin;
pub mod boot;
pub mod cli;
pub mod compile;
pub mod config;
pub mod control;
pub mod demo;
pub mod discovery;
pub mod health;
pub mod log;
pub mod password;
pub mod utc;
