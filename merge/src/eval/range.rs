//! Functions of range vectors.

use super::env::Env;
use super::error::{EvalError, Outcome};
use super::value::Value;
use crate::plan::Grid;

/// Calls a function of which one argument is a range; scalar arguments have a value for each step.
pub(crate) async fn call<'a>(
    env: &Env<'a>,
    grid: &Grid,
    function: &str,
    arguments: Vec<Value<'a>>,
) -> Outcome<Value<'a>> {
    let _ = (env, grid, arguments);
    Err(EvalError::Execution(format!("{function}() is not built")))
}
