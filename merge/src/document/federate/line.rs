//! One line of a text exposition: a sample, or what is said of a family.
//!
//! Names may be quoted, as newer servers write those that are no identifiers.

use bumpalo::Bump;

use crate::error::MemberFailure;
use crate::labels::{self, Label};

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Line<'a> {
    /// An empty line or a comment.
    Nothing,
    /// The type (`kind`) or the help of a family.
    About {
        name: &'a str,
        kind: Option<&'a str>,
    },
    /// A sample; its labels are handed over apart.
    Sample { name: &'a str, value: Value<'a> },
    /// None of these.
    Bad,
}

/// Value and time of a sample, as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value<'a>(&'a str);

type Outcome<T> = Result<T, MemberFailure>;

const SPACE: [char; 2] = [' ', '\t'];

/// Reads a line without its end; labels are appended to `labels` as they come.
pub(super) fn read<'a>(
    line: &'a str,
    labels: &mut Vec<Label<'a>>,
    bump: &'a Bump,
) -> Outcome<Line<'a>> {
    let text = line.trim_matches(SPACE);
    if text.is_empty() {
        return Ok(Line::Nothing);
    }
    if let Some(comment) = text.strip_prefix('#') {
        return comment_line(comment.trim_start_matches(SPACE), bump);
    }
    let mut rest = text;
    let mut name = take_word(&mut rest);
    rest = rest.trim_start_matches(SPACE);
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        let Some(()) = take_labels(&mut rest, &mut name, labels, bump)? else {
            return Ok(Line::Bad);
        };
    }
    let value = rest.trim_start_matches(SPACE);
    Ok(match name {
        Some(name) if is_value(value) => Line::Sample {
            name,
            value: Value(value),
        },
        _ => Line::Bad,
    })
}

fn comment_line<'a>(comment: &'a str, bump: &'a Bump) -> Outcome<Line<'a>> {
    let Some((word, rest)) = comment.split_once(SPACE) else {
        return Ok(Line::Nothing);
    };
    if !matches!(word, "TYPE" | "HELP") {
        return Ok(Line::Nothing);
    }
    let mut rest = rest.trim_start_matches(SPACE);
    let name = match take_quoted(&mut rest, bump)? {
        Some(name) => Some(name),
        None => take_word(&mut rest),
    };
    Ok(match name {
        Some(name) => Line::About {
            name,
            kind: (word == "TYPE").then_some(rest.trim_matches(SPACE)),
        },
        None => Line::Bad,
    })
}

/// Whether this is a value, or a value and a time.
fn is_value(text: &str) -> bool {
    let mut words = text.split(SPACE).filter(|word| !word.is_empty());
    let value = words.next().is_some_and(|word| word.parse::<f64>().is_ok());
    let time = words.next().is_none_or(|word| word.parse::<i64>().is_ok());
    value && time && words.next().is_none()
}

/// Reads labels up to the closing brace; a quoted text alone is the name of the metric.
fn take_labels<'a>(
    rest: &mut &'a str,
    name: &mut Option<&'a str>,
    labels: &mut Vec<Label<'a>>,
    bump: &'a Bump,
) -> Outcome<Option<()>> {
    loop {
        *rest = rest.trim_start_matches(SPACE);
        if let Some(after) = rest.strip_prefix('}') {
            *rest = after;
            return Ok(Some(()));
        }
        let quoted = take_quoted(rest, bump)?;
        let is_quoted = quoted.is_some();
        let Some(key) = quoted.or_else(|| take_word(rest)) else {
            return Ok(None);
        };
        *rest = rest.trim_start_matches(SPACE);
        if let Some(after) = rest.strip_prefix('=') {
            *rest = after.trim_start_matches(SPACE);
            let Some(value) = take_quoted(rest, bump)? else {
                return Ok(None);
            };
            labels.push(Label { name: key, value });
        } else if is_quoted && name.is_none() {
            *name = Some(key);
        } else {
            return Ok(None);
        }
        *rest = rest.trim_start_matches(SPACE);
        match rest.strip_prefix(',') {
            Some(after) => *rest = after,
            None if rest.starts_with('}') => {}
            None => return Ok(None),
        }
    }
}

/// Reads an identifier: letters, digits, `_` and `:`.
fn take_word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let end = rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    if !is_identifier(word) {
        return None;
    }
    *rest = after;
    Some(word)
}

fn is_identifier(word: &str) -> bool {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    word.starts_with(|c: char| !c.is_ascii_digit()) && word.chars().all(valid)
}

/// Reads a quoted text; `None` where there is none, or it does not end.
fn take_quoted<'a>(rest: &mut &'a str, bump: &'a Bump) -> Outcome<Option<&'a str>> {
    let Some(inside) = rest.strip_prefix('"') else {
        return Ok(None);
    };
    let mut escaped = String::new();
    let mut from = 0;
    loop {
        let Some(length) = inside[from..].find(['"', '\\']) else {
            return Ok(None);
        };
        let at = from + length;
        if inside.as_bytes()[at] == b'"' {
            *rest = &inside[at + 1..];
            if escaped.is_empty() {
                return Ok(Some(&inside[..at]));
            }
            escaped.push_str(&inside[from..at]);
            return labels::keep(bump, &escaped).map(Some);
        }
        escaped.push_str(&inside[from..at]);
        let Some(after) = inside[at + 1..].chars().next() else {
            return Ok(None);
        };
        match after {
            'n' => escaped.push('\n'),
            '"' | '\\' => escaped.push(after),
            // Other escapes stay as they are, as servers read them.
            other => escaped.extend(['\\', other]),
        }
        from = at + 1 + after.len_utf8();
    }
}

/// Appends a sample.
pub(super) fn write(out: &mut Vec<u8>, name: &str, labels: &[Label<'_>], value: &Value<'_>) {
    let is_plain = is_identifier(name);
    if is_plain {
        out.extend_from_slice(name.as_bytes());
    }
    out.push(b'{');
    if !is_plain {
        write_quoted(out, name);
    }
    for (at, label) in labels.iter().enumerate() {
        if at > 0 || !is_plain {
            out.push(b',');
        }
        // A colon is for names of metrics only.
        if is_identifier(label.name) && !label.name.contains(':') {
            out.extend_from_slice(label.name.as_bytes());
        } else {
            write_quoted(out, label.name);
        }
        out.push(b'=');
        write_quoted(out, label.value);
    }
    out.extend_from_slice(b"} ");
    out.extend_from_slice(value.0.as_bytes());
}

fn write_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(line: &str) -> String {
        let bump = Bump::new();
        let mut labels = Vec::new();
        match read(line, &mut labels, &bump).expect("room in the arena") {
            Line::Sample { name, value } => {
                let mut out = Vec::new();
                write(&mut out, name, &labels, &value);
                String::from_utf8(out).expect("UTF-8")
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn samples_are_read_and_written() {
        let cases = [
            ("up 1", "up{} 1"),
            ("up{} 1 1700000000000", "up{} 1 1700000000000"),
            (
                r#"a:b { x = "1" , y="" , }  NaN  -5"#,
                r#"a:b{x="1",y=""} NaN  -5"#,
            ),
            (
                r#"a{x="q\"s\\n\nz\t"} +Inf"#,
                r#"a{x="q\"s\\n\nz\\t"} +Inf"#,
            ),
            (r#"{"a.b",x="1"} -1e3"#, r#"{"a.b",x="1"} -1e3"#),
            (r#"{"plain"} 1"#, "plain{} 1"),
            (
                r#"a{"x.y"="grün","c:d"="2"} 1"#,
                r#"a{"x.y"="grün","c:d"="2"} 1"#,
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(show(line), expected, "{line}");
        }
    }

    #[test]
    fn comments_say_what_a_family_is_or_nothing() {
        for line in ["", "  ", "#", "# ", "# a comment", "#TYPED a b", "# EOF"] {
            assert_eq!(show(line), "Nothing", "{line}");
        }
        let bump = Bump::new();
        let about = |line| read(line, &mut Vec::new(), &bump).expect("room in the arena");
        let (name, kind) = ("a", Some("gauge"));
        assert_eq!(about("# TYPE a  gauge "), Line::About { name, kind });
        assert_eq!(about("#TYPE a gauge"), Line::About { name, kind });
        let name = "a.b";
        assert_eq!(
            about(r#"# HELP "a.b" some text"#),
            Line::About { name, kind: None }
        );
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "up",
            "up{",
            "up{}",
            "up{} x",
            "up 1 2 3",
            "up 1 1.5",
            "1up 1",
            "{} 1",
            "{x=\"1\"} 1",
            "up{x} 1",
            "up{x=} 1",
            "up{x=1} 1",
            "up{x=\"1} 1",
            "up{x=\"1\" y=\"2\"} 1",
            "up{,} 1",
            "up{x=\"1\\",
            "a{\"b\"} 1",
            "{\"a\",\"b\"} 1",
            "up # {} 1",
            "# TYPE",
            "grün 1",
        ] {
            let expected = if line == "# TYPE" { "Nothing" } else { "Bad" };
            assert_eq!(show(line), expected, "{line}");
        }
    }
}
