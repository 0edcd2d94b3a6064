//! Windows over the samples of one series.

use super::{CHUNK, Context, Function, SAMPLE_UNITS, Sample};
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::native::Histogram;
use crate::eval::value::{Samples, Windows, slice};

/// The samples of one window, and at which of them a counter was reset.
#[derive(Debug)]
pub(super) struct Window<'t, 'a> {
    /// Bounds in milliseconds.
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) floats: &'a [(i64, f64)],
    pub(super) histograms: &'a [(i64, &'a Histogram<'a>)],
    /// Indexes into `floats` of samples that are below the one before, which is in the window too.
    pub(super) float_resets: Places<'t>,
    /// The same for `histograms`.
    pub(super) histogram_resets: Places<'t>,
}

/// Indexes into a window.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Places<'t> {
    all: &'t [usize],
    /// Index of the window's first sample.
    first: usize,
}

impl Places<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.all.iter().map(|at| at - self.first)
    }
}

impl<'a> Window<'_, 'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.floats.is_empty() && self.histograms.is_empty()
    }

    /// The earliest sample and its time; of two at one time, the histogram.
    pub(super) fn first(&self) -> (i64, Sample<'a>) {
        match (self.floats.first(), self.histograms.first()) {
            (Some(float), Some(histogram)) if float.0 < histogram.0 => {
                (float.0, Sample::Float(float.1))
            }
            (_, Some(histogram)) => (histogram.0, Sample::Histogram(histogram.1)),
            (Some(float), None) => (float.0, Sample::Float(float.1)),
            (None, None) => (0, Sample::None),
        }
    }

    /// The latest sample and its time; of two at one time, the histogram.
    pub(super) fn last(&self) -> (i64, Sample<'a>) {
        match (self.floats.last(), self.histograms.last()) {
            (Some(float), Some(histogram)) if float.0 > histogram.0 => {
                (float.0, Sample::Float(float.1))
            }
            (_, Some(histogram)) => (histogram.0, Sample::Histogram(histogram.1)),
            (Some(float), None) => (float.0, Sample::Float(float.1)),
            (None, None) => (0, Sample::None),
        }
    }
}

/// The samples of a series with the place of the current window in them.
#[derive(Debug)]
pub(super) struct Track<'a> {
    floats: &'a [(i64, f64)],
    histograms: &'a [(i64, &'a Histogram<'a>)],
    is_left_open: bool,
    float_resets: Vec<usize>,
    histogram_resets: Vec<usize>,
    float_place: Place,
    histogram_place: Place,
}

/// What lies in a window: samples `low..high`, of which `resets_low..resets_high` of the resets.
#[derive(Debug, Default)]
struct Place {
    low: usize,
    high: usize,
    resets_low: usize,
    resets_high: usize,
}

impl<'a> Track<'a> {
    pub(super) async fn new(
        context: &Context<'_, 'a>,
        windows: &Windows,
        samples: &Samples<'a>,
    ) -> Outcome<Self> {
        let env = context.env;
        let (mut floats, mut histograms) = (samples.floats, samples.histograms);
        let is_old = !env.dialect().is_at_least(2, 43) && !context.function.knew_histograms();
        if is_old && !histograms.is_empty() {
            floats = with_zeros(env, floats, histograms).await?;
            histograms = &[];
        }
        let counts = matches!(
            context.function,
            Function::Extrapolated {
                is_counter: true,
                ..
            }
        );
        let mut float_resets = Vec::new();
        let mut histogram_resets = Vec::new();
        if counts {
            for at in 1..floats.len() {
                if at % CHUNK == 0 {
                    env.pace.spend(SAMPLE_UNITS * CHUNK).await;
                }
                if floats[at].1 < floats[at - 1].1 {
                    float_resets.push(at);
                }
            }
            for (before, pair) in histograms.windows(2).enumerate() {
                env.pace.spend(pair[0].1.units() + pair[1].1.units()).await;
                if pair[1].1.is_reset_after(pair[0].1) {
                    histogram_resets.push(before + 1);
                }
            }
        }
        Ok(Self {
            floats,
            histograms,
            is_left_open: windows.is_left_open(),
            float_resets,
            histogram_resets,
            float_place: Place::default(),
            histogram_place: Place::default(),
        })
    }

    /// The window with these bounds; those of later steps are never before those of earlier ones.
    pub(super) async fn at(&mut self, env: &Env<'a>, (from, to): (i64, i64)) -> Window<'_, 'a> {
        let opens = match self.is_left_open {
            true => from.saturating_add(1),
            false => from,
        };
        let (floats, histograms) = (self.floats, self.histograms);
        let place = &mut self.float_place;
        place
            .walk(env, |at| floats.get(at).map(|one| one.0), (opens, to))
            .await;
        place.pass_resets(&self.float_resets);
        let place = &mut self.histogram_place;
        place
            .walk(env, |at| histograms.get(at).map(|one| one.0), (opens, to))
            .await;
        place.pass_resets(&self.histogram_resets);
        Window {
            from,
            to,
            floats: &floats[self.float_place.samples()],
            histograms: &histograms[self.histogram_place.samples()],
            float_resets: self.float_place.resets(&self.float_resets),
            histogram_resets: self.histogram_place.resets(&self.histogram_resets),
        }
    }
}

impl Place {
    async fn walk(
        &mut self,
        env: &Env<'_>,
        time: impl Fn(usize) -> Option<i64>,
        (from, to): (i64, i64),
    ) {
        while time(self.high).is_some_and(|time| time <= to) {
            self.high += 1;
            if self.high.is_multiple_of(CHUNK) {
                env.pace.spend(SAMPLE_UNITS * CHUNK).await;
            }
        }
        while self.low < self.high && time(self.low).is_some_and(|time| time < from) {
            self.low += 1;
            if self.low.is_multiple_of(CHUNK) {
                env.pace.spend(SAMPLE_UNITS * CHUNK).await;
            }
        }
    }

    /// A reset counts where the sample before it is in the window too.
    fn pass_resets(&mut self, resets: &[usize]) {
        while resets
            .get(self.resets_high)
            .is_some_and(|at| *at < self.high)
        {
            self.resets_high += 1;
        }
        while self.resets_low < self.resets_high && resets[self.resets_low] <= self.low {
            self.resets_low += 1;
        }
    }

    fn samples(&self) -> std::ops::Range<usize> {
        self.low..self.high
    }

    fn resets<'t>(&self, all: &'t [usize]) -> Places<'t> {
        Places {
            all: &all[self.resets_low..self.resets_high],
            first: self.low,
        }
    }
}

/// All samples as floats, histograms as zeros: how versions before 2.43 saw them.
async fn with_zeros<'a>(
    env: &Env<'a>,
    floats: &[(i64, f64)],
    histograms: &[(i64, &Histogram<'_>)],
) -> Outcome<&'a [(i64, f64)]> {
    let mut all = Vec::with_capacity(floats.len() + histograms.len());
    all.extend_from_slice(floats);
    all.extend(histograms.iter().map(|(time, _)| (*time, 0.0)));
    env.pace.spend(16 * all.len()).await;
    all.sort_by_key(|(time, _)| *time);
    slice(env.bump, &all)
}
