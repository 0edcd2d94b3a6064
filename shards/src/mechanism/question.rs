//! What a fan-out asks of each member: one request, made for each origin from the same parts.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringway_io::net::http1::{BodyFraming, KnownHeader, Method, RequestHead};

use super::round::Lost;
use crate::capture::Segments;
use crate::elsewhere;
use crate::exchange::{self, Task};
use crate::fanout::{Ask, Body};
use crate::headers::{self, Hop, Outgoing, Remade};
use crate::limits::HOPS_MAX;
use crate::passage::{Asked, Passage, form, params};
use crate::plan::{Backend, Origin};
use crate::respond::Failure;
use crate::rewrite::Draft;
use crate::serve::Client;

/// A body up to this size leaves in one write with its head, at the price of a copy for each member.
const JOINED_BYTES_MAX: usize = 16 * 1024;

/// A request body that all members get.
pub(crate) struct RequestBody {
    pieces: Body,
    len: u64,
    framing: BodyFraming,
}

impl RequestBody {
    /// The body of a request that a client framed so.
    pub(super) fn of(framing: BodyFraming, body: Segments) -> RequestBody {
        let len = body.len();
        RequestBody {
            pieces: body.into_pieces().into_iter().map(Rc::new).collect(),
            len,
            framing: match framing {
                BodyFraming::None => BodyFraming::None,
                // It is whole, so its length is known, whatever the client knew.
                _ => BodyFraming::Length(len),
            },
        }
    }

    /// No body.
    pub(super) fn none() -> RequestBody {
        RequestBody::of(BodyFraming::None, Segments::default())
    }

    /// All of it in one.
    pub(super) fn to_one(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(usize::try_from(self.len).unwrap_or(0));
        for piece in self.pieces.iter() {
            whole.extend_from_slice(piece);
        }
        whole
    }

    /// There is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// One request, as every member is asked it.
#[derive(Clone)]
pub(crate) struct Question<'a, 'v> {
    pub(super) task: &'a Task<'v>,
    /// The client's head.
    pub(super) head: (&'a RequestHead, &'a [u8]),
    pub(super) hop: Hop<'a>,
    /// How the request came to who fans it out.
    pub(super) passage: Rc<Passage<'v>>,
    /// How many of its rules have changed `query` and `body` already; `None`: nobody has.
    pub(super) params_done: Option<usize>,
    pub(super) method: Method,
    pub(super) method_text: &'a [u8],
    /// Path behind the route's prefix.
    pub(super) path: &'a [u8],
    pub(super) query: Option<&'a [u8]>,
    pub(super) body: &'a RequestBody,
    /// Set where the request is not as the client sent it.
    pub(super) remade: Option<Remade<'a>>,
    /// Asking one member twice does no harm.
    pub(super) repeatable: bool,
    /// When the client asked, since the epoch: one moment for all members.
    pub(super) now: Duration,
    /// Fan-outs passed on the way here.
    pub(super) hops: usize,
}

impl<'a, 'v> Question<'a, 'v> {
    /// The client's request; its body was read.
    pub(super) fn as_it_came(
        task: &'a Task<'v>,
        client: &'a Client,
        body: &'a RequestBody,
    ) -> Question<'a, 'v> {
        let asked = task.asked(client);
        let (head, bytes) = (asked.head, asked.bytes);
        Question {
            task,
            head: (head, bytes),
            hop: exchange::hop(task, client),
            passage: Rc::new(task.passage.clone()),
            params_done: None,
            method: head.method(),
            method_text: head.method_text(bytes),
            path: asked.path,
            query: asked.query,
            body,
            remade: None,
            repeatable: head.method().is_idempotent(),
            now: now(),
            hops: 0,
        }
    }

    /// The client's request, to find the way of.
    pub(super) fn asked(&self) -> Asked<'a> {
        Asked {
            received: self.hop.received,
            query: self.query,
            ..Asked::of(self.head, self.path, self.hop.client_tls)
        }
    }

    /// The same, as rewriters on the way to a member have made it.
    pub(super) fn through<'q>(self, draft: Option<&'q Draft>) -> Question<'q, 'v>
    where
        'a: 'q,
    {
        let question: Question<'q, 'v> = self;
        let Some(draft) = draft else {
            return question;
        };
        Question {
            head: draft.text(),
            method: draft.head.method(),
            method_text: draft.head.method_text(&draft.bytes),
            path: draft.path(),
            query: draft.head.query(&draft.bytes),
            repeatable: draft.head.method().is_idempotent(),
            ..question
        }
    }

    /// The same, one fan-out further down, to which the request has come so.
    pub(super) fn deeper(self, passage: Passage<'v>) -> Result<Question<'a, 'v>, Lost> {
        if self.hops == HOPS_MAX {
            return Err(Failure::TooManyHops { hops_max: HOPS_MAX }.into());
        }
        Ok(Question {
            hops: self.hops + 1,
            passage: Rc::new(passage),
            ..self
        })
    }

    /// What the body is, as the members are told.
    pub(super) fn content_type(&self) -> &'a [u8] {
        let (head, bytes) = self.head;
        let remade = self.remade.and_then(|remade| remade.content_type);
        remade
            .or_else(|| head.first(bytes, KnownHeader::ContentType))
            .unwrap_or_default()
    }

    /// The form as this member gets it; `None` where it gets the body as it came.
    pub(super) async fn form_for(&self, passage: &Passage<'_>) -> Option<RequestBody> {
        let done = self.params_done.unwrap_or(0);
        passage.form_params(done).next()?;
        let (head, bytes) = self.head;
        let coding = head.first(bytes, KnownHeader::ContentEncoding);
        if self.body.is_empty() || !form::is_form(self.content_type()) || coding.is_some() {
            return None;
        }
        let turns = &self.task.shard.turns;
        let pieces: Vec<&[u8]> = self.body.pieces.iter().map(|piece| &piece[..]).collect();
        let edited = form::edit(&pieces, passage.form_params(done), turns).await;
        Some(RequestBody::of(self.body.framing, edited))
    }

    /// The request as this origin gets it, with this body. An upgrade is not offered, and nobody waits for `100 Continue`: the
    /// body is here.
    pub(super) async fn of_origin(
        &self,
        (backend, origin): (&Backend, &'a Origin),
        passage: &Passage<'_>,
        body: &RequestBody,
    ) -> Result<Ask<'a>, Failure> {
        let (shard, view) = (self.task.shard, self.task.view);
        let elsewhere = elsewhere::of((shard, view), (backend, origin), passage).await?;
        let query = match passage.params_beyond(self.params_done).next() {
            None => self.query.map(Cow::Borrowed),
            Some(_) => {
                let edits = passage.params_beyond(self.params_done);
                let query = params::rewrite(self.query.unwrap_or_default(), edits);
                (!query.is_empty()).then_some(Cow::Owned(query))
            }
        };
        let is_short = body.len <= JOINED_BYTES_MAX as u64;
        let mut request = Vec::with_capacity(2 * 1024);
        let asks = Outgoing {
            method: self.method_text,
            path: self.path,
            query: query.as_deref(),
            framing: body.framing,
            upgrade: false,
            expect_continue: false,
            remade: self.remade,
            passage,
        };
        let to = elsewhere.as_deref().map_or(origin, |other| &other.origin);
        headers::request(&mut request, self.head, to, &self.hop, &asks);
        if is_short {
            for piece in body.pieces.iter() {
                request.extend_from_slice(piece);
            }
        }
        Ok(Ask {
            shard,
            view,
            backend: backend.id,
            origin,
            elsewhere,
            method: self.method,
            request,
            rest: (!is_short).then(|| body.pieces.clone()),
            repeatable: self.repeatable,
        })
    }
}

/// The time since the epoch.
pub(super) fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
