//! Samples as text: the canonical pair `[1435781430.781,"0.1"]` and series of such pairs.
//!
//! A series keeps its float samples as the text that the member sent, checked once; times and
//! values are read from it again when series combine, and most text is copied out unread. Samples
//! in any other form are rewritten into canonical text by the reader. Native histograms keep the
//! text of their object.

use std::cell::Cell;

use crate::number::{exact_quotient, parse_float};

/// One canonical pair, apart from its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) time_ms: i64,
    /// The digits of a plain value, without its point.
    mantissa: u64,
    /// Length of the pair, brackets included.
    pub(crate) length: u32,
    /// Where the value starts in the pair.
    value_at: u8,
    /// How many of the digits are decimals.
    scale: u8,
    shape: Shape,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Digits, at most 17, perhaps with a point.
    Plain,
    /// The same after a minus.
    Negative,
    /// Digits with an exponent, or very many: the standard library reads it.
    Long,
    NotANumber,
    Infinity,
    NegativeInfinity,
}

impl Point {
    /// Returns the value as a double; `pair` is the pair's text.
    #[inline]
    pub(crate) fn number(&self, pair: &[u8]) -> f64 {
        match self.shape {
            Shape::Plain | Shape::Negative => match exact_quotient(self.mantissa, self.scale) {
                Some(magnitude) if self.shape == Shape::Negative => -magnitude,
                Some(magnitude) => magnitude,
                None => self.long_number(pair),
            },
            Shape::Long => self.long_number(pair),
            Shape::NotANumber => f64::NAN,
            Shape::Infinity => f64::INFINITY,
            Shape::NegativeInfinity => f64::NEG_INFINITY,
        }
    }

    fn long_number(&self, pair: &[u8]) -> f64 {
        // Canonical text always parses.
        parse_float(self.value(pair)).unwrap_or(f64::NAN)
    }

    /// Returns the text of the value.
    #[inline]
    pub(crate) fn value<'t>(&self, pair: &'t [u8]) -> &'t [u8] {
        let end = pair.len().saturating_sub(2);
        pair.get(usize::from(self.value_at)..end)
            .unwrap_or_default()
    }

    /// Returns the text of the pair up to the value.
    #[inline]
    pub(crate) fn head<'t>(&self, pair: &'t [u8]) -> &'t [u8] {
        pair.get(..usize::from(self.value_at)).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn is_nan(&self) -> bool {
        self.shape == Shape::NotANumber
    }
}

/// Float samples of one series: canonical pairs joined by commas, in one or more segments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Points<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) more: Option<&'a Segment<'a>>,
}

/// A further piece of a series' samples.
#[derive(Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) next: Cell<Option<&'a Segment<'a>>>,
}

impl Points<'_> {
    /// Returns whether there is no sample.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// One native histogram sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Histogram<'a> {
    pub(crate) time_ms: i64,
    /// The text of the histogram object.
    pub(crate) text: &'a [u8],
}

/// A place in the float samples of a series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointCursor<'a> {
    text: &'a [u8],
    more: Option<&'a Segment<'a>>,
    current: Option<Point>,
}

impl<'a> PointCursor<'a> {
    /// Starts at the first sample.
    pub(crate) fn new(points: Points<'a>) -> Self {
        let current = canonical_pair(points.text);
        Self {
            text: points.text,
            more: points.more,
            current,
        }
    }

    /// Returns the current sample.
    #[inline]
    pub(crate) fn current(&self) -> Option<&Point> {
        self.current.as_ref()
    }

    /// Returns the text of the current pair.
    #[inline]
    pub(crate) fn pair(&self) -> &'a [u8] {
        let length = self
            .current
            .as_ref()
            .map_or(0, |point| point.length as usize);
        self.text.get(..length).unwrap_or_default()
    }

    /// Goes to the next sample.
    #[inline]
    pub(crate) fn advance(&mut self) {
        let Some(point) = &self.current else { return };
        // The comma is skipped too; after the last pair there is none.
        self.text = self
            .text
            .get(point.length as usize + 1..)
            .unwrap_or_default();
        if self.text.is_empty()
            && let Some(segment) = self.more
        {
            self.text = segment.text;
            self.more = segment.next.get();
        }
        self.current = canonical_pair(self.text);
    }
}

/// A pair is read from a window of this many bytes; a canonical one is shorter: at most 20 bytes of
/// time, 33 of value and 6 of punctuation.
const WINDOW: usize = 64;
/// A decimal may have at most this many digits to be taken as written: 15 always are the shortest
/// text of their double, and servers write up to 17.
const DIGITS_MAX: usize = 17;
/// Seconds of up to 15 digits (30 million years) fit in milliseconds.
const SECONDS_DIGITS_MAX: usize = 15;
/// Whole numbers from 10^21 on, 22 digits, are written with an exponent.
const WHOLE_DIGITS_MAX: usize = 21;

/// Reads the pair at the start of `text`, if it is one that Prometheus would write.
#[inline]
pub(crate) fn canonical_pair(text: &[u8]) -> Option<Point> {
    match text.first_chunk::<WINDOW>() {
        Some(window) => read_pair(window),
        None => {
            let mut window = [0u8; WINDOW];
            window[..text.len()].copy_from_slice(text);
            read_pair(&window)
        }
    }
}

#[inline]
fn read_pair(text: &[u8; WINDOW]) -> Option<Point> {
    if text[0] != b'[' {
        return None;
    }
    let (time_ms, at) = read_time(text, 1)?;
    if *text.get(at)? != b',' || *text.get(at + 1)? != b'"' {
        return None;
    }
    let start = at + 2;
    let (value, end) = read_value(text, start)?;
    if *text.get(end + 1)? != b']' {
        return None;
    }
    Some(Point {
        time_ms,
        mantissa: value.mantissa,
        // Both are within the window.
        length: end as u32 + 2,
        value_at: start as u8,
        scale: value.scale,
        shape: value.shape,
    })
}

/// A value, read.
#[derive(Debug, Clone, Copy)]
struct Value {
    mantissa: u64,
    scale: u8,
    shape: Shape,
}

impl Value {
    fn of(shape: Shape) -> Self {
        Self {
            mantissa: 0,
            scale: 0,
            shape,
        }
    }
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
fn read_digits(text: &[u8; WINDOW], start: usize) -> (u64, usize) {
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
fn eight_digits(digits: u64) -> u64 {
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff
}

/// Reads a time in seconds with no or three decimals. Returns milliseconds and the place after it.
#[inline]
fn read_time(text: &[u8; WINDOW], start: usize) -> Option<(i64, usize)> {
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

/// Reads a value up to its closing quote. Returns the number and the quote's place.
#[inline]
fn read_value(text: &[u8; WINDOW], start: usize) -> Option<(Value, usize)> {
    let is_negative = *text.get(start)? == b'-';
    let shape = if is_negative {
        Shape::Negative
    } else {
        Shape::Plain
    };
    let first = start + usize::from(is_negative);
    let (mantissa, at) = read_digits(text, first);
    let whole = at - first;
    let is_whole_part = whole > 0 && (text[first] != b'0' || whole == 1);
    match *text.get(at)? {
        b'"' if is_whole_part && whole <= DIGITS_MAX => Some((
            Value {
                mantissa,
                scale: 0,
                shape,
            },
            at,
        )),
        b'"' if is_whole_part => read_large(text, first, at),
        b'.' if is_whole_part => read_fraction(
            text,
            first,
            at,
            Value {
                mantissa,
                scale: 0,
                shape,
            },
        ),
        b'e' if whole == 1 => read_exponent(text, first, at),
        b'N' | b'+' | b'I' => special(text, start),
        _ => None,
    }
}

/// Reads a whole number of 18 to 21 digits, of which all but the first 17 are 0.
#[cold]
fn read_large(text: &[u8; WINDOW], first: usize, end: usize) -> Option<(Value, usize)> {
    let zeros = text.get(first + DIGITS_MAX..end)?;
    if end - first > WHOLE_DIGITS_MAX || zeros.iter().any(|byte| *byte != b'0') {
        return None;
    }
    Some((Value::of(Shape::Long), end))
}

/// Reads the decimals after the point at `point`.
#[inline]
fn read_fraction(
    text: &[u8; WINDOW],
    first: usize,
    point: usize,
    whole: Value,
) -> Option<(Value, usize)> {
    let (decimals, end) = read_digits(text, point + 1);
    let scale = end - point - 1;
    let last = *text.get(end)?;
    if last == b'e' && point == first + 1 {
        return read_exponent(text, first, end);
    }
    if last != b'"' || scale == 0 || text[end - 1] == b'0' {
        return None;
    }
    if text[first] == b'0' {
        return read_below_one(text, point, end, whole.shape);
    }
    if scale + (point - first) > DIGITS_MAX {
        return None;
    }
    // At most 17 digits: no overflow.
    let (high, low) = (scale.saturating_sub(8), scale.min(8));
    let power = POWERS.get(high)? * POWERS[low];
    let mantissa = whole.mantissa * power + decimals;
    Some((
        Value {
            mantissa,
            scale: scale as u8,
            ..whole
        },
        end,
    ))
}

/// Reads a number below one: zeros right after its point do not count as digits, and six of them
/// call for an exponent.
#[inline]
fn read_below_one(
    text: &[u8; WINDOW],
    point: usize,
    end: usize,
    shape: Shape,
) -> Option<(Value, usize)> {
    let (scale, mut start) = (end - point - 1, point + 1);
    while text[start] == b'0' {
        start += 1;
    }
    if start - point > 6 || end - start > DIGITS_MAX {
        return None;
    }
    let (mantissa, _) = read_digits(text, start);
    Some((
        Value {
            mantissa,
            scale: scale as u8,
            shape,
        },
        end,
    ))
}

/// Reads `e+21` and the like after a mantissa of one whole digit.
#[cold]
fn read_exponent(text: &[u8; WINDOW], first: usize, at: usize) -> Option<(Value, usize)> {
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
    (*text.get(end)? == b'"').then_some((Value::of(Shape::Long), end))
}

#[cold]
fn special(text: &[u8; WINDOW], start: usize) -> Option<(Value, usize)> {
    match text.get(start..)? {
        [b'N', b'a', b'N', b'"', ..] => Some((Value::of(Shape::NotANumber), start + 3)),
        [b'+', b'I', b'n', b'f', b'"', ..] => Some((Value::of(Shape::Infinity), start + 4)),
        [b'-', b'I', b'n', b'f', b'"', ..] => Some((Value::of(Shape::NegativeInfinity), start + 4)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
