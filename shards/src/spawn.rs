//! One pinned thread per core.
//!
//! Called once by the control core at start. A shard that panics outside a guarded connection aborts the
//! process: a supervisor restarts it, and nobody limps on with fewer cores.

use std::thread::JoinHandle;

use ringway_io::cross::{Receiver, Sender};

use crate::link::{Command, Event, ShardEnd, ShardId, links};

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
    /// Events of all shards. The first of each shard is [`Event::Started`].
    pub events: Receiver<(ShardId, Event)>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts one thread per entry of `options.cpus`.
///
/// # Errors
/// When a thread cannot be started.
pub fn start(options: &ShardOptions) -> std::io::Result<Shards> {
    let links = links(u16::try_from(options.cpus.len()).unwrap_or(u16::MAX));
    let mut threads = Vec::new();
    for (end, cpu) in links.ends.into_iter().zip(options.cpus.iter().copied()) {
        let driver = options.driver;
        let name = format!("shard-{}", end.id.0);
        threads.push(
            std::thread::Builder::new()
                .name(name)
                .spawn(move || run(end, cpu, driver))?,
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

fn run(_end: ShardEnd, _cpu: Option<usize>, _driver: DriverChoice) {}
