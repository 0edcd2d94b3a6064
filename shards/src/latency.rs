//! Simulated latency: a pause in front of every request that a client makes of a backend.
//!
//! Contract: config page, 3.4 (`latency_min`, `latency_max`; at the entry backend only). The pause is a timer of
//! the shard, so that nobody else waits; a client that leaves ends it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringway_io::net::deadline::Watch;
use ringway_io::task;

use crate::plan::Latency;

/// What the watch allows on top of the pause itself, since its clock ticks coarsely.
const SLACK: Duration = Duration::from_secs(10);

/// Waits, and returns for how long.
pub(crate) async fn pause(latency: Latency, watch: &Watch) -> Duration {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH);
    let pause = between(latency, nanos.unwrap_or_default().subsec_nanos());
    watch.arm(pause.saturating_add(SLACK));
    watch.watch_peer(true);
    task::sleep(pause).await;
    watch.watch_peer(false);
    pause
}

/// A whole number of milliseconds between the bounds, evenly spread over all seeds.
fn between(latency: Latency, seed: u32) -> Duration {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (min, max) = (millis(latency.min), millis(latency.max));
    let choices = max.saturating_sub(min).saturating_add(1);
    Duration::from_millis(min.saturating_add(scatter(seed) % choices))
}

/// Spreads numbers that are near each other (the finalizer of MurmurHash3).
fn scatter(seed: u32) -> u64 {
    let mut bits = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_between_the_bounds_and_meets_both() {
        let latency = Latency {
            min: Duration::from_millis(3),
            max: Duration::from_millis(6),
        };
        let pauses: Vec<u128> = (0..200)
            .map(|seed| between(latency, seed).as_millis())
            .collect();
        for expected in 3..=6 {
            assert!(pauses.contains(&expected), "{expected}");
        }
        assert!(pauses.iter().all(|pause| (3..=6).contains(pause)));
    }

    #[test]
    fn equal_bounds_leave_no_choice() {
        let five = Duration::from_millis(5);
        let latency = Latency {
            min: five,
            max: five,
        };
        assert_eq!(between(latency, 77), five);
    }
}
