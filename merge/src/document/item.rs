//! Items of documents: how they are read out of JSON, kept, and written again.
//!
//! An item keeps the text that its member wrote, so that fields this crate does not know come through;
//! only where labels are injected, or parts of an item come from several members, is it written field
//! by field.

use bumpalo::Bump;

use super::walk::{Cut, Field};
use crate::error::MemberFailure;
use crate::labels::{self, Label, LabelScratch, LabelSet};
use crate::limits::{ITEM_BYTES_MAX, LABEL_BYTES_MAX, STRING_BYTES_MAX};
use crate::write::{write_labels, write_string};

type Outcome<T> = Result<T, MemberFailure>;

/// Most items of a piece of a [`List`].
const PIECE: usize = 1024;
/// What it costs to drop one item, which may have a small allocation of its own.
const DROP_UNITS: usize = 8;

/// A list that grows without moving what it holds.
#[derive(Debug)]
pub(super) struct List<T>(Vec<Vec<T>>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> List<T> {
    pub(super) fn len(&self) -> usize {
        match self.0.as_slice() {
            [] => 0,
            [whole @ .., last] => whole.len() * PIECE + last.len(),
        }
    }

    pub(super) fn push(&mut self, item: T) {
        match self.0.last_mut() {
            Some(last) if last.len() < PIECE => last.push(item),
            _ => self.0.push(vec![item]),
        }
    }

    /// Drops the last piece; returns what that costs, 0 when there is none.
    pub(super) fn drop_piece(&mut self) -> usize {
        self.0.pop().map_or(0, |piece| piece.len() * DROP_UNITS)
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.0.get(at / PIECE)?.get(at % PIECE)
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.0.get_mut(at / PIECE)?.get_mut(at % PIECE)
    }
}

/// A piece of text to be written as an item of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    raw: &'a [u8],
    /// Set where a field gets other labels.
    changed: Option<&'a Changed<'a>>,
}

#[derive(Debug, Clone, Copy)]
struct Changed<'a> {
    fields: &'a [Field<'a>],
    name: &'static str,
    labels: &'a [Label<'a>],
}

impl<'a> Written<'a> {
    /// The text as it came.
    pub(super) fn plain(raw: &'a [u8]) -> Self {
        Self { raw, changed: None }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Some(changed) = self.changed else {
            return out.extend_from_slice(self.raw);
        };
        out.push(b'{');
        for (at, field) in changed.fields.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(field.key);
            out.push(b':');
            if field.is(changed.name) {
                write_labels(
                    out,
                    &LabelSet {
                        labels: changed.labels,
                        text: None,
                    },
                );
            } else {
                out.extend_from_slice(field.value);
            }
        }
        out.push(b'}');
    }
}

/// What reading an item needs.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    bump: &'a Bump,
    /// Labels of whoever answered, sorted by name.
    injected: &'a [Label<'a>],
    scratch: LabelScratch,
}

const BAD: MemberFailure = MemberFailure::Malformed {
    at: 0,
    problem: "bad item",
};

const ARENA: MemberFailure = MemberFailure::Limit {
    limit: "arena bytes",
};

impl<'a> Reading<'a> {
    pub(super) fn new(bump: &'a Bump, injected: &'a [Label<'a>]) -> Self {
        Self {
            bump,
            injected,
            scratch: LabelScratch::default(),
        }
    }

    pub(super) fn bump(&self) -> &'a Bump {
        self.bump
    }

    pub(super) fn injected(&self) -> &'a [Label<'a>] {
        self.injected
    }

    /// Keeps a value in the arena.
    pub(super) fn keep<T: Copy>(&self, value: T) -> Outcome<&'a T> {
        let kept = self.bump.try_alloc(value);
        kept.map(|kept| &*kept).map_err(|_| ARENA)
    }

    /// Keeps the fields of an item in the arena.
    pub(super) fn fields(&self, cut: &Cut<'_, 'a>) -> Outcome<&'a [Field<'a>]> {
        for field in cut.fields {
            self.bounded(field.value)?;
        }
        let kept = self.bump.try_alloc_slice_copy(cut.fields);
        kept.map(|kept| &*kept).map_err(|_| ARENA)
    }

    /// The fields of an item; the one that is taken apart may be of any length, and its text is left
    /// out.
    pub(super) fn fields_beside(&self, cut: &Cut<'_, 'a>, apart: &str) -> Outcome<&'a [Field<'a>]> {
        let mut fields = cut.fields.to_vec();
        let mut met = 0;
        for field in fields.iter_mut().filter(|field| field.is(apart)) {
            field.value = b"[]";
            met += 1;
        }
        // Its items would be written twice.
        if met > 1 {
            return Err(BAD);
        }
        self.fields(&Cut {
            fields: &fields,
            ..*cut
        })
    }

    /// A text that is not longer than one that is written at once.
    pub(super) fn bounded(&self, raw: &'a [u8]) -> Outcome<&'a [u8]> {
        if raw.len() > ITEM_BYTES_MAX {
            return Err(MemberFailure::Limit {
                limit: "length of an item",
            });
        }
        Ok(raw)
    }

    /// The item as it came.
    pub(super) fn whole(&self, cut: &Cut<'_, 'a>) -> Outcome<Written<'a>> {
        Ok(Written::plain(self.bounded(cut.raw)?))
    }

    /// The item with injected labels in the label object `name`, and that object's labels.
    pub(super) fn labelled(
        &mut self,
        cut: &Cut<'_, 'a>,
        name: &'static str,
    ) -> Outcome<(Written<'a>, &'a [Label<'a>])> {
        let raw = cut.field(name).ok_or(BAD)?;
        let labels = self.labels(raw, true)?.labels;
        let mut written = self.whole(cut)?;
        if !self.injected.is_empty() {
            let fields = self.fields(cut)?;
            written.changed = Some(self.keep(Changed {
                fields,
                name,
                labels,
            })?);
        }
        Ok((written, labels))
    }

    /// Reads a label object; `with_injected` adds the labels of who answered.
    pub(super) fn labels(&mut self, raw: &'a [u8], with_injected: bool) -> Outcome<LabelSet<'a>> {
        if raw.first() != Some(&b'{') {
            return Err(BAD);
        }
        if raw.len() > LABEL_BYTES_MAX {
            return Err(MemberFailure::Limit {
                limit: "bytes of one label object",
            });
        }
        let injected = if with_injected { self.injected } else { &[] };
        labels::read(raw, injected, &mut self.scratch, self.bump)
    }

    /// Reads a label object of a member that may be missing.
    pub(super) fn labels_or_none(&mut self, raw: Option<&'a [u8]>) -> Outcome<&'a [Label<'a>]> {
        match raw {
            None | Some(b"null") => Ok(&[]),
            Some(raw) => Ok(self.labels(raw, false)?.labels),
        }
    }

    /// Reads a string, undoing its escapes.
    pub(super) fn text(&self, raw: &'a [u8]) -> Outcome<&'a str> {
        if let Some((text, after)) = labels::plain_string(raw, 0)
            && after == raw.len()
        {
            return Ok(text);
        }
        if raw.first() != Some(&b'"') || raw.len() > STRING_BYTES_MAX {
            return Err(BAD);
        }
        let inside = raw.get(1..raw.len().saturating_sub(1)).ok_or(BAD)?;
        let text = unescape(inside).and_then(|bytes| String::from_utf8(bytes).ok());
        labels::keep(self.bump, &text.ok_or(BAD)?)
    }

    /// Reads a string member that must be there.
    pub(super) fn text_of(&self, cut: &Cut<'_, 'a>, name: &str) -> Outcome<&'a str> {
        self.text(cut.field(name).ok_or(BAD)?)
    }

    /// Reads a string member; one that is missing is empty.
    pub(super) fn text_or_empty(&self, cut: &Cut<'_, 'a>, name: &str) -> Outcome<&'a str> {
        match cut.field(name) {
            None | Some(b"null") => Ok(""),
            Some(raw) => self.text(raw),
        }
    }

    /// Reads a whole number.
    pub(super) fn whole_number(&self, raw: &[u8]) -> Outcome<i128> {
        let text = std::str::from_utf8(raw).map_err(|_| BAD)?;
        let number: i64 = match text.parse() {
            Ok(number) => number,
            Err(_) => return text.parse::<u64>().map(i128::from).map_err(|_| BAD),
        };
        Ok(i128::from(number))
    }

    /// The item does not have what it must.
    pub(super) fn bad<T>(&self) -> Outcome<T> {
        Err(BAD)
    }
}

/// Undoes the escapes of a string that was checked, quotes taken off.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let unit = |text: &[u8]| {
        let digits = std::str::from_utf8(text.get(..4)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (escape, after) = rest[at + 1..].split_first()?;
        rest = after;
        out.push(match escape {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut code = unit(rest)?;
                rest = &rest[4..];
                if (0xd800..0xdc00).contains(&code) {
                    let low = unit(rest.strip_prefix(b"\\u")?)?;
                    rest = &rest[6..];
                    code = 0x1_0000 + ((code - 0xd800) << 10) + low.checked_sub(0xdc00)?;
                }
                let mut buffer = [0; 4];
                let character = char::from_u32(code)?.encode_utf8(&mut buffer);
                out.extend_from_slice(character.as_bytes());
                continue;
            }
            byte => *byte,
        });
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// Writes a comma in front of all items but the first.
#[derive(Debug, Default)]
pub(super) struct Commas(bool);

impl Commas {
    pub(super) fn next(&mut self, out: &mut Vec<u8>) {
        if self.0 {
            out.push(b',');
        }
        self.0 = true;
    }

    /// A new list begins.
    pub(super) fn reset(&mut self) {
        self.0 = false;
    }
}

/// Appends `"key":` for a name that may need escapes.
pub(super) fn write_key(out: &mut Vec<u8>, name: &str) {
    write_string(out, name);
    out.push(b':');
}

/// Appends a number.
pub(super) fn write_number(out: &mut Vec<u8>, number: i128) {
    out.extend_from_slice(number.to_string().as_bytes());
}

/// The fields of an object that is written one at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fields<'a> {
    fields: &'a [Field<'a>],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(fields: &'a [Field<'a>]) -> Self {
        Self { fields, at: 0 }
    }

    /// Goes to the next field and writes its key; its value is to follow.
    pub(super) fn write_next(&mut self, out: &mut Vec<u8>) -> Option<Field<'a>> {
        let field = *self.fields.get(self.at)?;
        if self.at > 0 {
            out.push(b',');
        }
        self.at += 1;
        out.extend_from_slice(field.key);
        out.push(b':');
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        let cases: [(&str, Option<&str>); 8] = [
            ("", Some("")),
            ("plain", Some("plain")),
            (r#"a\"b\\c\/d"#, Some("a\"b\\c/d")),
            (r"\b\f\n\r\t", Some("\u{8}\u{c}\n\r\t")),
            (r"\u003con\u003E \u00e9", Some("<on> é")),
            (r"\ud83d\ude00!", Some("😀!")),
            (r"\ud83d", None),
            (r"\u12", None),
        ];
        for (text, expected) in cases {
            let found = unescape(text.as_bytes());
            let expected = expected.map(|text| text.as_bytes().to_vec());
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_list_is_dropped_piece_by_piece() {
        let mut list = List::default();
        for at in 0..=2 * PIECE {
            assert_eq!(list.len(), at);
            list.push(at);
        }
        assert_eq!(
            (list.get(PIECE), list.get(2 * PIECE + 1)),
            (Some(&PIECE), None)
        );
        let left = [2 * PIECE, PIECE, 0].map(|left| {
            assert!(list.drop_piece() > 0, "{left}");
            list.len() == left
        });
        assert_eq!((left, list.drop_piece()), ([true; 3], 0));
    }
}
