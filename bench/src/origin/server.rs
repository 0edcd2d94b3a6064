//! The event loop of the origin.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::clock::{nanos, timespec};
use crate::fixtures::{RangeAnswer, SMALL_BODY};
use crate::http::{Request, RequestReader};

/// Largest answer of `/bytes/N`.
pub const BYTES_MAX: usize = 64 << 20;
/// Answers of different sizes that are kept; more are made again each time.
pub const ANSWERS_HELD_MAX: usize = 64;
/// Bytes read at once, into the buffer all connections share.
const SCRATCH_BYTES: usize = 64 * 1024;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// The token of the listener; connections have their index.
const LISTENER: u64 = u64::MAX;

/// A whole answer, head and body.
type Bytes = Rc<[u8]>;

/// A bound origin.
pub struct Origin {
    listener: TcpListener,
    epoll: OwnedFd,
    connections: Vec<Option<Connection>>,
    vacant: Vec<usize>,
    answers: Answers,
    requests: Vec<Request>,
    delay: Duration,
    /// Answers whose time has not come, the next one first.
    held: VecDeque<Held>,
    /// Connections accepted so far.
    accepted: u64,
}

/// An answer that waits for its time.
struct Held {
    due: Instant,
    at: usize,
    connection: u64,
    answer: Bytes,
}

struct Connection {
    id: u64,
    /// Answers of its requests that are held.
    held: usize,
    stream: TcpStream,
    reader: RequestReader,
    /// What is still to be written, oldest first, and how much of the first is.
    outgoing: VecDeque<Bytes>,
    written: usize,
    closes: bool,
    watches_write: bool,
}

impl Origin {
    /// Binds and prepares the answers.
    pub fn bind(listen: SocketAddr, number: usize) -> Result<Self> {
        let listener =
            TcpListener::bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
        listener
            .set_nonblocking(true)
            .context("cannot make the listener non-blocking")?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("cannot create an epoll")?;
        epoll::add(
            &epoll,
            &listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )
        .context("cannot watch the listener")?;
        Ok(Self {
            listener,
            epoll,
            connections: Vec::new(),
            vacant: Vec::new(),
            answers: Answers::new(number),
            requests: Vec::new(),
            delay: Duration::ZERO,
            held: VecDeque::new(),
            accepted: 0,
        })
    }

    /// Answers after `delay`.
    #[must_use]
    pub fn delayed(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener
            .local_addr()
            .context("the listener has no address")
    }

    /// Serves until the process ends; returns only with an error.
    pub fn serve(mut self) -> Result<std::convert::Infallible> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let mut scratch = vec![0; SCRATCH_BYTES];
        loop {
            events.clear();
            let first = self.held.front();
            let wait = first.map(|held| held.due.saturating_duration_since(Instant::now()));
            let wait = wait.map(|wait| timespec(nanos(wait)));
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                wait.as_ref(),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for events"),
            }
            for event in events.drain(..) {
                let token = event.data;
                if token.u64() == LISTENER {
                    self.accept()?;
                    continue;
                }
                let at = usize::try_from(token.u64()).expect("tokens of sockets are indexes");
                let lives = self.ready(at, &mut scratch)?;
                self.keep(at, lives);
            }
            self.let_go()?;
        }
    }

    /// Drops a connection that does not live on.
    fn keep(&mut self, at: usize, lives: bool) {
        if !lives {
            self.connections[at] = None;
            self.vacant.push(at);
        }
    }

    /// Sends the answers whose time has come.
    fn let_go(&mut self) -> Result<()> {
        let now = Instant::now();
        while let Some(held) = self.held.pop_front_if(|held| held.due <= now) {
            let Some(connection) = &mut self.connections[held.at] else {
                continue;
            };
            if connection.id == held.connection {
                connection.held -= 1;
                connection.outgoing.push_back(held.answer);
                let lives = self.send(held.at)?;
                self.keep(held.at, lives);
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("cannot accept"),
            };
            stream
                .set_nonblocking(true)
                .context("cannot make a socket non-blocking")?;
            stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
            let at = self.vacant.pop().unwrap_or(self.connections.len());
            epoll::add(
                &self.epoll,
                &stream,
                EventData::new_u64(at as u64),
                EventFlags::IN,
            )
            .context("cannot watch a socket")?;
            self.accepted += 1;
            let connection = Some(Connection::new(stream, self.accepted));
            match self.connections.get_mut(at) {
                Some(slot) => *slot = connection,
                None => self.connections.push(connection),
            }
        }
    }

    /// Handles an event of a connection. Returns whether it lives on.
    fn ready(&mut self, at: usize, scratch: &mut [u8]) -> Result<bool> {
        let Some(connection) = &mut self.connections[at] else {
            return Ok(true);
        };
        if connection.outgoing.is_empty() {
            if !connection.read(scratch, &mut self.requests) {
                return Ok(false);
            }
            for request in self.requests.drain(..) {
                connection.closes |= request.close;
                let answer = self.answers.of(&request);
                if self.delay.is_zero() {
                    connection.outgoing.push_back(answer);
                    continue;
                }
                connection.held += 1;
                self.held.push_back(Held {
                    due: Instant::now() + self.delay,
                    at,
                    connection: connection.id,
                    answer,
                });
            }
        }
        self.send(at)
    }

    /// Writes what can be written. Returns whether the connection lives on.
    fn send(&mut self, at: usize) -> Result<bool> {
        let Some(connection) = &mut self.connections[at] else {
            return Ok(true);
        };
        if !connection.write() {
            return Ok(false);
        }
        // While an answer is stuck, only room to write matters: that is the backpressure.
        let wants_write = !connection.outgoing.is_empty();
        if connection.watches_write != wants_write {
            connection.watches_write = wants_write;
            let flags = if wants_write {
                EventFlags::OUT
            } else {
                EventFlags::IN
            };
            epoll::modify(
                &self.epoll,
                &connection.stream,
                EventData::new_u64(at as u64),
                flags,
            )
            .context("cannot watch a socket")?;
        }
        Ok(wants_write || connection.held > 0 || !connection.closes)
    }
}

/// Most bytes of one write. A system call is not interrupted where the kernel is built without preemption, so
/// that megabytes in one call keep the generator, on the same CPU, from running for milliseconds.
const WRITE_BYTES_MAX: usize = 64 * 1024;

impl Connection {
    fn new(stream: TcpStream, id: u64) -> Self {
        Self {
            id,
            held: 0,
            stream,
            reader: RequestReader::default(),
            outgoing: VecDeque::new(),
            written: 0,
            closes: false,
            watches_write: false,
        }
    }

    /// Reads once. Returns whether the connection is alive.
    fn read(&mut self, scratch: &mut [u8], requests: &mut Vec<Request>) -> bool {
        match self.stream.read(scratch) {
            Ok(0) => false,
            Ok(count) => self.reader.feed(&scratch[..count], requests).is_ok(),
            Err(error) => {
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
            }
        }
    }

    /// Writes what the socket takes. Returns whether the connection is alive.
    fn write(&mut self) -> bool {
        while let Some(answer) = self.outgoing.front() {
            let end = answer.len().min(self.written + WRITE_BYTES_MAX);
            match self.stream.write(&answer[self.written..end]) {
                Ok(count) if self.written + count == answer.len() => {
                    self.outgoing.pop_front();
                    self.written = 0;
                }
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// The prepared answers.
struct Answers {
    small: Bytes,
    range: Bytes,
    missing: Bytes,
    sized: HashMap<usize, Bytes>,
}

impl Answers {
    fn new(number: usize) -> Self {
        let range = RangeAnswer::EIGHT_MB.of_origin(number).json();
        Self {
            small: answer("200 OK", "application/json", SMALL_BODY),
            range: answer("200 OK", "application/json", range.as_bytes()),
            missing: answer(
                "404 Not Found",
                "text/plain",
                b"ask for /bytes/N, N up to 67108864\n",
            ),
            sized: HashMap::new(),
        }
    }

    fn of(&mut self, request: &Request) -> Bytes {
        let path = request.target.split('?').next().unwrap_or_default();
        let whole = match path.strip_prefix("/bytes/") {
            Some(count) => self.sized(count),
            None if path == "/api/v1/query_range" => self.range.clone(),
            None => self.small.clone(),
        };
        if !request.head_only {
            return whole;
        }
        let head_end = whole.windows(4).position(|four| four == b"\r\n\r\n");
        Rc::from(&whole[..head_end.map_or(whole.len(), |at| at + 4)])
    }

    fn sized(&mut self, count: &str) -> Bytes {
        let Some(count) = count.parse().ok().filter(|count| *count <= BYTES_MAX) else {
            return self.missing.clone();
        };
        if let Some(held) = self.sized.get(&count) {
            return held.clone();
        }
        let made = answer("200 OK", "application/octet-stream", &vec![b'x'; count]);
        if self.sized.len() < ANSWERS_HELD_MAX {
            self.sized.insert(count, made.clone());
        }
        made
    }
}

fn answer(status: &str, content_type: &str, body: &[u8]) -> Bytes {
    let head = format!(
        "HTTP/1.1 {status}\r\nServer: ringway-origin\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut whole = head.into_bytes();
    whole.extend_from_slice(body);
    Rc::from(whole)
}
