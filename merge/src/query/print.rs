//! Writes a tree as PromQL text, for what the servers are asked.
//!
//! Every operand of an operator is put in parentheses where it is one itself, so that precedence
//! needs no thought. Times of `@` are written as numbers: `start()` and `end()` of a part are not
//! those of the request.

use std::fmt::Write as _;

use super::{
    Aggregate, At, Binary, Cardinality, Grouping, MatchOperator, Matcher, Node, Selector, Subquery,
    When,
};
use crate::plan::Clock;

/// Writes `node` for the servers of `clock`.
pub(crate) fn print(node: &Node, clock: &Clock) -> String {
    let mut printer = Printer {
        out: String::new(),
        clock,
    };
    printer.node(node);
    printer.out
}

/// Writes one operation without its operands.
pub(crate) fn print_outline(node: &Node) -> String {
    let clock = Clock::default();
    let mut printer = Printer {
        out: String::new(),
        clock: &clock,
    };
    match node {
        Node::Aggregate(aggregate) => {
            printer.put(aggregate.operator);
            printer.grouping(&aggregate.grouping, [" by ", " without "]);
        }
        Node::Binary(binary) => {
            printer.put(&binary.operator);
            printer.matching(binary);
        }
        Node::Call { function, .. } => {
            printer.put(function);
            printer.put("()");
        }
        Node::Negate(_) => printer.put("-"),
        Node::Subquery(subquery) => {
            printer.put("subquery ");
            printer.steps(subquery);
        }
        Node::Number(_) | Node::Text(_) | Node::Selector(_) | Node::Part { .. } => {
            printer.node(node);
        }
    }
    printer.out
}

struct Printer<'c> {
    out: String,
    clock: &'c Clock,
}

impl Printer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Number(value) => self.number(*value),
            Node::Text(text) => self.text(text),
            Node::Selector(selector) => self.selector(selector),
            Node::Subquery(subquery) => self.subquery(subquery),
            Node::Call {
                function,
                arguments,
            } => {
                let name = match *function {
                    "double_exponential_smoothing" if !self.clock.dialect.is_at_least(3, 0) => {
                        "holt_winters"
                    }
                    name => name,
                };
                self.put(name);
                self.list(arguments);
            }
            Node::Aggregate(aggregate) => self.aggregate(aggregate),
            Node::Binary(binary) => self.binary(binary),
            Node::Negate(input) => {
                self.put("-");
                self.operand(input);
            }
            // A part is never inside what the servers are asked.
            Node::Part { index, .. } => {
                let _ = write!(self.out, "<part {index}>");
            }
        }
    }

    fn list(&mut self, nodes: &[Node]) {
        self.put("(");
        for (at, node) in nodes.iter().enumerate() {
            if at > 0 {
                self.put(", ");
            }
            self.node(node);
        }
        self.put(")");
    }

    fn number(&mut self, value: f64) {
        let text = match value {
            value if value.is_nan() => "NaN".to_owned(),
            f64::INFINITY => "Inf".to_owned(),
            f64::NEG_INFINITY => "-Inf".to_owned(),
            value => format!("{value:?}"),
        };
        self.put(&text);
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.put("\\\""),
                '\\' => self.put("\\\\"),
                '\n' => self.put("\\n"),
                '\r' => self.put("\\r"),
                '\t' => self.put("\\t"),
                c if c.is_control() => {
                    let _ = write!(self.out, "\\u{:04x}", u32::from(c));
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    // === selectors and subqueries ===

    fn selector(&mut self, selector: &Selector) {
        let mut matchers = selector.matchers.as_slice();
        if let [first, rest @ ..] = matchers
            && first.label == "__name__"
            && first.operator == MatchOperator::Equal
            && is_plain_name(&first.value)
        {
            self.put(&first.value);
            matchers = rest;
        }
        if !matchers.is_empty() || selector.matchers.is_empty() {
            self.put("{");
            for (at, matcher) in matchers.iter().enumerate() {
                if at > 0 {
                    self.put(",");
                }
                self.matcher(matcher);
            }
            self.put("}");
        }
        if let Some(range) = selector.range {
            self.put("[");
            self.duration(super::milliseconds(range));
            self.put("]");
        }
        self.when(selector.when);
    }

    fn matcher(&mut self, matcher: &Matcher) {
        match is_plain_label(&matcher.label) {
            true => self.put(&matcher.label),
            false => self.text(&matcher.label),
        }
        let operator = match matcher.operator {
            MatchOperator::Equal => "=",
            MatchOperator::NotEqual => "!=",
            MatchOperator::Regex => "=~",
            MatchOperator::NotRegex => "!~",
        };
        self.put(operator);
        match matcher.operator {
            // The literal as it was written.
            MatchOperator::Regex | MatchOperator::NotRegex => self.put(&matcher.value),
            MatchOperator::Equal | MatchOperator::NotEqual => self.text(&matcher.value),
        }
    }

    fn subquery(&mut self, subquery: &Subquery) {
        self.operand(&subquery.input);
        self.steps(subquery);
    }

    fn steps(&mut self, subquery: &Subquery) {
        self.put("[");
        self.duration(super::milliseconds(subquery.range));
        self.put(":");
        if let Some(step) = subquery.step {
            self.duration(super::milliseconds(step));
        }
        self.put("]");
        self.when(subquery.when);
    }

    fn when(&mut self, when: When) {
        if let Some(moment) = self.clock.moment(when) {
            let sign = if moment < 0 { "-" } else { "" };
            let (seconds, rest) = (moment.unsigned_abs() / 1000, moment.unsigned_abs() % 1000);
            let _ = write!(self.out, " @ {sign}{seconds}.{rest:03}");
        }
        if when.at == Some(At::Start) || when.at == Some(At::End) {
            debug_assert!(self.clock.moment(when).is_some());
        }
        if when.offset_ms != 0 {
            self.put(" offset ");
            self.duration(when.offset_ms);
        }
    }

    fn duration(&mut self, ms: i64) {
        if ms < 0 {
            self.put("-");
        }
        let ms = ms.unsigned_abs();
        let unit = [(3_600_000, "h"), (60_000, "m"), (1000, "s")]
            .into_iter()
            .find(|(size, _)| ms > 0 && ms.is_multiple_of(*size));
        let _ = match unit {
            Some((size, name)) => write!(self.out, "{}{name}", ms / size),
            None => write!(self.out, "{ms}ms"),
        };
    }

    // === operators ===

    fn operand(&mut self, node: &Node) {
        let is_operator = matches!(node, Node::Binary(_) | Node::Negate(_))
            || matches!(node, Node::Number(value) if value.is_sign_negative())
            || matches!(node, Node::Subquery(_));
        if is_operator {
            self.put("(");
        }
        self.node(node);
        if is_operator {
            self.put(")");
        }
    }

    fn labels(&mut self, labels: &[String]) {
        self.put("(");
        for (at, label) in labels.iter().enumerate() {
            if at > 0 {
                self.put(", ");
            }
            // Numbers, where a label could stand.
            let is_number = label.eq_ignore_ascii_case("inf") || label.eq_ignore_ascii_case("nan");
            match is_plain_label(label) && !is_number {
                true => self.put(label),
                false => self.text(label),
            }
        }
        self.put(")");
    }

    fn grouping(&mut self, grouping: &Grouping, words: [&str; 2]) {
        let (word, labels) = match grouping {
            Grouping::None => return,
            Grouping::Include(labels) => (words[0], labels),
            Grouping::Exclude(labels) => (words[1], labels),
        };
        self.put(word);
        self.labels(labels);
    }

    fn aggregate(&mut self, aggregate: &Aggregate) {
        self.put(aggregate.operator);
        self.grouping(&aggregate.grouping, [" by ", " without "]);
        self.put(if aggregate.grouping == Grouping::None {
            "("
        } else {
            " ("
        });
        if let Some(parameter) = &aggregate.parameter {
            self.node(parameter);
            self.put(", ");
        }
        self.node(&aggregate.input);
        self.put(")");
    }

    fn binary(&mut self, binary: &Binary) {
        self.operand(&binary.left);
        self.put(" ");
        self.put(&binary.operator);
        self.matching(binary);
        self.put(" ");
        self.operand(&binary.right);
    }

    fn matching(&mut self, binary: &Binary) {
        if binary.returns_bool {
            self.put(" bool");
        }
        self.grouping(&binary.matching, [" on ", " ignoring "]);
        match &binary.cardinality {
            Cardinality::Plain => {}
            Cardinality::ManyToOne(labels) => {
                self.put(" group_left ");
                self.labels(labels);
            }
            Cardinality::OneToMany(labels) => {
                self.put(" group_right ");
                self.labels(labels);
            }
        }
    }
}

/// Words that mean something else where a metric name could stand.
const KEYWORDS: [&str; 38] = [
    "and",
    "or",
    "unless",
    "atan2",
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "offset",
    "bool",
    "inf",
    "nan",
    "start",
    "end",
    "step",
    "sum",
    "avg",
    "count",
    "min",
    "max",
    "group",
    "stddev",
    "stdvar",
    "topk",
    "bottomk",
    "count_values",
    "quantile",
    "limitk",
    "limit_ratio",
    "trim_upper",
    "trim_lower",
    "fill",
    "fill_left",
    "fill_right",
    "smoothed",
    "anchored",
];

fn is_plain_name(name: &str) -> bool {
    let first = name.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_' || b == b':')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':')
        && !is_keyword(name)
}

/// Whether a word means something else where a metric name could stand.
pub(super) fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name.to_ascii_lowercase().as_str())
}

fn is_plain_label(name: &str) -> bool {
    let first = name.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::parse;

    /// What is written reads back as the same tree.
    #[test]
    fn texts_read_back_as_their_trees() {
        for query in [
            "up",
            "{__name__=~\"a|b\", c!=\"d\", e!~`f\\.g`, h=\"i\\\"\\\\\\n\"}",
            "rate(x{a=\"b\"}[1h30m] offset -5m @ 1609746000.123)",
            "-(a + -b) ^ 2 ^ c",
            "(-a) ^ 2 - (b - c) - -1.5",
            "a * on (x, y) group_left (z) b or ignoring () c unless d and e",
            "sum by (le, on) (x) / count without () (y) > bool 0",
            "topk by (a) (scalar(b), c atan2 d % 2)",
            "count_values(\"v\", x)",
            "max_over_time((a + b)[1h:] offset 5m)",
            "max_over_time(rate(a[5m])[1h:30s] @ 12.5)",
            "max_over_time(max_over_time(a[1m:10s])[1h:1m])",
            "(a > 1)[5m:1m]",
            "1e300 * Inf + NaN - 0x1F + 1e-9",
            "label_replace(x, \"a\", \"$1\", \"b\", \"(.*)\\\\d\")",
            "holt_winters(x[5m], 0.1, 0.2)",
            "{__name__=\"sum\"} + {__name__=\"a:b\"}",
            "a{le=~'x'}[1500ms]",
            "time() - timestamp(x) + pi()",
        ] {
            let tree = parse(query).unwrap();
            let clock = Clock {
                dialect: crate::plan::Dialect {
                    major: 2,
                    minor: 42,
                },
                ..Clock::default()
            };
            let text = print(&tree, &clock);
            let again = parse(&text).unwrap_or_else(|error| panic!("{query}: {text}: {error}"));
            assert!(
                format!("{again:?}") == format!("{tree:?}"),
                "{query}: {text}\n{tree:?}\n{again:?}"
            );
        }
    }

    #[test]
    fn texts_of_parts_stand_alone() {
        let clock = Clock {
            grid: crate::plan::Grid::range(1_000_500, 2_000_000, 1000),
            end_ms: 2_000_000,
            ..Clock::default()
        };
        for (query, text) in [
            ("x @ start()", "x @ 1000.500"),
            ("x[5m] @ end() offset 1h", "x[5m] @ 2000.000 offset 1h"),
            (
                "holt_winters(x[5m], 0.1, 0.2)",
                "double_exponential_smoothing(x[5m], 0.1, 0.2)",
            ),
            ("sum(x) by (a)", "sum by (a) (x)"),
            ("x offset -90s", "x offset -90s"),
        ] {
            assert_eq!(print(&parse(query).unwrap(), &clock), text);
        }
    }
}
