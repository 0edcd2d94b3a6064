//! Functions of range vectors.
//!
//! Owns the walk over the windows of a range: for each series, two places move forward through its
//! samples, so a sample enters a window once and leaves it once. What a function makes of a window
//! is in the files below. Called by the evaluator, for whatever call has a range among its
//! arguments. Promises turns of bounded work however long a window is.

mod extrapolate;
mod fold;
mod instant;
mod mixed;
mod rank;
#[cfg(test)]
mod tests;
mod window;

use super::env::Env;
use super::error::{EvalError, Outcome};
use super::native::Histogram;
use super::unite::refuse_twice;
use super::value::{ABSENT, Column, Samples, Series, Value, Windows, is_absent, without_name};
use crate::labels::Label;
use crate::plan::Grid;
use window::{Track, Window};

/// Samples that are worked on between two looks at the turn.
const CHUNK: usize = 1024;
/// Units for a sample of a simple loop.
const SAMPLE_UNITS: usize = 4;

/// What is made of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    /// `rate`, `increase`, `delta`.
    Extrapolated {
        is_counter: bool,
        is_rate: bool,
    },
    /// `irate`, `idelta`.
    Instant {
        is_rate: bool,
    },
    Changes,
    Resets,
    Deriv,
    PredictLinear,
    Smoothed,
    Avg,
    Sum,
    Min,
    Max,
    Stddev,
    Stdvar,
    Count,
    Present,
    First,
    Last,
    Quantile,
    Mad,
    /// `ts_of_…_over_time`.
    TimeOf(Moment),
}

/// Whose time is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    First,
    Last,
    Min,
    Max,
}

impl Function {
    fn named(name: &str) -> Option<Self> {
        let extrapolated = |is_counter, is_rate| Self::Extrapolated {
            is_counter,
            is_rate,
        };
        Some(match name {
            "rate" => extrapolated(true, true),
            "increase" => extrapolated(true, false),
            "delta" => extrapolated(false, false),
            "irate" => Self::Instant { is_rate: true },
            "idelta" => Self::Instant { is_rate: false },
            "changes" => Self::Changes,
            "resets" => Self::Resets,
            "deriv" => Self::Deriv,
            "predict_linear" => Self::PredictLinear,
            "holt_winters" | "double_exponential_smoothing" => Self::Smoothed,
            "avg_over_time" => Self::Avg,
            "sum_over_time" => Self::Sum,
            "min_over_time" => Self::Min,
            "max_over_time" => Self::Max,
            "stddev_over_time" => Self::Stddev,
            "stdvar_over_time" => Self::Stdvar,
            "count_over_time" => Self::Count,
            "present_over_time" => Self::Present,
            "first_over_time" => Self::First,
            "last_over_time" => Self::Last,
            "quantile_over_time" => Self::Quantile,
            "mad_over_time" => Self::Mad,
            "ts_of_first_over_time" => Self::TimeOf(Moment::First),
            "ts_of_last_over_time" => Self::TimeOf(Moment::Last),
            "ts_of_min_over_time" => Self::TimeOf(Moment::Min),
            "ts_of_max_over_time" => Self::TimeOf(Moment::Max),
            _ => return None,
        })
    }

    /// Whether results keep the metric name.
    fn keeps_name(self) -> bool {
        matches!(self, Self::First | Self::Last)
    }

    /// Whether a histogram counts as a histogram in the versions that took it for a zero else.
    fn knew_histograms(self) -> bool {
        matches!(self, Self::Extrapolated { .. })
    }
}

/// The sample that a window gives.
#[derive(Debug, Clone, Copy)]
enum Sample<'a> {
    None,
    Float(f64),
    Histogram(&'a Histogram<'a>),
}

/// What is the same for all windows of one series.
struct Context<'e, 'a> {
    env: &'e Env<'a>,
    function: Function,
    /// The metric's name, for annotations.
    name: &'a str,
    range_ms: i64,
}

/// Calls a function of which one argument is a range; scalar arguments have a value for each step.
pub(crate) async fn call<'a>(
    env: &Env<'a>,
    grid: &Grid,
    function: &str,
    arguments: Vec<Value<'a>>,
) -> Outcome<Value<'a>> {
    let not_known = || EvalError::Execution(format!("{function}() of a range is not known"));
    let kind = Function::named(function).ok_or_else(not_known)?;
    let mut range = None;
    let mut scalars = Vec::new();
    for argument in arguments {
        match argument {
            Value::Range(windows, samples) => range = Some((windows, samples)),
            Value::Scalar(column) => scalars.push(&*column),
            Value::Vector(_) | Value::Text(_) => return Err(not_known()),
        }
    }
    let (windows, samples) = range.ok_or_else(not_known)?;
    let needed = match kind {
        Function::Quantile | Function::PredictLinear => 1,
        Function::Smoothed => 2,
        _ => 0,
    };
    let fits = |column: &&[f64]| column.len() >= grid.count;
    if scalars.len() != needed || !scalars.iter().all(fits) {
        return Err(not_known());
    }
    let mut made = Vec::with_capacity(samples.len());
    for one in &samples {
        let column = over_series(env, grid, kind, &windows, one, &scalars).await?;
        let Some(column) = column else { continue };
        let labels = match kind.keeps_name() {
            true => one.labels,
            false => without_name(env.bump, one.labels)?,
        };
        note_counter(env, kind, one.labels, &column);
        made.push(Series { labels, column });
    }
    // Names are dropped, so two series may have become one. Series of one name are still in order.
    let labels: Vec<_> = made.iter().map(|one| one.labels).collect();
    refuse_twice(env, &labels).await?;
    Ok(Value::Vector(made))
}

/// Calls the function at every step for one series. `None` if there is no sample at any.
async fn over_series<'a>(
    env: &Env<'a>,
    grid: &Grid,
    function: Function,
    windows: &Windows,
    samples: &Samples<'a>,
    scalars: &[&[f64]],
) -> Outcome<Option<Column<'a>>> {
    let context = Context {
        env,
        function,
        name: name_of(samples.labels),
        range_ms: windows.range_ms,
    };
    let depends = function == Function::PredictLinear
        || scalars
            .iter()
            .any(|one| one.iter().any(|value| *value != one[0]));
    let mut track = Track::new(&context, windows, samples).await?;
    let mut column: Option<Column<'a>> = None;
    let mut previous: Option<((i64, i64), Sample<'a>)> = None;
    for step in 0..grid.count {
        let time = grid.time(step);
        let bounds = bounds(env, grid, windows, time, depends);
        let sample = match previous {
            Some((same, sample)) if same == bounds && !depends => sample,
            _ => {
                env.pace.spend(32).await;
                let window = track.at(env, bounds).await;
                match window.is_empty() {
                    true => Sample::None,
                    false => {
                        let at = |number: usize| scalars.get(number).map_or(0.0, |one| one[step]);
                        over_window(&context, &window, time, (at(0), at(1))).await?
                    }
                }
            }
        };
        previous = Some((bounds, sample));
        if matches!(sample, Sample::None) {
            continue;
        }
        let column = match &mut column {
            Some(column) => column,
            none => none.insert(Column::absent(env.bump, grid.count)?),
        };
        match sample {
            Sample::Histogram(histogram) => column.put_histogram(env.bump, step, histogram)?,
            Sample::Float(value) if !is_absent(value) => column.floats[step] = value,
            Sample::Float(_) => column.floats[step] = f64::NAN,
            Sample::None => column.floats[step] = ABSENT,
        }
    }
    Ok(column)
}

/// The bounds of the window of a step.
fn bounds(
    env: &Env<'_>,
    grid: &Grid,
    windows: &Windows,
    time_ms: i64,
    depends_on_step: bool,
) -> (i64, i64) {
    let (from, to) = windows.at(time_ms);
    // Versions before 2.47 move a window that `@` fixes along with the steps, over samples that
    // end with the first window. It shows where the result depends on the step, not only on the
    // window.
    let moves = windows.when.at.is_some() && depends_on_step && !env.dialect().is_at_least(2, 47);
    match moves {
        true => (from.saturating_add(time_ms - grid.start_ms), to),
        false => (from, to),
    }
}

/// Calls the function for one window that is not empty.
async fn over_window<'a>(
    context: &Context<'_, 'a>,
    window: &Window<'_, 'a>,
    time_ms: i64,
    (first, second): (f64, f64),
) -> Outcome<Sample<'a>> {
    let (env, function) = (context.env, context.function);
    match function {
        Function::Extrapolated {
            is_counter,
            is_rate,
        } => return extrapolate::extrapolated(context, window, is_counter, is_rate).await,
        Function::Instant { is_rate } => return instant::instant(context, window, is_rate),
        Function::Changes | Function::Resets => return mixed::transitions(context, window).await,
        Function::Sum | Function::Avg if !window.histograms.is_empty() => {
            return mixed::combined(context, window).await;
        }
        Function::Count => {
            let count = window.floats.len() + window.histograms.len();
            return Ok(Sample::Float(count as f64));
        }
        Function::Present => return Ok(Sample::Float(1.0)),
        Function::First => return Ok(window.first().1),
        Function::Last => return Ok(window.last().1),
        Function::TimeOf(Moment::First) => return Ok(seconds(window.first().0)),
        Function::TimeOf(Moment::Last) => return Ok(seconds(window.last().0)),
        _ => {}
    }
    if function == Function::Smoothed {
        fold::check_factors(first, second)?;
    }
    let least = match function {
        Function::Deriv | Function::PredictLinear | Function::Smoothed => 2,
        _ => 1,
    };
    if !window.histograms.is_empty() && !window.floats.is_empty() {
        context.inform_ignored();
    }
    if window.floats.len() < least {
        return Ok(Sample::None);
    }
    let floats = window.floats;
    Ok(Sample::Float(match function {
        Function::Quantile => {
            if !(0.0..=1.0).contains(&first) {
                context.warn_quantile(first);
            }
            rank::quantile(env, floats, first, &|value| value).await?
        }
        Function::Mad => {
            let median = rank::quantile(env, floats, 0.5, &|value| value).await?;
            rank::quantile(env, floats, 0.5, &|value| (value - median).abs()).await?
        }
        _ => fold::fold(context, floats, time_ms, (first, second)).await,
    }))
}

fn seconds<'a>(time_ms: i64) -> Sample<'a> {
    Sample::Float(time_ms as f64 / 1000.0)
}

fn name_of<'a>(labels: &[Label<'a>]) -> &'a str {
    let name = labels.iter().find(|label| label.name == "__name__");
    name.map_or("", |label| label.value)
}

/// Endings of the names of counters.
const COUNTER_ENDINGS: [&str; 4] = ["_total", "_sum", "_count", "_bucket"];

/// Tells of a rate over what is no counter by its name.
fn note_counter(env: &Env<'_>, function: Function, labels: &[Label<'_>], column: &Column<'_>) {
    let is_rate = matches!(
        function,
        Function::Extrapolated {
            is_counter: true,
            ..
        }
    );
    let name = name_of(labels);
    if is_rate
        && env.dialect().is_at_least(2, 48)
        && !name.is_empty()
        && !COUNTER_ENDINGS.iter().any(|ending| name.ends_with(ending))
        && column.floats.iter().any(|value| !is_absent(*value))
    {
        env.inform(&format!(
            "metric might not be a counter, name does not end in \
             _total/_sum/_count/_bucket: {name:?}"
        ));
    }
}

impl Context<'_, '_> {
    /// A warning that versions before 2.48 did not have.
    fn warn(&self, text: &str) {
        if self.env.dialect().is_at_least(2, 48) {
            self.env.warn(&format!("{text} {:?}", self.name));
        }
    }

    fn warn_mixed(&self) {
        self.warn("encountered a mix of histograms and floats for metric name");
    }

    fn warn_clash(&self, clash: super::native::Clash) {
        use super::native::Clash;
        self.warn(match clash {
            Clash::Scales => {
                "vector contains a mix of histograms with exponential and custom buckets schemas \
                 for metric name"
            }
            Clash::Bounds => {
                "vector contains histograms with incompatible custom buckets for metric name"
            }
        });
    }

    fn warn_no_gauge(&self) {
        self.warn("this native histogram metric is not a gauge:");
    }

    fn warn_quantile(&self, quantile: f64) {
        if self.env.dialect().is_at_least(2, 48) {
            let mut text = b"quantile value should be between 0 and 1, got ".to_vec();
            crate::number::write_float(&mut text, quantile);
            self.env.warn(&String::from_utf8_lossy(&text));
        }
    }

    fn inform_ignored(&self) {
        if self.env.dialect().is_at_least(3, 2) {
            self.env.inform(&format!(
                "ignored histograms in a range containing both floats and histograms for metric \
                 name {:?}",
                self.name
            ));
        }
    }
}
