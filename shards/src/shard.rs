//! One core's state and its loop.
//!
//! Owns everything the shard has: the current [`View`], sockets, peers, buffers, counters. Called by
//! [`crate::spawn`] on the shard's own thread. The loop takes commands from the control core one at a time;
//! each is quick, and none waits for a client.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringway_io::buffer::Buffers;
use ringway_io::cross::Sender;
use ringway_io::net::deadline::Watchdog;
use ringway_io::net::listen::{Listening, listen};
use ringway_io::task::{self, Turns};

use crate::accept::{self, Door};
use crate::authenticate::logins::Logins;
use crate::clock::Clock;
use crate::compress::Places;
use crate::headers::Server;
use crate::limits::DEADLINE_TICK;
use crate::link::{Check, Command, Event, ShardEnd, ShardId};
use crate::lookups::Lookups;
use crate::mechanism::time_series_merge::Known;
use crate::metrics::{BackendCells, Cells, Count, LoginCells};
use crate::peers::{PeerGroup, Peers, REAP_EVERY};
use crate::plan::{Backend, BackendId, BackendKind, ListenerId, Origin, Plan};
use crate::snapshot::{Health, PoolTable};

/// Everything one shard owns.
pub(crate) struct Shard {
    pub(crate) id: ShardId,
    /// How many shards share the limits of the plan.
    pub(crate) shards: u32,
    pub(crate) dog: Watchdog,
    pub(crate) buffers: Buffers,
    pub(crate) turns: Turns,
    pub(crate) cells: Cells,
    pub(crate) clock: Rc<Clock>,
    pub(crate) compressors: Places,
    pub(crate) peers: Peers,
    logins: Rc<Logins>,
    pub(crate) lookups: Lookups,
    view: RefCell<Option<Rc<View>>>,
    doors: RefCell<Vec<Rc<Door>>>,
    doors_opened: Cell<usize>,
    events: Sender<(ShardId, Event)>,
    /// What is being dropped has run out of time.
    expiring: Cell<bool>,
}

/// What a request sees for its whole life: one plan and one table of it.
pub(crate) struct View {
    pub(crate) active: Rc<Active>,
    pub(crate) table: Arc<PoolTable>,
}

impl View {
    /// Tells the peers of each origin what the table says of it, so that who waits for a lost one hears of it.
    fn mark_lost(&self) {
        for (origin, state) in self.active.origins.iter().zip(&self.table.backends) {
            if let Some(group) = origin {
                group.set_lost(state.health == Health::Unavailable);
            }
        }
    }
}

/// A plan and what this shard made for it.
pub(crate) struct Active {
    pub(crate) plan: Arc<Plan>,
    pub(crate) logins: Rc<Logins>,
    pub(crate) login_cells: Rc<LoginCells>,
    pub(crate) dog: Watchdog,
    /// This server, as heads tell of it.
    pub(crate) server: Server,
    /// What the servers of each pool are, as far as requests had to know.
    pub(crate) servers: Known,
    origins: Vec<Option<Rc<PeerGroup>>>,
    cells: Vec<Rc<BackendCells>>,
    events: Sender<(ShardId, Event)>,
    shard: ShardId,
}

impl Drop for Active {
    fn drop(&mut self) {
        let _ = self
            .events
            .send((self.shard, Event::Released(self.plan.clone())));
    }
}

impl Active {
    /// Connections to this origin.
    ///
    /// # Panics
    /// When the backend is no origin of this plan.
    pub(crate) fn peers(&self, id: BackendId) -> &Rc<PeerGroup> {
        self.origins[id.index()]
            .as_ref()
            .expect("every origin of the plan has a group")
    }

    /// Has a password checked; false when the question cannot be sent.
    pub(crate) fn ask(&self, check: Box<Check>) -> bool {
        let event = Event::Verify(check);
        self.events.send((self.shard, event)).is_ok()
    }

    /// Counters of this backend.
    pub(crate) fn cells(&self, id: BackendId) -> &Rc<BackendCells> {
        &self.cells[id.index()]
    }
}

/// A plan that was prepared and not committed.
struct Prepared {
    plan: Arc<Plan>,
    bound: Vec<(ListenerId, Listening)>,
}

impl Shard {
    /// What the next request is to see; `None` before the first commit.
    pub(crate) fn view(&self) -> Option<Rc<View>> {
        self.view.borrow().clone()
    }

    /// Tells the control core when an origin begins to fail or to answer again; it logs the change.
    pub(crate) fn note_origin(
        &self,
        backend: &Backend,
        cells: &BackendCells,
        failure: Option<&str>,
    ) {
        /// Least time between two reports of one origin: one that flaps must not fill the log.
        const SAY_EVERY_MS: u64 = 1000;
        if cells.failing.get() == failure.is_some() {
            return;
        }
        let now_ms = self.dog.now_ms();
        if cells.said_ms.get() != 0 && now_ms < cells.said_ms.get() + SAY_EVERY_MS {
            return;
        }
        cells.failing.set(failure.is_some());
        cells.said_ms.set(now_ms.max(1));
        let (backend, failure) = (backend.name.clone(), failure.map(str::to_owned));
        self.report(Event::Origin { backend, failure });
    }

    /// Tells the control core that replicas of these groups disagree; it logs that.
    pub(crate) fn note_conflict(&self, cells: &BackendCells, groups: impl FnOnce() -> String) {
        /// Least time between two reports of one ALB: replicas that disagree do so in every answer.
        const SAY_EVERY_MS: u64 = 60_000;
        let (said_ms, now_ms) = (cells.conflict_said_ms.get(), self.dog.now_ms());
        if said_ms != 0 && now_ms < said_ms + SAY_EVERY_MS {
            return;
        }
        cells.conflict_said_ms.set(now_ms.max(1));
        self.report(Event::Conflict {
            alb: cells.name().into(),
            groups: groups(),
        });
    }

    /// Tells the control core that the members of an ALB speak different PromQL; it logs that.
    pub(crate) fn note_versions(&self, cells: &BackendCells, versions: impl FnOnce() -> String) {
        if cells.versions_said.replace(true) {
            return;
        }
        self.report(Event::MixedVersions {
            alb: cells.name().into(),
            versions: versions(),
        });
    }

    /// Drops work whose time is up: exchanges in it that have not been answered count as failed.
    pub(crate) fn expire<T>(&self, drop_late: impl FnOnce() -> T) -> T {
        let before = self.expiring.replace(true);
        let dropped = drop_late();
        self.expiring.set(before);
        dropped
    }

    /// Whether what is being dropped is dropped since its time is up.
    pub(crate) fn is_expiring(&self) -> bool {
        self.expiring.get()
    }

    /// Counts an exchange that failed below HTTP, or one that did not, for the control core, which ejects.
    pub(crate) fn note_reach(&self, cells: &BackendCells, failed: bool) {
        if cells.streak.note(failed) {
            self.report_reach(cells);
        }
    }

    /// Says what is due. What does not fit the queue stays, for the next exchange or the next round.
    fn report_reach(&self, cells: &BackendCells) {
        let now_ms = self.dog.now_ms();
        let Some(report) = cells.streak.due(now_ms) else {
            return;
        };
        let is_sent = self.report(Event::Unreached {
            backend: cells.name().into(),
            answered: report.answered,
            failures: report.failures,
        });
        if is_sent {
            cells.streak.said(report, now_ms);
        }
    }

    /// Sends a message to the control core; false when there is no room for it.
    pub(crate) fn report(&self, event: Event) -> bool {
        let is_sent = self.events.send((self.id, event)).is_ok();
        if !is_sent {
            self.cells.events_dropped.bump();
        }
        is_sent
    }

    /// Binds what `plan` listens on and this shard does not yet.
    fn prepare(&self, plan: Arc<Plan>) -> Result<Prepared, String> {
        let mut bound: Vec<(ListenerId, Listening)> = Vec::new();
        for listener in plan.listeners.iter() {
            let open = self
                .doors
                .borrow()
                .iter()
                .any(|door| door.address == listener.address);
            if open {
                continue;
            }
            let socket = listen(listener.address).map_err(|error| {
                format!(
                    "listener {}: cannot listen on {}: {error}",
                    listener.name, listener.address
                )
            })?;
            bound.push((listener.id, socket));
        }
        Ok(Prepared { plan, bound })
    }

    /// Serves the prepared plan from the next request on.
    fn commit(self: &Rc<Self>, prepared: Prepared, table: Arc<PoolTable>) {
        let Prepared { plan, bound } = prepared;
        debug_assert_eq!(
            table.generation, plan.generation,
            "plan and table go together"
        );
        let cells: Vec<Rc<BackendCells>> = plan
            .backends
            .iter()
            .map(|backend| self.cells.backend(backend))
            .collect();
        self.peers.begin_plan();
        let backends = plan.backends.iter().zip(&cells);
        let origins = backends.map(|(backend, cells)| self.peers_of(backend, cells));
        let origins = origins.collect();
        let view = self.view_of(plan.clone(), table, (origins, cells));
        view.mark_lost();
        self.peers.end_plan();
        let last = self.view.borrow_mut().replace(view);
        self.logins.forget();
        let names: HashSet<&str> = plan.backends.iter().map(|b| &*b.name).collect();
        self.cells.retain_backends(|name| names.contains(name));
        self.move_doors(&plan, last);
        for (id, socket) in bound {
            self.open_door(&plan, id, socket);
        }
    }

    /// Goes over to the plan in use with other discovered members. Who stays is taken over as it is: a change of one
    /// member does not begin anew with thousands.
    fn members(&self, plan: Arc<Plan>, table: Arc<PoolTable>) {
        let last = self.view.borrow().clone();
        let Some(last) = last.filter(|view| view.active.plan.generation == plan.generation) else {
            return;
        };
        let before = &last.active;
        let mut origins = Vec::with_capacity(plan.backends.len());
        let mut all_cells = Vec::with_capacity(plan.backends.len());
        // Names and connections of those that are new or moved to another place.
        let mut moved: HashSet<&str> = HashSet::new();
        let mut kept: HashSet<usize> = HashSet::new();
        for (index, backend) in plan.backends.iter().enumerate() {
            let stays = before.plan.backends.get(index);
            if stays.is_some_and(|known| Arc::ptr_eq(known, backend)) {
                origins.push(before.origins[index].clone());
                all_cells.push(before.cells[index].clone());
                continue;
            }
            let cells = self.cells.backend(backend);
            let group = self.peers_of(backend, &cells);
            moved.insert(&backend.name);
            kept.extend(group.as_ref().map(|group| group.caller()));
            origins.push(group);
            all_cells.push(cells);
        }
        let mut gone: HashSet<&str> = HashSet::new();
        for (index, backend) in before.plan.backends.iter().enumerate() {
            let stays = plan.backends.get(index);
            if stays.is_some_and(|known| Arc::ptr_eq(known, backend)) {
                continue;
            }
            if let Some(group) = &before.origins[index]
                && !kept.contains(&group.caller())
            {
                group.set_lost(true);
            }
            if !moved.contains(&*backend.name) {
                gone.insert(&backend.name);
            }
        }
        if !gone.is_empty() {
            self.cells.retain_backends(|name| !gone.contains(name));
        }
        let view = self.view_of(plan.clone(), table, (origins, all_cells));
        view.mark_lost();
        self.view.borrow_mut().replace(view);
    }

    fn view_of(
        &self,
        plan: Arc<Plan>,
        table: Arc<PoolTable>,
        (origins, cells): (Vec<Option<Rc<PeerGroup>>>, Vec<Rc<BackendCells>>),
    ) -> Rc<View> {
        let active = Rc::new(Active {
            origins,
            cells,
            logins: self.logins.clone(),
            login_cells: self.cells.logins.clone(),
            dog: self.dog.clone(),
            server: Server::named(&plan.server_name),
            servers: Known::default(),
            events: self.events.clone(),
            shard: self.id,
            plan,
        });
        Rc::new(View { active, table })
    }

    /// Connections to a backend; `None` where there are none.
    fn peers_of(&self, backend: &Backend, cells: &Rc<BackendCells>) -> Option<Rc<PeerGroup>> {
        let BackendKind::Origin(origin) = &backend.kind else {
            return None;
        };
        let tools = (&self.buffers, &self.dog);
        let group = self
            .peers
            .group(&backend.name, origin, self.shards, tools, cells);
        Some(group)
    }

    /// Connections to what a rewriter has put in place of the origin of a backend; `None` when there are too many such.
    pub(crate) fn peers_elsewhere(
        &self,
        backend: &Backend,
        origin: &Origin,
        cells: &Rc<BackendCells>,
    ) -> Option<Rc<PeerGroup>> {
        let tools = (&self.buffers, &self.dog);
        self.peers
            .elsewhere(&backend.name, origin, self.shards, tools, cells)
    }

    /// Points the doors that stay at their listener of the new plan and closes the others, which go on with the
    /// `last` view.
    fn move_doors(&self, plan: &Plan, last: Option<Rc<View>>) {
        self.doors.borrow_mut().retain(|door| {
            let listener = plan.listeners.iter().find(|l| l.address == door.address);
            match listener {
                Some(listener) => door.listener.set(listener.id),
                None => {
                    door.remove(last.clone());
                    self.dog.stop_idle_of(door.owner);
                }
            }
            listener.is_some()
        });
    }

    fn open_door(self: &Rc<Self>, plan: &Plan, id: ListenerId, socket: Listening) {
        let Some(listener) = plan.listeners.iter().find(|listener| listener.id == id) else {
            return;
        };
        let watch = self.dog.watch_task();
        let owner = self.doors_opened.get() + 1;
        self.doors_opened.set(owner);
        let tools = (watch.stopper(), self.cells.listener(&listener.name));
        let door = Rc::new(Door::new(listener.address, id, owner, tools));
        self.doors.borrow_mut().push(door.clone());
        let shard = self.clone();
        task::spawn(async move { accept::run(shard, door, socket, watch).await });
    }

    /// Uses this table from the next pick on, if it is of the plan in use.
    fn table(&self, table: Arc<PoolTable>) {
        let mut view = self.view.borrow_mut();
        let Some(current) = view.as_ref() else {
            return;
        };
        if current.active.plan.generation == table.generation {
            let next = Rc::new(View {
                active: current.active.clone(),
                table,
            });
            next.mark_lost();
            *view = Some(next);
        }
    }

    /// Ends: no new connections, running requests finish, all is cut after `limit`.
    async fn drain(self: &Rc<Self>, limit: Duration) {
        for door in self.doors.borrow_mut().drain(..) {
            door.close();
        }
        self.dog.stop_idle();
        let mut left = limit;
        while !self.dog.is_empty() && !left.is_zero() {
            let nap = left.min(DEADLINE_TICK);
            task::sleep(nap).await;
            left -= nap;
        }
        let cut = u32::try_from(self.dog.len()).unwrap_or(u32::MAX);
        self.dog.stop_all();
        // One more turn, so that what was cut drops its sockets.
        self.turns.yield_now().await;
        self.report(Event::Drained(cut));
    }
}

/// Starts what a shard does on its own, beside connections and commands.
fn keep_house(shard: &Rc<Shard>) {
    let dog = shard.dog.clone();
    task::spawn(async move { dog.run().await });
    let reaper = shard.clone();
    task::spawn(async move {
        loop {
            task::sleep(REAP_EVERY).await;
            reaper.peers.reap();
            reaper
                .cells
                .each_backend(|cells| reaper.report_reach(cells));
        }
    });
}

/// A shard that serves nothing yet.
fn idle(id: ShardId, shards: u32, events: Sender<(ShardId, Event)>) -> Rc<Shard> {
    let dog = Watchdog::new(DEADLINE_TICK);
    Rc::new(Shard {
        id,
        shards,
        buffers: Buffers::default(),
        turns: Turns::new(),
        cells: Cells::default(),
        clock: Rc::new(Clock::new(&dog)),
        dog,
        compressors: Places::default(),
        peers: Peers::default(),
        logins: Rc::new(Logins::new()),
        lookups: Lookups::new(),
        view: RefCell::new(None),
        doors: RefCell::default(),
        doors_opened: Cell::new(0),
        expiring: Cell::new(false),
        events,
    })
}

/// Runs one shard until it is drained or the control core is gone.
pub(crate) async fn run(end: ShardEnd, shards: u32) {
    let ShardEnd {
        id,
        mut commands,
        events,
    } = end;
    let shard = idle(id, shards, events);
    keep_house(&shard);
    let mut prepared: Option<Prepared> = None;
    while let Some(command) = commands.recv().await {
        match command {
            Command::Prepare(plan) => {
                let generation = plan.generation;
                let result = shard.prepare(plan);
                let answer = result.map(|ready| {
                    let bound = ready
                        .bound
                        .iter()
                        .map(|(id, socket)| (*id, socket.address()))
                        .collect();
                    prepared = Some(ready);
                    bound
                });
                shard.report(Event::Prepared(generation, answer));
            }
            Command::Commit(table) => {
                let generation = table.generation;
                if let Some(ready) = prepared.take_if(|p| p.plan.generation == generation) {
                    shard.commit(ready, table);
                    shard.report(Event::Committed(generation));
                }
            }
            Command::Abort => prepared = None,
            Command::Table(table) => shard.table(table),
            Command::Members(plan, table) => {
                let version = table.version;
                shard.members(plan, table);
                shard.report(Event::Members(version));
            }
            Command::Verdict(token, verdict) => {
                shard.logins.answer(token, verdict, shard.dog.now_ms());
            }
            Command::Found(token, found) => {
                shard.lookups.answer(token, &found, shard.dog.now_ms());
            }
            Command::Scrape(token) => {
                shard.report(Event::Metrics(token, Box::new(shard.cells.copy())));
            }
            Command::Drain(limit) => {
                // Beside the loop: a scrape is answered to the end, which is when the control core hangs up.
                let draining = shard.clone();
                task::spawn(async move { draining.drain(limit).await });
            }
        }
    }
}
