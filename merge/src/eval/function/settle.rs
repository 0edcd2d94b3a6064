//! What becomes of series whose labels a function changed: no two may be the same.
//!
//! Prometheus joins the results of a function step by step, so series that come to have the same
//! labels are one, unless they have a sample at the same step. Functions that look at labels
//! only are evaluated once for all steps in later versions; see [`Twice::Whole`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::value::{Column, Series, without_name};
use crate::labels::Label;

/// When two series of one label set are an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Twice {
    /// Where both have a sample at one step.
    AtOneStep,
    /// Where both have a sample at all.
    Whole,
}

/// Drops the metric names.
pub(super) async fn drop_names<'a>(
    env: &Env<'a>,
    mut series: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    for one in &mut series {
        one.labels = without_name(env.bump, one.labels)?;
        env.pace.spend(64).await;
    }
    join(env, series, Twice::AtOneStep).await
}

/// Joins the series that have the same labels; they keep the place of the first.
pub(super) async fn join<'a>(
    env: &Env<'a>,
    series: Vec<Series<'a>>,
    twice: Twice,
) -> Outcome<Vec<Series<'a>>> {
    let mut places: HashMap<&[Label<'a>], usize> = HashMap::with_capacity(series.len());
    let mut kept: Vec<Series<'a>> = Vec::with_capacity(series.len());
    for one in series {
        env.pace.spend(64 + 16 * one.labels.len()).await;
        match places.entry(one.labels) {
            Entry::Vacant(place) => {
                place.insert(kept.len());
                kept.push(one);
            }
            Entry::Occupied(place) => {
                let first = &mut kept[*place.get()].column;
                let is_error = match twice {
                    Twice::AtOneStep => !move_samples(env, first, one.column).await?,
                    Twice::Whole if first.is_empty() => {
                        *first = one.column;
                        false
                    }
                    Twice::Whole => !one.column.is_empty(),
                };
                if is_error {
                    return Err(same_labels());
                }
            }
        }
    }
    Ok(kept)
}

/// The error of two series with the same labels.
pub(super) fn same_labels() -> EvalError {
    EvalError::Execution("vector cannot contain metrics with the same labelset".to_owned())
}

/// Moves the samples of `from` into `to`. Returns whether no step had two.
async fn move_samples<'a>(env: &Env<'a>, to: &mut Column<'a>, from: Column<'a>) -> Outcome<bool> {
    for step in 0..from.floats.len() {
        if step % super::CHUNK_STEPS == 0 {
            env.pace.spend(4 * super::CHUNK_STEPS).await;
        }
        if !from.has(step) {
            continue;
        }
        if to.has(step) {
            return Ok(false);
        }
        match from.histogram(step) {
            Some(histogram) => to.put_histogram(env.bump, step, histogram)?,
            None => to.floats[step] = from.floats[step],
        }
    }
    Ok(true)
}
