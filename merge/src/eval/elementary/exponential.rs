//! Exponentials and powers.

use std::f64::consts::LOG2_E;

use super::logarithm::{LN_2_HIGH, LN_2_LOW, ln};
use super::{polynomial, scaled, split};

/// Beyond it `exp` is infinite.
const EXP_MAX: f64 = 709.782_712_893_384;

/// `e^x`: a Taylor series of a sixteenth of what is left when powers of two are taken out, squared
/// four times, less 1 each time. Every multiplication and addition of the series is fused.
pub(super) fn exp(x: f64) -> f64 {
    // The logarithm of 2 as the sum of two numbers; the first has zeros at its end.
    const UPPER: f64 = 0.693_147_180_559_662_956_511_601_805_686_950_683_593_75;
    const LOWER: f64 = 0.282_352_905_630_315_771_225_884_481_750_134_360_255_254_120_68e-12;
    // One over the factorials from 8 to 1.
    const SERIES: [f64; 8] = [
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
    ];
    if x.is_nan() {
        return x;
    }
    if x > EXP_MAX {
        return f64::INFINITY;
    }
    // Below it even the least number is too large.
    if x < -746.0 {
        return 0.0;
    }
    let power = (x * LOG2_E).round_ties_even();
    let left = (-power).mul_add(UPPER, x);
    let part = (-power).mul_add(LOWER, left) * 0.0625;
    let mut sum = SERIES[0];
    for coefficient in &SERIES[1..] {
        sum = sum.mul_add(part, *coefficient);
    }
    let mut less_one = sum * part;
    for _ in 0..3 {
        less_one *= less_one + 2.0;
    }
    let result = less_one.mul_add(less_one + 2.0, 1.0);
    // Within -1,077 to 1,024 by the lines before.
    let power = power as i32;
    match power {
        ..=-1076 => 0.0,
        // Scaled twice, since the power is that of no normal number.
        -1075..=-1023 => result * power_of_two(power + 1022) * f64::MIN_POSITIVE,
        1024.. => f64::INFINITY,
        _ => result * power_of_two(power),
    }
}

/// Of a power within -1,022 to 1,023.
fn power_of_two(power: i32) -> f64 {
    scaled(1.0, power)
}

/// `2^x`, as in fdlibm.
pub(crate) fn exp2(x: f64) -> f64 {
    const REMEZ: [f64; 5] = [
        4.138_136_797_057_238_5e-8,
        -1.653_390_220_546_525_2e-6,
        6.613_756_321_437_934e-5,
        -2.777_777_777_701_559_3e-3,
        0.166_666_666_666_666_66,
    ];
    if x.is_nan() {
        return x;
    }
    if x > 1_023.999_999_999_999_9 {
        return f64::INFINITY;
    }
    if x < -1074.0 {
        return 0.0;
    }
    let power = (x + 0.5f64.copysign(x)).trunc();
    let left = x - power;
    let (high, low) = (left * LN_2_HIGH, -left * LN_2_LOW);
    let rest = high - low;
    let square = rest * rest;
    let c = rest - square * polynomial(square, &REMEZ);
    let result = 1.0 - ((low - (rest * c) / (2.0 - c)) - high);
    // Within -1,074 to 1,024.
    scaled(result, power as i32)
}

/// `x^y`: the whole part of `y` by repeated squares of the fraction of `x`, what is left by `exp`.
pub(crate) fn power(x: f64, y: f64) -> f64 {
    let is_special = x == 0.0 || x == 1.0 || y == 0.0 || !x.is_finite() || !y.is_finite();
    if is_special {
        return x.powf(y);
    }
    match y {
        1.0 => return x,
        0.5 => return x.sqrt(),
        -0.5 => return 1.0 / x.sqrt(),
        _ => {}
    }
    let size = y.abs();
    let (mut whole, mut left) = (size.trunc(), size.fract());
    if left != 0.0 && x < 0.0 {
        return f64::NAN;
    }
    if whole >= 9_223_372_036_854_775_808.0 {
        // An even number so large that nothing else than 1 stays within bounds.
        return match x {
            -1.0 => 1.0,
            _ if (x.abs() < 1.0) == (y > 0.0) => 0.0,
            _ => f64::INFINITY,
        };
    }
    let mut result = 1.0;
    if left != 0.0 {
        if left > 0.5 {
            left -= 1.0;
            whole += 1.0;
        }
        result = exp(left * ln(x));
    }
    let (fraction, mut exponent) = split(x.abs());
    let mut base = fraction.copysign(x);
    let mut result_exponent = 0;
    // Below 2^63.
    let mut bits = whole as u64;
    while bits != 0 {
        if !(-4096..=4096).contains(&exponent) {
            // The result is out of bounds, whatever the other bits are.
            result_exponent += exponent;
            break;
        }
        if bits & 1 == 1 {
            result *= base;
            result_exponent += exponent;
        }
        base *= base;
        exponent *= 2;
        if base < 0.5 {
            base += base;
            exponent -= 1;
        }
        bits >>= 1;
    }
    match y < 0.0 {
        true => scaled(1.0 / result, -result_exponent),
        false => scaled(result, result_exponent),
    }
}
