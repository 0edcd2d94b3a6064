//! Parameters of aggregations: what they may be, and what is said where they may not.
//!
//! Servers from 2.53 to 3.4 took the first step's parameter for all; the others take each step's.

use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::text::number;
use crate::eval::value::Series;

/// The largest and the least number that the servers turn into a count.
const COUNT_MAX: f64 = 9_223_372_036_854_774_784.0;
const COUNT_MIN: f64 = -9_223_372_036_854_775_808.0;

/// The parameter of each step.
pub(super) fn of_steps<'a>(env: &Env<'a>, column: &'a mut [f64]) -> &'a mut [f64] {
    if takes_first(env)
        && let Some(first) = column.first().copied()
    {
        column.fill(first);
    }
    column
}

fn takes_first(env: &Env<'_>) -> bool {
    env.dialect().is_at_least(2, 53) && !env.dialect().is_at_least(3, 5)
}

/// The largest value; not a number where one is not.
fn largest(column: &[f64]) -> f64 {
    column.iter().fold(f64::NEG_INFINITY, |most, value| {
        match most.is_nan() || value.is_nan() {
            true => f64::NAN,
            false => most.max(*value),
        }
    })
}

/// The least value; not a number where one is not.
fn least(column: &[f64]) -> f64 {
    -largest(&column.iter().map(|value| -value).collect::<Vec<_>>())
}

/// Whether any series has a sample at a step.
fn is_asked(input: &[Series<'_>], step: usize) -> bool {
    input.iter().any(|one| one.column.has(step))
}

fn fail<T>(text: String) -> Outcome<T> {
    Err(EvalError::Execution(text))
}

/// How many series are wanted at each step.
pub(super) fn counts(env: &Env<'_>, column: &[f64], input: &[Series<'_>]) -> Outcome<Vec<usize>> {
    let dialect = env.dialect();
    if dialect.is_at_least(3, 5) && largest(column) < 1.0 {
        return Ok(vec![0; column.len()]);
    }
    if dialect.is_at_least(3, 6) {
        if column.iter().any(|value| value.is_nan()) {
            return fail("Parameter value is NaN".to_owned());
        }
        let (least, largest) = (least(column), largest(column));
        if least <= COUNT_MIN {
            return fail(format!("Scalar value {} underflows int64", number(least)));
        }
        if largest >= COUNT_MAX {
            return fail(format!("Scalar value {} overflows int64", number(largest)));
        }
    }
    let mut counts = Vec::with_capacity(column.len());
    for (step, value) in column.iter().enumerate() {
        let is_count = (COUNT_MIN..=COUNT_MAX).contains(value);
        // 3.5 looks at the parameter when it needs it.
        if !is_count && (!dialect.is_at_least(3, 5) || is_asked(input, step)) {
            return fail(format!("Scalar value {} overflows int64", number(*value)));
        }
        // Negative numbers and NaN become 0.
        counts.push(*value as usize);
    }
    Ok(counts)
}

/// The share of the series that is wanted at each step.
pub(super) fn ratios<'c>(
    env: &Env<'_>,
    column: &'c mut [f64],
    input: &[Series<'_>],
) -> Outcome<&'c [f64]> {
    let dialect = env.dialect();
    let (least, largest) = (least(column), largest(column));
    let is_nothing = least == 0.0 && largest == 0.0;
    if is_nothing {
        return Ok(column);
    }
    for (step, value) in column.iter().enumerate() {
        if !value.is_nan() {
            continue;
        }
        if dialect.is_at_least(3, 6) {
            return fail("Ratio value is NaN".to_owned());
        }
        if !dialect.is_at_least(3, 5) || is_asked(input, step) {
            return fail("Ratio value NaN is NaN".to_owned());
        }
    }
    for (extreme, bound) in [(largest, 1.0), (least, -1.0)] {
        if extreme.abs() > 1.0 && extreme.signum() == bound {
            env.warn(&format!(
                "ratio value should be between -1 and 1, got {}, capping to {bound}",
                number(extreme)
            ));
        }
    }
    for value in &mut *column {
        *value = value.clamp(-1.0, 1.0);
    }
    Ok(column)
}

/// Warns of quantiles that are none. Servers before 2.48 had no warnings.
pub(super) fn check_quantiles(env: &Env<'_>, column: &[f64]) {
    let dialect = env.dialect();
    let is_quantile = |value: f64| (0.0..=1.0).contains(&value);
    let warn = |value: f64| {
        let value = number(value);
        env.warn(&format!(
            "quantile value should be between 0 and 1, got {value}"
        ));
    };
    if dialect.is_at_least(3, 5) {
        if column.iter().any(|value| value.is_nan()) {
            warn(f64::NAN);
        }
        for extreme in [largest(column), least(column)] {
            if !extreme.is_nan() && !column.is_empty() && !is_quantile(extreme) {
                warn(extreme);
            }
        }
    } else if dialect.is_at_least(2, 48) {
        let strange = column.iter().copied().filter(|value| !is_quantile(*value));
        strange.for_each(warn);
    }
}
