//! Writes the value of a whole query as a server would, up to the warnings.

use crate::eval::env::Env;
use crate::eval::error::Outcome;
use crate::eval::native::Histogram;
use crate::eval::unite::refuse_twice;
use crate::eval::value::{Column, Samples, Series, Value, is_absent};
use crate::labels::{Label, LabelSet, compare};
use crate::merge::conclude::LIMIT_WARNING;
use crate::number::{write_float, write_time};
use crate::plan::{Grid, Local};
use crate::write::{Output, write_labels, write_string};

/// Writes up to the end of `data`.
pub(super) async fn write(
    env: &Env<'_>,
    local: &Local,
    value: Value<'_>,
    limit: Option<u64>,
) -> Outcome<Vec<Vec<u8>>> {
    let mut out = Output::default();
    let grid = local.clock.grid;
    out.put(b"{\"status\":\"success\",\"data\":{\"resultType\":");
    match value {
        Value::Scalar(column) if local.is_instant => {
            out.put(b"\"scalar\",\"result\":");
            pair(out.room(), grid.start_ms, column[0]);
        }
        Value::Scalar(column) => {
            out.put(b"\"matrix\",\"result\":[");
            let whole = Series {
                labels: &[],
                column: Column {
                    floats: column,
                    histograms: None,
                },
            };
            matrix(env, &mut out, &grid, &[whole]).await;
            out.put(b"]");
        }
        Value::Text(text) => {
            out.put(b"\"string\",\"result\":[");
            let room = out.room();
            write_time(room, grid.start_ms);
            room.push(b',');
            write_string(room, text);
            room.push(b']');
        }
        Value::Vector(mut series) => {
            refuse_duplicates(env, &series).await?;
            match local.is_instant {
                true => {
                    out.put(b"\"vector\",\"result\":[");
                    cut_off(env, &mut series, limit);
                    vector(env, &mut out, &grid, &series).await;
                }
                false => {
                    out.put(b"\"matrix\",\"result\":[");
                    series.sort_by(|a, b| compare(a.labels, b.labels));
                    cut_off(env, &mut series, limit);
                    matrix(env, &mut out, &grid, &series).await;
                }
            }
            out.put(b"]");
        }
        Value::Range(windows, mut samples) => {
            out.put(b"\"matrix\",\"result\":[");
            samples.sort_by(|a, b| compare(a.labels, b.labels));
            let (from, to) = windows.at(grid.start_ms);
            let opens = if windows.is_left_open() {
                from + 1
            } else {
                from
            };
            range(env, &mut out, (opens, to), &samples).await;
            out.put(b"]");
        }
    }
    if let Some(stats) = &env.notes.borrow().stats {
        stats.write(out.room());
    }
    out.put(b"}");
    Ok(out.finish())
}

/// Leaves as many series as the client wants, and says so.
fn cut_off(env: &Env<'_>, series: &mut Vec<Series<'_>>, limit: Option<u64>) {
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
        return;
    };
    series.retain(|one| !one.column.is_empty());
    if series.len() > limit {
        series.truncate(limit);
        env.pass_on(vec![LIMIT_WARNING.to_owned()], Vec::new());
    }
}

/// Two series of one label set are an error, at whatever steps they have samples.
async fn refuse_duplicates(env: &Env<'_>, series: &[Series<'_>]) -> Outcome<()> {
    let mut labels = Vec::with_capacity(series.len());
    for one in series {
        env.pace.spend(8 + one.column.floats.len() / 16).await;
        if !one.column.is_empty() {
            labels.push(one.labels);
        }
    }
    refuse_twice(env, &labels).await
}

fn labels(out: &mut Vec<u8>, labels: &[Label<'_>]) {
    write_labels(out, &LabelSet { labels, text: None });
}

fn pair(out: &mut Vec<u8>, time_ms: i64, value: f64) {
    out.push(b'[');
    write_time(out, time_ms);
    out.extend_from_slice(b",\"");
    write_float(out, value);
    out.extend_from_slice(b"\"]");
}

fn histogram_pair(out: &mut Vec<u8>, time_ms: i64, histogram: &Histogram<'_>) {
    out.push(b'[');
    write_time(out, time_ms);
    out.push(b',');
    histogram.write(out);
    out.push(b']');
}

async fn vector(env: &Env<'_>, out: &mut Output, grid: &Grid, series: &[Series<'_>]) {
    let mut is_first = true;
    for one in series {
        if !one.column.has(0) {
            continue;
        }
        let room = out.room();
        let before = room.len();
        if !std::mem::take(&mut is_first) {
            room.push(b',');
        }
        room.extend_from_slice(b"{\"metric\":");
        labels(room, one.labels);
        match one.column.histogram(0) {
            Some(histogram) => {
                room.extend_from_slice(b",\"histogram\":");
                histogram_pair(room, grid.start_ms, histogram);
            }
            None => {
                room.extend_from_slice(b",\"value\":");
                pair(room, grid.start_ms, one.column.floats[0]);
            }
        }
        room.push(b'}');
        let units = room.len().saturating_sub(before);
        env.pace.spend(units).await;
    }
}

async fn matrix(env: &Env<'_>, out: &mut Output, grid: &Grid, all: &[Series<'_>]) {
    let mut is_first = true;
    for one in all {
        let column = &one.column;
        let floats = column.floats.iter().enumerate();
        let floats = floats.filter(|(_, value)| !is_absent(**value));
        let floats = floats.map(|(at, value)| (grid.time(at), *value));
        let histograms = (0..column.floats.len())
            .filter_map(|at| column.histogram(at).map(|one| (grid.time(at), one)));
        series(env, out, &mut is_first, (one.labels, floats, histograms)).await;
    }
}

async fn range(env: &Env<'_>, out: &mut Output, (from, to): (i64, i64), all: &[Samples<'_>]) {
    let mut is_first = true;
    for one in all {
        let within = |time: i64| (from..=to).contains(&time);
        let floats = one.floats.iter().copied();
        let floats = floats.filter(|(time, _)| within(*time));
        let histograms = one.histograms.iter().copied();
        let histograms = histograms.filter(|(time, _)| within(*time));
        series(env, out, &mut is_first, (one.labels, floats, histograms)).await;
    }
}

/// Writes one series of a matrix, unless it has no sample.
async fn series<'h>(
    env: &Env<'_>,
    out: &mut Output,
    is_first: &mut bool,
    (own, floats, histograms): (
        &[Label<'_>],
        impl Iterator<Item = (i64, f64)>,
        impl Iterator<Item = (i64, &'h Histogram<'h>)>,
    ),
) {
    let (mut floats, mut histograms) = (floats.peekable(), histograms.peekable());
    let (has_floats, has_histograms) = (floats.peek().is_some(), histograms.peek().is_some());
    if !has_floats && !has_histograms {
        return;
    }
    let comma: &[u8] = if std::mem::take(is_first) { b"" } else { b"," };
    out.put(comma);
    out.put(b"{\"metric\":");
    labels(out.room(), own);
    let mut before: &[u8] = b",\"values\":[";
    for (time, value) in floats {
        let room = out.room();
        room.extend_from_slice(std::mem::replace(&mut before, b","));
        pair(room, time, value);
        env.pace.spend(24).await;
    }
    out.put(if has_floats { b"]" } else { b"" });
    let mut before: &[u8] = b",\"histograms\":[";
    for (time, histogram) in histograms {
        let room = out.room();
        room.extend_from_slice(std::mem::replace(&mut before, b","));
        histogram_pair(room, time, histogram);
        env.pace.spend(256).await;
    }
    out.put(if has_histograms { b"]}" } else { b"}" });
}
