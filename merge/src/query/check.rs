//! Whether a query is one that servers accept.
//!
//! A query that is cut into parts never reaches a server as it was written, so what a server would
//! refuse must be seen here: [`check`] looks at types, [`is_plain`] at everything that depends on
//! the version of the servers, or where the parser is known or suspected to be more tolerant than
//! they are. What is not plain is shown to a server as a whole before its parts count.

use super::print::is_keyword;
use super::{Aggregate, Binary, Cardinality, Grouping, Kind, Node, OperatorKind};

/// Types of the arguments of functions that all servers since 2.40 have: `s`calar, `v`ector,
/// `m`atrix, `t`ext; those after `?` may be left out, the one before `*` repeats.
const FUNCTIONS: &[(&str, &str)] = &[
    ("abs", "v"),
    ("absent", "v"),
    ("absent_over_time", "m"),
    ("acos", "v"),
    ("acosh", "v"),
    ("asin", "v"),
    ("asinh", "v"),
    ("atan", "v"),
    ("atanh", "v"),
    ("avg_over_time", "m"),
    ("ceil", "v"),
    ("changes", "m"),
    ("clamp", "vss"),
    ("clamp_max", "vs"),
    ("clamp_min", "vs"),
    ("cos", "v"),
    ("cosh", "v"),
    ("count_over_time", "m"),
    ("day_of_month", "?v"),
    ("day_of_week", "?v"),
    ("day_of_year", "?v"),
    ("days_in_month", "?v"),
    ("deg", "v"),
    ("delta", "m"),
    ("deriv", "m"),
    ("exp", "v"),
    ("floor", "v"),
    ("histogram_count", "v"),
    ("histogram_fraction", "ssv"),
    ("histogram_quantile", "sv"),
    ("histogram_sum", "v"),
    ("hour", "?v"),
    ("idelta", "m"),
    ("increase", "m"),
    ("irate", "m"),
    ("label_join", "vttt*"),
    ("label_replace", "vtttt"),
    ("last_over_time", "m"),
    ("ln", "v"),
    ("log10", "v"),
    ("log2", "v"),
    ("max_over_time", "m"),
    ("min_over_time", "m"),
    ("minute", "?v"),
    ("month", "?v"),
    ("pi", ""),
    ("predict_linear", "ms"),
    ("present_over_time", "m"),
    ("quantile_over_time", "sm"),
    ("rad", "v"),
    ("rate", "m"),
    ("resets", "m"),
    ("round", "v?s"),
    ("scalar", "v"),
    ("sgn", "v"),
    ("sin", "v"),
    ("sinh", "v"),
    ("sort", "v"),
    ("sort_desc", "v"),
    ("sqrt", "v"),
    ("stddev_over_time", "m"),
    ("stdvar_over_time", "m"),
    ("sum_over_time", "m"),
    ("tan", "v"),
    ("tanh", "v"),
    ("time", ""),
    ("timestamp", "v"),
    ("vector", "s"),
    ("year", "?v"),
];

/// Functions of durations, which no part may hold: its steps are not those of the request.
const OF_REQUESTS: [&str; 4] = ["start", "end", "step", "range"];

/// Refuses what is wrongly typed or not understood, naming it.
pub(crate) fn check(node: &Node) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("wrong type in {what}"));
    match node {
        Node::Number(_) | Node::Text(_) | Node::Part { .. } => {}
        Node::Selector(selector) if selector.has_alternatives => {
            return Err("or between matchers".to_owned());
        }
        Node::Selector(_) => {}
        Node::Subquery(subquery) if subquery.input.kind() != Kind::Vector => {
            return wrong("subquery");
        }
        Node::Subquery(_) => {}
        Node::Negate(input) if !matches!(input.kind(), Kind::Scalar | Kind::Vector) => {
            return wrong("unary expression");
        }
        Node::Negate(_) => {}
        Node::Aggregate(aggregate) if !is_typed(aggregate) => return wrong(aggregate.operator),
        Node::Aggregate(_) => {}
        Node::Binary(binary) => check_binary(binary)?,
        Node::Call {
            function,
            arguments,
        } => {
            if OF_REQUESTS.contains(function) {
                return Err(format!("function {function}"));
            }
            let types = FUNCTIONS.iter().find(|(name, _)| name == function);
            if types.is_some_and(|(_, types)| !fits(types, arguments)) {
                return wrong(function);
            }
        }
    }
    node.children().into_iter().try_for_each(check)
}

fn is_typed(aggregate: &Aggregate) -> bool {
    let parameter = aggregate
        .parameter
        .as_ref()
        .map(|parameter| parameter.kind());
    let wanted = match aggregate.operator {
        "topk" | "bottomk" | "quantile" | "limitk" | "limit_ratio" => Some(Kind::Scalar),
        "count_values" => Some(Kind::Text),
        _ => None,
    };
    parameter == wanted && aggregate.input.kind() == Kind::Vector
}

fn fits(types: &str, arguments: &[Node]) -> bool {
    let kind = |letter: char| match letter {
        's' => Kind::Scalar,
        'v' => Kind::Vector,
        'm' => Kind::Matrix,
        _ => Kind::Text,
    };
    let repeats = types.ends_with('*');
    let needed =
        types.find('?').unwrap_or(types.trim_end_matches('*').len()) - usize::from(repeats);
    let letters: Vec<char> = types.chars().filter(char::is_ascii_alphabetic).collect();
    let is_count = arguments.len() >= needed && (repeats || arguments.len() <= letters.len());
    is_count
        && arguments.iter().enumerate().all(|(at, argument)| {
            let letter = letters.get(at).or(letters.last());
            letter.is_some_and(|letter| argument.kind() == kind(*letter))
        })
}

fn check_binary(binary: &Binary) -> Result<(), String> {
    let kinds = [binary.left.kind(), binary.right.kind()];
    let is_vector = kinds == [Kind::Vector; 2];
    let has_text = kinds
        .iter()
        .any(|kind| matches!(kind, Kind::Matrix | Kind::Text));
    let is_set = binary.kind == OperatorKind::Set;
    let is_comparison = binary.kind == OperatorKind::Comparison;
    // Empty lists are looked past.
    let is_matched = match &binary.matching {
        Grouping::None => false,
        Grouping::Include(labels) | Grouping::Exclude(labels) => !labels.is_empty(),
    };
    let joint = match (&binary.matching, &binary.cardinality) {
        (
            Grouping::Include(on),
            Cardinality::ManyToOne(labels) | Cardinality::OneToMany(labels),
        ) => labels.iter().any(|label| on.contains(label)),
        _ => false,
    };
    let is_wrong = has_text
        || (is_matched && !is_vector)
        || (is_set && (!is_vector || binary.cardinality != Cardinality::Plain))
        || (binary.returns_bool && !is_comparison)
        || (is_comparison && kinds == [Kind::Scalar; 2] && !binary.returns_bool)
        || joint;
    match is_wrong {
        true => Err(format!("wrong type in {}", binary.operator)),
        false => Ok(()),
    }
}

/// Whether every server since 2.40 reads `text`, whose tree is `node`, the same way and accepts it.
pub(crate) fn is_plain(text: &str, node: &Node) -> bool {
    let is_odd = |node: &Node| match node {
        Node::Call { function, .. } => !FUNCTIONS.iter().any(|(name, _)| name == function),
        Node::Aggregate(aggregate) => {
            matches!(aggregate.operator, "limitk" | "limit_ratio") || has_odd(&aggregate.grouping)
        }
        Node::Binary(binary) => {
            has_odd(&binary.matching)
                || match &binary.cardinality {
                    Cardinality::Plain => false,
                    Cardinality::ManyToOne(labels) | Cardinality::OneToMany(labels) => {
                        labels.iter().any(|label| !is_identifier(label))
                    }
                }
        }
        Node::Selector(selector) => {
            let matchers = &selector.matchers;
            // Words that the servers may not take for names.
            let has_word = selector.name().is_some_and(is_keyword);
            has_word
                || matchers
                    .iter()
                    .any(|matcher| !is_identifier(&matcher.label))
        }
        _ => false,
    };
    node.find(&is_odd).is_none() && is_plain_text(text)
}

fn has_odd(grouping: &Grouping) -> bool {
    match grouping {
        Grouping::None => false,
        Grouping::Include(labels) | Grouping::Exclude(labels) => {
            labels.iter().any(|label| !is_identifier(label))
        }
    }
}

fn is_identifier(label: &str) -> bool {
    label.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A token of a text, as far as plainness goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    /// Digits and what follows them without a space.
    Number(&'t str),
    Text,
    Symbol(u8),
}

/// Whether the text is written in forms that no server ever read otherwise.
fn is_plain_text(text: &str) -> bool {
    let Some(tokens) = tokens(text) else {
        return false;
    };
    let mut brackets = 0usize;
    let mut lists: Vec<bool> = Vec::new();
    let mut last = Token::Symbol(b'(');
    let mut before = last;
    for token in tokens {
        let is_fine = match token {
            Token::Symbol(b'(') => {
                lists.push(is_list_word(last));
                true
            }
            Token::Symbol(b'{') => {
                lists.push(true);
                true
            }
            Token::Symbol(b')' | b'}') => {
                lists.pop();
                // A trailing comma is fine in some lists only.
                last != Token::Symbol(b',')
            }
            Token::Symbol(b'[') => {
                brackets += 1;
                true
            }
            Token::Symbol(b']') => {
                brackets = brackets.saturating_sub(1);
                true
            }
            Token::Symbol(b',') => !matches!(last, Token::Symbol(b',' | b'(' | b'{')),
            Token::Symbol(_) | Token::Word(_) => true,
            // Labels and metric names in quotes came with 3.0.
            Token::Text => {
                !lists.last().copied().unwrap_or(false)
                    || matches!(last, Token::Symbol(b'=' | b'~'))
            }
            Token::Number(number) => {
                let is_offset = |token| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("offset"));
                let is_time = brackets > 0
                    || is_offset(last)
                    || (last == Token::Symbol(b'-') && is_offset(before));
                match is_time {
                    true => is_plain_duration(number),
                    false => is_plain_number(number),
                }
            }
        };
        if !is_fine {
            return false;
        }
        (before, last) = (last, token);
    }
    true
}

fn is_list_word(token: Token<'_>) -> bool {
    const WORDS: [&str; 6] = [
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "group_right",
    ];
    matches!(token, Token::Word(word) if WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let run = |keep: &dyn Fn(u8) -> bool| bytes[at..].iter().take_while(|b| keep(**b)).count();
        let length = match byte {
            b'#' => run(&|b| b != b'\n'),
            b' ' | b'\t' | b'\n' | b'\r' => 1,
            b'"' | b'\'' | b'`' => string_length(&bytes[at..])?,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                run(&|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':')
            }
            b'0'..=b'9' => {
                let digits = run(&|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_'));
                let is_exponent = text[at..at + digits].ends_with(['e', 'E']);
                match is_exponent && matches!(bytes.get(at + digits), Some(b'+' | b'-')) {
                    true => {
                        let rest = &bytes[at + digits + 1..];
                        digits + 1 + rest.iter().take_while(|b| b.is_ascii_digit()).count()
                    }
                    false => digits,
                }
            }
            b'(' | b')' | b'{' | b'}' | b'[' | b']' | b',' | b'=' | b'!' | b'~' | b'<' | b'>'
            | b'+' | b'-' | b'*' | b'/' | b'%' | b'^' | b'@' | b':' => 1,
            _ => return None,
        };
        let piece = text.get(at..at + length)?;
        match byte {
            b'#' | b' ' | b'\t' | b'\n' | b'\r' => {}
            b'"' | b'\'' | b'`' => tokens.push(Token::Text),
            b'0'..=b'9' => tokens.push(Token::Number(piece)),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => tokens.push(Token::Word(piece)),
            _ => tokens.push(Token::Symbol(byte)),
        }
        at += length;
    }
    Some(tokens)
}

/// The length of a string without odd escapes.
fn string_length(bytes: &[u8]) -> Option<usize> {
    let quote = *bytes.first()?;
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            byte if byte == quote => return Some(at + 1),
            b'\\' if quote != b'`' => match bytes.get(at + 1)? {
                b'\\' | b'n' | b't' | b'r' => at += 2,
                escaped if *escaped == quote => at += 2,
                _ => return None,
            },
            b'\n' if quote != b'`' => return None,
            _ => at += 1,
        }
    }
}

fn is_plain_number(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_mantissa = match mantissa.split_once('.') {
        Some((whole, decimals)) => is_digits(whole) && is_digits(decimals),
        // Zeros in front may mean a number of base 8.
        None => is_digits(mantissa) && (mantissa == "0" || !mantissa.starts_with('0')),
    };
    is_mantissa && exponent.is_none_or(|text| is_digits(text.trim_start_matches(['+', '-'])))
}

/// `1h30m`: units in falling order, each once, and not zero.
fn is_plain_duration(text: &str) -> bool {
    const UNITS: [&str; 7] = ["y", "w", "d", "h", "m", "s", "ms"];
    let mut rest = text;
    let mut from = 0;
    let mut is_zero = true;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..]
            .bytes()
            .take_while(u8::is_ascii_lowercase)
            .count();
        let unit = &rest[digits..digits + letters];
        let Some(at) = UNITS[from..].iter().position(|known| *known == unit) else {
            return false;
        };
        if digits == 0 {
            return false;
        }
        is_zero &= rest[..digits].bytes().all(|b| b == b'0');
        from += at + 1;
        rest = &rest[digits + letters..];
    }
    !is_zero
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::parse;

    #[test]
    fn plain_is_what_all_servers_read_alike() {
        let plain = [
            "sum by (job) (rate(x{a=\"b\", c!~'d.*'}[5m] offset 1h30m)) / 2.5e-3",
            "max_over_time((a + on (x) group_left (y) b)[1h:30s] @ 1609746000.5) # comment",
            "up < bool ignoring () 1",
            "label_replace(up, \"a\", \"$1\", \"b\", `(.*)\\d`) or vector(0)",
            "a @ start() offset -5m > bool 1",
        ];
        let odd = [
            "sum by (\"job\") (up)",
            "{\"up\"}",
            "up offset 5",
            "sum(up[60])",
            "limitk(1, up)",
            "mad_over_time(up[5m])",
            "up[0s]",
            "up[1m1h]",
            "rate(up[5m],)",
            "up + .5",
            "up + 010",
            "up + 1_000",
            "up + 0s",
            "up offset 0s",
            "up + 0x1F",
            "up + 5m",
            "up{a=\"\\x41\"}",
            "up{a=\"b\",}",
            "up + \u{e9}",
            "up + offset -1m",
        ];
        for query in plain {
            let tree = parse(query).unwrap();
            assert_eq!(check(&tree), Ok(()), "{query}");
            assert!(is_plain(query, &tree), "{query}");
        }
        for query in odd {
            let is_plain = parse(query).is_ok_and(|tree| is_plain(query, &tree));
            assert!(!is_plain, "{query}");
        }
    }

    #[test]
    fn wrong_types_are_seen() {
        for query in [
            "sum(up[5m])",
            "quantile(\"a\", up)",
            "topk(up, up)",
            "limitk(up, up)",
            "count_values(1, up)",
            "1 or 2",
            "up and 1",
            "1 + on(a) 2",
            "1 == 2",
            "up + bool up",
            "up and on(a) group_left up",
            "a + on(x) group_left(x) b",
            "-\"a\"",
            "up[5m] + 1",
            "max_over_time(time()[5m:1m])",
            "exp(1)",
            "ln(2)",
            "round(up, up)",
            "rate(up)",
            "label_join(up, \"a\")",
            "histogram_quantile(0.9)",
            "end() + up",
            "up{a=\"b\" or a=\"c\"}",
        ] {
            let read = parse(query).and_then(|tree| check(&tree));
            assert!(read.is_err(), "{query}");
        }
    }
}
