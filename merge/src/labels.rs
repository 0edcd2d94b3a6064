//! Label sets: reading, ordering, injecting.
//!
//! A label set is a slice of pairs sorted by name, without empty values; two are compared label by
//! label as Prometheus does. Texts are slices of the body, or of the arena where they had escapes.

use std::cmp::Ordering;

use bumpalo::Bump;
use simd_json::Node;

use crate::error::MemberFailure;
use crate::limits::LABELS_PER_SERIES_MAX;

/// One label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Label<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
}

/// A label set as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LabelSet<'a> {
    pub(crate) labels: &'a [Label<'a>],
    /// The object as the member wrote it, where it can be written so again.
    pub(crate) text: Option<&'a [u8]>,
}

/// Scratch space of one reader.
#[derive(Debug, Default)]
pub(crate) struct LabelScratch {
    bytes: Vec<u8>,
}

/// Compares label by label: name, then value; the shorter of two equal beginnings is less.
pub(crate) fn compare(left: &[Label<'_>], right: &[Label<'_>]) -> Ordering {
    left.cmp(right)
}

/// Reads the label object that is `text`, and adds `injected` (sorted by name), which overwrite
/// labels of the same name.
pub(crate) fn read<'a>(
    text: &'a [u8],
    injected: &[Label<'a>],
    scratch: &mut LabelScratch,
    bump: &'a Bump,
) -> Result<LabelSet<'a>, MemberFailure> {
    let mut labels: Vec<Label<'a>> = Vec::with_capacity(16);
    let is_plain = read_plain(text, &mut labels).is_some();
    if !is_plain {
        labels.clear();
        read_general(text, &mut labels, scratch, bump)?;
    }
    if labels.len() > LABELS_PER_SERIES_MAX {
        return Err(MemberFailure::Limit {
            limit: "labels of one series",
        });
    }
    let mut may_keep_text = is_plain && injected.is_empty();
    if labels.iter().any(|label| label.value.is_empty()) {
        labels.retain(|label| !label.value.is_empty());
        may_keep_text = false;
    }
    for label in injected {
        labels.retain(|own| own.name != label.name);
        labels.push(*label);
    }
    if !labels.is_sorted_by(|a, b| a.name < b.name) {
        may_keep_text = false;
        labels.sort_unstable();
        if labels.windows(2).any(|pair| pair[0].name == pair[1].name) {
            return Err(MemberFailure::Malformed {
                at: 0,
                problem: "label name twice",
            });
        }
    }
    let labels = copy(bump, &labels)?;
    Ok(LabelSet {
        labels,
        text: may_keep_text.then_some(text),
    })
}

/// Copies labels into the arena.
pub(crate) fn copy<'a>(
    bump: &'a Bump,
    labels: &[Label<'a>],
) -> Result<&'a [Label<'a>], MemberFailure> {
    bump.try_alloc_slice_copy(labels)
        .map(|labels| &*labels)
        .map_err(|_| MemberFailure::Limit {
            limit: "arena bytes",
        })
}

/// Copies labels with their texts into the arena, sorted by name.
pub(crate) fn copy_texts(
    bump: &Bump,
    mut labels: Vec<(String, String)>,
) -> Result<&[Label<'_>], MemberFailure> {
    labels.sort_unstable();
    let mut copied = Vec::with_capacity(labels.len());
    for (name, value) in &labels {
        copied.push(Label {
            name: keep(bump, name)?,
            value: keep(bump, value)?,
        });
    }
    copy(bump, &copied)
}

/// Reads the form that servers write: no white space, no escapes.
fn read_plain<'a>(text: &'a [u8], labels: &mut Vec<Label<'a>>) -> Option<()> {
    let mut at = 1;
    if text.get(at) == Some(&b'}') {
        return Some(());
    }
    loop {
        let (name, after) = plain_string(text, at)?;
        if *text.get(after)? != b':' {
            return None;
        }
        let (value, after) = plain_string(text, after + 1)?;
        labels.push(Label { name, value });
        match *text.get(after)? {
            b',' => at = after + 1,
            b'}' if after + 1 == text.len() => return Some(()),
            _ => return None,
        }
    }
}

/// Reads a quoted string without escapes. Returns it and the place after its closing quote.
pub(crate) fn plain_string(text: &[u8], at: usize) -> Option<(&str, usize)> {
    if *text.get(at)? != b'"' {
        return None;
    }
    let start = at + 1;
    let length = text[start..]
        .iter()
        .position(|b| *b == b'"' || *b == b'\\' || *b < 0x20)?;
    let end = start + length;
    if text[end] != b'"' {
        return None;
    }
    Some((std::str::from_utf8(&text[start..end]).ok()?, end + 1))
}

fn read_general<'a>(
    text: &[u8],
    labels: &mut Vec<Label<'a>>,
    scratch: &mut LabelScratch,
    bump: &'a Bump,
) -> Result<(), MemberFailure> {
    const BAD: MemberFailure = MemberFailure::Malformed {
        at: 0,
        problem: "bad label object",
    };
    scratch.bytes.clear();
    scratch.bytes.extend_from_slice(text);
    let tape = simd_json::to_tape(&mut scratch.bytes).map_err(|_| BAD)?;
    let mut nodes = tape.0.iter();
    if !matches!(nodes.next(), Some(Node::Object { .. })) {
        return Err(BAD);
    }
    while let Some(name) = nodes.next() {
        let (Node::String(name), Some(Node::String(value))) = (name, nodes.next()) else {
            return Err(BAD);
        };
        labels.push(Label {
            name: keep(bump, name)?,
            value: keep(bump, value)?,
        });
    }
    Ok(())
}

/// Copies a string into the arena.
pub(crate) fn keep<'a>(bump: &'a Bump, text: &str) -> Result<&'a str, MemberFailure> {
    bump.try_alloc_str(text)
        .map(|text| &*text)
        .map_err(|_| MemberFailure::Limit {
            limit: "arena bytes",
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(
        text: &str,
        injected: &[(&'static str, &'static str)],
    ) -> Result<(String, bool), MemberFailure> {
        let bump = Bump::new();
        let injected: Vec<_> = injected
            .iter()
            .map(|(name, value)| Label { name, value })
            .collect();
        let set = read(
            text.as_bytes(),
            &injected,
            &mut LabelScratch::default(),
            &bump,
        )?;
        let shown: Vec<_> = set
            .labels
            .iter()
            .map(|l| format!("{}={}", l.name, l.value))
            .collect();
        Ok((shown.join(","), set.text.is_some()))
    }

    #[test]
    fn reads_sorts_and_injects() {
        type Case<'t> = (&'t str, &'t [(&'static str, &'static str)], &'t str, bool);
        let cases: &[Case<'_>] = &[
            ("{}", &[], "", true),
            (r#"{"a":"1","b":"2"}"#, &[], "a=1,b=2", true),
            (r#"{"b":"2","a":"1"}"#, &[], "a=1,b=2", false),
            (r#"{ "a" : "1" }"#, &[], "a=1", false),
            (r#"{"a":"\u00e9\n\"","b":"日"}"#, &[], "a=é\n\",b=日", false),
            (r#"{"a":"","b":"2"}"#, &[], "b=2", false),
            (r#"{"a":"1"}"#, &[("a", "x"), ("z", "y")], "a=x,z=y", false),
            (r#"{"m":"1"}"#, &[("a", "x")], "a=x,m=1", false),
        ];
        for (text, injected, expected, keeps_text) in cases {
            assert_eq!(
                set(text, injected),
                Ok(((*expected).to_owned(), *keeps_text)),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_bad_objects() {
        for text in [
            "{",
            r#"{"a"}"#,
            r#"{"a":1}"#,
            r#"{"a":null}"#,
            r#"{"a":{}}"#,
            "[]",
            r#"{"a":"1",}"#,
            r#"{"a":"1","a":"2"}"#,
            r#"{"a":"\x"}"#,
            "{\"a\":\"\u{1}\"}",
            r#"{"a":["b"]}"#,
        ] {
            assert!(set(text, &[]).is_err(), "{text}");
        }
        let bump = Bump::new();
        let bad = b"{\"a\":\"\xff\"}";
        assert!(read(bad, &[], &mut LabelScratch::default(), &bump).is_err());
    }

    /// Prometheus compares name, value, next name, …, not the JSON text.
    #[test]
    fn order_is_label_by_label() {
        let label = |name, value| Label { name, value };
        let sets = [
            vec![],
            vec![label("a", "1")],
            vec![label("a", "1"), label("b", "1")],
            vec![label("a", "1!")],
            vec![label("a", "10")],
            vec![label("a", "2")],
            vec![label("ab", "0")],
        ];
        assert!(sets.is_sorted_by(|x, y| compare(x, y) == Ordering::Less));
    }
}
