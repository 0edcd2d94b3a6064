//! Functions that ask native histograms for a number.

use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::native::Histogram;
use crate::eval::value::{ABSENT, Series, numbers};

/// The function of that name, if it asks a native histogram alone.
pub(super) fn asked(name: &str) -> Option<fn(&Histogram<'_>) -> f64> {
    Some(match name {
        "histogram_count" => |histogram| histogram.count(),
        "histogram_sum" => |histogram| histogram.sum(),
        "histogram_avg" => |histogram| histogram.avg(),
        "histogram_stddev" => |histogram| histogram.stddev(),
        "histogram_stdvar" => |histogram| histogram.stdvar(),
        _ => return None,
    })
}

/// Puts what the histograms say in their places. Floats are left out.
pub(super) async fn ask<'a>(
    env: &Env<'a>,
    series: Vec<Series<'a>>,
    asked: fn(&Histogram<'_>) -> f64,
) -> Outcome<Vec<Series<'a>>> {
    let mut made = Vec::new();
    for mut one in series {
        env.pace.spend(64).await;
        let Some(histograms) = one.column.histograms.take() else {
            continue;
        };
        one.column.floats = numbers(env.bump, histograms.len(), ABSENT)?;
        for (float, histogram) in one.column.floats.iter_mut().zip(histograms) {
            env.pace.spend(8).await;
            if let Some(histogram) = histogram {
                *float = asked(histogram);
                env.pace.spend(histogram.units()).await;
            }
        }
        made.push(one);
    }
    Ok(made)
}
