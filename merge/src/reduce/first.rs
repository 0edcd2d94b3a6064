//! Dedup, group and pick: one of the groups' samples, as it is written.

use super::rows::RowSample;
use super::{Combined, Doubts};

/// The first configured group wins (decision 19).
pub(super) fn dedup<'a>(row: &[RowSample<'a>]) -> Combined<'a> {
    row.first()
        .map_or(Combined::Nothing, |sample| Combined::Pair(sample.pair()))
}

/// The sample that was taken last; of several groups' of one time the first, which is a conflict
/// where they differ.
pub(super) fn freshest<'a>(row: &[RowSample<'a>], doubts: &mut Doubts) -> Combined<'a> {
    let Some((first, rest)) = row.split_first() else {
        return Combined::Nothing;
    };
    let mut latest = first;
    for sample in rest {
        if sample.count > latest.count {
            latest = sample;
        }
    }
    let is_disputed =
        |sample: &RowSample<'a>| sample.count == latest.count && sample.differs_from(latest);
    if row.iter().any(is_disputed) {
        doubts.group_conflicts += 1;
        doubts.is_shared_unevenly = true;
    }
    Combined::Pair(latest.pair())
}

/// The first value that is not NaN, in pool order, else the first.
pub(super) fn pick<'a>(row: &[RowSample<'a>]) -> Combined<'a> {
    let chosen = row.iter().find(|sample| !sample.is_nan()).or(row.first());
    chosen.map_or(Combined::Nothing, |sample| Combined::Pair(sample.pair()))
}
