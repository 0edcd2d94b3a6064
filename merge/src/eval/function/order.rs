//! Sorting in turns, by any comparison, consistent or not.
//!
//! The servers' comparisons are not always consistent (two NaN are each before the other), which
//! the standard sort may answer with a panic. Up to [`AT_ONCE_MAX`] items are left in the very
//! order of the servers, equal ones too; more are sorted by merging.

use std::cmp::Ordering;

use crate::eval::env::Env;
use crate::eval::sorting;

/// Most items that are sorted in one turn; about ten comparisons each.
const AT_ONCE_MAX: usize = 512;

/// Sorts `items`.
pub(super) async fn sort<T: Copy>(
    env: &Env<'_>,
    items: &mut Vec<T>,
    compare: impl Fn(&T, &T) -> Ordering,
) {
    if items.len() <= AT_ONCE_MAX {
        env.pace.spend(64 * items.len()).await;
        return sorting::sort(items, env.dialect(), |a, b| compare(a, b).is_lt());
    }
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
