//! How long a test waits for something that must happen, in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything awaited may take before the test fails: 20 s, or
/// `RINGWAY_TEST_PATIENCE_SECONDS` on a slow machine.
pub fn patience() -> Duration {
    let seconds = std::env::var("RINGWAY_TEST_PATIENCE_SECONDS");
    let seconds = seconds
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20);
    Duration::from_secs(seconds)
}

/// Asks `probe` until it answers `Some`, and returns that.
///
/// # Panics
/// When `probe` has answered nothing within [`patience`]; `what` names it.
#[track_caller]
pub fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + patience();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A point that one thread passes only when another has opened it; each opening lets one pass.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    openings: Arc<AtomicU32>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets one pass, now or later.
    pub fn open(&self) {
        self.openings.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits for an opening and uses it up.
    ///
    /// # Panics
    /// When nobody opens the gate within [`patience`].
    #[track_caller]
    pub fn pass(&self) {
        eventually("the gate opens", || {
            let one_less = |openings: u32| openings.checked_sub(1);
            self.openings
                .try_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
                .ok()
        });
    }
}
