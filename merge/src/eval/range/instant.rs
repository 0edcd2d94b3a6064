//! `irate` and `idelta`: the difference between the last two samples of a window.

use super::window::Window;
use super::{Context, Sample};
use crate::eval::error::Outcome;
use crate::eval::native::Accumulator;

/// The difference between the last two samples.
pub(super) fn instant<'a>(
    context: &Context<'_, 'a>,
    window: &Window<'_, 'a>,
    is_rate: bool,
) -> Outcome<Sample<'a>> {
    let knows_histograms = context.env.dialect().is_at_least(3, 0);
    let mut latest: Vec<(i64, Sample<'a>)> = Vec::with_capacity(4);
    for (time, value) in window.floats.iter().rev().take(2) {
        latest.push((*time, Sample::Float(*value)));
    }
    if knows_histograms {
        for (time, histogram) in window.histograms.iter().rev().take(2) {
            latest.push((*time, Sample::Histogram(histogram)));
        }
    }
    latest.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let [last, before, ..] = latest.as_slice() else {
        return Ok(Sample::None);
    };
    if last.0 == before.0 {
        return Ok(Sample::None);
    }
    let seconds = (last.0 - before.0) as f64 / 1000.0;
    match (last.1, before.1) {
        (Sample::Float(last), Sample::Float(before)) => {
            let difference = match is_rate && last < before {
                true => last,
                false => last - before,
            };
            let divisor = if is_rate { seconds } else { 1.0 };
            Ok(Sample::Float(difference / divisor))
        }
        (Sample::Histogram(last), Sample::Histogram(before)) => {
            if !is_rate {
                context.warn_no_gauge();
            }
            let mut difference = Accumulator::of(last);
            if (!is_rate || !last.is_reset_after(before))
                && let Err(clash) = difference.sub(before)
            {
                context.warn_clash(clash);
                return Ok(Sample::None);
            }
            if is_rate {
                difference.divide(seconds);
            }
            Ok(Sample::Histogram(difference.finish(context.env.bump)?))
        }
        _ => {
            context.warn_mixed();
            Ok(Sample::None)
        }
    }
}
