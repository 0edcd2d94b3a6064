//! Variance of the observations, each taken as the middle of its bucket.

use super::Histogram;
use crate::kahan::Kahan;

impl Histogram<'_> {
    /// Standard deviation.
    pub(crate) fn stddev(&self) -> f64 {
        self.stdvar().sqrt()
    }

    /// Variance: the geometric middle of a bucket stands for what is in it, in the zero bucket
    /// zero, and with custom bounds the arithmetic one.
    pub(crate) fn stdvar(&self) -> f64 {
        let mean = self.avg();
        let mut variance = Kahan::default();
        for bucket in self.ascending() {
            let middle = if self.has_custom_bounds() {
                f64::midpoint(bucket.upper, bucket.lower)
            } else if bucket.lower <= 0.0 && bucket.upper >= 0.0 {
                0.0
            } else if bucket.upper < 0.0 {
                -(bucket.upper * bucket.lower).sqrt()
            } else {
                (bucket.upper * bucket.lower).sqrt()
            };
            let distance = middle - mean;
            variance.add(bucket.count * distance * distance);
        }
        variance.total() / self.head.count
    }
}
