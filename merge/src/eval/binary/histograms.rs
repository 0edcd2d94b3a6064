//! Operators where a native histogram is an operand.
//!
//! Histograms are added and subtracted, multiplied and divided by numbers, and compared for
//! equality. What else was made of them changed over time: up to 2.43 a histogram counts as the
//! number 0, but it meets no float of another vector, and an operation with a scalar leaves it in
//! its place; from then on undefined operations see 0; from 3.1 on they give nothing, and an info.

use super::operation::{Operation, Operator};
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::native::{Clash, Histogram};
use crate::eval::unite::STEPS_AT_ONCE;
use crate::eval::value::{Column, is_absent};

/// A sample.
#[derive(Debug, Clone, Copy)]
enum Sample<'a> {
    Float(f64),
    Histogram(&'a Histogram<'a>),
}

impl Sample<'_> {
    /// What old servers compute with.
    fn number(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Histogram(_) => 0.0,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Float(_) => "float",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// Results at the steps where a histogram is an operand.
#[derive(Debug, Default)]
pub(super) struct Found<'a>(Vec<(usize, Option<Sample<'a>>)>);

/// Computes what takes histograms of two columns.
pub(super) async fn with_column<'a>(
    env: &Env<'a>,
    operation: Operation,
    own: &Column<'a>,
    other: &Column<'a>,
) -> Outcome<Found<'a>> {
    let mut found = Found::default();
    if own.histograms.is_none() && other.histograms.is_none() {
        return Ok(found);
    }
    for step in 0..own.floats.len().min(other.floats.len()) {
        let (Some(left), Some(right)) = (sample(own, step), sample(other, step)) else {
            if own.histogram(step).is_some() {
                found.0.push((step, None));
            }
            continue;
        };
        if let (Sample::Float(_), Sample::Float(_)) = (left, right) {
            continue;
        }
        env.pace.spend(512).await;
        let is_mixed = left.kind() != right.kind();
        let made = if env.dialect().is_at_least(3, 1) {
            strict(env, operation, left, right)?
        } else if is_mixed && !env.dialect().is_at_least(2, 44) {
            None
        } else {
            lenient(env, operation, left, right)?
        };
        found.0.push((step, made));
    }
    Ok(found)
}

/// Computes what takes histograms of a column and a scalar.
pub(super) async fn with_scalar<'a>(
    env: &Env<'a>,
    operation: Operation,
    own: &Column<'a>,
    scalar: &[f64],
) -> Outcome<Found<'a>> {
    let mut found = Found::default();
    if own.histograms.is_none() {
        return Ok(found);
    }
    for (step, value) in scalar.iter().enumerate() {
        let Some(histogram) = own.histogram(step) else {
            continue;
        };
        env.pace.spend(512).await;
        let (own, other) = (Sample::Histogram(histogram), Sample::Float(*value));
        let made = if env.dialect().is_at_least(3, 1) {
            strict(env, operation, own, other)?
        } else if env.dialect().is_at_least(2, 44) {
            lenient(env, operation, own, other)?
        } else {
            operation.of(0.0, *value).map(|_| own)
        };
        found.0.push((step, made));
    }
    Ok(found)
}

/// Puts results into the column that was the own operand.
pub(super) fn put<'a>(env: &Env<'a>, column: &mut Column<'a>, found: Found<'a>) -> Outcome<()> {
    for (step, made) in found.0 {
        column.clear(step);
        match made {
            None => {}
            Some(Sample::Float(value)) => column.floats[step] = value,
            Some(Sample::Histogram(histogram)) => {
                column.put_histogram(env.bump, step, histogram)?;
            }
        }
    }
    Ok(())
}

/// Unary minus of the histograms of a column. Servers before 2.55 left them as they were.
pub(super) async fn negate<'a>(env: &Env<'a>, column: &mut Column<'a>) -> Outcome<()> {
    let Some(histograms) = &mut column.histograms else {
        return Ok(());
    };
    if !env.dialect().is_at_least(2, 55) {
        return Ok(());
    }
    for piece in histograms.chunks_mut(STEPS_AT_ONCE) {
        env.pace.spend(piece.len()).await;
        for one in piece.iter_mut().flatten() {
            env.pace.spend(one.units()).await;
            *one = one.negate(env.bump)?;
        }
    }
    Ok(())
}

fn sample<'a>(column: &Column<'a>, step: usize) -> Option<Sample<'a>> {
    let value = column.floats[step];
    match column.histogram(step) {
        Some(histogram) => Some(Sample::Histogram(histogram)),
        None => (!is_absent(value)).then_some(Sample::Float(value)),
    }
}

/// What servers from 3.1 on make of it.
fn strict<'a>(
    env: &Env<'a>,
    operation: Operation,
    own: Sample<'a>,
    other: Sample<'a>,
) -> Outcome<Option<Sample<'a>>> {
    let (left, right) = operation.sides(own, other);
    let operator = operation.operator;
    if let Some(made) = defined(env, operation, left, right)? {
        return Ok(made);
    }
    let text = operator.text();
    env.inform(&format!(
        "incompatible sample types encountered for binary operator \"{text}\": {} {text} {}",
        left.kind(),
        right.kind(),
    ));
    Ok(None)
}

/// What is defined for histograms; the outer `None` where nothing is.
fn defined<'a>(
    env: &Env<'a>,
    operation: Operation,
    left: Sample<'a>,
    right: Sample<'a>,
) -> Outcome<Option<Option<Sample<'a>>>> {
    let scaled = |one: &Histogram<'a>, factor: f64| -> Outcome<Option<Option<Sample<'a>>>> {
        Ok(Some(Some(Sample::Histogram(one.scale(factor, env.bump)?))))
    };
    match (operation.operator, left, right) {
        (Operator::Multiply, Sample::Histogram(one), Sample::Float(factor))
        | (Operator::Multiply, Sample::Float(factor), Sample::Histogram(one)) => {
            scaled(one, factor)
        }
        (Operator::Divide, Sample::Histogram(one), Sample::Float(divisor)) => {
            let made = one.divide(divisor, env.bump)?;
            Ok(Some(Some(Sample::Histogram(made))))
        }
        (Operator::Add | Operator::Subtract, Sample::Histogram(left), Sample::Histogram(right)) => {
            sum(env, operation.operator, left, right).map(Some)
        }
        (
            Operator::Equal | Operator::NotEqual,
            Sample::Histogram(left),
            Sample::Histogram(right),
        ) => {
            let holds = left.equals(right) == (operation.operator == Operator::Equal);
            Ok(Some(match operation.returns_bool {
                true => Some(Sample::Float(f64::from(holds))),
                false => holds.then_some(Sample::Histogram(left)),
            }))
        }
        _ => Ok(None),
    }
}

/// Sum or difference.
fn sum<'a>(
    env: &Env<'a>,
    operator: Operator,
    left: &'a Histogram<'a>,
    right: &'a Histogram<'a>,
) -> Outcome<Option<Sample<'a>>> {
    if let Some(clash) = left.clash(right) {
        let text = operator.text();
        let problem = match clash {
            Clash::Scales => "mixed exponential and custom buckets",
            Clash::Bounds => "incompatible custom buckets",
        };
        match env.dialect().is_at_least(3, 3) {
            true => env.warn(&format!(
                "incompatible bucket layout encountered for binary operator {text}"
            )),
            false => env.warn(&format!("vector contains histograms with {problem}")),
        }
        return Ok(None);
    }
    let made = match operator {
        Operator::Subtract => left.sub(right, env.bump)?,
        _ => left.add(right, env.bump)?,
    };
    Ok(Some(Sample::Histogram(made)))
}

/// What servers before 3.1 make of it: what is not defined is computed with 0.
fn lenient<'a>(
    env: &Env<'a>,
    operation: Operation,
    own: Sample<'a>,
    other: Sample<'a>,
) -> Outcome<Option<Sample<'a>>> {
    let (left, right) = operation.sides(own, other);
    let knows = match operation.operator {
        Operator::Add => true,
        Operator::Subtract | Operator::Multiply | Operator::Divide => {
            env.dialect().is_at_least(2, 44)
        }
        _ => env.dialect().is_at_least(2, 51),
    };
    if knows && let Some(made) = defined(env, operation, left, right)? {
        return Ok(made);
    }
    let made = operation.of(own.number(), other.number());
    Ok(made.map(Sample::Float))
}
