//! Readies query text for the parser: bounds it, and hides what the parser need not see.
//!
//! Regular expressions become numbered placeholders (compiling them takes milliseconds, and some
//! of Go's are none of Rust's), raw strings become quoted ones, function names that the parser
//! does not know become their synonyms. Comments and strings are respected; the text that is sent never changes.

use crate::limits::{
    QUERY_BYTES_MAX, QUERY_DEPTH_MAX, QUERY_OPERATORS_MAX, QUERY_PARSED_BYTES_MAX,
};

/// Text for the parser, and the regular expressions that were taken out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// What the parser reads.
    pub(crate) text: String,
    /// The quoted literals behind the placeholders `r0`, `r1`, …
    pub(crate) regexes: Vec<String>,
}

/// The placeholder of regex number `index`.
pub(crate) fn placeholder(index: usize) -> String {
    format!("r{index}")
}

/// Function names of one server version under the name that the parser knows.
const SYNONYMS: [(&str, &str); 1] = [("holt_winters", "double_exponential_smoothing")];

/// Words that join or bend expressions: each may deepen the tree.
const OPERATOR_WORDS: [&str; 6] = ["and", "or", "unless", "atan2", "offset", "bool"];

/// Most digits in a row of a duration: 99,999,999 years in milliseconds fit 64 bits.
const DURATION_DIGITS_MAX: usize = 8;
/// Most digits in a row of a unix time.
const TIME_DIGITS_MAX: usize = 11;

/// Readies `query`, or says why it is not given to the parser.
pub(crate) fn prepare(query: &str) -> Result<Prepared, &'static str> {
    if query.len() > QUERY_BYTES_MAX {
        return Err("text too long");
    }
    Scan {
        bytes: query.as_bytes(),
        query,
        out: String::with_capacity(query.len()),
        ..Scan::EMPTY
    }
    .run()
}

struct Scan<'q> {
    query: &'q str,
    bytes: &'q [u8],
    at: usize,
    depth: usize,
    braces: usize,
    operators: usize,
    brackets: usize,
    time: Time,
    after_regex_operator: bool,
    out: String,
    regexes: Vec<String>,
}

/// What the next number would mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    /// A value.
    No,
    /// It follows `offset`.
    Offset,
    /// It follows `@`.
    At,
}

/// Whether all underscores of a number are between digits, as in `1_000`.
fn is_grouped(token: &str) -> bool {
    let mut runs = token.split('_');
    let is_run =
        |run: &str| !run.is_empty() && run.bytes().all(|b| b.is_ascii_hexdigit() || b == b'.');
    token.contains('_') && runs.all(is_run)
}

/// `0s`, `0h0m`
fn is_zero_duration(token: &str) -> bool {
    token.ends_with(|c: char| c.is_ascii_lowercase())
        && token.bytes().all(|b| b == b'0' || b"ywdhms".contains(&b))
}

impl<'q> Scan<'q> {
    const EMPTY: Self = Self {
        query: "",
        bytes: &[],
        at: 0,
        depth: 0,
        braces: 0,
        operators: 0,
        brackets: 0,
        time: Time::No,
        after_regex_operator: false,
        out: String::new(),
        regexes: Vec::new(),
    };

    fn run(mut self) -> Result<Prepared, &'static str> {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'#' => self.copy_while(|b| b != b'\n'),
                b'"' | b'\'' | b'`' => self.string(byte)?,
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | b':' => self.word()?,
                b'0'..=b'9' => self.number()?,
                b' ' | b'\t' | b'\n' | b'\r' => self.copy(1),
                _ => self.symbol(byte)?,
            }
            if self.out.len() > QUERY_PARSED_BYTES_MAX {
                return Err("text too long");
            }
        }
        Ok(Prepared {
            text: self.out,
            regexes: self.regexes,
        })
    }

    fn copy(&mut self, count: usize) {
        let end = (self.at + count).min(self.bytes.len());
        self.out
            .push_str(self.query.get(self.at..end).unwrap_or_default());
        self.at = end;
    }

    fn copy_while(&mut self, keep: impl Fn(u8) -> bool) {
        let count = self.bytes[self.at..]
            .iter()
            .take_while(|b| keep(**b))
            .count();
        self.copy(count);
        self.after_regex_operator = false;
    }

    fn number(&mut self) -> Result<(), &'static str> {
        let rest = &self.query[self.at..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
        let token = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        self.after_regex_operator = false;
        self.at += token.len();
        // Numbers of later servers: the parser knows no underscores between digits, and no
        // durations of zero.
        let plain = match is_grouped(token) {
            true => token.replace('_', ""),
            false => token.to_owned(),
        };
        match self.brackets == 0 && is_zero_duration(&plain) {
            true => self.out.push('0'),
            false => self.out.push_str(&plain),
        }
        self.judge_time(&plain)
    }

    /// Refuses times and durations that the parser cannot hold: it ends its thread over them.
    fn judge_time(&mut self, token: &str) -> Result<(), &'static str> {
        let digits_max = match self.time {
            Time::At => TIME_DIGITS_MAX,
            Time::Offset => DURATION_DIGITS_MAX,
            Time::No if self.brackets > 0 => DURATION_DIGITS_MAX,
            Time::No => return Ok(()),
        };
        self.time = Time::No;
        let token = token.trim_start_matches(':');
        let is_number = token.starts_with(|c: char| c.is_ascii_digit());
        let odd = match is_number {
            true => token.contains(['e', 'E', 'x', 'X']),
            false => token.eq_ignore_ascii_case("inf") || token.eq_ignore_ascii_case("nan"),
        };
        let mut runs = token.split(|c: char| !c.is_ascii_digit());
        if odd || runs.any(|run| run.len() > digits_max) {
            return Err("a time or duration out of range");
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), &'static str> {
        let rest = &self.bytes[self.at..];
        let count = rest
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':'));
        let end = self.at + count.count();
        let word = &self.query[self.at..end];
        self.after_regex_operator = false;
        if OPERATOR_WORDS
            .iter()
            .any(|known| word.eq_ignore_ascii_case(known))
        {
            self.operators += 1;
        }
        let is_call = self.bytes[end..].iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'(');
        match SYNONYMS.iter().find(|(name, _)| is_call && *name == word) {
            Some((_, synonym)) => self.out.push_str(synonym),
            None => self.out.push_str(word),
        }
        self.at = end;
        self.judge_time(word)?;
        if word.eq_ignore_ascii_case("offset") {
            self.time = Time::Offset;
        }
        Ok(())
    }

    fn string(&mut self, quote: u8) -> Result<(), &'static str> {
        let mut end = self.at + 1;
        loop {
            match self.bytes.get(end) {
                None => return Err("unclosed string"),
                Some(b'\\') if quote != b'`' => end += 2,
                Some(&b) if b == quote => break,
                Some(_) => end += 1,
            }
        }
        let literal = self.query.get(self.at..=end).ok_or("unclosed string")?;
        if self.after_regex_operator {
            self.out.push('"');
            self.out.push_str(&placeholder(self.regexes.len()));
            self.out.push('"');
            self.regexes.push(literal.to_owned());
        } else if quote == b'`' {
            // The parser takes backslashes in raw strings for escapes.
            let raw = &literal[1..literal.len() - 1];
            self.out.push('"');
            self.out.push_str(
                &raw.replace('\\', "\\\\")
                    .replace('"', "\\\"")
                    .replace('\n', "\\n"),
            );
            self.out.push('"');
        } else {
            self.out.push_str(literal);
        }
        self.after_regex_operator = false;
        self.at = end + 1;
        Ok(())
    }

    fn symbol(&mut self, byte: u8) -> Result<(), &'static str> {
        match byte {
            b'(' | b'[' | b'{' => {
                self.depth += 1;
                self.braces += usize::from(byte == b'{');
                self.brackets += usize::from(byte == b'[');
            }
            b')' => self.depth = self.depth.saturating_sub(1),
            b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.brackets = self.brackets.saturating_sub(1);
            }
            b'}' => {
                self.depth = self.depth.saturating_sub(1);
                self.braces = self.braces.saturating_sub(1);
            }
            b',' | b'~' | b'.' => {}
            _ if self.braces == 0 => self.operators += 1,
            _ => {}
        }
        self.after_regex_operator = byte == b'~';
        match byte {
            b'@' => self.time = Time::At,
            b'-' | b'+' | b'.' => {}
            _ => self.time = Time::No,
        }
        if self.depth > QUERY_DEPTH_MAX {
            return Err("nested too deeply");
        }
        if self.operators > QUERY_OPERATORS_MAX {
            return Err("too many operators");
        }
        let width = match byte {
            0..=0x7f => 1,
            _ => self.query[self.at..]
                .chars()
                .next()
                .map_or(1, char::len_utf8),
        };
        self.copy(width);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_would_end_the_parser_s_thread_are_refused() {
        for query in [
            "rate(x[1e999])",
            "max_over_time(x[1e999:30s])",
            "max_over_time(x[5m:1e30])",
            "x offset 1e999",
            "x offset -0xffffffffffffffffffff",
            "x @ 1e999",
            "x @ 99999999999999999999",
            "x[Inf]",
            "x offset NaN",
            "x[99999999999999999999y]",
        ] {
            assert_eq!(
                prepare(query),
                Err("a time or duration out of range"),
                "{query}"
            );
        }
        for query in [
            "x[5m] offset 1h30m",
            "x @ 1609746000.123 > 1e999",
            "x[1h:30s] @ end()",
            "x[.5]",
        ] {
            assert!(prepare(query).is_ok(), "{query}");
        }
    }

    #[test]
    fn numbers_of_later_servers_are_written_plainly() {
        for (query, text) in [
            ("x offset 0s", "x offset 0"),
            ("x offset -0h0m", "x offset -0"),
            ("rate(x[5m] offset 0d) + 0s", "rate(x[5m] offset 0) + 0"),
            ("x[0s]", "x[0s]"),
            ("x[10s]", "x[10s]"),
            ("x offset 10s", "x offset 10s"),
            ("1_000 + x", "1000 + x"),
            ("1_000.25_5", "1000.255"),
            ("1__0", "1__0"),
            ("1_", "1_"),
            ("0x_1 + 0", "0x_1 + 0"),
            ("x_0s + 1", "x_0s + 1"),
        ] {
            assert_eq!(prepare(query).unwrap().text, text, "{query}");
        }
    }

    #[test]
    fn hides_regexes_and_renames_old_functions() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("up", "up", &[]),
            (r#"up{a=~"x{2}"}"#, r#"up{a=~"r0"}"#, &[r#""x{2}""#]),
            (
                r#"up{a !~ 'x', b="=~"}"#,
                r#"up{a !~ "r0", b="=~"}"#,
                &["'x'"],
            ),
            ("up{a=~`\\d`}", r#"up{a=~"r0"}"#, &["`\\d`"]),
            ("up{a=`\\d\"\n`}", "up{a=\"\\\\d\\\"\\n\"}", &[]),
            ("up # \"open", "up # \"open", &[]),
            (
                "holt_winters (x[5m], 0.3, 0.1)",
                "double_exponential_smoothing (x[5m], 0.3, 0.1)",
                &[],
            ),
            ("holt_winters", "holt_winters", &[]),
            (r#"up{a="é\"="} + 日"#, r#"up{a="é\"="} + 日"#, &[]),
        ];
        for (query, text, regexes) in cases {
            let prepared = prepare(query).unwrap();
            assert_eq!(&prepared.text, text, "{query}");
            assert_eq!(prepared.regexes, *regexes, "{query}");
        }
    }

    #[test]
    fn refuses_what_would_overflow_the_stack() {
        assert!(prepare(&"(".repeat(QUERY_DEPTH_MAX)).is_ok());
        assert_eq!(
            prepare(&"(".repeat(QUERY_DEPTH_MAX + 1)),
            Err("nested too deeply")
        );
        assert!(prepare(&"-".repeat(QUERY_OPERATORS_MAX)).is_ok());
        assert_eq!(
            prepare(&"-".repeat(QUERY_OPERATORS_MAX + 1)),
            Err("too many operators")
        );
        assert_eq!(
            prepare(&" ".repeat(QUERY_BYTES_MAX + 1)),
            Err("text too long")
        );
        assert_eq!(prepare("up{a=\"\\"), Err("unclosed string"));
    }
}
