//! IEEE addition, compensated as Prometheus does it (decision 20).

use super::Combined;
use super::rows::RowSample;
use crate::kahan::Kahan;

/// The sum of the groups' values.
pub(super) fn sum<'a>(row: &[RowSample<'a>]) -> Combined<'a> {
    match row {
        [] => Combined::Nothing,
        [only] => Combined::Pair(only.pair()),
        [first, rest @ ..] => {
            // It starts with the first value, so that a lone -0 survives.
            let mut total = Kahan::new(first.number());
            for sample in rest {
                total.add(sample.number());
            }
            Combined::Number(first.head(), total.signed_total())
        }
    }
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
