//! Puts the series of all answers into one order, in steps.
//!
//! Servers send series sorted by labels; an answer that is not gets a merge sort of its index
//! first. Then the heads of all answers are joined, label set by label set.

use std::cmp::Ordering;

use crate::labels::compare;
use crate::series::Series;

/// A bottom-up merge sort of indexes that stops after any comparison.
#[derive(Debug)]
pub(super) struct Sorter {
    from: Vec<u32>,
    to: Vec<u32>,
    /// Length of the sorted pieces in `from`.
    width: usize,
    /// Start of the pair of pieces being merged, and the place in each.
    pair: usize,
    left: usize,
    right: usize,
}

impl Sorter {
    pub(super) fn new(count: usize) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut sorter = Self {
            from: (0..count).collect(),
            to: Vec::with_capacity(count as usize),
            width: 1,
            pair: 0,
            left: 0,
            right: 0,
        };
        sorter.begin_pair(0);
        sorter
    }

    fn begin_pair(&mut self, pair: usize) {
        self.pair = pair;
        self.left = pair;
        self.right = (pair + self.width).min(self.from.len());
    }

    /// Works for about `comparisons`. Returns the order when done.
    pub(super) fn step(&mut self, series: &[Series<'_>], comparisons: usize) -> Option<Vec<u32>> {
        for _ in 0..comparisons {
            if self.width >= self.from.len() {
                return Some(std::mem::take(&mut self.from));
            }
            let middle = (self.pair + self.width).min(self.from.len());
            let end = (self.pair + 2 * self.width).min(self.from.len());
            let takes_left = self.left < middle
                && (self.right >= end || {
                    let labels = |at: usize| series[self.from[at] as usize].set.labels;
                    compare(labels(self.left), labels(self.right)) != Ordering::Greater
                });
            if takes_left {
                self.to.push(self.from[self.left]);
                self.left += 1;
            } else if self.right < end {
                self.to.push(self.from[self.right]);
                self.right += 1;
            } else if end < self.from.len() {
                self.begin_pair(end);
            } else {
                std::mem::swap(&mut self.from, &mut self.to);
                self.to.clear();
                self.width *= 2;
                self.begin_pair(0);
            }
        }
        None
    }
}

/// One answer's series in the order in which they are joined.
#[derive(Debug)]
pub(super) struct Run {
    /// Index of the slot.
    pub(super) slot: usize,
    /// `None` when the series are sorted as they are.
    pub(super) order: Option<Vec<u32>>,
    /// How many series were taken.
    next: usize,
    /// Series that were taken out of turn, by index.
    taken: Vec<bool>,
}

impl Run {
    pub(super) fn new(slot: usize) -> Self {
        Self {
            slot,
            order: None,
            next: 0,
            taken: Vec::new(),
        }
    }

    fn index(&self, at: usize) -> usize {
        self.order.as_ref().map_or(at, |order| order[at] as usize)
    }

    /// Returns the first series that is not taken, if any.
    pub(super) fn head<'a>(&mut self, series: &[Series<'a>]) -> Option<Series<'a>> {
        while self.next < series.len() {
            let index = self.index(self.next);
            if !self.taken.get(index).copied().unwrap_or(false) {
                return Some(series[index]);
            }
            self.next += 1;
        }
        None
    }

    /// Takes the head.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Takes the series with the labels of `wanted`, wherever it stands.
    pub(super) fn take_equal<'a>(
        &mut self,
        series: &[Series<'a>],
        wanted: &Series<'_>,
    ) -> Option<Series<'a>> {
        let (mut low, mut high) = (0, series.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let index = self.index(middle);
            match compare(series[index].set.labels, wanted.set.labels) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    self.taken.resize(series.len(), false);
                    let is_taken = std::mem::replace(&mut self.taken[index], true);
                    return (!is_taken).then_some(series[index]);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{Label, LabelSet};
    use crate::sample::Points;

    #[test]
    fn sorts_any_number_of_series_in_any_steps() {
        let names: Vec<String> = (0..100).map(|n| format!("{}", (n * 37) % 50)).collect();
        let labels: Vec<[Label<'_>; 1]> = names
            .iter()
            .map(|value| [Label { name: "n", value }])
            .collect();
        for count in [0, 1, 2, 3, 7, 8, 9, 64, 100] {
            let series: Vec<Series<'_>> = labels[..count]
                .iter()
                .map(|labels| Series {
                    set: LabelSet { labels, text: None },
                    points: Points::default(),
                    histograms: &[],
                })
                .collect();
            for comparisons in [1, 5, 1_000_000] {
                let mut sorter = Sorter::new(count);
                let order = loop {
                    if let Some(order) = sorter.step(&series, comparisons) {
                        break order;
                    }
                };
                let mut expected: Vec<u32> = (0..count as u32).collect();
                expected.sort_by_key(|at| &names[*at as usize]);
                assert_eq!(order, expected);
            }
        }
    }
}
