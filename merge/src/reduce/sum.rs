//! IEEE addition, compensated as Prometheus does it (decision 20).

use super::Combined;
use super::rows::RowSample;

/// A compensated sum (Neumaier's form of Kahan's).
#[derive(Debug, Clone, Copy)]
pub(super) struct Compensated {
    sum: f64,
    lost: f64,
}

impl Compensated {
    /// Starts with the first value, so that a lone -0 survives.
    pub(super) fn new(first: f64) -> Self {
        Self {
            sum: first,
            lost: 0.0,
        }
    }

    pub(super) fn add(&mut self, value: f64) {
        let total = self.sum + value;
        if total.is_infinite() {
            self.lost = 0.0;
        } else if self.sum.abs() >= value.abs() {
            self.lost += (self.sum - total) + value;
        } else {
            self.lost += (value - total) + self.sum;
        }
        self.sum = total;
    }

    pub(super) fn value(self) -> f64 {
        // Adding a lost part of 0 would turn -0 into 0.
        if self.lost == 0.0 {
            self.sum
        } else {
            self.sum + self.lost
        }
    }
}

/// The sum of the groups' values.
pub(super) fn sum<'a>(row: &[RowSample<'a>]) -> Combined<'a> {
    match row {
        [] => Combined::Nothing,
        [only] => Combined::Pair(only.pair()),
        [first, rest @ ..] => {
            let mut total = Compensated::new(first.number());
            for sample in rest {
                total.add(sample.number());
            }
            Combined::Number(first.head(), total.value())
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
            let mut total = Compensated::new(values[0]);
            values[1..].iter().for_each(|value| total.add(*value));
            let found = total.value();
            assert!(found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()));
        }
    }
}
