//! Request rewriters at work: what becomes of a request by a list of instructions.
//!
//! [`Request`] is a request as it was made, with the [`Changes`] of the rewriters it has met laid over it; an
//! instruction that finds nothing to do allocates nothing. [`Changes::render`] makes a head of it, which is parsed
//! as every other one is. Pure: no I/O, no clock. Promises: no text of a token is expanded twice; what cannot stand
//! where it was to go (CR, LF, NUL, a bad host, a path with dot segments, more than
//! [`REWRITTEN_BYTES_MAX`] bytes) stays out, and is counted. Contract: rewriters page.

mod authority;
mod header;
mod path;
mod query;
mod render;
mod text;

use std::borrow::Cow;
use std::rc::Rc;

use ringway_io::net::http1::Method;

use crate::limits::{REWRITES_MAX, REWRITTEN_BYTES_MAX};
use crate::passage::{Asked, Credentials};
use crate::plan::{Instruction, Rewriter, Template};
use crate::rule::Captures;

pub(crate) use authority::{Authority, PortChange};
pub(crate) use path::{decoded, sendable};
pub(crate) use query::first as first_param;
pub(crate) use render::Draft;
pub(crate) use text::{expand, expand_with, find};

/// What rewriters have changed of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    method: Option<Box<[u8]>>,
    /// As it is sent; begins with a slash.
    path: Option<Vec<u8>>,
    /// As it is sent; empty: none.
    query: Option<Vec<u8>>,
    /// All headers, once one of them is changed.
    headers: Option<Vec<Line>>,
    /// Names of those that were, here or in the head that was made before: of all others rules see what the client sent.
    changed_headers: Vec<Vec<u8>>,
    /// Where it goes, other than its origin says.
    pub(crate) authority: Authority,
    /// `Authorization` is a rewriter's.
    pub(crate) sets_authorization: bool,
}

/// What a request has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Instructions met.
    met: u32,
    /// Of these, such as would have made what cannot be sent.
    pub(crate) dropped: u32,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// More instructions than one request may meet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// What an instruction could not do.
#[derive(Debug, PartialEq, Eq)]
struct Dropped;

/// A request with the changes made so far.
pub(crate) struct Request<'a> {
    asked: &'a Asked<'a>,
    credentials: &'a Credentials,
    changes: &'a mut Option<Rc<Changes>>,
    work: &'a mut Work,
}

impl<'a> Request<'a> {
    /// As it was asked, with these changes.
    pub(crate) fn of(
        asked: &'a Asked<'a>,
        credentials: &'a Credentials,
        (changes, work): (&'a mut Option<Rc<Changes>>, &'a mut Work),
    ) -> Request<'a> {
        Request {
            asked,
            credentials,
            changes,
            work,
        }
    }

    /// Runs a rewriter. What it cannot do is left out.
    ///
    /// # Errors
    /// When the request has met too many instructions.
    pub(crate) fn run(
        &mut self,
        rewriter: &Rewriter,
        captures: Option<&Captures<'_>>,
    ) -> Result<(), TooMany> {
        for instruction in &rewriter.instructions {
            self.work.met += 1;
            if self.work.met > REWRITES_MAX {
                return Err(TooMany);
            }
            if self.apply(instruction, captures).is_err() {
                self.work.dropped += 1;
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        instruction: &Instruction,
        captures: Option<&Captures<'_>>,
    ) -> Result<(), Dropped> {
        use Instruction as I;
        let text = |template| text_of(template, captures);
        let path_text = |template| {
            let text = expand_with(template, |name| captures?.get_for_path(name));
            text.ok_or(Dropped)
        };
        let query_text = |template| {
            let text = expand_with(template, |name| captures?.get_for_query(name));
            text.ok_or(Dropped)
        };
        match instruction {
            I::HeaderSet { name, value } => self.set_header(name.as_bytes(), &text(value)?),
            I::HeaderAppend { name, value } => self.append_header(name.as_bytes(), &text(value)?),
            I::HeaderReplace { name, change } => {
                let (search, with) = (text(&change.search)?, text(&change.with)?);
                self.replace_in_header(&text(name)?, (&search, &with))
            }
            I::HeaderDelete { name, part } => {
                let part = part.as_ref().map(text).transpose()?;
                self.delete_header(&text(name)?, part.as_deref())
            }
            I::ParamSet { name, value } => self.set_param(name.as_bytes(), &text(value)?),
            I::ParamAppend { name, value } => self.append_param(name.as_bytes(), &text(value)?),
            I::ParamReplace { name, change } => {
                let (search, with) = (text(&change.search)?, text(&change.with)?);
                self.replace_in_param(&text(name)?, (&search, &with))
            }
            I::ParamDelete { name, value } => {
                let value = value.as_ref().map(text).transpose()?;
                self.delete_param(&text(name)?, value.as_deref())
            }
            I::ParamsSet(value) => self.set_query(&query_text(value)?),
            I::ParamsReplace(change) => {
                let (search, with) = (query_text(&change.search)?, query_text(&change.with)?);
                self.replace_in_query((&search, &with), change.count)
            }
            I::PathSet { value, depth } => self.set_path(&path_text(value)?, *depth),
            I::PathReplace { change, depth } => {
                let (search, with) = (path_text(&change.search)?, path_text(&change.with)?);
                self.replace_in_path((&search, &with), *depth)
            }
            I::MethodSet(value) => self.set_method(&text(value)?),
            _ => self.change_authority(instruction, captures),
        }
    }

    /// Something that was to be made of the request cannot be sent.
    pub(crate) fn note_dropped(&mut self) {
        self.work.dropped += 1;
    }

    fn set_method(&mut self, method: &[u8]) -> Result<(), Dropped> {
        let is_token = ringway_io::net::http1::write::is_valid_header_name(method);
        // The answer to HEAD has no body and the others have one: the client's own method counts there.
        let fits = |method| !matches!(method, Method::Head | Method::Connect);
        if !is_token || !fits(Method::classify(method)) || !fits(self.asked.head.method()) {
            return Err(Dropped);
        }
        if self.method_text() != method {
            self.changes().method = Some(method.into());
        }
        Ok(())
    }

    fn changes(&mut self) -> &mut Changes {
        Rc::make_mut(self.changes.get_or_insert_default())
    }

    fn changed(&self) -> Option<&Changes> {
        self.changes.as_deref()
    }
}

// === What rules look at ===

impl Request<'_> {
    /// The method's name.
    pub(crate) fn method_text(&self) -> &[u8] {
        let changed = self.changed().and_then(|changes| changes.method.as_deref());
        changed.unwrap_or_else(|| self.asked.head.method_text(self.asked.bytes))
    }

    /// The path as it is sent.
    pub(crate) fn path(&self) -> &[u8] {
        let changed = self.changed().and_then(|changes| changes.path.as_deref());
        changed.unwrap_or(self.asked.path)
    }

    /// The query as it is sent.
    pub(crate) fn query(&self) -> Option<&[u8]> {
        match self.changed().and_then(|changes| changes.query.as_deref()) {
            Some(query) => (!query.is_empty()).then_some(query),
            None => self.asked.query,
        }
    }

    /// The first value of a header, in any case: as a rewriter left it, else as the client sent it.
    pub(crate) fn header(&self, name: &[u8]) -> Option<&[u8]> {
        let is_it = |known: &Vec<u8>| known.eq_ignore_ascii_case(name);
        let changed = self.changed();
        let changed = changed.filter(|changes| changes.changed_headers.iter().any(is_it));
        match changed.map(|changes| changes.headers.as_ref()) {
            Some(Some(lines)) => lines
                .iter()
                .find(|line| line.name.eq_ignore_ascii_case(name))
                .map(|line| &line.value[..]),
            Some(None) => self.asked.head.find(self.asked.bytes, name),
            None => {
                let (head, bytes) = self.asked.received;
                head.find(bytes, name)
            }
        }
    }

    /// The name of its scheme.
    pub(crate) fn scheme(&self) -> &'static str {
        let changed = self.changed().and_then(|changes| changes.authority.scheme);
        changed.map_or(if self.asked.tls { "https" } else { "http" }, |scheme| {
            scheme.name()
        })
    }
}

impl Changes {
    /// The path, where it is changed.
    pub(crate) fn path(&self) -> Option<&[u8]> {
        self.path.as_deref()
    }

    /// The method, where it is changed.
    pub(crate) fn method(&self) -> Option<Method> {
        self.method.as_deref().map(Method::classify)
    }

    /// Gives it a path.
    pub(crate) fn set_path(&mut self, path: &[u8]) {
        self.path = Some(path.to_vec());
    }

    /// What is changed of the head has become one.
    pub(crate) fn rest_on_head(&mut self) {
        self.method = None;
        self.path = None;
        self.query = None;
        self.headers = None;
    }

    /// Whether the head is not as it came.
    fn changes_head(&self) -> bool {
        self.method.is_some()
            || self.path.is_some()
            || self.query.is_some()
            || self.headers.is_some()
    }
}

/// A text with its tokens expanded.
fn text_of<'t>(
    template: &'t Template,
    captures: Option<&Captures<'_>>,
) -> Result<Cow<'t, [u8]>, Dropped> {
    expand(template, captures).ok_or(Dropped)
}

/// Whether a text may be part of a head at all.
fn is_clean(text: &[u8]) -> bool {
    text.len() <= REWRITTEN_BYTES_MAX
        && !text
            .iter()
            .any(|byte| matches!(byte, b'\r' | b'\n' | b'\0'))
}
