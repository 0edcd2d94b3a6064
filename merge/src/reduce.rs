//! Combines the series of one label set: members of a group are coalesced, then groups reduced.
//!
//! Owns the row-by-row merge over sample times. Contract: coalesce (the first configured usable
//! member is authoritative at every point it has), then the strategy across groups. Called by
//! [`crate::merge`] once per label set; resumable after any row.

mod first;
mod histograms;
mod in_step;
mod mean;
mod min_max;
mod rows;
mod sum;

use crate::labels::LabelSet;
use crate::sample::{Histogram, PointCursor, Points, canonical_pair};
use crate::series::Series;
use crate::strategy::Strategy;
use crate::write::{Output, write_labels};
use in_step::Lane;
use rows::RowSample;

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
    /// Sums of numbers that are not whole were added up: their last bits may be others than those
    /// of one server.
    pub(crate) has_rounded_sum: bool,
    /// Groups' sums have cancelled out, and what each has lost may show.
    pub(crate) has_cancelled_sum: bool,
    /// The smallest or largest values were zeros of both signs, or a mean is a negative zero or next
    /// to nothing.
    pub(crate) has_mixed_zeros: bool,
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

/// The value of a row.
#[derive(Debug, Clone, Copy)]
enum Combined<'a> {
    Nothing,
    /// A sample as it is written.
    Pair(&'a [u8]),
    /// A new value, after the text of a pair up to its value.
    Number(&'a [u8], f64),
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
    row: Vec<RowSample<'a>>,
    /// The sources, while they are in step.
    lanes: Vec<Lane<'a>>,
    stage: Stage,
    groups: usize,
    /// Nothing of this series is written yet.
    is_unwritten: bool,
    has_floats: bool,
    has_histograms: bool,
    /// Series written so far.
    written: u64,
    /// Time and source of the last kept sample, under a tolerance.
    last_kept: Option<(i64, u32)>,
    pub(crate) doubts: Doubts,
    /// Conflicts inside groups, by group.
    pub(crate) conflicts: Vec<u64>,
}

/// Texts up to this size are compared as a whole before they are merged row by row.
const COMPARE_BYTES_MAX: usize = 1024 * 1024;

impl<'a> Reducer<'a> {
    pub(crate) fn new(rules: Rules, groups: usize) -> Self {
        Self {
            rules,
            set: LabelSet::default(),
            sources: Vec::new(),
            copy: Points::default(),
            row: Vec::new(),
            lanes: Vec::new(),
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
        let has_pairs = matches!(self.rules.strategy, Strategy::Mean | Strategy::Freshest);
        let may_copy = !has_pairs && !self.has_histograms;
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
        let length = canonical_pair(series.points.text).map_or(0, |(_, point)| point.length());
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
                Stage::Floats => self.float_rows(out, units - used),
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

    fn time_of(&self, time_ms: i64) -> i64 {
        if self.rules.is_vector { 0 } else { time_ms }
    }
}

fn count_one(counts: &mut [u64], group: u32) {
    if let Some(count) = counts.get_mut(group as usize) {
        *count += 1;
    }
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
