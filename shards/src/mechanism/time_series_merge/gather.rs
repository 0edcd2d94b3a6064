//! The fan-out of one merge: who is asked what, and the merge stepped while they answer.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringway_io::net::http1::{BodyFraming, Method, RequestHead};
use ringway_io::task::within;
use ringway_merge::{
    Answer, Arena, Endpoint, GroupSpec, MemberFailure, MemberSpec, Merge, MergeOptions, Merged,
    Plan, PlanOptions, PlanWarning, Progress, Slot, label_asked_for, limits, plan,
};

use super::request::ApiRequest;
use super::to_merge;
use crate::capture::{Budget, Segments};
use crate::dispatch::{self, Terminal};
use crate::exchange::Task;
use crate::fanout::{Fanout, Fetched, Room, fetch, reason};
use crate::headers::{Hop, Remade};
use crate::limits::HOPS_MAX;
use crate::mechanism::question::{self, Question, RequestBody};
use crate::mechanism::round::{Lost, choose};
use crate::metrics::{BackendCells, Count};
use crate::passage::{Asked, Passage, params, path_below, refusal};
use crate::plan::{Alb, Backend, BackendKind};
use crate::respond::Failure;
use crate::shard::View;
use crate::snapshot::{Member, Pool};

/// Put in front of every warning that ringway adds to an answer.
const WARNING_PREFIX: &str = "ringway: ";
/// Most groups that are named when replicas disagree.
const DISPUTED_TOLD_MAX: usize = 8;

/// One request to be merged.
pub(super) struct Asking<'a> {
    pub(super) task: &'a Task<'a>,
    pub(super) head: (&'a RequestHead, &'a [u8]),
    pub(super) hop: Hop<'a>,
    /// How the request came to the ALB that merges.
    pub(super) passage: &'a Passage<'a>,
    pub(super) request: &'a ApiRequest,
    /// Members get the parameters as a form, since the client sent one.
    pub(super) by_form: bool,
    /// Fan-outs passed on the way here.
    pub(super) hops: usize,
}

/// A merged answer.
pub(super) struct Outcome {
    pub(super) status: u16,
    pub(super) headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Value of `X-Trickster-Result`.
    pub(super) result: String,
    pub(super) body: Vec<Vec<u8>>,
}

/// The members of a pool as the merge sees them; `members[group][index]` is who is meant.
struct Lineup<'v> {
    groups: Vec<GroupSpec>,
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
    let alone = live.all(|other| other.backend.id == only.backend.id) && pool.groups.len() == 1;
    let mut names = Vec::new();
    injected_names(task.view, pool, &mut names, 0);
    if !alone || !names.is_empty() {
        return false;
    }
    let value = |wanted: &str| {
        let found = form_urlencoded::parse(query).find(|(name, _)| name == wanted);
        found
            .map(|(_, value)| value.into_owned())
            .filter(|value| !value.is_empty())
    };
    if endpoint == &Endpoint::Query && value("time").is_none() {
        // It must be stamped.
        return false;
    }
    plan(endpoint, value("query").as_deref(), &PlanOptions::default()).may_bypass()
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
    let mut plan = plan(
        &asking.request.endpoint,
        asking.request.get("query"),
        &PlanOptions::default(),
    );
    warn_of_injected(&mut plan, asking.request, (view, pool));
    let lineup = line_up(
        view.active.plan.pools[settings.pool.0 as usize]
            .members
            .as_slice(),
        asking,
        pool,
    );
    let cells = view.active.cells(alb.id);
    let answers = fan_out(asking, settings, &plan, &lineup, cells);
    let (merged, fetched) = merge(asking, settings, &plan, &lineup, answers).await;
    count(cells, &plan, &merged);
    if merged.events.iter().any(|events| events.conflicts > 0) {
        let shard = asking.task.shard;
        shard.note_conflict(cells, || disputed(&lineup, &merged));
    }
    if merged.leader.is_none() && merged.status >= 500 && merged.body.is_empty() {
        return Err(Failure::NoAnswer {
            before_any_byte: false,
        });
    }
    Ok(outcome(merged, fetched))
}

/// Asks the first live member that answers, and adds a warning that its answer is one group's.
pub(super) async fn first(asking: &Asking<'_>, settings: &Alb) -> Result<Outcome, Failure> {
    let pool = asking.task.view.table.pool(settings.pool);
    let mut answered = Err(Failure::NoLiveMember {
        alb: asking.task.backend.name.clone(),
    });
    for member in &pool.live {
        let budget = Budget::new(settings.fanout_bytes_max);
        answered = match ask_member(asking, settings, member, None, budget).await {
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

/// A label of `prometheus.labels` is not known to the servers, so that asking for it finds nothing.
fn warn_of_injected(plan: &mut Plan, request: &ApiRequest, (view, pool): (&View, &Pool)) {
    let mut names = Vec::new();
    injected_names(view, pool, &mut names, 0);
    let mut texts = request.all("query").chain(request.all("match[]"));
    if let Some(label) = texts.find_map(|text| label_asked_for(text, &names)) {
        plan.warnings.push(PlanWarning::InjectedLabel {
            label: label.to_owned(),
        });
    }
}

type Come = (Slot, Result<Fetched, MemberFailure>);

/// One future per member and variant.
fn fan_out<'a>(
    asking: &'a Asking<'a>,
    settings: &'a Alb,
    plan: &'a Plan,
    lineup: &'a Lineup<'a>,
    cells: &BackendCells,
) -> Fanout<'a, Come> {
    let budget = Budget::new(settings.fanout_bytes_max);
    let mut members: Vec<Pin<Box<dyn Future<Output = Come> + 'a>>> = Vec::new();
    for (variant, ask) in plan.variants.iter().enumerate() {
        cells.count_fanout("tsm", ask.name, ("attempts", ""), 1);
        for (group, in_group) in lineup.members.iter().enumerate() {
            for (index, member) in in_group.iter().enumerate() {
                let slot = Slot {
                    group,
                    member: index,
                    variant,
                };
                let budget = budget.clone();
                let query = ask.query.as_deref();
                members.push(Box::pin(async move {
                    (
                        slot,
                        ask_member(asking, settings, member, query, budget).await,
                    )
                }));
            }
        }
    }
    let at_once = settings
        .concurrency_max
        .map_or(usize::MAX, |limit| limit as usize);
    Fanout::new(members, at_once)
}

/// Asks one member, which may itself be an ALB.
async fn ask_member(
    asking: &Asking<'_>,
    settings: &Alb,
    member: &Member,
    query: Option<&str>,
    budget: Budget,
) -> Result<Fetched, MemberFailure> {
    let task = asking.task;
    let view = task.view;
    view.active.cells(member.backend.id).selected.bump();
    let mut passage = asking.passage.fork(&member.backend);
    let asked = Asked {
        head: asking.head.0,
        bytes: asking.head.1,
        strip: task.strip,
    };
    let terminal = match dispatch::arrive(view, &asked, &mut passage).await {
        Ok(terminal) => terminal,
        Err(failure) => return refusal(&failure).ok_or(MemberFailure::Unreachable),
    };
    let made = Made::of(asking, query, &passage);
    let room = Room {
        bytes_max: task.backend.capture_bytes_max,
        budget: &budget,
    };
    let mut fetched = match terminal {
        Terminal::Origin(backend) => {
            let BackendKind::Origin(origin) = &backend.kind else {
                return Err(MemberFailure::Internal);
            };
            let room = Room {
                bytes_max: room.bytes_max.min(backend.capture_bytes_max),
                ..room
            };
            let question = made.question(asking, passage.clone());
            let ask = question.of_origin((backend, origin), &passage, &made.body);
            let limit = origin.timeout.min(settings.timeout);
            let mut fetched = Box::pin(fetch(ask, room, limit)).await?;
            fetched.injected_labels = backend.injected_labels().to_vec();
            fetched
        }
        Terminal::Merge(inner) => nested(asking, inner, &passage, query).await?,
        Terminal::Choice(inner) => {
            let question = made.question(asking, passage);
            let chosen = chosen(asking, question, inner, room, settings.timeout);
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
    query: Option<&str>,
) -> Result<Fetched, MemberFailure> {
    if asking.hops == HOPS_MAX {
        return Err(MemberFailure::Unreachable);
    }
    let BackendKind::Alb(settings) = &inner.kind else {
        return Err(MemberFailure::Internal);
    };
    let mut request = asking.request.with_query(query);
    request.edit(passage.member_params());
    let task = Task {
        backend: inner,
        ..*asking.task
    };
    let request = match to_merge(&task, settings, request, question::now()) {
        Ok(request) => request,
        Err(failure) => return Ok(refused(&failure)),
    };
    let asking = Asking {
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
        // Its own merge has injected them.
        injected_labels: Vec::new(),
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
struct Made {
    query: Vec<u8>,
    body: RequestBody,
}

impl Made {
    fn of(asking: &Asking<'_>, query: Option<&str>, passage: &Passage<'_>) -> Made {
        let parameters = asking.request.encoded(query);
        let parameters = params::rewrite(parameters.as_bytes(), passage.member_params());
        if !asking.by_form {
            return Made {
                query: parameters,
                body: RequestBody::none(),
            };
        }
        let form = Segments::of(vec![parameters]);
        Made {
            query: Vec::new(),
            body: RequestBody::of(BodyFraming::Length(form.len()), form),
        }
    }

    fn question<'q>(&'q self, asking: &'q Asking<'_>, passage: Passage<'q>) -> Question<'q, 'q> {
        let (head, bytes) = asking.head;
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
            path: path_below(head.path(bytes), asking.task.strip),
            query: (!self.query.is_empty()).then_some(self.query.as_slice()),
            body: &self.body,
            remade: Some(Remade {
                accept_encoding: b"gzip",
                content_type: asking
                    .by_form
                    .then_some(b"application/x-www-form-urlencoded"),
            }),
            // What is merged only reads, whatever its method.
            repeatable: true,
            // Stamped into the parameters where it matters.
            now: question::now(),
            hops: asking.hops,
        }
    }
}

/// Steps the merge while answers come in.
async fn merge(
    asking: &Asking<'_>,
    settings: &Alb,
    plan: &Plan,
    lineup: &Lineup<'_>,
    mut answers: Fanout<'_, Come>,
) -> (Merged, Vec<(Slot, Fetched)>) {
    let slots: usize = lineup.members.iter().map(Vec::len).sum::<usize>() * plan.variants.len();
    let arena = Arena::new(limits::ARENA_BYTES_DEFAULT, slots);
    let options = MergeOptions {
        dedup_tolerance_ms: i64::try_from(settings.tsm.dedup_tolerance_ms).unwrap_or(i64::MAX),
        warning_prefix: WARNING_PREFIX,
        ..MergeOptions::default()
    };
    let mut merge = Merge::new(&arena, plan, &lineup.groups, options);
    let mut kept: Vec<(Slot, Fetched)> = Vec::new();
    loop {
        let come = match merge.step(limits::STEP_UNITS_DEFAULT) {
            Progress::Done => break,
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
            Some((slot, Ok(mut fetched))) => {
                let answer = Answer {
                    status: fetched.status,
                    body: std::mem::take(&mut fetched.body),
                    injected_labels: std::mem::take(&mut fetched.injected_labels),
                };
                merge.add(slot, answer);
                kept.push((slot, fetched));
            }
            Some((slot, Err(failure))) => merge.fail(slot, failure),
            None => {}
        }
    }
    (merge.finish(), kept)
}

/// Who is in which group, in pool order; a member listed twice is asked once.
fn line_up<'v>(
    configured: &[crate::plan::PoolMember],
    asking: &Asking<'v>,
    pool: &'v Pool,
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

fn outcome(merged: Merged, fetched: Vec<(Slot, Fetched)>) -> Outcome {
    let leader = merged.leader;
    let headers = fetched.into_iter().find(|(slot, _)| Some(*slot) == leader);
    let status = match (merged.partial, merged.status) {
        (true, 200..300) => "phit",
        (_, status) => crate::metrics::cache_status(status),
    };
    Outcome {
        status: merged.status,
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
