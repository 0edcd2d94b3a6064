//! The order in which servers leave equal elements when they sort.
//!
//! `topk`, `bottomk` and `sort` show the order of series with equal values, and the servers' sort
//! is not stable: it is a pattern-defeating quicksort whose few random choices depend on nothing
//! but the length. [`sort`] makes the same comparisons and exchanges. It also bears an order that
//! contradicts itself, as the servers' is for NaN.

use crate::plan::Dialect;

/// Up to this many elements are sorted by insertion.
const INSERTION_MAX: usize = 12;
/// From this many elements on, a pivot is the median of three medians.
const NINTHER_MIN: usize = 50;
/// So many exchanges in the choice of a pivot mean that the elements descend.
const SWAPS_MAX: usize = 12;
/// How many misplaced elements an almost sorted range may have.
const REPAIRS_MAX: usize = 5;

/// Sorts as the servers do; `less` says whether the first comes before the second.
pub(crate) fn sort<T>(items: &mut [T], dialect: Dialect, less: impl Fn(&T, &T) -> bool) {
    let end = items.len();
    let limit = usize::BITS - end.leading_zeros();
    let mut sorter = Sorter {
        items,
        less,
        shifts: match dialect.is_at_least(2, 44) {
            true => (7, 17),
            false => (17, 5),
        },
    };
    sorter.quick(0, end, limit);
}

struct Sorter<'s, T, F> {
    items: &'s mut [T],
    less: F,
    /// Of the random numbers; they came to be others with a newer library.
    shifts: (u32, u32),
}

/// What the choice of a pivot tells about the order so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    Unknown,
    Ascending,
    Descending,
}

impl<T, F: Fn(&T, &T) -> bool> Sorter<'_, T, F> {
    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.items[a], &self.items[b])
    }

    /// Sorts `start..end`. Goes down into the shorter side, so that it is never deep.
    fn quick(&mut self, mut start: usize, mut end: usize, mut limit: u32) {
        let (mut was_balanced, mut was_partitioned) = (true, true);
        loop {
            let length = end - start;
            if length <= INSERTION_MAX {
                return self.insertion(start, end);
            }
            if limit == 0 {
                return self.heap(start, end);
            }
            if !was_balanced {
                self.scatter(start, end);
                limit -= 1;
            }
            let (mut pivot, mut hint) = self.pivot(start, end);
            if hint == Hint::Descending {
                self.items[start..end].reverse();
                pivot = (end - 1) - (pivot - start);
                hint = Hint::Ascending;
            }
            let looks_sorted = was_balanced && was_partitioned && hint == Hint::Ascending;
            if looks_sorted && self.repair(start, end) {
                return;
            }
            // Everything from here on is at least as large as what is before: many equal ones.
            if start > 0 && !self.less(start - 1, pivot) {
                start = self.partition_equal(start, end, pivot);
                continue;
            }
            let (middle, was_done) = self.partition(start, end, pivot);
            was_partitioned = was_done;
            let (left, right) = (middle - start, end - middle);
            was_balanced = left.min(right) >= length / 8;
            match left < right {
                true => {
                    self.quick(start, middle, limit);
                    start = middle + 1;
                }
                false => {
                    self.quick(middle + 1, end, limit);
                    end = middle;
                }
            }
        }
    }

    fn insertion(&mut self, start: usize, end: usize) {
        for first in start + 1..end.max(start + 1) {
            self.sink_left(first, start + 1);
        }
    }

    /// Moves an element left as long as it is less, down to place `least - 1`.
    fn sink_left(&mut self, from: usize, least: usize) {
        let mut at = from;
        while at >= least && self.less(at, at - 1) {
            self.items.swap(at, at - 1);
            at -= 1;
        }
    }

    fn heap(&mut self, start: usize, end: usize) {
        let count = end - start;
        for root in (0..=(count - 1) / 2).rev() {
            self.sift_down(root, count, start);
        }
        for last in (0..count).rev() {
            self.items.swap(start, start + last);
            self.sift_down(0, last, start);
        }
    }

    fn sift_down(&mut self, mut root: usize, count: usize, start: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= count {
                return;
            }
            if child + 1 < count && self.less(start + child, start + child + 1) {
                child += 1;
            }
            if !self.less(start + root, start + child) {
                return;
            }
            self.items.swap(start + root, start + child);
            root = child;
        }
    }

    /// Exchanges three elements in the middle with others, chosen by the length.
    fn scatter(&mut self, start: usize, end: usize) {
        let length = end - start;
        let mask = (1usize << (usize::BITS - length.leading_zeros())) - 1;
        let mut random = length as u64;
        let first = start + length / 4 * 2 - 1;
        for offset in 0..3 {
            random ^= random << 13;
            random ^= random >> self.shifts.0;
            random ^= random << self.shifts.1;
            let mut other = random as usize & mask;
            if other >= length {
                other -= length;
            }
            self.items.swap(first + offset, start + other);
        }
    }

    fn pivot(&self, start: usize, end: usize) -> (usize, Hint) {
        let quarter = (end - start) / 4;
        let mut places = [start + quarter, start + 2 * quarter, start + 3 * quarter];
        let mut swaps = 0;
        if end - start >= NINTHER_MIN {
            for place in &mut places {
                *place = self.median([*place - 1, *place, *place + 1], &mut swaps);
            }
        }
        let median = self.median(places, &mut swaps);
        let hint = match swaps {
            0 => Hint::Ascending,
            SWAPS_MAX => Hint::Descending,
            _ => Hint::Unknown,
        };
        (median, hint)
    }

    fn median(&self, [mut a, mut b, mut c]: [usize; 3], swaps: &mut usize) -> usize {
        let mut order = |low: &mut usize, high: &mut usize| {
            if self.less(*high, *low) {
                std::mem::swap(low, high);
                *swaps += 1;
            }
        };
        order(&mut a, &mut b);
        order(&mut b, &mut c);
        order(&mut a, &mut b);
        b
    }

    /// Sorts a range that is almost sorted. Returns whether it is sorted now.
    fn repair(&mut self, start: usize, end: usize) -> bool {
        let mut at = start + 1;
        for _ in 0..REPAIRS_MAX {
            while at < end && !self.less(at, at - 1) {
                at += 1;
            }
            if at == end {
                return true;
            }
            if end - start < NINTHER_MIN {
                return false;
            }
            self.items.swap(at, at - 1);
            if at - start >= 2 {
                // Down to the very first element, which is where the servers' sort stops too.
                self.sink_left(at - 1, 1);
            }
            if end - at >= 2 {
                let mut next = at + 1;
                while next < end && self.less(next, next - 1) {
                    self.items.swap(next, next - 1);
                    next += 1;
                }
            }
        }
        false
    }

    /// Puts what is less than the pivot before it, the rest behind. Returns the pivot's place, and
    /// whether nothing had to be moved.
    fn partition(&mut self, start: usize, end: usize, pivot: usize) -> (usize, bool) {
        self.items.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        let mut was_done = true;
        loop {
            while low <= high && self.less(low, start) {
                low += 1;
            }
            while low <= high && !self.less(high, start) {
                high -= 1;
            }
            if low > high {
                self.items.swap(high, start);
                return (high, was_done);
            }
            self.items.swap(low, high);
            (low, high) = (low + 1, high - 1);
            was_done = false;
        }
    }

    /// Puts what equals the pivot first. Returns the place after.
    fn partition_equal(&mut self, start: usize, end: usize, pivot: usize) -> usize {
        self.items.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        loop {
            while low <= high && !self.less(start, low) {
                low += 1;
            }
            while low <= high && self.less(start, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.items.swap(low, high);
            (low, high) = (low + 1, high - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_any_length_and_pattern() {
        for length in (0..70).chain([200, 1000, 5000]) {
            let patterns: [fn(usize, usize) -> usize; 6] = [
                |at, _| at,
                |at, length| length - at,
                |at, _| at.wrapping_mul(2_654_435_761) % 1009,
                |at, _| at % 3,
                |_, _| 1,
                |at, length| at.min(length - at),
            ];
            for (which, pattern) in patterns.iter().enumerate() {
                let mut items: Vec<(usize, usize)> =
                    (0..length).map(|at| (pattern(at, length), at)).collect();
                sort(&mut items, Dialect::default(), |a, b| a.0 < b.0);
                assert!(items.is_sorted_by_key(|item| item.0), "{length} {which}");
                items.sort_unstable_by_key(|item| item.1);
                assert!(
                    items.iter().map(|item| item.1).eq(0..length),
                    "{length} {which}"
                );
            }
        }
    }

    /// The order of the servers calls NaN less than anything, itself too.
    #[test]
    fn bears_a_contradictory_order() {
        let less = |a: &f64, b: &f64| a.is_nan() || a < b;
        for length in [2, 5, 13, 60, 700] {
            let mut items: Vec<f64> = (0..length)
                .map(|at| if at % 3 == 0 { f64::NAN } else { at as f64 })
                .collect();
            sort(&mut items, Dialect::default(), less);
            assert_eq!(items.len(), length);
        }
    }

    /// Few elements: insertion keeps equal ones in their order.
    #[test]
    fn few_equal_elements_keep_their_order() {
        let mut items: Vec<(u8, usize)> = (0..12).map(|at| ((at % 2) as u8, at)).collect();
        sort(&mut items, Dialect::default(), |a, b| a.0 < b.0);
        assert!(items.is_sorted());
    }

    /// One element that is less among equal ones, as real servers leave them.
    #[test]
    fn equal_elements_are_left_as_servers_leave_them() {
        let cases: [(Dialect, [usize; 17]); 2] = [
            (
                Dialect::default(),
                [21, 8, 10, 7, 4, 5, 6, 2, 15, 9, 1, 11, 12, 13, 14, 3, 16],
            ),
            (
                Dialect {
                    major: 2,
                    minor: 42,
                },
                [21, 8, 15, 7, 4, 9, 6, 2, 1, 5, 10, 11, 12, 13, 14, 3, 16],
            ),
        ];
        for (dialect, expected) in cases {
            let heap = [1, 3, 2, 7, 4, 5, 6, 15, 8, 9, 10, 11, 12, 13, 14, 21, 16];
            let mut items = heap.map(|number| (u8::from(number != 21), number));
            sort(&mut items, dialect, |a, b| a.0 < b.0);
            assert_eq!(items.map(|item| item.1), expected, "{dialect:?}");
        }
    }
}
