//! Functions that ask native histograms for a number.

use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::native::Histogram;
use crate::eval::value::Series;

/// The function of that name, if it asks a native histogram alone.
pub(super) fn asked(name: &str) -> Option<fn(&Histogram<'_>) -> f64> {
    let _ = name;
    None
}

/// The sum of a histogram's observations.
pub(super) fn sum(histogram: &Histogram<'_>) -> f64 {
    let _ = histogram;
    f64::NAN
}

/// Puts what the histograms say in their places. Floats are left out.
pub(super) async fn ask<'a>(
    env: &Env<'a>,
    mut series: Vec<Series<'a>>,
    asked: fn(&Histogram<'_>) -> f64,
) -> Outcome<Vec<Series<'a>>> {
    for one in &mut series {
        let steps = one.column.floats.len();
        let histograms = one.column.histograms.take();
        for step in 0..steps {
            env.pace.spend(8).await;
            let histogram = histograms.as_ref().and_then(|all| all[step]);
            one.column.floats[step] = histogram.map_or(crate::eval::value::ABSENT, asked);
            if histogram.is_some() {
                env.pace.spend(256).await;
            }
        }
    }
    series.retain(|one| !one.column.is_empty());
    Ok(series)
}
