//! The typed tree of a query: what the planner (and, later, the local evaluator) works on.
//!
//! Owns the door to promql-parser. [`parse`] never runs longer than the bounds of
//! [`crate::limits`] allow and never panics; regular expressions stay text.

pub(crate) mod check;
pub(crate) mod print;
mod text;

use std::time::{Duration, SystemTime};

use std::panic::catch_unwind;

use promql_parser::label::MatchOp;
use promql_parser::parser::{self as promql, token};

/// An expression, without its redundant parentheses.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// An instant selector, or with `range` a range selector.
    Selector(Selector),
    /// `input[range:step]`
    Subquery(Subquery),
    /// A function call.
    Call {
        /// The function's name (the newer one where it was renamed).
        function: &'static str,
        /// Its arguments.
        arguments: Vec<Node>,
    },
    /// An aggregation.
    Aggregate(Aggregate),
    /// A binary expression.
    Binary(Binary),
    /// Unary minus.
    Negate(Box<Node>),
    /// What part `index` of a plan was answered: stands for an expression that the servers
    /// evaluated.
    Part {
        /// Index into the plan's parts.
        index: usize,
        /// The type of what it stands for.
        kind: Kind,
    },
}

/// A selector of series.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector {
    /// The matchers, the metric name among them; those of `or` alternatives follow each other.
    pub matchers: Vec<Matcher>,
    /// Whether the matchers are alternatives joined by `or`.
    pub has_alternatives: bool,
    /// The range of a range selector.
    pub range: Option<Duration>,
    /// `offset` and `@`.
    pub when: When,
}

/// One label matcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// The label.
    pub label: String,
    /// How it is matched.
    pub operator: MatchOperator,
    /// The value; of a regex matcher the quoted literal as written.
    pub value: String,
}

/// How a matcher matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchOperator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Regex,
    /// `!~`
    NotRegex,
}

/// Time modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct When {
    /// `offset` in milliseconds; positive looks back.
    pub offset_ms: i64,
    /// `@`
    pub at: Option<At>,
}

/// The time of `@`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// `@ start()`
    Start,
    /// `@ end()`
    End,
    /// Unix milliseconds.
    Time(i64),
}

/// A subquery.
#[derive(Debug, Clone, PartialEq)]
pub struct Subquery {
    /// What is evaluated at each step.
    pub input: Box<Node>,
    /// Range.
    pub range: Duration,
    /// Step; `None` takes the server's evaluation interval.
    pub step: Option<Duration>,
    /// `offset` and `@`.
    pub when: When,
}

/// An aggregation.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// The operator's name in lower case, such as `sum`.
    pub operator: &'static str,
    /// `by`, `without`, or none (everything into one group).
    pub grouping: Grouping,
    /// The parameter of `topk`, `quantile`, `count_values` and the like.
    pub parameter: Option<Box<Node>>,
    /// What is aggregated.
    pub input: Box<Node>,
}

impl Aggregate {
    /// Returns whether the result is some of the series as they were.
    pub fn keeps_series(&self) -> bool {
        matches!(self.operator, "topk" | "bottomk" | "limitk" | "limit_ratio")
    }
}

/// A list of labels to keep or drop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    /// Neither `by` nor `without` (of a match: neither `on` nor `ignoring`).
    None,
    /// `by` or `on`.
    Include(Vec<String>),
    /// `without` or `ignoring`.
    Exclude(Vec<String>),
}

/// A binary expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Binary {
    /// The operator as written, set operators in lower case.
    pub operator: String,
    /// What kind of operator it is.
    pub kind: OperatorKind,
    /// `bool` was given.
    pub returns_bool: bool,
    /// `on` / `ignoring`.
    pub matching: Grouping,
    /// `group_left` / `group_right` and their labels.
    pub cardinality: Cardinality,
    /// Left operand.
    pub left: Box<Node>,
    /// Right operand.
    pub right: Box<Node>,
}

/// Kinds of binary operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorKind {
    /// `+ - * / % ^ atan2`
    Arithmetic,
    /// `== != < <= > >=`
    Comparison,
    /// `and or unless`
    Set,
}

/// Which side of a match may have several series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cardinality {
    /// Neither, or a set operator.
    Plain,
    /// `group_left` with its labels.
    ManyToOne(Vec<String>),
    /// `group_right` with its labels.
    OneToMany(Vec<String>),
}

/// The type of an expression's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One number per step.
    Scalar,
    /// One sample per series and step.
    Vector,
    /// Several samples per series.
    Matrix,
    /// A string.
    Text,
}

/// Reads a query, or says why it is not understood.
pub fn parse(query: &str) -> Result<Node, String> {
    let prepared = text::prepare(query)?;
    // Its known panics are kept from it by `prepare`; one that is not known must not cost more than the plan.
    let parsed = catch_unwind(|| promql::parse(&prepared.text));
    let tree = parsed.map_err(|_| "the parser failed")??;
    Reader {
        regexes: &prepared.regexes,
    }
    .node(&tree)
}

impl Selector {
    /// Returns the one metric name that is asked for.
    pub fn name(&self) -> Option<&str> {
        let is_name = |matcher: &&Matcher| {
            matcher.label == "__name__"
                && matcher.operator == MatchOperator::Equal
                && !matcher.value.is_empty()
        };
        let named = self.matchers.iter().find(is_name)?;
        (!self.has_alternatives).then_some(named.value.as_str())
    }

    /// Returns whether no matcher narrows down the metric name: none is on it, or only patterns
    /// that begin with a wildcard.
    pub fn takes_any_name(&self) -> bool {
        let narrows = |matcher: &Matcher| {
            matcher.label == "__name__"
                && match matcher.operator {
                    MatchOperator::Equal => !matcher.value.is_empty(),
                    MatchOperator::Regex => !matcher.value[1..].starts_with(['.', '(', '[']),
                    MatchOperator::NotEqual | MatchOperator::NotRegex => false,
                }
        };
        self.has_alternatives || !self.matchers.iter().any(narrows)
    }
}

/// Functions of the time that is evaluated at.
const OF_EACH_STEP: [&str; 11] = [
    "days_in_month",
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "hour",
    "minute",
    "month",
    "year",
    "predict_linear",
    "time",
    "timestamp",
];

impl Node {
    /// Returns whether the value is the same at all steps, as servers judge it: `@` ties all
    /// selectors to one time. Of an aggregation the parameter does not count. `is_part_fixed` says
    /// so of parts, by index.
    pub(crate) fn is_fixed(&self, is_part_fixed: &impl Fn(usize) -> bool) -> bool {
        match self {
            Self::Number(_) | Self::Text(_) => true,
            Self::Selector(selector) => selector.when.at.is_some(),
            Self::Subquery(subquery) => subquery.when.at.is_some(),
            Self::Part { index, .. } => is_part_fixed(*index),
            Self::Aggregate(aggregate) => aggregate.input.is_fixed(is_part_fixed),
            Self::Negate(input) => input.is_fixed(is_part_fixed),
            Self::Binary(binary) => {
                binary.left.is_fixed(is_part_fixed) && binary.right.is_fixed(is_part_fixed)
            }
            Self::Call {
                function,
                arguments,
            } => {
                let is_of_step = OF_EACH_STEP.contains(function);
                !is_of_step && arguments.iter().all(|one| one.is_fixed(is_part_fixed))
            }
        }
    }

    /// Returns the type of the value.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Number(_) => Kind::Scalar,
            Self::Text(_) => Kind::Text,
            Self::Selector(selector) if selector.range.is_some() => Kind::Matrix,
            Self::Selector(_) | Self::Aggregate(_) => Kind::Vector,
            Self::Subquery(_) => Kind::Matrix,
            Self::Call { function, .. } => match *function {
                "time" | "pi" | "scalar" | "start" | "end" | "step" | "range" | "max_of"
                | "min_of" => Kind::Scalar,
                _ => Kind::Vector,
            },
            Self::Binary(binary) => match (binary.left.kind(), binary.right.kind()) {
                (Kind::Scalar, Kind::Scalar) => Kind::Scalar,
                _ => Kind::Vector,
            },
            Self::Negate(input) => input.kind(),
            Self::Part { kind, .. } => *kind,
        }
    }

    /// Returns the direct operands, parameters first.
    pub fn children(&self) -> Vec<&Node> {
        match self {
            Self::Number(_) | Self::Text(_) | Self::Selector(_) | Self::Part { .. } => Vec::new(),
            Self::Subquery(subquery) => vec![&subquery.input],
            Self::Call { arguments, .. } => arguments.iter().collect(),
            Self::Aggregate(aggregate) => aggregate
                .parameter
                .iter()
                .chain([&aggregate.input])
                .map(Box::as_ref)
                .collect(),
            Self::Binary(binary) => vec![&binary.left, &binary.right],
            Self::Negate(input) => vec![input],
        }
    }

    /// Returns the first node at or below this one that `is_wanted`.
    pub fn find(&self, is_wanted: &dyn Fn(&Node) -> bool) -> Option<&Node> {
        if is_wanted(self) {
            return Some(self);
        }
        self.children()
            .into_iter()
            .find_map(|child| child.find(is_wanted))
    }
}

struct Reader<'q> {
    regexes: &'q [String],
}

impl Reader<'_> {
    fn node(&self, tree: &promql::Expr) -> Result<Node, String> {
        Ok(match tree {
            promql::Expr::Paren(paren) => self.node(&paren.expr)?,
            promql::Expr::NumberLiteral(number) => Node::Number(number.val),
            promql::Expr::StringLiteral(text) => Node::Text(text.val.clone()),
            promql::Expr::VectorSelector(selector) => {
                Node::Selector(self.selector(selector, None)?)
            }
            promql::Expr::MatrixSelector(matrix) => {
                Node::Selector(self.selector(&matrix.vs, Some(matrix.range))?)
            }
            promql::Expr::Subquery(subquery) => Node::Subquery(Subquery {
                input: Box::new(self.node(&subquery.expr)?),
                range: subquery.range,
                step: subquery.step,
                when: when(subquery.offset.as_ref(), subquery.at.as_ref()),
            }),
            promql::Expr::Call(call) => Node::Call {
                function: call.func.name,
                arguments: call
                    .args
                    .args
                    .iter()
                    .map(|argument| self.node(argument))
                    .collect::<Result<_, _>>()?,
            },
            promql::Expr::Aggregate(aggregate) => Node::Aggregate(self.aggregate(aggregate)?),
            promql::Expr::Binary(binary) => Node::Binary(self.binary(binary)?),
            promql::Expr::Unary(unary) => Node::Negate(Box::new(self.node(&unary.expr)?)),
            promql::Expr::Extension(_) => return Err("unknown extension".to_owned()),
        })
    }

    fn selector(
        &self,
        selector: &promql::VectorSelector,
        range: Option<Duration>,
    ) -> Result<Selector, String> {
        let mut matchers = Vec::new();
        if let Some(name) = &selector.name {
            matchers.push(Matcher {
                label: "__name__".to_owned(),
                operator: MatchOperator::Equal,
                value: name.clone(),
            });
        }
        let given = &selector.matchers;
        for matcher in given
            .matchers
            .iter()
            .chain(given.or_matchers.iter().flatten())
        {
            let operator = match &matcher.op {
                MatchOp::Equal => MatchOperator::Equal,
                MatchOp::NotEqual => MatchOperator::NotEqual,
                MatchOp::Re(_) => MatchOperator::Regex,
                MatchOp::NotRe(_) => MatchOperator::NotRegex,
            };
            let value = match operator {
                MatchOperator::Regex | MatchOperator::NotRegex => self.regex(&matcher.value)?,
                _ => matcher.value.clone(),
            };
            matchers.push(Matcher {
                label: matcher.name.clone(),
                operator,
                value,
            });
        }
        Ok(Selector {
            matchers,
            has_alternatives: !given.or_matchers.is_empty(),
            range,
            when: when(selector.offset.as_ref(), selector.at.as_ref()),
        })
    }

    /// Returns the literal behind a placeholder.
    fn regex(&self, value: &str) -> Result<String, String> {
        let index = value
            .strip_prefix('r')
            .and_then(|digits| digits.parse::<usize>().ok());
        index
            .and_then(|index| self.regexes.get(index))
            .cloned()
            .ok_or_else(|| "misplaced regular expression".to_owned())
    }

    fn aggregate(&self, aggregate: &promql::AggregateExpr) -> Result<Aggregate, String> {
        Ok(Aggregate {
            operator: aggregator(aggregate.op)?,
            grouping: grouping(aggregate.modifier.as_ref()),
            parameter: match &aggregate.param {
                Some(parameter) => Some(Box::new(self.node(parameter)?)),
                None => None,
            },
            input: Box::new(self.node(&aggregate.expr)?),
        })
    }

    fn binary(&self, binary: &promql::BinaryExpr) -> Result<Binary, String> {
        let kind = if binary.op.is_set_operator() {
            OperatorKind::Set
        } else if binary.op.is_comparison_operator() {
            OperatorKind::Comparison
        } else {
            OperatorKind::Arithmetic
        };
        let modifier = binary.modifier.as_ref();
        let cardinality = match modifier.map(|m| &m.card) {
            Some(promql::VectorMatchCardinality::ManyToOne(labels)) => {
                Cardinality::ManyToOne(labels.labels.clone())
            }
            Some(promql::VectorMatchCardinality::OneToMany(labels)) => {
                Cardinality::OneToMany(labels.labels.clone())
            }
            _ => Cardinality::Plain,
        };
        Ok(Binary {
            operator: binary.op.to_string(),
            kind,
            returns_bool: modifier.is_some_and(|m| m.return_bool),
            matching: grouping(modifier.and_then(|m| m.matching.as_ref())),
            cardinality,
            left: Box::new(self.node(&binary.lhs)?),
            right: Box::new(self.node(&binary.rhs)?),
        })
    }
}

fn aggregator(operator: token::TokenType) -> Result<&'static str, String> {
    Ok(match operator.id() {
        token::T_SUM => "sum",
        token::T_AVG => "avg",
        token::T_COUNT => "count",
        token::T_MIN => "min",
        token::T_MAX => "max",
        token::T_GROUP => "group",
        token::T_STDDEV => "stddev",
        token::T_STDVAR => "stdvar",
        token::T_TOPK => "topk",
        token::T_BOTTOMK => "bottomk",
        token::T_COUNT_VALUES => "count_values",
        token::T_QUANTILE => "quantile",
        token::T_LIMITK => "limitk",
        token::T_LIMIT_RATIO => "limit_ratio",
        _ => return Err(format!("unknown aggregation {operator}")),
    })
}

fn grouping(modifier: Option<&promql::LabelModifier>) -> Grouping {
    match modifier {
        None => Grouping::None,
        Some(promql::LabelModifier::Include(labels)) => Grouping::Include(labels.labels.clone()),
        Some(promql::LabelModifier::Exclude(labels)) => Grouping::Exclude(labels.labels.clone()),
    }
}

fn when(offset: Option<&promql::Offset>, at: Option<&promql::AtModifier>) -> When {
    let offset_ms = match offset {
        None => 0,
        Some(promql::Offset::Pos(back)) => milliseconds(*back),
        Some(promql::Offset::Neg(ahead)) => -milliseconds(*ahead),
    };
    let at = at.map(|at| match at {
        promql::AtModifier::Start => At::Start,
        promql::AtModifier::End => At::End,
        promql::AtModifier::At(time) => {
            At::Time(match time.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(after) => milliseconds(after),
                Err(before) => -milliseconds(before.duration()),
            })
        }
    });
    When { offset_ms, at }
}

/// Whole milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
