//! From a request to the backend that answers it: the route, then hops through virtual backends, each of which
//! has rules for the paths it serves.

use std::rc::Rc;
use std::sync::Arc;

use ringway_io::net::http1::{Method, RequestHead, TargetForm};

use crate::authenticate::{self, Identity, claim};
use crate::mechanism::user_router;
use crate::metrics::Count;
use crate::passage::{Asked, Entered, Passage};
use crate::plan::{
    AuthenticatorId, Backend, BackendId, BackendKind, Handler, Listener, LocalAnswer, Mechanism,
    Methods, Outcome, Plan, RouteTable, Rule, UserRouter, spelling,
};
use crate::respond::Failure;
use crate::rule::Onward;
use crate::shard::View;

/// The listener whose routes a rule's `frontend` means.
const MAIN_LISTENER: &str = "default";

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Routed {
    /// First backend.
    pub(crate) backend: BackendId,
    /// Bytes of the path that the route used up.
    pub(crate) strip: usize,
}

/// Who answers.
pub(crate) enum Terminal<'v> {
    /// An origin.
    Origin(&'v Arc<Backend>),
    /// All members of this ALB's pool, merged.
    Merge(&'v Arc<Backend>),
    /// ringway itself, with what a rule has for it.
    Local(&'v LocalAnswer),
    /// All members of this ALB's pool, of whose answers one is chosen.
    Choice(&'v Arc<Backend>),
}

/// Finds the first backend of a request. Contract: config page, 5.
pub(crate) fn route(
    listener: &Listener,
    head: &RequestHead,
    bytes: &[u8],
) -> Result<Routed, Failure> {
    if head.method() == Method::Connect {
        return Err(Failure::Method {
            allowed: Methods::ALL,
        });
    }
    if head.target_form() == TargetForm::Asterisk {
        return Err(Failure::Target);
    }
    let host = head.authority(bytes).unwrap_or_default();
    find(&listener.routes, host, head.path(bytes))
}

/// Finds the first backend for a host and a path.
fn find(routes: &RouteTable, host: &[u8], path: &[u8]) -> Result<Routed, Failure> {
    if !routes.hosts.is_empty()
        && let Some(route) = routes.hosts.get(host_key(host).as_str())
    {
        return Ok(Routed {
            backend: route.backend,
            strip: 0,
        });
    }
    if let Some(name) = first_segment(path)
        && let Some(route) = routes.names.get(name)
    {
        return Ok(Routed {
            backend: route.backend,
            strip: name.len() + 1,
        });
    }
    match routes.default {
        Some(route) => Ok(Routed {
            backend: route.backend,
            strip: 0,
        }),
        None => Err(Failure::NoRoute),
    }
}

/// Lower case, without port and without the dot that ends a whole name; an IPv6 address keeps its brackets.
fn host_key(authority: &[u8]) -> String {
    let text = String::from_utf8_lossy(authority).to_ascii_lowercase();
    if text.starts_with('[') {
        return text
            .split_inclusive(']')
            .next()
            .unwrap_or_default()
            .to_owned();
    }
    let name = text.split(':').next().unwrap_or_default();
    name.strip_suffix('.').unwrap_or(name).to_owned()
}

fn first_segment(path: &[u8]) -> Option<&str> {
    let rest = path.strip_prefix(b"/")?;
    let segment = rest.split(|&byte| byte == b'/').next()?;
    if segment.is_empty() {
        return None;
    }
    std::str::from_utf8(segment).ok()
}

/// Follows virtual backends to who answers, taking one turn of each pool on the way. Where an authenticator
/// has to judge, it is asked.
pub(crate) async fn arrive<'v>(
    view: &'v View,
    asked: &Asked<'_>,
    passage: &mut Passage<'v>,
) -> Result<Terminal<'v>, Failure> {
    match resolve(view, asked, passage)? {
        Way::Ends(terminal) => Ok(terminal),
        Way::Asks(authenticator) => go_on(view, authenticator, asked, passage).await,
    }
}

/// As [`arrive`], from where [`resolve`] has come to this authenticator.
pub(crate) async fn go_on<'v>(
    view: &'v View,
    mut authenticator: AuthenticatorId,
    asked: &Asked<'_>,
    passage: &mut Passage<'v>,
) -> Result<Terminal<'v>, Failure> {
    loop {
        judge(view, authenticator, asked, passage).await?;
        match resolve(view, asked, passage)? {
            Way::Ends(terminal) => return Ok(terminal),
            Way::Asks(next) => authenticator = next,
        }
    }
}

/// Goes a way through pools that is known to an origin, without taking turns. False when a rule on it answers by
/// itself.
pub(crate) async fn follow<'v>(
    view: &'v View,
    asked: &Asked<'_>,
    way: &[BackendId],
    passage: &mut Passage<'v>,
) -> Result<bool, Failure> {
    let mut way = way.iter();
    loop {
        let rule = match passage.enter(asked)? {
            Entered::Rule(rule) => rule,
            Entered::Asks(authenticator) => {
                judge(view, authenticator, asked, passage).await?;
                continue;
            }
        };
        if matches!(rule.handler, Handler::Local(_)) {
            return Ok(false);
        }
        let backend = passage.backend();
        if let BackendKind::Rule(rule) = &backend.kind {
            // It decides anew, with the same outcome unless a pool is behind it.
            through(view, (backend, rule), asked, passage)?;
            let terminal = Box::pin(arrive(view, asked, passage)).await?;
            return Ok(matches!(terminal, Terminal::Origin(_)));
        }
        let Some(member) = way.next() else {
            passage.arrived(asked)?;
            return Ok(!leads_out(backend, passage.path(asked)));
        };
        passage.hop(view.active.plan.backend(*member))?;
    }
}

/// Lets an authenticator judge. Boxed: few paths have one, and every connection's future would be larger.
async fn judge(
    view: &View,
    authenticator: AuthenticatorId,
    asked: &Asked<'_>,
    passage: &mut Passage<'_>,
) -> Result<(), Failure> {
    let request = asked.received;
    Box::pin(authenticate::apply(
        &view.active,
        authenticator,
        request,
        passage,
    ))
    .await
}

/// How far a request comes without waiting.
pub(crate) enum Way<'v> {
    /// To its end.
    Ends(Terminal<'v>),
    /// To a rule whose authenticator must judge; [`resolve`] goes on behind it.
    Asks(AuthenticatorId),
}

/// Moves the passage on, until it has arrived or has to wait.
pub(crate) fn resolve<'v>(
    view: &'v View,
    asked: &Asked<'_>,
    passage: &mut Passage<'v>,
) -> Result<Way<'v>, Failure> {
    loop {
        let rule = match passage.enter(asked)? {
            Entered::Rule(rule) => rule,
            Entered::Asks(authenticator) => return Ok(Way::Asks(authenticator)),
        };
        if let Handler::Local(local) = &rule.handler {
            return Ok(Way::Ends(Terminal::Local(local)));
        }
        let backend = passage.backend();
        let alb = match &backend.kind {
            BackendKind::Origin(_) => {
                if leads_out(backend, passage.path(asked)) {
                    return Err(Failure::Roundabout);
                }
                passage.arrived(asked)?;
                return Ok(Way::Ends(Terminal::Origin(backend)));
            }
            BackendKind::Rule(rule) => {
                through(view, (backend, rule), asked, passage)?;
                continue;
            }
            BackendKind::Alb(alb) => alb,
        };
        match alb.mechanism {
            Mechanism::TimeSeriesMerge => {
                passage.arrived(asked)?;
                return Ok(Way::Ends(Terminal::Merge(backend)));
            }
            Mechanism::RoundRobin => {
                let member = view.table.pool(alb.pool).next_member();
                let member = member.ok_or_else(|| Failure::NoLiveMember {
                    alb: backend.name.clone(),
                })?;
                passage.hop(&member.backend)?;
                view.active.cells(member.backend.id).selected.bump();
            }
            Mechanism::FirstResponse
            | Mechanism::FirstGoodResponse
            | Mechanism::NewestLastModified => {
                passage.arrived(asked)?;
                return Ok(Way::Ends(Terminal::Choice(backend)));
            }
            Mechanism::UserRouter => {
                let router = alb.user_router.as_ref().ok_or(Failure::Internal)?;
                let member = by_user(view, router, rule.authenticator, asked, passage)?;
                passage.hop(member)?;
                passage.settle();
                view.active.cells(member.id).selected.bump();
            }
        }
    }
}

/// Whether the path may lead out of the part of the origin that is meant.
pub(crate) fn leads_out(backend: &Backend, path: &[u8]) -> bool {
    matches!(&backend.kind, BackendKind::Origin(origin) if !origin.path_prefix.is_empty())
        && spelling::is_roundabout(path)
}

/// Lets a rule decide, and goes where it says.
fn through<'v>(
    view: &'v View,
    (backend, rule): (&Backend, &'v Rule),
    asked: &Asked<'_>,
    passage: &mut Passage<'v>,
) -> Result<(), Failure> {
    let cells = view.active.cells(backend.id);
    let decision = passage
        .pass(rule, asked)
        .inspect_err(|_| cells.count_rule_stop())?;
    cells.count_rule(decision.case.map(|case| case.place));
    let target = sent(&view.active.plan, decision.onward, asked, passage)?;
    view.active.cells(target.id).selected.bump();
    Ok(())
}

/// Goes where a rule has decided; the backend that it comes to.
pub(crate) fn sent<'v>(
    plan: &'v Plan,
    onward: Onward<'_>,
    asked: &Asked<'_>,
    passage: &mut Passage<'v>,
) -> Result<&'v Arc<Backend>, Failure> {
    let outcome = match onward {
        Onward::To(outcome) => outcome,
        Onward::Back(status, location) => {
            let location = location.into();
            return Err(Failure::Redirect { status, location });
        }
        Onward::Nowhere => return Err(Failure::NoLocation),
    };
    let target = match outcome {
        Outcome::Backend(id) => plan.backend(*id),
        Outcome::Redirect(_) => return Err(Failure::Internal),
        Outcome::Frontend => {
            let mut listeners = plan.listeners.iter();
            let main = listeners.find(|listener| &*listener.name == MAIN_LISTENER);
            let main = main.ok_or(Failure::NoRoute)?;
            let host = passage.named_host(asked);
            let routed = find(&main.routes, &host, passage.path(asked))?;
            passage.strip_path(asked, routed.strip);
            plan.backend(routed.backend)
        }
    };
    passage.sent_to(target);
    Ok(target)
}

/// The member of a user router that a request goes to. `own` is the router's authenticator on its path.
fn by_user<'v>(
    view: &'v View,
    router: &UserRouter,
    own: Option<AuthenticatorId>,
    asked: &Asked<'_>,
    passage: &mut Passage<'v>,
) -> Result<&'v Arc<Backend>, Failure> {
    let plan = &view.active.plan;
    let own = own.map(|id| plan.authenticator(id));
    if passage.identity.is_none() && own.is_none() {
        let claim = claim::read(router.observer, asked.received);
        passage.identity = claim.map(|claim| Rc::new(Identity::said(claim)));
    }
    let backend = passage.backend();
    let identity = passage.identity.as_deref();
    let choice = user_router::choose((backend.id, router), &view.table, identity, own);
    view.active
        .cells(backend.id)
        .count_user_route(choice.outcome);
    if let Some(onward) = choice.onward {
        onward.apply(passage);
    }
    match choice.backend {
        Some(member) => Ok(plan.backend(member)),
        None => Err(Failure::NoUserRoute {
            router: backend.name.clone(),
            status: router.no_route_status,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_compared_without_case_port_and_last_dot() {
        assert_eq!(host_key(b"Example.COM:8480"), "example.com");
        assert_eq!(host_key(b"[::1]:8480"), "[::1]");
        assert_eq!(host_key(b"a"), "a");
        assert_eq!(host_key(b"One.example."), "one.example");
        assert_eq!(host_key(b"one.example.:8480"), "one.example");
        assert_eq!(host_key(b"one.example.."), "one.example.");
    }

    #[test]
    fn the_first_segment_names_the_backend() {
        assert_eq!(first_segment(b"/web/a/b"), Some("web"));
        assert_eq!(first_segment(b"/web"), Some("web"));
        assert_eq!(first_segment(b"/"), None);
        assert_eq!(first_segment(b""), None);
    }
}
