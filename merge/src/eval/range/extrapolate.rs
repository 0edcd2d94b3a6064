//! `rate`, `increase` and `delta`: the difference between the ends of a window, extrapolated to
//! its bounds.

use super::window::Window;
use super::{Context, Sample};
use crate::eval::error::Outcome;
use crate::eval::native::{Accumulator, Clash};

/// The extrapolated difference.
pub(super) async fn extrapolated<'a>(
    context: &Context<'_, 'a>,
    window: &Window<'_, 'a>,
    is_counter: bool,
    is_rate: bool,
) -> Outcome<Sample<'a>> {
    let (floats, histograms) = (window.floats, window.histograms);
    match (floats, histograms) {
        ([_, ..], [_, ..]) => {
            context.warn_mixed();
            Ok(Sample::None)
        }
        ([first, .., last], []) => {
            let mut difference = last.1 - first.1;
            if is_counter {
                for at in window.float_resets.iter() {
                    difference += floats[at - 1].1;
                }
            }
            let ends = Ends {
                first_ms: first.0,
                last_ms: last.0,
                gaps: floats.len() - 1,
                from_zero: (is_counter && difference > 0.0 && first.1 >= 0.0)
                    .then(|| first.1 / difference),
            };
            let factor = ends.factor(context, window, is_rate);
            Ok(Sample::Float(difference * factor))
        }
        ([], [first, .., last]) => {
            let mut difference = match histogram_difference(context, window, is_counter).await {
                Ok(difference) => difference,
                Err(clash) => {
                    context.warn_clash(clash);
                    return Ok(Sample::None);
                }
            };
            if !is_counter {
                // The API does not tell gauges from counters, and servers scrape counters.
                context.warn_no_gauge();
            }
            let (count, grown) = (first.1.count(), difference.count());
            let minds_zero = is_counter && context.env.dialect().is_at_least(3, 6);
            let ends = Ends {
                first_ms: first.0,
                last_ms: last.0,
                gaps: histograms.len() - 1,
                from_zero: (minds_zero && grown > 0.0 && count >= 0.0).then(|| count / grown),
            };
            difference.scale(ends.factor(context, window, is_rate));
            Ok(Sample::Histogram(difference.finish(context.env.bump)?))
        }
        _ => Ok(Sample::None),
    }
}

/// Last minus first, and what was counted before each reset.
async fn histogram_difference(
    context: &Context<'_, '_>,
    window: &Window<'_, '_>,
    is_counter: bool,
) -> Result<Accumulator, Clash> {
    let histograms = window.histograms;
    let Some(last) = histograms.last() else {
        return Ok(Accumulator::new());
    };
    let mut difference = Accumulator::of(last.1);
    let resets = || window.histogram_resets.iter().filter(|_| is_counter);
    // A counter that was reset right after the first sample did not grow from there.
    if resets().next() != Some(1) {
        difference.sub(histograms[0].1)?;
    }
    for at in resets().filter(|at| *at > 1) {
        let before = histograms[at - 1].1;
        context
            .env
            .pace
            .spend(before.units() + difference.units())
            .await;
        difference.add(before)?;
    }
    context.env.pace.spend(2 * difference.units()).await;
    Ok(difference)
}

/// The samples at the ends of a window.
struct Ends {
    first_ms: i64,
    last_ms: i64,
    /// How many gaps are between the samples.
    gaps: usize,
    /// Of a counter that grew: how many times the sampled time it took to grow from zero.
    from_zero: Option<f64>,
}

impl Ends {
    /// What the difference is multiplied by.
    fn factor(&self, context: &Context<'_, '_>, window: &Window<'_, '_>, is_rate: bool) -> f64 {
        let seconds = |ms: i64| ms as f64 / 1000.0;
        let mut to_start = seconds(self.first_ms - window.from);
        let mut to_end = seconds(window.to - self.last_ms);
        let sampled = seconds(self.last_ms - self.first_ms);
        let average = sampled / self.gaps as f64;
        let to_zero = self.from_zero.map(|times| sampled * times);
        // Nearer than that to a bound, the series is taken to reach it; else half a gap further.
        let threshold = average * 1.1;
        let starts_at_zero = |to_start: &mut f64| {
            if let Some(to_zero) = to_zero
                && to_zero < *to_start
            {
                *to_start = to_zero;
            }
        };
        // Before 2.52 the way to zero was looked at first, and so could hide a series' beginning.
        let looks_first = !context.env.dialect().is_at_least(2, 52);
        if looks_first {
            starts_at_zero(&mut to_start);
        }
        if to_start >= threshold {
            to_start = average / 2.0;
        }
        if !looks_first {
            starts_at_zero(&mut to_start);
        }
        if to_end >= threshold {
            to_end = average / 2.0;
        }
        let factor = (sampled + to_start + to_end) / sampled;
        match is_rate {
            true => factor / seconds(context.range_ms),
            false => factor,
        }
    }
}
