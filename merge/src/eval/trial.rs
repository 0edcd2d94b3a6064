//! Queries over a handful of series, for tables of tests.

use std::pin::pin;

use bumpalo::Bump;

use super::env::{Env, Notes};
use super::native::Histogram;
use super::pace::{Pace, drive};
use super::text::{label_set, plain_number};
use super::value::{Column, Samples, Value, is_absent};
use super::{PartData, Parts, evaluate};
use crate::labels::Label;
use crate::plan::{Clock, Dialect, Grid};
use crate::query::{Kind, Node, parse};

/// What a query gave: `Ok` is one line for each series that has samples.
pub(super) type Trial = Result<Vec<String>, String>;

/// Servers of a version.
pub(super) fn version(major: u32, minor: u32) -> Dialect {
    Dialect { major, minor }
}

/// Evaluates `query`. A line of `data` is a series: `name{label=value,…} 1 h2 _`. `h2` is a native
/// histogram with a sum and count of 2, the underscore no sample; a selector takes all series of
/// its name.
pub(super) fn run(dialect: Dialect, data: &str, query: &str) -> (Trial, Notes) {
    let bump = Bump::new();
    let steps = data
        .lines()
        .next()
        .map_or(1, |line| line.split(' ').count() - 1);
    let grid = Grid::range(0, 1000 * (steps as i64 - 1), 1000);
    let pace = Pace::default();
    let env = Env {
        bump: &bump,
        pace: &pace,
        clock: Clock {
            grid,
            end_ms: grid.end_ms(),
            dialect,
            interval_ms: 1000,
            lookback_ms: 1000,
        },
        notes: std::cell::RefCell::default(),
        watch: Default::default(),
        order: Default::default(),
    };
    let mut parts = Parts::new();
    let tree = with_parts(&bump, parse(query).expect("it is valid"), data, &mut parts);
    let trial = {
        let work = evaluate(&env, &parts, grid, &tree);
        let mut work = pin!(work);
        loop {
            // Turns as short as can be: whatever waits goes on.
            if let Some(outcome) = drive(&pace, work.as_mut(), 1) {
                break outcome.map(shown).map_err(|error| error.to_string());
            }
        }
    };
    (trial, env.notes.take())
}

fn with_parts<'a>(bump: &'a Bump, node: Node, data: &str, parts: &mut Parts<'a>) -> Node {
    match node {
        Node::Selector(selector) => {
            let name = &selector.matchers[0].value;
            let samples = data
                .lines()
                .filter(|line| line.split(['{', ' ']).next() == Some(name));
            parts.push(PartData {
                samples: samples.map(|line| series(bump, line)).collect(),
                windows: None,
                is_in_parts: false,
                is_aggregated: false,
                is_fixed: selector.when.at.is_some(),
            });
            Node::Part {
                index: parts.len() - 1,
                kind: Kind::Vector,
            }
        }
        Node::Binary(mut binary) => {
            *binary.left = with_parts(bump, *binary.left, data, parts);
            *binary.right = with_parts(bump, *binary.right, data, parts);
            Node::Binary(binary)
        }
        Node::Aggregate(mut aggregate) => {
            *aggregate.input = with_parts(bump, *aggregate.input, data, parts);
            Node::Aggregate(aggregate)
        }
        Node::Negate(input) => Node::Negate(Box::new(with_parts(bump, *input, data, parts))),
        other => other,
    }
}

fn series<'a>(bump: &'a Bump, line: &str) -> Samples<'a> {
    let (head, values) = line.split_once(' ').expect("there are values");
    let (name, labels) = head.split_once('{').unwrap_or((head, "}"));
    let label = |name: &str, value: &str| Label {
        name: bump.alloc_str(name),
        value: bump.alloc_str(value),
    };
    let mut own = vec![label("__name__", name)];
    let pairs = labels.trim_end_matches('}').split(',');
    own.extend(
        pairs
            .filter_map(|pair| pair.split_once('='))
            .map(|(n, v)| label(n, v)),
    );
    own.sort_unstable();
    let (mut floats, mut histograms) = (Vec::new(), Vec::new());
    for (at, value) in values.split(' ').enumerate() {
        let time_ms = 1000 * at as i64;
        match value.strip_prefix('h') {
            _ if value == "_" => {}
            Some(count) => histograms.push((time_ms, histogram(bump, count))),
            None => floats.push((time_ms, value.parse().expect("a number"))),
        }
    }
    Samples {
        labels: bump.alloc_slice_copy(&own),
        floats: bump.alloc_slice_copy(&floats),
        histograms: bump.alloc_slice_copy(&histograms),
    }
}

fn histogram<'a>(bump: &'a Bump, count: &str) -> &'a Histogram<'a> {
    let text =
        format!(r#"{{"count":"{count}","sum":"{count}","buckets":[[0,"1","2","{count}"]]}}"#);
    Histogram::read(bump, bump.alloc_str(&text).as_bytes()).expect("it is a histogram")
}

fn shown(value: Value<'_>) -> Vec<String> {
    let values = |column: &Column<'_>| -> String {
        let shown = column.floats.iter().enumerate().map(|(step, value)| {
            match (column.histogram(step), is_absent(*value)) {
                (Some(histogram), _) => format!("h{}", histogram.count()),
                (None, true) => "_".to_owned(),
                (None, false) => plain_number(*value),
            }
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    match value {
        Value::Scalar(floats) => vec![values(&Column {
            floats,
            histograms: None,
        })],
        value => value
            .into_vector()
            .iter()
            .filter(|one| !one.column.is_empty())
            .map(|one| {
                let labels = label_set(one.labels, Dialect::default());
                format!("{} {}", labels.replace('"', ""), values(&one.column))
            })
            .collect(),
    }
}
