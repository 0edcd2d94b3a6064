//! One keep-alive connection of the generator.
//!
//! A non-blocking socket with at most one request in flight. The engine owns the event queue and
//! calls [`Connection::ready`]; the connection says what happened. All reads go through a buffer
//! the engine lends, so that ten thousand idle connections cost no buffers.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};

use super::recorder::{Failure, Sent};
use crate::http::{Answer, AnswerReader};

/// What a connection is doing.
#[derive(Debug)]
pub(super) enum State {
    /// Not connected; a new attempt is due at this time.
    Down { retry_ns: u64 },
    /// The handshake of the kernel is under way since then.
    Connecting { since_ns: u64 },
    /// Connected, nothing in flight since then.
    Idle { free_ns: u64 },
    /// A request is in flight, of which so many bytes are written.
    Busy { sent: Sent, written: usize },
}

/// What came of an event.
#[derive(Debug)]
pub(super) enum Progress {
    /// Nothing to tell yet.
    Waiting,
    /// The connection is usable.
    Connected,
    /// An answer is complete.
    Answered(Sent, Answer),
    /// The connection is gone, with the request it carried if it did.
    Lost(Option<Sent>, Failure),
}

/// One connection: its socket, its state, and what it has read of an answer.
#[derive(Debug)]
pub(super) struct Connection {
    /// The socket; absent while [`State::Down`].
    pub(super) stream: Option<TcpStream>,
    /// What it is doing.
    pub(super) state: State,
    /// Whether the event queue was told to report room for writing.
    pub(super) watches_write: bool,
    reader: AnswerReader,
    head_only: bool,
}

impl Connection {
    /// A connection that is due to be made at once.
    pub(super) fn new(head_only: bool) -> Self {
        Self {
            stream: None,
            state: State::Down { retry_ns: 0 },
            watches_write: false,
            reader: AnswerReader::new(head_only),
            head_only,
        }
    }

    /// Starts to connect; the socket becomes writable when it is done.
    pub(super) fn start(&mut self, address: SocketAddr, now_ns: u64) -> Result<()> {
        let family = if address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
            .context("cannot open a socket")?;
        sockopt::set_tcp_nodelay(&socket, true).context("cannot set TCP_NODELAY")?;
        // A refusal that is known at once also shows as an event, like a late one.
        match connect(&socket, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::CONNREFUSED) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot connect to {address}"));
            }
        }
        self.stream = Some(TcpStream::from(socket));
        self.state = State::Connecting { since_ns: now_ns };
        self.watches_write = true;
        self.reader = AnswerReader::new(self.head_only);
        Ok(())
    }

    /// Puts a request in flight. The connection must be idle.
    pub(super) fn send(&mut self, sent: Sent, request: &[u8]) -> Progress {
        debug_assert!(
            matches!(self.state, State::Idle { .. }),
            "one request at a time"
        );
        self.state = State::Busy { sent, written: 0 };
        self.write(request)
    }

    /// Whether it waits for room to write, or for its handshake.
    pub(super) fn wants_write(&self, request: &[u8]) -> bool {
        match self.state {
            State::Connecting { .. } => true,
            State::Busy { written, .. } => written < request.len(),
            State::Down { .. } | State::Idle { .. } => false,
        }
    }

    /// Handles an event of the socket.
    pub(super) fn ready(&mut self, scratch: &mut [u8], request: &[u8], now_ns: u64) -> Progress {
        if matches!(self.state, State::Connecting { .. }) {
            return self.connected(now_ns);
        }
        if self.wants_write(request) {
            let progress = self.write(request);
            if !matches!(progress, Progress::Waiting) {
                return progress;
            }
        }
        self.read(scratch, now_ns)
    }

    /// Drops the socket and what was in flight.
    pub(super) fn down(&mut self, retry_ns: u64) {
        self.stream = None;
        self.state = State::Down { retry_ns };
    }

    fn connected(&mut self, now_ns: u64) -> Progress {
        let Some(stream) = &self.stream else {
            return Progress::Waiting;
        };
        if !matches!(stream.take_error(), Ok(None)) {
            return Progress::Lost(None, Failure::Connect);
        }
        self.state = State::Idle { free_ns: now_ns };
        Progress::Connected
    }

    fn write(&mut self, request: &[u8]) -> Progress {
        let (State::Busy { sent, written }, Some(stream)) = (&mut self.state, &mut self.stream)
        else {
            return Progress::Waiting;
        };
        while *written < request.len() {
            match stream.write(&request[*written..]) {
                Ok(count) => *written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Progress::Lost(Some(*sent), Failure::Broken),
            }
        }
        Progress::Waiting
    }

    fn read(&mut self, scratch: &mut [u8], now_ns: u64) -> Progress {
        let Some(stream) = &mut self.stream else {
            return Progress::Waiting;
        };
        let sent = if let State::Busy { sent, .. } = self.state {
            Some(sent)
        } else {
            None
        };
        loop {
            let count = match stream.read(scratch) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Waiting,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Progress::Lost(sent, Failure::Broken),
            };
            let Some(sent) = sent else {
                // Nothing was asked: a close is normal, bytes are not.
                let reason = if count == 0 {
                    Failure::Broken
                } else {
                    Failure::Malformed
                };
                return Progress::Lost(None, reason);
            };
            let answer = if count == 0 {
                self.reader.end().map_err(|_| Failure::Broken)
            } else {
                self.reader
                    .feed(&scratch[..count])
                    .map_err(|_| Failure::Malformed)
            };
            match answer {
                Ok(Some(answer)) => {
                    self.state = State::Idle { free_ns: now_ns };
                    return Progress::Answered(sent, answer);
                }
                Ok(None) if count == 0 => return Progress::Lost(Some(sent), Failure::Broken),
                // A short read emptied the socket: no second call only to be told so.
                Ok(None) if count < scratch.len() => return Progress::Waiting,
                Ok(None) => {}
                Err(reason) => return Progress::Lost(Some(sent), reason),
            }
        }
    }
}
