//! Logarithms, as in fdlibm.

use std::f64::consts::{FRAC_1_SQRT_2, LOG2_E, LOG10_E};

use super::{exponent, half, polynomial, split};

/// The logarithm of 2 as the sum of two numbers; the first has zeros at its end.
pub(super) const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
pub(super) const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Of the polynomial in the square of f / (2 + f), the highest power first.
const REMEZ: [f64; 7] = [
    0.147_981_986_051_165_86,
    0.153_138_376_992_093_73,
    0.181_835_721_616_180_5,
    0.222_221_984_321_497_84,
    0.285_714_287_436_623_9,
    0.399_999_999_994_094_2,
    0.666_666_666_666_673_5,
];

/// Natural logarithm. The exponent of a subnormal number is read as it stands, as the servers do
/// on x86-64.
pub(super) fn ln(x: f64) -> f64 {
    if !x.is_finite() || x <= 0.0 {
        return x.ln();
    }
    let bits = x.to_bits();
    logarithm(half(bits), exponent(bits))
}

/// The natural logarithm of `fraction * 2^exponent`; the fraction is from a half to 1.
fn logarithm(mut fraction: f64, mut exponent: i32) -> f64 {
    if fraction < FRAC_1_SQRT_2 {
        fraction *= 2.0;
        exponent -= 1;
    }
    let (f, power) = (fraction - 1.0, f64::from(exponent));
    let s = f / (2.0 + f);
    let (s2, s4) = (s * s, s * s * (s * s));
    // Every other power by itself.
    let [seventh, sixth, fifth, fourth, third, second, first] = REMEZ;
    let odd = s2 * polynomial(s4, &[seventh, fifth, third, first]);
    let even = s4 * polynomial(s4, &[sixth, fourth, second]);
    let square = 0.5 * f * f;
    power * LN_2_HIGH - ((square - (s * (square + (odd + even)) + power * LN_2_LOW)) - f)
}

/// Exact for powers of two: the exponent is taken off first.
pub(crate) fn log2(x: f64) -> f64 {
    if !x.is_finite() || x <= 0.0 {
        return x.ln();
    }
    let (fraction, exponent) = split(x);
    if fraction == 0.5 {
        return f64::from(exponent - 1);
    }
    logarithm(fraction, 0) * LOG2_E + f64::from(exponent)
}

pub(super) fn log10(x: f64) -> f64 {
    ln(x) * LOG10_E
}

/// The natural logarithm of 1 plus `x`.
pub(super) fn ln_1p(x: f64) -> f64 {
    if x.is_nan() || x <= -1.0 || x == f64::INFINITY {
        return x.ln_1p();
    }
    let size = x.abs();
    if size < TWO_TO_MINUS_29 {
        return match size < TWO_TO_MINUS_54 {
            true => x,
            false => x - x * x * 0.5,
        };
    }
    let Above {
        f,
        power,
        lost,
        is_tiny,
    } = Above::of(x);
    let square = 0.5 * f * f;
    let (high, low) = (power * LN_2_HIGH, power * LN_2_LOW + lost);
    if is_tiny {
        let rest = square * (1.0 - 0.666_666_666_666_666_6 * f);
        return match power == 0.0 {
            true => f - rest,
            false => high - ((rest - low) - f),
        };
    }
    let s = f / (2.0 + f);
    let s2 = s * s;
    let sum = s * (square + s2 * polynomial(s2, &REMEZ));
    match power == 0.0 {
        true => f - (square - sum),
        false => high - ((square - (sum + low)) - f),
    }
}

const TWO_TO_MINUS_29: f64 = 1.862_645_149_230_957e-9;
const TWO_TO_MINUS_54: f64 = 5.551_115_123_125_783e-17;
const TWO_TO_53: f64 = 9_007_199_254_740_992.0;
const SQRT_2_LESS_1: f64 = 0.414_213_562_373_095_03;
const SQRT_HALF_LESS_1: f64 = -0.292_893_218_813_452_5;
/// The bits of the fraction of √2.
const SQRT_2_BITS: u64 = 0x6_a09e_667f_3bcd;
const FRACTION_MASK: u64 = (1 << 52) - 1;

/// `1 + x` as `2^power * (1 + f)`, and what that sum lost of `x`.
struct Above {
    f: f64,
    power: f64,
    lost: f64,
    /// Whether `f` is 0 or next to it.
    is_tiny: bool,
}

impl Above {
    /// `x` is above -1 and finite.
    fn of(x: f64) -> Self {
        if x > SQRT_HALF_LESS_1 && x < SQRT_2_LESS_1 {
            return Self {
                f: x,
                power: 0.0,
                lost: 0.0,
                is_tiny: false,
            };
        }
        let is_large = x >= TWO_TO_53;
        let whole = if is_large { x } else { 1.0 + x };
        let mut power = exponent(whole.to_bits()) - 1;
        let lost = match power > 0 {
            _ if is_large => 0.0,
            true => 1.0 - (whole - x),
            false => x - (whole - 1.0),
        };
        let bits = whole.to_bits() & FRACTION_MASK;
        let (fraction, is_tiny) = match bits < SQRT_2_BITS {
            true => (2.0 * half(bits), bits == 0),
            false => {
                power += 1;
                (half(bits), bits > FRACTION_MASK - 3)
            }
        };
        Self {
            f: fraction - 1.0,
            power: f64::from(power),
            lost: lost / whole,
            is_tiny,
        }
    }
}
