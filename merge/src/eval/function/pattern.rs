//! Regular expressions as the servers read them, and templates that are filled from their groups.
//!
//! Owns the door to the regex library. The servers' syntax is RE2's: close to the library's, but
//! not the same. [`translate`] tells the library what the servers mean. Bounds: the text, and the
//! memory of the compiled expression.

mod property;
mod translate;

use regex::{Captures, Regex, RegexBuilder};

use crate::eval::error::{EvalError, Outcome};
use crate::limits::{PATTERN_BYTES_MAX, PATTERN_COMPILED_BYTES_MAX};
use crate::plan::Dialect;
use translate::{Translated, translate};

/// A compiled expression that matches whole texts.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    /// Names of groups and their numbers. Several groups may have one name.
    names: Vec<(String, usize)>,
}

impl Pattern {
    /// About what compiling costs.
    pub(super) const COMPILE_UNITS: usize = 16 * 1024;

    /// Compiles `pattern`; `None` where it is not valid. Since 3.0 a dot matches a line break.
    pub(super) fn anchored(pattern: &str, dialect: Dialect) -> Outcome<Option<Self>> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(EvalError::Limit("bytes of a regular expression"));
        }
        let Some(Translated { text, names }) = translate(pattern, dialect) else {
            return Ok(None);
        };
        let opening = match dialect.is_at_least(3, 0) {
            true => "^(?s:",
            false => "^(?:",
        };
        let compiled = RegexBuilder::new(&format!("{opening}{text})$"))
            .size_limit(PATTERN_COMPILED_BYTES_MAX)
            .dfa_size_limit(PATTERN_COMPILED_BYTES_MAX)
            .build();
        match compiled {
            Ok(regex) => Ok(Some(Self { regex, names })),
            Err(regex::Error::CompiledTooBig(_)) => {
                Err(EvalError::Limit("size of a regular expression"))
            }
            Err(_) => Ok(None),
        }
    }

    /// Whether `text` as a whole matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Fills `template` from what the groups match in `text`; `None` where it does not match.
    pub(super) fn expand(&self, text: &str, template: &str) -> Option<String> {
        let captures = self.regex.captures(text)?;
        let mut out = String::new();
        let mut rest = template;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                out.push('$');
                rest = after;
            } else if let Some((name, after)) = group_name(rest) {
                out.push_str(self.group(&captures, name));
                rest = after;
            } else {
                out.push('$');
            }
        }
        out.push_str(rest);
        Some(out)
    }

    /// What a group matches; empty where it does not match or is not there.
    fn group<'t>(&self, captures: &Captures<'t>, name: &str) -> &'t str {
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && (name == "0" || !name.starts_with('0')) && name.len() <= 8 {
            let number = name.parse::<usize>().ok();
            let found = number.and_then(|number| captures.get(number));
            return found.map_or("", |group| group.as_str());
        }
        // Of several groups of the name, the first that matches.
        let mut named = self.names.iter().filter(|(known, _)| known == name);
        named
            .find_map(|(_, at)| captures.get(*at))
            .map_or("", |group| group.as_str())
    }
}

/// Reads `name` or `{name}`. Returns it and what follows.
fn group_name(text: &str) -> Option<(&str, &str)> {
    let (inside, is_braced) = match text.strip_prefix('{') {
        Some(inside) => (inside, true),
        None => (text, false),
    };
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let end = inside.find(|c| !is_part(c)).unwrap_or(inside.len());
    let (name, after) = inside.split_at(end);
    match (name.is_empty(), is_braced) {
        (true, _) => None,
        (false, true) => Some((name, after.strip_prefix('}')?)),
        (false, false) => Some((name, after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Dialect = Dialect { major: 3, minor: 5 };
    const OLD: Dialect = Dialect {
        major: 2,
        minor: 42,
    };

    /// Patterns, texts, and whether they match.
    const MATCHING: &[(&str, &str, bool)] = &[
        // A match is one of the whole text.
        ("a|b", "ab", false),
        ("a|ab", "ab", true),
        ("", "", true),
        // Classes are of ASCII.
        (r"\d", "٣", false),
        (r"\d+", "123", true),
        (r"[\d.]+", "1.2", true),
        (r"[^\D]+", "12", true),
        (r"\w+", "é", false),
        (r"\W", "é", true),
        (r"\s", "\u{a0}", false),
        (r"[[:alpha:]]+", "ab", true),
        (r"\pL", "é", true),
        (r".", "é", true),
        (r"(?i)É", "é", true),
        // Literal braces and brackets.
        ("a{", "a{", true),
        ("a{,2}", "a{,2}", true),
        ("a{2}", "aa", true),
        ("a{x}", "a{x}", true),
        ("a]", "a]", true),
        ("[]a]+", "]a", true),
        ("[[a]+", "[a", true),
        ("[a&&b]+", "a&b", true),
        ("[a~~b]+", "~", true),
        (r"\<a\>", "<a>", true),
        (r"a\.b", "a.b", true),
        (r"\_", "_", true),
        (r"\x41\101\x{42}", "AAB", true),
        (r"\Qa.*\E.", "a.*x", true),
        (r"a*?b", "aab", true),
        (r"x\bé", "xé", true),
        (r"é\Bé", "éé", true),
        (r"(?:\B)", "", true),
        // Properties, by their exact names.
        (r"\p{L}+", "aé", true),
        (r"\p{Lu}", "É", true),
        (r"\p{Lu}", "é", false),
        (r"\p{Greek}", "λ", true),
        (r"\p{^Greek}", "λ", false),
        (r"\P{^Greek}", "λ", true),
        (r"[^\p{Greek}x]", "x", false),
        (r"[\pL\P{Any}]", "é", true),
        (r"\p{Cs}?\p{Any}", "é", true),
        (r"\p{C}", "\u{378}", false),
        (r"(?i)\p{Lu}", "é", true),
        // Codes.
        (r"\x{6e}\x6E", "nn", true),
        (r"[\x{6e}-\x{10FFFF}]", "z", true),
        (r"[\x{d000}-\x{e000}]", "\u{d7ff}", true),
        (r"\x{d800}?[\x{d800}]?a", "a", true),
        (r"\ ", " ", true),
        (r"[\ \-\]\^]+", "- ]^", true),
        (r"[\n-\r]", "\u{b}", true),
        // Brackets that name no class, and ranges between odd characters.
        (r"[[:]+", "[:", true),
        (r"[[:^alpha:]]", "1", true),
        (r"[--/]+", "-./", true),
        (r"[\d-z]+", "1-z", true),
        (r"[]-a]+", "]^a", true),
        // Flags.
        (r"(?)a", "a", true),
        (r"(?ii-s)A", "a", true),
        (r"(?i-i)A", "a", false),
        (r"a(?i)+B", "aab", true),
        (r".*\Q\E*", "a", true),
        (r"\Qab\E+", "abb", true),
        (r"((n{10}){100}){0}|a", "a", true),
        (r"((n{100}){0}){100}", "", true),
        (r"a)|(?:b", "b", true),
    ];

    /// Patterns that are not valid.
    const REFUSED: &[&str] = &[
        "(",
        ")",
        "*",
        "a**",
        "a*+",
        "a{2}{3}",
        "a{1001}",
        "a{2,1}",
        "[b-a]",
        r"\1",
        r"\y",
        "(?x)a",
        "(?R)a",
        r"\",
        "[a",
        "(?=a)",
        "(?<!a)",
        r"\Z",
        r"\p{Alphabetic}",
        r"\p{greek}",
        r"\p{lu}",
        r"\p{Script=Latin}",
        r"\p{Grek}",
        r"\p{L",
        r"\pé",
        r"\p",
        r"\p{}",
        r"\x{6",
        r"\x{}",
        r"\x{110000}",
        r"\xg1",
        r"\x6",
        r"\é",
        r"\e",
        "[[:foo:]]",
        "[[:Alpha:]]",
        r"[!-\d]",
        r"[a\b]",
        r"[\Qa\E]",
        "(?P<é>.)",
        "(?P<a.b>.)",
        "(?P<>.)",
        "(?P=a)",
        "(?-)a",
        "(?i-)a",
        "(?i--s)a",
        "(?i",
        "((n{100}){100})?",
        "(n{11}){100}",
        "(?)*",
        r"\Q\E*",
    ];

    fn compiled(pattern: &str, dialect: Dialect) -> Option<Pattern> {
        Pattern::anchored(pattern, dialect).unwrap()
    }

    #[test]
    fn patterns_mean_what_they_mean_to_the_servers() {
        for (pattern, text, expected) in MATCHING {
            let found = compiled(pattern, NEW).unwrap_or_else(|| panic!("{pattern} is refused"));
            assert_eq!(found.matches(text), *expected, "{pattern} {text}");
        }
        for pattern in REFUSED {
            assert!(compiled(pattern, NEW).is_none(), "{pattern} is taken");
        }
    }

    #[test]
    fn dots_match_line_breaks_since_3_0() {
        assert!(compiled("a.b", NEW).unwrap().matches("a\nb"));
        assert!(!compiled("a.b", OLD).unwrap().matches("a\nb"));
        assert!(compiled("(?s)a.b", OLD).unwrap().matches("a\nb"));
    }

    #[test]
    fn versions_differ() {
        assert!(compiled("(?<name>a)", NEW).is_some());
        assert!(compiled("(?<name>a)", OLD).is_none());
        assert!(compiled(r"\p{Kawi}", NEW).is_some());
        assert!(compiled(r"\p{Kawi}", OLD).is_none());
    }

    #[test]
    fn names_of_groups_may_be_numbers_and_may_repeat() {
        let pattern = compiled("(?P<a>x)?(?P<a>y)(?P<a>z)(?P<1b>.)", OLD).unwrap();
        let expanded = pattern.expand("yz!", "${a}${1b}$2");
        assert_eq!(expanded.as_deref(), Some("y!y"));
    }

    #[test]
    fn templates_are_filled_from_groups() {
        let cases = [
            ("$1", "b"),
            ("${1}", "b"),
            ("$1x", ""),
            ("${1}x", "bx"),
            ("$name-$0", "c-abc"),
            ("$$1", "$1"),
            ("$", "$"),
            ("a$", "a$"),
            ("$-", "$-"),
            ("${1", "${1"),
            ("${", "${"),
            ("${a b}", "${a b}"),
            ("$9", ""),
            ("$01", ""),
            ("$nosuch.", "."),
            ("$3", ""),
            ("$é!", "!"),
        ];
        let pattern = compiled("a(b)(?P<name>c)(d)?", NEW).unwrap();
        for (template, expected) in cases {
            assert_eq!(
                pattern.expand("abc", template).as_deref(),
                Some(expected),
                "{template}"
            );
        }
        assert_eq!(pattern.expand("x", "$1"), None);
    }

    #[test]
    fn size_is_bounded() {
        let limit = |pattern: &str| Pattern::anchored(pattern, NEW).unwrap_err().to_string();
        let longest = "a".repeat(PATTERN_BYTES_MAX);
        assert!(Pattern::anchored(&longest, NEW).is_ok());
        assert_eq!(
            limit(&(longest + "a")),
            "query crosses a limit: bytes of a regular expression"
        );
        assert_eq!(
            limit(&r"\pL{1000}".repeat(9)),
            "query crosses a limit: size of a regular expression"
        );
    }
}
