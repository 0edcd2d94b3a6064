//! Binary operators and unary minus.
//!
//! Two scalars, a scalar and a vector, or two vectors, of which the series are matched by labels.
//! Columns of the operands become columns of the result. Errors are those of the first step at
//! which the servers would stop.

mod groups;
mod histograms;
mod matching;
mod operation;
mod sets;
#[cfg(test)]
mod tests;

use super::env::Env;
use super::error::{EvalError, Outcome};
use super::unite::{STEPS_AT_ONCE, drop_names, same_labels};
use super::value::{Series, Value, is_absent};
use crate::labels::Label;
use crate::plan::Grid;
use crate::query::{Binary, Cardinality, OperatorKind};
use operation::{Operation, Operator};

/// Applies a binary operator. Vectors' series keep the order in which Prometheus gives them.
pub(crate) async fn binary<'a>(
    env: &Env<'a>,
    grid: &Grid,
    binary: &Binary,
    left: Value<'a>,
    right: Value<'a>,
) -> Outcome<Value<'a>> {
    if binary.kind == OperatorKind::Set {
        let (left, right) = (left.into_vector(), right.into_vector());
        let made = sets::combine(env, grid, binary, left, right).await?;
        return Ok(Value::Vector(made));
    }
    let Some(operator) = Operator::read(&binary.operator) else {
        let problem = format!("unknown operator {}", binary.operator);
        return Err(EvalError::BadData(problem));
    };
    let mut operation = Operation {
        operator,
        returns_bool: binary.returns_bool,
        is_flipped: false,
        keeps_own: true,
        keeps_names: match operator {
            // Forgotten before 2.47.
            Operator::Atan2 => !env.dialect().is_at_least(2, 47),
            _ => operator.is_comparison() && !binary.returns_bool,
        },
    };
    let made = match (left, right) {
        (Value::Scalar(left), Value::Scalar(right)) => {
            operation.returns_bool = operator.is_comparison();
            scalars(env, operation, left, right).await;
            return Ok(Value::Scalar(left));
        }
        (vector, Value::Scalar(scalar)) => {
            with_scalar(env, operation, vector.into_vector(), scalar).await?
        }
        (Value::Scalar(scalar), vector) => {
            operation.is_flipped = true;
            with_scalar(env, operation, vector.into_vector(), scalar).await?
        }
        (left, right) => {
            let is_swapped = matches!(binary.cardinality, Cardinality::OneToMany(_));
            operation.is_flipped = is_swapped;
            operation.keeps_own = !is_swapped;
            let (many, one) = match is_swapped {
                true => (right.into_vector(), left.into_vector()),
                false => (left.into_vector(), right.into_vector()),
            };
            matching::combine(env, grid, binary, operation, many, one).await?
        }
    };
    Ok(Value::Vector(made))
}

/// Unary minus.
pub(crate) async fn negate<'a>(env: &Env<'a>, grid: &Grid, input: Value<'a>) -> Outcome<Value<'a>> {
    let _ = grid;
    let mut series = match input {
        Value::Scalar(floats) => {
            minus(env, floats).await;
            return Ok(Value::Scalar(floats));
        }
        input => input.into_vector(),
    };
    for one in &mut series {
        minus(env, one.column.floats).await;
        histograms::negate(env, &mut one.column).await?;
    }
    series.retain(|one| !one.column.is_empty());
    // Later ones look at each step.
    if !env.dialect().is_at_least(3, 9) && names_differ_alone(env, &series).await? {
        return Err(same_labels());
    }
    Ok(Value::Vector(drop_names(env, series).await?))
}

/// Whether two series differ by nothing but their names.
async fn names_differ_alone<'a>(env: &Env<'a>, series: &[Series<'a>]) -> Outcome<bool> {
    let mut seen: std::collections::HashSet<&[Label<'a>]> =
        std::collections::HashSet::with_capacity(series.len());
    for one in series {
        env.pace.spend(64).await;
        let labels = super::value::without_name(env.bump, one.labels)?;
        if !seen.insert(labels) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn minus(env: &Env<'_>, floats: &mut [f64]) {
    for piece in floats.chunks_mut(STEPS_AT_ONCE) {
        for value in &mut *piece {
            if !is_absent(*value) {
                *value = -*value;
            }
        }
        env.pace.spend(piece.len()).await;
    }
}

/// Applies the operation to `own` in place.
async fn scalars(env: &Env<'_>, operation: Operation, own: &mut [f64], other: &[f64]) {
    let units = operation.operator.units();
    let at_once = 2 * STEPS_AT_ONCE / units;
    for (own, other) in own.chunks_mut(at_once).zip(other.chunks(at_once)) {
        if env.watch.is_on() {
            env.watch.note(operation.has_tie(own, other));
            env.pace.spend(2 * own.len()).await;
        }
        operation.apply(own, other);
        env.pace.spend(units * own.len()).await;
    }
}

/// A vector and a scalar; which is on the left is in `operation`.
async fn with_scalar<'a>(
    env: &Env<'a>,
    operation: Operation,
    mut series: Vec<Series<'a>>,
    scalar: &[f64],
) -> Outcome<Vec<Series<'a>>> {
    for one in &mut series {
        let found = histograms::with_scalar(env, operation, &one.column, scalar).await?;
        scalars(env, operation, one.column.floats, scalar).await;
        histograms::put(env, &mut one.column, found)?;
        env.pace.spend(32).await;
    }
    match operation.keeps_names {
        true => Ok(series),
        false => drop_names(env, series).await,
    }
}
