//! Joins the documents of all replica groups and writes the data, in steps.
//!
//! Owns the items of each group's first usable member; each endpoint's own [`Join`] takes them one
//! after another, group by group in pool order, and then writes piece after piece.

use std::fmt::Debug;

use super::item::List;
use super::{Document, Entry, LISTS, Part, Trim};
use crate::write::Output;

/// How one endpoint joins documents. Every call does a bounded piece of work.
pub(super) trait Join<'a>: Debug {
    /// The items of the next group follow.
    fn begin(&mut self) {}

    /// Takes an item of list number `list`. All of one list come before those of the next.
    fn take(&mut self, list: usize, entry: Entry<'a>);

    /// Appends the next piece of the data; `false` when that was the last.
    fn write(&mut self, out: &mut Vec<u8>) -> bool;

    /// Drops a piece of what is left when all is written; returns what that costs, 0 when the rest is
    /// small. Freeing a large map at once takes too long.
    fn drop_next(&mut self) -> usize {
        0
    }

    /// What the answer has to say of itself, once all is written. Only asked of several groups.
    fn warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// What it costs to take an item, to write a piece, beside its bytes, or to drop an entry of a map.
pub(super) const PIECE_UNITS: usize = 250;

/// Joins the documents of one request.
#[derive(Debug)]
pub(crate) struct Joining<'a> {
    join: Box<dyn Join<'a> + 'a>,
    /// The documents, in pool order.
    parts: Vec<Part<'a>>,
    /// The item that is taken next: its document, list and place.
    part: usize,
    list: usize,
    at: usize,
    is_written: bool,
}

impl<'a> Joining<'a> {
    /// Starts with the documents of all groups that have one, in pool order.
    pub(crate) fn new(document: Document, trim: &Trim, parts: Vec<Part<'a>>) -> Self {
        let mut join = document.join(trim);
        join.begin();
        Self {
            join,
            parts,
            part: 0,
            list: 0,
            at: 0,
            is_written: false,
        }
    }

    /// Works for about `units`. Returns those used, and whether all is done.
    pub(crate) fn step(&mut self, out: &mut Output, units: usize) -> (usize, bool) {
        let mut used = 0;
        while used < units {
            if self.take() {
                used += PIECE_UNITS;
                continue;
            }
            if self.is_written {
                match self.drop_next() {
                    0 => return (used, true),
                    units => used += units,
                }
                continue;
            }
            let room = out.room();
            let before = room.len();
            self.is_written = !self.join.write(room);
            // A copied byte costs far less than a unit.
            used += PIECE_UNITS + (room.len() - before) / 4;
        }
        (used, false)
    }

    /// What the answer has to say of itself.
    pub(crate) fn warnings(&mut self) -> Vec<String> {
        match self.parts.len() {
            0 | 1 => Vec::new(),
            _ => self.join.warnings(),
        }
    }

    /// Drops a piece of what is no longer needed; returns units used.
    fn drop_next(&mut self) -> usize {
        let lists = self.parts.iter_mut().flat_map(|part| &mut part.lists);
        let dropped = lists.map(List::drop_piece).find(|units| *units > 0);
        dropped.unwrap_or_else(|| self.join.drop_next())
    }

    /// Takes the next item; `false` when there is none.
    fn take(&mut self) -> bool {
        while let Some(part) = self.parts.get(self.part) {
            if let Some(entry) = part.lists.get(self.list).and_then(|list| list.get(self.at)) {
                self.join.take(self.list, *entry);
                self.at += 1;
                return true;
            }
            self.at = 0;
            self.list += 1;
            if self.list == LISTS {
                self.list = 0;
                self.part += 1;
                self.join.begin();
            }
        }
        false
    }
}
