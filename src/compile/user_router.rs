//! Block `alb.user_router`: routes by user name. Contract: ALB page, 2.2 and 6.6.

use ringway_shards::plan::{
    Authenticator, AuthenticatorKind, BackendId, PathRule, Secret, UserRoute, UserRouter,
};
use serde_json::Value as Json;

use super::authenticators::Authenticators;
use super::context::Context;
use super::effective::MASK;
use super::graph::router_path;
use super::roster::{Entry, Role, Roster};
use crate::config::alb::{User, UserRouter as Written};
use crate::config::{Caution, Fault, Path, defaults};

/// The routes as ids. Names that lead nowhere are already reported by the graph.
pub(super) fn compile(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    name: &str,
    written: &Written,
) -> UserRouter {
    let at = router_path(name);
    if let Some(default) = &written.default_backend {
        context.note_written(&at.key("default_backend"), Json::from(default.as_str()));
    }
    let no_route_status = context.pick(
        &at.key("no_route_status_code"),
        written.no_route_status_code,
        defaults::NO_ROUTE_STATUS,
    );
    let listed = written.users.as_ref().map_or(&[][..], |users| &users.0);
    let mut has_route = written.default_backend.is_some();
    let mut users = std::collections::HashMap::new();
    for (user, route) in listed {
        let here = at.key("users").key(user);
        if user.is_empty() {
            let reason = "it is empty";
            context.fail_key(&here, Fault::UserName { reason });
        }
        has_route |= route.to_backend.is_some();
        let compiled = user_route(context, roster, &here, route);
        users.insert(user.as_str().into(), compiled);
    }
    if !has_route {
        let status = no_route_status;
        context.warn_key(&at, Caution::EmptyRouter { status });
    }
    UserRouter {
        default_backend: id(roster, written.default_backend.as_deref()),
        no_route_status,
        users,
        observer: AuthenticatorKind::Basic,
    }
}

/// Puts in what follows from the ALB's authenticators: where names are read, and whether credentials may be
/// replaced at all. Contract: ALB page, 6.6.
pub(super) fn settle(
    context: &mut Context<'_>,
    authenticators: &Authenticators,
    entry: &Entry<'_>,
    paths: &[PathRule],
    router: &mut UserRouter,
) {
    let ids = paths.iter().filter_map(|path| path.authenticator);
    let used: Vec<&Authenticator> = ids.filter_map(|id| authenticators.get(id)).collect();
    // The default is what every built provider reads: all terminals are of one.
    if let Some(first) = used.first() {
        router.observer = first.kind;
    }
    // One that is named but refused is not also missing.
    let is_named = entry.written.authenticator_name.as_deref();
    let is_refused = is_named.is_some_and(|name| name != "none") && used.is_empty();
    if is_refused || used.iter().any(|authenticator| !authenticator.observe_only) {
        return;
    }
    let written = entry.written.alb.as_ref();
    let written = written.and_then(|alb| alb.user_router.as_ref()?.users.as_ref());
    for (user, route) in written.iter().flat_map(|users| &users.0) {
        let at = router_path(entry.name).key("users").key(user);
        let keys = [
            ("to_user", route.to_user.is_some()),
            ("to_credential", route.to_credential.is_some()),
        ];
        if let Some((key, _)) = keys.into_iter().find(|(_, is_written)| *is_written) {
            context.fail_key(&at.key(key), Fault::SwapUnchecked);
        }
    }
}

fn user_route(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    at: &Path,
    written: &User,
) -> UserRoute {
    let shown = [
        ("to_backend", written.to_backend.as_deref()),
        ("to_user", written.to_user.as_deref()),
        (
            "to_credential",
            written.to_credential.as_ref().map(|_| MASK),
        ),
    ];
    for (key, value) in shown {
        if let Some(value) = value {
            context.note_written(&at.key(key), Json::from(value));
        }
    }
    if written.to_backend.is_none() {
        let reason = "credentials are replaced only on the way to a to_backend";
        context.warn_no_effect(&at.key("to_user"), reason);
        context.warn_no_effect(&at.key("to_credential"), reason);
    }
    let filled = |text: &&String| !text.is_empty();
    UserRoute {
        to_backend: id(roster, written.to_backend.as_deref()),
        to_user: written
            .to_user
            .as_ref()
            .filter(filled)
            .map(|name| name.as_str().into()),
        to_credential: written
            .to_credential
            .as_ref()
            .filter(filled)
            .map(|secret| Secret::new(secret.as_str())),
    }
}

fn id(roster: &Roster<'_>, name: Option<&str>) -> Option<BackendId> {
    match roster.get(name?)?.role {
        Role::Live(id, _) => Some(id),
        _ => None,
    }
}
