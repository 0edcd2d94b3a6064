//! `/api/v1/metadata`: what is known of each metric, by name; each statement once, in pool order.

use std::collections::{BTreeMap, BTreeSet};

use super::item::{Commas, List, Reading, Written, write_key};
use super::join::{Join, PIECE_UNITS};
use super::walk::{Cut, Shape};
use super::{Entry, Item, Trim};
use crate::error::MemberFailure;

const METRICS: usize = 0;
pub(super) const DATA: Shape =
    Shape::map(&Shape::array(Some(METRICS), &Shape::object(Some(1), &[])));

/// A statement: type, help, unit.
type Statement<'a> = [&'a str; 3];

#[derive(Debug, Clone, Copy)]
pub(super) struct Metadata<'a> {
    statement: Statement<'a>,
    written: Written<'a>,
}

pub(super) fn read<'a>(
    list: usize,
    cut: &Cut<'_, 'a>,
    reading: &mut Reading<'a>,
) -> Result<Item<'a>, MemberFailure> {
    if list == METRICS {
        return Ok(Item::Text(reading.text(cut.key)?));
    }
    let mut statement = [""; 3];
    for (text, name) in statement.iter_mut().zip(["type", "help", "unit"]) {
        *text = reading.text_or_empty(cut, name)?;
    }
    let item = Metadata {
        statement,
        written: reading.whole(cut)?,
    };
    Ok(Item::Metadata(reading.keep(item)?))
}

#[derive(Debug)]
pub(super) struct Joined<'a> {
    metrics: BTreeMap<&'a str, List<Written<'a>>>,
    seen: BTreeSet<(&'a str, Statement<'a>)>,
    /// Metrics of the document that is being taken, by their place in it.
    names: List<&'a str>,
    metrics_left: u64,
    per_metric: u64,
    has_begun: bool,
    commas: Commas,
    /// The metric that is being written, and how far.
    open: Option<(List<Written<'a>>, usize)>,
}

impl Joined<'_> {
    pub(super) fn new(trim: &Trim) -> Self {
        Self {
            metrics: BTreeMap::new(),
            seen: BTreeSet::new(),
            names: List::default(),
            metrics_left: trim.limit.unwrap_or(u64::MAX),
            per_metric: trim.limit_per_metric.unwrap_or(u64::MAX),
            has_begun: false,
            commas: Commas::default(),
            open: None,
        }
    }
}

impl<'a> Join<'a> for Joined<'a> {
    fn begin(&mut self) {
        self.names = List::default();
    }

    fn take(&mut self, _: usize, entry: Entry<'a>) {
        match entry.item {
            Item::Text(name) => {
                self.names.push(name);
                self.metrics.entry(name).or_default();
            }
            Item::Metadata(item) => {
                let Some(name) = self.names.get(entry.parent).copied() else {
                    return;
                };
                let statements = self.metrics.entry(name).or_default();
                let has_room = (statements.len() as u64) < self.per_metric;
                if has_room && self.seen.insert((name, item.statement)) {
                    statements.push(item.written);
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.push(b'{');
        }
        if let Some((statements, at)) = &mut self.open {
            if let Some(written) = statements.get(*at) {
                if *at > 0 {
                    out.push(b',');
                }
                written.write(out);
                *at += 1;
            } else {
                out.push(b']');
                self.open = None;
            }
            return true;
        }
        let next = match self.metrics_left {
            0 => None,
            _ => self.metrics.pop_first(),
        };
        let Some((name, statements)) = next else {
            out.push(b'}');
            return false;
        };
        self.metrics_left -= 1;
        self.commas.next(out);
        write_key(out, name);
        out.push(b'[');
        self.open = Some((statements, 0));
        true
    }

    fn drop_next(&mut self) -> usize {
        let dropped = self.seen.pop_first().is_some() || self.metrics.pop_first().is_some();
        usize::from(dropped) * PIECE_UNITS
    }
}
