//! Texts as the servers format them in messages: label sets, strings and numbers.

use std::fmt::Write as _;

use crate::labels::Label;
use crate::plan::Dialect;

/// A label set as it stands in error texts: `{a="1", b="2"}`.
pub(super) fn label_set(labels: &[Label<'_>], dialect: Dialect) -> String {
    let mut out = String::from("{");
    for (at, label) in labels.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        match dialect.is_at_least(3, 0) && !is_plain_label(label.name) {
            true => out.push_str(&quoted(label.name)),
            false => out.push_str(label.name),
        }
        out.push('=');
        out.push_str(&quoted(label.value));
    }
    out.push('}');
    out
}

/// Whether a label's name needs no quotes.
pub(super) fn is_plain_label(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|first| is_letter(*first))
        && bytes
            .iter()
            .all(|byte| is_letter(*byte) || byte.is_ascii_digit())
}

/// A string in double quotes, with escapes for what cannot be printed.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\0'..='\x1f' | '\x7f' => {
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            _ if is_printable(character) => out.push(character),
            '\0'..='\u{ffff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(character));
            }
        }
    }
    out.push('"');
    out
}

fn is_printable(character: char) -> bool {
    let is_space = character.is_whitespace() && character != ' ';
    // The standard library escapes what is not printable.
    !is_space && (character.is_alphanumeric() || character.escape_debug().len() <= 2)
}

/// A number with as few digits as tell it apart, with an exponent below 1e-4 and from 1e6 on: what
/// messages show.
pub(super) fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match (-4..6).contains(&exponent) {
        true => format!("{value}"),
        false => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

/// A number without an exponent, as the label values of `count_values`.
pub(super) fn plain_number(value: f64) -> String {
    match value.is_infinite() {
        true if value > 0.0 => "+Inf".to_owned(),
        true => "-Inf".to_owned(),
        false => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_messages() {
        let cases = [
            (0.0, "0"),
            (-0.25, "-0.25"),
            (1.5, "1.5"),
            (123_456.5, "123456.5"),
            (1e6, "1e+06"),
            (-1_234_567.0, "-1.234567e+06"),
            (1e30, "1e+30"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn numbers_of_labels_have_no_exponent() {
        let cases = [
            (1e21, "1000000000000000000000"),
            (1e-7, "0.0000001"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(plain_number(value), expected);
        }
    }

    #[test]
    fn strings_are_quoted() {
        let cases = [
            ("", r#""""#),
            ("a\"b\\", r#""a\"b\\""#),
            ("\n\t\u{7}\u{1}\u{7f}", r#""\n\t\a\x01\x7f""#),
            ("é日 ", "\"é日 \""),
            ("\u{a0}\u{ad}\u{2028}", r#""\u00a0\u00ad\u2028""#),
            ("\u{10ffff}", r#""\U0010ffff""#),
        ];
        for (text, expected) in cases {
            assert_eq!(quoted(text), expected, "{text:?}");
        }
    }

    #[test]
    fn odd_label_names_are_quoted_by_newer_servers() {
        let labels = [
            Label {
                name: "a.b",
                value: "1",
            },
            Label {
                name: "c",
                value: "2",
            },
        ];
        let text = |major, minor| label_set(&labels, Dialect { major, minor });
        assert_eq!(text(2, 42), r#"{a.b="1", c="2"}"#);
        assert_eq!(text(3, 5), r#"{"a.b"="1", c="2"}"#);
        assert_eq!(label_set(&[], Dialect::default()), "{}");
    }
}
