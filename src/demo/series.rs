//! The demo's time series: what each metric origin has, and its samples at any time.
//!
//! Nothing is stored: every sample is computed from its time, so two origins with the same series agree exactly,
//! and what a query must answer can be said beforehand.

use std::collections::BTreeMap;

/// Time between two samples.
pub(super) const SCRAPE_MS: i64 = 15_000;
/// How old a sample an instant may use: just the last one, so that a gap shows from its first minute on and two
/// replicas never differ.
pub(super) const LOOKBACK_MS: i64 = SCRAPE_MS;
/// Counters start here: 2024-01-01 00:00:00 UTC.
const COUNTERS_START_MS: i64 = 1_704_067_200_000;
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// Labels of a series, name included.
pub(super) type Labels = BTreeMap<String, String>;

/// One series.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) labels: Labels,
    shape: Shape,
}

/// Its values over time.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The same for ever.
    Constant(f64),
    /// A counter that grows by so much each second.
    Counter(f64),
    /// Swings between these within an hour, in a straight line each way.
    Swing(f64, f64),
}

/// When an origin was down: ten minutes of each hour, which leave no samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gaps {
    None,
    /// Minutes 10 to 19.
    First,
    /// Minutes 40 to 49.
    Second,
}

/// One origin's data.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) series: Vec<Series>,
    pub(super) gaps: Gaps,
}

/// An instance and what it does: name, region, requests each second, capacity.
type Instance = (&'static str, &'static str, f64, f64);

const A: [Instance; 2] = [("eu-1", "eu", 10.0, 100.0), ("eu-2", "eu", 6.0, 80.0)];
const B: [Instance; 2] = [("us-1", "us", 8.0, 120.0), ("us-2", "us", 4.0, 60.0)];
const C: [Instance; 2] = [("eu-3", "eu", 2.0, 40.0), ("ap-1", "ap", 5.0, 50.0)];

/// Groups of instances, as they are spread over the origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    A,
    B,
    C,
}

impl Store {
    pub(super) fn new(group: Group, gaps: Gaps) -> Self {
        let instances = match group {
            Group::A => &A,
            Group::B => &B,
            Group::C => &C,
        };
        let mut series = Vec::new();
        for (instance, region, rate, capacity) in instances {
            let mut add = |name: &str, code: Option<&str>, shape| {
                let mut labels: Labels = [("__name__", name), ("instance", instance)]
                    .into_iter()
                    .chain([("job", "demo"), ("region", region)])
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                if let Some(code) = code {
                    labels.insert("code".into(), code.into());
                }
                series.push(Series { labels, shape });
            };
            add("up", None, Shape::Constant(1.0));
            add("demo_capacity", None, Shape::Constant(*capacity));
            add(
                "demo_requests_total",
                Some("200"),
                Shape::Counter(rate - 0.5),
            );
            add("demo_requests_total", Some("500"), Shape::Counter(0.5));
            add(
                "demo_temperature_celsius",
                None,
                Shape::Swing(20.0, 20.0 + rate),
            );
        }
        Store { series, gaps }
    }

    /// The last sample not older than the lookback, as Prometheus takes it.
    pub(super) fn at(&self, series: &Series, at_ms: i64) -> Option<f64> {
        let mut sample = at_ms.div_euclid(SCRAPE_MS) * SCRAPE_MS;
        while sample > at_ms - LOOKBACK_MS {
            if !self.gaps.cover(sample) {
                return Some(series.shape.value(sample));
            }
            sample -= SCRAPE_MS;
        }
        None
    }

    /// All samples after `from` up to `to`, as time and value.
    pub(super) fn within(&self, series: &Series, from_ms: i64, to_ms: i64) -> Vec<(i64, f64)> {
        let first = (from_ms.div_euclid(SCRAPE_MS) + 1) * SCRAPE_MS;
        (first..=to_ms)
            .step_by(SCRAPE_MS as usize)
            .filter(|sample| !self.gaps.cover(*sample))
            .map(|sample| (sample, series.shape.value(sample)))
            .collect()
    }
}

impl Gaps {
    fn cover(self, at_ms: i64) -> bool {
        let minute = at_ms.rem_euclid(HOUR_MS) / MINUTE_MS;
        match self {
            Gaps::None => false,
            Gaps::First => (10..20).contains(&minute),
            Gaps::Second => (40..50).contains(&minute),
        }
    }
}

impl Shape {
    fn value(self, at_ms: i64) -> f64 {
        match self {
            Shape::Constant(value) => value,
            Shape::Counter(rate) => {
                let since = (at_ms - COUNTERS_START_MS).max(0) / 1000;
                rate * since as f64
            }
            Shape::Swing(low, high) => {
                let part = at_ms.rem_euclid(HOUR_MS) as f64 / HOUR_MS as f64;
                let up = 1.0 - (2.0 * part - 1.0).abs();
                low + (high - low) * up
            }
        }
    }
}
