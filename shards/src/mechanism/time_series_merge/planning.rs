//! What a request comes to before anybody is asked: its plan, its limits, and who has to be there.
//!
//! Called by `gather` and `explain`; calls `servers` where a part of the query is evaluated here.

use std::time::Duration;

use ringway_merge::{Care, Clock, Dialect, Plan, PlanOptions, PlanWarning, label_asked_for, plan};

use super::MERGE_TIME;
use super::gather::Asking;
use super::request::ApiRequest;
use super::servers::{self, Facts};
use super::times::Span;
use crate::limits::HOPS_MAX;
use crate::metrics::BackendCells;
use crate::plan::{
    Alb, Backend, BackendKind, ExpectedGroups, Mechanism, Plan as Configured, PoolId,
    TimeSeriesMerge,
};
use crate::snapshot::Pool;

/// What the planner has to know of a pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ground {
    groups: usize,
    /// Labels that all members of a group add to their answers alike, by group.
    injected: Vec<Vec<(String, String)>>,
    /// Labels that only some of a group's members add, or add with another value.
    uneven: Vec<String>,
}

impl Ground {
    /// Of the groups with these names, in order; of some the pool may have no member.
    pub(super) fn of(plan: &Configured, pool: PoolId, names: &[&str]) -> Ground {
        let members = &plan.pools[pool.0 as usize].members;
        let backends = || members.iter().map(|member| plan.backend(member.backend));
        let mut ground = Ground {
            groups: names.len(),
            ..Ground::default()
        };
        for name in names {
            let in_group = backends().filter(|backend| *backend.replica_group == **name);
            let labels = in_group.map(|backend| added_by(plan, backend, &mut ground.uneven, 0));
            let labels = labels.collect();
            let common = common(labels, &mut ground.uneven);
            ground.injected.push(common);
        }
        ground
    }
}

/// Labels that a member adds to its answers; those that members below it add unevenly join `uneven`. A merge sees to
/// the labels of its own groups.
pub(super) fn added_by(
    plan: &Configured,
    backend: &Backend,
    uneven: &mut Vec<String>,
    depth: usize,
) -> Vec<(String, String)> {
    let BackendKind::Alb(alb) = &backend.kind else {
        return backend.injected_labels().to_vec();
    };
    if depth == HOPS_MAX {
        return Vec::new();
    }
    let members = plan.pools[alb.pool.0 as usize].members.iter();
    let mut own = Vec::new();
    let labels = members.map(|member| {
        let below = plan.backend(member.backend);
        added_by(plan, below, &mut own, depth + 1)
    });
    let labels = labels.collect();
    let common = common(labels, &mut own);
    if alb.mechanism != Mechanism::TimeSeriesMerge {
        uneven.append(&mut own);
    }
    common
}

/// What all of these have in common; names of the others join `uneven`.
fn common(
    mut labels: Vec<Vec<(String, String)>>,
    uneven: &mut Vec<String>,
) -> Vec<(String, String)> {
    let is_everywhere = |label: &(String, String)| labels.iter().all(|other| other.contains(label));
    let all = labels.iter().flatten();
    uneven.extend(
        all.filter(|label| !is_everywhere(label))
            .map(|(name, _)| name.clone()),
    );
    let mut common = labels.first().cloned().unwrap_or_default();
    common.retain(is_everywhere);
    labels.clear();
    common
}

/// A plan, and what the servers are taken for.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) version: Dialect,
    /// Where that version comes from.
    pub(super) version_from: &'static str,
}

/// Plans a request for servers of which so much is known.
pub(super) fn plan_for(
    request: &ApiRequest,
    settings: &TimeSeriesMerge,
    ground: &Ground,
    (facts, care): (&Facts, Care),
) -> Planned {
    let query = request.get("query");
    let clock: Option<Clock> = request
        .grid()
        .map(|grid| facts.clock(grid, request, settings));
    let mut options = PlanOptions::default();
    options.clock = clock;
    // Its servers hold all there is; of labels that are added to that they know nothing.
    let is_bare = ground.injected.iter().all(Vec::is_empty);
    options.is_one_group = ground.groups < 2 && is_bare;
    options
        .partition_labels
        .clone_from(&settings.partition_labels);
    options.injected_labels.clone_from(&ground.injected);
    options.may_share = settings.may_share;
    options.care = care;
    let mut plan = plan(&request.endpoint, query, &options);
    let facts = facts.under(settings);
    if let (Some(first), Some(other)) = (facts.version, facts.other) {
        plan.warnings
            .push(PlanWarning::MixedVersions { first, other });
    }
    if facts.version.is_none() && plan.evaluates_windows() {
        let assumed = Dialect::default();
        plan.warnings.push(PlanWarning::UnknownVersion { assumed });
    }
    warn_of_uneven(&mut plan, request, ground);
    Planned {
        plan,
        version: facts.version.unwrap_or_default(),
        version_from: match (settings.promql_version, facts.version) {
            (Some(_), _) => "as configured",
            (None, Some(_)) => "as the servers say",
            (None, None) => "assumed",
        },
    }
}

/// The servers do not know labels that ringway adds, so that asking for one finds nothing. Queries are planned with
/// those that a whole group has.
fn warn_of_uneven(plan: &mut Plan, request: &ApiRequest, ground: &Ground) {
    let mut names: Vec<&str> = ground.uneven.iter().map(String::as_str).collect();
    let told = ground
        .injected
        .iter()
        .flatten()
        .map(|(name, _)| name.as_str());
    let lists = request.all("match[]");
    let found = request
        .all("query")
        .find_map(|text| label_asked_for(text, &names));
    let found = found.map(str::to_owned).or_else(|| {
        names.extend(told);
        let mut lists = lists;
        lists
            .find_map(|text| label_asked_for(text, &names))
            .map(str::to_owned)
    });
    if let Some(label) = found {
        plan.warnings.push(PlanWarning::InjectedLabel { label });
    }
}

/// What is asked. Where a part is evaluated here it has to be known what the servers are, and they are asked where that
/// is not known yet.
pub(super) async fn planned(
    asking: &Asking<'_>,
    settings: &Alb,
    (ground, care): (&Ground, Care),
    cells: &BackendCells,
) -> Plan {
    let plan_for = |facts: &Facts| plan_for(asking.request, &settings.tsm, ground, (facts, care));
    let mut facts = servers::known(asking, settings);
    let nothing = Facts::default();
    let mut plan = plan_for(facts.as_deref().unwrap_or(&nothing)).plan;
    if facts.is_none() && plan.is_local() {
        let asked = Box::pin(servers::ask(asking, settings)).await;
        plan = plan_for(&asked).plan;
        facts = Some(asked);
    }
    if let Some(facts) = facts.map(|facts| facts.under(&settings.tsm))
        && let (Some(first), Some(other)) = (facts.version, facts.other)
    {
        let shard = asking.task.shard;
        shard.note_versions(cells, || format!("{first}, {other}"));
    }
    plan
}

/// How long members may take: as long as the ALB allows, and no longer than the client waits.
fn member_limit(request: &ApiRequest, settings: &Alb) -> Duration {
    let asked = request.span("timeout").map(Span::duration);
    asked.map_or(settings.timeout, |asked| asked.min(settings.timeout))
}

/// What is left of that.
pub(super) fn time_left(asking: &Asking<'_>, settings: &Alb) -> Duration {
    member_limit(asking.request, settings).saturating_sub(asking.began.elapsed())
}

/// How long all of it may take. Merging what came in time takes what it takes; an evaluation is one of a query, and
/// ends when the query's time is over.
pub(super) fn evaluation_limit(asking: &Asking<'_>, settings: &Alb, plan: &Plan) -> Duration {
    let limit = member_limit(asking.request, settings);
    match plan.is_local() {
        true => limit,
        false => limit + MERGE_TIME,
    }
}

/// Groups that have to be there and that the pool does not know.
pub(super) fn forgotten(pool: &Pool, settings: &TimeSeriesMerge) -> Vec<String> {
    match &settings.expected_groups {
        ExpectedGroups::Known => Vec::new(),
        ExpectedGroups::Count(count) => {
            let missing = (*count as usize).saturating_sub(pool.groups.len());
            let names = (1..=missing).map(|number| format!("unknown group {number}"));
            names.collect()
        }
        ExpectedGroups::Named(names) => {
            let is_known = |name: &&String| pool.groups.iter().any(|group| *group.name == ***name);
            let names = names.iter().filter(|name| !is_known(name));
            names.cloned().collect()
        }
    }
}
