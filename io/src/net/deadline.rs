//! Deadlines and vanished clients, watched once per tick for all connections of a shard.
//!
//! A timer per read would cost more than the read. Instead each connection has a [`Watch`]: the hot path
//! stores a number in it, and one task per shard, [`Watchdog::run`], looks at all of them every tick. When a
//! deadline has passed, or a client whose answer is being waited for has closed its connection, the watch is
//! tripped and the future inside [`Watch::guard`] is dropped. A dropped read or write leaves its connection
//! in an unknown state, so a tripped connection is closed, never used again; its buffer stays with the kernel
//! until the kernel is done.
//!
//! A try within an exchange has an alarm of its own beside the deadline ([`Watch::set_alarm`]). It drops nothing:
//! it polls the work again, which then looks whether to go on. It costs a number to compare at each tick.
//!
//! Bounds: a deadline is met within one tick after it passed, and an alarm too.

#![expect(
    unsafe_code,
    reason = "poll(2) wants borrowed descriptors; see the SAFETY line"
)]

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::os::fd::{BorrowedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Connections looked at in one go before other tasks get a turn: some 50 µs.
const SCAN_STEP: usize = 8192;
/// Descriptors handed to one poll call.
const POLL_STEP: usize = 256;

/// Why a guarded future was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Tripped {
    /// The deadline passed.
    #[error("deadline passed")]
    Expired,
    /// The peer of the watched connection closed or reset it.
    #[error("client closed the connection")]
    Gone,
    /// The owner asked for it, to drain.
    #[error("shutting down")]
    Stopped,
}

/// How long a connection that waits for a request may still get one after it was told to stop: a request that
/// its client sent before it could know of the end is answered.
pub const STOP_GRACE: Duration = Duration::from_millis(250);

const NEVER: u64 = u64::MAX;

#[derive(Debug)]
struct Slot {
    /// Milliseconds of the watchdog's clock.
    deadline: Cell<u64>,
    fd: RawFd,
    /// When the work is to be polled again, on the same clock.
    alarm: Cell<u64>,
    /// Whose call polls the work again too; 0 is nobody's.
    caller: Cell<usize>,
    /// Someone waits for an answer on behalf of this connection.
    watching: Cell<bool>,
    /// The connection waits for nothing it has promised: it may be ended by a drain.
    idle: Cell<bool>,
    /// Whoever accepted the connection, to end all of theirs at once.
    owner: Cell<usize>,
    tripped: Cell<Option<Tripped>>,
    waker: RefCell<Option<Waker>>,
    index: Cell<usize>,
}

impl Slot {
    fn trip(&self, why: Tripped) {
        self.tripped.set(Some(why));
        self.rouse();
    }

    /// Polls the work again.
    fn rouse(&self) {
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    now_ms: Cell<u64>,
    tick: Duration,
    /// `tick`, in the clock's unit.
    tick_ms: u64,
    slots: RefCell<Vec<Rc<Slot>>>,
    /// Callers whose slots the next tick rouses.
    called: RefCell<Vec<usize>>,
    stopping: Cell<bool>,
}

/// All watches of one shard. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Watchdog(Rc<Shared>);

/// One connection's entry; gone from the watchdog when dropped.
#[derive(Debug)]
pub struct Watch {
    slot: Rc<Slot>,
    dog: Watchdog,
}

impl Watchdog {
    /// A watchdog that looks every `tick`.
    pub fn new(tick: Duration) -> Watchdog {
        Watchdog(Rc::new(Shared {
            started: Instant::now(),
            now_ms: Cell::new(0),
            tick,
            tick_ms: u64::try_from(tick.as_millis()).unwrap_or(0),
            slots: RefCell::new(Vec::new()),
            called: RefCell::new(Vec::new()),
            stopping: Cell::new(false),
        }))
    }

    /// Milliseconds since start, as of the last tick.
    pub fn now_ms(&self) -> u64 {
        self.0.now_ms.get()
    }

    /// Starts to watch the connection with this descriptor. The [`Watch`] must not outlive the connection.
    pub fn watch(&self, fd: RawFd) -> Watch {
        let mut slots = self.0.slots.borrow_mut();
        let slot = Rc::new(Slot {
            deadline: Cell::new(NEVER),
            alarm: Cell::new(NEVER),
            caller: Cell::new(0),
            fd,
            watching: Cell::new(false),
            idle: Cell::new(false),
            owner: Cell::new(0),
            tripped: Cell::new(None),
            waker: RefCell::new(None),
            index: Cell::new(slots.len()),
        });
        slots.push(slot.clone());
        Watch {
            slot,
            dog: self.clone(),
        }
    }

    /// A watch on no connection, for tasks that are to be stopped or have a deadline.
    pub fn watch_task(&self) -> Watch {
        self.watch(-1)
    }

    /// How many connections are watched.
    pub fn len(&self) -> usize {
        self.0.slots.borrow().len()
    }

    /// True when no connection is watched.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// From now on every connection that is idle, or becomes so, has [`STOP_GRACE`] left.
    pub fn stop_idle(&self) {
        self.0.stopping.set(true);
        self.hasten_where(|slot| slot.idle.get());
    }

    /// Every connection of this owner that is idle now has [`STOP_GRACE`] left.
    pub fn stop_idle_of(&self, owner: usize) {
        self.hasten_where(|slot| slot.idle.get() && slot.owner.get() == owner);
    }

    fn hasten_where(&self, which: impl Fn(&Slot) -> bool) {
        let latest = self.at(STOP_GRACE);
        for slot in self.0.slots.borrow().iter().filter(|slot| which(slot)) {
            slot.deadline.set(slot.deadline.get().min(latest));
        }
    }

    /// Polls all work again whose alarm names this caller, at the next tick.
    pub fn call(&self, caller: usize) {
        self.0.called.borrow_mut().push(caller);
    }

    /// The clock's value `limit` from now.
    fn at(&self, limit: Duration) -> u64 {
        let limit_ms = limit.as_secs().saturating_mul(1000);
        let limit_ms = limit_ms.saturating_add(u64::from(limit.subsec_millis()));
        // The clock may lag by up to one tick; never fire early.
        self.now_ms()
            .saturating_add(limit_ms)
            .saturating_add(self.0.tick_ms)
    }

    /// True once [`Watchdog::stop_idle`] was called.
    pub fn stopping(&self) -> bool {
        self.0.stopping.get()
    }

    /// Trips every connection.
    pub fn stop_all(&self) {
        self.0.stopping.set(true);
        self.trip_where(|_| true);
    }

    fn trip_where(&self, which: impl Fn(&Slot) -> bool) {
        let slots: Vec<Rc<Slot>> = self
            .0
            .slots
            .borrow()
            .iter()
            .filter(|s| which(s))
            .cloned()
            .collect();
        for slot in slots {
            slot.trip(Tripped::Stopped);
        }
    }

    /// Looks at every watch, each tick, for ever. One such task runs per shard.
    pub async fn run(&self) {
        loop {
            monoio::time::sleep(self.0.tick).await;
            let now = u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(NEVER - 1);
            self.0.now_ms.set(now);
            let mut called = std::mem::take(&mut *self.0.called.borrow_mut());
            called.sort_unstable();
            let mut from = 0;
            while from < self.len() {
                let asked = self.scan(from, now, &called);
                Self::ask(&asked);
                from += SCAN_STEP;
                crate::task::yield_to_ready().await;
            }
        }
    }

    /// Trips what has expired among one step of slots, rouses those whose alarm rang or whose caller is among
    /// `called`, and gives back those whose peer is to be asked for.
    fn scan(&self, from: usize, now: u64, called: &[usize]) -> Vec<Rc<Slot>> {
        let slots = self.0.slots.borrow();
        let mut asked = Vec::new();
        for slot in slots.iter().skip(from).take(SCAN_STEP) {
            if slot.deadline.get() <= now {
                slot.deadline.set(NEVER);
                slot.trip(Tripped::Expired);
                continue;
            }
            if slot.alarm.get() <= now || called.binary_search(&slot.caller.get()).is_ok() {
                slot.alarm.set(NEVER);
                slot.rouse();
            }
            if slot.watching.get() && slot.tripped.get().is_none() {
                asked.push(slot.clone());
            }
        }
        asked
    }

    /// Trips those whose peer has closed or reset.
    fn ask(asked: &[Rc<Slot>]) {
        for step in asked.chunks(POLL_STEP) {
            let mut fds: Vec<PollFd<'_>> = step
                .iter()
                .map(|slot| {
                    // SAFETY: the connection owner holds the Watch inside the connection, so the descriptor
                    // is open as long as its slot is listed, and no await lies between listing and polling.
                    let fd = unsafe { BorrowedFd::borrow_raw(slot.fd) };
                    PollFd::from_borrowed_fd(fd, PollFlags::RDHUP)
                })
                .collect();
            let at_once = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            if poll(&mut fds, Some(&at_once)).is_err() {
                continue;
            }
            let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
            let hit: Vec<bool> = fds.iter().map(|fd| fd.revents().intersects(gone)).collect();
            drop(fds);
            for (slot, hit) in step.iter().zip(hit) {
                if hit {
                    slot.trip(Tripped::Gone);
                }
            }
        }
    }
}

impl Watch {
    /// Sets the deadline to `limit` from now; replaces the last one.
    pub fn arm(&self, limit: Duration) {
        self.slot.deadline.set(self.at(limit));
    }

    /// The clock's value `limit` from now, for [`Watch::arm_at`].
    pub fn at(&self, limit: Duration) -> u64 {
        self.dog.at(limit)
    }

    /// Whether the clock has come to a value of [`Watch::at`].
    pub fn is_past(&self, at: u64) -> bool {
        self.dog.now_ms() >= at
    }

    /// Polls the guarded work again once at a value of [`Watch::at`], and whenever [`Watchdog::call`] names
    /// `caller` (0: never). Replaces the last alarm.
    pub fn set_alarm(&self, at: u64, caller: usize) {
        self.slot.alarm.set(at);
        self.slot.caller.set(caller);
    }

    /// Removes the alarm.
    pub fn clear_alarm(&self) {
        self.set_alarm(NEVER, 0);
    }

    /// Sets the deadline to a value of [`Watch::at`].
    pub fn arm_at(&self, at: u64) {
        self.slot.deadline.set(at);
    }

    /// Removes the deadline.
    pub fn disarm(&self) {
        self.slot.deadline.set(NEVER);
    }

    /// While on, a peer that closes or half-closes the connection trips the watch.
    pub fn watch_peer(&self, on: bool) {
        self.slot.watching.set(on);
    }

    /// Marks whether a drain may end this connection after [`STOP_GRACE`]. To be called after the deadline was
    /// set.
    pub fn set_idle(&self, idle: bool) {
        self.slot.idle.set(idle);
        if idle && self.dog.stopping() {
            let latest = self.dog.at(STOP_GRACE);
            self.slot.deadline.set(self.slot.deadline.get().min(latest));
        }
    }

    /// Says whose connection this is, for [`Watchdog::stop_idle_of`]. 0 is nobody.
    pub fn set_owner(&self, owner: usize) {
        self.slot.owner.set(owner);
    }

    /// A handle that trips this watch.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.slot.clone())
    }

    /// Why this connection is to be closed, if it is.
    pub fn tripped(&self) -> Option<Tripped> {
        self.slot.tripped.get()
    }

    /// Forgets that the deadline passed, to send a last answer under a new one.
    pub fn reset(&self) {
        self.slot.tripped.set(None);
        self.disarm();
    }

    /// Runs `work` until it is done or the watch trips. It is pinned by the caller, so that the guarded future
    /// is not kept twice.
    ///
    /// # Errors
    /// [`Tripped`]; the connection `work` used must then be closed.
    pub fn guard<'a, F: Future>(
        &'a self,
        mut work: Pin<&'a mut F>,
    ) -> impl Future<Output = Result<F::Output, Tripped>> + 'a {
        poll_fn(move |cx| {
            if let Poll::Ready(value) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(value));
            }
            if let Some(why) = self.slot.tripped.get() {
                return Poll::Ready(Err(why));
            }
            let mut waker = self.slot.waker.borrow_mut();
            match &*waker {
                Some(known) if known.will_wake(cx.waker()) => {}
                _ => *waker = Some(cx.waker().clone()),
            }
            Poll::Pending
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut slots = self.dog.0.slots.borrow_mut();
        let index = self.slot.index.get();
        slots.swap_remove(index);
        if let Some(moved) = slots.get(index) {
            moved.index.set(index);
        }
    }
}

/// Stops one watched task from elsewhere on the shard.
#[derive(Clone, Debug)]
pub struct Stopper(Rc<Slot>);

impl Stopper {
    /// Trips the watch with [`Tripped::Stopped`].
    pub fn stop(&self) {
        self.0.trip(Tripped::Stopped);
    }
}

/// Makes the coming close of this connection a reset, so that the peer knows its answer is not whole.
pub(crate) fn reset_on_close(fd: RawFd) {
    // SAFETY: called by the owner of the connection with its own descriptor, and nothing is kept.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let _ = rustix::net::sockopt::set_socket_linger(fd, Some(Duration::ZERO));
}

/// True when the peer of an idle connection has closed it or sent something nobody asked for.
pub(crate) fn disturbed(fd: RawFd) -> bool {
    // SAFETY: called by the owner of the connection with its own descriptor, and nothing is kept.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let mut fds = [PollFd::from_borrowed_fd(
        fd,
        PollFlags::IN | PollFlags::RDHUP,
    )];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    !matches!(poll(&mut fds, Some(&at_once)), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::runtime::{ShardRuntime, Wanted};

    fn on_runtime<F: Future>(work: F) -> F::Output {
        ShardRuntime::build(Wanted::Auto)
            .expect("a runtime")
            .block_on(work)
    }

    #[test]
    fn a_passed_deadline_drops_the_work() {
        let tripped = on_runtime(async {
            let dog = Watchdog::new(Duration::from_millis(5));
            let runner = dog.clone();
            crate::task::spawn(async move { runner.run().await });
            let watch = dog.watch(0);
            watch.arm(Duration::from_millis(10));
            watch
                .guard(std::pin::pin!(std::future::pending::<()>()))
                .await
        });
        assert_eq!(tripped, Err(Tripped::Expired));
    }

    #[test]
    fn finished_work_wins_and_the_slot_is_freed() {
        let dog = Watchdog::new(Duration::from_millis(5));
        let (first, second) = (dog.watch(0), dog.watch(1));
        assert_eq!(dog.len(), 2);
        drop(first);
        second.watch_peer(true);
        assert_eq!(dog.len(), 1);
        drop(second);
        assert!(dog.is_empty());
    }

    #[test]
    fn one_owner_s_idle_connections_can_be_ended() {
        let dog = Watchdog::new(Duration::from_millis(5));
        let (theirs, other) = (dog.watch(0), dog.watch(1));
        theirs.set_owner(7);
        other.set_owner(8);
        theirs.set_idle(true);
        other.set_idle(true);
        dog.stop_idle_of(7);
        assert_eq!(theirs.slot.deadline.get(), dog.at(STOP_GRACE));
        assert_eq!(other.slot.deadline.get(), NEVER);
    }

    #[test]
    fn a_stop_leaves_idle_connections_a_grace_and_others_their_time() {
        let dog = Watchdog::new(Duration::from_millis(5));
        let (idle, busy, late) = (dog.watch(0), dog.watch(1), dog.watch(2));
        idle.set_idle(true);
        late.set_idle(true);
        late.arm(Duration::from_millis(1));
        let before = late.slot.deadline.get();
        dog.stop_idle();
        assert_eq!(idle.slot.deadline.get(), dog.at(STOP_GRACE));
        assert_eq!(late.slot.deadline.get(), before, "never put off");
        assert_eq!(busy.slot.deadline.get(), NEVER);
        busy.set_idle(true);
        assert_eq!(busy.slot.deadline.get(), dog.at(STOP_GRACE));
        assert_eq!(busy.tripped(), None, "a request may still come");
    }

    #[test]
    fn an_alarm_polls_the_work_again_and_drops_nothing() {
        let polls = on_runtime(async {
            let dog = Watchdog::new(Duration::from_millis(5));
            let runner = dog.clone();
            crate::task::spawn(async move { runner.run().await });
            let watch = dog.watch(0);
            let mut polls = 0;
            let work = poll_fn(|_| {
                polls += 1;
                match polls {
                    1 => {
                        watch.set_alarm(watch.at(Duration::from_millis(10)), 0);
                        Poll::Pending
                    }
                    2 => {
                        watch.set_alarm(NEVER, 9);
                        dog.call(8);
                        dog.call(9);
                        Poll::Pending
                    }
                    _ => Poll::Ready(()),
                }
            });
            let done = watch.guard(std::pin::pin!(work)).await;
            assert_eq!(done, Ok(()));
            polls
        });
        assert_eq!(polls, 3, "by its time, then by a call");
    }
}
