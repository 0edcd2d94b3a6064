//! `/api/v1/targets/metadata`: what targets say of their metrics, each statement once, sorted.

use std::collections::BTreeMap;

use super::item::{Commas, Reading, Written};
use super::join::{Join, PIECE_UNITS};
use super::walk::{Cut, Shape};
use super::{Entry, Item, Trim};
use crate::error::MemberFailure;
use crate::labels::Label;

pub(super) const DATA: Shape = Shape::array(None, &Shape::object(Some(0), &[]));

/// A target, and what it says: metric, type, help, unit.
type Statement<'a> = (&'a [Label<'a>], [&'a str; 4]);

#[derive(Debug, Clone, Copy)]
pub(super) struct TargetMetadata<'a> {
    statement: Statement<'a>,
    written: Written<'a>,
}

pub(super) fn read<'a>(
    cut: &Cut<'_, 'a>,
    reading: &mut Reading<'a>,
) -> Result<Item<'a>, MemberFailure> {
    let (written, target) = reading.labelled(cut, "target")?;
    let mut texts = [""; 4];
    for (text, name) in texts.iter_mut().zip(["metric", "type", "help", "unit"]) {
        *text = reading.text_or_empty(cut, name)?;
    }
    let item = TargetMetadata {
        statement: (target, texts),
        written,
    };
    Ok(Item::TargetMetadata(reading.keep(item)?))
}

#[derive(Debug)]
pub(super) struct Joined<'a> {
    statements: BTreeMap<Statement<'a>, Written<'a>>,
    left: u64,
    has_begun: bool,
    commas: Commas,
}

impl Joined<'_> {
    pub(super) fn new(trim: &Trim) -> Self {
        Self {
            statements: BTreeMap::new(),
            left: trim.limit.unwrap_or(u64::MAX),
            has_begun: false,
            commas: Commas::default(),
        }
    }
}

impl<'a> Join<'a> for Joined<'a> {
    fn take(&mut self, _: usize, entry: Entry<'a>) {
        if let Item::TargetMetadata(item) = entry.item {
            let known = self.statements.entry(item.statement);
            known.or_insert(item.written);
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.push(b'[');
        }
        let next = match self.left {
            0 => None,
            _ => self.statements.pop_first(),
        };
        let Some((_, written)) = next else {
            out.push(b']');
            return false;
        };
        self.left -= 1;
        self.commas.next(out);
        written.write(out);
        true
    }

    fn drop_next(&mut self) -> usize {
        let dropped = self.statements.pop_first().is_some();
        usize::from(dropped) * PIECE_UNITS
    }
}
