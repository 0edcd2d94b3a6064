//! The smaller or larger of the groups' samples; NaN only where all are NaN.

use super::rows::RowSample;
use super::{Combined, Doubts};

/// The sample that is best so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<'a> {
    pub(super) pair: &'a [u8],
    value: f64,
    /// A zero of the other sign was as good: one server takes that of the first series, which the
    /// groups' answers do not tell.
    pub(super) is_mixed: bool,
}

impl<'a> Choice<'a> {
    pub(super) fn new(pair: &'a [u8], value: f64) -> Self {
        Self {
            pair,
            value,
            is_mixed: false,
        }
    }

    /// Takes another sample if it is better; of equal ones the first stays.
    #[inline]
    pub(super) fn consider(
        &mut self,
        pair: &'a [u8],
        value: f64,
        is_better: impl Fn(f64, f64) -> bool,
    ) {
        if is_better(value, self.value) || self.value.is_nan() {
            *self = Self::new(pair, value);
        } else if value == self.value {
            self.is_mixed |= value.is_sign_negative() != self.value.is_sign_negative();
        }
    }
}

pub(super) fn is_less(candidate: f64, best: f64) -> bool {
    candidate < best
}

pub(super) fn is_more(candidate: f64, best: f64) -> bool {
    candidate > best
}

/// The best value of a row; of equal ones the first. Zeros of both signs are a doubt.
pub(super) fn choose<'a>(
    row: &[RowSample<'a>],
    doubts: &mut Doubts,
    is_better: impl Fn(f64, f64) -> bool,
) -> Combined<'a> {
    let Some((first, rest)) = row.split_first() else {
        return Combined::Nothing;
    };
    let mut choice = Choice::new(first.pair(), first.number());
    for sample in rest {
        choice.consider(sample.pair(), sample.number(), &is_better);
    }
    doubts.has_mixed_zeros |= choice.is_mixed;
    Combined::Pair(choice.pair)
}
