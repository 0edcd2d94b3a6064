//! Members left out of a pool for failures of their connections, which no probe has seen yet.
//!
//! Owns, for each pool with a rule, how many exchanges with each member failed below HTTP in a row, who is out and
//! until when. Pure: times come with the calls. Called by `control::state`, which publishes what changes. Promises:
//! a pool keeps the larger half of its members, and its last one, whatever fails; a member comes back when its
//! time is up, when a probe that began after it left has passed, or when its pool would get too small without it.
//! Bounds: a member that is ejected over and over stays out at most [`REPEATS_MAX`] times as long as the first
//! time. Contract: ALB page, 4, beyond.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use ringway_shards::plan::{BackendId, Plan, PoolId};

/// Longest absence, in times of [`Rule::time`]. A member that has stayed in for as long begins anew.
pub const REPEATS_MAX: u32 = 5;

/// When a pool leaves a member out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Failures in a row, over all shards, that it takes; at least 1.
    pub consecutive_failures: u32,
    /// How long the member stays out the first time.
    pub time: Duration,
}

/// A member left, or came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Of which pool.
    pub pool: PoolId,
    /// Who.
    pub member: BackendId,
    /// What happened.
    pub what: What,
}

/// See [`Change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It gets no requests for this long.
    Ejected {
        /// Failures in a row until then.
        failures: u32,
        /// At most so long.
        time: Duration,
    },
    /// It gets requests again.
    Returned(Why),
}

/// Why a member came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its time is up.
    TimeIsUp,
    /// A probe passed.
    ProbePassed,
    /// Too many other members of the pool are down.
    PoolTooSmall,
}

/// One member of a pool with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The ALB that owns the pool.
    pub alb: &'a str,
    /// The member.
    pub member: &'a str,
    /// Whether it is left out now.
    pub is_out: bool,
    /// How often it was, since the process began.
    pub ejections: u64,
}

/// Who is live by health, whatever is ejected: of this pool, this member.
pub type ByHealth<'a> = &'a dyn Fn(PoolId, BackendId) -> bool;

/// All pools with a rule.
#[derive(Debug, Default)]
pub struct Ejections {
    pools: Vec<PoolRecord>,
}

#[derive(Debug)]
struct PoolRecord {
    id: PoolId,
    alb: Box<str>,
    rule: Rule,
    /// Each once, in configured order.
    members: Vec<Member>,
}

#[derive(Clone, Debug)]
struct Member {
    id: BackendId,
    name: Box<str>,
    /// In a row, while it is in.
    failures: u32,
    out: Option<Absence>,
    /// How often it was ejected without a long stay between.
    repeats: u32,
    returned: Option<Instant>,
    ejections: u64,
}

#[derive(Clone, Copy, Debug)]
struct Absence {
    since: Instant,
    until: Instant,
}

impl Ejections {
    /// Goes over to another plan with these rules by pool; what is known stays by the names of ALB and member.
    pub fn adopt(&mut self, plan: &Plan, rules: &[(PoolId, Rule)]) {
        let before = std::mem::take(&mut self.pools);
        for (id, rule) in rules {
            let Some(pool) = plan.pools.get(id.0 as usize) else {
                continue;
            };
            let known = before.iter().find(|record| record.alb == pool.alb_name);
            let known: HashMap<&str, &Member> = known
                .iter()
                .flat_map(|record| &record.members)
                .map(|member| (&*member.name, member))
                .collect();
            let mut members: Vec<Member> = Vec::new();
            let mut listed: HashSet<BackendId> = HashSet::new();
            for entry in &pool.members {
                if !listed.insert(entry.backend) {
                    continue;
                }
                let name = &plan.backend(entry.backend).name;
                members.push(match known.get(&**name) {
                    Some(member) => Member {
                        id: entry.backend,
                        ..(*member).clone()
                    },
                    None => Member::new(entry.backend, name),
                });
            }
            self.pools.push(PoolRecord {
                id: *id,
                alb: pool.alb_name.clone(),
                rule: *rule,
                members,
            });
        }
    }

    /// Goes over to the same plan with other members.
    pub fn members(&mut self, plan: &Plan) {
        let rules: Vec<(PoolId, Rule)> =
            self.pools.iter().map(|pool| (pool.id, pool.rule)).collect();
        self.adopt(plan, &rules);
    }

    /// Exchanges with `backend` failed; `answered` says that it had answered before those and after what was
    /// told of it last.
    pub fn failed(
        &mut self,
        backend: BackendId,
        answered: bool,
        failures: u32,
        now: Instant,
        live: ByHealth<'_>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for pool in &mut self.pools {
            if let Some(change) = pool.failed(backend, answered, failures, now, live) {
                changes.push(change);
            }
        }
        changes
    }

    /// A probe of `backend` that began then has passed.
    pub fn probe_passed(&mut self, backend: BackendId, began: Instant) -> Vec<Change> {
        // A probe from before says nothing of what failed since.
        self.bring_back(began, Why::ProbePassed, |member, out| {
            member == backend && began >= out.since
        })
    }

    /// Brings back those whose time is up.
    pub fn time_passed(&mut self, now: Instant) -> Vec<Change> {
        self.bring_back(now, Why::TimeIsUp, |_, out| out.until <= now)
    }

    /// Brings members back to pools that lost others; those first whose time is up first.
    pub fn keep_halves(&mut self, live: ByHealth<'_>) -> Vec<Change> {
        let mut changes = Vec::new();
        for pool in &mut self.pools {
            while pool.inside(live) < pool.inside_min() {
                let missed = |member: &&mut Member| live(pool.id, member.id);
                let outside = pool
                    .members
                    .iter_mut()
                    .filter(|member| member.out.is_some());
                let next = outside
                    .filter(missed)
                    .min_by_key(|member| member.out.map(|out| out.until));
                let Some(member) = next else { break };
                // As if it had come back when its time was up.
                let until = member.out.map(|out| out.until);
                member.come_back(until);
                changes.push(Change {
                    pool: pool.id,
                    member: member.id,
                    what: What::Returned(Why::PoolTooSmall),
                });
            }
        }
        changes
    }

    /// Whether this pool leaves this member out.
    pub fn is_out(&self, pool: PoolId, member: BackendId) -> bool {
        let pool = self.pools.iter().find(|record| record.id == pool);
        let mut members = pool.into_iter().flat_map(|record| &record.members);
        members.any(|other| other.id == member && other.out.is_some())
    }

    /// When the next member is to come back.
    pub fn next_return(&self) -> Option<Instant> {
        let members = self.pools.iter().flat_map(|pool| &pool.members);
        members.filter_map(|member| Some(member.out?.until)).min()
    }

    /// Every member of every pool with a rule.
    pub fn standings(&self) -> impl Iterator<Item = Standing<'_>> {
        self.pools.iter().flat_map(|pool| {
            pool.members.iter().map(|member| Standing {
                alb: &pool.alb,
                member: &member.name,
                is_out: member.out.is_some(),
                ejections: member.ejections,
            })
        })
    }

    fn bring_back(
        &mut self,
        at: Instant,
        why: Why,
        may: impl Fn(BackendId, Absence) -> bool,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for pool in &mut self.pools {
            for member in &mut pool.members {
                if member.out.is_some_and(|out| may(member.id, out)) {
                    member.come_back(Some(at));
                    changes.push(Change {
                        pool: pool.id,
                        member: member.id,
                        what: What::Returned(why),
                    });
                }
            }
        }
        changes
    }
}

impl PoolRecord {
    fn failed(
        &mut self,
        backend: BackendId,
        answered: bool,
        failures: u32,
        now: Instant,
        live: ByHealth<'_>,
    ) -> Option<Change> {
        let (inside, inside_min) = (self.inside(live), self.inside_min());
        let (id, rule) = (self.id, self.rule);
        let member = self.members.iter_mut().find(|m| m.id == backend)?;
        if member.out.is_some() {
            // Requests from before it left.
            return None;
        }
        if answered {
            member.failures = 0;
        }
        member.failures = member.failures.saturating_add(failures);
        let is_enough = member.failures >= rule.consecutive_failures;
        if !is_enough || !live(id, backend) || inside <= inside_min {
            return None;
        }
        Some(Change {
            pool: id,
            member: backend,
            what: member.leave(rule, now),
        })
    }

    /// Members that get requests.
    fn inside(&self, live: ByHealth<'_>) -> usize {
        let inside = |member: &&Member| member.out.is_none() && live(self.id, member.id);
        self.members.iter().filter(inside).count()
    }

    /// So many must get requests, as far as health lets them.
    fn inside_min(&self) -> usize {
        self.members.len().div_ceil(2)
    }
}

impl Member {
    fn new(id: BackendId, name: &str) -> Self {
        Member {
            id,
            name: name.into(),
            failures: 0,
            out: None,
            repeats: 0,
            returned: None,
            ejections: 0,
        }
    }

    fn leave(&mut self, rule: Rule, now: Instant) -> What {
        let long = rule.time * REPEATS_MAX;
        let stayed = |since: Instant| now.saturating_duration_since(since);
        if self.returned.is_some_and(|since| stayed(since) >= long) {
            self.repeats = 0;
        }
        self.repeats = (self.repeats + 1).min(REPEATS_MAX);
        self.ejections += 1;
        let time = rule.time * self.repeats;
        self.out = Some(Absence {
            since: now,
            until: now + time,
        });
        let failures = std::mem::take(&mut self.failures);
        What::Ejected { failures, time }
    }

    fn come_back(&mut self, at: Option<Instant>) {
        self.out = None;
        self.failures = 0;
        self.returned = at;
    }
}

#[cfg(test)]
mod tests;
