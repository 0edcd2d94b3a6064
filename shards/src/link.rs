//! All that crosses between the control core and a shard: owned messages and immutable snapshots.
//!
//! Queues are bounded. A shard never waits for room: what it cannot report it drops and counts. The control
//! core tries again at its next turn.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ringway_io::cross::{Receiver, Sender, queue};

use crate::limits::LINK_QUEUE_LEN;
use crate::metrics::ShardMetrics;
use crate::plan::{Generation, ListenerId, Plan, Secret};
use crate::snapshot::PoolTable;

/// Index of a shard, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// Control core to shard.
#[derive(Debug)]
pub enum Command {
    /// Do for this plan all that can fail (bind new listeners) and answer [`Event::Prepared`].
    Prepare(Arc<Plan>),
    /// Serve the prepared plan with this table from the next request on; drain listeners it no longer has.
    Commit(Arc<PoolTable>),
    /// Forget the prepared plan.
    Abort,
    /// Use this table from the next pick on. Of several waiting tables only the last counts.
    Table(Arc<PoolTable>),
    /// Serve this plan with this table from the next request on: it is the one in use with other discovered members,
    /// so nothing about it can fail. Of several that wait only the last counts.
    Members(Arc<Plan>, Arc<PoolTable>),
    /// Answer [`Event::Metrics`] with this token.
    Scrape(u64),
    /// Stop accepting, finish what runs, close idle connections; answer [`Event::Drained`], at the latest
    /// after this time.
    Drain(Duration),
    /// Answer to the [`Check`] with this token.
    Verdict(u64, Verdict),
    /// Answer to the [`Lookup`] with this token.
    Found(u64, Found),
}

/// Shard to control core.
#[derive(Debug)]
pub enum Event {
    /// The runtime runs. Says which driver it got, and why not io_uring if it was asked for or tried.
    Started {
        /// The driver in use.
        driver: Driver,
        /// Why io_uring was refused, when it was.
        refused: Option<String>,
    },
    /// The runtime could not be built, and the thread has ended; the text says why.
    Failed(String),
    /// Answer to [`Command::Prepare`]: bound addresses by listener, or what could not be done.
    Prepared(Generation, Result<Vec<(ListenerId, SocketAddr)>, String>),
    /// The plan is served.
    Committed(Generation),
    /// The members of [`Command::Members`] with a table of this version are served.
    Members(u64),
    /// No request of this shard uses this plan any more. The shard gives it back, so that it is not the one to
    /// free a plan with many thousand users.
    Released(Arc<Plan>),
    /// An origin began to fail this shard's exchanges, or ended to: said once per streak, and at most once a
    /// second.
    Origin {
        /// The backend.
        backend: Box<str>,
        /// Why it failed; `None` when it answers again.
        failure: Option<String>,
    },
    /// Exchanges of this shard with an origin failed below HTTP: no connection, a broken one, no answer in time.
    /// Said at most every 50 ms, for as long as there is news.
    Unreached {
        /// The backend.
        backend: Box<str>,
        /// Whether it answered this shard before those, after what was said last.
        answered: bool,
        /// So many failed in a row since.
        failures: u32,
    },
    /// Replicas of one group gave different values for one moment: said at most once a minute for an ALB.
    Conflict {
        /// The ALB that merges them.
        alb: Box<str>,
        /// Names of the groups.
        groups: String,
    },
    /// Members of one ALB are servers of different major versions: said once for an ALB.
    MixedVersions {
        /// The ALB that merges them.
        alb: Box<str>,
        /// The versions.
        versions: String,
    },
    /// Counters of this shard, all since start.
    Metrics(u64, Box<ShardMetrics>),
    /// The drain ended; how many connections were cut.
    Drained(u32),
    /// A password has to be compared with a hash, which takes longer than a shard may; answered by
    /// [`Command::Verdict`]. At most [`CHECKS_MAX`](crate::limits::CHECKS_MAX) of a shard are open.
    Verify(Box<Check>),
    /// A rewriter has made a host name that nobody knows; answered by [`Command::Found`]. At most
    /// [`LOOKUPS_MAX`](crate::limits::LOOKUPS_MAX) of a shard are open.
    LookUp(Lookup),
}

/// A password that somebody offers, and the hash of the right one.
#[derive(Debug)]
pub struct Check {
    /// Tells the checks of one shard apart.
    pub token: u64,
    /// The hash.
    pub stored: Secret,
    /// The password.
    pub offered: Secret,
}

/// What came out of a [`Check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the password.
    Match,
    /// It is not.
    Mismatch,
    /// Too many checks wait already: nobody looked.
    Busy,
}

/// A host name that a rewriter has made.
#[derive(Debug)]
pub struct Lookup {
    /// Tells the lookups of one shard apart.
    pub token: u64,
    /// The name.
    pub host: Box<str>,
    /// Nobody is to be asked: the shard has too many lookups open, but another may have asked for the same.
    pub known_alone: bool,
}

/// What came out of a [`Lookup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Addresses of the host, in the order to try. None: it has none, or nobody looked.
    pub addresses: Arc<[IpAddr]>,
    /// How long to take that as known; zero where nobody looked.
    pub valid_for: Duration,
}

/// What moves a shard's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// io_uring.
    IoUring,
    /// epoll.
    Epoll,
}

impl Driver {
    /// The name used in configuration, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Driver::IoUring => "io_uring",
            Driver::Epoll => "epoll",
        }
    }
}

/// A shard's ends.
pub struct ShardEnd {
    /// This shard.
    pub id: ShardId,
    /// From the control core.
    pub commands: Receiver<Command>,
    /// To the control core; shared by all shards.
    pub events: Sender<(ShardId, Event)>,
}

/// All ends of the links of one process.
pub struct Links {
    /// By shard id: commands to it.
    pub commands: Vec<Sender<Command>>,
    /// Events of all shards.
    pub events: Receiver<(ShardId, Event)>,
    /// The shards' ends, by id.
    pub ends: Vec<ShardEnd>,
}

/// Makes the links of `shards` shards: one command queue each, one event queue for all.
pub fn links(shards: u16) -> Links {
    let (events_tx, events) = queue(LINK_QUEUE_LEN * usize::from(shards.max(1)));
    let mut commands = Vec::new();
    let mut ends = Vec::new();
    for id in 0..shards {
        let (tx, rx) = queue(LINK_QUEUE_LEN);
        commands.push(tx);
        ends.push(ShardEnd {
            id: ShardId(id),
            commands: rx,
            events: events_tx.clone(),
        });
    }
    Links {
        commands,
        events,
        ends,
    }
}
