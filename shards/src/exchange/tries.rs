//! Which members one request was tried at, when a try is given up, and who is asked next.
//!
//! Owned by [`super::route`] for one request. Promises: another member is asked only while not a byte of an
//! answer has come, and then only when nothing of the request was sent, or when its method is idempotent and all
//! that was read of its body is still held. Bounds: [`FAILOVERS_MAX`] for the former, the ALB's `attempts` and
//! its budget for the latter.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use ringway_io::net::deadline::Watch;
use smallvec::SmallVec;

use super::Task;
use super::upload::Flow;
use crate::limits::{FAILOVERS_MAX, HOPS_MAX};
use crate::metrics::{BackendCells, Count};
use crate::peers::PeerGroup;
use crate::plan::{Backend, BackendId, BackendKind, Mechanism, Origin, Retry};
use crate::respond::Failure;
use crate::retry::{Active, Ticket};
use crate::serve::Client;
use crate::shard::{Shard, View};

const NEVER: u64 = u64::MAX;

/// A way through backends, without the one it begins at.
pub(super) type Hops = SmallVec<[BackendId; 4]>;

/// All tries of one request.
pub(super) struct Tries<'a> {
    shard: &'a Rc<Shard>,
    /// What the request began with.
    view: &'a Rc<View>,
    first: BackendId,
    /// `None` where the route leads to an origin: there is nobody else to ask.
    policy: Option<Policy<'a>>,
    idempotent: bool,
    watch: Rc<Watch>,
    /// The request's own deadline.
    last_at: u64,
    /// Members that failed it.
    tried: SmallVec<[BackendId; 4]>,
    /// How many of those tries were not free.
    retried: u8,
    /// When the try began, of all but the first.
    began: Option<Instant>,
    /// Right of the retry that runs, or is about to.
    ticket: RefCell<Option<Ticket<'a>>>,
    now: Try,
}

/// What the ALB that the route leads to says.
struct Policy<'a> {
    retry: &'a Retry,
    cells: &'a BackendCells,
    active: Cell<Option<Active<'a>>>,
}

/// The try that runs.
struct Try {
    peers: Option<Rc<PeerGroup>>,
    /// Losses of the member that do not count any more.
    losses: Cell<u32>,
    /// Bytes of the request may have reached the member.
    sent: Cell<bool>,
    /// Bytes of an answer have come.
    answered: Cell<bool>,
    /// When another member is asked if that is allowed.
    patience_at: Cell<u64>,
    /// When the member's own limit passes, where that is before the request's.
    member_at: u64,
}

impl<'a> Tries<'a> {
    /// For a request that the route led to `first`, and that from there on to the origin of `task`.
    pub(super) fn new(task: &Task<'a>, client: &Client, first: BackendId) -> Tries<'a> {
        let watch = client.watch.clone();
        let mut limit = Duration::ZERO;
        if let BackendKind::Origin(origin) = &task.backend.kind {
            limit = origin.timeout;
        }
        let mut policy = None;
        if let BackendKind::Alb(alb) = &task.view.active.plan.backend(first).kind {
            limit = limit.max(alb.timeout);
            let cells = &**task.view.active.cells(first);
            policy = Some(Policy {
                retry: &alb.retry,
                cells,
                active: Cell::new(Some(cells.retry_budget.begin(&task.shard.dog))),
            });
        }
        Tries {
            shard: task.shard,
            view: task.view,
            first,
            policy,
            idempotent: task.asked(client).head.method().is_idempotent(),
            last_at: watch.at(limit).min(task.until),
            watch,
            tried: SmallVec::new(),
            retried: 0,
            began: None,
            ticket: RefCell::new(None),
            now: Try {
                peers: None,
                losses: Cell::new(0),
                sent: Cell::new(false),
                answered: Cell::new(false),
                patience_at: Cell::new(NEVER),
                member_at: NEVER,
            },
        }
    }

    /// Most bytes of a body to be held for another member.
    pub(super) fn body_bytes_max(&self) -> usize {
        let max = self.policy.as_ref().map_or(0, |p| p.retry.body_bytes_max);
        usize::try_from(max).unwrap_or(usize::MAX)
    }

    /// Begins a try at this origin.
    pub(super) fn begin(&mut self, origin: &Origin, peers: &Rc<PeerGroup>) {
        let member_at = self.watch.at(origin.timeout);
        self.now = Try {
            losses: Cell::new(peers.losses()),
            peers: Some(peers.clone()),
            sent: Cell::new(false),
            answered: Cell::new(false),
            patience_at: Cell::new(NEVER),
            member_at: if member_at < self.last_at {
                member_at
            } else {
                NEVER
            },
        };
        self.progress();
        if self.policy.is_some() {
            self.set_alarm();
        }
    }

    /// When the exchange ends at the latest, as far as it can be said before an answer has begun.
    pub(super) fn last_at(&self) -> u64 {
        self.last_at
    }

    /// The member begins to be waited for, now.
    pub(super) fn progress(&self) {
        let limit = self.policy.as_ref().and_then(|p| p.retry.try_timeout);
        if let Some(limit) = limit
            && !self.now.answered.get()
        {
            self.now.patience_at.set(self.watch.at(limit));
            self.set_alarm();
        }
    }

    fn set_alarm(&self) {
        let at = self.now.patience_at.get().min(self.now.member_at);
        let caller = self.now.peers.as_ref().map_or(0, |peers| peers.caller());
        self.watch.set_alarm(at, caller);
    }

    /// Says whether bytes of the request may have reached the member.
    pub(super) fn set_sent(&self, sent: bool) {
        self.now.sent.set(sent);
    }

    /// The first byte of an answer has come: this member it is. Returns when the exchange ends at the latest.
    pub(super) fn answered(&self, flow: &Flow) -> u64 {
        self.now.answered.set(true);
        self.watch.clear_alarm();
        flow.release();
        self.last_at.min(self.now.member_at)
    }

    /// True once the first byte of an answer has come.
    pub(super) fn is_answered(&self) -> bool {
        self.now.answered.get()
    }

    /// The exchange has become something that is none: it takes no part in the budget any more.
    pub(super) fn leave_budget(&self) {
        if let Some(policy) = &self.policy {
            policy.active.take();
        }
        self.ticket.take();
    }

    /// How long the try that ended now has taken; `None` for the first, which began with the request.
    pub(super) fn took(&self) -> Option<Duration> {
        self.began.map(|began| began.elapsed())
    }

    /// Does `work` of the try until it is done or the try is given up.
    pub(super) async fn patiently<F: Future>(
        &self,
        flow: &Flow,
        mut work: Pin<&mut F>,
    ) -> Result<F::Output, Failure> {
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => match self.given_up(flow) {
                Some(failure) => Poll::Ready(Err(failure)),
                None => Poll::Pending,
            },
        })
        .await
    }

    /// Why the try is not to be waited for any more.
    fn given_up(&self, flow: &Flow) -> Option<Failure> {
        let now = &self.now;
        if now.answered.get() {
            return None;
        }
        if let Some(peers) = &now.peers
            && peers.losses() != now.losses.get()
        {
            if self.may_move(flow, None) && self.other(Wish::NotLost).is_some() {
                return Some(Failure::MemberLost);
            }
            now.losses.set(peers.losses());
        }
        if self.watch.is_past(now.member_at) {
            return Some(match flow.awaits_client() {
                true => Failure::RequestTimeout,
                false => Failure::UpstreamTimeout,
            });
        }
        if self.watch.is_past(now.patience_at.get()) {
            if flow.awaits_client() {
                self.progress();
            } else if self.may_move(flow, None)
                && self.other(Wish::Any).is_some()
                && (!self.now.sent.get() || self.reserve())
            {
                return Some(Failure::TryTimeout);
            } else {
                now.patience_at.set(NEVER);
                self.set_alarm();
            }
        }
        None
    }

    /// Whether nobody is asked twice by asking another member: the budget has no say then. A connection that
    /// could not be made after a reused one had died is as good as none.
    fn is_free(&self, failure: Option<&Failure>) -> bool {
        !self.now.sent.get() || failure.is_some_and(Failure::spares_request)
    }

    /// Whether the request, as it stands, may go to another member, budget and members permitting.
    fn may_move(&self, flow: &Flow, failure: Option<&Failure>) -> bool {
        let Some(policy) = &self.policy else {
            return false;
        };
        if self.now.answered.get() || !flow.is_whole() || self.watch.is_past(self.last_at) {
            return false;
        }
        if self.is_free(failure) {
            return self.tried.len() < FAILOVERS_MAX;
        }
        self.idempotent
            && self.retried < policy.retry.attempts_max
            && flow.held() as u64 <= policy.retry.body_bytes_max
    }

    /// Whether the request may be sent once more to the member whose reused connection has just died.
    pub(super) fn may_resend(&self, flow: &Flow) -> bool {
        !self.now.answered.get() && flow.is_whole() && (self.idempotent || !self.now.sent.get())
    }

    /// Whether it is worth to wait for the client, whose body is being read, before the failure is dealt with.
    pub(super) fn is_worth(&self, failure: &Failure, flow: &Flow, reused: bool) -> bool {
        if !failure.is_silent() {
            return false;
        }
        (reused && self.may_resend(flow))
            || (self.may_move(flow, Some(failure)) && self.other(Wish::Any).is_some())
    }

    /// Takes the right to one retry out of the budget.
    fn reserve(&self) -> bool {
        let Some(policy) = &self.policy else {
            return false;
        };
        let now_ms = self.shard.dog.now_ms();
        let budget = &policy.cells.retry_budget;
        match budget.take(policy.retry, self.shard.shards, now_ms) {
            Some(ticket) => {
                self.ticket.replace(Some(ticket));
                true
            }
            None => false,
        }
    }

    /// The member to ask after `backend` has failed the request, which may have come there by a rule, if there is one: the table it is live in, and the
    /// way to it.
    pub(super) fn next(
        &mut self,
        failure: &Failure,
        flow: &Flow,
        (backend, rule): (&Arc<Backend>, Option<BackendId>),
    ) -> Option<(Rc<View>, Hops)> {
        self.watch.clear_alarm();
        if !failure.is_silent() || !self.may_move(flow, Some(failure)) {
            return None;
        }
        // Looked for first, so that no right is taken for nothing.
        self.other(Wish::Any)?;
        if self.is_free(Some(failure)) {
            self.ticket.take();
        } else if self.is_granted(failure) {
            self.retried += 1;
        } else {
            return None;
        }
        self.tried.push(backend.id);
        self.tried.extend(rule);
        let (view, way) = self.take_turn()?;
        self.view.active.cells(backend.id).retries.bump();
        if let Some(other) = way.last() {
            view.active.cells(*other).failovers.bump();
        }
        self.began = Some(Instant::now());
        Some((view, way))
    }

    /// Whether the budget allows the retry, which may have been asked before.
    fn is_granted(&self, failure: &Failure) -> bool {
        let lost = self.now.peers.as_ref().is_some_and(|peers| peers.is_lost());
        match &self.policy {
            Some(policy) if lost => {
                // The right of the retry before this one is given back.
                let moved = policy.cells.retry_budget.move_on();
                self.ticket.replace(Some(moved));
                true
            }
            Some(_) if matches!(failure, Failure::TryTimeout) => true,
            _ => {
                self.ticket.take();
                self.reserve()
            }
        }
    }

    /// The table of now, while the plan is the one the request began with.
    fn view_now(&self) -> Rc<View> {
        match self.shard.view() {
            Some(view) if Rc::ptr_eq(&view.active, &self.view.active) => view,
            _ => self.view.clone(),
        }
    }

    /// Another member, without taking a turn.
    fn other(&self, wish: Wish) -> Option<BackendId> {
        let view = self.view_now();
        let running = self.now.peers.as_ref();
        let search = Search {
            view: &view,
            tried: &self.tried,
            running,
            wish,
            turns: false,
        };
        search.from(self.first)?.last().copied()
    }

    /// Another member whose turn it is: one that is not lost, if there is one.
    fn take_turn(&self) -> Option<(Rc<View>, Hops)> {
        let view = self.view_now();
        let wish = match self.other(Wish::NotLost) {
            Some(_) => Wish::NotLost,
            None => Wish::Any,
        };
        let search = Search {
            view: &view,
            tried: &self.tried,
            running: self.now.peers.as_ref(),
            wish,
            turns: true,
        };
        let way = search.from(self.first)?;
        Some((view, way))
    }
}

impl Drop for Tries<'_> {
    fn drop(&mut self) {
        self.watch.clear_alarm();
    }
}

/// Who will do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Any live member.
    Any,
    /// One of which something is to be expected.
    NotLost,
}

/// A walk through the live members below a backend.
struct Search<'v> {
    view: &'v View,
    tried: &'v [BackendId],
    /// Peers of the member that is tried now: it is not another one.
    running: Option<&'v Rc<PeerGroup>>,
    wish: Wish,
    /// Begins each pool where its turn is, and takes that.
    turns: bool,
}

impl<'v> Search<'v> {
    /// The way from a backend to an origin that will do: each backend after the first, the origin last.
    fn from(&self, first: BackendId) -> Option<Hops> {
        let mut way = Hops::new();
        let first = self.view.active.plan.backend(first);
        self.below(first, &mut way).then_some(way)
    }

    fn below(&self, backend: &'v Arc<Backend>, way: &mut Hops) -> bool {
        let alb = match &backend.kind {
            BackendKind::Origin(_) => return self.will_do(backend.id),
            // Where it leads it says once it is asked.
            BackendKind::Rule(_) => return !self.tried.contains(&backend.id),
            BackendKind::Alb(alb) => alb,
        };
        if way.len() == HOPS_MAX || alb.mechanism != Mechanism::RoundRobin {
            return false;
        }
        let pool = self.view.table.pool(alb.pool);
        let mut at = 0;
        if self.turns
            && let Some(next) = pool.next_member()
        {
            let is_it = |member: &crate::snapshot::Member| member.backend.id == next.backend.id;
            at = pool.live.iter().position(is_it).unwrap_or(0);
        }
        for member in pool.live[at..].iter().chain(&pool.live[..at]) {
            way.push(member.backend.id);
            if self.below(&member.backend, way) {
                if self.turns {
                    self.view.active.cells(member.backend.id).selected.bump();
                }
                return true;
            }
            way.pop();
        }
        false
    }

    fn will_do(&self, id: BackendId) -> bool {
        let peers = self.view.active.peers(id);
        let runs = self
            .running
            .is_some_and(|running| Rc::ptr_eq(running, peers));
        let expected = self.wish == Wish::Any || !peers.is_lost();
        !runs && expected && !self.tried.contains(&id)
    }
}
