//! `tsm`: asks every live member and merges what they answer into one document.
//!
//! Called by `serve` when the route ends at such an ALB. Reads the request, lets `ringway_merge` plan it,
//! fans it out, and steps the merge while answers come in, with a turn for everyone else between two steps.
//! What cannot be merged goes to the first live member as it came. Contract: tsm page; ALB page, 5.

mod gather;
mod request;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringway_io::net::http1::{BodyDecoder, BodyFraming, KnownHeader, Method, TrailerLimits, write};
use ringway_merge::Endpoint;

use crate::dispatch::{self, Terminal};
use crate::exchange::{self, Pace, Task, Upload};
use crate::metrics::Count;
use crate::plan::{Alb, BackendKind};
use crate::respond::{self, Failure, Fault};
use crate::serve::{Client, Phase};
use gather::{Asking, Outcome};
use request::ApiRequest;

/// Least free space a read of a form is given.
const FORM_READ_BYTES: usize = 4 * 1024;
/// Time for merging on top of the ALB's deadline, which limits the members.
const MERGE_TIME: Duration = Duration::from_secs(30);

/// Answers one request to a `tsm` ALB.
pub(crate) async fn run(task: &Task<'_>, client: &mut Client) -> Result<(), Failure> {
    let BackendKind::Alb(alb) = &task.backend.kind else {
        return Err(Failure::Internal);
    };
    let Some(endpoint) = mergeable(task, client) else {
        if is_of_one_of_many(task, alb, client) {
            return Box::pin(one_group(task, alb, client)).await;
        }
        return first_live(task, alb, client).await;
    };
    let bytes = client.head_text.as_slice();
    let query = client.head.query(bytes).unwrap_or_default().to_vec();
    if client.head.framing() == BodyFraming::None
        && gather::may_bypass(task, alb, &endpoint, &query)
    {
        return first_live(task, alb, client).await;
    }
    let watch = client.watch.clone();
    let pace = Pace::new(
        &watch,
        alb.timeout + MERGE_TIME,
        task.listener.body_progress_timeout,
    );
    pace.whole();
    let form = read_form(task, client, &pace).await?;
    let too_many = || Failure::Body(ringway_io::net::http1::BodyError::Truncated);
    let mut request = ApiRequest::read(endpoint, &query, &form).ok_or_else(too_many)?;
    request.stamp(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default(),
    );
    if let Some(limit) = alb.query_range_max
        && request.range().is_some_and(|range| range > limit)
    {
        return Err(Failure::QueryRange { limit });
    }
    client.watch.watch_peer(true);
    let asking = Asking {
        task,
        head: (&client.head, &client.head_text),
        hop: exchange::hop(task, client),
        request: &request,
        by_form: client.head.method() == Method::Post,
    };
    let outcome = gather::gather(&asking, task.backend).await?;
    client.watch.watch_peer(false);
    send(task, client, outcome, &pace).await
}

/// The path this request merges on, if it can be read for merging.
fn mergeable(task: &Task<'_>, client: &Client) -> Option<Endpoint> {
    let bytes = client.head_text.as_slice();
    let head = &client.head;
    let endpoint = request::endpoint(&head.path(bytes)[task.strip..])?;
    match head.method() {
        Method::Get | Method::Head => {
            matches!(head.framing(), BodyFraming::None | BodyFraming::Length(0)).then_some(endpoint)
        }
        Method::Post if !matches!(endpoint, Endpoint::LabelValues(_)) => {
            let content_type = head
                .first(bytes, KnownHeader::ContentType)
                .unwrap_or_default();
            let essence = content_type
                .split(|&byte| byte == b';')
                .next()
                .unwrap_or_default();
            let is_form = essence
                .trim_ascii()
                .eq_ignore_ascii_case(b"application/x-www-form-urlencoded");
            is_form.then_some(endpoint)
        }
        _ => None,
    }
}

/// Whether the answer will be about one replica group of several, and can say so.
fn is_of_one_of_many(task: &Task<'_>, alb: &Alb, client: &Client) -> bool {
    let path = client.head.path(&client.head_text);
    client.head.method() == Method::Get
        && client.head.framing() == BodyFraming::None
        && request::is_of_one_group(&path[task.strip..])
        && task.view.table.pool(alb.pool).groups.len() > 1
}

/// Sends the request to the first live member and adds to its answer that it is one group's only.
async fn one_group(task: &Task<'_>, alb: &Alb, client: &mut Client) -> Result<(), Failure> {
    let watch = client.watch.clone();
    let pace = Pace::new(
        &watch,
        alb.timeout + MERGE_TIME,
        task.listener.body_progress_timeout,
    );
    pace.whole();
    client.state.body_read.set(true);
    client.watch.watch_peer(true);
    let query = client.head.query(&client.head_text).unwrap_or_default();
    let request = ApiRequest::read(Endpoint::Labels, query, b"").ok_or(Failure::Target)?;
    let asking = Asking {
        task,
        head: (&client.head, &client.head_text),
        hop: exchange::hop(task, client),
        request: &request,
        by_form: false,
    };
    let outcome = Box::pin(gather::first(&asking, alb)).await?;
    client.watch.watch_peer(false);
    send(task, client, outcome, &pace).await
}

/// Sends the request as it came to the first live member; to the next one while a member cannot be reached and
/// the request has no body that would have to be read again.
async fn first_live(task: &Task<'_>, alb: &Alb, client: &mut Client) -> Result<(), Failure> {
    let live = &task.view.table.pool(alb.pool).live;
    if live.is_empty() {
        let unread = !Upload::begin(task.listener, client)?.is_done();
        client.state.keep.set(client.state.keep.get() && !unread);
        return Err(Failure::NoLiveMember {
            alb: task.backend.name.clone(),
        });
    }
    let may_go_on = client.head.framing() == BodyFraming::None;
    let mut result = Err(Failure::Internal);
    for member in live {
        task.view.active.cells(member.backend.id).selected.bump();
        result = match dispatch::resolve(task.view, member.backend.id, &[])? {
            Terminal::Origin(backend) => {
                exchange::route(&Task { backend, ..*task }, client, member.backend.id).await
            }
            Terminal::Merge(backend) => Box::pin(run(&Task { backend, ..*task }, client)).await,
        };
        match &result {
            Err(failure) if may_go_on && failure.spares_request() => {}
            _ => break,
        }
    }
    result
}

/// Reads the whole request body, within the listener's bound.
async fn read_form(
    task: &Task<'_>,
    client: &mut Client,
    pace: &Pace<'_>,
) -> Result<Vec<u8>, Failure> {
    let bytes_max = task.listener.request_body_bytes_max.unwrap_or(u64::MAX);
    if let BodyFraming::Length(length) = client.head.framing()
        && length > bytes_max
    {
        return Err(Failure::BodyTooLarge { bytes_max });
    }
    let mut decoder = BodyDecoder::new(client.head.framing(), TrailerLimits::default());
    if client.head.expect_continue() && !decoder.is_done() && client.inbox.is_empty() {
        let sent = client
            .conn
            .writer
            .write_all(write::CONTINUE.to_vec())
            .await
            .0;
        sent.map_err(|_| Failure::ClientGone)?;
    }
    let mut form = Vec::new();
    while !decoder.is_done() {
        if client.inbox.is_empty() {
            pace.step();
            client.state.blame.set(Fault::Client);
            match client
                .inbox
                .fill(&mut client.conn.reader, FORM_READ_BYTES)
                .await
            {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Err(Failure::ClientGone),
            }
        }
        let decoded = decoder
            .decode(client.inbox.bytes())
            .map_err(Failure::Body)?;
        if form.len() as u64 + decoded.data.len() as u64 > bytes_max {
            return Err(Failure::BodyTooLarge { bytes_max });
        }
        form.extend_from_slice(decoded.data);
        let consumed = decoded.consumed;
        client.inbox.consume(consumed);
    }
    client.state.body_read.set(true);
    client.state.blame.set(Fault::Upstream);
    pace.whole();
    Ok(form)
}

/// Writes the merged document to the client.
async fn send(
    task: &Task<'_>,
    client: &mut Client,
    outcome: Outcome,
    pace: &Pace<'_>,
) -> Result<(), Failure> {
    let length: u64 = outcome.body.iter().map(|chunk| chunk.len() as u64).sum();
    let frame = client.frame();
    let mut out = task.shard.buffers.take();
    write::status_line(&mut out, outcome.status);
    write::header(
        &mut out,
        b"Content-Type",
        b"application/json; charset=UTF-8",
    );
    for (name, value) in &outcome.headers {
        write::header(&mut out, name, value);
    }
    write::header(&mut out, b"X-Trickster-Result", outcome.result.as_bytes());
    respond::connection(&mut out, frame);
    write::content_length(&mut out, length);
    write::end_of_head(&mut out);
    client.state.status.set(outcome.status);
    client.state.phase.set(Phase::Answer);
    client.state.blame.set(Fault::Client);
    let mut chunks = outcome.body.into_iter();
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
