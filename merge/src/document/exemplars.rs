//! `/api/v1/query_exemplars`: exemplars by series, in order of time, each once.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::item::{Commas, Fields, List, Reading, Written};
use super::join::Join;
use super::walk::{Cut, Field, Shape};
use super::{Entry, Item};
use crate::error::MemberFailure;
use crate::labels::{Label, LabelSet};
use crate::write::write_labels;

const SERIES: usize = 0;
pub(super) const DATA: Shape = Shape::array(
    None,
    &Shape::object(
        Some(SERIES),
        &[(
            "exemplars",
            Shape::array(None, &Shape::object(Some(1), &[])),
        )],
    ),
);

#[derive(Debug, Clone, Copy)]
pub(super) struct Series<'a> {
    set: LabelSet<'a>,
    fields: &'a [Field<'a>],
}

/// A time that orders: NaN is never read.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Time, labels and value: two exemplars that agree in them are one.
type ExemplarKey<'a> = (Time, &'a [Label<'a>], &'a [u8]);

#[derive(Debug, Clone, Copy)]
pub(super) struct Exemplar<'a> {
    key: ExemplarKey<'a>,
    written: Written<'a>,
}

pub(super) fn read<'a>(
    list: usize,
    cut: &Cut<'_, 'a>,
    reading: &mut Reading<'a>,
) -> Result<Item<'a>, MemberFailure> {
    if list == SERIES {
        let Some(labels) = cut.field("seriesLabels") else {
            return reading.bad();
        };
        let series = Series {
            set: reading.labels(labels, true)?,
            fields: reading.fields_beside(cut, "exemplars")?,
        };
        return Ok(Item::ExemplarSeries(reading.keep(series)?));
    }
    let time = cut.field("timestamp").unwrap_or_default();
    let time = std::str::from_utf8(time).unwrap_or_default().parse::<f64>();
    let Ok(time) = time else {
        return reading.bad();
    };
    let value = cut.field("value").unwrap_or_default();
    let labels = reading.labels_or_none(cut.field("labels"))?;
    let exemplar = Exemplar {
        key: (Time(time), labels, value),
        written: reading.whole(cut)?,
    };
    Ok(Item::Exemplar(reading.keep(exemplar)?))
}

/// A series as it stands in the answer.
#[derive(Debug)]
struct JoinedSeries<'a> {
    first: &'a Series<'a>,
    exemplars: BTreeMap<ExemplarKey<'a>, Written<'a>>,
}

#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    series: BTreeMap<&'a [Label<'a>], JoinedSeries<'a>>,
    /// Label sets of the document that is being taken, by their place in it.
    sets: List<&'a [Label<'a>]>,
    has_begun: bool,
    commas: Commas,
    exemplar_commas: Commas,
    /// The series that is being written; whether its exemplars are.
    open: Option<(JoinedSeries<'a>, Fields<'a>, bool)>,
}

impl<'a> Join<'a> for Joined<'a> {
    fn begin(&mut self) {
        self.sets = List::default();
    }

    fn take(&mut self, _: usize, entry: Entry<'a>) {
        match entry.item {
            Item::ExemplarSeries(series) => {
                self.sets.push(series.set.labels);
                self.series
                    .entry(series.set.labels)
                    .or_insert_with(|| JoinedSeries {
                        first: series,
                        exemplars: BTreeMap::new(),
                    });
            }
            Item::Exemplar(exemplar) => {
                let set = self.sets.get(entry.parent);
                if let Some(series) = set.and_then(|set| self.series.get_mut(set)) {
                    let known = series.exemplars.entry(exemplar.key);
                    known.or_insert(exemplar.written);
                }
            }
            _ => {}
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.push(b'[');
        }
        let Some((series, fields, is_inside)) = &mut self.open else {
            let Some((_, series)) = self.series.pop_first() else {
                out.push(b']');
                return false;
            };
            self.commas.next(out);
            out.push(b'{');
            let fields = Fields::new(series.first.fields);
            self.open = Some((series, fields, false));
            return true;
        };
        if *is_inside {
            if let Some((_, written)) = series.exemplars.pop_first() {
                self.exemplar_commas.next(out);
                written.write(out);
            } else {
                *is_inside = false;
                out.push(b']');
            }
            return true;
        }
        match fields.write_next(out) {
            None => {
                out.push(b'}');
                self.open = None;
            }
            Some(field) if field.is("exemplars") => {
                *is_inside = true;
                self.exemplar_commas.reset();
                out.push(b'[');
            }
            Some(field) if field.is("seriesLabels") => write_labels(out, &series.first.set),
            Some(field) => out.extend_from_slice(field.value),
        }
        true
    }
}
