//! Cuts a query into parts that the servers evaluate and an expression over them that is
//! evaluated here.
//!
//! Top-down: a sub-tree that decomposes ([`push`]) becomes one part, everything else is taken
//! apart further, down to selectors and the raw samples of their ranges.

use std::ops::Range;
use std::time::Duration;

use super::info::{info_arguments, is_at_another_time};
use super::inject::Injected;
use super::push::{Pushed, push};
use super::reach::Reacher;
use super::{
    Ask, Care, Clock, Dialect, Endpoint, Grid, Keep, Plan, PlanOptions, STEPS_MAX, Sharing,
    Variant, Window,
};
use crate::eval::value::Windows;
use crate::limits::WINDOWS_MAX;
use crate::query::check::is_plain;
use crate::query::{Aggregate, Grouping, Kind, Node, Selector, Subquery, When, milliseconds};
use crate::strategy::Strategy;

/// What is evaluated here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Local {
    /// The expression; its leaves are [`Node::Part`]s, which are sources, and constants.
    pub(crate) tree: Node,
    /// The query as it was written.
    pub(crate) text: String,
    pub(crate) sources: Vec<Source>,
    pub(crate) parts: Vec<Part>,
    /// The part that asks whether a server accepts the query as it was written.
    pub(crate) check: Option<usize>,
    pub(crate) clock: Clock,
    /// Whether the answer is a vector or scalar at one time.
    pub(crate) is_instant: bool,
}

/// What the groups are asked, and how their answers to it combine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub(crate) plan: Plan,
    /// Index of the part's first variant among all variants.
    pub(crate) first_variant: usize,
}

/// One leaf of the expression: what its parts, consecutive in time, were answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Source {
    pub(crate) parts: Range<usize>,
    /// Of raw samples.
    pub(crate) windows: Option<Windows>,
    /// How many steps it stands on; 0 of raw samples.
    pub(crate) steps: usize,
    /// Whether the groups aggregate: the order of the series is then not that of one server.
    pub(crate) is_aggregated: bool,
    /// Whether `@` ties it to one time.
    pub(crate) is_fixed: bool,
    /// Why no more than this is left to the servers.
    pub(crate) why: String,
}

/// Plans `tree`, whose text is given too.
pub(super) fn split(
    endpoint: &Endpoint,
    (text, tree): (&str, &Node),
    clock: Clock,
    reacher: Reacher<'_>,
    (options, injected): (&PlanOptions, &Injected<'_>),
) -> Plan {
    let is_instant = *endpoint == Endpoint::Query;
    let mut splitter = Splitter {
        clock,
        reacher,
        options,
        injected,
        sources: Vec::new(),
        parts: Vec::new(),
        variants: 0,
        is_instant,
        why: "nothing is left to the servers".to_owned(),
        windows: 0,
        undecided: false,
        is_rounded: false,
        is_ordered: false,
    };
    let local = splitter.root(tree);
    let check = (!is_plain(text, tree)).then(|| splitter.check());
    let mut plan = Plan::new(endpoint, Strategy::Dedup);
    if splitter.undecided {
        let label = super::label_asked_for(text, &injected.names());
        plan.warnings
            .extend(label.map(|label| super::PlanWarning::InjectedLabel {
                label: label.to_owned(),
            }));
    }
    if is_at_another_time(tree) {
        plan.warnings.push(super::PlanWarning::InfoAtAnotherTime);
    }
    if splitter.windows > WINDOWS_MAX {
        plan.variants.clear();
        plan.refusal = Some(format!(
            "the steps of its subqueries take {} range requests, more than {WINDOWS_MAX}: {}; \
             a larger step needs fewer",
            splitter.windows, splitter.why
        ));
        return plan;
    }
    let variants = splitter.parts.iter();
    plan.variants = variants
        .flat_map(|part| part.plan.variants.clone())
        .collect();
    plan.local = Some(Box::new(Local {
        tree: local,
        text: text.to_owned(),
        sources: splitter.sources,
        parts: splitter.parts,
        check,
        clock,
        is_instant,
    }));
    plan
}

struct Splitter<'o> {
    clock: Clock,
    reacher: Reacher<'o>,
    options: &'o PlanOptions,
    injected: &'o Injected<'o>,
    sources: Vec<Source>,
    parts: Vec<Part>,
    variants: usize,
    is_instant: bool,
    /// The operation that made the last cut.
    why: String,
    /// Requests so far.
    windows: usize,
    /// A matcher on a label that only ringway knows could not be decided.
    undecided: bool,
    /// Below an operation that makes the last bits of a number count.
    is_rounded: bool,
    /// Below an aggregation that chooses among equal values by the order of series: sorting is done
    /// here, and in a careful plan nothing else changes the order either.
    is_ordered: bool,
}

/// Whether the operation may turn a difference in the last bits of its operand into another
/// result as a matter of course: sums are then added up here, in the order of one server. Where
/// that is rare it is looked for when it is evaluated ([`crate::eval::tie`]).
fn rounds(node: &Node, dialect: Dialect) -> bool {
    match node {
        // The topmost bucket that differs from the one below it, by however little. Later versions
        // look past such differences.
        Node::Call {
            function: "histogram_quantile",
            arguments,
        } if !dialect.is_at_least(2, 49) => {
            // Of a rank that is computed nobody knows before.
            !matches!(arguments.as_slice(), [Node::Number(rank), _] if *rank != 1.0)
        }
        Node::Call { function, .. } => {
            matches!(*function, "round" | "floor" | "ceil" | "changes" | "resets")
                || (function.starts_with("ts_of_") && adds_up(node))
        }
        Node::Aggregate(aggregate) => aggregate.operator == "count_values",
        Node::Binary(binary) => match binary.operator.as_str() {
            "%" => true,
            // Two sums that are equal on one server must be equal here.
            "-" | "==" | "!=" => adds_up(&binary.left) && adds_up(&binary.right),
            _ => false,
        },
        _ => false,
    }
}

/// Whether it chooses some of its series by their order. `limit_ratio` goes by their labels.
fn chooses(node: &Node) -> bool {
    let chooses =
        |aggregate: &Aggregate| aggregate.keeps_series() && aggregate.operator != "limit_ratio";
    matches!(node, Node::Aggregate(aggregate) if chooses(aggregate))
}

fn sorts(node: &Node) -> bool {
    let is_one =
        |node: &Node| matches!(node, Node::Call { function, .. } if function.starts_with("sort"));
    node.find(&is_one).is_some()
}

fn aggregates(node: &Node) -> bool {
    let is_one = |node: &Node| matches!(node, Node::Aggregate(_));
    node.find(&is_one).is_some()
}

/// Whether numbers of several series are added up in it.
fn adds_up(node: &Node) -> bool {
    let is_sum = |node: &Node| {
        matches!(
            node,
            Node::Aggregate(Aggregate {
                operator: "sum" | "avg",
                ..
            })
        )
    };
    node.find(&is_sum).is_some()
}

/// Whether only the presence of series counts.
fn is_count(aggregate: &Aggregate) -> bool {
    matches!(aggregate.operator, "count" | "group") && matches!(*aggregate.input, Node::Selector(_))
}

impl Splitter<'_> {
    /// The outermost expression. Of an aggregation by other than listed labels, those that ringway
    /// adds do not appear.
    fn root(&mut self, tree: &Node) -> Node {
        let grid = self.clock.grid;
        let mut made = self.node(tree, &grid);
        if let Node::Aggregate(aggregate) = &mut made
            && !aggregate.keeps_series()
            && let Grouping::Exclude(gone) = &mut aggregate.grouping
        {
            gone.extend(self.injected.names().into_iter().map(str::to_owned));
        }
        made
    }

    fn node(&mut self, node: &Node, grid: &Grid) -> Node {
        let outer = (self.is_rounded, self.is_ordered);
        if let Some(part) = self.pushed(node, grid) {
            return part;
        }
        self.is_rounded |= rounds(node, self.clock.dialect);
        self.is_ordered |= chooses(node);
        let made = self.taken_apart(node, grid);
        (self.is_rounded, self.is_ordered) = outer;
        made
    }

    fn taken_apart(&mut self, node: &Node, grid: &Grid) -> Node {
        match node {
            Node::Selector(Selector {
                range: Some(range),
                when,
                ..
            }) => self.raw(node, grid, milliseconds(*range), *when),
            Node::Selector(selector) => {
                let strategy = match self.options.care {
                    Care::Samples if selector.name().is_some() => Strategy::Freshest,
                    _ => Strategy::Dedup,
                };
                self.fetch(node, strategy, grid)
            }
            Node::Subquery(subquery) => {
                let inner = self.clock.inner(subquery, grid);
                Node::Subquery(Subquery {
                    input: Box::new(self.node(&subquery.input, &inner)),
                    ..subquery.clone()
                })
            }
            Node::Call {
                function,
                arguments,
            } => self.call(function, arguments, grid),
            Node::Aggregate(aggregate) if is_count(aggregate) => {
                // Values that groups disagree on do not matter.
                let mut aggregate = aggregate.clone();
                *aggregate.input = self.fetch(&aggregate.input, Strategy::Group, grid);
                Node::Aggregate(aggregate)
            }
            Node::Aggregate(aggregate) => {
                let why = format!(
                    "{} needs its series of all groups at once",
                    aggregate.operator
                );
                let mut aggregate = aggregate.clone();
                if let Some(parameter) = &mut aggregate.parameter {
                    **parameter = self.below(&why, parameter, grid);
                }
                *aggregate.input = self.below(&why, &aggregate.input, grid);
                Node::Aggregate(aggregate)
            }
            Node::Binary(binary) => {
                let why = format!("{} may match series of different groups", binary.operator);
                let mut binary = binary.clone();
                *binary.left = self.below(&why, &binary.left, grid);
                *binary.right = self.below(&why, &binary.right, grid);
                Node::Binary(binary)
            }
            Node::Negate(input) => Node::Negate(Box::new(self.node(input, grid))),
            Node::Number(_) | Node::Text(_) | Node::Part { .. } => node.clone(),
        }
    }

    /// What is below an operation that is evaluated here for the reason `why`.
    fn below(&mut self, why: &str, node: &Node, grid: &Grid) -> Node {
        why.clone_into(&mut self.why);
        self.node(node, grid)
    }

    fn call(&mut self, function: &'static str, arguments: &[Node], grid: &Grid) -> Node {
        // When a sample was taken is only known where it lies.
        if function == "timestamp" && matches!(arguments, [Node::Selector(_)]) {
            let node = Node::Call {
                function,
                arguments: arguments.to_vec(),
            };
            // Of a series in several groups, the latest sample counts.
            return self.fetch(&node, Strategy::Max, grid);
        }
        let why = match function.starts_with("label_") {
            true => format!("{function}() may make series of different groups alike"),
            false => format!("{function}() is evaluated over all groups"),
        };
        why.clone_into(&mut self.why);
        let is_absent = matches!(function, "absent" | "absent_over_time");
        if is_absent && let [argument] = arguments {
            let made = match self.presence(argument, grid) {
                Some(presence) => presence,
                None => self.below(&why, argument, grid),
            };
            return Node::Call {
                function,
                arguments: vec![made, argument.clone()],
            };
        }
        let given = match function {
            "info" => info_arguments(arguments),
            _ => arguments.to_vec(),
        };
        let mut made: Vec<Node> = given
            .iter()
            .map(|argument| self.below(&why, argument, grid))
            .collect();
        if function == "info" {
            // What its matchers say of the labels is needed beside what they select.
            made.extend(arguments.get(1).cloned());
        }
        Node::Call {
            function,
            arguments: made,
        }
    }

    /// Asks whether there is any sample, where that is all that counts.
    fn presence(&mut self, argument: &Node, grid: &Grid) -> Option<Node> {
        let input = match argument.kind() {
            Kind::Matrix => Node::Call {
                // Unlike most functions it keeps the metric name, so that no two series clash.
                function: "last_over_time",
                arguments: vec![argument.clone()],
            },
            _ => argument.clone(),
        };
        let any = Node::Aggregate(Aggregate {
            operator: "group",
            grouping: Grouping::None,
            parameter: None,
            input: Box::new(input),
        });
        self.pushed(&any, grid)
    }

    // === parts ===

    /// The part that asks for `node` at the steps of `grid`, if the groups may evaluate it.
    fn pushed(&mut self, node: &Node, grid: &Grid) -> Option<Node> {
        let is_leaf = matches!(node, Node::Number(_) | Node::Text(_) | Node::Part { .. });
        let is_careful = self.options.care >= Care::Aggregates;
        let changes_order = sorts(node) || (is_careful && aggregates(node));
        if is_leaf || node.kind() == Kind::Matrix || (self.is_ordered && changes_order) {
            return None;
        }
        let pushed = push(node, &self.reacher, self.options, self.injected)?;
        if self.is_rounded && matches!(pushed.strategy, Strategy::Sum | Strategy::Mean) {
            let counts = |node: &Node| matches!(node, Node::Aggregate(aggregate) if aggregate.operator.starts_with("count"));
            node.find(&counts)?;
        }
        let pushed = self.injected.as_operand(node, pushed);
        let is_zero_added = matches!(node, Node::Binary(_)) && pushed.strategy == Strategy::Sum;
        if is_zero_added && self.injected.is_asked_for(node) {
            return None;
        }
        self.part(node, &pushed, grid)
    }

    fn fetch(&mut self, node: &Node, strategy: Strategy, grid: &Grid) -> Node {
        let pushed = Pushed {
            strategy,
            sharing: Sharing::Conflicts,
            keeps: Keep::All,
        };
        let part = self.part(node, &pushed, grid);
        part.unwrap_or_else(|| {
            self.undecided = true;
            node.clone()
        })
    }

    fn part(&mut self, node: &Node, pushed: &Pushed, grid: &Grid) -> Option<Node> {
        let mut windows = Vec::new();
        if *grid == self.clock.grid && self.is_instant {
            windows.push(Window::Instant(grid.start_ms));
        } else {
            for first in (0..grid.count).step_by(STEPS_MAX).take(WINDOWS_MAX + 1) {
                windows.push(Window::Range(Grid {
                    start_ms: grid.time(first),
                    count: (grid.count - first).min(STEPS_MAX),
                    ..*grid
                }));
            }
        }
        let index = self.ask(node, pushed, &windows, None, grid.count)?;
        Some(Node::Part {
            index,
            kind: node.kind(),
        })
    }

    /// Asks for all samples that the windows of `node` on `grid` hold.
    fn raw(&mut self, node: &Node, grid: &Grid, range_ms: i64, when: When) -> Node {
        let windows = Windows {
            clock: self.clock,
            when,
            range_ms,
        };
        let (first, _) = windows.at(grid.start_ms);
        let (_, last) = windows.at(grid.end_ms());
        let Node::Selector(selector) = node else {
            return node.clone();
        };
        let whole = Node::Selector(Selector {
            // One millisecond more, for windows that are open on the left.
            range: Some(Duration::from_millis((last - first + 1).unsigned_abs())),
            when: When::default(),
            ..selector.clone()
        });
        let pushed = Pushed {
            strategy: Strategy::Dedup,
            sharing: Sharing::Conflicts,
            keeps: Keep::All,
        };
        let times = [Window::Instant(last)];
        let times = if grid.count == 0 { &[] } else { &times[..] };
        match self.ask(&whole, &pushed, times, Some(windows), 0) {
            Some(index) => Node::Part {
                index,
                kind: Kind::Matrix,
            },
            None => {
                self.undecided = true;
                node.clone()
            }
        }
    }

    /// Adds a source; parts that are asked for already are shared.
    fn ask(
        &mut self,
        node: &Node,
        pushed: &Pushed,
        times: &[Window],
        windows: Option<Windows>,
        steps: usize,
    ) -> Option<usize> {
        let variants = self
            .injected
            .variants(node, pushed, &self.clock)
            .or_else(|| {
                // Asked for as it is: a label that the servers do not have.
                self.undecided = true;
                Injected::new(&[]).variants(node, pushed, &self.clock)
            })?;
        let ask = variants.first().map(|variant| variant.ask.clone())?;
        let is_pruned = ask == Ask::Groups(Vec::new());
        let plans: Vec<Plan> = times
            .iter()
            .filter(|_| !is_pruned)
            .map(|window| Plan {
                settles_sharing: self.options.may_share,
                ..plan_of(&variants, pushed, &ask, *window)
            })
            .collect();
        let count = plans.len();
        let known = (0..self.parts.len().saturating_sub(count.max(1) - 1)).find(|first| {
            count > 0
                && self.parts[*first..*first + count]
                    .iter()
                    .zip(&plans)
                    .all(|(part, plan)| part.plan == *plan)
        });
        let first = known.unwrap_or(self.parts.len());
        if known.is_none() {
            self.windows += count;
            if self.windows > WINDOWS_MAX {
                return Some(0);
            }
            for plan in plans {
                let first_variant = self.variants;
                self.variants += plan.variants.len();
                self.parts.push(Part {
                    plan,
                    first_variant,
                });
            }
        }
        let source = Source {
            parts: first..first + count,
            windows,
            steps,
            is_aggregated: aggregates(node),
            is_fixed: match windows {
                Some(windows) => windows.when.at.is_some(),
                None => node.is_fixed(&|_| false),
            },
            why: self.why.clone(),
        };
        let same = self.sources.iter().position(|known| {
            (&known.parts, known.windows, known.steps)
                == (&source.parts, source.windows, source.steps)
        });
        Some(same.unwrap_or_else(|| {
            self.sources.push(source);
            self.sources.len() - 1
        }))
    }

    /// Asks any group for the query as it was written, where it costs little: at the beginning of
    /// time. Servers word a refusal by the endpoint. Returns the part's index.
    fn check(&mut self) -> usize {
        let (endpoint, window) = match self.is_instant {
            true => (Endpoint::Query, Window::Instant(0)),
            false => (Endpoint::QueryRange, Window::Range(Grid::instant(0))),
        };
        let mut plan = Plan::pick(&endpoint);
        plan.variants[0].name = "check";
        plan.variants[0].window = Some(window);
        let first_variant = self.variants;
        self.variants += 1;
        self.parts.push(Part {
            plan,
            first_variant,
        });
        self.parts.len() - 1
    }
}

fn plan_of(variants: &[Variant], pushed: &Pushed, ask: &Ask, window: Window) -> Plan {
    let endpoint = match window {
        Window::Instant(_) => Endpoint::Query,
        Window::Range(_) => Endpoint::QueryRange,
    };
    let mut plan = Plan::new(&endpoint, pushed.strategy).with_keeps(pushed.keeps.clone());
    plan.sharing = pushed.sharing;
    plan.ask = ask.clone();
    plan.variants = variants.to_vec();
    for variant in &mut plan.variants {
        variant.window = Some(window);
    }
    plan
}
