//! One pinned thread per core.
//!
//! Called once by the control core at start. A shard that panics outside a guarded connection aborts the
//! process: a supervisor restarts it, and nobody limps on with fewer cores.

use std::thread::JoinHandle;

use ringway_io::cross::{Receiver, Sender};
use ringway_io::net::runtime::{Got, ShardRuntime, Wanted};
use ringway_io::pin::pin_current;

use crate::link::{Command, Driver, Event, ShardEnd, ShardId, links};

/// Which driver a shard is to use. Contract: `shards.driver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverChoice {
    /// io_uring where the kernel allows it, else epoll.
    Auto,
    /// io_uring or no start.
    IoUring,
    /// epoll.
    Epoll,
}

/// How to start the shards.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    /// One entry per shard: the processor it is pinned to, if it is.
    pub cpus: Vec<Option<usize>>,
    /// Driver of all shards.
    pub driver: DriverChoice,
}

/// The running shards, as the control core holds them.
pub struct Shards {
    /// By shard id: commands to it.
    pub commands: Vec<Sender<Command>>,
    /// Events of all shards. The first of each shard is [`Event::Started`] or [`Event::Failed`].
    pub events: Receiver<(ShardId, Event)>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts one thread per entry of `options.cpus`.
///
/// # Errors
/// When a thread cannot be started.
pub fn start(options: &ShardOptions) -> std::io::Result<Shards> {
    let links = links(u16::try_from(options.cpus.len()).unwrap_or(u16::MAX));
    let shards = u32::try_from(options.cpus.len()).unwrap_or(u32::MAX);
    let mut threads = Vec::new();
    for (end, cpu) in links.ends.into_iter().zip(options.cpus.iter().copied()) {
        let driver = options.driver;
        let name = format!("shard-{}", end.id.0);
        threads.push(
            std::thread::Builder::new()
                .name(name)
                .spawn(move || run(end, shards, cpu, driver))?,
        );
    }
    Ok(Shards {
        commands: links.commands,
        events: links.events,
        threads,
    })
}

impl Shards {
    /// Waits until all shards have ended; they do when drained or when `commands` is dropped.
    pub fn join(self) {
        drop(self.commands);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// The whole life of a shard's thread.
fn run(end: ShardEnd, shards: u32, cpu: Option<usize>, driver: DriverChoice) {
    let mut bomb = Bomb { armed: true };
    if let Some(cpu) = cpu {
        pin_current(cpu);
    }
    let wanted = match driver {
        DriverChoice::Auto => Wanted::Auto,
        DriverChoice::IoUring => Wanted::IoUring,
        DriverChoice::Epoll => Wanted::Epoll,
    };
    let (id, events) = (end.id, end.events.clone());
    match ShardRuntime::build(wanted) {
        Ok(runtime) => {
            let driver = match runtime.driver() {
                Got::IoUringDeferred | Got::IoUring => Driver::IoUring,
                Got::Epoll => Driver::Epoll,
            };
            let refused = runtime.refused().map(str::to_owned);
            let _ = events.send((id, Event::Started { driver, refused }));
            runtime.block_on(crate::shard::run(end, shards));
        }
        Err(error) => {
            let why = match wanted {
                Wanted::IoUring => format!(
                    "the kernel refuses io_uring ({error}): allow it, or set shards.driver to auto or epoll"
                ),
                Wanted::Auto | Wanted::Epoll => format!("no driver can be set up: {error}"),
            };
            let _ = events.send((id, Event::Failed(why)));
        }
    }
    bomb.armed = false;
}

/// Ends the process when a shard's thread unwinds.
struct Bomb {
    armed: bool,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.armed && std::thread::panicking() {
            // The panic hook has printed why.
            std::process::abort();
        }
    }
}
