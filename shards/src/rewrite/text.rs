//! Texts of instructions: tokens expanded, parts replaced, all within a bound.

use std::borrow::Cow;
use std::ops::Range;

use super::Dropped;
use crate::limits::REWRITTEN_BYTES_MAX;
use crate::plan::{Part, Template};
use crate::rule::Captures;

/// The text with its tokens expanded, once; `None` when it would be too long. A token that nothing was captured
/// for stays as it is written.
pub(crate) fn expand<'t>(
    template: &'t Template,
    captures: Option<&Captures<'_>>,
) -> Option<Cow<'t, [u8]>> {
    expand_with(template, |name| Some(captures?.get(name)?.into()))
}

/// As [`expand`], with whatever `known` says of a token.
pub(crate) fn expand_with<'t, 'k>(
    template: &'t Template,
    known: impl Fn(&str) -> Option<Cow<'k, [u8]>>,
) -> Option<Cow<'t, [u8]>> {
    if let Some(plain) = template.plain() {
        return Some(Cow::Borrowed(plain.as_bytes()));
    }
    let mut out = Vec::new();
    for part in template.parts() {
        match part {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Token(name) => match known(name) {
                Some(value) => out.extend_from_slice(&value),
                None => {
                    out.extend_from_slice(b"${");
                    out.extend_from_slice(name.as_bytes());
                    out.push(b'}');
                }
            },
        }
        if out.len() > REWRITTEN_BYTES_MAX {
            return None;
        }
    }
    Some(Cow::Owned(out))
}

/// The text with up to `count` places replaced; `None` where there is nothing to replace.
pub(super) fn replaced(
    text: &[u8],
    change: (&[u8], &[u8]),
    count: Option<u32>,
) -> Result<Option<Vec<u8>>, Dropped> {
    replaced_where(text, change, count, |_| true)
}

/// As [`replaced`], of the places that fit only.
pub(super) fn replaced_where(
    text: &[u8],
    (search, with): (&[u8], &[u8]),
    count: Option<u32>,
    fits: impl Fn(Range<usize>) -> bool,
) -> Result<Option<Vec<u8>>, Dropped> {
    if search.is_empty() || search == with {
        return Ok(None);
    }
    let finder = memchr::memmem::Finder::new(search);
    let mut left = count.unwrap_or(u32::MAX);
    let mut misfit_bytes = 0;
    // How much of the text is written, and from where on is searched.
    let (mut done, mut from) = (0, 0);
    let mut out = Vec::new();
    while left > 0
        && let Some(at) = finder.find(&text[from..]).map(|at| from + at)
    {
        let end = at + search.len();
        if !fits(at..end) {
            // A long text may begin again and again within itself.
            misfit_bytes += search.len();
            if misfit_bytes > REWRITTEN_BYTES_MAX {
                return Err(Dropped);
            }
            from = at + 1;
            continue;
        }
        out.extend_from_slice(&text[done..at]);
        out.extend_from_slice(with);
        (done, from) = (end, end);
        left -= 1;
        if out.len() > REWRITTEN_BYTES_MAX {
            return Err(Dropped);
        }
    }
    if done == 0 {
        return Ok(None);
    }
    out.extend_from_slice(&text[done..]);
    match out.len() > REWRITTEN_BYTES_MAX {
        true => Err(Dropped),
        false => Ok(Some(out)),
    }
}

/// Where a text stands in another.
pub(crate) fn find(text: &[u8], search: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, search)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_or_the_first_few_are_replaced() {
        let change = |text: &str, search: &str, with: &str, count| {
            let changed = replaced(text.as_bytes(), (search.as_bytes(), with.as_bytes()), count);
            changed
                .expect("short")
                .map(|text| String::from_utf8(text).expect("text"))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(change("aXbXc", "X", "--", None), some("a--b--c"));
        assert_eq!(change("aXbXc", "X", "", Some(1)), some("abXc"));
        assert_eq!(change("aXbXc", "X", "y", Some(0)), None);
        assert_eq!(change("abc", "X", "y", None), None);
        assert_eq!(change("abc", "", "y", None), None);
        assert_eq!(change("abc", "b", "b", None), None);
    }

    #[test]
    fn what_grows_beyond_the_bound_is_dropped() {
        let long = vec![b'a'; 4096];
        let grown = replaced(&long, (b"a", &[b'b'; 64]), None);
        assert_eq!(grown, Err(Dropped));
        let template = Template::of("${x}${x}${x}");
        let value = vec![b'v'; REWRITTEN_BYTES_MAX / 2];
        assert!(expand_with(&template, |_| Some(value.as_slice().into())).is_none());
    }

    #[test]
    fn tokens_are_expanded_once() {
        let known = |name: &str| match name {
            "value" => Some(b"abc"[..].into()),
            "empty" => Some(b""[..].into()),
            "nested" => Some(b"${value}"[..].into()),
            _ => None,
        };
        for (written, expected) in [
            ("a-${value}-b", "a-abc-b"),
            ("${value}/${empty}/${value}", "abc//abc"),
            ("p}${value}", "p}abc"),
            ("${nested}", "${value}"),
            ("${value", "${value"),
            ("${unknown}", "${unknown}"),
        ] {
            let template = Template::of(written);
            let expanded = expand_with(&template, known).expect("short");
            assert_eq!(&*expanded, expected.as_bytes(), "{written}");
        }
    }
}
