//! The way of one request through backends: where it is, and what the rules it has passed make of it.
//!
//! `dispatch` moves a passage on, hop by hop; `headers` and `reply` read from it what to change. Each backend
//! finds its rule by the request's path and method ([`table`]); a rule that changes something joins the
//! passage. Changes to the request are made from the outermost hop inward, those to the answer from the
//! innermost outward. Contract: config page, 4; ALB page, 5 ("clone").
//!
//! On the usual way, where no rule changes anything, a passage allocates nothing.

mod amend;
pub(crate) mod form;
pub(crate) mod params;
mod rules;
mod table;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringway_io::net::http1::RequestHead;

use crate::authenticate::Identity;
use crate::limits::HOPS_MAX;
use crate::plan::{AuthenticatorId, Backend, Cors, Edit, EditAction, Edits, PathRule, Secret};
use crate::respond::Failure;
use crate::rewrite::{Changes, Draft, Work};
use table::Unfit;

pub(crate) use amend::refusal;

/// What of a request chooses its rules, and says who asks.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) head: &'a RequestHead,
    /// The bytes of `head`.
    pub(crate) bytes: &'a [u8],
    /// The path as backends see it: without what the route used up, and where a merge asks for a part of a query, the
    /// path of that.
    pub(crate) path: &'a [u8],
    /// The query, likewise.
    pub(crate) query: Option<&'a [u8]>,
    /// The client came over TLS.
    pub(crate) tls: bool,
    /// The head as the client sent it, where `head` is one that rewriters have made: who asks is read from it.
    pub(crate) received: (&'a RequestHead, &'a [u8]),
}

impl<'a> Asked<'a> {
    /// What a client asks.
    pub(crate) fn of(
        (head, bytes): (&'a RequestHead, &'a [u8]),
        path: &'a [u8],
        tls: bool,
    ) -> Self {
        Asked {
            head,
            bytes,
            path,
            query: head.query(bytes),
            tls,
            received: (head, bytes),
        }
    }
}

/// A path without the bytes that the route used up; never empty.
pub(crate) fn path_below(path: &[u8], strip: usize) -> &[u8] {
    match &path[strip..] {
        b"" => b"/",
        rest => rest,
    }
}

/// Where a request is on its way, and what is to be changed.
#[derive(Clone, Debug)]
pub(crate) struct Passage<'v> {
    first: &'v Arc<Backend>,
    at: &'v Arc<Backend>,
    /// Rules that change something, outermost first.
    edits: Vec<&'v Edits>,
    /// The first so many of them belong to hops in front of a fan-out: what they change of answers, they change
    /// of the common one.
    in_front: usize,
    /// Index of the first backend's rule.
    entry: Option<usize>,
    /// Virtual backends passed.
    hops: usize,
    /// Cross-origin headers: those of the outermost rule that has a block.
    cors: Option<&'v Cors>,
    /// The pause that was made at the first backend.
    pub(crate) latency: Option<Duration>,
    /// Itself at the last hop that is settled whoever fails behind it; `None`: nothing is settled.
    settled: Option<Rc<Passage<'v>>>,
    /// The rule of `at`, while its authenticator has not judged.
    pending: Option<&'v PathRule>,
    /// What becomes of the client's `Authorization`.
    pub(crate) credentials: Credentials,
    /// Changes of headers and parameters that an authenticator or a user router wants, made before any rule's.
    pub(crate) amends: Option<Rc<Amends>>,
    /// Who asks, as far as it is known.
    pub(crate) identity: Option<Rc<Identity>>,
    /// What rewriters have changed since `draft`, and who is asked instead of the origin.
    changes: Option<Rc<Changes>>,
    /// The request as rewriters have made it; `None`: as it came.
    draft: Option<Rc<Draft>>,
    /// What rewriters have done.
    work: Work,
    /// Rules passed.
    rules: rules::Passed,
}

/// What becomes of the client's `Authorization` header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// It passes.
    #[default]
    Keep,
    /// It stays here.
    Remove,
    /// It passes with this value.
    Replace(Secret),
}

/// Changes to a request that no rule has asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Amends {
    pub(crate) headers: Vec<Edit>,
    pub(crate) params: Vec<Edit>,
}

/// Where another try of a request begins. Made into a passage only when there is one.
#[derive(Clone, Copy)]
pub(crate) struct Start<'p, 'v> {
    way: &'p Passage<'v>,
    /// `None`: at the first backend.
    at: Option<&'p Passage<'v>>,
}

impl<'v> Start<'_, 'v> {
    /// The backend that chooses anew.
    pub(crate) fn backend(&self) -> &'v Arc<Backend> {
        self.at.map_or(self.way.first, |start| start.at)
    }

    /// The request as it was there.
    pub(crate) fn passage(&self) -> Passage<'v> {
        match self.at {
            Some(start) => start.clone(),
            None => Passage {
                latency: self.way.latency,
                ..Passage::at(self.way.first)
            },
        }
    }
}

/// What a backend wants of a request that has come to it.
pub(crate) enum Entered<'v> {
    /// This rule takes it.
    Rule(&'v PathRule),
    /// The authenticator must judge first; entering again goes on behind that.
    Asks(AuthenticatorId),
}

impl<'v> Passage<'v> {
    /// A request that has come to its first backend.
    pub(crate) fn at(backend: &'v Arc<Backend>) -> Passage<'v> {
        Passage {
            first: backend,
            at: backend,
            edits: Vec::new(),
            in_front: 0,
            entry: None,
            hops: 0,
            cors: None,
            latency: None,
            settled: None,
            pending: None,
            credentials: Credentials::Keep,
            amends: None,
            identity: None,
            changes: None,
            draft: None,
            work: Work::default(),
            rules: rules::Passed::default(),
        }
    }

    /// The same request on its way to a member of the backend it has come to.
    pub(crate) fn towards(&self, member: &'v Arc<Backend>) -> Passage<'v> {
        let mut passage = self.clone();
        passage.at = member;
        passage.hops += 1;
        // What was settled lies in front of whoever chose this member.
        passage.settled = None;
        passage.rules.start_anew();
        passage
    }

    /// As [`Passage::towards`], to one of several members whose answers are made into one.
    pub(crate) fn fork(&self, member: &'v Arc<Backend>) -> Passage<'v> {
        let mut passage = self.towards(member);
        passage.in_front = passage.edits.len();
        passage
    }

    /// The backend it has come to.
    pub(crate) fn backend(&self) -> &'v Arc<Backend> {
        self.at
    }

    /// Index of the first backend's rule, if it has one for this request.
    pub(crate) fn entry(&self) -> Option<usize> {
        self.entry
    }

    /// Goes on to a member.
    pub(crate) fn hop(&mut self, member: &'v Arc<Backend>) -> Result<(), Failure> {
        self.at = member;
        self.hops += 1;
        self.took_turn();
        self.within_bound()
    }

    /// Who answers is chosen up to here: another try of the request begins here too.
    pub(crate) fn settle(&mut self) {
        self.settled = None;
        self.rules.start_anew();
        self.settled = Some(Rc::new(self.clone()));
    }

    /// Where another try begins, of a request that began at `start`; `None`: at the first backend.
    pub(crate) fn restart<'p>(&'p self, start: Option<&'p Passage<'v>>) -> Start<'p, 'v> {
        Start {
            way: self,
            at: self.settled.as_deref().or(start),
        }
    }

    fn within_bound(&self) -> Result<(), Failure> {
        if self.hops >= HOPS_MAX {
            return Err(Failure::TooManyHops { hops_max: HOPS_MAX });
        }
        Ok(())
    }

    /// Finds the rule of the backend it has come to.
    pub(crate) fn enter(&mut self, asked: &Asked<'_>) -> Result<Entered<'v>, Failure> {
        self.within_bound()?;
        let rule = match self.pending.take() {
            Some(rule) => rule,
            None => {
                let rule = self.find(asked)?;
                if let Some(authenticator) = rule.authenticator {
                    self.pending = Some(rule);
                    return Ok(Entered::Asks(authenticator));
                }
                rule
            }
        };
        if let Some(edits) = &rule.edits {
            self.edits.push(edits);
        }
        if let Some(rewriters) = &rule.rewriters {
            self.rewrite(asked, rewriters)?;
        }
        if matches!(self.cors, None | Some(Cors::Legacy)) {
            self.cors = Some(&rule.cors);
        }
        Ok(Entered::Rule(rule))
    }

    fn find(&mut self, asked: &Asked<'_>) -> Result<&'v PathRule, Failure> {
        let table = &self.at.paths;
        let found = table::find(table, self.method(asked), self.path(asked));
        if self.hops == 0 && self.rules.is_none() {
            self.entry = match &found {
                Ok(index) | Err(Unfit::Method { index, .. }) => Some(*index),
                Err(Unfit::Path | Unfit::Ambiguous) => None,
            };
        }
        match found {
            Ok(index) => Ok(&table[index]),
            Err(Unfit::Method { allowed, .. }) => Err(Failure::Method { allowed }),
            Err(Unfit::Path) => Err(Failure::NoPath),
            Err(Unfit::Ambiguous) => Err(Failure::Roundabout),
        }
    }
}

// === What it changes of the request ===

impl<'v> Passage<'v> {
    /// Nobody on the way changes headers or parameters; credentials are another matter.
    pub(crate) fn is_plain(&self) -> bool {
        self.edits.is_empty() && self.amends.is_none()
    }

    /// Changes of request headers, in the order they are made.
    pub(crate) fn request_headers(&self) -> impl Iterator<Item = &Edit> {
        let amends = self.amends.iter().flat_map(|amends| &amends.headers);
        amends.chain(self.edits.iter().flat_map(|edits| &edits.request_headers))
    }

    /// The `Host` that the last of its rules wants.
    pub(crate) fn host(&self) -> Option<&'v str> {
        if self.is_plain() {
            return None;
        }
        let edits = self.edits.iter().rev();
        let edits = edits.flat_map(|edits| edits.request_headers.iter().rev());
        edits
            .filter(|edit| edit.name.eq_ignore_ascii_case("host"))
            .find_map(|edit| match &edit.action {
                EditAction::Set(value) => Some(&**value),
                EditAction::Append(_) | EditAction::Remove => None,
            })
    }

    /// The query with all changes made.
    pub(crate) fn query<'q>(&self, query: Option<&'q [u8]>) -> Option<Cow<'q, [u8]>> {
        if self.is_plain() || self.request_params().next().is_none() {
            return query.map(Cow::Borrowed);
        }
        let rewritten = params::rewrite(query.unwrap_or_default(), self.request_params());
        (!rewritten.is_empty()).then_some(Cow::Owned(rewritten))
    }

    /// Changes of parameters, in the order they are made.
    pub(crate) fn request_params(&self) -> impl Iterator<Item = &Edit> {
        let amends = self.amends.iter().flat_map(|amends| &amends.params);
        amends.chain(self.edits.iter().flat_map(|edits| &edits.request_params))
    }

    /// As [`Passage::request_params`], without those of the first `done` rules, and of whoever stood before any rule,
    /// where they are made already.
    pub(crate) fn params_beyond(&self, done: Option<usize>) -> impl Iterator<Item = &Edit> {
        let amends = self.amends.iter().filter(move |_| done.is_none());
        let amends = amends.flat_map(|amends| &amends.params);
        let edits = &self.edits[done.unwrap_or(0)..];
        amends.chain(edits.iter().flat_map(|edits| &edits.request_params))
    }

    /// Changes of the parameters of a form, without those of the first `done` rules. What an authenticator or a user
    /// router changes it has found in the query; a body may only be said to be a form, as what clients such as curl
    /// send by default is.
    pub(crate) fn form_params(&self, done: usize) -> impl Iterator<Item = &Edit> {
        let edits = &self.edits[done..];
        edits.iter().flat_map(|edits| &edits.request_params)
    }

    /// How many of its rules change something.
    pub(crate) fn changes(&self) -> usize {
        self.edits.len()
    }

    /// As [`Passage::request_params`], without those made in front of the fan-out.
    pub(crate) fn member_params(&self) -> impl Iterator<Item = &Edit> {
        let own = &self.edits[self.in_front..];
        own.iter().flat_map(|edits| &edits.request_params)
    }
}

// === What it changes of the answer ===

impl<'v> Passage<'v> {
    /// For an answer that goes to the client as it is.
    pub(crate) fn front(&self) -> Front<'_> {
        Front {
            first: None,
            edits: &self.edits,
            cors: self.cors,
            latency: self.latency,
            compressible_types: &self.first.compressible_types,
        }
    }

    /// Counts what has joined it since `outer` as the member's own.
    #[must_use]
    pub(crate) fn behind(mut self, outer: &Passage<'_>) -> Passage<'v> {
        self.in_front = outer.edits.len();
        self
    }

    /// For an answer that goes into a fan-out.
    pub(crate) fn member_front(&self) -> Front<'_> {
        Front {
            first: None,
            edits: &self.edits[self.in_front..],
            ..Front::default()
        }
    }
}

/// What becomes of an answer on its way to the client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Front<'a> {
    /// Changes of the outermost rule, where it stands alone.
    pub(crate) first: Option<&'a Edits>,
    /// Changes of all rules, outermost first.
    pub(crate) edits: &'a [&'a Edits],
    /// Cross-origin headers; `None`: no rule has taken the request.
    pub(crate) cors: Option<&'a Cors>,
    /// Simulated latency that it has met.
    pub(crate) latency: Option<Duration>,
    /// Content types that are compressed.
    pub(crate) compressible_types: &'a [Box<str>],
}

impl<'a> Front<'a> {
    /// For an answer of ringway's own to a request that came to this rule.
    pub(crate) fn of(rule: &'a PathRule) -> Front<'a> {
        Front {
            first: rule.edits.as_deref(),
            cors: Some(&rule.cors),
            ..Front::default()
        }
    }

    fn outermost_first(&self) -> impl DoubleEndedIterator<Item = &'a Edits> + use<'a> {
        let edits: &'a [&'a Edits] = self.edits;
        self.first.into_iter().chain(edits.iter().copied())
    }

    /// No rule changes anything.
    pub(crate) fn is_plain(&self) -> bool {
        self.first.is_none() && self.edits.is_empty()
    }

    /// Whether it changes headers.
    pub(crate) fn changes_headers(&self) -> bool {
        !self.is_plain() && self.headers().next().is_some()
    }

    /// The status to send for this one.
    pub(crate) fn status(&self, status: u16) -> u16 {
        if self.is_plain() {
            return status;
        }
        let mut codes = self
            .outermost_first()
            .filter_map(|edits| edits.response_code);
        codes.find(|code| *code >= 200).unwrap_or(status)
    }

    /// The body to send in place of any other.
    pub(crate) fn body(&self) -> Option<&'a [u8]> {
        self.outermost_first()
            .find_map(|edits| edits.response_body.as_deref())
    }

    /// Changes of answer headers, in the order they are made.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &'a Edit> + use<'a> {
        let inward = self.outermost_first().rev();
        inward.flat_map(|edits| &edits.response_headers)
    }
}

#[cfg(test)]
pub(crate) mod tests;
