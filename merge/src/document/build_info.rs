//! `/api/v1/status/buildinfo`: the first group's, and a warning where others run another major version.

use std::collections::BTreeSet;

use super::item::{Reading, Written};
use super::join::Join;
use super::walk::{Cut, Shape};
use super::{Entry, Item};
use crate::error::MemberFailure;

pub(super) const DATA: Shape = Shape::object(Some(0), &[]);

#[derive(Debug, Clone, Copy)]
pub(super) struct Build<'a> {
    version: &'a str,
    written: Written<'a>,
}

pub(super) fn read<'a>(
    cut: &Cut<'_, 'a>,
    reading: &mut Reading<'a>,
) -> Result<Item<'a>, MemberFailure> {
    let build = Build {
        version: reading.text_of(cut, "version")?,
        written: reading.whole(cut)?,
    };
    Ok(Item::Build(reading.keep(build)?))
}

#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    first: Option<&'a Build<'a>>,
    majors: BTreeSet<&'a str>,
}

/// Most characters of a version that are told.
const MAJOR_SHOWN_MAX: usize = 16;

impl<'a> Join<'a> for Joined<'a> {
    fn take(&mut self, _: usize, entry: Entry<'a>) {
        if let Item::Build(build) = entry.item {
            self.first.get_or_insert(build);
            let major = build.version.split('.').next();
            self.majors.extend(major);
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        match self.first {
            Some(build) => build.written.write(out),
            None => out.extend_from_slice(b"null"),
        }
        false
    }

    fn warnings(&mut self) -> Vec<String> {
        if self.majors.len() < 2 {
            return Vec::new();
        }
        let majors = self.majors.iter().take(MAJOR_SHOWN_MAX);
        let majors: Vec<String> = majors
            .map(|major| major.chars().take(MAJOR_SHOWN_MAX).collect())
            .collect();
        vec![format!(
            "replica groups run different major versions: {}; this is the first one's",
            majors.join(", ")
        )]
    }
}
