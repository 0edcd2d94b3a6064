//! Settings of the time series merge, block `alb.tsm`.

use std::time::Duration;

/// A version of PromQL.
pub use ringway_merge::Dialect;

/// Settings of the time series merge mechanism. Contract: tsm page; decisions, 22, 24 and 25.
#[derive(Clone, Debug, Default)]
pub struct TimeSeriesMerge {
    /// Points of one series this close together count as one; 0: only equal timestamps.
    pub dedup_tolerance_ms: u64,
    /// Version of the servers' PromQL; `None`: they are asked.
    pub promql_version: Option<Dialect>,
    /// How long a sample stands for its series; `None`: the servers are asked.
    pub lookback_delta: Option<Duration>,
    /// Step of subqueries that name none; `None`: the servers are asked.
    pub evaluation_interval: Option<Duration>,
    /// Labels by which series are spread over the replica groups: those that agree in all of them are in one group.
    pub partition_labels: Vec<String>,
    /// A series may lie, or may have lain, in several groups.
    pub may_share: bool,
    /// What is not provably exact is refused.
    pub is_strict: bool,
    /// An answer without every replica group is an error, unless the request says otherwise.
    pub fails_partial: bool,
    /// Groups that have to be there.
    pub expected_groups: ExpectedGroups,
    /// Native histograms are added as numbers are; else the first is kept as it is.
    pub adds_histograms: bool,
    /// What one query may read.
    pub budget: QueryBudget,
}

/// Replica groups that have to be in every answer, whether or not discovery knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExpectedGroups {
    /// Those that the pool has.
    #[default]
    Known,
    /// So many.
    Count(u32),
    /// These.
    Named(Vec<String>),
}

/// What the answers to one query may hold over all members; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryBudget {
    /// Series.
    pub series_max: Option<u64>,
    /// Samples.
    pub samples_max: Option<u64>,
    /// Bytes, content coding undone.
    pub bytes_max: Option<u64>,
}
