//! The smaller or larger of the groups' samples; NaN only where all are NaN.

use super::Combined;
use super::rows::RowSample;

/// The smallest value; of equal ones the first.
pub(super) fn min<'a>(row: &[RowSample<'a>]) -> Combined<'a> {
    choose(row, |candidate, best| candidate < best)
}

/// The largest value; of equal ones the first.
pub(super) fn max<'a>(row: &[RowSample<'a>]) -> Combined<'a> {
    choose(row, |candidate, best| candidate > best)
}

fn choose<'a>(row: &[RowSample<'a>], is_better: impl Fn(f64, f64) -> bool) -> Combined<'a> {
    let Some(first) = row.first() else {
        return Combined::Nothing;
    };
    let (mut pair, mut best) = (first.pair, first.number());
    for sample in &row[1..] {
        let candidate = sample.number();
        if is_better(candidate, best) || best.is_nan() {
            (pair, best) = (sample.pair, candidate);
        }
    }
    Combined::Pair(pair)
}
