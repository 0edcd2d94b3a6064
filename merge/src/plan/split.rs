//! Cuts a query into parts that the servers evaluate and an expression over them that is
//! evaluated here.

use super::{Clock, Endpoint, Grid, Plan, PlanOptions, Variant, Window};
use crate::eval::value::Windows;
use crate::query::print::print;
use crate::query::{Kind, MatchOperator, Matcher, Node, Selector, Subquery, When, milliseconds};
use crate::strategy::Strategy;

/// What is evaluated here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Local {
    /// The expression; its leaves are [`Node::Part`]s and constants.
    pub(crate) tree: Node,
    pub(crate) parts: Vec<Part>,
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
    /// Of raw samples.
    pub(crate) windows: Option<Windows>,
}

/// Plans `tree`; `None` where it is asked for as a whole.
pub(super) fn split(
    endpoint: &Endpoint,
    tree: &Node,
    clock: Clock,
    options: &PlanOptions,
) -> Option<Plan> {
    if !options.fetches_only {
        return None;
    }
    let mut splitter = Splitter {
        clock,
        parts: Vec::new(),
        variants: 0,
        is_instant: *endpoint == Endpoint::Query,
    };
    let tree = splitter.node(tree, &clock.grid);
    let variants = splitter
        .parts
        .iter()
        .flat_map(|part| part.plan.variants.clone());
    Some(Plan {
        variants: variants.collect(),
        local: Some(Box::new(Local {
            tree,
            parts: splitter.parts,
            clock,
            is_instant: *endpoint == Endpoint::Query,
        })),
        ..Plan::new(endpoint, Strategy::Dedup)
    })
}

struct Splitter {
    clock: Clock,
    parts: Vec<Part>,
    variants: usize,
    is_instant: bool,
}

impl Splitter {
    fn node(&mut self, node: &Node, grid: &Grid) -> Node {
        let is_timestamp = matches!(node, Node::Call { function: "timestamp", arguments }
            if matches!(arguments.as_slice(), [Node::Selector(_)]));
        if is_timestamp {
            return self.part(node, grid);
        }
        match node {
            Node::Selector(Selector {
                range: Some(range),
                when,
                ..
            }) => {
                let range_ms = milliseconds(*range);
                self.raw(node, grid, range_ms, *when)
            }
            Node::Selector(_) => self.part(node, grid),
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
            } => {
                let asked = match *function {
                    "info" => info_arguments(arguments),
                    _ => arguments.clone(),
                };
                let mut made: Vec<Node> = asked
                    .iter()
                    .map(|argument| self.node(argument, grid))
                    .collect();
                match *function {
                    "absent" | "absent_over_time" => {
                        made.truncate(1);
                        made.extend(arguments.first().cloned());
                    }
                    "info" => made.extend(arguments.get(1).cloned()),
                    _ => {}
                }
                Node::Call {
                    function,
                    arguments: made,
                }
            }
            Node::Aggregate(aggregate) => {
                let mut aggregate = aggregate.clone();
                if let Some(parameter) = &mut aggregate.parameter {
                    **parameter = self.node(parameter, grid);
                }
                *aggregate.input = self.node(&aggregate.input, grid);
                Node::Aggregate(aggregate)
            }
            Node::Binary(binary) => {
                let mut binary = binary.clone();
                *binary.left = self.node(&binary.left, grid);
                *binary.right = self.node(&binary.right, grid);
                Node::Binary(binary)
            }
            Node::Negate(input) => Node::Negate(Box::new(self.node(input, grid))),
            Node::Number(_) | Node::Text(_) | Node::Part { .. } => node.clone(),
        }
    }

    /// Asks for `node` at the steps of `grid`.
    fn part(&mut self, node: &Node, grid: &Grid) -> Node {
        let is_request = *grid == self.clock.grid;
        let window = match is_request && self.is_instant {
            true => Window::Instant(grid.start_ms),
            false => Window::Range(*grid),
        };
        self.ask(node, window, None)
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
            range: Some(std::time::Duration::from_millis(
                (last - first + 1).unsigned_abs(),
            )),
            when: When::default(),
            ..selector.clone()
        });
        self.ask(&whole, Window::Instant(last), Some(windows))
    }

    fn ask(&mut self, node: &Node, window: Window, windows: Option<Windows>) -> Node {
        let endpoint = match window {
            Window::Instant(_) => Endpoint::Query,
            Window::Range(_) => Endpoint::QueryRange,
        };
        let mut plan = Plan::new(&endpoint, Strategy::Dedup);
        plan.variants = vec![Variant {
            name: "",
            query: Some(print(node, &self.clock)),
            window: Some(window),
        }];
        let first_variant = self.variants;
        self.variants += plan.variants.len();
        self.parts.push(Part {
            plan,
            first_variant,
            windows,
        });
        let kind = if windows.is_some() {
            Kind::Matrix
        } else {
            node.kind()
        };
        Node::Part {
            index: self.parts.len() - 1,
            kind,
        }
    }
}

/// The arguments of `info` as they are fetched: the info series, `target_info` where no other are
/// named, at the time of the first selector of the vector. Of one metric the times of the samples
/// are asked for, since the newest one counts.
fn info_arguments(arguments: &[Node]) -> Vec<Node> {
    let mut selector = match arguments.get(1) {
        Some(Node::Selector(selector)) => selector.clone(),
        _ => Selector {
            matchers: Vec::new(),
            has_alternatives: false,
            range: None,
            when: When::default(),
        },
    };
    let is_name = |matcher: &&Matcher| matcher.label == "__name__";
    if !selector.matchers.iter().any(|matcher| is_name(&matcher)) {
        selector.matchers.push(Matcher {
            label: "__name__".to_owned(),
            operator: MatchOperator::Equal,
            value: "target_info".to_owned(),
        });
    }
    let input = arguments.first();
    let first = input.and_then(|input| input.find(&|node| matches!(node, Node::Selector(_))));
    if let Some(Node::Selector(first)) = first {
        selector.when = first.when;
    }
    let mut names = selector.matchers.iter().filter(is_name);
    let has_one_name = names.any(|matcher| matcher.operator == MatchOperator::Equal);
    let mut infos = Node::Selector(selector);
    if has_one_name {
        infos = Node::Call {
            function: "timestamp",
            arguments: vec![infos],
        };
    }
    input.cloned().into_iter().chain([infos]).collect()
}
