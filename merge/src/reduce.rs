//! Combines the series of one label set: members of a group are coalesced, then groups reduced.
//!
//! Owns the row-by-row merge over sample times. Contract: coalesce (the first configured usable
//! member is authoritative at every point it has), then the strategy across groups. Called by
//! [`crate::merge`] once per label set; resumable after any row.

mod first;
mod mean;
mod min_max;
mod sum;

use crate::labels::LabelSet;
use crate::number::write_float;
use crate::sample::{Histogram, Point, PointCursor, Points, canonical_pair};
use crate::series::Series;
use crate::strategy::Strategy;
use crate::write::{Output, write_labels};

/// Where a series came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) group: u32,
    pub(crate) member: u32,
    pub(crate) variant: u32,
}

/// What the samples of all label sets had in common that the answer should say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Doubts {
    /// A mean lacked its sum or its count.
    pub(crate) has_unpaired_mean: bool,
    /// A sum under a mean was infinite.
    pub(crate) has_infinite_mean: bool,
    /// A numeric strategy met a native histogram.
    pub(crate) has_histogram: bool,
    /// Two groups have the same series.
    pub(crate) is_shared: bool,
    /// … and one lacks samples of the other, or they disagree.
    pub(crate) is_shared_unevenly: bool,
    /// Samples where two groups disagree.
    pub(crate) group_conflicts: u64,
}

/// Options of a reduction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) strategy: Strategy,
    /// One sample per series: all times count as equal.
    pub(crate) is_vector: bool,
    pub(crate) tolerance_ms: i64,
}

/// One group's sample at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSample<'a> {
    group: u32,
    /// Index of its source.
    source: usize,
    pair: &'a [u8],
    value: Point<'a>,
    /// Under a mean: the count of `value`, a sum.
    count: Option<Point<'a>>,
    /// Another member of the group disagrees.
    is_disputed: bool,
}

type Row<'a> = Vec<RowSample<'a>>;

/// The value of a row.
#[derive(Debug, Clone, Copy)]
enum Combined<'a> {
    Nothing,
    /// A sample as it is written.
    Pair(&'a [u8]),
    /// A new value at the time of a sample, given with its pair.
    Number(&'a [u8], Point<'a>, f64),
}

#[derive(Debug)]
struct Source<'a> {
    origin: Origin,
    floats: PointCursor<'a>,
    histograms: &'a [Histogram<'a>],
    /// The first histogram whose time is not passed.
    next: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    /// One source: its text is copied.
    Copy,
    Floats,
    Histograms,
}

/// Reduces one label set after another.
#[derive(Debug)]
pub(crate) struct Reducer<'a> {
    rules: Rules,
    set: LabelSet<'a>,
    sources: Vec<Source<'a>>,
    /// What is left to copy.
    copy: Points<'a>,
    row: Row<'a>,
    stage: Stage,
    groups: usize,
    /// Nothing of this series is written yet.
    is_unwritten: bool,
    has_floats: bool,
    has_histograms: bool,
    /// Series written so far.
    written: u64,
    /// Time and source of the last kept sample, under a tolerance.
    last_kept: Option<(i64, usize)>,
    pub(crate) doubts: Doubts,
    /// Conflicts inside groups, by group.
    pub(crate) conflicts: Vec<u64>,
}

/// Texts up to this size are compared as a whole before they are merged row by row.
const COMPARE_BYTES_MAX: usize = 1024 * 1024;
/// Units of one row and source: reading a sample of about 25 bytes, choosing, writing.
const ROW_UNITS: usize = 16;

impl<'a> Reducer<'a> {
    pub(crate) fn new(rules: Rules, groups: usize) -> Self {
        Self {
            rules,
            set: LabelSet::default(),
            sources: Vec::new(),
            copy: Points::default(),
            row: Vec::new(),
            stage: Stage::Idle,
            groups: 0,
            is_unwritten: true,
            has_floats: false,
            has_histograms: false,
            written: 0,
            last_kept: None,
            doubts: Doubts::default(),
            conflicts: vec![0; groups],
        }
    }

    /// Returns whether the last label set is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Starts a label set with its series in pool order, each with its origin.
    pub(crate) fn begin(&mut self, series: &[(Origin, Series<'a>)]) {
        debug_assert!(self.is_idle());
        let Some((_, leader)) = series.first() else {
            return;
        };
        self.set = leader.set;
        self.is_unwritten = true;
        self.last_kept = None;
        self.has_floats = series.iter().any(|(_, series)| !series.points.is_empty());
        self.has_histograms = series
            .iter()
            .any(|(_, series)| !series.histograms.is_empty());
        self.groups = 1 + series
            .windows(2)
            .filter(|p| p[0].0.group != p[1].0.group)
            .count();
        let is_shared = self.groups > 1;
        self.doubts.is_shared |= is_shared;
        self.doubts.has_histogram |= self.has_histograms && self.rules.strategy.is_numeric();
        self.sources.clear();
        self.stage = if self.has_floats {
            Stage::Floats
        } else {
            Stage::Histograms
        };
        let may_copy = self.rules.strategy != Strategy::Mean && !self.has_histograms;
        if may_copy && (!is_shared || self.keeps_first()) && all_equal(series) {
            self.copy = self.bounded(leader).points;
            self.stage = Stage::Copy;
            return;
        }
        for (at, (origin, own)) in series.iter().enumerate() {
            let repeats_last = may_copy
                && at > 0
                && series[at - 1].0.group == origin.group
                && all_equal(&series[at - 1..=at]);
            if repeats_last {
                continue;
            }
            let own = self.bounded(own);
            self.sources.push(Source {
                origin: *origin,
                floats: PointCursor::new(own.points),
                histograms: own.histograms,
                next: 0,
            });
        }
    }

    /// Of a vector, only the first sample of each kind counts.
    fn bounded(&self, series: &Series<'a>) -> Series<'a> {
        if !self.rules.is_vector {
            return *series;
        }
        let length = canonical_pair(series.points.text).map_or(0, |point| point.length);
        let text = series.points.text.get(..length).unwrap_or_default();
        let histograms = series.histograms.get(..1).unwrap_or_default();
        Series {
            points: Points { text, more: None },
            histograms,
            ..*series
        }
    }

    /// Whether the strategy takes one group's sample where all are equal.
    fn keeps_first(&self) -> bool {
        matches!(
            self.rules.strategy,
            Strategy::Dedup | Strategy::Group | Strategy::Pick
        )
    }

    /// Works for about `units`; returns those used.
    pub(crate) fn step(&mut self, out: &mut Output, units: usize) -> usize {
        let mut used = 0;
        while used < units {
            used += match self.stage {
                Stage::Idle => return used,
                Stage::Copy => self.copy_text(out, units - used),
                Stage::Floats => self.float_row(out),
                Stage::Histograms => self.histogram_row(out),
            };
        }
        used
    }

    // === whole series ===

    fn copy_text(&mut self, out: &mut Output, units: usize) -> usize {
        if self.copy.text.is_empty() {
            match self.copy.more {
                Some(segment) => {
                    self.copy = Points {
                        text: segment.text,
                        more: segment.next.get(),
                    };
                    out.put(b",");
                }
                None => {
                    self.close(out, Stage::Idle);
                    return 1;
                }
            }
        }
        self.open(out, true);
        let text = self.copy.text;
        // A copied byte costs far less than a unit.
        let length = text.len().min(units.saturating_mul(4));
        out.put(&text[..length]);
        self.copy.text = &text[length..];
        1 + length / 4
    }

    /// Writes the labels and the opening of the samples, once.
    fn open(&mut self, out: &mut Output, are_floats: bool) {
        if !self.is_unwritten {
            return;
        }
        self.is_unwritten = false;
        let room = out.room();
        room.extend_from_slice(if self.written > 0 {
            b",{\"metric\":"
        } else {
            b"{\"metric\":"
        });
        write_labels(room, &self.set);
        room.extend_from_slice(match (self.rules.is_vector, are_floats) {
            (true, true) => b",\"value\":",
            (true, false) => b",\"histogram\":",
            (false, true) => b",\"values\":[",
            (false, false) => b",\"histograms\":[",
        });
        self.written += 1;
    }

    fn close(&mut self, out: &mut Output, next: Stage) {
        self.stage = next;
        if next == Stage::Idle && !self.is_unwritten {
            out.put(if self.rules.is_vector { b"}" } else { b"]}" });
        }
    }

    // === rows of floats ===

    fn time_of(&self, time_ms: i64) -> i64 {
        if self.rules.is_vector { 0 } else { time_ms }
    }

    fn float_row(&mut self, out: &mut Output) -> usize {
        let units = ROW_UNITS * self.sources.len();
        let times = self
            .sources
            .iter()
            .filter_map(|source| source.floats.current());
        let Some(time) = times.map(|point| self.time_of(point.time_ms)).min() else {
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
        self.gather(time, has_histogram);
        if has_histogram || self.row.is_empty() {
            return units;
        }
        let combined = match self.rules.strategy {
            Strategy::Dedup | Strategy::Group => first::dedup(&self.row),
            Strategy::Pick => first::pick(&self.row),
            Strategy::Sum => sum::sum(&self.row),
            Strategy::Min => min_max::min(&self.row),
            Strategy::Max => min_max::max(&self.row),
            Strategy::Mean => mean::mean(&self.row, &mut self.doubts),
        };
        if !matches!(combined, Combined::Nothing) {
            self.write_row(out, combined);
        }
        units
    }

    fn write_row(&mut self, out: &mut Output, combined: Combined<'a>) {
        let is_first = self.is_unwritten;
        self.open(out, true);
        let room = out.room();
        if !is_first {
            room.push(b',');
        }
        match combined {
            Combined::Nothing => {}
            Combined::Pair(pair) => room.extend_from_slice(pair),
            Combined::Number(pair, point, value) => {
                // The pair up to its value; behind it are two more bytes.
                let head = pair.len().saturating_sub(point.value.len() + 2);
                room.extend_from_slice(&pair[..head]);
                write_float(room, value);
                room.extend_from_slice(b"\"]");
            }
        }
    }

    /// Fills the row with each group's sample at `time`, and goes past it in all sources.
    fn gather(&mut self, time: i64, has_histogram: bool) {
        self.row.clear();
        let is_vector = self.rules.is_vector;
        let is_at = |source: &Source<'a>| {
            let point = source.floats.current()?;
            (is_vector || point.time_ms == time).then_some(*point)
        };
        let mut at = 0;
        while let Some(source) = self.sources.get(at) {
            let origin = source.origin;
            let value = is_at(source);
            let pair = source.floats.pair();
            let mut count = None;
            let mut width = 1;
            if self.rules.strategy == Strategy::Mean {
                let partner = self.sources.get(at + 1).filter(|next| {
                    next.origin.member == origin.member && next.origin.group == origin.group
                });
                if origin.variant == 0 && partner.is_some_and(|next| next.origin.variant == 1) {
                    count = partner.and_then(is_at);
                    width = 2;
                }
                if value.is_some() != count.is_some() && !has_histogram {
                    self.doubts.has_unpaired_mean = true;
                }
            }
            let is_usable = value.is_some()
                && (self.rules.strategy != Strategy::Mean || count.is_some())
                && !self.is_within_tolerance(time, at);
            if let (true, Some(value)) = (is_usable, value) {
                let group = origin.group;
                self.take(RowSample {
                    group,
                    source: at,
                    pair,
                    value,
                    count,
                    is_disputed: false,
                });
            }
            for source in &mut self.sources[at..at + width] {
                if is_at(source).is_some() {
                    source.floats.advance();
                }
            }
            at += width;
        }
        self.note_sharing();
        if let Some(kept) = self.row.first() {
            self.last_kept = Some((time, kept.source));
        }
    }

    /// Whether a kept sample of another member is so close before `time` that the one of source
    /// `at` repeats it.
    fn is_within_tolerance(&self, time: i64, at: usize) -> bool {
        match self.last_kept {
            Some((last, source)) if self.rules.tolerance_ms > 0 && self.keeps_first() => {
                source != at && time - last <= self.rules.tolerance_ms
            }
            _ => false,
        }
    }

    /// Adds a sample to the row, unless its group is in it already. A disagreement counts once per
    /// point, however many members disagree.
    fn take(&mut self, sample: RowSample<'a>) {
        match self.row.last_mut() {
            Some(kept) if kept.group == sample.group => {
                let differs = differ(&kept.value, &sample.value)
                    || match (&kept.count, &sample.count) {
                        (Some(kept), Some(other)) => differ(kept, other),
                        _ => false,
                    };
                if differs && !kept.is_disputed {
                    kept.is_disputed = true;
                    count_one(&mut self.conflicts, sample.group);
                }
            }
            _ => self.row.push(sample),
        }
    }

    fn note_sharing(&mut self) {
        if self.groups < 2 || !self.keeps_first() {
            return;
        }
        self.doubts.is_shared_unevenly |= self.row.len() < self.groups;
        if let [first, rest @ ..] = self.row.as_slice()
            && rest.iter().any(|other| differ(&first.value, &other.value))
        {
            self.doubts.group_conflicts += 1;
            self.doubts.is_shared_unevenly = true;
        }
    }

    // === rows of histograms ===

    fn histogram_at(&mut self, time: i64) -> bool {
        let is_vector = self.rules.is_vector;
        let mut found = false;
        for source in &mut self.sources {
            while let Some(histogram) = source.histograms.get(source.next) {
                if is_vector || histogram.time_ms >= time {
                    found |= is_vector || histogram.time_ms == time;
                    break;
                }
                source.next += 1;
            }
        }
        found
    }

    fn rewind_histograms(&mut self) {
        for source in &mut self.sources {
            source.next = 0;
        }
    }

    fn histogram_row(&mut self, out: &mut Output) -> usize {
        let heads = self
            .sources
            .iter()
            .filter_map(|source| source.histograms.get(source.next));
        let Some(time) = heads.map(|histogram| self.time_of(histogram.time_ms)).min() else {
            self.close(out, Stage::Idle);
            return 1;
        };
        let mut chosen: Option<(u32, &'a Histogram<'a>)> = None;
        let (mut is_disputed, mut groups_disagree) = (false, false);
        for source in &mut self.sources {
            let Some(histogram) = source.histograms.get(source.next) else {
                continue;
            };
            if !self.rules.is_vector && histogram.time_ms != time {
                continue;
            }
            source.next += 1;
            let (group, kept) = *chosen.get_or_insert((source.origin.group, histogram));
            let differs = kept.text != histogram.text;
            is_disputed |= differs && group == source.origin.group;
            groups_disagree |= differs && group != source.origin.group;
        }
        let Some((group, histogram)) = chosen else {
            return 1;
        };
        if is_disputed {
            count_one(&mut self.conflicts, group);
        }
        if groups_disagree && self.keeps_first() {
            self.doubts.group_conflicts += 1;
            self.doubts.is_shared_unevenly = true;
        }
        self.write_histogram(out, histogram);
        ROW_UNITS * self.sources.len() + histogram.text.len() / 4
    }

    fn write_histogram(&mut self, out: &mut Output, histogram: &Histogram<'a>) {
        let is_first = self.is_unwritten;
        self.open(out, false);
        let room = out.room();
        if !is_first && self.has_floats {
            // The floats of this series are written: their array ends here, once.
            self.has_floats = false;
            room.extend_from_slice(b"],\"histograms\":[");
        } else if !is_first {
            room.push(b',');
        }
        self.has_floats &= !is_first;
        room.push(b'[');
        crate::number::write_time(room, histogram.time_ms);
        room.push(b',');
        room.extend_from_slice(histogram.text);
        room.push(b']');
    }
}

fn count_one(counts: &mut [u64], group: u32) {
    if let Some(count) = counts.get_mut(group as usize) {
        *count += 1;
    }
}

/// Whether two samples at one time disagree; NaN agrees with NaN.
fn differ(left: &Point<'_>, right: &Point<'_>) -> bool {
    if left.value == right.value {
        return false;
    }
    let (left, right) = (left.number(), right.number());
    left != right && !(left.is_nan() && right.is_nan())
}

/// Whether all series have the same float samples in the same text.
fn all_equal(series: &[(Origin, Series<'_>)]) -> bool {
    let [(_, first), rest @ ..] = series else {
        return false;
    };
    rest.is_empty()
        || first.points.text.len() <= COMPARE_BYTES_MAX
            && first.points.more.is_none()
            && rest.iter().all(|(_, other)| {
                other.points.more.is_none() && other.points.text == first.points.text
            })
}
