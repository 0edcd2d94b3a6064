//! From RE2, which the servers read, to the library's syntax.
//!
//! Classes such as `\d` and boundaries are of ASCII, braces and brackets may be literal,
//! repetitions may not be repeated, group names may be digits and may repeat, properties have one
//! spelling, and some notations mean nothing.

use super::property;
use crate::plan::Dialect;

/// Most repetitions that a pattern may ask for, those of nested ones multiplied.
const REPEAT_MAX: u32 = 1000;

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// A pattern in the library's syntax, without names.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) text: String,
    /// Names of groups and their numbers.
    pub(super) names: Vec<(String, usize)>,
}

/// Writes a pattern of the servers in the library's syntax; `None` where the servers refuse what
/// the library would take. What both refuse is left to the library.
pub(super) fn translate(pattern: &str, dialect: Dialect) -> Option<Translated> {
    let mut translator = Translator {
        dialect,
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
        operand_end: 0,
        groups: 0,
        names: Vec::new(),
        repeats: Repeats::default(),
    };
    let mut after_repetition = false;
    while let Some(c) = translator.rest.chars().next() {
        let repetition = match c {
            '*' | '+' | '?' => Some((1, 1)),
            '{' => translator.repetition()?,
            _ => None,
        };
        if let Some((length, times)) = repetition {
            if after_repetition || !translator.repeats.repeat(times) {
                return None;
            }
            translator.repeat(length);
            after_repetition = true;
            continue;
        }
        after_repetition = false;
        translator.token(c)?;
    }
    Some(Translated {
        text: translator.out,
        names: translator.names,
    })
}

struct Translator<'p> {
    dialect: Dialect,
    rest: &'p str,
    out: String,
    /// Where `out` has the end of what a repetition repeats. Flags may follow.
    operand_end: usize,
    groups: usize,
    names: Vec<(String, usize)>,
    repeats: Repeats,
}

impl Translator<'_> {
    /// Everything but a repetition.
    fn token(&mut self, c: char) -> Option<()> {
        match c {
            '(' => return self.group(),
            '\\' if self.rest.starts_with("\\Q") => {
                self.quotation();
                return Some(());
            }
            ')' => self.repeats.close(),
            _ => self.repeats.operand(),
        }
        match c {
            '\\' => self.escape()?,
            '[' => self.class()?,
            '{' => self.replace(1, "\\{"),
            _ => self.copy(c.len_utf8()),
        }
        self.operand_end = self.out.len();
        Some(())
    }

    fn copy(&mut self, length: usize) {
        let (copied, rest) = self.rest.split_at(length);
        self.out.push_str(copied);
        self.rest = rest;
    }

    fn replace(&mut self, length: usize, by: &str) {
        self.out.push_str(by);
        self.rest = &self.rest[length..];
    }

    /// The length of `{n}`, `{n,}` or `{n,m}` and what it multiplies by; `Some(None)` where the
    /// brace is literal.
    fn repetition(&self) -> Option<Option<(usize, u32)>> {
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
        let small = |text: &str| text.parse().ok().filter(|count: &u32| *count <= REPEAT_MAX);
        let times = match (small(least)?, small(most)?) {
            // At least none: no copies are made.
            (0, 0) if inside.ends_with(',') => 1,
            (_, most) => most,
        };
        Some(Some((inside.len() + 2, times)))
    }

    /// Writes a repetition behind what it repeats.
    fn repeat(&mut self, length: usize) {
        let length = match self.rest[length..].starts_with('?') {
            // Reluctant.
            true => length + 1,
            false => length,
        };
        let (operator, rest) = self.rest.split_at(length);
        self.out.insert_str(self.operand_end, operator);
        self.operand_end += length;
        self.rest = rest;
    }

    /// An escape outside of a class.
    fn escape(&mut self) -> Option<()> {
        if self.escaped_class()? {
            return Some(());
        }
        match self.rest.chars().nth(1)? {
            'b' => self.replace(2, r"(?-u:\b)"),
            'B' => self.replace(2, r"(?-u:\B)"),
            'A' | 'z' => self.copy(2),
            _ => {
                let code = self.code()?;
                self.put_range(code, code);
            }
        }
        Some(())
    }

    /// `\d`, `\pL` and their like, inside a class or outside. Returns whether there was one.
    fn escaped_class(&mut self) -> Option<bool> {
        let class = match self.rest.chars().nth(1)? {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            'w' => "[0-9A-Za-z_]",
            'W' => "[^0-9A-Za-z_]",
            's' => r"[\t\n\f\r ]",
            'S' => r"[^\t\n\f\r ]",
            'p' | 'P' => {
                self.property()?;
                return Some(true);
            }
            _ => return Some(false),
        };
        self.replace(2, class);
        Some(true)
    }

    /// `\pL`, `\p{Greek}`, `\p{^Greek}`
    fn property(&mut self) -> Option<()> {
        let is_negated = self.rest.starts_with("\\P");
        let after = &self.rest[2..];
        let first = after.chars().next()?;
        let (name, length) = match after.strip_prefix('{') {
            Some(inside) => inside
                .split_once('}')
                .map(|(name, _)| (name, name.len() + 2))?,
            None => (&after[..first.len_utf8()], first.len_utf8()),
        };
        let (name, is_negated) = match name.strip_prefix('^') {
            Some(name) => (name, !is_negated),
            None => (name, is_negated),
        };
        let class = property::class(name, is_negated, self.dialect)?;
        self.replace(2 + length, &class);
        Some(())
    }

    /// Reads an escape that stands for one character.
    fn code(&mut self) -> Option<u32> {
        let escaped = self.rest[1..].chars().next()?;
        let after = &self.rest[1 + escaped.len_utf8()..];
        let (code, length) = match escaped {
            'a' => (7, 0),
            'f' => (12, 0),
            'n' => (10, 0),
            'r' => (13, 0),
            't' => (9, 0),
            'v' => (11, 0),
            'x' => hexadecimal(after)?,
            '0'..='7' => octal(escaped, after)?,
            _ if escaped.is_ascii() && !escaped.is_ascii_alphanumeric() => (u32::from(escaped), 0),
            _ => return None,
        };
        self.rest = &after[length..];
        Some(code)
    }

    /// Writes characters so that they are nothing but characters.
    fn put_range(&mut self, first: u32, last: u32) {
        // No text holds surrogates.
        let first = if (0xd800..0xe000).contains(&first) {
            0xe000
        } else {
            first
        };
        let last = if (0xd800..0xe000).contains(&last) {
            0xd7ff
        } else {
            last
        };
        let written = match first.cmp(&last) {
            std::cmp::Ordering::Less => format!("\\x{{{first:x}}}-\\x{{{last:x}}}"),
            std::cmp::Ordering::Equal => format!("\\x{{{first:x}}}"),
            std::cmp::Ordering::Greater => property::NOTHING.to_owned(),
        };
        self.out.push_str(&written);
    }

    /// `\Q…\E`
    fn quotation(&mut self) {
        let inside = &self.rest[2..];
        let (quoted, rest) = inside.split_once("\\E").unwrap_or((inside, ""));
        self.rest = rest;
        // Nothing is nothing to repeat.
        if !quoted.is_empty() {
            self.out.push_str(&regex::escape(quoted));
            self.operand_end = self.out.len();
            self.repeats.operand();
        }
    }

    /// `[…]`
    fn class(&mut self) -> Option<()> {
        self.copy(1);
        if self.rest.starts_with('^') {
            self.copy(1);
        }
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            if self.named_class()? || (self.rest.starts_with('\\') && self.escaped_class()?) {
                continue;
            }
            let first = self.character()?;
            let mut last = first;
            if self.rest.starts_with('-') && self.rest.len() > 1 && !self.rest.starts_with("-]") {
                self.rest = &self.rest[1..];
                last = self.character()?;
            }
            if last < first {
                return None;
            }
            self.put_range(first, last);
        }
        self.copy(1);
        Some(())
    }

    /// `[:alpha:]`. Returns whether there was one.
    fn named_class(&mut self) -> Option<bool> {
        let inside = self.rest.strip_prefix("[:");
        let Some((name, _)) = inside.and_then(|inside| inside.split_once(":]")) else {
            return Some(false);
        };
        if !POSIX_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return None;
        }
        self.copy(name.len() + 4);
        Some(true)
    }

    /// Reads a character of a class.
    fn character(&mut self) -> Option<u32> {
        let c = self.rest.chars().next()?;
        if c == '\\' {
            return self.code();
        }
        self.rest = &self.rest[c.len_utf8()..];
        Some(u32::from(c))
    }

    /// The beginning of a group, or flags.
    fn group(&mut self) -> Option<()> {
        let Some(special) = self.rest.strip_prefix("(?") else {
            self.open(1, "(");
            self.groups += 1;
            return Some(());
        };
        let named = special.strip_prefix("P<").or_else(|| {
            // As in Go since 1.22.
            let inside = special.strip_prefix('<');
            inside.filter(|_| self.dialect.is_at_least(2, 51))
        });
        if let Some(inside) = named {
            let (name, rest) = inside.split_once('>')?;
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || !name.bytes().all(is_part) {
                return None;
            }
            self.open(self.rest.len() - rest.len(), "(");
            self.groups += 1;
            self.names.push((name.to_owned(), self.groups));
            return Some(());
        }
        let end = special.find([':', ')'])?;
        let flags = flags(&special[..end])?;
        match special[end..].starts_with(':') {
            true => self.open(end + 3, &format!("(?{flags}:")),
            false if flags.is_empty() => self.replace(end + 3, ""),
            false => self.replace(end + 3, &format!("(?{flags})")),
        }
        Some(())
    }

    fn open(&mut self, length: usize, by: &str) {
        self.replace(length, by);
        self.operand_end = self.out.len();
        self.repeats.open();
    }
}

/// How many times the repetitions of a pattern repeat, nested ones multiplied.
#[derive(Debug, Default)]
struct Repeats {
    /// The most in each group that is open, the innermost last, and before it what it follows.
    open: Vec<u32>,
    most: u32,
    /// Of what was read last.
    last: u32,
}

impl Repeats {
    /// A character, or what is none but may be repeated.
    fn operand(&mut self) {
        self.most = self.most.max(self.last);
        self.last = 1;
    }

    /// The beginning of a group.
    fn open(&mut self) {
        self.open.push(self.most.max(self.last));
        (self.most, self.last) = (1, 1);
    }

    /// Its end.
    fn close(&mut self) {
        self.last = self.most.max(self.last);
        self.most = self.open.pop().unwrap_or(1);
    }

    /// What was read last is repeated. Returns whether that is not too often.
    fn repeat(&mut self, times: u32) -> bool {
        self.last = if times == 0 {
            1
        } else {
            self.last.max(1) * times
        };
        self.last <= REPEAT_MAX
    }
}

/// The code of `\x41` or `\x{41}` after its x, and its length.
fn hexadecimal(after: &str) -> Option<(u32, usize)> {
    let (digits, length) = match after.strip_prefix('{') {
        Some(inside) => inside
            .split_once('}')
            .map(|(digits, _)| (digits, digits.len() + 2))?,
        None => (after.get(..2)?, 2),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let code = u32::from_str_radix(digits, 16).ok()?;
    (code <= u32::from(char::MAX)).then_some((code, length))
}

/// The code of `\101` and how many digits follow the first.
fn octal(first: char, after: &str) -> Option<(u32, usize)> {
    let is_digit = |byte: &u8| (b'0'..=b'7').contains(byte);
    let length = after.bytes().take(2).take_while(is_digit).count();
    // A digit alone would refer back, which there is not.
    if length == 0 && first != '0' {
        return None;
    }
    let code = u32::from_str_radix(&format!("{first}{}", &after[..length]), 8).ok()?;
    Some((code, length))
}

/// Flags as the library takes them: each once.
fn flags(written: &str) -> Option<String> {
    if written.ends_with('-') || written.matches('-').count() > 1 {
        return None;
    }
    let (on, off) = written.split_once('-').unwrap_or((written, ""));
    if !on
        .chars()
        .chain(off.chars())
        .all(|flag| "imsU".contains(flag))
    {
        return None;
    }
    let mut flags: String = "imsU"
        .chars()
        .filter(|flag| on.contains(*flag) && !off.contains(*flag))
        .collect();
    if !off.is_empty() {
        flags.push('-');
        flags.extend("imsU".chars().filter(|flag| off.contains(*flag)));
    }
    Some(flags)
}
