//! Aggregations where samples are native histograms.
//!
//! Sums and means are histograms where all samples are; a mix with floats has none. Counting counts
//! them. Everything else ignores them, with an info, from 3.1 on (spreads from 3.0); servers before
//! that took them for the number 0, means before 2.44 too.

use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::keys::NAME;
use crate::eval::native::{Accumulator, Clash, Histogram};
use crate::eval::text::{number, quoted};
use crate::eval::value::{Column, Series, is_absent};
use crate::number::parse_float;

/// What the float aggregation of a group does not know: results by step, `None` for nothing.
pub(super) type Found<'a> = Vec<(usize, Option<&'a Histogram<'a>>)>;

/// What an aggregation makes of histograms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Keep,
    AsZero,
    Ignore,
}

/// Leaves the histograms that the aggregation can take, and makes numbers of others or drops them.
pub(super) async fn prepare<'a>(env: &Env<'a>, operator: &str, input: &mut Vec<Series<'a>>) {
    let dialect = env.dialect();
    let ignored_from = |minor| match dialect.is_at_least(3, minor) {
        true => Use::Ignore,
        false => Use::AsZero,
    };
    let usage = match operator {
        "avg" if !dialect.is_at_least(2, 44) => Use::AsZero,
        "sum" | "avg" | "limitk" | "limit_ratio" => Use::Keep,
        // They count as the text that they have.
        "count_values" if dialect.is_at_least(3, 1) => Use::Keep,
        "count" | "group" => Use::AsZero,
        "stddev" | "stdvar" => ignored_from(0),
        _ => ignored_from(1),
    };
    if usage == Use::Keep {
        return;
    }
    let mut has_any = false;
    for one in &mut *input {
        let Some(histograms) = one.column.histograms.take() else {
            continue;
        };
        env.pace.spend(2 * histograms.len()).await;
        for (float, histogram) in one.column.floats.iter_mut().zip(&*histograms) {
            has_any |= histogram.is_some();
            if histogram.is_some() && usage == Use::AsZero {
                *float = 0.0;
            }
        }
    }
    if has_any && usage == Use::Ignore {
        env.inform(&format!("ignored histogram in {operator} aggregation"));
        input.retain(|one| !one.column.is_empty());
    }
}

/// Computes the steps of a group at which there are histograms.
pub(super) async fn of_group<'a>(
    env: &Env<'a>,
    operator: &str,
    members: &[usize],
    input: &[Series<'a>],
    steps: usize,
) -> Outcome<Found<'a>> {
    let mut found = Found::new();
    let columns = || members.iter().map(|member| &input[*member].column);
    if columns().all(|column| column.histograms.is_none()) {
        return Ok(found);
    }
    for step in 0..steps {
        env.pace.spend(4 * members.len()).await;
        if columns().all(|column| column.histogram(step).is_none()) {
            continue;
        }
        if columns().any(|column| !is_absent(column.floats[step])) {
            if env.dialect().is_at_least(2, 48) {
                env.warn("encountered a mix of histograms and floats for aggregation");
            }
            found.push((step, None));
            continue;
        }
        found.push((step, at_step(env, operator, members, input, step).await?));
    }
    Ok(found)
}

/// Sum or mean of the histograms at one step.
async fn at_step<'a>(
    env: &Env<'a>,
    operator: &str,
    members: &[usize],
    input: &[Series<'a>],
    step: usize,
) -> Outcome<Option<&'a Histogram<'a>>> {
    let mut sum: Option<Accumulator> = None;
    let (mut count, mut single) = (0.0, None);
    for member in members {
        let Some(histogram) = input[*member].column.histogram(step) else {
            continue;
        };
        count += 1.0;
        env.pace.spend(histogram.units()).await;
        let Some(sum) = &mut sum else {
            single = Some(histogram);
            sum = Some(Accumulator::of(histogram));
            continue;
        };
        if let Err(clash) = sum.add(histogram) {
            warn(env, clash, &input[*member]);
            return Ok(None);
        }
    }
    let Some(mut sum) = sum else {
        return Ok(None);
    };
    if count == 1.0 {
        return Ok(single);
    }
    // The servers move the mean from sample to sample; the last bits may differ.
    if operator == "avg" {
        sum.divide(count);
    }
    Ok(Some(sum.finish(env.bump)?))
}

fn warn(env: &Env<'_>, clash: Clash, series: &Series<'_>) {
    let name = series.labels.iter().find(|label| label.name == NAME);
    let name = quoted(name.map_or("", |label| label.value));
    let problem = match clash {
        Clash::Scales => "a mix of histograms with exponential and custom buckets schemas",
        Clash::Bounds => "histograms with incompatible custom buckets",
    };
    env.warn(&format!("vector contains {problem} for metric name {name}"));
}

/// A histogram as a label value, from the JSON that is written of it: count and sum, then the
/// bounds and the count of each bucket.
pub(super) fn label_text(histogram: &Histogram<'_>) -> String {
    let mut json = Vec::new();
    histogram.write(&mut json);
    let mut parts = json.split(|byte| *byte == b'"');
    // Every other part was in quotes; the names of fields are no numbers.
    let mut next = || -> Option<(u8, f64)> {
        loop {
            let before = parts.next()?;
            let value = parse_float(parts.next()?);
            let rule = before.iter().rev().find(|byte| byte.is_ascii_digit());
            if let Some(value) = value {
                return Some((rule.copied().unwrap_or(b'0'), value));
            }
        }
    };
    let mut show = |name: &str| next().map(|(_, value)| format!("{name}:{}", number(value)));
    let mut text = String::from("{");
    text.push_str(&show("count").unwrap_or_default());
    text.push_str(", ");
    text.push_str(&show("sum").unwrap_or_default());
    while let (Some((rule, lower)), Some((_, upper)), Some((_, count))) = (next(), next(), next()) {
        let open = if matches!(rule, b'0' | b'2') {
            '('
        } else {
            '['
        };
        let close = if matches!(rule, b'1' | b'2') {
            ')'
        } else {
            ']'
        };
        let [lower, upper, count] = [lower, upper, count].map(number);
        text.push_str(&format!(", {open}{lower},{upper}{close}:{count}"));
    }
    text.push('}');
    text
}

/// Puts results into a column of floats.
pub(super) fn put<'a>(env: &Env<'a>, column: &mut Column<'a>, found: Found<'a>) -> Outcome<()> {
    for (step, made) in found {
        column.clear(step);
        if let Some(histogram) = made {
            column.put_histogram(env.bump, step, histogram)?;
        }
    }
    Ok(())
}
