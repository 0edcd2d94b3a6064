//! Adding, subtracting and scaling histograms.
//!
//! Operands of different resolution meet at the lower one. Zero buckets of different width meet at
//! the wider one, which takes in the buckets that it covers; where it ends inside a bucket that is
//! not empty, it is widened to that bucket's end.

use std::cmp::Ordering;

use bumpalo::Bump;

use super::layout::{bound, reduced};
use super::{Bucket, Clash, Head, Histogram, Scale};
use crate::eval::error::{EvalError, Outcome};
use crate::eval::value::{full, slice};

/// A histogram that others are added to, outside the arena.
#[derive(Debug, Clone)]
pub(crate) struct Accumulator {
    head: Head,
    positive: Vec<Bucket>,
    negative: Vec<Bucket>,
}

impl<'a> Histogram<'a> {
    /// Whether the two may be added.
    pub(crate) fn clash(&self, other: &Histogram<'_>) -> Option<Clash> {
        clash(
            (&self.head, self.positive, self.negative),
            (&other.head, other.positive, other.negative),
        )
    }

    /// The sum of two histograms. Ask [`Histogram::clash`] first: it is an error where they do.
    pub(crate) fn add(&self, other: &Histogram<'_>, bump: &'a Bump) -> Outcome<&'a Histogram<'a>> {
        let mut made = Accumulator::of(self);
        made.add(other).map_err(clashed)?;
        made.finish(bump)
    }

    /// The difference of two histograms; see [`Histogram::add`].
    pub(crate) fn sub(&self, other: &Histogram<'_>, bump: &'a Bump) -> Outcome<&'a Histogram<'a>> {
        let mut made = Accumulator::of(self);
        made.sub(other).map_err(clashed)?;
        made.finish(bump)
    }

    /// All counts and the sum, times a factor.
    pub(crate) fn scale(&self, factor: f64, bump: &'a Bump) -> Outcome<&'a Histogram<'a>> {
        let mut made = Accumulator::of(self);
        made.scale(factor);
        made.finish(bump)
    }

    /// All counts and the sum, divided. By zero, no bucket is left.
    pub(crate) fn divide(&self, divisor: f64, bump: &'a Bump) -> Outcome<&'a Histogram<'a>> {
        let mut made = Accumulator::of(self);
        made.divide(divisor);
        made.finish(bump)
    }

    /// All counts and the sum, negated.
    pub(crate) fn negate(&self, bump: &'a Bump) -> Outcome<&'a Histogram<'a>> {
        self.scale(-1.0, bump)
    }
}

fn clashed(clash: Clash) -> EvalError {
    EvalError::Execution(match clash {
        Clash::Scales => "cannot apply this operation on histograms with a mix of exponential and custom bucket schemas".to_owned(),
        Clash::Bounds => "cannot apply this operation on custom buckets histograms with different custom bounds".to_owned(),
    })
}

type Seen<'h> = (&'h Head, &'h [Bucket], &'h [Bucket]);

fn clash(left: Seen<'_>, right: Seen<'_>) -> Option<Clash> {
    let is_bare = |(head, positive, negative): Seen<'_>| {
        positive.is_empty() && negative.is_empty() && head.zero_count == 0.0
    };
    match (left.0.scale, right.0.scale) {
        (Scale::Exponential(_), Scale::Exponential(_)) => None,
        (Scale::Custom, Scale::Custom) => {
            let (mut left, mut right) = (left.1.iter().peekable(), right.1.iter().peekable());
            while let (Some(one), Some(two)) = (left.peek(), right.peek()) {
                if one.lower == two.lower && one.upper == two.upper {
                    left.next();
                    right.next();
                } else if one.upper <= two.lower {
                    left.next();
                } else if two.upper <= one.lower {
                    right.next();
                } else {
                    return Some(Clash::Bounds);
                }
            }
            None
        }
        _ if is_bare(left) || is_bare(right) => None,
        _ => Some(Clash::Scales),
    }
}

impl Accumulator {
    /// Nothing yet; takes the resolution of what is added first.
    pub(crate) fn new() -> Self {
        Self {
            head: Head::EMPTY,
            positive: Vec::new(),
            negative: Vec::new(),
        }
    }

    /// A copy.
    pub(crate) fn of(histogram: &Histogram<'_>) -> Self {
        Self {
            head: histogram.head,
            positive: histogram.positive.to_vec(),
            negative: histogram.negative.to_vec(),
        }
    }

    /// Number of observations.
    pub(crate) fn count(&self) -> f64 {
        self.head.count
    }

    /// What an operation on it costs.
    pub(crate) fn units(&self) -> usize {
        64 + 16 * (self.positive.len() + self.negative.len())
    }

    /// Adds `other`, unless they clash.
    pub(crate) fn add(&mut self, other: &Histogram<'_>) -> Result<(), Clash> {
        self.combine(other, 1.0)
    }

    /// Subtracts `other`, unless they clash.
    pub(crate) fn sub(&mut self, other: &Histogram<'_>) -> Result<(), Clash> {
        self.combine(other, -1.0)
    }

    fn combine(&mut self, other: &Histogram<'_>, sign: f64) -> Result<(), Clash> {
        self.take(Self::of(other), sign)
    }

    /// Adds `other` times `sign`, which is 1 or -1, unless they clash.
    pub(crate) fn take(&mut self, mut other: Self, sign: f64) -> Result<(), Clash> {
        let mine = (&self.head, &self.positive[..], &self.negative[..]);
        let its = (&other.head, &other.positive[..], &other.negative[..]);
        if let Some(clash) = clash(mine, its) {
            return Err(clash);
        }
        let scale = match (self.head.scale, other.head.scale) {
            (Scale::Exponential(mine), Scale::Exponential(its)) => {
                Scale::Exponential(mine.min(its))
            }
            // One that has no bucket shows no scale.
            (Scale::Custom, _) | (_, Scale::Custom) => Scale::Custom,
        };
        self.reduce(scale);
        other.reduce(scale);
        while self.head.zero_threshold != other.head.zero_threshold {
            match self.head.zero_threshold < other.head.zero_threshold {
                true => self.widen_zero(other.head.zero_threshold),
                false => other.widen_zero(self.head.zero_threshold),
            }
        }
        self.head.zero_count += sign * other.head.zero_count;
        self.head.count += sign * other.head.count;
        self.head.sum += sign * other.head.sum;
        self.positive = merged(&self.positive, &other.positive, sign);
        self.negative = merged(&self.negative, &other.negative, sign);
        Ok(())
    }

    /// Multiplies all counts and the sum.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.each(|value| value * factor);
    }

    /// Divides all counts and the sum.
    pub(crate) fn divide(&mut self, divisor: f64) {
        self.each(|value| value / divisor);
        if divisor == 0.0 {
            self.positive.clear();
            self.negative.clear();
        }
    }

    fn each(&mut self, change: impl Fn(f64) -> f64) {
        let head = &mut self.head;
        for value in [&mut head.zero_count, &mut head.count, &mut head.sum] {
            *value = change(*value);
        }
        for bucket in self.positive.iter_mut().chain(&mut self.negative) {
            bucket.count = change(bucket.count);
        }
    }

    /// Goes over to a scale that is not finer.
    pub(super) fn reduce(&mut self, scale: Scale) {
        if let (Scale::Exponential(from), Scale::Exponential(to)) = (self.head.scale, scale)
            && to < from
        {
            for list in [&mut self.positive, &mut self.negative] {
                *list = coarser(list, from, to);
            }
        }
        self.head.scale = scale;
    }

    /// Widens the zero bucket to `threshold`, or further to the end of a bucket that it cuts.
    pub(super) fn widen_zero(&mut self, threshold: f64) {
        let mut threshold = threshold;
        loop {
            let cut = [&self.positive, &self.negative].into_iter().flatten();
            let cut = cut
                .filter(|one| one.lower < threshold && one.upper > threshold && one.count != 0.0)
                .map(|one| one.upper)
                .max_by(f64::total_cmp);
            match cut {
                Some(end) => threshold = end,
                None => break,
            }
        }
        for list in [&mut self.positive, &mut self.negative] {
            for inside in list.iter().filter(|bucket| bucket.lower < threshold) {
                self.head.zero_count += inside.count;
            }
            list.retain(|bucket| bucket.lower >= threshold);
        }
        self.head.zero_threshold = threshold;
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }

    pub(super) fn lists(&self) -> [&[Bucket]; 2] {
        [&self.positive, &self.negative]
    }

    /// Drops empty buckets, and moves into the arena.
    pub(crate) fn finish(mut self, bump: &Bump) -> Outcome<&Histogram<'_>> {
        self.positive.retain(|bucket| bucket.count != 0.0);
        self.negative.retain(|bucket| bucket.count != 0.0);
        let histogram = Histogram {
            text: None,
            head: self.head,
            positive: slice(bump, &self.positive)?,
            negative: slice(bump, &self.negative)?,
        };
        Ok(bump.try_alloc(histogram).map_err(full)?)
    }
}

/// The buckets of a coarser schema.
fn coarser(list: &[Bucket], from: i32, to: i32) -> Vec<Bucket> {
    let mut made: Vec<Bucket> = Vec::with_capacity(list.len());
    for bucket in list {
        let index = reduced(bucket.index, from.abs_diff(to));
        match made.last_mut() {
            Some(last) if last.index == index => last.count += bucket.count,
            _ => made.push(Bucket {
                lower: bound(to, index.saturating_sub(1)),
                upper: bound(to, index),
                index,
                ..*bucket
            }),
        }
    }
    made
}

/// Adds two lists that have the same scale.
fn merged(left: &[Bucket], right: &[Bucket], sign: f64) -> Vec<Bucket> {
    let order = |one: &Bucket, two: &Bucket| {
        let bounds = || one.upper.total_cmp(&two.upper);
        one.index.cmp(&two.index).then_with(bounds)
    };
    let signed = |bucket: &Bucket| Bucket {
        count: sign * bucket.count,
        ..*bucket
    };
    let mut made = Vec::with_capacity(left.len().max(right.len()));
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let which = match (left.peek(), right.peek()) {
            (None, None) => return made,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(two)) => order(one, two),
        };
        let mine = if which.is_le() { left.next() } else { None };
        let its = if which.is_ge() { right.next() } else { None };
        made.extend(match (mine, its) {
            (Some(one), Some(two)) => Some(Bucket {
                count: one.count + sign * two.count,
                ..*one
            }),
            (Some(one), None) => Some(*one),
            (None, its) => its.map(signed),
        });
    }
}
