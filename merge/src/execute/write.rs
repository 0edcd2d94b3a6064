//! Writes the value of a whole query as a server would, up to the warnings.

use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::value::{Samples, Series, Value, is_absent};
use crate::labels::{LabelSet, compare};
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
                column: crate::eval::value::Column {
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
            refuse_duplicates(env, &grid, &mut series, local.is_instant).await?;
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
        env.notes
            .borrow_mut()
            .warnings
            .push(LIMIT_WARNING.to_owned());
    }
}

/// Two series of one label set are an error, of an instant query only where both have a sample.
async fn refuse_duplicates(
    env: &Env<'_>,
    grid: &Grid,
    series: &mut [Series<'_>],
    is_instant: bool,
) -> Outcome<()> {
    let mut order: Vec<&Series<'_>> = series.iter().filter(|one| !one.column.is_empty()).collect();
    order.sort_by(|a, b| compare(a.labels, b.labels));
    env.pace.spend(64 * order.len() + grid.count).await;
    let _ = is_instant;
    for pair in order.windows(2) {
        if pair[0].labels == pair[1].labels {
            return Err(EvalError::Execution(
                "vector cannot contain metrics with the same labelset".to_owned(),
            ));
        }
    }
    Ok(())
}

fn labels(out: &mut Vec<u8>, labels: &[crate::labels::Label<'_>]) {
    write_labels(out, &LabelSet { labels, text: None });
}

fn pair(out: &mut Vec<u8>, time_ms: i64, value: f64) {
    out.push(b'[');
    write_time(out, time_ms);
    out.extend_from_slice(b",\"");
    write_float(out, value);
    out.extend_from_slice(b"\"]");
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
                room.extend_from_slice(b",\"histogram\":[");
                write_time(room, grid.start_ms);
                room.push(b',');
                histogram.write(room);
                room.push(b']');
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

async fn matrix(env: &Env<'_>, out: &mut Output, grid: &Grid, series: &[Series<'_>]) {
    let mut is_first = true;
    for one in series {
        if one.column.is_empty() {
            continue;
        }
        out.put(if std::mem::take(&mut is_first) {
            b""
        } else {
            b","
        });
        out.put(b"{\"metric\":");
        labels(out.room(), one.labels);
        let mut opened = false;
        for (at, value) in one.column.floats.iter().enumerate() {
            if is_absent(*value) {
                continue;
            }
            let room = out.room();
            let open: &[u8] = if std::mem::replace(&mut opened, true) {
                b","
            } else {
                b",\"values\":["
            };
            room.extend_from_slice(open);
            pair(room, grid.time(at), *value);
            env.pace.spend(24).await;
        }
        out.put(if opened { b"]" } else { b"" });
        let mut opened = false;
        for at in 0..one.column.floats.len() {
            let Some(histogram) = one.column.histogram(at) else {
                continue;
            };
            let room = out.room();
            let open: &[u8] = if std::mem::replace(&mut opened, true) {
                b",["
            } else {
                b",\"histograms\":[["
            };
            room.extend_from_slice(open);
            write_time(room, grid.time(at));
            room.push(b',');
            histogram.write(room);
            room.push(b']');
            env.pace.spend(256).await;
        }
        out.put(if opened { b"]}" } else { b"}" });
    }
}

async fn range(env: &Env<'_>, out: &mut Output, (from, to): (i64, i64), all: &[Samples<'_>]) {
    let mut is_first = true;
    for one in all {
        let within = |time: i64| (from..=to).contains(&time);
        let has_floats = one.floats.iter().any(|(time, _)| within(*time));
        let has_histograms = one.histograms.iter().any(|(time, _)| within(*time));
        if !has_floats && !has_histograms {
            continue;
        }
        out.put(if std::mem::take(&mut is_first) {
            b""
        } else {
            b","
        });
        out.put(b"{\"metric\":");
        labels(out.room(), one.labels);
        let mut opened = false;
        for (time, value) in one.floats.iter().filter(|(time, _)| within(*time)) {
            let room = out.room();
            let open: &[u8] = if std::mem::replace(&mut opened, true) {
                b","
            } else {
                b",\"values\":["
            };
            room.extend_from_slice(open);
            pair(room, *time, *value);
            env.pace.spend(24).await;
        }
        out.put(if opened { b"]" } else { b"" });
        let mut opened = false;
        for (time, histogram) in one.histograms.iter().filter(|(time, _)| within(*time)) {
            let room = out.room();
            let open: &[u8] = if std::mem::replace(&mut opened, true) {
                b",["
            } else {
                b",\"histograms\":[["
            };
            room.extend_from_slice(open);
            write_time(room, *time);
            room.push(b',');
            histogram.write(room);
            room.push(b']');
            env.pace.spend(256).await;
        }
        out.put(if opened { b"]}" } else { b"}" });
    }
}
