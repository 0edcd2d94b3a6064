//! Steps in time: those of the request, and those that a subquery evaluates its input at.
//!
//! Planner and evaluator both ask here, so that what is fetched is what is read.

use super::Dialect;
use crate::query::{At, Subquery, When};

/// Evenly spaced times; an instant query has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Grid {
    /// The first time, in Unix milliseconds.
    pub start_ms: i64,
    /// Distance, at least 1.
    pub step_ms: i64,
    /// How many times; 0 for an empty range.
    pub count: usize,
}

impl Grid {
    /// One time.
    pub fn instant(time_ms: i64) -> Self {
        Self {
            start_ms: time_ms,
            step_ms: 1,
            count: 1,
        }
    }

    /// The times of a range query. `step_ms` is positive.
    pub fn range(start_ms: i64, end_ms: i64, step_ms: i64) -> Self {
        let step_ms = step_ms.max(1);
        let span = end_ms.checked_sub(start_ms).unwrap_or(i64::MAX);
        let count = match span {
            ..0 => 0,
            _ => {
                usize::try_from(span / step_ms).map_or(usize::MAX, |steps| steps.saturating_add(1))
            }
        };
        Self {
            start_ms,
            step_ms,
            count,
        }
    }

    /// Time number `at`.
    pub fn time(&self, at: usize) -> i64 {
        let steps = i64::try_from(at).unwrap_or(i64::MAX);
        self.start_ms
            .saturating_add(steps.saturating_mul(self.step_ms))
    }

    /// The last time; the first of an empty range.
    pub fn end_ms(&self) -> i64 {
        self.time(self.count.saturating_sub(1))
    }

    /// The index of a time of the grid.
    pub fn index(&self, time_ms: i64) -> Option<usize> {
        let after = time_ms.checked_sub(self.start_ms)?;
        if after < 0 || after % self.step_ms != 0 {
            return None;
        }
        usize::try_from(after / self.step_ms)
            .ok()
            .filter(|at| *at < self.count)
    }
}

/// What times mean in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// The steps of the request; `start()` is the first.
    pub grid: Grid,
    /// The end that the request names, which is `end()`; the last step may be earlier.
    pub end_ms: i64,
    /// The version of the servers.
    pub dialect: Dialect,
    /// The step of subqueries that name none: the servers' evaluation interval.
    pub interval_ms: i64,
    /// How long a sample stands for its series: the servers' lookback, or `lookback_delta`.
    pub lookback_ms: i64,
}

impl Clock {
    /// The moment that `@` names, if it is there. Offsets are not taken off.
    pub fn moment(&self, when: When) -> Option<i64> {
        when.at.map(|at| match at {
            At::Start => self.grid.start_ms,
            At::End => self.end_ms,
            At::Time(time_ms) => time_ms,
        })
    }

    /// The end of the window of a selector or subquery that is evaluated at `time_ms`.
    pub fn reference(&self, when: When, time_ms: i64) -> i64 {
        self.moment(when)
            .unwrap_or(time_ms)
            .saturating_sub(when.offset_ms)
    }

    /// The times at which a subquery that stands on `outer` evaluates its input: multiples of its
    /// step, from the first window's beginning to the last window's end.
    pub fn inner(&self, subquery: &Subquery, outer: &Grid) -> Grid {
        let step_ms = subquery
            .step
            .map_or(self.interval_ms, crate::query::milliseconds)
            .max(1);
        let range_ms = crate::query::milliseconds(subquery.range);
        let first = self
            .reference(subquery.when, outer.start_ms)
            .saturating_sub(range_ms);
        let last = self.reference(subquery.when, outer.end_ms());
        // The servers divide toward zero, so a negative beginning is rounded up.
        let mut start_ms = (first / step_ms).saturating_mul(step_ms);
        let is_early = match self.dialect.has_left_open_ranges() {
            true => start_ms <= first,
            false => start_ms < first,
        };
        if is_early {
            start_ms = start_ms.saturating_add(step_ms);
        }
        match outer.count {
            0 => Grid::range(start_ms, start_ms - 1, step_ms),
            _ => Grid::range(start_ms, last, step_ms),
        }
    }
}
