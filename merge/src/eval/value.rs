//! Values while they are computed: columns over the steps of a grid, and samples of ranges.
//!
//! Everything lies in the request's arena, whose bound is the memory bound of an evaluation.
//! A vector's series stand in the order in which Prometheus would visit them: of selectors, sorted
//! by labels.

use super::error::{EvalError, Outcome};
use super::native::Histogram;
use crate::labels::Label;
use bumpalo::Bump;

/// Bits of "no sample here": the marker that Prometheus uses for stale series, a signalling NaN
/// that no arithmetic gives.
const ABSENT_BITS: u64 = 0x7ff0_0000_0000_0002;
/// No sample at this step.
pub(crate) const ABSENT: f64 = f64::from_bits(ABSENT_BITS);

/// Whether there is no float sample.
#[inline]
pub(crate) fn is_absent(value: f64) -> bool {
    value.to_bits() == ABSENT_BITS
}

/// The value of an expression on a grid.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    /// One number for each step, never [`ABSENT`].
    Scalar(&'a mut [f64]),
    /// Series with at most one sample for each step.
    Vector(Vec<Series<'a>>),
    /// Series with the samples that the windows of a range expression are cut from.
    Range(Windows, Vec<Samples<'a>>),
    /// A string.
    Text(&'a str),
}

impl<'a> Value<'a> {
    /// The series of a vector; none of anything else, which the planner has excluded.
    pub(crate) fn into_vector(self) -> Vec<Series<'a>> {
        match self {
            Self::Vector(series) => series,
            _ => Vec::new(),
        }
    }
}

/// One series of a vector. Labels are sorted by name and have no empty value; the metric name is
/// the label `__name__`.
#[derive(Debug)]
pub(crate) struct Series<'a> {
    pub(crate) labels: &'a [Label<'a>],
    pub(crate) column: Column<'a>,
}

/// The samples of one series, by step: a float, a histogram, or neither; never both.
#[derive(Debug)]
pub(crate) struct Column<'a> {
    /// [`ABSENT`] where there is no float.
    pub(crate) floats: &'a mut [f64],
    /// `None` when no step has a histogram, else as long as `floats`.
    pub(crate) histograms: Option<&'a mut [Option<&'a Histogram<'a>>]>,
}

impl<'a> Column<'a> {
    /// A column without samples.
    pub(crate) fn absent(bump: &'a Bump, steps: usize) -> Outcome<Self> {
        Ok(Self {
            floats: numbers(bump, steps, ABSENT)?,
            histograms: None,
        })
    }

    /// The histogram at a step.
    #[inline]
    pub(crate) fn histogram(&self, step: usize) -> Option<&'a Histogram<'a>> {
        self.histograms.as_ref().and_then(|all| all[step])
    }

    /// Whether there is a sample at a step.
    #[inline]
    pub(crate) fn has(&self, step: usize) -> bool {
        !is_absent(self.floats[step]) || self.histogram(step).is_some()
    }

    /// Whether there is no sample at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.floats.iter().all(|value| is_absent(*value))
            && self
                .histograms
                .as_ref()
                .is_none_or(|all| all.iter().all(Option::is_none))
    }

    /// Puts a histogram at a step, in the place of a float.
    pub(crate) fn put_histogram(
        &mut self,
        bump: &'a Bump,
        step: usize,
        histogram: &'a Histogram<'a>,
    ) -> Outcome<()> {
        let steps = self.floats.len();
        if self.histograms.is_none() {
            let room = bump.try_alloc_slice_fill_copy(steps, None);
            self.histograms = Some(room.map_err(full)?);
        }
        if let Some(all) = &mut self.histograms {
            all[step] = Some(histogram);
            self.floats[step] = ABSENT;
        }
        Ok(())
    }

    /// Takes the sample of a step away.
    pub(crate) fn clear(&mut self, step: usize) {
        self.floats[step] = ABSENT;
        if let Some(all) = &mut self.histograms {
            all[step] = None;
        }
    }
}

/// Samples of one series in time order, from a subquery or fetched raw.
#[derive(Debug)]
pub(crate) struct Samples<'a> {
    pub(crate) labels: &'a [Label<'a>],
    /// Times in milliseconds and values.
    pub(crate) floats: &'a [(i64, f64)],
    pub(crate) histograms: &'a [(i64, &'a Histogram<'a>)],
}

/// The windows of a range expression, one for each step of the grid that it stands on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Windows {
    pub(crate) clock: crate::plan::Clock,
    pub(crate) when: crate::query::When,
    pub(crate) range_ms: i64,
}

impl Windows {
    /// Beginning and end of the window of a step at `time_ms`. A sample at the end is in it; one
    /// at the beginning is unless [`Windows::is_left_open`].
    pub(crate) fn at(&self, time_ms: i64) -> (i64, i64) {
        let end = self.clock.reference(self.when, time_ms);
        (end.saturating_sub(self.range_ms), end)
    }

    /// Whether a sample right at the beginning is left out.
    pub(crate) fn is_left_open(&self) -> bool {
        self.clock.dialect.has_left_open_ranges()
    }
}

/// The error of a full arena.
pub(crate) fn full<E>(_: E) -> EvalError {
    EvalError::Limit("arena bytes")
}

/// A copy in the arena.
pub(crate) fn slice<'a, T: Copy>(bump: &'a Bump, items: &[T]) -> Outcome<&'a [T]> {
    Ok(bump.try_alloc_slice_copy(items).map_err(full)?)
}

/// A column of numbers, all `value`.
pub(crate) fn numbers(bump: &Bump, steps: usize, value: f64) -> Outcome<&mut [f64]> {
    bump.try_alloc_slice_fill_copy(steps, value).map_err(full)
}

/// A label set in the arena, sorted by name, empty values left out.
pub(crate) fn label_set<'a>(bump: &'a Bump, labels: &[Label<'a>]) -> Outcome<&'a [Label<'a>]> {
    let kept = labels
        .iter()
        .filter(|label| !label.value.is_empty())
        .count();
    if kept == labels.len() && labels.is_sorted_by(|a, b| a.name < b.name) {
        return slice(bump, labels);
    }
    let mut own: Vec<Label<'a>> = labels.to_vec();
    own.retain(|label| !label.value.is_empty());
    own.sort_unstable();
    slice(bump, &own)
}

/// A text in the arena.
pub(crate) fn text<'a>(bump: &'a Bump, text: &str) -> Outcome<&'a str> {
    Ok(bump.try_alloc_str(text).map_err(full)?)
}

/// Drops the metric name. Labels are sorted by name, but others may come before `__name__`.
pub(crate) fn without_name<'a>(
    bump: &'a Bump,
    labels: &'a [Label<'a>],
) -> Outcome<&'a [Label<'a>]> {
    match labels.iter().position(|label| label.name == "__name__") {
        None => Ok(labels),
        Some(0) => Ok(&labels[1..]),
        Some(at) => label_set(bump, &[&labels[..at], &labels[at + 1..]].concat()),
    }
}
