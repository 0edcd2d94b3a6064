//! What the tables of the functions' tests are run with.

use std::cell::RefCell;
use std::fmt::Write;
use std::pin::pin;

use bumpalo::Bump;

use super::call;
use crate::eval::env::Env;
use crate::eval::pace::{Pace, drive};
use crate::eval::value::{ABSENT, Column, Series, Value, is_absent, label_set};
use crate::labels::Label;
use crate::number::write_float;
use crate::plan::{Clock, Dialect, Grid};
use crate::query::{Node, parse};

/// The time of the first step, in milliseconds; a step is a minute.
pub(super) const START_MS: i64 = 1_704_067_200_000;

/// Gives an environment of that version with a grid of `steps`.
pub(super) fn with_env<T>(
    (major, minor): (u32, u32),
    steps: usize,
    work: impl FnOnce(&Env<'_>, Grid) -> T,
) -> T {
    let (bump, pace) = (Bump::new(), Pace::default());
    let grid = Grid {
        start_ms: START_MS,
        step_ms: 60_000,
        count: steps,
    };
    let clock = Clock {
        grid,
        end_ms: grid.end_ms(),
        dialect: Dialect { major, minor },
        interval_ms: 15_000,
        lookback_ms: 300_000,
    };
    let env = Env {
        bump: &bump,
        pace: &pace,
        clock,
        notes: RefCell::default(),
        watch: Default::default(),
        order: Default::default(),
    };
    work(&env, grid)
}

/// Calls a function; see [`argument`]. Returns the value a line for each series, or the error
/// after its status.
pub(super) fn run(dialect: (u32, u32), steps: usize, function: &str, arguments: &[&str]) -> String {
    with_env(dialect, steps, |env, grid| {
        outcome(env, grid, function, arguments, &[])
    })
}

/// Like [`run`], with the arguments as written for functions that look at them.
pub(super) fn run_as_written(
    dialect: (u32, u32),
    steps: usize,
    function: &str,
    arguments: &[&str],
    written: &[&str],
) -> String {
    with_env(dialect, steps, |env, grid| {
        outcome(env, grid, function, arguments, written)
    })
}

/// Like [`run`], but returns the warnings and infos.
pub(super) fn noted(
    dialect: (u32, u32),
    steps: usize,
    function: &str,
    arguments: &[&str],
) -> (Vec<String>, Vec<String>) {
    with_env(dialect, steps, |env, grid| {
        outcome(env, grid, function, arguments, &[]);
        let notes = env.notes.take();
        (notes.warnings, notes.infos)
    })
}

fn outcome(
    env: &Env<'_>,
    grid: Grid,
    function: &str,
    arguments: &[&str],
    written: &[&str],
) -> String {
    let values = arguments.iter().map(|text| argument(env, grid, text));
    let nodes: Vec<Node> = written.iter().map(|text| parse(text).unwrap()).collect();
    let work = call(env, &grid, function, values.collect(), &nodes);
    let mut work = pin!(work);
    // Turns of all sizes, so that every place that waits is waited at.
    let mut units = 1;
    let made = loop {
        if let Some(made) = drive(env.pace, work.as_mut(), units) {
            break made;
        }
        units = units % 977 + 31;
    };
    match made {
        Err(error) => format!("{} {error}", error.class().0),
        Ok(Value::Scalar(column)) => samples(column),
        Ok(Value::Vector(series)) => {
            let line = |one: &Series<'_>| {
                format!("{} {}", labels_of(one.labels), samples(one.column.floats))
            };
            let kept = series.iter().filter(|one| !one.column.is_empty());
            kept.map(line).collect::<Vec<_>>().join("\n")
        }
        Ok(other) => format!("{other:?}"),
    }
}

/// An argument: `'text`, numbers of a scalar for each step (the last one goes on), or series such
/// as `name{label="value"} 1 _ 3`, a line each; `_` is no sample.
fn argument<'a>(env: &Env<'a>, grid: Grid, text: &str) -> Value<'a> {
    if let Some(text) = text.strip_prefix('\'') {
        return Value::Text(env.bump.alloc_str(text));
    }
    let column = |text: &str| {
        let mut values: Vec<f64> = text.split_whitespace().map(number).collect();
        values.resize(grid.count, *values.last().unwrap_or(&ABSENT));
        env.bump.alloc_slice_copy(&values)
    };
    if text.starts_with(|c: char| c.is_ascii_digit() || "+-N".contains(c)) {
        return Value::Scalar(column(text));
    }
    let series = text.lines().map(|line| {
        let (name, values) = line.rsplit_once('}').map_or_else(
            || line.split_once(' ').unwrap(),
            |(name, values)| (name, values),
        );
        Series {
            labels: label_set(env.bump, &labels(env.bump, name)).unwrap(),
            column: Column {
                floats: column(values),
                histograms: None,
            },
        }
    });
    Value::Vector(series.collect())
}

fn number(text: &str) -> f64 {
    match text {
        "_" => ABSENT,
        text => text.parse().unwrap(),
    }
}

/// Reads `name{label="value",…`.
fn labels<'a>(bump: &'a Bump, text: &str) -> Vec<Label<'a>> {
    let (name, rest) = text.split_once('{').unwrap_or((text, ""));
    let mut labels = vec![Label {
        name: "__name__",
        value: bump.alloc_str(name.trim()),
    }];
    for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap();
        labels.push(Label {
            name: bump.alloc_str(name),
            value: bump.alloc_str(value.trim_matches('"')),
        });
    }
    labels
}

/// Writes a label set.
pub(super) fn labels_of(labels: &[Label<'_>]) -> String {
    let name = labels.iter().find(|label| label.name == "__name__");
    let mut text = name.map_or("", |label| label.value).to_owned();
    let others = labels.iter().filter(|label| label.name != "__name__");
    let pairs: Vec<String> = others
        .map(|label| format!("{}={:?}", label.name, label.value))
        .collect();
    if !pairs.is_empty() || text.is_empty() {
        write!(text, "{{{}}}", pairs.join(",")).unwrap();
    }
    text
}

fn samples(values: &[f64]) -> String {
    let text = values.iter().map(|value| {
        let mut text = Vec::new();
        match is_absent(*value) {
            true => text.push(b'_'),
            false => write_float(&mut text, *value),
        }
        String::from_utf8(text).unwrap()
    });
    text.collect::<Vec<_>>().join(" ")
}

#[test]
fn functions_of_vectors_follow_their_rules() {
    // Steps, function, arguments, result.
    let cases: &[(usize, &str, &[&str], &str)] = &[
        (
            2,
            "abs",
            &["x{a=\"1\"} -1 _\ny -0 NaN"],
            "{a=\"1\"} 1 _\n{} 0 NaN",
        ),
        (1, "abs", &[""], ""),
        (1, "round", &["x 2.5"], "{} 3"),
        (1, "round", &["x -2.5"], "{} -2"),
        (2, "round", &["x 7 7", "5 0.1"], "{} 5 7"),
        (1, "round", &["x 0.15", "0.1"], "{} 0.2"),
        (1, "round", &["x 7", "0"], "{} NaN"),
        (2, "clamp", &["x 5 5", "1 6", "4 8"], "{} 4 6"),
        (2, "clamp", &["x 5 5", "1 3", "2"], "{} 2 _"),
        (1, "clamp", &["x 5", "NaN", "2"], "{} NaN"),
        (
            1,
            "clamp_min",
            &["x -1\ny 3", "0"],
            "422 vector cannot contain metrics with the same labelset",
        ),
        (1, "clamp_min", &["x NaN", "+Inf"], "{} +Inf"),
        (1, "clamp_max", &["x 7", "3"], "{} 3"),
        (2, "timestamp", &["x 1 _"], "{} 1704067200 _"),
        (2, "time", &[], "1704067200 1704067260"),
        (2, "minute", &[], "{} 0 1"),
        (2, "year", &["x 0 _"], "{} 1970 _"),
        (2, "vector", &["1 NaN"], "{} 1 NaN"),
        (3, "scalar", &["x 1 _ 3\ny _ _ 4"], "1 NaN NaN"),
        (2, "pi", &[], "3.141592653589793 3.141592653589793"),
        (2, "start", &[], "1704067200 1704067200"),
        (2, "end", &[], "1704067260 1704067260"),
        (2, "step", &[], "60 60"),
        (2, "range", &[], "60 60"),
        (2, "max_of", &["1 2", "2 1"], "2 2"),
        (2, "min_of", &["1 NaN", "2 1"], "1 NaN"),
        (3, "absent", &["x 1 _ _\ny _ 2 _"], "{} _ _ 1"),
        (
            1,
            "nosuch",
            &[],
            "400 invalid parameter \"query\": parse error: unknown function with name \"nosuch\"",
        ),
    ];
    for (steps, function, arguments, expected) in cases {
        let found = run((3, 6), *steps, function, arguments);
        assert_eq!(found, *expected, "{function} {arguments:?}");
    }
}

#[test]
fn series_that_lose_their_names_are_joined_by_step() {
    let apart = "x{a=\"1\"} -1 _ _\ny{a=\"1\"} _ _ -2\nz 3";
    assert_eq!(run((3, 5), 3, "abs", &[apart]), "{a=\"1\"} 1 _ 2\n{} 3 3 3");
    let together = "x{a=\"1\"} -1 _\ny{a=\"1\"} -2 1";
    let error = "422 vector cannot contain metrics with the same labelset";
    assert_eq!(run((3, 5), 2, "abs", &[together]), error);
    assert_eq!(run((2, 42), 2, "abs", &[together]), error);
}

#[test]
fn info_adds_data_labels() {
    let given = "x{instance=\"i\",job=\"j\"} 1 2 3\nx{instance=\"k\",job=\"j\"} 4 5 6";
    let infos = "{instance=\"i\",job=\"j\",v=\"1\",w=\"z\"} 10 20 _";
    let lacking = "x{instance=\"i\",job=\"j\"} _ _ 3";
    let other = "x{instance=\"k\",job=\"j\"} 4 5 6";
    let all = "x{instance=\"i\",job=\"j\",v=\"1\",w=\"z\"} 1 2 _";
    let some = "x{instance=\"i\",job=\"j\",w=\"z\"} 1 2 _";
    let cases: &[(&[&str], &[&str])] = &[
        (&["x", "x"], &[all, other, lacking]),
        (
            &["x", "x", "{__name__=\"target_info\"}"],
            &[all, other, lacking],
        ),
        (&["x", "x", "{w=~\".*\"}"], &[some, other, lacking]),
        (&["x", "x", "{w=~\".+\"}"], &[some]),
        (&["x", "x", "{__name__=~\"x|y\"}"], &[given]),
    ];
    for (written, expected) in cases {
        let found = run_as_written((3, 7), 3, "info", &[given, infos], written);
        assert_eq!(found, expected.join("\n"), "{written:?}");
    }
    // Series without a key have no info; a name that is asked for makes them go.
    let written = ["x", "x", "{__name__=\"target_info\"}"];
    assert_eq!(
        run_as_written((3, 7), 1, "info", &["x 1", infos], &written),
        ""
    );
    assert_eq!(
        run_as_written((3, 7), 1, "info", &["x 1", infos], &written[..2]),
        "x 1"
    );
}

#[test]
fn info_takes_the_newest_series() {
    let given = "x{instance=\"i\"} 1";
    let ask = |first, second| {
        let infos =
            format!("{{instance=\"i\",v=\"1\"}} {first}\n{{instance=\"i\",v=\"2\"}} {second}");
        run_as_written((3, 7), 1, "info", &[given, &infos], &["x", "x"])
    };
    assert_eq!(ask("1", "2"), "x{instance=\"i\",v=\"2\"} 1");
    assert_eq!(ask("3", "2"), "x{instance=\"i\",v=\"1\"} 1");
    assert_eq!(ask("_", "2"), "x{instance=\"i\",v=\"2\"} 1");
    assert_eq!(
        ask("2", "2"),
        "422 found duplicate series for info metric target_info"
    );
}

#[test]
fn info_numbered_samples_before_3_7() {
    let given = "x{instance=\"i\"} 1 _\nx{instance=\"k\"} 2 3";
    let infos = "{instance=\"i\",v=\"1\"} 9 9\n{instance=\"k\",v=\"2\"} 9 9";
    let ask = |dialect| run_as_written(dialect, 2, "info", &[given, infos], &["x", "x"]);
    let first = "x{instance=\"i\",v=\"1\"} 1 _";
    assert_eq!(
        ask((3, 7)),
        format!("{first}\nx{{instance=\"k\",v=\"2\"}} 2 3")
    );
    assert_eq!(
        ask((3, 5)),
        format!("{first}\nx{{instance=\"k\",v=\"2\"}} 2 _\nx{{instance=\"k\",v=\"1\"}} _ 3")
    );
}

#[test]
fn functions_came_with_versions() {
    let said = |dialect, function| run(dialect, 1, function, &["x 1"]);
    for (function, before, first) in [
        ("sort_by_label", (2, 49), (2, 50)),
        ("histogram_stddev", (2, 47), (2, 48)),
        ("histogram_avg", (2, 50), (2, 51)),
        ("info", (2, 55), (3, 0)),
        ("step", (3, 5), (3, 6)),
    ] {
        assert!(said(before, function).starts_with("400 "), "{function}");
        assert!(!said(first, function).starts_with("400 "), "{function}");
    }
}
