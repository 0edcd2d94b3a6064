//! Documents that are no series: rules, alerts, targets, metadata and the like, joined item by item.
//!
//! One file for each path: the shape of its data, how an item is read, how items of several replica
//! groups join, in which order they are written. Of each group, the first usable member in pool order
//! speaks; another one only stands in for it. Contract: time series merge, 1 and 8.
//!
//! Owned by [`crate::merge`], which reads answers by [`Reader`] and writes by [`Joining`]. Bounds:
//! items per document, bytes of an item ([`crate::limits`]), and the arena.

mod alertmanagers;
mod alerts;
mod build_info;
mod exemplars;
mod federate;
mod item;
mod join;
mod metadata;
#[cfg(test)]
mod model;
mod read;
mod rules;
mod scrape_pools;
mod targets;
mod targets_metadata;
#[cfg(test)]
mod tests;
mod trim;
mod tsdb;
mod walk;

pub use trim::Trim;

pub(crate) use join::Joining;
pub(crate) use read::Reader;

use crate::error::MemberFailure;
use item::{List, Reading};
use join::Join;
use read::{INFOS, WARNINGS};
use walk::{Cut, Shape};

/// A path whose answers are joined item by item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// `/api/v1/alertmanagers`
    Alertmanagers,
    /// `/api/v1/alerts`
    Alerts,
    /// `/api/v1/status/buildinfo`
    BuildInfo,
    /// `/api/v1/query_exemplars`
    Exemplars,
    /// `/federate`
    Federate,
    /// `/api/v1/metadata`
    Metadata,
    /// `/api/v1/rules`
    Rules,
    /// `/api/v1/scrape_pools`
    ScrapePools,
    /// `/api/v1/targets`
    Targets,
    /// `/api/v1/targets/metadata`
    TargetsMetadata,
    /// `/api/v1/status/tsdb`
    Tsdb,
}

/// Most kinds of items that a document has.
const LISTS: usize = 5;

/// The items of one member's document, by kind, each in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Part<'a> {
    lists: [List<Entry<'a>>; LISTS],
}

/// An item, and the number of the item in the list before that it is in.
#[derive(Debug, Clone, Copy)]
struct Entry<'a> {
    parent: usize,
    item: Item<'a>,
}

/// What an item is, as far as joining needs to know; the rest stays text.
#[derive(Debug, Clone, Copy)]
enum Item<'a> {
    Alert(&'a alerts::Alert<'a>),
    Alertmanager(&'a alertmanagers::Alertmanager<'a>),
    Build(&'a build_info::Build<'a>),
    Exemplar(&'a exemplars::Exemplar<'a>),
    ExemplarSeries(&'a exemplars::Series<'a>),
    Family(&'a federate::Family<'a>),
    Group(&'a rules::Group<'a>),
    Head(&'a [walk::Field<'a>]),
    Metadata(&'a metadata::Metadata<'a>),
    /// A name and a number.
    Count(&'a (&'a str, i128)),
    Rule(&'a rules::Rule<'a>),
    Sample(&'a federate::Sample<'a>),
    Target(&'a targets::Target<'a>),
    TargetMetadata(&'a targets_metadata::TargetMetadata<'a>),
    Text(&'a str),
}

/// The envelope around data.
macro_rules! envelope {
    ($data:expr) => {{
        static ROOT: Shape = Shape::object(
            None,
            &[("data", $data), ("warnings", WARNINGS), ("infos", INFOS)],
        );
        &ROOT
    }};
}

impl Document {
    /// Returns whether the answer is a text exposition and not JSON.
    pub fn is_text(self) -> bool {
        self == Self::Federate
    }

    /// Returns whether any one group can answer for all.
    pub(crate) fn is_of_any_group(self) -> bool {
        self == Self::BuildInfo
    }

    fn root(self) -> &'static Shape {
        match self {
            Self::Alertmanagers => envelope!(alertmanagers::DATA),
            Self::Alerts => envelope!(alerts::DATA),
            Self::BuildInfo => envelope!(build_info::DATA),
            Self::Exemplars => envelope!(exemplars::DATA),
            Self::Metadata => envelope!(metadata::DATA),
            Self::Rules => envelope!(rules::DATA),
            // What is text has no shape; it is never asked for one.
            Self::ScrapePools | Self::Federate => envelope!(scrape_pools::DATA),
            Self::Targets => envelope!(targets::DATA),
            Self::TargetsMetadata => envelope!(targets_metadata::DATA),
            Self::Tsdb => envelope!(tsdb::DATA),
        }
    }

    fn read<'a>(
        self,
        list: usize,
        cut: &Cut<'_, 'a>,
        reading: &mut Reading<'a>,
    ) -> Result<Item<'a>, MemberFailure> {
        match self {
            Self::Alertmanagers => alertmanagers::read(cut, reading),
            Self::Alerts => alerts::read(cut, reading, true),
            Self::BuildInfo => build_info::read(cut, reading),
            Self::Exemplars => exemplars::read(list, cut, reading),
            Self::Metadata => metadata::read(list, cut, reading),
            Self::Rules => rules::read(list, cut, reading),
            Self::ScrapePools | Self::Federate => Ok(Item::Text(reading.text(cut.raw)?)),
            Self::Targets => targets::read(list, cut, reading),
            Self::TargetsMetadata => targets_metadata::read(cut, reading),
            Self::Tsdb => tsdb::read(list, cut, reading),
        }
    }

    fn join<'a>(self, trim: &Trim) -> Box<dyn Join<'a> + 'a> {
        match self {
            Self::Alertmanagers => Box::new(alertmanagers::Joined::default()),
            Self::Alerts => Box::new(alerts::Joined::default()),
            Self::BuildInfo => Box::new(build_info::Joined::default()),
            Self::Exemplars => Box::new(exemplars::Joined::default()),
            Self::Federate => Box::new(federate::Joined::default()),
            Self::Metadata => Box::new(metadata::Joined::new(trim)),
            Self::Rules => Box::new(rules::Joined::new(trim)),
            Self::ScrapePools => Box::new(scrape_pools::Joined::default()),
            Self::Targets => Box::new(targets::Joined::default()),
            Self::TargetsMetadata => Box::new(targets_metadata::Joined::new(trim)),
            Self::Tsdb => Box::new(tsdb::Joined::new(trim)),
        }
    }
}
