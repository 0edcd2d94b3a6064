//! Evaluates the demo's expressions at one instant, as Prometheus would.

use std::collections::BTreeMap;

use super::promql::{Expr, Grouping, Op};
use super::series::{Labels, Store};

/// What an expression is at an instant.
#[derive(Debug, PartialEq)]
pub(super) enum Value {
    Scalar(f64),
    Vector(Vec<(Labels, f64)>),
}

/// The value of `expr` at `at_ms`.
pub(super) fn evaluate(store: &Store, expr: &Expr, at_ms: i64) -> Value {
    match expr {
        Expr::Number(number) => Value::Scalar(*number),
        Expr::Vector(number) => Value::Vector(vec![(Labels::new(), *number)]),
        Expr::Select(selector) => {
            let selected = store.series.iter().filter(|s| selector.matches(&s.labels));
            let samples = selected.filter_map(|series| {
                let value = store.at(series, at_ms)?;
                Some((series.labels.clone(), value))
            });
            Value::Vector(samples.collect())
        }
        Expr::Rate(selector, range_ms) => {
            let selected = store.series.iter().filter(|s| selector.matches(&s.labels));
            let rates = selected.filter_map(|series| {
                let samples = store.within(series, at_ms - range_ms, at_ms);
                let rate = rate(&samples, at_ms - range_ms, at_ms)?;
                let mut labels = series.labels.clone();
                labels.remove("__name__");
                Some((labels, rate))
            });
            Value::Vector(rates.collect())
        }
        Expr::Aggregate { op, grouping, of } => match evaluate(store, of, at_ms) {
            Value::Scalar(_) => Value::Vector(Vec::new()),
            Value::Vector(samples) => Value::Vector(aggregate(*op, grouping, samples)),
        },
    }
}

fn aggregate(op: Op, grouping: &Grouping, samples: Vec<(Labels, f64)>) -> Vec<(Labels, f64)> {
    let mut groups: BTreeMap<Labels, Vec<f64>> = BTreeMap::new();
    for (mut labels, value) in samples {
        match grouping {
            Grouping::By(kept) => labels.retain(|name, _| kept.contains(name)),
            Grouping::Without(dropped) => {
                labels.retain(|name, _| name != "__name__" && !dropped.contains(name));
            }
        }
        groups.entry(labels).or_default().push(value);
    }
    let reduce = |values: Vec<f64>| {
        let sum: f64 = values.iter().sum();
        match op {
            Op::Sum => sum,
            Op::Avg => sum / values.len() as f64,
            Op::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
            Op::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Op::Count => values.len() as f64,
            Op::Group => 1.0,
        }
    };
    groups
        .into_iter()
        .map(|(labels, values)| (labels, reduce(values)))
        .collect()
}

/// The increase per second over the range. As Prometheus does, it is extrapolated to the range's ends where the
/// first and last sample are near them, else by half the time between two samples, and never below zero.
fn rate(samples: &[(i64, f64)], from_ms: i64, to_ms: i64) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    if samples.len() < 2 {
        return None;
    }
    let resets: f64 = samples
        .windows(2)
        .filter(|pair| pair[1].1 < pair[0].1)
        .map(|pair| pair[0].1)
        .sum();
    let increase = last.1 - first.1 + resets;
    let seconds = |ms: i64| ms as f64 / 1000.0;
    let sampled = seconds(last.0 - first.0);
    let between = sampled / (samples.len() - 1) as f64;
    let reach = |gap: f64| {
        if gap >= between * 1.1 {
            between / 2.0
        } else {
            gap
        }
    };
    let mut before = reach(seconds(first.0 - from_ms));
    if increase > 0.0 && first.1 >= 0.0 {
        before = before.min(sampled * (first.1 / increase));
    }
    let after = reach(seconds(to_ms - last.0));
    let factor = (sampled + before + after) / sampled;
    Some(increase * factor / seconds(to_ms - from_ms))
}
