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
const PIECE: usize = 4096;

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
        let mut bytes = Vec::with_capacity(raw.len() + 2);
        bytes.push(b'[');
        bytes.extend_from_slice(raw);
        bytes.push(b']');
        let tape = simd_json::to_tape(&mut bytes).map_err(|_| BAD)?;
        match tape.0.as_slice() {
            [_, simd_json::Node::String(text)] => labels::keep(self.bump, text),
            _ => Err(BAD),
        }
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
