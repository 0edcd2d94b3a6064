//! How often probes on demand may be sent: `/trickster/health/<backend>` must be no way to flood an origin.
//!
//! Owns the slots of all running ones. Asked by the control core, which alone admits; a slot comes back when its
//! permit is dropped. Bounds: [`AT_ONCE_MAX`] together, and [`EVERY`] between two of one backend.
//! Contract: health page, 4.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most probes on demand at once, over all backends.
pub const AT_ONCE_MAX: usize = 16;
/// Least time between the starts of two probes on demand of one backend.
pub const EVERY: Duration = Duration::from_millis(100);

/// Who may probe now.
#[derive(Debug)]
pub struct OnDemand {
    slots: Arc<Semaphore>,
    /// When each backend was last probed, for as long as that matters.
    last: BTreeMap<Box<str>, Instant>,
}

impl Default for OnDemand {
    fn default() -> Self {
        OnDemand {
            slots: Arc::new(Semaphore::new(AT_ONCE_MAX)),
            last: BTreeMap::new(),
        }
    }
}

impl OnDemand {
    /// A slot for one probe of `backend`, to be kept while it runs; `None` when it has to wait.
    pub fn admit(&mut self, backend: &str, now: Instant) -> Option<OwnedSemaphorePermit> {
        self.last
            .retain(|_, last| now.saturating_duration_since(*last) < EVERY);
        if self.last.contains_key(backend) {
            return None;
        }
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        self.last.insert(backend.into(), now);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_of_one_backend_keep_their_distance() {
        let mut on_demand = OnDemand::default();
        let start = Instant::now();
        assert!(on_demand.admit("a", start).is_some());
        assert!(on_demand.admit("a", start + EVERY / 2).is_none());
        assert!(on_demand.admit("b", start + EVERY / 2).is_some());
        assert!(on_demand.admit("a", start + EVERY).is_some());
        assert_eq!(on_demand.last.len(), 2, "what no longer matters is gone");
        assert!(on_demand.admit("c", start + EVERY * 9).is_some());
        assert_eq!(on_demand.last.len(), 1);
    }

    #[test]
    fn no_more_than_the_bound_run_at_once() {
        let mut on_demand = OnDemand::default();
        let start = Instant::now();
        let mut running: Vec<_> = (0..AT_ONCE_MAX)
            .map(|n| on_demand.admit(&n.to_string(), start).unwrap())
            .collect();
        assert!(on_demand.admit("late", start).is_none());
        running.pop();
        assert!(on_demand.admit("late", start).is_some(), "a slot came back");
    }
}
