//! Just enough of Rust's lexical grammar to tell code from comments and strings.

/// A source file taken apart.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// The code, with comments and the insides of strings blanked out; lines stay where they are.
    pub(crate) code: String,
    /// String literals: line from 1, and content as written.
    pub(crate) strings: Vec<(usize, String)>,
}

impl Source {
    /// Lines of code, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

/// Takes a file apart.
pub(crate) fn parse(text: &str) -> Source {
    let mut lexer = Lexer {
        rest: text,
        line: 1,
        source: Source::default(),
    };
    while lexer.token() {}
    lexer.source
}

/// The part of a file before its unit tests.
pub(crate) fn without_unit_tests(text: &str) -> &str {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    &text[..end]
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    source: Source,
}

impl Lexer<'_> {
    /// Takes one piece; false at the end.
    fn token(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else {
            return false;
        };
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.blank(end);
        } else if self.rest.starts_with("/*") {
            self.blank(block_comment(self.rest));
        } else if first == '"' {
            self.string(1, quoted(&self.rest[1..]), 1);
        } else if let Some((open, close)) = raw_string(self.rest) {
            let body = &self.rest[open..];
            let end = body.find(&close).unwrap_or(body.len());
            self.string(open, end, close.len());
        } else if first == '\'' {
            self.keep_or_blank_char();
        } else if first.is_alphanumeric() || first == '_' {
            let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            self.keep(end.unwrap_or(self.rest.len()));
        } else {
            self.keep(first.len_utf8());
        }
        true
    }

    fn keep(&mut self, bytes: usize) {
        let (kept, rest) = self.rest.split_at(bytes);
        self.line += kept.matches('\n').count();
        self.source.code.push_str(kept);
        self.rest = rest;
    }

    fn blank(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.line += gone.matches('\n').count();
        self.source
            .code
            .extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }

    fn string(&mut self, open: usize, body: usize, close: usize) {
        let content = self.rest[open..open + body].to_owned();
        self.source.strings.push((self.line, content));
        self.blank(open + body + close);
    }

    /// A quote begins a character or a lifetime.
    fn keep_or_blank_char(&mut self) {
        let mut chars = self.rest.char_indices().skip(1);
        let second = chars.next().map(|(_, c)| c);
        let third = chars.next();
        match (second, third) {
            (Some('\\'), _) => {
                let end = self.rest.get(3..).and_then(|rest| rest.find('\''));
                let end = end.map_or(self.rest.len(), |at| at + 4);
                self.blank(end);
            }
            (Some(_), Some((at, '\''))) => self.blank(at + 1),
            _ => self.keep(1),
        }
    }
}

/// Length of a comment that may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Length of a string's content, up to its closing quote.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    text.len()
}

/// Where a raw string's content begins, and what ends it.
fn raw_string(text: &str) -> Option<(usize, String)> {
    let prefix = ["r", "br", "cr"]
        .iter()
        .find(|prefix| text.starts_with(**prefix))?;
    let hashes = text[prefix.len()..]
        .bytes()
        .take_while(|byte| *byte == b'#')
        .count();
    let open = prefix.len() + hashes;
    let is_string = text[open..].starts_with('"');
    is_string.then(|| (open + 1, format!("\"{}", "#".repeat(hashes))))
}

#[cfg(test)]
mod tests {
    use super::{parse, without_unit_tests};

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = "a // b\n/* c /* d */ e */ f \"g \\\" h\" r#\"i \" j\"# 'k' '\\'' b\"l\" &'m n";
        let source = parse(text);
        let words: Vec<_> = source.code.split_whitespace().collect();
        assert_eq!(words, ["a", "f", "b", "&'m", "n"]);
        let strings: Vec<_> = source
            .strings
            .iter()
            .map(|(_, text)| text.as_str())
            .collect();
        assert_eq!(strings, ["g \\\" h", "i \" j", "l"]);
        assert!(source.strings.iter().all(|(line, _)| *line == 2));
    }

    #[test]
    fn an_unfinished_comment_or_string_ends_with_the_file() {
        for text in ["/* a", "\"a", "r#\"a", "'\\"] {
            assert!(parse(text).code.trim().len() <= 2, "{text}");
        }
    }

    #[test]
    fn unit_tests_are_cut() {
        assert_eq!(without_unit_tests("a\n#[cfg(test)]\nmod tests {\n}"), "a\n");
        assert_eq!(
            without_unit_tests("a\n#[cfg(test)]\nmod tests;\n"),
            "a\n#[cfg(test)]\nmod tests;\n"
        );
    }
}
