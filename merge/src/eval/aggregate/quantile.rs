//! `quantile`: interpolates between the two values nearest to a rank.

use std::cmp::Ordering;

use super::Groups;
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::unite::SERIES_AT_ONCE;
use crate::eval::value::{Column, Series, is_absent};
use crate::plan::Grid;

/// Computes the quantile of each group; `wanted` is by step.
pub(super) async fn of_groups<'a>(
    env: &Env<'a>,
    grid: &Grid,
    wanted: &[f64],
    groups: Groups<'a>,
    mut input: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    let mut made = Vec::with_capacity(groups.labels.len());
    let mut values = Vec::new();
    for (labels, members) in groups.labels.into_iter().zip(&groups.members) {
        for (step, wanted) in wanted.iter().enumerate().take(grid.count) {
            values.clear();
            for some in members.chunks(SERIES_AT_ONCE) {
                let found = some.iter().map(|one| input[*one].column.floats[step]);
                values.extend(found.filter(|value| !is_absent(*value)));
                env.pace.spend(8 + 4 * some.len()).await;
            }
            if !values.is_empty() {
                input[members[0]].column.floats[step] = quantile(*wanted, &mut values);
            }
            env.pace.spend(4 * values.len()).await;
        }
        let floats = std::mem::take(&mut input[members[0]].column.floats);
        let column = Column {
            floats,
            histograms: None,
        };
        made.push(Series { labels, column });
    }
    Ok(made)
}

/// The quantile of values that are at least one; their order is lost. NaN is less than any number.
fn quantile(wanted: f64, values: &mut [f64]) -> f64 {
    if wanted.is_nan() {
        return f64::NAN;
    }
    if !(0.0..=1.0).contains(&wanted) {
        return f64::INFINITY.copysign(wanted);
    }
    let rank = wanted * (values.len() - 1) as f64;
    let lower = rank.floor();
    let weight = rank - lower;
    let (_, low, above) = values.select_nth_unstable_by(lower as usize, order);
    let low = *low;
    let high = above.iter().copied().min_by(order).unwrap_or(low);
    low * (1.0 - weight) + high * weight
}

fn order(a: &f64, b: &f64) -> Ordering {
    a.partial_cmp(b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let (nan, infinite) = (f64::NAN, f64::INFINITY);
        let cases: [(f64, &[f64], f64); 12] = [
            (0.5, &[3.0], 3.0),
            (0.0, &[3.0, 1.0, 2.0], 1.0),
            (1.0, &[3.0, 1.0, 2.0], 3.0),
            (0.5, &[3.0, 1.0, 2.0], 2.0),
            (0.25, &[4.0, 2.0], 2.5),
            (0.75, &[1.0, 2.0, 3.0, 5.0], 3.5),
            (-0.1, &[1.0], -infinite),
            (1.1, &[1.0], infinite),
            (nan, &[1.0], nan),
            (0.0, &[2.0, nan, 1.0], nan),
            (1.0, &[2.0, nan, 1.0], 2.0),
            // An infinity times no weight at all is no number, as with the servers.
            (0.0, &[0.0, infinite], nan),
        ];
        for (wanted, values, expected) in cases {
            let found = quantile(wanted, &mut values.to_vec());
            let is_same = found == expected || (found.is_nan() && expected.is_nan());
            assert!(is_same, "{wanted} of {values:?}: {found}");
        }
    }
}
