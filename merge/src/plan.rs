//! From a request to a plan: what each replica group is asked, how answers combine, and whether
//! the result is provably what one server would say.
//!
//! Owns the decision table of the contract (time series merge, planner) as far as it is built:
//! the aggregations that merge, per-series expressions, constants; everything else is sent as is
//! and carries a warning (decision 25). Called once per request; calls [`crate::query`].

mod reach;
#[cfg(test)]
mod tests;

use crate::document::Document;
use crate::query::{
    self, Aggregate, Binary, Grouping, Kind, Node, OperatorKind, Selector, Subquery, When,
};
use crate::strategy::Strategy;
use reach::{Clash, Reach, reach};

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
    /// A path whose answers are no series.
    Document(Document),
}

impl Endpoint {
    /// Returns the media type of the answer.
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Document(document) if document.is_text() => {
                "text/plain; version=0.0.4; charset=utf-8"
            }
            _ => "application/json; charset=UTF-8",
        }
    }

    /// Returns whether parameters may come as a form.
    pub fn takes_forms(&self) -> bool {
        match self {
            Self::Document(document) => *document == Document::Exemplars,
            Self::LabelValues(_) => false,
            _ => true,
        }
    }
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
    /// The outer aggregation has no cross-group form yet.
    #[error("the outer {operator} cannot be merged: the answer may be one replica group's only")]
    Aggregation {
        /// The aggregation's name.
        operator: &'static str,
    },
    /// The aggregated expression holds another aggregation.
    #[error("{operator} over a nested {inner}: computed per replica group, may be wrong in sum")]
    NestedAggregation {
        /// The outer aggregation's name.
        operator: &'static str,
        /// The inner one's.
        inner: &'static str,
    },
    /// The aggregated expression matches vectors with each other.
    #[error(
        "{operator} over a binary expression between vectors: series of different replica \
             groups are not matched"
    )]
    BinaryInput {
        /// The outer aggregation's name.
        operator: &'static str,
    },
    /// The aggregated expression calls a function that needs all series at once.
    #[error("{operator} over {function}(), which needs the series of all replica groups at once")]
    FunctionInput {
        /// The outer aggregation's name.
        operator: &'static str,
        /// The function's name.
        function: &'static str,
    },
    /// An aggregation beside a binary operator.
    #[error(
        "an aggregation inside a binary expression is computed per replica group: the answer \
             may be one group's only"
    )]
    AggregationInBinary,
    /// An aggregation below a function.
    #[error(
        "{operator} is not the outermost operation: the answer may be one replica group's only"
    )]
    InnerAggregation {
        /// The aggregation's name.
        operator: &'static str,
    },
    /// A label that ringway adds to answers is asked for, and the servers do not have it.
    #[error(
        "label {label} is added to answers by ringway and unknown to the servers: to match or group by it \
             finds nothing"
    )]
    InjectedLabel {
        /// The label.
        label: String,
    },
    /// Vectors are matched with each other.
    #[error(
        "a binary expression between vectors does not match series of different replica groups"
    )]
    VectorBinary,
    /// A function needs all series at once.
    #[error("{function}() needs the series of all replica groups at once: computed per group")]
    Function {
        /// The function's name.
        function: &'static str,
    },
    /// Series of different groups may end with the same labels, unseen.
    #[error(
        "series of different replica groups may have become indistinguishable: one server \
             would refuse such a query"
    )]
    Clash,
    /// An additive aggregation of series whatever their name. Servers hold series about
    /// themselves and their targets (`up`, `scrape_…`) that are often the same everywhere.
    #[error(
        "{operator} over series of any name: one that several replica groups hold is counted \
             more than once"
    )]
    AnyName {
        /// The aggregation's name.
        operator: &'static str,
    },
    /// An additive aggregation that reaches back with `offset` or `@`: groups are known to be
    /// disjoint now, not then.
    #[error(
        "{operator} over earlier samples (offset or @): a series that has moved between \
             replica groups since is counted more than once"
    )]
    Earlier {
        /// The aggregation's name.
        operator: &'static str,
    },
    /// The text is not understood; it is sent as is.
    #[error("query cannot be planned ({reason}): the answer may not cover all replica groups")]
    Unplanned {
        /// Why.
        reason: String,
    },
}

/// When the same series in the answers of two groups makes a dedup result doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It never does, or the plan carries a warning already.
    Ignored,
    /// Where their samples differ: each sample stands for itself.
    Conflicts,
    /// Where they differ or one lacks samples: each value was computed from a part of a series.
    Differences,
    /// Always: two different series may have become alike.
    Always,
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
    pub(crate) endpoint: Endpoint,
    pub(crate) sharing: Sharing,
}

impl Plan {
    /// Returns whether a pool with one live member and no missing group may be answered by plain
    /// proxying: nothing is rewritten. The caller also sees to injected labels: a bypassed member
    /// must have none, or `strips_injected_labels` must be set.
    pub fn may_bypass(&self) -> bool {
        self.variants.iter().all(|variant| variant.query.is_none())
    }

    fn new(endpoint: &Endpoint, strategy: Strategy) -> Self {
        Self {
            strategy,
            variants: vec![Variant {
                name: "",
                query: None,
            }],
            ask: Ask::EveryGroup,
            strips_injected_labels: strategy != Strategy::Dedup,
            warnings: Vec::new(),
            endpoint: endpoint.clone(),
            sharing: Sharing::Ignored,
        }
    }

    fn warn(mut self, warning: Option<PlanWarning>) -> Self {
        self.warnings.extend(warning);
        self
    }
}

/// The first of `labels` that a query or selector matches, groups or rewrites by; `None` also for text that is
/// not understood. For labels that only ringway knows.
pub fn label_asked_for<'l>(text: &str, labels: &[&'l str]) -> Option<&'l str> {
    if labels.is_empty() {
        return None;
    }
    let tree = query::parse(text).ok()?;
    let asks = |node: &Node, label: &str| match node {
        Node::Selector(selector) => selector
            .matchers
            .iter()
            .any(|matcher| matcher.label == label),
        Node::Aggregate(aggregate) => {
            matches!(&aggregate.grouping, Grouping::Include(by) if by.iter().any(|name| name == label))
        }
        Node::Call { arguments, .. } => arguments
            .iter()
            .any(|argument| matches!(argument, Node::Text(text) if text == label)),
        _ => false,
    };
    labels
        .iter()
        .copied()
        .find(|label| tree.find(&|node| asks(node, label)).is_some())
}

/// Plans a request. `query` is the PromQL text; the metadata paths have none. Never fails: what
/// cannot be planned is sent as is and says so in a warning.
pub fn plan(endpoint: &Endpoint, query: Option<&str>, options: &PlanOptions) -> Plan {
    let PlanOptions {} = options;
    let text = match (endpoint, query) {
        (Endpoint::Query | Endpoint::QueryRange, Some(text)) => text,
        (Endpoint::Document(document), _) if document.is_of_any_group() => {
            return Plan {
                ask: Ask::AnyGroup,
                ..Plan::new(endpoint, Strategy::Dedup)
            };
        }
        // Without a query every server says the same: bad data.
        _ => return Plan::new(endpoint, Strategy::Dedup),
    };
    match query::parse(text) {
        Ok(tree) => plan_tree(endpoint, text, &tree),
        Err(reason) => {
            Plan::new(endpoint, Strategy::Dedup).warn(Some(PlanWarning::Unplanned { reason }))
        }
    }
}

fn plan_tree(endpoint: &Endpoint, text: &str, tree: &Node) -> Plan {
    let order_matters = *endpoint == Endpoint::Query;
    match (reach(tree, order_matters), tree) {
        (Reach::Constant, _) => Plan {
            ask: Ask::AnyGroup,
            ..Plan::new(endpoint, Strategy::Pick)
        },
        (Reach::PerSeries(traits), _) => {
            let plan = Plan::new(endpoint, Strategy::Dedup);
            match traits.clash {
                Clash::Hidden => plan.warn(Some(PlanWarning::Clash)),
                Clash::Visible => Plan {
                    sharing: Sharing::Always,
                    ..plan
                },
                Clash::None if traits.is_windowed => Plan {
                    sharing: Sharing::Differences,
                    ..plan
                },
                Clash::None => Plan {
                    sharing: Sharing::Conflicts,
                    ..plan
                },
            }
        }
        (Reach::Global, Node::Aggregate(aggregate)) => plan_aggregate(endpoint, text, aggregate),
        (Reach::Global, Node::Binary(binary)) if adds_zero(binary) => match binary.left.as_ref() {
            Node::Aggregate(left) => Plan::new(endpoint, Strategy::Sum).warn(input_warning(left)),
            _ => Plan::new(endpoint, Strategy::Dedup).warn(Some(doubt(tree))),
        },
        (Reach::Global, _) if tree.kind() == Kind::Scalar => {
            Plan::new(endpoint, Strategy::Pick).warn(Some(doubt(tree)))
        }
        (Reach::Global, _) => Plan::new(endpoint, Strategy::Dedup).warn(Some(doubt(tree))),
    }
}

fn plan_aggregate(endpoint: &Endpoint, text: &str, aggregate: &Aggregate) -> Plan {
    let operator = aggregate.operator;
    let strategy = match operator {
        "sum" | "count" | "count_values" => Strategy::Sum,
        "min" => Strategy::Min,
        "max" => Strategy::Max,
        "group" => Strategy::Group,
        "avg" => Strategy::Mean,
        _ => {
            return Plan::new(endpoint, Strategy::Dedup)
                .warn(Some(PlanWarning::Aggregation { operator }));
        }
    };
    let plan = Plan::new(endpoint, strategy).warn(input_warning(aggregate));
    if strategy != Strategy::Mean {
        return plan;
    }
    match (
        with_keyword(text, "avg", "sum"),
        with_keyword(text, "avg", "count"),
    ) {
        (Some(sum), Some(count)) => Plan {
            variants: vec![
                Variant {
                    name: "avg-sum",
                    query: Some(sum),
                },
                Variant {
                    name: "avg-count",
                    query: Some(count),
                },
            ],
            ..plan
        },
        // The keyword is always found: the tree says that the text starts with it.
        _ => Plan::new(endpoint, Strategy::Dedup).warn(Some(PlanWarning::Aggregation { operator })),
    }
}

/// Says why aggregating on each group alone may be wrong, if it may. Nested aggregations are
/// looked for before binary expressions before functions; the first found is named.
fn input_warning(aggregate: &Aggregate) -> Option<PlanWarning> {
    let operator = aggregate.operator;
    let input = &aggregate.input;
    match reach(input, false) {
        Reach::PerSeries(traits) if traits.clash == Clash::None => placement_warning(aggregate),
        Reach::PerSeries(_) => Some(PlanWarning::Clash),
        // Every group would count the constant once.
        Reach::Constant => Some(PlanWarning::Aggregation { operator }),
        Reach::Global => Some(if let Some(inner) = inner_aggregation(input) {
            PlanWarning::NestedAggregation { operator, inner }
        } else if has_vector_binary(input) {
            PlanWarning::BinaryInput { operator }
        } else {
            PlanWarning::FunctionInput {
                operator,
                function: global_function(input),
            }
        }),
    }
}

/// Says why the groups' series may not be disjoint, where adding them up would show.
fn placement_warning(aggregate: &Aggregate) -> Option<PlanWarning> {
    let operator = aggregate.operator;
    if !matches!(operator, "sum" | "count" | "count_values" | "avg") {
        return None;
    }
    let has = |is_wanted: &dyn Fn(&Node) -> bool| aggregate.input.find(is_wanted).is_some();
    if has(&|node| matches!(node, Node::Selector(selector) if selector.takes_any_name())) {
        return Some(PlanWarning::AnyName { operator });
    }
    let is_earlier = |node: &Node| match node {
        Node::Selector(Selector { when, .. }) | Node::Subquery(Subquery { when, .. }) => {
            *when != When::default()
        }
        _ => false,
    };
    has(&is_earlier).then_some(PlanWarning::Earlier { operator })
}

/// Says why a global expression may be wrong when each group computes it alone.
fn doubt(tree: &Node) -> PlanWarning {
    match (inner_aggregation(tree), has_binary(tree)) {
        (Some(_), true) => PlanWarning::AggregationInBinary,
        (Some(operator), false) => PlanWarning::InnerAggregation { operator },
        (None, _) if has_vector_binary(tree) => PlanWarning::VectorBinary,
        (None, _) => PlanWarning::Function {
            function: global_function(tree),
        },
    }
}

/// Whether the expression is `sum|count|count_values(…) or vector(0)` in a form where adding the
/// groups' answers is exact: the zero has no labels, so it adds 0 to the (possibly absent) series
/// without labels and touches no other. With `on` or `ignoring` the zero may be suppressed by any
/// left series, so only an ungrouped aggregation, whose one series has no labels, will do.
fn adds_zero(binary: &Binary) -> bool {
    let Node::Aggregate(left) = binary.left.as_ref() else {
        return false;
    };
    let is_ungrouped = match &left.grouping {
        Grouping::None => true,
        Grouping::Include(labels) => labels.is_empty(),
        Grouping::Exclude(_) => false,
    };
    let matches_safely = match (&binary.matching, left.operator) {
        (Grouping::None, "sum" | "count" | "count_values") => true,
        (_, "sum" | "count") => is_ungrouped,
        _ => false,
    };
    let is_zero = |node: &Node| matches!(node, Node::Number(value) if *value == 0.0);
    binary.operator == "or"
        && matches_safely
        && matches!(binary.right.as_ref(),
            Node::Call { function: "vector", arguments } if arguments.iter().all(is_zero))
}

fn inner_aggregation(tree: &Node) -> Option<&'static str> {
    match tree.find(&|node| matches!(node, Node::Aggregate(_))) {
        Some(Node::Aggregate(aggregate)) => Some(aggregate.operator),
        _ => None,
    }
}

fn has_binary(tree: &Node) -> bool {
    tree.find(&|node| matches!(node, Node::Binary(_))).is_some()
}

fn has_vector_binary(tree: &Node) -> bool {
    let is_wanted = |node: &Node| match node {
        Node::Binary(binary) => {
            binary.kind == OperatorKind::Set
                || (binary.left.kind() == Kind::Vector && binary.right.kind() == Kind::Vector)
        }
        _ => false,
    };
    tree.find(&is_wanted).is_some()
}

/// Returns the innermost function that makes the expression global.
fn global_function(tree: &Node) -> &'static str {
    let children = tree.children();
    let below = children
        .into_iter()
        .find(|child| reach(child, true) == Reach::Global);
    match (below, tree) {
        (Some(child), _) => global_function(child),
        (None, Node::Call { function, .. }) => function,
        (None, _) => "this expression",
    }
}

/// Replaces the leading keyword of an aggregation; parentheses, comments and space before it stay.
fn with_keyword(text: &str, old: &str, new: &str) -> Option<String> {
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'(' => at += 1,
            b'#' => at += text[at..].find('\n')?,
            _ if byte.is_ascii_whitespace() => at += 1,
            _ => break,
        }
    }
    let end = at + old.len();
    let keyword = text.get(at..end)?;
    keyword
        .eq_ignore_ascii_case(old)
        .then(|| format!("{}{new}{}", &text[..at], &text[end..]))
}
