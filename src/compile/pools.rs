//! ALBs: settings of a mechanism, pools, health floors.

use ringway_shards::plan::{
    Alb, BackendId, Mechanism, PoolId, PoolMember, PoolPlan, Retry, TimeSeriesMerge,
};
use serde_json::{Map, Value as Json};

use super::context::Context;
use super::control::{HealthCheck, PoolFloor};
use super::effective::Provenance;
use super::graph::{Graph, Pool, pool_path};
use super::roster::{Entry, Live, Roster};
use super::unless_zero;
use crate::config::alb::PoolEntry;
use crate::config::units::Period;
use crate::config::{Caution, Fault, Path, defaults};
use crate::control::publish::{TURNS_MAX, rotation_length};

/// Pools and their floors, both by pool id.
pub(super) struct Pools {
    pub(super) plans: Vec<PoolPlan>,
    pub(super) floors: Vec<PoolFloor>,
}

/// The id of an ALB's pool: ALBs count in the order of their backends.
pub(super) fn pool_id(roster: &Roster<'_>, id: BackendId) -> PoolId {
    let before = roster
        .live()
        .take_while(|(other, _, _)| *other != id)
        .filter(|(_, live, _)| *live == Live::Alb);
    PoolId(u32::try_from(before.count()).unwrap_or(u32::MAX))
}

/// All pools.
pub(super) fn compile(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    graph: &Graph,
    checks: &[HealthCheck],
) -> Pools {
    let mut pools = Pools {
        plans: Vec::new(),
        floors: Vec::new(),
    };
    for (backend, live, entry) in roster.live() {
        if live != Live::Alb {
            continue;
        }
        let id = PoolId(u32::try_from(pools.plans.len()).unwrap_or(u32::MAX));
        debug_assert_eq!(id, pool_id(roster, backend));
        let members = graph.pool(backend).map_or(Vec::new(), members);
        note_members(context, entry);
        check_rotation(context, entry, &members);
        let floor = floor(context, roster, entry, (id, &members), checks);
        pools.plans.push(PoolPlan {
            id,
            alb_name: entry.name.into(),
            members,
            healthy_floor: floor.effective,
        });
        pools.floors.push(floor);
    }
    pools
}

fn members(pool: &Pool) -> Vec<PoolMember> {
    let members = pool.members.iter().map(|member| PoolMember {
        backend: member.backend,
        weight: member.weight,
    });
    members.collect()
}

fn note_members(context: &mut Context<'_>, entry: &Entry<'_>) {
    let at = pool_path(entry.name);
    let written = entry.written.alb.as_ref().and_then(|alb| alb.pool.as_ref());
    if context.document.written_at(&at).is_none() || written.is_none_or(Vec::is_empty) {
        context.warn_key(&at, Caution::EmptyPool);
    }
    let shown = |member: &PoolEntry| match member {
        PoolEntry::Name(name) => Json::from(name.as_str()),
        PoolEntry::Weighted { name, weight } => {
            let mut map = Map::new();
            map.insert("name".into(), Json::from(name.clone()));
            let weight = weight.unwrap_or(0).max(defaults::WEIGHT.value);
            map.insert("weight".into(), Json::from(weight));
            Json::Object(map)
        }
    };
    let list = written.into_iter().flatten().map(shown).collect();
    context.note_written(&at, Json::Array(list));
}

/// Every table holds one whole rotation of its pools.
fn check_rotation(context: &mut Context<'_>, entry: &Entry<'_>, members: &[PoolMember]) {
    let turns = rotation_length(members.iter().map(|member| member.weight));
    let turns_max = TURNS_MAX;
    if turns > turns_max {
        let at = pool_path(entry.name);
        context.fail_key(&at, Fault::RotationTooLong { turns, turns_max });
    }
}

/// A floor of 1 with members that are never probed is none. Contract: ALB page, 4.
fn floor(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    entry: &Entry<'_>,
    (id, members): (PoolId, &[PoolMember]),
    checks: &[HealthCheck],
) -> PoolFloor {
    let at = Path::of(&["backends", entry.name, "alb", "healthy_floor"]);
    let written = entry.written.alb.as_ref().and_then(|alb| alb.healthy_floor);
    let configured = context.pick(&at, written, defaults::HEALTHY_FLOOR);
    let mut unprobed: Vec<Box<str>> = Vec::new();
    if configured >= 1 {
        for member in members {
            let name: Box<str> = roster.name(member.backend).into();
            if never_probed(roster, checks, member.backend) && !unprobed.contains(&name) {
                unprobed.push(name);
            }
        }
    }
    let effective = if unprobed.is_empty() { configured } else { 0 };
    if effective != configured {
        let members = unprobed.join(", ");
        context.warn_key(&at, Caution::FloorReset { members });
        let from = format!("{configured} is reset: members without healthcheck.interval");
        context.note(&at, Json::from(effective), Provenance::Derived(from));
    }
    if effective < 0 {
        context.warn_key(&at, Caution::AdmitsFailing);
    }
    PoolFloor {
        pool: id,
        alb_name: entry.name.into(),
        configured,
        effective,
        unprobed,
    }
}

/// Whether a member is an origin without an interval.
fn never_probed(roster: &Roster<'_>, checks: &[HealthCheck], id: BackendId) -> bool {
    let is_alb = graph_role(roster, id) == Some(Live::Alb);
    let check = checks.iter().find(|check| check.backend == id);
    !is_alb && check.is_none_or(|check| check.interval.is_none())
}

fn graph_role(roster: &Roster<'_>, id: BackendId) -> Option<Live> {
    match roster.entry(id)?.role {
        super::roster::Role::Live(_, live) => Some(live),
        _ => None,
    }
}

/// What one answer, and one fan-out, may capture: of the ALB, else of its backend, else of `default`.
fn capture_caps(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    name: &str,
    own: &crate::config::backends::Backend,
    written: &crate::config::alb::Alb,
) -> (u64, u64) {
    let at = Path::of(&["backends", name]);
    let block = at.key("alb");
    let common = roster.common_caps();
    let capture_bytes = context.pick_first(
        &[
            (block.key("max_capture_bytes"), written.max_capture_bytes),
            (at.key("max_capture_bytes"), own.max_capture_bytes),
            (
                Path::of(&["backends", "default", "max_capture_bytes"]),
                common.and_then(|backend| backend.max_capture_bytes),
            ),
        ],
        defaults::CAPTURE_BYTES,
    );
    let fanout_bytes = context.pick_first(
        &[
            (
                block.key("max_fanout_capture_bytes"),
                written.max_fanout_capture_bytes,
            ),
            (
                at.key("max_fanout_capture_bytes"),
                own.max_fanout_capture_bytes,
            ),
            (
                Path::of(&["backends", "default", "max_fanout_capture_bytes"]),
                common.and_then(|backend| backend.max_fanout_capture_bytes),
            ),
        ],
        defaults::FANOUT_BYTES,
    );
    (capture_bytes, fanout_bytes)
}

fn warn_of_weights(context: &mut Context<'_>, name: &str, written: &crate::config::alb::Alb) {
    let weighted = written.pool.iter().flatten().enumerate();
    for (index, member) in weighted {
        let weight = pool_path(name).item(index).key("weight");
        if matches!(
            member,
            PoolEntry::Weighted {
                weight: Some(2..),
                ..
            }
        ) {
            context.warn_no_effect(&weight, "a time series merge asks every member once");
        }
    }
}

/// The settings of one ALB; `None` when it is refused.
pub(super) fn alb(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    graph: &Graph,
    id: BackendId,
    entry: &Entry<'_>,
) -> Option<(Alb, u64)> {
    let at = Path::of(&["backends", entry.name]);
    let block = at.key("alb");
    let written = entry.written.alb.as_ref()?;
    let pool = graph.pool(id)?;
    let merges = pool.mechanism == Mechanism::TimeSeriesMerge;
    let own = entry.written;
    let (capture_bytes, fanout_bytes) = capture_caps(context, roster, entry.name, own, written);
    let timeout = context.pick_or_derive(
        &block.key("timeout"),
        written.timeout,
        Period(graph.timeout(roster, id)),
        "the largest timeout of its members",
    );
    let range = context.pick(
        &at.key("max_query_range"),
        own.max_query_range,
        defaults::QUERY_RANGE,
    );
    let (tsm, concurrency_max) = match merges {
        true => merge_settings(context, &block, written),
        false => {
            refuse_merge_keys(context, &at, &block);
            (TimeSeriesMerge::default(), None)
        }
    };
    if merges {
        warn_of_weights(context, entry.name, written);
    }
    let alb = Alb {
        mechanism: pool.mechanism,
        pool: pool_id(roster, id),
        fanout_bytes_max: (fanout_bytes > 0).then_some(fanout_bytes),
        timeout: timeout.0,
        query_range_max: unless_zero(range).filter(|_| merges),
        concurrency_max,
        good_status: None,
        retry: Retry::NONE,
        user_router: None,
        tsm,
    };
    // 0 stands for "not set" here. Contract: ALB page, 2.1.
    let capture_bytes = match capture_bytes {
        0 => defaults::CAPTURE_BYTES.value,
        bytes => bytes,
    };
    Some((alb, capture_bytes))
}

fn merge_settings(
    context: &mut Context<'_>,
    block: &Path,
    written: &crate::config::alb::Alb,
) -> (TimeSeriesMerge, Option<u32>) {
    let at = block.key("output_format");
    let format = context.pick_text(
        &at,
        written.output_format.as_deref(),
        defaults::OUTPUT_FORMAT,
    );
    if format != defaults::OUTPUT_FORMAT.value {
        context.fail_value(&at, Fault::OutputFormat { format });
    }
    let tsm = written.tsm.clone().unwrap_or_default();
    let at = block.key("tsm");
    let limit = context.pick(
        &at.key("query_concurrency_limit"),
        tsm.query_concurrency_limit,
        defaults::CONCURRENCY,
    );
    let times = context.pick(
        &at.key("query_concurrency_multiplier"),
        tsm.query_concurrency_multiplier,
        defaults::CONCURRENCY_MULTIPLIER,
    );
    let tolerance = context.pick(
        &at.key("dedup_tolerance_ms"),
        tsm.dedup_tolerance_ms,
        defaults::DEDUP_TOLERANCE_MS,
    );
    let tsm = TimeSeriesMerge {
        dedup_tolerance_ms: tolerance,
    };
    (tsm, (limit > 0).then(|| limit.saturating_mul(times)))
}

/// Keys that only the time series merge has: its own block is an error elsewhere, a bound that cannot be
/// met only a warning.
fn refuse_merge_keys(context: &mut Context<'_>, at: &Path, block: &Path) {
    for key in ["tsm", "output_format"] {
        if context.document.written_at(&block.key(key)).is_some() {
            let fault = Fault::WrongMechanism {
                mechanism: "rr",
                allowed: "mechanism tsm",
            };
            context.fail_key(&block.key(key), fault);
        }
    }
    let reason = "round robin asks one member and captures nothing";
    context.warn_no_effect(&block.key("max_capture_bytes"), reason);
    context.warn_no_effect(&block.key("max_fanout_capture_bytes"), reason);
    context.warn_no_effect(&block.key("timeout"), "the chosen member's timeout counts");
    context.warn_no_effect(
        &at.key("max_query_range"),
        "only a time series merge keeps it",
    );
}
