//! A new configuration on its way to the shards: prepared by all, then served by all, or by none.
//!
//! Pure bookkeeping, called by `control::run`; the first start is the same path. [`Preparation`] collects what
//! shards and the resolver answer, [`Gate`] spaces attempts, [`Tally`] counts them for the metrics. Bounds the
//! wait for shards by [`PREPARE_MAX`] and for host names by [`RESOLVE_MAX`].
//! Contract: config page, 9.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use ringway_shards::link::ShardId;
use ringway_shards::plan::{Generation, ListenerId};

/// Longest wait until every shard has prepared a plan; then it is refused.
pub const PREPARE_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the first addresses of new host names; then the plan is served without them.
pub const RESOLVE_MAX: Duration = Duration::from_secs(5);
/// Upper bounds in seconds of the reload duration histogram.
pub const DURATION_BUCKETS_S: [f64; 7] = ringway_shards::metrics::DURATION_BUCKETS_S;
const _: () = assert!(RESOLVE_MAX.as_millis() < PREPARE_MAX.as_millis());

/// Why a configuration is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The configuration is not valid.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    /// Shards could not prepare it.
    #[error("{}", .0.join("; "))]
    NotPrepared(Vec<String>),
    /// Shards did not answer in time.
    #[error("no answer within {PREPARE_MAX:?} from {}", shard_names(.0))]
    TimedOut(Vec<ShardId>),
    /// An admin listener could not be bound.
    #[error("cannot listen on {address} for {name}: {cause}")]
    AdminListener {
        /// `metrics` or `mgmt`.
        name: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why.
        cause: String,
    },
    /// The log file could not be opened.
    #[error("{0}")]
    Log(String),
    /// Another configuration is on its way.
    #[error("another reload is running")]
    Busy,
    /// The last attempt was too short a time ago.
    #[error("the last attempt is less than {0:?} ago (mgmt.reload_rate_limit)")]
    RateLimited(Duration),
    /// The process is stopping.
    #[error("the process is stopping")]
    Stopping,
}

fn shard_names(shards: &[ShardId]) -> String {
    let names: Vec<String> = shards.iter().map(|id| format!("shard-{}", id.0)).collect();
    names.join(", ")
}

/// A shard's answer: what it listens on, or why it cannot.
pub type Prepared = Result<Vec<(ListenerId, SocketAddr)>, String>;

/// What a preparation has come to.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answers are missing.
    Waiting,
    /// All shards can serve it.
    Ready(Vec<(ListenerId, SocketAddr)>),
    /// At least one cannot; all others are to forget it.
    Refused(Refusal),
}

/// One plan being prepared.
#[derive(Debug)]
pub struct Preparation {
    generation: Generation,
    answers: Vec<Option<Prepared>>,
    hosts: BTreeSet<Box<str>>,
    started: Instant,
}

impl Preparation {
    /// Starts to wait for `shards` shards and for the first answer about each of `hosts`.
    pub fn new(
        generation: Generation,
        shards: usize,
        hosts: BTreeSet<Box<str>>,
        now: Instant,
    ) -> Self {
        Preparation {
            generation,
            answers: vec![None; shards],
            hosts,
            started: now,
        }
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// A shard answered. Answers about other plans are late and mean nothing.
    pub fn prepared(&mut self, shard: ShardId, generation: Generation, result: Prepared) {
        if generation == self.generation
            && let Some(answer) = self.answers.get_mut(usize::from(shard.0))
        {
            *answer = Some(result);
        }
    }

    /// A host name was resolved, or could not be: either way it is not waited for any more.
    pub fn host_answered(&mut self, host: &str) {
        self.hosts.remove(host);
    }

    /// What the answers so far amount to. All shards are waited for even when one has refused, so that none is
    /// told to forget a plan it is still working on.
    pub fn verdict(&self, now: Instant) -> Verdict {
        let waited = now.saturating_duration_since(self.started);
        let late: Vec<ShardId> = (0u16..)
            .zip(&self.answers)
            .filter(|(_, answer)| answer.is_none())
            .map(|(id, _)| ShardId(id))
            .collect();
        if !late.is_empty() {
            return match waited < PREPARE_MAX {
                true => Verdict::Waiting,
                false => Verdict::Refused(Refusal::TimedOut(late)),
            };
        }
        let mut bound: Vec<(ListenerId, SocketAddr)> = Vec::new();
        let mut refused: Vec<String> = Vec::new();
        for answer in self.answers.iter().flatten() {
            match answer {
                Ok(addresses) => bound.extend(
                    addresses
                        .iter()
                        .filter(|new| {
                            // Every shard listens on the same addresses.
                            !bound.contains(new)
                        })
                        .copied()
                        .collect::<Vec<_>>(),
                ),
                // All shards fail for the same reason, as a rule; it is said once.
                Err(why) if !refused.contains(why) => refused.push(why.clone()),
                Err(_) => {}
            }
        }
        if !refused.is_empty() {
            return Verdict::Refused(Refusal::NotPrepared(refused));
        }
        match self.hosts.is_empty() || waited >= RESOLVE_MAX {
            true => Verdict::Ready(bound),
            false => Verdict::Waiting,
        }
    }

    /// When the verdict may change without an answer.
    pub fn next_deadline(&self) -> Instant {
        match self.answers.iter().any(Option::is_none) {
            true => self.started + PREPARE_MAX,
            false => self.started + RESOLVE_MAX,
        }
    }
}

/// Spaces reload attempts.
#[derive(Debug, Default)]
pub struct Gate {
    last: Option<Instant>,
}

impl Gate {
    /// When an attempt may be made, if not now.
    pub fn closed_until(&self, limit: Duration, now: Instant) -> Option<Instant> {
        let open = self.last? + limit;
        (open > now).then_some(open)
    }

    /// An attempt is made.
    pub fn pass(&mut self, now: Instant) {
        self.last = Some(now);
    }
}

/// Counts of reloads, for the metrics.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Whether the last attempt succeeded; `None` before the first.
    pub last_successful: Option<bool>,
    /// When one last succeeded.
    pub last_success: Option<SystemTime>,
    /// Attempts that succeeded.
    pub successes: u64,
    /// Attempts that did not.
    pub failures: u64,
    /// How long attempts took; the last count is above all bounds.
    pub duration_buckets: [u64; DURATION_BUCKETS_S.len() + 1],
    /// Sum of those.
    pub duration_sum_s: f64,
}

impl Tally {
    /// Counts one attempt.
    pub fn count(&mut self, succeeded: bool, took: Duration, at: SystemTime) {
        self.last_successful = Some(succeeded);
        if succeeded {
            self.last_success = Some(at);
            self.successes += 1;
        } else {
            self.failures += 1;
        }
        let seconds = took.as_secs_f64();
        let bucket = DURATION_BUCKETS_S
            .iter()
            .position(|bound| seconds <= *bound);
        self.duration_buckets[bucket.unwrap_or(DURATION_BUCKETS_S.len())] += 1;
        self.duration_sum_s += seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> (ListenerId, SocketAddr) {
        (ListenerId(0), SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn hosts(names: &[&str]) -> BTreeSet<Box<str>> {
        names.iter().map(|name| (*name).into()).collect()
    }

    const PLAN: Generation = Generation(4);

    #[test]
    fn all_shards_must_be_ready() {
        let now = Instant::now();
        let mut preparation = Preparation::new(PLAN, 2, hosts(&[]), now);
        preparation.prepared(ShardId(0), PLAN, Ok(vec![address(80)]));
        assert_eq!(preparation.verdict(now), Verdict::Waiting);
        preparation.prepared(ShardId(1), PLAN, Ok(vec![address(80)]));
        assert_eq!(preparation.verdict(now), Verdict::Ready(vec![address(80)]));
    }

    #[test]
    fn one_refusal_refuses_but_only_when_all_have_answered() {
        let now = Instant::now();
        let mut preparation = Preparation::new(PLAN, 3, hosts(&[]), now);
        preparation.prepared(ShardId(0), PLAN, Err("port 80 is in use".into()));
        assert_eq!(preparation.verdict(now), Verdict::Waiting);
        preparation.prepared(ShardId(1), PLAN, Ok(vec![]));
        preparation.prepared(ShardId(2), PLAN, Err("port 80 is in use".into()));
        assert_eq!(
            preparation.verdict(now),
            Verdict::Refused(Refusal::NotPrepared(vec!["port 80 is in use".into()]))
        );
    }

    #[test]
    fn answers_about_another_plan_and_of_unknown_shards_do_not_count() {
        let now = Instant::now();
        let mut preparation = Preparation::new(PLAN, 1, hosts(&[]), now);
        preparation.prepared(ShardId(0), Generation(3), Err("old".into()));
        preparation.prepared(ShardId(7), PLAN, Err("who".into()));
        assert_eq!(preparation.verdict(now), Verdict::Waiting);
    }

    #[test]
    fn silent_shards_end_the_wait() {
        let now = Instant::now();
        let mut preparation = Preparation::new(PLAN, 2, hosts(&[]), now);
        preparation.prepared(ShardId(0), PLAN, Ok(vec![]));
        let end = preparation.next_deadline();
        assert_eq!(
            preparation.verdict(end - Duration::from_millis(1)),
            Verdict::Waiting
        );
        assert_eq!(
            preparation.verdict(end),
            Verdict::Refused(Refusal::TimedOut(vec![ShardId(1)]))
        );
    }

    #[test]
    fn host_names_are_waited_for_but_not_for_ever() {
        let now = Instant::now();
        let mut preparation = Preparation::new(PLAN, 1, hosts(&["a", "b"]), now);
        preparation.prepared(ShardId(0), PLAN, Ok(vec![]));
        preparation.host_answered("a");
        assert_eq!(preparation.verdict(now), Verdict::Waiting);
        let end = preparation.next_deadline();
        assert_eq!(preparation.verdict(end), Verdict::Ready(vec![]));
        preparation.host_answered("b");
        assert_eq!(preparation.verdict(now), Verdict::Ready(vec![]));
    }

    #[test]
    fn the_gate_spaces_attempts() {
        let now = Instant::now();
        let limit = Duration::from_secs(3);
        let mut gate = Gate::default();
        assert_eq!(gate.closed_until(limit, now), None);
        gate.pass(now);
        assert_eq!(gate.closed_until(limit, now), Some(now + limit));
        assert_eq!(gate.closed_until(limit, now + limit), None);
        assert_eq!(gate.closed_until(Duration::ZERO, now), None);
    }

    #[test]
    fn attempts_are_counted() {
        let mut tally = Tally::default();
        let at = SystemTime::UNIX_EPOCH;
        tally.count(true, Duration::from_millis(60), at);
        tally.count(false, Duration::from_secs(30), at);
        assert_eq!((tally.successes, tally.failures), (1, 1));
        assert_eq!(tally.last_successful, Some(false));
        assert_eq!(tally.last_success, Some(at));
        assert_eq!(tally.duration_buckets, [0, 1, 0, 0, 0, 0, 0, 1]);
    }
}
