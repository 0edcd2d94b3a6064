//! A request body on its way to an origin, and what is held of it to be sent again.
//!
//! The body is decoded and framed anew: the origin reads exactly the bytes this end counted. Bounds: the
//! listener's `max_request_body_size_bytes`, met before the bytes are sent on; what is held is at most what came
//! with the head, or what the caller says.

use std::cell::{Cell, RefCell};

use ringway_io::buffer::{Buffers, Inbox};
use ringway_io::net::http1::{BodyDecoder, BodyFraming, TrailerLimits, write};
use ringway_io::net::stream::{Reader, Writer};

use super::Pace;
use super::form::Form;
use super::tries::Tries;
use crate::headers;
use crate::limits::RELAY_BYTES;
use crate::plan::Listener;
use crate::respond::{Failure, Fault};
use crate::serve::{Client, State};

/// Least free space a read of a body is given.
const BODY_READ_BYTES: usize = 16 * 1024;

/// The body of one request.
pub(crate) struct Upload {
    pub(super) source: Source,
    pub(super) flow: Flow,
}

/// Where it comes from.
pub(crate) struct Source {
    decoder: BodyDecoder,
    pub(super) framing: BodyFraming,
    /// Bytes that may still be sent on.
    left: u64,
    bytes_max: u64,
    truncate: bool,
    /// The body, where it is a form that was read already.
    pub(super) form: Option<Box<Form>>,
}

/// How far it has come, readable while it moves.
pub(crate) struct Flow {
    pub(super) done: Cell<bool>,
    /// What was read so far, framed for an origin.
    held: RefCell<Vec<u8>>,
    /// That is all of it.
    whole: Cell<bool>,
    /// Most bytes of `held` when more comes than came with the head.
    held_max: Cell<usize>,
    /// Bytes of the client are waited for.
    reading: Cell<bool>,
    /// The client waits to be told to send.
    expects: Cell<bool>,
    /// What comes next is for another member.
    halted: Cell<bool>,
    /// Bytes of a form that is here, beside `held`.
    pub(super) kept: Cell<usize>,
    pool: Buffers,
}

impl Flow {
    fn new(pool: Buffers, done: bool) -> Flow {
        Flow {
            done: Cell::new(done),
            held: RefCell::default(),
            whole: Cell::new(true),
            held_max: Cell::new(0),
            reading: Cell::new(false),
            expects: Cell::new(false),
            halted: Cell::new(false),
            kept: Cell::new(0),
            pool,
        }
    }

    /// The whole body was sent on, or put into the request's first write.
    pub(super) fn is_done(&self) -> bool {
        self.done.get()
    }

    /// All that was read so far is still held.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.get()
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        self.held.borrow().len() + self.kept.get()
    }

    /// The client's bytes are being read.
    pub(super) fn is_reading(&self) -> bool {
        self.reading.get()
    }

    /// It is the client's turn, and nobody else's.
    pub(super) fn awaits_client(&self) -> bool {
        self.reading.get() && !self.expects.get()
    }

    /// The client waits to be told to send its body.
    pub(super) fn expects(&self) -> bool {
        self.expects.get()
    }

    /// Nobody will be sent this body again.
    pub(super) fn release(&self) {
        self.whole.set(false);
        self.pool.give(self.held.take());
    }

    /// Ends the run after the read that is under way; what it brings stays in the inbox.
    pub(super) fn halt(&self) {
        self.halted.set(true);
        self.expects.set(false);
    }

    /// Adds to what is held, or gives up to hold it.
    fn hold(&self, more: &[u8]) {
        if !self.whole.get() {
            return;
        }
        let mut held = self.held.borrow_mut();
        if held.len() + more.len() <= self.held_max.get() {
            if held.capacity() == 0 {
                *held = self.pool.take();
            }
            held.extend_from_slice(more);
        } else {
            drop(held);
            self.release();
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.pool.give(self.held.take());
    }
}

impl Upload {
    /// Takes the part of the body that is here, and refuses what is too large.
    pub(crate) fn begin(listener: &Listener, client: &mut Client) -> Result<Upload, Failure> {
        let bytes_max = listener.request_body_bytes_max.unwrap_or(u64::MAX);
        let truncate = listener.truncate_request_body;
        let framing = match client.head.framing() {
            BodyFraming::Length(length) if length > bytes_max && !truncate => {
                return Err(Failure::BodyTooLarge { bytes_max });
            }
            BodyFraming::Length(length) => BodyFraming::Length(length.min(bytes_max)),
            other => other,
        };
        let decoder = BodyDecoder::new(client.head.framing(), TrailerLimits::default());
        let pool = client.inbox.pool().clone();
        let mut first = Vec::new();
        if !decoder.is_done() && !client.inbox.is_empty() {
            first = pool.take();
        }
        let flow = Flow::new(pool, decoder.is_done());
        let mut source = Source {
            decoder,
            framing,
            left: bytes_max,
            bytes_max,
            truncate,
            form: None,
        };
        source.decode_here(&flow, &mut client.inbox, &mut first)?;
        let expects = client.head.expect_continue() && !flow.is_done() && first.is_empty();
        flow.expects.set(expects);
        flow.held.replace(first);
        client.state.body_read.set(flow.is_done());
        Ok(Upload { source, flow })
    }

    /// A body that was read already, to be changed for each member.
    pub(super) fn of_form(client: &Client, form: Form) -> Upload {
        Upload {
            source: Source {
                decoder: BodyDecoder::new(BodyFraming::None, TrailerLimits::default()),
                framing: BodyFraming::Length(0),
                left: 0,
                bytes_max: 0,
                truncate: false,
                form: Some(Box::new(form)),
            },
            flow: Flow::new(client.inbox.pool().clone(), false),
        }
    }

    /// Makes it a form that is here, for a member whose rules change it when those of the one before did not. False
    /// when not all of it is here any more, as the client meant it.
    pub(super) fn become_form(&mut self, client: &Client) -> bool {
        if self.is_form() {
            return true;
        }
        let is_here = self.flow.is_done() && self.flow.is_whole();
        if !is_here || !matches!(self.source.framing, BodyFraming::Length(_)) {
            return false;
        }
        let raw = vec![self.flow.held.borrow().clone()];
        *self = Upload::of_form(client, Form::of(raw));
        true
    }

    /// The whole body has left the client's connection.
    pub(super) fn is_read(&self) -> bool {
        self.is_done() || self.is_form()
    }

    /// It is a form that was read already.
    pub(super) fn is_form(&self) -> bool {
        self.source.form.is_some()
    }

    /// Framing towards the origin.
    pub(crate) fn framing(&self) -> BodyFraming {
        self.source.framing
    }

    /// The whole body was sent on, or put into the request's first write.
    pub(crate) fn is_done(&self) -> bool {
        self.flow.is_done()
    }

    /// Holds what comes up to so many bytes in all.
    pub(super) fn hold_up_to(&mut self, bytes_max: usize) {
        self.flow.held_max.set(bytes_max);
    }

    /// Appends what was read of the body so far, as the origin gets it.
    pub(super) fn replay(&mut self, request: &mut Vec<u8>) {
        self.flow.halted.set(false);
        if let Some(form) = &mut self.source.form {
            self.flow.done.set(form.rewind());
        }
        request.extend_from_slice(&self.flow.held.borrow());
    }
}

impl Source {
    /// Moves the rest of the body.
    pub(super) async fn run(
        &mut self,
        flow: &Flow,
        (inbox, reader, writer): (&mut Inbox, &mut Reader, &mut Writer),
        (state, pace, tries): (&State, &Pace<'_>, &Tries<'_>),
    ) -> Result<(), Failure> {
        if let Some(form) = &mut self.form {
            flow.done.set(form.send(writer, (state, pace, tries)).await);
            return Ok(());
        }
        let mut out = Vec::new();
        while !flow.is_done() {
            self.decode_here(flow, inbox, &mut out)?;
            if out.is_empty() {
                pace.step();
                state.blame.set(Fault::Client);
                flow.reading.set(true);
                let count = inbox.fill(reader, BODY_READ_BYTES).await;
                flow.reading.set(false);
                flow.expects.set(false);
                match count {
                    Ok(1..) if flow.halted.get() => break,
                    Ok(1..) => continue,
                    Ok(0) | Err(_) => return Err(Failure::ClientGone),
                }
            }
            flow.hold(&out);
            pace.step();
            state.blame.set(Fault::Upstream);
            tries.progress();
            let (sent, buffer) = writer.write_all(out).await;
            if sent.is_err() {
                // The origin stopped reading. Its answer, if it sent one, says why.
                return Ok(());
            }
            tries.progress();
            out = buffer;
            out.clear();
        }
        state.body_read.set(flow.is_done());
        state.blame.set(Fault::Upstream);
        pace.whole();
        Ok(())
    }

    fn decode_here(
        &mut self,
        flow: &Flow,
        inbox: &mut Inbox,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        while !flow.is_done() && !inbox.is_empty() && out.len() < RELAY_BYTES {
            let decoded = self.decoder.decode(inbox.bytes()).map_err(Failure::Body)?;
            let data = self.within_bound(decoded.data)?;
            if !data.is_empty() {
                self.left -= data.len() as u64;
                if self.framing == BodyFraming::Chunked {
                    write::chunk_header(out, data.len() as u64);
                    out.extend_from_slice(data);
                    out.extend_from_slice(write::CHUNK_END);
                } else {
                    out.extend_from_slice(data);
                }
            }
            let consumed = decoded.consumed;
            inbox.consume(consumed);
            if self.decoder.remaining_known() > self.left && !self.truncate {
                // The rest of a chunk is announced: no need to wait for it.
                return Err(Failure::BodyTooLarge {
                    bytes_max: self.bytes_max,
                });
            }
            if self.decoder.is_done() {
                if self.framing == BodyFraming::Chunked {
                    headers::last_chunk(out, self.decoder.trailers(), |_| false);
                }
                flow.done.set(true);
            }
        }
        Ok(())
    }

    /// The data, or as much of it as the bound allows where the listener cuts.
    fn within_bound<'d>(&self, data: &'d [u8]) -> Result<&'d [u8], Failure> {
        if data.len() as u64 <= self.left {
            return Ok(data);
        }
        if !self.truncate {
            return Err(Failure::BodyTooLarge {
                bytes_max: self.bytes_max,
            });
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        Ok(&data[..left])
    }
}
