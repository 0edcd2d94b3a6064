//! Functions of one number, applied to every sample.

use super::CHUNK_STEPS;
use super::arguments::Arguments;
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::value::{ABSENT, Column, Series, is_absent, numbers};
use crate::plan::Grid;

/// What a function makes of native histograms, by version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnHistogram {
    /// Left out since 2.44; before, they are worth 0.
    Elementary,
    /// Left out since 3.0; before, they are worth 0.
    Other,
}

/// Units of work of a simple function, for each sample.
pub(super) const SIMPLE: usize = 8;

/// Applies `function`, given the step and the float there, to all floats. It takes `units` of work
/// for each.
pub(super) async fn map<'a>(
    env: &Env<'a>,
    mut series: Vec<Series<'a>>,
    on_histogram: OnHistogram,
    units: usize,
    function: impl Fn(usize, f64) -> f64,
) -> Outcome<Vec<Series<'a>>> {
    let at_once = SIMPLE * CHUNK_STEPS / units;
    let dialect = env.dialect();
    let is_left_out = match on_histogram {
        OnHistogram::Elementary => dialect.is_at_least(2, 44),
        OnHistogram::Other => dialect.is_at_least(3, 0),
    };
    for one in &mut series {
        take_histograms(env, &mut one.column, is_left_out).await;
        for (index, chunk) in one.column.floats.chunks_mut(at_once).enumerate() {
            env.pace.spend(64 + units * chunk.len()).await;
            for (at, value) in chunk.iter_mut().enumerate() {
                if !is_absent(*value) {
                    *value = function(index * at_once + at, *value);
                }
            }
        }
    }
    Ok(series)
}

/// Takes the histograms out of a column; zeros come in their place unless they are left out.
async fn take_histograms(env: &Env<'_>, column: &mut Column<'_>, is_left_out: bool) {
    let Some(histograms) = column.histograms.take() else {
        return;
    };
    if is_left_out {
        return;
    }
    for (floats, histograms) in column
        .floats
        .chunks_mut(CHUNK_STEPS)
        .zip(histograms.chunks(CHUNK_STEPS))
    {
        env.pace.spend(4 * floats.len()).await;
        for (float, histogram) in floats.iter_mut().zip(histograms) {
            if histogram.is_some() {
                *float = 0.0;
            }
        }
    }
}

/// The greater of two: infinity before NaN before numbers, and 0 over -0.
pub(super) fn greater(left: f64, right: f64) -> f64 {
    match (left, right) {
        _ if left == f64::INFINITY || right == f64::INFINITY => f64::INFINITY,
        _ if left.is_nan() || right.is_nan() => f64::NAN,
        _ if left == 0.0 && right == 0.0 && left.is_sign_negative() => right,
        _ if left < right => right,
        _ => left,
    }
}

/// The lesser of two: negative infinity before NaN before numbers, and -0 under 0.
pub(super) fn lesser(left: f64, right: f64) -> f64 {
    -greater(-left, -right)
}

/// Rounds to the nearest multiple of `nearest` (of 1 where there is none), halves up.
pub(super) async fn round<'a>(
    env: &Env<'a>,
    series: Vec<Series<'a>>,
    nearest: Option<&'a mut [f64]>,
) -> Outcome<Vec<Series<'a>>> {
    let nearest = nearest.as_deref();
    map(env, series, OnHistogram::Other, SIMPLE, |step, value| {
        // Its inverse loses less in the usual cases, such as 0.1.
        let inverse = 1.0 / nearest.map_or(1.0, |column| column[step]);
        (value * inverse + 0.5).floor() / inverse
    })
    .await
}

/// The bounds of `clamp`, for each step.
#[derive(Debug)]
pub(super) struct Bounds<'a> {
    lower: &'a mut [f64],
    upper: &'a mut [f64],
}

impl<'a> Bounds<'a> {
    pub(super) fn read(
        env: &Env<'a>,
        grid: &Grid,
        function: &str,
        given: &mut Arguments<'a>,
    ) -> Outcome<Self> {
        let open = |bound| numbers(env.bump, grid.count, bound);
        Ok(match function {
            "clamp_min" => Self {
                lower: given.scalar()?,
                upper: open(f64::INFINITY)?,
            },
            "clamp_max" => Self {
                lower: open(f64::NEG_INFINITY)?,
                upper: given.scalar()?,
            },
            _ => Self {
                lower: given.scalar()?,
                upper: given.scalar()?,
            },
        })
    }
}

/// Keeps values within bounds; a step whose bounds are crossed is empty.
pub(super) async fn clamp<'a>(
    env: &Env<'a>,
    series: Vec<Series<'a>>,
    bounds: Bounds<'a>,
) -> Outcome<Vec<Series<'a>>> {
    map(env, series, OnHistogram::Other, SIMPLE, |step, value| {
        let (lower, upper) = (bounds.lower[step], bounds.upper[step]);
        match upper < lower {
            true => ABSENT,
            false => greater(lower, lesser(upper, value)),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_prefer_infinity_to_nan_and_mind_the_sign_of_zero() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        assert_eq!(greater(nan, inf), inf);
        assert!(greater(nan, -inf).is_nan());
        assert_eq!(lesser(-inf, nan), -inf);
        assert!(lesser(inf, nan).is_nan());
        assert!(greater(-0.0, 0.0).is_sign_positive());
        assert!(greater(0.0, -0.0).is_sign_positive());
        assert!(lesser(0.0, -0.0).is_sign_negative());
        assert!(lesser(-0.0, 0.0).is_sign_negative());
        assert_eq!((greater(1.0, 2.0), lesser(1.0, 2.0)), (2.0, 1.0));
    }
}
