//! Whole answers that ringway holds in memory, written to the client: what a merge made, what a rule has for a
//! path.

use ringway_io::net::http1::{KnownHeader, Method, Version, write};

use crate::compress::{self, COMPRESS_STEP_BYTES, Compressor, Lines};
use crate::exchange::{Pace, Task};
use crate::headers::{self, cors::gives_way, describes_body};
use crate::limits::COMPRESSED_PIECE_BYTES;
use crate::passage::Front;
use crate::plan::LocalAnswer;
use crate::respond::{self, Failure, Fault};
use crate::serve::{self, Client, Phase};

/// An answer in memory.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    pub(crate) status: u16,
    /// The origin's words for it, if it is an origin's.
    pub(crate) reason: Option<Vec<u8>>,
    /// Header lines without those about framing.
    pub(crate) headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// What it says of its length.
    pub(crate) length: Length,
    /// The body, in pieces that are written one after the other.
    pub(crate) body: Vec<Vec<u8>>,
}

/// What an answer says of the length of its body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Length {
    /// That of its body.
    #[default]
    OfBody,
    /// There is no body here, as for HEAD, and this is what an origin said, if it did.
    Declared(Option<u64>),
}

/// Writes the answer, changed as the rules on its way want it.
pub(crate) async fn whole(
    task: &Task<'_>,
    client: &mut Client,
    pace: &Pace<'_>,
    mut whole: Whole,
) -> Result<(), Failure> {
    let front = task.passage.front();
    let status = front.status(whole.status);
    if let Some(body) = front.body() {
        whole.body = vec![body.to_vec()];
        whole.length = Length::OfBody;
        whole
            .headers
            .retain(|(name, _)| !describes_body(KnownHeader::classify(name), name));
    }
    if !has_body(status) {
        whole.body.clear();
    }
    let mut out = task.shard.buffers.take();
    let compressor = head(&mut out, (task, &front), client, (status, &whole));
    client.state.status.set(status);
    client.state.phase.set(Phase::Answer);
    client.state.blame.set(Fault::Client);
    if client.head.method() == Method::Head {
        whole.body.clear();
    }
    match compressor {
        Some(compressor) => {
            let packing = Packing {
                compressor,
                is_chunked: client.head.version() == Version::Http11,
            };
            Box::pin(packing.send(task, client, pace, (out, whole.body))).await
        }
        None => send(task, client, pace, (out, whole.body)).await,
    }
}

/// Appends the head; the body is to be compressed where that is returned.
fn head(
    out: &mut Vec<u8>,
    (task, front): (&Task<'_>, &Front<'_>),
    client: &Client,
    (status, whole): (u16, &Whole),
) -> Option<Box<Compressor>> {
    let length = match whole.length {
        Length::OfBody => Some(whole.body.iter().map(|chunk| chunk.len() as u64).sum()),
        Length::Declared(length) => length,
    };
    match &whole.reason {
        Some(reason) if status == whole.status => {
            write::status_line_with_reason(out, status, reason);
        }
        _ => write::status_line(out, status),
    }
    let is_date = |(name, _): &(Vec<u8>, Vec<u8>)| name.eq_ignore_ascii_case(b"date");
    if !whole.headers.iter().any(is_date) {
        write::header(out, b"Date", &client.clock.date());
    }
    let start = out.len();
    for (name, value) in &whole.headers {
        if !gives_way(front, KnownHeader::classify(name), name) {
            write::header(out, name, value);
        }
    }
    headers::finish_answer(out, start, front);
    let answer = compress::Answer {
        status,
        length,
        types: front.compressible_types,
        client: &client.head,
        client_bytes: &client.head_text,
        places: &task.shard.compressors,
    };
    let compressor = compress::begin(out, start, Lines::Written(start), &answer);
    let is_chunked = client.head.version() == Version::Http11;
    if compressor.is_some() && !is_chunked {
        client.state.keep.set(false);
    }
    respond::connection(out, client.frame());
    match &compressor {
        Some(_) if is_chunked => write::transfer_encoding_chunked(out),
        Some(_) => {}
        None => {
            if let Some(length) = length
                && has_body(status)
            {
                write::content_length(out, length);
            }
        }
    }
    write::end_of_head(out);
    compressor
}

async fn send(
    task: &Task<'_>,
    client: &mut Client,
    pace: &Pace<'_>,
    (mut out, body): (Vec<u8>, Vec<Vec<u8>>),
) -> Result<(), Failure> {
    let length: u64 = body.iter().map(|chunk| chunk.len() as u64).sum();
    client.state.written.set(length);
    let mut chunks = body.into_iter();
    // A small document leaves with its head.
    if let Some(first) = chunks.next() {
        out.extend_from_slice(&first);
    }
    let mut next = Some(out);
    while let Some(chunk) = next {
        let chunk = push(client, pace, chunk).await?;
        task.shard.buffers.give(chunk);
        next = chunks.next();
    }
    Ok(())
}

async fn push(client: &mut Client, pace: &Pace<'_>, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    pace.step();
    let (sent, bytes) = client.conn.writer.write_all(bytes).await;
    sent.map_err(|_| Failure::ClientGone)?;
    Ok(bytes)
}

/// A body on its way through a compressor.
struct Packing {
    compressor: Box<Compressor>,
    is_chunked: bool,
}

impl Packing {
    async fn send(
        mut self,
        task: &Task<'_>,
        client: &mut Client,
        pace: &Pace<'_>,
        (mut out, body): (Vec<u8>, Vec<Vec<u8>>),
    ) -> Result<(), Failure> {
        for chunk in body {
            for step in chunk.chunks(COMPRESS_STEP_BYTES) {
                let pushed = self.compressor.push(step);
                pushed.map_err(|_| Failure::Internal)?;
                if self.compressor.ready_len() >= COMPRESSED_PIECE_BYTES {
                    let piece = self.compressor.take();
                    frame(&mut out, client, &piece, self.is_chunked);
                    out = push(client, pace, out).await?;
                    out.clear();
                } else {
                    task.shard.turns.yield_now().await;
                }
            }
        }
        let Packing {
            compressor,
            is_chunked,
        } = self;
        let rest = compressor.finish().map_err(|_| Failure::Internal)?;
        frame(&mut out, client, &rest, is_chunked);
        if is_chunked {
            out.extend_from_slice(write::LAST_CHUNK_AND_END);
        }
        let out = push(client, pace, out).await?;
        task.shard.buffers.give(out);
        Ok(())
    }
}

fn frame(out: &mut Vec<u8>, client: &Client, piece: &[u8], is_chunked: bool) {
    if piece.is_empty() {
        return;
    }
    let written = &client.state.written;
    written.set(written.get() + piece.len() as u64);
    if is_chunked {
        write::chunk_header(out, piece.len() as u64);
    }
    out.extend_from_slice(piece);
    if is_chunked {
        out.extend_from_slice(write::CHUNK_END);
    }
}

/// Whether an answer of this status may have a body.
pub(crate) fn has_body(status: u16) -> bool {
    status >= 200 && !matches!(status, 204 | 304)
}

/// Writes what a rule has for its path.
pub(crate) async fn local(
    task: &Task<'_>,
    client: &mut Client,
    local: &LocalAnswer,
) -> Result<(), Failure> {
    serve::leave_rest_of_body(task.listener, client)?;
    let step = task.listener.body_progress_timeout;
    let watch = client.watch.clone();
    let pace = Pace::new(&watch, step, step);
    let mut answer = Whole {
        status: local.status,
        ..Whole::default()
    };
    if !local.body.is_empty() {
        let kind = (
            b"Content-Type".to_vec(),
            b"text/plain; charset=utf-8".to_vec(),
        );
        answer.headers.push(kind);
        answer.body.push(local.body.to_vec());
    }
    whole(task, client, &pace, answer).await
}
