//! Who a request is from, and whether that is proven.
//!
//! [`claim`] reads what a request says, [`Identity`] is what is known of it along its way through virtual backends,
//! [`onward`] settles what an origin sees of it, [`logins`] is what the shard knows of passwords. Called by
//! `dispatch` at each hop whose path has an authenticator. Promises: plain passwords are compared in a time
//! that tells nothing, hashed ones are never checked on the shard, and an unknown user is as slow to refuse as a
//! known one. Contract: config page, 6; decisions, 26.

pub(crate) mod claim;
pub(crate) mod logins;
pub(crate) mod onward;

use std::rc::Rc;
use std::time::Duration;

use ringway_io::net::http1::RequestHead;
use ringway_io::task;
use subtle::{Choice, ConstantTimeEq};

use self::claim::Claim;
use self::logins::{LoginKey, Logins, Standing};
use self::onward::Onward;
use crate::limits::{CHECK_TIME_MAX, CREDENTIAL_BYTES_MAX};
use crate::link::{Check, Verdict};
use crate::metrics::Count;
use crate::passage::Passage;
use crate::plan::{Authenticator, AuthenticatorId, BackendId, Password, Secret};
use crate::respond::Failure;
use crate::shard::Active;

/// How long a request may wait here, for the deadline of its connection.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(CHECK_TIME_MAX.as_secs() + 1);

/// Users among whom an unknown one is given a stand-in; more would cost time to walk to.
const STAND_INS_MAX: usize = 64;

/// Who a request is from, as far as it is known.
#[derive(Debug)]
pub(crate) struct Identity {
    /// What the request says; the password too, since a user router may need it.
    claim: Claim,
    /// The backend at whose path that was found to be right.
    proven_at: Option<BackendId>,
}

impl Identity {
    /// What nobody has checked.
    pub(crate) fn said(claim: Claim) -> Identity {
        Identity {
            claim,
            proven_at: None,
        }
    }

    /// What was found to be right at this backend.
    pub(crate) fn checked(claim: Claim, at: BackendId) -> Identity {
        Identity {
            claim,
            proven_at: Some(at),
        }
    }

    /// The user's name, whether proven or only said.
    pub(crate) fn user(&self) -> &str {
        &self.claim.user
    }

    /// What was said, if it is known to be right.
    pub(crate) fn proven(&self) -> Option<&Claim> {
        self.proven_at.map(|_| &self.claim)
    }

    /// Whether it was this backend where that was found.
    pub(crate) fn was_proven_at(&self, backend: BackendId) -> bool {
        self.proven_at == Some(backend)
    }
}

/// What a check of credentials came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Right,
    Wrong,
    /// Too many other checks wait.
    Unknown,
}

/// What becomes of the credentials that an authenticator has found to be right.
pub(crate) fn passed(authenticator: &Authenticator, passage: &mut Passage<'_>) {
    if !authenticator.observe_only && !authenticator.proxy_preserve {
        Onward::removed(authenticator.kind).apply(passage);
    }
}

/// Applies the authenticator of a hop to a request.
///
/// # Errors
/// When the request may not go on; that is final.
pub(crate) async fn apply(
    active: &Active,
    id: AuthenticatorId,
    request: (&RequestHead, &[u8]),
    passage: &mut Passage<'_>,
) -> Result<(), Failure> {
    let known = passage.identity.as_deref();
    // Whoever has proven who they are is not asked again along the chain.
    if known.is_some_and(|identity| identity.proven().is_some()) {
        return Ok(());
    }
    let authenticator = active.plan.authenticator(id);
    let claim = claim::read(authenticator.kind, request);
    if authenticator.observe_only {
        if known.is_none() {
            passage.identity = claim.map(|claim| Rc::new(Identity::said(claim)));
        }
        return Ok(());
    }
    let proof = match &claim {
        Some(claim) => prove(active, id, claim).await,
        None => Proof::Wrong,
    };
    match (proof, claim) {
        (Proof::Right, Some(claim)) => {
            passed(authenticator, passage);
            let at = passage.backend().id;
            passage.identity = Some(Rc::new(Identity::checked(claim, at)));
            Ok(())
        }
        (Proof::Unknown, _) => {
            active.login_cells.turned_away.bump();
            Err(Failure::LoginsBusy)
        }
        (Proof::Wrong, _) | (Proof::Right, None) => {
            active.login_cells.refused.bump();
            let realm = authenticator.realm.clone();
            Err(Failure::Unauthorized { realm })
        }
    }
}

async fn prove(active: &Active, id: AuthenticatorId, claim: &Claim) -> Proof {
    let secret = claim.secret.expose();
    if claim.user.len() > CREDENTIAL_BYTES_MAX || secret.len() > CREDENTIAL_BYTES_MAX {
        return Proof::Wrong;
    }
    let authenticator = active.plan.authenticator(id);
    let (stored, theirs) = stored_for(authenticator, &claim.user, &active.logins);
    let right = match stored {
        None => is_same(" ", secret),
        Some(Password::Plain(stored)) => is_same(stored.expose(), secret),
        Some(Password::Hashed(stored)) => {
            let generation = active.plan.generation;
            let key = active.logins.key(generation, id, (&claim.user, secret));
            match check(active, key, (stored, &claim.secret)).await {
                Verdict::Match => true,
                Verdict::Mismatch => false,
                Verdict::Busy => return Proof::Unknown,
            }
        }
    };
    if right && theirs {
        Proof::Right
    } else {
        Proof::Wrong
    }
}

/// The user's stored password. A user who is not there gets that of another, always the same one: the time to
/// the refusal is then no sign of who is there.
fn stored_for<'p>(
    authenticator: &'p Authenticator,
    user: &str,
    logins: &Logins,
) -> (Option<&'p Password>, bool) {
    let users = &authenticator.users;
    if let Some(stored) = users.get(user) {
        return (Some(stored), true);
    }
    let stand_in = logins.pick(user, users.len().min(STAND_INS_MAX));
    (users.values().nth(stand_in), false)
}

/// Has a password compared with a hash, unless it is known what comes out.
async fn check(active: &Active, key: LoginKey, (stored, offered): (&Secret, &Secret)) -> Verdict {
    let ask = |token| {
        active.ask(Box::new(Check {
            token,
            stored: stored.clone(),
            offered: offered.clone(),
        }))
    };
    match active.logins.look_up(key, active.dog.now_ms(), ask) {
        Standing::Known(verdict) => verdict,
        Standing::Asked(waiter) => task::within(CHECK_TIME_MAX, waiter.answer())
            .await
            .unwrap_or(Verdict::Busy),
    }
}

/// Compares in a time that depends on what was offered alone. Nobody logs in with an empty password.
fn is_same(stored: &str, offered: &str) -> bool {
    let stored = stored.as_bytes();
    let mut same = Choice::from(u8::from(stored.len() == offered.len()));
    for (index, byte) in offered.bytes().enumerate() {
        same &= byte.ct_eq(&stored.get(index).copied().unwrap_or(0));
    }
    bool::from(same) && !stored.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::AuthenticatorKind;

    fn users(names: &[&str]) -> Authenticator {
        let user = |name: &&str| ((*name).into(), Password::Plain(Secret::new(*name)));
        Authenticator {
            name: "a".into(),
            kind: AuthenticatorKind::Basic,
            observe_only: false,
            proxy_preserve: false,
            realm: None,
            users: names.iter().map(user).collect(),
        }
    }

    #[test]
    fn passwords_are_compared_whole() {
        for (stored, offered, same) in [
            ("secret", "secret", true),
            ("secret", "secres", false),
            ("secret", "secre", false),
            ("secret", "secret1", false),
            ("secret", "", false),
            ("secret", "\0\0\0\0\0\0", false),
            ("", "", false),
        ] {
            assert_eq!(is_same(stored, offered), same, "{stored} {offered}");
        }
    }

    #[test]
    fn an_unknown_user_has_a_stand_in_who_never_counts() {
        let logins = Logins::new();
        let two = users(&["casey", "taylor"]);
        let (own, theirs) = stored_for(&two, "casey", &logins);
        assert!(matches!(own, Some(Password::Plain(secret)) if secret.expose() == "casey"));
        assert!(theirs);
        let (first, theirs) = stored_for(&two, "kris", &logins);
        let (again, _) = stored_for(&two, "kris", &logins);
        assert!(!theirs);
        assert!(std::ptr::eq(
            first.expect("two are there"),
            again.expect("two")
        ));
        let empty = users(&[]);
        let (nobody, theirs) = stored_for(&empty, "kris", &logins);
        assert!(nobody.is_none() && !theirs);
    }
}
