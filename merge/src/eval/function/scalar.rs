//! Functions from and to scalars.

use super::arguments::Arguments;
use super::{CHUNK_STEPS, unknown};
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::value::{Column, Series, Value, is_absent, numbers};
use crate::plan::Grid;

/// Calls a function that takes or gives a scalar.
pub(super) async fn call<'a>(
    env: &Env<'a>,
    grid: &Grid,
    function: &str,
    mut given: Arguments<'a>,
) -> Outcome<Value<'a>> {
    let whole = env.clock.grid;
    let constant = match function {
        "scalar" => return scalar(env, grid, given.vector()).await,
        "vector" => return Ok(vector(given.scalar()?)),
        "time" => return time(env, grid).await,
        "max_of" | "min_of" => {
            let (left, right) = (given.scalar()?, given.scalar()?);
            let pick = match function {
                "max_of" => super::math::greater,
                _ => super::math::lesser,
            };
            for (to, from) in left.chunks_mut(CHUNK_STEPS).zip(right.chunks(CHUNK_STEPS)) {
                env.pace.spend(8 * to.len()).await;
                for (to, from) in to.iter_mut().zip(from) {
                    *to = pick(*to, *from);
                }
            }
            return Ok(Value::Scalar(left));
        }
        "pi" => std::f64::consts::PI,
        "start" => seconds(whole.start_ms),
        "end" => seconds(whole.end_ms()),
        "range" => seconds(whole.end_ms() - whole.start_ms),
        // An instant query has no step.
        "step" if whole.count == 1 && whole.step_ms == 1 => 0.0,
        "step" => seconds(whole.step_ms),
        _ => return Err(unknown(function)),
    };
    Ok(Value::Scalar(numbers(env.bump, grid.count, constant)?))
}

/// Milliseconds as seconds.
pub(super) fn seconds(time_ms: i64) -> f64 {
    time_ms as f64 / 1000.0
}

async fn time<'a>(env: &Env<'a>, grid: &Grid) -> Outcome<Value<'a>> {
    let column = numbers(env.bump, grid.count, 0.0)?;
    for (index, chunk) in column.chunks_mut(CHUNK_STEPS).enumerate() {
        env.pace.spend(8 * chunk.len()).await;
        for (at, value) in chunk.iter_mut().enumerate() {
            *value = seconds(grid.time(index * CHUNK_STEPS + at));
        }
    }
    Ok(Value::Scalar(column))
}

fn vector(column: &mut [f64]) -> Value<'_> {
    Value::Vector(vec![Series {
        labels: &[],
        column: Column {
            floats: column,
            histograms: None,
        },
    }])
}

/// The only sample of each step, else NaN. Since 3.0 histograms do not count; before, they count
/// and are worth 0.
async fn scalar<'a>(env: &Env<'a>, grid: &Grid, series: Vec<Series<'a>>) -> Outcome<Value<'a>> {
    let counts_histograms = !env.dialect().is_at_least(3, 0);
    let values = numbers(env.bump, grid.count, f64::NAN)?;
    let found = numbers(env.bump, grid.count, 0.0)?;
    for one in &series {
        for step in 0..grid.count {
            if step % CHUNK_STEPS == 0 {
                env.pace.spend(64 + 4 * CHUNK_STEPS.min(grid.count)).await;
            }
            let value = one.column.floats[step];
            let is_histogram = counts_histograms && one.column.histogram(step).is_some();
            if is_absent(value) && !is_histogram {
                continue;
            }
            found[step] += 1.0;
            values[step] = match (found[step] > 1.0, is_histogram) {
                (true, _) => f64::NAN,
                (false, true) => 0.0,
                (false, false) => value,
            };
        }
    }
    Ok(Value::Scalar(values))
}
