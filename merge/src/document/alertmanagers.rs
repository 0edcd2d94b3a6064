//! `/api/v1/alertmanagers`: those of all groups, each address once, in pool order.

use std::collections::BTreeSet;

use super::Entry;
use super::Item;
use super::item::{Commas, List, Reading, Written};
use super::join::Join;
use super::walk::{Cut, Shape};
use crate::error::MemberFailure;

pub(super) const DATA: Shape = Shape::object(
    None,
    &[
        (NAMES[0], Shape::array(None, &Shape::object(Some(0), &[]))),
        (NAMES[1], Shape::array(None, &Shape::object(Some(1), &[]))),
    ],
);
const NAMES: [&str; 2] = ["activeAlertmanagers", "droppedAlertmanagers"];

#[derive(Debug, Clone, Copy)]
pub(super) struct Alertmanager<'a> {
    url: &'a str,
    written: Written<'a>,
}

pub(super) fn read<'a>(
    cut: &Cut<'_, 'a>,
    reading: &mut Reading<'a>,
) -> Result<Item<'a>, MemberFailure> {
    let alertmanager = Alertmanager {
        url: reading.text_of(cut, "url")?,
        written: reading.whole(cut)?,
    };
    Ok(Item::Alertmanager(reading.keep(alertmanager)?))
}

#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    lists: [List<Written<'a>>; 2],
    seen: [BTreeSet<&'a str>; 2],
    list: usize,
    at: usize,
    commas: Commas,
}

impl<'a> Join<'a> for Joined<'a> {
    fn take(&mut self, list: usize, entry: Entry<'a>) {
        if let (Item::Alertmanager(item), 0 | 1) = (entry.item, list)
            && self.seen[list].insert(item.url)
        {
            self.lists[list].push(item.written);
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(list) = self.lists.get(self.list) else {
            out.push(b'}');
            return false;
        };
        if self.at == 0 {
            out.push(if self.list == 0 { b'{' } else { b',' });
            super::item::write_key(out, NAMES[self.list]);
            out.push(b'[');
        }
        match list.get(self.at) {
            Some(written) => {
                self.commas.next(out);
                written.write(out);
                self.at += 1;
            }
            None => {
                out.push(b']');
                self.commas.reset();
                self.list += 1;
                self.at = 0;
            }
        }
        true
    }
}
