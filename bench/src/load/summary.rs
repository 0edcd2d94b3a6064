//! What a run found: the JSON of `--json` and the text for people.

use std::collections::BTreeMap;
use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The result of one run. Latencies are microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The URL as given.
    pub url: String,
    /// Keep-alive connections.
    pub connections: usize,
    /// Offered requests per second; absent in the closed loop.
    pub rate: Option<f64>,
    /// The measured time.
    pub seconds: f64,
    /// Answers that completed in the measured time, per second.
    pub per_second: f64,
    /// Answers that completed in the measured time.
    pub answers: u64,
    /// Answers of the whole run, warm-up included: what the server spent CPU on.
    pub answers_total: u64,
    /// Body bytes of the whole run.
    pub body_bytes_total: u64,
    /// Answers of the whole run by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without an answer.
    pub errors: Errors,
    /// Open loop: from the due time. Closed loop: from sending, as measured.
    pub latency: Option<Quantiles>,
    /// Closed loop: with the requests added that a stall kept from being sent.
    pub corrected: Option<Quantiles>,
    /// Closed loop: the sending interval that was used for the correction.
    pub expected_interval_us: Option<f64>,
    /// Open loop: how late the generator itself sent while a connection was free.
    pub generator_lag: Option<Quantiles>,
}

/// Requests that were not answered, by reason.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Connections that could not be made.
    pub connect: u64,
    /// Connections that broke or closed in the middle of an exchange.
    pub broken: u64,
    /// Answers that were not HTTP.
    pub malformed: u64,
    /// No answer within the time-out; recorded in the histogram with the time waited.
    pub timeout: u64,
    /// Due or sent, but not answered when the run ended; recorded with the time waited.
    pub unfinished: u64,
}

impl Errors {
    /// All of them together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.connect + self.broken + self.malformed + self.timeout + self.unfinished
    }
}

/// A distribution in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Smallest value.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90 of 100 are at most this.
    pub p90: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// 999 of 1,000 are at most this.
    pub p999: f64,
    /// 9,999 of 10,000 are at most this.
    pub p9999: f64,
    /// Largest value.
    pub max: f64,
}

impl Quantiles {
    /// Reads a histogram of nanoseconds; `None` when it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Some(Self {
            min: histogram.min() as f64 / 1e3,
            mean: histogram.mean() / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: histogram.max() as f64 / 1e3,
        })
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p99.9", self.p999),
            ("p99.99", self.p9999),
            ("max", self.max),
        ];
        for (at, (name, value)) in parts.into_iter().enumerate() {
            let gap = if at == 0 { "" } else { "  " };
            write!(f, "{gap}{name} {}", micros(value))?;
        }
        Ok(())
    }
}

/// Writes microseconds in the unit a person reads best.
#[must_use]
pub fn micros(value: f64) -> String {
    match value {
        v if v < 999.5 => format!("{v:.0} us"),
        v if v < 99_950.0 => format!("{:.2} ms", v / 1e3),
        v if v < 999_500.0 => format!("{:.0} ms", v / 1e3),
        v => format!("{:.2} s", v / 1e6),
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.rate {
            Some(rate) => format!("open loop, {rate:.0} requests/s offered"),
            None => "closed loop".to_owned(),
        };
        writeln!(
            f,
            "{}  {} connections, {mode}, {} s",
            self.url, self.connections, self.seconds
        )?;
        let megabytes = self.body_bytes_total as f64 / 1e6;
        writeln!(
            f,
            "answers    {} ({:.1}/s), {megabytes:.1} MB of bodies with warm-up",
            self.answers, self.per_second
        )?;
        let statuses: Vec<String> = self
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {count}"))
            .collect();
        writeln!(f, "statuses   {}", statuses.join(", "))?;
        let Errors {
            connect,
            broken,
            malformed,
            timeout,
            unfinished,
        } = self.errors;
        writeln!(
            f,
            "errors     {} (connect {connect}, broken {broken}, malformed {malformed}, \
             timeout {timeout}, unfinished {unfinished})",
            self.errors.total()
        )?;
        let meaning = if self.rate.is_some() {
            "from the due time"
        } else {
            "as measured"
        };
        for (name, quantiles, note) in [
            ("latency   ", &self.latency, meaning),
            (
                "corrected ",
                &self.corrected,
                "for requests a stall kept from being sent",
            ),
            (
                "own lag   ",
                &self.generator_lag,
                "the generator itself sent so late",
            ),
        ] {
            if let Some(quantiles) = quantiles {
                writeln!(f, "{name} {quantiles}  ({note})")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_written_in_a_readable_unit() {
        for (value, text) in [
            (0.0, "0 us"),
            (999.0, "999 us"),
            (999.9, "1.00 ms"),
            (12_345.0, "12.35 ms"),
            (123_456.0, "123 ms"),
            (1_500_000.0, "1.50 s"),
        ] {
            assert_eq!(micros(value), text);
        }
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles() {
        let empty = Histogram::new_with_bounds(1, 1_000, 3).unwrap();
        assert_eq!(Quantiles::of(&empty), None);
    }
}
