//! `/api/v1/scrape_pools`: the names of all groups' pools, each once, sorted.

use std::collections::BTreeSet;

use super::item::Commas;
use super::join::Join;
use super::walk::Shape;
use super::{Entry, Item};
use crate::write::write_string;

pub(super) const DATA: Shape = Shape::object(
    None,
    &[("scrapePools", Shape::array(None, &Shape::whole(0)))],
);

#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    names: BTreeSet<&'a str>,
    has_begun: bool,
    commas: Commas,
}

impl<'a> Join<'a> for Joined<'a> {
    fn take(&mut self, _: usize, entry: Entry<'a>) {
        if let Item::Text(name) = entry.item {
            self.names.insert(name);
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.extend_from_slice(b"{\"scrapePools\":[");
        }
        let Some(name) = self.names.pop_first() else {
            out.extend_from_slice(b"]}");
            return false;
        };
        self.commas.next(out);
        write_string(out, name);
        true
    }
}
