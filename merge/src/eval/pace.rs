//! Turns of work: the evaluator's loops say what they have done, and stop when a turn is used up.
//!
//! An evaluation is a future that only waits for its own next turn; [`drive`] gives it one. There
//! is no runtime behind it and nobody is woken.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What is left of the current turn, in units of about one byte read or written.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    left: Cell<usize>,
}

impl Pace {
    /// Takes `units` off the turn, and waits for the next one when it is used up.
    #[inline]
    pub(crate) async fn spend(&self, units: usize) {
        let left = self.left.get();
        self.left.set(left.saturating_sub(units));
        if units >= left {
            self.turn().await;
        }
    }

    /// Ends this turn.
    async fn turn(&self) {
        let mut waited = false;
        poll_fn(|_| match std::mem::replace(&mut waited, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

/// Gives `work` a turn of `units`. Returns its outcome when it is done.
pub(crate) fn drive<T>(
    pace: &Pace,
    work: Pin<&mut (dyn Future<Output = T> + '_)>,
    units: usize,
) -> Option<T> {
    pace.left.set(units.max(1));
    match work.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}
