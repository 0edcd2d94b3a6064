//! Functions of angles in radians and their inverses, as in Cephes.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, PI};

use super::polynomial;

/// From it on a quarter of π in three parts is not exact enough.
const FAR: f64 = 536_870_912.0;

pub(super) fn sin(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() {
        return x;
    }
    if x.is_infinite() {
        return f64::NAN;
    }
    let (octant, angle) = reduce(x.abs());
    let size = match octant & 3 {
        1 | 2 => cosine(angle),
        _ => sine(angle),
    };
    negated_if((x < 0.0) != (octant & 4 != 0), size)
}

pub(super) fn cos(x: f64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    let (octant, angle) = reduce(x.abs());
    let size = match octant & 3 {
        1 | 2 => sine(angle),
        _ => cosine(angle),
    };
    negated_if((octant & 4 != 0) != (octant & 3 > 1), size)
}

pub(super) fn tan(x: f64) -> f64 {
    const ABOVE: [f64; 3] = [
        -13_093.693_918_138_379,
        1_153_516.648_385_874_2,
        -17_956_525.197_648_488,
    ];
    const BELOW: [f64; 5] = [
        1.0,
        13_681.296_347_069_296,
        -1_320_892.344_402_109_7,
        25_008_380.182_335_79,
        -53_869_575.592_945_464,
    ];
    if x == 0.0 || x.is_nan() {
        return x;
    }
    if x.is_infinite() {
        return f64::NAN;
    }
    let (octant, angle) = reduce(x.abs());
    let square = angle * angle;
    let mut size = angle;
    if square > 1e-14 {
        let ratio = square * polynomial(square, &ABOVE) / polynomial(square, &BELOW);
        size += angle * ratio;
    }
    if octant & 2 == 2 {
        size = -1.0 / size;
    }
    negated_if(x < 0.0, size)
}

fn negated_if(is_negative: bool, x: f64) -> f64 {
    match is_negative {
        true => -x,
        false => x,
    }
}

/// The sine of an angle of at most an eighth of a turn to either side.
fn sine(angle: f64) -> f64 {
    const SINE: [f64; 6] = [
        1.589_623_015_765_465_6e-10,
        -2.505_074_776_285_780_8e-8,
        2.755_731_362_138_572_3e-6,
        -1.984_126_982_958_954e-4,
        8.333_333_333_322_118e-3,
        -0.166_666_666_666_666_3,
    ];
    let square = angle * angle;
    angle + angle * square * polynomial(square, &SINE)
}

/// The cosine of such an angle.
fn cosine(angle: f64) -> f64 {
    const COSINE: [f64; 6] = [
        -1.135_853_652_138_768_2e-11,
        2.087_570_084_197_473e-9,
        -2.755_731_417_929_674e-7,
        2.480_158_728_885_170_4e-5,
        -1.388_888_888_887_305_6e-3,
        0.041_666_666_666_666_595,
    ];
    let square = angle * angle;
    1.0 - 0.5 * square + square * square * polynomial(square, &COSINE)
}

/// The octant, an even number within a turn, and the angle from its middle. `x` is at least 0.
fn reduce(x: f64) -> (u64, f64) {
    const QUARTER_HIGH: f64 = 0.785_398_125_648_498_5;
    const QUARTER_MIDDLE: f64 = 3.774_894_707_930_798e-8;
    const QUARTER_LOW: f64 = 2.695_151_429_079_059_5e-15;
    if x >= FAR {
        return reduce_far(x);
    }
    let mut octant = (x * (2.0 * FRAC_2_PI)) as u64;
    octant += octant & 1;
    // Below 2^30.
    let turned = octant as f64;
    let angle = ((x - turned * QUARTER_HIGH) - turned * QUARTER_MIDDLE) - turned * QUARTER_LOW;
    (octant & 7, angle)
}

/// Bits of 4/π: the whole number, then 64 each.
const FOUR_BY_PI: [u64; 20] = [
    0x0000_0000_0000_0001,
    0x45f3_06dc_9c88_2a53,
    0xf84e_afa3_ea69_bb81,
    0xb6c5_2b32_7887_2083,
    0xfca2_c757_bd77_8ac3,
    0x6e48_dc74_849b_a5c0,
    0x0c92_5dd4_13a3_2439,
    0xfc3b_d639_6253_4e7d,
    0xd104_6bea_5d76_8909,
    0xd338_e04d_68be_fc82,
    0x7323_ac73_06a6_73e9,
    0x3908_bf17_7bf2_5076,
    0x3ff1_2fff_bc0b_301f,
    0xde5e_2316_b414_da3e,
    0xda6c_fd9e_4f96_136e,
    0x9e8c_7ecd_3cbf_d45a,
    0xea4f_758f_d7cb_e2f6,
    0x7a0e_73ef_14a5_25d4,
    0xd7f6_bf62_3f1a_ba10,
    0xac06_608d_f8f6_d757,
];

const LOWER_WORD: u128 = (1 << 64) - 1;

/// [`reduce`] by as many bits of 4/π as the exponent calls for (Payne and Hanek). `x` is at least
/// [`FAR`].
fn reduce_far(x: f64) -> (u64, f64) {
    let bits = x.to_bits();
    let fraction = u128::from((bits & 0x000f_ffff_ffff_ffff) | 0x0010_0000_0000_0000);
    // The lowest bit of the fraction is worth two to this power, less 61; at least 38.
    let at = (bits >> 52) + 61 - 1075;
    // At most 16, so that three words follow.
    let (word, shift) = ((at / 64) as usize, at % 64);
    let window = |word: usize| {
        let both = u128::from(FOUR_BY_PI[word]) << 64 | u128::from(FOUR_BY_PI[word + 1]);
        (both << shift) >> 64
    };
    // The product's three highest bits are the octant; what is above them is whole turns.
    let low = (window(word + 2) * fraction) >> 64;
    let high = (window(word) * fraction) << 64;
    let product = high
        .wrapping_add(window(word + 1) * fraction)
        .wrapping_add(low);
    let octant = (product >> 125) as u64;
    // The servers move the upper word alone; it shows where the upper word is small.
    let part = part(((product << 3) & !LOWER_WORD) | (product & LOWER_WORD));
    match octant & 1 {
        0 => (octant, part * FRAC_PI_4),
        _ => ((octant + 1) & 7, (part - 1.0) * FRAC_PI_4),
    }
}

/// `bits` as a number below 1, cut off after 53 bits.
fn part(bits: u128) -> f64 {
    let zeros = bits.leading_zeros();
    // The highest bit is implied.
    let fraction = (bits << zeros << 1) >> 76;
    f64::from_bits((u64::from(1022 - zeros) << 52) | fraction as u64)
}

pub(super) fn atan(x: f64) -> f64 {
    match x {
        0.0 => x,
        _ if x > 0.0 => atan_positive(x),
        _ => -atan_positive(-x),
    }
}

fn atan_positive(x: f64) -> f64 {
    // Half of π is the nearest number and this.
    const REST: f64 = 6.123_233_995_736_766e-17;
    const TAN_3_PI_8: f64 = 2.414_213_562_373_095;
    match x {
        _ if x <= 0.66 => atan_small(x),
        _ if x > TAN_3_PI_8 => FRAC_PI_2 - atan_small(1.0 / x) + REST,
        _ => FRAC_PI_4 + atan_small((x - 1.0) / (x + 1.0)) + 0.5 * REST,
    }
}

/// Of a number of at most 0.66 to either side.
fn atan_small(x: f64) -> f64 {
    const ABOVE: [f64; 5] = [
        -0.875_060_860_003_190_4,
        -16.157_537_187_333_652,
        -75.008_557_923_147_05,
        -122.886_668_449_013_61,
        -64.850_219_049_420_25,
    ];
    const BELOW: [f64; 6] = [
        1.0,
        24.858_464_901_423_062,
        165.027_009_831_698_85,
        432.881_060_491_290_27,
        485.390_399_635_913_7,
        194.550_657_148_261_4,
    ];
    let square = x * x;
    let ratio = square * polynomial(square, &ABOVE) / polynomial(square, &BELOW);
    x * ratio + x
}

pub(super) fn asin(x: f64) -> f64 {
    let size = x.abs();
    if x == 0.0 || size.is_nan() {
        return x;
    }
    if size > 1.0 {
        return f64::NAN;
    }
    let other = (1.0 - size * size).sqrt();
    let angle = match size > 0.7 {
        true => FRAC_PI_2 - atan_positive(other / size),
        false => atan_positive(size / other),
    };
    negated_if(x < 0.0, angle)
}

pub(super) fn acos(x: f64) -> f64 {
    FRAC_PI_2 - asin(x)
}

/// The angle of the point (x, y).
pub(crate) fn atan2(y: f64, x: f64) -> f64 {
    if x == 0.0 || y == 0.0 || !x.is_finite() || !y.is_finite() {
        return y.atan2(x);
    }
    let angle = atan(y / x);
    match x < 0.0 {
        false => angle,
        true if angle <= 0.0 => angle + PI,
        true => angle - PI,
    }
}
