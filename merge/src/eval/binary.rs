//! Binary operators and unary minus.

use super::env::Env;
use super::error::{EvalError, Outcome};
use super::value::Value;
use crate::plan::Grid;
use crate::query::Binary;

/// Applies a binary operator. Vectors' series keep the order in which Prometheus gives them.
pub(crate) async fn binary<'a>(
    env: &Env<'a>,
    grid: &Grid,
    binary: &Binary,
    left: Value<'a>,
    right: Value<'a>,
) -> Outcome<Value<'a>> {
    let _ = (env, grid, left, right);
    Err(EvalError::Execution(format!(
        "{} is not built",
        binary.operator
    )))
}

/// Unary minus.
pub(crate) async fn negate<'a>(env: &Env<'a>, grid: &Grid, input: Value<'a>) -> Outcome<Value<'a>> {
    let _ = (env, grid, input);
    Err(EvalError::Execution("- is not built".to_owned()))
}
