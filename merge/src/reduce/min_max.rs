//! The smaller or larger of the groups' samples; NaN only where all are NaN.

use super::rows::RowSample;
use super::{Combined, Doubts};

/// The smallest value; of equal ones the first.
pub(super) fn min<'a>(row: &[RowSample<'a>], doubts: &mut Doubts) -> Combined<'a> {
    choose(row, doubts, |candidate, best| candidate < best)
}

/// The largest value; of equal ones the first.
pub(super) fn max<'a>(row: &[RowSample<'a>], doubts: &mut Doubts) -> Combined<'a> {
    choose(row, doubts, |candidate, best| candidate > best)
}

/// Of a zero and its negative one server takes that of the first series, which the groups' answers
/// do not tell: then a doubt is noted.
fn choose<'a>(
    row: &[RowSample<'a>],
    doubts: &mut Doubts,
    is_better: impl Fn(f64, f64) -> bool,
) -> Combined<'a> {
    let Some(first) = row.first() else {
        return Combined::Nothing;
    };
    let (mut pair, mut best) = (first.pair(), first.number());
    let mut is_mixed = false;
    for sample in &row[1..] {
        let candidate = sample.number();
        if is_better(candidate, best) || best.is_nan() {
            (pair, best) = (sample.pair(), candidate);
            is_mixed = false;
        } else if candidate == best {
            is_mixed |= candidate.is_sign_negative() != best.is_sign_negative();
        }
    }
    doubts.has_mixed_zeros |= is_mixed;
    Combined::Pair(pair)
}
