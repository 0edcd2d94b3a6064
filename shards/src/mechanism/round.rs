//! One fan-out: who is asked, what is kept, how it ends.

use std::collections::HashSet;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Instant;

use ringway_io::task::within;
use ringway_merge::MemberFailure;

use super::question::Question;
use super::reply::{Come as Arrived, Kept, Reply};
use super::{first_good_response, first_response, newest_last_modified, time_series_merge};
use crate::capture::Budget;
use crate::dispatch::{self, Terminal};
use crate::fanout::{Answer, Fanout, Room, open, reason};
use crate::guard::guard;
use crate::metrics::{BackendCells, Count};
use crate::plan::{Alb, Backend, BackendKind, Mechanism};
use crate::respond::{Failure, Fault};
use crate::shard::View;

/// Why a member gave nothing.
#[derive(Debug)]
pub(crate) enum Lost {
    /// An origin did not answer, or not as it should.
    Failed(MemberFailure),
    /// An ALB has no answer to give.
    Refused(Failure),
}

impl From<MemberFailure> for Lost {
    fn from(failure: MemberFailure) -> Lost {
        Lost::Failed(failure)
    }
}

impl From<Failure> for Lost {
    fn from(failure: Failure) -> Lost {
        Lost::Refused(failure)
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Failure {
        match lost {
            Lost::Refused(failure) => failure,
            Lost::Failed(MemberFailure::TimedOut) => Failure::UpstreamTimeout,
            Lost::Failed(_) => Failure::NoAnswer {
                before_any_byte: false,
            },
        }
    }
}

impl Lost {
    /// As a merge counts it.
    pub(super) fn into_member(self) -> MemberFailure {
        match self {
            Lost::Failed(failure) => failure,
            Lost::Refused(Failure::UpstreamTimeout) => MemberFailure::TimedOut,
            Lost::Refused(_) => MemberFailure::Unreachable,
        }
    }
}

/// What a member came back with, and its place in the pool.
pub(super) type Come<T> = (usize, Result<T, Lost>);

/// Asks one member, whatever it is.
pub(super) fn ask<'a, 'v: 'a>(
    question: Question<'a, 'v>,
    member: &'v Arc<Backend>,
) -> Pin<Box<dyn Future<Output = Result<Reply<'v>, Lost>> + 'a>> {
    Box::pin(async move {
        let view = question.task.view;
        let mut passage = question.passage.fork(member);
        let terminal = match dispatch::arrive(view, &question.asked(), &mut passage).await {
            Ok(terminal) => terminal,
            Err(failure) if failure.is_answer() => {
                return Ok(Reply::refusal(&failure, question.method, passage)?);
            }
            Err(failure) => return Err(failure.into()),
        };
        let draft = passage.redrafted(&question.passage);
        let question = question.through(draft.as_deref());
        match terminal {
            Terminal::Origin(backend) => {
                let BackendKind::Origin(origin) = &backend.kind else {
                    return Err(MemberFailure::Internal.into());
                };
                let form = question.form_for(&passage).await;
                let body = form.as_ref().unwrap_or(question.body);
                let ask = question
                    .of_origin((backend, origin), &passage, body)
                    .await?;
                let opened = open(ask, origin.timeout).await?;
                Ok(Reply {
                    come: Arrived::Open(Box::new(opened)),
                    passage,
                    refused: false,
                })
            }
            Terminal::Merge(backend) => {
                let deeper = question.deeper(passage)?;
                Box::pin(time_series_merge::reply(deeper, backend)).await
            }
            Terminal::Choice(backend) => choose(question.deeper(passage)?, backend).await,
            Terminal::Local(local) => Ok(Reply::local(local, question.method, passage)?),
        }
    })
}

/// Asks the members of an ALB and chooses among their answers.
pub(super) async fn choose<'v>(
    question: Question<'_, 'v>,
    alb: &'v Arc<Backend>,
) -> Result<Reply<'v>, Lost> {
    let BackendKind::Alb(settings) = &alb.kind else {
        return Err(MemberFailure::Internal.into());
    };
    let view = question.task.view;
    let round = Round {
        question,
        alb,
        settings,
        members: members(view, settings),
        budget: Budget::new(settings.fanout_bytes_max),
        cells: view.active.cells(alb.id),
    };
    let started = Instant::now();
    let reply = round.run().await?;
    // Its deadline is that of the whole fan-out, the relay of an answer that has only begun included.
    let left = settings.timeout.saturating_sub(started.elapsed());
    Ok(reply.end_within(left))
}

/// The live members of an ALB in configured order, one listed twice only once. Contract: ALB page, 5.
pub(super) fn members<'v>(view: &'v View, settings: &Alb) -> Vec<&'v Arc<Backend>> {
    let live = &view.table.pool(settings.pool).live;
    let mut seen = HashSet::with_capacity(live.len());
    live.iter()
        .map(|member| &member.backend)
        .filter(|backend| seen.insert(backend.id))
        .collect()
}

/// Counts a fan-out. Contract: metrics page, 1.
pub(super) fn count_attempt(view: &View, alb: &Backend, settings: &Alb) {
    let cells = view.active.cells(alb.id);
    cells.count_fanout(settings.mechanism.name(), "", ("attempts", ""), 1);
}

/// One fan-out in progress.
pub(super) struct Round<'a, 'v> {
    question: Question<'a, 'v>,
    alb: &'v Backend,
    pub(super) settings: &'v Alb,
    members: Vec<&'v Arc<Backend>>,
    budget: Budget,
    cells: &'v BackendCells,
}

impl<'v> Round<'_, 'v> {
    /// Everybody's answer, as soon as it begins.
    pub(super) fn replies(&self) -> Fanout<'_, Come<Reply<'v>>> {
        self.slots(|member| ask(self.question.clone(), member))
    }

    /// Everybody's answer, once it is here.
    pub(super) fn wholes(&self) -> Fanout<'_, Come<Kept<'v>>> {
        self.slots(|member| async move {
            if self.budget.is_spent() {
                return Err(MemberFailure::AggregateCap.into());
            }
            let room = Room {
                bytes_max: self.alb.capture_bytes_max,
                budget: &self.budget,
            };
            let reply = ask(self.question.clone(), member).await?;
            Ok(reply.keep(room, &self.question.passage).await?)
        })
    }

    /// Asks whoever is live, and chooses.
    async fn run(&self) -> Result<Reply<'v>, Lost> {
        let view = self.question.task.view;
        if let [only] = self.members.as_slice() {
            view.active.cells(only.id).selected.bump();
            return self.only(only).await;
        }
        count_attempt(view, self.alb, self.settings);
        if self.members.is_empty() {
            let alb = self.alb.name.clone();
            return Err(Failure::NoLiveMember { alb }.into());
        }
        let chosen = match self.settings.mechanism {
            Mechanism::FirstResponse => first_response::run(self).await,
            Mechanism::FirstGoodResponse => first_good_response::run(self).await,
            Mechanism::NewestLastModified => newest_last_modified::run(self).await,
            Mechanism::RoundRobin | Mechanism::TimeSeriesMerge | Mechanism::UserRouter => {
                Err(Failure::Internal)
            }
        };
        Ok(chosen?)
    }

    /// The answer of the only live member.
    async fn only(&self, member: &'v Arc<Backend>) -> Result<Reply<'v>, Lost> {
        let mut work = ask(self.question.clone(), member);
        match within(self.settings.timeout, work.as_mut()).await {
            Some(come) => come,
            None => {
                self.question.task.shard.expire(|| drop(work));
                Err(MemberFailure::TimedOut.into())
            }
        }
    }

    fn slots<'r, T: 'r, F>(&'r self, work: impl Fn(&'v Arc<Backend>) -> F) -> Fanout<'r, Come<T>>
    where
        F: Future<Output = Result<T, Lost>> + 'r,
    {
        let slot = |(slot, member): (usize, &&'v Arc<Backend>)| {
            let work = work(member);
            let cells = self.question.task.view.active.cells(member.id);
            let answer: Answer<'r, Come<T>> = Box::pin(async move {
                cells.selected.bump();
                let mut work = pin!(work);
                let come = guard(work.as_mut()).await;
                (slot, come.unwrap_or(Err(MemberFailure::Internal.into())))
            });
            answer
        };
        let at_once = self.settings.concurrency_max;
        let at_once = at_once.map_or(usize::MAX, |limit| limit as usize);
        Fanout::new(self.members.iter().enumerate().map(slot).collect(), at_once)
    }

    /// Runs `work` up to the ALB's deadline. Contract: decisions, 16.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        within(self.settings.timeout, work).await
    }

    /// Somebody has won: cancels the others.
    pub(super) fn claimed<T>(&self, losers: Fanout<'_, T>) {
        let claimed = Instant::now();
        let mechanism = self.settings.mechanism.name();
        losers.cancel(|| self.cells.observe_drain(mechanism, claimed.elapsed()));
    }

    /// Time is up: cancels who is still out.
    pub(super) fn expired<T>(&self, late: Fanout<'_, T>, losses: &mut Losses<'_>) {
        let shard = self.question.task.shard;
        shard.expire(|| late.cancel(|| losses.add(MemberFailure::TimedOut.into())));
    }

    /// Nobody is lost yet.
    pub(super) fn losses(&self) -> Losses<'_> {
        Losses {
            cells: self.cells,
            mechanism: self.settings.mechanism,
            refused: None,
        }
    }
}

/// Members that gave nothing.
pub(super) struct Losses<'a> {
    cells: &'a BackendCells,
    mechanism: Mechanism,
    /// What an ALB among them found wrong with the request itself.
    refused: Option<Failure>,
}

impl Losses<'_> {
    /// One more.
    pub(super) fn add(&mut self, lost: Lost) {
        let reason = match &lost {
            Lost::Failed(failure) => match reason(failure) {
                // Nothing is merged here.
                "merge" => "no_contribution",
                other => other,
            },
            Lost::Refused(_) => "no_contribution",
        };
        let mechanism = self.mechanism.name();
        self.cells
            .count_fanout(mechanism, "", ("failures", reason), 1);
        if let Lost::Refused(failure) = lost
            && failure.fault() == Fault::Client
        {
            self.refused = Some(failure);
        }
    }

    /// The answer when everybody is lost: what is wrong with the request, else a bad gateway, whether they broke or
    /// were late. Contract: ALB page, 8.
    pub(super) fn failure(self) -> Failure {
        self.refused.unwrap_or(Failure::NoAnswer {
            before_any_byte: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn status(mechanism: Mechanism, lost: Vec<Lost>) -> u16 {
        let cells = BackendCells::new("any".into(), "alb");
        let mut losses = Losses {
            cells: &cells,
            mechanism,
            refused: None,
        };
        lost.into_iter().for_each(|lost| losses.add(lost));
        losses.failure().status()
    }

    #[test]
    fn nobody_left_is_a_bad_gateway() {
        let unreachable = || Lost::from(MemberFailure::Unreachable);
        let late = || Lost::from(MemberFailure::TimedOut);
        let late_below = || Lost::from(Failure::UpstreamTimeout);
        for mechanism in [
            Mechanism::FirstResponse,
            Mechanism::FirstGoodResponse,
            Mechanism::NewestLastModified,
        ] {
            assert_eq!(status(mechanism, vec![unreachable(), unreachable()]), 502);
            assert_eq!(status(mechanism, vec![late(), unreachable()]), 502);
            assert_eq!(status(mechanism, vec![unreachable(), late_below()]), 502);
        }
    }

    #[test]
    fn what_is_wrong_with_the_request_is_said() {
        let limit = Duration::from_secs(60);
        let lost = vec![
            Failure::QueryRange { limit }.into(),
            MemberFailure::TimedOut.into(),
        ];
        assert_eq!(status(Mechanism::FirstResponse, lost), 400);
    }
}
