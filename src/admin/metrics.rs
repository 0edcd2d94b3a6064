//! What a scrape gets.
//!
//! The door to `prometheus`: [`Families`] collects samples, and writes them in the text format. No registry lives
//! longer than one scrape, and no counter is kept here: shards and the control core count, `shards` and
//! `control` below name and add. Rows are listed in `docs/metrics.md`. Contract: metrics page.

use std::collections::BTreeMap;
use std::time::SystemTime;

use prometheus::TextEncoder;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};
use ringway_shards::link::{Driver, ShardId};
use ringway_shards::metrics::ShardMetrics;

use super::process::Process;
use crate::compile::ControlSettings;
use crate::control::lookups;
use crate::control::reload;
use crate::control::run::discover::{AlbRow, DiscovererRow, Spreads};
use crate::control::state::State;
use crate::control::verify;

mod control;
mod discovery;
mod shards;

/// Upper bounds in seconds of the probe latency histogram. Contract: metrics page, 1.
pub const PROBE_BUCKETS_S: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Value of `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counts of one backend's probes.
#[derive(Clone, Debug, Default)]
pub struct ProbeCounts {
    /// Probes that passed.
    pub passed: u64,
    /// Probes that failed.
    pub failed: u64,
    /// Probes that panicked; they found nothing.
    pub panicked: u64,
    /// How long they took; the last count is above all bounds.
    pub duration_buckets: [u64; PROBE_BUCKETS_S.len() + 1],
    /// Sum of those in seconds.
    pub duration_sum_s: f64,
}

impl ProbeCounts {
    /// Counts one probe.
    pub fn count(&mut self, passed: bool, seconds: f64) {
        match passed {
            true => self.passed += 1,
            false => self.failed += 1,
        }
        let bucket = PROBE_BUCKETS_S.iter().position(|bound| seconds <= *bound);
        self.duration_buckets[bucket.unwrap_or(PROBE_BUCKETS_S.len())] += 1;
        self.duration_sum_s += seconds;
    }
}

/// All that a scrape shows.
pub struct Scene<'a> {
    /// Health, pools, plan.
    pub state: &'a State,
    /// Settings in force, once there are any.
    pub settings: Option<&'a ControlSettings>,
    /// Answers of the shards; a shard that did not answer in time is missing.
    pub shards: &'a [(ShardId, Box<ShardMetrics>)],
    /// Driver of each shard.
    pub drivers: &'a [Option<Driver>],
    /// By backend name.
    pub probes: &'a BTreeMap<Box<str>, ProbeCounts>,
    /// ALBs with discovery.
    pub discovered: &'a [AlbRow],
    /// Discoverers in use.
    pub discoverers: &'a [DiscovererRow],
    /// How long changes of members took to reach all shards.
    pub spreads: Spreads,
    /// Reload attempts.
    pub reloads: &'a reload::Tally,
    /// Password checks.
    pub passwords: verify::Tally,
    /// Lookups of hosts that rewriters made.
    pub lookups: lookups::Tally,
    /// Log lines lost.
    pub log_lines_dropped: u64,
    /// Figures of the process.
    pub process: Process,
    /// When it started.
    pub started: SystemTime,
}

impl Scene<'_> {
    /// The text of the scrape.
    pub fn text(&self) -> String {
        let mut families = Families::default();
        control::collect(self, &mut families);
        discovery::collect(self, &mut families);
        shards::collect(self, &mut families);
        families.text()
    }
}

/// Label names and values of a sample.
type Labels<'a> = &'a [(&'a str, &'a str)];

/// A histogram as it is counted: counts per bucket, not cumulative, the last above all bounds.
struct Counts<'a> {
    bounds: &'a [f64],
    buckets: &'a [u64],
    sum: f64,
}

/// Samples by metric name. Samples with equal name and labels add up.
#[derive(Default)]
struct Families {
    families: BTreeMap<&'static str, Family>,
}

struct Family {
    help: &'static str,
    kind: MetricType,
    samples: BTreeMap<Vec<(String, String)>, Metric>,
}

impl Families {
    fn counter(&mut self, name: &'static str, help: &'static str, labels: Labels<'_>, value: f64) {
        let sample = self.sample(name, help, MetricType::COUNTER, labels);
        let mut counter = Counter::default();
        counter.set_value(sample.get_counter().get_value() + value);
        sample.set_counter(counter);
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, labels: Labels<'_>, value: f64) {
        let sample = self.sample(name, help, MetricType::GAUGE, labels);
        let mut gauge = Gauge::default();
        gauge.set_value(sample.get_gauge().get_value() + value);
        sample.set_gauge(gauge);
    }

    fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        counts: &Counts<'_>,
    ) {
        assert_eq!(counts.buckets.len(), counts.bounds.len() + 1);
        let sample = self.sample(name, help, MetricType::HISTOGRAM, labels);
        let before = sample.get_histogram().clone();
        let mut below = 0;
        let mut buckets = Vec::new();
        for (n, bound) in counts.bounds.iter().enumerate() {
            below += counts.buckets[n];
            let earlier = before
                .get_bucket()
                .get(n)
                .map_or(0, Bucket::cumulative_count);
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(earlier + below);
            buckets.push(bucket);
        }
        let above = counts.buckets[counts.bounds.len()];
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets);
        histogram.set_sample_count(before.get_sample_count() + below + above);
        histogram.set_sample_sum(before.get_sample_sum() + counts.sum);
        sample.set_histogram(histogram);
    }

    fn sample(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: MetricType,
        labels: Labels<'_>,
    ) -> &mut Metric {
        let family = self.families.entry(name).or_insert_with(|| Family {
            help,
            kind,
            samples: BTreeMap::new(),
        });
        let key = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        family.samples.entry(key).or_default()
    }

    fn text(self) -> String {
        let mut families = Vec::new();
        for (name, family) in self.families {
            let metrics = family.samples.into_iter().map(|(labels, mut metric)| {
                let pairs = labels.into_iter().map(|(name, value)| {
                    let mut pair = LabelPair::default();
                    pair.set_name(name);
                    pair.set_value(value);
                    pair
                });
                metric.set_label(pairs.collect());
                metric
            });
            let mut out = MetricFamily::default();
            out.set_name(name.to_owned());
            out.set_help(family.help.to_owned());
            out.set_field_type(family.kind);
            out.set_metric(metrics.collect());
            families.push(out);
        }
        // Only a family without samples is an error, and there is none.
        TextEncoder::new()
            .encode_to_string(&families)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
