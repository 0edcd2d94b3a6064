//! Float samples, row by row: one sample per group at each time, then the strategy.

use super::{Combined, Reducer, Source, Stage, count_one, first, mean, min_max, sum};
use crate::number::write_float;
use crate::sample::Sample;
use crate::strategy::Strategy;
use crate::write::Output;

/// One group's sample at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowSample<'a> {
    sample: Sample<'a>,
    /// Of a pair of variants, the second's value: under a mean the count of a sum, else the time
    /// at which the sample was taken.
    pub(super) count: f64,
    group: u32,
    /// Index of its source.
    source: u32,
    /// Another member of the group disagrees.
    is_disputed: bool,
}

impl<'a> RowSample<'a> {
    #[inline]
    pub(super) fn pair(&self) -> &'a [u8] {
        self.sample.pair()
    }

    /// Returns the text of the pair up to its value.
    #[inline]
    pub(super) fn head(&self) -> &'a [u8] {
        self.sample.head()
    }

    #[inline]
    pub(super) fn number(&self) -> f64 {
        self.sample.number()
    }

    #[inline]
    pub(super) fn is_nan(&self) -> bool {
        self.sample.is_nan()
    }

    /// Whether two samples at one time disagree; NaN agrees with NaN.
    #[inline]
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        self.count != other.count || self.sample.differs_from(&other.sample)
    }
}

/// Units of one row and source: reading a sample of about 25 bytes, choosing, writing.
pub(super) const ROW_UNITS: usize = 24;

impl<'a> Reducer<'a> {
    /// Writes rows for about `units`, at least that of the earliest time. Returns units used.
    pub(super) fn float_rows(&mut self, out: &mut Output, units: usize) -> usize {
        let units_of_row = ROW_UNITS * self.sources.len();
        if !self.are_in_step() {
            self.float_row(out);
            return units_of_row;
        }
        let rows = self.rows_in_step(out, units.div_ceil(units_of_row));
        if rows > 0 {
            return rows * units_of_row;
        }
        self.row.clear();
        self.fill_row(None, false);
        self.finish_row(out);
        units_of_row
    }

    /// Writes the row of the earliest time, or ends the floats.
    fn float_row(&mut self, out: &mut Output) {
        let mut earliest: Option<i64> = None;
        for source in &self.sources {
            if let Some(sample) = source.floats.current() {
                let time = self.time_of(sample.time_ms());
                earliest = Some(earliest.map_or(time, |best| best.min(time)));
            }
        }
        let Some(time) = earliest else {
            let next = if self.has_histograms {
                Stage::Histograms
            } else {
                Stage::Idle
            };
            self.rewind_histograms();
            self.close(out, next);
            return;
        };
        let has_histogram = self.has_histograms && self.histogram_at(time);
        self.row.clear();
        self.fill_row(Some(time), has_histogram);
        if let Some(kept) = self.row.first() {
            self.last_kept = Some((time, kept.source));
        }
        if has_histogram {
            self.note_sharing();
        } else {
            self.finish_row(out);
        }
    }

    /// Whether all sources stand at the same time, and a row needs to know no more of it.
    #[inline]
    fn are_in_step(&self) -> bool {
        let [first, rest @ ..] = self.sources.as_slice() else {
            return false;
        };
        let time = first.floats.time_text();
        time != 0
            && !self.has_histograms
            && self.rules.tolerance_ms == 0
            && rest.iter().all(|source| source.floats.time_text() == time)
    }

    /// Fills the row with the samples at `time`, or with those where all sources stand.
    #[inline]
    fn fill_row(&mut self, time: Option<i64>, has_histogram: bool) {
        match self.rules.strategy {
            Strategy::Mean | Strategy::Freshest => self.gather_means(time, has_histogram),
            _ => self.gather(time),
        }
    }

    /// Combines the row, if it has a sample, and writes the outcome.
    #[inline]
    fn finish_row(&mut self, out: &mut Output) {
        self.note_sharing();
        if !self.row.is_empty() {
            let combined = self.combine();
            self.write_row(out, combined);
        }
    }

    fn combine(&mut self) -> Combined<'a> {
        match self.rules.strategy {
            Strategy::Dedup | Strategy::Group => first::dedup(&self.row),
            Strategy::Freshest => first::freshest(&self.row, &mut self.doubts),
            Strategy::Pick => first::pick(&self.row),
            Strategy::Sum => sum::sum(&self.row, &mut self.doubts),
            Strategy::Min => min_max::choose(&self.row, &mut self.doubts, min_max::is_less),
            Strategy::Max => min_max::choose(&self.row, &mut self.doubts, min_max::is_more),
            Strategy::Mean => mean::mean(&self.row, &mut self.doubts),
        }
    }

    pub(super) fn write_row(&mut self, out: &mut Output, combined: Combined<'a>) {
        if matches!(combined, Combined::Nothing) {
            return;
        }
        let room = self.room_for_row(out);
        match combined {
            Combined::Nothing => {}
            Combined::Pair(pair) => room.extend_from_slice(pair),
            Combined::Number(head, value) => {
                room.extend_from_slice(head);
                write_float(room, value);
                room.extend_from_slice(b"\"]");
            }
        }
    }

    /// Opens the series, or puts a comma after its last row. Returns where the row goes.
    #[inline]
    pub(super) fn room_for_row<'o>(&mut self, out: &'o mut Output) -> &'o mut Vec<u8> {
        let is_first = self.is_unwritten;
        self.open(out, true);
        let room = out.room();
        if !is_first {
            room.push(b',');
        }
        room
    }

    /// Fills the row with each group's sample at `time`, and goes past it in all sources.
    fn gather(&mut self, time: Option<i64>) {
        for at in 0..self.sources.len() {
            let Some(source) = self.sources.get_mut(at) else {
                return;
            };
            let Some(sample) = take_at(source, time, self.rules.is_vector) else {
                continue;
            };
            let group = source.origin.group;
            let source = at as u32;
            if let Some(time) = time
                && self.is_within_tolerance(time, source)
            {
                continue;
            }
            self.put(RowSample {
                sample,
                count: 0.0,
                group,
                source,
                is_disputed: false,
            });
        }
    }

    /// The same of two variants: a member counts where it has both.
    fn gather_means(&mut self, time: Option<i64>, has_histogram: bool) {
        let is_vector = self.rules.is_vector;
        let mut at = 0;
        while let Some(origin) = self.sources.get(at).map(|source| source.origin) {
            let is_pair = origin.variant == 0
                && self.sources.get(at + 1).is_some_and(|next| {
                    let next = next.origin;
                    (next.group, next.member, next.variant) == (origin.group, origin.member, 1)
                });
            let mut taken = [None, None];
            for (offset, slot) in taken.iter_mut().enumerate().take(1 + usize::from(is_pair)) {
                if let Some(source) = self.sources.get_mut(at + offset) {
                    *slot = take_at(source, time, is_vector);
                }
            }
            match taken {
                [Some(sample), Some(count)] => {
                    let (group, source) = (origin.group, at as u32);
                    self.put(RowSample {
                        sample,
                        count: count.number(),
                        group,
                        source,
                        is_disputed: false,
                    });
                }
                [None, None] => {}
                _ => self.doubts.has_unpaired_mean |= !has_histogram,
            }
            at += 1 + usize::from(is_pair);
        }
    }

    /// Whether a kept sample of another member is so close before `time` that the one of `source`
    /// repeats it.
    fn is_within_tolerance(&self, time: i64, source: u32) -> bool {
        match self.last_kept {
            Some((last, keeper)) if self.rules.tolerance_ms > 0 && self.keeps_first() => {
                source != keeper && time - last <= self.rules.tolerance_ms
            }
            _ => false,
        }
    }

    /// Adds a sample to the row, unless its group is in it already. A disagreement counts once per
    /// point, however many members disagree.
    fn put(&mut self, sample: RowSample<'a>) {
        match self.row.last_mut() {
            Some(kept) if kept.group == sample.group => {
                if !kept.is_disputed && kept.differs_from(&sample) {
                    kept.is_disputed = true;
                    count_one(&mut self.conflicts, sample.group);
                }
            }
            _ => self.row.push(sample),
        }
    }

    /// Notes where groups have the same series and should agree.
    fn note_sharing(&mut self) {
        if self.groups < 2 || !self.keeps_first() {
            return;
        }
        self.doubts.is_shared_unevenly |= self.row.len() < self.groups;
        if let [first, rest @ ..] = self.row.as_slice()
            && rest.iter().any(|other| first.differs_from(other))
        {
            self.doubts.group_conflicts += 1;
            self.doubts.is_shared_unevenly = true;
        }
    }
}

/// Takes the source's sample, if it has one, and it is at `time` where one is given.
#[inline]
fn take_at<'a>(source: &mut Source<'a>, time: Option<i64>, is_vector: bool) -> Option<Sample<'a>> {
    let sample = source.floats.current()?;
    if let Some(time) = time
        && !is_vector
        && sample.time_ms() != time
    {
        return None;
    }
    source.floats.advance();
    Some(sample)
}
