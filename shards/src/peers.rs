//! This shard's connections to origins, idle and open, grouped by all that makes them differ.
//!
//! A [`PeerGroup`] belongs to one backend and its peer key (scheme, host, TLS settings) and lives as long as a
//! plan has both. Only a connection whose exchange ended cleanly comes back; any other is closed.
//!
//! Promises: never more than the group's share of connections is open; a request beyond it waits, in order,
//! until one is free or its own deadline passes. A connection that was closed, or on which bytes arrived that
//! nobody asked for, is not handed out. Who waits on an origin that becomes lost (its probes fail, or a reload
//! removed it) is polled again and can see it by [`PeerGroup::losses`].

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use ringway_io::buffer::{Buffers, Inbox};
use ringway_io::net::connect::{ConnectError, connect};
use ringway_io::net::deadline::Watchdog;
use ringway_io::net::http1::ResponseHead;
use ringway_io::net::stream::Conn;

use crate::limits::ELSEWHERE_MAX;
use crate::metrics::{BackendCells, Count};
use crate::plan::Origin;

/// All groups of one shard.
#[derive(Default)]
pub(crate) struct Peers {
    groups: RefCell<HashMap<Box<str>, Rc<PeerGroup>>>,
    /// Of origins that rewriters have put in place of the backends'; at most [`ELSEWHERE_MAX`].
    elsewhere: RefCell<HashMap<Box<str>, Rc<PeerGroup>>>,
    /// Counts uses of those.
    uses: Cell<u64>,
}

/// Connections that may stand in for each other, but for their address.
pub(crate) struct PeerGroup {
    /// Boxed, so that a connection that comes and goes moves as one word. Their `place` is empty.
    #[expect(clippy::vec_box, reason = "the boxes are what is handed out")]
    idle: RefCell<Vec<Box<Peer>>>,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
    open: Cell<u32>,
    open_max: Cell<u32>,
    idle_max: Cell<u32>,
    keep_alive_ms: Cell<u64>,
    /// The plan in use has it.
    planned: Cell<bool>,
    /// Nothing is to be expected of the origin: probes say it is down, or no plan has it any more.
    lost: Cell<bool>,
    losses: Cell<u32>,
    /// Which use of an origin that a rewriter chose was its last.
    used: Cell<u64>,
    buffers: Buffers,
    dog: Watchdog,
    cells: RefCell<Rc<BackendCells>>,
    /// Open and idle connections as they are counted in `cells`.
    counted: Cell<[u64; 2]>,
}

#[derive(Default)]
struct Waiter {
    grant: RefCell<Option<Grant>>,
    waker: RefCell<Option<Waker>>,
}

/// What a waiter is given: a connection that came back, or the right to open one.
enum Grant {
    Peer(Box<Peer>),
    Place(Place),
}

impl Waiter {
    fn grant(&self, grant: Grant) {
        *self.grant.borrow_mut() = Some(grant);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A connection in use. Dropping it closes it.
pub(crate) struct Peer {
    pub(crate) conn: Conn,
    pub(crate) inbox: Inbox,
    pub(crate) head: ResponseHead,
    /// It has carried an exchange before, so the origin may have closed it by now.
    pub(crate) reused: bool,
    address: SocketAddr,
    /// Milliseconds of the watchdog's clock when it became idle.
    idle_since_ms: u64,
    place: Place,
}

/// The right to one open connection; `None` once it was passed on.
struct Place(Option<Rc<PeerGroup>>);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AcquireError {
    /// The origin's name has no addresses now.
    #[error("no address of the origin is known")]
    Unresolved,
    /// The last address tried could not be connected to.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl Peers {
    /// The group of the backend `name`, made or updated with its limits. `shards` is how many share them. Each
    /// backend has its own, or one backend's slow origin would use up the connections of another; over a
    /// reload it is kept where name and peer key stay.
    pub(crate) fn group(
        &self,
        name: &str,
        origin: &Origin,
        shards: u32,
        tools: (&Buffers, &Watchdog),
        cells: &Rc<BackendCells>,
    ) -> Rc<PeerGroup> {
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(key(name, origin));
        let group = group.or_insert_with(|| PeerGroup::new(tools, cells));
        group.planned.set(true);
        group.limit(origin, shards);
        group.count_in(cells);
        group.clone()
    }

    /// As [`Peers::group`], of an origin that a rewriter has put in place of the backend's. It stays for as long as one
    /// of its connections does, unless there are too many of those: then the one that nobody uses, and nobody has used
    /// for the longest time, makes room. `None` when all are used.
    pub(crate) fn elsewhere(
        &self,
        name: &str,
        origin: &Origin,
        shards: u32,
        tools: (&Buffers, &Watchdog),
        cells: &Rc<BackendCells>,
    ) -> Option<Rc<PeerGroup>> {
        let key = key(name, origin);
        let known = self.elsewhere.borrow().get(&key).cloned();
        let group = match known {
            Some(group) => group,
            None => {
                if !self.make_room() {
                    return None;
                }
                let group = PeerGroup::new(tools, cells);
                self.elsewhere.borrow_mut().insert(key, group.clone());
                group
            }
        };
        let uses = self.uses.get() + 1;
        self.uses.set(uses);
        group.used.set(uses);
        group.limit(origin, shards);
        group.count_in(cells);
        Some(group)
    }

    /// Whether there may be one more group elsewhere. Clients may choose where, so none of them has its place for good.
    fn make_room(&self) -> bool {
        let groups = self.elsewhere.borrow();
        if groups.len() < ELSEWHERE_MAX {
            return true;
        }
        // One reference is ours; requests and connections in use hold others.
        let unused = groups
            .iter()
            .filter(|(_, group)| Rc::strong_count(group) == 1);
        let oldest = unused.min_by_key(|(_, group)| group.used.get());
        let Some(key) = oldest.map(|(key, _)| key.clone()) else {
            return false;
        };
        drop(groups);
        self.elsewhere.borrow_mut().remove(&key);
        true
    }

    /// A new plan is coming: what it does not ask for until [`Peers::end_plan`] is lost.
    pub(crate) fn begin_plan(&self) {
        for group in self.groups.borrow().values() {
            group.planned.set(false);
        }
    }

    /// The plan has asked for all that it uses.
    pub(crate) fn end_plan(&self) {
        for group in self.groups.borrow().values() {
            if !group.planned.get() {
                group.set_lost(true);
            }
        }
    }

    /// Closes what has been idle too long, and forgets groups that no plan uses.
    pub(crate) fn reap(&self) {
        self.groups.borrow_mut().retain(|_, group| {
            group.reap();
            // One reference is ours; a plan in use holds another.
            Rc::strong_count(group) > 1
        });
        self.elsewhere.borrow_mut().retain(|_, group| {
            group.reap();
            Rc::strong_count(group) > 1 || !group.idle.borrow().is_empty()
        });
    }
}

/// What tells groups apart.
fn key(name: &str, origin: &Origin) -> Box<str> {
    format!("{name}\n{}", origin.peer_key).into()
}

/// One shard's part of a limit of the whole process.
fn share(limit: u32, shards: u32) -> u32 {
    (limit / shards.max(1)).max(1)
}

impl PeerGroup {
    fn new(tools: (&Buffers, &Watchdog), cells: &Rc<BackendCells>) -> Rc<PeerGroup> {
        Rc::new(PeerGroup {
            idle: RefCell::default(),
            waiting: RefCell::default(),
            open: Cell::new(0),
            open_max: Cell::new(1),
            idle_max: Cell::new(1),
            keep_alive_ms: Cell::new(0),
            planned: Cell::new(true),
            lost: Cell::new(false),
            losses: Cell::new(0),
            used: Cell::new(0),
            buffers: tools.0.clone(),
            dog: tools.1.clone(),
            cells: RefCell::new(cells.clone()),
            counted: Cell::new([0; 2]),
        })
    }

    fn limit(&self, origin: &Origin, shards: u32) {
        self.open_max.set(share(origin.connections_max, shards));
        self.idle_max.set(share(origin.idle_max, shards));
        let keep_alive = u64::try_from(origin.keep_alive_timeout.as_millis()).unwrap_or(u64::MAX);
        self.keep_alive_ms.set(keep_alive);
    }

    /// Says whether anything is to be expected of the origin. When that ends, all who wait for it are polled.
    pub(crate) fn set_lost(&self, lost: bool) {
        if lost && !self.lost.replace(true) {
            self.losses.set(self.losses.get().wrapping_add(1));
            self.dog.call(self.caller());
        } else if !lost {
            self.lost.set(false);
        }
    }

    /// Nothing is to be expected of the origin now.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// How often the origin became lost.
    pub(crate) fn losses(&self) -> u32 {
        self.losses.get()
    }

    /// What stands for this group in alarms; never 0.
    pub(crate) fn caller(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// An idle connection to one of `addresses`, or a new one; waits while the limit is reached.
    pub(crate) async fn acquire(
        self: &Rc<Self>,
        origin: &Origin,
        addresses: &[SocketAddr],
    ) -> Result<Box<Peer>, AcquireError> {
        if let Some(peer) = self.reuse(addresses) {
            return Ok(peer);
        }
        match self.grant().await {
            Grant::Peer(peer) if addresses.contains(&peer.address) && !peer.conn.disturbed() => {
                self.cells.borrow().reused.bump();
                Ok(peer)
            }
            Grant::Peer(peer) => self.dial(origin, addresses, peer.close()).await,
            Grant::Place(place) => self.dial(origin, addresses, place).await,
        }
    }

    /// A new connection, whatever is idle; waits while the limit is reached.
    pub(crate) async fn acquire_fresh(
        self: &Rc<Self>,
        origin: &Origin,
        addresses: &[SocketAddr],
    ) -> Result<Box<Peer>, AcquireError> {
        let place = match self.grant().await {
            Grant::Peer(peer) => peer.close(),
            Grant::Place(place) => place,
        };
        self.dial(origin, addresses, place).await
    }

    /// An idle connection to one of `addresses`, if there is one.
    pub(crate) fn reuse(self: &Rc<Self>, addresses: &[SocketAddr]) -> Option<Box<Peer>> {
        loop {
            let mut peer = self.idle.borrow_mut().pop()?;
            peer.place = Place(Some(self.clone()));
            peer.reused = true;
            self.note();
            let age_ms = self.dog.now_ms().saturating_sub(peer.idle_since_ms);
            let fit = age_ms <= self.keep_alive_ms.get()
                && addresses.contains(&peer.address)
                && !peer.conn.disturbed();
            if fit {
                self.cells.borrow().reused.bump();
                return Some(peer);
            }
        }
    }

    async fn dial(
        self: &Rc<Self>,
        origin: &Origin,
        addresses: &[SocketAddr],
        place: Place,
    ) -> Result<Box<Peer>, AcquireError> {
        let cells = self.cells.borrow().clone();
        let mut last = AcquireError::Unresolved;
        for &address in addresses {
            cells.dialled.bump();
            let tls = origin
                .tls
                .as_ref()
                .map(|settings| (settings, &*origin.host));
            match Box::pin(connect(address, tls, origin.connect_timeout)).await {
                Ok(conn) => {
                    return Ok(Box::new(Peer {
                        conn,
                        inbox: Inbox::new(&self.buffers),
                        head: ResponseHead::new(),
                        reused: false,
                        address,
                        idle_since_ms: 0,
                        place,
                    }));
                }
                Err(error) => {
                    cells.dial_failures.bump();
                    last = error.into();
                }
            }
        }
        Err(last)
    }

    /// Takes the right to one open connection, in order of asking.
    async fn grant(self: &Rc<Self>) -> Grant {
        if self.waiting.borrow().is_empty() && self.make_room() {
            self.open.set(self.open.get() + 1);
            self.note();
            return Grant::Place(Place(Some(self.clone())));
        }
        let waiter = Rc::new(Waiter::default());
        self.waiting.borrow_mut().push_back(waiter.clone());
        let _ticket = Ticket {
            waiter: waiter.clone(),
            group: self.clone(),
        };
        poll_fn(|cx| {
            if let Some(grant) = waiter.grant.borrow_mut().take() {
                return Poll::Ready(grant);
            }
            *waiter.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// True when one more may be opened, after closing an idle one if that is what it takes.
    fn make_room(&self) -> bool {
        if self.open.get() < self.open_max.get() {
            return true;
        }
        let closed = self.idle.borrow_mut().pop();
        if closed.is_none() {
            return false;
        }
        drop(closed);
        self.open.set(self.open.get() - 1);
        self.note();
        true
    }

    fn next_waiter(&self) -> Option<Rc<Waiter>> {
        self.waiting.borrow_mut().pop_front()
    }

    fn reap(&self) {
        let now_ms = self.dog.now_ms();
        let keep_alive_ms = self.keep_alive_ms.get();
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        idle.retain(|peer| now_ms.saturating_sub(peer.idle_since_ms) <= keep_alive_ms);
        let closed = u32::try_from(before - idle.len()).unwrap_or(u32::MAX);
        drop(idle);
        self.open.set(self.open.get() - closed);
        self.note();
    }

    /// Counts its connections among those of the backend, which may have other groups.
    fn note(&self) {
        let idle = self.idle.borrow().len() as u64;
        self.count([u64::from(self.open.get()), idle]);
    }

    fn count(&self, now: [u64; 2]) {
        let before = self.counted.replace(now);
        let cells = self.cells.borrow();
        cells.open.add(now[0].wrapping_sub(before[0]));
        cells.idle.add(now[1].wrapping_sub(before[1]));
    }

    /// From now on it counts in these cells.
    fn count_in(&self, cells: &Rc<BackendCells>) {
        self.count([0; 2]);
        *self.cells.borrow_mut() = cells.clone();
        self.note();
    }
}

impl Drop for PeerGroup {
    fn drop(&mut self) {
        self.count([0; 2]);
    }
}

impl Peer {
    /// Keeps the connection for another exchange. Only for one whose exchange ended cleanly, with nothing
    /// left unread. Who waits for a connection gets it at once.
    pub(crate) fn give_back(mut self: Box<Self>) {
        debug_assert!(
            self.inbox.is_empty(),
            "bytes of one exchange never reach another"
        );
        let Some(group) = self.place.0.clone() else {
            return;
        };
        if let Some(waiter) = group.next_waiter() {
            self.reused = true;
            waiter.grant(Grant::Peer(self));
            return;
        }
        let full = group.idle.borrow().len() >= group.idle_max.get() as usize;
        if full || group.dog.stopping() {
            return;
        }
        // An idle connection is an open one, so its place stays taken, but not by a reference that would keep
        // the group alive for ever.
        self.place.0 = None;
        self.inbox.release();
        self.idle_since_ms = group.dog.now_ms();
        group.idle.borrow_mut().push(self);
        group.note();
    }

    /// Closes the connection and keeps its place.
    fn close(mut self: Box<Self>) -> Place {
        Place(self.place.0.take())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(group) = self.0.take() else {
            return;
        };
        if let Some(waiter) = group.next_waiter() {
            waiter.grant(Grant::Place(Place(Some(group))));
        } else {
            group.open.set(group.open.get() - 1);
            group.note();
        }
    }
}

/// Takes a waiter that gave up out of the queue. What it was granted meanwhile is freed by its own drop.
struct Ticket {
    waiter: Rc<Waiter>,
    group: Rc<PeerGroup>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.group
            .waiting
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, &self.waiter));
        let unused = self.waiter.grant.borrow_mut().take();
        drop(unused);
    }
}

/// How long an idle reaper sleeps.
pub(crate) const REAP_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
