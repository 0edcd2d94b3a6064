//! What a regular expression has captured, for the rewriters of one rule. Contract: rule page, 11.

use std::borrow::Cow;

use regex::bytes::Regex;

use crate::limits::MATCHED_BYTES_MAX;
use crate::plan::Source;

/// The groups of one match.
#[derive(Debug)]
pub(crate) struct Captures<'r> {
    regex: &'r Regex,
    /// Copied: the request may be changed by what was found in it.
    text: Vec<u8>,
    /// By number; `None`: took no part.
    groups: Vec<Option<(usize, usize)>>,
    text_is: Form,
}

/// How a text was written in the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As a path, percent-encoding undone.
    Path,
    /// As a parameter, its encoding undone.
    Param,
    /// As it is.
    Plain,
    /// In more bytes than are kept.
    TooLong,
}

impl<'r> Captures<'r> {
    /// Of the first match; `None` when there is none. Of an input that is too long to keep every group is what cannot be
    /// sent, so that whatever would be made of it is left out.
    pub(super) fn of(regex: &'r Regex, source: &Source, input: &[u8]) -> Option<Captures<'r>> {
        let text_is = match source {
            Source::Path => Form::Path,
            Source::Param(_) => Form::Param,
            _ => Form::Plain,
        };
        let input = as_text(input);
        if input.len() > MATCHED_BYTES_MAX {
            return regex.is_match(&input).then(|| Captures {
                regex,
                text: vec![0],
                groups: vec![Some((0, 1)); regex.captures_len()],
                text_is: Form::TooLong,
            });
        }
        let found = regex.captures(&input)?;
        let groups = found.iter();
        let groups = groups.map(|group| group.map(|group| (group.start(), group.end())));
        Some(Captures {
            regex,
            groups: groups.collect(),
            text: input.into_owned(),
            text_is,
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

    /// As [`Captures::get`], for a path: what was decoded once is not read as encoded again.
    pub(crate) fn get_for_path(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let text = self.get(name)?;
        Some(match self.text_is {
            Form::Path | Form::Param => encoded(text, b"%"),
            Form::Plain | Form::TooLong => Cow::Borrowed(text),
        })
    }

    /// The same for a query, of which it does not end the parameter.
    pub(crate) fn get_for_query(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let text = self.get(name)?;
        Some(match self.text_is {
            Form::Path | Form::Param => encoded(text, b"%&+"),
            Form::Plain | Form::TooLong => Cow::Borrowed(text),
        })
    }

    /// The same for a URL. Parameters are put there as they are: they may be URLs themselves.
    pub(super) fn get_for_location(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let text = self.get(name)?;
        Some(match self.text_is {
            Form::Path => encoded(text, b"%?#&+"),
            Form::Param | Form::Plain | Form::TooLong => Cow::Borrowed(text),
        })
    }

    /// Whether nothing can be made of what was captured.
    pub(super) fn is_too_long(&self) -> bool {
        self.text_is == Form::TooLong
    }
}

/// The text with these bytes percent-encoded.
fn encoded<'t>(text: &'t [u8], bytes: &[u8]) -> Cow<'t, [u8]> {
    if !text.iter().any(|byte| bytes.contains(byte)) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 8);
    for byte in text {
        match bytes.contains(byte) {
            true => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            false => out.push(*byte),
        }
    }
    Cow::Owned(out)
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
        let captures = Captures::of(&regex, &Source::Path, b"bar").expect("it matches");
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
        assert!(Captures::of(&regex, &Source::Path, b"baz").is_none());
    }

    #[test]
    fn what_was_decoded_stays_so() {
        let regex = Regex::new(".*").expect("a regex");
        let text = b"a%41 b?c#&d";
        let plain = "a%41 b?c#&d";
        for (source, expected) in [
            (
                Source::Path,
                ["a%2541 b?c#&d", "a%2541 b?c#%26d", "a%2541 b%3Fc%23%26d"],
            ),
            (
                Source::Param("p".into()),
                ["a%2541 b?c#&d", "a%2541 b?c#%26d", plain],
            ),
            (Source::Url, [plain; 3]),
            (Source::Header("X".into()), [plain; 3]),
        ] {
            let captures = Captures::of(&regex, &source, text).expect("it matches");
            let found = [
                captures.get_for_path("0"),
                captures.get_for_query("0"),
                captures.get_for_location("0"),
            ];
            let found = found.map(|text| String::from_utf8(text.expect("a group").into()));
            assert_eq!(
                found,
                expected.map(|text| Ok(text.to_owned())),
                "{source:?}"
            );
            assert_eq!(captures.get("0"), Some(&text[..]));
        }
    }

    #[test]
    fn what_is_too_long_to_keep_matches_and_cannot_be_sent() {
        let regex = Regex::new("^(a+)$").expect("a regex");
        let of = |length: usize| {
            let found =
                Captures::of(&regex, &Source::Path, &vec![b'a'; length]).expect("it matches");
            found.get("1").map(<[u8]>::to_vec)
        };
        assert_eq!(of(MATCHED_BYTES_MAX).map(|text| text.len()), Some(4096));
        assert_eq!(of(MATCHED_BYTES_MAX + 1), Some(vec![0]));
        let other = vec![b'b'; MATCHED_BYTES_MAX + 1];
        assert!(Captures::of(&regex, &Source::Path, &other).is_none());
    }
}
