//! IEEE addition, compensated as Prometheus does it (decision 20).

use super::rows::RowSample;
use super::{Combined, Doubts};
use crate::kahan::{Kahan, have_cancelled, is_small_whole};

/// The sum of the groups' values.
pub(super) fn sum<'a>(row: &[RowSample<'a>], doubts: &mut Doubts) -> Combined<'a> {
    match row {
        [] => Combined::Nothing,
        [only] => Combined::Pair(only.pair()),
        [first, rest @ ..] => {
            // It starts with the first value, so that a lone -0 survives.
            let mut total = Kahan::new(first.number());
            for sample in rest {
                total.add(sample.number());
            }
            let total = total.signed_total();
            doubts.has_cancelled_sum |= is_cancelled(row, total);
            doubts.has_rounded_sum |= !are_small_whole(row);
            Combined::Number(first.head(), total)
        }
    }
}

/// Whether the parts are so much larger than their sum that what each has lost may show.
pub(super) fn is_cancelled(row: &[RowSample<'_>], total: f64) -> bool {
    let size: f64 = row.iter().map(|sample| sample.number().abs()).sum();
    have_cancelled(size, total) && !are_small_whole(row)
}

/// Whether all samples are small whole numbers, which lose nothing when they are added up.
pub(super) fn are_small_whole(row: &[RowSample<'_>]) -> bool {
    row.iter().all(|sample| is_small_whole(sample.number()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        let cases: &[(&[f64], f64)] = &[
            (&[-0.0], -0.0),
            (&[-0.0, -0.0], -0.0),
            (&[-0.0, 0.0], 0.0),
            (&[1e100, 1.0, -1e100], 1.0),
            (&[0.1, 0.2, 0.3], 0.6),
            (&[f64::INFINITY, 1.0], f64::INFINITY),
            (&[1.0, f64::NEG_INFINITY, 2.0], f64::NEG_INFINITY),
            (&[f64::INFINITY, f64::NEG_INFINITY], f64::NAN),
            (&[f64::NAN, 1.0], f64::NAN),
            (&[f64::MAX, f64::MAX, 1.0], f64::INFINITY),
        ];
        for (values, expected) in cases {
            let mut total = Kahan::new(values[0]);
            values[1..].iter().for_each(|value| total.add(*value));
            let found = total.signed_total();
            assert!(found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()));
        }
    }
}
