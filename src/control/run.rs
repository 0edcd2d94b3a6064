//! The loop of the control thread: gathers events, asks `state`, performs actions.
//!
//! Owns the shards' command queues, the probers, the resolving task, the admin listeners and the configuration
//! in force. Everything that happens comes in through one of the queues of [`Inputs`], so a test can play any
//! part. Promises: no shard is ever waited for (what does not fit its queue is kept and tried again), and what
//! one client of the admin listeners does never holds up another.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ringway_io::cross;
use ringway_shards::link::{Command, Driver, Event as ShardEvent, ShardId};
use ringway_shards::metrics::ShardMetrics;
use ringway_shards::plan::Generation;
use tokio::sync::{mpsc, oneshot, watch};

use super::files::Watched;
use super::lookups::{self, Lookups};
use super::reload::{Gate, Refusal, Tally};
use super::state::{Action, Event, ProbeId, State};
use super::verify::{self, Verifier};
use crate::admin::metrics::{ProbeCounts, Scene};
use crate::admin::process::Process;
use crate::admin::server::{Call, CheckNow, NoCheck, Servers};
use crate::compile::{Compiled, ControlSettings};
use crate::config::Problem;
use crate::discovery::dns;
use crate::discovery::watching::News;
use crate::health::Outcome;
use crate::health::on_demand::OnDemand;
use crate::health::page::Page;
use crate::health::schedule::{AddressBook, Prober, Report};
use crate::log::Log;

mod change;
pub mod discover;
mod outbox;
mod tell;

use change::Change;
use discover::Discovery;
use outbox::Outbox;

/// Longest wait for the answers of the shards to a scrape.
pub const SCRAPE_MAX: Duration = Duration::from_secs(2);
/// Results, answers and calls that may wait for the loop, each.
const QUEUE_LEN: usize = 256;
/// How soon a full command queue is tried again.
const RETRY: Duration = Duration::from_millis(5);
/// How much later than told a shard may report that it has drained.
const DRAIN_GRACE: Duration = Duration::from_secs(2);

/// Reads and compiles the configuration, as the plan with this number.
pub type Loader = Box<dyn FnMut(Generation) -> Result<Compiled, Vec<Problem>>>;

/// What the operator asked for by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM or SIGINT: drain and end; the second time, end at once.
    Stop,
}

/// How the loop ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// All shards have drained; so many connections were cut.
    Drained {
        /// Connections that did not end in time.
        cut: u32,
    },
    /// Asked to stop a second time, or the drain did not end.
    Cut,
    /// The first configuration could not be served.
    Refused(Refusal),
    /// A shard is gone.
    ShardEnded(String),
}

/// The first configuration is in force: what is listened on.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// Client listeners by name; one with a TLS side is there twice.
    pub listeners: Vec<(Box<str>, SocketAddr)>,
    /// Admin listeners by name.
    pub admin: Vec<(&'static str, SocketAddr)>,
}

/// Where everything comes in.
pub struct Inputs {
    /// Events of all shards.
    pub shards: cross::Receiver<(ShardId, ShardEvent)>,
    /// Signals.
    pub signals: mpsc::Receiver<Signal>,
    reports: mpsc::Receiver<Report>,
    answers: mpsc::Receiver<dns::Answer>,
    calls: mpsc::Receiver<Call>,
    verified: mpsc::Receiver<verify::Done>,
    looked_up: mpsc::Receiver<lookups::Done>,
    news: mpsc::Receiver<News>,
}

/// All that the loop owns.
pub struct Core {
    state: State,
    outbox: Outbox,
    loader: Loader,
    log: Option<Log>,
    settings: Option<Arc<ControlSettings>>,
    generation: Generation,
    change: Option<Change>,
    /// A reload asked for by a signal that had to wait, and the next look of `auto_reload_interval`.
    reload_due: Option<Instant>,
    look_due: Option<Instant>,
    /// Files with users, and the next look at them.
    watched: Watched,
    files_due: Option<Instant>,
    last_problems: Vec<String>,
    gate: Gate,
    tally: Tally,
    servers: Servers,
    verifier: Verifier,
    lookups: Box<Lookups>,
    ports: BTreeMap<String, u16>,
    drivers: Vec<Option<Driver>>,
    probers: HashMap<Box<str>, Prober>,
    probe_id: u64,
    probe_counts: BTreeMap<Box<str>, ProbeCounts>,
    on_demand: OnDemand,
    reports: mpsc::Sender<Report>,
    book: watch::Sender<AddressBook>,
    wanted: watch::Sender<Vec<Box<str>>>,
    discovery: Box<Discovery>,
    news: mpsc::Sender<News>,
    scrapes: BTreeMap<u64, Scrape>,
    scrape_token: u64,
    drain: Option<Drain>,
    ended: Option<Ended>,
    started: SystemTime,
    serving: Option<oneshot::Sender<Serving>>,
}

struct Scrape {
    answers: Vec<(ShardId, Box<ShardMetrics>)>,
    reply: oneshot::Sender<String>,
    until: Instant,
}

struct Drain {
    left: Vec<bool>,
    cut: u32,
    until: Instant,
}

enum Turn {
    Shard(Option<(ShardId, ShardEvent)>),
    Signal(Signal),
    Report(Report),
    Answer(dns::Answer),
    Call(Call),
    Verified(verify::Done),
    LookedUp(lookups::Done),
    News(Box<News>),
    Timer,
}

impl Core {
    /// A control core over running shards. Starts the resolving task, so it is called on the control runtime.
    pub fn new(
        commands: Vec<cross::Sender<Command>>,
        shards: cross::Receiver<(ShardId, ShardEvent)>,
        signals: mpsc::Receiver<Signal>,
        loader: Loader,
        log: Option<Log>,
    ) -> (Core, Inputs) {
        let (reports, reports_in) = mpsc::channel(QUEUE_LEN);
        let (answers, answers_in) = mpsc::channel(QUEUE_LEN);
        let (calls, calls_in) = mpsc::channel(QUEUE_LEN);
        let (news, news_in) = mpsc::channel(QUEUE_LEN);
        let (verifier, verified) = Verifier::new();
        let (lookups, looked_up) = Lookups::new();
        let (wanted, watcher) = watch::channel(Vec::new());
        dns::spawn(watcher, answers);
        let now = SystemTime::now();
        let core = Core {
            state: State::new(now),
            drivers: vec![None; commands.len()],
            outbox: Outbox::new(commands),
            loader,
            log,
            settings: None,
            generation: Generation(0),
            change: None,
            reload_due: None,
            look_due: None,
            watched: Watched::default(),
            files_due: None,
            last_problems: Vec::new(),
            gate: Gate::default(),
            tally: Tally::default(),
            servers: Servers::new(calls),
            verifier,
            lookups: Box::new(lookups),
            ports: BTreeMap::new(),
            probers: HashMap::new(),
            probe_id: 0,
            probe_counts: BTreeMap::new(),
            on_demand: OnDemand::default(),
            reports,
            book: watch::channel(AddressBook::default()).0,
            wanted,
            discovery: Box::default(),
            news,
            scrapes: BTreeMap::new(),
            scrape_token: 0,
            drain: None,
            ended: None,
            started: now,
            serving: None,
        };
        let inputs = Inputs {
            shards,
            signals,
            reports: reports_in,
            answers: answers_in,
            calls: calls_in,
            verified,
            looked_up,
            news: news_in,
        };
        (core, inputs)
    }

    /// Rings when the first configuration is in force.
    pub fn tell_when_serving(&mut self, bell: oneshot::Sender<Serving>) {
        self.serving = Some(bell);
    }

    /// Serves `first` and goes on until the process is to end. The log comes back to be finished.
    pub async fn run(mut self, first: Compiled, mut inputs: Inputs) -> (Ended, Option<Log>) {
        self.generation = first.plan.generation;
        Box::pin(self.start(first, &mut inputs)).await;
        loop {
            self.on_time(Instant::now());
            if let Some(ended) = self.ended.take() {
                return (ended, self.log.take());
            }
            let due = self.next_deadline();
            let turn = tokio::select! {
                event = inputs.shards.recv() => Turn::Shard(event),
                Some(signal) = inputs.signals.recv() => Turn::Signal(signal),
                Some(report) = inputs.reports.recv() => Turn::Report(report),
                Some(answer) = inputs.answers.recv() => Turn::Answer(answer),
                Some(call) = inputs.calls.recv() => Turn::Call(call),
                Some(done) = inputs.verified.recv() => Turn::Verified(done),
                Some(done) = inputs.looked_up.recv() => Turn::LookedUp(done),
                Some(news) = inputs.news.recv() => Turn::News(Box::new(news)),
                () = sleep_until(due) => Turn::Timer,
            };
            match turn {
                Turn::Shard(Some((id, event))) => self.on_shard(id, event),
                Turn::Shard(None) => self.end(Ended::ShardEnded("all shards ended".into())),
                Turn::Signal(signal) => self.on_signal(signal),
                Turn::Report(report) => self.on_report(report),
                Turn::Answer(answer) => self.on_answer(answer),
                Turn::Call(call) => self.on_call(call),
                Turn::Verified(done) => {
                    for done in self.verifier.end(done) {
                        self.on_verdict(done);
                    }
                }
                Turn::LookedUp(done) => {
                    for answer in self.lookups.end(done, Instant::now()) {
                        self.on_found(answer);
                    }
                }
                Turn::News(news) => self.on_news(*news),
                Turn::Timer => {}
            }
        }
    }

    // === events ===

    fn on_shard(&mut self, id: ShardId, event: ShardEvent) {
        match event {
            ShardEvent::Started { driver, refused } => self.on_started(id, driver, refused),
            ShardEvent::Failed(why) => {
                self.end(Ended::ShardEnded(format!(
                    "shard-{} cannot run: {why}",
                    id.0
                )));
            }
            ShardEvent::Prepared(generation, result) => {
                if let Some(change) = &mut self.change {
                    change.preparation.prepared(id, generation, result);
                }
            }
            ShardEvent::Committed(generation) => {
                tracing::debug!(shard = id.0, generation = generation.0, "plan served");
            }
            ShardEvent::Members(version) => self.discovery.served(id, version, Instant::now()),
            ShardEvent::Released(plan) => {
                tracing::debug!(
                    shard = id.0,
                    generation = plan.generation.0,
                    "plan released"
                );
            }
            ShardEvent::Origin { backend, failure } => {
                tell::origin(id, &backend, failure.as_deref());
            }
            ShardEvent::Conflict { alb, groups } => {
                tracing::warn!(alb = %alb, groups = %groups, shard = id.0, "replicas disagree: the first member's values count");
            }
            ShardEvent::MixedVersions { alb, versions } => {
                tracing::warn!(alb = %alb, versions = %versions, shard = id.0, "members speak different PromQL: queries over several groups may not be exact");
            }
            ShardEvent::Unreached {
                backend,
                answered,
                failures,
            } => self.apply(Event::Unreached {
                backend,
                answered,
                failures,
                now: Instant::now(),
                at: SystemTime::now(),
            }),
            ShardEvent::Verify(check) => {
                if let Some(done) = self.verifier.begin(id, check) {
                    self.on_verdict(done);
                }
            }
            ShardEvent::LookUp(lookup) => {
                if let Some(answer) = self.lookups.begin(id, lookup, Instant::now()) {
                    self.on_found(answer);
                }
            }
            ShardEvent::Metrics(token, metrics) => {
                if let Some(scrape) = self.scrapes.get_mut(&token) {
                    scrape.answers.push((id, metrics));
                }
            }
            ShardEvent::Drained(cut) => {
                if let Some(drain) = &mut self.drain
                    && let Some(left) = drain.left.get_mut(usize::from(id.0))
                {
                    drain.cut += cut;
                    *left = false;
                }
            }
        }
    }

    fn on_started(&mut self, id: ShardId, driver: Driver, refused: Option<String>) {
        if let Some(slot) = self.drivers.get_mut(usize::from(id.0)) {
            *slot = Some(driver);
        }
        match refused {
            None => tracing::info!(shard = id.0, driver = driver.name(), "shard started"),
            Some(why) => tracing::warn!(
                shard = id.0,
                driver = driver.name(),
                why = %why,
                "shard started without io_uring"
            ),
        }
    }

    fn on_verdict(&mut self, done: verify::Done) {
        self.outbox
            .send(done.shard, Command::Verdict(done.token, done.verdict));
    }

    fn on_found(&mut self, answer: lookups::Answer) {
        self.outbox
            .send(answer.shard, Command::Found(answer.token, answer.found));
    }

    fn on_signal(&mut self, signal: Signal) {
        match signal {
            Signal::Reload if self.drain.is_none() => {
                self.reload_due.get_or_insert_with(Instant::now);
            }
            Signal::Reload => {}
            Signal::Stop if self.drain.is_some() => self.end(Ended::Cut),
            Signal::Stop => self.start_drain(),
        }
    }

    fn on_report(&mut self, report: Report) {
        // A member that is gone leaves no rows behind, though a probe of it may end later.
        let counts = self.probe_counts.get_mut(&report.backend);
        let Some(outcome) = report.outcome else {
            if let Some(counts) = counts {
                counts.panicked += 1;
            }
            tracing::error!(backend = %report.backend, "a probe panicked: this is a bug of ringway");
            return;
        };
        let passed = outcome == Outcome::Passed;
        if let Some(counts) = counts {
            counts.count(passed, report.took.as_secs_f64());
        }
        self.apply(Event::Probed {
            backend: report.backend,
            probe: report.probe,
            outcome,
            began: report.began,
            at: SystemTime::now(),
        });
    }

    fn on_answer(&mut self, answer: dns::Answer) {
        let host = answer.host.clone();
        match answer.result {
            Ok(addresses) => {
                self.book.send_modify(|book| {
                    Arc::make_mut(book).insert(host.clone(), addresses.clone());
                });
                self.apply(Event::Resolved {
                    host: answer.host,
                    addresses,
                });
            }
            Err(error) => self.apply(Event::ResolutionFailed {
                host: answer.host,
                error,
            }),
        }
        if let Some(change) = &mut self.change {
            change.preparation.host_answered(&host);
        }
    }

    fn on_call(&mut self, call: Call) {
        // A client that went away before its answer is no matter: sends may fail.
        match call {
            Call::Health(reply) => {
                let _ = reply.send(Page::of(&self.state, &self.discovery.members));
            }
            Call::Config(reply) => {
                let dump = self
                    .settings
                    .as_ref()
                    .map(|settings| settings.effective.dump());
                let _ = reply.send(dump.unwrap_or_default());
            }
            Call::Check(name, reply) => {
                let _ = reply.send(self.check_now(&name));
            }
            Call::Metrics(reply) => self.start_scrape(reply),
            Call::Reload(reply) => self.reload_by_call(reply),
        }
    }

    fn check_now(&mut self, name: &str) -> Result<CheckNow, NoCheck> {
        let mut checks = self.settings.iter().flat_map(|all| &all.health_checks);
        let configured = checks.find(|check| *check.backend_name == *name).cloned();
        let check = configured
            .or_else(|| self.discovery.members.check_on_demand(name))
            .ok_or(NoCheck::Unknown)?;
        let (_, record) = self
            .state
            .backends()
            .find(|(backend, _)| *backend.name == *name)
            .ok_or(NoCheck::Unknown)?;
        let (health, detail) = (record.health().value(), record.detail().to_owned());
        let slot = self.on_demand.admit(name, Instant::now());
        Ok(CheckNow {
            check,
            book: self.book.borrow().clone(),
            health,
            detail,
            slot: slot.ok_or(NoCheck::Busy)?,
        })
    }

    // === time ===

    /// What is due, whatever just happened.
    fn on_time(&mut self, now: Instant) {
        if let Err(shard) = self.outbox.flush() {
            self.end(Ended::ShardEnded(format!("shard-{} is gone", shard.0)));
        }
        if self
            .state
            .ejections()
            .next_return()
            .is_some_and(|due| due <= now)
        {
            let at = SystemTime::now();
            self.apply(Event::Due { now, at });
        }
        self.advance_change(now);
        self.reload_when_due(now);
        self.change_members(now);
        self.finish_scrapes(now);
        if let Some(drain) = &self.drain {
            if !drain.left.contains(&true) {
                let cut = drain.cut;
                self.end(Ended::Drained { cut });
            } else if drain.until <= now {
                self.end(Ended::Cut);
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let retry = (!self.outbox.is_empty()).then(|| Instant::now() + RETRY);
        [
            retry,
            self.change.as_ref().map(|c| c.preparation.next_deadline()),
            self.change.is_none().then_some(self.reload_due).flatten(),
            self.change.is_none().then_some(self.look_due).flatten(),
            self.change.is_none().then_some(self.files_due).flatten(),
            self.change.is_none().then(|| self.members_due()).flatten(),
            self.scrapes.values().map(|scrape| scrape.until).min(),
            self.drain.as_ref().map(|drain| drain.until),
            self.state.ejections().next_return(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn start_drain(&mut self) {
        let limit = self
            .settings
            .as_ref()
            .map_or(Duration::ZERO, |settings| settings.reload.drain_timeout);
        tracing::info!(limit = ?limit, "stopping: no new connections, running requests finish");
        self.refuse_change(Refusal::Stopping);
        self.reload_due = None;
        self.look_due = None;
        self.files_due = None;
        *self.discovery = Discovery::default();
        self.probers.clear();
        self.outbox.send_all(|| Command::Drain(limit));
        self.drain = Some(Drain {
            left: vec![true; self.drivers.len()],
            cut: 0,
            until: Instant::now() + limit + DRAIN_GRACE,
        });
    }

    /// The first reason to end counts.
    fn end(&mut self, ended: Ended) {
        self.ended.get_or_insert(ended);
    }

    // === scrapes ===

    fn start_scrape(&mut self, reply: oneshot::Sender<String>) {
        self.scrape_token += 1;
        let token = self.scrape_token;
        self.outbox.send_all(|| Command::Scrape(token));
        let scrape = Scrape {
            answers: Vec::new(),
            reply,
            until: Instant::now() + SCRAPE_MAX,
        };
        self.scrapes.insert(token, scrape);
    }

    fn finish_scrapes(&mut self, now: Instant) {
        let shards = self.drivers.len();
        let is_done = |scrape: &Scrape| scrape.answers.len() >= shards || scrape.until <= now;
        let done: Vec<u64> = self
            .scrapes
            .iter()
            .filter(|(_, scrape)| is_done(scrape))
            .map(|(token, _)| *token)
            .collect();
        for token in done {
            let Some(mut scrape) = self.scrapes.remove(&token) else {
                continue;
            };
            scrape.answers.sort_by_key(|(id, _)| *id);
            let scene = Scene {
                state: &self.state,
                settings: self.settings.as_deref(),
                shards: &scrape.answers,
                drivers: &self.drivers,
                probes: &self.probe_counts,
                discovered: &self.discovery.alb_rows(),
                discoverers: &self.discovery.discoverer_rows(),
                spreads: self.discovery.spreads(),
                reloads: &self.tally,
                passwords: self.verifier.tally(),
                lookups: self.lookups.tally(),
                log_lines_dropped: self.log.as_ref().map_or(0, Log::dropped_lines),
                process: Process::read(),
                started: self.started,
            };
            let _ = scrape.reply.send(scene.text());
        }
    }

    // === actions ===

    fn apply(&mut self, event: Event) {
        for action in self.state.apply(event) {
            match action {
                Action::Commit(table) => self.outbox.send_all(|| Command::Commit(table.clone())),
                Action::Members(plan, table) => {
                    self.discovery.sent(table.version, self.drivers.len());
                    self.outbox
                        .send_all(|| Command::Members(plan.clone(), table.clone()));
                }
                Action::Publish(table) => self.outbox.send_all(|| Command::Table(table.clone())),
                Action::Tell(notice) => tell::notice(&notice),
            }
        }
    }

    fn next_probe_id(&mut self) -> ProbeId {
        self.probe_id += 1;
        ProbeId(self.probe_id)
    }
}

/// Where host names of probes and origins lead is asked for in one list.
fn hosts_of<'a>(
    plan: &ringway_shards::plan::Plan,
    probed: impl IntoIterator<Item = &'a str>,
) -> Vec<Box<str>> {
    let probed = probed.into_iter();
    let named = probed.filter(|host| host.parse::<std::net::IpAddr>().is_err());
    let mut hosts: Vec<Box<str>> = super::state::origin_hosts(plan).map(Into::into).collect();
    hosts.extend(named.map(Into::into));
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
