//! Owned buffers: what a connection has received and not used yet, and the shard's spare ones.
//!
//! A read hands its buffer to the kernel and gets it back with the result, so a buffer is a plain `Vec` that
//! moves. [`Inbox`] keeps the offset of what is used up, so that consuming is free.
//! Bounds: a pool keeps at most [`SPARE_MAX`] buffers, none larger than [`SPARE_BYTES_MAX`].

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use crate::net::stream::Reader;

/// Capacity of a fresh buffer: room for a usual head with its body.
pub const BUFFER_BYTES: usize = 8 * 1024;
/// Most spare buffers of one shard.
pub const SPARE_MAX: usize = 1024;
/// A buffer that has grown beyond this is freed instead of kept.
pub const SPARE_BYTES_MAX: usize = 64 * 1024;

const _: () = assert!(BUFFER_BYTES <= SPARE_BYTES_MAX);

/// Spare buffers of one shard. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Buffers(Rc<RefCell<Vec<Vec<u8>>>>);

impl Buffers {
    /// An empty buffer with at least [`BUFFER_BYTES`] of capacity.
    pub fn take(&self) -> Vec<u8> {
        self.0
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Gives a buffer back; what it holds is forgotten.
    #[inline]
    pub fn give(&self, buffer: Vec<u8>) {
        if (BUFFER_BYTES..=SPARE_BYTES_MAX).contains(&buffer.capacity()) {
            self.keep(buffer);
        }
    }

    fn keep(&self, mut buffer: Vec<u8>) {
        let mut spare = self.0.borrow_mut();
        if spare.len() < SPARE_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// Bytes received from a connection and not used yet.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    pool: Buffers,
}

impl Inbox {
    /// An inbox that has no buffer until it reads.
    pub fn new(pool: &Buffers) -> Inbox {
        Inbox {
            bytes: Vec::new(),
            start: 0,
            pool: pool.clone(),
        }
    }

    /// Where its buffers come from.
    pub fn pool(&self) -> &Buffers {
        &self.pool
    }

    /// What is here.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// True when nothing is here.
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Uses up the first `count` bytes.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(
            count <= self.bytes.len() - self.start,
            "only what is here can be used up"
        );
        self.start += count;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Reads once and appends; the count is 0 at the end of the stream. `room` is the least free space the
    /// read is given.
    ///
    /// # Errors
    /// Those of the connection. Dropped half-way, the inbox is empty and the connection must be closed.
    pub async fn fill(&mut self, reader: &mut Reader, room: usize) -> io::Result<usize> {
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() == 0 {
            bytes = self.pool.take();
        }
        if self.start > 0 {
            // Moves the rest to the front, or a long-lived connection would creep through memory.
            bytes.drain(..self.start);
            self.start = 0;
        }
        if bytes.capacity() - bytes.len() < room {
            bytes.reserve(room);
        }
        let (result, bytes) = reader.read(bytes).await;
        self.bytes = bytes;
        result
    }

    /// Gives the buffer back to the pool when nothing is in it.
    pub fn release(&mut self) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            self.pool.give(std::mem::take(&mut self.bytes));
            self.start = 0;
        }
    }

    /// Takes the buffer out, with the range of it that is not used yet; the inbox is then empty. To be put
    /// back with [`Inbox::put_back`].
    pub fn take(&mut self) -> (Vec<u8>, std::ops::Range<usize>) {
        let range = self.start..self.bytes.len();
        self.start = 0;
        (std::mem::take(&mut self.bytes), range)
    }

    /// Puts a buffer of [`Inbox::take`] back, of which all before `start` is used up.
    pub fn put_back(&mut self, bytes: Vec<u8>, start: usize) {
        debug_assert!(self.bytes.is_empty(), "nothing was read meanwhile");
        self.bytes = bytes;
        self.start = start;
        self.consume(0);
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consuming_all_starts_over_and_keeps_the_buffer() {
        let pool = Buffers::default();
        let mut inbox = Inbox::new(&pool);
        inbox.put_back(b"GET / rest".to_vec(), 0);
        inbox.consume(6);
        assert_eq!(inbox.bytes(), b"rest");
        inbox.consume(4);
        assert!(inbox.is_empty());
        let (bytes, range) = inbox.take();
        assert_eq!((bytes.len(), range), (0, 0..0));
    }

    #[test]
    fn the_pool_keeps_what_is_worth_keeping() {
        let pool = Buffers::default();
        pool.give(Vec::new());
        pool.give(Vec::with_capacity(SPARE_BYTES_MAX + 1));
        assert_eq!(pool.0.borrow().len(), 0);
        let mut used = pool.take();
        used.extend_from_slice(b"secret");
        pool.give(used);
        assert!(pool.take().is_empty());
    }
}
