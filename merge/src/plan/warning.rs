//! Why a plan may not be exact.

/// Why the plan may not be exact over several groups.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanWarning {
    /// A label that ringway adds to answers is asked for, and the servers do not have it.
    #[error(
        "label {label} is added to answers by ringway and unknown to the servers: to match or group by it \
             finds nothing"
    )]
    InjectedLabel {
        /// The label.
        label: String,
    },
    /// The text is not understood; it is sent as is.
    #[error("query cannot be planned ({reason}): the answer may not cover all replica groups")]
    Unplanned {
        /// Why.
        reason: String,
    },
}
