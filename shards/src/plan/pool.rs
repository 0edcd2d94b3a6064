//! Pools and the mechanisms that choose from them.

use super::BackendId;

/// Index of a pool in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(pub u32);

/// How an ALB uses its pool. Aliases are already reduced to these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// `rr`: one member a request, by turns and weights.
    RoundRobin,
    /// `tsm`: all members, answers merged.
    TimeSeriesMerge,
    /// `fr`: all members, the first answer.
    FirstResponse,
    /// `fgr`: all members, the first good answer.
    FirstGoodResponse,
    /// `nlm`: all members, the answer modified last.
    NewestLastModified,
    /// `ur`: one member, by the request's user.
    UserRouter,
}

impl Mechanism {
    /// The short name: configuration, metrics, status page.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::RoundRobin => "rr",
            Mechanism::TimeSeriesMerge => "tsm",
            Mechanism::FirstResponse => "fr",
            Mechanism::FirstGoodResponse => "fgr",
            Mechanism::NewestLastModified => "nlm",
            Mechanism::UserRouter => "ur",
        }
    }
}

/// A pool: who may be a member, whatever their health.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    /// This pool's index.
    pub id: PoolId,
    /// Name of the ALB that owns it.
    pub alb_name: Box<str>,
    /// Members in configured order; a name listed twice is here twice (legacy weighting).
    pub members: Vec<PoolMember>,
    /// Lowest health a member may have: -1, 0 or 1. Already reset to 0 where the contract says so.
    pub healthy_floor: i8,
}

/// One entry of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolMember {
    /// The member.
    pub backend: BackendId,
    /// Turns per rotation, at least 1.
    pub weight: u32,
}
