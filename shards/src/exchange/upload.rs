//! A request body on its way to an origin.
//!
//! The body is decoded and framed anew: the origin reads exactly the bytes this end counted. Bounds: the
//! listener's `max_request_body_size_bytes`, met before the bytes are sent on.

use std::cell::Cell;
use std::rc::Rc;

use ringway_io::buffer::Inbox;
use ringway_io::net::http1::{BodyDecoder, BodyFraming, TrailerLimits, write};
use ringway_io::net::stream::{Reader, Writer};

use super::Pace;
use crate::headers;
use crate::limits::RELAY_BYTES;
use crate::plan::Listener;
use crate::respond::{Failure, Fault};
use crate::serve::{Client, State};

/// Least free space a read of a body is given.
const BODY_READ_BYTES: usize = 16 * 1024;

/// The body of one request.
pub(crate) struct Upload {
    decoder: BodyDecoder,
    framing: BodyFraming,
    /// Bytes that may still be sent on.
    left: u64,
    bytes_max: u64,
    truncate: bool,
    /// The part that came with the head, framed for the origin; kept to be sent again.
    first: Vec<u8>,
    done: Rc<Cell<bool>>,
}

/// Tells from elsewhere whether the body has been sent.
pub(crate) struct Moving(Rc<Cell<bool>>);

impl Moving {
    pub(crate) fn is_done(&self) -> bool {
        self.0.get()
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
        let done = Rc::new(Cell::new(decoder.is_done()));
        let first = Vec::new();
        let mut upload = Upload {
            decoder,
            framing,
            left: bytes_max,
            bytes_max,
            truncate,
            first,
            done,
        };
        let mut first = Vec::new();
        upload.decode_here(&mut client.inbox, &mut first)?;
        upload.first = first;
        client.state.body_read.set(upload.is_done());
        Ok(upload)
    }

    /// Framing towards the origin.
    pub(crate) fn framing(&self) -> BodyFraming {
        self.framing
    }

    /// The whole body was sent on, or put into the request's first write.
    pub(crate) fn is_done(&self) -> bool {
        self.done.get()
    }

    /// A view of [`Upload::is_done`] that does not borrow.
    pub(crate) fn moving(&self) -> Moving {
        Moving(self.done.clone())
    }

    /// The part of the body that came with the head, as the origin gets it.
    pub(crate) fn came_with_head(&self) -> &[u8] {
        &self.first
    }

    /// Moves the rest of the body.
    pub(crate) async fn run(
        &mut self,
        inbox: &mut Inbox,
        reader: &mut Reader,
        writer: &mut Writer,
        state: &State,
        pace: &Pace<'_>,
    ) -> Result<(), Failure> {
        let mut out = Vec::new();
        while !self.is_done() {
            self.decode_here(inbox, &mut out)?;
            if out.is_empty() {
                pace.step();
                state.blame.set(Fault::Client);
                match inbox.fill(reader, BODY_READ_BYTES).await {
                    Ok(1..) => continue,
                    Ok(0) | Err(_) => return Err(Failure::ClientGone),
                }
            }
            pace.step();
            state.blame.set(Fault::Upstream);
            let (sent, buffer) = writer.write_all(out).await;
            if sent.is_err() {
                // The origin stopped reading. Its answer, if it sent one, says why.
                return Ok(());
            }
            out = buffer;
            out.clear();
        }
        state.body_read.set(true);
        state.blame.set(Fault::Upstream);
        pace.whole();
        Ok(())
    }

    fn decode_here(&mut self, inbox: &mut Inbox, out: &mut Vec<u8>) -> Result<(), Failure> {
        while !self.is_done() && !inbox.is_empty() && out.len() < RELAY_BYTES {
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
                self.done.set(true);
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
