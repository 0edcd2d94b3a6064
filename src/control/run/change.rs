//! The way of a configuration into force: read, prepare everywhere, commit everywhere, or nowhere.
//!
//! The first start is the same way. Nothing that serves is touched before every shard, every admin listener
//! and the log file are ready for the new configuration.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ringway_shards::link::Command;
use ringway_shards::plan::{Generation, ListenerId, Plan, PoolId};
use socket2::{Domain, Socket, Type};
use tokio::sync::oneshot;

use super::{Core, Ended, Inputs, Serving, hosts_of};
use crate::admin::server;
use crate::compile::{Compiled, ControlSettings, HealthCheck};
use crate::control::ejection::Rule;
use crate::control::files::{LOOK_EVERY, Stamp};
use crate::control::members::Members;
use crate::control::publish::overlong_rotations;
use crate::control::reload::{Preparation, Refusal, Verdict};
use crate::control::state::Event;
use crate::log;

/// What asked for a configuration to be read.
pub(super) enum Trigger {
    Start,
    Signal,
    Interval,
    UsersFile,
    Call(oneshot::Sender<Result<(), Refusal>>),
}

impl Trigger {
    fn name(&self) -> &'static str {
        match self {
            Trigger::Start => "start",
            Trigger::Signal => "signal",
            Trigger::Interval => "auto_reload_interval",
            Trigger::UsersFile => "changed users file",
            Trigger::Call(_) => "reload endpoint",
        }
    }
}

/// A configuration that was read.
struct Read {
    plan: Plan,
    settings: Arc<ControlSettings>,
}

/// A configuration on its way.
pub(super) struct Change {
    pub(super) preparation: Preparation,
    plan: Arc<Plan>,
    /// Who is discovered so far.
    members: Members,
    settings: Arc<ControlSettings>,
    servers: server::Prepared,
    sink: Option<log::Prepared>,
    trigger: Trigger,
    /// Hold ports that were chosen for the shards until the shards hold them themselves.
    _reserved: Vec<Socket>,
}

impl Core {
    /// The first configuration.
    pub(super) async fn start(&mut self, first: Compiled, inputs: &mut Inputs) {
        let now = Instant::now();
        self.gate.pass(now);
        let settings = Arc::new(first.control);
        let first = Read {
            plan: first.plan,
            settings,
        };
        match self.first_readings(&first.settings, inputs).await {
            Ok(()) => {}
            // Nothing is served yet: there is nothing to drain.
            Err(Refusal::Stopping) => return self.end(Ended::Drained { cut: 0 }),
            Err(refusal) => return self.refuse(Trigger::Start, refusal, now.elapsed()),
        }
        if let Err(refused) = self.begin(first, Trigger::Start, now) {
            let (trigger, refusal) = *refused;
            self.refuse(trigger, refusal, Duration::ZERO);
        }
    }

    /// The reload endpoint was called.
    pub(super) fn reload_by_call(&mut self, reply: oneshot::Sender<Result<(), Refusal>>) {
        let now = Instant::now();
        let limit = self.rate_limit();
        let refusal = match (&self.drain, &self.change) {
            (Some(_), _) => Some(Refusal::Stopping),
            (None, Some(_)) => Some(Refusal::Busy),
            (None, None) => self
                .gate
                .closed_until(limit, now)
                .map(|_| Refusal::RateLimited(limit)),
        };
        match refusal {
            Some(refusal) => {
                let _ = reply.send(Err(refusal));
            }
            None => self.read_again(Trigger::Call(reply), now),
        }
    }

    /// Starts what a signal or the interval asked for, when nothing stands in the way.
    pub(super) fn reload_when_due(&mut self, now: Instant) {
        if self.change.is_some() || self.drain.is_some() || self.settings.is_none() {
            return;
        }
        if self.reload_due.is_some_and(|due| due <= now) {
            // A signal is never lost: it waits until the next attempt may be made.
            self.reload_due = self.gate.closed_until(self.rate_limit(), now);
            if self.reload_due.is_none() {
                self.read_again(Trigger::Signal, now);
            }
        } else if self.look_due.is_some_and(|due| due <= now) {
            self.schedule_look(now);
            self.read_again(Trigger::Interval, now);
        } else if self.files_due.is_some_and(|due| due <= now) {
            self.files_due = Some(now + LOOK_EVERY);
            if self.watched.look(Stamp::of) {
                self.read_again(Trigger::UsersFile, now);
            }
        }
    }

    fn rate_limit(&self) -> Duration {
        let settings = self.settings.as_ref();
        settings.map_or(Duration::ZERO, |settings| settings.reload.rate_limit)
    }

    fn schedule_look(&mut self, now: Instant) {
        let settings = self.settings.as_ref();
        let interval = settings.and_then(|settings| settings.reload.auto_interval);
        self.look_due = interval.map(|interval| now + interval);
    }

    fn read_again(&mut self, trigger: Trigger, now: Instant) {
        let generation = Generation(self.generation.0 + 1);
        let is_look = matches!(trigger, Trigger::Interval | Trigger::UsersFile);
        if !is_look {
            self.gate.pass(now);
        }
        match (self.loader)(generation) {
            Ok(compiled) => {
                let known = self.settings.as_ref().map(|settings| settings.fingerprint);
                if is_look && known == Some(compiled.control.fingerprint) {
                    return;
                }
                self.last_problems.clear();
                let read = Read {
                    plan: compiled.plan,
                    settings: Arc::new(compiled.control),
                };
                if let Err(refused) = self.begin(read, trigger, now) {
                    let (trigger, refusal) = *refused;
                    self.refuse(trigger, refusal, now.elapsed());
                }
            }
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                // The interval finds the same mistakes each time: they are told once.
                if is_look && problems == self.last_problems {
                    return;
                }
                for problem in &problems {
                    tracing::error!(problem = %problem, "configuration problem");
                }
                self.last_problems.clone_from(&problems);
                self.refuse(trigger, Refusal::Invalid(problems), now.elapsed());
            }
        }
    }

    /// Asks everybody to prepare.
    fn begin(
        &mut self,
        read: Read,
        trigger: Trigger,
        now: Instant,
    ) -> Result<(), Box<(Trigger, Refusal)>> {
        let Read { mut plan, settings } = read;
        self.generation = plan.generation;
        let overlong = overlong_rotations(&plan);
        if !overlong.is_empty() {
            return Err(Box::new((trigger, Refusal::Invalid(overlong))));
        }
        let servers = match self.servers.prepare(&settings.admin) {
            Ok(servers) => servers,
            Err(refusal) => return Err(Box::new((trigger, refusal))),
        };
        let opened = match &self.log {
            Some(_) => log::prepare(settings.log.file.as_deref()).map(Some),
            None => Ok(None),
        };
        let sink = match opened {
            Ok(sink) => sink,
            Err(error) => return Err(Box::new((trigger, Refusal::Log(error.to_string())))),
        };
        let reserved = match self.choose_ports(&mut plan) {
            Ok(reserved) => reserved,
            Err(refusal) => return Err(Box::new((trigger, refusal))),
        };
        let taken = self.taken_elsewhere(&plan);
        if !taken.is_empty() {
            return Err(Box::new((trigger, Refusal::NotPrepared(taken))));
        }
        let mut members = Members::new(&plan, settings.clone(), &self.discovery.members);
        if self.settings.is_none() {
            self.discovery.fill_first(&settings, &mut members, now);
        }
        let plan = Arc::new(members.plan(&plan));
        let hosts = hosts_of(
            &plan,
            all_checks(&settings, &members)
                .iter()
                .map(|check| &*check.host),
        );
        let known = self.book.borrow().clone();
        let unknown: BTreeSet<Box<str>> = hosts
            .iter()
            .filter(|host| !known.contains_key(*host))
            .cloned()
            .collect();
        self.wanted.send_modify(|wanted| {
            wanted.extend(hosts);
            wanted.sort_unstable();
            wanted.dedup();
        });
        self.outbox.send_all(|| Command::Prepare(plan.clone()));
        self.change = Some(Change {
            preparation: Preparation::new(plan.generation, self.outbox.shards(), unknown, now),
            plan,
            members,
            settings,
            servers,
            sink,
            trigger,
            _reserved: reserved,
        });
        Ok(())
    }

    /// Looks whether the change on its way is ready, refused, or late.
    pub(super) fn advance_change(&mut self, now: Instant) {
        let Some(change) = &self.change else { return };
        match change.preparation.verdict(now) {
            Verdict::Waiting => {}
            Verdict::Ready(bound) => {
                if let Some(change) = self.change.take() {
                    self.commit(change, &bound, now);
                }
            }
            Verdict::Refused(refusal) => self.refuse_change(refusal),
        }
    }

    /// Drops the change on its way, if there is one, on every shard.
    pub(super) fn refuse_change(&mut self, refusal: Refusal) {
        let Some(change) = self.change.take() else {
            return;
        };
        self.outbox.send_all(|| Command::Abort);
        // Only what the configuration in force needs is resolved on.
        let hosts = match (self.state.plan(), &self.settings) {
            (Some(plan), Some(settings)) => hosts_of(
                plan,
                all_checks(settings, &self.discovery.members)
                    .iter()
                    .map(|check| &*check.host),
            ),
            _ => Vec::new(),
        };
        self.wanted.send_replace(hosts);
        let took = change.preparation.started().elapsed();
        self.refuse(change.trigger, refusal, took);
    }

    fn refuse(&mut self, trigger: Trigger, refusal: Refusal, took: Duration) {
        self.tally.count(false, took, SystemTime::now());
        tracing::error!(
            trigger = trigger.name(),
            reason = %refusal,
            "configuration refused, the one before stays in force"
        );
        match trigger {
            Trigger::Start => self.end(Ended::Refused(refusal)),
            Trigger::Call(reply) => {
                let _ = reply.send(Err(refusal));
            }
            Trigger::Signal | Trigger::Interval | Trigger::UsersFile => {}
        }
    }

    fn commit(&mut self, change: Change, bound: &[(ListenerId, SocketAddr)], now: Instant) {
        let Change {
            preparation,
            plan,
            members,
            settings,
            servers,
            sink,
            trigger,
            ..
        } = change;
        if let (Some(log), Some(sink)) = (&self.log, sink) {
            log.go_on(sink, log::Verbosity::from(settings.log.level));
        }
        if let Some(before) = &self.settings
            && (before.shards.cpus != settings.shards.cpus
                || before.shards.driver != settings.shards.driver)
        {
            tracing::warn!("a change of the shards section takes effect at the next start");
        }
        let checks = all_checks(&settings, &members);
        self.discovery.members = members;
        let hosts = hosts_of(&plan, checks.iter().map(|check| &*check.host));
        self.book.send_modify(|book| {
            Arc::make_mut(book).retain(|host, _| hosts.contains(host));
        });
        self.wanted.send_replace(hosts);
        for listener in plan.listeners.iter() {
            self.ports
                .insert(port_key(listener), listener.address.port());
        }
        self.probe_anew(&plan, &settings, checks);
        let admin = self.servers.commit(servers);
        let took = preparation.started().elapsed();
        self.tally.count(true, took, SystemTime::now());
        told(&plan, &settings, bound, &admin, &trigger);
        self.watched.watch(settings.users_files.iter().cloned());
        self.files_due = (!self.watched.is_empty()).then(|| now + LOOK_EVERY);
        // Those of the start run already.
        if self.settings.is_some() {
            self.settle_watches(&settings);
        }
        self.settings = Some(settings);
        self.schedule_look(now);
        if let Some(bell) = self.serving.take() {
            let listeners = plan.listeners.iter();
            let _ = bell.send(Serving {
                listeners: listeners.map(|l| (l.name.clone(), l.address)).collect(),
                admin,
            });
        }
        if let Trigger::Call(reply) = trigger {
            let _ = reply.send(Ok(()));
        }
    }

    /// Replaces all probers and lets the state adopt the plan.
    fn probe_anew(
        &mut self,
        plan: &Arc<Plan>,
        settings: &ControlSettings,
        checks: Vec<HealthCheck>,
    ) {
        self.probers.clear();
        self.probe_counts
            .retain(|name, _| plan.backends.iter().any(|backend| backend.name == *name));
        let mut probes = HashMap::new();
        for check in checks {
            let name = check.backend_name.clone();
            let is_discovered = self.discovery.members.found(&name).is_some();
            probes.extend(
                self.probe(check, is_discovered)
                    .map(|probed| (name, probed)),
            );
        }
        self.apply(Event::Adopted {
            plan: plan.clone(),
            probes,
            ejection: ejection_rules(settings),
            standings: self.discovery.members.standings(),
            at: SystemTime::now(),
        });
    }

    /// Addresses that another process listens on. The shards' own sockets share an address, and the kernel would
    /// let them share it with a second ringway too, which would get half of the traffic unseen.
    fn taken_elsewhere(&self, plan: &Plan) -> Vec<String> {
        let mut taken = Vec::new();
        for listener in plan.listeners.iter() {
            let known = self.state.plan().map(|plan| &*plan.listeners);
            let ours = known
                .unwrap_or_default()
                .iter()
                .any(|own| own.address == listener.address);
            if ours {
                continue;
            }
            if let Err(error) = bind_alone(listener.address) {
                taken.push(format!(
                    "listener {}: cannot listen on {}: {error}",
                    listener.name, listener.address
                ));
            }
        }
        taken
    }

    /// Gives listeners with port 0 one port for all shards: each shard binds its own socket, and the kernel
    /// would give each another port. A listener keeps its port over reloads.
    fn choose_ports(&self, plan: &mut Plan) -> Result<Vec<Socket>, Refusal> {
        let mut reserved = Vec::new();
        let listeners = Arc::get_mut(&mut plan.listeners);
        for listener in listeners.into_iter().flatten() {
            if listener.address.port() != 0 {
                continue;
            }
            let port = match self.ports.get(&port_key(listener)) {
                Some(port) => *port,
                None => {
                    let socket = reserve(listener.address).map_err(|error| {
                        Refusal::NotPrepared(vec![format!(
                            "listener {}: cannot reserve a port on {}: {error}",
                            listener.name, listener.address
                        )])
                    })?;
                    let port = socket.local_addr().ok().and_then(|a| a.as_socket());
                    reserved.push(socket);
                    port.map_or(0, |address| address.port())
                }
            };
            listener.address.set_port(port);
        }
        Ok(reserved)
    }
}

/// The probes of configured backends and of discovered ones.
fn all_checks(settings: &ControlSettings, members: &Members) -> Vec<HealthCheck> {
    let found = members.names().filter_map(|name| members.check(name));
    settings
        .health_checks
        .iter()
        .cloned()
        .chain(found)
        .collect()
}

/// When pools leave members out.
fn ejection_rules(settings: &ControlSettings) -> Vec<(PoolId, Rule)> {
    let rules = settings.ejections.iter().map(|ejection| {
        let rule = Rule {
            consecutive_failures: ejection.consecutive_failures,
            time: ejection.time,
        };
        (ejection.pool, rule)
    });
    rules.collect()
}

/// A bound socket that does not listen: it holds the port and gets no connections.
fn reserve(address: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Binds as the only owner of an address, and lets go.
fn bind_alone(address: SocketAddr) -> std::io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    // A bind alone succeeds beside a listening socket that may be shared; to listen does not.
    socket.listen(1)
}

/// A listener may have a plain and a TLS side of one name.
fn port_key(listener: &ringway_shards::plan::Listener) -> String {
    let side = if listener.tls.is_some() { "tls" } else { "" };
    format!("{}/{side}", listener.name)
}

fn told(
    plan: &Plan,
    settings: &ControlSettings,
    bound: &[(ListenerId, SocketAddr)],
    admin: &[(&'static str, SocketAddr)],
    trigger: &Trigger,
) {
    for warning in &settings.warnings {
        tracing::warn!(problem = %warning, "configuration warning");
    }
    for floor in &settings.floors {
        if floor.was_reset() {
            tracing::warn!(
                alb = %floor.alb_name,
                unprobed = %floor.unprobed.join(", "),
                "healthy_floor reset to 0: these members are not probed and would never be available"
            );
        }
        if floor.admits_failing() {
            tracing::warn!(
                alb = %floor.alb_name,
                "healthy_floor below 0 sends requests to members whose probes fail"
            );
        }
    }
    for listener in plan.listeners.iter() {
        let is_new = bound.iter().any(|(id, _)| *id == listener.id);
        tracing::info!(
            listener = %listener.name,
            address = %listener.address,
            tls = listener.tls.is_some(),
            new = is_new,
            "listening"
        );
    }
    for (name, address) in admin {
        tracing::info!(listener = name, address = %address, "listening for admin");
    }
    tracing::info!(
        trigger = trigger.name(),
        generation = plan.generation.0,
        backends = plan.backends.len(),
        "configuration in force"
    );
}
