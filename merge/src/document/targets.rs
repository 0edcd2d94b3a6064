//! `/api/v1/targets`: the targets of all groups by scrape pool, in pool order within one.
//!
//! Two groups that scrape the same target have two opinions of it, so none is dropped.

use std::collections::BTreeMap;

use super::item::{Commas, Reading, Written, write_key, write_number};
use super::join::Join;
use super::walk::{Cut, Shape};
use super::{Entry, Item};
use crate::error::MemberFailure;

const COUNTS: usize = 2;
pub(super) const DATA: Shape = Shape::object(
    None,
    &[
        (NAMES[0], Shape::array(None, &Shape::object(Some(0), &[]))),
        (NAMES[1], Shape::array(None, &Shape::object(Some(1), &[]))),
        ("droppedTargetCounts", Shape::map(&Shape::whole(COUNTS))),
    ],
);
const NAMES: [&str; 2] = ["activeTargets", "droppedTargets"];

#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// The scrape pool; older servers do not tell that of a dropped target.
    pool: &'a str,
    written: Written<'a>,
}

pub(super) fn read<'a>(
    list: usize,
    cut: &Cut<'_, 'a>,
    reading: &mut Reading<'a>,
) -> Result<Item<'a>, MemberFailure> {
    if list == COUNTS {
        let count = (reading.text(cut.key)?, reading.whole_number(cut.raw)?);
        return Ok(Item::Count(reading.keep(count)?));
    }
    let pool = reading.text_or_empty(cut, "scrapePool")?;
    let written = match list {
        0 => reading.labelled(cut, "labels")?.0,
        _ => reading.whole(cut)?,
    };
    Ok(Item::Target(reading.keep(Target { pool, written })?))
}

#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    /// By scrape pool, then as they came.
    targets: [BTreeMap<(&'a str, usize), Written<'a>>; 2],
    count: usize,
    dropped: BTreeMap<&'a str, i128>,
    list: usize,
    is_inside: bool,
    has_counts: bool,
    commas: Commas,
}

impl<'a> Join<'a> for Joined<'a> {
    fn take(&mut self, list: usize, entry: Entry<'a>) {
        match entry.item {
            Item::Target(target) => {
                self.count += 1;
                self.targets[list.min(1)].insert((target.pool, self.count), target.written);
            }
            Item::Count((pool, count)) => {
                self.has_counts = true;
                let sum = self.dropped.entry(pool).or_default();
                *sum = sum.saturating_add(*count);
            }
            _ => {}
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let is_first = !std::mem::replace(&mut self.is_inside, true);
        if let Some(targets) = self.targets.get_mut(self.list) {
            if is_first {
                out.push(if self.list == 0 { b'{' } else { b',' });
                write_key(out, NAMES[self.list]);
                out.push(b'[');
            }
            if let Some((_, written)) = targets.pop_first() {
                self.commas.next(out);
                written.write(out);
            } else {
                out.push(b']');
                self.next_list();
            }
            return true;
        }
        if is_first && self.has_counts {
            out.extend_from_slice(b",\"droppedTargetCounts\":{");
        }
        if let Some((pool, count)) = self.dropped.pop_first() {
            self.commas.next(out);
            write_key(out, pool);
            write_number(out, count);
            return true;
        }
        out.extend_from_slice(if self.has_counts { b"}}" } else { b"}" });
        false
    }
}

impl Joined<'_> {
    fn next_list(&mut self) {
        self.list += 1;
        self.is_inside = false;
        self.commas.reset();
    }
}
