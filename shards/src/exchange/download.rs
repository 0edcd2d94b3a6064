//! The way back: an origin's answer on its way to the client.
//!
//! Reads heads, relays interim answers, chooses status and framing towards the client, and moves the body a buffer at
//! a time. What waits for the first byte does so by the [`Tries`] of the request; an answer whose head has come already
//! is only relayed.

use ringway_io::buffer::Inbox;
use ringway_io::net::http1::Parsed;
use ringway_io::net::http1::{
    BodyDecoder, BodyFraming, Method, RequestHead, TrailerLimits, Version, write,
};
use ringway_io::net::stream::Writer;

use super::tries::Tries;
use super::upload::Flow;
use super::{End, Pace, Task};
use crate::clock::Clock;
use crate::headers::{self, Relay, Server};
use crate::limits::{INTERIM_MAX, RELAY_BYTES, head_limits};
use crate::passage::Front;
use crate::peers::Peer;
use crate::reply::has_body;
use crate::respond::{Failure, Fault, Frame};
use crate::serve::{Client, Phase, State};
use crate::shard::Shard;

/// Least free space a read of an answer is given.
const ANSWER_READ_BYTES: usize = 4 * 1024;

/// What of the request the answer depends on.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) method: Method,
    pub(super) version: Version,
    pub(super) upgrade: bool,
}

impl Seen {
    pub(super) fn of(head: &RequestHead, bytes: &[u8]) -> Seen {
        Seen {
            method: head.method(),
            version: head.version(),
            upgrade: headers::offers_upgrade(head, bytes),
        }
    }
}

/// All that the way back needs.
pub(super) struct Download<'a, 't> {
    pub(super) state: &'a State,
    pub(super) pace: &'a Pace<'a>,
    /// What an answer is waited for with; `None` where its head has come already.
    pub(super) waiting: Option<(&'a Tries<'t>, &'a Flow)>,
    pub(super) seen: Seen,
    pub(super) server: &'a Server,
    pub(super) clock: &'a Clock,
    /// What rules change of the answer.
    pub(super) front: Front<'a>,
    pub(super) writer: &'a mut Writer,
    pub(super) reader: &'a mut ringway_io::net::stream::Reader,
    pub(super) inbox: &'a mut Inbox,
    pub(super) head: &'a mut ringway_io::net::http1::ResponseHead,
    pub(super) out: Vec<u8>,
    /// The request.
    pub(super) client: (&'a RequestHead, &'a [u8]),
    pub(super) shard: &'a Shard,
}

/// What of the client's connection the way back needs.
pub(super) struct ClientSide<'a> {
    pub(super) state: &'a State,
    pub(super) clock: &'a Clock,
    pub(super) request: (&'a RequestHead, &'a [u8]),
    pub(super) writer: &'a mut Writer,
}

impl<'a> ClientSide<'a> {
    pub(super) fn of(client: &'a mut Client) -> ClientSide<'a> {
        ClientSide {
            state: &client.state,
            clock: &client.clock,
            request: (&client.head, &client.head_text),
            writer: &mut client.conn.writer,
        }
    }
}

/// What of the origin's connection the way back needs.
pub(super) struct OriginSide<'a> {
    pub(super) reader: &'a mut ringway_io::net::stream::Reader,
    pub(super) inbox: &'a mut Inbox,
    pub(super) head: &'a mut ringway_io::net::http1::ResponseHead,
}

impl<'a> OriginSide<'a> {
    pub(super) fn of(peer: &'a mut Peer) -> OriginSide<'a> {
        OriginSide {
            reader: &mut peer.conn.reader,
            inbox: &mut peer.inbox,
            head: &mut peer.head,
        }
    }
}

impl Drop for Download<'_, '_> {
    fn drop(&mut self) {
        self.shard.buffers.give(std::mem::take(&mut self.out));
    }
}

/// Reads the answer and relays it.
pub(super) async fn answering(download: &mut Download<'_, '_>) -> Result<End, Failure> {
    let mut interims = 0;
    let head_len = loop {
        let head_len = download.read_head().await?;
        if !download.head.is_informational() {
            break head_len;
        }
        interims += 1;
        if interims > INTERIM_MAX {
            return Err(Failure::NoAnswer {
                before_any_byte: false,
            });
        }
        download.relay_interim(head_len).await?;
    };
    if download.head.is_switching_protocols() {
        return download.relay_switch(head_len).await;
    }
    let uploaded = download.waiting.is_none_or(|(_, flow)| flow.is_done());
    download.answer(head_len, uploaded).await
}

impl<'a, 't> Download<'a, 't> {
    pub(super) fn new(
        task: &'a Task<'_>,
        pace: &'a Pace<'a>,
        waiting: Option<(&'a Tries<'t>, &'a Flow)>,
        (client, origin): (ClientSide<'a>, OriginSide<'a>),
    ) -> Download<'a, 't> {
        let (head, bytes) = client.request;
        Download {
            state: client.state,
            pace,
            waiting,
            seen: Seen::of(head, bytes),
            server: &task.view.active.server,
            clock: client.clock,
            front: task.passage.front(),
            writer: client.writer,
            reader: origin.reader,
            inbox: origin.inbox,
            head: origin.head,
            out: task.shard.buffers.take(),
            client: client.request,
            shard: task.shard,
        }
    }

    async fn read_head(&mut self) -> Result<usize, Failure> {
        let limits = head_limits();
        loop {
            if !self.inbox.is_empty() {
                let parsed = self
                    .head
                    .parse(self.inbox.bytes(), self.seen.method, &limits);
                if let Parsed::Complete(len) = parsed.map_err(Failure::AnswerHead)? {
                    return Ok(len);
                }
            }
            match self.inbox.fill(self.reader, ANSWER_READ_BYTES).await {
                Ok(1..) => {
                    if let Some((tries, flow)) = self.waiting
                        && !tries.is_answered()
                    {
                        self.pace.set_end(tries.answered(flow));
                    }
                }
                Ok(0) | Err(_) => {
                    let before_any_byte =
                        self.waiting.is_some_and(|(tries, _)| !tries.is_answered());
                    return Err(Failure::NoAnswer { before_any_byte });
                }
            }
        }
    }

    async fn relay_interim(&mut self, head_len: usize) -> Result<(), Failure> {
        // HTTP/1.0 knows no interim answers.
        if self.seen.version == Version::Http11 {
            let bytes = &self.inbox.bytes()[..head_len];
            headers::interim(&mut self.out, (self.head, bytes));
            self.flush().await?;
        }
        self.inbox.consume(head_len);
        Ok(())
    }

    async fn relay_switch(&mut self, head_len: usize) -> Result<End, Failure> {
        if !self.seen.upgrade {
            // Nobody asked to leave HTTP.
            return Err(Failure::AnswerHead(
                ringway_io::net::http1::HeadError::InvalidStatus,
            ));
        }
        let bytes = &self.inbox.bytes()[..head_len];
        headers::switching(&mut self.out, (self.head, bytes), self.server);
        self.inbox.consume(head_len);
        self.state.status.set(self.head.status());
        self.state.origin_status.set(self.head.status());
        self.state.phase.set(Phase::Answer);
        self.flush().await?;
        Ok(End::Tunnel)
    }

    /// Chooses status and framing towards the client, and whether its connection stays open.
    fn plan_relay(&mut self, uploaded: bool) -> Relay<'a> {
        let mut keep = self.state.keep.get() && uploaded;
        let status = self.front.status(self.head.status());
        let body = self.other_body(status);
        let (framing, declared_length) = match body {
            Some(body) => {
                let length = has_body(status).then_some(body.len() as u64);
                (BodyFraming::None, length)
            }
            None => {
                let framing = self.framing_onwards();
                if framing == BodyFraming::UntilClose {
                    keep = false;
                }
                (framing, self.declared_length(status))
            }
        };
        self.state.keep.set(keep);
        Relay {
            status,
            framing,
            declared_length,
            frame: Frame {
                method: self.seen.method,
                version: self.seen.version,
                keep,
            },
            body,
            client: self.client,
            compressors: &self.shard.compressors,
            front: self.front,
        }
    }

    /// The body to send in place of the origin's: a rule's, or none where a rule's status has none.
    fn other_body(&self, status: u16) -> Option<&'a [u8]> {
        if has_body(status) {
            return self.front.body();
        }
        (self.head.framing() != BodyFraming::None).then_some(b"")
    }

    fn framing_onwards(&self) -> BodyFraming {
        match self.head.framing() {
            BodyFraming::Chunked | BodyFraming::UntilClose
                if self.seen.version == Version::Http10 =>
            {
                BodyFraming::UntilClose
            }
            BodyFraming::UntilClose => BodyFraming::Chunked,
            other => other,
        }
    }

    /// What an answer without a body says of its length.
    fn declared_length(&self, status: u16) -> Option<u64> {
        if self.head.framing() != BodyFraming::None || status == 204 {
            return None;
        }
        let has_lost_its_reason = self.seen.method != Method::Head && has_body(status);
        if has_lost_its_reason {
            // A rule's status takes a body, and the origin's answer had none.
            return Some(0);
        }
        self.head.content_length()
    }

    /// Sends another body than the origin's, whose connection goes on when all of its own is here.
    async fn replace_body(&mut self, body: &[u8]) -> Result<End, Failure> {
        if self.seen.method != Method::Head {
            self.out.extend_from_slice(body);
            self.state.written.set(body.len() as u64);
        }
        self.state.phase.set(Phase::Answer);
        self.flush().await?;
        let mut decoder = BodyDecoder::new(self.head.framing(), TrailerLimits::default());
        while !self.inbox.is_empty() && !decoder.is_done() {
            let Ok(decoded) = decoder.decode(self.inbox.bytes()) else {
                return Ok(End::Spent);
            };
            let consumed = decoded.consumed;
            self.inbox.consume(consumed);
        }
        let is_clean = decoder.is_done() && self.head.keep_alive();
        Ok(if is_clean { End::Clean } else { End::Spent })
    }

    /// Relays the answer whose head is at the front of the inbox.
    pub(super) async fn answer(&mut self, head_len: usize, uploaded: bool) -> Result<End, Failure> {
        let relay = self.plan_relay(uploaded);
        let bytes = &self.inbox.bytes()[..head_len];
        let compressor = headers::response(
            &mut self.out,
            (self.head, bytes),
            (self.server, self.clock),
            &relay,
        );
        self.inbox.consume(head_len);
        self.state.status.set(relay.status);
        self.state.origin_status.set(self.head.status());
        if let Some(body) = relay.body {
            return self.replace_body(body).await;
        }
        if let Some(compressor) = compressor {
            return Box::pin(self.relay_compressed(compressor)).await;
        }
        self.relay_body(relay.framing == BodyFraming::Chunked).await
    }

    async fn relay_body(&mut self, chunked: bool) -> Result<End, Failure> {
        let mut decoder = BodyDecoder::new(self.head.framing(), TrailerLimits::default());
        loop {
            // Fails before the head has left when the body's beginning, come along with it, is bad.
            self.decode_here(&mut decoder, chunked)?;
            if decoder.is_done() && chunked {
                headers::last_chunk(&mut self.out, decoder.trailers(), |_| false);
            }
            self.state.phase.set(Phase::Answer);
            if !self.out.is_empty() {
                self.flush().await?;
            }
            if decoder.is_done() {
                break;
            }
            self.pace.whole();
            match self.inbox.fill(self.reader, RELAY_BYTES / 2).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => {
                    decoder.end_of_input().map_err(Failure::AnswerBody)?;
                    if chunked {
                        self.out.extend_from_slice(write::LAST_CHUNK_AND_END);
                        self.flush().await?;
                    }
                    return Ok(End::Spent);
                }
            }
        }
        Ok(if self.head.keep_alive() {
            End::Clean
        } else {
            End::Spent
        })
    }

    /// Moves what has been received of the body to the outgoing buffer.
    fn decode_here(&mut self, decoder: &mut BodyDecoder, chunked: bool) -> Result<(), Failure> {
        while !self.inbox.is_empty() && !decoder.is_done() {
            let decoded = decoder
                .decode(self.inbox.bytes())
                .map_err(Failure::AnswerBody)?;
            if !decoded.data.is_empty() {
                self.state
                    .written
                    .set(self.state.written.get() + decoded.data.len() as u64);
                if chunked {
                    write::chunk_header(&mut self.out, decoded.data.len() as u64);
                }
                self.out.extend_from_slice(decoded.data);
                if chunked {
                    self.out.extend_from_slice(write::CHUNK_END);
                }
            }
            let consumed = decoded.consumed;
            self.inbox.consume(consumed);
        }
        Ok(())
    }

    pub(super) async fn flush(&mut self) -> Result<(), Failure> {
        self.pace.step();
        self.state.blame.set(Fault::Client);
        let (sent, mut out) = self.writer.write_all(std::mem::take(&mut self.out)).await;
        out.clear();
        self.out = out;
        self.pace.whole();
        self.state.blame.set(Fault::Upstream);
        sent.map_err(|_| Failure::ClientGone)
    }
}
