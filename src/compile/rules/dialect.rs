//! Regular expressions as the contract writes them (RE2 of Go), for the engine that runs them.
//!
//! Both take time that grows with the input alone. What only the former knows is written anew: `\Q…\E`, octal
//! characters, braces that count nothing, brackets and signs in classes that mean sets here, and `\d`, `\w`, `\s` and
//! `\b`, which are of ASCII there. Contract: rule page, 11 ("dialect").

use regex::bytes::{Regex, RegexBuilder};

/// Most bytes that a compiled expression may take.
const COMPILED_BYTES_MAX: usize = 256 * 1024;
/// Most bytes of an expression.
const WRITTEN_BYTES_MAX: usize = 4 * 1024;

/// Compiles an expression.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    if text.len() > WRITTEN_BYTES_MAX {
        return Err(format!("it is longer than {WRITTEN_BYTES_MAX} bytes"));
    }
    let built = RegexBuilder::new(&translated(text))
        .size_limit(COMPILED_BYTES_MAX)
        .build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            format!(
                "it takes more than {COMPILED_BYTES_MAX} bytes once compiled; write a simpler one"
            )
        }
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    })
}

/// The expression in the engine's own words.
fn translated(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    let mut in_class = false;
    while let Some(sign) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("\\Q") {
            let (literal, behind) = behind.split_once("\\E").unwrap_or((behind, ""));
            out.push_str(&regex::escape(literal));
            rest = behind;
            continue;
        }
        let taken = match sign {
            '\\' => escape(rest, in_class, &mut out),
            '[' if !in_class => {
                in_class = true;
                class_begin(rest, &mut out)
            }
            '[' if rest.starts_with("[:") => {
                let end = rest.find(":]").map_or(1, |at| at + 2);
                out.push_str(&rest[..end]);
                end
            }
            ']' if in_class => {
                in_class = false;
                plain(sign, &mut out)
            }
            '[' => escaped(sign, &mut out),
            '&' | '~' if in_class => escaped(sign, &mut out),
            '{' if !in_class && !is_repetition(rest) => escaped(sign, &mut out),
            _ => plain(sign, &mut out),
        };
        rest = &rest[taken..];
    }
    out
}

fn plain(sign: char, out: &mut String) -> usize {
    out.push(sign);
    sign.len_utf8()
}

fn escaped(sign: char, out: &mut String) -> usize {
    out.push('\\');
    plain(sign, out)
}

/// A bracket that closes directly behind the opening one stands for itself.
fn class_begin(rest: &str, out: &mut String) -> usize {
    for (begin, written) in [("[^]", "[^\\]"), ("[]", "[\\]"), ("[^", "[^")] {
        if rest.starts_with(begin) {
            out.push_str(written);
            return begin.len();
        }
    }
    plain('[', out)
}

/// What begins with a backslash; returns how much of it was taken.
fn escape(rest: &str, in_class: bool, out: &mut String) -> usize {
    let of_ascii = match rest.as_bytes().get(1) {
        Some(b'd') => Some("[0-9]"),
        Some(b'D') => Some("[^0-9]"),
        Some(b'w') => Some("[0-9A-Za-z_]"),
        Some(b'W') => Some("[^0-9A-Za-z_]"),
        Some(b's') => Some("[\\t\\n\\f\\r ]"),
        Some(b'S') => Some("[^\\t\\n\\f\\r ]"),
        Some(b'b') if !in_class => Some("(?-u:\\b)"),
        Some(b'B') if !in_class => Some("(?-u:\\B)"),
        _ => None,
    };
    if let Some(written) = of_ascii {
        out.push_str(written);
        return 2;
    }
    let digits: String = rest[1..]
        .chars()
        .take(3)
        .take_while(|sign| ('0'..='7').contains(sign))
        .collect();
    let is_octal = digits.len() > 1 || digits == "0";
    if let (true, Ok(value)) = (is_octal, u32::from_str_radix(&digits, 8)) {
        out.push_str(&format!("\\x{{{value:x}}}"));
        return 1 + digits.len();
    }
    // A name in braces belongs to what is in front of it.
    let has_braces = ["\\p{", "\\P{", "\\x{"]
        .iter()
        .any(|begin| rest.starts_with(begin));
    let len = match rest.find('}') {
        Some(end) if has_braces => end + 1,
        _ => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
    };
    out.push_str(&rest[..len]);
    len
}

/// Whether a brace says how often something is there: `{2}`, `{2,}`, `{2,3}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inside, _)) = rest[1..].split_once('}') else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match inside.split_once(',') {
        Some((from, to)) => is_number(from) && (to.is_empty() || is_number(to)),
        None => is_number(inside),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_the_contract_match_as_there() {
        let rows: [(&str, &str, bool); 27] = [
            (r"^.*\/writer.*$", "/example/writer/1", true),
            (
                r#"\{mylabel="(?P<tenant>[a-z0-9]{3})"\}"#,
                r#"/q/{mylabel="abc"}"#,
                true,
            ),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            (r"\Qa+", "a+", true),
            (r"\101", "A", true),
            (r"\060", "0", true),
            ("{foo}", "{foo}", true),
            ("a{,3}", "a{,3}", true),
            ("a{,3}", "aaa", false),
            ("^a{2,3}$", "aa", true),
            ("^a{2,}$", "a", false),
            (r"\p{Greek}", "α", true),
            (r"\x{41}{2}", "AA", true),
            ("[[:word:]]", "_", true),
            ("[a[b]c", "[c", true),
            ("^[]a]+$", "]a", true),
            ("[x&&y]", "&", true),
            (r"^\d$", "7", true),
            (r"^\d$", "\u{661}", false),
            (r"^\w+$", "az_09", true),
            (r"^\w$", "é", false),
            (r"^[\w-]+$", "a-b", true),
            (r"^[^\W_]+$", "a", true),
            (r"^[\s\S]$", "é", true),
            (r"é\b", "é", false),
            (
                r"^\w{1,32}/\w{32}$",
                "t/0123456789abcdef0123456789abcdef",
                true,
            ),
        ];
        for (text, input, expected) in rows {
            let regex = compile(text).unwrap_or_else(|reason| panic!("{text}: {reason}"));
            assert_eq!(
                regex.is_match(input.as_bytes()),
                expected,
                "{text} on {input}"
            );
        }
    }

    #[test]
    fn what_cannot_be_compiled_is_said() {
        for (text, expected) in [
            ("a(b", "unclosed group"),
            (r"(a)\1", "backreferences are not supported"),
            ("(?P<1a>b)", "invalid capture group character"),
        ] {
            let reason = compile(text).expect_err("it is refused");
            assert!(reason.contains(expected), "{text}: {reason}");
        }
        let large = compile(r"(\pL{100}){100}").expect_err("it is too large");
        assert!(large.contains("once compiled"), "{large}");
        let long = compile(&"a".repeat(5000)).expect_err("it is too long");
        assert!(long.contains("longer than"), "{long}");
    }
}
