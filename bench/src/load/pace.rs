//! When requests of the open loop are due.
//!
//! Pure arithmetic on times given as arguments. Due times are fixed at the start; a late request
//! keeps its due time, so nothing the server does can thin the schedule out.

use crate::clock::SECOND_NS;

/// An evenly spaced schedule.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pace {
    start_ns: u64,
    end_ns: u64,
    interval_ns: f64,
    taken: u64,
}

impl Pace {
    /// A schedule of `per_second` requests from `start_ns` until before `end_ns`.
    #[must_use]
    pub(super) fn new(start_ns: u64, end_ns: u64, per_second: f64) -> Self {
        Self {
            start_ns,
            end_ns,
            interval_ns: SECOND_NS as f64 / per_second,
            taken: 0,
        }
    }

    /// Returns when the next request is due; `None` when all are taken.
    #[must_use]
    pub(super) fn next_due(&self) -> Option<u64> {
        // From the start each time, so that rounding does not add up to a wrong rate.
        let due = self.start_ns + (self.taken as f64 * self.interval_ns) as u64;
        (due < self.end_ns).then_some(due)
    }

    /// Takes the next request if it is due at `now_ns`. Returns its due time.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due = self.next_due().filter(|due| *due <= now_ns)?;
        self.taken += 1;
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_requests_keep_their_due_times() {
        let mut pace = Pace::new(100, 100 + SECOND_NS, 4.0);
        assert_eq!(pace.take(99), None);
        assert_eq!(pace.take(100), Some(100));
        assert_eq!(pace.take(100), None);
        assert_eq!(pace.next_due(), Some(250_000_100));
        let late = 100 + SECOND_NS * 2;
        let rest: Vec<u64> = std::iter::from_fn(|| pace.take(late)).collect();
        assert_eq!(rest, [250_000_100, 500_000_100, 750_000_100]);
        assert_eq!(pace.next_due(), None);
    }

    #[test]
    fn an_odd_rate_does_not_drift() {
        let mut pace = Pace::new(0, 60 * SECOND_NS, 7_777.0);
        let count = std::iter::from_fn(|| pace.take(u64::MAX)).count();
        assert_eq!(count, 7_777 * 60);
    }
}
