//! The arithmetic of cumulative buckets at one step.

use crate::plan::Dialect;

/// Counts that differ by less, relative to their sum, are equal.
const TOLERANCE: f64 = 1e-12;

/// A cumulative bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bucket {
    /// Its upper bound.
    pub(super) bound: f64,
    /// How many observations are at most that.
    pub(super) count: f64,
}

/// Reads an upper bound.
pub(super) fn bound(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let unsigned = text.trim_start_matches(['+', '-']);
    let is_signed = unsigned.len() < text.len();
    let is_word = unsigned.starts_with(|c: char| c.is_ascii_alphabetic());
    match value {
        // A number too large is an error, the word is none.
        _ if value.is_infinite() && !is_word => None,
        _ if value.is_nan() && is_signed => None,
        _ => Some(value),
    }
}

/// Adds up buckets of one bound. Returns whether the highest is one of all observations.
fn prepare(buckets: &mut Vec<Bucket>) -> bool {
    let is_complete = buckets
        .last()
        .is_some_and(|last| last.bound == f64::INFINITY);
    buckets.dedup_by(|later, first| {
        let is_same = later.bound == first.bound;
        if is_same {
            first.count += later.count;
        }
        is_same
    });
    is_complete
}

/// The `quantile` of `buckets`, which are some, sorted by bound. Returns also whether counts had to be
/// raised to the counts of lower buckets.
pub(super) fn quantile(quantile: f64, buckets: &mut Vec<Bucket>, dialect: Dialect) -> (f64, bool) {
    if quantile.is_nan() {
        return (f64::NAN, false);
    }
    if !(0.0..=1.0).contains(&quantile) {
        return (f64::INFINITY.copysign(quantile), false);
    }
    if !prepare(buckets) {
        return (f64::NAN, false);
    }
    let forced = match dialect.is_at_least(2, 49) {
        true => smooth(buckets),
        false => raise(buckets),
    };
    let last = buckets.len() - 1;
    let total = buckets[last].count;
    if last == 0 || total == 0.0 {
        return (f64::NAN, false);
    }
    let mut rank = quantile * total;
    let at = buckets[..last]
        .partition_point(|bucket| bucket.count < rank || bucket.count.is_nan() || rank.is_nan());
    if at == last {
        return (buckets[last - 1].bound, forced);
    }
    let Bucket { bound, mut count } = buckets[at];
    if at == 0 && bound <= 0.0 {
        return (bound, forced);
    }
    let mut from = 0.0;
    if at > 0 {
        let below = buckets[at - 1];
        from = below.bound;
        count -= below.count;
        rank -= below.count;
    }
    (from + (bound - from) * (rank / count), forced)
}

/// Raises counts to the highest one before them. Returns whether there was one to raise.
fn raise(buckets: &mut [Bucket]) -> bool {
    let mut forced = false;
    let mut highest = buckets[0].count;
    for bucket in &mut buckets[1..] {
        if bucket.count > highest {
            highest = bucket.count;
        } else if bucket.count < highest {
            bucket.count = highest;
            forced = true;
        }
    }
    forced
}

/// Like [`raise`], but counts that are about equal become equal, without a word.
fn smooth(buckets: &mut [Bucket]) -> bool {
    let mut forced = false;
    let mut before = buckets[0].count;
    for bucket in &mut buckets[1..] {
        if bucket.count == before {
            continue;
        }
        if is_about(before, bucket.count) {
            bucket.count = before;
        } else if bucket.count < before {
            bucket.count = before;
            forced = true;
        } else {
            before = bucket.count;
        }
    }
    forced
}

fn is_about(left: f64, right: f64) -> bool {
    if left == right || (left.is_nan() && right.is_nan()) {
        return true;
    }
    let size = left.abs() + right.abs();
    let distance = (left - right).abs();
    if left == 0.0 || right == 0.0 || size < f64::MIN_POSITIVE {
        return distance < TOLERANCE * f64::MIN_POSITIVE;
    }
    distance / size.min(f64::MAX) < TOLERANCE
}

/// The fraction of observations between `lower` and `upper`.
pub(super) fn fraction(lower: f64, upper: f64, buckets: &mut Vec<Bucket>, dialect: Dialect) -> f64 {
    if !prepare(buckets) {
        return f64::NAN;
    }
    let total = buckets.last().map_or(0.0, |last| last.count);
    if total == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    let below = |limit| {
        rank(limit, buckets, dialect)
            .filter(|rank| *rank <= total || rank.is_nan() || total.is_nan())
    };
    (below(upper).unwrap_or(total) - below(lower).unwrap_or(total)) / total
}

/// How many observations are below `limit`; `None` where it is in no bucket.
fn rank(limit: f64, buckets: &[Bucket], dialect: Dialect) -> Option<f64> {
    let mut before = 0.0;
    for (at, bucket) in buckets.iter().enumerate() {
        // Since 3.6 a first bucket above zero begins there.
        let from = match at {
            0 if dialect.is_at_least(3, 6) && bucket.bound > 0.0 => 0.0,
            0 => f64::NEG_INFINITY,
            _ => buckets[at - 1].bound,
        };
        if from >= limit {
            return Some(before);
        }
        if from < limit && bucket.bound > limit {
            return Some(before + (bucket.count - before) * (limit - from) / (bucket.bound - from));
        }
        before = bucket.count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Dialect = Dialect {
        major: 2,
        minor: 42,
    };
    const NEW: Dialect = Dialect { major: 3, minor: 5 };
    const NEXT: Dialect = Dialect { major: 3, minor: 6 };
    const INF: f64 = f64::INFINITY;

    type Case<'c> = (f64, &'c [(f64, f64)], f64, bool);

    fn made(pairs: &[(f64, f64)]) -> Vec<Bucket> {
        let bucket = |(bound, count): &(f64, f64)| Bucket {
            bound: *bound,
            count: *count,
        };
        pairs.iter().map(bucket).collect()
    }

    #[test]
    fn bounds_are_numbers() {
        let cases = [
            ("0.5", Some(0.5)),
            ("1.0", Some(1.0)),
            ("1e3", Some(1000.0)),
            ("-1", Some(-1.0)),
            ("+Inf", Some(INF)),
            ("inf", Some(INF)),
            ("-Infinity", Some(-INF)),
            ("1e999", None),
            ("", None),
            ("abc", None),
            (" 1", None),
            ("+NaN", None),
        ];
        for (text, expected) in cases {
            assert_eq!(bound(text), expected, "{text}");
        }
        assert!(bound("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn quantiles_follow_the_rules() {
        let nan = f64::NAN;
        // Quantile, buckets, result, whether counts were raised.
        let cases: &[Case<'_>] = &[
            (nan, &[(1.0, 1.0), (INF, 2.0)], nan, false),
            (-0.1, &[(1.0, 1.0)], -INF, false),
            (1.1, &[(1.0, 1.0)], INF, false),
            (0.5, &[(1.0, 1.0), (2.0, 2.0)], nan, false),
            (0.5, &[(INF, 2.0)], nan, false),
            (0.5, &[(1.0, 0.0), (INF, 0.0)], nan, false),
            (0.5, &[(1.0, 2.0), (INF, 4.0)], 1.0, false),
            (0.25, &[(1.0, 2.0), (INF, 4.0)], 0.5, false),
            (1.0, &[(1.0, 2.0), (INF, 4.0)], 1.0, false),
            (0.1, &[(-1.0, 2.0), (INF, 4.0)], -1.0, false),
            (
                0.5,
                &[(0.1, 370.0), (1.0, 5.0), (10.0, 1110.0), (INF, 1480.0)],
                5.5,
                true,
            ),
            (
                0.5,
                &[(1.0, 370.0), (1.0, 740.0), (2.0, 1110.0), (INF, 1480.0)],
                2.0 / 3.0,
                false,
            ),
        ];
        for dialect in [OLD, NEW] {
            for (asked, pairs, expected, forced) in cases {
                let (found, is_forced) = quantile(*asked, &mut made(pairs), dialect);
                let same = found == *expected || (found.is_nan() && expected.is_nan());
                assert!(same, "{asked} of {pairs:?} is {found}");
                assert_eq!(is_forced, *forced, "{asked} of {pairs:?}");
            }
        }
    }

    #[test]
    fn small_differences_are_smoothed_since_2_49() {
        let pairs = [(1.0, 2.0), (2.0, 2.0 - 1e-13), (INF, 4.0)];
        assert!(quantile(0.5, &mut made(&pairs), OLD).1);
        assert!(!quantile(0.5, &mut made(&pairs), NEW).1);
        // Also upwards: the second bucket is as good as empty.
        let pairs = [(1.0, 2.0), (2.0, 2.0 + 1e-13), (INF, 2.0 + 1e-13)];
        assert!(quantile(1.0, &mut made(&pairs), OLD).0 > 1.0);
        assert_eq!(quantile(1.0, &mut made(&pairs), NEW).0, 1.0);
        let pairs = [(1.0, 2.0), (2.0, 1.0), (INF, 4.0)];
        assert!(quantile(0.5, &mut made(&pairs), NEW).1);
    }

    #[test]
    fn fractions_follow_the_rules() {
        let pairs = [(-1.0, 1.0), (0.0, 2.0), (1.0, 3.0), (INF, 4.0)];
        let cases = [
            (0.0, 0.5, 0.125),
            (-0.5, 0.5, 0.25),
            (0.0, INF, 0.5),
            (-INF, INF, 1.0),
            (-INF, 1.0, 0.75),
            (1.0, 1.0, 0.0),
            (2.0, 1.0, 0.0),
        ];
        for (lower, upper, expected) in cases {
            let found = fraction(lower, upper, &mut made(&pairs), NEW);
            assert_eq!(found, expected, "{lower} to {upper}");
        }
        for (lower, upper, pairs) in [
            (f64::NAN, 1.0, &pairs[..]),
            (0.0, f64::NAN, &pairs[..]),
            (0.0, 1.0, &pairs[..3]),
            (0.0, 1.0, &[(1.0, 0.0), (INF, 0.0)][..]),
        ] {
            assert!(fraction(lower, upper, &mut made(pairs), NEW).is_nan());
        }
        let pairs = [(1.0, 2.0), (INF, 4.0)];
        assert!(fraction(0.0, 0.5, &mut made(&pairs), NEW).is_nan());
        assert_eq!(fraction(0.0, 0.5, &mut made(&pairs), NEXT), 0.25);
    }
}
