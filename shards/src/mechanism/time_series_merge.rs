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
use crate::passage::path_below;
use crate::plan::{Alb, BackendKind};
use crate::reply::{self, Whole};
use crate::respond::{Failure, Fault};
use crate::serve::Client;
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
    let query = task.passage.query(client.head.query(bytes));
    let query = query.unwrap_or_default().into_owned();
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
    if !form.is_empty() {
        request.edit(task.passage.request_params());
    }
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
        passage: task.passage,
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
    let endpoint = request::endpoint(path_below(head.path(bytes), task.strip))?;
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
        && request::is_of_one_group(path_below(path, task.strip))
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
    let query = task.passage.query(client.head.query(&client.head_text));
    let query = query.unwrap_or_default();
    let request = ApiRequest::read(Endpoint::Labels, &query, b"").ok_or(Failure::Target)?;
    let asking = Asking {
        task,
        head: (&client.head, &client.head_text),
        hop: exchange::hop(task, client),
        passage: task.passage,
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
        let start = task.passage.towards(&member.backend);
        let mut passage = start.clone();
        let terminal = dispatch::arrive(task.view, &task.asked(client), &mut passage).await?;
        let task = Task {
            backend: passage.backend(),
            passage: &passage,
            ..*task
        };
        result = match terminal {
            Terminal::Origin(_) => exchange::route(&task, client, &start).await,
            Terminal::Merge(_) => Box::pin(run(&task, client)).await,
            Terminal::Local(local) => reply::local(&task, client, local).await,
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
    let line = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let mut headers = vec![line("Content-Type", "application/json; charset=UTF-8")];
    headers.extend(outcome.headers);
    headers.push(line("X-Trickster-Result", &outcome.result));
    let whole = Whole {
        status: outcome.status,
        headers,
        body: outcome.body,
    };
    reply::whole(task, client, pace, whole).await
}
