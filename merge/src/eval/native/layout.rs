//! Bounds of exponential buckets.
//!
//! Bucket number `i` of schema `s` ends at 2^(i × 2^-s). Servers take the part of a bound below one
//! power of two from a table that is not always the nearest double; the texts of bounds only agree
//! with theirs when it is derived the same way, which [`fraction`] does.

use super::{SCHEMA_MAX, SCHEMA_MIN};

/// 2^(2^-s) for the schemas 1 to 8, as the table was made with: the first is not the nearest double.
const FACTORS: [f64; 8] = [
    std::f64::consts::SQRT_2.next_down(),
    1.189_207_115_002_721,
    1.090_507_732_665_257_7,
    1.044_273_782_427_413_8,
    1.021_897_148_654_116_6,
    1.010_889_286_051_700_5,
    1.005_429_901_112_802_7,
    1.002_711_275_050_202_5,
];
/// How far the logarithm of a bound may be from the one that it stands for, in buckets.
const TOLERANCE: f64 = 1e-6;
/// The exponent behind the largest double.
const EXPONENT_MAX: i32 = 1024;

/// The upper bound of bucket `index`.
pub(super) fn bound(schema: i32, index: i32) -> f64 {
    let (whole, part) = match schema {
        ..=0 => (i64::from(index) << schema.unsigned_abs().min(8), 0.5),
        _ => {
            let schema = schema.min(SCHEMA_MAX);
            let inside = index & ((1 << schema) - 1);
            (
                i64::from(index >> schema),
                fraction(schema, inside.unsigned_abs()),
            )
        }
    };
    let largest = i64::from(EXPONENT_MAX);
    if part == 0.5 && whole == largest {
        return f64::MAX;
    }
    // 2 × part × 2^whole; doubling is exact, and so is each factor but into subnormal numbers.
    match whole {
        whole if whole >= largest => f64::INFINITY,
        whole if whole < -1100 => 0.0,
        whole if whole < -1000 => 2.0 * part * two_to(-1000) * two_to(whole + 1000),
        whole => 2.0 * part * two_to(whole),
    }
}

/// 2^exponent, of a normal number.
fn two_to(exponent: i64) -> f64 {
    let biased = (exponent + 1023).clamp(0, 2046);
    f64::from_bits(biased.unsigned_abs() << 52)
}

/// Entry `at` of the table for `schema`: 2^(at × 2^-schema) / 2. Every second entry is one of the
/// coarser table, the others are the entry before times the factor.
pub(super) fn fraction(schema: i32, at: u32) -> f64 {
    if at == 0 {
        return 0.5;
    }
    let coarser = at.trailing_zeros().min(schema.unsigned_abs());
    let (schema, at) = (schema - coarser.cast_signed(), at >> coarser);
    let Some(factor) = usize::try_from(schema - 1)
        .ok()
        .and_then(|at| FACTORS.get(at))
    else {
        return 0.5;
    };
    fraction(schema, at - 1) * factor
}

/// The number of the bucket that holds bucket `index` when the schema is `coarser` by so many.
pub(super) fn reduced(index: i32, coarser: u32) -> i32 {
    // The upper bound belongs to a bucket, hence the detour by one.
    (index.saturating_sub(1) >> coarser.min(31)).saturating_add(1)
}

/// The schema whose buckets are as wide as this one, if there is one. `None` inside where the
/// bucket is the last one, which fits all of them. Bounds are positive.
pub(super) fn schema_of(lower: f64, upper: f64) -> Option<Option<i32>> {
    if lower == f64::MAX && upper == f64::INFINITY {
        return Some(None);
    }
    if !(lower > 0.0 && upper.is_finite() && lower < upper) {
        return None;
    }
    let width = upper.log2() - lower.log2();
    let schema = -width.log2();
    let nearest = schema.round();
    let is_near = (schema - nearest).abs() < 1e-3;
    let fits = (f64::from(SCHEMA_MIN)..=f64::from(SCHEMA_MAX)).contains(&nearest);
    // In range of i32 by the line before.
    (is_near && fits).then_some(Some(nearest as i32))
}

/// The number of the bucket of `schema` that ends at `upper`, if there is one.
pub(super) fn index_of(schema: i32, upper: f64) -> Option<i32> {
    if upper == f64::INFINITY {
        let last = match schema {
            ..=0 => EXPONENT_MAX >> schema.unsigned_abs().min(8),
            _ => EXPONENT_MAX << schema.min(SCHEMA_MAX),
        };
        return Some(last + 1);
    }
    let at = upper.log2() * f64::from(schema).exp2();
    let nearest = at.round();
    // At most 1,074 × 2^8.
    ((at - nearest).abs() < TOLERANCE).then_some(nearest as i32)
}
