//! What takes floats and histograms alike: counting changes and resets, sums and averages.

use super::window::Window;
use super::{CHUNK, Context, Function, SAMPLE_UNITS, Sample};
use crate::eval::error::Outcome;
use crate::eval::native::{Accumulator, Clash, Histogram};

/// `changes` and `resets`.
pub(super) async fn transitions<'a>(
    context: &Context<'_, 'a>,
    window: &Window<'_, 'a>,
) -> Outcome<Sample<'a>> {
    let env = context.env;
    let counts_resets = context.function == Function::Resets;
    let is_new = env.dialect().is_at_least(3, 0);
    if !is_new && !counts_resets && window.floats.is_empty() {
        return Ok(Sample::None);
    }
    let mut count = 0u64;
    if !is_new || window.histograms.is_empty() {
        for at in 1..window.floats.len() {
            if at % CHUNK == 0 {
                env.pace.spend(SAMPLE_UNITS * CHUNK).await;
            }
            let (before, now) = (window.floats[at - 1].1, window.floats[at].1);
            count += u64::from(is_transition(counts_resets, before, now));
        }
        if counts_resets {
            for pair in window.histograms.windows(2) {
                env.pace.spend(pair[0].1.units() + pair[1].1.units()).await;
                count += u64::from(pair[1].1.is_reset_after(pair[0].1));
            }
        }
        return Ok(Sample::Float(count as f64));
    }
    let mut floats = window.floats.iter().peekable();
    let mut histograms = window.histograms.iter().peekable();
    let mut before = Sample::None;
    loop {
        let takes_float = match (floats.peek(), histograms.peek()) {
            (None, None) => return Ok(Sample::Float(count as f64)),
            (Some(float), Some(histogram)) => float.0 < histogram.0,
            (float, None) => float.is_some(),
            (None, Some(_)) => false,
        };
        let next = match takes_float {
            true => floats
                .next()
                .map_or(Sample::None, |one| Sample::Float(one.1)),
            false => histograms
                .next()
                .map_or(Sample::None, |one| Sample::Histogram(one.1)),
        };
        count += u64::from(match (before, next) {
            (Sample::None, _) | (_, Sample::None) => false,
            (Sample::Float(before), Sample::Float(now)) => {
                is_transition(counts_resets, before, now)
            }
            (Sample::Histogram(before), Sample::Histogram(now)) => match counts_resets {
                true => now.is_reset_after(before),
                false => !now.equals(before),
            },
            _ => true,
        });
        let units = match next {
            Sample::Histogram(histogram) => 2 * histogram.units(),
            _ => SAMPLE_UNITS,
        };
        env.pace.spend(units).await;
        before = next;
    }
}

fn is_transition(counts_resets: bool, before: f64, now: f64) -> bool {
    match counts_resets {
        true => now < before,
        false => now != before && !(now.is_nan() && before.is_nan()),
    }
}

/// `sum_over_time` and `avg_over_time` of a window with histograms.
pub(super) async fn combined<'a>(
    context: &Context<'_, 'a>,
    window: &Window<'_, 'a>,
) -> Outcome<Sample<'a>> {
    if !window.floats.is_empty() {
        context.warn_mixed();
        return Ok(Sample::None);
    }
    let mut made = Accumulator::new();
    for (at, (_, histogram)) in window.histograms.iter().enumerate() {
        context
            .env
            .pace
            .spend(4 * (histogram.units() + made.units()))
            .await;
        let added = match (at, context.function) {
            (0, _) => {
                made = Accumulator::of(histogram);
                Ok(())
            }
            (at, Function::Avg) => move_mean(&mut made, histogram, (at + 1) as f64),
            _ => made.add(histogram),
        };
        if let Err(clash) = added {
            context.warn_clash(clash);
            return Ok(Sample::None);
        }
    }
    Ok(Sample::Histogram(made.finish(context.env.bump)?))
}

/// Moves `mean` of `count - 1` histograms by the difference that one more makes.
fn move_mean(mean: &mut Accumulator, next: &Histogram<'_>, count: f64) -> Result<(), Clash> {
    let mut share = mean.clone();
    share.divide(count);
    let mut moved = Accumulator::of(next);
    moved.divide(count);
    moved.take(share, -1.0)?;
    mean.take(moved, 1.0)
}
