//! The retry budget of one ALB on one shard: what keeps a failing pool from being asked many times over.
//!
//! Kept in the ALB's cells, so that it outlives reloads. Retries in flight may be at most a share of the
//! requests that are active, that is in flight or ended within the last second or two: a burst of failures comes
//! when fewer are in flight than a moment ago. Beyond that, a bucket grants so many a second, and holds one
//! second's worth.

use std::cell::Cell;

use ringway_io::net::deadline::Watchdog;

use crate::metrics::Count;
use crate::plan::Retry;

/// Milliseconds in a second.
const SECOND_MS: u64 = 1000;

/// Counts of one ALB.
#[derive(Default)]
pub(crate) struct Budget {
    /// Requests in flight.
    active: Cell<u64>,
    /// Requests that ended in this second and in the one before.
    ended: Cell<u64>,
    ended_before: Cell<u64>,
    second: Cell<u64>,
    /// Retries in flight that the share granted.
    shared: Cell<u64>,
    /// What is missing from a full bucket, in thousandths of a retry of one shard, and when it was looked at.
    spent: Cell<u64>,
    looked_ms: Cell<u64>,
    granted: Cell<u64>,
    refused: Cell<u64>,
}

/// A request in flight.
pub(crate) struct Active<'a> {
    budget: &'a Budget,
    dog: &'a Watchdog,
}

/// A retry in flight.
pub(crate) struct Ticket<'a>(Option<&'a Budget>);

impl Budget {
    /// Counts a request until the returned value is dropped.
    pub(crate) fn begin<'a>(&'a self, dog: &'a Watchdog) -> Active<'a> {
        self.active.bump();
        Active { budget: self, dog }
    }

    /// Takes the right to one retry, if there is one. `shards` share the floor.
    pub(crate) fn take(&self, retry: &Retry, shards: u32, now_ms: u64) -> Option<Ticket<'_>> {
        self.turn(now_ms);
        let active = self.active.get() + self.ended.get() + self.ended_before.get();
        let share = active.saturating_mul(u64::from(retry.budget_percent)) / 100;
        let ticket = if self.shared.get() < share {
            self.shared.bump();
            Some(Ticket(Some(self)))
        } else {
            self.take_from_floor(u64::from(retry.floor_per_second), shards, now_ms)
                .then_some(Ticket(None))
        };
        match ticket {
            Some(_) => self.granted.bump(),
            None => self.refused.bump(),
        }
        ticket
    }

    /// A retry that asks nobody twice: its member is known to be lost, so it only moves to where the request
    /// would go now.
    pub(crate) fn move_on(&self) -> Ticket<'_> {
        self.granted.bump();
        Ticket(None)
    }

    /// Retries granted since start.
    pub(crate) fn granted(&self) -> u64 {
        self.granted.get()
    }

    /// Retries refused since start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// A shard's part of the floor. The bucket of `floor / shards` retries, at least one, fills in one second; it
    /// is counted in `1 / (1000 * shards)` of a retry, so that the smallest floor adds whole numbers.
    fn take_from_floor(&self, floor: u64, shards: u32, now_ms: u64) -> bool {
        let retry = SECOND_MS * u64::from(shards.max(1));
        let room = (floor * SECOND_MS).max(retry);
        let filled = now_ms
            .saturating_sub(self.looked_ms.replace(now_ms))
            .saturating_mul(floor);
        let spent = self.spent.get().saturating_sub(filled);
        let granted = floor > 0 && spent + retry <= room;
        self.spent.set(if granted { spent + retry } else { spent });
        granted
    }

    /// Turns to the second of `now_ms`.
    fn turn(&self, now_ms: u64) {
        let now = now_ms / SECOND_MS;
        let was = self.second.replace(now);
        if now == was {
            return;
        }
        let ended = self.ended.take();
        self.ended_before
            .set(if now == was + 1 { ended } else { 0 });
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.budget.turn(self.dog.now_ms());
        self.budget.active.set(self.budget.active.get() - 1);
        self.budget.ended.bump();
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if let Some(budget) = self.0 {
            budget.shared.set(budget.shared.get() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn retry(percent: u8, floor: u32) -> Retry {
        Retry {
            budget_percent: percent,
            floor_per_second: floor,
            ..Retry::NONE
        }
    }

    fn granted(budget: &Budget, retry: &Retry, now_ms: u64) -> usize {
        let tickets: Vec<_> = (0..100)
            .map_while(|_| budget.take(retry, 2, now_ms))
            .collect();
        tickets.len()
    }

    #[test]
    fn the_share_bounds_retries_in_flight() {
        let (budget, dog) = (Budget::default(), Watchdog::new(Duration::from_millis(5)));
        let requests: Vec<_> = (0..10).map(|_| budget.begin(&dog)).collect();
        let half = retry(50, 0);
        assert_eq!(granted(&budget, &half, 0), 5);
        let held = budget.take(&half, 2, 0);
        assert_eq!(granted(&budget, &half, 0), 4, "one is in flight");
        drop(held);
        assert_eq!(granted(&budget, &half, 0), 5, "and ended");
        drop(requests);
        assert_eq!(granted(&budget, &half, 999), 5, "active within the second");
        assert_eq!(granted(&budget, &half, 1999), 5, "or the one before");
        assert_eq!(granted(&budget, &half, 2000), 0);
    }

    #[test]
    fn what_ended_long_ago_is_not_active() {
        let (budget, dog) = (Budget::default(), Watchdog::new(Duration::from_millis(5)));
        drop(budget.begin(&dog));
        assert_eq!(granted(&budget, &retry(100, 0), 0), 1);
        assert_eq!(granted(&budget, &retry(100, 0), 5000), 0);
    }

    #[test]
    fn the_floor_is_granted_each_second_and_shared_by_the_shards() {
        let (budget, ten) = (Budget::default(), retry(0, 10));
        assert_eq!(granted(&budget, &ten, 0), 5, "its share of ten");
        assert_eq!(granted(&budget, &ten, 0), 0);
        assert_eq!(granted(&budget, &ten, 199), 0);
        assert_eq!(granted(&budget, &ten, 200), 1, "a fifth of a second");
        assert_eq!(granted(&budget, &ten, 60_000), 5, "no more than a second's");
    }

    #[test]
    fn a_floor_below_the_number_of_shards_grants_one_now_and_then() {
        let (budget, one) = (Budget::default(), retry(0, 1));
        assert_eq!(granted(&budget, &one, 0), 1);
        assert_eq!(granted(&budget, &one, 1000), 0);
        assert_eq!(granted(&budget, &one, 2000), 1);
    }

    #[test]
    fn without_share_and_floor_nothing_is_granted() {
        let (budget, dog) = (Budget::default(), Watchdog::new(Duration::from_millis(5)));
        let _request = budget.begin(&dog);
        assert_eq!(granted(&budget, &Retry::NONE, 10_000), 0);
        assert_eq!((budget.granted(), budget.refused()), (0, 1));
        drop(budget.move_on());
        assert_eq!(budget.granted(), 1);
    }
}
