//! Functions of vectors, scalars and strings.
//!
//! [`call`] is the one registry of them; each family has a file. Functions that take a range are
//! [`super::range`]'s, except `absent_over_time`.

mod absent;
mod arguments;
mod classic_histogram;
mod clock;
mod info;
mod labels;
mod matcher;
mod math;
mod native_histogram;
mod order;
mod pattern;
mod scalar;
mod settle;
mod sort;

use super::elementary;
use super::env::Env;
use super::error::{EvalError, Outcome};
use super::tie;
use super::unite::drop_names;
use super::value::{Series, Value};
use crate::plan::Grid;
use crate::query::Node;
use arguments::Arguments;

/// Steps of a column that are worked on between two turns.
const CHUNK_STEPS: usize = 1024;

/// Calls a function whose arguments are scalars, vectors and strings. `nodes` are the arguments as
/// written; of `absent` and `absent_over_time` the second one is the expression whose matchers
/// give the labels, and the first value may be a range; of `info` the third one is the selector
/// whose matchers name the data labels.
pub(crate) async fn call<'a>(
    env: &Env<'a>,
    grid: &Grid,
    function: &str,
    arguments: Vec<Value<'a>>,
    nodes: &[Node],
) -> Outcome<Value<'a>> {
    let (major, minor) = since(function);
    if !env.dialect().is_at_least(major, minor) {
        return Err(unknown(function));
    }
    let mut given = Arguments::new(arguments);
    if let Some(elementary) = elementary::function(function) {
        let watch = &env.watch;
        let series = math::map(
            env,
            given.vector(),
            math::OnHistogram::Elementary,
            elementary::units(function),
            |_, x| {
                if watch.is_on() {
                    watch.note(tie::is_steep_at(function, x));
                }
                elementary(x)
            },
        );
        return unnamed(env, series.await?).await;
    }
    if let Some(part) = clock::date_part(function) {
        return match given.next() {
            Some(Value::Vector(series)) => {
                let made = math::map(
                    env,
                    series,
                    math::OnHistogram::Other,
                    math::SIMPLE,
                    |_, seconds| {
                        env.watch.note(tie::is_at_second(seconds));
                        part(clock::Date::of(seconds))
                    },
                );
                unnamed(env, made.await?).await
            }
            _ => clock::now(env, grid, part).await,
        };
    }
    if let Some(asked) = native_histogram::asked(function) {
        let series = native_histogram::ask(env, given.vector(), asked).await?;
        return unnamed(env, series).await;
    }
    match function {
        "absent" | "absent_over_time" => {
            absent::absent(env, grid, given.next(), nodes.get(1)).await
        }
        "round" => {
            let series = given.vector();
            let made = math::round(env, series, given.optional_scalar());
            unnamed(env, made.await?).await
        }
        "clamp" | "clamp_min" | "clamp_max" => {
            let series = given.vector();
            let bounds = math::Bounds::read(env, grid, function, &mut given)?;
            unnamed(env, math::clamp(env, series, bounds).await?).await
        }
        "timestamp" => unnamed(env, clock::timestamp(env, grid, given.vector()).await?).await,
        "histogram_quantile" | "histogram_quantiles" | "histogram_fraction" => {
            classic_histogram::call(env, grid, function, given).await
        }
        "sort" | "sort_desc" | "sort_by_label" | "sort_by_label_desc" => {
            sort::call(env, grid, function, given).await
        }
        "label_replace" | "label_join" => labels::call(env, function, given).await,
        "info" => info::info(env, grid, given, nodes.get(2)).await,
        _ => scalar::call(env, grid, function, given).await,
    }
}

/// The version that brought a function, of those that not every supported version has.
fn since(function: &str) -> (u32, u32) {
    match function {
        "histogram_stddev" | "histogram_stdvar" => (2, 48),
        "sort_by_label" | "sort_by_label_desc" => (2, 50),
        "histogram_avg" => (2, 51),
        "info" => (3, 0),
        "histogram_quantiles" | "max_of" | "min_of" | "start" | "end" | "step" | "range" => (3, 6),
        _ => (0, 0),
    }
}

/// A vector whose series lose their metric name.
async fn unnamed<'a>(env: &Env<'a>, series: Vec<Series<'a>>) -> Outcome<Value<'a>> {
    Ok(Value::Vector(drop_names(env, series).await?))
}

/// What is said of a function that is not known here.
fn unknown(function: &str) -> EvalError {
    EvalError::BadData(format!(
        "invalid parameter \"query\": parse error: unknown function with name \"{function}\""
    ))
}

#[cfg(test)]
mod tests;
