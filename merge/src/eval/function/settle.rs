//! What becomes of series whose labels a function changed: no two may be the same.
//!
//! Prometheus joins the results of a function step by step, so series that come to have the same
//! labels are one, unless they have a sample at the same step. Functions that look at labels
//! only are evaluated once for all steps in later versions; see [`Twice::Whole`].

use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::unite::{refuse_twice, same_labels, unite};
use crate::eval::value::Series;

/// When two series of one label set are an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Twice {
    /// Where both have a sample at one step.
    AtOneStep,
    /// Where both have a sample at all.
    Whole,
}

/// Joins the series that have the same labels; they keep the place of the first. Series without samples are left out.
pub(super) async fn join<'a>(
    env: &Env<'a>,
    mut series: Vec<Series<'a>>,
    twice: Twice,
) -> Outcome<Vec<Series<'a>>> {
    if twice == Twice::AtOneStep {
        return unite(env, series).await?.map_err(|_| same_labels());
    }
    series.retain(|one| !one.column.is_empty());
    let labels: Vec<_> = series.iter().map(|one| one.labels).collect();
    refuse_twice(env, &labels).await?;
    Ok(series)
}
