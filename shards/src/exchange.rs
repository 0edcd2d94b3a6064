//! One request to one origin and its answer, streamed both ways.
//!
//! Called by `serve` for the single-member path. Two halves run in one task: [`upload`] moves the request
//! body, [`download`] reads heads and moves the answer. Both wait on the client's watch only. Memory is a
//! buffer each way, whatever the bodies' size, and what is held of a request body to be sent again.
//!
//! Promises: what is sent again was never answered by a byte, and either not a byte of it was sent before or it
//! is idempotent; it goes to another member ([`tries`]), or on a fresh connection to the same one when a reused
//! one had died. A connection goes back to the peers only after a clean end on both sides.

mod compressed;
mod download;
mod form;
mod tries;
mod upload;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ringway_io::net::deadline::Watch;
use ringway_io::net::http1::write;
use ringway_io::net::stream::Written;

use crate::dispatch;
use crate::elsewhere;
use crate::fanout::Opened;
use crate::headers::{self, Claims, Hop, Outgoing};
use crate::metrics::Count;
use crate::passage::{Asked, Passage, Start, path_below};
use crate::peers::{Peer, PeerGroup};
use crate::plan::{Backend, BackendKind, Listener, Origin};
use crate::respond::{Failure, Fault};
use crate::rewrite::Draft;
use crate::serve::Client;
use crate::shard::{Shard, View};
use crate::tunnel;

use download::{ClientSide, Download, OriginSide, answering};
use tries::Tries;

pub(crate) use upload::Upload;

/// Who does what for whom.
pub(crate) struct Task<'a> {
    pub(crate) shard: &'a Rc<Shard>,
    pub(crate) view: &'a Rc<View>,
    pub(crate) listener: &'a Listener,
    /// The backend that answers.
    pub(crate) backend: &'a Arc<Backend>,
    /// How the request came to it.
    pub(crate) passage: &'a Passage<'a>,
    /// Bytes of the path that the route used up.
    pub(crate) strip: usize,
    /// When it ends at the latest, on the client's watch; `u64::MAX` where only the backend says.
    pub(crate) until: u64,
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

/// Sends the request to the task's backend and the answer to the client. When a member of an ALB fails it before a
/// byte of an answer came, another one gets it as far as [`Tries`] allows: the request goes again the way from
/// `start`.
pub(crate) async fn route(
    task: &Task<'_>,
    client: &mut Client,
    start: Start<'_, '_>,
) -> Result<(), Failure> {
    let mut tries = Tries::new(task, client, start.backend().id);
    let mut upload = match form::is_changed(task.passage, client) {
        false => Upload::begin(task.listener, client)?,
        // Boxed, like everything rare here: every connection's future would be larger.
        true => Box::pin(form::read(task, client, &tries)).await?,
    };
    upload.hold_up_to(tries.body_bytes_max());
    let mut other: Option<Box<(Rc<View>, Passage<'_>)>> = None;
    let result = loop {
        let now = match other.as_deref() {
            None => Task { ..*task },
            Some((view, passage)) => Task {
                view,
                backend: passage.backend(),
                passage,
                ..*task
            },
        };
        if upload.is_form() {
            Box::pin(upload.edit(now.passage, task.shard)).await;
        }
        let failure = match run(&now, client, &mut upload, &mut tries).await {
            Err(failure) => failure,
            result => break result,
        };
        let failed = (now.backend, now.passage.by_rule());
        let Some((view, way)) = tries.next(&failure, &upload.flow, failed) else {
            break Err(failure);
        };
        let mut passage = start.passage();
        let draft = passage.shared_draft();
        let asked = task.asked_through(client, draft.as_deref());
        if !Box::pin(dispatch::follow(task.view, &asked, &way, &mut passage)).await? {
            break Err(failure);
        }
        if form::is_changed(&passage, client) && !upload.become_form(client) {
            break Err(failure);
        }
        other = Some(Box::new((view, passage)));
    };
    if !upload.is_read() {
        client.state.keep.set(false);
    }
    result
}

impl Task<'_> {
    /// The client's request, to find the way of.
    pub(crate) fn asked<'c>(&'c self, client: &'c Client) -> Asked<'c> {
        self.asked_through(client, self.passage.draft())
    }

    /// As [`Task::asked`], for a way on which rewriters have made this of it.
    fn asked_through<'c>(&self, client: &'c Client, draft: Option<&'c Draft>) -> Asked<'c> {
        let received = (&client.head, &*client.head_text);
        match draft {
            None => {
                let path = path_below(client.head.path(&client.head_text), self.strip);
                Asked::of(received, path, client.tls)
            }
            Some(draft) => Asked {
                received,
                ..Asked::of(draft.text(), draft.path(), client.tls)
            },
        }
    }
}

async fn run<'a>(
    task: &Task<'_>,
    client: &mut Client,
    upload: &mut Upload,
    tries: &mut Tries<'a>,
) -> Result<(), Failure> {
    let BackendKind::Origin(own) = &task.backend.kind else {
        return Err(Failure::Internal);
    };
    let watch = client.watch.clone();
    let pace = Pace::until(&watch, tries.last_at(), task.listener.body_progress_timeout);
    pace.whole();
    // A client that leaves while its answer is made stops the exchange; one that still sends a body is
    // noticed by the body's own read.
    watch.watch_peer(true);
    client.state.blame.set(Fault::Upstream);
    let elsewhere = elsewhere::of((task.shard, task.view), (task.backend, own), task.passage)
        .await
        .inspect_err(|failure| {
            let cells = task.view.active.cells(task.backend.id);
            let said = failure.to_string();
            task.shard.note_origin(task.backend, cells, Some(&said));
        })?;
    let elsewhere = elsewhere.as_deref();
    let origin = elsewhere.map_or(&**own, |elsewhere| &elsewhere.origin);
    let peers = match elsewhere {
        Some(elsewhere) => (&elsewhere.peers, &*elsewhere.addresses),
        None => (
            task.view.active.peers(task.backend.id),
            &*task.view.table.backend(task.backend.id).addresses,
        ),
    };
    tries.begin(origin, peers.0);
    let mut request = task.shard.buffers.take();
    write_head(&mut request, task, origin, client, upload);
    let cells = task.view.active.cells(task.backend.id);
    client.state.asked.replace(Some(cells.clone()));
    let to = (origin, peers);
    let result = attempts(task, to, client, &pace, (upload, tries), &mut request).await;
    client.state.asked.take();
    task.shard.buffers.give(request);
    let (status, elapsed) = match &result {
        Ok(()) => (client.state.origin_status.get(), client.state.end()),
        Err(_) => (0, client.state.elapsed()),
    };
    let took = tries.took().unwrap_or(elapsed);
    cells.count_upstream(task.asked(client).head.method(), status, took);
    match &result {
        Ok(()) if elsewhere.is_some() => task.shard.note_origin(task.backend, cells, None),
        // Says nothing of the health of the backend's own origin.
        Err(failure) if elsewhere.is_some() && failure.fault() == Fault::Upstream => {
            task.shard
                .note_origin(task.backend, cells, Some(&failure.to_string()));
        }
        Ok(()) => {
            task.shard.note_origin(task.backend, cells, None);
            task.shard.note_reach(cells, false);
        }
        Err(failure) if failure.fault() == Fault::Upstream => {
            task.shard
                .note_origin(task.backend, cells, Some(&failure.to_string()));
            if failure.is_of_transport() {
                task.shard.note_reach(cells, true);
            }
        }
        Err(_) => {}
    }
    result
}

/// What an origin is told of the client.
pub(crate) fn hop<'a>(task: &Task<'a>, client: &'a Client) -> Hop<'a> {
    Hop {
        received: (&client.head, &client.head_text),
        server: &task.view.active.server,
        client: &client.sender,
        client_tls: client.tls,
        claims: Claims::of(
            task.listener.trusted_proxies.as_deref(),
            client.conn.peer().ip(),
        ),
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
    let asked = task.asked(client);
    let (head, bytes) = (asked.head, asked.bytes);
    let hop = hop(task, client);
    let query = task.passage.query(asked.query);
    let asks = Outgoing {
        method: head.method_text(bytes),
        path: asked.path,
        query: query.as_deref(),
        framing: upload.framing(),
        upgrade: headers::offers_upgrade(head, bytes),
        expect_continue: head.expect_continue() && !upload.is_read(),
        remade: None,
        passage: task.passage,
    };
    headers::request(request, (head, bytes), origin, &hop, &asks);
}

/// Sends the head in `request` and the body; once more on a fresh connection where a reused one had died.
async fn attempts(
    task: &Task<'_>,
    (origin, (peers, addresses)): (&Origin, (&Rc<PeerGroup>, &[SocketAddr])),
    client: &mut Client,
    pace: &Pace<'_>,
    (upload, tries): (&mut Upload, &Tries<'_>),
    request: &mut Vec<u8>,
) -> Result<(), Failure> {
    let head_len = request.len();
    let mut fresh = false;
    let (peer, end) = loop {
        let idle = match fresh {
            false => peers.reuse(addresses),
            true => None,
        };
        let mut peer = match idle {
            Some(peer) => peer,
            None => {
                let acquire = pin!(async {
                    match fresh {
                        false => peers.acquire(origin, addresses).await,
                        true => peers.acquire_fresh(origin, addresses).await,
                    }
                });
                tries.patiently(&upload.flow, acquire).await??
            }
        };
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
            // It has answered: a tunnel that nobody uses any more is no failure.
            client.state.asked.take();
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
    let sides = (ClientSide::of(client), OriginSide::of(peer));
    let mut download = Download::new(task, pace, Some((tries, flow)), sides);
    let answer = pin!(answering(&mut download));
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
    let Client {
        conn,
        inbox,
        head,
        head_text,
        state,
        clock,
        ..
    } = client;
    let mut body = pin!(source.run(
        flow,
        (inbox, &mut conn.reader, &mut peer.conn.writer),
        (state, pace, tries),
    ));
    let result = {
        let client = ClientSide {
            state,
            clock,
            request: (head, head_text),
            writer: &mut conn.writer,
        };
        let origin = OriginSide {
            reader: &mut peer.conn.reader,
            inbox: &mut peer.inbox,
            head: &mut peer.head,
        };
        let mut download = Download::new(task, pace, Some((tries, flow)), (client, origin));
        let moving = pin!(both(body.as_mut(), answering(&mut download)));
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
    let sides = (ClientSide::of(client), OriginSide::of(peer));
    let mut download = Download::new(task, pace, None, sides);
    let mut answering = pin!(download.answer(*head_len, true));
    let end = sending.beside(answering.as_mut()).await?;
    Ok(matches!(end, End::Clean))
}
