//! Aggregations over the series of one vector.

use super::env::Env;
use super::error::{EvalError, Outcome};
use super::value::{Series, Value};
use crate::plan::Grid;
use crate::query::Aggregate;

/// Aggregates `input`.
pub(crate) async fn aggregate<'a>(
    env: &Env<'a>,
    grid: &Grid,
    aggregate: &Aggregate,
    parameter: Option<Value<'a>>,
    input: Vec<Series<'a>>,
) -> Outcome<Vec<Series<'a>>> {
    let _ = (env, grid, parameter, input);
    Err(EvalError::Execution(format!(
        "{} is not built",
        aggregate.operator
    )))
}
