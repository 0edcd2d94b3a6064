//! What of a query the replica groups may evaluate, and how their answers then combine.
//!
//! Contract: time series merge, planner: aggregations that merge over per-series expressions.

use super::inject::Injected;
use super::reach::{Reach, Reacher, Traits};
use super::{Care, Keep, PlanOptions, Sharing};
use crate::query::{Aggregate, Binary, Grouping, Node, OperatorKind, When};
use crate::strategy::Strategy;

pub(super) use super::reach::is_constant;

/// A part that is proven to decompose.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pushed {
    pub(super) strategy: Strategy,
    pub(super) sharing: Sharing,
    pub(super) keeps: Keep,
}

impl Pushed {
    /// The names of its variants, each with the aggregation that stands for the written one.
    pub(super) fn renames(&self) -> &'static [(&'static str, Option<&'static str>)] {
        match self.strategy {
            Strategy::Mean => &[("avg-sum", Some("sum")), ("avg-count", Some("count"))],
            Strategy::Freshest => &[("value", None), ("sample-time", Some("timestamp"))],
            _ => &[("", None)],
        }
    }
}

/// Returns how `node` is left to the groups, if that is exact.
pub(super) fn push(
    node: &Node,
    reacher: &Reacher<'_>,
    options: &PlanOptions,
    injected: &Injected<'_>,
) -> Option<Pushed> {
    if options.fetches_only || options.care >= Care::Samples || !injected.allows(node) {
        return None;
    }
    match (reacher.reach(node), node) {
        (Reach::PerSeries(traits), _) => per_series(node, traits),
        (Reach::Global, Node::Aggregate(aggregate)) => {
            push_aggregate(aggregate, reacher, options, injected)
        }
        (Reach::Global, Node::Binary(binary)) if adds_zero(binary) => match binary.left.as_ref() {
            Node::Aggregate(left) => push_aggregate(left, reacher, options, injected),
            _ => None,
        },
        _ => None,
    }
}

fn per_series(node: &Node, traits: Traits) -> Option<Pushed> {
    if traits.has_clash {
        return None;
    }
    let sharing = match (traits.is_joint, traits.is_windowed) {
        (true, _) => Sharing::Always,
        (false, true) => Sharing::Differences,
        (false, false) => Sharing::Conflicts,
    };
    // Aggregations and reduced matches leave no series that a label could belong to.
    let reduces = |node: &Node| match node {
        Node::Aggregate(aggregate) => !aggregate.keeps_series(),
        Node::Binary(binary) => {
            binary.kind != OperatorKind::Set && matches!(binary.matching, Grouping::Include(_))
        }
        _ => false,
    };
    let keeps = match node.find(&reduces) {
        Some(_) => Keep::Nothing,
        None => Keep::All,
    };
    Some(Pushed {
        strategy: Strategy::Dedup,
        sharing,
        keeps,
    })
}

fn push_aggregate(
    aggregate: &Aggregate,
    reacher: &Reacher<'_>,
    options: &PlanOptions,
    injected: &Injected<'_>,
) -> Option<Pushed> {
    let is_careful = options.care >= Care::Aggregates;
    let strategy = match aggregate.operator {
        "sum" if !is_careful => Strategy::Sum,
        "min" if !is_careful => Strategy::Min,
        "max" if !is_careful => Strategy::Max,
        "avg" if !is_careful => Strategy::Mean,
        "count" | "count_values" => Strategy::Sum,
        "group" => Strategy::Group,
        _ => return None,
    };
    let is_apart = match reacher.unordered().reach(&aggregate.input) {
        Reach::PerSeries(traits) => !traits.has_clash,
        _ => false,
    };
    let has_constant = aggregate.parameter.as_deref().is_none_or(is_constant);
    let is_placed = !is_additive(strategy) || !is_shared(&aggregate.input, options.may_share);
    (is_apart && has_constant && is_placed).then(|| Pushed {
        strategy,
        sharing: Sharing::Ignored,
        keeps: injected.grouped_by(&aggregate.grouping),
    })
}

fn is_additive(strategy: Strategy) -> bool {
    matches!(strategy, Strategy::Sum | Strategy::Mean)
}

/// Whether several groups may have a series that `input` reads, which adding up would count more
/// than once. Servers hold series about themselves and their targets (`up`, `scrape_…`) that are
/// often the same everywhere, so series of any name are suspect; and where series move, what
/// reaches back with `offset` or `@` is: groups are known to be disjoint now, not then.
fn is_shared(input: &Node, may_share: bool) -> bool {
    let is_suspect = |node: &Node| match node {
        Node::Selector(selector) => {
            selector.takes_any_name() || (may_share && selector.when != When::default())
        }
        Node::Subquery(subquery) => may_share && subquery.when != When::default(),
        _ => false,
    };
    input.find(&is_suspect).is_some()
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
