//! Why a plan may not be exact.

use super::Dialect;

/// Why the plan may not be exact over several groups.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanWarning {
    /// `info` of series at another time than the query's.
    #[error(
        "info() of series at another time: servers look for labels between that time and the query's, \
             which ringway does not follow exactly"
    )]
    InfoAtAnotherTime,
    /// A label that ringway adds to answers is asked for, and the servers do not have it.
    #[error(
        "label {label} is added to answers by ringway and unknown to the servers: to match or group by it \
             finds nothing"
    )]
    InjectedLabel {
        /// The label.
        label: String,
    },
    /// The members are servers of different major versions.
    #[error(
        "replica groups run Prometheus {first} and {other}, which evaluate differently: this \
             answer follows {first}"
    )]
    MixedVersions {
        /// What is followed here.
        first: Dialect,
        /// Another member's.
        other: Dialect,
    },
    /// No member says its version, and windows are evaluated here.
    #[error(
        "no server says its version: ranges are evaluated as Prometheus {assumed} does; \
             alb.tsm.promql_version sets it"
    )]
    UnknownVersion {
        /// What is followed here.
        assumed: Dialect,
    },
    /// The text is not understood; it is sent as is.
    #[error("query cannot be planned ({reason}): the answer may not cover all replica groups")]
    Unplanned {
        /// Why.
        reason: String,
    },
}
