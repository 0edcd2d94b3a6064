//! When a backend is probed: one task per probed backend.
//!
//! Started and stopped by `control::run`. The first probe comes after a short random delay, each further one an
//! interval after the start of the one before, a little early by chance so that many probes do not fall
//! together; a probe that takes longer delays the next, they never overlap. A stopped prober finishes the probe
//! in flight. A probe that panics is that one only: the next comes as if nothing had been. Contract: health
//! page, 2.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};

use super::Outcome;
use super::probe::probe;
use crate::compile::HealthCheck;
use crate::control::state::ProbeId;

/// Shortest and longest wait before the first probe; never longer than the interval.
pub const FIRST_DELAY_MIN: Duration = Duration::from_millis(10);
/// See [`FIRST_DELAY_MIN`].
pub const FIRST_DELAY_MAX: Duration = Duration::from_secs(1);
/// A tick comes at most this part of the interval early, never late: the promise of
/// `failure_threshold` intervals to a verdict holds.
const EARLY_PART: u32 = 20;
const _: () = assert!(FIRST_DELAY_MIN.as_millis() < FIRST_DELAY_MAX.as_millis());

/// Addresses by host name, as last resolved.
pub type AddressBook = Arc<BTreeMap<Box<str>, Vec<IpAddr>>>;

/// One result on its way to the control core.
#[derive(Debug)]
pub struct Report {
    /// The backend probed.
    pub backend: Box<str>,
    /// By which task.
    pub probe: ProbeId,
    /// What was found; `None` when the probe panicked, which says nothing of the backend.
    pub outcome: Option<Outcome>,
    /// When it began.
    pub began: Instant,
    /// How long it took.
    pub took: Duration,
}

/// A running prober; dropping it stops the task after the probe in flight.
#[derive(Debug)]
pub struct Prober {
    _running: oneshot::Sender<()>,
}

/// When a backend is probed.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time between probes.
    pub interval: Duration,
    /// Whether the first comes at once, as for a discovered member that waits for it.
    pub at_once: bool,
}

/// Starts probing `check`.
pub fn spawn(
    check: HealthCheck,
    pace: Pace,
    id: ProbeId,
    book: watch::Receiver<AddressBook>,
    reports: mpsc::Sender<Report>,
) -> Prober {
    let (running, stopped) = oneshot::channel();
    tokio::spawn(run(check, pace, id, book, reports, stopped));
    Prober { _running: running }
}

async fn run(
    check: HealthCheck,
    Pace { interval, at_once }: Pace,
    id: ProbeId,
    book: watch::Receiver<AddressBook>,
    reports: mpsc::Sender<Report>,
    mut stopped: oneshot::Receiver<()>,
) {
    let check = Arc::new(check);
    let mut chance = Chance::new();
    let mut next = Instant::now();
    if !at_once {
        next += first_delay(interval, chance.next());
    }
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            _ = &mut stopped => return,
        }
        let began = Instant::now();
        let addresses = addresses_of(&check, &book.borrow());
        let asked = check.clone();
        let outcome = apart(async move { probe(&asked, &addresses).await }).await;
        let report = Report {
            backend: check.backend_name.clone(),
            probe: id,
            outcome,
            began,
            took: began.elapsed(),
        };
        if reports.send(report).await.is_err() {
            return;
        }
        next = began + tick(interval, chance.next());
    }
}

/// Runs one probe as a task of its own, so that a panic ends nothing but this probe; `None` then. The panic hook
/// has said where.
async fn apart(probing: impl Future<Output = Outcome> + Send + 'static) -> Option<Outcome> {
    tokio::spawn(probing).await.ok()
}

/// Addresses to probe: the literal itself, or what the host name resolves to.
pub fn addresses_of(check: &HealthCheck, book: &AddressBook) -> Vec<IpAddr> {
    match check.host.parse() {
        Ok(literal) => vec![literal],
        Err(_) => book.get(&check.host).cloned().unwrap_or_default(),
    }
}

fn first_delay(interval: Duration, chance: u32) -> Duration {
    let longest = interval.clamp(FIRST_DELAY_MIN, FIRST_DELAY_MAX);
    FIRST_DELAY_MIN + part(longest - FIRST_DELAY_MIN, chance)
}

fn tick(interval: Duration, chance: u32) -> Duration {
    interval - part(interval / EARLY_PART, chance)
}

/// `whole * chance / 2^32`.
fn part(whole: Duration, chance: u32) -> Duration {
    let nanos = (whole.as_nanos() * u128::from(chance)) >> 32;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Numbers by chance, good enough to spread probes: a multiplicative generator seeded by the standard library.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        Chance(RandomState::new().hash_one(0u8) | 1)
    }

    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_delay_is_between_its_bounds_and_within_the_interval() {
        let second = Duration::from_secs(1);
        assert_eq!(first_delay(second * 60, 0), FIRST_DELAY_MIN);
        assert!(first_delay(second * 60, u32::MAX) <= FIRST_DELAY_MAX);
        assert!(first_delay(second * 60, u32::MAX) > second * 99 / 100);
        let short = Duration::from_millis(100);
        assert!(first_delay(short, u32::MAX) <= short);
        assert_eq!(
            first_delay(Duration::from_millis(1), u32::MAX),
            FIRST_DELAY_MIN
        );
    }

    #[test]
    fn a_tick_is_never_late_and_hardly_early() {
        let interval = Duration::from_secs(2);
        assert_eq!(tick(interval, 0), interval);
        assert!(tick(interval, u32::MAX) >= interval - interval / EARLY_PART);
    }

    #[tokio::test]
    async fn a_probe_that_panics_ends_nothing_but_itself() {
        let broken = apart(async { panic!("on purpose") }).await;
        assert_eq!(broken, None);
        assert_eq!(
            apart(async { Outcome::Passed }).await,
            Some(Outcome::Passed)
        );
    }

    #[test]
    fn chance_varies() {
        let mut chance = Chance::new();
        let first = chance.next();
        assert!((0..8).any(|_| chance.next() != first));
    }
}
