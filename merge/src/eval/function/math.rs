//! Functions of one number, applied to every sample.
//!
//! Where the standard library's result differs from that of Prometheus' language in more than the
//! last bit, or in a special case, the formula is spelled out here.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LOG2_E, LOG10_E, PI};

use super::CHUNK_STEPS;
use super::arguments::Arguments;
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::value::{ABSENT, Column, Series, is_absent, numbers};
use crate::plan::Grid;

/// What a function makes of native histograms, by version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnHistogram {
    /// Left out since 2.44; before, they are worth 0.
    Elementary,
    /// Left out since 3.0; before, they are worth 0.
    Other,
}

/// Applies `function`, given the step and the float there, to all floats.
pub(super) async fn map<'a>(
    env: &Env<'a>,
    mut series: Vec<Series<'a>>,
    on_histogram: OnHistogram,
    function: impl Fn(usize, f64) -> f64,
) -> Outcome<Vec<Series<'a>>> {
    let dialect = env.dialect();
    let is_left_out = match on_histogram {
        OnHistogram::Elementary => dialect.is_at_least(2, 44),
        OnHistogram::Other => dialect.is_at_least(3, 0),
    };
    for one in &mut series {
        take_histograms(env, &mut one.column, is_left_out).await;
        for (index, chunk) in one.column.floats.chunks_mut(CHUNK_STEPS).enumerate() {
            env.pace.spend(64 + 8 * chunk.len()).await;
            for (at, value) in chunk.iter_mut().enumerate() {
                if !is_absent(*value) {
                    *value = function(index * CHUNK_STEPS + at, *value);
                }
            }
        }
    }
    Ok(series)
}

/// Takes the histograms out of a column; zeros come in their place unless they are left out.
async fn take_histograms(env: &Env<'_>, column: &mut Column<'_>, is_left_out: bool) {
    let Some(histograms) = column.histograms.take() else {
        return;
    };
    if is_left_out {
        return;
    }
    for (floats, histograms) in column
        .floats
        .chunks_mut(CHUNK_STEPS)
        .zip(histograms.chunks(CHUNK_STEPS))
    {
        env.pace.spend(4 * floats.len()).await;
        for (float, histogram) in floats.iter_mut().zip(histograms) {
            if histogram.is_some() {
                *float = 0.0;
            }
        }
    }
}

/// The function of that name, if it is one of one number.
pub(super) fn elementary(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "ceil" => f64::ceil,
        "floor" => f64::floor,
        "exp" => f64::exp,
        "sqrt" => f64::sqrt,
        "ln" => ln,
        "log2" => log2,
        "log10" => log10,
        "sgn" => sign,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "asin" => f64::asin,
        "acos" => f64::acos,
        "atan" => f64::atan,
        "sinh" => f64::sinh,
        "cosh" => f64::cosh,
        "tanh" => f64::tanh,
        "asinh" => area_sinh,
        "acosh" => area_cosh,
        "atanh" => area_tanh,
        "deg" => |x| x * 180.0 / PI,
        "rad" => |x| x * PI / 180.0,
        _ => return None,
    })
}

fn sign(x: f64) -> f64 {
    match x {
        _ if x < 0.0 => -1.0,
        _ if x > 0.0 => 1.0,
        // Zeros keep their sign, NaN stays.
        _ => x,
    }
}

/// Natural logarithm: that of fdlibm, as the servers compute it on their usual processors, where
/// the exponent of a subnormal number is read as it stands.
fn ln(x: f64) -> f64 {
    if !x.is_finite() || x <= 0.0 {
        return x.ln();
    }
    let bits = x.to_bits();
    let exponent = ((bits >> 52) as i32) - 1022;
    logarithm(half(bits), exponent)
}

/// The number of the fraction in `bits` between a half and 1.
fn half(bits: u64) -> f64 {
    f64::from_bits((bits & !(0x7ff << 52)) | (1022 << 52))
}

/// The natural logarithm of `fraction * 2^exponent`; the fraction is from a half to 1.
fn logarithm(mut fraction: f64, mut exponent: i32) -> f64 {
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // Of the polynomial in the square of f / (2 + f).
    const EVEN: [f64; 3] = [
        0.399_999_999_994_094_2,
        0.222_221_984_321_497_84,
        0.153_138_376_992_093_73,
    ];
    const ODD: [f64; 4] = [
        0.666_666_666_666_673_5,
        0.285_714_287_436_623_9,
        0.181_835_721_616_180_5,
        0.147_981_986_051_165_86,
    ];
    if fraction < FRAC_1_SQRT_2 {
        fraction *= 2.0;
        exponent -= 1;
    }
    let (f, power) = (fraction - 1.0, f64::from(exponent));
    let s = f / (2.0 + f);
    let (s2, s4) = (s * s, s * s * (s * s));
    let odd = s2 * (ODD[0] + s4 * (ODD[1] + s4 * (ODD[2] + s4 * ODD[3])));
    let even = s4 * (EVEN[0] + s4 * (EVEN[1] + s4 * EVEN[2]));
    let square = 0.5 * f * f;
    power * LN_2_HIGH - ((square - (s * (square + (odd + even)) + power * LN_2_LOW)) - f)
}

/// Exact for powers of two: the exponent is taken off first.
fn log2(x: f64) -> f64 {
    if !x.is_finite() || x <= 0.0 {
        return x.ln();
    }
    // A subnormal is scaled up by 2^52 before its exponent is read.
    let (scaled, added) = if x < f64::MIN_POSITIVE {
        (x * 4_503_599_627_370_496.0, 52)
    } else {
        (x, 0)
    };
    let bits = scaled.to_bits();
    let exponent = ((bits >> 52) as i32) - 1022 - added;
    let fraction = half(bits);
    if fraction == 0.5 {
        return f64::from(exponent - 1);
    }
    logarithm(fraction, 0) * LOG2_E + f64::from(exponent)
}

fn log10(x: f64) -> f64 {
    ln(x) * LOG10_E
}

/// Beyond it a square and the square plus one are the same: 2^28.
const LARGE: f64 = 268_435_456.0;

fn area_sinh(x: f64) -> f64 {
    let size = x.abs();
    let area = match size {
        _ if !x.is_finite() => return x,
        _ if size > LARGE => ln(size) + LN_2,
        _ if size > 2.0 => ln(2.0 * size + 1.0 / ((size * size + 1.0).sqrt() + size)),
        _ if size < 1.0 / LARGE => size,
        _ => (size + size * size / (1.0 + (1.0 + size * size).sqrt())).ln_1p(),
    };
    area.copysign(x)
}

fn area_cosh(x: f64) -> f64 {
    match x {
        _ if x < 1.0 || x.is_nan() => f64::NAN,
        _ if x == 1.0 => 0.0,
        _ if x >= LARGE => ln(x) + LN_2,
        _ if x > 2.0 => ln(2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt())),
        _ => {
            let over = x - 1.0;
            (over + (2.0 * over + over * over).sqrt()).ln_1p()
        }
    }
}

fn area_tanh(x: f64) -> f64 {
    let size = x.abs();
    let area = match size {
        _ if size.is_nan() || size > 1.0 => return f64::NAN,
        _ if size == 1.0 => f64::INFINITY,
        _ if size < 1.0 / LARGE => size,
        _ if size < 0.5 => {
            let twice = size + size;
            0.5 * (twice + twice * size / (1.0 - size)).ln_1p()
        }
        _ => 0.5 * ((size + size) / (1.0 - size)).ln_1p(),
    };
    area.copysign(x)
}

/// The greater of two: infinity before NaN before numbers, and 0 over -0.
pub(super) fn greater(left: f64, right: f64) -> f64 {
    match (left, right) {
        _ if left == f64::INFINITY || right == f64::INFINITY => f64::INFINITY,
        _ if left.is_nan() || right.is_nan() => f64::NAN,
        _ if left == 0.0 && right == 0.0 && left.is_sign_negative() => right,
        _ if left < right => right,
        _ => left,
    }
}

/// The lesser of two: negative infinity before NaN before numbers, and -0 under 0.
pub(super) fn lesser(left: f64, right: f64) -> f64 {
    -greater(-left, -right)
}

/// Rounds to the nearest multiple of `nearest` (of 1 where there is none), halves up.
pub(super) async fn round<'a>(
    env: &Env<'a>,
    series: Vec<Series<'a>>,
    nearest: Option<&'a mut [f64]>,
) -> Outcome<Vec<Series<'a>>> {
    let nearest = nearest.as_deref();
    map(env, series, OnHistogram::Other, |step, value| {
        // Its inverse loses less in the usual cases, such as 0.1.
        let inverse = 1.0 / nearest.map_or(1.0, |column| column[step]);
        (value * inverse + 0.5).floor() / inverse
    })
    .await
}

/// The bounds of `clamp`, for each step.
#[derive(Debug)]
pub(super) struct Bounds<'a> {
    lower: &'a mut [f64],
    upper: &'a mut [f64],
}

impl<'a> Bounds<'a> {
    pub(super) fn read(
        env: &Env<'a>,
        grid: &Grid,
        function: &str,
        given: &mut Arguments<'a>,
    ) -> Outcome<Self> {
        let open = |bound| numbers(env.bump, grid.count, bound);
        Ok(match function {
            "clamp_min" => Self {
                lower: given.scalar()?,
                upper: open(f64::INFINITY)?,
            },
            "clamp_max" => Self {
                lower: open(f64::NEG_INFINITY)?,
                upper: given.scalar()?,
            },
            _ => Self {
                lower: given.scalar()?,
                upper: given.scalar()?,
            },
        })
    }
}

/// Keeps values within bounds; a step whose bounds are crossed is empty.
pub(super) async fn clamp<'a>(
    env: &Env<'a>,
    series: Vec<Series<'a>>,
    bounds: Bounds<'a>,
) -> Outcome<Vec<Series<'a>>> {
    map(env, series, OnHistogram::Other, |step, value| {
        let (lower, upper) = (bounds.lower[step], bounds.upper[step]);
        match upper < lower {
            true => ABSENT,
            false => greater(lower, lesser(upper, value)),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_values_are_as_in_the_servers() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let cases: &[(&str, f64, f64)] = &[
            ("sgn", -0.0, -0.0),
            ("sgn", nan, nan),
            ("sgn", -inf, -1.0),
            ("log2", 8.0, 3.0),
            ("log2", 0.125, -3.0),
            ("log2", 5e-324, -1074.0),
            ("log2", 0.0, -inf),
            ("log2", -1.0, nan),
            ("log2", inf, inf),
            ("log10", 1000.0, 3.0),
            ("log10", 5e-324, -307.953_685_564_252_8),
            ("ln", 3.0, 1.098_612_288_668_109_6),
            ("ln", 5e-324, -709.089_565_712_824_1),
            ("ln", 1e-310, -709.085_081_548_894_5),
            ("ln", 1.0, 0.0),
            ("ln", -0.0, -inf),
            ("log10", 0.0, -inf),
            ("asinh", f64::MAX, 710.475_860_073_943_9),
            ("asinh", f64::MIN, -710.475_860_073_943_9),
            ("asinh", -0.0, -0.0),
            ("asinh", -inf, -inf),
            ("acosh", 0.999, nan),
            ("acosh", 1.0, 0.0),
            ("acosh", f64::MAX, 710.475_860_073_943_9),
            ("atanh", 1.0, inf),
            ("atanh", -1.0, -inf),
            ("atanh", 1.000_001, nan),
            ("atanh", -0.0, -0.0),
            ("deg", f64::MAX, inf),
            ("rad", f64::MAX, inf),
        ];
        for (name, given, expected) in cases {
            let found = elementary(name).unwrap()(*given);
            let same =
                found == *expected && found.is_sign_negative() == expected.is_sign_negative();
            let same = same || (found.is_nan() && expected.is_nan());
            assert!(same, "{name}({given}) is {found}, not {expected}");
        }
        assert!(elementary("round").is_none());
    }

    #[test]
    fn extremes_prefer_infinity_to_nan_and_mind_the_sign_of_zero() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        assert_eq!(greater(nan, inf), inf);
        assert!(greater(nan, -inf).is_nan());
        assert_eq!(lesser(-inf, nan), -inf);
        assert!(lesser(inf, nan).is_nan());
        assert!(greater(-0.0, 0.0).is_sign_positive());
        assert!(greater(0.0, -0.0).is_sign_positive());
        assert!(lesser(0.0, -0.0).is_sign_negative());
        assert!(lesser(-0.0, 0.0).is_sign_negative());
        assert_eq!((greater(1.0, 2.0), lesser(1.0, 2.0)), (2.0, 1.0));
    }
}
