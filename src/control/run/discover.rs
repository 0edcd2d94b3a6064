//! Discovery at run time: starts watches, takes their news, and turns snapshots into members.
//!
//! One watch for each pair of discoverer and query, whoever uses it. News wait while a configuration is on its way or
//! an ALB's debounce window is open; of several only the newest counts. What changes for one or many ALBs goes to the
//! shards as one plan with one table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ringway_shards::link::ShardId;
use tokio::sync::mpsc;

use super::{Core, Inputs, Signal, hosts_of};
use crate::compile::{ControlSettings, HealthCheck};
use crate::control::members::{Difference, Members, Verdict};
use crate::control::reload::Refusal;
use crate::control::state::{Event, Probed};
use crate::discovery::settings::{AlbDiscovery, Discoverer, Query};
use crate::discovery::snapshot::Snapshot;
use crate::discovery::watching::{self, News, Pace, Watch};
use crate::discovery::{Exclusion, Failure, Source, connect};
use crate::health::{Thresholds, schedule};

/// Longest that a start waits for the first reading of a file, which is there or is not.
const FILE_WAIT_MAX: Duration = Duration::from_secs(2);
/// Longest that a start waits for sources that must work, whatever their own limits.
const START_WAIT_MAX: Duration = Duration::from_secs(60);
/// How often it is said at most that a source fails for another reason than before.
const REASON_PAUSE: Duration = Duration::from_secs(60);
/// Exclusions that are named in a log line.
const NAMED_MAX: usize = 10;

/// All that discovery has running.
#[derive(Default)]
pub(super) struct Discovery {
    pub(super) members: Members,
    watches: BTreeMap<u64, Watching>,
    next_watch: u64,
    /// By discoverer: with its fingerprint, so that a new query of a discoverer shares what the others have open.
    connections: BTreeMap<Box<str>, (u64, Result<connect::Connection, Failure>)>,
    /// What is known of each ALB with discovery, by name; kept over reloads.
    albs: BTreeMap<Box<str>, AlbState>,
    /// Failed readings by discoverer, and its provider; since start.
    failures: BTreeMap<Box<str>, (&'static str, u64)>,
    /// When the oldest news came that the shards have not been told yet.
    news_since: Option<Instant>,
    /// The change of members that shards have been told last: version of its table, since when, who has not answered.
    spreading: Option<(u64, Instant, Vec<bool>)>,
    spreads: Spreads,
}

/// How long changes of members took, from news of a source until every shard served them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spreads {
    /// Changes; of several that came together the last counts.
    pub count: u64,
    /// Sum of their times.
    pub sum: Duration,
    /// The longest since start.
    pub longest: Duration,
}

/// One query of one discoverer.
struct Watching {
    discoverer: Box<str>,
    provider: &'static str,
    fingerprint: u64,
    query: Arc<Query>,
    last: Option<Snapshot>,
    /// While it fails: the reason that was said, and when.
    failing: Option<(String, Instant)>,
    excluded: Vec<Exclusion>,
    refreshed: Option<SystemTime>,
    took: Duration,
    _watch: Watch,
}

/// What a start waits for.
struct Wait {
    /// It ends the start when it fails or is late.
    must_work: bool,
    until: Instant,
}

/// One ALB with discovery.
#[derive(Default)]
struct AlbState {
    /// Its watch.
    watch: u64,
    /// A snapshot that is to be looked at, and not before then.
    waiting: Option<(Snapshot, Instant)>,
    /// Until then snapshots wait.
    window_ends: Option<Instant>,
    /// Whether anything of this watch under this configuration was applied.
    is_settled: bool,
    /// Why the last snapshot was not applied, if it was not.
    rejected: Option<String>,
    tally: Tally,
}

/// What became of the snapshots of one ALB, since start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Members that came.
    pub added: u64,
    /// Members that left.
    pub removed: u64,
    /// Applied whole.
    pub applied: u64,
    /// In force already.
    pub unchanged: u64,
    /// Not applied, by a guard rail.
    pub rejected: u64,
    /// Applied but for members that could not be made.
    pub partial: u64,
}

/// Discovery of one ALB, for metrics.
#[derive(Clone, Debug)]
pub struct AlbRow {
    /// The ALB.
    pub alb: Box<str>,
    /// Its discoverer.
    pub discoverer: Box<str>,
    /// Members in force.
    pub members: usize,
    /// What became of snapshots.
    pub tally: Tally,
    /// When the source last answered.
    pub refreshed: Option<SystemTime>,
    /// What the source names and cannot be a member.
    pub excluded: usize,
}

/// One discoverer, for metrics.
#[derive(Clone, Debug)]
pub struct DiscovererRow {
    /// The discoverer.
    pub discoverer: Box<str>,
    /// Its provider.
    pub provider: &'static str,
    /// Failed readings since start.
    pub failures: u64,
    /// How long the last reading took; the longest of its queries.
    pub took: Duration,
}

impl Core {
    // === watches ===

    /// Reads what must be known before listeners open: files, and sources whose ALB says that the start depends on
    /// them. Everything else is read while ringway serves.
    pub(super) async fn first_readings(
        &mut self,
        settings: &Arc<ControlSettings>,
        inputs: &mut Inputs,
    ) -> Result<(), Refusal> {
        let started = Instant::now();
        self.settle_watches(settings);
        let mut open = self.awaited(settings, started);
        while let Some(due) = open.values().map(|wait| wait.until).min() {
            let told = tokio::select! {
                told = inputs.news.recv() => told,
                signal = inputs.signals.recv() => match signal {
                    // What is being read is what a reload would read.
                    Some(Signal::Reload) => continue,
                    Some(Signal::Stop) | None => return Err(Refusal::Stopping),
                },
                () = tokio::time::sleep_until(due.into()) => None,
            };
            let Some(told) = told else {
                let late = open.extract_if(.., |_, wait| wait.until <= due);
                let late: Vec<_> = late.filter(|(_, wait)| wait.must_work).collect();
                if let Some((id, _)) = late.first() {
                    let limit = due.duration_since(started);
                    return Err(self.start_refusal(*id, &format!("no answer within {limit:?}")));
                }
                continue;
            };
            let (id, failure) = (told.watch, told.result.as_ref().err().cloned());
            self.on_news(told);
            let waited = open.remove(&id);
            if let (
                Some(Wait {
                    must_work: true, ..
                }),
                Some(failure),
            ) = (waited, failure)
            {
                return Err(self.start_refusal(id, &failure.reason));
            }
        }
        Ok(())
    }

    /// The watches that a start waits for.
    fn awaited(&self, settings: &ControlSettings, now: Instant) -> BTreeMap<u64, Wait> {
        let waits = self.discovery.watches.iter().filter_map(|(id, watch)| {
            let must_work = must_work(settings, &watch.discoverer);
            let limit = match must_work {
                true => START_WAIT_MAX.min(self.start_limit(watch, settings)),
                false if watch.provider == "file" => FILE_WAIT_MAX,
                false => return None,
            };
            let until = now + limit;
            Some((*id, Wait { must_work, until }))
        });
        waits.collect()
    }

    fn start_limit(&self, watch: &Watching, settings: &ControlSettings) -> Duration {
        let mut all = settings.discovery.discoverers.iter();
        let found = all.find(|discoverer| discoverer.name == watch.discoverer);
        found.map_or(START_WAIT_MAX, |discoverer| {
            connect::start_limit(&discoverer.provider)
        })
    }

    fn start_refusal(&self, id: u64, reason: &str) -> Refusal {
        let name = self
            .discovery
            .watches
            .get(&id)
            .map(|watch| &watch.discoverer);
        let name = name.map_or("", |name| name);
        Refusal::NotPrepared(vec![format!(
            "discovery.{name}: {reason}; an ALB's discovery.startup_policy is fail: with retry ringway starts and goes \
             on trying"
        )])
    }

    /// Starts the watches that `settings` need and ends the others. Who goes on keeps what it knows.
    pub(super) fn settle_watches(&mut self, settings: &Arc<ControlSettings>) {
        let own = &mut self.discovery;
        let mut kept: BTreeSet<u64> = BTreeSet::new();
        own.settle_connections(settings);
        let mut albs = std::mem::take(&mut own.albs);
        for (_, alb) in &settings.discovery.albs {
            let discoverer = &settings.discovery.discoverers[alb.discoverer];
            let found = own.watches.iter().find(|(_, watch)| {
                watch.fingerprint == discoverer.fingerprint
                    && watch.discoverer == discoverer.name
                    && watch.query == alb.query
            });
            let id = match found {
                Some((id, _)) => *id,
                None => {
                    own.next_watch += 1;
                    let id = own.next_watch;
                    let connection = own.connections.get(&discoverer.name);
                    let Some((_, connection)) = connection else {
                        continue;
                    };
                    let must_work = must_work(settings, &discoverer.name);
                    let source = connect::source(connection, alb.query.clone(), must_work);
                    let pace = connect::pace(&discoverer.provider, must_work);
                    let watch = begin((id, discoverer), alb, (source, pace), &self.news);
                    own.watches.insert(id, watch);
                    id
                }
            };
            kept.insert(id);
            let mut state = albs.remove(&alb.alb_name).unwrap_or_default();
            state.watch = id;
            state.is_settled = false;
            state.window_ends = None;
            let last = own.watches.get(&id).and_then(|watch| watch.last.clone());
            state.waiting = last.map(|snapshot| (snapshot, Instant::now()));
            own.albs.insert(alb.alb_name.clone(), state);
            own.failures
                .entry(discoverer.name.clone())
                .or_insert((discoverer.provider.name(), 0));
        }
        own.watches.retain(|id, _| kept.contains(id));
        let used = |name: &str| own.watches.values().any(|watch| *watch.discoverer == *name);
        own.failures.retain(|name, _| used(name));
    }

    // === news ===

    pub(super) fn on_news(&mut self, news: News) {
        let own = &mut self.discovery;
        let Some(watch) = own.watches.get_mut(&news.watch) else {
            return;
        };
        watch.took = news.took;
        let now = Instant::now();
        match news.result {
            Err(failure) => {
                if let Some((_, count)) = own.failures.get_mut(&watch.discoverer) {
                    *count += 1;
                }
                let is_known = watch.failing.as_ref().is_some_and(|(reason, said)| {
                    *reason == failure.reason || now.duration_since(*said) < REASON_PAUSE
                });
                if !is_known {
                    watch.failing = Some((failure.reason.clone(), now));
                    tracing::warn!(
                        scope = "discovery",
                        discoverer = %watch.discoverer,
                        provider = watch.provider,
                        error = %failure,
                        "discovery fails, members stay as they are"
                    );
                }
            }
            Ok(snapshot) => {
                if watch.failing.take().is_some() {
                    tracing::info!(
                        scope = "discovery",
                        discoverer = %watch.discoverer,
                        provider = watch.provider,
                        "discovery works again"
                    );
                }
                watch.refreshed = Some(SystemTime::now());
                let Some(snapshot) = snapshot else { return };
                note_exclusions(watch, news.excluded);
                let is_new = watch.last.as_ref() != Some(&snapshot);
                watch.last = Some(snapshot.clone());
                if is_new {
                    own.news_since.get_or_insert(now);
                }
                for state in own.albs.values_mut().filter(|s| s.watch == news.watch) {
                    if !is_new && state.is_settled {
                        state.tally.unchanged += 1;
                        continue;
                    }
                    let due = state.window_ends.map_or(now, |ends| ends.max(now));
                    state.waiting = Some((snapshot.clone(), due));
                }
            }
        }
    }

    /// When a snapshot is to be looked at next.
    pub(super) fn members_due(&self) -> Option<Instant> {
        let waiting = self
            .discovery
            .albs
            .values()
            .filter_map(|state| state.waiting.as_ref());
        waiting.map(|(_, due)| *due).min()
    }

    /// Looks at all snapshots whose time has come, unless a configuration is on its way.
    pub(super) fn change_members(&mut self, now: Instant) {
        let is_free = self.change.is_none() && self.drain.is_none();
        if !is_free || self.members_due().is_none_or(|due| due > now) {
            return;
        }
        let Some(settings) = self.settings.clone() else {
            return;
        };
        let mut differences: Vec<(Box<str>, Difference)> = Vec::new();
        let mut changed = false;
        for (index, (_, alb)) in settings.discovery.albs.iter().enumerate() {
            let Some(state) = self.discovery.albs.get_mut(&alb.alb_name) else {
                continue;
            };
            let Some((snapshot, _)) = state.waiting.take_if(|(_, due)| *due <= now) else {
                continue;
            };
            let is_first = !state.is_settled;
            let verdict = self.discovery.members.offer(index, &snapshot, is_first);
            changed |= self.discovery.note(alb, verdict, now, &mut differences);
        }
        match changed {
            true => self.serve_members(&differences),
            false => self.discovery.news_since = None,
        }
    }

    /// Gives the members of now to the shards, and starts and stops their probes.
    fn serve_members(&mut self, differences: &[(Box<str>, Difference)]) {
        let Some(base) = self.state.plan().cloned() else {
            return;
        };
        let plan = Arc::new(self.discovery.members.plan(&base));
        let changes = || differences.iter().map(|(_, difference)| difference);
        let mut stopped: Vec<Box<str>> = Vec::new();
        for (name, _) in changes().flat_map(|difference| &difference.removed) {
            if self.probers.remove(name).is_some() {
                stopped.push(name.clone());
            }
            self.probe_counts.remove(name);
        }
        let rebuilt: BTreeSet<&str> = changes()
            .flat_map(|difference| &difference.rebuilt)
            .map(|(name, _)| &**name)
            .collect();
        let mut fresh: Vec<HealthCheck> = Vec::new();
        // Who is probed changes with what the source says of a member too.
        for (name, is_probed) in self.discovery.members.probed() {
            match (self.probers.contains_key(name), is_probed) {
                (true, false) => stopped.push(name.into()),
                (true, true) if !rebuilt.contains(name) => {}
                (_, true) => fresh.extend(self.discovery.members.check(name)),
                (false, false) => {}
            }
        }
        for name in &stopped {
            self.probers.remove(name);
        }
        self.want_hosts(&plan);
        let mut started = Vec::new();
        for check in fresh {
            let name = check.backend_name.clone();
            started.extend(self.probe(check, true).map(|probed| (name, probed)));
        }
        self.apply(Event::Members {
            plan,
            started,
            stopped,
            standings: self.discovery.members.standings(),
            at: SystemTime::now(),
        });
    }

    /// Has the hosts of the plan and of its probes resolved, and no others.
    fn want_hosts(&mut self, plan: &ringway_shards::plan::Plan) {
        let configured = self.settings.iter().flat_map(|s| &s.health_checks);
        let probed = configured.map(|check| &*check.host);
        let hosts = hosts_of(plan, probed.chain(self.discovery.members.probe_hosts()));
        if *self.wanted.borrow() == hosts {
            return;
        }
        let book = self.book.borrow().clone();
        if book.keys().any(|host| hosts.binary_search(host).is_err()) {
            self.book.send_modify(|book| {
                Arc::make_mut(book).retain(|host, _| hosts.binary_search(host).is_ok());
            });
        }
        self.wanted.send_replace(hosts);
    }

    /// Starts probing a backend; its first probe comes at once or after a short wait by chance.
    pub(super) fn probe(&mut self, check: HealthCheck, at_once: bool) -> Option<Probed> {
        let interval = check.interval?;
        let id = self.next_probe_id();
        let thresholds = Thresholds {
            failure: check.failure_threshold,
            recovery: check.recovery_threshold,
        };
        let name = check.backend_name.clone();
        // So that its rows are there before its first result.
        self.probe_counts.entry(name.clone()).or_default();
        let pace = schedule::Pace { interval, at_once };
        let prober = schedule::spawn(check, pace, id, self.book.subscribe(), self.reports.clone());
        self.probers.insert(name, prober);
        Some(Probed {
            probe: id,
            thresholds,
        })
    }
}

impl Discovery {
    /// Connects the discoverers of `settings` that are new or have changed, and lets go of the others.
    fn settle_connections(&mut self, settings: &ControlSettings) {
        let mut before = std::mem::take(&mut self.connections);
        for discoverer in &settings.discovery.discoverers {
            let known = before.remove(&discoverer.name);
            let known = known.filter(|(fingerprint, _)| *fingerprint == discoverer.fingerprint);
            let entry = known.unwrap_or_else(|| {
                let others = self
                    .connections
                    .values()
                    .filter_map(|(_, c)| c.as_ref().ok());
                let connection = connect::connect(&discoverer.provider, others);
                (discoverer.fingerprint, connection)
            });
            self.connections.insert(discoverer.name.clone(), entry);
        }
    }

    /// Puts into the first configuration who was read before it.
    pub(super) fn fill_first(
        &mut self,
        settings: &ControlSettings,
        members: &mut Members,
        now: Instant,
    ) {
        for (index, (_, alb)) in settings.discovery.albs.iter().enumerate() {
            let state = self.albs.get_mut(&alb.alb_name);
            let Some((snapshot, _)) = state.and_then(|state| state.waiting.take()) else {
                continue;
            };
            let verdict = members.offer(index, &snapshot, true);
            self.note(alb, verdict, now, &mut Vec::new());
        }
        // A start is no change: what is served first took as long as the start.
        self.news_since = None;
    }

    /// Takes in what became of a snapshot; whether members have changed.
    fn note(
        &mut self,
        alb: &AlbDiscovery,
        verdict: Verdict,
        now: Instant,
        differences: &mut Vec<(Box<str>, Difference)>,
    ) -> bool {
        let Some(state) = self.albs.get_mut(&alb.alb_name) else {
            return false;
        };
        if !matches!(verdict, Verdict::Rejected(_)) {
            state.rejected = None;
        }
        match verdict {
            Verdict::Unchanged => {
                state.is_settled = true;
                state.tally.unchanged += 1;
                false
            }
            Verdict::Rejected(why) => {
                state.tally.rejected += 1;
                if state.rejected.as_ref() != Some(&why) {
                    tracing::warn!(scope = "discovery", alb = %alb.alb_name, why = %why, "snapshot rejected, members stay as they are");
                    state.rejected = Some(why);
                }
                false
            }
            Verdict::Applied(difference) => {
                state.is_settled = true;
                state.tally.added += difference.added.len() as u64;
                state.tally.removed += difference.removed.len() as u64;
                match difference.failed.is_empty() {
                    true => state.tally.applied += 1,
                    false => state.tally.partial += 1,
                }
                if !alb.debounce_window.is_zero() {
                    state.window_ends = Some(now + alb.debounce_window);
                }
                tell(&alb.alb_name, &difference);
                differences.push((alb.alb_name.clone(), difference));
                true
            }
        }
    }

    /// The shards are told of a change with a table of this version.
    pub(super) fn sent(&mut self, version: u64, shards: usize) {
        let since = self.news_since.take().unwrap_or_else(Instant::now);
        self.spreading = Some((version, since, vec![true; shards]));
    }

    /// A shard serves a change.
    pub(super) fn served(&mut self, shard: ShardId, version: u64, now: Instant) {
        let Some((waited, since, left)) = &mut self.spreading else {
            return;
        };
        if *waited != version {
            return;
        }
        if let Some(left) = left.get_mut(usize::from(shard.0)) {
            *left = false;
        }
        if !left.contains(&true) {
            let took = now.duration_since(*since);
            self.spreads.count += 1;
            self.spreads.sum += took;
            self.spreads.longest = self.spreads.longest.max(took);
            self.spreading = None;
        }
    }

    /// How long changes took to reach all shards.
    pub(super) fn spreads(&self) -> Spreads {
        self.spreads
    }

    /// What is known of each ALB.
    pub(super) fn alb_rows(&self) -> Vec<AlbRow> {
        let rows = self.albs.iter().map(|(name, state)| {
            let watch = self.watches.get(&state.watch);
            let count = self
                .members
                .alb(name)
                .map(|index| self.members.count(index));
            AlbRow {
                alb: name.clone(),
                discoverer: watch
                    .map(|watch| watch.discoverer.clone())
                    .unwrap_or_default(),
                members: count.unwrap_or_default(),
                tally: state.tally,
                refreshed: watch.and_then(|watch| watch.refreshed),
                excluded: watch.map_or(0, |watch| watch.excluded.len()),
            }
        });
        rows.collect()
    }

    /// What is known of each discoverer.
    pub(super) fn discoverer_rows(&self) -> Vec<DiscovererRow> {
        let rows = self.failures.iter().map(|(name, (provider, failures))| {
            let own = self
                .watches
                .values()
                .filter(|watch| watch.discoverer == *name);
            DiscovererRow {
                discoverer: name.clone(),
                provider,
                failures: *failures,
                took: own.map(|watch| watch.took).max().unwrap_or_default(),
            }
        });
        rows.collect()
    }
}

/// Whether an ALB of this discoverer says that the start depends on it.
fn must_work(settings: &ControlSettings, discoverer: &str) -> bool {
    let mut albs = settings.discovery.albs.iter().map(|(_, alb)| alb);
    albs.any(|alb| {
        alb.startup_must_work && *settings.discovery.discoverers[alb.discoverer].name == *discoverer
    })
}

/// Starts one watch. Where not even a client can be made, that is its failure.
fn begin(
    (id, discoverer): (u64, &Discoverer),
    alb: &AlbDiscovery,
    (source, pace): (Box<dyn Source>, Pace),
    news: &mpsc::Sender<News>,
) -> Watching {
    tracing::debug!(scope = "discovery", discoverer = %discoverer.name, alb = %alb.alb_name, "watching");
    Watching {
        discoverer: discoverer.name.clone(),
        provider: discoverer.provider.name(),
        fingerprint: discoverer.fingerprint,
        query: alb.query.clone(),
        last: None,
        failing: None,
        excluded: Vec::new(),
        refreshed: None,
        took: Duration::ZERO,
        _watch: watching::spawn(id, source, pace, news.clone()),
    }
}

/// Says who was left out, when that has changed.
fn note_exclusions(watch: &mut Watching, mut excluded: Vec<Exclusion>) {
    excluded.sort();
    excluded.dedup();
    if excluded == watch.excluded {
        return;
    }
    if !excluded.is_empty() {
        let named: Vec<String> = excluded
            .iter()
            .take(NAMED_MAX)
            .map(|one| format!("{}: {}", one.name, one.reason))
            .collect();
        let more = excluded.len().saturating_sub(NAMED_MAX);
        tracing::warn!(
            scope = "discovery",
            discoverer = %watch.discoverer,
            excluded = %named.join("; "),
            and_more = more,
            "left out: they cannot be members"
        );
    }
    watch.excluded = excluded;
}

fn tell(alb: &str, difference: &Difference) {
    for (member, origin) in &difference.added {
        tracing::info!(scope = "discovery", alb = %alb, member = %member, origin = %origin, "member added");
    }
    for (member, origin) in &difference.rebuilt {
        tracing::info!(scope = "discovery", alb = %alb, member = %member, origin = %origin, "member changed in place");
    }
    for (member, origin) in &difference.removed {
        tracing::info!(scope = "discovery", alb = %alb, member = %member, origin = %origin, "member removed");
    }
    for (member, why) in &difference.failed {
        tracing::error!(scope = "discovery", alb = %alb, member = %member, error = %why, "member cannot be made");
    }
}
