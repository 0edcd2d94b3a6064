//! Match groups: the series of both sides that agree in the labels which are matched on.

use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::keys::{Keys, Projection};
use crate::eval::unite::STEPS_AT_ONCE;
use crate::eval::value::Series;
use crate::labels::Label;

/// The series of one group, by their indexes in the two vectors, in order.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) many: Vec<usize>,
    pub(super) one: Vec<usize>,
}

/// All groups of two vectors.
#[derive(Debug)]
pub(super) struct Groups<'a> {
    pub(super) groups: Vec<Group>,
    /// The labels that a group agrees in.
    pub(super) labels: Vec<&'a [Label<'a>]>,
}

/// Sorts the series into groups.
pub(super) async fn groups<'a>(
    env: &Env<'a>,
    projection: Projection,
    many: &[Series<'a>],
    one: &[Series<'a>],
) -> Outcome<Groups<'a>> {
    let mut keys = Keys::new(env.bump, projection);
    let mut groups: Vec<Group> = Vec::new();
    for (is_many, side) in [(true, many), (false, one)] {
        for (index, series) in side.iter().enumerate() {
            env.pace.spend(64).await;
            let number = keys.number(series.labels)?;
            groups.resize_with(groups.len().max(number + 1), Group::default);
            match is_many {
                true => groups[number].many.push(index),
                false => groups[number].one.push(index),
            }
        }
    }
    Ok(Groups {
        groups,
        labels: keys.into_labels(),
    })
}

/// By step, whether one of the series has a sample.
pub(super) async fn presence<'s, 'a: 's>(
    env: &Env<'a>,
    steps: usize,
    series: impl Iterator<Item = &'s Series<'a>>,
) -> Vec<bool> {
    let mut present = vec![false; steps];
    for one in series {
        for start in (0..steps).step_by(STEPS_AT_ONCE) {
            let end = steps.min(start + STEPS_AT_ONCE);
            for (step, is_present) in present[start..end].iter_mut().enumerate() {
                *is_present |= one.column.has(start + step);
            }
            env.pace.spend(end - start).await;
        }
    }
    present
}
