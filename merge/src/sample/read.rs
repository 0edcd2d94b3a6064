//! Reads a pair in full: whether it is one that Prometheus would write, in any of its forms.

use super::{Number, Point, Shape, Window, padded};

/// A decimal may have at most this many digits to be taken as written: 15 always are the shortest
/// text of their double, and servers write up to 17.
pub(super) const DIGITS_MAX: usize = 17;
/// Seconds of up to 15 digits (30 million years) fit in milliseconds.
const SECONDS_DIGITS_MAX: usize = 15;
/// Whole numbers from 10^21 on, 22 digits, are written with an exponent.
const WHOLE_DIGITS_MAX: usize = 21;

/// Reads the pair at the start of `text`, if it is one that Prometheus would write. Returns its time
/// in milliseconds and its parts.
#[inline]
pub(crate) fn canonical_pair(text: &[u8]) -> Option<(i64, Point)> {
    match text.first_chunk() {
        Some(window) => read_pair(window),
        None => read_pair(&padded(text)),
    }
}

/// Returns the time of a canonical pair in milliseconds.
#[inline]
pub(super) fn time_of(text: &[u8]) -> i64 {
    let time = match text.first_chunk() {
        Some(window) => read_time(window, 1),
        None => read_time(&padded(text), 1),
    };
    time.map_or(0, |(time_ms, _)| time_ms)
}

fn read_pair(text: &Window) -> Option<(i64, Point)> {
    if text[0] != b'[' {
        return None;
    }
    let (time_ms, at) = read_time(text, 1)?;
    if *text.get(at)? != b',' || *text.get(at + 1)? != b'"' {
        return None;
    }
    let start = at + 2;
    let (number, end) = read_value(text, start)?;
    if *text.get(end + 1)? != b']' {
        return None;
    }
    let point = Point {
        // Both are within the window.
        length: end as u8 + 2,
        value_at: start as u8,
        number,
    };
    Some((time_ms, point))
}

const POWERS: [u64; 9] = [
    1,
    10,
    100,
    1000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// Reads a run of digits, eight bytes at a time. Returns its value (wrapped beyond 19 digits) and
/// the place after it.
#[inline]
fn read_digits(text: &Window, start: usize) -> (u64, usize) {
    let (mut value, mut at) = (0u64, start);
    while let Some(eight) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        // A digit becomes 0 to 9; anything else has its top bit set, or gets it by adding 0x76.
        let digits = u64::from_le_bytes(*eight) ^ 0x3030_3030_3030_3030;
        let others = (digits | digits.wrapping_add(0x7676_7676_7676_7676)) & 0x8080_8080_8080_8080;
        let count = others.trailing_zeros() as usize / 8;
        if count > 0 {
            // Bytes after the run are shifted out, zeros come in before it.
            let run = eight_digits(digits << (64 - 8 * count));
            value = value.wrapping_mul(POWERS[count]).wrapping_add(run);
        }
        at += count;
        if count < 8 {
            break;
        }
    }
    (value, at)
}

/// Joins eight digits, the first in the lowest byte: pairs, then fours, then all.
#[inline]
pub(super) fn eight_digits(digits: u64) -> u64 {
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff
}

/// Reads a time in seconds with no or three decimals. Returns milliseconds and the place after it.
#[inline]
fn read_time(text: &Window, start: usize) -> Option<(i64, usize)> {
    let is_negative = *text.get(start)? == b'-';
    let first = start + usize::from(is_negative);
    let (seconds, at) = read_digits(text, first);
    let count = at - first;
    if count == 0 || count > SECONDS_DIGITS_MAX || (text[first] == b'0' && count > 1) {
        return None;
    }
    let (mut time_ms, mut end) = (i64::try_from(seconds).ok()? * 1000, at);
    if *text.get(at)? == b'.' {
        let (fraction, after) = read_digits(text, at + 1);
        if after != at + 4 || fraction == 0 {
            return None;
        }
        time_ms += i64::try_from(fraction).ok()?;
        end = after;
    }
    Some((if is_negative { -time_ms } else { time_ms }, end))
}

/// Reads a value up to its closing quote. Returns it and the quote's place.
fn read_value(text: &Window, start: usize) -> Option<(Number, usize)> {
    let is_negative = *text.get(start)? == b'-';
    let shape = if is_negative {
        Shape::Negative
    } else {
        Shape::Plain
    };
    let first = start + usize::from(is_negative);
    let (_, at) = read_digits(text, first);
    let whole = at - first;
    let is_whole_part = whole > 0 && (text[first] != b'0' || whole == 1);
    match *text.get(at)? {
        b'"' if is_whole_part && whole <= DIGITS_MAX => {
            Some((plain(shape, first, whole, whole, 0), at))
        }
        b'"' if is_whole_part => read_large(text, first, at),
        b'.' if is_whole_part => read_fraction(text, first, at, shape),
        b'e' if whole == 1 => read_exponent(text, first, at),
        b'N' | b'+' | b'I' => special(text, start),
        _ => None,
    }
}

/// A value of `count` digits from `at` on, `whole` of them before a point among them.
fn plain(shape: Shape, at: usize, count: usize, whole: usize, scale: usize) -> Number {
    // All are within the window.
    Number {
        shape,
        digits_at: at as u8,
        count: count as u8,
        whole: whole as u8,
        scale: scale as u8,
    }
}

/// Reads a whole number of 18 to 21 digits, of which all but the first 17 are 0.
fn read_large(text: &Window, first: usize, end: usize) -> Option<(Number, usize)> {
    let zeros = text.get(first + DIGITS_MAX..end)?;
    if end - first > WHOLE_DIGITS_MAX || zeros.iter().any(|byte| *byte != b'0') {
        return None;
    }
    Some((Number::of(Shape::Long), end))
}

/// Reads the decimals after the point at `point`.
fn read_fraction(
    text: &Window,
    first: usize,
    point: usize,
    shape: Shape,
) -> Option<(Number, usize)> {
    let (_, end) = read_digits(text, point + 1);
    let (whole, scale) = (point - first, end - point - 1);
    let last = *text.get(end)?;
    if last == b'e' && whole == 1 {
        return read_exponent(text, first, end);
    }
    if last != b'"' || scale == 0 || text[end - 1] == b'0' {
        return None;
    }
    if text[first] == b'0' {
        return read_below_one(text, point, end, shape);
    }
    if whole + scale > DIGITS_MAX {
        return None;
    }
    Some((plain(shape, first, whole + scale, whole, scale), end))
}

/// Reads a number below one: zeros right after its point do not count as digits, and six of them
/// call for an exponent.
fn read_below_one(
    text: &Window,
    point: usize,
    end: usize,
    shape: Shape,
) -> Option<(Number, usize)> {
    let (scale, mut start) = (end - point - 1, point + 1);
    while text[start] == b'0' {
        start += 1;
    }
    let count = end - start;
    if start - point > 6 || count > DIGITS_MAX {
        return None;
    }
    Some((plain(shape, start, count, count, scale), end))
}

/// Reads `e+21` and the like after a mantissa of one whole digit.
fn read_exponent(text: &Window, first: usize, at: usize) -> Option<(Number, usize)> {
    let is_small = *text.get(at + 1)? == b'-';
    if !is_small && *text.get(at + 1)? != b'+' {
        return None;
    }
    let (exponent, end) = read_digits(text, at + 2);
    let width = end - at - 2;
    let is_written_so = width == 2 || (width == 3 && exponent >= 100);
    let is_needed = if is_small {
        exponent >= 7
    } else {
        exponent >= 21
    };
    let ends_well = at == first + 1 || text[at - 1] != b'0';
    let is_short = at - first <= DIGITS_MAX + 1;
    if text[first] == b'0' || !is_written_so || !is_needed || !ends_well || !is_short {
        return None;
    }
    (*text.get(end)? == b'"').then_some((Number::of(Shape::Long), end))
}

fn special(text: &Window, start: usize) -> Option<(Number, usize)> {
    match text.get(start..)? {
        [b'N', b'a', b'N', b'"', ..] => Some((Number::of(Shape::NotANumber), start + 3)),
        [b'+', b'I', b'n', b'f', b'"', ..] => Some((Number::of(Shape::Infinity), start + 4)),
        [b'-', b'I', b'n', b'f', b'"', ..] => {
            Some((Number::of(Shape::NegativeInfinity), start + 4))
        }
        _ => None,
    }
}
