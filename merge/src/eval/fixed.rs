//! What `@` ties to one time. Servers evaluate it once, at the first step, and repeat the outcome.
//!
//! That shows where something is chosen: the parameter of an aggregation is that of the first step,
//! and the order of series is that of an instant query.

use super::env::Env;
use super::error::Outcome;
use super::value::{Column, Value, numbers};
use super::{Parts, evaluate};
use crate::plan::Grid;
use crate::query::Node;

/// Whether `node` is evaluated once on `grid`, and that may show.
pub(super) fn is_once(parts: &Parts<'_>, grid: &Grid, node: &Node) -> bool {
    // Other operations make the same of the same at each step.
    let has_parameter =
        |node: &Node| matches!(node, Node::Aggregate(aggregate) if aggregate.parameter.is_some());
    let is_fixed = |index: usize| parts.get(index).is_some_and(|part| part.is_fixed);
    grid.count > 1 && node.find(&has_parameter).is_some() && node.is_fixed(&is_fixed)
}

/// Evaluates at the first step and repeats the outcome at all others.
pub(super) async fn once<'a>(
    env: &Env<'a>,
    parts: &Parts<'a>,
    grid: Grid,
    node: &Node,
) -> Outcome<Value<'a>> {
    let first = Grid { count: 1, ..grid };
    match evaluate(env, parts, first, node).await? {
        Value::Scalar(column) => Ok(Value::Scalar(numbers(env.bump, grid.count, column[0])?)),
        Value::Vector(mut series) => {
            for one in &mut series {
                let mut column = Column::absent(env.bump, grid.count)?;
                column.floats.fill(one.column.floats[0]);
                if let Some(histogram) = one.column.histogram(0) {
                    for step in 0..grid.count {
                        column.put_histogram(env.bump, step, histogram)?;
                    }
                }
                one.column = column;
                env.pace.spend(64 + 16 * grid.count).await;
            }
            Ok(Value::Vector(series))
        }
        other => Ok(other),
    }
}
