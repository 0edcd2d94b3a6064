//! Reads one member's document, in steps: the envelope, and the items of its data.
//!
//! Called by [`crate::merge`], as [`crate::parse`] is for series. Promises: no recursion, no panic; a
//! body that is not the document asked for is a [`MemberFailure`].

use bumpalo::Bump;

use super::federate;
use super::item::Reading;
use super::walk::{Cut, Met, Shape, Walker};
use super::{Document, Entry, LISTS, Part};
use crate::error::MemberFailure;
use crate::labels::Label;
use crate::limits::{ITEMS_PER_DOCUMENT_MAX, WARNINGS_MAX};
use crate::parse::Envelope;
use crate::series::{Parsed, ResultKind};

type Outcome<T> = Result<T, MemberFailure>;

/// Lists of the envelope, behind those of the data.
const WARNING: usize = LISTS;
const INFO: usize = LISTS + 1;
pub(super) const WARNINGS: Shape = Shape::array(None, &Shape::whole(WARNING));
pub(super) const INFOS: Shape = Shape::array(None, &Shape::whole(INFO));

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Reader<'a>(Form<'a>);

#[derive(Debug)]
enum Form<'a> {
    Json(Box<Json<'a>>),
    Text(Box<federate::Reader<'a>>),
}

impl<'a> Reader<'a> {
    /// Starts reading `body`. `injected` is sorted by name.
    pub(crate) fn new(
        document: Document,
        body: &'a [u8],
        bump: &'a Bump,
        injected: &'a [Label<'a>],
    ) -> Self {
        let reading = Reading::new(bump, injected);
        Self(match document {
            Document::Federate => Form::Text(Box::new(federate::Reader::new(body, reading))),
            _ => Form::Json(Box::new(Json {
                document,
                walker: Walker::new(body, document.root()),
                reading,
                part: Part::default(),
                has_data: false,
                envelope: Envelope::default(),
                parsed: Parsed::default(),
            })),
        })
    }

    /// Reads on for about `units` bytes. Returns the bytes read, and whether the body is done.
    pub(crate) fn step(&mut self, units: usize) -> Outcome<(usize, bool)> {
        match &mut self.0 {
            Form::Json(json) => json.step(units),
            Form::Text(text) => text.step(units),
        }
    }

    /// Returns the answer of a body that is done: the items, or the error.
    pub(crate) fn finish(self, status: u16) -> Outcome<Parsed<'a>> {
        match self.0 {
            Form::Json(json) => json.finish(status),
            Form::Text(text) => text.finish(status),
        }
    }
}

#[derive(Debug)]
struct Json<'a> {
    document: Document,
    walker: Walker<'a>,
    reading: Reading<'a>,
    part: Part<'a>,
    has_data: bool,
    envelope: Envelope,
    parsed: Parsed<'a>,
}

impl<'a> Json<'a> {
    fn step(&mut self, units: usize) -> Outcome<(usize, bool)> {
        let start = self.walker.at();
        let until = start.saturating_add(units);
        // What an item costs beside its bytes.
        let mut extra = 0;
        loop {
            let Self {
                document,
                walker,
                reading,
                part,
                ..
            } = self;
            let is_done = match walker.next(until.saturating_sub(extra).max(start + 1))? {
                Met::Item(tag @ (WARNING | INFO), cut) => {
                    let text = reading.text(cut.raw)?;
                    let texts = match tag {
                        WARNING => &mut self.parsed.warnings,
                        _ => &mut self.parsed.infos,
                    };
                    if texts.len() < WARNINGS_MAX && !texts.iter().any(|known| known == text) {
                        texts.push(text.to_owned());
                    }
                    continue;
                }
                Met::Item(tag, cut) => {
                    self.has_data = true;
                    extra += ITEM_UNITS + cut.raw.len().min(ITEM_UNITS_MAX) / 4;
                    read_item(*document, tag, &cut, reading, part)?;
                    continue;
                }
                Met::Member(field) => {
                    let text = |raw| reading.text(raw).map(str::to_owned);
                    match field.key {
                        b"\"status\"" => self.envelope.status = Some(text(field.value)?),
                        b"\"errorType\"" => self.envelope.error_type = text(field.value)?,
                        b"\"error\"" => self.envelope.error = text(field.value)?,
                        b"\"data\"" => self.has_data = true,
                        _ => {}
                    }
                    continue;
                }
                Met::Paused => false,
                Met::End => true,
            };
            return Ok((self.walker.at() - start + extra, is_done));
        }
    }

    fn finish(mut self, status: u16) -> Outcome<Parsed<'a>> {
        self.envelope.judge(status)?;
        if !self.has_data {
            return Err(MemberFailure::Malformed {
                at: 0,
                problem: "answer without data",
            });
        }
        self.parsed.kind = Some(ResultKind::Document);
        self.parsed.part = self.part;
        Ok(self.parsed)
    }
}

/// What it costs to keep an item, and most that reading its text again adds.
const ITEM_UNITS: usize = 100;
const ITEM_UNITS_MAX: usize = 16 * 1024;

fn read_item<'a>(
    document: Document,
    tag: usize,
    cut: &Cut<'_, 'a>,
    reading: &mut Reading<'a>,
    part: &mut Part<'a>,
) -> Outcome<()> {
    let item = document.read(tag, cut, reading)?;
    // Items end before what they are in, so that this one is still open.
    let parent = tag
        .checked_sub(1)
        .map_or(0, |above| part.lists[above].len());
    keep(part, tag, Entry { parent, item })
}

/// Appends an item to a list, within the bound.
pub(super) fn keep<'a>(part: &mut Part<'a>, list: usize, entry: Entry<'a>) -> Outcome<()> {
    let list = &mut part.lists[list];
    if list.len() >= ITEMS_PER_DOCUMENT_MAX {
        return Err(MemberFailure::Limit {
            limit: "items of one document",
        });
    }
    list.push(entry);
    Ok(())
}
