//! The pool table: every changing fact that a request needs, as one immutable value.
//!
//! Built by the control core (`control::publish`) at each change of membership, addresses or health, shared
//! as an `Arc`, never modified. A request keeps the table it started with.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::plan::{Backend, BackendId, Generation, PoolId};
use crate::tally::Tally;

/// Health of a backend as a number. Contract: ALB page, 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// -1: probes say it is down.
    Unavailable,
    /// 0: not probed, or no verdict yet.
    Unknown,
    /// 1: probes say it is up.
    Available,
}

impl Health {
    /// The contract's number: -1, 0 or 1.
    pub fn value(self) -> i8 {
        match self {
            Health::Unavailable => -1,
            Health::Unknown => 0,
            Health::Available => 1,
        }
    }
}

/// Everything that changes without a reload.
#[derive(Debug)]
pub struct PoolTable {
    /// Plan whose ids this table uses.
    pub generation: Generation,
    /// Counts tables of one plan, from 1.
    pub version: u64,
    /// By [`BackendId`].
    pub backends: Vec<BackendState>,
    /// By [`PoolId`].
    pub pools: Vec<Pool>,
    /// Addresses of hosts that rewriters name.
    pub hosts: Arc<HashMap<Box<str>, Arc<[IpAddr]>>>,
}

/// What is known of one backend now.
#[derive(Clone, Debug)]
pub struct BackendState {
    /// Its health; virtual backends are available iff a member below them is live.
    pub health: Health,
    /// Where an origin is dialled, in the order to try; empty for virtual backends and unresolved names.
    pub addresses: Arc<[SocketAddr]>,
}

/// One pool: its live members and their turns.
#[derive(Debug)]
pub struct Pool {
    /// Members that may get requests, in configured order; repeats of one name are kept.
    pub live: Vec<Member>,
    /// One whole rotation as indices into `live`, evenly spread; its length is the total weight. Empty when
    /// nobody is live.
    pub turns: Box<[u32]>,
    /// Replica groups of all configured members, live or not, in configured order.
    pub groups: Vec<ReplicaGroup>,
    /// The rotation of this pool, the same in each of its tables.
    pub tally: Arc<Tally>,
}

/// A live member.
#[derive(Clone, Debug)]
pub struct Member {
    /// The member's compiled backend.
    pub backend: Arc<Backend>,
    /// Index into [`Pool::groups`].
    pub group: u32,
}

/// A replica group of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaGroup {
    /// Its name.
    pub name: Box<str>,
}

impl PoolTable {
    /// The pool with this id.
    ///
    /// # Panics
    /// When the id is of another plan.
    pub fn pool(&self, id: PoolId) -> &Pool {
        &self.pools[id.0 as usize]
    }

    /// The state of this backend.
    ///
    /// # Panics
    /// When the id is of another plan.
    pub fn backend(&self, id: BackendId) -> &BackendState {
        &self.backends[id.index()]
    }
}

impl Pool {
    /// The member whose turn it is, and takes the turn; `None` when nobody is live.
    ///
    /// Any `turns.len()` consecutive calls over all shards on one table give each member exactly its weight.
    pub fn next_member(&self) -> Option<&Member> {
        if self.turns.is_empty() {
            return None;
        }
        let turn = self.tally.next_turn() % self.turns.len() as u64;
        Some(&self.live[self.turns[turn as usize] as usize])
    }
}
