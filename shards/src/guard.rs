//! The one place where a panic is caught.
//!
//! A panic in a task would end the whole shard, so each client connection, and each member of a fan-out, runs
//! inside [`guard`]. What it was doing is dropped, which closes its sockets.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// The work panicked; the message went to the panic hook.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs `work` and turns a panic in it into an error. It is pinned by the caller, so that it is not kept twice.
pub(crate) fn guard<F: Future>(
    mut work: Pin<&mut F>,
) -> impl Future<Output = Result<F::Output, Panicked>> {
    poll_fn(move |cx| {
        // Unwind safe: after a panic the future is never polled again, and what it shares with the shard are
        // cells and borrows that are whole between any two statements that can panic.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn a_panic_is_an_error_and_nothing_more() {
        let bomb = pin!(async {
            if std::hint::black_box(true) {
                panic!("on purpose");
            }
        });
        let mut work = pin!(guard(bomb));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(work.as_mut().poll(&mut cx), Poll::Ready(Err(Panicked)));
    }
}
