//! Whether an expression may be evaluated on each replica group alone.
//!
//! The question, for disjoint sets of series: is `f(union) == union of f(parts)`? [`Reacher`]
//! answers it for a tree by walking it once. What it cannot prove is [`Reach::Global`].
//!
//! Series whose group follows from their labels (`alb.tsm.partition_labels`, or the labels that
//! ringway adds to a group's answers) let more be proved: what keeps those labels apart never
//! brings series of two groups together.

use crate::query::{Aggregate, Binary, Cardinality, Grouping, Kind, Node};
use crate::query::{OperatorKind, Selector};

/// How far an expression's value depends on more than one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Reads no series: every server says the same.
    Constant,
    /// Each output series depends on series of one replica group, mostly on one.
    PerSeries(Traits),
    /// Depends on several series, or cannot be shown not to.
    Global,
}

/// What is known of a per-series expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traits {
    /// Whether the output keeps the metric name.
    has_name: bool,
    /// Whether all input series have one metric name, so that dropping it cannot make two alike.
    has_one_name: bool,
    /// Whether two input series of different groups may end with the same labels. One server
    /// would refuse such a query; each group alone answers.
    pub(super) has_clash: bool,
    /// Whether a value depends on more than one sample of its series. If so, answers of two
    /// groups that share a series do not complement each other.
    pub(super) is_windowed: bool,
    /// Whether a value may depend on several series of its group.
    pub(super) is_joint: bool,
    /// Whether the output has the partition labels that its input series had.
    is_placed: bool,
    /// Whether it gets the labels that ringway adds to the answers of a group.
    is_injected: bool,
}

impl Traits {
    fn without_name(self) -> Self {
        Self {
            has_name: false,
            has_clash: self.has_clash || (self.has_name && !self.has_one_name && !self.is_apart()),
            ..self
        }
    }

    /// Whether labels tell series of different groups from each other.
    fn is_apart(self) -> bool {
        self.is_placed || self.is_injected
    }

    fn windowed(self) -> Self {
        Self {
            is_windowed: true,
            ..self
        }
    }
}

/// What the labels of series tell of their group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reacher<'o> {
    /// Labels that say in which group a series lies; none when that is not known.
    pub(super) partition: &'o [String],
    /// Labels that ringway adds, each value in one group only; none when there is no such set.
    pub(super) injected: &'o [String],
    /// Whether the order of the series is part of the value (an instant query).
    pub(super) order_matters: bool,
}

/// Returns whether the expression reads no series.
pub(super) fn is_constant(node: &Node) -> bool {
    node.find(&|inner| matches!(inner, Node::Selector(_) | Node::Part { .. }))
        .is_none()
}

impl Reacher<'_> {
    /// Returns how far `node` reaches.
    pub(super) fn reach(&self, node: &Node) -> Reach {
        match node {
            Node::Number(_) | Node::Text(_) => Reach::Constant,
            // Already global.
            Node::Part { .. } => Reach::Global,
            Node::Selector(selector) => Reach::PerSeries(self.selector(selector)),
            Node::Subquery(subquery) => {
                map(self.unordered().reach(&subquery.input), Traits::windowed)
            }
            Node::Negate(input) => map(self.reach(input), Traits::without_name),
            Node::Aggregate(aggregate) => self.aggregate(node, aggregate),
            Node::Binary(binary) => self.binary(binary),
            Node::Call {
                function,
                arguments,
            } => self.call(function, arguments),
        }
    }

    pub(super) fn unordered(self) -> Self {
        Self {
            order_matters: false,
            ..self
        }
    }

    /// An aggregation that keeps the partition labels apart stays within each group.
    fn aggregate(&self, node: &Node, aggregate: &Aggregate) -> Reach {
        if is_constant(node) {
            return Reach::Constant;
        }
        let parameter = aggregate.parameter.as_deref();
        let keeps = aggregate.keeps_series();
        match self.unordered().reach(&aggregate.input) {
            Reach::PerSeries(traits)
                if self.is_parted(&aggregate.grouping, false)
                    && traits.is_placed
                    && !(self.order_matters && keeps)
                    && parameter.is_none_or(is_constant) =>
            {
                let joint = Traits {
                    is_joint: true,
                    is_injected: traits.is_injected && keeps,
                    ..traits.windowed()
                };
                Reach::PerSeries(if keeps { joint } else { joint.nameless() })
            }
            _ => Reach::Global,
        }
    }

    /// Whether a grouping or matching keeps series of different partitions apart.
    fn is_parted(&self, grouping: &Grouping, is_matching: bool) -> bool {
        let has = |labels: &[String], label: &String| labels.contains(label);
        match grouping {
            Grouping::None => is_matching,
            Grouping::Include(kept) => self.partition.iter().all(|label| has(kept, label)),
            Grouping::Exclude(gone) => !self.partition.iter().any(|label| has(gone, label)),
        }
    }

    fn binary(&self, binary: &Binary) -> Reach {
        let left = self.reach(&binary.left);
        let right = self.reach(&binary.right);
        let (traits, vector_is_left, constant) = match (left, right) {
            (Reach::Constant, Reach::Constant) => return Reach::Constant,
            (Reach::PerSeries(traits), Reach::Constant) => (traits, true, &binary.right),
            (Reach::Constant, Reach::PerSeries(traits)) => (traits, false, &binary.left),
            (Reach::PerSeries(left), Reach::PerSeries(right)) => {
                return self.join(binary, left, right);
            }
            _ => return Reach::Global,
        };
        let is_scalar = constant.kind() == Kind::Scalar;
        match binary.kind {
            // A set operator keeps or drops each left element by what the constant vector holds.
            OperatorKind::Set if vector_is_left && binary.operator != "or" => {
                Reach::PerSeries(traits)
            }
            OperatorKind::Set => Reach::Global,
            // Vectors match one to one by default, and a partner too many is an error.
            _ if !is_scalar => Reach::Global,
            OperatorKind::Comparison if !binary.returns_bool => Reach::PerSeries(traits),
            _ => Reach::PerSeries(traits.without_name()),
        }
    }

    /// Two vectors whose matching series lie in one group.
    fn join(&self, binary: &Binary, left: Traits, right: Traits) -> Reach {
        let by_partition =
            self.is_parted(&binary.matching, true) && left.is_placed && right.is_placed;
        let by_injected = left.is_injected
            && right.is_injected
            && match &binary.matching {
                Grouping::None => true,
                Grouping::Include(_) => false,
                Grouping::Exclude(gone) => !self.injected.iter().any(|label| gone.contains(label)),
            };
        if !by_partition && !by_injected {
            return Reach::Global;
        }
        let is_set = binary.kind == OperatorKind::Set;
        let is_plain = binary.cardinality == Cardinality::Plain;
        let reduces = !is_set && is_plain && matches!(binary.matching, Grouping::Include(_));
        let many = match binary.cardinality {
            Cardinality::OneToMany(_) => right,
            _ => left,
        };
        let joint = Traits {
            is_joint: true,
            has_one_name: many.has_one_name && (!is_set || right.has_one_name),
            is_placed: left.is_placed && right.is_placed,
            is_injected: left.is_injected && right.is_injected && !reduces,
            ..many.windowed()
        };
        let keeps_name =
            is_set || (binary.kind == OperatorKind::Comparison && !binary.returns_bool);
        // Series of two groups differ in the labels that part them.
        Reach::PerSeries(if keeps_name { joint } else { joint.nameless() })
    }

    fn call(&self, function: &str, arguments: &[Node]) -> Reach {
        if arguments.iter().all(is_constant) {
            return Reach::Constant;
        }
        // Exactly one argument reads series, the others are scalars or strings.
        let mut input = Reach::Constant;
        for argument in arguments {
            match (input, self.reach(argument)) {
                (_, Reach::Constant) => {}
                (Reach::Constant, found) => input = found,
                _ => return Reach::Global,
            }
        }
        match function {
            "label_replace" | "label_join" => {
                map(input, |traits| self.relabelled(traits, arguments))
            }
            "last_over_time" | "first_over_time" => map(input, Traits::windowed),
            "sort" | "sort_desc" | "sort_by_label" | "sort_by_label_desc"
                if !self.order_matters =>
            {
                input
            }
            "histogram_quantile" | "histogram_fraction" => match input {
                Reach::PerSeries(traits) if self.keeps_buckets_together(&traits) => {
                    Reach::PerSeries(Traits {
                        is_joint: true,
                        ..traits.windowed().nameless()
                    })
                }
                _ => Reach::Global,
            },
            _ if PER_SAMPLE.contains(&function) => map(input, Traits::without_name),
            _ if PER_RANGE.contains(&function) => {
                map(input, |traits| traits.windowed().without_name())
            }
            _ => Reach::Global,
        }
    }

    fn keeps_buckets_together(&self, traits: &Traits) -> bool {
        let has_le = self.partition.iter().any(|label| label == "le");
        !has_le && traits.is_placed && !traits.has_clash
    }

    fn selector(&self, selector: &Selector) -> Traits {
        Traits {
            has_name: true,
            has_one_name: selector.name().is_some(),
            has_clash: false,
            is_windowed: false,
            is_joint: false,
            is_placed: !self.partition.is_empty(),
            is_injected: !self.injected.is_empty(),
        }
    }

    fn relabelled(&self, traits: Traits, arguments: &[Node]) -> Traits {
        let overwrites = |labels: &[String]| match arguments.get(1) {
            Some(Node::Text(label)) => labels.contains(label),
            _ => true,
        };
        let made = Traits {
            has_one_name: false,
            is_placed: traits.is_placed && !overwrites(self.partition),
            is_injected: traits.is_injected && !overwrites(self.injected),
            ..traits
        };
        Traits {
            has_clash: made.has_clash || !made.is_apart(),
            ..made
        }
    }
}

impl Traits {
    /// Drops the name where labels keep series of different groups apart all the same.
    fn nameless(self) -> Self {
        Self {
            has_name: false,
            ..self
        }
    }
}

fn map(reach: Reach, change: impl Fn(Traits) -> Traits) -> Reach {
    match reach {
        Reach::PerSeries(traits) => Reach::PerSeries(change(traits)),
        other => other,
    }
}

/// Functions whose value for one series depends on that series alone; the metric name is dropped.
const PER_SAMPLE: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "cos",
    "cosh",
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "days_in_month",
    "deg",
    "exp",
    "floor",
    "histogram_avg",
    "histogram_count",
    "histogram_stddev",
    "histogram_stdvar",
    "histogram_sum",
    "hour",
    "ln",
    "log10",
    "log2",
    "minute",
    "month",
    "rad",
    "round",
    "sgn",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "timestamp",
    "year",
];

/// The same over a range of samples.
const PER_RANGE: &[&str] = &[
    "avg_over_time",
    "changes",
    "count_over_time",
    "delta",
    "deriv",
    "double_exponential_smoothing",
    "first_over_time",
    "idelta",
    "increase",
    "irate",
    "last_over_time",
    "mad_over_time",
    "max_over_time",
    "min_over_time",
    "predict_linear",
    "present_over_time",
    "quantile_over_time",
    "rate",
    "resets",
    "stddev_over_time",
    "stdvar_over_time",
    "sum_over_time",
    "ts_of_first_over_time",
    "ts_of_last_over_time",
    "ts_of_max_over_time",
    "ts_of_min_over_time",
];
