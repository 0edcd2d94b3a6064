//! Samples as text: the canonical pair `[1435781430.781,"0.1"]` and series of such pairs.
//!
//! A series keeps its float samples as the text that the member sent, checked once; times and
//! values are read from it again when series combine, and most text is copied out unread. Samples
//! in any other form are rewritten into canonical text by the reader. Native histograms keep the
//! text of their object.

mod form;
mod read;

use std::cell::Cell;

use crate::number::{parse_float, quotient};
pub(crate) use form::{Form, Plain};
pub(crate) use read::canonical_pair;

/// Pairs are read from a window of this many bytes; a canonical one is shorter: at most 20 bytes of
/// time, 33 of value and 6 of punctuation.
const WINDOW: usize = 64;

type Window = [u8; WINDOW];

/// A text that is shorter than a window, with zeros after it.
#[cold]
fn padded(text: &[u8]) -> Window {
    let mut window = [0; WINDOW];
    window[..text.len()].copy_from_slice(text);
    window
}

/// Where the parts of a canonical pair are, apart from its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    /// Length of the pair, brackets included.
    length: u8,
    /// Where the value starts in the pair.
    value_at: u8,
    number: Number,
}

impl Point {
    /// Returns the length of the pair, brackets included.
    #[inline]
    pub(crate) fn length(&self) -> usize {
        usize::from(self.length)
    }
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    shape: Shape,
    /// Where the digits start in the pair; those before the point are left out where they are 0,
    /// and so are zeros after it then.
    digits_at: u8,
    /// How many digits there are, at most 17.
    count: u8,
    /// How many of them come before the point: all where it comes before or after all.
    whole: u8,
    /// How many decimals the value has, zeros before the digits included.
    scale: u8,
}

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

impl Number {
    /// A value whose digits are of no interest.
    fn of(shape: Shape) -> Self {
        Self {
            shape,
            digits_at: 0,
            count: 0,
            whole: 0,
            scale: 0,
        }
    }
}

/// A sample with its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample<'a> {
    /// The pair and what comes after it.
    text: &'a [u8],
    point: Point,
}

impl<'a> Sample<'a> {
    /// Returns the text of the pair.
    #[inline]
    pub(crate) fn pair(&self) -> &'a [u8] {
        self.text.get(..self.point.length()).unwrap_or_default()
    }

    /// Returns the text of the pair up to the value.
    #[inline]
    pub(crate) fn head(&self) -> &'a [u8] {
        let end = usize::from(self.point.value_at);
        self.text.get(..end).unwrap_or_default()
    }

    /// Returns the text of the value.
    #[inline]
    pub(crate) fn value(&self) -> &'a [u8] {
        let end = self.point.length().saturating_sub(2);
        let start = usize::from(self.point.value_at);
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns the time in milliseconds.
    #[inline]
    pub(crate) fn time_ms(&self) -> i64 {
        read::time_of(self.text)
    }

    /// Returns the value as a double.
    #[inline]
    pub(crate) fn number(&self) -> f64 {
        let Number { shape, scale, .. } = self.point.number;
        match shape {
            Shape::Plain | Shape::Negative => match quotient(self.mantissa(), scale) {
                Some(magnitude) if shape == Shape::Negative => -magnitude,
                Some(magnitude) => magnitude,
                None => self.long_number(),
            },
            Shape::Long => self.long_number(),
            Shape::NotANumber => f64::NAN,
            Shape::Infinity => f64::INFINITY,
            Shape::NegativeInfinity => f64::NEG_INFINITY,
        }
    }

    #[cold]
    fn long_number(&self) -> f64 {
        // Canonical text always parses.
        parse_float(self.value()).unwrap_or(f64::NAN)
    }

    /// Returns the digits of a plain value, without its point.
    #[inline]
    fn mantissa(&self) -> u64 {
        let short;
        let window = match self.text.first_chunk() {
            Some(window) => window,
            None => {
                short = padded(self.text);
                &short
            }
        };
        form::mantissa(window, &self.point.number)
    }

    #[inline]
    pub(crate) fn is_nan(&self) -> bool {
        self.point.number.shape == Shape::NotANumber
    }

    /// Whether two values are different numbers; NaN is as good as NaN.
    #[inline]
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        if self.value() == other.value() {
            return false;
        }
        let (own, others) = (&self.point.number, &other.point.number);
        let is_comparable = matches!(own.shape, Shape::Plain | Shape::Negative)
            && (own.shape, own.scale) == (others.shape, others.scale);
        // Decimals of up to 17 digits that are the same double are less than 32 units apart.
        if is_comparable && self.mantissa().abs_diff(other.mantissa()) > 32 {
            return true;
        }
        let (left, right) = (self.number(), other.number());
        left != right && !(left.is_nan() && right.is_nan())
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
    /// The current pair and what comes after it in its segment.
    text: &'a [u8],
    more: Option<&'a Segment<'a>>,
    /// That of the current pair.
    form: Form,
    current: Option<Point>,
}

impl<'a> PointCursor<'a> {
    /// Starts at the first sample.
    pub(crate) fn new(points: Points<'a>) -> Self {
        let mut cursor = Self {
            text: points.text,
            more: points.more,
            form: Form::default(),
            current: None,
        };
        cursor.read_in_full();
        cursor
    }

    /// Returns the current sample.
    #[inline]
    pub(crate) fn current(&self) -> Option<Sample<'a>> {
        let point = self.current?;
        Some(Sample {
            text: self.text,
            point,
        })
    }

    /// Returns the text of the current pair's time, as a number, or 0 where that is too long or
    /// there is no sample. Two cursors with the same one, other than 0, are at the same time.
    #[inline]
    pub(crate) fn time_text(&self) -> u128 {
        match self.current {
            Some(_) => self.form.head(),
            None => 0,
        }
    }

    /// Returns the form of the current pair.
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Returns the current pair and what comes after it in its segment.
    pub(crate) fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Goes to the next sample.
    #[inline]
    pub(crate) fn advance(&mut self) {
        let Some(point) = self.current else { return };
        // The comma is skipped too; after the last pair there is none.
        self.go_to(self.text.get(point.length() + 1..).unwrap_or_default());
    }

    /// Goes to the pair that begins `text`, which is what is left of the segment after some pair.
    #[inline]
    pub(crate) fn go_to(&mut self, text: &'a [u8]) {
        self.text = text;
        if self.text.is_empty() {
            match self.more {
                Some(segment) => {
                    self.text = segment.text;
                    self.more = segment.next.get();
                }
                None => return self.current = None,
            }
        }
        self.current = self.form.next(self.text);
        if self.current.is_none() {
            self.read_in_full();
        }
    }

    #[cold]
    fn read_in_full(&mut self) {
        self.current = canonical_pair(self.text).map(|(_, point)| point);
        self.form = match &self.current {
            Some(point) => Form::of(self.text, point),
            None => Form::default(),
        };
    }
}

#[cfg(test)]
mod tests;
