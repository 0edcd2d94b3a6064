//! `topk`, `bottomk` and `limitk`: a heap of the chosen samples for each group and step.
//!
//! Which of equal values are chosen depends on the heap's moves, so these are the servers'. An
//! instant result has the order in which the servers leave the chosen series.

use super::Groups;
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::sorting::sort;
use crate::eval::unite::SERIES_AT_ONCE;
use crate::eval::value::Series;
use crate::plan::{Dialect, Grid};

/// Keeps the chosen samples; `counts` says how many of a group are chosen at each step.
pub(super) async fn select<'a>(
    env: &Env<'a>,
    grid: &Grid,
    operator: &str,
    counts: &[usize],
    groups: &Groups<'a>,
    mut input: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    let mut heap = Heap {
        entries: Vec::new(),
        is_reversed: operator == "bottomk",
        pops: !env.dialect().is_at_least(2, 43),
    };
    let mut choice = Choice::new(grid, input.len());
    for (step, count) in counts.iter().enumerate() {
        for members in &groups.members {
            heap.entries.clear();
            for some in members.chunks(SERIES_AT_ONCE) {
                for member in some {
                    let column = &input[*member].column;
                    if *count > 0 && column.has(step) {
                        // A histogram has no number of its own; only `limitk` lets it come here.
                        let value = column.histogram(step).map_or(column.floats[step], |_| 0.0);
                        heap.take((value, *member), *count, operator == "limitk");
                    }
                }
                env.pace.spend(16 + 8 * some.len()).await;
            }
            if choice.is_instant && operator != "limitk" {
                heap.sort(env.dialect());
                env.pace.spend(16 * heap.entries.len()).await;
            }
            // In a range the servers have no order either.
            if choice.is_instant && env.order.is_on() {
                let is_tie = heap.has_rival(env, members, &input, operator == "limitk");
                env.order.note(is_tie.await);
            }
            choice.make(env, step, &heap, members, &mut input).await;
        }
    }
    Ok(choice.finish(input))
}

/// The samples that are kept.
pub(super) struct Choice {
    pub(super) is_instant: bool,
    /// Of an instant result: the series in their order.
    order: Vec<usize>,
    is_chosen: Vec<bool>,
}

impl Choice {
    pub(super) fn new(grid: &Grid, series: usize) -> Self {
        Self {
            is_instant: grid.count == 1,
            order: Vec::new(),
            is_chosen: vec![false; series],
        }
    }

    /// Takes the samples of one step of a group away that are not in the heap.
    pub(super) async fn make<'a>(
        &mut self,
        env: &Env<'a>,
        step: usize,
        heap: &Heap,
        members: &[usize],
        input: &mut [Series<'a>],
    ) {
        if self.is_instant {
            self.order.extend(heap.entries.iter().map(|entry| entry.1));
            return;
        }
        for (_, member) in &heap.entries {
            self.is_chosen[*member] = true;
        }
        for some in members.chunks(SERIES_AT_ONCE) {
            for member in some {
                if !std::mem::take(&mut self.is_chosen[*member]) {
                    input[*member].column.clear(step);
                }
            }
            env.pace.spend(4 * some.len()).await;
        }
    }

    /// The series with the samples that are left.
    pub(super) fn finish<'a>(self, input: Vec<Series<'a>>) -> Vec<Series<'a>> {
        if !self.is_instant {
            return input;
        }
        let mut all: Vec<Option<Series<'a>>> = input.into_iter().map(Some).collect();
        self.order.iter().filter_map(|at| all[*at].take()).collect()
    }
}

/// A heap with the first to go at its top: the least value, or the largest if it is reversed.
pub(super) struct Heap {
    /// Values and the series that they are of.
    pub(super) entries: Vec<(f64, usize)>,
    pub(super) is_reversed: bool,
    /// Whether the top is taken off before another entry is put in; else it is replaced.
    pub(super) pops: bool,
}

impl Heap {
    /// Takes an entry if there is room, or, unless the first ones stay, if it beats the top.
    fn take(&mut self, entry: (f64, usize), count: usize, first_stay: bool) {
        match first_stay {
            true if self.entries.len() < count => self.push(entry),
            true => {}
            false => self.offer(entry, count),
        }
    }

    /// Takes an entry if there is room, or if it beats the top.
    fn offer(&mut self, entry: (f64, usize), count: usize) {
        if self.entries.len() < count {
            return self.push(entry);
        }
        let top = self.entries[0].0;
        let is_better = match self.is_reversed {
            false => top < entry.0,
            true => top > entry.0,
        };
        // NaN gives way to a number; to another NaN only where the top is taken off.
        let gives_way = top.is_nan() && (self.pops || !entry.0.is_nan());
        if !is_better && !gives_way {
            return;
        }
        if self.pops && count > 1 {
            self.pop();
            return self.push(entry);
        }
        self.entries[0] = entry;
        self.down(0, self.entries.len());
    }

    pub(super) fn push(&mut self, entry: (f64, usize)) {
        self.entries.push(entry);
        self.up(self.entries.len() - 1);
    }

    fn pop(&mut self) {
        let last = self.entries.len() - 1;
        self.entries.swap(0, last);
        self.down(0, last);
        self.entries.truncate(last);
    }

    fn up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.less(at, parent) {
                break;
            }
            self.entries.swap(parent, at);
            at = parent;
        }
    }

    fn down(&mut self, mut at: usize, end: usize) {
        loop {
            let mut child = 2 * at + 1;
            if child >= end {
                break;
            }
            if child + 1 < end && self.less(child + 1, child) {
                child += 1;
            }
            if !self.less(child, at) {
                break;
            }
            self.entries.swap(at, child);
            at = child;
        }
    }

    fn less(&self, a: usize, b: usize) -> bool {
        goes_first(&self.entries[a], &self.entries[b], self.is_reversed)
    }

    /// Whether an instant sample was left out that is as good as the worst that was taken. Entries
    /// are sorted, or (`all_are_equal`) the first ones whatever their values.
    async fn has_rival(
        &self,
        env: &Env<'_>,
        members: &[usize],
        input: &[Series<'_>],
        all_are_equal: bool,
    ) -> bool {
        let Some((worst, _)) = self.entries.last() else {
            return false;
        };
        let is_as_bad =
            |value: f64| all_are_equal || value == *worst || (value.is_nan() && worst.is_nan());
        let taken = self.entries.iter().filter(|entry| is_as_bad(entry.0));
        let mut left = taken.count();
        env.pace.spend(2 * self.entries.len()).await;
        for some in members.chunks(SERIES_AT_ONCE) {
            let columns = some.iter().map(|member| &input[*member].column);
            let found = columns.filter(|column| column.has(0) && is_as_bad(column.floats[0]));
            match left.checked_sub(found.count()) {
                Some(fewer) => left = fewer,
                None => return true,
            }
            env.pace.spend(4 * some.len()).await;
        }
        false
    }

    /// Sorts the best first.
    fn sort(&mut self, dialect: Dialect) {
        let is_reversed = self.is_reversed;
        sort(&mut self.entries, dialect, |a, b| {
            goes_first(b, a, is_reversed)
        });
    }
}

/// The order of a heap. NaN goes before anything, itself too.
fn goes_first(a: &(f64, usize), b: &(f64, usize), is_reversed: bool) -> bool {
    a.0.is_nan() || if is_reversed { a.0 > b.0 } else { a.0 < b.0 }
}
