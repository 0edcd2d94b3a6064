//! Answers held whole: as they came, or decoded for a merge.

use std::pin::pin;
use std::time::Duration;

use ringway_io::net::http1::{
    BodyDecoder, BodyFraming, HeadLimits, KnownHeader, Method, Parsed, ResponseHead, TrailerLimits,
};
use ringway_io::task::within;
use ringway_merge::MemberFailure;

use super::ask::{Ask, Opened, open};
use crate::capture::{Budget, Capture, Segments, WORK_PER_TURN};
use crate::guard::guard;
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX, RELAY_BYTES};
use crate::shard::Shard;

/// A member's whole answer, as it came. Trailers are left out.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) head: ResponseHead,
    /// The bytes of `head`.
    pub(crate) head_text: Vec<u8>,
    pub(crate) body: Segments,
}

/// A member's whole answer, decoded for a merge.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) status: u16,
    /// End-to-end header lines, each with its line end; framing and coding are left out.
    pub(crate) headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Body, content coding undone.
    pub(crate) body: Vec<u8>,
    /// Labels of the backend that answered, which may stand below the member.
    pub(crate) injected_labels: Vec<(String, String)>,
}

/// What may be kept of an answer.
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    /// Most bytes of the body.
    pub(crate) bytes_max: u64,
    /// What all members of the fan-out share.
    pub(crate) budget: &'a Budget,
}

/// Sends the request, and captures and decodes the answer, all within `limit`.
pub(crate) async fn fetch(
    ask: Ask<'_>,
    room: Room<'_>,
    limit: Duration,
) -> Result<Fetched, MemberFailure> {
    if room.budget.is_spent() {
        return Err(MemberFailure::AggregateCap);
    }
    let work = async {
        let opened = open(ask, limit).await?;
        opened.decode(room).await
    };
    let mut work = pin!(work);
    guard(work.as_mut())
        .await
        .unwrap_or(Err(MemberFailure::Internal))
}

impl Opened {
    /// Reads the body, and keeps the answer as it came.
    pub(crate) async fn keep(mut self, room: Room<'_>) -> Result<Whole, MemberFailure> {
        let text = self.peer.inbox.bytes()[..self.head_len].to_vec();
        let capture = Capture::raw(self.declared(), room.bytes_max, room.budget);
        let read = self.capture(capture).await;
        let kept = read.and_then(|(capture, clean)| Ok((capture.finish_in_pieces()?, clean)));
        self.ended(kept.as_ref().err());
        let (body, clean) = kept?;
        let head = std::mem::replace(&mut self.peer.head, ResponseHead::new());
        self.give_back(clean);
        Ok(Whole {
            head,
            head_text: text,
            body,
        })
    }

    /// Reads the body, and undoes its content coding.
    pub(crate) async fn decode(mut self, room: Room<'_>) -> Result<Fetched, MemberFailure> {
        let text = &self.peer.inbox.bytes()[..self.head_len];
        let (status, headers) = (self.peer.head.status(), kept_headers(&self.peer.head, text));
        let coding = coding(&self.peer.head, text);
        let capture = Capture::new(coding, self.declared(), room.bytes_max, room.budget);
        let read = self.capture(capture).await;
        let decoded = read.and_then(|(capture, clean)| Ok((capture.finish()?, clean)));
        self.ended(decoded.as_ref().err());
        let (body, clean) = decoded?;
        self.give_back(clean);
        Ok(Fetched {
            status,
            headers,
            body,
            injected_labels: Vec::new(),
        })
    }

    fn declared(&self) -> Option<u64> {
        match self.peer.head.framing() {
            BodyFraming::Length(length) => Some(length),
            _ => None,
        }
    }

    /// Captures the body; true when the connection is at a clean end.
    async fn capture(
        &mut self,
        capture: Result<Capture, MemberFailure>,
    ) -> Result<(Capture, bool), MemberFailure> {
        let mut capture = capture?;
        let clean = self.read(&mut capture).await?;
        Ok((capture, clean))
    }

    /// Reads the body, within what is left of the exchange's time.
    async fn read(&mut self, capture: &mut Capture) -> Result<bool, MemberFailure> {
        let left = self.left();
        self.peer.inbox.consume(self.head_len);
        self.head_len = 0;
        let Opened {
            peer,
            sending,
            shard,
            ..
        } = self;
        let mut decoder = BodyDecoder::new(peer.head.framing(), TrailerLimits::default());
        let mut reading = pin!(async {
            while !decoder.is_done() {
                if peer.inbox.is_empty() {
                    match peer.inbox.fill(&mut peer.conn.reader, RELAY_BYTES).await {
                        Ok(1..) => {}
                        Ok(0) | Err(_) => {
                            decoder.end_of_input().map_err(|_| MemberFailure::Short)?;
                            return Ok(false);
                        }
                    }
                }
                let decoded = decoder
                    .decode(peer.inbox.bytes())
                    .map_err(|_| MemberFailure::Short)?;
                push(shard, capture, decoded.data).await?;
                let consumed = decoded.consumed;
                peer.inbox.consume(consumed);
            }
            Ok(peer.head.keep_alive())
        });
        let read = within(left, sending.beside(reading.as_mut())).await;
        read.unwrap_or(Err(MemberFailure::TimedOut))
    }
}

/// Captures `data`, with turns for everyone else.
async fn push(shard: &Shard, capture: &mut Capture, mut data: &[u8]) -> Result<(), MemberFailure> {
    while !data.is_empty() {
        shard.turns.before_more_than(WORK_PER_TURN).await;
        let pushed = capture.push(data)?;
        data = &data[pushed.taken..];
        shard.turns.work(pushed.work);
    }
    Ok(())
}

impl Whole {
    /// An answer made here: the text of its head, and its body. `None` when the text is no head.
    pub(crate) fn made(text: Vec<u8>, body: Segments, method: Method) -> Option<Whole> {
        // What a merge passes on of a member's head, and its own lines.
        let limits = HeadLimits {
            bytes_max: 2 * HEAD_BYTES_MAX,
            headers_max: HEADERS_MAX + 8,
            ..HeadLimits::default()
        };
        let mut head = ResponseHead::new();
        match head.parse(&text, method, &limits) {
            Ok(Parsed::Complete(length)) if length == text.len() => {}
            _ => return None,
        }
        let body = match head.framing() {
            BodyFraming::None => Segments::default(),
            _ => body,
        };
        Some(Whole {
            head,
            head_text: text,
            body,
        })
    }

    /// Undoes the content coding.
    pub(crate) async fn decode(
        self,
        shard: &Shard,
        room: Room<'_>,
    ) -> Result<Fetched, MemberFailure> {
        let coding = coding(&self.head, &self.head_text);
        let length = Some(self.body.len());
        let mut capture = Capture::new(coding, length, room.bytes_max, room.budget)?;
        for piece in self.body.into_pieces() {
            push(shard, &mut capture, &piece).await?;
        }
        Ok(Fetched {
            status: self.head.status(),
            headers: kept_headers(&self.head, &self.head_text),
            body: capture.finish()?,
            injected_labels: Vec::new(),
        })
    }
}

fn coding<'b>(head: &ResponseHead, bytes: &'b [u8]) -> &'b [u8] {
    head.first(bytes, KnownHeader::ContentEncoding)
        .unwrap_or_default()
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
