//! The comparison: the same load through every proxy, in turns.
//!
//! Closed loop first: the load keeps every connection busy, so the proxy's CPU is the limit and
//! requests/s and CPU per request are read. Then the open loop at one rate for all, which every
//! proxy can serve: there latencies can be compared, because all were asked for the same.

use std::net::SocketAddr;

use anyhow::Result;

use super::launch::{Place, Share};
use super::measure::{Load, Offered, Sample};
use super::proxy::{Program, Proxy, Setup};
use super::run::Budget;
use super::{Options, report};

/// Share of the slowest proxy's closed-loop rate that all get in the open loop.
const OPEN_SHARE: f64 = 0.4;
/// The open rate is a multiple of this.
const OPEN_STEP: f64 = 500.0;
/// Above this share of failed requests a proxy's figures are not comparable.
pub(super) const FAILED_SHARE_MAX: f64 = 0.001;

/// One row: a proxy, or the origin without any.
pub(super) struct Entry {
    /// The program; absent for the origin itself.
    pub(super) program: Option<Program>,
    /// Closed-loop turns.
    pub(super) closed: Vec<Sample>,
    /// Open-loop turns.
    pub(super) open: Vec<Sample>,
    /// Why it takes no more turns.
    pub(super) failure: Option<String>,
    proxy: Option<Proxy>,
    address: SocketAddr,
}

impl Entry {
    fn name(&self) -> &'static str {
        self.program
            .as_ref()
            .map_or("direct", |program| program.kind.name())
    }

    fn turn(&mut self, load: &Load) -> Result<Sample> {
        let pid = self.proxy.as_ref().map(|proxy| proxy.process.pid());
        Offered::start(self.address, load, pid)?.finish()
    }
}

/// Runs the comparison. The last entry is the origin without a proxy. Also returns the open rate.
pub(super) fn compare(
    options: &Options,
    programs: &[Program],
    setup: &Setup<'_>,
    budget: &Budget,
    notes: &mut Vec<String>,
) -> (Vec<Entry>, Option<f64>) {
    let mut entries = start_all(programs, setup);
    let mut load = Load {
        path: options.path.clone(),
        connections: options.connections,
        rate: None,
        window: options.window,
        place: Place {
            cpu: Some(setup.layout.load),
            share: Share::Nice(setup.nice),
        },
    };
    let closed = turns(options.rounds, &mut entries, &load, budget, |entry| {
        &mut entry.closed
    });
    load.rate = options.rate.or_else(|| open_rate(&entries));
    // Without a proxy there is no rate, and nothing to be short of.
    let mut open = options.rounds;
    if load.rate.is_some() {
        open = turns(options.rounds, &mut entries, &load, budget, |entry| {
            &mut entry.open
        });
    }
    if closed.min(open) < options.rounds {
        notes.push(format!(
            "of {} rounds there was time for {closed} in the closed and {open} in the open loop",
            options.rounds
        ));
    }
    for entry in &mut entries {
        let turns = entry.closed.iter().chain(&entry.open);
        let worst = turns.map(Sample::failed_share).fold(0.0, f64::max);
        if worst > FAILED_SHARE_MAX && entry.failure.is_none() {
            entry.failure = Some(format!("{:.1} % of the requests failed", worst * 100.0));
        }
        entry.proxy = None;
    }
    (entries, load.rate)
}

fn start_all(programs: &[Program], setup: &Setup<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for program in programs {
        match program.start(setup) {
            Ok(proxy) => entries.push(Entry {
                address: proxy.address,
                ..Entry::new(Some(program.clone()), Some(proxy), setup.origin)
            }),
            Err(error) => {
                let mut entry = Entry::new(Some(program.clone()), None, setup.origin);
                entry.failure = Some(format!("{error:#}"));
                entries.push(entry);
            }
        }
    }
    entries.push(Entry::new(None, None, setup.origin));
    entries
}

impl Entry {
    fn new(program: Option<Program>, proxy: Option<Proxy>, address: SocketAddr) -> Self {
        Self {
            program,
            closed: Vec::new(),
            open: Vec::new(),
            failure: None,
            proxy,
            address,
        }
    }
}

/// Gives every entry its turns: A B C A B C … Returns how many rounds there was time for.
fn turns(
    rounds: usize,
    entries: &mut [Entry],
    load: &Load,
    budget: &Budget,
    samples: impl Fn(&mut Entry) -> &mut Vec<Sample>,
) -> usize {
    let mode = load.rate.map_or("closed loop".to_owned(), |rate| {
        format!("open loop {rate}/s")
    });
    for round in 0..rounds {
        // Whole rounds only, so that every proxy has equally many turns.
        if budget.is_spent() {
            return round;
        }
        for entry in entries.iter_mut().filter(|entry| entry.failure.is_none()) {
            report::progress(&format!(
                "{mode}, round {} of {rounds}: {}",
                round + 1,
                entry.name()
            ));
            match entry.turn(load) {
                Ok(sample) => samples(entry).push(sample),
                Err(error) => entry.failure = Some(format!("{error:#}")),
            }
        }
    }
    rounds
}

/// The rate that all proxies can serve; `None` when there is no proxy.
fn open_rate(entries: &[Entry]) -> Option<f64> {
    let rates = entries
        .iter()
        .filter(|entry| entry.program.is_some() && entry.failure.is_none())
        .filter_map(|entry| {
            entry
                .closed
                .iter()
                .map(|s| s.load.per_second)
                .reduce(f64::min)
        });
    rates
        .reduce(f64::min)
        .map(|slowest| rounded_rate(slowest * OPEN_SHARE))
}

fn rounded_rate(rate: f64) -> f64 {
    ((rate / OPEN_STEP).floor() * OPEN_STEP).max(OPEN_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_rate_is_a_round_number_and_never_zero() {
        assert_eq!(rounded_rate(12_345.0), 12_000.0);
        assert_eq!(rounded_rate(500.0), 500.0);
        assert_eq!(rounded_rate(3.0), 500.0);
    }
}
