//! One listening socket of this shard: accepting, the connection bound, closing.
//!
//! The socket outlives plans: a reload that keeps the address points the [`Door`] at the new plan's listener. One
//! that removes it leaves the door its last plan, by which every connection that the kernel had taken in by then
//! gets one more answer. At the connection limit a shard stops accepting, and clients wait in the kernel's queue.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use ringway_io::net::deadline::{Stopper, Watch};
use ringway_io::net::listen::{Incoming, Listening};
use ringway_io::task;

use crate::guard::guard;
use crate::metrics::{Count, ListenerCells};
use crate::plan::{Listener, ListenerId};
use crate::serve;
use crate::shard::{Shard, View};

/// Pause after an accept that failed, such as for want of descriptors, and between looks at the limit.
const PAUSE: Duration = Duration::from_millis(20);

/// A listening socket and the listener it stands for now.
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) listener: Cell<ListenerId>,
    pub(crate) cells: Rc<ListenerCells>,
    /// Marks this door's connections among all of the shard; never 0.
    pub(crate) owner: usize,
    open: Cell<bool>,
    /// What its connections see since a reload has removed the listener: the id is of that plan.
    last: RefCell<Option<Rc<View>>>,
    stopper: Stopper,
}

impl Door {
    pub(crate) fn new(
        address: SocketAddr,
        listener: ListenerId,
        owner: usize,
        (stopper, cells): (Stopper, Rc<ListenerCells>),
    ) -> Door {
        Door {
            address,
            listener: Cell::new(listener),
            cells,
            owner,
            open: Cell::new(true),
            last: RefCell::new(None),
            stopper,
        }
    }

    /// Stops accepting. Open connections finish their request and close; see [`Shard`] for idle ones.
    pub(crate) fn close(&self) {
        self.open.set(false);
        self.stopper.stop();
    }

    /// Closes for good: a reload has removed the listener, and its id means another one now. `last` is the view
    /// that still has it.
    pub(crate) fn remove(&self, last: Option<Rc<View>>) {
        *self.last.borrow_mut() = last;
        self.close();
    }

    /// What the next request that comes by this door sees.
    pub(crate) fn view(&self, shard: &Shard) -> Option<Rc<View>> {
        self.last.borrow().clone().or_else(|| shard.view())
    }

    /// The listener it stands for in a view of [`Door::view`].
    pub(crate) fn listener<'v>(&self, view: &'v View) -> Option<&'v Listener> {
        let listeners = &view.active.plan.listeners;
        listeners.get(usize::from(self.listener.get().0))
    }

    /// False once the listener was removed or the shard drains.
    pub(crate) fn is_open(&self) -> bool {
        self.open.get()
    }
}

/// Accepts until the door is closed.
pub(crate) async fn run(shard: Rc<Shard>, door: Rc<Door>, socket: Listening, watch: Watch) {
    while door.is_open() {
        if at_limit(&shard, &door) {
            task::sleep(PAUSE).await;
            continue;
        }
        match socket.accept(&watch).await {
            Some(Ok(incoming)) => admit(&shard, &door, incoming),
            Some(Err(_)) => {
                door.cells.failed.bump();
                task::sleep(PAUSE).await;
            }
            None => break,
        }
    }
    // With the socket goes its queue, so that is emptied first.
    while !at_limit(&shard, &door)
        && let Some(incoming) = socket.accept_ready()
    {
        admit(&shard, &door, incoming);
    }
}

fn at_limit(shard: &Shard, door: &Door) -> bool {
    let Some(view) = door.view(shard) else {
        return false;
    };
    let Some(limit) = door
        .listener(&view)
        .and_then(|listener| listener.connections_limit)
    else {
        return false;
    };
    let share = (limit / shard.shards).max(1);
    door.cells.active.get() >= u64::from(share)
}

fn admit(shard: &Rc<Shard>, door: &Rc<Door>, incoming: Incoming) {
    door.cells.accepted.bump();
    door.cells.active.bump();
    let (shard, door) = (shard.clone(), door.clone());
    task::spawn(async move {
        if guard(pin!(serve::connection(&shard, &door, incoming)))
            .await
            .is_err()
        {
            shard.cells.panics.bump();
        }
        door.cells.closed.bump();
        door.cells.active.set(door.cells.active.get() - 1);
    });
}
