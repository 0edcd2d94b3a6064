//! Block `backends.*.alb`.

use serde::Deserialize;

use super::schema::{Key, Kind, Providers};
use super::units::Period;

/// Largest byte count a key takes.
pub(super) const BYTES: Kind = Kind::Int {
    min: 0,
    max: 1 << 50,
};

/// Keys of the block.
pub const KEYS: &[Key] = &[
    Key::new("backends.*.alb", Kind::Section).only(Providers::Alb),
    Key::new("backends.*.alb.mechanism", Kind::Text),
    Key::new("backends.*.alb.pool", Kind::Items),
    Key::new("backends.*.alb.pool.[]", Kind::PoolEntry),
    Key::new("backends.*.alb.pool.[].name", Kind::Text),
    Key::new(
        "backends.*.alb.pool.[].weight",
        Kind::Int {
            min: 0,
            max: 1_000_000,
        },
    ),
    Key::new(
        "backends.*.alb.healthy_floor",
        Kind::Int { min: -1, max: 1 },
    ),
    Key::new(
        "backends.*.alb.timeout",
        Kind::Duration {
            min_ms: 1,
            max_ms: 0,
        },
    ),
    Key::new("backends.*.alb.max_capture_bytes", BYTES),
    Key::new("backends.*.alb.max_fanout_capture_bytes", BYTES),
    Key::new("backends.*.alb.output_format", Kind::Text),
    Key::new("backends.*.alb.tsm", Kind::Section),
    Key::new(
        "backends.*.alb.tsm.query_concurrency_limit",
        Kind::Int {
            min: 0,
            max: 1_000_000,
        },
    ),
    Key::new(
        "backends.*.alb.tsm.query_concurrency_multiplier",
        Kind::Int { min: 1, max: 1_000 },
    ),
    Key::new(
        "backends.*.alb.tsm.dedup_tolerance_ms",
        Kind::Int {
            min: 0,
            max: 86_400_000,
        },
    ),
    Key::later(
        "backends.*.alb.tsm.native_histograms",
        "native histograms in merges",
    ),
    Key::later(
        "backends.*.alb.tsm.partial_response",
        "refusing partial answers",
    ),
    Key::later(
        "backends.*.alb.tsm.expected_groups",
        "expected replica groups",
    ),
    Key::later("backends.*.alb.tsm.strict", "refusing inexact plans"),
    Key::later("backends.*.alb.fgr", "mechanism fgr"),
    Key::later("backends.*.alb.fgr_status_codes", "mechanism fgr"),
    Key::later("backends.*.alb.nlm", "mechanism nlm"),
    Key::later("backends.*.alb.user_router", "mechanism ur"),
    Key::later("backends.*.alb.discovery", "discovery of members"),
    Key::later("backends.*.alb.health_mode", "discovery of members"),
];

/// The block as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alb {
    /// How a member is chosen.
    pub mechanism: Option<String>,
    /// The members.
    pub pool: Option<Vec<PoolEntry>>,
    /// Lowest health a member may have.
    pub healthy_floor: Option<i8>,
    /// Deadline of a fan-out.
    pub timeout: Option<Period>,
    /// Most bytes captured of one member.
    pub max_capture_bytes: Option<u64>,
    /// Most bytes captured of all members.
    pub max_fanout_capture_bytes: Option<u64>,
    /// Provider whose answers the merge writes.
    pub output_format: Option<String>,
    /// Settings of the time series merge.
    pub tsm: Option<TimeSeriesMerge>,
}

/// A member as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum PoolEntry {
    /// A name alone.
    Name(String),
    /// A name with a weight.
    Weighted {
        /// The backend; missing is reported by the compiler.
        name: Option<String>,
        /// Turns per rotation.
        weight: Option<u32>,
    },
}

/// Block `alb.tsm` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeSeriesMerge {
    /// Members in flight at once; 0: all.
    pub query_concurrency_limit: Option<u32>,
    /// Multiplies the limit.
    pub query_concurrency_multiplier: Option<u32>,
    /// Points this close together count as one.
    pub dedup_tolerance_ms: Option<u64>,
}
