//! Aggregations over the series of one vector.
//!
//! Groups are made once, from the series' labels; what they come to is computed step by step, a
//! series with no sample at a step counting as absent there. Groups stand in the order of their
//! first series.

mod count_values;
mod fold;
mod histograms;
mod parameter;
mod quantile;
mod ratio;
#[cfg(test)]
mod tests;
mod top;

use super::env::Env;
use super::error::{EvalError, Outcome};
use super::keys::{Keys, Projection};
use super::value::{Series, Value};
use crate::labels::Label;
use crate::plan::Grid;
use crate::query::Aggregate;

/// Aggregates `input`.
pub(crate) async fn aggregate<'a>(
    env: &Env<'a>,
    grid: &Grid,
    aggregate: &Aggregate,
    parameter: Option<Value<'a>>,
    mut input: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    for one in &mut input {
        env.pace.spend(32 + one.column.floats.len() / 16).await;
    }
    input.retain(|one| !one.column.is_empty());
    let operator = aggregate.operator;
    if operator == "count_values" {
        let Some(Value::Text(label)) = parameter else {
            return Err(EvalError::BadData(
                "count_values needs a string as its parameter".to_owned(),
            ));
        };
        return count_values::count(env, grid, aggregate, label, input).await;
    }
    let parameter = match parameter {
        Some(Value::Scalar(column)) => parameter::of_steps(env, column),
        _ => &mut [],
    };
    histograms::prepare(env, operator, &mut input).await;
    match operator {
        "topk" | "bottomk" | "limitk" => {
            let counts = parameter::counts(env, parameter, &input)?;
            let groups = Groups::new(env, aggregate, &input).await?;
            top::select(env, grid, operator, &counts, &groups, input).await
        }
        "limit_ratio" => {
            let ratios = parameter::ratios(env, parameter, &input)?;
            let groups = Groups::new(env, aggregate, &input).await?;
            ratio::select(env, grid, ratios, &groups, input).await
        }
        "quantile" => {
            parameter::check_quantiles(env, parameter);
            let groups = Groups::new(env, aggregate, &input).await?;
            quantile::of_groups(env, grid, parameter, groups, input).await
        }
        _ => {
            let groups = Groups::new(env, aggregate, &input).await?;
            fold::of_groups(env, grid, operator, groups, input).await
        }
    }
}

/// The groups of a vector.
#[derive(Debug)]
struct Groups<'a> {
    labels: Vec<&'a [Label<'a>]>,
    /// The series of each, by index, in order.
    members: Vec<Vec<usize>>,
}

impl<'a> Groups<'a> {
    async fn new(env: &Env<'a>, aggregate: &Aggregate, input: &[Series<'a>]) -> Outcome<Self> {
        let projection = Projection::of_groups(&aggregate.grouping);
        let mut keys = Keys::new(env.bump, projection);
        let mut members: Vec<Vec<usize>> = Vec::new();
        for (index, one) in input.iter().enumerate() {
            env.pace.spend(64).await;
            let number = keys.number(one.labels)?;
            members.resize_with(keys.count(), Vec::new);
            members[number].push(index);
        }
        Ok(Self {
            labels: keys.into_labels(),
            members,
        })
    }
}
