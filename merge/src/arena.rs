//! The memory of one merge: kept bodies and a bump arena for all that is derived from them.
//!
//! Owns the member bodies (labels and samples are slices of them) and one bumpalo arena with a
//! byte bound. One arena serves one request at a time; [`Arena::reset`] readies it for the next.

use std::cell::OnceCell;

use bumpalo::Bump;

/// The memory behind one [`crate::Merge`].
#[derive(Debug)]
pub struct Arena {
    bump: Bump,
    bodies: Vec<OnceCell<Vec<u8>>>,
}

impl Arena {
    /// Creates an arena that may allocate `bytes_max` beside the bodies, with room for `slots`
    /// bodies (members times variants).
    pub fn new(bytes_max: usize, slots: usize) -> Self {
        let bump = Bump::new();
        bump.set_allocation_limit(Some(bytes_max));
        let mut arena = Self {
            bump,
            bodies: Vec::new(),
        };
        arena.bodies.resize_with(slots, OnceCell::new);
        arena
    }

    /// Drops all bodies and readies the arena for a merge of `slots` bodies. The largest block of
    /// the bump arena is kept.
    pub fn reset(&mut self, slots: usize) {
        self.bump.reset();
        self.bodies.clear();
        self.bodies.resize_with(slots, OnceCell::new);
    }

    /// Returns the bytes that are allocated beside the bodies.
    pub fn bytes(&self) -> usize {
        self.bump.allocated_bytes()
    }

    pub(crate) fn bump(&self) -> &Bump {
        &self.bump
    }

    /// Keeps `body` until the arena is reset. Returns `None` when slot `index` is taken or does
    /// not exist.
    pub(crate) fn keep(&self, index: usize, body: Vec<u8>) -> Option<&[u8]> {
        let cell = self.bodies.get(index)?;
        cell.set(body).ok()?;
        cell.get().map(Vec::as_slice)
    }
}
