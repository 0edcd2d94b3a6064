//! The event loop of the load generator.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::connection::{Connection, Progress, State};
use super::pace::Pace;
use super::recorder::{Failure, Offer, Recorder, Sent};
use super::{Options, Summary};
use crate::clock::{SECOND_NS, nanos, now_ns, timespec};

/// Bytes read at once, and the buffer all connections share.
const SCRATCH_BYTES: usize = 256 * 1024;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// How often time-outs and reconnects are looked at.
const TICK_NS: u64 = SECOND_NS / 20;
/// A lost connection is made anew after this.
const RETRY_NS: u64 = SECOND_NS / 10;
/// The token of the timer; connections have their index.
const TIMER: u64 = u64::MAX;
/// Stands for a timer that rang and has not been set since.
const TIMER_RANG: u64 = u64::MAX;

/// Offers the load and returns what it found.
pub fn run(options: &Options) -> Result<Summary> {
    let mut engine = Engine::new(options)?;
    engine.connect_all()?;
    let start_ns = now_ns();
    let from_ns = start_ns + nanos(options.warmup);
    let end_ns = from_ns + nanos(options.duration);
    let offer = Offer {
        url: options.target.url.clone(),
        connections: options.connections,
        rate: options.rate,
        expected_interval_ns: options.expected_interval.map(nanos),
    };
    let pace = options.rate.map(|rate| Pace::new(start_ns, end_ns, rate));
    let mut phase = Run {
        recorder: Recorder::new(from_ns..end_ns, offer),
        pace,
        end_ns,
    };
    engine.drive(&mut phase)?;
    Ok(phase.recorder.finish())
}

/// What belongs to the measured run, apart from the sockets.
struct Run {
    recorder: Recorder,
    pace: Option<Pace>,
    end_ns: u64,
}

struct Engine {
    address: std::net::SocketAddr,
    request: Vec<u8>,
    timeout_ns: u64,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer is set to ring; 0 when it is not.
    timer_ns: u64,
    connections: Vec<Connection>,
    /// Indexes of idle connections, the longest idle at the front.
    idle: std::collections::VecDeque<usize>,
    scratch: Vec<u8>,
}

impl Engine {
    fn new(options: &Options) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("cannot create an epoll")?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, flags).context("cannot create a timer")?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)
            .context("cannot watch the timer")?;
        let head_only = options.method.as_deref() == Some("HEAD");
        Ok(Self {
            address: options.target.resolve()?,
            request: request_bytes(options)?,
            timeout_ns: nanos(options.timeout),
            epoll,
            timer,
            timer_ns: 0,
            connections: (0..options.connections)
                .map(|_| Connection::new(head_only))
                .collect(),
            idle: std::collections::VecDeque::with_capacity(options.connections),
            scratch: vec![0; SCRATCH_BYTES],
        })
    }

    /// Makes all connections before the clock starts, so that no request pays for that.
    fn connect_all(&mut self) -> Result<()> {
        let give_up_ns = now_ns() + self.timeout_ns.min(5 * SECOND_NS);
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while self.idle.len() < self.connections.len() {
            let now = now_ns();
            if now > give_up_ns {
                let (made, of) = (self.idle.len(), self.connections.len());
                bail!(
                    "only {made} of {of} connections to {} could be made",
                    self.address
                );
            }
            self.dial(now)?;
            self.wait(&mut events, TICK_NS)?;
            for event in events.drain(..) {
                let now = now_ns();
                let at = index(event);
                match self.connections[at].ready(&mut self.scratch, &self.request, now) {
                    Progress::Connected => self.free(at)?,
                    Progress::Lost(_, _) => self.connections[at].down(now + RETRY_NS),
                    Progress::Waiting | Progress::Answered(_, _) => {}
                }
            }
        }
        Ok(())
    }

    fn drive(&mut self, run: &mut Run) -> Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut tick_ns = 0;
        loop {
            let now = now_ns();
            self.send_due(run, now)?;
            if now >= tick_ns {
                self.tick(run, now)?;
                tick_ns = now + TICK_NS;
            }
            if now >= run.end_ns && (now >= run.end_ns + self.timeout_ns || self.is_done(run)) {
                self.finish(run, now);
                return Ok(());
            }
            self.arm(run)?;
            let until_end = if now < run.end_ns {
                run.end_ns - now
            } else {
                TICK_NS
            };
            self.wait(&mut events, until_end.min(TICK_NS))?;
            for event in events.drain(..) {
                let token = event.data;
                if token.u64() == TIMER {
                    // Level-triggered: setting it anew, or off, is what quiets it.
                    self.timer_ns = TIMER_RANG;
                    continue;
                }
                self.handle(run, index(event))?;
                if run.pace.is_some() {
                    self.send_due(run, now_ns())?;
                }
            }
        }
    }

    /// Sends what is due on the connections that are free.
    fn send_due(&mut self, run: &mut Run, now: u64) -> Result<()> {
        while let Some(&at) = self.idle.front() {
            let due_ns = match &mut run.pace {
                Some(pace) => pace.take(now),
                None => (now < run.end_ns).then_some(now),
            };
            let Some(due_ns) = due_ns else { return Ok(()) };
            self.idle.pop_front();
            let State::Idle { free_ns } = self.connections[at].state else {
                unreachable!("only idle connections are listed as idle")
            };
            let sent = Sent {
                due_ns,
                sent_ns: now_ns(),
                free_ns,
            };
            let progress = self.connections[at].send(sent, &self.request);
            self.settle(run, at, progress, now)?;
        }
        Ok(())
    }

    fn handle(&mut self, run: &mut Run, at: usize) -> Result<()> {
        // The wake-up may have brought several events: each gets the time it is read at.
        let progress = self.connections[at].ready(&mut self.scratch, &self.request, now_ns());
        self.settle(run, at, progress, now_ns())
    }

    fn settle(&mut self, run: &mut Run, at: usize, progress: Progress, now: u64) -> Result<()> {
        match progress {
            Progress::Waiting => self.watch(at)?,
            Progress::Connected => self.free(at)?,
            Progress::Answered(sent, answer) => {
                run.recorder
                    .answered(sent, now, answer.status, answer.body_bytes);
                if answer.close {
                    self.connections[at].down(now);
                } else if run.pace.is_none() && now < run.end_ns {
                    // The closed loop's short way: the same connection goes again at once.
                    let sent = Sent {
                        due_ns: now,
                        sent_ns: now,
                        free_ns: now,
                    };
                    let progress = self.connections[at].send(sent, &self.request);
                    self.settle(run, at, progress, now)?;
                } else {
                    self.idle.push_back(at);
                }
            }
            Progress::Lost(sent, failure) => {
                // An idle connection that the server closed is no failed request.
                if sent.is_some() || failure != Failure::Broken {
                    run.recorder.failed(sent, now, failure);
                }
                self.idle.retain(|idle| *idle != at);
                self.connections[at].down(now + RETRY_NS);
            }
        }
        Ok(())
    }

    /// Time-outs and reconnects.
    fn tick(&mut self, run: &mut Run, now: u64) -> Result<()> {
        for connection in &mut self.connections {
            let (since_ns, sent, failure) = match connection.state {
                State::Connecting { since_ns } => (since_ns, None, Failure::Connect),
                State::Busy { sent, .. } => (sent.sent_ns, Some(sent), Failure::Timeout),
                State::Down { .. } | State::Idle { .. } => continue,
            };
            if now.saturating_sub(since_ns) > self.timeout_ns {
                run.recorder.failed(sent, now, failure);
                connection.down(now);
            }
        }
        self.dial(now)
    }

    /// Starts every connection whose attempt is due.
    fn dial(&mut self, now: u64) -> Result<()> {
        for at in 0..self.connections.len() {
            let connection = &mut self.connections[at];
            if matches!(connection.state, State::Down { retry_ns } if retry_ns <= now) {
                connection.start(self.address, now)?;
                let stream = connection
                    .stream
                    .as_ref()
                    .expect("start() has just opened it");
                let flags = EventFlags::IN | EventFlags::OUT;
                epoll::add(&self.epoll, stream, EventData::new_u64(at as u64), flags)
                    .context("cannot watch a socket")?;
            }
        }
        Ok(())
    }

    /// A connection became usable.
    fn free(&mut self, at: usize) -> Result<()> {
        self.idle.push_back(at);
        self.watch(at)
    }

    /// Tells the kernel which events of a connection matter now.
    fn watch(&mut self, at: usize) -> Result<()> {
        let connection = &mut self.connections[at];
        let wants_write = connection.wants_write(&self.request);
        let Some(stream) = &connection.stream else {
            return Ok(());
        };
        if connection.watches_write == wants_write {
            return Ok(());
        }
        connection.watches_write = wants_write;
        let mut flags = EventFlags::IN;
        flags.set(EventFlags::OUT, wants_write);
        epoll::modify(&self.epoll, stream, EventData::new_u64(at as u64), flags)
            .context("cannot watch a socket")
    }

    /// Sets the timer to the next due request. Without a free connection there is nothing to wake
    /// up for: the answer that frees one does it.
    fn arm(&mut self, run: &Run) -> Result<()> {
        let due = run
            .pace
            .as_ref()
            .and_then(Pace::next_due)
            .filter(|_| !self.idle.is_empty());
        let due_ns = due.unwrap_or(0);
        if due_ns == self.timer_ns {
            return Ok(());
        }
        self.timer_ns = due_ns;
        let spec = Itimerspec {
            it_interval: timespec(0),
            it_value: timespec(due_ns),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)
            .context("cannot set the timer")?;
        Ok(())
    }

    fn wait(&self, events: &mut Vec<Event>, timeout_ns: u64) -> Result<()> {
        events.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(events),
            Some(&timespec(timeout_ns)),
        ) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for events"),
        }
    }

    /// Whether nothing is due and nothing is in flight any more.
    fn is_done(&self, run: &Run) -> bool {
        let backlog = run
            .pace
            .as_ref()
            .is_some_and(|pace| pace.next_due().is_some());
        let is_busy = |connection: &Connection| matches!(connection.state, State::Busy { .. });
        !backlog && !self.connections.iter().any(is_busy)
    }

    /// Records what is still in flight and what never went out.
    fn finish(&mut self, run: &mut Run, now: u64) {
        for connection in &self.connections {
            if let State::Busy { sent, .. } = connection.state {
                run.recorder.failed(Some(sent), now, Failure::Unfinished);
            }
        }
        while let Some(due_ns) = run.pace.as_mut().and_then(|pace| pace.take(u64::MAX)) {
            // It could never go: no lateness of the generator's own is to be recorded.
            let sent = Sent {
                due_ns,
                sent_ns: due_ns,
                free_ns: due_ns,
            };
            run.recorder.failed(Some(sent), now, Failure::Unfinished);
        }
    }
}

fn index(event: Event) -> usize {
    let data = event.data;
    usize::try_from(data.u64()).expect("tokens of sockets are indexes")
}

/// Builds the one request that is sent over and over.
fn request_bytes(options: &Options) -> Result<Vec<u8>> {
    let body = match &options.body {
        Some(path) => {
            Some(std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?)
        }
        None => None,
    };
    let default_method = if body.is_some() { "POST" } else { "GET" };
    let method = options.method.as_deref().unwrap_or(default_method);
    let mut text = format!("{method} {} HTTP/1.1\r\n", options.target.path);
    let names: Vec<String> = options
        .headers
        .iter()
        .filter_map(|header| header.split_once(':'))
        .map(|(name, _)| name.trim().to_ascii_lowercase())
        .collect();
    if !names.iter().any(|name| name == "host") {
        text += &format!("Host: {}\r\n", options.target.authority);
    }
    if !names.iter().any(|name| name == "user-agent") {
        text += &format!("User-Agent: ringway-load/{}\r\n", env!("CARGO_PKG_VERSION"));
    }
    for header in &options.headers {
        text += &format!("{header}\r\n");
    }
    if let Some(body) = &body {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    text += "\r\n";
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(&body.unwrap_or_default());
    Ok(bytes)
}

#[cfg(test)]
mod tests;
