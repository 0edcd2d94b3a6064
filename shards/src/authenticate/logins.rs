//! What a shard knows of passwords: checks that are open, right ones and wrong ones it has seen.
//!
//! Owned by the shard. A hash takes milliseconds to check, so the control core has it checked; whoever is known
//! costs no such round trip. What is known is not the password but a number that only this shard can make of it,
//! from the plan's generation, authenticator, user and password together: a new plan knows nobody. Bounds: the
//! numbers remembered, right and wrong, and the checks open at one time, so that a stream of wrong passwords
//! takes no more of the control core than that. Several requests with one password are one check.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::rc::Rc;

use crate::limits::{CHECKS_MAX, KNOWN_LOGINS_MAX, WRONG_LOGIN_TIME, WRONG_LOGINS_MAX};
use crate::link::Verdict;
use crate::plan::{AuthenticatorId, Generation};
use crate::questions::{Questions, Waiter};

/// Stands for a generation, an authenticator, a user and a password. Twice 64 bits under two secret keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LoginKey(u64, u64);

/// A shard's knowledge of passwords.
pub(crate) struct Logins {
    secrets: [RandomState; 2],
    right: RefCell<Recent>,
    wrong: RefCell<Recent>,
    checks: Questions<LoginKey, Verdict>,
}

/// Where a login stands.
#[derive(Debug)]
pub(crate) enum Standing {
    /// It is known.
    Known(Verdict),
    /// Somebody has asked already, or has now.
    Asked(Rc<Waiter<Verdict>>),
}

impl Logins {
    pub(crate) fn new() -> Logins {
        Logins {
            secrets: [RandomState::new(), RandomState::new()],
            right: RefCell::new(Recent::new(KNOWN_LOGINS_MAX)),
            wrong: RefCell::new(Recent::new(WRONG_LOGINS_MAX)),
            checks: Questions::new(),
        }
    }

    /// The key of a login.
    pub(crate) fn key(
        &self,
        generation: Generation,
        id: AuthenticatorId,
        (user, secret): (&str, &str),
    ) -> LoginKey {
        let all = (generation, id, user, secret);
        let [first, second] = &self.secrets;
        LoginKey(first.hash_one(all), second.hash_one(all))
    }

    /// A number below `count` that a name always leads to, and that nobody outside can foresee.
    pub(super) fn pick(&self, name: &str, count: usize) -> usize {
        let hash = self.secrets[0].hash_one(name);
        usize::try_from(hash % count.max(1) as u64).unwrap_or(0)
    }

    /// What is known of a login. If nothing is, `ask` sends a question with the token it is given, and says
    /// whether it could.
    pub(crate) fn look_up(
        &self,
        key: LoginKey,
        now_ms: u64,
        ask: impl FnOnce(u64) -> bool,
    ) -> Standing {
        if self.right.borrow().has(key, now_ms) {
            return Standing::Known(Verdict::Match);
        }
        if self.wrong.borrow().has(key, now_ms) {
            return Standing::Known(Verdict::Mismatch);
        }
        let waiter = self.checks.join(key, CHECKS_MAX, ask);
        waiter.map_or(Standing::Known(Verdict::Busy), Standing::Asked)
    }

    /// A verdict has come: it is remembered, and who waits for it goes on.
    pub(crate) fn answer(&self, token: u64, verdict: Verdict, now_ms: u64) {
        let Some(key) = self.checks.answer(token, &verdict) else {
            return;
        };
        let wrong_ms = u64::try_from(WRONG_LOGIN_TIME.as_millis()).unwrap_or(u64::MAX);
        match verdict {
            Verdict::Match => self.right.borrow_mut().put(key, now_ms, u64::MAX),
            Verdict::Mismatch => {
                let until_ms = now_ms.saturating_add(wrong_ms);
                self.wrong.borrow_mut().put(key, now_ms, until_ms);
            }
            // Nobody looked, so nothing is known.
            Verdict::Busy => {}
        }
    }

    /// Forgets what earlier plans knew; their keys mean nothing under another generation.
    pub(crate) fn forget(&self) {
        self.right.borrow_mut().clear();
        self.wrong.borrow_mut().clear();
    }
}

/// A bounded set that forgets the oldest first, and everything in time.
struct Recent {
    len_max: usize,
    until_ms: HashMap<LoginKey, u64>,
    /// In order of arrival; as many as there are in `until_ms`.
    order: VecDeque<LoginKey>,
}

impl Recent {
    fn new(len_max: usize) -> Recent {
        Recent {
            len_max,
            until_ms: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    fn has(&self, key: LoginKey, now_ms: u64) -> bool {
        self.until_ms.get(&key).is_some_and(|until| now_ms < *until)
    }

    fn put(&mut self, key: LoginKey, now_ms: u64, until_ms: u64) {
        if self.until_ms.insert(key, until_ms).is_some() {
            return;
        }
        self.order.push_back(key);
        while let Some(oldest) = self.order.front().copied()
            && (self.order.len() > self.len_max || !self.has(oldest, now_ms))
        {
            self.order.pop_front();
            self.until_ms.remove(&oldest);
        }
        debug_assert_eq!(self.order.len(), self.until_ms.len(), "one place for each");
    }

    fn clear(&mut self) {
        self.until_ms.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const PLAN: Generation = Generation(1);
    const ID: AuthenticatorId = AuthenticatorId(0);

    fn asked(logins: &Logins, key: LoginKey) -> Rc<Waiter<Verdict>> {
        match logins.look_up(key, 0, |_| true) {
            Standing::Asked(waiter) => waiter,
            Standing::Known(verdict) => panic!("known as {verdict:?}"),
        }
    }

    fn known(logins: &Logins, key: LoginKey, now_ms: u64) -> Option<Verdict> {
        match logins.look_up(key, now_ms, |_| false) {
            Standing::Known(Verdict::Busy) => None,
            Standing::Known(verdict) => Some(verdict),
            Standing::Asked(_) => panic!("nobody could be asked"),
        }
    }

    #[test]
    fn one_question_answers_all_who_wait() {
        let logins = Logins::new();
        let key = logins.key(PLAN, ID, ("casey", "sesame"));
        let first = asked(&logins, key);
        let Standing::Asked(second) = logins.look_up(key, 0, |_| panic!("asked twice")) else {
            panic!("nothing is known yet");
        };
        let mut cx = Context::from_waker(Waker::noop());
        {
            let mut waiting = pin!(first.answer());
            assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Pending);
            logins.answer(0, Verdict::Match, 0);
            assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Ready(Verdict::Match));
        }
        assert_eq!(
            pin!(second.answer()).as_mut().poll(&mut cx),
            Poll::Ready(Verdict::Match)
        );
        assert_eq!(known(&logins, key, u64::MAX - 1), Some(Verdict::Match));
    }

    #[test]
    fn a_key_is_of_one_plan_authenticator_user_and_password() {
        let logins = Logins::new();
        let key = logins.key(PLAN, ID, ("ab", "c"));
        assert_eq!(key, logins.key(PLAN, ID, ("ab", "c")));
        for other in [
            logins.key(Generation(2), ID, ("ab", "c")),
            logins.key(PLAN, AuthenticatorId(1), ("ab", "c")),
            logins.key(PLAN, ID, ("a", "bc")),
            logins.key(PLAN, ID, ("ab", "d")),
            Logins::new().key(PLAN, ID, ("ab", "c")),
        ] {
            assert_ne!(key, other);
        }
    }

    #[test]
    fn wrong_passwords_are_forgotten_soon() {
        let logins = Logins::new();
        let key = logins.key(PLAN, ID, ("casey", "wrong"));
        asked(&logins, key);
        logins.answer(0, Verdict::Mismatch, 1000);
        let end_ms = 1000 + u64::try_from(WRONG_LOGIN_TIME.as_millis()).expect("short");
        assert_eq!(known(&logins, key, end_ms - 1), Some(Verdict::Mismatch));
        assert_eq!(known(&logins, key, end_ms), None);
    }

    #[test]
    fn open_checks_are_bounded_and_busy_is_not_remembered() {
        let logins = Logins::new();
        let key = |n: usize| logins.key(PLAN, ID, ("casey", &n.to_string()));
        for n in 0..CHECKS_MAX {
            asked(&logins, key(n));
        }
        let over = logins.look_up(key(CHECKS_MAX), 0, |_| panic!("there is no room"));
        assert!(matches!(over, Standing::Known(Verdict::Busy)));
        logins.answer(0, Verdict::Busy, 0);
        assert_eq!(known(&logins, key(0), 0), None);
        asked(&logins, key(CHECKS_MAX));
        // An answer nobody asked for, or a second one, means nothing.
        logins.answer(0, Verdict::Match, 0);
        assert_eq!(known(&logins, key(0), 0), None);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_dies_with_the_plan() {
        let logins = Logins::new();
        let key = |n: usize| logins.key(PLAN, ID, ("casey", &n.to_string()));
        for n in 0..=KNOWN_LOGINS_MAX {
            asked(&logins, key(n));
            logins.answer(n as u64, Verdict::Match, 0);
        }
        assert_eq!(known(&logins, key(0), 0), None);
        assert_eq!(known(&logins, key(1), 0), Some(Verdict::Match));
        logins.forget();
        assert_eq!(known(&logins, key(1), 0), None);
    }
}
