//! `/api/v1/status/tsdb`: statistics of all heads added up, and the top lists of the sums.
//!
//! A server lists its largest only. A name that is missing in a full list may be large still, so sums
//! over full lists may be too low, and names that several groups have in common are counted in each:
//! warnings say so.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::item::{Commas, Fields, Reading, write_number};
use super::join::Join;
use super::walk::{Cut, Field, Shape};
use super::{Entry, Item, Trim};
use crate::error::MemberFailure;
use crate::write::write_string;

const HEAD: usize = 0;
const TOPS: usize = 4;
/// The lists, as servers order them; list number 1 on.
const NAMES: [&str; TOPS] = [
    "seriesCountByMetricName",
    "labelValueCountByLabelName",
    "memoryInBytesByLabelName",
    "seriesCountByLabelValuePair",
];
pub(super) const DATA: Shape = Shape::object(
    None,
    &[
        ("headStats", Shape::object(Some(HEAD), &[])),
        (NAMES[0], Shape::array(None, &Shape::object(Some(1), &[]))),
        (NAMES[1], Shape::array(None, &Shape::object(Some(2), &[]))),
        (NAMES[2], Shape::array(None, &Shape::object(Some(3), &[]))),
        (NAMES[3], Shape::array(None, &Shape::object(Some(4), &[]))),
    ],
);

/// How many rows a server lists that is not told a number.
const ROWS_DEFAULT: u64 = 10;

/// Makes one number of two.
type Combine = fn(i128, i128) -> i128;

/// Statistics of the head that add up, and how.
const STATISTICS: [(&str, Combine); 5] = [
    ("numSeries", i128::saturating_add),
    ("numLabelPairs", i128::saturating_add),
    ("chunkCount", i128::saturating_add),
    ("minTime", Ord::min),
    ("maxTime", Ord::max),
];

pub(super) fn read<'a>(
    list: usize,
    cut: &Cut<'_, 'a>,
    reading: &mut Reading<'a>,
) -> Result<Item<'a>, MemberFailure> {
    if list == HEAD {
        for (name, _) in STATISTICS {
            if let Some(raw) = cut.field(name) {
                reading.whole_number(raw)?;
            }
        }
        return Ok(Item::Head(reading.fields(cut)?));
    }
    let Some(value) = cut.field("value") else {
        return reading.bad();
    };
    let row = (reading.text_of(cut, "name")?, reading.whole_number(value)?);
    Ok(Item::Count(reading.keep(row)?))
}

/// What is written next.
#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    Start,
    Head(Fields<'a>),
    List(usize),
    /// Rows of a list, and how many may follow.
    Rows(usize, u64),
}

#[derive(Debug)]
pub(super) struct Joined<'a> {
    head: Option<&'a [Field<'a>]>,
    statistics: [Option<i128>; STATISTICS.len()],
    sums: [BTreeMap<&'a str, i128>; TOPS],
    sorted: BTreeSet<(Reverse<i128>, &'a str)>,
    /// Rows so far in the document that is being taken.
    rows: [u64; TOPS],
    /// Lists that some document filled.
    is_full: [bool; TOPS],
    rows_max: u64,
    place: Place<'a>,
    commas: Commas,
}

impl Joined<'_> {
    pub(super) fn new(trim: &Trim) -> Self {
        Self {
            head: None,
            statistics: [None; STATISTICS.len()],
            sums: [const { BTreeMap::new() }; TOPS],
            sorted: BTreeSet::new(),
            rows: [0; TOPS],
            is_full: [false; TOPS],
            rows_max: trim.limit.unwrap_or(ROWS_DEFAULT),
            place: Place::Start,
            commas: Commas::default(),
        }
    }
}

impl<'a> Join<'a> for Joined<'a> {
    fn begin(&mut self) {
        self.rows = [0; TOPS];
    }

    fn take(&mut self, list: usize, entry: Entry<'a>) {
        match (entry.item, list.checked_sub(1)) {
            (Item::Head(fields), _) => {
                self.head.get_or_insert(fields);
                for ((name, combine), known) in STATISTICS.iter().zip(&mut self.statistics) {
                    let field = fields.iter().find(|field| field.is(name));
                    let number = field.and_then(|field| number(field.value));
                    *known = match (*known, number) {
                        (Some(known), Some(number)) => Some(combine(known, number)),
                        (known, number) => known.or(number),
                    };
                }
            }
            (Item::Count((name, value)), Some(top)) if top < TOPS => {
                self.rows[top] += 1;
                // Servers of old list 10 whatever they are asked.
                self.is_full[top] |= self.rows[top] >= self.rows_max.min(ROWS_DEFAULT);
                let sum = self.sums[top].entry(name).or_default();
                *sum = sum.saturating_add(*value);
            }
            _ => {}
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        self.place = match self.place {
            Place::Start => {
                out.extend_from_slice(b"{\"headStats\":{");
                Place::Head(Fields::new(self.head.unwrap_or_default()))
            }
            Place::Head(mut fields) => match fields.write_next(out) {
                Some(field) => {
                    self.write_statistic(field, out);
                    Place::Head(fields)
                }
                None => {
                    out.push(b'}');
                    Place::List(0)
                }
            },
            Place::List(TOPS) => {
                out.push(b'}');
                return false;
            }
            // Sorts one row a call.
            Place::List(top) => match self.sums[top].pop_first() {
                Some((name, sum)) => {
                    self.sorted.insert((Reverse(sum), name));
                    Place::List(top)
                }
                None => {
                    out.push(b',');
                    super::item::write_key(out, NAMES[top]);
                    out.push(b'[');
                    self.commas.reset();
                    Place::Rows(top, self.rows_max)
                }
            },
            Place::Rows(top, left) => match self.sorted.pop_first() {
                Some((Reverse(sum), name)) if left > 0 => {
                    self.commas.next(out);
                    out.extend_from_slice(b"{\"name\":");
                    write_string(out, name);
                    out.extend_from_slice(b",\"value\":");
                    write_number(out, sum);
                    out.push(b'}');
                    Place::Rows(top, left - 1)
                }
                Some(_) => Place::Rows(top, 0),
                None => {
                    out.push(b']');
                    Place::List(top + 1)
                }
            },
        };
        true
    }

    fn warnings(&mut self) -> Vec<String> {
        let mut warnings = vec![
            "numLabelPairs and labelValueCountByLabelName count what several replica groups have \
             in common once for each"
                .to_owned(),
        ];
        let full = NAMES
            .iter()
            .zip(self.is_full)
            .filter(|(_, is_full)| *is_full);
        let full: Vec<&str> = full.map(|(name, _)| *name).collect();
        if !full.is_empty() {
            warnings.push(format!(
                "servers list their largest only: values of {} may be too low, and names may be \
                 missing; a higher limit tells more",
                full.join(", ")
            ));
        }
        warnings
    }
}

impl Joined<'_> {
    fn write_statistic(&self, field: Field<'_>, out: &mut Vec<u8>) {
        let known = STATISTICS.iter().zip(self.statistics);
        let known = known
            .filter(|((name, _), _)| field.is(name))
            .find_map(|(_, number)| number);
        match known {
            Some(number) => write_number(out, number),
            None => out.extend_from_slice(field.value),
        }
    }
}

/// A number that was read before.
fn number(raw: &[u8]) -> Option<i128> {
    std::str::from_utf8(raw).ok()?.parse().ok()
}
