//! Rows at which all sources have a sample of one time and a plain value: many at a time.
//!
//! Answers to one query stand on one grid, so most rows are such. They are read, compared and
//! combined without a list of the row's samples. Whatever is out of the common way, such as a
//! missing sample, a NaN or the end of a segment, ends the run, and [`super::rows`] deals with it.

use super::{Combined, Reducer, min_max};
use crate::kahan::{Kahan, have_cancelled, is_small_whole};
use crate::number::write_float;
use crate::sample::{Form, Plain};
use crate::strategy::Strategy;
use crate::write::Output;

/// A source in step with the others.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    /// The pair of the row and what comes after it in its segment.
    text: &'a [u8],
    /// Length of that pair.
    length: usize,
    group: u32,
    /// In this row it is the first member of its group to disagree with the group's sample.
    is_disputed: bool,
    /// Rows where it was.
    disputes: u64,
}

impl<'a> Reducer<'a> {
    /// Writes up to `rows_max` rows, if the sources, which stand at one time, allow it. Returns how
    /// many.
    pub(super) fn rows_in_step(&mut self, out: &mut Output, rows_max: usize) -> usize {
        // A series of a vector is one row, and its segment ends there.
        let Some(first) = self.sources.first().filter(|_| !self.rules.is_vector) else {
            return 0;
        };
        let form = first.floats.form();
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.clear();
        lanes.extend(self.sources.iter().map(|source| Lane {
            text: source.floats.text(),
            length: 0,
            group: source.origin.group,
            is_disputed: false,
            disputes: 0,
        }));
        let rows = match self.rules.strategy {
            // A plain value is not NaN: pick takes the first too.
            Strategy::Dedup | Strategy::Group | Strategy::Pick => {
                self.keep_rows(out, &mut lanes, form, rows_max)
            }
            Strategy::Sum => self.sum_rows(out, &mut lanes, form, rows_max),
            Strategy::Min => self.choose_rows(out, &mut lanes, form, rows_max, min_max::is_less),
            Strategy::Max => self.choose_rows(out, &mut lanes, form, rows_max, min_max::is_more),
            Strategy::Mean | Strategy::Freshest => 0,
        };
        if rows > 0 {
            for (source, lane) in self.sources.iter_mut().zip(&lanes) {
                source.floats.go_to(lane.text);
                if let Some(count) = self.conflicts.get_mut(lane.group as usize) {
                    *count += lane.disputes;
                }
            }
        }
        self.lanes = lanes;
        rows
    }

    /// The first source's samples: their text is copied as a whole.
    fn keep_rows(
        &mut self,
        out: &mut Output,
        lanes: &mut [Lane<'a>],
        mut form: Form,
        rows_max: usize,
    ) -> usize {
        let start = lanes.first().map_or(&[][..], |lane| lane.text);
        let (mut rows, mut length, mut conflicts) = (0, 0, 0);
        while rows < rows_max
            && let Some(first) = read_first(lanes, &mut form)
        {
            let mut is_disputed = false;
            let is_read = read_others(lanes, &form, first, |sample| {
                is_disputed = is_disputed || first.differs_from(sample);
            });
            if !is_read {
                break;
            }
            conflicts += u64::from(is_disputed);
            length += first.length() + 1;
            rows += 1;
            advance(lanes);
        }
        self.doubts.group_conflicts += conflicts;
        self.doubts.is_shared_unevenly |= conflicts > 0;
        if rows > 0 {
            self.room_for_row(out);
            // Without the comma after the last.
            out.put(start.get(..length - 1).unwrap_or_default());
        }
        rows
    }

    fn sum_rows(
        &mut self,
        out: &mut Output,
        lanes: &mut [Lane<'a>],
        mut form: Form,
        rows_max: usize,
    ) -> usize {
        let mut rows = 0;
        while rows < rows_max
            && let Some(first) = read_first(lanes, &mut form)
        {
            let value = first.number();
            let (mut total, mut size) = (Kahan::new(value), value.abs());
            let mut is_whole = is_small_whole(value);
            let is_read = read_others(lanes, &form, first, |sample| {
                let value = sample.number();
                total.add(value);
                size += value.abs();
                is_whole &= is_small_whole(value);
            });
            if !is_read {
                break;
            }
            if self.groups == 1 {
                self.write_row(out, Combined::Pair(first.pair()));
            } else {
                let total = total.signed_total();
                self.doubts.has_rounded_sum |= !is_whole;
                if have_cancelled(size, total) {
                    self.doubts.has_cancelled_sum |= !are_small_whole(lanes, &form);
                }
                let room = self.room_for_row(out);
                first.write_head(room);
                write_float(room, total);
                room.extend_from_slice(b"\"]");
            }
            rows += 1;
            advance(lanes);
        }
        rows
    }

    fn choose_rows(
        &mut self,
        out: &mut Output,
        lanes: &mut [Lane<'a>],
        mut form: Form,
        rows_max: usize,
        is_better: impl Fn(f64, f64) -> bool,
    ) -> usize {
        let mut rows = 0;
        while rows < rows_max
            && let Some(first) = read_first(lanes, &mut form)
        {
            let mut choice = min_max::Choice::new(first.pair(), first.number());
            let is_read = read_others(lanes, &form, first, |sample| {
                choice.consider(sample.pair(), sample.number(), &is_better);
            });
            if !is_read {
                break;
            }
            self.doubts.has_mixed_zeros |= choice.is_mixed;
            self.write_row(out, Combined::Pair(choice.pair));
            rows += 1;
            advance(lanes);
        }
        rows
    }
}

/// Reads the first source's sample of the next row.
#[inline]
fn read_first<'a>(lanes: &mut [Lane<'a>], form: &mut Form) -> Option<Plain<'a>> {
    let lane = lanes.first_mut()?;
    let sample = form.next_plain(lane.text)?;
    lane.length = sample.length();
    Some(sample)
}

/// Reads the other sources' samples at the same time; `lead` is given that of each further group.
/// Returns `false` where one cannot be read, and the row is none.
#[inline]
fn read_others<'a>(
    lanes: &mut [Lane<'a>],
    form: &Form,
    first: Plain<'a>,
    mut lead: impl FnMut(&Plain<'a>),
) -> bool {
    let [first_lane, others @ ..] = lanes else {
        return false;
    };
    let (mut kept, mut group, mut is_disputed) = (first, first_lane.group, false);
    for lane in others {
        let Some(sample) = form.same_time(lane.text) else {
            return false;
        };
        lane.length = sample.length();
        lane.is_disputed = false;
        if lane.group != group {
            (kept, group, is_disputed) = (sample, lane.group, false);
            lead(&sample);
        } else if !is_disputed && kept.differs_from(&sample) {
            (is_disputed, lane.is_disputed) = (true, true);
        }
    }
    true
}

/// Whether all samples of the row are small whole numbers.
#[cold]
fn are_small_whole(lanes: &[Lane<'_>], form: &Form) -> bool {
    let mut samples = lanes.iter().map(|lane| form.same_time(lane.text));
    samples.all(|sample| sample.is_some_and(|sample| is_small_whole(sample.number())))
}

/// Goes past the row that was read.
#[inline]
fn advance(lanes: &mut [Lane<'_>]) {
    for lane in lanes {
        // The comma is skipped too; after the last pair of a segment there is none.
        lane.text = lane.text.get(lane.length + 1..).unwrap_or_default();
        lane.disputes += u64::from(lane.is_disputed);
    }
}
