//! Whether an expression may be evaluated on each replica group alone.
//!
//! The question, for disjoint sets of series: is `f(union) == union of f(parts)`? [`reach`]
//! answers it for a tree by walking it once. What it cannot prove is [`Reach::Global`].

use crate::query::{Binary, MatchOperator, Node, OperatorKind, Selector};

/// How far an expression's value depends on more than one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Reads no series: every server says the same.
    Constant,
    /// Each output series depends on one input series.
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
    pub(super) clash: Clash,
    /// Whether a value depends on more than one sample of its series. If so, answers of two
    /// groups that share a series do not complement each other.
    pub(super) is_windowed: bool,
}

/// Whether labels of different input series may clash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Clash {
    /// They cannot.
    None,
    /// They may, and if so both series are in the answers.
    Visible,
    /// They may, and a later filter or aggregation hides it.
    Hidden,
}

impl Traits {
    fn without_name(self) -> Self {
        let clash = match self.has_name && !self.has_one_name {
            true => self.clash.max(Clash::Visible),
            false => self.clash,
        };
        Self {
            has_name: false,
            clash,
            ..self
        }
    }

    fn relabelled(self) -> Self {
        Self {
            clash: self.clash.max(Clash::Visible),
            has_one_name: false,
            ..self
        }
    }

    fn filtered(self) -> Self {
        let clash = match self.clash {
            Clash::None => Clash::None,
            Clash::Visible | Clash::Hidden => Clash::Hidden,
        };
        Self { clash, ..self }
    }

    fn windowed(self) -> Self {
        Self {
            is_windowed: true,
            ..self.filtered()
        }
    }
}

/// Returns how far `node` reaches. With `order_matters` (an instant query), sorting is global.
pub(super) fn reach(node: &Node, order_matters: bool) -> Reach {
    match node {
        Node::Number(_) | Node::Text(_) => Reach::Constant,
        // Already global.
        Node::Part { .. } => Reach::Global,
        Node::Selector(selector) => Reach::PerSeries(selector_traits(selector)),
        Node::Subquery(subquery) => map(reach(&subquery.input, false), Traits::windowed),
        Node::Negate(input) => map(reach(input, order_matters), Traits::without_name),
        Node::Aggregate(_) => match is_constant(node) {
            true => Reach::Constant,
            false => Reach::Global,
        },
        Node::Binary(binary) => binary_reach(binary, order_matters),
        Node::Call {
            function,
            arguments,
        } => call_reach(function, arguments, order_matters),
    }
}

/// Returns whether the expression reads no series.
pub(super) fn is_constant(node: &Node) -> bool {
    node.find(&|inner| matches!(inner, Node::Selector(_)))
        .is_none()
}

fn map(reach: Reach, change: impl Fn(Traits) -> Traits) -> Reach {
    match reach {
        Reach::PerSeries(traits) => Reach::PerSeries(change(traits)),
        other => other,
    }
}

fn selector_traits(selector: &Selector) -> Traits {
    let has_one_name = !selector.has_alternatives
        && selector.matchers.iter().any(|matcher| {
            matcher.label == "__name__"
                && matcher.operator == MatchOperator::Equal
                && !matcher.value.is_empty()
        });
    Traits {
        has_name: true,
        has_one_name,
        clash: Clash::None,
        is_windowed: false,
    }
}

fn binary_reach(binary: &Binary, order_matters: bool) -> Reach {
    let left = reach(&binary.left, order_matters);
    let right = reach(&binary.right, order_matters);
    let (traits, vector_is_left, constant) = match (left, right) {
        (Reach::Constant, Reach::Constant) => return Reach::Constant,
        (Reach::PerSeries(traits), Reach::Constant) => (traits, true, &binary.right),
        (Reach::Constant, Reach::PerSeries(traits)) => (traits, false, &binary.left),
        _ => return Reach::Global,
    };
    let is_scalar = constant.kind() == crate::query::Kind::Scalar;
    match binary.kind {
        // A set operator keeps or drops each left element by what the constant vector holds.
        OperatorKind::Set if vector_is_left && binary.operator != "or" => {
            Reach::PerSeries(traits.filtered())
        }
        OperatorKind::Set => Reach::Global,
        // Vectors match one to one by default, and a partner too many is an error.
        _ if !is_scalar => Reach::Global,
        OperatorKind::Arithmetic => Reach::PerSeries(traits.without_name()),
        OperatorKind::Comparison if binary.returns_bool => Reach::PerSeries(traits.without_name()),
        OperatorKind::Comparison => Reach::PerSeries(traits.filtered()),
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

fn call_reach(function: &str, arguments: &[Node], order_matters: bool) -> Reach {
    if arguments.iter().all(is_constant) {
        return Reach::Constant;
    }
    // Exactly one argument reads series, the others are scalars or strings.
    let mut input = Reach::Constant;
    for argument in arguments {
        match (input, reach(argument, order_matters)) {
            (_, Reach::Constant) => {}
            (Reach::Constant, found) => input = found,
            _ => return Reach::Global,
        }
    }
    match function {
        "label_replace" | "label_join" => map(input, Traits::relabelled),
        "last_over_time" | "first_over_time" => map(input, Traits::windowed),
        "sort" | "sort_desc" | "sort_by_label" | "sort_by_label_desc" if !order_matters => input,
        _ if PER_SAMPLE.contains(&function) => {
            // `clamp` with a lower bound above its upper bound drops everything, and the
            // histogram functions drop floats.
            map(input, |traits| {
                traits.without_name().filtered_when(drops_samples(function))
            })
        }
        _ if PER_RANGE.contains(&function) => map(input, |traits| traits.windowed_without_name()),
        _ => Reach::Global,
    }
}

fn drops_samples(function: &str) -> bool {
    function == "clamp" || function.starts_with("histogram_")
}

impl Traits {
    fn filtered_when(self, filters: bool) -> Self {
        if filters { self.filtered() } else { self }
    }

    /// The window may hide clashes of its input; dropping the name afterwards cannot hide more.
    fn windowed_without_name(self) -> Self {
        self.windowed().without_name()
    }
}
