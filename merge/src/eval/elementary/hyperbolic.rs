//! Hyperbolic functions and their inverses.

use std::f64::consts::LN_2;

use super::exponential::exp;
use super::logarithm::{ln, ln_1p};
use super::polynomial;

pub(super) fn sinh(x: f64) -> f64 {
    const ABOVE: [f64; 4] = [
        -26.305_632_133_974_97,
        -2_894.211_355_989_564,
        -89_912.720_220_395_09,
        -630_767.364_049_771_7,
    ];
    const BELOW: [f64; 4] = [
        1.0,
        -173.678_953_558_233_7,
        15_215.173_787_900_19,
        -630_767.364_049_771_7,
    ];
    let size = x.abs();
    let result: f64 = match size {
        _ if size > 21.0 => exp(size) / 2.0,
        _ if size > 0.5 => {
            let power = exp(size);
            (power - 1.0 / power) / 2.0
        }
        _ => {
            let square = size * size;
            polynomial(square, &ABOVE) * size / polynomial(square, &BELOW)
        }
    };
    result.copysign(x)
}

pub(super) fn cosh(x: f64) -> f64 {
    let size = x.abs();
    let power = exp(size);
    match size > 21.0 {
        true => power / 2.0,
        false => (power + 1.0 / power) / 2.0,
    }
}

pub(super) fn tanh(x: f64) -> f64 {
    const ABOVE: [f64; 3] = [
        -0.964_399_179_425_052_3,
        -99.287_723_100_191_86,
        -1_614.687_684_417_084_5,
    ];
    const BELOW: [f64; 4] = [
        1.0,
        112.811_678_491_632_93,
        2_235.488_390_601_004_5,
        4_844.063_053_251_255,
    ];
    // Half the logarithm of 2^127.
    const WHOLE: f64 = 44.014_845_965_556_525;
    let size = x.abs();
    match size {
        _ if x == 0.0 => x,
        _ if size > WHOLE => 1.0f64.copysign(x),
        _ if size >= 0.625 => (1.0 - 2.0 / (exp(2.0 * size) + 1.0)).copysign(x),
        _ => {
            let square = x * x;
            x + x * square * polynomial(square, &ABOVE) / polynomial(square, &BELOW)
        }
    }
}

/// Beyond it a square and the square plus one are the same: 2^28.
const LARGE: f64 = 268_435_456.0;

pub(super) fn asinh(x: f64) -> f64 {
    let size = x.abs();
    let area = match size {
        _ if !x.is_finite() => return x,
        _ if size > LARGE => ln(size) + LN_2,
        _ if size > 2.0 => ln(2.0 * size + 1.0 / ((size * size + 1.0).sqrt() + size)),
        _ if size < 1.0 / LARGE => size,
        _ => ln_1p(size + size * size / (1.0 + (1.0 + size * size).sqrt())),
    };
    area.copysign(x)
}

pub(super) fn acosh(x: f64) -> f64 {
    match x {
        _ if x < 1.0 || x.is_nan() => f64::NAN,
        _ if x == 1.0 => 0.0,
        _ if x >= LARGE => ln(x) + LN_2,
        _ if x > 2.0 => ln(2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt())),
        _ => {
            let over = x - 1.0;
            ln_1p(over + (2.0 * over + over * over).sqrt())
        }
    }
}

pub(super) fn atanh(x: f64) -> f64 {
    let size = x.abs();
    let area = match size {
        _ if size.is_nan() || size > 1.0 => return f64::NAN,
        _ if size == 1.0 => f64::INFINITY,
        _ if size < 1.0 / LARGE => size,
        _ if size < 0.5 => {
            let twice = size + size;
            0.5 * ln_1p(twice + twice * size / (1.0 - size))
        }
        _ => 0.5 * ln_1p((size + size) / (1.0 - size)),
    };
    area.copysign(x)
}
