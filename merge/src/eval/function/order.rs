//! Sorting in turns: a stable merge sort that takes any comparison, consistent or not.
//!
//! Prometheus' comparisons are not always consistent (two NaN are each before the other), which
//! the standard sort may answer with a panic.

use std::cmp::Ordering;

use crate::eval::env::Env;

/// Sorts `items`. Of two equal ones the earlier stays first; where each comes before the other
/// their order turns around, as in an insertion sort.
pub(super) async fn sort<T: Copy>(
    env: &Env<'_>,
    items: &mut Vec<T>,
    compare: impl Fn(&T, &T) -> Ordering,
) {
    let mut other = Vec::with_capacity(items.len());
    let mut width = 1;
    while width < items.len() {
        other.clear();
        for from in (0..items.len()).step_by(2 * width) {
            let middle = (from + width).min(items.len());
            let end = (from + 2 * width).min(items.len());
            let (mut left, mut right) = (from, middle);
            while left < middle || right < end {
                let takes_right =
                    left >= middle || (right < end && compare(&items[right], &items[left]).is_lt());
                let taken = if takes_right { &mut right } else { &mut left };
                other.push(items[*taken]);
                *taken += 1;
                env.pace.spend(64).await;
            }
        }
        std::mem::swap(items, &mut other);
        width *= 2;
    }
}
