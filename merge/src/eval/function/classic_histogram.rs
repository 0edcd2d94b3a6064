//! `histogram_quantile` and `histogram_fraction` over the buckets of classic histograms, and over
//! native ones beside them.
//!
//! Buckets are series that differ in `le` only. They are grouped and sorted once; each step takes
//! those that have a sample there.

mod buckets;

use std::collections::HashMap;

use super::arguments::Arguments;
use super::labels::{value_of, with_label};
use super::{order, settle, unknown};
use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::native::Histogram;
use crate::eval::value::{Column, Series, Value, is_absent, text, without_name};
use crate::labels::Label;
use crate::plan::{Dialect, Grid};
use buckets::Bucket;

/// What is asked of a histogram.
#[derive(Debug)]
enum Question<'a> {
    Quantile(&'a mut [f64]),
    Fraction(&'a mut [f64], &'a mut [f64]),
}

/// The buckets of one classic histogram.
struct Classic<'a> {
    /// All labels but `le`.
    labels: &'a [Label<'a>],
    /// Upper bounds and the series of the buckets, sorted by bound.
    buckets: Vec<(f64, usize)>,
}

/// The histograms of a vector.
struct Sorted<'a> {
    series: Vec<Series<'a>>,
    classic: Vec<Classic<'a>>,
    /// Which classic histogram has these labels.
    places: HashMap<&'a [Label<'a>], usize>,
}

/// Calls one of these functions.
pub(super) async fn call<'a>(
    env: &Env<'a>,
    grid: &Grid,
    function: &str,
    mut given: Arguments<'a>,
) -> Outcome<Value<'a>> {
    let mut made = Vec::new();
    match function {
        "histogram_quantile" => {
            let quantiles = given.scalar()?;
            warn_of_quantiles(env, quantiles).await;
            let sorted = sort(env, given.vector(), env.dialect().is_at_least(2, 48)).await?;
            answer(
                env,
                grid,
                &sorted,
                &Question::Quantile(quantiles),
                &mut made,
            )
            .await?;
        }
        "histogram_fraction" => {
            let question = Question::Fraction(given.scalar()?, given.scalar()?);
            // Classic histograms have fractions since 3.4.
            let warns = env.dialect().is_at_least(3, 4);
            let mut sorted = sort(env, given.vector(), warns).await?;
            if !warns {
                sorted.classic.clear();
                sorted.places.clear();
            }
            answer(env, grid, &sorted, &question, &mut made).await?;
        }
        "histogram_quantiles" => {
            let sorted = sort(env, given.vector(), true).await?;
            let label = given.text()?;
            while given.count() > 0 {
                let quantiles = given.scalar()?;
                warn_of_quantiles(env, quantiles).await;
                let asked = quantiles.first().copied().unwrap_or_default();
                let from = made.len();
                answer(
                    env,
                    grid,
                    &sorted,
                    &Question::Quantile(quantiles),
                    &mut made,
                )
                .await?;
                let asked = text(env.bump, &open_metrics_number(asked))?;
                for one in &mut made[from..] {
                    one.labels = with_label(env, one.labels, label, asked)?;
                    env.pace.spend(64).await;
                }
            }
        }
        _ => return Err(unknown(function)),
    }
    let joined = settle::join(env, made, settle::Twice::AtOneStep).await?;
    Ok(Value::Vector(joined))
}

/// Finds the classic histograms of a vector.
async fn sort<'a>(env: &Env<'a>, series: Vec<Series<'a>>, warns: bool) -> Outcome<Sorted<'a>> {
    let mut sorted = Sorted {
        classic: Vec::new(),
        places: HashMap::with_capacity(series.len() / 8),
        series,
    };
    for (at, one) in sorted.series.iter().enumerate() {
        env.pace
            .spend(64 + 16 * one.labels.len() + one.column.floats.len())
            .await;
        if one.column.floats.iter().all(|value| is_absent(*value)) {
            continue;
        }
        let written = value_of(one.labels, "le");
        let Some(bound) = buckets::bound(written) else {
            if warns {
                env.warn(&format!(
                    "bucket label \"le\" is missing or has a malformed value of {written:?} for metric name {:?}",
                    value_of(one.labels, "__name__")
                ));
            }
            continue;
        };
        let labels = with_label(env, one.labels, "le", "")?;
        let classic = &mut sorted.classic;
        let place = *sorted.places.entry(labels).or_insert_with(|| {
            classic.push(Classic {
                labels,
                buckets: Vec::new(),
            });
            classic.len() - 1
        });
        classic[place].buckets.push((bound, at));
    }
    for one in &mut sorted.classic {
        order::sort(env, &mut one.buckets, |a, b| a.0.total_cmp(&b.0)).await;
    }
    Ok(sorted)
}

/// Appends the answers of all histograms.
async fn answer<'a>(
    env: &Env<'a>,
    grid: &Grid,
    sorted: &Sorted<'a>,
    question: &Question<'a>,
    made: &mut Vec<Series<'a>>,
) -> Outcome<()> {
    // Steps at which a classic histogram gives way, by its place.
    let mut clashes: HashMap<usize, usize> = HashMap::new();
    for (at, one) in sorted.series.iter().enumerate() {
        let Some(histograms) = &one.column.histograms else {
            continue;
        };
        let classic = sorted.places.get(one.labels).copied();
        if let Some(place) = classic {
            clashes.insert(place, at);
        }
        let column = Column::absent(env.bump, grid.count)?;
        for (step, histogram) in histograms.iter().enumerate() {
            env.pace.spend(8).await;
            let Some(histogram) = histogram else {
                continue;
            };
            env.pace.spend(histogram.units()).await;
            if classic.is_some_and(|place| sorted.has_bucket(place, step)) {
                env.warn(&format!(
                    "vector contains a mix of classic and native histograms for metric name {:?}",
                    value_of(one.labels, "__name__")
                ));
                continue;
            }
            column.floats[step] = question.ask_native(histogram, step, env.dialect());
        }
        let labels = without_name(env.bump, one.labels)?;
        made.push(Series { labels, column });
    }
    for (place, classic) in sorted.classic.iter().enumerate() {
        let native = clashes.get(&place).map(|at| &sorted.series[*at].column);
        let column = ask_classic(env, grid, sorted, classic, question, native).await?;
        let labels = without_name(env.bump, classic.labels)?;
        made.push(Series { labels, column });
    }
    Ok(())
}

/// Asks one classic histogram at each step, except where `native` has a histogram.
async fn ask_classic<'a>(
    env: &Env<'a>,
    grid: &Grid,
    sorted: &Sorted<'a>,
    classic: &Classic<'a>,
    question: &Question<'a>,
    native: Option<&Column<'a>>,
) -> Outcome<Column<'a>> {
    let column = Column::absent(env.bump, grid.count)?;
    // Whether counts were raised at the first step with buckets, and at a later one.
    let (mut is_later, mut is_forced) = (false, [false; 2]);
    let mut present: Vec<Bucket> = Vec::with_capacity(classic.buckets.len());
    for step in 0..grid.count {
        env.pace.spend(16).await;
        if native.is_some_and(|column| column.histogram(step).is_some()) {
            continue;
        }
        present.clear();
        for (bound, at) in &classic.buckets {
            env.pace.spend(16).await;
            let count = sorted.series[*at].column.floats[step];
            if !is_absent(count) {
                present.push(Bucket {
                    bound: *bound,
                    count,
                });
            }
        }
        if !present.is_empty() {
            let (value, forced) = question.ask_classic(&mut present, step, env.dialect());
            column.floats[step] = value;
            is_forced[usize::from(std::mem::replace(&mut is_later, true))] |= forced;
        }
    }
    if env.dialect().is_at_least(2, 48) {
        // The name is dropped on the way: before 3.0 at once, then with the first answer.
        let keeps_name = env.dialect().is_at_least(3, 0);
        for name in match is_forced {
            [true, later] if keeps_name => [
                Some(value_of(classic.labels, "__name__")),
                later.then_some(""),
            ],
            [first, later] => [None, (first || later).then_some("")],
        }
        .into_iter()
        .flatten()
        {
            env.inform(&format!(
                "input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile) for metric name {name:?}"
            ));
        }
    }
    Ok(column)
}

impl Sorted<'_> {
    /// Whether a classic histogram has a bucket at a step.
    fn has_bucket(&self, place: usize, step: usize) -> bool {
        let mut buckets = self.classic[place].buckets.iter();
        buckets.any(|(_, at)| !is_absent(self.series[*at].column.floats[step]))
    }
}

impl Question<'_> {
    fn ask_native(&self, histogram: &Histogram<'_>, step: usize, dialect: Dialect) -> f64 {
        match self {
            Self::Quantile(quantiles) => histogram.quantile(quantiles[step], dialect),
            Self::Fraction(lower, upper) => histogram.fraction(lower[step], upper[step], dialect),
        }
    }

    /// The answer, and whether counts had to be raised to the counts of lower buckets.
    fn ask_classic(&self, present: &mut Vec<Bucket>, step: usize, dialect: Dialect) -> (f64, bool) {
        match self {
            Self::Quantile(quantiles) => buckets::quantile(quantiles[step], present, dialect),
            Self::Fraction(lower, upper) => {
                let value = buckets::fraction(lower[step], upper[step], present, dialect);
                (value, false)
            }
        }
    }
}

/// Warns of quantiles that are none.
async fn warn_of_quantiles(env: &Env<'_>, quantiles: &[f64]) {
    if !env.dialect().is_at_least(2, 48) {
        return;
    }
    for chunk in quantiles.chunks(super::CHUNK_STEPS) {
        env.pace.spend(4 * chunk.len()).await;
        for quantile in chunk.iter().filter(|q| !(0.0..=1.0).contains(*q)) {
            env.pace.spend(64).await;
            env.warn(&format!(
                "quantile value should be between 0 and 1, got {}",
                shortest(*quantile)
            ));
        }
    }
}

/// A number as messages of the servers have it: with an exponent below 1e-4 and from 1e6.
fn shortest(value: f64) -> String {
    let mut text = Vec::new();
    crate::number::write_float(&mut text, value);
    let is_plain = value == 0.0 || !value.is_finite() || (1e-4..1e6).contains(&value.abs());
    if is_plain {
        return String::from_utf8_lossy(&text).into_owned();
    }
    let text = format!("{value:e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = match power.strip_prefix('-') {
        Some(power) => ('-', power),
        None => ('+', power),
    };
    format!("{digits}e{sign}{power:0>2}")
}

/// A number as a label value in the exposition format: whole ones end in `.0`.
fn open_metrics_number(value: f64) -> String {
    let text = shortest(value);
    let is_whole = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if is_whole { text + ".0" } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{noted, run};
    use super::*;

    const BUCKETS: &str = concat!(
        "x_bucket{le=\"1\"} 10 0\n",
        "x_bucket{le=\"2\"} 20 _\n",
        "x_bucket{le=\"+Inf\"} 40 0\n",
    );

    #[test]
    fn quantiles_are_asked_at_each_step() {
        let ask = |quantile| run((3, 5), 2, "histogram_quantile", &[quantile, BUCKETS]);
        assert_eq!(ask("0.25"), "{} 1 NaN");
        assert_eq!(ask("0.375"), "{} 1.5 NaN");
        assert_eq!(ask("0.9 NaN"), "{} 2 NaN");
        assert_eq!(ask("-1 2"), "{} -Inf +Inf");
    }

    #[test]
    fn histograms_differ_in_more_than_le() {
        let given = concat!(
            "x{a=\"1\",le=\"1\"} 1\nx{a=\"2\",le=\"1\"} 2\nx{le=\"inf\",a=\"1\"} 2\n",
            "x{a=\"2\",le=\"+Inf\"} 2\nx{a=\"3\",le=\"1\"} 9\nx{a=\"4\"} 9",
        );
        let said = run((3, 5), 1, "histogram_quantile", &["0.5", given]);
        assert_eq!(said, "{a=\"1\"} 1\n{a=\"2\"} 0.5\n{a=\"3\"} NaN");
        let twice = "x{le=\"1\"} 1\ny{le=\"1\"} 1";
        assert_eq!(
            run((3, 5), 1, "histogram_quantile", &["0.5", twice]),
            "422 vector cannot contain metrics with the same labelset"
        );
    }

    #[test]
    fn notes_name_the_metric_from_3_0() {
        let given = "x{le=\"1\"} 2\nx{le=\"2\"} 1\nx{le=\"+Inf\"} 3\nx{le=\"a\"} 3";
        let fixed = "input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile) for metric name";
        let bad = "PromQL warning: bucket label \"le\" is missing or has a malformed value of \"a\" for metric name \"x\"";
        let ask = |dialect| noted(dialect, 1, "histogram_quantile", &["0.5", given]);
        let info = |name| vec![format!("PromQL info: {fixed} \"{name}\"")];
        assert_eq!(ask((2, 42)), (vec![], vec![]));
        assert_eq!(ask((2, 53)), (vec![bad.to_owned()], info("")));
        assert_eq!(ask((3, 5)), (vec![bad.to_owned()], info("x")));
        let later = concat!(
            "x{le=\"1\"} 2 2\nx{le=\"+Inf\"} 3 1\n",
            "y{a=\"1\",le=\"+Inf\"} 1 _"
        );
        let said = noted((3, 5), 2, "histogram_quantile", &["0.5", later]);
        assert_eq!(said, (vec![], info("")));
        let said = noted((3, 5), 1, "histogram_quantile", &["1.5", ""]);
        let wrong = "PromQL warning: quantile value should be between 0 and 1, got 1.5";
        assert_eq!(said, (vec![wrong.to_owned()], vec![]));
    }

    #[test]
    fn fractions_of_classic_histograms_came_with_3_4() {
        let given = "x{le=\"0\"} 1\nx{le=\"2\"} 3\nx{le=\"+Inf\"} 4";
        let ask = |dialect| run(dialect, 1, "histogram_fraction", &["0", "1", given]);
        assert_eq!(ask((3, 3)), "");
        assert_eq!(ask((3, 4)), "{} 0.25");
    }

    #[test]
    fn numbers_are_written_short() {
        let cases = [
            (1.5, "1.5", "1.5"),
            (1.0, "1", "1.0"),
            (-2.0, "-2", "-2.0"),
            (1e-5, "1e-05", "1e-05"),
            (2.5e-7, "2.5e-07", "2.5e-07"),
            (0.0001, "0.0001", "0.0001"),
            (123_456.7, "123456.7", "123456.7"),
            (12_345_678.0, "1.2345678e+07", "1.2345678e+07"),
            (1e300, "1e+300", "1e+300"),
            (f64::NAN, "NaN", "NaN"),
            (f64::INFINITY, "+Inf", "+Inf"),
        ];
        for (value, expected, in_label) in cases {
            assert_eq!(shortest(value), expected);
            assert_eq!(open_metrics_number(value), in_label);
        }
    }
}
