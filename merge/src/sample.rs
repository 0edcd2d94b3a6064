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

/// A decimal may have at most this many digits to be taken as written: 15 always are the shortest
/// text of their double, and servers write up to 17.
const DIGITS_MAX: usize = 17;
/// A mantissa from here on has all of its 17 digits.
const MANTISSA_FULL: u64 = 10_000_000_000_000_000;
/// Longest plain value: `0.00000`, then 17 digits, with room to spare.
const LENGTH_MAX: usize = 32;

/// Reads the pair at the start of `text`, if it is one that Prometheus would write.
#[inline]
pub(crate) fn canonical_pair(text: &[u8]) -> Option<Point> {
    if *text.first()? != b'[' {
        return None;
    }
    let (time_ms, at) = canonical_time(text, 1)?;
    if *text.get(at)? != b',' || *text.get(at + 1)? != b'"' {
        return None;
    }
    let start = at + 2;
    let (value, end) = canonical_value(text, start)?;
    if *text.get(end + 1)? != b']' {
        return None;
    }
    Some(Point {
        time_ms,
        mantissa: value.mantissa,
        // Times and values are bounded in length.
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

/// Reads a time in seconds with no or three decimals. Returns milliseconds and the place after it.
#[inline]
pub(crate) fn canonical_time(text: &[u8], start: usize) -> Option<(i64, usize)> {
    let is_negative = *text.get(start)? == b'-';
    let first = start + usize::from(is_negative);
    let (mut seconds, mut at) = (0i64, first);
    if let Some(eight) = text.get(first..first + 8)
        && let Some(value) = eight_digits(eight)
    {
        seconds = value;
        at += 8;
    }
    while let Some(digit) = digit_at(text, at) {
        // 15 digits of seconds are 30 million years and fit in milliseconds.
        if at - first >= 15 {
            return None;
        }
        seconds = seconds * 10 + i64::from(digit);
        at += 1;
    }
    if at == first || (text[first] == b'0' && at > first + 1) {
        return None;
    }
    let mut time_ms = seconds * 1000;
    if text.get(at) == Some(&b'.') {
        let fraction = i64::from(digit_at(text, at + 1)?) * 100
            + i64::from(digit_at(text, at + 2)?) * 10
            + i64::from(digit_at(text, at + 3)?);
        if fraction == 0 {
            return None;
        }
        time_ms += fraction;
        at += 4;
    }
    Some((if is_negative { -time_ms } else { time_ms }, at))
}

#[inline]
fn digit_at(text: &[u8], at: usize) -> Option<u8> {
    let digit = text.get(at)?.wrapping_sub(b'0');
    (digit < 10).then_some(digit)
}

/// Reads eight digits at once: pairs, then fours, then all are joined by multiplication.
#[inline]
fn eight_digits(text: &[u8]) -> Option<i64> {
    let word = u64::from_le_bytes(text.try_into().ok()?);
    // The digits are 0x30 to 0x39: the high half is 3, and still is after adding 6.
    let high = word & 0xf0f0_f0f0_f0f0_f0f0;
    let raised = word.wrapping_add(0x0606_0606_0606_0606) & 0xf0f0_f0f0_f0f0_f0f0;
    if (high | (raised >> 4)) != 0x3333_3333_3333_3333 {
        return None;
    }
    let digits = word & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let all = (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff;
    i64::try_from(all).ok()
}

/// Reads a value up to its closing quote. Returns the number and the quote's place.
#[inline]
fn canonical_value(text: &[u8], start: usize) -> Option<(Value, usize)> {
    let is_negative = *text.get(start)? == b'-';
    let shape = if is_negative {
        Shape::Negative
    } else {
        Shape::Plain
    };
    let first = start + usize::from(is_negative);
    let (mut mantissa, mut at) = (0u64, first);
    while let Some(digit) = digit_at(text, at) {
        if at - first >= DIGITS_MAX {
            return canonical_large(text, first, at);
        }
        mantissa = mantissa * 10 + u64::from(digit);
        at += 1;
    }
    let whole = at - first;
    let is_whole_part = whole > 0 && (text[first] != b'0' || whole == 1);
    match *text.get(at)? {
        b'"' if is_whole_part => Some((
            Value {
                mantissa,
                scale: 0,
                shape,
            },
            at,
        )),
        b'.' if is_whole_part => canonical_fraction(
            text,
            first,
            at,
            Value {
                mantissa,
                scale: 0,
                shape,
            },
        ),
        b'e' if whole == 1 => canonical_exponent(text, first, at),
        b'N' | b'+' | b'I' => special(text, start),
        _ => None,
    }
}

/// Reads a whole number of 18 to 21 digits, of which all but the first 17 are 0.
#[cold]
fn canonical_large(text: &[u8], first: usize, mut at: usize) -> Option<(Value, usize)> {
    while *text.get(at)? == b'0' {
        at += 1;
    }
    // From 10^21 on numbers are written with an exponent.
    if text[at] != b'"' || at - first > 21 || text[first] == b'0' {
        return None;
    }
    Some((Value::of(Shape::Long), at))
}

/// Reads the decimals after the point at `point`.
#[inline]
fn canonical_fraction(
    text: &[u8],
    first: usize,
    point: usize,
    value: Value,
) -> Option<(Value, usize)> {
    let (mut mantissa, mut at) = (value.mantissa, point + 1);
    if mantissa < 1_000_000_000
        && let Some(eight) = text.get(at..at + 8)
        && let Some(digits) = eight_digits(eight)
    {
        mantissa = mantissa * 100_000_000 + digits.unsigned_abs();
        at += 8;
    }
    while let Some(digit) = digit_at(text, at) {
        // Zeros right after the point of a number below one do not count as digits.
        if mantissa >= MANTISSA_FULL || at - first > LENGTH_MAX {
            return None;
        }
        mantissa = mantissa * 10 + u64::from(digit);
        at += 1;
    }
    let end = *text.get(at)?;
    if end == b'e' && point == first + 1 {
        return canonical_exponent(text, first, at);
    }
    let decimals = at - point - 1;
    let is_tiny = text[first] == b'0' && text.get(point + 1..point + 7) == Some(b"000000");
    if end != b'"' || decimals == 0 || text[at - 1] == b'0' || is_tiny {
        return None;
    }
    let scale = u8::try_from(decimals).ok()?;
    Some((
        Value {
            mantissa,
            scale,
            ..value
        },
        at,
    ))
}

/// Reads `e+21` and the like after a mantissa of one whole digit.
#[cold]
fn canonical_exponent(text: &[u8], first: usize, at: usize) -> Option<(Value, usize)> {
    let is_small = *text.get(at + 1)? == b'-';
    if !is_small && *text.get(at + 1)? != b'+' {
        return None;
    }
    let (mut exponent, mut end) = (0u32, at + 2);
    while let Some(digit) = digit_at(text, end) {
        if end - at > 4 {
            return None;
        }
        exponent = exponent * 10 + u32::from(digit);
        end += 1;
    }
    let width = end - at - 2;
    let is_written_so = width == 2 || (width == 3 && exponent >= 100);
    let is_needed = if is_small {
        exponent >= 7
    } else {
        exponent >= 21
    };
    let ends_well = at == first + 1 || text[at - 1] != b'0';
    if text[first] == b'0' || !is_written_so || !is_needed || !ends_well {
        return None;
    }
    (*text.get(end)? == b'"').then_some((Value::of(Shape::Long), end))
}

#[cold]
fn special(text: &[u8], start: usize) -> Option<(Value, usize)> {
    match text.get(start..)? {
        [b'N', b'a', b'N', b'"', ..] => Some((Value::of(Shape::NotANumber), start + 3)),
        [b'+', b'I', b'n', b'f', b'"', ..] => Some((Value::of(Shape::Infinity), start + 4)),
        [b'-', b'I', b'n', b'f', b'"', ..] => Some((Value::of(Shape::NegativeInfinity), start + 4)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
