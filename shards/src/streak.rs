//! Exchanges with one origin that fail in a row below HTTP, and what the control core is told of them.
//!
//! Owned by the counters of a backend, called by `shard` after each exchange. Promises: an origin that answers
//! costs two reads of a cell; reports are at least [`REPORT_EVERY_MS`] apart, and what could not be said at once is
//! kept and said later. Contract: ALB page, 4, beyond.

use std::cell::Cell;

/// Least time between two reports of one origin.
pub(crate) const REPORT_EVERY_MS: u64 = 50;

/// What one shard knows of one origin.
#[derive(Default)]
pub(crate) struct Streak {
    /// Failures in a row that were not reported.
    failures: Cell<u32>,
    /// It answered after the last report of failures and before those in `failures`.
    answered: Cell<bool>,
    /// The control core was told of failures, and of no answer since.
    told: Cell<bool>,
    said_ms: Cell<u64>,
}

/// A report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) answered: bool,
    pub(crate) failures: u32,
}

impl Streak {
    /// Counts one exchange; whether there is anything to report.
    pub(crate) fn note(&self, failed: bool) -> bool {
        if failed {
            self.failures.set(self.failures.get().saturating_add(1));
            return true;
        }
        if self.failures.get() == 0 && !self.told.get() {
            return false;
        }
        self.failures.set(0);
        self.answered.set(self.told.get());
        self.answered.get()
    }

    /// What to report at this time of the watchdog's clock; `None` when there is nothing, or it is too soon.
    pub(crate) fn due(&self, now_ms: u64) -> Option<Report> {
        let report = Report {
            answered: self.answered.get(),
            failures: self.failures.get(),
        };
        let said = self.said_ms.get();
        let is_news = report.answered || report.failures > 0;
        let is_due = said == 0 || now_ms >= said + REPORT_EVERY_MS;
        (is_news && is_due).then_some(report)
    }

    /// The report was sent.
    pub(crate) fn said(&self, report: Report, now_ms: u64) {
        self.said_ms.set(now_ms.max(1));
        self.answered.set(false);
        self.told
            .set(report.failures > 0 || self.told.get() && !report.answered);
        self.failures.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends what is due at this time.
    fn say(streak: &Streak, now_ms: u64) -> Option<(bool, u32)> {
        let report = streak.due(now_ms)?;
        streak.said(report, now_ms);
        Some((report.answered, report.failures))
    }

    #[test]
    fn an_origin_that_answers_is_no_news() {
        let streak = Streak::default();
        assert!(!streak.note(false));
        assert_eq!(say(&streak, 1000), None);
    }

    #[test]
    fn failures_are_reported_and_counted_between_reports() {
        let streak = Streak::default();
        assert!(streak.note(true));
        assert_eq!(say(&streak, 1000), Some((false, 1)), "the first at once");
        for _ in 0..4 {
            assert!(streak.note(true));
        }
        assert_eq!(say(&streak, 1049), None, "too soon");
        assert_eq!(say(&streak, 1050), Some((false, 4)));
        assert_eq!(say(&streak, 2000), None, "nothing is said twice");
    }

    #[test]
    fn an_answer_ends_what_was_reported() {
        let streak = Streak::default();
        streak.note(true);
        say(&streak, 1000);
        assert!(streak.note(false));
        assert!(streak.note(true));
        assert_eq!(say(&streak, 1010), None);
        assert!(streak.note(true));
        assert_eq!(say(&streak, 1100), Some((true, 2)), "two since the answer");
        assert!(streak.note(false));
        assert_eq!(say(&streak, 1200), Some((true, 0)));
        assert!(!streak.note(false), "all is said");
        assert_eq!(say(&streak, 1300), None);
    }

    #[test]
    fn failures_that_were_never_reported_end_unsaid() {
        let streak = Streak::default();
        streak.note(true);
        assert!(!streak.note(false));
        assert_eq!(say(&streak, 1000), None);
    }

    #[test]
    fn what_could_not_be_sent_is_kept() {
        let streak = Streak::default();
        streak.note(true);
        assert!(streak.due(1000).is_some());
        streak.note(true);
        assert_eq!(say(&streak, 1000), Some((false, 2)));
    }
}
