//! The one clock of the load generator, and the one place that waits.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`, because the timer of the open loop is armed with the
//! same clock's absolute time and [`std::time::Instant`] does not give its number away.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds per second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Returns the present time in nanoseconds of the monotonic clock.
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("the monotonic clock counts up from boot");
    let nanos = u64::try_from(now.tv_nsec).expect("nanoseconds are 0 to 999,999,999");
    seconds * SECOND_NS + nanos
}

/// Returns `nanos` as the kernel wants it.
#[must_use]
pub fn timespec(nanos: u64) -> Timespec {
    let seconds = i64::try_from(nanos / SECOND_NS).expect("2^63 ns / 10^9 fits");
    let rest = i64::try_from(nanos % SECOND_NS).expect("below 10^9");
    Timespec {
        tv_sec: seconds,
        tv_nsec: rest,
    }
}

/// Returns `duration` in nanoseconds; 584 years are the most it can say.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Blocks this thread. The harness has no runtime that could be starved by it.
#[expect(
    clippy::disallowed_methods,
    reason = "no runtime here: the harness waits for processes"
)]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}
