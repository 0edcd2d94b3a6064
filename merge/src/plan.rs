//! From a request to a plan: what each replica group is asked, how answers combine, what is
//! evaluated here, and whether the result is provably what one server would say.
//!
//! Owns the decision table of the contract (time series merge, planner): a query that decomposes
//! as a whole is sent as it came ([`push`]); any other is cut into parts that do, and the rest is
//! evaluated here ([`split`]). What is not understood is sent as is and says so (decision 25).
//! Called once per request; calls [`crate::query`].

mod dialect;
mod explain;
mod grid;
mod info;
mod inject;
mod push;
mod reach;
mod split;
#[cfg(test)]
mod tests;
mod variant;
mod warning;

use crate::document::Document;
use crate::query::{self, Grouping, Kind, Node};
use crate::strategy::Strategy;
pub use dialect::Dialect;
pub use explain::Explanation;
pub use grid::{Clock, Grid};
use inject::Injected;
use push::{Pushed, is_constant, push};
use reach::Reacher;
pub(crate) use split::{Local, Part};
pub use variant::{Ask, Variant, Window};
pub use warning::PlanWarning;

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

/// What the planner may assume.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PlanOptions {
    /// The times of the request; without them nothing is evaluated here.
    pub clock: Option<Clock>,
    /// Selectors alone are asked for, and everything else is evaluated here.
    pub fetches_only: bool,
    /// There is one replica group: it may be asked for anything as it came.
    pub is_one_group: bool,
    /// Labels that say in which group a series lies (`alb.tsm.partition_labels`).
    pub partition_labels: Vec<String>,
    /// Labels that ringway adds to the answers of a group, by group: those that all of its members
    /// add alike.
    pub injected_labels: Vec<Vec<(String, String)>>,
    /// Series may lie in several groups: some have moved, or stay in two. Then no sum reaches
    /// back in time on the groups, and what turns out to be shared asks for a second plan.
    pub may_share: bool,
    /// What is not left to the servers: more in a second plan for a request whose first asked for
    /// one ([`crate::Merged::retry`]).
    pub care: Care,
}

/// How much is left to the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Care {
    /// All that decomposes.
    #[default]
    Usual,
    /// No aggregation that native histograms, infinite sums or zeros of both signs could spoil.
    Aggregates,
    /// Selectors alone, and of several groups' samples the latest.
    Samples,
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

/// Which of the labels that ringway adds to a group's answers appear in a plan's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Keep {
    All,
    Nothing,
    /// Those that the aggregation groups by.
    Listed(Vec<String>),
}

/// What each replica group is asked and how the answers combine.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The cross-group rule.
    pub strategy: Strategy,
    /// The requests that each member gets: one, or two for `avg`; of a plan that is evaluated
    /// here, those of all its parts.
    pub variants: Vec<Variant>,
    /// Which groups are needed. Of a plan that is evaluated here, each variant says it.
    pub ask: Ask,
    /// When set, the members' injected labels do not appear in the answer.
    pub strips_injected_labels: bool,
    /// Why the answer may differ from one server's; empty when it provably does not. They do not
    /// apply to a pool of one group, and [`crate::Merge`] then leaves them out.
    pub warnings: Vec<PlanWarning>,
    /// Why nobody is asked: the answer is this error.
    pub refusal: Option<String>,
    pub(crate) endpoint: Endpoint,
    pub(crate) sharing: Sharing,
    /// Whether series that turn out to be shared ask for a second plan.
    pub(crate) settles_sharing: bool,
    pub(crate) keeps: Keep,
    /// What is evaluated here, over the merged answers of parts; `variants` are then all parts'.
    pub(crate) local: Option<Box<Local>>,
}

impl Plan {
    /// Returns whether a pool with one live member and no missing group may be answered by plain
    /// proxying: nothing is rewritten. The caller also sees to injected labels: a bypassed member
    /// must have none, or `strips_injected_labels` must be set.
    pub fn may_bypass(&self) -> bool {
        let is_whole = |variant: &Variant| variant.query.is_none() && variant.window.is_none();
        self.local.is_none() && self.variants.iter().all(is_whole)
    }

    /// Returns whether anything is evaluated here.
    pub fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Returns whether windows of time are evaluated here. Versions differ in what a window holds.
    pub fn evaluates_windows(&self) -> bool {
        self.local.as_ref().is_some_and(|local| {
            let is_raw = local.sources.iter().any(|source| source.windows.is_some());
            let is_subquery = |node: &Node| matches!(node, Node::Subquery(_));
            is_raw || local.tree.find(&is_subquery).is_some()
        })
    }

    fn new(endpoint: &Endpoint, strategy: Strategy) -> Self {
        Self {
            strategy,
            variants: vec![Variant::default()],
            ask: Ask::EveryGroup,
            strips_injected_labels: strategy != Strategy::Dedup,
            warnings: Vec::new(),
            refusal: None,
            endpoint: endpoint.clone(),
            sharing: Sharing::Ignored,
            settles_sharing: false,
            keeps: match strategy {
                Strategy::Dedup => Keep::All,
                _ => Keep::Nothing,
            },
            local: None,
        }
    }

    fn with_keeps(self, keeps: Keep) -> Self {
        Self {
            strips_injected_labels: keeps == Keep::Nothing,
            keeps,
            ..self
        }
    }

    fn warn(mut self, warning: PlanWarning) -> Self {
        self.warnings.push(warning);
        self
    }

    /// Any group's answer to the request as it came.
    fn pick(endpoint: &Endpoint) -> Self {
        Self::new(endpoint, Strategy::Pick).asking(Ask::AnyGroup)
    }

    fn asking(mut self, ask: Ask) -> Self {
        for variant in &mut self.variants {
            variant.ask = ask.clone();
        }
        self.ask = ask;
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

/// Most steps that the servers give in one answer: they refuse more than 11,000 from the first on.
pub(crate) const STEPS_MAX: usize = 11_001;

/// Plans a request. `query` is the PromQL text; the metadata paths have none. Never fails: what
/// cannot be planned is sent as is and says so in a warning.
pub fn plan(endpoint: &Endpoint, query: Option<&str>, options: &PlanOptions) -> Plan {
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
    let unplanned = |reason: String| {
        Plan::new(endpoint, Strategy::Dedup).warn(PlanWarning::Unplanned { reason })
    };
    let tree = match query::parse(text).and_then(|tree| query::check::check(&tree).map(|()| tree)) {
        Ok(tree) => tree,
        Err(reason) => return unplanned(reason),
    };
    let is_range = *endpoint == Endpoint::QueryRange;
    if options.is_one_group && !options.fetches_only {
        return Plan::new(endpoint, Strategy::Dedup);
    }
    if is_constant(&tree) {
        return Plan::pick(endpoint);
    }
    // What every server refuses. One that does not speaks for itself.
    let is_wide = |clock: Clock| clock.grid.count > STEPS_MAX;
    let has_no_range = is_range && matches!(tree.kind(), Kind::Matrix | Kind::Text);
    if has_no_range || options.clock.is_some_and(is_wide) {
        return Plan {
            ask: Ask::AnyGroup,
            ..unplanned("servers refuse such a range query".to_owned())
        };
    }
    let injected = Injected::new(&options.injected_labels);
    let reacher = Reacher {
        partition: &options.partition_labels,
        injected: injected.apart(),
        order_matters: !is_range,
    };
    if let Some(pushed) = push(&tree, &reacher, options, &injected)
        && let Some(plan) = whole(endpoint, text, &tree, pushed, (options, &injected))
    {
        return plan;
    }
    match options.clock {
        Some(clock) => split::split(
            endpoint,
            (text, &tree),
            clock,
            reacher,
            (options, &injected),
        ),
        None => unplanned("the times of the request are not known".to_owned()),
    }
}

/// A query that is sent as it came, or with another keyword; labels that only ringway knows are
/// taken out of it.
fn whole(
    endpoint: &Endpoint,
    text: &str,
    tree: &Node,
    pushed: Pushed,
    (options, injected): (&PlanOptions, &Injected<'_>),
) -> Option<Plan> {
    let mut plan = Plan::new(endpoint, pushed.strategy).with_keeps(pushed.keeps.clone());
    plan.sharing = pushed.sharing;
    plan.settles_sharing = options.may_share;
    plan.variants = Vec::new();
    for (name, operator) in pushed.renames() {
        let query = match operator {
            None => None,
            // The keyword is always found: the tree says that the text starts with it.
            Some(operator) => Some(with_keyword(text, "avg", operator)?),
        };
        plan.variants.push(Variant {
            name,
            query,
            ..Variant::default()
        });
    }
    if injected.is_asked_for(tree) {
        let clock = options.clock?;
        let is_zero_added = matches!(tree, Node::Binary(_)) && pushed.strategy == Strategy::Sum;
        let made = injected.variants(tree, &pushed, &clock)?;
        if is_zero_added && made.iter().any(|variant| variant.ask != Ask::EveryGroup) {
            return None;
        }
        for (variant, made) in plan.variants.iter_mut().zip(made) {
            variant.by_group = made.by_group;
            variant.ask = made.ask;
        }
        plan.ask = plan.variants[0].ask.clone();
        if plan.ask == Ask::Groups(Vec::new()) {
            return None;
        }
    }
    Some(plan)
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
