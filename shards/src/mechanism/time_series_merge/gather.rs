//! The fan-out of one merge: who is asked what, and the merge stepped while they answer.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_io::net::http1::{BodyFraming, Method, RequestHead};
use ringway_io::task::within;
use ringway_merge::{
    Answer, Arena, Care, Endpoint, Execution, GroupSpec, MemberFailure, MemberSpec, MergeOptions,
    Merged, Plan, Progress, Retry, Slot, limits,
};

use super::documents;
use super::explain;
use super::planning::{Ground, added_by, evaluation_limit, forgotten, planned, time_left};
use super::refusal::{self, Refusal};
use super::request::ApiRequest;
use super::{servers, to_merge};
use crate::capture::{Budget, Segments};
use crate::dispatch::{self, Terminal};
use crate::exchange::Task;
use crate::fanout::{Fanout, Fetched, Room, fetch, reason};
use crate::headers::{Hop, Remade};
use crate::limits::HOPS_MAX;
use crate::mechanism::question::{self, Question, RequestBody};
use crate::mechanism::round::{Lost, choose};
use crate::metrics::{BackendCells, Count};
use crate::passage::{Asked, Passage, params, refusal};
use crate::plan::{Alb, Backend, BackendKind, TimeSeriesMerge};
use crate::respond::Failure;
use crate::shard::View;
use crate::snapshot::{Member, Pool};

/// Put in front of every warning that ringway adds to an answer.
const WARNING_PREFIX: &str = "ringway: ";
/// Most groups that are named when replicas disagree.
const DISPUTED_TOLD_MAX: usize = 8;

/// One request to be merged.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) task: &'a Task<'a>,
    pub(super) head: (&'a RequestHead, &'a [u8]),
    pub(super) hop: Hop<'a>,
    /// The path it came on, behind the route's prefix.
    pub(super) path: &'a [u8],
    /// How the request came to the ALB that merges.
    pub(super) passage: &'a Passage<'a>,
    pub(super) request: &'a ApiRequest,
    /// Members get the parameters as a form, since the client sent one.
    pub(super) by_form: bool,
    /// Fan-outs passed on the way here.
    pub(super) hops: usize,
    /// When it came: limits of time count from then on.
    pub(super) began: Instant,
}

/// A merged answer.
pub(super) struct Outcome {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Value of `X-Trickster-Result`.
    pub(super) result: String,
    pub(super) body: Vec<Vec<u8>>,
}

/// The members of a pool as the merge sees them; `members[group][index]` is who is meant.
pub(super) struct Lineup<'v> {
    pub(super) groups: Vec<GroupSpec>,
    members: Vec<Vec<&'v Member>>,
}

/// Whether the request can be passed through as it came: one live member, nobody missing, nothing rewritten.
/// Contract: tsm page, 7 (bypass).
pub(super) fn may_bypass(task: &Task<'_>, alb: &Alb, endpoint: &Endpoint, query: &[u8]) -> bool {
    let pool = task.view.table.pool(alb.pool);
    let mut live = pool.live.iter();
    let Some(only) = live.next() else {
        return false;
    };
    let is_one = pool.groups.len() == 1 && forgotten(pool, &alb.tsm).is_empty();
    let alone = is_one && live.all(|other| other.backend.id == only.backend.id);
    let mut names = Vec::new();
    injected_names(task.view, pool, &mut names, 0);
    if !alone || !names.is_empty() {
        return false;
    }
    let has = |wanted: &str| {
        let mut parameters = form_urlencoded::parse(query);
        parameters.any(|(name, value)| name == wanted && !value.is_empty())
    };
    // One without a time must be stamped, one to be explained is not for the member.
    !has(explain::PARAMETER) && (endpoint != &Endpoint::Query || has("time"))
}

/// Asks all live members of `alb` and merges what they answer.
pub(super) async fn gather(asking: &Asking<'_>, alb: &Arc<Backend>) -> Result<Outcome, Failure> {
    let BackendKind::Alb(settings) = &alb.kind else {
        return Err(Failure::Internal);
    };
    let view = asking.task.view;
    let pool = view.table.pool(settings.pool);
    if pool.live.is_empty() {
        return Err(Failure::NoLiveMember {
            alb: alb.name.clone(),
        });
    }
    let fails_partial = match refusal::fails_partial(asking.request, &settings.tsm) {
        Ok(fails) => fails,
        Err(refused) => return Ok(refused.into_outcome()),
    };
    let done = match carry_out(asking, (alb, settings)).await {
        Ok(done) => done,
        Err(refused) => return Ok(refused.into_outcome()),
    };
    let Done {
        plan,
        merged,
        fetched,
        ..
    } = done;
    if let Some(refused) = refusal::of_merged(&merged, &plan, settings, fails_partial) {
        return Ok(refused.into_outcome());
    }
    if merged.leader.is_none() && merged.status >= 500 && merged.body.is_empty() {
        return Err(Failure::NoAnswer {
            before_any_byte: false,
        });
    }
    Ok(outcome(documents::content_type(asking), merged, fetched))
}

/// A request that was carried out.
pub(super) struct Done<'v> {
    pub(super) plan: Plan,
    pub(super) lineup: Lineup<'v>,
    pub(super) merged: Merged,
    fetched: Vec<(Slot, Fetched)>,
    pub(super) exchanges: Vec<Exchange>,
    /// Why it was planned and asked again.
    pub(super) retry: Option<Retry>,
}

/// What one slot cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) slot: Slot,
    /// Of the answer, content coding undone.
    pub(super) bytes: u64,
    pub(super) took: Duration,
}

/// Plans a request, asks for it and merges; again, and leaving less to the servers, where the answers show that to be
/// better.
pub(super) async fn carry_out<'v>(
    asking: &Asking<'v>,
    (alb, settings): (&Backend, &Alb),
) -> Result<Done<'v>, Refusal> {
    let (mut care, mut why, mut before) = (Care::default(), None, None);
    loop {
        let round = Box::pin(carry_out_once(asking, (alb, settings), care));
        let done = match (round.await, before.take()) {
            (Ok(done), Some(_)) if done.merged.status < 400 => done,
            (_, Some(before)) => return Ok(before),
            (round, None) => round?,
        };
        match done.merged.retry {
            Some(retry) if retry.care() > care => {
                care = retry.care();
                why = Some(retry);
                before = retry.may_fail().then_some(Done {
                    retry: None,
                    ..done
                });
            }
            _ => return Ok(Done { retry: why, ..done }),
        }
    }
}

async fn carry_out_once<'v>(
    asking: &Asking<'v>,
    (alb, settings): (&Backend, &Alb),
    care: Care,
) -> Result<Done<'v>, Refusal> {
    let view = asking.task.view;
    let lineup = Lineup::of(asking, settings);
    let ground = lineup.ground(view, settings);
    let cells = view.active.cells(alb.id);
    let plan = planned(asking, settings, (&ground, care), cells).await;
    if let Some(refused) = refusal::of_plan(&plan, lineup.groups.len(), &settings.tsm) {
        cells.count_fanout("tsm", "", ("plans", "refused"), 1);
        return Err(refused);
    }
    let until = asking.began + evaluation_limit(asking, settings, &plan);
    let answers = fan_out(asking, settings, &plan, &lineup, cells);
    let merged = merge(asking, settings, (&plan, until), &lineup, answers).await;
    let (merged, kept) = merged.ok_or_else(Refusal::timed_out)?;
    count(cells, &plan, &merged);
    if merged.events.iter().any(|events| events.conflicts > 0) {
        let shard = asking.task.shard;
        shard.note_conflict(cells, || disputed(&lineup, &merged));
    }
    let (fetched, exchanges) = kept;
    Ok(Done {
        plan,
        lineup,
        merged,
        fetched,
        exchanges,
        retry: None,
    })
}

/// Asks the first live member that answers, and adds a warning that its answer is one group's.
pub(super) async fn first(asking: &Asking<'_>, settings: &Alb) -> Result<Outcome, Failure> {
    let pool = asking.task.view.table.pool(settings.pool);
    let mut answered = Err(Failure::NoLiveMember {
        alb: asking.task.backend.name.clone(),
    });
    for member in &pool.live {
        let budget = Budget::new(settings.fanout_bytes_max);
        let request = asking.request;
        answered = match ask_member(asking, settings, member, request, budget).await {
            Ok(fetched) => Ok((member, fetched)),
            Err(MemberFailure::TimedOut) => Err(Failure::UpstreamTimeout),
            Err(_) => Err(Failure::NoAnswer {
                before_any_byte: false,
            }),
        };
        if answered.is_ok() {
            break;
        }
    }
    let (member, fetched) = answered?;
    let group = &pool.groups[member.group as usize].name;
    Ok(Outcome {
        status: fetched.status,
        content_type: documents::content_type(asking),
        headers: fetched.headers,
        result: format!(
            "engine=HTTPProxy; status={}",
            crate::metrics::cache_status(fetched.status)
        ),
        body: with_warning(fetched.body, group),
    })
}

/// A JSON object with a warning as its first member; anything else as it is. Put first, it needs no look at
/// the rest of a document that may be large.
fn with_warning(mut body: Vec<u8>, group: &str) -> Vec<Vec<u8>> {
    let Some(open) = body.iter().position(|byte| !byte.is_ascii_whitespace()) else {
        return vec![body];
    };
    let next = body[open + 1..]
        .iter()
        .find(|byte| !byte.is_ascii_whitespace());
    if body[open] != b'{' || next != Some(&b'"') {
        return vec![body];
    }
    let group: String = group
        .chars()
        .filter(|c| !matches!(c, '"' | '\\') && *c >= ' ')
        .collect();
    let warning = format!(
        "{{\"warnings\":[\"{WARNING_PREFIX}this path is not merged: the answer is that of replica group \
         {group} only\"],"
    );
    // The warning brings the brace along.
    body[open] = b' ';
    vec![warning.into_bytes(), body]
}

type Come = (Slot, Duration, Result<Fetched, MemberFailure>);
/// What is left of the answers when they are merged.
type Kept = (Vec<(Slot, Fetched)>, Vec<Exchange>);

/// One future per member and variant.
fn fan_out<'a>(
    asking: &'a Asking<'a>,
    settings: &'a Alb,
    plan: &'a Plan,
    lineup: &'a Lineup<'a>,
    cells: &BackendCells,
) -> Fanout<'a, Come> {
    let own = settings.tsm.budget.bytes_max;
    let own = own.filter(|bytes_max| refusal::binds(*bytes_max, settings));
    let budget = Budget::new(own.or(settings.fanout_bytes_max));
    let mut members: Vec<Pin<Box<dyn Future<Output = Come> + 'a>>> = Vec::new();
    for (variant, ask) in plan.variants.iter().enumerate() {
        cells.count_fanout("tsm", ask.name, ("attempts", ""), 1);
        let groups = lineup.members.iter().enumerate();
        for (group, in_group) in groups.filter(|(group, _)| ask.ask.includes(*group)) {
            for (index, member) in in_group.iter().enumerate() {
                let slot = Slot {
                    group,
                    member: index,
                    variant,
                };
                let budget = budget.clone();
                let request = asking.request.of_variant(ask, group);
                members.push(Box::pin(async move {
                    let began = Instant::now();
                    let come = ask_member(asking, settings, member, &request, budget).await;
                    (slot, began.elapsed(), come)
                }));
            }
        }
    }
    let at_once = settings
        .concurrency_max
        .map_or(usize::MAX, |limit| limit as usize);
    Fanout::new(members, at_once)
}

/// Asks an origin what was made for it.
async fn ask_origin(
    (asking, made): (&Asking<'_>, &Made<'_>),
    settings: &Alb,
    (backend, passage): (&Arc<Backend>, &Passage<'_>),
    room: Room<'_>,
) -> Result<Fetched, MemberFailure> {
    let BackendKind::Origin(origin) = &backend.kind else {
        return Err(MemberFailure::Internal);
    };
    let room = Room {
        bytes_max: room.bytes_max.min(backend.capture_bytes_max),
        ..room
    };
    let question = made.question(asking, passage.clone());
    let asking_it = question.of_origin((backend, origin), passage, &made.body);
    let ask = match passage.authority() {
        None => asking_it.await,
        // Where that is may have to be found out first.
        Some(_) => {
            let in_time = within(time_left(asking, settings), asking_it).await;
            in_time.ok_or(MemberFailure::TimedOut)?
        }
    };
    let ask = ask.map_err(|_| MemberFailure::Unreachable)?;
    let limit = origin.timeout.min(time_left(asking, settings));
    let mut fetched = Box::pin(fetch(ask, room, limit)).await?;
    fetched.injected_labels = backend.injected_labels().to_vec();
    Ok(fetched)
}

/// Asks one member, which may itself be an ALB, this request.
pub(super) async fn ask_member(
    asking: &Asking<'_>,
    settings: &Alb,
    member: &Member,
    request: &ApiRequest,
    budget: Budget,
) -> Result<Fetched, MemberFailure> {
    let task = asking.task;
    let view = task.view;
    view.active.cells(member.backend.id).selected.bump();
    let mut passage = asking.passage.fork(&member.backend);
    let parameters = request.encoded();
    let path = request.path().map_or(asking.path, str::as_bytes);
    let asked = Asked {
        received: asking.hop.received,
        query: Some(parameters.as_bytes()),
        ..Asked::of(asking.head, path, asking.hop.client_tls)
    };
    let terminal = match dispatch::arrive(view, &asked, &mut passage).await {
        Ok(terminal) => terminal,
        Err(failure) => return refusal(&failure).ok_or(MemberFailure::Unreachable),
    };
    let draft = passage.redrafted(asking.passage);
    let rewritten;
    let (asking, parameters) = match &draft {
        None => (asking, parameters.as_bytes()),
        Some(draft) => {
            rewritten = Asking {
                head: draft.text(),
                ..*asking
            };
            let query = draft.head.query(&draft.bytes).unwrap_or_default();
            (&rewritten, query)
        }
    };
    let path = draft.as_ref().map_or(path, |draft| draft.path());
    let made = Made::of(asking, (path, parameters), &passage);
    let room = Room {
        bytes_max: task.backend.capture_bytes_max,
        budget: &budget,
    };
    let mut fetched = match terminal {
        Terminal::Origin(backend) => {
            ask_origin((asking, &made), settings, (backend, &passage), room).await?
        }
        Terminal::Merge(inner) => {
            let read = draft.as_ref().and_then(|_| {
                let endpoint = request.endpoint.clone();
                ApiRequest::read(endpoint, parameters, b"")
            });
            nested(asking, inner, &passage, read.as_ref().unwrap_or(request)).await?
        }
        Terminal::Choice(inner) => {
            let question = made.question(asking, passage);
            let limit = time_left(asking, settings);
            let chosen = chosen(asking, question, inner, room, limit);
            return Box::pin(chosen).await;
        }
        Terminal::Local(local) => return Ok(passage.local(local)),
    };
    passage.amend(&mut fetched);
    Ok(fetched)
}

/// A member that chooses among others passes on what one of them said.
async fn chosen(
    asking: &Asking<'_>,
    question: Question<'_, '_>,
    inner: &Arc<Backend>,
    room: Room<'_>,
    limit: Duration,
) -> Result<Fetched, MemberFailure> {
    let mut work = Box::pin(async {
        let passage = (*question.passage).clone();
        let reply = choose(question.deeper(passage)?, inner).await?;
        Ok(reply.decode(asking.task, room, asking.passage).await?)
    });
    let fetched = within(limit, work.as_mut()).await;
    if fetched.is_none() {
        asking.task.shard.expire(|| drop(work));
    }
    let fetched = fetched.unwrap_or(Err(MemberFailure::TimedOut.into()));
    fetched.map_err(Lost::into_member)
}

/// A member that merges by itself answers with a document of its own.
async fn nested(
    asking: &Asking<'_>,
    inner: &Arc<Backend>,
    passage: &Passage<'_>,
    request: &ApiRequest,
) -> Result<Fetched, MemberFailure> {
    if asking.hops == HOPS_MAX {
        return Err(MemberFailure::Unreachable);
    }
    let BackendKind::Alb(settings) = &inner.kind else {
        return Err(MemberFailure::Internal);
    };
    let task = Task {
        backend: inner,
        ..*asking.task
    };
    let path = request.path();
    if let Some(path) = path.filter(|_| request.is_about_server()) {
        let asking = Asking {
            task: &task,
            passage,
            hops: asking.hops + 1,
            ..*asking
        };
        let facts = Box::pin(servers::ask(&asking, settings)).await;
        let said = facts.under(&settings.tsm).said(path);
        return said.ok_or(MemberFailure::Unreachable);
    }
    let mut request = request.clone();
    request.edit(passage.member_params());
    let request = match to_merge(&task, settings, request, question::now()) {
        Ok(request) => request,
        Err(failure) => return Ok(refused(&failure)),
    };
    let asking = Asking {
        path: path.map_or(asking.path, str::as_bytes),
        request: &request,
        passage,
        hops: asking.hops + 1,
        ..*asking
    };
    let gathered: Pin<Box<dyn Future<Output = _> + '_>> = Box::pin(gather(&asking, inner));
    let outcome = gathered.await.map_err(|_| MemberFailure::Unreachable)?;
    Ok(Fetched {
        status: outcome.status,
        headers: outcome.headers,
        body: outcome.body.concat(),
        // Its own merge has injected them, where it has not taken them off.
        injected_labels: added_by(&asking.task.view.active.plan, inner, &mut Vec::new(), 0),
    })
}

/// What a nested ALB says to a request that it does not allow, in the API's own form.
fn refused(failure: &Failure) -> Fetched {
    // Its text has nothing to escape.
    let body =
        format!("{{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"{failure}\"}}");
    Fetched {
        status: failure.status(),
        body: body.into_bytes(),
        ..Fetched::default()
    }
}

/// What members are asked, made from the request's parameters.
struct Made<'r> {
    path: &'r [u8],
    query: Vec<u8>,
    body: RequestBody,
}

impl<'r> Made<'r> {
    fn of(
        asking: &Asking<'_>,
        (path, parameters): (&'r [u8], &[u8]),
        passage: &Passage<'_>,
    ) -> Made<'r> {
        let parameters = params::rewrite(parameters, passage.member_params());
        if !asking.by_form {
            return Made {
                path,
                query: parameters,
                body: RequestBody::none(),
            };
        }
        let form = Segments::of(vec![parameters]);
        Made {
            path,
            query: Vec::new(),
            body: RequestBody::of(BodyFraming::Length(form.len()), form),
        }
    }

    fn question<'q>(&'q self, asking: &'q Asking<'_>, passage: Passage<'q>) -> Question<'q, 'q> {
        Question {
            task: asking.task,
            head: asking.head,
            hop: asking.hop,
            params_done: Some(passage.changes()),
            passage: Rc::new(passage),
            method: if asking.by_form {
                Method::Post
            } else {
                Method::Get
            },
            method_text: if asking.by_form { b"POST" } else { b"GET" },
            path: self.path,
            query: (!self.query.is_empty()).then_some(self.query.as_slice()),
            body: &self.body,
            remade: Some(Remade {
                accept_encoding: b"gzip",
                content_type: asking
                    .by_form
                    .then_some(b"application/x-www-form-urlencoded"),
                accept: documents::accepted(asking),
            }),
            // What is merged only reads, whatever its method.
            repeatable: true,
            // Stamped into the parameters where it matters.
            now: question::now(),
            hops: asking.hops,
        }
    }
}

/// Steps the merge while answers come in; `None` when it would take longer than it may.
async fn merge(
    asking: &Asking<'_>,
    settings: &Alb,
    (plan, until): (&Plan, Instant),
    lineup: &Lineup<'_>,
    mut answers: Fanout<'_, Come>,
) -> Option<(Merged, Kept)> {
    let members = lineup.members.iter().map(Vec::len).sum();
    let slots = Execution::slots(plan, members);
    let arena = Arena::new(limits::ARENA_BYTES_DEFAULT, slots);
    let options = MergeOptions {
        dedup_tolerance_ms: i64::try_from(settings.tsm.dedup_tolerance_ms).unwrap_or(i64::MAX),
        warning_prefix: WARNING_PREFIX,
        trim: asking.request.trim(),
        aggregates_histograms: settings.tsm.adds_histograms,
        samples_max: settings.tsm.budget.samples_max.unwrap_or(u64::MAX),
        series_max: settings.tsm.budget.series_max.unwrap_or(u64::MAX),
    };
    let mut merge = Execution::new(&arena, plan, &lineup.groups, &options);
    let mut kept: Vec<(Slot, Fetched)> = Vec::new();
    let mut exchanges = Vec::new();
    loop {
        let come = match merge.step(limits::STEP_UNITS_DEFAULT) {
            Progress::Done => break,
            Progress::More if Instant::now() > until => return None,
            Progress::More => {
                asking.task.shard.turns.yield_now().await;
                answers.ready().await
            }
            Progress::Starved => match answers.next().await {
                Some(come) => Some(come),
                None => break,
            },
        };
        match come {
            Some((slot, took, Ok(mut fetched))) => {
                exchanges.push(Exchange {
                    slot,
                    bytes: fetched.body.len() as u64,
                    took,
                });
                let answer = Answer {
                    status: fetched.status,
                    body: std::mem::take(&mut fetched.body),
                    injected_labels: std::mem::take(&mut fetched.injected_labels),
                };
                merge.add(slot, answer);
                kept.push((slot, fetched));
            }
            Some((slot, took, Err(failure))) => {
                let bytes = 0;
                exchanges.push(Exchange { slot, bytes, took });
                merge.fail(slot, failure);
            }
            None => {}
        }
    }
    Some((merge.finish(), (kept, exchanges)))
}

impl<'v> Lineup<'v> {
    /// Who is in which group, in pool order; a member listed twice is asked once.
    pub(super) fn of(asking: &Asking<'v>, alb: &Alb) -> Lineup<'v> {
        let view = asking.task.view;
        let configured = &view.active.plan.pools[alb.pool.0 as usize].members;
        line_up(configured, asking, (view.table.pool(alb.pool), &alb.tsm))
    }

    /// What the planner has to know of them.
    pub(super) fn ground(&self, view: &View, alb: &Alb) -> Ground {
        let names: Vec<&str> = self
            .groups
            .iter()
            .map(|group| group.name.as_str())
            .collect();
        Ground::of(&view.active.plan, alb.pool, &names)
    }
}

fn line_up<'v>(
    configured: &[crate::plan::PoolMember],
    asking: &Asking<'v>,
    (pool, settings): (&'v Pool, &TimeSeriesMerge),
) -> Lineup<'v> {
    let backends = &asking.task.view.active.plan.backends;
    let mut groups = Vec::new();
    let mut members = Vec::new();
    for (index, group) in pool.groups.iter().enumerate() {
        let mut in_group: Vec<&Member> = Vec::new();
        for member in pool
            .live
            .iter()
            .filter(|member| member.group as usize == index)
        {
            if !in_group
                .iter()
                .any(|other| other.backend.id == member.backend.id)
            {
                in_group.push(member);
            }
        }
        let first = configured
            .iter()
            .map(|member| &backends[member.backend.index()])
            .find(|backend| backend.replica_group == group.name)
            .map(|backend| backend.id);
        let specs = in_group.iter().map(|member| MemberSpec {
            name: member.backend.name.to_string(),
            is_first: first.is_none_or(|id| id == member.backend.id),
        });
        groups.push(GroupSpec {
            name: group.name.to_string(),
            members: specs.collect(),
        });
        members.push(in_group);
    }
    for name in forgotten(pool, settings) {
        groups.push(GroupSpec {
            name,
            members: Vec::new(),
        });
        members.push(Vec::new());
    }
    Lineup { groups, members }
}

/// Names of the labels that may be injected below the live members of a pool. Contract: ALB page, 7.
fn injected_names<'v>(view: &'v View, pool: &'v Pool, names: &mut Vec<&'v str>, depth: usize) {
    for member in &pool.live {
        let own = member.backend.injected_labels();
        names.extend(own.iter().map(|(name, _)| &**name));
        if let BackendKind::Alb(alb) = &member.backend.kind
            && depth < HOPS_MAX
        {
            injected_names(view, view.table.pool(alb.pool), names, depth + 1);
        }
    }
}

fn outcome(content_type: &'static str, merged: Merged, fetched: Vec<(Slot, Fetched)>) -> Outcome {
    let leader = merged.leader;
    let headers = fetched.into_iter().find(|(slot, _)| Some(*slot) == leader);
    let status = match (merged.partial, merged.status) {
        (true, 200..300) => "phit",
        (_, status) => crate::metrics::cache_status(status),
    };
    Outcome {
        status: merged.status,
        content_type,
        headers: headers
            .map(|(_, fetched)| fetched.headers)
            .unwrap_or_default(),
        result: format!("engine=HTTPProxy; status={status}"),
        body: merged.body,
    }
}

/// Names of the groups whose replicas disagree.
fn disputed(lineup: &Lineup<'_>, merged: &Merged) -> String {
    let disputed = merged.events.iter().filter(|events| events.conflicts > 0);
    let names: Vec<&str> = disputed
        .take(DISPUTED_TOLD_MAX)
        .map(|events| lineup.groups[events.group].name.as_str())
        .collect();
    names.join(", ")
}

fn count(cells: &BackendCells, plan: &Plan, merged: &Merged) {
    for events in &merged.events {
        let variant = plan.variants[events.variant].name;
        let rows = [
            ("group_attempted", events.attempted),
            ("group_failed", events.failed),
            ("fallback", events.fallback),
            ("suppressed", events.suppressed),
            ("conflict", events.conflicts),
        ];
        for (event, count) in rows {
            cells.count_fanout("tsm", variant, ("replica_events", event), count);
        }
    }
    cells.count_fanout(
        "tsm",
        "",
        ("replica_events", "conflict"),
        merged.group_conflicts,
    );
    for failure in &merged.failures {
        let variant = plan.variants[failure.slot.variant].name;
        cells.count_fanout("tsm", variant, ("failures", reason(&failure.reason)), 1);
    }
    let warned = if plan.warnings.is_empty() {
        "exact"
    } else {
        "warned"
    };
    cells.count_fanout("tsm", "", ("plans", warned), 1);
    cells.count_fanout("tsm", "", ("partial", ""), u64::from(merged.partial));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_goes_in_front_of_an_object_only() {
        let text =
            |body: &str| String::from_utf8(with_warning(body.into(), "a").concat()).expect("UTF-8");
        assert_eq!(
            text(" {\"status\":\"success\"}"),
            "{\"warnings\":[\"ringway: this path is not merged: the answer is that of replica group a only\"],\
             \u{20} \"status\":\"success\"}"
        );
        for untouched in ["", "{}", "[1]", "plain text", "{"] {
            assert_eq!(text(untouched), untouched);
        }
    }
}
