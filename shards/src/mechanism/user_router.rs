//! `ur`: the request's user decides where it goes.
//!
//! A pure choice from the router's settings, the pool table and what is known of the sender. Promises: a user's
//! replacement credentials go to the user's own backend only, and only when the user has proven who they are.
//! Contract: ALB page, 6.6; decisions, 13.

use crate::authenticate::Identity;
use crate::authenticate::claim::{Carrier, Claim};
use crate::authenticate::onward::Onward;
use crate::plan::{Authenticator, AuthenticatorKind, BackendId, UserRoute, UserRouter};
use crate::snapshot::PoolTable;

/// How a request fared at a user router; a label of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It goes to the backend of its user.
    Selected,
    /// It goes to the default backend.
    Default,
    /// There is no backend for its user.
    NoRoute,
    /// There is one, and it is down.
    Unavailable,
}

impl Outcome {
    /// All of them, in the order of their counters.
    pub(crate) const ALL: [Outcome; 4] = [
        Outcome::Selected,
        Outcome::Default,
        Outcome::NoRoute,
        Outcome::Unavailable,
    ];

    /// Value of the metric label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::Selected => "selected",
            Outcome::Default => "default",
            Outcome::NoRoute => "no_route",
            Outcome::Unavailable => "unavailable",
        }
    }
}

/// Where a request goes, and how it fared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The backend; `None`: the answer without a route.
    pub(crate) backend: Option<BackendId>,
    /// What the origin sees of the credentials; `None`: as was settled before.
    pub(crate) onward: Option<Onward>,
    /// For the counter.
    pub(crate) outcome: Outcome,
}

/// Chooses for the router that is this backend. `authenticator` is its own on the request's path.
pub(crate) fn choose(
    (here, router): (BackendId, &UserRouter),
    table: &PoolTable,
    identity: Option<&Identity>,
    authenticator: Option<&Authenticator>,
) -> Choice {
    let checks = authenticator.filter(|own| !own.observe_only);
    let proven = checks.and_then(|own| Some((own, identity?.proven()?)));
    // What the router does not replace goes on as it came in, whatever its own check has taken away. What earlier
    // hops have settled stays.
    let own_check = identity.is_some_and(|identity| identity.was_proven_at(here));
    let retained = || own_check.then(Onward::kept);
    let is_usable = |id: BackendId| table.backend(id).health.value() >= 0;
    let route = identity.and_then(|identity| router.users.get(identity.user()));
    let target = route.and_then(|route| Some((route, route.to_backend?)));
    if let Some((route, backend)) = target
        && is_usable(backend)
    {
        let selected = |onward| Choice {
            backend: Some(backend),
            onward,
            outcome: Outcome::Selected,
        };
        match proven {
            Some((own, claim)) if replaces(route) => {
                let onward = replacement(route, own.kind, claim);
                if onward.is_some() {
                    return selected(onward);
                }
                // They cannot be written: as everybody's.
            }
            _ => return selected(retained()),
        }
    }
    let (backend, outcome) = match router.default_backend {
        Some(default) if is_usable(default) => (Some(default), Outcome::Default),
        None if target.is_none() => (None, Outcome::NoRoute),
        _ => (None, Outcome::Unavailable),
    };
    Choice {
        backend,
        onward: retained(),
        outcome,
    }
}

fn replaces(route: &UserRoute) -> bool {
    route.to_user.is_some() || route.to_credential.is_some()
}

/// The credentials of the route in place of the user's, as far as it has them; `None` when they cannot be
/// written.
fn replacement(route: &UserRoute, kind: AuthenticatorKind, own: &Claim) -> Option<Onward> {
    let user = route.to_user.as_deref().unwrap_or(&own.user);
    let secret = route.to_credential.as_ref().unwrap_or(&own.secret);
    // They may have been proven to an earlier authenticator, of another kind.
    let kind = match own.carrier {
        Carrier::Basic => kind,
        Carrier::Headers | Carrier::Query => AuthenticatorKind::ClickHouse,
    };
    if secret.expose().is_empty() {
        return Some(Onward::removed(kind));
    }
    Onward::replaced(kind, own.carrier, (user, secret))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;
    use crate::plan::{Generation, Secret};
    use crate::snapshot::{BackendState, Health};

    const HERE: BackendId = BackendId(7);
    const OWN: BackendId = BackendId(0);
    const DEFAULT: BackendId = BackendId(1);

    /// The health of the user's backend and of the default one.
    fn table(own: Health, default: Health) -> PoolTable {
        let state = |health| BackendState {
            health,
            addresses: Arc::default(),
        };
        PoolTable {
            generation: Generation(1),
            version: 1,
            backends: vec![state(own), state(default)],
            pools: Vec::new(),
            hosts: Arc::default(),
        }
    }

    fn up() -> PoolTable {
        table(Health::Unknown, Health::Available)
    }

    fn router(default: Option<BackendId>) -> UserRouter {
        let route = |to_backend, to_user: Option<&str>, to_credential: Option<&str>| UserRoute {
            to_backend,
            to_user: to_user.map(Into::into),
            to_credential: to_credential.map(Secret::new),
        };
        let users = [
            ("casey", route(Some(OWN), Some("db"), Some("dbpw"))),
            ("taylor", route(Some(OWN), None, None)),
            ("kris", route(None, Some("db"), Some("dbpw"))),
            ("alex", route(Some(OWN), Some("db"), None)),
            ("sam", route(Some(OWN), None, Some(""))),
            ("dana", route(Some(OWN), None, Some("dbpw"))),
            ("robin", route(Some(OWN), Some("d:b"), None)),
        ];
        UserRouter {
            default_backend: default,
            no_route_status: 502,
            users: users.map(|(name, route)| (name.into(), route)).into(),
            observer: AuthenticatorKind::Basic,
        }
    }

    fn authenticator(observe_only: bool) -> Authenticator {
        Authenticator {
            name: "a".into(),
            kind: AuthenticatorKind::Basic,
            observe_only,
            proxy_preserve: false,
            realm: None,
            users: HashMap::new(),
        }
    }

    fn is(user: &str, proven: bool) -> Identity {
        let claim = Claim {
            user: user.into(),
            secret: Secret::new("own"),
            carrier: Carrier::Basic,
        };
        match proven {
            true => Identity::checked(claim, HERE),
            false => Identity::said(claim),
        }
    }

    fn written(user: &str, secret: &str) -> Option<Onward> {
        let secret = Secret::new(secret);
        Onward::replaced(AuthenticatorKind::Basic, Carrier::Basic, (user, &secret))
    }

    #[test]
    fn a_proven_user_gets_backend_and_credentials() {
        let own = authenticator(false);
        let removed = Onward::removed(AuthenticatorKind::Basic);
        for (user, onward) in [
            ("casey", written("db", "dbpw")),
            ("alex", written("db", "own")),
            ("dana", written("dana", "dbpw")),
            ("sam", Some(removed)),
            ("taylor", Some(Onward::kept())),
        ] {
            let choice = choose(
                (HERE, &router(None)),
                &up(),
                Some(&is(user, true)),
                Some(&own),
            );
            assert_eq!(choice.backend, Some(OWN), "{user}");
            assert_eq!(choice.onward, onward, "{user}");
            assert_eq!(choice.outcome, Outcome::Selected, "{user}");
        }
    }

    #[test]
    fn nobody_else_gets_the_credentials() {
        let (checks, observes) = (authenticator(false), authenticator(true));
        for (identity, own) in [
            (is("casey", false), None),
            (is("casey", true), None),
            (is("casey", false), Some(&checks)),
            (is("casey", false), Some(&observes)),
            (is("casey", true), Some(&observes)),
        ] {
            // Whoever is proven here was proven by an earlier hop.
            let choice = choose((BackendId(8), &router(None)), &up(), Some(&identity), own);
            assert_eq!(choice.backend, Some(OWN));
            assert_eq!(choice.onward, None);
        }
    }

    #[test]
    fn everybody_else_goes_to_the_default_with_what_they_came_with() {
        let own = authenticator(false);
        let down = table(Health::Unavailable, Health::Unknown);
        for (user, table) in [
            ("nobody", &up()),
            ("Casey", &up()),
            ("kris", &up()),
            ("robin", &up()),
            ("casey", &down),
        ] {
            let identity = is(user, true);
            let choice = choose(
                (HERE, &router(Some(DEFAULT))),
                table,
                Some(&identity),
                Some(&own),
            );
            assert_eq!(choice.backend, Some(DEFAULT), "{user}");
            assert_eq!(choice.onward, Some(Onward::kept()), "{user}");
            assert_eq!(choice.outcome, Outcome::Default, "{user}");
        }
        let nameless = choose((HERE, &router(Some(DEFAULT))), &up(), None, None);
        assert_eq!(nameless.backend, Some(DEFAULT));
        assert_eq!(nameless.onward, None);
    }

    #[test]
    fn what_an_earlier_hop_has_settled_stays() {
        let own = authenticator(false);
        let earlier = is("taylor", true);
        let routers = [router(Some(DEFAULT)), router(None)];
        for (router, user) in routers.iter().zip([is("nobody", true), earlier]) {
            let choice = choose((BackendId(8), router), &up(), Some(&user), Some(&own));
            assert!(choice.backend.is_some());
            assert_eq!(choice.onward, None);
        }
    }

    #[test]
    fn without_a_usable_backend_there_is_no_route() {
        let down = table(Health::Unavailable, Health::Unavailable);
        for (user, default, table, outcome) in [
            ("nobody", None, &up(), Outcome::NoRoute),
            ("kris", None, &up(), Outcome::NoRoute),
            ("casey", None, &down, Outcome::Unavailable),
            ("casey", Some(DEFAULT), &down, Outcome::Unavailable),
            ("nobody", Some(DEFAULT), &down, Outcome::Unavailable),
        ] {
            let choice = choose(
                (HERE, &router(default)),
                table,
                Some(&is(user, false)),
                None,
            );
            assert_eq!(choice.backend, None, "{user}");
            assert_eq!(choice.outcome, outcome, "{user}");
        }
    }
}
