//! Asking many members at once: one future per member, all inside the client's task.
//!
//! Dropping a [`Fanout`] cancels everyone still out, which closes their connections. A member that panics, is
//! late or breaks a bound fails alone.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use ringway_io::net::http1::{
    BodyDecoder, BodyFraming, KnownHeader, Method, Parsed, ResponseHead, TrailerLimits,
};
use ringway_io::task::within;
use ringway_merge::MemberFailure;

use crate::capture::{Budget, CAPTURE_YIELD_BYTES, Capture};
use crate::guard::guard;
use crate::limits::{INTERIM_MAX, RELAY_BYTES, head_limits};
use crate::metrics::Count;
use crate::peers::Peer;
use crate::plan::{Backend, Origin};
use crate::shard::{Shard, View};

/// A member's whole answer.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) status: u16,
    /// End-to-end header lines, each with its line end; framing and coding are left out.
    pub(crate) headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Body, content coding undone.
    pub(crate) body: Vec<u8>,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Members being asked. `T` is what each comes back with.
pub(crate) struct Fanout<'a, T> {
    members: Vec<Option<Answer<'a, T>>>,
    at_once: usize,
}

impl<'a, T> Fanout<'a, T> {
    /// Asks these, at most `at_once` at a time, in order.
    pub(crate) fn new(members: Vec<Answer<'a, T>>, at_once: usize) -> Fanout<'a, T> {
        Fanout {
            members: members.into_iter().map(Some).collect(),
            at_once: at_once.max(1),
        }
    }

    /// Waits for the next to come back; `None` when nobody is out.
    pub(crate) async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| {
            let mut out = 0;
            for slot in &mut self.members {
                let Some(member) = slot else { continue };
                if let Poll::Ready(answer) = member.as_mut().poll(cx) {
                    *slot = None;
                    return Poll::Ready(Some(answer));
                }
                out += 1;
                if out == self.at_once {
                    break;
                }
            }
            if out == 0 {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Takes one that has come back already, and lets the others move on.
    pub(crate) async fn ready(&mut self) -> Option<T> {
        let mut next = std::pin::pin!(self.next());
        poll_fn(|cx| match next.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}

/// One request to one origin, as it goes out.
pub(crate) struct Ask<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) view: &'a View,
    pub(crate) backend: &'a Backend,
    pub(crate) origin: &'a Origin,
    pub(crate) method: Method,
    /// Head and body.
    pub(crate) request: Vec<u8>,
    /// Most bytes of the answer's body.
    pub(crate) bytes_max: u64,
    pub(crate) budget: Budget,
    /// Limit of the whole exchange.
    pub(crate) limit: Duration,
}

/// Sends the request and captures the answer.
pub(crate) async fn fetch(mut ask: Ask<'_>) -> Result<Fetched, MemberFailure> {
    if ask.budget.is_spent() {
        return Err(MemberFailure::AggregateCap);
    }
    let cells = ask.view.active.cells(ask.backend.id).clone();
    let started = std::time::Instant::now();
    let (method, limit) = (ask.method, ask.limit);
    let result = match guard(pin!(within(limit, exchange(&mut ask)))).await {
        Ok(Some(result)) => result,
        Ok(None) => Err(MemberFailure::TimedOut),
        Err(_) => Err(MemberFailure::Internal),
    };
    let status = result.as_ref().map_or(0, |fetched| fetched.status);
    cells.count_upstream(method, status, started.elapsed());
    let failure = result.as_ref().err().map(ToString::to_string);
    ask.shard
        .note_origin(ask.backend, &cells, failure.as_deref());
    match &result {
        Ok(_) => ask.shard.note_reach(&cells, false),
        Err(MemberFailure::Unreachable | MemberFailure::TimedOut | MemberFailure::Short) => {
            ask.shard.note_reach(&cells, true);
        }
        Err(_) => {}
    }
    result
}

async fn exchange(ask: &mut Ask<'_>) -> Result<Fetched, MemberFailure> {
    let addresses = &ask.view.table.backend(ask.backend.id).addresses;
    let peers = ask.view.active.peers(ask.backend.id);
    let acquired = peers.acquire(ask.origin, addresses).await;
    let mut peer = acquired.map_err(|_| MemberFailure::Unreachable)?;
    let mut result = attempt(ask, &mut peer).await;
    // What is fanned out only reads, whatever its method, so it may be sent again.
    if matches!(result, Err(Broken::Unanswered)) && peer.reused {
        drop(peer);
        ask.view.active.cells(ask.backend.id).resends.bump();
        let acquired = peers.acquire_fresh(ask.origin, addresses).await;
        peer = acquired.map_err(|_| MemberFailure::Unreachable)?;
        result = attempt(ask, &mut peer).await;
    }
    let (fetched, clean) = result.map_err(|broken| match broken {
        Broken::Unanswered => MemberFailure::Unreachable,
        Broken::Failed(failure) => failure,
    })?;
    if clean && peer.inbox.is_empty() {
        peer.give_back();
    }
    Ok(fetched)
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

async fn attempt(ask: &mut Ask<'_>, peer: &mut Peer) -> Result<(Fetched, bool), Broken> {
    let (_, request) = peer
        .conn
        .writer
        .write_all(std::mem::take(&mut ask.request))
        .await;
    ask.request = request;
    let head_len = read_head(ask.method, peer).await?;
    let bytes = &peer.inbox.bytes()[..head_len];
    let mut fetched = Fetched {
        status: peer.head.status(),
        headers: kept_headers(&peer.head, bytes),
        body: Vec::new(),
    };
    let coding = peer
        .head
        .first(bytes, KnownHeader::ContentEncoding)
        .unwrap_or_default();
    let declared = match peer.head.framing() {
        BodyFraming::Length(length) => Some(length),
        _ => None,
    };
    let capture = Capture::new(coding, declared, ask.bytes_max, &ask.budget)?;
    peer.inbox.consume(head_len);
    let clean = read_body(ask.shard, peer, capture, &mut fetched).await?;
    Ok((fetched, clean && peer.head.keep_alive()))
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

/// Captures the body; true when the connection is at a clean end.
async fn read_body(
    shard: &Shard,
    peer: &mut Peer,
    mut capture: Capture,
    fetched: &mut Fetched,
) -> Result<bool, MemberFailure> {
    let mut decoder = BodyDecoder::new(peer.head.framing(), TrailerLimits::default());
    let mut since_turn = 0;
    let mut clean = true;
    while !decoder.is_done() {
        if peer.inbox.is_empty() {
            match peer.inbox.fill(&mut peer.conn.reader, RELAY_BYTES).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => {
                    decoder.end_of_input().map_err(|_| MemberFailure::Short)?;
                    clean = false;
                    break;
                }
            }
        }
        let decoded = decoder
            .decode(peer.inbox.bytes())
            .map_err(|_| MemberFailure::Short)?;
        let mut data = decoded.data;
        while !data.is_empty() {
            let pushed = capture.push(data)?;
            data = &data[pushed.taken..];
            since_turn += pushed.made;
            if since_turn >= CAPTURE_YIELD_BYTES as u64 {
                since_turn = 0;
                shard.turns.yield_now().await;
            }
        }
        let consumed = decoded.consumed;
        peer.inbox.consume(consumed);
    }
    fetched.body = capture.finish()?;
    Ok(clean)
}

/// Headers of a member that a merged answer may pass on. Contract: ALB page, 9.
fn kept_headers(head: &ResponseHead, bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    const DROPPED: [&[u8]; 6] = [
        b"cache-control",
        b"vary",
        b"age",
        b"etag",
        b"expires",
        b"x-trickster-result",
    ];
    let mut kept = Vec::new();
    for header in head.headers(bytes) {
        let is_of_the_body = matches!(
            header.known,
            KnownHeader::LastModified
                | KnownHeader::Date
                | KnownHeader::ContentLength
                | KnownHeader::ContentType
                | KnownHeader::ContentEncoding
        );
        let is_dropped = DROPPED
            .iter()
            .any(|name| header.name.eq_ignore_ascii_case(name));
        if !header.hop_by_hop && !is_of_the_body && !is_dropped {
            kept.push((header.name.to_vec(), header.value.to_vec()));
        }
    }
    kept
}
