//! The Prometheus HTTP API of a demo origin: the paths a merge uses, over computed series.
//!
//! Pure: a path and its parameters in, a status and a JSON body out. Bounds a range query by [`POINTS_MAX`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::evaluate::{Value, evaluate};
use super::promql::{Selector, duration_ms, parse, parse_selector};
use super::series::{Labels, Store};

/// Most points of one series, as Prometheus has it.
const POINTS_MAX: i64 = 11_000;

/// Parameters of a request, in order; names may repeat.
pub(super) type Params = [(String, String)];

/// Answers one request.
pub(super) fn answer(store: &Store, path: &str, params: &Params, now_ms: i64) -> (u16, Json) {
    let result = match path {
        "/api/v1/query" => query(store, params, now_ms),
        "/api/v1/query_range" => query_range(store, params),
        "/api/v1/series" => series(store, params),
        "/api/v1/labels" => label_names(store, params),
        "/api/v1/status/buildinfo" => Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "revision": "",
            "branch": "ringway-demo-origin",
        })),
        _ => {
            let name = path
                .strip_prefix("/api/v1/label/")
                .and_then(|rest| rest.strip_suffix("/values"));
            match name {
                Some(name) => label_values(store, name, params),
                None => return (404, error("not_found", "no such path in the demo origin")),
            }
        }
    };
    match result {
        Ok(data) => (200, json!({"status": "success", "data": data})),
        Err(message) => (400, error("bad_data", &message)),
    }
}

fn error(kind: &str, message: &str) -> Json {
    json!({"status": "error", "errorType": kind, "error": message})
}

fn query(store: &Store, params: &Params, now_ms: i64) -> Result<Json, String> {
    let expr = parse(required(params, "query")?)?;
    let at_ms = match optional(params, "time") {
        Some(time) => time_ms("time", time)?,
        None => now_ms,
    };
    Ok(match evaluate(store, &expr, at_ms) {
        Value::Scalar(value) => {
            json!({"resultType": "scalar", "result": point(at_ms, value)})
        }
        Value::Vector(samples) => {
            let result: Vec<Json> = samples
                .into_iter()
                .map(|(labels, value)| json!({"metric": labels, "value": point(at_ms, value)}))
                .collect();
            json!({"resultType": "vector", "result": result})
        }
    })
}

fn query_range(store: &Store, params: &Params) -> Result<Json, String> {
    let expr = parse(required(params, "query")?)?;
    let start = time_ms("start", required(params, "start")?)?;
    let end = time_ms("end", required(params, "end")?)?;
    let step = required(params, "step")?;
    let step = duration_ms(step).ok_or_else(|| {
        format!("invalid parameter \"step\": cannot parse {step:?} to a valid duration")
    })?;
    if end < start {
        return Err(
            "invalid parameter \"end\": end timestamp must not be before start time".into(),
        );
    }
    if (end - start) / step > POINTS_MAX {
        return Err(format!(
            "exceeded maximum resolution of {POINTS_MAX} points per timeseries"
        ));
    }
    let mut matrix: BTreeMap<Labels, Vec<Json>> = BTreeMap::new();
    let mut at_ms = start;
    while at_ms <= end {
        let samples = match evaluate(store, &expr, at_ms) {
            Value::Scalar(value) => vec![(Labels::new(), value)],
            Value::Vector(samples) => samples,
        };
        for (labels, value) in samples {
            matrix.entry(labels).or_default().push(point(at_ms, value));
        }
        at_ms += step;
    }
    let result: Vec<Json> = matrix
        .into_iter()
        .map(|(labels, values)| json!({"metric": labels, "values": values}))
        .collect();
    Ok(json!({"resultType": "matrix", "result": result}))
}

fn series(store: &Store, params: &Params) -> Result<Json, String> {
    let selectors = selectors(params)?;
    if selectors.is_empty() {
        return Err("no match[] parameter provided".into());
    }
    Ok(selected(store, &selectors)
        .map(|labels| json!(labels))
        .collect())
}

fn label_names(store: &Store, params: &Params) -> Result<Json, String> {
    let selectors = selectors(params)?;
    let names: BTreeSet<&String> = selected(store, &selectors).flat_map(Labels::keys).collect();
    Ok(json!(names))
}

fn label_values(store: &Store, name: &str, params: &Params) -> Result<Json, String> {
    let selectors = selectors(params)?;
    let values: BTreeSet<&String> = selected(store, &selectors)
        .filter_map(|labels| labels.get(name))
        .collect();
    Ok(json!(values))
}

fn selectors(params: &Params) -> Result<Vec<Selector>, String> {
    let texts = params.iter().filter(|(name, _)| name == "match[]");
    texts.map(|(_, text)| parse_selector(text)).collect()
}

/// Label sets of the series any selector takes; of all without a selector.
fn selected<'a>(store: &'a Store, selectors: &'a [Selector]) -> impl Iterator<Item = &'a Labels> {
    let labels = store.series.iter().map(|series| &series.labels);
    labels.filter(|labels| {
        selectors.is_empty() || selectors.iter().any(|selector| selector.matches(labels))
    })
}

fn required<'a>(params: &'a Params, name: &str) -> Result<&'a str, String> {
    optional(params, name).ok_or_else(|| format!("invalid parameter {name:?}: it is missing"))
}

fn optional<'a>(params: &'a Params, name: &str) -> Option<&'a str> {
    let found = params.iter().find(|(known, _)| known == name);
    found
        .map(|(_, value)| value.as_str())
        .filter(|value| !value.is_empty())
}

/// A time as Prometheus takes it: seconds, or a date with a time.
fn time_ms(name: &str, text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse::<f64>()
        && seconds.abs() < 1e12
    {
        return Ok((seconds * 1000.0).round() as i64);
    }
    rfc3339_ms(text).ok_or_else(|| {
        format!("invalid parameter {name:?}: cannot parse {text:?} to a valid timestamp")
    })
}

/// `2024-01-01T00:00:00Z`, with or without a fraction of a second; UTC only.
fn rfc3339_ms(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let whole = time.split_once('.').map_or(time, |(whole, _)| whole);
    let mut fields = date
        .split('-')
        .chain(whole.split(':'))
        .map(str::parse::<i64>);
    let mut next = || fields.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let fraction: f64 = match time.split_once('.') {
        Some((_, digits)) => format!("0.{digits}").parse().ok()?,
        None => 0.0,
    };
    let days = crate::utc::days_since_epoch(year, month, day)?;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1000 + (fraction * 1000.0).round() as i64)
}

/// A sample as Prometheus writes it.
fn point(at_ms: i64, value: f64) -> Json {
    let time = match at_ms % 1000 {
        0 => json!(at_ms / 1000),
        _ => json!(at_ms as f64 / 1000.0),
    };
    json!([time, number_text(value)])
}

/// The shortest text that reads back as the number; the demo's values need no exponent.
fn number_text(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".into(),
        v if v == f64::INFINITY => "+Inf".into(),
        v if v == f64::NEG_INFINITY => "-Inf".into(),
        v => v.to_string(),
    }
}

#[cfg(test)]
mod tests;
