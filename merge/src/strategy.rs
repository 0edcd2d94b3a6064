//! How equal label sets of different replica groups combine: the table of the contract.
//!
//! Contract: time series merge, value rules per cross-shard strategy; decisions 19, 20, 22.

/// The cross-group rule of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// One value per timestamp: the first configured group that has one.
    Dedup,
    /// IEEE addition with compensation; also merges `count` and `count_values`.
    Sum,
    /// The smaller value; NaN only where all are NaN.
    Min,
    /// The larger value; NaN only where all are NaN.
    Max,
    /// `group`: every group says 1, so the first wins, without injected labels.
    Group,
    /// Sum of the first variant over the sum of the second.
    Mean,
    /// Of each series the sample that was taken last: the second variant says when.
    Freshest,
    /// The first value that is not NaN, in pool order.
    Pick,
}

impl Strategy {
    /// Returns the name used in logs, metrics and explanations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dedup => "dedup",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Group => "group",
            Self::Mean => "avg",
            Self::Freshest => "freshest",
            Self::Pick => "pick",
        }
    }

    /// Returns whether values of different groups are combined by arithmetic or comparison, so
    /// that a native histogram among them cannot take part.
    pub fn is_numeric(self) -> bool {
        matches!(self, Self::Sum | Self::Min | Self::Max | Self::Mean)
    }
}
