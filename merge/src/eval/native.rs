//! Native histograms as numbers: reading, adding, scaling, asking.
//!
//! Owns what the API shows of a histogram: count, sum and the buckets that are not empty. The
//! resolution (schema) is inferred from the buckets' bounds; what the API hides (empty buckets,
//! hints of counter resets, the threshold of an empty zero bucket) is taken as unknown, and yields
//! to what the other operand knows. Called by aggregations, operators and functions.
//!
//! Bounds: a sample's text is at most [`crate::limits::SAMPLE_BYTES_MAX`] long, so no call here
//! works on more than some thousand buckets; [`Histogram::units`] says what one costs.

mod arithmetic;
mod layout;
mod parse;
mod quantile;
mod reset;
mod spread;
#[cfg(test)]
mod tests;

use bumpalo::Bump;

use super::error::Outcome;
use crate::number::write_float;
pub(crate) use arithmetic::Accumulator;

/// The resolution that is assumed where no bucket shows it: the finest, which yields to any other.
const SCHEMA_MAX: i32 = 8;
/// The coarsest resolution.
const SCHEMA_MIN: i32 = -4;

/// A native histogram sample with float counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Histogram<'a> {
    /// The object as a server wrote it, where it is unchanged.
    text: Option<&'a [u8]>,
    head: Head,
    /// Buckets above zero in rising order; all of them where bounds are custom.
    positive: &'a [Bucket],
    /// Buckets below zero mirrored, so again in rising order.
    negative: &'a [Bucket],
}

/// All of a histogram but its buckets.
#[derive(Debug, Clone, Copy)]
struct Head {
    scale: Scale,
    count: f64,
    sum: f64,
    zero_threshold: f64,
    zero_count: f64,
}

/// How buckets are bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// Bounds are powers of 2^(2^-schema).
    Exponential(i32),
    /// Bounds are arbitrary.
    Custom,
}

/// One bucket that is not the zero bucket.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    lower: f64,
    upper: f64,
    count: f64,
    /// Of an exponential scale: which power `upper` is.
    index: i32,
    rule: Rule,
}

/// Which bounds belong to a bucket; the number is what the API writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    OpenLeft = 0,
    OpenRight = 1,
    OpenBoth = 2,
    ClosedBoth = 3,
}

/// Why two histograms cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clash {
    /// One has exponential, the other custom bounds.
    Scales,
    /// Their custom bounds differ.
    Bounds,
}

/// A bucket as numbers stand on the axis.
#[derive(Debug, Clone, Copy)]
struct View {
    lower: f64,
    upper: f64,
    count: f64,
    rule: Rule,
}

impl Head {
    /// Says nothing, and yields to any other.
    const EMPTY: Self = Self {
        scale: Scale::Exponential(SCHEMA_MAX),
        count: 0.0,
        sum: 0.0,
        zero_threshold: 0.0,
        zero_count: 0.0,
    };
}

impl<'a> Histogram<'a> {
    /// Reads the object of a sample.
    pub(crate) fn read(bump: &'a Bump, text: &'a [u8]) -> Outcome<&'a Self> {
        parse::read(bump, text)
    }

    /// Writes the object of a sample.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if let Some(text) = self.text {
            return out.extend_from_slice(text);
        }
        let number = |out: &mut Vec<u8>, value| {
            out.push(b'"');
            write_float(out, value);
            out.push(b'"');
        };
        out.extend_from_slice(b"{\"count\":");
        number(out, self.head.count);
        out.extend_from_slice(b",\"sum\":");
        number(out, self.head.sum);
        let mut opened = false;
        for bucket in self.ascending() {
            let open: &[u8] = match std::mem::replace(&mut opened, true) {
                true => b",[",
                false => b",\"buckets\":[[",
            };
            out.extend_from_slice(open);
            out.push(b'0' + bucket.rule as u8);
            for value in [bucket.lower, bucket.upper, bucket.count] {
                out.push(b',');
                number(out, value);
            }
            out.push(b']');
        }
        out.extend_from_slice(if opened { b"]}" } else { b"}" });
    }

    /// What adding it to another costs, in units of work.
    pub(crate) fn units(&self) -> usize {
        64 + 16 * (self.positive.len() + self.negative.len())
    }

    /// Number of observations.
    pub(crate) fn count(&self) -> f64 {
        self.head.count
    }

    /// Sum of observations.
    pub(crate) fn sum(&self) -> f64 {
        self.head.sum
    }

    /// Mean of observations.
    pub(crate) fn avg(&self) -> f64 {
        self.head.sum / self.head.count
    }

    /// Whether bounds are custom ones.
    pub(crate) fn has_custom_bounds(&self) -> bool {
        self.head.scale == Scale::Custom
    }

    /// Whether the two have the same bounds and counts.
    pub(crate) fn equals(&self, other: &Histogram<'_>) -> bool {
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits();
        let all = |a: &[Bucket], b: &[Bucket]| {
            let pairs = a.iter().zip(b);
            a.len() == b.len()
                && pairs.into_iter().all(|(a, b)| {
                    same(a.lower, b.lower) && same(a.upper, b.upper) && same(a.count, b.count)
                })
        };
        let (mine, its) = (&self.head, &other.head);
        mine.count == its.count
            && same(mine.sum, its.sum)
            && mine.zero_count == its.zero_count
            && (mine.zero_count == 0.0 || mine.zero_threshold == its.zero_threshold)
            && all(self.positive, other.positive)
            && all(self.negative, other.negative)
    }

    /// The buckets that are not empty, from the lowest to the highest. A zero bucket of a negative
    /// count is not shown.
    fn ascending(&self) -> impl DoubleEndedIterator<Item = View> {
        let below = self.negative.iter().rev().map(|bucket| View {
            lower: -bucket.upper,
            upper: -bucket.lower,
            count: bucket.count,
            rule: Rule::OpenRight,
        });
        let zero = (self.head.zero_count > 0.0).then_some(View {
            lower: -self.head.zero_threshold,
            upper: self.head.zero_threshold,
            count: self.head.zero_count,
            rule: Rule::ClosedBoth,
        });
        let above = self.positive.iter().map(|bucket| View {
            lower: bucket.lower,
            upper: bucket.upper,
            count: bucket.count,
            rule: bucket.rule,
        });
        below
            .chain(zero)
            .chain(above)
            .filter(|bucket| bucket.count != 0.0)
    }
}
