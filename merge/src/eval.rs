//! Evaluates what the servers cannot: PromQL over the merged parts of a plan.
//!
//! Values are columns over the steps of a grid, in the request's arena. Called by
//! [`crate::execute`], once all parts are merged; calls nobody outside. Promises Prometheus'
//! results, error texts and annotations for the dialect of the servers, turns of bounded work
//! ([`pace`]), and memory within the arena's bound.

pub(crate) mod aggregate;
pub(crate) mod binary;
pub(crate) mod elementary;
pub(crate) mod env;
pub(crate) mod error;
mod fixed;
pub(crate) mod function;
pub(crate) mod keys;
pub(crate) mod native;
pub(crate) mod pace;
pub(crate) mod range;
pub(crate) mod sorting;
pub(crate) mod text;
pub(crate) mod tie;
#[cfg(test)]
mod trial;
pub(crate) mod unite;
pub(crate) mod value;

use std::future::Future;
use std::pin::Pin;

use crate::plan::Grid;
use crate::query::{Kind, Node, Subquery};
use env::Env;
use error::{EvalError, Outcome};
use value::{ABSENT, Column, Samples, Series, Value, Windows, is_absent, numbers};

/// The merged answer of a part.
#[derive(Debug, Default)]
pub(crate) struct PartData<'a> {
    /// Sorted by labels. Of a part that stands on a grid, the times are the grid's.
    pub(crate) samples: Vec<Samples<'a>>,
    /// Of raw samples: the windows that they are cut into.
    pub(crate) windows: Option<Windows>,
    /// Sums of numbers that are not whole, added up in parts: their last bits may be others than
    /// those of one server.
    pub(crate) is_in_parts: bool,
    /// Series that groups made of others: their order is not that of one server.
    pub(crate) is_aggregated: bool,
    /// `@` ties it to one time.
    pub(crate) is_fixed: bool,
}

/// The merged answers of a plan's parts, by index.
pub(crate) type Parts<'a> = Vec<PartData<'a>>;

/// A future of this module; boxed, since trees are as deep as queries are.
type Work<'e, T> = Pin<Box<dyn Future<Output = Outcome<T>> + 'e>>;

/// Evaluates `node` at the steps of `grid`.
pub(crate) fn evaluate<'e, 'a: 'e>(
    env: &'e Env<'a>,
    parts: &'e Parts<'a>,
    grid: Grid,
    node: &'e Node,
) -> Work<'e, Value<'a>> {
    Box::pin(async move {
        if fixed::is_once(parts, &grid, node) {
            return fixed::once(env, parts, grid, node).await;
        }
        match node {
            Node::Number(value) => Ok(Value::Scalar(numbers(env.bump, grid.count, *value)?)),
            Node::Text(text) => Ok(Value::Text(value::text(env.bump, text)?)),
            Node::Part {
                index,
                kind: Kind::Matrix,
            } => raw(parts, *index),
            Node::Part { index, kind } => lay(env, &parts[*index].samples, &grid, *kind).await,
            Node::Subquery(subquery) => range_of(env, parts, &grid, subquery).await,
            Node::Call {
                function,
                arguments,
            } => call(env, parts, &grid, function, arguments).await,
            Node::Aggregate(aggregate) => {
                let parameter = match &aggregate.parameter {
                    Some(parameter) => Some(evaluate(env, parts, grid, parameter).await?),
                    None => None,
                };
                let input = evaluate(env, parts, grid, &aggregate.input).await?;
                let input = input.into_vector();
                let is_aggregated = has_part(parts, &aggregate.input, |part| part.is_aggregated);
                env.order.set(is_aggregated);
                if matches!(aggregate.operator, "stddev" | "stdvar") {
                    env.watch.set(is_in_parts(parts, &aggregate.input));
                    tie::note_among(env, &input).await;
                }
                let made = aggregate::aggregate(env, &grid, aggregate, parameter, input).await?;
                Ok(Value::Vector(made))
            }
            Node::Binary(binary) => {
                let left = evaluate(env, parts, grid, &binary.left).await?;
                let right = evaluate(env, parts, grid, &binary.right).await?;
                env.watch.set(is_in_parts(parts, node));
                binary::binary(env, &grid, binary, left, right).await
            }
            Node::Negate(input) => {
                let input = evaluate(env, parts, grid, input).await?;
                binary::negate(env, &grid, input).await
            }
            Node::Selector(_) => Err(EvalError::Execution(
                "a selector was not fetched".to_owned(),
            )),
        }
    })
}

/// Puts the answer of a part on the grid that it was asked for.
async fn lay<'a>(
    env: &Env<'a>,
    samples: &[Samples<'a>],
    grid: &Grid,
    kind: Kind,
) -> Outcome<Value<'a>> {
    if kind == Kind::Scalar {
        let column = numbers(env.bump, grid.count, f64::NAN)?;
        for (time, value) in samples.iter().flat_map(|one| one.floats) {
            if let Some(at) = grid.index(*time) {
                column[at] = *value;
            }
        }
        return Ok(Value::Scalar(column));
    }
    let mut vector = Vec::with_capacity(samples.len());
    for one in samples {
        let mut column = Column::absent(env.bump, grid.count)?;
        for (time, value) in one.floats {
            if let Some(at) = grid.index(*time) {
                column.floats[at] = *value;
            }
        }
        for (time, histogram) in one.histograms {
            if let Some(at) = grid.index(*time) {
                column.put_histogram(env.bump, at, histogram)?;
            }
        }
        env.pace.spend(64 + 8 * grid.count).await;
        vector.push(Series {
            labels: one.labels,
            column,
        });
    }
    Ok(Value::Vector(vector))
}

/// Evaluates the input of a subquery at its own steps.
async fn range_of<'a>(
    env: &Env<'a>,
    parts: &Parts<'a>,
    outer: &Grid,
    subquery: &Subquery,
) -> Outcome<Value<'a>> {
    let windows = Windows {
        clock: env.clock,
        when: subquery.when,
        range_ms: crate::query::milliseconds(subquery.range),
    };
    let grid = env.clock.inner(subquery, outer);
    let input = evaluate(env, parts, grid, &subquery.input).await?;
    let series = match input {
        Value::Vector(series) => series,
        Value::Scalar(floats) => vec![Series {
            labels: &[],
            column: Column {
                floats,
                histograms: None,
            },
        }],
        _ => Vec::new(),
    };
    let mut samples = Vec::with_capacity(series.len());
    for one in series {
        samples.push(samples_of(env, &grid, &one)?);
        env.pace.spend(64 + 16 * grid.count).await;
    }
    Ok(Value::Range(windows, samples))
}

/// The samples of a column, with their times.
fn samples_of<'a>(env: &Env<'a>, grid: &Grid, series: &Series<'a>) -> Outcome<Samples<'a>> {
    let column = &series.column;
    let present = column
        .floats
        .iter()
        .filter(|value| !is_absent(**value))
        .count();
    let floats = env
        .bump
        .try_alloc_slice_fill_copy(present, (0i64, ABSENT))
        .map_err(value::full)?;
    let with_value = column
        .floats
        .iter()
        .enumerate()
        .filter(|(_, v)| !is_absent(**v));
    for (slot, (at, value)) in floats.iter_mut().zip(with_value) {
        *slot = (grid.time(at), *value);
    }
    let mut histograms = Vec::new();
    if let Some(all) = &column.histograms {
        let found = all.iter().enumerate();
        histograms.extend(found.filter_map(|(at, one)| one.map(|one| (grid.time(at), one))));
    }
    Ok(Samples {
        labels: series.labels,
        floats,
        histograms: value::slice(env.bump, &histograms)?,
    })
}

/// Functions with a last argument that is what an earlier one stood for, kept for its matchers.
const TELLS_LABELS: [&str; 2] = ["absent", "absent_over_time"];

async fn call<'a>(
    env: &Env<'a>,
    parts: &Parts<'a>,
    grid: &Grid,
    function: &str,
    nodes: &[Node],
) -> Outcome<Value<'a>> {
    let evaluated = match function {
        _ if TELLS_LABELS.contains(&function) => &nodes[..nodes.len().min(1)],
        "info" => &nodes[..nodes.len().min(2)],
        _ => nodes,
    };
    let mut arguments = Vec::with_capacity(evaluated.len());
    for node in evaluated {
        arguments.push(evaluate(env, parts, *grid, node).await?);
    }
    let has_range = arguments
        .iter()
        .any(|value| matches!(value, Value::Range(..)));
    // Few operations look.
    env.watch
        .set(nodes.iter().any(|node| is_in_parts(parts, node)));
    if tie::tells_apart_in_range(function)
        && let Some(Value::Range(_, samples)) = arguments.first()
    {
        for one in samples {
            tie::note_in_range(&env.watch, one.floats);
            env.pace.spend(32 + 2 * one.floats.len()).await;
        }
    }
    match has_range && !TELLS_LABELS.contains(&function) {
        true => range::call(env, grid, function, arguments).await,
        false => function::call(env, grid, function, arguments, nodes).await,
    }
}

/// Whether sums that were computed in parts are in it.
fn is_in_parts(parts: &Parts<'_>, node: &Node) -> bool {
    has_part(parts, node, |part| part.is_in_parts)
}

fn has_part(parts: &Parts<'_>, node: &Node, is_wanted: impl Fn(&PartData<'_>) -> bool) -> bool {
    let is_one = |node: &Node| match node {
        Node::Part { index, .. } => parts.get(*index).is_some_and(&is_wanted),
        _ => false,
    };
    node.find(&is_one).is_some()
}

/// Raw samples as they were fetched.
fn raw<'a>(parts: &Parts<'a>, index: usize) -> Outcome<Value<'a>> {
    let part = &parts[index];
    let copy = |one: &Samples<'a>| Samples { ..*one };
    match part.windows {
        Some(windows) => Ok(Value::Range(
            windows,
            part.samples.iter().map(copy).collect(),
        )),
        None => Err(EvalError::Execution("a range was not fetched".to_owned())),
    }
}
