//! Resolves host names and keeps them resolved.
//!
//! One task asks for every wanted host when its last answer's time to live is over, and reports each answer
//! or failure to the control core, which keeps the last good addresses. [`Schedule`] says what is due, without
//! a clock; `hickory-resolver` asks, through the system's resolver configuration and hosts file. Bounds:
//! [`REFRESH_MIN`] and [`REFRESH_MAX`] around any time to live, [`LOOKUP_MAX`] for one question,
//! [`LOOKUPS_AT_ONCE`] questions at once. `control::lookups` asks the same way for single names.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Shortest time between two questions for one host.
pub const REFRESH_MIN: Duration = Duration::from_secs(1);
/// Longest time an answer is used before it is asked for again; the hosts file has no time to live.
pub const REFRESH_MAX: Duration = Duration::from_secs(300);
/// Longest wait after a failure; the first is [`REFRESH_MIN`], each further one twice the one before.
pub const RETRY_MAX: Duration = Duration::from_secs(30);
/// Limit of one question, its repeats included.
pub const LOOKUP_MAX: Duration = Duration::from_secs(10);
/// Questions that run at once.
pub const LOOKUPS_AT_ONCE: usize = 32;
const _: () = assert!(REFRESH_MIN.as_millis() < RETRY_MAX.as_millis());
const _: () = assert!(RETRY_MAX.as_millis() < REFRESH_MAX.as_millis());

const SYSTEM_FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// What became of one question.
#[derive(Debug)]
pub struct Answer {
    /// The host asked for.
    pub host: Box<str>,
    /// Its addresses, IPv4 first, or why there are none.
    pub result: Result<Vec<IpAddr>, String>,
}

/// Starts the resolving task; it ends when `wanted` does.
pub fn spawn(wanted: watch::Receiver<Vec<Box<str>>>, answers: mpsc::Sender<Answer>) {
    tokio::spawn(run(wanted, answers));
}

async fn run(mut wanted: watch::Receiver<Vec<Box<str>>>, answers: mpsc::Sender<Answer>) {
    let mut schedule = Schedule::default();
    let mut resolver = SystemResolver::new();
    let mut questions: JoinSet<(Box<str>, Result<Found, Failure>)> = JoinSet::new();
    schedule.want(&wanted.borrow_and_update().clone(), Instant::now());
    loop {
        let room = LOOKUPS_AT_ONCE - questions.len();
        for host in schedule.take_due(Instant::now(), room) {
            let resolver = resolver.current();
            questions.spawn(async move {
                let found = look_up(&resolver, &host).await;
                (host, found)
            });
        }
        let next_due = match questions.len() < LOOKUPS_AT_ONCE {
            true => schedule.next_due(),
            false => None,
        };
        tokio::select! {
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                schedule.want(&wanted.borrow_and_update().clone(), Instant::now());
            }
            Some(Ok((host, found))) = questions.join_next() => {
                let now = Instant::now();
                match &found {
                    Ok(found) => schedule.answered(&host, found.valid_for, now),
                    Err(_) => schedule.failed(&host, now),
                }
                let result = found.map(|found| found.addresses);
                let result = result.map_err(|failure| failure.to_string());
                if answers.send(Answer { host, result }).await.is_err() {
                    return;
                }
            }
            () = sleep_until(next_due) => {}
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Where a host is.
pub(crate) struct Found {
    /// Its addresses, IPv4 first; at least one.
    pub(crate) addresses: Vec<IpAddr>,
    /// What is left of their time to live.
    pub(crate) valid_for: Duration,
}

/// Why there are no addresses.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The question was answered: there are none.
    #[error("{0}")]
    Nothing(String),
    /// It was not.
    #[error("{0}")]
    Unanswered(String),
}

/// Asks for the addresses of a host, once.
pub(crate) async fn look_up(resolver: &TokioResolver, host: &str) -> Result<Found, Failure> {
    let asked = timeout(LOOKUP_MAX, resolver.lookup_ip(host)).await;
    let answered =
        asked.map_err(|_| Failure::Unanswered(format!("no answer within {LOOKUP_MAX:?}")))?;
    let found = answered.map_err(|error| match error.is_no_records_found() {
        true => Failure::Nothing(error.to_string()),
        false => Failure::Unanswered(error.to_string()),
    })?;
    let mut addresses: Vec<IpAddr> = found.iter().collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    if addresses.is_empty() {
        return Err(Failure::Nothing("no addresses".to_owned()));
    }
    Ok(Found {
        addresses,
        valid_for: found
            .valid_until()
            .saturating_duration_since(Instant::now()),
    })
}

/// The system's resolver, made again when its files change.
pub(crate) struct SystemResolver {
    resolver: TokioResolver,
    modified: [Option<SystemTime>; 2],
}

impl SystemResolver {
    pub(crate) fn new() -> Self {
        SystemResolver {
            modified: modification_times(),
            resolver: system_resolver(),
        }
    }

    /// The resolver for the next question.
    pub(crate) fn current(&mut self) -> TokioResolver {
        let modified = modification_times();
        if modified != self.modified {
            self.resolver = system_resolver();
            self.modified = modified;
        }
        self.resolver.clone()
    }
}

fn modification_times() -> [Option<SystemTime>; 2] {
    SYSTEM_FILES.map(|file| {
        std::fs::metadata(file)
            .and_then(|meta| meta.modified())
            .ok()
    })
}

fn system_resolver() -> TokioResolver {
    // Without a resolver configuration the hosts file still answers.
    let build = |use_system: bool| {
        let mut builder = match use_system {
            true => TokioResolver::builder_tokio()?,
            false => TokioResolver::builder_with_config(
                ResolverConfig::from_parts(None, Vec::new(), Vec::new()),
                TokioRuntimeProvider::default(),
            ),
        };
        let options = builder.options_mut();
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // The schedule asks when an answer is stale: a cache below it could only delay that.
        options.cache_size = 0;
        builder.build()
    };
    build(true)
        .or_else(|_| build(false))
        .expect("a resolver without servers needs nothing that can fail")
}

/// When which host is to be asked for.
#[derive(Debug, Default)]
pub struct Schedule {
    hosts: BTreeMap<Box<str>, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// `None` while a question runs.
    due: Option<Instant>,
    failures: u32,
}

impl Schedule {
    /// From now on just these hosts: new ones are due at once, others forgotten.
    pub fn want(&mut self, hosts: &[Box<str>], now: Instant) {
        self.hosts.retain(|host, _| hosts.contains(host));
        for host in hosts {
            self.hosts.entry(host.clone()).or_insert(Entry {
                due: Some(now),
                failures: 0,
            });
        }
    }

    /// At most `room` hosts that are due; they count as being asked for.
    pub fn take_due(&mut self, now: Instant, room: usize) -> Vec<Box<str>> {
        let due = self
            .hosts
            .iter_mut()
            .filter(|(_, entry)| entry.due.is_some_and(|due| due <= now));
        due.take(room)
            .map(|(host, entry)| {
                entry.due = None;
                host.clone()
            })
            .collect()
    }

    /// The host has an answer that is good for `valid_for`.
    pub fn answered(&mut self, host: &str, valid_for: Duration, now: Instant) {
        if let Some(entry) = self.hosts.get_mut(host) {
            entry.failures = 0;
            entry.due = Some(now + valid_for.clamp(REFRESH_MIN, REFRESH_MAX));
        }
    }

    /// The host has none.
    pub fn failed(&mut self, host: &str, now: Instant) {
        if let Some(entry) = self.hosts.get_mut(host) {
            let wait = REFRESH_MIN * (1 << entry.failures.min(16));
            entry.failures = entry.failures.saturating_add(1);
            entry.due = Some(now + wait.min(RETRY_MAX));
        }
    }

    /// When the next host is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.hosts.values().filter_map(|entry| entry.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn hosts(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|name| (*name).into()).collect()
    }

    #[test]
    fn new_hosts_are_due_at_once_and_only_once() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.want(&hosts(&["a", "b"]), now);
        assert_eq!(schedule.take_due(now, 9), hosts(&["a", "b"]));
        assert_eq!(schedule.take_due(now, 9), hosts(&[]));
        assert_eq!(schedule.next_due(), None);
    }

    #[test]
    fn no_more_than_the_room_is_taken() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.want(&hosts(&["a", "b", "c"]), now);
        assert_eq!(schedule.take_due(now, 2).len(), 2);
        assert_eq!(schedule.take_due(now, 2).len(), 1);
    }

    #[test]
    fn the_time_to_live_is_followed_within_its_bounds() {
        let now = Instant::now();
        for (ttl, wait) in [
            (0, REFRESH_MIN),
            (1, secs(1)),
            (60, secs(60)),
            (300, secs(300)),
            (86_400, REFRESH_MAX),
        ] {
            let mut schedule = Schedule::default();
            schedule.want(&hosts(&["a"]), now);
            schedule.take_due(now, 1);
            schedule.answered("a", secs(ttl), now);
            assert_eq!(schedule.next_due(), Some(now + wait), "ttl {ttl}");
            let before = now + wait - Duration::from_millis(1);
            assert!(schedule.take_due(before, 1).is_empty(), "ttl {ttl}");
            assert_eq!(schedule.take_due(now + wait, 1).len(), 1, "ttl {ttl}");
        }
    }

    #[test]
    fn failures_back_off_and_an_answer_resets_them() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.want(&hosts(&["a"]), now);
        for wait in [1, 2, 4, 8, 16, 30, 30] {
            schedule.failed("a", now);
            assert_eq!(schedule.next_due(), Some(now + secs(wait)));
        }
        schedule.answered("a", secs(5), now);
        schedule.failed("a", now);
        assert_eq!(schedule.next_due(), Some(now + secs(1)));
    }

    #[test]
    fn hosts_no_longer_wanted_are_forgotten_even_while_asked_for() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.want(&hosts(&["a", "b"]), now);
        schedule.take_due(now, 2);
        schedule.want(&hosts(&["b"]), now);
        schedule.answered("a", secs(5), now);
        assert_eq!(schedule.next_due(), None);
    }

    #[tokio::test]
    async fn localhost_is_found_in_the_hosts_file() {
        let (wanted, watcher) = watch::channel(hosts(&["localhost"]));
        let (sender, mut answers) = mpsc::channel(4);
        spawn(watcher, sender);
        let answer = timeout(secs(20), answers.recv()).await.unwrap().unwrap();
        assert_eq!(&*answer.host, "localhost");
        let addresses = answer.result.unwrap();
        assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
        drop(wanted);
    }
}
