//! Mechanisms that need more than a turn: those that ask all members of a pool, and the one that asks who a request
//! is from.
//!
//! `fr`, `fgr` and `nlm` choose one of the answers, `tsm` merges them. What a fan-out asks is a [`Question`], what
//! a member gives is a [`reply::Reply`], and [`round::ask`] leads from one to the other whatever the member is: an
//! origin, a turn of `rr`, a merge, or a fan-out again. [`run`] does it for a client; with one live member the
//! request is passed straight on instead, streamed and uncaptured. Contract: ALB page, 5 to 7.
//!
//! Bounds: a request body by the listener, answers by the capture caps of member and ALB and by the fan-out's
//! budget, time by the ALB's timeout, nesting by the bound of hops.

mod first_good_response;
mod first_response;
mod newest_last_modified;
mod question;
mod reply;
pub(crate) mod request_body;
mod round;
pub(crate) mod time_series_merge;
pub(crate) mod user_router;

use std::sync::Arc;
use std::time::Duration;

use crate::dispatch::{self, Terminal};
use crate::exchange::{self, Pace, Task};
use crate::metrics::Count;
use crate::plan::{Backend, BackendKind};
use crate::reply as answer;
use crate::respond::Failure;
use crate::serve::{self, Client};

use question::{Question, RequestBody};
use request_body::{Bound, read_whole};
use round::choose;

/// What a client's watch waits on top of the ALB's own deadline, so that the fan-out's end comes first.
const SLACK: Duration = Duration::from_secs(30);

/// Answers one request to an ALB that chooses among its members' answers.
pub(crate) async fn run(task: &Task<'_>, client: &mut Client) -> Result<(), Failure> {
    let BackendKind::Alb(settings) = &task.backend.kind else {
        return Err(Failure::Internal);
    };
    match round::members(task.view, settings).as_slice() {
        [] => {
            round::count_attempt(task.view, task.backend, settings);
            serve::leave_rest_of_body(task.listener, client)?;
            return Err(Failure::NoLiveMember {
                alb: task.backend.name.clone(),
            });
        }
        [only] => {
            task.view.active.cells(only.id).selected.bump();
            let until = task.until.min(client.watch.at(settings.timeout));
            return pass_on(&Task { until, ..*task }, client, only).await;
        }
        _ => {}
    }
    let watch = client.watch.clone();
    let pace = || {
        let limit = settings.timeout + SLACK;
        Pace::new(&watch, limit, task.listener.body_progress_timeout)
    };
    let reading = pace();
    reading.whole();
    let framing = client.head.framing();
    let body = RequestBody::of(
        framing,
        read_whole(client, &reading, Bound::of(task)).await?,
    );
    pace().whole();
    client.watch.watch_peer(true);
    let question = Question::as_it_came(task, client, &body);
    let reply = choose(question, task.backend).await;
    // Whoever still sends it has a hold of it.
    drop(body);
    let reply = reply.map_err(Failure::from)?;
    reply.relay(task, client, &pace()).await
}

/// Sends the request on to one member as it came, whoever answers below it.
pub(crate) async fn pass_on(
    task: &Task<'_>,
    client: &mut Client,
    member: &Arc<Backend>,
) -> Result<(), Failure> {
    let start = task.passage.towards(member);
    let mut passage = start.clone();
    let terminal = dispatch::arrive(task.view, &task.asked(client), &mut passage).await?;
    let task = Task {
        backend: passage.backend(),
        passage: &passage,
        ..*task
    };
    match terminal {
        Terminal::Origin(_) => exchange::route(&task, client, passage.restart(Some(&start))).await,
        Terminal::Merge(_) => Box::pin(time_series_merge::run(&task, client)).await,
        Terminal::Choice(_) => Box::pin(run(&task, client)).await,
        Terminal::Local(local) => Box::pin(answer::local(&task, client, local)).await,
    }
}
