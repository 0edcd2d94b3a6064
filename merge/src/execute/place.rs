//! Where in the query an annotation points to.
//!
//! Servers end an annotation with line and column of the expression that it is about. What is
//! evaluated here has no places, and what a part was annotated with has those of the part's text:
//! both are found again in the text of the query, by the operation and the name or number that the
//! annotation mentions.

use std::ops::Range;

/// Beginnings of annotations, each with the operations that make it and which of their arguments
/// it is about.
const ABOUT: &[(&str, &[(&str, usize)])] = &[
    (
        "quantile value should be between",
        &[
            ("quantile", 0),
            ("histogram_quantile", 0),
            ("quantile_over_time", 0),
        ],
    ),
    ("ratio value should be between", &[("limit_ratio", 0)]),
    (
        "bucket label",
        &[("histogram_quantile", 1), ("histogram_fraction", 2)],
    ),
    (
        "input to histogram_quantile needed to be fixed",
        &[("histogram_quantile", 1)],
    ),
    (
        "vector contains a mix of classic and native histograms",
        &[("histogram_quantile", 1), ("histogram_fraction", 2)],
    ),
    (
        "encountered a mix of histograms and floats for aggregation",
        &[("sum", 0), ("avg", 0)],
    ),
    ("encountered a mix of histograms and floats", RANGES),
    ("vector contains a mix of histograms with", RANGES),
    ("vector contains histograms with incompatible", RANGES),
    ("this native histogram metric is not a", RANGES),
    ("metric might not be a counter", RANGES),
    ("ignored histograms in a range containing both", RANGES),
];

/// Operations over what is added or compared.
const RANGES: &[(&str, usize)] = &[
    ("rate", 0),
    ("increase", 0),
    ("delta", 0),
    ("irate", 0),
    ("idelta", 0),
    ("sum_over_time", 0),
    ("avg_over_time", 0),
    ("sum", 0),
    ("avg", 0),
];

/// The annotation with the place in `text`; as it is where none is found.
pub(super) fn placed(text: &str, annotation: &str) -> String {
    let message = unplaced(annotation);
    let about = ["PromQL warning: ", "PromQL info: "]
        .into_iter()
        .find_map(|prefix| message.strip_prefix(prefix));
    let known = about.and_then(|about| {
        let (_, operations) = ABOUT.iter().find(|(start, _)| about.starts_with(start))?;
        place(text, about, operations)
    });
    match known {
        Some((line, column)) => format!("{message} ({line}:{column})"),
        None => annotation.to_owned(),
    }
}

/// The annotation without its place.
fn unplaced(annotation: &str) -> &str {
    let bare = annotation.strip_suffix(')').and_then(|text| {
        let (message, place) = text.rsplit_once(" (")?;
        let (line, column) = place.split_once(':')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        (is_number(line) && is_number(column)).then_some(message)
    });
    bare.unwrap_or(annotation)
}

/// Line and column of the argument that `about` is about.
fn place(text: &str, about: &str, operations: &[(&str, usize)]) -> Option<(usize, usize)> {
    let tokens = tokens(text);
    let mut candidates = Vec::new();
    for (at, (start, token)) in tokens.iter().enumerate() {
        let word = token.to_ascii_lowercase();
        if let Some((_, argument)) = operations.iter().find(|(name, _)| *name == word)
            && let Some(mut range) = argument_of(&tokens, at + 1, *argument)
        {
            // Scalars of functions are the only ones whose parentheses count.
            if *argument > 0 || !word.contains("quantile_") && !word.contains("_quantile") {
                while let Some(inner) = unwrapped(&tokens, &range) {
                    range = inner;
                }
            }
            let first = tokens[range.start].0;
            let end = tokens
                .get(range.end)
                .map_or(text.len(), |(start, _)| *start);
            debug_assert!(first > *start);
            candidates.push((first, text.get(first..end).unwrap_or_default()));
        }
    }
    let number = about
        .split_once("got ")
        .map(|(_, rest)| rest.split([',', ' ']).next().unwrap_or_default());
    let name = about
        .split_once("metric name \"")
        .and_then(|(_, rest)| rest.split('"').next());
    let value = |text: &str| {
        let bare = text.trim().trim_matches(['(', ')']);
        bare.trim().parse::<f64>().ok()
    };
    let is_meant = |argument: &str| match (number, name) {
        (Some(number), _) => match (value(number), value(argument)) {
            (Some(a), Some(b)) => a == b || (a.is_nan() && b.is_nan()),
            _ => false,
        },
        (None, Some(name)) => argument.contains(name),
        (None, None) => true,
    };
    let is_open = |argument: &str| number.is_some() && value(argument).is_none();
    let found = candidates
        .iter()
        .find(|(_, argument)| is_meant(argument))
        .or_else(|| candidates.iter().find(|(_, argument)| is_open(argument)))
        .or_else(|| candidates.first().filter(|_| number.is_none()))?;
    let before = text.get(..found.0)?;
    let line = 1 + before.matches('\n').count();
    let column = 1 + found.0 - before.rfind('\n').map_or(0, |at| at + 1);
    Some((line, column))
}

/// What stands between the parentheses around all of `range`.
fn unwrapped(tokens: &[(usize, &str)], range: &Range<usize>) -> Option<Range<usize>> {
    let (first, inner) = tokens.get(range.clone())?.split_first()?;
    let (last, inner) = inner.split_last()?;
    if first.1 != "(" || last.1 != ")" {
        return None;
    }
    let mut depth = 0usize;
    for (_, token) in inner {
        match *token {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    Some(range.start + 1..range.end - 1)
}

/// The tokens of argument number `wanted` of the operation whose name ends before token `at`.
/// Labels between the name and the arguments are skipped.
fn argument_of(tokens: &[(usize, &str)], mut at: usize, wanted: usize) -> Option<Range<usize>> {
    let is_grouping =
        |token: &str| token.eq_ignore_ascii_case("by") || token.eq_ignore_ascii_case("without");
    if tokens.get(at).is_some_and(|(_, token)| is_grouping(token)) {
        while tokens.get(at)?.1 != ")" {
            at += 1;
        }
        at += 1;
    }
    if tokens.get(at)?.1 != "(" {
        return None;
    }
    let (mut depth, mut index, mut first) = (0usize, 0, at + 1);
    for (place, (_, token)) in tokens.iter().enumerate().skip(at + 1) {
        match *token {
            "," | ")" if depth == 0 && index == wanted => {
                return (first < place).then_some(first..place);
            }
            "," if depth == 0 => {
                index += 1;
                first = place + 1;
            }
            "(" | "[" | "{" => depth += 1,
            ")" if depth == 0 => return None,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Words, numbers, strings and symbols with where they begin.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let is_word =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.') || b >= 0x80;
        let run = |keep: &dyn Fn(u8) -> bool| bytes[at..].iter().take_while(|b| keep(**b)).count();
        let length = match byte {
            b'#' => run(&|b| b != b'\n'),
            b'"' | b'\'' | b'`' => {
                let mut end = at + 1;
                while bytes.get(end).is_some_and(|b| *b != byte) {
                    let escapes = bytes[end] == b'\\' && byte != b'`';
                    end += if escapes { 2 } else { 1 };
                }
                end + 1 - at
            }
            byte if is_word(byte) => run(&is_word),
            _ => 1,
        };
        let end = (at + length).min(bytes.len());
        if !byte.is_ascii_whitespace() && byte != b'#' {
            tokens.push((at, text.get(at..end).unwrap_or_default()));
        }
        at = end;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_point_into_the_query() {
        let quantile = "PromQL warning: quantile value should be between 0 and 1, got";
        let bucket = "PromQL warning: bucket label \"le\" is missing or has a malformed value of \
                      \"\" for metric name";
        let mixed = "PromQL warning: encountered a mix of histograms and floats for aggregation";
        let cases = [
            ("quantile(-1, x)", format!("{quantile} -1"), "(1:10)"),
            (
                "# quantile(\n quantile by (a) ( 2, x)",
                format!("{quantile} 2"),
                "(2:20)",
            ),
            (
                "histogram_quantile(0.5, a) + quantile(NaN, \"(\" + x)",
                format!("{quantile} NaN"),
                "(1:39)",
            ),
            (
                "quantile(0.5, a) + quantile(scalar(y), x)",
                format!("{quantile} 7"),
                "(1:29)",
            ),
            (
                "histogram_quantile(0.5, a) + histogram_quantile(0.9, rate(b[5m]))",
                format!("{bucket} \"b\""),
                "(1:54)",
            ),
            ("quantile((2), x)", format!("{quantile} 2"), "(1:11)"),
            (
                "histogram_quantile((1.5), ((a)))",
                format!("{quantile} 1.5"),
                "(1:20)",
            ),
            (
                "histogram_quantile(1, ((a) + (b)))",
                format!("{bucket} \"\""),
                "(1:24)",
            ),
            ("sum by (a) (x) / 2", mixed.to_owned(), "(1:13)"),
        ];
        for (query, message, place) in cases {
            let placed = placed(query, &format!("{message} (9:9)"));
            assert_eq!(placed, format!("{message} {place}"), "{query}");
        }
        let other = "ringway: something (1:2)";
        assert_eq!(placed("sum(x)", other), other);
        let unknown = format!("{mixed} (1:5)");
        assert_eq!(placed("max(x", &unknown), unknown);
    }
}
