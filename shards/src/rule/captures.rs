//! What a regular expression has captured, for the rewriters of one rule. Contract: rule page, 11.

use std::borrow::Cow;

use regex::bytes::Regex;

use crate::limits::MATCHED_BYTES_MAX;

/// The groups of one match.
#[derive(Debug)]
pub(crate) struct Captures<'r> {
    regex: &'r Regex,
    /// Copied: the request may be changed by what was found in it.
    text: Vec<u8>,
    /// By number; `None`: took no part.
    groups: Vec<Option<(usize, usize)>>,
}

impl<'r> Captures<'r> {
    /// Of the first match; `None` when there is none, or the input is too long to keep.
    pub(super) fn of(regex: &'r Regex, input: &[u8]) -> Option<Captures<'r>> {
        if input.len() > MATCHED_BYTES_MAX {
            return None;
        }
        let input = as_text(input);
        let found = regex.captures(&input)?;
        let groups = found.iter();
        let groups = groups.map(|group| group.map(|group| (group.start(), group.end())));
        Some(Captures {
            regex,
            groups: groups.collect(),
            text: input.into_owned(),
        })
    }

    /// What a token stands for; `None` for a group that the expression does not have.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        let is_number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        let number = match is_number {
            true => name.parse().ok()?,
            false => {
                let mut names = self.regex.capture_names();
                names.position(|known| known == Some(name))?
            }
        };
        let group = self.groups.get(number)?;
        Some(group.map_or(&[][..], |(start, end)| &self.text[start..end]))
    }
}

/// What a regular expression looks at: bytes that are no UTF-8 are U+FFFD, as they are for the engine of the contract,
/// so that a dot matches them. Contract: rule page, 11.
pub(super) fn as_text(input: &[u8]) -> Cow<'_, [u8]> {
    match String::from_utf8_lossy(input) {
        Cow::Borrowed(_) => input.into(),
        Cow::Owned(text) => text.into_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_known_by_number_and_name() {
        let regex = Regex::new("(?P<o>foo)?(?P<t>bar)").expect("a regex");
        let captures = Captures::of(&regex, b"bar").expect("it matches");
        for (name, expected) in [
            ("0", Some("bar")),
            ("1", Some("")),
            ("2", Some("bar")),
            ("o", Some("")),
            ("t", Some("bar")),
            ("3", None),
            ("missing", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            let found = captures.get(name);
            assert_eq!(found, expected.map(str::as_bytes), "{name}");
        }
        assert!(Captures::of(&regex, b"baz").is_none());
    }

    #[test]
    fn captures_are_as_short_as_what_is_looked_at() {
        let regex = Regex::new("(a+)").expect("a regex");
        assert!(Captures::of(&regex, &vec![b'a'; MATCHED_BYTES_MAX]).is_some());
        assert!(Captures::of(&regex, &vec![b'a'; MATCHED_BYTES_MAX + 1]).is_none());
    }
}
