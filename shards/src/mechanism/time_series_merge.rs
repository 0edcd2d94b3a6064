//! `tsm`: asks every live member and merges what they answer into one document.
//!
//! Called by `serve` when the route ends at such an ALB. Reads the request, lets `ringway_merge` plan it,
//! fans it out, and steps the merge while answers come in, with a turn for everyone else between two steps.
//! What cannot be merged goes to the first live member as it came. Contract: tsm page; ALB page, 5.

mod documents;
pub(crate) mod explain;
mod gather;
mod planning;
mod refusal;
mod request;
mod servers;
mod times;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_io::net::http1::{BodyFraming, KnownHeader, Method, write};
use ringway_merge::{Endpoint, MemberFailure};

use super::pass_on;
use super::question::{self, Question};
use super::reply::{Come, Reply};
use super::request_body::{Bound, read_whole};
use super::round::{Lost, ask};
use crate::capture::Segments;
use crate::exchange::{self, Pace, Task};
use crate::fanout::Whole;
use crate::metrics::Count;
use crate::passage::{form, params};
use crate::plan::{Alb, Backend, BackendKind};
use crate::reply as answer;
use crate::respond::Failure;
use crate::serve::{self, Client};
use gather::{Asking, Outcome};
use refusal::Refusal;
use request::{ApiRequest, Unreadable};
pub(crate) use servers::Known;

/// Time for merging on top of the ALB's deadline, which limits the members.
const MERGE_TIME: Duration = Duration::from_secs(30);

/// Answers one request to a `tsm` ALB.
pub(crate) async fn run(task: &Task<'_>, client: &mut Client) -> Result<(), Failure> {
    let BackendKind::Alb(alb) = &task.backend.kind else {
        return Err(Failure::Internal);
    };
    let asked = task.asked(client);
    let seen = Seen {
        method: asked.head.method(),
        path: asked.path,
        content_type: asked
            .head
            .first(asked.bytes, KnownHeader::ContentType)
            .unwrap_or_default(),
        has_body: !matches!(
            client.head.framing(),
            BodyFraming::None | BodyFraming::Length(0)
        ),
    };
    let query = task.passage.query(asked.query);
    let query = query.unwrap_or_default().into_owned();
    seen.is_within_limit(task, alb, &query)?;
    let Some(endpoint) = seen.mergeable() else {
        if client.head.framing() == BodyFraming::None && seen.is_of_one_of_many(task, alb) {
            return Box::pin(one_group(task, alb, client)).await;
        }
        return first_live(task, alb, client).await;
    };
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
    let carried = seen.carried();
    let request = read_request(task, client, &pace, (endpoint, &query, carried)).await?;
    if carried == Carried::Parts {
        return send(task, client, Refusal::of_parts().into_outcome(), &pace).await;
    }
    let mut request = to_merge(task, alb, request, question::now())?;
    let wish = explain::wish(&mut request);
    client.watch.watch_peer(true);
    let asked = task.asked(client);
    let asking = Asking {
        task,
        head: (asked.head, asked.bytes),
        hop: exchange::hop(task, client),
        path: asked.path,
        passage: task.passage,
        request: &request,
        by_form: asked.head.method() == Method::Post,
        hops: 0,
        began: Instant::now(),
    };
    let outcome = match wish {
        None => gather::gather(&asking, task.backend).await?,
        Some(wish) => Box::pin(explain::explained(&asking, alb, wish)).await?,
    };
    client.watch.watch_peer(false);
    send(task, client, outcome, &pace).await
}

/// The parameters of the URL, as rules have changed it, and of the form behind it.
async fn read_request(
    task: &Task<'_>,
    client: &mut Client,
    pace: &Pace<'_>,
    (endpoint, query, carried): (Endpoint, &[u8], Carried),
) -> Result<ApiRequest, Failure> {
    let bound = Bound {
        bytes_max: task.listener.request_body_bytes_max.unwrap_or(u64::MAX),
        // Half a query is another query.
        truncate: false,
    };
    let form = read_whole(client, pace, bound).await?.into_one();
    match carried.form(&form) {
        b"" => read(endpoint, query, b""),
        form => {
            // Changed once: query and form together are the parameters.
            let query = task.asked(client).query.unwrap_or_default();
            let mut request = read(endpoint, query, form)?;
            request.edit(task.passage.request_params());
            Ok(request)
        }
    }
}

/// Answers as a member of another fan-out.
pub(super) async fn reply<'v>(
    question: Question<'_, 'v>,
    merger: &'v Arc<Backend>,
) -> Result<Reply<'v>, Lost> {
    let BackendKind::Alb(alb) = &merger.kind else {
        return Err(MemberFailure::Internal.into());
    };
    let task = Task {
        backend: merger,
        ..*question.task
    };
    let seen = Seen {
        method: question.method,
        path: question.path,
        content_type: question.content_type(),
        has_body: !question.body.is_empty(),
    };
    let passage = question.passage.clone();
    let edits = || passage.params_beyond(question.params_done);
    let query = params::rewrite(question.query.unwrap_or_default(), edits());
    seen.is_within_limit(&task, alb, &query)?;
    let asking = |request| Asking {
        task: &task,
        head: question.head,
        hop: question.hop,
        path: question.path,
        passage: &passage,
        request,
        by_form: question.method == Method::Post,
        hops: question.hops,
        began: Instant::now(),
    };
    let outcome = match seen.mergeable() {
        None if !seen.has_body && seen.is_of_one_of_many(&task, alb) => {
            let request = ApiRequest::read(Endpoint::Labels, &query, b"");
            gather::first(&asking(&request.ok_or(Failure::Target)?), alb).await?
        }
        None => return first_reply(question, merger, alb).await,
        Some(endpoint) if !seen.has_body && gather::may_bypass(&task, alb, &endpoint, &query) => {
            return first_reply(question, merger, alb).await;
        }
        Some(_) if seen.carried() == Carried::Parts => Refusal::of_parts().into_outcome(),
        Some(endpoint) => {
            let form = question.body.to_one();
            let request = match seen.carried().form(&form) {
                b"" => read(endpoint, &query, b"")?,
                form => {
                    let query = question.query.unwrap_or_default();
                    let mut request = read(endpoint, query, form)?;
                    request.edit(edits());
                    request
                }
            };
            let request = to_merge(&task, alb, request, question.now)?;
            gather::gather(&asking(&request), merger).await?
        }
    };
    let mut text = Vec::with_capacity(1024);
    document_head(&mut text, &outcome);
    let body = Segments::of(outcome.body);
    write::content_length(&mut text, body.len());
    write::end_of_head(&mut text);
    let whole = Whole::made(text, body, question.method).ok_or(MemberFailure::Internal)?;
    Ok(Reply {
        come: Come::Whole(Box::new(whole)),
        passage: (*passage).clone(),
        refused: false,
    })
}

/// The answer of the first live member that can be reached.
async fn first_reply<'v>(
    question: Question<'_, 'v>,
    merger: &'v Backend,
    alb: &'v Alb,
) -> Result<Reply<'v>, Lost> {
    let view = question.task.view;
    let mut last = Err(Failure::NoLiveMember {
        alb: merger.name.clone(),
    }
    .into());
    for member in &view.table.pool(alb.pool).live {
        view.active.cells(member.backend.id).selected.bump();
        last = ask(question.clone(), &member.backend).await;
        match &last {
            Err(Lost::Failed(MemberFailure::Unreachable)) if question.repeatable => {}
            _ => break,
        }
    }
    last
}

/// The parameters of a request.
fn read(endpoint: Endpoint, query: &[u8], form: &[u8]) -> Result<ApiRequest, Failure> {
    let too_many = || Failure::Body(ringway_io::net::http1::BodyError::Truncated);
    ApiRequest::read(endpoint, query, form).ok_or_else(too_many)
}

/// The request as it is merged: one moment, and no more than the ALB allows.
fn to_merge(
    task: &Task<'_>,
    alb: &Alb,
    mut request: ApiRequest,
    now: Duration,
) -> Result<ApiRequest, Failure> {
    request.stamp(now);
    limit_range(task, alb, &request)?;
    Ok(request)
}

/// Refuses a range that is longer than the ALB allows.
fn limit_range(task: &Task<'_>, alb: &Alb, request: &ApiRequest) -> Result<(), Failure> {
    let Some(limit) = alb.query_range_max else {
        return Ok(());
    };
    let failure = match request.range() {
        Ok(Some(range)) if range > limit => Failure::QueryRange { limit },
        Ok(_) => return Ok(()),
        // A server may read it, and it may be long.
        Err(Unreadable) => Failure::QueryRangeUnread { limit },
    };
    let cells = task.view.active.cells(task.backend.id);
    cells.ranges_refused.bump();
    Err(failure)
}

/// What of a request decides how it is answered.
struct Seen<'a> {
    method: Method,
    path: &'a [u8],
    content_type: &'a [u8],
    has_body: bool,
}

/// What of a body is read for parameters, as the servers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    /// A form.
    Form,
    /// A form in parts, which servers read too.
    Parts,
    /// Anything else: the URL alone counts.
    Nothing,
}

impl Carried {
    fn form(self, body: &[u8]) -> &[u8] {
        match self {
            Self::Form => body,
            Self::Parts | Self::Nothing => b"",
        }
    }
}

impl Seen<'_> {
    /// The path this request merges on, if it can be read for merging.
    fn mergeable(&self) -> Option<Endpoint> {
        let endpoint = request::endpoint(self.path)?;
        let is_read = match self.method {
            Method::Get | Method::Head => true,
            Method::Post => endpoint.takes_forms(),
            _ => false,
        };
        is_read.then_some(endpoint)
    }

    fn carried(&self) -> Carried {
        match self.method {
            Method::Post if form::is_form(self.content_type) => Carried::Form,
            Method::Post if form::is_in_parts(self.content_type) => Carried::Parts,
            _ => Carried::Nothing,
        }
    }

    /// Refuses a range query whose URL asks for more than the ALB allows, however it would be answered. What a form
    /// asks for is looked at when it is here.
    fn is_within_limit(&self, task: &Task<'_>, alb: &Alb, query: &[u8]) -> Result<(), Failure> {
        if alb.query_range_max.is_none()
            || request::endpoint(self.path) != Some(Endpoint::QueryRange)
            || self.mergeable().is_some() && self.method == Method::Post
        {
            return Ok(());
        }
        let request = read(Endpoint::QueryRange, query, b"")?;
        limit_range(task, alb, &request)
    }

    /// Whether the answer will be about one replica group of several, and can say so.
    fn is_of_one_of_many(&self, task: &Task<'_>, alb: &Alb) -> bool {
        self.method == Method::Get
            && request::is_of_one_group(self.path)
            && task.view.table.pool(alb.pool).groups.len() > 1
    }
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
    let asked = task.asked(client);
    let query = task.passage.query(asked.query);
    let query = query.unwrap_or_default();
    let request = ApiRequest::read(Endpoint::Labels, &query, b"").ok_or(Failure::Target)?;
    let asking = Asking {
        task,
        head: (asked.head, asked.bytes),
        hop: exchange::hop(task, client),
        path: asked.path,
        passage: task.passage,
        request: &request,
        by_form: false,
        hops: 0,
        began: Instant::now(),
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
        serve::leave_rest_of_body(task.listener, client)?;
        return Err(Failure::NoLiveMember {
            alb: task.backend.name.clone(),
        });
    }
    let may_go_on = client.head.framing() == BodyFraming::None;
    let task = &Task {
        until: task.until.min(client.watch.at(alb.timeout)),
        ..*task
    };
    let mut result = Err(Failure::Internal);
    for member in live {
        task.view.active.cells(member.backend.id).selected.bump();
        result = pass_on(task, client, &member.backend).await;
        match &result {
            Err(failure) if may_go_on && failure.spares_request() => {}
            _ => break,
        }
    }
    result
}

/// Writes the merged document to the client.
async fn send(
    task: &Task<'_>,
    client: &mut Client,
    outcome: Outcome,
    pace: &Pace<'_>,
) -> Result<(), Failure> {
    let line = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let mut headers = vec![line("Content-Type", outcome.content_type)];
    headers.extend(outcome.headers);
    headers.push(line("X-Trickster-Result", &outcome.result));
    let whole = answer::Whole {
        status: outcome.status,
        headers,
        body: outcome.body,
        ..answer::Whole::default()
    };
    answer::whole(task, client, pace, whole).await
}

/// Appends the head of a document, up to its framing.
fn document_head(out: &mut Vec<u8>, outcome: &Outcome) {
    write::status_line(out, outcome.status);
    write::header(out, b"Content-Type", outcome.content_type.as_bytes());
    for (name, value) in &outcome.headers {
        write::header(out, name, value);
    }
    write::header(out, b"X-Trickster-Result", outcome.result.as_bytes());
}
