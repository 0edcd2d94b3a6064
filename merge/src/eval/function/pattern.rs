//! Regular expressions as the servers read them, and templates that are filled from their groups.
//!
//! Owns the door to the regex library. The servers' syntax is RE2's: close to the library's, but
//! classes such as `\d` are of ASCII, braces and brackets may be literal, repetitions may not be
//! repeated, and some notations mean nothing. [`translate`] tells the library what the servers
//! mean. Bounds: the text, and the memory of the compiled expression.

use regex::{Captures, Regex, RegexBuilder};

use crate::eval::error::{EvalError, Outcome};
use crate::limits::{PATTERN_BYTES_MAX, PATTERN_COMPILED_BYTES_MAX};
use crate::plan::Dialect;

/// Most repetitions that a pattern may ask for at once.
const REPEAT_MAX: u32 = 1000;

/// A compiled expression that matches whole texts.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
}

impl Pattern {
    /// About what compiling costs.
    pub(super) const COMPILE_UNITS: usize = 16 * 1024;

    /// Compiles `pattern`; `None` where it is not valid. Since 3.0 a dot matches a line break.
    pub(super) fn anchored(pattern: &str, dialect: Dialect) -> Outcome<Option<Self>> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(EvalError::Limit("bytes of a regular expression"));
        }
        let Some(translated) = translate(pattern) else {
            return Ok(None);
        };
        let opening = match dialect.is_at_least(3, 0) {
            true => "^(?s:",
            false => "^(?:",
        };
        let compiled = RegexBuilder::new(&format!("{opening}{translated})$"))
            .size_limit(PATTERN_COMPILED_BYTES_MAX)
            .dfa_size_limit(PATTERN_COMPILED_BYTES_MAX)
            .build();
        match compiled {
            Ok(regex) => Ok(Some(Self { regex })),
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
        let mut names = self.regex.capture_names().enumerate();
        let found = names.find(|(_, known)| *known == Some(name));
        found
            .and_then(|(at, _)| captures.get(at))
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

/// Writes a pattern of the servers in the library's syntax; `None` where the servers refuse what
/// the library would take. What both refuse is left to the library.
fn translate(pattern: &str) -> Option<String> {
    let mut translator = Translator {
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
    };
    let mut after_repetition = false;
    while let Some(c) = translator.rest.chars().next() {
        let is_repetition = match c {
            '*' | '+' | '?' => Some(1),
            '{' => translator.repetition()?,
            _ => None,
        };
        if let Some(length) = is_repetition {
            if after_repetition {
                return None;
            }
            translator.copy(length);
            // Reluctant.
            if translator.rest.starts_with('?') {
                translator.copy(1);
            }
            after_repetition = true;
            continue;
        }
        after_repetition = false;
        match c {
            '{' => translator.replace(1, "\\{"),
            '\\' => translator.escape(false)?,
            '[' => translator.class()?,
            '(' => translator.group()?,
            _ => translator.copy(c.len_utf8()),
        }
    }
    Some(translator.out)
}

struct Translator<'p> {
    rest: &'p str,
    out: String,
}

impl Translator<'_> {
    fn copy(&mut self, length: usize) {
        let (copied, rest) = self.rest.split_at(length);
        self.out.push_str(copied);
        self.rest = rest;
    }

    fn replace(&mut self, length: usize, by: &str) {
        self.out.push_str(by);
        self.rest = &self.rest[length..];
    }

    /// The length of `{n}`, `{n,}` or `{n,m}`; `Some(None)` where the brace is literal.
    fn repetition(&self) -> Option<Option<usize>> {
        let Some((inside, _)) = self.rest[1..].split_once('}') else {
            return Some(None);
        };
        let (least, most) = match inside.split_once(',') {
            Some((least, "")) => (least, least),
            Some(both) => both,
            None => (inside, inside),
        };
        let is_number = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_digit())
                && (text == "0" || !text.starts_with('0'))
        };
        if !is_number(least) || !is_number(most) {
            return Some(None);
        }
        let is_small = |text: &str| text.parse().is_ok_and(|count: u32| count <= REPEAT_MAX);
        (is_small(least) && is_small(most)).then_some(Some(inside.len() + 2))
    }

    /// An escape, inside a class or outside.
    fn escape(&mut self, is_in_class: bool) -> Option<()> {
        let mut characters = self.rest[1..].chars();
        let escaped = characters.next()?;
        let next = characters.next();
        match escaped {
            'd' => self.replace(2, "[0-9]"),
            'D' => self.replace(2, "[^0-9]"),
            'w' => self.replace(2, "[0-9A-Za-z_]"),
            'W' => self.replace(2, "[^0-9A-Za-z_]"),
            's' => self.replace(2, "[\\t\\n\\f\\r ]"),
            'S' => self.replace(2, "[^\\t\\n\\f\\r ]"),
            'b' if !is_in_class => self.replace(2, "(?-u:\\b)"),
            'B' if !is_in_class => self.copy(2),
            'A' | 'z' if !is_in_class => self.copy(2),
            'Q' if !is_in_class => self.quotation(),
            'p' | 'P' => self.copy(2),
            'a' | 'f' | 'n' | 'r' | 't' | 'v' => self.copy(2),
            'x' => self.copy(2),
            // Octal; a digit alone would refer back, which there is not.
            '1'..='7' if !next.is_some_and(|digit| ('0'..='7').contains(&digit)) => return None,
            '0'..='7' => self.octal(),
            '_' => self.replace(2, "_"),
            '<' | '>' => self.replace(2, if escaped == '<' { "<" } else { ">" }),
            _ if escaped.is_ascii_punctuation() => self.copy(2),
            _ => return None,
        }
        Some(())
    }

    /// `\123`
    fn octal(&mut self) {
        let digits: String = self.rest[1..]
            .chars()
            .take(3)
            .take_while(|digit| ('0'..='7').contains(digit))
            .collect();
        let code = u32::from_str_radix(&digits, 8).unwrap_or_default();
        self.replace(1 + digits.len(), &format!("\\x{{{code:x}}}"));
    }

    /// `\Q…\E`
    fn quotation(&mut self) {
        let inside = &self.rest[2..];
        let (quoted, rest) = inside.split_once("\\E").unwrap_or((inside, ""));
        self.out.push_str(&regex::escape(quoted));
        self.rest = rest;
    }

    /// `[…]`, in which the library would take `[`, `&&`, `--` and `~~` for more than characters.
    fn class(&mut self) -> Option<()> {
        self.copy(1);
        if self.rest.starts_with('^') {
            self.copy(1);
        }
        let mut is_first = true;
        loop {
            let c = self.rest.chars().next()?;
            match c {
                ']' if is_first => self.replace(1, "\\]"),
                ']' => {
                    self.copy(1);
                    return Some(());
                }
                '[' => match self.rest[1..]
                    .starts_with(':')
                    .then(|| self.rest.find(":]"))
                {
                    Some(Some(end)) => self.copy(end + 2),
                    _ => self.replace(1, "\\["),
                },
                '\\' => self.escape(true)?,
                '&' | '~' => self.replace(1, if c == '&' { "\\&" } else { "\\~" }),
                _ => self.copy(c.len_utf8()),
            }
            is_first = false;
        }
    }

    /// The beginning of a group.
    fn group(&mut self) -> Option<()> {
        if let Some(flags) = self.rest.strip_prefix("(?")
            && !flags.starts_with('P')
            && !flags.starts_with('<')
        {
            let end = flags.find([':', ')'])?;
            if flags[..end].chars().any(|flag| !"imsU-".contains(flag)) {
                return None;
            }
        }
        self.copy(1);
        Some(())
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

    fn compiled(pattern: &str, dialect: Dialect) -> Option<Pattern> {
        Pattern::anchored(pattern, dialect).unwrap()
    }

    #[test]
    fn patterns_mean_what_they_mean_to_the_servers() {
        let cases = [
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
        ];
        for (pattern, text, expected) in cases {
            let found = compiled(pattern, NEW).unwrap_or_else(|| panic!("{pattern} is refused"));
            assert_eq!(found.matches(text), expected, "{pattern} {text}");
        }
        for pattern in [
            "(", ")", "*", "a**", "a*+", "a{2}{3}", "a{1001}", "a{2,1}", "[b-a]", r"\1", r"\y",
            "(?x)a", "(?R)a", r"\", "[a", "(?=a)", "(?<!a)", r"\Z",
        ] {
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
            limit(r"(\pL{1000}){1000}"),
            "query crosses a limit: size of a regular expression"
        );
    }
}
