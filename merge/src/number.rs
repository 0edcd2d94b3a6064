//! Numbers and times as Prometheus writes them: reading the canonical text, writing it.
//!
//! Contract: shortest text that reads back as the same double; exponent form below 1e-6 and from
//! 1e21, as Go's `strconv` writes it; times in seconds with no or exactly three decimals.

/// Powers of ten that a double holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Powers of five, as many.
const FIVES: [u64; EXACT_POWERS.len()] = {
    let mut fives = [1; EXACT_POWERS.len()];
    let mut at = 1;
    while at < fives.len() {
        fives[at] = 5 * fives[at - 1];
        at += 1;
    }
    fives
};

/// Returns the double nearest to `mantissa / 10^scale`, of at most 17 digits, or `None` where that is
/// not easily told.
#[inline]
pub(crate) fn quotient(mantissa: u64, scale: u8) -> Option<f64> {
    let power = EXACT_POWERS.get(usize::from(scale))?;
    let near = mantissa as f64 / power;
    // Both are exact doubles, or there is no division: it is rounded once.
    if mantissa <= 1 << 53 || scale == 0 {
        return Some(near);
    }
    settle(mantissa, scale, near)
}

/// Settles which double is nearest to `mantissa / 10^scale`, given one that was rounded twice.
fn settle(mantissa: u64, scale: u8, near: f64) -> Option<f64> {
    const MANTISSA_MAX: u64 = 100_000_000_000_000_000;
    if mantissa >= MANTISSA_MAX {
        return None;
    }
    // `near` is `significand * 2^exponent`; all is multiplied by `5^scale * 2^(5 - exponent)`, so that
    // even half a unit of its last place is a whole number: `half`.
    let half = FIVES.get(usize::from(scale))? << 4;
    let bits = near.to_bits();
    let significand = (bits & ((1 << 52) - 1)) | 1 << 52;
    let shift = 1080 - u32::from(scale) - (bits >> 52) as u32;
    // Two products that are less than four halves apart: the lower 64 bits tell their difference.
    let exact = mantissa.checked_shl(shift).unwrap_or(0);
    let off = exact.wrapping_sub((2 * significand).wrapping_mul(half)) as i64;
    // Beside a power of two the places differ in size; half-way cases are rare.
    let is_inner = significand > (1 << 52) + 1 && significand < (1 << 53) - 1;
    let is_told = is_inner && off.unsigned_abs() != half;
    // Which way it is off is anybody's guess: that is told without a branch.
    let half = half as i64;
    let step = i64::from(off > half) - i64::from(off < -half);
    is_told.then(|| f64::from_bits(bits.wrapping_add_signed(step)))
}

/// Reads any number that Prometheus, or a server like it, may write inside quotes.
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    match text {
        b"NaN" => Some(f64::NAN),
        b"+Inf" | b"Inf" => Some(f64::INFINITY),
        b"-Inf" => Some(f64::NEG_INFINITY),
        _ => {
            // The standard parser also takes words such as `infinity`.
            let is_plain = text
                .iter()
                .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
            let text = std::str::from_utf8(text).ok()?;
            if is_plain { text.parse().ok() } else { None }
        }
    }
}

/// Appends a time in milliseconds.
pub(crate) fn write_time(out: &mut Vec<u8>, time_ms: i64) {
    if time_ms < 0 {
        out.push(b'-');
    }
    let magnitude = time_ms.unsigned_abs();
    write_integer(out, magnitude / 1000);
    let fraction = magnitude % 1000;
    if fraction != 0 {
        let digit = |value: u64| b'0' + u8::try_from(value % 10).unwrap_or(0);
        out.extend_from_slice(&[
            b'.',
            digit(fraction / 100),
            digit(fraction / 10),
            digit(fraction),
        ]);
    }
}

/// Appends an integer in decimal.
pub(crate) fn write_integer(out: &mut Vec<u8>, mut value: u64) {
    // 20 digits hold the largest u64.
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a double.
pub(crate) fn write_float(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.extend_from_slice(if value > 0.0 { b"+Inf" } else { b"-Inf" });
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let magnitude = value.abs();
    // Up to 2^53 every whole double is an exact integer and its digits are the shortest text.
    if magnitude <= 9_007_199_254_740_992.0 && magnitude.fract() == 0.0 {
        return write_integer(out, magnitude as u64);
    }
    let mut buffer = zmij::Buffer::new();
    // Well within the range that it writes without an exponent, zmij's text is ours.
    if (1e-4..1e15).contains(&magnitude) {
        return out.extend_from_slice(buffer.format_finite(magnitude).as_bytes());
    }
    let (digits, count, exponent) = take_apart(buffer.format_finite(magnitude));
    let digits = &digits[..count];
    if (1e-6..1e21).contains(&magnitude) {
        write_plain(out, digits, exponent);
    } else {
        write_exponent(out, digits, exponent);
    }
}

/// Takes the shortest digits out of any notation. Returns the digits without leading or trailing
/// zeros, their count, and the exponent `e` of `0.d1d2… × 10^e`.
fn take_apart(text: &str) -> ([u8; 24], usize, i32) {
    let (mut digits, mut count, mut exponent) = ([0u8; 24], 0, 0i32);
    let (mut seen_point, mut power) = (false, 0i32);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'.' => seen_point = true,
            b'e' | b'E' => {
                power = text
                    .get(at + 1..)
                    .and_then(|tail| tail.parse().ok())
                    .unwrap_or(0);
                break;
            }
            b'0' if count == 0 => exponent -= i32::from(seen_point),
            digit => {
                if count < digits.len() {
                    digits[count] = digit;
                    count += 1;
                }
                exponent += i32::from(!seen_point);
            }
        }
    }
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
    }
    (digits, count, exponent + power)
}

fn write_plain(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    match usize::try_from(exponent) {
        Ok(whole) if whole > 0 => {
            let split = whole.min(digits.len());
            out.extend_from_slice(&digits[..split]);
            out.extend(std::iter::repeat_n(b'0', whole - split));
            if split < digits.len() {
                out.push(b'.');
                out.extend_from_slice(&digits[split..]);
            }
        }
        _ => {
            out.extend_from_slice(b"0.");
            let zeros = usize::try_from(-exponent).unwrap_or(0);
            out.extend(std::iter::repeat_n(b'0', zeros));
            out.extend_from_slice(digits);
        }
    }
}

fn write_exponent(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    let exponent = exponent - 1;
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.abs() < 10 {
        out.push(b'0');
    }
    write_integer(out, u64::from(exponent.unsigned_abs()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        write_float(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_are_written_as_prometheus_does() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e-6, "0.000001"),
            (1.25e-6, "0.00000125"),
            (9.99e-7, "9.99e-07"),
            (-1e-7, "-1e-07"),
            (1e20, "100000000000000000000"),
            (1.5e20, "150000000000000000000"),
            (1e21, "1e+21"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (9007199254740991.0, "9007199254740991"),
            (9007199254740994.0, "9007199254740994"),
            (123456789.125, "123456789.125"),
            (1e-4, "0.0001"),
            (0.00009999999999999999, "0.00009999999999999999"),
            (0.00012345678901234567, "0.00012345678901234567"),
            (999999999999999.9, "999999999999999.9"),
            (1000000000000000.1, "1000000000000000.1"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(value), expected);
            let back = parse_float(expected.as_bytes()).unwrap();
            assert!(
                back.to_bits() == value.to_bits() || value.is_nan(),
                "{expected}"
            );
        }
    }

    #[test]
    fn any_double_reads_back_the_same() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let value = f64::from_bits(state);
            if value.is_finite() {
                let written = text(value);
                assert_eq!(
                    written.parse::<f64>().unwrap().to_bits(),
                    value.to_bits(),
                    "{written}"
                );
            }
        }
    }

    /// Texts of 17 digits, around halves of the last place among them, are the nearest doubles.
    #[test]
    fn quotients_are_nearest() {
        let mut state = 0x0123_4567_89ab_cdefu64;
        let mut told = 0;
        for round in 0..200_000u64 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let (mut mantissa, scale) = (state % 100_000_000_000_000_000, (round % 23) as u8);
            if round % 3 == 0 {
                // A double's own digits, cut or changed in the last.
                let value = f64::from_bits((1023 << 52) | state >> 12);
                let digits = format!("{value:.16}").replace('.', "");
                mantissa = digits.parse::<u64>().unwrap() + state % 3;
            }
            let Some(found) = quotient(mantissa, scale) else {
                continue;
            };
            told += 1;
            let expected: f64 = format!("{mantissa}e-{scale}").parse().unwrap();
            assert_eq!(found.to_bits(), expected.to_bits(), "{mantissa}e-{scale}");
        }
        assert!(told > 150_000, "{told}");
    }

    #[test]
    fn times_have_no_or_three_decimals() {
        for (time, expected) in [
            (0, "0"),
            (1_435_781_430_781, "1435781430.781"),
            (1500, "1.500"),
            (7, "0.007"),
            (-1001, "-1.001"),
        ] {
            let mut out = Vec::new();
            write_time(&mut out, time);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn words_and_other_notations() {
        for bad in [
            "", "inf", "infinity", "nan", "0x10", "1_000", "1,5", "--1", "1e", "é",
        ] {
            assert_eq!(parse_float(bad.as_bytes()), None, "{bad}");
        }
        for (good, value) in [
            ("1e+06", 1e6),
            ("1.50", 1.5),
            ("Inf", f64::INFINITY),
            ("+1", 1.0),
        ] {
            assert_eq!(parse_float(good.as_bytes()), Some(value), "{good}");
        }
    }
}
