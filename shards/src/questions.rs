//! Questions of a shard that the control core answers, and the requests that wait for each.
//!
//! Owned by the shard, used by `authenticate` for passwords and by `lookups` for host names. Several requests that ask
//! the same are one question. The bound on questions is the caller's; who has stopped waiting is forgotten.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Questions that are open.
#[derive(Debug)]
pub(crate) struct Questions<K, A> {
    open: RefCell<Vec<Open<K, A>>>,
    next_token: Cell<u64>,
}

#[derive(Debug)]
struct Open<K, A> {
    token: u64,
    key: K,
    waiting: Vec<Rc<Waiter<A>>>,
}

/// One request that waits for an answer.
#[derive(Debug)]
pub(crate) struct Waiter<A> {
    answer: OnceCell<A>,
    waker: RefCell<Option<Waker>>,
}

impl<K: PartialEq, A: Clone> Questions<K, A> {
    pub(crate) fn new() -> Self {
        Questions {
            open: RefCell::default(),
            next_token: Cell::new(0),
        }
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.borrow().len()
    }

    /// Waits with others who have asked the same, or has `ask` send a question with the token it is given and say
    /// whether it could. `None` when it could not, or `room` questions are open already.
    pub(crate) fn join(
        &self,
        key: K,
        room: usize,
        ask: impl FnOnce(u64) -> bool,
    ) -> Option<Rc<Waiter<A>>> {
        let mut open = self.open.borrow_mut();
        let waiter = Rc::new(Waiter {
            answer: OnceCell::new(),
            waker: RefCell::default(),
        });
        if let Some(same) = open.iter_mut().find(|open| open.key == key) {
            same.add(waiter.clone());
            return Some(waiter);
        }
        let token = self.next_token.get();
        if open.len() >= room || !ask(token) {
            return None;
        }
        self.next_token.set(token.wrapping_add(1));
        open.push(Open {
            token,
            key,
            waiting: vec![waiter.clone()],
        });
        Some(waiter)
    }

    /// An answer has come: who waits for it goes on. What was asked; `None` for a token that nobody waits with.
    pub(crate) fn answer(&self, token: u64, answer: &A) -> Option<K> {
        let mut open = self.open.borrow_mut();
        let index = open.iter().position(|open| open.token == token)?;
        let Open { key, waiting, .. } = open.swap_remove(index);
        drop(open);
        for waiter in waiting {
            // Nobody else sets it: a question is answered once.
            let _ = waiter.answer.set(answer.clone());
            let waker = waiter.waker.borrow_mut().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        Some(key)
    }
}

impl<K, A> Open<K, A> {
    /// One more waits. Who has gone meanwhile is forgotten now and then, so that at most twice as many are kept as
    /// do wait.
    fn add(&mut self, waiter: Rc<Waiter<A>>) {
        if self.waiting.len().is_power_of_two() {
            self.waiting.retain(|other| Rc::strong_count(other) > 1);
        }
        self.waiting.push(waiter);
    }
}

impl<A: Clone> Waiter<A> {
    /// Waits for the answer.
    pub(crate) async fn answer(&self) -> A {
        poll_fn(|cx| match self.answer.get() {
            Some(answer) => Poll::Ready(answer.clone()),
            None => {
                *self.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

#[cfg(test)]
impl<K, A> Questions<K, A> {
    /// How many wait for the oldest question.
    pub(crate) fn waiting(&self) -> usize {
        self.open.borrow()[0].waiting.len()
    }
}

#[cfg(test)]
impl<A> Waiter<A> {
    /// Whether there is an answer.
    pub(crate) fn is_answered(&self) -> bool {
        self.answer.get().is_some()
    }
}
