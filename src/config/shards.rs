//! Section `shards`: how many, where, and on what.

use serde::Deserialize;

use super::schema::{Key, Kind};

/// Keys of the section.
pub const KEYS: &[Key] = &[
    Key::new("shards", Kind::Section),
    Key::new("shards.count", Kind::Count),
    Key::new("shards.cpus", Kind::Cpus),
    Key::new("shards.pin", Kind::Bool),
    Key::new("shards.control_cpu", Kind::Int { min: 0, max: 1023 }),
    Key::new(
        "shards.driver",
        Kind::Choice(&["auto", "io_uring", "epoll"]),
    ),
];

/// Section `shards` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shards {
    /// `auto` or a number.
    pub count: Option<String>,
    /// Processor list.
    pub cpus: Option<String>,
    /// Whether each shard stays on its processor.
    pub pin: Option<bool>,
    /// Processor of the control thread.
    pub control_cpu: Option<usize>,
    /// What moves bytes.
    pub driver: Option<String>,
}
