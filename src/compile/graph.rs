//! Who is a member of whom: pools by name, loops among ALBs, leaves of merges, deadlines.

mod loops;

use std::collections::HashSet;
use std::time::Duration;

use ringway_shards::plan::{BackendId, Mechanism};

use super::context::Context;
use super::roster::{Entry, FRONTEND, Live, Role, Roster};
use super::routes;
use super::rules::Rules;
use crate::config::alb::{Alb, PoolEntry};
use crate::config::backends::Backend;
use crate::config::units::Period;
use crate::config::{Caution, Fault, Path, defaults, schema};

/// Most entries of one pool.
pub(super) const MEMBERS_MAX: usize = 10_000;

/// Mechanisms of the contract: all names, and what each means.
const MECHANISMS: &[(&str, Mechanism)] = &[
    ("rr", Mechanism::RoundRobin),
    ("round_robin", Mechanism::RoundRobin),
    ("tsm", Mechanism::TimeSeriesMerge),
    ("time_series_merge", Mechanism::TimeSeriesMerge),
    ("fr", Mechanism::FirstResponse),
    ("first_response", Mechanism::FirstResponse),
    ("fgr", Mechanism::FirstGoodResponse),
    ("first_good_response", Mechanism::FirstGoodResponse),
    ("nlm", Mechanism::NewestLastModified),
    ("newest_last_modified", Mechanism::NewestLastModified),
    ("ur", Mechanism::UserRouter),
    ("user_router", Mechanism::UserRouter),
];

/// Who leads to whom: ALBs to their members, rules to their targets, and the routes, which come behind all backends, to
/// whom clients can name.
pub(super) struct Graph {
    /// By backend id; `None` for origins, refused ALBs, rules and the routes.
    pools: Vec<Option<Pool>>,
    /// Where rules and the routes lead, by backend id; empty for all else.
    targets: Vec<Vec<Member>>,
    /// No ALB leads back to itself and nothing leads too deep: walking down ends soon.
    sound: bool,
}

/// The pool of one ALB as ids. That of a user router holds its targets, each once.
pub(super) struct Pool {
    pub(super) mechanism: Mechanism,
    pub(super) members: Vec<Member>,
}

/// One entry of a pool.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) backend: BackendId,
    pub(super) weight: u32,
    /// Where it is written.
    pub(super) at: Path,
}

impl Member {
    /// One that is named once, at this place.
    pub(super) fn at(backend: BackendId, at: Path) -> Self {
        Member {
            backend,
            weight: 1,
            at,
        }
    }
}

impl Graph {
    /// Reads all pools and checks them together.
    pub(super) fn new(context: &mut Context<'_>, roster: &Roster<'_>, rules: &Rules) -> Self {
        let mut graph = Graph {
            pools: Vec::new(),
            targets: Vec::new(),
            sound: true,
        };
        let routes = routes_id(roster.live().count());
        for (_, live, entry) in roster.live() {
            let pool = match live {
                Live::Alb => pool(context, roster, entry),
                Live::Prometheus | Live::ReverseProxy | Live::Rule => None,
            };
            let rule = rules.of(entry.written.rule_name.as_deref());
            let rule = rule.filter(|_| live == Live::Rule);
            let mut targets = rule.map(|rule| rule.targets.clone()).unwrap_or_default();
            if let Some(at) = rule.and_then(|rule| rule.to_routes.as_ref()) {
                targets.push(Member::at(routes, at.clone()));
            }
            graph.targets.push(targets);
            graph.pools.push(pool);
        }
        let routed = routes::of_frontend(roster);
        let routed = routed.map(|id| Member::at(id, Path::of(&["backends", roster.name(id)])));
        let routed: Vec<Member> = routed.collect();
        let mut to_routes = graph
            .targets
            .iter()
            .flatten()
            .filter(|m| m.backend == routes);
        if let (true, Some(rule)) = (routed.is_empty(), to_routes.next()) {
            context.warn_key(&rule.at, Caution::NoRoutes);
        }
        graph.targets.push(routed);
        graph.pools.push(None);
        graph.sound = loops::check(context, roster, &graph);
        if graph.sound {
            graph.check_leaves(context, roster);
            graph.check_routers(context, roster);
        }
        graph
    }

    /// What stands for the routes of the listener that rules call `frontend`.
    fn routes(&self) -> BackendId {
        routes_id(self.pools.len() - 1)
    }

    /// The name of something that leads somewhere, as operators write it.
    fn name<'a>(&self, roster: &Roster<'a>, id: BackendId) -> &'a str {
        match id == self.routes() {
            true => FRONTEND,
            false => roster.name(id),
        }
    }

    /// The pool of an ALB.
    pub(super) fn pool(&self, id: BackendId) -> Option<&Pool> {
        self.pools.get(id.index()).and_then(Option::as_ref)
    }

    /// Who is directly below a backend: members of an ALB's pool, targets of a rule, the routes among them.
    fn below(&self, id: BackendId) -> &[Member] {
        match self.pool(id) {
            Some(pool) => &pool.members,
            None => self.targets.get(id.index()).map_or(&[], Vec::as_slice),
        }
    }

    /// Who is named directly below a backend: as [`Graph::below`] without the routes.
    pub(super) fn named_below(&self, id: BackendId) -> impl Iterator<Item = &Member> {
        let routes = self.routes();
        let below = self.below(id).iter();
        below.filter(move |member| member.backend != routes)
    }

    /// Whether a backend is a direct member of a time series merge.
    pub(super) fn is_merged(&self, id: BackendId) -> bool {
        self.pools.iter().flatten().any(|pool| {
            pool.mechanism == Mechanism::TimeSeriesMerge
                && pool.members.iter().any(|member| member.backend == id)
        })
    }

    /// Default deadline of a backend: its own, or the largest of its members. Decisions, 16.
    pub(super) fn timeout(&self, roster: &Roster<'_>, id: BackendId) -> Duration {
        if !self.sound {
            return defaults::TIMEOUT.value.0;
        }
        // From the leaves up, each backend once.
        let mut known = vec![None; self.pools.len()];
        self.timeout_below(roster, id, &mut known)
    }

    fn timeout_below(
        &self,
        roster: &Roster<'_>,
        id: BackendId,
        known: &mut [Option<Duration>],
    ) -> Duration {
        if let Some(timeout) = known[id.index()] {
            return timeout;
        }
        let written = roster.entry(id).map(|entry| entry.written);
        let own = match self.pool(id) {
            None => written.and_then(|backend| backend.timeout),
            Some(_) => written.and_then(|b| b.alb.as_ref()?.timeout),
        };
        // Rules may lead in circles.
        known[id.index()] = Some(Duration::ZERO);
        let below = || self.named_below(id);
        let timeout = match (own, self.pool(id).is_some() || below().next().is_some()) {
            (Some(Period(own)), _) => own,
            (None, true) => below()
                .map(|member| self.timeout_below(roster, member.backend, known))
                .chain(written.and_then(|backend| discovered_timeout(roster, backend)))
                .max()
                .unwrap_or(defaults::TIMEOUT.value.0),
            (None, false) => defaults::TIMEOUT.value.0,
        };
        known[id.index()] = Some(timeout);
        timeout
    }

    /// Whether requests to one backend may get to another, which may be the same.
    pub(super) fn leads_to(&self, from: BackendId, to: BackendId) -> bool {
        let mut seen = vec![false; self.pools.len()];
        let mut ahead = vec![from];
        while let Some(id) = ahead.pop() {
            if id == to {
                return true;
            }
            if !std::mem::replace(&mut seen[id.index()], true) {
                ahead.extend(self.below(id).iter().map(|member| member.backend));
            }
        }
        false
    }

    /// The first origin below an ALB in pool order, and what it is.
    pub(super) fn first_origin(
        &self,
        roster: &Roster<'_>,
        id: BackendId,
    ) -> Option<(BackendId, Live)> {
        let mut first = None;
        let mut seen = vec![false; self.pools.len()];
        self.leaves(roster, id, &mut Vec::new(), &mut seen, &mut |leaf, _| {
            first.get_or_insert(leaf);
        });
        first
    }

    /// A way as operators read it.
    fn names(&self, roster: &Roster<'_>, way: &[BackendId]) -> String {
        let names: Vec<&str> = way.iter().map(|id| self.name(roster, *id)).collect();
        names.join(" > ")
    }

    /// Every origin below a time series merge must be a Prometheus. Contract: ALB page, 3.
    fn check_leaves(&self, context: &mut Context<'_>, roster: &Roster<'_>) {
        self.each_leaf(
            roster,
            Mechanism::TimeSeriesMerge,
            |member, _, leaf, way| {
                if leaf.1 == Live::ReverseProxy {
                    let fault = Fault::MergeLeaf {
                        leaf: roster.name(leaf.0).to_owned(),
                        provider: leaf.1.name(),
                        way: self.names(roster, way),
                    };
                    context.fail_value(&member.at, fault);
                }
            },
        );
    }

    /// Every origin below a user router is of one provider; said once for each target. Contract: ALB page, 3.
    fn check_routers(&self, context: &mut Context<'_>, roster: &Roster<'_>) {
        let mut told: Option<Path> = None;
        self.each_leaf(roster, Mechanism::UserRouter, |member, first, leaf, way| {
            if first.1 != leaf.1 && told.as_ref() != Some(&member.at) {
                let other = roster.name(first.0);
                let fault = Fault::RouterProviders {
                    way: self.names(roster, way),
                    provider: leaf.1.name(),
                    other: format!("{other} is of {}", first.1.name()),
                };
                context.fail_value(&member.at, fault);
                told = Some(member.at.clone());
            }
        });
    }

    /// Visits the origins below each ALB of a mechanism, each once: below which member, the first of all, this one,
    /// the way to it.
    fn each_leaf(
        &self,
        roster: &Roster<'_>,
        mechanism: Mechanism,
        mut visit: impl FnMut(&Member, (BackendId, Live), (BackendId, Live), &[BackendId]),
    ) {
        for (id, _, _) in roster.live() {
            let Some(pool) = self.pool(id).filter(|pool| pool.mechanism == mechanism) else {
                continue;
            };
            let mut seen = vec![false; self.pools.len()];
            let mut first: Option<(BackendId, Live)> = None;
            for member in &pool.members {
                let mut way = vec![id];
                self.leaves(
                    roster,
                    member.backend,
                    &mut way,
                    &mut seen,
                    &mut |leaf, way| {
                        visit(member, *first.get_or_insert(leaf), leaf, way);
                    },
                );
            }
        }
    }

    /// Visits the origins below a backend that were not seen yet, each with the way to it.
    fn leaves(
        &self,
        roster: &Roster<'_>,
        id: BackendId,
        way: &mut Vec<BackendId>,
        seen: &mut [bool],
        visit: &mut Visit<'_>,
    ) {
        if std::mem::replace(&mut seen[id.index()], true) {
            return;
        }
        way.push(id);
        for member in self.below(id) {
            self.leaves(roster, member.backend, way, seen, visit);
        }
        if let Some(Role::Live(_, live @ (Live::Prometheus | Live::ReverseProxy))) =
            roster.entry(id).map(|e| e.role)
        {
            visit((id, live), way);
        }
        way.pop();
    }
}

/// Timeout of the members that an ALB discovers.
fn discovered_timeout(roster: &Roster<'_>, alb: &Backend) -> Option<Duration> {
    let discovery = alb.alb.as_ref()?.discovery.as_ref()?;
    let template = roster.get(discovery.template_backend.as_ref()?)?;
    let timeout = template.written.timeout.unwrap_or(defaults::TIMEOUT.value);
    (template.role == Role::Template).then_some(timeout.0)
}

/// Is told an origin, what it is, and the way to it.
type Visit<'a> = dyn FnMut((BackendId, Live), &[BackendId]) + 'a;

/// The id behind those of all backends.
fn routes_id(backends: usize) -> BackendId {
    BackendId(u32::try_from(backends).unwrap_or(u32::MAX))
}

/// Path of an ALB's pool.
pub(super) fn pool_path(name: &str) -> Path {
    Path::of(&["backends", name, "alb", "pool"])
}

/// Path of an ALB's user router.
pub(super) fn router_path(name: &str) -> Path {
    Path::of(&["backends", name, "alb", "user_router"])
}

fn pool(context: &mut Context<'_>, roster: &Roster<'_>, entry: &Entry<'_>) -> Option<Pool> {
    let at = Path::of(&["backends", entry.name, "alb"]);
    let Some(alb) = &entry.written.alb else {
        context.fail_key(&at, Fault::AlbBlockMissing);
        return None;
    };
    let mechanism = mechanism(context, &at.key("mechanism"), alb);
    let members = match mechanism {
        Some(Mechanism::UserRouter) => targets(context, roster, entry, alb),
        _ => members(context, roster, entry, alb),
    };
    Some(Pool {
        mechanism: mechanism?,
        members,
    })
}

/// Whether a mechanism, as written, is a time series merge.
pub(super) fn is_merge(word: &str) -> bool {
    // Contract: any name that starts so, such as `tsmerge`.
    word.starts_with("tsm") || word == "time_series_merge"
}

fn mechanism(context: &mut Context<'_>, at: &Path, alb: &Alb) -> Option<Mechanism> {
    let written = alb.mechanism.as_deref();
    let word = context.pick_text(at, written, defaults::MECHANISM);
    let known = MECHANISMS.iter().find(|(name, _)| *name == word);
    match known.map(|(_, mechanism)| *mechanism) {
        Some(mechanism) => Some(mechanism),
        None if is_merge(&word) => Some(Mechanism::TimeSeriesMerge),
        None => {
            let hint = schema::hint(&word, MECHANISMS.iter().map(|(name, _)| *name));
            let mechanism = word;
            context.fail_value(at, Fault::UnknownMechanism { mechanism, hint });
            None
        }
    }
}

fn members(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    entry: &Entry<'_>,
    alb: &Alb,
) -> Vec<Member> {
    let at = pool_path(entry.name);
    let mut members = Vec::new();
    let written = alb.pool.as_deref().unwrap_or_default();
    if written.len() > MEMBERS_MAX {
        let members_max = MEMBERS_MAX;
        context.fail_key(&at, Fault::PoolTooLarge { members_max });
        return members;
    }
    for (index, item) in written.iter().enumerate() {
        let here = at.item(index);
        let (name, weight, named_at) = match item {
            PoolEntry::Name(name) => (Some(name), None, here.clone()),
            PoolEntry::Weighted { name, weight } => (name.as_ref(), *weight, here.key("name")),
        };
        let Some(name) = name else {
            // Reported at the item, where a refused item is already reported.
            context.fail_value(&here, Fault::Required { what: "name" });
            continue;
        };
        match member_id(roster, entry, name) {
            Ok(Some(backend)) => members.push(Member {
                backend,
                weight: weight.unwrap_or(0).max(1),
                at: here,
            }),
            Ok(None) => {}
            Err(fault) => context.fail_value(&named_at, fault),
        }
    }
    members
}

/// Where a user router may send requests, each backend at its first mention.
fn targets(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    entry: &Entry<'_>,
    alb: &Alb,
) -> Vec<Member> {
    let at = router_path(entry.name);
    let Some(written) = &alb.user_router else {
        context.fail_key(&at, Fault::RouterBlockMissing);
        return Vec::new();
    };
    let default = written.default_backend.as_ref();
    let default = default.map(|name| (name, at.key("default_backend")));
    let users = written.users.iter().flat_map(|users| &users.0);
    let users = users.filter_map(|(user, route)| {
        let here = at.key("users").key(user).key("to_backend");
        Some((route.to_backend.as_ref()?, here))
    });
    let mut known = HashSet::new();
    let mut members = Vec::new();
    for (name, at) in default.into_iter().chain(users) {
        match member_id(roster, entry, name) {
            Ok(Some(backend)) if known.insert(backend) => members.push(Member::at(backend, at)),
            Ok(_) => {}
            Err(Fault::SelfMember) => context.fail_value(&at, Fault::SelfRoute),
            Err(fault) => context.fail_value(&at, fault),
        }
    }
    if members.len() > MEMBERS_MAX {
        let members_max = MEMBERS_MAX;
        context.fail_key(&at, Fault::PoolTooLarge { members_max });
        members.clear();
    }
    members
}

/// The member of this name; `None` when it is refused elsewhere.
fn member_id(roster: &Roster<'_>, alb: &Entry<'_>, name: &str) -> Result<Option<BackendId>, Fault> {
    let member = name.to_owned();
    if name == alb.name {
        return Err(Fault::SelfMember);
    }
    match roster.get(name).map(|entry| entry.role) {
        Some(Role::Live(id, _)) => Ok(Some(id)),
        Some(Role::Broken) => Ok(None),
        Some(Role::Template) => Err(Fault::TemplateMember { member }),
        Some(Role::CommonCaps) => Err(Fault::MemberDefaultsOnly { member }),
        None => {
            let hint = schema::hint(name, roster.names().filter(|known| *known != alb.name));
            Err(Fault::UnknownMember { member, hint })
        }
    }
}
