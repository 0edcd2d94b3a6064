//! One thread's monoio runtime: io_uring, or epoll where io_uring is refused.
//!
//! Called once per shard thread. With io_uring the ring is set up single-issuer and with deferred task work
//! where the kernel has them: completions are then only reaped when the shard asks, which measured a fifth
//! less CPU per proxied request.

use std::future::Future;
use std::io;

use monoio::time::TimeDriver;
use monoio::{IoUringDriver, LegacyDriver, Runtime, RuntimeBuilder};

/// Which driver to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// io_uring where allowed, else epoll.
    Auto,
    /// io_uring or an error.
    IoUring,
    /// epoll.
    Epoll,
}

/// Which driver a runtime got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// io_uring with deferred task work (kernel 6.1 and later).
    IoUringDeferred,
    /// io_uring as older kernels have it.
    IoUring,
    /// epoll.
    Epoll,
}

/// Submission entries of a ring. More are flushed early, none are lost.
const RING_ENTRIES: u32 = 2048;

enum Built {
    Uring(Runtime<TimeDriver<IoUringDriver>>),
    Epoll(Runtime<TimeDriver<LegacyDriver>>),
}

/// A runtime that has not run yet.
pub struct ShardRuntime {
    built: Built,
    got: Got,
    refused: Option<String>,
}

impl ShardRuntime {
    /// Builds a runtime for the calling thread.
    ///
    /// # Errors
    /// When the wanted driver, or any driver, is not to be had; the text says why.
    pub fn build(wanted: Wanted) -> io::Result<ShardRuntime> {
        let refused = match wanted {
            Wanted::Epoll => None,
            Wanted::Auto | Wanted::IoUring => match build_uring() {
                Ok((runtime, got)) => {
                    return Ok(ShardRuntime {
                        built: Built::Uring(runtime),
                        got,
                        refused: None,
                    });
                }
                Err(error) if wanted == Wanted::IoUring => return Err(error),
                Err(error) => Some(error.to_string()),
            },
        };
        let runtime = RuntimeBuilder::<LegacyDriver>::new()
            .enable_timer()
            .build()?;
        Ok(ShardRuntime {
            built: Built::Epoll(runtime),
            got: Got::Epoll,
            refused,
        })
    }

    /// The driver in use.
    pub fn driver(&self) -> Got {
        self.got
    }

    /// Why io_uring was refused, when it was tried and refused.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Runs `future` to its end on the calling thread.
    pub fn block_on<F: Future>(self, future: F) -> F::Output {
        match self.built {
            Built::Uring(mut runtime) => runtime.block_on(future),
            Built::Epoll(mut runtime) => runtime.block_on(future),
        }
    }
}

fn build_uring() -> io::Result<(Runtime<TimeDriver<IoUringDriver>>, Got)> {
    let mut deferred = io_uring::IoUring::builder();
    deferred.setup_single_issuer().setup_defer_taskrun();
    let builder = || RuntimeBuilder::<IoUringDriver>::new().with_entries(RING_ENTRIES);
    if let Ok(runtime) = builder().uring_builder(deferred).enable_timer().build() {
        return Ok((runtime, Got::IoUringDeferred));
    }
    let runtime = builder().enable_timer().build()?;
    Ok((runtime, Got::IoUring))
}
