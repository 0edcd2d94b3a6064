//! `and`, `or` and `unless`: whether a match group has samples of the other side decides, step by
//! step.

use super::groups::{groups, presence};
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::keys::Projection;
use crate::eval::unite::{STEPS_AT_ONCE, same_labels, unite};
use crate::eval::value::Series;
use crate::plan::Grid;
use crate::query::Binary;

/// Applies a set operator.
pub(super) async fn combine<'a>(
    env: &Env<'a>,
    grid: &Grid,
    binary: &Binary,
    mut left: Vec<Series<'a>>,
    mut right: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    let projection = Projection::of_match(&binary.matching);
    let groups = groups(env, projection, &left, &right).await?;
    let keeps_matched = binary.operator == "and";
    let is_union = binary.operator == "or";
    for group in &groups.groups {
        let (narrowed, narrows) = match is_union {
            true => (&group.one, &group.many),
            false => (&group.many, &group.one),
        };
        if narrowed.is_empty() || (narrows.is_empty() && !keeps_matched) {
            continue;
        }
        let others = if is_union { &left } else { &right };
        let others = narrows.iter().map(|index| &others[*index]);
        let present = presence(env, grid.count, others).await;
        let side = if is_union { &mut right } else { &mut left };
        for index in narrowed {
            narrow(env, &mut side[*index], &present, keeps_matched).await;
        }
    }
    if !is_union {
        return Ok(left);
    }
    left.append(&mut right);
    unite(env, left).await?.map_err(|_| same_labels())
}

/// Takes away the samples of all steps at which `present` is not as it should be.
async fn narrow<'a>(env: &Env<'a>, series: &mut Series<'a>, present: &[bool], keeps: bool) {
    for start in (0..present.len()).step_by(STEPS_AT_ONCE) {
        let end = present.len().min(start + STEPS_AT_ONCE);
        for (step, is_present) in present[start..end].iter().enumerate() {
            if *is_present != keeps {
                series.column.clear(start + step);
            }
        }
        env.pace.spend(end - start).await;
    }
}
