//! One request to one origin and its answer, streamed both ways.
//!
//! Called by `serve` for the single-member path. Two halves run in one task: [`upload`] moves the request
//! body, [`answering`] reads heads and moves the answer. Both wait on the client's watch only. Memory is a
//! buffer each way, whatever the bodies' size, and what is held of a request body to be sent again.
//!
//! Promises: what is sent again was never answered by a byte, and either not a byte of it was sent before or it
//! is idempotent; it goes to another member ([`tries`]), or on a fresh connection to the same one when a reused
//! one had died. A connection goes back to the peers only after a clean end on both sides.

mod tries;
mod upload;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ringway_io::buffer::{Buffers, Inbox};
use ringway_io::net::deadline::Watch;
use ringway_io::net::http1::{
    BodyDecoder, BodyFraming, Method, Parsed, RequestHead, TrailerLimits, Version, write,
};
use ringway_io::net::stream::{Writer, Written};

use crate::headers::{self, Hop, Outgoing, Relay};
use crate::limits::{INTERIM_MAX, RELAY_BYTES, head_limits};
use crate::metrics::Count;
use crate::peers::Peer;
use crate::plan::{Backend, BackendId, BackendKind, Listener, Origin};
use crate::respond::{Failure, Fault, Frame};
use crate::serve::{Client, Phase, State};
use crate::shard::{Shard, View};
use crate::tunnel;

use tries::Tries;
use upload::Flow;
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
pub(crate) struct Pace<'w> {
    watch: &'w Watch,
    exchange_at: Cell<u64>,
    step: Duration,
}

impl<'w> Pace<'w> {
    pub(crate) fn new(watch: &'w Watch, exchange: Duration, step: Duration) -> Pace<'w> {
        Pace::until(watch, watch.at(exchange), step)
    }

    /// Of an exchange that ends at a value of [`Watch::at`].
    fn until(watch: &'w Watch, exchange_at: u64, step: Duration) -> Pace<'w> {
        Pace {
            watch,
            exchange_at: Cell::new(exchange_at),
            step,
        }
    }

    /// A body must move within the step limit.
    pub(crate) fn step(&self) {
        self.watch
            .arm_at(self.exchange_at.get().min(self.watch.at(self.step)));
    }

    /// Only the whole exchange is limited.
    pub(crate) fn whole(&self) {
        self.watch.arm_at(self.exchange_at.get());
    }

    /// The exchange ends at another time.
    fn set_end(&self, exchange_at: u64) {
        if self.exchange_at.replace(exchange_at) != exchange_at {
            self.whole();
        }
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
/// fails it before a byte of an answer came, another one gets it as far as [`Tries`] allows.
pub(crate) async fn route(
    task: &Task<'_>,
    client: &mut Client,
    first: BackendId,
) -> Result<(), Failure> {
    let mut upload = Upload::begin(task.listener, client)?;
    let mut tries = Tries::new(task, client, first);
    upload.hold_up_to(tries.body_bytes_max());
    let mut other: Option<(Rc<View>, Arc<Backend>)> = None;
    let result = loop {
        let now = match &other {
            None => Task { ..*task },
            Some((view, backend)) => Task {
                view,
                backend,
                ..*task
            },
        };
        let failure = match run(&now, client, &mut upload, &mut tries).await {
            Err(failure) => failure,
            result => break result,
        };
        match tries.next(&failure, &upload.flow, now.backend) {
            Some(next) => other = Some(next),
            None => break Err(failure),
        }
    };
    if !upload.is_done() {
        client.state.keep.set(false);
    }
    result
}

async fn run<'a>(
    task: &Task<'_>,
    client: &mut Client,
    upload: &mut Upload,
    tries: &mut Tries<'a>,
) -> Result<(), Failure> {
    let BackendKind::Origin(origin) = &task.backend.kind else {
        return Err(Failure::Internal);
    };
    tries.begin(origin, task.view.active.peers(task.backend.id));
    let watch = client.watch.clone();
    let pace = Pace::until(&watch, tries.last_at(), task.listener.body_progress_timeout);
    pace.whole();
    client.state.blame.set(Fault::Upstream);
    let mut request = task.shard.buffers.take();
    write_head(&mut request, task, origin, client, upload);
    let result = attempts(task, origin, client, &pace, (upload, tries), &mut request).await;
    task.shard.buffers.give(request);
    let status = match &result {
        Ok(()) => client.state.status.get(),
        Err(_) => 0,
    };
    let cells = task.view.active.cells(task.backend.id);
    let took = tries.took().unwrap_or_else(|| client.state.elapsed());
    cells.count_upstream(client.head.method(), status, took);
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
    let path = head.path(bytes);
    let asks = Outgoing {
        method: head.method_text(bytes),
        path: if task.strip > 0 && path.len() == task.strip {
            b"/"
        } else {
            &path[task.strip..]
        },
        query: head.query(bytes),
        framing: upload.framing(),
        upgrade: head.upgrade(),
        expect_continue: head.expect_continue() && !upload.is_done(),
        remade: None,
    };
    headers::request(request, (head, bytes), origin, &hop, &asks);
}

/// Sends the head in `request` and the body; once more on a fresh connection where a reused one had died.
async fn attempts(
    task: &Task<'_>,
    origin: &Origin,
    client: &mut Client,
    pace: &Pace<'_>,
    (upload, tries): (&mut Upload, &Tries<'_>),
    request: &mut Vec<u8>,
) -> Result<(), Failure> {
    let addresses = &task.view.table.backend(task.backend.id).addresses;
    let peers = task.view.active.peers(task.backend.id);
    // A client that leaves while its answer is made stops the exchange; one that still sends a body is
    // noticed by the body's own read.
    client.watch.watch_peer(true);
    let head_len = request.len();
    let mut fresh = false;
    let (peer, end) = loop {
        let acquired = {
            let acquire = pin!(async {
                match fresh {
                    false => peers.acquire(origin, addresses).await,
                    true => peers.acquire_fresh(origin, addresses).await,
                }
            });
            tries.patiently(&upload.flow, acquire).await?
        };
        let mut peer = acquired?;
        upload.replay(request);
        match attempt(task, client, pace, (&mut peer, upload, tries, request)).await {
            Err(failure)
                if failure.may_retry() && peer.reused && tries.may_resend(&upload.flow) =>
            {
                task.view.active.cells(task.backend.id).resends.bump();
                request.truncate(head_len);
                fresh = true;
            }
            result => break (peer, result?),
        }
    };
    match end {
        End::Clean if upload.is_done() && peer.inbox.is_empty() => peer.give_back(),
        End::Clean | End::Spent => {}
        End::Tunnel => {
            client.state.keep.set(false);
            client.watch.watch_peer(false);
            tries.leave_budget();
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
    (peer, upload, tries, request): (&mut Peer, &mut Upload, &Tries<'_>, &mut Vec<u8>),
) -> Result<End, Failure> {
    let flow = &upload.flow;
    tries.set_sent(true);
    let written = {
        let write = pin!(peer.conn.writer.write_first(std::mem::take(request)));
        let (written, buffer) = tries.patiently(flow, write).await?;
        *request = buffer;
        written
    };
    tries.set_sent(written != Written::None);
    tries.progress();
    if !upload.is_done() && written == Written::All {
        return Box::pin(with_body(task, client, pace, (peer, upload, tries))).await;
    }
    // When it was not written, the origin may still have answered before it closed.
    let download = Download {
        state: &client.state,
        pace,
        tries,
        flow,
        seen: Seen::of(&client.head),
        server_name: &task.view.active.plan.server_name,
        writer: &mut client.conn.writer,
        reader: &mut peer.conn.reader,
        inbox: &mut peer.inbox,
        head: &mut peer.head,
        out: task.shard.buffers.take(),
        buffers: &task.shard.buffers,
    };
    let answer = pin!(answering(download));
    tries.patiently(flow, answer).await?
}

/// Sends the rest of the body while the answer is awaited.
async fn with_body(
    task: &Task<'_>,
    client: &mut Client,
    pace: &Pace<'_>,
    (peer, upload, tries): (&mut Peer, &mut Upload, &Tries<'_>),
) -> Result<End, Failure> {
    let reused = peer.reused;
    let Upload { source, flow } = upload;
    let seen = Seen::of(&client.head);
    let Client {
        conn, inbox, state, ..
    } = client;
    let mut body = pin!(source.run(
        flow,
        (inbox, &mut conn.reader, &mut peer.conn.writer),
        (state, pace, tries),
    ));
    let result = {
        let download = Download {
            state,
            pace,
            tries,
            flow,
            seen,
            server_name: &task.view.active.plan.server_name,
            writer: &mut conn.writer,
            reader: &mut peer.conn.reader,
            inbox: &mut peer.inbox,
            head: &mut peer.head,
            out: task.shard.buffers.take(),
            buffers: &task.shard.buffers,
        };
        let moving = pin!(both(body.as_mut(), answering(download)));
        match tries.patiently(flow, moving).await {
            Ok(result) => result,
            Err(failure) => Err(failure),
        }
    };
    if let Err(failure) = &result
        && flow.is_reading()
        && tries.is_worth(failure, flow, reused)
    {
        // A read that is under way cannot be dropped without losing bytes, which the next member is to get.
        let invite = flow.expects();
        flow.halt();
        if invite {
            let (sent, _) = conn.writer.write_all(write::CONTINUE.to_vec()).await;
            sent.map_err(|_| Failure::ClientGone)?;
        }
        body.await?;
    }
    result
}

/// Runs the upload beside the answer. The answer decides, unless the client breaks its own request first.
async fn both(
    mut upload: Pin<&mut impl Future<Output = Result<(), Failure>>>,
    answer: impl Future<Output = Result<End, Failure>>,
) -> Result<End, Failure> {
    let mut answer = pin!(answer);
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

/// What of the request the answer depends on.
#[derive(Clone, Copy)]
struct Seen {
    method: Method,
    version: Version,
    upgrade: bool,
}

impl Seen {
    fn of(head: &RequestHead) -> Seen {
        Seen {
            method: head.method(),
            version: head.version(),
            upgrade: head.upgrade(),
        }
    }
}

/// All that the way back needs.
struct Download<'a, 't> {
    state: &'a State,
    pace: &'a Pace<'a>,
    tries: &'a Tries<'t>,
    flow: &'a Flow,
    seen: Seen,
    server_name: &'a str,
    writer: &'a mut Writer,
    reader: &'a mut ringway_io::net::stream::Reader,
    inbox: &'a mut Inbox,
    head: &'a mut ringway_io::net::http1::ResponseHead,
    out: Vec<u8>,
    buffers: &'a Buffers,
}

impl Drop for Download<'_, '_> {
    fn drop(&mut self) {
        self.buffers.give(std::mem::take(&mut self.out));
    }
}

/// Reads the answer and relays it.
async fn answering(mut download: Download<'_, '_>) -> Result<End, Failure> {
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
    let relay = download.plan_relay(download.flow.is_done());
    let bytes = &download.inbox.bytes()[..head_len];
    headers::response(
        &mut download.out,
        (download.head, bytes),
        download.server_name,
        &relay,
    );
    download.inbox.consume(head_len);
    download.state.status.set(download.head.status());
    download
        .relay_body(relay.framing == BodyFraming::Chunked)
        .await
}

impl Download<'_, '_> {
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
                Ok(1..) if self.tries.is_answered() => {}
                Ok(1..) => self.pace.set_end(self.tries.answered(self.flow)),
                Ok(0) | Err(_) => {
                    let before_any_byte = !self.tries.is_answered();
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

    /// Chooses the framing towards the client, and whether its connection stays open.
    fn plan_relay(&mut self, uploaded: bool) -> Relay {
        let is_http10 = self.seen.version == Version::Http10;
        let mut keep = self.state.keep.get() && uploaded;
        let framing = match self.head.framing() {
            BodyFraming::Chunked | BodyFraming::UntilClose if is_http10 => {
                keep = false;
                BodyFraming::UntilClose
            }
            BodyFraming::UntilClose => BodyFraming::Chunked,
            other => other,
        };
        self.state.keep.set(keep);
        let has_no_body = framing == BodyFraming::None;
        let status = self.head.status();
        let declared = has_no_body && status != 204 && status >= 200;
        Relay {
            framing,
            declared_length: if declared {
                self.head.content_length()
            } else {
                None
            },
            frame: Frame {
                method: self.seen.method,
                version: self.seen.version,
                keep,
            },
        }
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
