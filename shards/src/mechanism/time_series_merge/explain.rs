//! How a query is answered, said to who wants to know: what each replica group is asked, how the answers combine, what
//! is evaluated here, whether that is exact; and, where it is carried out, what each request cost.
//!
//! [`explained`] answers the parameter `explain` on the two query paths; [`explain`] does it from the configuration
//! alone, for the command line. Neither asks a member, unless the request says `run`.

use ringway_merge::{
    Care, Dialect, Endpoint, Explanation, GroupSpec, MemberSpec, Merged, write_string,
};

use super::gather::{Asking, Done, Lineup, Outcome, carry_out};
use super::planning::{Ground, Planned, plan_for};
use super::request::ApiRequest;
use super::servers::{self, Facts};
use crate::mechanism::question;
use crate::metrics::cache_status;
use crate::plan::{Alb, Backend, BackendKind, ExpectedGroups, Plan};
use crate::respond::Failure;

/// The parameter.
pub(super) const PARAMETER: &str = "explain";
/// The header that tells an explanation from an answer.
const HEADER: &str = "X-Ringway-Explain";
/// Most characters of a query in a line of text.
const QUERY_CHARS_MAX: usize = 100;

/// How an explanation is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    json: bool,
    /// The query is carried out.
    runs: bool,
}

/// Takes the wish out of a request for a query, if there is one.
pub(super) fn wish(request: &mut ApiRequest) -> Option<Wish> {
    if !matches!(request.endpoint, Endpoint::Query | Endpoint::QueryRange) {
        return None;
    }
    let wish = match request.get(PARAMETER)? {
        "json" => Some((true, false)),
        "run" => Some((false, true)),
        "run-json" => Some((true, true)),
        "0" | "false" => None,
        _ => Some((false, false)),
    };
    request.remove(PARAMETER);
    wish.map(|(json, runs)| Wish { json, runs })
}

/// Explains a request that came to `alb`.
pub(super) async fn explained(
    asking: &Asking<'_>,
    alb: &Alb,
    wish: Wish,
) -> Result<Outcome, Failure> {
    let task = asking.task;
    if task.view.table.pool(alb.pool).live.is_empty() && wish.runs {
        let alb = task.backend.name.clone();
        return Err(Failure::NoLiveMember { alb });
    }
    let began = std::time::Instant::now();
    let done = match wish.runs {
        true => match carry_out(asking, (task.backend, alb)).await {
            Ok(done) => Some(done),
            Err(refused) => return Ok(refused.into_outcome()),
        },
        false => None,
    };
    let took_ms = began.elapsed().as_secs_f64() * 1000.0;
    let lineup = Lineup::of(asking, alb);
    let ground = lineup.ground(task.view, alb);
    let facts = servers::known(asking, alb).unwrap_or_default();
    let retry = done.as_ref().and_then(|done| done.retry);
    let care = retry.map(|retry| retry.care()).unwrap_or_default();
    let planned = plan_for(asking.request, &alb.tsm, &ground, (&facts, care));
    let said = Said {
        backend: &task.backend.name,
        groups: &lineup.groups,
        explanation: planned.plan.explain(&lineup.groups),
        version: (planned.version, planned.version_from),
        run: done.as_ref().map(|done| Run { done, took_ms }),
    };
    let (content_type, body) = match wish.json {
        true => ("application/json; charset=UTF-8", said.json()),
        false => ("text/plain; charset=utf-8", said.text()),
    };
    let line = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let what = if wish.runs { "run" } else { "plan" };
    Ok(Outcome {
        status: 200,
        headers: vec![line("Content-Type", content_type), line(HEADER, what)],
        result: format!("engine=HTTPProxy; status={}", cache_status(200)),
        body: vec![body.into_bytes()],
    })
}

/// A query to explain.
#[derive(Clone, Debug)]
pub struct Question {
    /// `query`, and its times.
    pub parameters: Vec<(String, String)>,
    /// Whether it is a range query.
    pub is_range: bool,
    /// JSON in place of text.
    pub json: bool,
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// The backend merges nothing.
    #[error("the backend is no ALB of mechanism tsm")]
    NoMerge,
    /// A server would refuse the times.
    #[error(
        "the times cannot be read: write seconds or RFC 3339, a step such as 15s, and at most 11000 steps"
    )]
    Times,
}

/// Explains how `backend` of a configuration answers a query when all of its members are live.
///
/// # Errors
/// When there is nothing to explain.
pub fn explain(
    plan: &Plan,
    backend: &Backend,
    question: &Question,
) -> Result<String, ExplainError> {
    let BackendKind::Alb(alb) = &backend.kind else {
        return Err(ExplainError::NoMerge);
    };
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    parameters.extend_pairs(&question.parameters);
    let endpoint = match question.is_range {
        true => Endpoint::QueryRange,
        false => Endpoint::Query,
    };
    let request = ApiRequest::read(endpoint, parameters.finish().as_bytes(), b"");
    let mut request = request.ok_or(ExplainError::Times)?;
    request.stamp(question::now());
    if request.grid().is_none() {
        return Err(ExplainError::Times);
    }
    let groups = configured_groups(plan, alb);
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    let ground = Ground::of(plan, alb.pool, &names);
    let facts = (&Facts::default(), Care::default());
    let planned: Planned = plan_for(&request, &alb.tsm, &ground, facts);
    let said = Said {
        backend: &backend.name,
        explanation: planned.plan.explain(&groups),
        groups: &groups,
        version: (planned.version, planned.version_from),
        run: None,
    };
    Ok(match question.json {
        true => said.json(),
        false => said.text(),
    })
}

/// The groups of a pool, in configured order, and those that have to be there.
fn configured_groups(plan: &Plan, alb: &Alb) -> Vec<GroupSpec> {
    let mut groups: Vec<GroupSpec> = Vec::new();
    for member in &plan.pools[alb.pool.0 as usize].members {
        let backend = plan.backend(member.backend);
        let group = &*backend.replica_group;
        let at = groups.iter().position(|other| other.name == group);
        let at = at.unwrap_or_else(|| {
            groups.push(GroupSpec {
                name: group.to_owned(),
                members: Vec::new(),
            });
            groups.len() - 1
        });
        let members = &mut groups[at].members;
        if members.iter().all(|other| *other.name != *backend.name) {
            members.push(MemberSpec::new(&backend.name));
        }
    }
    if let ExpectedGroups::Named(names) = &alb.tsm.expected_groups {
        for name in names {
            if groups.iter().all(|group| group.name != *name) {
                groups.push(GroupSpec {
                    name: name.clone(),
                    members: Vec::new(),
                });
            }
        }
    }
    groups
}

/// All that is said.
struct Said<'a> {
    backend: &'a str,
    groups: &'a [GroupSpec],
    version: (Dialect, &'static str),
    explanation: Explanation,
    run: Option<Run<'a>>,
}

struct Run<'a> {
    done: &'a Done<'a>,
    took_ms: f64,
}

/// What one member was asked.
struct Request<'a> {
    variant: usize,
    query: Option<&'a str>,
    group: &'a str,
    member: &'a str,
    series: u64,
    samples: u64,
    bytes: u64,
    ms: f64,
    failure: Option<String>,
}

impl Run<'_> {
    fn requests(&self) -> Vec<Request<'_>> {
        let Done {
            plan,
            lineup,
            merged,
            exchanges,
            ..
        } = self.done;
        let mut exchanges = exchanges.clone();
        exchanges.sort_by_key(|exchange| {
            let slot = exchange.slot;
            (slot.variant, slot.group, slot.member)
        });
        let request = |exchange: &super::gather::Exchange| {
            let slot = exchange.slot;
            let group = lineup.groups.get(slot.group)?;
            let read = merged.reads.iter().find(|read| read.slot == slot);
            let failure = merged.failures.iter().find(|lost| lost.slot == slot);
            Some(Request {
                variant: slot.variant,
                query: plan.variants.get(slot.variant)?.query_for(slot.group),
                group: &group.name,
                member: &group.members.get(slot.member)?.name,
                series: read.map_or(0, |read| read.series),
                samples: read.map_or(0, |read| read.samples),
                bytes: exchange.bytes,
                ms: exchange.took.as_secs_f64() * 1000.0,
                failure: failure.map(|lost| lost.reason.to_string()),
            })
        };
        exchanges.iter().filter_map(request).collect()
    }

    fn bytes(&self) -> u64 {
        let exchanges = self.done.exchanges.iter();
        exchanges.map(|exchange| exchange.bytes).sum()
    }
}

impl Said<'_> {
    fn text(&self) -> String {
        let (version, from) = self.version;
        let mut text = format!("backend {}, PromQL {version} ({from})\n", self.backend);
        for group in self.groups {
            let members: Vec<&str> = group.members.iter().map(|one| one.name.as_str()).collect();
            let members = match members.is_empty() {
                true => "no live member".to_owned(),
                false => members.join(", "),
            };
            text.push_str(&format!("group {}: {members}\n", group.name));
        }
        text.push_str(&self.explanation.to_string());
        if let Some(run) = &self.run {
            run_text(&mut text, run);
        }
        text
    }

    fn json(&self) -> String {
        let mut out = Vec::new();
        let (version, from) = self.version;
        open(&mut out, "{", "backend", self.backend);
        open(&mut out, ",", "promql_version", &version.to_string());
        open(&mut out, ",", "promql_version_from", from);
        out.extend_from_slice(b",\"groups\":[");
        for (at, group) in self.groups.iter().enumerate() {
            open(&mut out, comma(at, "{", ",{"), "name", &group.name);
            out.extend_from_slice(b",\"members\":[");
            for (at, member) in group.members.iter().enumerate() {
                out.extend_from_slice(comma(at, "", ",").as_bytes());
                write_string(&mut out, &member.name);
            }
            out.extend_from_slice(b"]}");
        }
        out.extend_from_slice(b"],\"plan\":");
        out.extend_from_slice(self.explanation.to_json().as_bytes());
        if let Some(run) = &self.run {
            run_json(&mut out, run);
        }
        out.extend_from_slice(b"}\n");
        String::from_utf8_lossy(&out).into_owned()
    }
}

fn run_text(text: &mut String, run: &Run<'_>) {
    let merged: &Merged = &run.done.merged;
    let bytes = run.bytes();
    let ms = run.took_ms;
    text.push_str(&format!(
        "carried out: status {} in {ms:.1} ms; read {} series, {} samples, {bytes} bytes\n",
        merged.status, merged.series, merged.samples
    ));
    if let Some(retry) = run.done.retry {
        text.push_str(&format!("  planned and asked again: {retry}\n"));
    }
    let mut shown = None;
    for request in run.requests() {
        let query = request.query.unwrap_or("as requested");
        if shown != Some((request.variant, query)) {
            let query: String = query.chars().take(QUERY_CHARS_MAX).collect();
            text.push_str(&format!("  request {}: {query}\n", request.variant + 1));
        }
        shown = Some((request.variant, query));
        let Request {
            group,
            member,
            series,
            samples,
            bytes,
            ms,
            ..
        } = request;
        let cost = format!("{series} series, {samples} samples, {bytes} bytes, {ms:.1} ms");
        let failure = request
            .failure
            .map_or_else(String::new, |why| format!("; failed: {why}"));
        text.push_str(&format!("    {member} of {group}: {cost}{failure}\n"));
    }
}

fn run_json(out: &mut Vec<u8>, run: &Run<'_>) {
    let merged: &Merged = &run.done.merged;
    out.extend_from_slice(
        format!(
            ",\"run\":{{\"status\":{},\"partial\":{},\"ms\":{:.3},\"series\":{},\"samples\":{},\"bytes\":{}",
            merged.status,
            merged.partial,
            run.took_ms,
            merged.series,
            merged.samples,
            run.bytes()
        )
        .as_bytes(),
    );
    if let Some(retry) = run.done.retry {
        open(out, ",", "retry", &retry.to_string());
    }
    out.extend_from_slice(b",\"requests\":[");
    for (at, request) in run.requests().into_iter().enumerate() {
        open(out, comma(at, "{", ",{"), "group", request.group);
        open(out, ",", "member", request.member);
        if let Some(query) = request.query {
            open(out, ",", "query", query);
        }
        out.extend_from_slice(
            format!(
                ",\"request\":{},\"series\":{},\"samples\":{},\"bytes\":{},\"ms\":{:.3}",
                request.variant + 1,
                request.series,
                request.samples,
                request.bytes,
                request.ms
            )
            .as_bytes(),
        );
        if let Some(failure) = &request.failure {
            open(out, ",", "error", failure);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

/// Appends `before`, and a member with a text.
fn open(out: &mut Vec<u8>, before: &str, name: &str, text: &str) {
    out.extend_from_slice(before.as_bytes());
    write_string(out, name);
    out.push(b':');
    write_string(out, text);
}

fn comma<'t>(at: usize, first: &'t str, other: &'t str) -> &'t str {
    if at == 0 { first } else { other }
}
