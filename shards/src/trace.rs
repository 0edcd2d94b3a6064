//! Which way a request would take, without sending it: for the command line and for tests of rules.
//!
//! The way is found by the code that serves requests: the routes, [`Passage`], rules and rewriters. What needs a
//! running shard is only named: whose turn it is in a pool, whether a password is right.

use std::sync::Arc;

use ringway_io::net::http1::{KnownHeader, Parsed, RequestHead};

use crate::authenticate;
use crate::dispatch;
use crate::elsewhere::replaced;
use crate::limits::head_limits;
use crate::passage::{Asked, Credentials, Entered, Passage, path_below};
use crate::plan::{
    Alb, Backend, BackendKind, Handler, Listener, Mechanism, Origin, PathRule, Plan, Rule,
};
use crate::respond::Failure;
use crate::rule::Decision;

/// Most ways by members of pools that a trace follows.
pub const WAYS_MAX: usize = 64;

/// A request that nobody sends.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Its method.
    pub method: String,
    /// Its URL: `http://host/path`, `https://host/path`, or `/path` at `localhost`.
    pub url: String,
    /// Its headers. A `Host` stands in the place of the URL's.
    pub headers: Vec<(String, String)>,
}

/// A way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What it passes, in order.
    pub steps: Vec<Step>,
    /// Where it ends.
    pub end: End,
    /// Instructions of rewriters that were left out.
    pub dropped: u32,
}

/// Something on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A backend, with the configured path that takes the request.
    Backend {
        /// Its name.
        name: String,
        /// Its provider.
        provider: &'static str,
        /// The path.
        path: String,
    },
    /// Somebody who asks for credentials; here everybody passes.
    Authenticator(String),
    /// A rewriter of a backend or path.
    Rewriter(String),
    /// A rule.
    Rule {
        /// Its name.
        name: String,
        /// The case that decides; `None`: no case matched.
        case: Option<u16>,
        /// Its rewriters that run.
        rewriters: Vec<String>,
    },
}

/// The end of a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// At an origin.
    Origin {
        /// The backend.
        backend: String,
        /// The method it is asked with.
        method: String,
        /// What it is asked for.
        url: String,
        /// Headers of the request, before what `request_headers` of paths change.
        headers: Vec<(String, String)>,
    },
    /// At a pool with several members.
    Pool {
        /// The ALB.
        backend: String,
        /// How it chooses.
        mechanism: &'static str,
        /// From whom.
        members: Vec<String>,
        /// The ways by the first of them, [`WAYS_MAX`] of one trace at most.
        ways: Vec<Trace>,
    },
    /// At ringway, which answers itself.
    Answer {
        /// With this status.
        status: u16,
        /// And this `Location`.
        location: Option<String>,
        /// Because of this; empty where a path says so.
        reason: String,
    },
}

/// Finds the way of a request that comes to the listener `default`.
///
/// # Errors
/// When it is no request.
pub fn trace(plan: &Plan, question: &Question) -> Result<Trace, String> {
    let request = Request::of(plan, question)?;
    let mut notes = Notes {
        steps: Vec::new(),
        room: WAYS_MAX,
    };
    let (end, dropped) = request.go(Some(&mut notes), at_origin);
    Ok(Trace {
        steps: notes.steps,
        end: end.unwrap_or_else(|failure| refused(&failure)),
        dropped,
    })
}

/// What is written down on the way.
struct Notes {
    steps: Vec<Step>,
    /// How many ways by members may still be followed.
    room: usize,
}

/// A request, read and ready to find its way.
pub struct Request<'v> {
    plan: &'v Plan,
    listener: &'v Listener,
    tls: bool,
    bytes: Vec<u8>,
    head: RequestHead,
}

impl<'v> Request<'v> {
    /// Reads it.
    ///
    /// # Errors
    /// When it is no request, or there is no listener `default`.
    pub fn of(plan: &'v Plan, question: &Question) -> Result<Request<'v>, String> {
        let (tls, authority, target) = parts(&question.url)?;
        let method = &question.method;
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        let headers = &question.headers;
        if !headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("host"))
        {
            text.push_str(&format!("Host: {authority}\r\n"));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let bytes = text.into_bytes();
        let mut head = RequestHead::new();
        match head.parse(&bytes, &head_limits()) {
            Ok(Parsed::Complete(len)) if len == bytes.len() => {}
            Ok(_) => return Err("a line of the request has an end in it".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        let named = || {
            let listeners = plan.listeners.iter();
            listeners.filter(|listener| &*listener.name == "default")
        };
        let listener = named().find(|listener| listener.tls.is_some() == tls);
        let listener = listener.or_else(|| named().next());
        Ok(Request {
            plan,
            listener: listener.ok_or("there is no listener named default")?,
            tls,
            bytes,
            head,
        })
    }

    /// Whether it comes to an origin; finds its way and keeps nothing of it.
    pub fn arrives(&self) -> bool {
        let nothing = |_: (&Backend, &Origin), _: &Asked<'_>, _: &Passage<'_>| End::Answer {
            status: 0,
            location: None,
            reason: String::new(),
        };
        self.go(None, nothing).0.is_ok()
    }

    fn go(
        &self,
        notes: Option<&mut Notes>,
        at_origin: impl Fn((&Backend, &Origin), &Asked<'_>, &Passage<'_>) -> End,
    ) -> (Result<End, Failure>, u32) {
        let routed = match dispatch::route(self.listener, &self.head, &self.bytes) {
            Ok(routed) => routed,
            Err(failure) => return (Err(failure), 0),
        };
        let path = path_below(self.head.path(&self.bytes), routed.strip);
        let asked = Asked::of((&self.head, &self.bytes), path, self.tls);
        let mut passage = Passage::at(self.plan.backend(routed.backend));
        let ended = follow(self.plan, &asked, &mut passage, notes);
        let ended = ended.map(|ended| match ended {
            Ended::Origin(backend, origin) => at_origin((backend, origin), &asked, &passage),
            Ended::Elsewhere(end) => end,
        });
        (ended, passage.dropped_rewrites())
    }
}

/// Scheme, authority and target of a URL.
fn parts(url: &str) -> Result<(bool, &str, String), String> {
    let (tls, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
        _ if url.starts_with('/') => return Ok((false, "localhost", url.to_owned())),
        _ => return Err("write the URL as http://HOST/PATH, or its path alone".to_owned()),
    };
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(at);
    let target = match target.starts_with('/') {
        true => target.to_owned(),
        false => format!("/{target}"),
    };
    Ok((tls, authority, target))
}

fn refused(failure: &Failure) -> End {
    let location = match failure {
        Failure::Redirect { location, .. } => Some(String::from_utf8_lossy(location).into_owned()),
        _ => None,
    };
    End::Answer {
        status: failure.status(),
        location,
        reason: failure.to_string(),
    }
}

/// Where a way ends.
enum Ended<'v> {
    Origin(&'v Backend, &'v Origin),
    Elsewhere(End),
}

fn follow<'v>(
    plan: &'v Plan,
    asked: &Asked<'_>,
    passage: &mut Passage<'v>,
    mut notes: Option<&mut Notes>,
) -> Result<Ended<'v>, Failure> {
    loop {
        let rule = match passage.enter(asked)? {
            Entered::Rule(rule) => rule,
            Entered::Asks(authenticator) => {
                let authenticator = plan.authenticator(authenticator);
                authenticate::passed(authenticator, passage);
                if let Some(notes) = &mut notes {
                    let name = authenticator.name.to_string();
                    notes.steps.push(Step::Authenticator(name));
                }
                continue;
            }
        };
        let backend: &'v Arc<Backend> = passage.backend();
        if let Some(notes) = &mut notes {
            note(&mut notes.steps, backend, rule);
        }
        if let Handler::Local(local) = &rule.handler {
            return Ok(Ended::Elsewhere(End::Answer {
                status: local.status,
                location: None,
                reason: String::new(),
            }));
        }
        match &backend.kind {
            BackendKind::Origin(origin) => {
                if dispatch::leads_out(backend, passage.path(asked)) {
                    return Err(Failure::Roundabout);
                }
                passage.arrived(asked)?;
                return Ok(Ended::Origin(backend, origin));
            }
            BackendKind::Rule(rule) => {
                let decision = passage.pass(rule, asked)?;
                if let Some(notes) = &mut notes {
                    notes.steps.push(decided(rule, &decision));
                }
                dispatch::sent(plan, decision.onward, asked, passage)?;
            }
            BackendKind::Alb(alb) => {
                let members = &plan.pools[alb.pool.0 as usize].members;
                let [only] = members.as_slice() else {
                    let members = members.iter().map(|member| plan.backend(member.backend));
                    let names = members.clone().map(|backend| backend.name.to_string());
                    return Ok(Ended::Elsewhere(End::Pool {
                        backend: backend.name.to_string(),
                        mechanism: alb.mechanism.name(),
                        members: names.collect(),
                        ways: match notes {
                            Some(notes) => by_members(plan, asked, (passage, alb), members, notes),
                            None => Vec::new(),
                        },
                    }));
                };
                passage.hop(plan.backend(only.backend))?;
            }
        }
    }
}

/// The ways by the members of a pool, as far as there is room.
fn by_members<'v>(
    plan: &'v Plan,
    asked: &Asked<'_>,
    (passage, alb): (&Passage<'v>, &Alb),
    members: impl Iterator<Item = &'v Arc<Backend>>,
    notes: &mut Notes,
) -> Vec<Trace> {
    let mut ways = Vec::new();
    for member in members {
        if notes.room == 0 {
            break;
        }
        let mut below = Notes {
            steps: Vec::new(),
            room: notes.room - 1,
        };
        let (mut passage, entered) = match alb.mechanism {
            Mechanism::RoundRobin | Mechanism::UserRouter => {
                let mut same = passage.clone();
                let entered = same.hop(member);
                (same, entered)
            }
            Mechanism::TimeSeriesMerge
            | Mechanism::FirstResponse
            | Mechanism::FirstGoodResponse
            | Mechanism::NewestLastModified => (passage.fork(member), Ok(())),
        };
        let ended = entered.and_then(|()| follow(plan, asked, &mut passage, Some(&mut below)));
        let end = match ended {
            Ok(Ended::Origin(backend, origin)) => at_origin((backend, origin), asked, &passage),
            Ok(Ended::Elsewhere(end)) => end,
            Err(failure) => refused(&failure),
        };
        notes.room = below.room;
        ways.push(Trace {
            steps: below.steps,
            end,
            dropped: passage.dropped_rewrites(),
        });
    }
    ways
}

fn note(steps: &mut Vec<Step>, backend: &Backend, rule: &PathRule) {
    steps.push(Step::Backend {
        name: backend.name.to_string(),
        provider: backend.provider_label,
        path: rule.label.to_string(),
    });
    let rewriters = rule.rewriters.iter().flatten();
    steps.extend(rewriters.map(|rewriter| Step::Rewriter(rewriter.name.to_string())));
}

fn decided(rule: &Rule, decision: &Decision<'_>) -> Step {
    let of_cases = decision.rewrote.iter();
    let of_cases = of_cases.filter_map(|case| rule.cases[usize::from(*case)].rewriter.as_ref());
    let nomatch = rule.nomatch.as_ref().filter(|_| decision.case.is_none());
    let first = rule.ingress.iter().chain(of_cases);
    let names = first.chain(nomatch).chain(&rule.egress);
    Step::Rule {
        name: rule.name.to_string(),
        case: decision.case.map(|case| case.place),
        rewriters: names.map(|rewriter| rewriter.name.to_string()).collect(),
    }
}

fn at_origin(
    (backend, origin): (&Backend, &Origin),
    asked: &Asked<'_>,
    passage: &Passage<'_>,
) -> End {
    let (head, bytes) = match passage.draft() {
        Some(draft) => draft.text(),
        None => (asked.head, asked.bytes),
    };
    let path = passage.draft().map_or(asked.path, |draft| draft.path());
    let other = passage
        .authority()
        .and_then(|authority| replaced(origin, authority));
    let to = other.as_ref().unwrap_or(origin);
    let scheme = to.scheme.name();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut url = format!(
        "{scheme}://{}{}{}",
        to.authority,
        to.path_prefix,
        text(path)
    );
    if let Some(query) = passage.query(head.query(bytes)) {
        url.push('?');
        url.push_str(&text(&query));
    }
    let host = passage.host().unwrap_or(&to.authority);
    let keeps = passage.passes_authorization();
    let goes_on = |known: KnownHeader| match known {
        KnownHeader::Host => false,
        KnownHeader::Authorization => keeps,
        known => !known.is_hop_by_hop(),
    };
    let headers = head.headers(bytes);
    let headers = headers.filter(|header| !header.hop_by_hop && goes_on(header.known));
    let named = headers.map(|header| (text(header.name), text(header.value)));
    let others = match passage.credentials {
        Credentials::Replace(_) if !keeps => Some(("Authorization".to_owned(), "***".to_owned())),
        _ => None,
    };
    End::Origin {
        backend: backend.name.to_string(),
        method: text(head.method_text(bytes)),
        url,
        headers: std::iter::once(("Host".to_owned(), host.to_owned()))
            .chain(named)
            .chain(others)
            .collect(),
    }
}
