//! Ways around an authenticator: members of a guarded ALB that clients reach without passing it.
//!
//! A member has its own `/<name>/` and `hosts` unless they are turned off, and an ALB's authenticator is asked only
//! for requests of the ALB.

use std::collections::HashSet;

use ringway_shards::plan::{
    Authenticator, Backend, BackendId, Handler, Listener, Matching, PathRule,
};

use super::authenticators::Authenticators;
use super::context::Context;
use super::graph::Graph;
use super::listeners::DEFAULT;
use super::roster::{Entry, Roster};
use crate::config::{Caution, Path};

/// What an operator writes who means a member to be open.
const OPEN: &str = "none";

/// Warns of each member that is reached around an authenticator, once, for the first ALB that has one.
pub(super) fn check(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    graph: &Graph,
    (backends, authenticators): (&[Backend], &Authenticators),
    listeners: &[Listener],
) {
    if !context.is_clean() {
        return;
    }
    let guards = |rule: &PathRule| {
        let authenticator = rule.authenticator.and_then(|id| authenticators.get(id));
        authenticator.is_some_and(|known: &Authenticator| !known.observe_only)
    };
    let mut told = HashSet::new();
    for alb in backends {
        if graph.named_below(alb.id).next().is_none() || !alb.paths.iter().any(guards) {
            continue;
        }
        let Some(listener) = listener_of(roster, listeners, alb.id) else {
            continue;
        };
        for id in below(graph, alb.id) {
            let (Some(member), Some(entry)) = (backends.get(id.index()), roster.entry(id)) else {
                continue;
            };
            let is_meant = entry.written.authenticator_name.as_deref() == Some(OPEN);
            if is_meant || is_guarded(&member.paths, guards) {
                continue;
            }
            let Some((ways, instead)) = ways(listener, entry, id) else {
                continue;
            };
            if told.insert(id) {
                let caution = Caution::MemberUnguarded {
                    alb: roster.name(alb.id).to_owned(),
                    member: entry.name.to_owned(),
                    ways,
                    instead,
                };
                context.warn_key(&Path::of(&["backends", entry.name]), caution);
            }
        }
    }
}

/// Whether all that a backend forwards from its root on is guarded: entries for parts of it may be open on purpose.
fn is_guarded(paths: &[PathRule], guards: impl Fn(&PathRule) -> bool) -> bool {
    let is_root = |rule: &&PathRule| {
        rule.matching == Matching::Prefix
            && &*rule.path == "/"
            && matches!(rule.handler, Handler::Forward)
    };
    paths.iter().filter(is_root).all(guards)
}

/// The first listener of the name that a backend is served on: all sides of it have the same routes.
fn listener_of<'l>(
    roster: &Roster<'_>,
    listeners: &'l [Listener],
    id: BackendId,
) -> Option<&'l Listener> {
    let name = roster.entry(id)?.written.listener_name.as_deref();
    let name = name.unwrap_or(DEFAULT);
    listeners.iter().find(|listener| &*listener.name == name)
}

/// All backends below an ALB, each once.
fn below(graph: &Graph, alb: BackendId) -> Vec<BackendId> {
    let mut found = Vec::new();
    let mut seen = HashSet::from([alb]);
    let mut open = vec![alb];
    while let Some(next) = open.pop() {
        // Who is reached by a route meets the guards of that route.
        for member in graph.named_below(next) {
            if seen.insert(member.backend) {
                found.push(member.backend);
                open.push(member.backend);
            }
        }
    }
    found
}

/// How clients reach a backend on a listener, and what closes that.
fn ways(listener: &Listener, entry: &Entry<'_>, id: BackendId) -> Option<(String, &'static str)> {
    let routes = &listener.routes;
    let by_name = routes
        .names
        .get(entry.name)
        .is_some_and(|route| route.backend == id);
    let by_host = routes.hosts.values().any(|route| route.backend == id);
    let name = entry.name;
    match (by_name, by_host) {
        (true, false) => Some((format!("at /{name}/"), "path_routing_disabled: true")),
        (true, true) => Some((
            format!("at /{name}/ and by its hosts"),
            "path_routing_disabled: true and leave out hosts",
        )),
        (false, true) => Some(("by its hosts".into(), "no hosts")),
        (false, false) => None,
    }
}
