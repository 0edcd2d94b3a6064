//! Ways that lead back to where they began, and ways with too many ALBs.

use std::collections::{BTreeSet, VecDeque};

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;
use ringway_shards::limits::HOPS_MAX;
use ringway_shards::plan::BackendId;

use super::{Graph, pool_path, router_path};
use crate::compile::context::Context;
use crate::compile::roster::Roster;
use crate::config::{Caution, Fault, Path};

/// Backends that lead to one another, or one alone, in written order.
type Knot = Vec<BackendId>;

/// Reports what leads back to itself, each backend in one circle at most, and nesting that a request could not pass.
/// Whether every way through ALBs ends.
pub(super) fn check(context: &mut Context<'_>, roster: &Roster<'_>, graph: &Graph) -> bool {
    let mut is_sound = true;
    let mut heights = vec![0; graph.pools.len()];
    for knot in knots(graph) {
        is_sound &= !report_circles(context, roster, (graph, &knot));
        let below = knot.iter().flat_map(|id| graph.below(*id));
        let below = below.map(|member| heights[member.backend.index()]);
        let below = below.max().unwrap_or(0);
        for id in &knot {
            // Rules have a bound of their own.
            let height = below + usize::from(graph.pool(*id).is_some());
            heights[id.index()] = height;
            if height == HOPS_MAX + 1 && below == HOPS_MAX {
                is_sound = false;
                report_depth(context, roster, *id);
            }
        }
    }
    is_sound
}

/// All backends and the routes; who is below others comes before them.
fn knots(graph: &Graph) -> Vec<Knot> {
    let mut ways: DiGraph<(), ()> = DiGraph::new();
    let nodes: Vec<_> = graph.pools.iter().map(|_| ways.add_node(())).collect();
    for (node, id) in nodes.iter().zip(0..) {
        for member in graph.below(BackendId(id)) {
            ways.add_edge(*node, nodes[member.backend.index()], ());
        }
    }
    let id = |node: petgraph::graph::NodeIndex| {
        BackendId(u32::try_from(node.index()).unwrap_or(u32::MAX))
    };
    let knots = kosaraju_scc(&ways).into_iter();
    let sorted = knots.map(|knot| {
        let mut knot: Knot = knot.into_iter().map(id).collect();
        knot.sort_unstable();
        knot
    });
    sorted.collect()
}

/// Reports the shortest circle of each ALB, and of each rule without ALBs, that is in none reported before. Whether an
/// ALB leads back to itself.
fn report_circles(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    (graph, knot): (&Graph, &[BackendId]),
) -> bool {
    let is_alb = |id: BackendId| graph.pool(id).is_some();
    let mut told: BTreeSet<BackendId> = BTreeSet::new();
    let (albs, others): (Knot, Knot) = knot.iter().partition(|id| is_alb(**id));
    for alb in albs {
        if told.contains(&alb) {
            continue;
        }
        if let Some(circle) = circle(graph, alb, |id| knot.binary_search(&id).is_ok()) {
            report_albs(context, roster, graph, &circle);
            told.extend(circle);
        }
    }
    let has_albs = !told.is_empty();
    let routes = graph.routes();
    for rule in others.iter().filter(|id| **id != routes) {
        if told.contains(rule) {
            continue;
        }
        // Only their budget ends that: contract, rule page, 14 (B7). By the routes it may well end: what a rule makes of
        // the request decides where they lead.
        if let Some(circle) = circle(graph, *rule, |id| {
            id != routes && others.binary_search(&id).is_ok()
        }) {
            let at = way_on(graph, &circle, 0);
            let cycle = names(roster, graph, &circle);
            context.warn_key(&at, Caution::RuleCircle { cycle });
            told.extend(circle);
        }
    }
    has_albs
}

/// The shortest way from a backend back to itself through some: all that it passes, from the first in written order.
fn circle(
    graph: &Graph,
    start: BackendId,
    may_pass: impl Fn(BackendId) -> bool,
) -> Option<Vec<BackendId>> {
    let mut from: Vec<Option<BackendId>> = vec![None; graph.pools.len()];
    let mut ahead = VecDeque::from([start]);
    while let Some(id) = ahead.pop_front() {
        for member in graph.below(id) {
            let next = member.backend;
            if from[next.index()].is_none() && may_pass(next) {
                from[next.index()] = Some(id);
                ahead.push_back(next);
            }
        }
    }
    let mut circle = vec![from[start.index()]?];
    while let Some(last) = circle.last().filter(|last| **last != start) {
        circle.push(from[last.index()]?);
    }
    circle.reverse();
    let first = circle
        .iter()
        .enumerate()
        .min_by_key(|(_, id)| id.index())?
        .0;
    circle.rotate_left(first);
    Some(circle)
}

/// Where the next of a circle is named.
fn way_on(graph: &Graph, circle: &[BackendId], at: usize) -> Path {
    let next = circle[(at + 1) % circle.len()];
    let mut below = graph.below(circle[at]).iter();
    let named = below.find(|member| member.backend == next);
    named.map_or_else(|| Path::of(&[]), |member| member.at.clone())
}

/// A circle as operators read it.
fn names(roster: &Roster<'_>, graph: &Graph, circle: &[BackendId]) -> String {
    graph.names(roster, &[circle, &circle[..1]].concat())
}

fn report_albs(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    graph: &Graph,
    circle: &[BackendId],
) {
    let cycle = names(roster, graph, circle);
    match circle.iter().position(|id| *id == graph.routes()) {
        Some(routes) => {
            let at = way_on(graph, circle, (routes + circle.len() - 1) % circle.len());
            context.fail_value(&at, Fault::CycleOfRoutes { cycle });
        }
        None => context.fail_value(&way_on(graph, circle, 0), Fault::Cycle { cycle }),
    }
}

fn report_depth(context: &mut Context<'_>, roster: &Roster<'_>, alb: BackendId) {
    let levels_max = HOPS_MAX;
    let pool = pool_path(roster.name(alb));
    let at = match context.document.written_at(&pool) {
        Some(_) => pool,
        None => router_path(roster.name(alb)),
    };
    context.fail_key(&at, Fault::TooManyHops { levels_max });
}
