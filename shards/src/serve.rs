//! One client connection: heads in, answers out, keep-alive, deadlines.
//!
//! A connection is one task. Everything it waits for runs inside one guard of its watch, so a passed deadline
//! or a vanished client drops the exchange in progress, sockets included; what remains is to say a last word
//! where nothing was said yet, and to close.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ringway_io::buffer::Inbox;
use ringway_io::net::deadline::{Tripped, Watch};
use ringway_io::net::http1::{BodyFraming, Method, Parsed, RequestHead, Version};
use ringway_io::net::listen::Incoming;
use ringway_io::net::stream::Conn;

use crate::accept::Door;
use crate::authenticate;
use crate::clock::Clock;
use crate::dispatch::{self, Routed, Terminal, Way};
use crate::exchange::{self, Upload};
use crate::headers::Sender;
use crate::latency;
use crate::limits::{LINGER_BYTES_MAX, LINGER_TIME, head_limits};
use crate::mechanism::{self, time_series_merge};
use crate::metrics::{BackendCells, Count};
use crate::passage::{Asked, Front, Passage, path_below};
use crate::plan::{BackendId, Latency, Listener, PathRule};
use crate::reply;
use crate::respond::{self, Answer, Failure, Fault, Frame};
use crate::shard::{Active, Shard, View};

/// Least free space a read of a head is given.
const HEAD_READ_BYTES: usize = 2 * 1024;

/// An idle connection keeps the buffer of its last head up to this size.
const IDLE_HEAD_BYTES_MAX: usize = 4 * 1024;

/// A client connection and what is known of its exchange in progress.
pub(crate) struct Client {
    pub(crate) conn: Conn,
    pub(crate) inbox: Inbox,
    pub(crate) head: RequestHead,
    /// The bytes of `head`.
    pub(crate) head_text: Vec<u8>,
    pub(crate) watch: Rc<Watch>,
    pub(crate) state: State,
    pub(crate) clock: Rc<Clock>,
    pub(crate) sender: Sender,
    /// It came over TLS.
    pub(crate) tls: bool,
}

/// What the last words depend on, readable while the exchange borrows the rest.
pub(crate) struct State {
    /// What is being waited for.
    pub(crate) phase: Cell<Phase>,
    /// Who is waited for, should time run out.
    pub(crate) blame: Cell<Fault>,
    /// The connection may carry another request after this one.
    pub(crate) keep: Cell<bool>,
    /// The connection may be read from.
    readable: Cell<bool>,
    /// The request's body has been read to its end.
    pub(crate) body_read: Cell<bool>,
    /// Status of the answer as sent, for the metrics.
    pub(crate) status: Cell<u16>,
    /// Status of the origin's answer, which a rule may have replaced.
    pub(crate) origin_status: Cell<u16>,
    /// Body bytes written to the client.
    pub(crate) written: Cell<u64>,
    started: Cell<Option<Instant>>,
    /// How long it has taken, once its answer is out.
    took: Cell<Option<Duration>>,
    /// Counters of the origin that is being asked, should time run out.
    pub(crate) asked: RefCell<Option<Rc<BackendCells>>>,
    /// The first backend of the request, until the exchange is counted.
    entry: RefCell<Option<Entry>>,
}

/// The backend that a route led to, and its rule: what the client speaks to.
struct Entry {
    active: Rc<Active>,
    backend: BackendId,
    /// Index of the rule; `None` when no path of the backend fits.
    rule: Option<usize>,
    /// The pause that was made.
    latency: Option<Duration>,
}

impl Entry {
    fn rule(&self) -> Option<&PathRule> {
        let paths = &self.active.plan.backend(self.backend).paths;
        self.rule.and_then(|index| paths.get(index))
    }

    /// How answers of ringway's own are changed.
    fn front(&self) -> Front<'_> {
        Front {
            latency: self.latency,
            ..self.rule().map(Front::of).unwrap_or_default()
        }
    }
}

/// How far the exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No byte of a request is here.
    Idle,
    /// A head has begun.
    Head,
    /// A request is being answered, and no byte of the answer was sent.
    Request,
    /// The answer has begun.
    Answer,
}

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    Close,
}

/// Serves one connection to its end.
pub(crate) async fn connection(shard: &Rc<Shard>, door: &Rc<Door>, incoming: Incoming) {
    let watch = Rc::new(shard.dog.watch(incoming.fd()));
    watch.set_owner(door.owner);
    let Some(conn) = open(shard, door, incoming, &watch).await else {
        door.cells.failed.bump();
        return;
    };
    let mut client = Client {
        inbox: Inbox::new(&shard.buffers),
        head: RequestHead::new(),
        head_text: Vec::new(),
        state: State {
            phase: Cell::new(Phase::Idle),
            blame: Cell::new(Fault::Client),
            keep: Cell::new(true),
            readable: Cell::new(true),
            body_read: Cell::new(false),
            status: Cell::new(0),
            origin_status: Cell::new(0),
            written: Cell::new(0),
            started: Cell::new(None),
            took: Cell::new(None),
            asked: RefCell::default(),
            entry: RefCell::new(None),
        },
        clock: shard.clock.clone(),
        sender: Sender::at(conn.0.peer().ip()),
        tls: conn.1,
        conn: conn.0,
        watch: watch.clone(),
    };
    let mut first = true;
    loop {
        let done = watch
            .guard(pin!(requests(shard, door, &mut client, first)))
            .await;
        first = false;
        let Err(why) = done else { return };
        if interrupted(shard, door, &mut client, why).await == Next::Close {
            return;
        }
    }
}

/// Shakes hands where the listener wants it.
async fn open(
    shard: &Shard,
    door: &Door,
    incoming: Incoming,
    watch: &Watch,
) -> Option<(Conn, bool)> {
    let view = door.view(shard)?;
    let listener = door.listener(&view)?;
    watch.arm(listener.read_header_timeout);
    match &listener.tls {
        None => Some((incoming.plain(), false)),
        Some(settings) => match watch.guard(pin!(incoming.tls(settings))).await {
            Ok(Ok(conn)) => Some((conn, true)),
            Ok(Err(_)) | Err(_) => None,
        },
    }
}

/// Answers requests until one of them is the last.
async fn requests(shard: &Rc<Shard>, door: &Rc<Door>, client: &mut Client, mut first: bool) {
    loop {
        match read_head(shard, door, client, first).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(failure) => {
                shard.cells.bad_requests.bump();
                door.cells.failed.bump();
                say(client, &failure, Frame::refusal()).await;
                return;
            }
        }
        first = false;
        let started = Instant::now();
        client.state.begin(started);
        // The next request on an open connection sees the new plan (decisions, 30).
        let Some(view) = door.view(shard) else { return };
        let Some(listener) = door.listener(&view) else {
            return;
        };
        client
            .state
            .keep
            .set(client.head.keep_alive() && door.is_open() && !shard.dog.stopping());
        let next = one(shard, &view, listener, client).await;
        client.watch.watch_peer(false);
        if next == Next::Close || !client.state.keep.get() {
            linger(client).await;
            return;
        }
    }
}

/// Reads up to the end of a head, and takes it; false when the client closed instead.
async fn read_head(
    shard: &Shard,
    door: &Door,
    client: &mut Client,
    first: bool,
) -> Result<bool, Failure> {
    let limits = head_limits();
    let Some(view) = door.view(shard) else {
        return Ok(false);
    };
    let Some(listener) = door.listener(&view) else {
        return Ok(false);
    };
    let header_limit = listener.read_header_timeout;
    let mut idle_limit = listener.idle_timeout;
    if !door.is_open() {
        // One more request is answered, but not waited for as long.
        idle_limit = idle_limit.min(LINGER_TIME);
    }
    drop(view);
    client.state.phase.set(Phase::Idle);
    client.state.blame.set(Fault::Client);
    if client.inbox.is_empty() {
        client
            .watch
            .arm(if first { header_limit } else { idle_limit });
        client.watch.set_idle(true);
        client.inbox.release();
        if client.head_text.capacity() > IDLE_HEAD_BYTES_MAX {
            client.head_text = Vec::new();
        }
        let count = client
            .inbox
            .fill(&mut client.conn.reader, HEAD_READ_BYTES)
            .await;
        client.watch.set_idle(false);
        if !matches!(count, Ok(1..)) {
            return Ok(false);
        }
    }
    client.state.phase.set(Phase::Head);
    client.watch.arm(header_limit);
    loop {
        if let Parsed::Complete(len) = client.head.parse(client.inbox.bytes(), &limits)? {
            client.take_head(len);
            return Ok(true);
        }
        let count = client
            .inbox
            .fill(&mut client.conn.reader, HEAD_READ_BYTES)
            .await;
        if !matches!(count, Ok(1..)) {
            return Ok(false);
        }
    }
}

/// Answers one request.
async fn one(shard: &Rc<Shard>, view: &Rc<View>, listener: &Listener, client: &mut Client) -> Next {
    let bytes = client.head_text.as_slice();
    if !listener.ping_path.is_empty() && client.head.path(bytes) == listener.ping_path.as_bytes() {
        return pong(client).await;
    }
    let routed = match dispatch::route(listener, &client.head, bytes) {
        Ok(routed) => routed,
        Err(failure) => {
            shard.cells.unrouted.bump();
            return refuse(client, &failure).await;
        }
    };
    *client.state.entry.borrow_mut() = Some(Entry {
        active: view.active.clone(),
        backend: routed.backend,
        rule: None,
        latency: None,
    });
    let result = answer(shard, view, listener, client, routed).await;
    let next = match result {
        Ok(()) => Next::Continue,
        Err(failure) => failed(client, &failure).await,
    };
    drop(client.state.count(client.head.method()));
    next
}

async fn answer(
    shard: &Rc<Shard>,
    view: &Rc<View>,
    listener: &Listener,
    client: &mut Client,
    routed: Routed,
) -> Result<(), Failure> {
    let entry = view.active.plan.backend(routed.backend);
    let mut passage = Passage::at(entry);
    if let Some(latency) = entry.latency {
        passage.latency = Some(pause(client, latency).await);
    }
    let asked = Asked::of(
        (&client.head, &client.head_text),
        path_below(client.head.path(&client.head_text), routed.strip),
        client.tls,
    );
    // For a password that has to be checked, and for what is said when nobody is asked; an exchange sets deadlines of
    // its own.
    client.watch.arm(authenticate::WAIT_MAX);
    let arrived = match dispatch::resolve(view, &asked, &mut passage) {
        Ok(Way::Ends(terminal)) => Ok(terminal),
        Ok(Way::Asks(authenticator)) => {
            // For as long as the client waits.
            client.watch.watch_peer(true);
            let judged = dispatch::go_on(view, authenticator, &asked, &mut passage);
            let arrived = Box::pin(judged).await;
            client.watch.watch_peer(false);
            arrived
        }
        Err(failure) => Err(failure),
    };
    client.state.entered(passage.entry());
    if passage.dropped_rewrites() > 0 {
        let dropped = &view.active.cells(routed.backend).dropped_rewrites;
        dropped.set(dropped.get() + u64::from(passage.dropped_rewrites()));
    }
    let task = exchange::Task {
        shard,
        view,
        listener,
        backend: passage.backend(),
        passage: &passage,
        strip: routed.strip,
        until: u64::MAX,
    };
    match arrived {
        Ok(Terminal::Origin(backend)) => {
            if backend.id == routed.backend {
                view.active.cells(backend.id).selected.bump();
            }
            exchange::route(&task, client, passage.restart(None)).await
        }
        // Boxed, like everything rare: a connection's future is as large as its largest branch.
        Ok(Terminal::Merge(_)) => Box::pin(time_series_merge::run(&task, client)).await,
        Ok(Terminal::Choice(_)) => Box::pin(mechanism::run(&task, client)).await,
        Ok(Terminal::Local(local)) => Box::pin(reply::local(&task, client, local)).await,
        Err(failure) => {
            leave_rest_of_body(listener, client)?;
            Err(failure)
        }
    }
}

/// Waits as long as the backend pretends to need.
async fn pause(client: &Client, latency: Latency) -> Duration {
    let pause = Box::pin(latency::pause(latency, &client.watch)).await;
    if let Some(entry) = client.state.entry.borrow_mut().as_mut() {
        entry.latency = Some(pause);
    }
    pause
}

/// Before an answer for which the body is not waited for: the connection goes on only when all of it is here.
pub(crate) fn leave_rest_of_body(listener: &Listener, client: &mut Client) -> Result<(), Failure> {
    let unread = !Upload::begin(listener, client)?.is_done();
    client.state.keep.set(client.state.keep.get() && !unread);
    Ok(())
}

async fn pong(client: &mut Client) -> Next {
    client.leave_body_unread();
    let allowed = matches!(client.head.method(), Method::Get | Method::Head);
    let answer = if allowed {
        Answer {
            status: 200,
            content_type: Some("text/plain"),
            extra: &[("Cache-Control", b"no-cache")],
            body: b"pong",
        }
    } else {
        Answer {
            status: 405,
            content_type: None,
            extra: &[("Allow", b"GET, HEAD")],
            body: b"",
        }
    };
    let mut out = Vec::with_capacity(256);
    let date = client.clock.date();
    let front = Front::default();
    respond::local(&mut out, &answer, (client.frame(), &date), &front);
    send(client, out).await
}

/// Answers a request that goes nowhere; its body is not read, so the connection ends.
async fn refuse(client: &mut Client, failure: &Failure) -> Next {
    client.leave_body_unread();
    let out = failure_text(client, failure, client.frame(), &Front::default());
    send(client, out).await
}

fn failure_text(client: &Client, failure: &Failure, frame: Frame, front: &Front<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    respond::failure(&mut out, failure, (frame, &client.clock.date()), front);
    out
}

/// Turns a failed exchange into an answer, or into a reset where an answer had begun.
async fn failed(client: &mut Client, failure: &Failure) -> Next {
    if client.state.phase.get() == Phase::Answer {
        client.conn.reset_on_close();
        client.state.keep.set(false);
        return Next::Close;
    }
    client.state.status.set(failure.status());
    if matches!(failure, Failure::ClientGone) {
        return Next::Close;
    }
    if failure.ends_connection() {
        client.state.keep.set(false);
    } else if !client.state.body_read.get() {
        client.leave_body_unread();
    }
    let out = {
        let entry = client.state.entry.borrow();
        let front = entry.as_ref().map(Entry::front).unwrap_or_default();
        failure_text(client, failure, client.frame(), &front)
    };
    send(client, out).await
}

async fn send(client: &mut Client, out: Vec<u8>) -> Next {
    client.state.phase.set(Phase::Answer);
    match client.conn.writer.write_all(out).await.0 {
        Ok(()) => Next::Continue,
        Err(_) => Next::Close,
    }
}

/// After a trip: the answer where none was begun. The connection goes on only when it was the origin that was
/// waited for and the client's request is wholly read: then nothing of the client was in flight.
async fn interrupted(shard: &Shard, door: &Door, client: &mut Client, why: Tripped) -> Next {
    let failure = Failure::tripped(why, client.state.blame.get());
    let asked = client.state.asked.take();
    if let (Some(cells), Failure::UpstreamTimeout) = (asked, &failure) {
        shard.note_reach(&cells, true);
    }
    let phase = client.state.phase.get();
    if phase == Phase::Request {
        client.state.status.set(failure.status());
    }
    let entry = client.state.count(client.head.method());
    match phase {
        Phase::Idle => return Next::Close,
        Phase::Answer => {
            client.conn.reset_on_close();
            return Next::Close;
        }
        Phase::Head => door.cells.failed.bump(),
        Phase::Request => {}
    }
    if matches!(failure, Failure::ClientGone) {
        shard.cells.client_cancels.bump();
        return Next::Close;
    }
    let watch = client.watch.clone();
    watch.reset();
    watch.watch_peer(false);
    watch.arm(LINGER_TIME);
    let goes_on = matches!(failure, Failure::UpstreamTimeout)
        && client.state.body_read.get()
        && client.state.keep.get()
        && door.is_open();
    let frame = if goes_on {
        client.frame()
    } else {
        Frame::refusal()
    };
    let words = async {
        if goes_on {
            let front = entry.as_ref().map(Entry::front).unwrap_or_default();
            let out = failure_text(client, &failure, frame, &front);
            return send(client, out).await;
        }
        // A TLS stream whose read was dropped half-way cannot be read again.
        client.state.readable.set(!client.tls);
        say(client, &failure, frame).await;
        Next::Close
    };
    watch.guard(pin!(words)).await.unwrap_or(Next::Close)
}

/// Sends a failure and closes.
async fn say(client: &mut Client, failure: &Failure, frame: Frame) {
    let out = failure_text(client, failure, frame, &Front::default());
    client.state.keep.set(false);
    if client.conn.writer.write_all(out).await.0.is_ok() {
        linger(client).await;
    }
}

/// Closes so that the client can still read the answer: a close with unread bytes would reset it away.
async fn linger(client: &mut Client) {
    client.watch.arm(LINGER_TIME);
    client.state.phase.set(Phase::Idle);
    if client.conn.writer.shutdown().await.is_err() {
        return;
    }
    let mut seen = client.inbox.bytes().len();
    client.inbox.consume(seen);
    while client.state.readable.get() && seen < LINGER_BYTES_MAX {
        match client
            .inbox
            .fill(&mut client.conn.reader, HEAD_READ_BYTES)
            .await
        {
            Ok(count @ 1..) => seen += count,
            _ => return,
        }
        let here = client.inbox.bytes().len();
        client.inbox.consume(here);
    }
}

impl Client {
    /// Moves the head that was just parsed out of the inbox: what follows there is body, or the next request.
    fn take_head(&mut self, len: usize) {
        self.head_text.clear();
        self.head_text.extend_from_slice(&self.inbox.bytes()[..len]);
        self.inbox.consume(len);
    }

    /// A request whose body nobody reads is the connection's last.
    fn leave_body_unread(&self) {
        if !matches!(
            self.head.framing(),
            BodyFraming::None | BodyFraming::Length(0)
        ) {
            self.state.keep.set(false);
        }
    }

    /// What surrounds an answer of ours to the request in progress.
    pub(crate) fn frame(&self) -> Frame {
        Frame {
            method: self.head.method(),
            version: self.head.version(),
            keep: self.state.keep.get(),
        }
    }
}

impl State {
    fn begin(&self, started: Instant) {
        self.phase.set(Phase::Request);
        self.blame.set(Fault::Upstream);
        self.body_read.set(false);
        self.status.set(0);
        self.origin_status.set(0);
        self.written.set(0);
        self.started.set(Some(started));
        self.took.set(None);
    }

    /// The answer is out, and the exchange takes no more time. Returns how long it has taken.
    pub(crate) fn end(&self) -> Duration {
        let took = self.elapsed();
        self.took.set(Some(took));
        took
    }

    /// How long the exchange has taken.
    pub(crate) fn elapsed(&self) -> Duration {
        if let Some(took) = self.took.get() {
            return took;
        }
        self.started
            .get()
            .map(|started| started.elapsed())
            .unwrap_or_default()
    }

    /// The rule of the first backend is known.
    fn entered(&self, rule: Option<usize>) {
        if let Some(entry) = self.entry.borrow_mut().as_mut() {
            entry.rule = rule;
        }
    }

    /// Counts the exchange once, under the backend its route led to.
    fn count(&self, method: Method) -> Option<Entry> {
        let entry = self.entry.borrow_mut().take()?;
        let rule = entry.rule();
        if rule.is_none_or(|rule| rule.counted) {
            entry.active.cells(entry.backend).count_frontend(
                rule.map_or("", |rule| &rule.label),
                (method, self.status.get()),
                self.elapsed(),
                self.written.get(),
            );
        }
        Some(entry)
    }
}

impl Frame {
    /// An answer after which the connection closes, to a head that could not be read.
    fn refusal() -> Frame {
        Frame {
            method: Method::Other,
            version: Version::Http11,
            keep: false,
        }
    }
}
