//! From the object of a sample to a histogram.

use bumpalo::Bump;
use simd_json::{Node, StaticNode};

use super::layout::{index_of, schema_of};
use super::{Bucket, Head, Histogram, Rule, SCHEMA_MAX, Scale};
use crate::eval::error::{EvalError, Outcome};
use crate::eval::value::{full, slice};
use crate::limits::SAMPLE_BYTES_MAX;
use crate::number::parse_float;

/// A bucket as written.
#[derive(Debug, Clone, Copy)]
struct Written {
    rule: Rule,
    lower: f64,
    upper: f64,
    count: f64,
}

/// What an object holds.
#[derive(Debug, Default)]
struct Parts {
    count: Option<f64>,
    sum: Option<f64>,
    buckets: Vec<Written>,
}

/// Reads `text`.
pub(super) fn read<'a>(bump: &'a Bump, text: &'a [u8]) -> Outcome<&'a Histogram<'a>> {
    if text.len() > SAMPLE_BYTES_MAX {
        return Err(EvalError::Limit("bytes of one sample"));
    }
    let mut scratch = text.to_vec();
    let parts = simd_json::to_tape(&mut scratch)
        .ok()
        .and_then(|tape| object(&tape.0));
    let bad = || EvalError::Execution("a server's native histogram is not understood".to_owned());
    let parts = parts.ok_or_else(bad)?;
    let (Some(count), Some(sum)) = (parts.count, parts.sum) else {
        return Err(bad());
    };
    let (mut zero_threshold, mut zero_count) = (0.0, 0.0);
    let mut rest = Vec::with_capacity(parts.buckets.len());
    let mut zeros = 0;
    for bucket in parts.buckets {
        let is_zero = bucket.rule == Rule::ClosedBoth
            && bucket.upper.is_finite()
            && bucket.lower == -bucket.upper;
        if is_zero {
            (zero_threshold, zero_count) = (bucket.upper, bucket.count);
            zeros += 1;
        } else {
            rest.push(bucket);
        }
    }
    let (scale, positive, negative) = match exponential(&rest) {
        Some(found) => found,
        None if zeros == 0 => (Scale::Custom, custom(&rest).ok_or_else(bad)?, Vec::new()),
        None => return Err(bad()),
    };
    if zeros > 1 {
        return Err(bad());
    }
    let head = Head {
        scale,
        count,
        sum,
        zero_threshold,
        zero_count,
    };
    let histogram = Histogram {
        text: Some(text),
        head,
        positive: slice(bump, &positive)?,
        negative: slice(bump, &negative)?,
    };
    Ok(bump.try_alloc(histogram).map_err(full)?)
}

/// Reads the buckets as ones of an exponential scale; `None` if they are not.
fn exponential(written: &[Written]) -> Option<(Scale, Vec<Bucket>, Vec<Bucket>)> {
    let mut schema = None;
    for bucket in written {
        let (lower, upper) = magnitudes(bucket);
        let its = schema_of(lower, upper)?;
        if its.is_some() && schema.is_some() && its != schema {
            return None;
        }
        schema = schema.or(its);
    }
    let schema = schema.unwrap_or(SCHEMA_MAX);
    let (mut positive, mut negative) = (Vec::new(), Vec::new());
    for bucket in written {
        let (lower, upper) = magnitudes(bucket);
        let is_negative = bucket.lower < 0.0;
        let made = Bucket {
            lower,
            upper,
            count: bucket.count,
            index: index_of(schema, upper)?,
            rule: Rule::OpenLeft,
        };
        let expected = if is_negative {
            Rule::OpenRight
        } else {
            Rule::OpenLeft
        };
        if bucket.rule != expected {
            return None;
        }
        match is_negative {
            true => negative.push(made),
            false => positive.push(made),
        }
    }
    negative.reverse();
    let rises = |list: &[Bucket]| list.is_sorted_by(|a, b| a.index < b.index);
    let is_ordered = rises(&positive) && rises(&negative);
    is_ordered.then_some((Scale::Exponential(schema), positive, negative))
}

/// The bounds of a bucket, mirrored if it is below zero.
fn magnitudes(bucket: &Written) -> (f64, f64) {
    match bucket.lower < 0.0 {
        true => (-bucket.upper, -bucket.lower),
        false => (bucket.lower, bucket.upper),
    }
}

/// Reads the buckets as ones of custom bounds; `None` if they overlap.
fn custom(written: &[Written]) -> Option<Vec<Bucket>> {
    let mut made: Vec<Bucket> = Vec::with_capacity(written.len());
    for bucket in written {
        let follows = made.last().is_none_or(|last| last.upper <= bucket.lower);
        if !(follows && bucket.lower < bucket.upper) {
            return None;
        }
        made.push(Bucket {
            lower: bucket.lower,
            upper: bucket.upper,
            count: bucket.count,
            index: 0,
            rule: bucket.rule,
        });
    }
    Some(made)
}

/// Reads `{"count":…,"sum":…,"buckets":[…]}`; other fields are passed over.
fn object(nodes: &[Node<'_>]) -> Option<Parts> {
    let Some(Node::Object { len, .. }) = nodes.first() else {
        return None;
    };
    let mut parts = Parts::default();
    let mut at = 1;
    for _ in 0..*len {
        let Some(Node::String(name)) = nodes.get(at) else {
            return None;
        };
        at += 1;
        match *name {
            "count" => parts.count = Some(number(nodes.get(at)?)?),
            "sum" => parts.sum = Some(number(nodes.get(at)?)?),
            "buckets" => parts.buckets = buckets(&nodes[at..])?,
            _ => {}
        }
        at += extent(nodes.get(at)?);
    }
    Some(parts)
}

/// How many nodes a value takes.
fn extent(node: &Node<'_>) -> usize {
    match node {
        Node::Object { count, .. } | Node::Array { count, .. } => count + 1,
        _ => 1,
    }
}

fn buckets(nodes: &[Node<'_>]) -> Option<Vec<Written>> {
    const FIELDS: usize = 4;
    let Some(Node::Array { len, .. }) = nodes.first() else {
        return None;
    };
    let mut found = Vec::with_capacity(*len);
    // An array node comes before the four values of each bucket.
    for bucket in nodes.get(1..=len * (FIELDS + 1))?.chunks(FIELDS + 1) {
        let [Node::Array { len: FIELDS, .. }, rule, lower, upper, count] = bucket else {
            return None;
        };
        let rule = match rule {
            Node::Static(StaticNode::U64(rule)) => *rule,
            Node::Static(StaticNode::I64(rule)) => u64::try_from(*rule).ok()?,
            _ => return None,
        };
        let count = number(count)?;
        if count == 0.0 {
            continue;
        }
        found.push(Written {
            rule: match rule {
                0 => Rule::OpenLeft,
                1 => Rule::OpenRight,
                2 => Rule::OpenBoth,
                3 => Rule::ClosedBoth,
                _ => return None,
            },
            lower: number(lower)?,
            upper: number(upper)?,
            count,
        });
    }
    Some(found)
}

fn number(node: &Node<'_>) -> Option<f64> {
    match node {
        Node::String(text) => parse_float(text.as_bytes()),
        _ => None,
    }
}
