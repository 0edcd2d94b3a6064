//! Whole answers that ringway holds in memory, written to the client: what a merge made, what a rule has for a
//! path.

use ringway_io::net::http1::{KnownHeader, Method, write};

use crate::exchange::{Pace, Task};
use crate::headers::{self, cors::gives_way, describes_body};
use crate::passage::Front;
use crate::plan::LocalAnswer;
use crate::respond::{self, Failure, Fault};
use crate::serve::{Client, Phase};

/// An answer in memory.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    pub(crate) status: u16,
    /// Header lines without those about framing.
    pub(crate) headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The body, in pieces that are written one after the other.
    pub(crate) body: Vec<Vec<u8>>,
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
        whole
            .headers
            .retain(|(name, _)| !describes_body(KnownHeader::classify(name), name));
    }
    if !has_body(status) {
        whole.body.clear();
    }
    let length: u64 = whole.body.iter().map(|chunk| chunk.len() as u64).sum();
    let frame = client.frame();
    let mut out = task.shard.buffers.take();
    write::status_line(&mut out, status);
    write::header(&mut out, b"Date", &client.clock.date());
    head_lines(&mut out, &whole, &front);
    respond::connection(&mut out, frame);
    if has_body(status) {
        write::content_length(&mut out, length);
    }
    write::end_of_head(&mut out);
    client.state.status.set(status);
    client.state.phase.set(Phase::Answer);
    client.state.blame.set(Fault::Client);
    let mut chunks = whole.body.into_iter();
    if frame.method == Method::Head {
        chunks.by_ref().for_each(drop);
    } else {
        client.state.written.set(length);
        // A small document leaves with its head.
        if let Some(first) = chunks.next() {
            out.extend_from_slice(&first);
        }
    }
    let mut next = Some(out);
    while let Some(chunk) = next {
        pace.step();
        let (sent, chunk) = client.conn.writer.write_all(chunk).await;
        sent.map_err(|_| Failure::ClientGone)?;
        task.shard.buffers.give(chunk);
        next = chunks.next();
    }
    Ok(())
}

fn head_lines(out: &mut Vec<u8>, whole: &Whole, front: &Front<'_>) {
    let start = out.len();
    for (name, value) in &whole.headers {
        if !gives_way(front, KnownHeader::classify(name), name) {
            write::header(out, name, value);
        }
    }
    headers::finish_answer(out, start, front);
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
