//! Host names that rewriters have made of captures, and where they are.
//!
//! Owned by the shard, which resolves nothing: the control core is asked with a [`Lookup`](crate::link::Lookup), and
//! its answer is kept for as long as it says. Called by `elsewhere`. Several requests for one name are one lookup.
//! Clients choose these names. Bounds: [`NAMES_MAX`] names kept with addresses and as many without,
//! [`LOOKUPS_MAX`] lookups open, [`NEW_LOOKUPS_MAX`] of them for names not in use; beyond those the control core only
//! says what it knows already, which another shard may have asked for.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use crate::limits::{LOOKUPS_MAX, NAMES_MAX, NEW_LOOKUPS_MAX, STALE_MAX};
use crate::link::Found;
use crate::names::Names;
use crate::questions::{Questions, Waiter};

const STALE_MS_MAX: u64 = STALE_MAX.as_secs() * 1000;

/// A shard's knowledge of such names.
pub(crate) struct Lookups {
    names: RefCell<Names>,
    open: Questions<Box<str>, Addresses>,
}

/// Addresses of a host; it may have none.
type Addresses = Arc<[IpAddr]>;

/// How it stands with a name.
#[derive(Debug)]
pub(crate) enum Standing {
    /// These are its addresses; it may have none.
    Known(Addresses),
    /// Somebody has asked already, or has now.
    Asked(Rc<Waiter<Addresses>>),
    /// Too many are asked for.
    Full,
}

impl Lookups {
    pub(crate) fn new() -> Lookups {
        Lookups {
            names: RefCell::new(Names::new(NAMES_MAX)),
            open: Questions::new(),
        }
    }

    /// How it stands with a name. If nothing is known, `ask` sends a question with the token it is given, perhaps for
    /// what is known already alone, and says whether it could.
    pub(crate) fn look_up(
        &self,
        host: &str,
        now_ms: u64,
        ask: impl FnOnce(u64, bool) -> bool,
    ) -> Standing {
        let mut names = self.names.borrow_mut();
        if let Some((addresses, _)) = names.get(host, now_ms) {
            return Standing::Known(addresses);
        }
        // Names in use have room of their own, or new ones that nobody answers for would take it from them.
        let last = names.last(host, now_ms.saturating_sub(STALE_MS_MAX));
        // Those end at once, so that some room is enough.
        let known_alone = last.is_none() && self.open.len() >= NEW_LOOKUPS_MAX;
        let ask = |token| ask(token, known_alone);
        let waiter = self.open.join(host.into(), LOOKUPS_MAX, ask);
        waiter.map_or_else(
            || last.map_or(Standing::Full, Standing::Known),
            Standing::Asked,
        )
    }

    /// An answer has come: it is kept, and who waits for it goes on.
    pub(crate) fn answer(&self, token: u64, found: &Found, now_ms: u64) {
        let Some(host) = self.open.answer(token, &found.addresses) else {
            return;
        };
        let for_ms = u64::try_from(found.valid_for.as_millis()).unwrap_or(u64::MAX);
        if for_ms > 0 {
            let mut names = self.names.borrow_mut();
            names.put(&host, found.addresses.clone(), (now_ms, for_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::net::Ipv4Addr;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    fn found(valid_ms: u64) -> Found {
        Found {
            addresses: Arc::new([Ipv4Addr::LOCALHOST.into()]),
            valid_for: Duration::from_millis(valid_ms),
        }
    }

    fn nothing(valid_ms: u64) -> Found {
        Found {
            addresses: Arc::default(),
            valid_for: Duration::from_millis(valid_ms),
        }
    }

    fn asked(lookups: &Lookups, host: &str, now_ms: u64) -> Rc<Waiter<Addresses>> {
        match lookups.look_up(host, now_ms, |_, _| true) {
            Standing::Asked(waiter) => waiter,
            other => panic!("{other:?}"),
        }
    }

    /// How many addresses are known.
    fn known(lookups: &Lookups, host: &str, now_ms: u64) -> Option<usize> {
        match lookups.look_up(host, now_ms, |_, _| false) {
            Standing::Known(addresses) => Some(addresses.len()),
            Standing::Full => None,
            Standing::Asked(_) => panic!("nobody could be asked"),
        }
    }

    #[test]
    fn one_lookup_answers_all_who_wait() {
        let lookups = Lookups::new();
        let first = asked(&lookups, "a", 0);
        let Standing::Asked(second) = lookups.look_up("a", 0, |_, _| panic!("asked twice")) else {
            panic!("nothing is known yet");
        };
        let other = asked(&lookups, "b", 0);
        let mut cx = Context::from_waker(Waker::noop());
        {
            let mut waiting = pin!(first.answer());
            assert!(waiting.as_mut().poll(&mut cx).is_pending());
            lookups.answer(0, &found(100), 0);
            assert!(waiting.as_mut().poll(&mut cx).is_ready());
        }
        let Poll::Ready(addresses) = pin!(second.answer()).as_mut().poll(&mut cx) else {
            panic!("answered");
        };
        assert_eq!(addresses.len(), 1);
        assert!(pin!(other.answer()).as_mut().poll(&mut cx).is_pending());
    }

    #[test]
    fn an_answer_is_kept_for_as_long_as_it_says() {
        let lookups = Lookups::new();
        asked(&lookups, "a", 0);
        lookups.answer(0, &found(100), 0);
        assert_eq!(known(&lookups, "a", 99), Some(1));
        asked(&lookups, "a", 100);
        lookups.answer(1, &nothing(50), 100);
        assert_eq!(known(&lookups, "a", 149), Some(0));
        assert_eq!(known(&lookups, "a", 150), None);
        asked(&lookups, "a", 150);
        lookups.answer(2, &nothing(0), 150);
        assert_eq!(known(&lookups, "a", 150), None, "nobody looked");
    }

    #[test]
    fn open_lookups_are_bounded() {
        let lookups = Lookups::new();
        for n in 0..NEW_LOOKUPS_MAX {
            asked(&lookups, &n.to_string(), 0);
        }
        // What another shard knows is still asked for.
        for n in NEW_LOOKUPS_MAX..LOOKUPS_MAX {
            let asked = lookups.look_up(&n.to_string(), 0, |_, known_alone| known_alone);
            assert!(matches!(asked, Standing::Asked(_)));
        }
        let over = lookups.look_up("over", 0, |_, _| panic!("there is no room"));
        assert!(matches!(over, Standing::Full));
        // Who asks for what is asked for already needs none.
        asked(&lookups, "0", 0);
        lookups.answer(0, &found(1), 0);
        asked(&lookups, "over", 0);
        // An answer nobody asked for, or a second one, means nothing.
        lookups.answer(0, &found(1000), 0);
        assert_eq!(known(&lookups, "0", STALE_MS_MAX + 2), None);
    }

    #[test]
    fn names_in_use_are_served_while_new_ones_take_all_the_room() {
        let lookups = Lookups::new();
        asked(&lookups, "used", 0);
        lookups.answer(0, &found(100), 0);
        for n in 0..NEW_LOOKUPS_MAX {
            asked(&lookups, &n.to_string(), 100);
        }
        assert_eq!(known(&lookups, "new", 100), None);
        // It is asked for nevertheless, and where it cannot be, its last addresses serve for a while.
        assert_eq!(known(&lookups, "used", 100), Some(1));
        asked(&lookups, "used", 100);
        assert_eq!(known(&lookups, "other", STALE_MS_MAX), None);
        let late = 100 + STALE_MS_MAX;
        let Standing::Asked(_) = lookups.look_up("used", late, |_, _| panic!("asked already"))
        else {
            panic!("its answer is still to come");
        };
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let lookups = Lookups::new();
        let stays = asked(&lookups, "a", 0);
        for _ in 0..1000 {
            drop(asked(&lookups, "a", 0));
        }
        assert!(lookups.open.waiting() <= 4);
        lookups.answer(0, &found(1), 0);
        assert!(stays.is_answered());
    }
}
