//! The few PromQL expressions that the demo's origins answer, as text to a tree.
//!
//! Selectors with label matchers, `rate(selector[duration])`, `vector(number)` and the aggregations `sum`, `avg`,
//! `min`, `max`, `count` and `group` with `by` or `without`. Whatever else is asked for is refused with a message
//! that says so: an origin that answered wrongly would make a merged answer look wrong.

/// What the refusal of an expression says is possible.
pub(super) const SUPPORTED: &str = "this demo origin supports: name{label=\"value\",...} with = != =~ !~ (alternatives and .* only), \
     rate(selector[duration]), vector(number), and sum|avg|min|max|count|group [by|without (labels)] (expression)";

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Number(f64),
    Vector(f64),
    Select(Selector),
    Rate(Selector, i64),
    Aggregate {
        op: Op,
        grouping: Grouping,
        of: Box<Expr>,
    },
}

/// An aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Sum,
    Avg,
    Min,
    Max,
    Count,
    Group,
}

/// Which labels make a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    By(Vec<String>),
    Without(Vec<String>),
}

/// Which series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    matchers: Vec<Matcher>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Matcher {
    label: String,
    negated: bool,
    /// Alternatives, each of pieces with anything in between.
    patterns: Vec<Vec<String>>,
}

impl Selector {
    /// Whether a series with these labels is selected; a missing label reads as empty.
    pub(super) fn matches(&self, labels: &super::series::Labels) -> bool {
        self.matchers.iter().all(|matcher| {
            let value = labels.get(&matcher.label).map_or("", String::as_str);
            matcher.patterns.iter().any(|pattern| fits(value, pattern)) != matcher.negated
        })
    }
}

/// Whether `value` is the pieces in order, with anything in between.
fn fits(value: &str, pieces: &[String]) -> bool {
    let Some((first, rest)) = pieces.split_first() else {
        return value.is_empty();
    };
    let Some((last, middle)) = rest.split_last() else {
        return value == first;
    };
    let Some(mut left) = value.strip_prefix(first.as_str()) else {
        return false;
    };
    for piece in middle {
        match left.find(piece.as_str()) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    left.ends_with(last.as_str())
}

/// Parses a whole expression; the message of an error says what was found where.
pub(super) fn parse(text: &str) -> Result<Expr, String> {
    let mut parser = Parser {
        text,
        at: 0,
        depth: 0,
    };
    let expr = parser.expr()?;
    parser.end()?;
    Ok(expr)
}

/// Parses a selector alone, as `match[]` has it.
pub(super) fn parse_selector(text: &str) -> Result<Selector, String> {
    match parse(text)? {
        Expr::Select(selector) => Ok(selector),
        _ => Err(format!("match[]={text:?} is not a selector")),
    }
}

/// Most levels of parentheses.
const DEPTH_MAX: u32 = 32;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn expr(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.unsupported());
        }
        let expr = self.expr_at_depth();
        self.depth -= 1;
        expr
    }

    fn expr_at_depth(&mut self) -> Result<Expr, String> {
        if self.take("(") {
            let inner = self.expr()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if let Some(number) = self.number() {
            return Ok(Expr::Number(number));
        }
        let start = self.at;
        let word = self.word();
        match word.as_str() {
            "sum" => self.aggregate(Op::Sum),
            "avg" => self.aggregate(Op::Avg),
            "min" => self.aggregate(Op::Min),
            "max" => self.aggregate(Op::Max),
            "count" => self.aggregate(Op::Count),
            "group" => self.aggregate(Op::Group),
            "rate" => {
                self.expect("(")?;
                let selector = self.selector()?;
                self.expect("[")?;
                let range = self.duration()?;
                self.expect("]")?;
                self.expect(")")?;
                Ok(Expr::Rate(selector, range))
            }
            "vector" => {
                self.expect("(")?;
                let number = self.number().ok_or_else(|| self.unsupported())?;
                self.expect(")")?;
                Ok(Expr::Vector(number))
            }
            _ => {
                self.at = start;
                Ok(Expr::Select(self.selector()?))
            }
        }
    }

    /// `by` and `without` may stand before or behind the parentheses.
    fn aggregate(&mut self, op: Op) -> Result<Expr, String> {
        let before = self.grouping()?;
        self.expect("(")?;
        let of = Box::new(self.expr()?);
        self.expect(")")?;
        let grouping = match before {
            Some(grouping) => grouping,
            None => self.grouping()?.unwrap_or(Grouping::By(Vec::new())),
        };
        Ok(Expr::Aggregate { op, grouping, of })
    }

    fn grouping(&mut self) -> Result<Option<Grouping>, String> {
        let start = self.at;
        let word = self.word();
        if word != "by" && word != "without" {
            self.at = start;
            return Ok(None);
        }
        self.expect("(")?;
        let mut labels = Vec::new();
        while !self.take(")") {
            let label = self.word();
            if label.is_empty() {
                return Err(self.unsupported());
            }
            labels.push(label);
            self.take(",");
        }
        Ok(Some(match word.as_str() {
            "by" => Grouping::By(labels),
            _ => Grouping::Without(labels),
        }))
    }

    fn selector(&mut self) -> Result<Selector, String> {
        let mut selector = Selector::default();
        let name = self.word();
        if !name.is_empty() {
            selector.matchers.push(Matcher {
                label: "__name__".into(),
                negated: false,
                patterns: vec![vec![name.clone()]],
            });
        }
        if self.take("{") {
            while !self.take("}") {
                selector.matchers.push(self.matcher()?);
                self.take(",");
            }
        }
        match selector.matchers.is_empty() {
            true => Err(self.unsupported()),
            false => Ok(selector),
        }
    }

    fn matcher(&mut self) -> Result<Matcher, String> {
        let label = self.word();
        if label.is_empty() {
            return Err(self.unsupported());
        }
        let (negated, is_regex) = if self.take("=~") {
            (false, true)
        } else if self.take("!~") {
            (true, true)
        } else if self.take("!=") {
            (true, false)
        } else {
            self.expect("=")?;
            (false, false)
        };
        let value = self.string()?;
        let patterns = match is_regex {
            false => vec![vec![value]],
            true => value
                .split('|')
                .map(|alternative| pieces(alternative).ok_or_else(|| self.unsupported()))
                .collect::<Result<_, _>>()?,
        };
        Ok(Matcher {
            label,
            negated,
            patterns,
        })
    }

    fn string(&mut self) -> Result<String, String> {
        self.skip_blank();
        let quote = match self.rest().chars().next() {
            Some(quote @ ('"' | '\'')) => quote,
            _ => return Err(self.unsupported()),
        };
        let mut value = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => value.extend(chars.next().map(|(_, c)| c)),
                c if c == quote => {
                    self.at += at + c.len_utf8();
                    return Ok(value);
                }
                c => value.push(c),
            }
        }
        Err(self.unsupported())
    }

    /// A duration in milliseconds, such as `5m` or `1h30m`.
    fn duration(&mut self) -> Result<i64, String> {
        self.skip_blank();
        let text: String = self
            .rest()
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        self.at += text.len();
        duration_ms(&text).ok_or_else(|| self.unsupported())
    }

    fn number(&mut self) -> Option<f64> {
        self.skip_blank();
        let digits: String = self
            .rest()
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        let number = digits.parse().ok()?;
        self.at += digits.len();
        Some(number)
    }

    fn word(&mut self) -> String {
        self.skip_blank();
        let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == ':';
        let word: String = self.rest().chars().take_while(is_part).collect();
        self.at += word.len();
        word
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_blank(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_blank();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.take(token) {
            true => Ok(()),
            false => Err(self.unsupported()),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        self.skip_blank();
        match self.rest().is_empty() {
            true => Ok(()),
            false => Err(self.unsupported()),
        }
    }

    fn unsupported(&self) -> String {
        let here: String = self.rest().chars().take(20).collect();
        format!("at character {}, {here:?}: {SUPPORTED}", self.at + 1)
    }
}

/// Pieces between `.*`; none when the pattern has more than that.
fn pieces(pattern: &str) -> Option<Vec<String>> {
    let pieces: Vec<String> = pattern.split(".*").map(str::to_owned).collect();
    let is_plain = |piece: &String| !piece.contains(|c| ".*+?()[]{}^$\\".contains(c));
    pieces.iter().all(is_plain).then_some(pieces)
}

/// A Prometheus duration, or seconds as a plain number, in milliseconds.
pub(super) fn duration_ms(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<f64>() {
        let ms = seconds * 1000.0;
        return (1.0..1e15).contains(&ms).then_some(ms as i64);
    }
    let mut total = 0i64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: i64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[letters..];
    }
    (total > 0).then_some(total)
}
