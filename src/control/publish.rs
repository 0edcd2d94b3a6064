//! State to pool table: who is live, and whose turn it is.
//!
//! Pure. Called by `control::state` for each table it publishes. Promises what decisions 7 and 8 say: a
//! nested ALB is available iff a member below it is live, and each rotation gives every live member exactly
//! its weight, evenly spread. Bounds the rotation of a pool by [`TURNS_MAX`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ringway_shards::plan::{BackendId, BackendKind, Outcome, Plan, PoolId, PoolMember, PoolPlan};
use ringway_shards::snapshot::{BackendState, Health, Member, Pool, PoolTable, ReplicaGroup};
use ringway_shards::tally::Tally;

/// Most turns of one rotation, 4 bytes each. A subset of a pool never needs more turns than all of it: its
/// weights sum up to less, and their common divisor is not smaller. So the check of the whole pool by
/// [`overlong_rotations`] before a plan is served holds for every table of it.
pub const TURNS_MAX: u64 = 65_536;
const _: () = assert!(TURNS_MAX <= u32::MAX as u64);

/// What is known of each origin, as the table needs it.
pub struct Facts<'a> {
    /// Health of each backend by id; what it says of virtual ones is not looked at.
    pub health: &'a [Health],
    /// Addresses of each backend by id.
    pub addresses: &'a [Arc<[SocketAddr]>],
    /// Rotation of each pool by id.
    pub tallies: &'a [Arc<Tally>],
    /// Addresses of hosts that rewriters name.
    pub hosts: Arc<HashMap<Box<str>, Arc<[IpAddr]>>>,
    /// Whether a pool leaves a member out, whatever its health.
    pub is_out: &'a dyn Fn(PoolId, BackendId) -> bool,
}

/// The table of `plan` under `facts`.
pub fn pool_table(plan: &Plan, facts: &Facts<'_>, version: u64) -> PoolTable {
    assert_eq!(facts.health.len(), plan.backends.len());
    assert_eq!(facts.addresses.len(), plan.backends.len());
    assert_eq!(facts.tallies.len(), plan.pools.len());
    let health = effective_health(plan, facts.health);
    let pools = plan
        .pools
        .iter()
        .zip(facts.tallies)
        .map(|(pool, tally)| {
            let is_live = |member: BackendId| {
                let is_well = health[member.index()].value() >= pool.healthy_floor;
                is_well && !(facts.is_out)(pool.id, member)
            };
            published_pool(plan, pool, &is_live, tally.clone())
        })
        .collect();
    let backends = health
        .iter()
        .zip(facts.addresses)
        .map(|(health, addresses)| BackendState {
            health: *health,
            addresses: addresses.clone(),
        })
        .collect();
    PoolTable {
        generation: plan.generation,
        version,
        backends,
        pools,
        hosts: facts.hosts.clone(),
    }
}

/// Pools whose rotation would be longer than [`TURNS_MAX`], as problems.
pub fn overlong_rotations(plan: &Plan) -> Vec<String> {
    let length = |pool: &PoolPlan| rotation_length(pool.members.iter().map(|m| m.weight));
    let overlong = plan.pools.iter().filter(|pool| length(pool) > TURNS_MAX);
    overlong
        .map(|pool| {
            format!(
                "backends.{}.alb.pool: the weights sum up to {} by their greatest common divisor, \
                 more than {TURNS_MAX}; use smaller ones",
                pool.alb_name,
                length(pool)
            )
        })
        .collect()
}

/// Turns of a whole rotation over these weights: their sum by their greatest common divisor.
pub fn rotation_length(weights: impl Iterator<Item = u32> + Clone) -> u64 {
    let divisor = weights.clone().fold(0, common_divisor);
    match divisor {
        0 => 0,
        divisor => weights.map(u64::from).sum::<u64>() / u64::from(divisor),
    }
}

/// Health of every backend, virtual ones by what is live below them.
pub fn effective_health(plan: &Plan, recorded: &[Health]) -> Vec<Health> {
    let mut known = vec![None; plan.backends.len()];
    for backend in &plan.backends {
        settle(plan, recorded, &mut known, backend.id);
    }
    known
        .into_iter()
        .map(|health| health.unwrap_or(Health::Unknown))
        .collect()
}

/// Depth is bounded by the nesting the compiler admits, which has no loops; one would read as unavailable.
fn settle(plan: &Plan, recorded: &[Health], known: &mut [Option<Health>], id: BackendId) -> Health {
    if let Some(health) = known[id.index()] {
        return health;
    }
    let health = match &plan.backend(id).kind {
        BackendKind::Origin(_) => recorded[id.index()],
        BackendKind::Alb(alb) => {
            known[id.index()] = Some(Health::Unavailable);
            let pool = &plan.pools[alb.pool.0 as usize];
            let mut live = false;
            for member in &pool.members {
                let health = settle(plan, recorded, known, member.backend);
                live |= health.value() >= pool.healthy_floor;
            }
            match live {
                true => Health::Available,
                false => Health::Unavailable,
            }
        }
        BackendKind::Rule(_) => behind_rules(plan, recorded, known, id),
    };
    known[id.index()] = Some(health);
    health
}

/// A rule is available while it leads somewhere that is: to a backend that is live, to the routes, back to the client.
/// Rules may lead in circles, so those behind it are looked at in one walk. Decisions, 7.
fn behind_rules(
    plan: &Plan,
    recorded: &[Health],
    known: &mut [Option<Health>],
    first: BackendId,
) -> Health {
    let mut seen = vec![false; plan.backends.len()];
    let mut ahead = vec![first];
    while let Some(id) = ahead.pop() {
        if std::mem::replace(&mut seen[id.index()], true) {
            continue;
        }
        let BackendKind::Rule(rule) = &plan.backend(id).kind else {
            if settle(plan, recorded, known, id) != Health::Unavailable {
                return Health::Available;
            }
            continue;
        };
        for outcome in rule.outcomes() {
            match outcome {
                Outcome::Backend(target) => ahead.push(*target),
                Outcome::Frontend | Outcome::Redirect(_) => return Health::Available,
            }
        }
    }
    Health::Unavailable
}

fn published_pool(
    plan: &Plan,
    pool: &PoolPlan,
    is_live: &dyn Fn(BackendId) -> bool,
    tally: Arc<Tally>,
) -> Pool {
    let mut groups: Vec<ReplicaGroup> = Vec::new();
    let mut known: HashMap<&str, u32> = HashMap::new();
    let mut live = Vec::new();
    let mut weights = Vec::new();
    for &PoolMember { backend, weight } in &pool.members {
        let member = plan.backend(backend);
        let group = *known.entry(&member.replica_group).or_insert_with(|| {
            let name = member.replica_group.clone();
            groups.push(ReplicaGroup { name });
            u32::try_from(groups.len() - 1).expect("a pool has fewer than 2^32 members")
        });
        if is_live(backend) {
            live.push(Member {
                backend: member.clone(),
                group,
            });
            weights.push(weight);
        }
    }
    Pool {
        live,
        turns: turns(&weights),
        groups,
        tally,
    }
}

/// One rotation by smooth weighted round robin: at each turn every member gains its weight in credit, and the
/// one with the most credit (the first of equals) takes the turn and pays the sum of all weights. Over one
/// rotation each pays as often as its weight says, and heavy members never burst more than they must.
///
/// Members of one weight take turns in order, so only who is next of each weight is compared: turns times different
/// weights steps, of which a rotation of [`TURNS_MAX`] turns has room for some 360.
fn turns(weights: &[u32]) -> Box<[u32]> {
    let divisor = weights.iter().copied().fold(0, common_divisor);
    if divisor == 0 {
        return Box::default();
    }
    let length = rotation_length(weights.iter().copied());
    debug_assert!(
        length <= TURNS_MAX,
        "plans with longer rotations are refused"
    );
    let mut classes: BTreeMap<u32, Class> = BTreeMap::new();
    for (member, weight) in (0..).zip(weights) {
        let gain = weight / divisor;
        if gain > 0 {
            let class = classes.entry(gain).or_insert_with(|| Class::of(gain));
            class.members.push(member);
        }
    }
    let mut classes: Vec<Class> = classes.into_values().collect();
    let total = i64::try_from(length).expect("a rotation has fewer than 2^63 turns");
    let mut taken = Vec::with_capacity(classes.len());
    for _ in 0..total {
        let mut first = 0;
        for index in 0..classes.len() {
            classes[index].credit += classes[index].gain;
            let (best, other) = (&classes[first], &classes[index]);
            let rank = |class: &Class| (class.credit, Reverse(class.next()));
            if rank(other) > rank(best) {
                first = index;
            }
        }
        taken.push(classes[first].take(total));
    }
    taken.into()
}

/// The members of one weight.
struct Class {
    gain: i64,
    members: Vec<u32>,
    /// Who is next, by place in `members`.
    at: usize,
    /// What that one has.
    credit: i64,
}

impl Class {
    fn of(gain: u32) -> Class {
        Class {
            gain: gain.into(),
            members: Vec::new(),
            at: 0,
            credit: 0,
        }
    }

    fn next(&self) -> u32 {
        self.members[self.at]
    }

    /// Lets the next one take a turn and pay for it.
    fn take(&mut self, total: i64) -> u32 {
        let member = self.next();
        self.at += 1;
        // All have gained the same; those behind the last one have paid one time more.
        if self.at == self.members.len() {
            self.at = 0;
            self.credit -= total;
        }
        member
    }
}

fn common_divisor(a: u32, b: u32) -> u32 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
