//! The one channel between threads: a bounded lock-free queue with a waker.
//!
//! Used by `shards::link` (control core and shards). Works on any runtime, because it only needs a waker: a
//! monoio shard and the tokio control core each await their own end. Senders never wait: a full queue gives
//! the message back, and the caller decides (a shard drops and counts, the control core tries again).
//!
//! `crossbeam-queue` supplies the queue and `atomic-waker` the bell, so that no lock is taken on a shard.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use atomic_waker::AtomicWaker;
use crossbeam_queue::ArrayQueue;

struct Shared<T> {
    queue: ArrayQueue<T>,
    bell: AtomicWaker,
    senders: AtomicUsize,
    receiver_gone: AtomicBool,
}

/// Sending end; cheap to clone, usable from any thread.
pub struct Sender<T>(Arc<Shared<T>>);

/// Receiving end; one task at a time may await it.
pub struct Receiver<T>(Arc<Shared<T>>);

/// Why a message was given back.
#[derive(Debug, PartialEq, Eq)]
pub enum SendError<T> {
    /// The bound is reached.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// Makes a queue that holds at most `bound` messages.
///
/// # Panics
/// When `bound` is zero.
pub fn queue<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        queue: ArrayQueue::new(bound),
        bell: AtomicWaker::new(),
        senders: AtomicUsize::new(1),
        receiver_gone: AtomicBool::new(false),
    });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Sender<T> {
    /// Puts a message in and rings; never waits.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        if self.0.receiver_gone.load(Ordering::Acquire) {
            return Err(SendError::Closed(message));
        }
        self.0.queue.push(message).map_err(SendError::Full)?;
        self.0.bell.wake();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Sender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.bell.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// Takes a message if one is there.
    pub fn try_recv(&mut self) -> Option<T> {
        self.0.queue.pop()
    }

    /// Waits for the next message; `None` when all senders are gone and the queue is empty.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| {
            if let Some(message) = self.0.queue.pop() {
                return Poll::Ready(Some(message));
            }
            self.0.bell.register(cx.waker());
            // Looked at again after registering, or a message sent in between would ring for nobody.
            let closed = self.0.senders.load(Ordering::Acquire) == 0;
            match self.0.queue.pop() {
                Some(message) => Poll::Ready(Some(message)),
                None if closed => Poll::Ready(None),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.receiver_gone.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn a_full_queue_gives_the_message_back() {
        let (tx, mut rx) = queue(1);
        assert_eq!(tx.send(1), Ok(()));
        assert_eq!(tx.send(2), Err(SendError::Full(2)));
        assert_eq!(rx.try_recv(), Some(1));
        assert_eq!(tx.send(3), Ok(()));
        drop(rx);
        assert_eq!(tx.send(4), Err(SendError::Closed(4)));
    }

    #[test]
    fn recv_ends_only_when_empty_and_all_senders_are_gone() {
        let (tx, mut rx) = queue(4);
        let other = tx.clone();
        assert!(tx.send(7).is_ok());
        drop(tx);
        drop(other);
        let mut cx = Context::from_waker(Waker::noop());
        {
            let mut first = pin!(rx.recv());
            assert_eq!(first.as_mut().poll(&mut cx), Poll::Ready(Some(7)));
        }
        let mut second = pin!(rx.recv());
        assert_eq!(second.as_mut().poll(&mut cx), Poll::Ready(None));
    }

    #[test]
    fn messages_cross_threads_in_order() {
        let (tx, mut rx) = queue(8);
        let sender = std::thread::spawn(move || {
            for n in 0..1000u32 {
                let mut message = n;
                while let Err(SendError::Full(back)) = tx.send(message) {
                    message = back;
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < 1000 {
            match rx.try_recv() {
                Some(n) => {
                    assert_eq!(n, expected);
                    expected += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        sender.join().expect("the sender ends");
    }
}
