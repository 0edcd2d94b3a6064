//! The weighted mean: the groups' sums over the groups' counts.

use super::rows::RowSample;
use super::sum::{are_small_whole, is_cancelled};
use super::{Combined, Doubts};
use crate::kahan::{Kahan, is_small_whole};

/// Below it shares of a number may be rounded as subnormal numbers are.
const TINY: f64 = 1e-290;

/// Returns the mean of a row whose samples hold a sum and its count. A count of 0 is no mean.
///
/// Where the sum is infinite the mean may still be finite (the sum overflowed), which the groups'
/// answers cannot tell: then a doubt is noted.
pub(super) fn mean<'a>(row: &[RowSample<'a>], doubts: &mut Doubts) -> Combined<'a> {
    let Some(first) = row.first() else {
        return Combined::Nothing;
    };
    let mut sum = Kahan::new(first.number());
    let mut count = 0.0;
    for (at, sample) in row.iter().enumerate() {
        count += sample.count;
        if at > 0 {
            sum.add(sample.number());
        }
    }
    let sum = sum.signed_total();
    if count == 0.0 {
        doubts.has_unpaired_mean = true;
        return Combined::Nothing;
    }
    doubts.has_infinite_mean |= sum.is_infinite();
    doubts.has_cancelled_sum |= is_cancelled(row, sum);
    let mean = sum / count;
    // What next to nothing comes to, and which zero, depends on how a server adds up.
    let is_tiny = mean.abs() < TINY && (sum != 0.0 || mean.is_sign_negative());
    doubts.has_mixed_zeros |= is_tiny && count > 1.0;
    // Servers add up means, not numbers.
    doubts.has_rounded_sum |= !are_small_whole(row) || !is_small_whole(mean);
    Combined::Number(first.head(), mean)
}
