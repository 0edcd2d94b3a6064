//! One request to one origin: a connection, the request on it, and the head of the answer.
//!
//! What remains of a long request goes out beside the answer, since an origin may answer before it has read all.
//! Promises: what is sent again was never answered by a byte, may be repeated and went out on a reused connection.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use ringway_io::net::http1::{Method, Parsed};
use ringway_io::net::stream::Writer;
use ringway_io::task::within;
use ringway_merge::MemberFailure;

use crate::elsewhere::Elsewhere;
use crate::limits::{INTERIM_MAX, RELAY_BYTES, head_limits};
use crate::metrics::Count;
use crate::peers::Peer;
use crate::plan::{BackendId, Origin};
use crate::shard::{Shard, View};

/// A request body in pieces that all members share.
pub(crate) type Body = Rc<[Rc<Vec<u8>>]>;

/// One request to one origin, as it goes out.
pub(crate) struct Ask<'a> {
    pub(crate) shard: &'a Rc<Shard>,
    pub(crate) view: &'a Rc<View>,
    pub(crate) backend: BackendId,
    pub(crate) origin: &'a Origin,
    /// Where it goes instead.
    pub(crate) elsewhere: Option<Rc<Elsewhere>>,
    pub(crate) method: Method,
    /// Head, and the body behind it where that is short.
    pub(crate) request: Vec<u8>,
    /// The body where it is long.
    pub(crate) rest: Option<Body>,
    /// Asking twice does no harm.
    pub(crate) repeatable: bool,
}

/// An answer whose head has come, still on its connection. Dropping it closes that.
pub(crate) struct Opened {
    pub(crate) peer: Box<Peer>,
    /// Bytes of the head, at the front of the peer's inbox.
    pub(crate) head_len: usize,
    pub(crate) sending: Sending,
    pub(crate) shard: Rc<Shard>,
    pub(crate) view: Rc<View>,
    pub(crate) backend: BackendId,
    method: Method,
    started: Instant,
    /// Limit of the whole exchange.
    limit: Duration,
}

/// Sends the request and waits for the head of the answer. `limit` is that of the whole exchange.
pub(crate) async fn open(ask: Ask<'_>, limit: Duration) -> Result<Opened, MemberFailure> {
    let (shard, view, backend, method) = (ask.shard, ask.view, ask.backend, ask.method);
    let started = Instant::now();
    let mut waiting = Waiting {
        shard,
        view,
        backend,
        seen: (method, 0, started),
        is_over: false,
    };
    // Pinned here and below, so that no future is held once more by the one around it.
    let mut work = pin!(exchange(ask, started, limit));
    let opened = within(limit, work.as_mut()).await;
    waiting.is_over = true;
    let opened = opened.unwrap_or(Err(MemberFailure::TimedOut));
    if let Err(failure) = &opened {
        note(shard, view, backend, waiting.seen, Some(failure));
    }
    opened
}

/// An answer that is waited for. When the wait is cut off, its end tells why: a loser that is cancelled, or a client
/// that leaves, says nothing of the origin, and an ALB's deadline does.
struct Waiting<'a> {
    shard: &'a Shard,
    view: &'a View,
    backend: BackendId,
    seen: (Method, u16, Instant),
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over && self.shard.is_expiring() {
            let late = Some(&MemberFailure::TimedOut);
            note(self.shard, self.view, self.backend, self.seen, late);
        }
    }
}

/// Counts an exchange that has ended, and tells the control core how the origin does.
fn note(
    shard: &Shard,
    view: &View,
    backend: BackendId,
    (method, status, started): (Method, u16, Instant),
    failure: Option<&MemberFailure>,
) {
    let cells = view.active.cells(backend);
    cells.count_upstream(method, status, started.elapsed());
    match failure {
        None => shard.note_reach(cells, false),
        Some(MemberFailure::Unreachable | MemberFailure::TimedOut | MemberFailure::Short) => {
            shard.note_reach(cells, true);
        }
        Some(_) => {}
    }
    // That the fan-out's budget is spent says nothing of this origin.
    let of_origin = failure.filter(|failure| **failure != MemberFailure::AggregateCap);
    let text = of_origin.map(ToString::to_string);
    let backend = view.active.plan.backend(backend);
    shard.note_origin(backend, cells, text.as_deref());
}

async fn exchange(
    mut ask: Ask<'_>,
    started: Instant,
    limit: Duration,
) -> Result<Opened, MemberFailure> {
    let elsewhere = ask.elsewhere.take();
    let own = &ask.view.table.backend(ask.backend).addresses;
    let (origin, peers, addresses) = match elsewhere.as_deref() {
        Some(other) => (&other.origin, &other.peers, &*other.addresses),
        None => (ask.origin, ask.view.active.peers(ask.backend), &**own),
    };
    let acquired = peers.acquire(origin, addresses).await;
    let mut peer = acquired.map_err(|_| MemberFailure::Unreachable)?;
    let mut result = attempt(&mut ask, &mut peer).await;
    if matches!(result, Err(Broken::Unanswered)) && peer.reused && ask.repeatable {
        drop(peer);
        ask.view.active.cells(ask.backend).resends.bump();
        let acquired = peers.acquire_fresh(origin, addresses).await;
        peer = acquired.map_err(|_| MemberFailure::Unreachable)?;
        result = attempt(&mut ask, &mut peer).await;
    }
    let (head_len, sending) = result.map_err(|broken| match broken {
        Broken::Unanswered => MemberFailure::Unreachable,
        Broken::Failed(failure) => failure,
    })?;
    Ok(Opened {
        peer,
        head_len,
        sending,
        shard: ask.shard.clone(),
        view: ask.view.clone(),
        backend: ask.backend,
        method: ask.method,
        started,
        limit,
    })
}

enum Broken {
    /// The connection ended before one byte of an answer.
    Unanswered,
    Failed(MemberFailure),
}

impl From<MemberFailure> for Broken {
    fn from(failure: MemberFailure) -> Broken {
        Broken::Failed(failure)
    }
}

async fn attempt(ask: &mut Ask<'_>, peer: &mut Peer) -> Result<(usize, Sending), Broken> {
    let request = std::mem::take(&mut ask.request);
    let (sent, request) = peer.conn.writer.write_all(request).await;
    ask.request = request;
    let mut sending = match (&ask.rest, sent) {
        // The origin may have answered before it closed.
        (_, Err(_)) => Sending::Broken,
        (Some(rest), Ok(())) => Sending::begin(peer, rest.clone()),
        (None, Ok(())) => Sending::Done,
    };
    let mut reading = pin!(read_head(ask.method, peer));
    let head_len = sending.beside(reading.as_mut()).await?;
    Ok((head_len, sending))
}

async fn read_head(method: Method, peer: &mut Peer) -> Result<usize, Broken> {
    let limits = head_limits();
    let malformed = MemberFailure::Malformed {
        at: 0,
        problem: "not an HTTP answer",
    };
    let mut interims = 0;
    loop {
        if !peer.inbox.is_empty() {
            match peer.head.parse(peer.inbox.bytes(), method, &limits) {
                Ok(Parsed::Complete(len)) if peer.head.is_informational() => {
                    peer.inbox.consume(len);
                    interims += 1;
                    if interims > INTERIM_MAX {
                        return Err(malformed.into());
                    }
                    continue;
                }
                // Members are never offered another protocol.
                Ok(Parsed::Complete(_)) if peer.head.is_switching_protocols() => {
                    return Err(malformed.into());
                }
                Ok(Parsed::Complete(len)) => return Ok(len),
                Ok(Parsed::Partial) => {}
                Err(_) => return Err(malformed.into()),
            }
        }
        match peer
            .inbox
            .fill(&mut peer.conn.reader, RELAY_BYTES / 4)
            .await
        {
            Ok(1..) => {}
            Ok(0) | Err(_) if peer.inbox.is_empty() && interims == 0 => {
                return Err(Broken::Unanswered);
            }
            Ok(0) | Err(_) => return Err(MemberFailure::Short.into()),
        }
    }
}

/// The rest of a request, on its way.
pub(crate) enum Sending {
    /// All was sent.
    Done,
    /// Being sent, with the connection's writer.
    Out(Pin<Box<dyn Future<Output = Option<Writer>>>>),
    /// All was sent; the writer is to be put back.
    Returned(Writer),
    /// The origin stopped reading.
    Broken,
}

impl Sending {
    fn begin(peer: &mut Peer, rest: Body) -> Sending {
        let mut writer = std::mem::replace(&mut peer.conn.writer, Writer::absent());
        Sending::Out(Box::pin(async move {
            for piece in rest.iter() {
                writer.write_shared(piece.clone()).await.ok()?;
            }
            Some(writer)
        }))
    }

    /// Runs `work`, and sends meanwhile.
    pub(crate) async fn beside<F: Future>(&mut self, mut work: Pin<&mut F>) -> F::Output {
        poll_fn(|cx| {
            if let Sending::Out(rest) = self
                && let Poll::Ready(writer) = rest.as_mut().poll(cx)
            {
                *self = writer.map_or(Sending::Broken, Sending::Returned);
            }
            work.as_mut().poll(cx)
        })
        .await
    }
}

impl Opened {
    /// What is left of the exchange's time.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed())
    }

    /// Ends the exchange after so long at the latest.
    pub(crate) fn end_within(&mut self, left: Duration) {
        let limit = self.started.elapsed().saturating_add(left);
        self.limit = self.limit.min(limit);
    }

    /// Counts the exchange, whose answer is wholly here or has failed.
    pub(crate) fn ended(&self, failure: Option<&MemberFailure>) {
        let status = match failure {
            None => self.peer.head.status(),
            Some(_) => 0,
        };
        let seen = (self.method, status, self.started);
        note(&self.shard, &self.view, self.backend, seen, failure);
    }

    /// Keeps the connection for another exchange when both sides of this one have ended. `clean` says so of the
    /// answer.
    pub(crate) fn give_back(mut self, clean: bool) {
        let sent = match self.sending {
            Sending::Done => true,
            Sending::Returned(writer) => {
                self.peer.conn.writer = writer;
                true
            }
            Sending::Out(_) | Sending::Broken => false,
        };
        if clean && sent && self.peer.inbox.is_empty() {
            self.peer.give_back();
        }
    }
}
