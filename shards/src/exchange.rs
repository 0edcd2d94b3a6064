//! One request to one origin and its answer, streamed both ways.
//!
//! Called by `serve` for the single-member path. Two halves run in one task: [`upload`] moves the request
//! body, [`answering`] reads heads and moves the answer. Both wait on the client's watch only. Memory is a
//! buffer each way, whatever the bodies' size.
//!
//! Promises: what is sent again was never answered by a byte, is idempotent and went out on a reused
//! connection; a connection goes back to the peers only after a clean end on both sides.

mod upload;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ringway_io::buffer::{Buffers, Inbox};
use ringway_io::net::deadline::Watch;
use ringway_io::net::http1::{
    BodyDecoder, BodyFraming, Method, Parsed, RequestHead, ResponseHead, TrailerLimits, Version,
    write,
};
use ringway_io::net::stream::Writer;
use smallvec::SmallVec;

use crate::dispatch::{self, Terminal};
use crate::fanout::Opened;
use crate::headers::{self, Hop, Outgoing, Relay};
use crate::limits::{FAILOVERS_MAX, INTERIM_MAX, RELAY_BYTES, head_limits};
use crate::metrics::Count;
use crate::peers::Peer;
use crate::plan::{Backend, BackendId, BackendKind, Listener, Origin};
use crate::respond::{Failure, Fault, Frame};
use crate::serve::{Client, Phase, State};
use crate::shard::{Shard, View};
use crate::tunnel;

pub(crate) use upload::Upload;

/// Least free space a read of an answer is given.
const ANSWER_READ_BYTES: usize = 4 * 1024;

/// Who does what for whom.
pub(crate) struct Task<'a> {
    pub(crate) shard: &'a Rc<Shard>,
    pub(crate) view: &'a Rc<View>,
    pub(crate) listener: &'a Listener,
    /// The backend that answers.
    pub(crate) backend: &'a Arc<Backend>,
    /// Bytes of the path that the route used up.
    pub(crate) strip: usize,
}

/// Deadlines of an exchange: one for the whole, one for each step of a body.
#[derive(Clone, Copy)]
pub(crate) struct Pace<'w> {
    watch: &'w Watch,
    exchange_at: u64,
    step: Duration,
}

impl<'w> Pace<'w> {
    pub(crate) fn new(watch: &'w Watch, exchange: Duration, step: Duration) -> Pace<'w> {
        Pace {
            watch,
            exchange_at: watch.at(exchange),
            step,
        }
    }

    /// A body must move within the step limit.
    pub(crate) fn step(&self) {
        self.watch
            .arm_at(self.exchange_at.min(self.watch.at(self.step)));
    }

    /// Only the whole exchange is limited.
    pub(crate) fn whole(&self) {
        self.watch.arm_at(self.exchange_at);
    }
}

/// How an exchange ended.
enum End {
    /// The origin's connection may carry another one.
    Clean,
    /// It may not.
    Spent,
    /// It became a tunnel.
    Tunnel,
}

/// Sends the request to the backend that `first` leads to and the answer to the client. When a member of an ALB
/// cannot be reached, and so nothing of the request was answered, another live one gets it.
pub(crate) async fn route(
    task: &Task<'_>,
    client: &mut Client,
    first: BackendId,
) -> Result<(), Failure> {
    let mut upload = Upload::begin(task.listener, client)?;
    let mut tried: SmallVec<[BackendId; FAILOVERS_MAX]> = SmallVec::new();
    let mut backend = task.backend;
    let result = loop {
        let failure = match run(&Task { backend, ..*task }, client, &mut upload).await {
            Err(failure) if failure.spares_request() && tried.len() < FAILOVERS_MAX => failure,
            result => break result,
        };
        tried.push(backend.id);
        match dispatch::resolve(task.view, first, &tried) {
            Ok(Terminal::Origin(other)) if !tried.contains(&other.id) => backend = other,
            _ => break Err(failure),
        }
        task.view.active.cells(backend.id).failovers.bump();
    };
    if !upload.is_done() {
        client.state.keep.set(false);
    }
    result
}

async fn run(task: &Task<'_>, client: &mut Client, upload: &mut Upload) -> Result<(), Failure> {
    let BackendKind::Origin(origin) = &task.backend.kind else {
        return Err(Failure::Internal);
    };
    let watch = client.watch.clone();
    let pace = Pace::new(&watch, origin.timeout, task.listener.body_progress_timeout);
    pace.whole();
    let mut request = task.shard.buffers.take();
    write_head(&mut request, task, origin, client, upload);
    request.extend_from_slice(upload.came_with_head());
    let result = attempts(task, origin, client, &pace, upload, &mut request).await;
    task.shard.buffers.give(request);
    let status = match &result {
        Ok(()) => client.state.status.get(),
        Err(_) => 0,
    };
    let cells = task.view.active.cells(task.backend.id);
    cells.count_upstream(client.head.method(), status, client.state.elapsed());
    match &result {
        Ok(()) => task.shard.note_origin(task.backend, cells, None),
        Err(failure) if failure.fault() == Fault::Upstream => {
            task.shard
                .note_origin(task.backend, cells, Some(&failure.to_string()));
        }
        Err(_) => {}
    }
    result
}

/// What an origin is told of the client.
pub(crate) fn hop<'a>(task: &Task<'a>, client: &Client) -> Hop<'a> {
    Hop {
        server_name: &task.view.active.plan.server_name,
        client: client.conn.peer().ip(),
        client_tls: client.tls,
    }
}

/// The path behind what the route used up.
pub(crate) fn path<'b>(task: &Task<'_>, whole: &'b [u8]) -> &'b [u8] {
    if task.strip > 0 && whole.len() == task.strip {
        b"/"
    } else {
        &whole[task.strip..]
    }
}

/// Before an answer of ours to a request whose body nobody waits for: the connection goes on only when the body is
/// here.
pub(crate) fn leave_unread(listener: &Listener, client: &mut Client) -> Result<(), Failure> {
    let unread = !Upload::begin(listener, client)?.is_done();
    client.state.keep.set(client.state.keep.get() && !unread);
    Ok(())
}

/// The head as the origin gets it.
fn write_head(
    request: &mut Vec<u8>,
    task: &Task<'_>,
    origin: &Origin,
    client: &Client,
    upload: &Upload,
) {
    let bytes = client.head_text.as_slice();
    let hop = hop(task, client);
    let head = &client.head;
    let asks = Outgoing {
        method: head.method_text(bytes),
        path: path(task, head.path(bytes)),
        query: head.query(bytes),
        framing: upload.framing(),
        upgrade: head.upgrade(),
        expect_continue: head.expect_continue() && !upload.is_done(),
        remade: None,
    };
    headers::request(request, (head, bytes), origin, &hop, &asks);
}

/// Tries, and tries once more where that is allowed.
async fn attempts(
    task: &Task<'_>,
    origin: &Origin,
    client: &mut Client,
    pace: &Pace<'_>,
    upload: &mut Upload,
    request: &mut Vec<u8>,
) -> Result<(), Failure> {
    let addresses = &task.view.table.backend(task.backend.id).addresses;
    let peers = task.view.active.peers(task.backend.id);
    // A client that leaves while its answer is made stops the exchange; one that still sends a body is
    // noticed by the body's own read.
    client.watch.watch_peer(true);
    let mut peer = peers.acquire(origin, addresses).await?;
    let replayable = upload.is_done() && client.head.method().is_idempotent();
    let first = attempt(task, client, pace, (&mut peer, upload, request)).await;
    let result = match first {
        Err(failure) if failure.may_retry() && peer.reused && replayable => {
            drop(peer);
            task.view.active.cells(task.backend.id).retries.bump();
            peer = peers.acquire_fresh(origin, addresses).await?;
            attempt(task, client, pace, (&mut peer, upload, request)).await
        }
        other => other,
    };
    match result? {
        End::Clean if upload.is_done() && peer.inbox.is_empty() => peer.give_back(),
        End::Clean | End::Spent => {}
        End::Tunnel => {
            client.state.keep.set(false);
            client.watch.watch_peer(false);
            Box::pin(tunnel::run(client, peer, task.listener.idle_timeout)).await;
        }
    }
    Ok(())
}

/// One try on one connection.
async fn attempt(
    task: &Task<'_>,
    client: &mut Client,
    pace: &Pace<'_>,
    (peer, upload, request): (&mut Peer, &mut Upload, &mut Vec<u8>),
) -> Result<End, Failure> {
    let server_name = &*task.view.active.plan.server_name;
    let (sent, buffer) = peer.conn.writer.write_all(std::mem::take(request)).await;
    *request = buffer;
    let Client {
        conn,
        inbox,
        head,
        state,
        ..
    } = client;
    let download = Download {
        state,
        pace,
        seen: Seen::of(head),
        server_name,
        writer: &mut conn.writer,
        reader: &mut peer.conn.reader,
        inbox: &mut peer.inbox,
        answered: false,
        head: &mut peer.head,
        out: task.shard.buffers.take(),
        buffers: &task.shard.buffers,
    };
    if upload.is_done() {
        return answering(download, &|| true).await;
    }
    if sent.is_err() {
        // The origin may have answered before it closed.
        return answering(download, &|| false).await;
    }
    let moving = upload.moving();
    let body = upload.run(inbox, &mut conn.reader, &mut peer.conn.writer, state, pace);
    Box::pin(both(body, answering(download, &|| moving.is_done()))).await
}

/// Runs the upload beside the answer. The answer decides, unless the client breaks its own request first.
async fn both(
    upload: impl Future<Output = Result<(), Failure>>,
    answer: impl Future<Output = Result<End, Failure>>,
) -> Result<End, Failure> {
    let (mut upload, mut answer) = (pin!(upload), pin!(answer));
    let mut uploading = true;
    poll_fn(|cx| {
        if uploading && let Poll::Ready(moved) = upload.as_mut().poll(cx) {
            uploading = false;
            if let Err(failure) = moved {
                return Poll::Ready(Err(failure));
            }
        }
        answer.as_mut().poll(cx)
    })
    .await
}

/// Relays an answer whose head has come, while the rest of its request goes out; true when it came to a clean end.
pub(crate) async fn relay(
    task: &Task<'_>,
    client: &mut Client,
    pace: &Pace<'_>,
    opened: &mut Opened,
) -> Result<bool, Failure> {
    let Opened {
        peer,
        head_len,
        sending,
        ..
    } = opened;
    let download = Download {
        state: &client.state,
        pace,
        seen: Seen::of(&client.head),
        server_name: &task.view.active.plan.server_name,
        writer: &mut client.conn.writer,
        reader: &mut peer.conn.reader,
        inbox: &mut peer.inbox,
        answered: true,
        head: &mut peer.head,
        out: task.shard.buffers.take(),
        buffers: &task.shard.buffers,
    };
    let mut answering = pin!(download.answer(*head_len, true));
    let end = sending.beside(answering.as_mut()).await?;
    Ok(matches!(end, End::Clean))
}

/// What of the request the answer depends on.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    method: Method,
    version: Version,
    upgrade: bool,
}

impl Seen {
    pub(crate) fn of(head: &RequestHead) -> Seen {
        Seen {
            method: head.method(),
            version: head.version(),
            upgrade: head.upgrade(),
        }
    }
}

/// Appends the head of an answer as the client gets it, notes its status, and says how its body is framed then.
/// `framing` is that of the body as it is here; `keep` that the connection may stay open.
pub(crate) fn answer_head(
    out: &mut Vec<u8>,
    (head, bytes): (&ResponseHead, &[u8]),
    server_name: &str,
    (seen, state): (Seen, &State),
    (framing, keep): (BodyFraming, bool),
) -> BodyFraming {
    let relay = plan_relay((seen, state), head, (framing, keep));
    headers::response(out, (head, bytes), server_name, &relay);
    state.status.set(head.status());
    relay.framing
}

/// Chooses the framing towards the client, and whether its connection stays open.
fn plan_relay(
    (seen, state): (Seen, &State),
    head: &ResponseHead,
    (framing, keep): (BodyFraming, bool),
) -> Relay {
    let is_http10 = seen.version == Version::Http10;
    let mut keep = state.keep.get() && keep;
    let framing = match framing {
        BodyFraming::Chunked | BodyFraming::UntilClose if is_http10 => {
            keep = false;
            BodyFraming::UntilClose
        }
        BodyFraming::UntilClose => BodyFraming::Chunked,
        other => other,
    };
    state.keep.set(keep);
    let has_no_body = framing == BodyFraming::None;
    let status = head.status();
    let declared = has_no_body && status != 204 && status >= 200;
    Relay {
        framing,
        declared_length: if declared {
            head.content_length()
        } else {
            None
        },
        frame: Frame {
            method: seen.method,
            version: seen.version,
            keep,
        },
    }
}

/// All that the way back needs.
struct Download<'a> {
    state: &'a State,
    pace: &'a Pace<'a>,
    seen: Seen,
    server_name: &'a str,
    writer: &'a mut Writer,
    reader: &'a mut ringway_io::net::stream::Reader,
    inbox: &'a mut Inbox,
    /// A byte of an answer has come, if only of an interim one.
    answered: bool,
    head: &'a mut ResponseHead,
    out: Vec<u8>,
    buffers: &'a Buffers,
}

impl Drop for Download<'_> {
    fn drop(&mut self) {
        self.buffers.give(std::mem::take(&mut self.out));
    }
}

/// Reads the answer and relays it. `uploaded` says whether the request body has been sent.
async fn answering(
    mut download: Download<'_>,
    uploaded: &dyn Fn() -> bool,
) -> Result<End, Failure> {
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
    download.answer(head_len, uploaded()).await
}

impl Download<'_> {
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
                Ok(1..) => self.answered = true,
                Ok(0) | Err(_) => {
                    let before_any_byte = !self.answered;
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

    async fn relay_switch(mut self, head_len: usize) -> Result<End, Failure> {
        if !self.seen.upgrade {
            // Nobody asked to leave HTTP.
            return Err(Failure::AnswerHead(
                ringway_io::net::http1::HeadError::InvalidStatus,
            ));
        }
        let bytes = &self.inbox.bytes()[..head_len];
        headers::switching(&mut self.out, (self.head, bytes), self.server_name);
        self.inbox.consume(head_len);
        self.state.status.set(self.head.status());
        self.state.phase.set(Phase::Answer);
        self.flush().await?;
        Ok(End::Tunnel)
    }

    /// Relays the answer whose head is at the front of the inbox.
    async fn answer(mut self, head_len: usize, uploaded: bool) -> Result<End, Failure> {
        let bytes = &self.inbox.bytes()[..head_len];
        let framing = answer_head(
            &mut self.out,
            (self.head, bytes),
            self.server_name,
            (self.seen, self.state),
            (self.head.framing(), uploaded),
        );
        self.inbox.consume(head_len);
        self.relay_body(framing == BodyFraming::Chunked).await
    }

    async fn relay_body(mut self, chunked: bool) -> Result<End, Failure> {
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

    async fn flush(&mut self) -> Result<(), Failure> {
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
