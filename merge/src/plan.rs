//! From a request to a plan: what each replica group is asked, how answers combine, and whether
//! the result is provably what one server would say.

use crate::strategy::Strategy;

/// A mergeable API path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// `/api/v1/query`
    Query,
    /// `/api/v1/query_range`
    QueryRange,
    /// `/api/v1/series`
    Series,
    /// `/api/v1/labels`
    Labels,
    /// `/api/v1/label/<name>/values`, with the name (percent-decoded).
    LabelValues(String),
}

/// What the planner may assume; empty for now.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PlanOptions {}

/// Which groups a plan needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Every group; one that does not answer makes the result partial.
    EveryGroup,
    /// Any one group: the expression reads no series. All may be asked; one answer suffices.
    AnyGroup,
}

/// One request per member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Empty for the only variant, else such as `avg-sum`: part of log lines and metric labels.
    pub name: &'static str,
    /// Replaces the `query` parameter; `None` leaves the request as it came.
    pub query: Option<String>,
}

/// Why the plan may not be exact over several groups.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanWarning {
    /// The text is not understood; it is sent as is.
    #[error("query cannot be planned ({reason}); the answer may not cover all replica groups")]
    Unplanned {
        /// Why.
        reason: String,
    },
}

/// What each replica group is asked and how the answers combine.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The cross-group rule.
    pub strategy: Strategy,
    /// The requests that each member gets: one, or two for `avg`.
    pub variants: Vec<Variant>,
    /// Which groups are needed.
    pub ask: Ask,
    /// When set, the members' injected labels do not appear in the answer.
    pub strips_injected_labels: bool,
    /// Why the answer may differ from one server's; empty when it provably does not. They do not
    /// apply to a pool of one group, and [`crate::Merge`] then leaves them out.
    pub warnings: Vec<PlanWarning>,
}

impl Plan {
    /// Returns whether a pool with one live member and no missing group may be answered by plain
    /// proxying: nothing is rewritten and nothing is stripped.
    pub fn may_bypass(&self) -> bool {
        self.variants.len() == 1 && self.variants[0].query.is_none()
    }
}

/// Plans a request. `query` is the PromQL text; the metadata paths have none. Never fails: what
/// cannot be planned is sent as is and says so in a warning.
pub fn plan(endpoint: &Endpoint, query: Option<&str>, options: &PlanOptions) -> Plan {
    let _ = (endpoint, query, options);
    Plan {
        strategy: Strategy::Dedup,
        variants: vec![Variant {
            name: "",
            query: None,
        }],
        ask: Ask::EveryGroup,
        strips_injected_labels: false,
        warnings: Vec::new(),
    }
}
