//! Aggregations that take one series after the other: sums, means, extremes, counts, spreads.
//!
//! How sums and means keep what rounding takes away changed over time: sums are compensated from
//! 2.54 on, means from 2.55 on; from 3.5 on a mean whose sum would overflow goes on differently.

use super::{Groups, histograms};
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::unite::STEPS_AT_ONCE;
use crate::eval::value::{ABSENT, Column, Series, is_absent};
use crate::kahan::Kahan;
use crate::plan::{Dialect, Grid};

/// Computes an aggregation over some steps.
trait Fold {
    /// Begins anew.
    fn reset(&mut self, steps: usize);
    /// Takes one series.
    fn add(&mut self, values: &[f64]);
    /// Gives the results, [`ABSENT`] where there was no sample.
    fn finish(&self, out: &mut [f64]);
}

/// Aggregates each group.
pub(super) async fn of_groups<'a>(
    env: &Env<'a>,
    grid: &Grid,
    operator: &str,
    groups: Groups<'a>,
    mut input: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    let mut made = Vec::with_capacity(groups.labels.len());
    let mut fold = of(operator, env.dialect());
    for (labels, members) in groups.labels.into_iter().zip(&groups.members) {
        let found = histograms::of_group(env, operator, members, &input, grid.count).await?;
        for start in (0..grid.count).step_by(STEPS_AT_ONCE) {
            let end = grid.count.min(start + STEPS_AT_ONCE);
            fold.reset(end - start);
            for member in members {
                fold.add(&input[*member].column.floats[start..end]);
                env.pace.spend(8 + 2 * (end - start)).await;
            }
            // The first member's samples of these steps are not needed again.
            fold.finish(&mut input[members[0]].column.floats[start..end]);
        }
        let mut column = Column {
            floats: std::mem::take(&mut input[members[0]].column.floats),
            histograms: None,
        };
        histograms::put(env, &mut column, found)?;
        made.push(Series { labels, column });
    }
    Ok(made)
}

fn of(operator: &str, dialect: Dialect) -> Box<dyn Fold> {
    let stage = |stages: [(u32, u32); 2]| {
        let reached = stages
            .iter()
            .filter(|(major, minor)| dialect.is_at_least(*major, *minor));
        reached.count()
    };
    match operator {
        "sum" if dialect.is_at_least(2, 54) => Box::new(ExactSum(Vec::new())),
        "sum" => Box::new(PlainSum(Vec::new())),
        "avg" => Box::new(Mean {
            states: Vec::new(),
            stage: stage([(2, 55), (3, 5)]),
        }),
        "min" | "max" => Box::new(Extreme {
            values: Vec::new(),
            is_largest: operator == "max",
        }),
        "stddev" | "stdvar" => Box::new(Spread {
            states: Vec::new(),
            is_deviation: operator == "stddev",
            keeps_infinities: dialect.is_at_least(3, 0),
        }),
        _ => Box::new(Count {
            counts: Vec::new(),
            is_group: operator == "group",
        }),
    }
}

/// Readies a state for each step.
fn begin<T: Clone>(states: &mut Vec<T>, steps: usize, state: T) {
    states.clear();
    states.resize(steps, state);
}

/// The values that are there, each with the state of its step.
fn present<'s, T>(
    states: &'s mut [T],
    values: &'s [f64],
) -> impl Iterator<Item = (&'s mut T, f64)> {
    let pairs = states.iter_mut().zip(values.iter().copied());
    pairs.filter(|(_, value)| !is_absent(*value))
}

struct PlainSum(Vec<f64>);

impl Fold for PlainSum {
    fn reset(&mut self, steps: usize) {
        begin(&mut self.0, steps, ABSENT);
    }

    fn add(&mut self, values: &[f64]) {
        for (sum, value) in present(&mut self.0, values) {
            *sum = if is_absent(*sum) { value } else { *sum + value };
        }
    }

    fn finish(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.0);
    }
}

struct ExactSum(Vec<Kahan>);

impl Fold for ExactSum {
    fn reset(&mut self, steps: usize) {
        begin(&mut self.0, steps, Kahan::new(ABSENT));
    }

    fn add(&mut self, values: &[f64]) {
        for (sum, value) in present(&mut self.0, values) {
            match is_absent(sum.sum) {
                true => *sum = Kahan::new(value),
                false => sum.add(value),
            }
        }
    }

    fn finish(&self, out: &mut [f64]) {
        for (out, sum) in out.iter_mut().zip(&self.0) {
            *out = match is_absent(sum.sum) {
                true => ABSENT,
                false => sum.total(),
            };
        }
    }
}

struct Mean {
    states: Vec<MeanState>,
    /// How many of the changes to its computation are in.
    stage: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct MeanState {
    /// The sum; once that would overflow, the mean so far.
    sum: Kahan,
    count: f64,
    is_mean: bool,
}

impl Fold for Mean {
    fn reset(&mut self, steps: usize) {
        begin(&mut self.states, steps, MeanState::default());
    }

    fn add(&mut self, values: &[f64]) {
        let stage = self.stage;
        for (state, value) in present(&mut self.states, values) {
            state.count += 1.0;
            match (state.count == 1.0, stage) {
                (true, _) => state.sum = Kahan::new(value),
                (_, 0) => state.move_plainly(value),
                (_, stage) => state.add(value, stage),
            }
        }
    }

    fn finish(&self, out: &mut [f64]) {
        for (out, state) in out.iter_mut().zip(&self.states) {
            *out = match (state.count == 0.0, self.stage) {
                (true, _) => ABSENT,
                (_, 0) => state.sum.sum,
                _ if state.is_mean => state.sum.total(),
                (_, 1) => state.sum.total() / state.count,
                _ => state.sum.sum / state.count + state.sum.lost / state.count,
            };
        }
    }
}

impl MeanState {
    /// Moves the mean by its distance to the value.
    fn move_plainly(&mut self, value: f64) {
        let mean = &mut self.sum.sum;
        if !stays_infinite(*mean, value) {
            *mean += value / self.count - *mean / self.count;
        }
    }

    fn add(&mut self, value: f64, stage: usize) {
        if !self.is_mean {
            let mut sum = self.sum;
            sum.add(value);
            if !sum.sum.is_infinite() {
                self.sum = sum;
                return;
            }
            self.is_mean = true;
            self.sum.sum /= self.count - 1.0;
            self.sum.lost /= self.count - 1.0;
        }
        if stage == 1 {
            if !stays_infinite(self.sum.sum, value) {
                let mean = self.sum.total();
                self.sum.add(value / self.count - mean / self.count);
            }
            return;
        }
        let share = (self.count - 1.0) / self.count;
        self.sum.sum *= share;
        self.sum.lost *= share;
        self.sum.add(value / self.count);
    }
}

/// An infinite mean stays what it is, but for NaN and the opposite infinity.
fn stays_infinite(mean: f64, value: f64) -> bool {
    mean.is_infinite() && (value.is_finite() || value == mean)
}

struct Extreme {
    values: Vec<f64>,
    is_largest: bool,
}

impl Fold for Extreme {
    fn reset(&mut self, steps: usize) {
        begin(&mut self.values, steps, ABSENT);
    }

    fn add(&mut self, values: &[f64]) {
        let is_largest = self.is_largest;
        // Being absent is not being a number: the first value is taken, and the first real one
        // after NaN.
        for (own, value) in present(&mut self.values, values) {
            let is_better = if is_largest {
                *own < value
            } else {
                *own > value
            };
            if is_better || own.is_nan() {
                *own = value;
            }
        }
    }

    fn finish(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.values);
    }
}

struct Count {
    counts: Vec<f64>,
    is_group: bool,
}

impl Fold for Count {
    fn reset(&mut self, steps: usize) {
        begin(&mut self.counts, steps, 0.0);
    }

    fn add(&mut self, values: &[f64]) {
        for (count, _) in present(&mut self.counts, values) {
            *count += 1.0;
        }
    }

    fn finish(&self, out: &mut [f64]) {
        for (out, count) in out.iter_mut().zip(&self.counts) {
            *out = match (*count == 0.0, self.is_group) {
                (true, _) => ABSENT,
                (false, true) => 1.0,
                (false, false) => *count,
            };
        }
    }
}

struct Spread {
    states: Vec<SpreadState>,
    is_deviation: bool,
    /// Whether the spread of a single infinity or NaN is NaN; else it is 0.
    keeps_infinities: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct SpreadState {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Fold for Spread {
    fn reset(&mut self, steps: usize) {
        begin(&mut self.states, steps, SpreadState::default());
    }

    fn add(&mut self, values: &[f64]) {
        let keeps_infinities = self.keeps_infinities;
        for (state, value) in present(&mut self.states, values) {
            state.count += 1.0;
            if state.count == 1.0 {
                state.mean = value;
                let is_lost = keeps_infinities && !value.is_finite();
                state.squares = if is_lost { f64::NAN } else { 0.0 };
                continue;
            }
            let distance = value - state.mean;
            state.mean += distance / state.count;
            state.squares += distance * (value - state.mean);
        }
    }

    fn finish(&self, out: &mut [f64]) {
        for (out, state) in out.iter_mut().zip(&self.states) {
            let variance = state.squares / state.count;
            *out = match (state.count == 0.0, self.is_deviation) {
                (true, _) => ABSENT,
                (false, true) => variance.sqrt(),
                (false, false) => variance,
            };
        }
    }
}
