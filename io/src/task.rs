//! Spawning, sleeping and yielding for code above that must not name the runtime.

use std::future::Future;
use std::time::Duration;

use monoio::fs::File;

/// Starts a task on this thread; it runs to its end even when nobody awaits it.
pub fn spawn<F>(future: F)
where
    F: Future<Output = ()> + 'static,
{
    drop(monoio::spawn(future));
}

/// Waits for `duration` on this thread's timer.
pub async fn sleep(duration: Duration) {
    monoio::time::sleep(duration).await;
}

/// Lets other work of this thread run: ready tasks, and completions that the kernel holds back.
///
/// With deferred task work, completions are only delivered when the thread goes to wait for them, which a task
/// that wakes itself keeps it from. So a turn under io_uring is one operation that completes at once: a
/// one-byte write to the null device.
#[derive(Debug)]
pub struct Turns {
    null: Option<File>,
}

impl Turns {
    /// For the calling thread's runtime.
    pub fn new() -> Turns {
        if monoio::utils::is_legacy() {
            return Turns { null: None };
        }
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
        Turns {
            null: null.and_then(File::from_std).ok(),
        }
    }

    /// Gives everything else one turn.
    pub async fn yield_now(&self) {
        match &self.null {
            Some(null) => {
                let _ = null.write_at(&b"."[..], 0).await;
            }
            None => yield_to_ready().await,
        }
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self::new()
    }
}

/// Lets every other ready task of this thread run once.
pub(crate) async fn yield_to_ready() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if yielded {
            return std::task::Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Runs `work` for at most `limit`; `None` when the limit passed first, and `work` is dropped.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    monoio::time::timeout(limit, work).await.ok()
}
