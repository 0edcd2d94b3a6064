//! Pools of ALBs: members, health floors, ejection.

use std::collections::HashSet;

use ringway_shards::plan::{BackendId, Mechanism, PoolId, PoolMember, PoolPlan};
use serde_json::{Map, Value as Json};

use super::context::Context;
use super::control::{HealthCheck, PoolEjection, PoolFloor};
use super::discovery::unprobed_template;
use super::effective::Provenance;
use super::graph::{Graph, Pool, pool_path};
use super::roster::{Entry, Live, Roster};
use crate::config::alb::PoolEntry;
use crate::config::{Caution, Fault, Path, defaults};
use crate::control::publish::{TURNS_MAX, rotation_length};

/// Pools and their floors, both by pool id, and the ejection of those that have it.
pub(super) struct Pools {
    pub(super) plans: Vec<PoolPlan>,
    pub(super) floors: Vec<PoolFloor>,
    pub(super) ejections: Vec<PoolEjection>,
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
        ejections: Vec::new(),
    };
    for (backend, live, entry) in roster.live() {
        if live != Live::Alb {
            continue;
        }
        let id = PoolId(u32::try_from(pools.plans.len()).unwrap_or(u32::MAX));
        debug_assert_eq!(id, pool_id(roster, backend));
        let pool = graph.pool(backend);
        let members = pool.map_or(Vec::new(), members);
        // A user router has targets, which are noted with it, and no floor but the contract's.
        let floor = match pool.map(|pool| pool.mechanism) {
            Some(Mechanism::UserRouter) => router_floor(entry, id),
            _ => {
                note_members(context, entry);
                pool.into_iter()
                    .for_each(|pool| warn_of_repeats(context, roster, pool));
                check_rotation(context, entry, &members);
                floor(context, roster, entry, (id, &members), checks)
            }
        };
        pools.ejections.extend(ejection(context, entry, id));
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
    let alb = entry.written.alb.as_ref();
    let written = alb.and_then(|alb| alb.pool.as_ref());
    let discovers = alb.is_some_and(|alb| alb.discovery.is_some());
    if discovers && written.is_none() {
        return;
    }
    if !discovers && written.is_none_or(Vec::is_empty) {
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

/// In a rotation a member that is listed again has more turns; elsewhere that means nothing.
fn warn_of_repeats(context: &mut Context<'_>, roster: &Roster<'_>, pool: &Pool) {
    if pool.mechanism == Mechanism::RoundRobin {
        return;
    }
    let mut seen = HashSet::new();
    for member in &pool.members {
        if !seen.insert(member.backend) {
            let caution = Caution::MemberTwice {
                member: roster.name(member.backend).to_owned(),
                mechanism: pool.mechanism.name(),
            };
            context.warn_key(&member.at, caution);
        }
    }
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
    if configured >= 1
        && let Some(template) = unprobed_template(roster, entry)
    {
        unprobed.push(format!("those discovered, made of template {template}").into());
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

/// A target of a user router is usable unless it is known to be down. Contract: ALB page, 6.6.
fn router_floor(entry: &Entry<'_>, pool: PoolId) -> PoolFloor {
    PoolFloor {
        pool,
        alb_name: entry.name.into(),
        configured: 0,
        effective: 0,
        unprobed: Vec::new(),
    }
}

/// When members are left out for a while; `None`: never.
fn ejection(context: &mut Context<'_>, entry: &Entry<'_>, pool: PoolId) -> Option<PoolEjection> {
    let at = Path::of(&["backends", entry.name, "alb", "ejection"]);
    let written = entry.written.alb.as_ref()?.ejection.clone();
    let written = written.unwrap_or_default();
    let failures = context.pick(
        &at.key("consecutive_failures"),
        written.consecutive_failures,
        defaults::EJECTION_FAILURES,
    );
    if failures == 0 {
        context.warn_no_effect(&at.key("time"), "consecutive_failures is not set");
        return None;
    }
    let time = context.pick(&at.key("time"), written.time, defaults::EJECTION_TIME);
    Some(PoolEjection {
        pool,
        consecutive_failures: failures,
        time: time.0,
    })
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
