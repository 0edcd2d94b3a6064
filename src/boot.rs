//! Start and stop of every thread.
//!
//! Called by `main` with a way to read the configuration. In order: read and compile it, look at the limits of the
//! process, start the log, the shards and the control runtime, then hand all to `control::run`, for which the first
//! configuration is a reload like any other. This thread is the control thread.

use std::io;
use std::time::Duration;

use ringway_shards::plan::Generation;
use ringway_shards::spawn::{self, DriverChoice, Shards};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use crate::config::Problem;
use crate::control::reload::Refusal;
use crate::control::run::{Core, Ended, Loader, Serving, Signal};
use crate::log::{Log, LogError, Verbosity};

/// Fewest descriptors a proxy is content with: two for each connection carried.
const FDS_MIN: u64 = 8192;
/// Most descriptors asked for, where the hard limit is higher or there is none.
const FDS_MAX: u64 = 1 << 20;
/// What the kernel locks for one shard's ring, rounded up; kernels before 5.12 count it against RLIMIT_MEMLOCK.
const RING_BYTES: u64 = 512 * 1024;
const _: () = assert!(FDS_MIN < FDS_MAX);

/// Why the process ended other than by a finished drain.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The configuration is refused.
    #[error("the configuration has {} problem(s)", .0.len())]
    Invalid(Vec<Problem>),
    /// The log cannot be started.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A thread cannot be started.
    #[error("cannot start the shards: {0}")]
    Shards(io::Error),
    /// The control runtime cannot be made.
    #[error("cannot start the control thread's runtime: {0}")]
    Runtime(io::Error),
    /// The first configuration could not be served.
    #[error("cannot serve: {0}")]
    Refused(Refusal),
    /// A shard is gone: the process does not go on with fewer.
    #[error("{0}")]
    ShardEnded(String),
    /// Stopped before the drain was over.
    #[error("stopped before all requests were finished")]
    Cut,
}

/// Serves what `loader` reads until the process is told to stop. `serving` is called once, when the first
/// configuration is in force; `source` is what the log calls the configuration.
///
/// # Errors
/// When it could not start, could not go on, or was told not to wait for the end of the drain.
pub fn run(
    mut loader: Loader,
    source: &str,
    serving: impl FnOnce(&Serving) + Send + 'static,
) -> Result<(), BootError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(BootError::Runtime)?;
    // Before anything that takes time: until then a reload signal has its default effect, which is the end.
    let (signals, signals_in) = mpsc::channel(4);
    runtime.block_on(async { watch_signals(signals) });
    let first = loader(Generation(1)).map_err(BootError::Invalid)?;
    let settings = &first.control;
    if let Some(cpu) = settings.control_cpu {
        ringway_io::pin::pin_current(cpu);
    }
    ringway_io::memory::keep_freed();
    let limits = raise_limits();
    let log = Log::start(
        settings.log.file.as_deref(),
        Verbosity::from(settings.log.level),
    )?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        config = source,
        shards = settings.shards.cpus.len(),
        cpus = shown_cpus(&settings.shards.cpus),
        control_cpu = shown_cpus(&[settings.control_cpu]),
        pid = std::process::id(),
        "starting"
    );
    limits.tell(settings.shards.driver, settings.shards.cpus.len() as u64);
    let shards = match spawn::start(&settings.shards) {
        Ok(shards) => shards,
        Err(error) => {
            log.finish();
            return Err(BootError::Shards(error));
        }
    };
    let Shards {
        commands, events, ..
    } = shards;
    let (ended, log) = runtime.block_on(async move {
        let (told, tells) = oneshot::channel();
        tokio::spawn(async move {
            if let Ok(what) = tells.await {
                serving(&what);
            }
        });
        let (mut core, inputs) = Core::new(commands, events, signals_in, loader, Some(log));
        core.tell_when_serving(told);
        core.run(first, inputs).await
    });
    // Dropped without waiting for probes and admin connections still open.
    runtime.shutdown_timeout(Duration::from_millis(100));
    let result = conclude(ended);
    if let Some(log) = log {
        log.finish();
    }
    result
}

/// What an end means to the caller, and says it.
fn conclude(ended: Ended) -> Result<(), BootError> {
    match ended {
        Ended::Drained { cut: 0 } => {
            tracing::info!("stopped");
            Ok(())
        }
        Ended::Drained { cut } => {
            tracing::warn!(
                cut,
                "stopped: the drain time was up before all requests were finished"
            );
            Err(BootError::Cut)
        }
        Ended::Cut => {
            tracing::warn!("stopped before all requests were finished");
            Err(BootError::Cut)
        }
        Ended::Refused(refusal) => Err(BootError::Refused(refusal)),
        Ended::ShardEnded(what) => {
            tracing::error!(what = %what, "a shard ended, and the process with it");
            Err(BootError::ShardEnded(what))
        }
    }
}

/// Passes signals on for as long as the control core listens. A signal that cannot be watched keeps its
/// default, which ends the process: said, not fatal.
fn watch_signals(to: mpsc::Sender<Signal>) {
    for (kind, meaning) in [
        (SignalKind::hangup(), Signal::Reload),
        (SignalKind::terminate(), Signal::Stop),
        (SignalKind::interrupt(), Signal::Stop),
    ] {
        let mut stream = match signal(kind) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::error!(signal = ?meaning, error = %error, "signal cannot be watched");
                continue;
            }
        };
        let to = to.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() && to.send(meaning).await.is_ok() {}
        });
    }
}

/// Limits of the process; `None` is no limit.
struct Limits {
    fds: Option<u64>,
    locked_bytes: Option<u64>,
}

/// Raises the soft limit of descriptors to the hard one.
fn raise_limits() -> Limits {
    let found = getrlimit(Resource::Nofile);
    let wanted = found.maximum.map_or(FDS_MAX, |hard| hard.min(FDS_MAX));
    if found.current.is_some_and(|soft| soft < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: found.maximum,
        };
        // Refused, the soft limit stays: it is looked at below.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    Limits {
        fds: getrlimit(Resource::Nofile).current,
        locked_bytes: getrlimit(Resource::Memlock).current,
    }
}

impl Limits {
    fn tell(&self, driver: DriverChoice, shards: u64) {
        if let Some(fds) = self.fds.filter(|fds| *fds < FDS_MIN) {
            tracing::warn!(
                nofile = fds,
                wanted = FDS_MIN,
                "few descriptors: raise the hard limit (LimitNOFILE), each connection takes two"
            );
        }
        let wanted = RING_BYTES * shards;
        let has_rings = !matches!(driver, DriverChoice::Epoll);
        if let Some(locked) = self
            .locked_bytes
            .filter(|bytes| has_rings && *bytes < wanted)
        {
            tracing::warn!(
                memlock = locked,
                wanted,
                "little lockable memory: kernels before 5.12 may refuse io_uring (LimitMEMLOCK)"
            );
        }
    }
}

/// Processors as an operator writes them; `any` for what is not pinned.
fn shown_cpus(cpus: &[Option<usize>]) -> String {
    let shown = cpus.iter().map(|cpu| match cpu {
        Some(cpu) => cpu.to_string(),
        None => "any".to_owned(),
    });
    shown.collect::<Vec<_>>().join(",")
}
