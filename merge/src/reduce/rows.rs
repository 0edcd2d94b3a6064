//! Float samples, row by row: one sample per group at each time, then the strategy.

use super::{Combined, Reducer, Source, Stage, count_one, first, mean, min_max, sum};
use crate::number::write_float;
use crate::sample::Point;
use crate::strategy::Strategy;
use crate::write::Output;

/// One group's sample at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowSample<'a> {
    pub(super) pair: &'a [u8],
    pub(super) point: Point,
    /// Of a pair of variants, the second's value: under a mean the count of a sum, else the time
    /// at which the sample was taken.
    pub(super) count: f64,
    group: u32,
    /// Index of its source.
    source: u32,
    /// Another member of the group disagrees.
    is_disputed: bool,
}

impl RowSample<'_> {
    #[inline]
    pub(super) fn number(&self) -> f64 {
        self.point.number(self.pair)
    }

    /// Whether two samples at one time disagree; NaN agrees with NaN.
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        if self.point.value(self.pair) == other.point.value(other.pair) {
            return self.count != other.count;
        }
        let (left, right) = (self.number(), other.number());
        self.count != other.count || (left != right && !(left.is_nan() && right.is_nan()))
    }
}

/// Units of one row and source: reading a sample of about 25 bytes, choosing, writing.
pub(super) const ROW_UNITS: usize = 24;

impl<'a> Reducer<'a> {
    /// Writes the row of the earliest time. Returns units used.
    pub(super) fn float_row(&mut self, out: &mut Output) -> usize {
        let units = ROW_UNITS * self.sources.len();
        let mut earliest: Option<i64> = None;
        for source in &self.sources {
            if let Some(point) = source.floats.current() {
                let time = self.time_of(point.time_ms);
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
            return units;
        };
        let has_histogram = self.has_histograms && self.histogram_at(time);
        self.row.clear();
        match self.rules.strategy {
            Strategy::Mean | Strategy::Freshest => self.gather_means(time, has_histogram),
            _ => self.gather(time),
        }
        if self.groups > 1 && self.keeps_first() {
            self.note_sharing();
        }
        if let Some(kept) = self.row.first() {
            self.last_kept = Some((time, kept.source));
            if !has_histogram {
                let combined = self.combine();
                self.write_row(out, combined);
            }
        }
        units
    }

    fn combine(&mut self) -> Combined<'a> {
        match self.rules.strategy {
            Strategy::Dedup | Strategy::Group => first::dedup(&self.row),
            Strategy::Freshest => first::freshest(&self.row, &mut self.doubts),
            Strategy::Pick => first::pick(&self.row),
            Strategy::Sum => sum::sum(&self.row),
            Strategy::Min => min_max::min(&self.row, &mut self.doubts),
            Strategy::Max => min_max::max(&self.row, &mut self.doubts),
            Strategy::Mean => mean::mean(&self.row, &mut self.doubts),
        }
    }

    fn write_row(&mut self, out: &mut Output, combined: Combined<'a>) {
        if matches!(combined, Combined::Nothing) {
            return;
        }
        let is_first = self.is_unwritten;
        self.open(out, true);
        let room = out.room();
        if !is_first {
            room.push(b',');
        }
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

    /// Fills the row with each group's sample at `time`, and goes past it in all sources.
    fn gather(&mut self, time: i64) {
        for at in 0..self.sources.len() {
            let Some(source) = self.sources.get_mut(at) else {
                return;
            };
            let Some((pair, point)) = take_at(source, time, self.rules.is_vector) else {
                continue;
            };
            let group = source.origin.group;
            let source = at as u32;
            if self.rules.tolerance_ms > 0 && self.is_within_tolerance(time, source) {
                continue;
            }
            self.put(RowSample {
                pair,
                point,
                count: 0.0,
                group,
                source,
                is_disputed: false,
            });
        }
    }

    /// The same of two variants: a member counts where it has both.
    fn gather_means(&mut self, time: i64, has_histogram: bool) {
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
                [Some((pair, point)), Some((count_pair, count))] => {
                    let count = count.number(count_pair);
                    let (group, source) = (origin.group, at as u32);
                    self.put(RowSample {
                        pair,
                        point,
                        count,
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
            Some((last, keeper)) if self.keeps_first() => {
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

    fn note_sharing(&mut self) {
        self.doubts.is_shared_unevenly |= self.row.len() < self.groups;
        if let [first, rest @ ..] = self.row.as_slice()
            && rest.iter().any(|other| first.differs_from(other))
        {
            self.doubts.group_conflicts += 1;
            self.doubts.is_shared_unevenly = true;
        }
    }
}

/// Takes the source's sample at `time`, if it has one.
#[inline]
fn take_at<'a>(source: &mut Source<'a>, time: i64, is_vector: bool) -> Option<(&'a [u8], Point)> {
    let point = *source.floats.current()?;
    if point.time_ms != time && !is_vector {
        return None;
    }
    let pair = source.floats.pair();
    source.floats.advance();
    Some((pair, point))
}
