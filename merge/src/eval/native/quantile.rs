//! Quantiles of histograms and fractions below bounds.
//!
//! Versions before 3.0 interpolate linearly in every bucket. Later ones do so on a logarithmic
//! scale, but in the zero bucket and where bounds are custom.

use super::{Histogram, View};
use crate::eval::elementary::{exp2, log2};
use crate::plan::Dialect;

impl Histogram<'_> {
    /// The φ-quantile.
    pub(crate) fn quantile(&self, quantile: f64, dialect: Dialect) -> f64 {
        if quantile < 0.0 {
            return f64::NEG_INFINITY;
        }
        if quantile > 1.0 {
            return f64::INFINITY;
        }
        if self.head.count == 0.0 || quantile.is_nan() {
            return f64::NAN;
        }
        // Observations of NaN are in no bucket: then only counting from below is right.
        let forward = quantile < 0.5 || self.head.sum.is_nan() || !dialect.is_at_least(2, 49);
        let mut rank = self.head.count * if forward { quantile } else { 1.0 - quantile };
        let (found, counted) = match forward {
            true => reach(self.ascending(), rank),
            false => reach(self.ascending().rev(), rank),
        };
        let Some(bucket) = found else {
            // The bucket that no iteration has found is one from 0 to 0.
            return if rank > 0.0 { 0.0 } else { f64::NAN };
        };
        let is_custom = self.has_custom_bounds();
        let mut bucket = self.narrowed(bucket, dialect);
        if is_custom && bucket.lower == f64::NEG_INFINITY {
            if bucket.upper <= 0.0 {
                return bucket.upper;
            }
            bucket.lower = 0.0;
        }
        if is_custom && bucket.upper == f64::INFINITY {
            return bucket.lower;
        }
        let counted = if counted > self.head.count {
            self.head.count
        } else {
            counted
        };
        if counted < rank {
            let is_nan = self.head.sum.is_nan() && dialect.is_at_least(3, 6);
            return if is_nan { f64::NAN } else { bucket.upper };
        }
        match forward {
            true => rank -= counted - bucket.count,
            false => rank = counted - rank,
        }
        let part = rank / bucket.count;
        let is_linear =
            is_custom || !dialect.is_at_least(3, 0) || (bucket.lower <= 0.0 && bucket.upper >= 0.0);
        if is_linear {
            return bucket.lower + (bucket.upper - bucket.lower) * part;
        }
        let (low, high) = (log2(bucket.lower.abs()), log2(bucket.upper.abs()));
        match bucket.lower > 0.0 {
            true => exp2(low + (high - low) * part),
            false => -exp2(high + (low - high) * (1.0 - part)),
        }
    }

    /// The part of the observations between two bounds.
    pub(crate) fn fraction(&self, lower: f64, upper: f64, dialect: Dialect) -> f64 {
        if self.head.count == 0.0 || lower.is_nan() || upper.is_nan() {
            return f64::NAN;
        }
        if lower >= upper {
            return 0.0;
        }
        let (mut rank, mut low, mut high) = (0.0, None, None);
        for bucket in self.ascending() {
            let bucket = self.narrowed(bucket, dialect);
            for (limit, found) in [(lower, &mut low), (upper, &mut high)] {
                if found.is_some() {
                    continue;
                }
                if bucket.lower >= limit {
                    *found = Some(rank);
                } else if bucket.upper > limit {
                    *found = Some(rank + self.count_below(&bucket, limit, dialect));
                }
            }
            if low.is_some() && high.is_some() {
                break;
            }
            rank += bucket.count;
        }
        let count = self.head.count;
        let within = |found: Option<f64>| match found {
            Some(rank) if rank <= count || rank.is_nan() => rank,
            _ => count,
        };
        (within(high) - within(low)) / count
    }

    /// How many of a bucket's observations are below `limit`, which lies in it.
    fn count_below(&self, bucket: &View, limit: f64, dialect: Dialect) -> f64 {
        let is_linear = self.has_custom_bounds()
            || !dialect.is_at_least(3, 0)
            || (bucket.lower <= 0.0 && bucket.upper >= 0.0);
        if is_linear {
            return bucket.count * (limit - bucket.lower) / (bucket.upper - bucket.lower);
        }
        let (low, high) = (log2(bucket.lower.abs()), log2(bucket.upper.abs()));
        let at = log2(limit.abs());
        let part = match limit > 0.0 {
            true => (at - low) / (high - low),
            false => 1.0 - (at - high) / (low - high),
        };
        bucket.count * part
    }

    /// A bucket around zero ends at zero where nothing is on one side of it.
    fn narrowed(&self, mut bucket: View, dialect: Dialect) -> View {
        let is_around_zero = match dialect.is_at_least(3, 0) {
            true => bucket.lower <= 0.0 && bucket.upper >= 0.0,
            false => bucket.lower < 0.0 && bucket.upper > 0.0,
        };
        if is_around_zero {
            match (self.negative.is_empty(), self.positive.is_empty()) {
                (true, false) => bucket.lower = 0.0,
                (false, true) => bucket.upper = 0.0,
                _ => {}
            }
        }
        bucket
    }
}

/// The bucket in which `rank` is reached, or the last one, and how many were counted with it.
fn reach(buckets: impl Iterator<Item = View>, rank: f64) -> (Option<View>, f64) {
    let (mut found, mut counted) = (None, 0.0);
    for bucket in buckets {
        counted += bucket.count;
        found = Some(bucket);
        if counted >= rank {
            break;
        }
    }
    (found, counted)
}
