//! Every changing fact, and what follows from a change: `(&mut State, Event) -> Vec<Action>`.
//!
//! Owns the served plan, the health of each backend, whom pools leave out, the addresses of each host and the
//! rotation of each pool. No I/O and no clock: times are part of events. `control::run` gathers the events and performs the
//! actions; the health page and the metrics read the same state. Promises: one change makes at most one new
//! table, and what did not change makes none.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ringway_shards::plan::{Alb, Backend, BackendId, BackendKind, Plan, PoolId};
use ringway_shards::snapshot::{Health, PoolTable};
use ringway_shards::tally::Tally;

use super::ejection::{Change, Ejections, Rule, What, Why};
use super::publish::{self, Facts};
use crate::health::{Flip, Outcome, Record, Standing, Thresholds};

/// Tells probe tasks apart; a result of a task that was replaced is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeId(pub u64);

/// Who probes a backend, and how its results count.
#[derive(Clone, Copy, Debug)]
pub struct Probed {
    /// The task whose results count.
    pub probe: ProbeId,
    /// How they count.
    pub thresholds: Thresholds,
}

/// Backends whose probes begin.
pub type Started = Vec<(Box<str>, Probed)>;

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Every shard has prepared this plan; it is to be served now.
    Adopted {
        /// The plan.
        plan: Arc<Plan>,
        /// Probed backends by name.
        probes: HashMap<Box<str>, Probed>,
        /// When pools leave members out; the others never do.
        ejection: Vec<(PoolId, Rule)>,
        /// What sources say, by backend; all discovered ones.
        standings: HashMap<Box<str>, Standing>,
        /// When.
        at: SystemTime,
    },
    /// Discovery found other members; the plan in use is to be served with them.
    Members {
        /// The plan in use with the members of now.
        plan: Arc<Plan>,
        /// Probed backends that are new, or whose prober is.
        started: Started,
        /// Backends that are probed no more.
        stopped: Vec<Box<str>>,
        /// What sources say, by backend; all discovered ones.
        standings: HashMap<Box<str>, Standing>,
        /// When.
        at: SystemTime,
    },
    /// Exchanges of a shard with an origin failed below HTTP.
    Unreached {
        /// The backend.
        backend: Box<str>,
        /// Whether it had answered that shard before those, after what was reported last.
        answered: bool,
        /// So many in a row since.
        failures: u32,
        /// When, on the clock that never turns back.
        now: Instant,
        /// The same on the wall.
        at: SystemTime,
    },
    /// A member may have been left out for long enough.
    Due {
        /// When, on the clock that never turns back.
        now: Instant,
        /// The same on the wall.
        at: SystemTime,
    },
    /// A probe ended.
    Probed {
        /// The backend probed.
        backend: Box<str>,
        /// By whom.
        probe: ProbeId,
        /// What was found.
        outcome: Outcome,
        /// When the probe began, on the clock that never turns back.
        began: Instant,
        /// When.
        at: SystemTime,
    },
    /// A host name has these addresses, in the order to try them.
    Resolved {
        /// The name.
        host: Box<str>,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
    /// A host name could not be resolved.
    ResolutionFailed {
        /// The name.
        host: Box<str>,
        /// Why.
        error: String,
    },
}

/// What is to be done about it.
#[derive(Debug)]
pub enum Action {
    /// Commit the prepared plan with this table on every shard.
    Commit(Arc<PoolTable>),
    /// Give every shard the plan in use with other members, and this table.
    Members(Arc<Plan>, Arc<PoolTable>),
    /// Give every shard this table.
    Publish(Arc<PoolTable>),
    /// Tell the operator.
    Tell(Notice),
}

/// A transition worth a log line.
#[derive(Debug, PartialEq)]
pub enum Notice {
    /// A backend's health changed.
    Health {
        /// The backend.
        backend: Box<str>,
        /// From what to what.
        flip: Flip,
        /// Why; empty when it recovered.
        detail: String,
    },
    /// A pool leaves a member out because its connections fail.
    Ejected {
        /// The ALB.
        alb: Box<str>,
        /// The member.
        member: Box<str>,
        /// Failures in a row.
        failures: u32,
        /// At most so long.
        time: Duration,
    },
    /// A pool takes a member back.
    Returned {
        /// The ALB.
        alb: Box<str>,
        /// The member.
        member: Box<str>,
        /// Why.
        why: Why,
    },
    /// Nobody is live in this ALB's pool any more.
    PoolEmpty(Box<str>),
    /// Somebody is live again in this ALB's pool.
    PoolServes(Box<str>),
    /// A host's addresses changed.
    Addresses {
        /// The host.
        host: Box<str>,
        /// Its addresses now.
        addresses: Vec<IpAddr>,
    },
    /// A host could not be resolved; said once until it can.
    Unresolved {
        /// The host.
        host: Box<str>,
        /// Why.
        error: String,
        /// Whether addresses from before are still in use.
        keeps_last: bool,
    },
}

#[derive(Debug, Default)]
struct Host {
    addresses: Vec<IpAddr>,
    failing: bool,
}

/// All changing facts of the process.
#[derive(Debug)]
pub struct State {
    plan: Option<Arc<Plan>>,
    /// By backend id of `plan`.
    records: Vec<Record>,
    probes: HashMap<Box<str>, Probed>,
    standings: HashMap<Box<str>, Standing>,
    hosts: BTreeMap<Box<str>, Host>,
    /// By ALB name, kept over reloads.
    tallies: BTreeMap<Box<str>, Arc<Tally>>,
    ejections: Ejections,
    table: Option<Arc<PoolTable>>,
    last_change: SystemTime,
}

impl State {
    /// The state of a process that started at `at` and has no plan yet.
    pub fn new(at: SystemTime) -> Self {
        State {
            plan: None,
            records: Vec::new(),
            probes: HashMap::new(),
            standings: HashMap::new(),
            hosts: BTreeMap::new(),
            tallies: BTreeMap::new(),
            ejections: Ejections::default(),
            table: None,
            last_change: at,
        }
    }

    /// Takes in one event; what is to be done about it, in order.
    pub fn apply(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Adopted {
                plan,
                probes,
                ejection,
                standings,
                at,
            } => self.adopt(plan, probes, &ejection, standings, at),
            Event::Members {
                plan,
                started,
                stopped,
                standings,
                at,
            } => self.members(plan, (started, stopped), standings, at),
            Event::Probed {
                backend,
                probe,
                outcome,
                began,
                at,
            } => self.probed((&backend, probe), &outcome, began, at),
            Event::Unreached {
                backend,
                answered,
                failures,
                now,
                at,
            } => self.failed(&backend, (answered, failures), now, at),
            Event::Due { now, at } => {
                let changes = self.ejections.time_passed(now);
                self.change_pools(changes, at)
            }
            Event::Resolved { host, addresses } => self.resolved(host, addresses),
            Event::ResolutionFailed { host, error } => self.unresolved(host, error),
        }
    }

    /// The plan served, once there is one.
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        self.plan.as_ref()
    }

    /// The table served, once there is one.
    pub fn table(&self) -> Option<&Arc<PoolTable>> {
        self.table.as_ref()
    }

    /// Every backend of the served plan with its record.
    pub fn backends(&self) -> impl Iterator<Item = (&Arc<Backend>, &Record)> {
        let backends = self.plan.iter().flat_map(|plan| &plan.backends);
        backends.zip(&self.records)
    }

    /// When a health or a plan last changed.
    pub fn last_change(&self) -> SystemTime {
        self.last_change
    }

    /// Whom pools leave out.
    pub fn ejections(&self) -> &Ejections {
        &self.ejections
    }

    /// Addresses of a host as last resolved.
    pub fn addresses(&self, host: &str) -> &[IpAddr] {
        self.hosts.get(host).map_or(&[], |host| &host.addresses)
    }

    // === transitions ===

    fn adopt(
        &mut self,
        plan: Arc<Plan>,
        probes: HashMap<Box<str>, Probed>,
        ejection: &[(PoolId, Rule)],
        standings: HashMap<Box<str>, Standing>,
        at: SystemTime,
    ) -> Vec<Action> {
        self.probes = probes;
        self.standings = standings;
        let flips = self.carry_over(&plan, |record, now| record.carried_over(now), at);
        let names: HashSet<&str> = origin_hosts(&plan).collect();
        self.hosts.retain(|host, _| names.contains(&**host));
        self.tallies
            .retain(|alb, _| plan.pools.iter().any(|pool| pool.alb_name == *alb));
        for pool in &plan.pools {
            self.tallies.entry(pool.alb_name.clone()).or_default();
        }
        self.ejections.adopt(&plan, ejection);
        self.plan = Some(plan);
        self.last_change = at;
        let mut actions = flips;
        actions.extend(self.keep_halves());
        // A new plan starts to count its tables anew.
        let before = self.table.take();
        let Some(table) = self.next_table() else {
            return Vec::new();
        };
        actions.push(Action::Commit(table.clone()));
        actions.extend(self.pool_notices(before.as_deref(), &table));
        actions
    }

    fn members(
        &mut self,
        plan: Arc<Plan>,
        (started, stopped): (Started, Vec<Box<str>>),
        standings: HashMap<Box<str>, Standing>,
        at: SystemTime,
    ) -> Vec<Action> {
        for name in &stopped {
            self.probes.remove(name);
        }
        self.probes.extend(started);
        self.standings = standings;
        let mut actions = self.carry_over(&plan, |record, _| record, at);
        let names: HashSet<&str> = origin_hosts(&plan).collect();
        self.hosts.retain(|host, _| names.contains(&**host));
        self.ejections.members(&plan);
        self.plan = Some(plan.clone());
        self.last_change = at;
        actions.extend(self.keep_halves());
        let before = self.table.clone();
        let Some(table) = self.next_table() else {
            return Vec::new();
        };
        actions.push(Action::Members(plan, table.clone()));
        actions.extend(self.pool_notices(before.as_deref(), &table));
        actions
    }

    /// Makes the records of `plan` of those of the plan before, by name; the flips that come of it.
    fn carry_over(
        &mut self,
        plan: &Plan,
        over: impl Fn(Record, Option<Thresholds>) -> Record,
        at: SystemTime,
    ) -> Vec<Action> {
        let (before, records) = (self.plan.clone(), std::mem::take(&mut self.records));
        let names = before.iter().flat_map(|plan| &plan.backends);
        let names = names.map(|backend| &*backend.name);
        let mut old: HashMap<&str, Record> = names.zip(records).collect();
        let mut flips = Vec::new();
        let mut records = Vec::with_capacity(plan.backends.len());
        for backend in &plan.backends {
            let thresholds = self.probes.get(&backend.name).map(|p| p.thresholds);
            let standing = self.standings.get(&backend.name).copied();
            let known = old
                .remove(&*backend.name)
                .map(|record| over(record, thresholds));
            let record = match (known, standing) {
                (None, None) => Record::new(thresholds),
                (None, Some(standing)) => Record::discovered(thresholds, standing),
                (Some(record), None) => record,
                (Some(mut record), Some(standing)) => {
                    if let Some(flip) = record.stand(thresholds, standing, at) {
                        flips.push(Action::Tell(Notice::Health {
                            backend: backend.name.clone(),
                            flip,
                            detail: record.detail().to_owned(),
                        }));
                    }
                    record
                }
            };
            records.push(record);
        }
        self.records = records;
        flips
    }

    fn probed(
        &mut self,
        (name, probe): (&str, ProbeId),
        outcome: &Outcome,
        began: Instant,
        at: SystemTime,
    ) -> Vec<Action> {
        if self.probes.get(name).map(|probed| probed.probe) != Some(probe) {
            return Vec::new();
        }
        let Some(id) = self.id_of(name) else {
            return Vec::new();
        };
        let flip = self.records[id.index()].observe(outcome, at);
        let mut actions = Vec::new();
        if let Some(flip) = flip {
            actions.push(Action::Tell(Notice::Health {
                backend: name.into(),
                flip,
                detail: self.records[id.index()].detail().to_owned(),
            }));
        }
        if *outcome == Outcome::Passed {
            let returned = self.ejections.probe_passed(id, began);
            actions.extend(self.told(returned));
        }
        if actions.is_empty() {
            return actions;
        }
        self.last_change = at;
        actions.extend(self.publish());
        actions
    }

    fn failed(
        &mut self,
        name: &str,
        (answered, failures): (bool, u32),
        now: Instant,
        at: SystemTime,
    ) -> Vec<Action> {
        let Some(id) = self.id_of(name) else {
            return Vec::new();
        };
        let live = ByHealth::of(self);
        let is_live: &dyn Fn(PoolId, BackendId) -> bool = &|pool, id| live.has(pool, id);
        let changes = self.ejections.failed(id, answered, failures, now, is_live);
        self.change_pools(changes, at)
    }

    /// What follows when members left pools or came back.
    fn change_pools(&mut self, changes: Vec<Change>, at: SystemTime) -> Vec<Action> {
        if changes.is_empty() {
            return Vec::new();
        }
        self.last_change = at;
        let mut actions = self.told(changes);
        actions.extend(self.publish());
        actions
    }

    /// Members that their pools cannot do without come back.
    fn keep_halves(&mut self) -> Vec<Action> {
        let live = ByHealth::of(self);
        let is_live: &dyn Fn(PoolId, BackendId) -> bool = &|pool, id| live.has(pool, id);
        let returned = self.ejections.keep_halves(is_live);
        self.told(returned)
    }

    fn told(&self, changes: Vec<Change>) -> Vec<Action> {
        let Some(plan) = &self.plan else {
            return Vec::new();
        };
        let notice = |change: Change| {
            let alb = plan.pools[change.pool.0 as usize].alb_name.clone();
            let member = plan.backend(change.member).name.clone();
            Action::Tell(match change.what {
                What::Ejected { failures, time } => Notice::Ejected {
                    alb,
                    member,
                    failures,
                    time,
                },
                What::Returned(why) => Notice::Returned { alb, member, why },
            })
        };
        changes.into_iter().map(notice).collect()
    }

    fn id_of(&self, name: &str) -> Option<BackendId> {
        let mut backends = self.plan.iter().flat_map(|plan| &plan.backends);
        let found = backends.find(|backend| *backend.name == *name);
        found.map(|backend| backend.id)
    }

    fn resolved(&mut self, name: Box<str>, addresses: Vec<IpAddr>) -> Vec<Action> {
        let host = self.hosts.entry(name.clone()).or_default();
        host.failing = false;
        // Servers answer in turning order: only another set of addresses is a change.
        if same_set(&host.addresses, &addresses) {
            return Vec::new();
        }
        host.addresses.clone_from(&addresses);
        // A host that only a probe asks, or only the next plan, is not in the table.
        let plan = self.plan.as_ref();
        let is_used = plan.is_some_and(|plan| origin_hosts(plan).any(|used| *used == *name));
        let mut actions = vec![Action::Tell(Notice::Addresses {
            host: name,
            addresses,
        })];
        if is_used {
            actions.extend(self.publish());
        }
        actions
    }

    fn unresolved(&mut self, name: Box<str>, error: String) -> Vec<Action> {
        let host = self.hosts.entry(name.clone()).or_default();
        if std::mem::replace(&mut host.failing, true) {
            return Vec::new();
        }
        vec![Action::Tell(Notice::Unresolved {
            host: name,
            error,
            keeps_last: !host.addresses.is_empty(),
        })]
    }

    // === tables ===

    fn publish(&mut self) -> Vec<Action> {
        let before = self.table.clone();
        let mut actions = self.keep_halves();
        let Some(table) = self.next_table() else {
            return Vec::new();
        };
        actions.push(Action::Publish(table.clone()));
        actions.extend(self.pool_notices(before.as_deref(), &table));
        actions
    }

    fn next_table(&mut self) -> Option<Arc<PoolTable>> {
        let plan = self.plan.clone()?;
        let mut health: Vec<Health> = self.records.iter().map(Record::health).collect();
        let addresses: Vec<Arc<[SocketAddr]>> = plan
            .backends
            .iter()
            .map(|backend| self.socket_addresses(backend))
            .collect();
        // A discovered member joins when it can be dialled, not before.
        for (backend, found) in plan.backends.iter().zip(&addresses) {
            if found.is_empty() && self.standings.contains_key(&backend.name) {
                health[backend.id.index()] = Health::Unavailable;
            }
        }
        let tallies: Vec<Arc<Tally>> = plan
            .pools
            .iter()
            .map(|pool| {
                self.tallies
                    .get(&pool.alb_name)
                    .cloned()
                    .unwrap_or_default()
            })
            .collect();
        let facts = Facts {
            health: &health,
            addresses: &addresses,
            tallies: &tallies,
            hosts: self.rewritten_hosts(&plan),
            is_out: &|pool, member| self.ejections.is_out(pool, member),
        };
        let version = self.table.as_ref().map_or(0, |table| table.version) + 1;
        let table = Arc::new(publish::pool_table(&plan, &facts, version));
        self.table = Some(table.clone());
        Some(table)
    }

    /// Addresses of the hosts that rewriters name, as far as they are known.
    fn rewritten_hosts(&self, plan: &Plan) -> Arc<HashMap<Box<str>, Arc<[IpAddr]>>> {
        let hosts = plan.rewritten_hosts.iter();
        let known = hosts.map(|host| (host.clone(), Arc::from(self.addresses(host))));
        Arc::new(known.collect())
    }

    fn socket_addresses(&self, backend: &Backend) -> Arc<[SocketAddr]> {
        let BackendKind::Origin(origin) = &backend.kind else {
            return Arc::default();
        };
        match origin.host.parse::<IpAddr>() {
            Ok(literal) => Arc::new([SocketAddr::new(literal, origin.port)]),
            Err(_) => self
                .addresses(&origin.host)
                .iter()
                .map(|address| SocketAddr::new(*address, origin.port))
                .collect(),
        }
    }

    /// Pools that became empty, and pools that no longer are.
    fn pool_notices(&self, before: Option<&PoolTable>, now: &PoolTable) -> Vec<Action> {
        let mut notices = Vec::new();
        for (index, pool) in now.pools.iter().enumerate() {
            let Some(plan) = &self.plan else { break };
            let name = &plan.pools[index].alb_name;
            // Another plan has other pool ids: its pools count as serving before.
            let same_plan = before.filter(|table| table.generation == now.generation);
            let served = same_plan.is_none_or(|table| !table.pools[index].live.is_empty());
            match (served, !pool.live.is_empty()) {
                (true, false) => notices.push(Notice::PoolEmpty(name.clone())),
                (false, true) => notices.push(Notice::PoolServes(name.clone())),
                _ => {}
            }
        }
        notices.into_iter().map(Action::Tell).collect()
    }
}

/// Who is live by health, whoever is ejected, at one moment.
struct ByHealth {
    plan: Option<Arc<Plan>>,
    health: Vec<Health>,
}

impl ByHealth {
    fn of(state: &State) -> Self {
        let recorded: Vec<Health> = state.records.iter().map(Record::health).collect();
        let plan = state.plan.clone();
        let health = plan
            .as_deref()
            .map(|plan| publish::effective_health(plan, &recorded));
        ByHealth {
            plan,
            health: health.unwrap_or_default(),
        }
    }

    fn has(&self, pool: PoolId, member: BackendId) -> bool {
        let pool = self
            .plan
            .iter()
            .flat_map(|plan| plan.pools.get(pool.0 as usize))
            .next();
        let health = self.health.get(member.index());
        pool.zip(health)
            .is_some_and(|(pool, health)| health.value() >= pool.healthy_floor)
    }
}

/// Host names that the origins of a plan, and its rewriters, need resolved; literals are not among them.
pub fn origin_hosts(plan: &Plan) -> impl Iterator<Item = &str> {
    let rewritten = plan.rewritten_hosts.iter().map(|host| &**host);
    let origins = plan
        .backends
        .iter()
        .filter_map(|backend| match &backend.kind {
            BackendKind::Origin(origin) if origin.host.parse::<IpAddr>().is_err() => {
                Some(&*origin.host)
            }
            BackendKind::Origin(_) | BackendKind::Alb(Alb { .. }) | BackendKind::Rule(_) => None,
        });
    origins.chain(rewritten)
}

fn same_set(a: &[IpAddr], b: &[IpAddr]) -> bool {
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_unstable();
    a.dedup();
    b.sort_unstable();
    b.dedup();
    a == b
}

#[cfg(test)]
mod tests;
