//! Label sets as keys: what `on`, `ignoring`, `by` and `without` keep of them.
//!
//! Keys are told apart by comparing labels, never by a hash alone. Used by the binary operators
//! and the aggregations.

use std::collections::HashMap;

use bumpalo::Bump;

use super::error::Outcome;
use super::value::slice;
use crate::labels::Label;
use crate::query::Grouping;

/// The label that holds the metric name.
pub(super) const NAME: &str = "__name__";

/// A choice of labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Projection {
    /// Sorted.
    names: Vec<String>,
    /// Whether the names are kept; else they and the metric name are left out.
    includes: bool,
}

impl Projection {
    /// What two sides match on: all labels but the metric name, unless `on` or `ignoring` is there.
    pub(super) fn of_match(matching: &Grouping) -> Self {
        match matching {
            Grouping::None => Self::new(&[], false),
            Grouping::Include(names) => Self::new(names, true),
            Grouping::Exclude(names) => Self::new(names, false),
        }
    }

    /// What an aggregation groups by: nothing, unless `by` or `without` is there.
    pub(super) fn of_groups(grouping: &Grouping) -> Self {
        match grouping {
            Grouping::None => Self::new(&[], true),
            Grouping::Include(names) => Self::new(names, true),
            Grouping::Exclude(names) => Self::new(names, false),
        }
    }

    fn new(names: &[String], includes: bool) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        Self { names, includes }
    }

    /// Whether a label of this name is kept.
    pub(super) fn keeps(&self, name: &str) -> bool {
        let is_named = self
            .names
            .binary_search_by(|own| own.as_str().cmp(name))
            .is_ok();
        match self.includes {
            true => is_named,
            false => !is_named && name != NAME,
        }
    }

    /// The same choice, but never the label `name`.
    pub(super) fn but(mut self, name: &str) -> Self {
        match self.includes {
            true => self.names.retain(|own| own != name),
            false => {
                let at = self.names.partition_point(|own| own.as_str() < name);
                self.names.insert(at, name.to_owned());
            }
        }
        self
    }

    /// Whether names are kept (`by`, `on`) and not left out.
    pub(super) fn includes(&self) -> bool {
        self.includes
    }
}

/// Numbers for keys, in the order in which they come up.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    bump: &'a Bump,
    projection: Projection,
    numbers: HashMap<&'a [Label<'a>], usize>,
    labels: Vec<&'a [Label<'a>]>,
    scratch: Vec<Label<'a>>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(bump: &'a Bump, projection: Projection) -> Self {
        Self {
            bump,
            projection,
            numbers: HashMap::new(),
            labels: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The number of the key of a label set.
    pub(super) fn number(&mut self, labels: &'a [Label<'a>]) -> Outcome<usize> {
        self.scratch.clear();
        let kept = labels
            .iter()
            .filter(|label| self.projection.keeps(label.name));
        self.scratch.extend(kept);
        if let Some(number) = self.numbers.get(self.scratch.as_slice()) {
            return Ok(*number);
        }
        let key: &'a [Label<'a>] = match self.scratch.len() == labels.len() {
            true => labels,
            false => slice(self.bump, &self.scratch)?,
        };
        let number = self.labels.len();
        self.numbers.insert(key, number);
        self.labels.push(key);
        Ok(number)
    }

    /// The labels of all keys, by number.
    pub(super) fn into_labels(self) -> Vec<&'a [Label<'a>]> {
        self.labels
    }

    /// The labels of a key.
    pub(super) fn labels(&self, number: usize) -> &'a [Label<'a>] {
        self.labels[number]
    }

    /// How many keys there are.
    pub(super) fn count(&self) -> usize {
        self.labels.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: [Label<'static>; 3] = [
        Label {
            name: "__name__",
            value: "m",
        },
        Label {
            name: "a",
            value: "1",
        },
        Label {
            name: "b",
            value: "2",
        },
    ];

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    fn kept(projection: Projection) -> Vec<&'static str> {
        let bump = Bump::new();
        let kept = |label: &&Label<'static>| projection.keeps(label.name);
        let found = LABELS.iter().filter(kept).map(|label| label.name);
        let found: Vec<_> = found.collect();
        let mut keys = Keys::new(&bump, projection.clone());
        let number = keys.number(&LABELS).unwrap();
        let labels: Vec<_> = keys.labels(number).iter().map(|one| one.name).collect();
        assert_eq!(found, labels);
        found
    }

    #[test]
    fn what_is_kept() {
        let include = |list: &[&str]| Grouping::Include(names(list));
        let exclude = |list: &[&str]| Grouping::Exclude(names(list));
        let cases: [(Projection, &[&str]); 9] = [
            (Projection::of_match(&Grouping::None), &["a", "b"]),
            (Projection::of_groups(&Grouping::None), &[]),
            (Projection::of_match(&include(&[])), &[]),
            (
                Projection::of_match(&include(&["b", "__name__", "b"])),
                &["__name__", "b"],
            ),
            (Projection::of_match(&exclude(&["b", "x"])), &["a"]),
            (Projection::of_groups(&exclude(&[])), &["a", "b"]),
            (
                Projection::of_groups(&include(&["b", "a"])).but("a"),
                &["b"],
            ),
            (Projection::of_groups(&exclude(&["b"])).but("a"), &[]),
            (Projection::of_groups(&include(&["nosuch"])), &[]),
        ];
        for (projection, expected) in cases {
            assert_eq!(kept(projection.clone()), expected, "{projection:?}");
        }
    }

    #[test]
    fn equal_keys_have_one_number() {
        let bump = Bump::new();
        let projection = Projection::of_match(&Grouping::Include(names(&["a"])));
        let mut keys = Keys::new(&bump, projection);
        let other = [LABELS[1], LABELS[2]];
        assert_eq!(keys.number(&LABELS).unwrap(), 0);
        assert_eq!(keys.number(bump.alloc_slice_copy(&other)).unwrap(), 0);
        assert_eq!(keys.number(&[]).unwrap(), 1);
        assert_eq!(keys.count(), 2);
        assert_eq!(keys.into_labels(), vec![&LABELS[1..2], &[]]);
    }
}
