//! Turns the times of requests into a [`Summary`].
//!
//! No I/O and no clock: times are arguments, which is what the tests of the correction rest on.

use std::collections::BTreeMap;
use std::ops::Range;

use hdrhistogram::Histogram;

use super::summary::{Errors, Quantiles, Summary};
use crate::clock::SECOND_NS;

/// Longest latency the histograms tell apart: ten minutes.
const LATENCY_NS_MAX: u64 = 600 * SECOND_NS;
/// Three significant digits: a value is at most 0.1 % off.
const SIGNIFICANT_DIGITS: u8 = 3;

/// When one request was due, could go, and went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// Open loop: when it was due. Closed loop: when it was sent.
    pub(super) due_ns: u64,
    /// When it was sent.
    pub(super) sent_ns: u64,
    /// When the connection it went out on had become free.
    pub(super) free_ns: u64,
}

/// Why a request got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection could be made.
    Connect,
    /// The connection broke.
    Broken,
    /// What came was not HTTP.
    Malformed,
    /// Nothing came in time.
    Timeout,
    /// The run ended first.
    Unfinished,
}

/// What the summary repeats of the request for it.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    /// The URL as given.
    pub(super) url: String,
    /// Keep-alive connections.
    pub(super) connections: usize,
    /// Open loop: the rate.
    pub(super) rate: Option<f64>,
    /// Closed loop: the interval for the correction, else the median is taken.
    pub(super) expected_interval_ns: Option<u64>,
}

/// Gathers one run.
#[derive(Debug)]
pub(super) struct Recorder {
    window: Range<u64>,
    offer: Offer,
    latency: Histogram<u64>,
    lag: Histogram<u64>,
    answers: u64,
    answers_total: u64,
    body_bytes_total: u64,
    statuses: BTreeMap<u16, u64>,
    errors: Errors,
}

impl Recorder {
    /// Records what was due inside `window` (monotonic nanoseconds).
    #[must_use]
    pub(super) fn new(window: Range<u64>, offer: Offer) -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
                .expect("bounds and digits are constants within the library's limits")
        };
        Self {
            window,
            offer,
            latency: histogram(),
            lag: histogram(),
            answers: 0,
            answers_total: 0,
            body_bytes_total: 0,
            statuses: BTreeMap::new(),
            errors: Errors::default(),
        }
    }

    /// An answer completed at `done_ns`.
    pub(super) fn answered(&mut self, sent: Sent, done_ns: u64, status: u16, body_bytes: u64) {
        self.answers_total += 1;
        self.body_bytes_total += body_bytes;
        *self.statuses.entry(status).or_default() += 1;
        self.answers += u64::from(self.window.contains(&done_ns));
        self.record(sent, done_ns);
    }

    /// A request failed at `now_ns`; `sent` is absent when it never had a connection.
    ///
    /// A time-out and the end of the run are the server's slowness: the time waited is recorded,
    /// or the slowest requests would be the ones that are missing. A refused or broken connection
    /// answers fast and would make the server look good: it is only counted.
    pub(super) fn failed(&mut self, sent: Option<Sent>, now_ns: u64, failure: Failure) {
        let (counter, is_slowness) = match failure {
            Failure::Connect => (&mut self.errors.connect, false),
            Failure::Broken => (&mut self.errors.broken, false),
            Failure::Malformed => (&mut self.errors.malformed, false),
            Failure::Timeout => (&mut self.errors.timeout, true),
            Failure::Unfinished => (&mut self.errors.unfinished, true),
        };
        *counter += 1;
        if let Some(sent) = sent.filter(|_| is_slowness) {
            self.record(sent, now_ns);
        }
    }

    fn record(&mut self, sent: Sent, done_ns: u64) {
        if !self.window.contains(&sent.due_ns) {
            return;
        }
        self.latency
            .saturating_record(done_ns.saturating_sub(sent.due_ns).max(1));
        let could_go_ns = sent.due_ns.max(sent.free_ns);
        self.lag
            .saturating_record(sent.sent_ns.saturating_sub(could_go_ns).max(1));
    }

    /// Ends the run.
    #[must_use]
    pub(super) fn finish(self) -> Summary {
        let open = self.offer.rate.is_some();
        let interval_ns = (!open && !self.latency.is_empty()).then(|| {
            self.offer
                .expected_interval_ns
                .unwrap_or_else(|| self.latency.value_at_quantile(0.5))
        });
        let corrected = interval_ns
            .filter(|interval| *interval > 0)
            .and_then(|interval| Quantiles::of(&self.latency.clone_correct(interval)));
        let seconds = (self.window.end - self.window.start) as f64 / SECOND_NS as f64;
        Summary {
            url: self.offer.url,
            connections: self.offer.connections,
            rate: self.offer.rate,
            seconds,
            per_second: self.answers as f64 / seconds,
            answers: self.answers,
            answers_total: self.answers_total,
            body_bytes_total: self.body_bytes_total,
            statuses: self.statuses,
            errors: self.errors,
            latency: Quantiles::of(&self.latency),
            corrected,
            expected_interval_us: interval_ns.map(|interval| interval as f64 / 1e3),
            generator_lag: open.then(|| Quantiles::of(&self.lag)).flatten(),
        }
    }
}

#[cfg(test)]
mod tests;
