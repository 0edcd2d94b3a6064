//! Host names that rewriters make of what clients send, looked up for the shards that ask.
//!
//! A shard asks with a [`Lookup`] and is answered by a [`Found`]. Questions go the way of `discovery::dns`, to the
//! system's resolver; answers are kept for all shards, so that a name costs one question, not one for each. When their
//! time is over and the name is in use, nobody waits: the last addresses serve until the resolver has answered. One that
//! does not answer takes no name away, they stay until it says that there are none. Clients choose these names: what
//! is no host name is not asked for, and failures are told once a second. Bounds:
//! [`LOOKUPS_AT_ONCE`] questions, [`LOOKUPS_WAITING_MAX`] that wait, none of them longer than [`dns::LOOKUP_MAX`];
//! [`NAMES_MAX`] names kept, [`ADDRESSES_MAX`] addresses of each. What does not fit is answered at once that nobody
//! looked. Called by `control::run`.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_shards::limits::{LOOKUPS_MAX, STALE_MAX};
use ringway_shards::link::{Found, Lookup, ShardId};
use ringway_shards::names::Names;
use tokio::sync::mpsc;

use crate::config::origin_url::check_host_name;
use crate::discovery::dns::{self, Failure, SystemResolver};

/// Questions that run at one time.
pub const LOOKUPS_AT_ONCE: usize = 32;
/// Questions that wait for their turn.
pub const LOOKUPS_WAITING_MAX: usize = 512;
/// Names kept with addresses, and as many that have none.
pub const NAMES_MAX: usize = 4096;
/// Most addresses of one name; the others are left out.
pub const ADDRESSES_MAX: usize = 16;
/// Shortest and longest time that addresses are kept, whatever their time to live.
pub const KEPT: [Duration; 2] = [Duration::from_secs(5), dns::REFRESH_MAX];
/// How long nobody asks again for a name that has no addresses, or that the resolver did not answer for.
pub const NOTHING_KEPT: Duration = Duration::from_secs(5);
/// How long a shard keeps such ones.
pub const STALE_KEPT: Duration = Duration::from_secs(1);
/// Why nobody is asked for a name.
const TOO_MANY: &str = "too many others are asked for";
/// Least time between two lines in the log.
const SAY_EVERY: Duration = Duration::from_secs(1);

// One shard alone does not fill the queue.
const _: () = assert!(LOOKUPS_MAX < LOOKUPS_WAITING_MAX);

/// An answer to a shard.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who asked.
    pub shard: ShardId,
    /// As what.
    pub token: u64,
    /// What was found.
    pub found: Found,
}

/// A question that has ended.
pub struct Done {
    host: Box<str>,
    result: Result<dns::Found, Failure>,
}

/// Counts since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Questions that found addresses.
    pub ok: u64,
    /// Questions that found none.
    pub failed: u64,
    /// Names nobody asked for: there was no room, or they are no host names.
    pub refused: u64,
}

/// Questions that run and wait, and what came out of others.
pub struct Lookups {
    resolver: SystemResolver,
    began: Instant,
    names: Names,
    /// Who waits, by name: of questions that run and of those that do not yet.
    asked: HashMap<Box<str>, Vec<(ShardId, u64)>>,
    waiting: VecDeque<(Box<str>, Instant)>,
    running: usize,
    done: mpsc::Sender<Done>,
    tally: Tally,
    said: Option<Instant>,
    unsaid: u64,
}

impl Lookups {
    /// Nothing to do yet; what has ended comes out of the queue and is to be given to [`Lookups::end`].
    pub fn new() -> (Lookups, mpsc::Receiver<Done>) {
        let (done, ended) = mpsc::channel(LOOKUPS_AT_ONCE);
        let lookups = Lookups {
            resolver: SystemResolver::new(),
            began: Instant::now(),
            names: Names::new(NAMES_MAX),
            asked: HashMap::new(),
            waiting: VecDeque::new(),
            running: 0,
            done,
            tally: Tally::default(),
            said: None,
            unsaid: 0,
        };
        (lookups, ended)
    }

    /// Takes on a lookup, or answers it at once.
    pub fn begin(&mut self, shard: ShardId, lookup: Lookup, now: Instant) -> Option<Answer> {
        let Lookup {
            token,
            host,
            known_alone,
        } = lookup;
        let answer = |found| {
            Some(Answer {
                shard,
                token,
                found,
            })
        };
        if let Err(reason) = check_host_name(&host) {
            self.tally.refused += 1;
            self.say(&host, &reason, now);
            return answer(nobody_looked());
        }
        if let Some((addresses, left_ms)) = self.names.get(&host, self.ms(now)) {
            let valid_for = Duration::from_millis(left_ms);
            return answer(Found {
                addresses,
                valid_for,
            });
        }
        let since_ms = self.ms(now).saturating_sub(millis(STALE_MAX));
        if let Some(addresses) = self.names.last(&host, since_ms) {
            self.ask(host, None, now);
            let valid_for = STALE_KEPT;
            return answer(Found {
                addresses,
                valid_for,
            });
        }
        if known_alone {
            self.tally.refused += 1;
            self.say(&host, TOO_MANY, now);
            return answer(nobody_looked());
        }
        match self.ask(host, Some((shard, token)), now) {
            true => None,
            false => answer(nobody_looked()),
        }
    }

    /// A question has ended, the next one begins; what is to be answered now.
    pub fn end(&mut self, done: Done, now: Instant) -> Vec<Answer> {
        debug_assert!(self.running > 0, "only what runs can end");
        self.running = self.running.saturating_sub(1);
        let Done { host, result } = done;
        let found = self.found(&host, result, now);
        let mut answers = self.answers(&host, &found);
        while self.running < LOOKUPS_AT_ONCE
            && let Some((host, since)) = self.waiting.pop_front()
        {
            // Whoever asked for it has gone by now.
            if now.saturating_duration_since(since) > dns::LOOKUP_MAX {
                self.tally.refused += 1;
                answers.extend(self.answers(&host, &nobody_looked()));
            } else {
                self.start(host);
            }
        }
        answers
    }

    /// Counts since start.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Has a question asked, for somebody or for all; false when there is no room.
    fn ask(&mut self, host: Box<str>, who: Option<(ShardId, u64)>, now: Instant) -> bool {
        if let Some(waiting) = self.asked.get_mut(&host) {
            waiting.extend(who);
            return true;
        }
        let is_full = self.running >= LOOKUPS_AT_ONCE;
        if is_full && self.waiting.len() >= LOOKUPS_WAITING_MAX {
            self.tally.refused += 1;
            self.say(&host, TOO_MANY, now);
            return false;
        }
        let is_in_use = who.is_none();
        self.asked.insert(host.clone(), who.into_iter().collect());
        match is_full {
            // Names in use come first: nobody waits for them, but for a while only.
            true if is_in_use => self.waiting.push_front((host, now)),
            true => self.waiting.push_back((host, now)),
            false => self.start(host),
        }
        true
    }

    fn start(&mut self, host: Box<str>) {
        self.running += 1;
        let resolver = self.resolver.current();
        let done = self.done.clone();
        tokio::spawn(async move {
            let name = host.clone();
            let asking = tokio::spawn(async move { dns::look_up(&resolver, &name).await });
            // A panic must not cost one of the few places.
            let result = asking.await.unwrap_or_else(|error| {
                let reason = format!("the question panicked: {error}");
                Err(Failure::Unanswered(reason))
            });
            // Only a loop that has ended does not listen.
            let _ = done.send(Done { host, result }).await;
        });
    }

    /// What is known now, and kept.
    fn found(&mut self, host: &str, result: Result<dns::Found, Failure>, now: Instant) -> Found {
        let found = match result {
            Ok(found) => {
                self.tally.ok += 1;
                let [min, max] = KEPT;
                Found {
                    addresses: first_few(found.addresses),
                    valid_for: found.valid_for.clamp(min, max),
                }
            }
            Err(failure) => {
                self.tally.failed += 1;
                self.say(host, &failure.to_string(), now);
                let last = match failure {
                    Failure::Nothing(_) => None,
                    Failure::Unanswered(_) => self.names.last(host, 0),
                };
                Found {
                    addresses: last.unwrap_or_default(),
                    valid_for: NOTHING_KEPT,
                }
            }
        };
        let times = (self.ms(now), millis(found.valid_for));
        self.names.put(host, found.addresses.clone(), times);
        found
    }

    fn answers(&mut self, host: &str, found: &Found) -> Vec<Answer> {
        let who = self.asked.remove(host).unwrap_or_default();
        let answer = |(shard, token)| Answer {
            shard,
            token,
            found: found.clone(),
        };
        who.into_iter().map(answer).collect()
    }

    /// Tells the operator of a failure, or only counts it for the next time.
    fn say(&mut self, host: &str, error: &str, now: Instant) {
        let is_soon = |said: Instant| now.saturating_duration_since(said) < SAY_EVERY;
        if self.said.is_some_and(is_soon) {
            self.unsaid += 1;
            return;
        }
        self.said = Some(now);
        let others = std::mem::take(&mut self.unsaid);
        tracing::warn!(
            host = %host.escape_default(),
            error = %error.escape_default(),
            others,
            "no address of a host that a rewriter made"
        );
    }

    fn ms(&self, now: Instant) -> u64 {
        millis(now.saturating_duration_since(self.began))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn nobody_looked() -> Found {
    Found {
        addresses: Arc::default(),
        valid_for: Duration::ZERO,
    }
}

/// Each once.
fn first_few(addresses: Vec<IpAddr>) -> Arc<[IpAddr]> {
    let mut few: Vec<IpAddr> = Vec::new();
    for address in addresses {
        if few.len() < ADDRESSES_MAX && !few.contains(&address) {
            few.push(address);
        }
    }
    few.into()
}

#[cfg(test)]
mod tests;
