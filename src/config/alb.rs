//! Block `backends.*.alb`.

use serde::Deserialize;

use super::discovery::query::AlbDiscovery;
use super::load::Named;
use super::schema::{Key, Kind, Providers};
use super::units::Period;

/// Largest byte count a key takes.
pub(super) const BYTES: Kind = Kind::Int {
    min: 0,
    max: 1 << 50,
};

const CONCURRENCY: Kind = Kind::Int {
    min: 0,
    max: 1_000_000,
};
/// What may be counted; 0: no limit.
const COUNT: Kind = Kind::Int {
    min: 0,
    max: 1 << 50,
};
const OVER_NOTHING: Kind = Kind::Duration {
    min_ms: 1,
    max_ms: 0,
};
const MULTIPLIER: Kind = Kind::Int { min: 1, max: 1_000 };

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
    Key::new("backends.*.alb.tsm.query_concurrency_limit", CONCURRENCY),
    Key::new(
        "backends.*.alb.tsm.query_concurrency_multiplier",
        MULTIPLIER,
    ),
    Key::new(
        "backends.*.alb.tsm.dedup_tolerance_ms",
        Kind::Int {
            min: 0,
            max: 86_400_000,
        },
    ),
    Key::new("backends.*.alb.tsm.promql_version", Kind::Text),
    Key::new("backends.*.alb.tsm.lookback_delta", OVER_NOTHING),
    Key::new("backends.*.alb.tsm.evaluation_interval", OVER_NOTHING),
    Key::new("backends.*.alb.tsm.partition_labels", Kind::Texts),
    Key::new("backends.*.alb.tsm.shared_series", Kind::Bool),
    Key::new("backends.*.alb.tsm.strict", Kind::Bool),
    Key::new(
        "backends.*.alb.tsm.partial_response",
        Kind::Choice(&["warn", "fail"]),
    ),
    Key::new("backends.*.alb.tsm.expected_groups", Kind::ListOrCount),
    Key::new(
        "backends.*.alb.tsm.native_histograms",
        Kind::Choice(&["preserve", "aggregate"]),
    ),
    Key::new("backends.*.alb.tsm.max_series", COUNT),
    Key::new("backends.*.alb.tsm.max_samples", COUNT),
    Key::new("backends.*.alb.tsm.max_bytes", BYTES),
    Key::new("backends.*.alb.fgr", Kind::Section),
    Key::new("backends.*.alb.fgr.status_codes", Kind::Codes),
    Key::new("backends.*.alb.fgr.query_concurrency_limit", CONCURRENCY),
    Key::new(
        "backends.*.alb.fgr.query_concurrency_multiplier",
        MULTIPLIER,
    ),
    Key::new("backends.*.alb.fgr_status_codes", Kind::Codes).deprecated("alb.fgr.status_codes"),
    Key::new("backends.*.alb.nlm", Kind::Section),
    Key::new("backends.*.alb.nlm.query_concurrency_limit", CONCURRENCY),
    Key::new(
        "backends.*.alb.nlm.query_concurrency_multiplier",
        MULTIPLIER,
    ),
    Key::new("backends.*.alb.user_router", Kind::Section),
    Key::new("backends.*.alb.user_router.default_backend", Kind::Text),
    Key::new(
        "backends.*.alb.user_router.no_route_status_code",
        Kind::Int { min: 400, max: 599 },
    ),
    Key::new("backends.*.alb.user_router.users", Kind::Names),
    Key::new("backends.*.alb.user_router.users.*", Kind::Section),
    Key::new("backends.*.alb.user_router.users.*.to_backend", Kind::Text),
    Key::new("backends.*.alb.user_router.users.*.to_user", Kind::Text),
    Key::new(
        "backends.*.alb.user_router.users.*.to_credential",
        Kind::Text,
    )
    .env()
    .secret(),
    Key::new("backends.*.alb.retry", Kind::Section),
    Key::new(
        "backends.*.alb.retry.attempts",
        Kind::Int { min: 0, max: 10 },
    ),
    Key::new(
        "backends.*.alb.retry.budget_percent",
        Kind::Int { min: 0, max: 100 },
    ),
    Key::new(
        "backends.*.alb.retry.floor_per_second",
        Kind::Int {
            min: 0,
            max: 1_000_000,
        },
    ),
    Key::new(
        "backends.*.alb.retry.max_body_bytes",
        Kind::Int {
            min: 0,
            max: 16 << 20,
        },
    ),
    Key::new(
        "backends.*.alb.retry.try_timeout",
        Kind::Duration {
            min_ms: 1,
            max_ms: 0,
        },
    ),
    Key::new("backends.*.alb.ejection", Kind::Section),
    Key::new(
        "backends.*.alb.ejection.consecutive_failures",
        Kind::Int {
            min: 0,
            max: 1_000_000,
        },
    ),
    Key::new(
        "backends.*.alb.ejection.time",
        Kind::Duration {
            min_ms: 100,
            max_ms: 86_400_000,
        },
    ),
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
    /// Settings of the first good response.
    pub fgr: Option<FirstGoodResponse>,
    /// Older spelling of `fgr.status_codes`.
    pub fgr_status_codes: Option<Vec<String>>,
    /// Settings of the newest last modified.
    pub nlm: Option<NewestLastModified>,
    /// Settings of the user router.
    pub user_router: Option<UserRouter>,
    /// When another member is asked.
    pub retry: Option<Retry>,
    /// When a member is left out for a while.
    pub ejection: Option<Ejection>,
    /// Which members are discovered.
    pub discovery: Option<AlbDiscovery>,
    /// Another spelling of `discovery.health_mode`.
    pub health_mode: Option<String>,
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
    /// Version of the servers' PromQL.
    pub promql_version: Option<String>,
    /// How long a sample stands for its series.
    pub lookback_delta: Option<Period>,
    /// Step of subqueries that name none.
    pub evaluation_interval: Option<Period>,
    /// Labels by which series are spread over the groups.
    pub partition_labels: Option<Vec<String>>,
    /// Whether series may lie in several groups.
    pub shared_series: Option<bool>,
    /// Refuse what is not provably exact.
    pub strict: Option<bool>,
    /// What becomes of an answer without every group.
    pub partial_response: Option<String>,
    /// Groups that have to be there.
    pub expected_groups: Option<ExpectedGroups>,
    /// What becomes of native histograms.
    pub native_histograms: Option<String>,
    /// Most series of one query.
    pub max_series: Option<u64>,
    /// Most samples of one query.
    pub max_samples: Option<u64>,
    /// Most bytes of one query.
    pub max_bytes: Option<u64>,
}

/// Groups that have to be there, as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum ExpectedGroups {
    /// So many.
    Count(u32),
    /// These.
    Names(Vec<String>),
}

/// Block `alb.fgr` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstGoodResponse {
    /// Codes and ranges of a good answer.
    pub status_codes: Option<Vec<String>>,
    /// Members in flight at once; 0: all.
    pub query_concurrency_limit: Option<u32>,
    /// Multiplies the limit.
    pub query_concurrency_multiplier: Option<u32>,
}

/// Block `alb.nlm` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewestLastModified {
    /// Members in flight at once; 0: all.
    pub query_concurrency_limit: Option<u32>,
    /// Multiplies the limit.
    pub query_concurrency_multiplier: Option<u32>,
}

/// Block `alb.user_router` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRouter {
    /// Where requests without a user and those of other users go.
    pub default_backend: Option<String>,
    /// Status of the answer when nobody can be asked.
    pub no_route_status_code: Option<u16>,
    /// Users by name, in written order.
    pub users: Option<Named<User>>,
}

/// One user of a user router as written.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Where the user's requests go.
    pub to_backend: Option<String>,
    /// Name shown there.
    pub to_user: Option<String>,
    /// Password shown there.
    pub to_credential: Option<String>,
}

// Without the password.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User")
            .field("to_backend", &self.to_backend)
            .field("to_user", &self.to_user)
            .finish_non_exhaustive()
    }
}

/// Block `alb.retry` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Members tried after the first.
    pub attempts: Option<u8>,
    /// Retries in flight, in percent of the requests in flight.
    pub budget_percent: Option<u8>,
    /// Retries a second that are always granted.
    pub floor_per_second: Option<u32>,
    /// Longest body that is kept for sending it again.
    pub max_body_bytes: Option<u64>,
    /// Longest wait for a member's first byte.
    pub try_timeout: Option<Period>,
}

/// Block `alb.ejection` as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ejection {
    /// Failed requests in a row; 0: never.
    pub consecutive_failures: Option<u32>,
    /// How long it is left out.
    pub time: Option<Period>,
}
