//! Spawning, sleeping and yielding for code above that must not name the runtime.

use std::cell::Cell;
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
    /// Work done since everything else had its last turn.
    worked: Cell<u64>,
    /// Counts those turns.
    turn: Cell<u64>,
}

impl Turns {
    /// For the calling thread's runtime.
    pub fn new() -> Turns {
        if monoio::utils::is_legacy() {
            return Turns::over(None);
        }
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
        Turns::over(null.and_then(File::from_std).ok())
    }

    fn over(null: Option<File>) -> Turns {
        Turns {
            null,
            worked: Cell::new(0),
            turn: Cell::new(0),
        }
    }

    /// Gives everything else one turn.
    pub async fn yield_now(&self) {
        let turn = self.turn.get();
        match &self.null {
            Some(null) => {
                let _ = null.write_at(&b"."[..], 0).await;
            }
            None => yield_to_ready().await,
        }
        // Of all who have waited for this turn, the first begins the count anew.
        if self.turn.get() == turn {
            self.turn.set(turn + 1);
            self.worked.set(0);
        }
    }

    /// Counts work, in a unit of the caller's, that all callers of this thread share.
    pub fn work(&self, amount: u64) {
        self.worked.set(self.worked.get().saturating_add(amount));
    }

    /// Goes on at once while less than `limit` was worked since the last turn. One task that polls many pieces of
    /// work in one go is bounded by this as a whole, which a count of each piece would not do.
    pub async fn before_more_than(&self, limit: u64) {
        while self.worked.get() >= limit {
            self.yield_now().await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    #[test]
    fn all_pieces_of_one_task_share_the_work_of_a_turn() {
        const LIMIT: u64 = 4;
        let (turns, done) = (Turns::over(None), Cell::new(0));
        let (turns, done) = (&turns, &done);
        let piece = |_| -> Pin<Box<dyn Future<Output = ()> + '_>> {
            Box::pin(async move {
                for _ in 0..10 {
                    turns.before_more_than(LIMIT).await;
                    turns.work(1);
                    done.set(done.get() + 1);
                }
            })
        };
        let mut pieces: Vec<_> = (0..3).map(piece).collect();
        let mut cx = Context::from_waker(Waker::noop());
        let mut polls = 0;
        while !pieces.is_empty() {
            let before = done.get();
            pieces.retain_mut(|piece| piece.as_mut().poll(&mut cx).is_pending());
            assert!(done.get() - before <= LIMIT, "in poll {polls}");
            polls += 1;
        }
        assert_eq!(done.get(), 30);
        assert!(polls >= 30 / LIMIT as usize);
    }
}
