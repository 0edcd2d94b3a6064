//! The figures of a run, as they go to the JSON file and into the table.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::churn::Churn;
use super::compare::Entry;
use super::idle::Idle;
use super::measure::Sample;
use super::members::Members;
use super::proxy::Kind;
use super::tail::Tail;
use crate::load::Quantiles;

/// Everything a run found.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// Seconds since 1970.
    pub(super) began_unix: u64,
    /// Where it ran.
    pub(super) machine: Machine,
    /// What was asked of the origin.
    pub(super) path: String,
    /// Connections of the load.
    pub(super) connections: usize,
    /// Rate of the open loop.
    pub(super) open_rate: Option<f64>,
    /// One row for each proxy, and one for the origin without any.
    pub(super) rows: Vec<Row>,
    /// The tail scenario.
    pub(super) tail: Option<Tail>,
    /// The churn scenario.
    pub(super) churn: Option<Churn>,
    /// The members scenario.
    pub(super) members: Option<Members>,
    /// What was skipped or went wrong.
    pub(super) notes: Vec<String>,
}

/// The machine, as far as it explains the figures.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Machine {
    /// Model name of the first CPU.
    pub(super) cpu: String,
    /// CPUs the harness may use.
    pub(super) cpus: usize,
    /// Kernel release.
    pub(super) kernel: String,
    /// Load average of the last minute at the start: others at work.
    pub(super) load_average: f64,
}

/// One proxy's figures.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    /// Its name; `direct` for the origin without a proxy.
    pub(super) name: String,
    /// Its version.
    pub(super) version: String,
    /// Medians of the closed loop.
    pub(super) closed: Option<Medians>,
    /// Medians of the open loop.
    pub(super) open: Option<Medians>,
    /// ringway's figures divided by this proxy's, round by round, and the median of those.
    pub(super) ringway_ratio: Option<Ratio>,
    /// The idle scenario.
    pub(super) idle: Option<Idle>,
    /// Why the figures are missing or not comparable.
    pub(super) failure: Option<String>,
    /// Every turn of the closed loop.
    pub(super) closed_turns: Vec<Sample>,
    /// Every turn of the open loop.
    pub(super) open_turns: Vec<Sample>,
}

/// Medians over the turns; latencies in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Medians {
    pub(super) per_second: f64,
    pub(super) cpu_us_per_request: Option<f64>,
    pub(super) cpu_percent: Option<f64>,
    pub(super) cpu_wait_percent: Option<f64>,
    pub(super) rss_bytes: Option<f64>,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

/// ringway's figure divided by a peer's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Ratio {
    /// CPU per request in the closed loop: below 1, ringway needs less.
    pub(super) cpu: f64,
    /// Requests per second in the closed loop: above 1, ringway does more.
    pub(super) per_second: f64,
}

impl Machine {
    /// Reads what `/proc` says.
    pub(super) fn this(cpus: usize) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name"));
        let cpu = model.map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
        let loads = read("/proc/loadavg");
        Self {
            cpu: cpu.to_owned(),
            cpus,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_average: loads
                .split(' ')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0.0),
        }
    }
}

impl Row {
    /// The row of a compared entry.
    pub(super) fn of(entry: Entry) -> Self {
        let (name, version) = match entry.program {
            Some(program) => (program.kind.name().to_owned(), program.version),
            None => ("direct".to_owned(), String::new()),
        };
        Self {
            closed: Medians::of(&entry.closed),
            open: Medians::of(&entry.open),
            failure: entry.failure,
            closed_turns: entry.closed,
            open_turns: entry.open,
            ..Self::empty(&name, &version)
        }
    }

    /// A row without figures.
    pub(super) fn empty(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            closed: None,
            open: None,
            ringway_ratio: None,
            idle: None,
            failure: None,
            closed_turns: Vec::new(),
            open_turns: Vec::new(),
        }
    }
}

/// Fills in the ratios of ringway to each other proxy.
pub(super) fn set_ratios(rows: &mut [Row]) {
    let is_ringway = |row: &&Row| row.name == Kind::Ringway.name() && row.failure.is_none();
    let Some(ringway) = rows
        .iter()
        .find(is_ringway)
        .map(|row| row.closed_turns.clone())
    else {
        return;
    };
    for row in rows
        .iter_mut()
        .filter(|row| row.name != Kind::Ringway.name())
    {
        if row.failure.is_none() {
            row.ringway_ratio = Ratio::of(&ringway, &row.closed_turns);
        }
    }
}

impl Ratio {
    /// Compares turn by turn: the two turns of a round are seconds apart, so that what slowed the
    /// machine down meanwhile slowed both.
    fn of(ringway: &[Sample], peer: &[Sample]) -> Option<Self> {
        let pairs: Vec<_> = ringway.iter().zip(peer).collect();
        let cpu = pairs.iter().filter_map(|(ringway, peer)| {
            Some(ringway.cost?.cpu_us_per_request / peer.cost?.cpu_us_per_request)
        });
        let rate = pairs
            .iter()
            .map(|(r, p)| r.load.per_second / p.load.per_second);
        Some(Self {
            cpu: median(cpu)?,
            per_second: median(rate)?,
        })
    }
}

impl Medians {
    fn of(samples: &[Sample]) -> Option<Self> {
        let cost = |value: fn(&super::measure::Cost) -> f64| {
            median(
                samples
                    .iter()
                    .filter_map(|sample| sample.cost.as_ref().map(value)),
            )
        };
        let latency = |value: fn(&Quantiles) -> f64| {
            median(
                samples
                    .iter()
                    .filter_map(|sample| sample.load.latency.as_ref().map(value)),
            )
        };
        Some(Self {
            per_second: median(samples.iter().map(|sample| sample.load.per_second))?,
            cpu_us_per_request: cost(|cost| cost.cpu_us_per_request),
            cpu_percent: cost(|cost| cost.cpu_percent),
            cpu_wait_percent: cost(|cost| cost.cpu_wait_percent),
            rss_bytes: cost(|cost| cost.rss_bytes as f64),
            p50: latency(|latency| latency.p50)?,
            p99: latency(|latency| latency.p99)?,
            p999: latency(|latency| latency.p999)?,
        })
    }
}

/// The middle value, or the mean of the middle two; `None` without any.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Seconds since 1970.
pub(super) fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::measure::Cost;
    use super::*;
    use crate::load::{Errors, Summary};

    /// A turn with these figures.
    pub(in super::super) fn sample(per_second: f64, cpu_us_per_request: f64) -> Sample {
        let latency = Quantiles {
            min: 1.0,
            mean: 2.0,
            p50: 100.0,
            p90: 150.0,
            p99: 200.0,
            p999: 3_000.0,
            p9999: 4_000.0,
            max: 5_000.0,
        };
        let load = Summary {
            url: String::new(),
            connections: 64,
            rate: None,
            seconds: 1.0,
            per_second,
            answers: 10,
            answers_total: 10,
            body_bytes_total: 10,
            statuses: std::collections::BTreeMap::from([(200, 10)]),
            errors: Errors::default(),
            latency: Some(latency),
            corrected: None,
            expected_interval_us: None,
            generator_lag: None,
        };
        let cost = Cost {
            cpu_us_per_request,
            cpu_us_per_request_by_ticks: cpu_us_per_request,
            cpu_percent: 99.0,
            cpu_wait_percent: 1.0,
            rss_bytes: 10 << 20,
        };
        Sample {
            load,
            cost: Some(cost),
        }
    }

    fn row(name: &str, turns: &[(f64, f64)]) -> Row {
        let closed_turns: Vec<_> = turns
            .iter()
            .map(|(rate, cpu)| sample(*rate, *cpu))
            .collect();
        Row {
            closed: Medians::of(&closed_turns),
            closed_turns,
            ..Row::empty(name, "1.0.0")
        }
    }

    #[test]
    fn medians_ignore_the_odd_turn() {
        assert_eq!(median([3.0, 100.0, 2.0].into_iter()), Some(3.0));
        assert_eq!(median([1.0, 3.0].into_iter()), Some(2.0));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        // The second round ran on a machine half as fast: it changes no ratio.
        let mut rows = [
            row("ringway", &[(200.0, 10.0), (100.0, 20.0)]),
            row("nginx", &[(100.0, 20.0), (50.0, 40.0)]),
        ];
        set_ratios(&mut rows);
        assert_eq!(rows[0].ringway_ratio, None);
        assert_eq!(
            rows[1].ringway_ratio,
            Some(Ratio {
                cpu: 0.5,
                per_second: 2.0
            })
        );
    }

    #[test]
    fn a_failed_proxy_has_no_ratio() {
        let mut rows = [
            row("ringway", &[(200.0, 10.0)]),
            row("nginx", &[(100.0, 20.0)]),
        ];
        rows[1].failure = Some("half of the requests failed".to_owned());
        set_ratios(&mut rows);
        assert_eq!(rows[1].ringway_ratio, None);
        rows[0].failure = rows[1].failure.take();
        set_ratios(&mut rows);
        assert_eq!(rows[1].ringway_ratio, None);
    }
}
