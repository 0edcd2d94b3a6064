//! Whether a counter began anew between two histograms.

use super::arithmetic::Accumulator;
use super::{Bucket, Histogram, Scale};

impl Histogram<'_> {
    /// Whether this one cannot have grown out of `previous`.
    pub(crate) fn is_reset_after(&self, previous: &Histogram<'_>) -> bool {
        if self.head.count < previous.head.count {
            return true;
        }
        let (mine, its) = (self.head.scale, previous.head.scale);
        let is_finer = match (mine, its) {
            (Scale::Exponential(mine), Scale::Exponential(its)) => mine > its,
            (Scale::Custom, Scale::Custom) => self.clash(previous).is_some(),
            _ => !previous.positive.is_empty() || !previous.negative.is_empty(),
        };
        if is_finer {
            return true;
        }
        let mut before = Accumulator::of(previous);
        before.reduce(mine);
        // An empty zero bucket does not show how wide it is.
        if self.head.zero_count != 0.0 {
            if self.head.zero_threshold < before.head().zero_threshold {
                return true;
            }
            before.widen_zero(self.head.zero_threshold);
            if before.head().zero_threshold != self.head.zero_threshold {
                return true;
            }
        }
        let [positive, negative] = before.lists();
        self.head.zero_count < before.head().zero_count
            || shrinks(positive, self.positive)
            || shrinks(negative, self.negative)
    }
}

/// Whether a bucket holds less than before.
fn shrinks(before: &[Bucket], now: &[Bucket]) -> bool {
    let mut now = now.iter().peekable();
    for old in before {
        while now.next_if(|new| new.upper < old.upper).is_some() {}
        let same = now.next_if(|new| new.upper == old.upper);
        if same.map_or(0.0, |new| new.count) < old.count {
            return true;
        }
    }
    false
}
