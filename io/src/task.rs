//! Spawning, sleeping and yielding for code above that must not name the runtime.

use std::future::Future;
use std::time::Duration;

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

/// Lets every other ready task of this thread run once.
pub async fn yield_now() {
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
