//! The only atomics that shards share: what an exact rotation needs across cores.
//!
//! Owned by a pool for its whole life, through every snapshot of it, so that the turn order goes on where it
//! was when members change. Contract: decisions, 8 (rr exactness).

use std::sync::atomic::{AtomicU64, Ordering};

/// The rotation cursor of one pool.
#[derive(Debug, Default)]
pub struct Tally {
    cursor: AtomicU64,
}

impl Tally {
    /// Starts a rotation at `start`.
    pub fn starting_at(start: u64) -> Self {
        Tally {
            cursor: AtomicU64::new(start),
        }
    }

    /// Takes the next turn. Turns are unique and consecutive over all shards; they wrap at `u64::MAX`.
    pub fn next_turn(&self) -> u64 {
        self.cursor.fetch_add(1, Ordering::Relaxed)
    }
}
