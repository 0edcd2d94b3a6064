//! Functions of one or two numbers, to the last bit as the servers compute them.
//!
//! The servers' library has its own approximations, whose last bits differ from those of other
//! libraries. A comparison, `count_values` or `floor` makes a whole difference of such a bit, so
//! they are computed here in the same order of operations: those of the library's portable code,
//! and of its code for x86-64 with fused multiplication and addition where it has one (`exp`,
//! `ln`). The methods are those of Cephes, of fdlibm and, for `exp`, of Shibata (2010).

mod circular;
mod exponential;
mod hyperbolic;
mod logarithm;

pub(crate) use circular::atan2;
pub(crate) use exponential::{exp2, power};
pub(crate) use logarithm::log2;

use std::f64::consts::PI;

/// Units of work, as of [`super::pace`], that the costliest of these take, but for [`power`].
pub(crate) const UNITS: usize = 64;

/// Units of work of the function of that name.
pub(crate) fn units(name: &str) -> usize {
    match name {
        "abs" | "ceil" | "floor" | "sqrt" | "sgn" | "deg" | "rad" => 8,
        _ => UNITS,
    }
}

/// The function of that name, if it is one of one number.
pub(crate) fn function(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "ceil" => f64::ceil,
        "floor" => f64::floor,
        "exp" => exponential::exp,
        "sqrt" => f64::sqrt,
        "ln" => logarithm::ln,
        "log2" => log2,
        "log10" => logarithm::log10,
        "sgn" => sign,
        "sin" => circular::sin,
        "cos" => circular::cos,
        "tan" => circular::tan,
        "asin" => circular::asin,
        "acos" => circular::acos,
        "atan" => circular::atan,
        "sinh" => hyperbolic::sinh,
        "cosh" => hyperbolic::cosh,
        "tanh" => hyperbolic::tanh,
        "asinh" => hyperbolic::asinh,
        "acosh" => hyperbolic::acosh,
        "atanh" => hyperbolic::atanh,
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

/// The polynomial of `x` with these coefficients, that of the highest power first.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    let add = |sum, coefficient: &f64| sum * x + coefficient;
    coefficients
        .iter()
        .copied()
        .reduce(|sum, one| add(sum, &one))
        .unwrap_or(0.0)
}

const FRACTION_BITS: u32 = 52;
const EXPONENT_MASK: u64 = 0x7ff << FRACTION_BITS;

/// A positive number as a fraction from a half to 1 and a power of two.
fn split(x: f64) -> (f64, i32) {
    // A subnormal number is scaled up before its exponent is read.
    let (x, added) = match x < f64::MIN_POSITIVE {
        true => (x * 4_503_599_627_370_496.0, 52),
        false => (x, 0),
    };
    let bits = x.to_bits();
    (half(bits), exponent(bits) - added)
}

/// The number of the fraction in `bits` between a half and 1.
fn half(bits: u64) -> f64 {
    f64::from_bits((bits & !EXPONENT_MASK) | (1022 << FRACTION_BITS))
}

/// The power of two that belongs to [`half`]. The sign bit is not looked at.
fn exponent(bits: u64) -> i32 {
    // Eleven bits.
    ((bits & EXPONENT_MASK) >> FRACTION_BITS) as i32 - 1022
}

/// `x * 2^power`, rounded once. `x` is 0 or a normal number.
fn scaled(x: f64, power: i32) -> f64 {
    if x == 0.0 {
        return x;
    }
    let power = power.saturating_add(exponent(x.to_bits()));
    match power {
        ..=-1075 => 0.0f64.copysign(x),
        1025.. => f64::INFINITY.copysign(x),
        // Subnormal: rounded by a multiplication.
        -1074..=-1022 => with_exponent(x, power + 53) * (f64::EPSILON / 2.0),
        _ => with_exponent(x, power),
    }
}

/// The number of the fraction of `x`, times two to that power, which is within those of normal
/// numbers.
fn with_exponent(x: f64, power: i32) -> f64 {
    let biased = u64::from((power + 1022).unsigned_abs());
    f64::from_bits((x.to_bits() & !EXPONENT_MASK) | (biased << FRACTION_BITS))
}

#[cfg(test)]
mod tests;
