//! Dedup, group and pick: one of the groups' samples, as it is written.

use super::Combined;
use super::rows::RowSample;

/// The first configured group wins (decision 19).
pub(super) fn dedup<'a>(row: &[RowSample<'a>]) -> Combined<'a> {
    row.first()
        .map_or(Combined::Nothing, |sample| Combined::Pair(sample.pair))
}

/// The first value that is not NaN, in pool order, else the first.
pub(super) fn pick<'a>(row: &[RowSample<'a>]) -> Combined<'a> {
    let chosen = row
        .iter()
        .find(|sample| !sample.point.is_nan())
        .or(row.first());
    chosen.map_or(Combined::Nothing, |sample| Combined::Pair(sample.pair))
}
