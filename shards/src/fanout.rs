//! Asking many members at once: one future per member, all inside the client's task.
//!
//! Dropping a [`Fanout`] cancels everyone still out, which closes their connections. A member that panics, is
//! late or breaks a bound fails alone. What is asked of one origin is an [`Ask`]; what comes back is [`Opened`]
//! once its head is here, and a [`Whole`] or, decoded for a merge, a [`Fetched`] once its body is.

mod ask;
mod whole;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use ringway_merge::MemberFailure;

pub(crate) use ask::{Ask, Body, Opened, open};
pub(crate) use whole::{Fetched, Room, Whole, fetch};

pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Members being asked. `T` is what each comes back with.
pub(crate) struct Fanout<'a, T> {
    members: Vec<Option<Slot<'a, T>>>,
    at_once: usize,
}

struct Slot<'a, T> {
    answer: Answer<'a, T>,
    /// Its turn has come: something may be on its way.
    begun: bool,
}

impl<'a, T> Fanout<'a, T> {
    /// Asks these, at most `at_once` at a time, in order.
    pub(crate) fn new(members: Vec<Answer<'a, T>>, at_once: usize) -> Fanout<'a, T> {
        let slot = |answer| {
            Some(Slot {
                answer,
                begun: false,
            })
        };
        Fanout {
            members: members.into_iter().map(slot).collect(),
            at_once: at_once.max(1),
        }
    }

    /// Waits for the next to come back; `None` when nobody is out.
    pub(crate) async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| {
            let mut out = 0;
            for place in &mut self.members {
                let Some(slot) = place else { continue };
                slot.begun = true;
                if let Poll::Ready(answer) = slot.answer.as_mut().poll(cx) {
                    *place = None;
                    return Poll::Ready(Some(answer));
                }
                out += 1;
                if out == self.at_once {
                    break;
                }
            }
            if out == 0 {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Takes one that has come back already, and lets the others move on.
    pub(crate) async fn ready(&mut self) -> Option<T> {
        let mut next = pin!(self.next());
        poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Cancels everyone still out, one after the other; `gone` is told of each that had been asked.
    pub(crate) fn cancel(self, mut gone: impl FnMut()) {
        for slot in self.members.into_iter().flatten() {
            let begun = slot.begun;
            drop(slot);
            if begun {
                gone();
            }
        }
    }
}

/// Value of the metric label. Contract: ALB page, 10.
pub(crate) fn reason(failure: &MemberFailure) -> &'static str {
    match failure {
        MemberFailure::Truncated => "truncated",
        MemberFailure::AggregateCap => "aggregate_cap",
        MemberFailure::Short => "short_read",
        MemberFailure::Internal => "panic",
        MemberFailure::Unreachable
        | MemberFailure::TimedOut
        | MemberFailure::Status { .. }
        | MemberFailure::Api { .. } => "no_contribution",
        MemberFailure::Encoding | MemberFailure::Malformed { .. } | MemberFailure::Limit { .. } => {
            "merge"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    fn poll<T>(work: impl Future<Output = T>) -> Poll<T> {
        pin!(work).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn only_so_many_are_asked_at_once() {
        let asked = Cell::new(0);
        let asked = &asked;
        let hanging = |_| -> Answer<'_, u8> {
            Box::pin(async move {
                asked.set(asked.get() + 1);
                pending().await
            })
        };
        let mut fanout = Fanout::new((0..5).map(hanging).collect(), 2);
        assert!(poll(fanout.next()).is_pending());
        assert_eq!(asked.get(), 2);
        let mut gone = 0;
        fanout.cancel(|| gone += 1);
        assert_eq!(gone, 2, "whoever was never asked leaves nothing behind");
    }

    #[test]
    fn one_that_comes_back_makes_room_for_the_next() {
        let members: Vec<Answer<'_, u8>> = vec![Box::pin(ready(1)), Box::pin(ready(2))];
        let mut fanout = Fanout::new(members, 1);
        assert_eq!(poll(fanout.next()), Poll::Ready(Some(1)));
        assert_eq!(poll(fanout.next()), Poll::Ready(Some(2)));
        assert_eq!(poll(fanout.next()), Poll::Ready(None));
    }
}
