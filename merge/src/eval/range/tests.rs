//! Functions over windows, against values worked out by hand.

use std::pin::pin;

use bumpalo::Bump;

use super::{call, rank};
use crate::eval::env::Env;
use crate::eval::error::{EvalError, Outcome};
use crate::eval::native::Histogram;
use crate::eval::pace::{Pace, drive};
use crate::eval::value::{Samples, Series, Value, Windows, is_absent};
use crate::labels::Label;
use crate::plan::{Clock, Dialect, Grid};
use crate::query::When;

const OLD: (u32, u32) = (2, 42);
const NEW: (u32, u32) = (3, 5);

/// A call over one range.
struct Call<'t> {
    function: &'t str,
    dialect: (u32, u32),
    range_ms: i64,
    grid: Grid,
    scalars: &'t [f64],
}

impl<'t> Call<'t> {
    /// At one time.
    fn at(time_ms: i64, range_ms: i64, function: &'t str, dialect: (u32, u32)) -> Self {
        Self {
            function,
            dialect,
            range_ms,
            grid: Grid::instant(time_ms),
            scalars: &[],
        }
    }
}

fn env<'a>(bump: &'a Bump, pace: &'a Pace, call: &Call<'_>) -> Env<'a> {
    let (major, minor) = call.dialect;
    Env {
        bump,
        pace,
        clock: Clock {
            grid: call.grid,
            end_ms: call.grid.end_ms(),
            dialect: Dialect { major, minor },
            interval_ms: 60_000,
            lookback_ms: 300_000,
        },
        notes: std::cell::RefCell::default(),
        watch: Default::default(),
        order: Default::default(),
    }
}

/// Runs a call in turns of `units`; returns what it gives and how many turns it took.
fn run<'a>(
    env: &Env<'a>,
    call_: &Call<'_>,
    samples: Vec<Samples<'a>>,
    units: usize,
) -> (Outcome<Vec<Series<'a>>>, usize) {
    let windows = Windows {
        clock: env.clock,
        when: When::default(),
        range_ms: call_.range_ms,
    };
    let mut arguments = vec![Value::Range(windows, samples)];
    for scalar in call_.scalars {
        let column = env.bump.alloc_slice_fill_copy(call_.grid.count, *scalar);
        arguments.push(Value::Scalar(column));
    }
    let mut work = pin!(call(env, &call_.grid, call_.function, arguments));
    for turn in 1.. {
        if let Some(outcome) = drive(env.pace, work.as_mut(), units) {
            return (outcome.map(Value::into_vector), turn);
        }
    }
    unreachable!("the loop has no end")
}

fn samples<'a>(bump: &'a Bump, name: &'a str, floats: &[(i64, f64)]) -> Samples<'a> {
    let label = Label {
        name: "__name__",
        value: name,
    };
    Samples {
        labels: bump.alloc_slice_copy(&[label]),
        floats: bump.alloc_slice_copy(floats),
        histograms: &[],
    }
}

/// The column of one series of floats.
fn column(call: &Call<'_>, floats: &[(i64, f64)]) -> Vec<Option<f64>> {
    let (bump, pace) = (Bump::new(), Pace::default());
    let env = env(&bump, &pace, call);
    let series = run(&env, call, vec![samples(&bump, "m_total", floats)], 1 << 20).0;
    let series = series.unwrap();
    let Some(one) = series.first() else {
        return vec![None; call.grid.count];
    };
    let shown = |value: &f64| (!is_absent(*value)).then_some(*value);
    one.column.floats.iter().map(shown).collect()
}

fn assert_near(found: Option<f64>, expected: Option<f64>, what: &str) {
    let same = match (found, expected) {
        (Some(found), Some(expected)) => {
            found == expected
                || found.is_nan() && expected.is_nan()
                || (found - expected).abs() <= 1e-12 * expected.abs()
        }
        (None, None) => true,
        _ => false,
    };
    assert!(same, "{what}: {found:?} instead of {expected:?}");
}

/// Seconds to milliseconds.
fn timed(values: &[(i64, f64)]) -> Vec<(i64, f64)> {
    values.iter().map(|(s, value)| (s * 1000, *value)).collect()
}

#[test]
fn windows_are_open_on_the_left_since_3_0() {
    let floats = timed(&[(0, 1.0), (10, 2.0), (20, 4.0), (30, 8.0)]);
    let cases = [
        (
            OLD,
            [
                Some(1.0),
                Some(3.0),
                Some(7.0),
                Some(14.0),
                Some(12.0),
                Some(8.0),
                None,
            ],
        ),
        (
            NEW,
            [
                Some(1.0),
                Some(3.0),
                Some(6.0),
                Some(12.0),
                Some(8.0),
                None,
                None,
            ],
        ),
    ];
    for (dialect, expected) in cases {
        let call = Call {
            grid: Grid::range(0, 60_000, 10_000),
            ..Call::at(0, 20_000, "sum_over_time", dialect)
        };
        assert_eq!(column(&call, &floats), expected, "{dialect:?}");
    }
}

type Points = &'static [(i64, f64)];

const STEADY: Points = &[(10, 100.0), (20, 110.0), (30, 120.0), (40, 130.0)];
const YOUNG: Points = &[(31, 1.0), (41, 11.0), (51, 21.0)];
/// The way to zero is 8 seconds: nearer than the bound, further than half a gap.
const BETWEEN: Points = &[(31, 8.0), (41, 18.0), (51, 28.0)];
const ZERO: Points = &[(31, 0.0), (41, 10.0), (51, 20.0)];
const RESET: Points = &[(10, 100.0), (20, 110.0), (30, 5.0), (40, 15.0), (50, 3.0)];
const NAN: Points = &[(10, 1.0), (20, f64::NAN), (30, 3.0)];

/// Seconds and values, at, range, function, its value before 2.52 and since.
type Rated = (Points, i64, i64, &'static str, f64, f64);

const RATED: [Rated; 12] = [
    (STEADY, 45, 40, "increase", 40.0, 40.0),
    (STEADY, 45, 40, "rate", 1.0, 1.0),
    (STEADY, 45, 40, "delta", 40.0, 40.0),
    // Half a gap at the beginning and at the end.
    (STEADY, 60, 70, "increase", 40.0, 40.0),
    // The way to zero is a second.
    (
        YOUNG,
        60,
        60,
        "increase",
        20.0 * 30.0 / 20.0,
        20.0 * 30.0 / 20.0,
    ),
    (BETWEEN, 60, 60, "increase", 37.0, 34.0),
    (
        ZERO,
        60,
        60,
        "increase",
        20.0 * 29.0 / 20.0,
        20.0 * 29.0 / 20.0,
    ),
    (
        ZERO,
        60,
        60,
        "delta",
        20.0 * 34.0 / 20.0,
        20.0 * 34.0 / 20.0,
    ),
    // -85 + 110 + 15 of 40 seconds, then 5 to each side.
    (
        RESET,
        55,
        50,
        "increase",
        28.0 * 50.0 / 40.0,
        28.0 * 50.0 / 40.0,
    ),
    (
        RESET,
        55,
        50,
        "delta",
        -97.0 * 50.0 / 40.0,
        -97.0 * 50.0 / 40.0,
    ),
    // A reset right at the beginning of the window is none.
    (
        RESET,
        55,
        26,
        "increase",
        13.0 * 26.0 / 20.0,
        13.0 * 26.0 / 20.0,
    ),
    (
        NAN,
        30,
        25,
        "increase",
        2.0 * 25.0 / 20.0,
        2.0 * 25.0 / 20.0,
    ),
];

#[test]
fn rates_are_extrapolated() {
    for (floats, at, range, function, old, new) in RATED {
        for (dialect, expected) in [(OLD, old), (NEW, new)] {
            let call = Call::at(at * 1000, range * 1000, function, dialect);
            let what = format!("{function} {at} {range} {dialect:?}");
            assert_near(column(&call, &timed(floats))[0], Some(expected), &what);
        }
    }
    let one = timed(&[(10, 1.0)]);
    for function in [
        "rate",
        "increase",
        "delta",
        "irate",
        "idelta",
        "deriv",
        "predict_linear",
    ] {
        let call = Call {
            scalars: if function == "predict_linear" {
                &[1.0]
            } else {
                &[]
            },
            ..Call::at(10_000, 5_000, function, NEW)
        };
        assert_eq!(column(&call, &one), [None], "{function}");
    }
}

const INF: f64 = f64::INFINITY;

/// Function, parameters, values a second apart, what they give.
type OneValue<'t> = (&'t str, &'t [f64], &'t [f64], Option<f64>);

const ONE_VALUE: &[OneValue<'_>] = &[
    ("sum_over_time", &[], &[1e100, 1.0, -1e100], Some(1.0)),
    ("sum_over_time", &[], &[INF, 1.0], Some(INF)),
    ("sum_over_time", &[], &[INF, -INF], Some(f64::NAN)),
    ("sum_over_time", &[], &[1e308, 1e308], Some(INF)),
    ("avg_over_time", &[], &[1.0, 2.0, 6.0], Some(3.0)),
    ("avg_over_time", &[], &[1e308, 1e308, 1e308], Some(1e308)),
    ("avg_over_time", &[], &[INF, 1.0], Some(INF)),
    ("avg_over_time", &[], &[INF, INF], Some(INF)),
    ("avg_over_time", &[], &[-INF, 1.0, INF], Some(f64::NAN)),
    ("min_over_time", &[], &[f64::NAN, 3.0, 2.0], Some(2.0)),
    ("min_over_time", &[], &[3.0, f64::NAN], Some(3.0)),
    ("max_over_time", &[], &[f64::NAN, 3.0, 2.0], Some(3.0)),
    ("max_over_time", &[], &[f64::NAN], Some(f64::NAN)),
    ("count_over_time", &[], &[f64::NAN, 3.0, 2.0], Some(3.0)),
    ("present_over_time", &[], &[f64::NAN], Some(1.0)),
    ("first_over_time", &[], &[5.0, 3.0], Some(5.0)),
    ("last_over_time", &[], &[5.0, 3.0], Some(3.0)),
    ("stdvar_over_time", &[], &[1.0, 3.0], Some(1.0)),
    ("stddev_over_time", &[], &[1.0, 5.0], Some(2.0)),
    ("stdvar_over_time", &[], &[5.0], Some(0.0)),
    ("stdvar_over_time", &[], &[1.0, INF], Some(f64::NAN)),
    (
        "changes",
        &[],
        &[1.0, 1.0, 2.0, f64::NAN, f64::NAN, 2.0],
        Some(3.0),
    ),
    (
        "resets",
        &[],
        &[1.0, 3.0, 2.0, 2.0, 1.0, f64::NAN, 0.0],
        Some(2.0),
    ),
    ("deriv", &[], &[1.0, 3.0, 5.0], Some(2.0)),
    ("deriv", &[], &[4.0, 4.0], Some(0.0)),
    ("deriv", &[], &[INF, INF], Some(f64::NAN)),
    ("predict_linear", &[10.0], &[1.0, 3.0, 5.0], Some(39.0)),
    ("predict_linear", &[10.0], &[4.0, 4.0], Some(4.0)),
    ("irate", &[], &[9.0, 1.0, 4.0], Some(3.0)),
    ("irate", &[], &[9.0, 4.0], Some(4.0)),
    ("idelta", &[], &[9.0, 4.0], Some(-5.0)),
    ("irate", &[], &[f64::NAN, 4.0], Some(f64::NAN)),
    (
        "quantile_over_time",
        &[0.5],
        &[4.0, 1.0, 2.0, 3.0],
        Some(2.5),
    ),
    (
        "quantile_over_time",
        &[0.0],
        &[4.0, f64::NAN],
        Some(f64::NAN),
    ),
    ("quantile_over_time", &[1.0], &[4.0, f64::NAN], Some(4.0)),
    ("quantile_over_time", &[-1.0], &[4.0], Some(-INF)),
    ("quantile_over_time", &[2.0], &[4.0], Some(INF)),
    ("quantile_over_time", &[f64::NAN], &[4.0], Some(f64::NAN)),
    ("mad_over_time", &[], &[1.0, 2.0, 4.0, 9.0, 20.0], Some(3.0)),
    ("ts_of_min_over_time", &[], &[2.0, 1.0, 1.0, 3.0], Some(3.0)),
    ("ts_of_max_over_time", &[], &[3.0, 1.0, 3.0, 2.0], Some(3.0)),
    ("ts_of_first_over_time", &[], &[3.0, 1.0], Some(1.0)),
    ("ts_of_last_over_time", &[], &[3.0, 1.0], Some(2.0)),
    // 1, then 2 with trend 1, then 0.5 × 4 + 0.5 × (2 + 1) with trend 1.
    (
        "double_exponential_smoothing",
        &[0.5, 0.5],
        &[1.0, 2.0, 4.0],
        Some(3.5),
    ),
    ("holt_winters", &[0.5, 0.5], &[1.0], None),
];

#[test]
fn one_value_for_a_window() {
    let values = |all: &[f64]| -> Vec<(i64, f64)> {
        let times = (1..).map(|second| second * 1000);
        times.zip(all.iter().copied()).collect()
    };
    for (function, scalars, window, expected) in ONE_VALUE {
        for dialect in [OLD, NEW] {
            let call = Call {
                scalars,
                ..Call::at(20_000, 20_000, function, dialect)
            };
            let what = format!("{function} {scalars:?} {window:?} {dialect:?}");
            let floats: Vec<_> = values(window);
            let expected = match *function {
                // Twenty seconds after the first sample's second is nineteen after it.
                "predict_linear" if window[0] == 1.0 => Some(1.0 + 2.0 * 29.0),
                _ => *expected,
            };
            assert_near(column(&call, &floats)[0], expected, &what);
        }
    }
}

#[test]
fn scalars_are_taken_at_their_step() {
    let (bump, pace) = (Bump::new(), Pace::default());
    let call_ = Call {
        grid: Grid::range(10_000, 20_000, 10_000),
        ..Call::at(0, 20_000, "quantile_over_time", NEW)
    };
    let env = env(&bump, &pace, &call_);
    let windows = Windows {
        clock: env.clock,
        when: When {
            at: Some(crate::query::At::Time(10_000)),
            offset_ms: 0,
        },
        range_ms: 20_000,
    };
    let floats = [(1_000, 1.0), (2_000, 2.0), (3_000, 3.0)];
    let range = Value::Range(windows, vec![samples(&bump, "m", &floats)]);
    let arguments = vec![Value::Scalar(bump.alloc_slice_copy(&[0.0, 1.0])), range];
    let mut work = pin!(call(&env, &call_.grid, call_.function, arguments));
    let made = drive(&pace, work.as_mut(), 1 << 20).unwrap().unwrap();
    assert_eq!(made.into_vector()[0].column.floats, [1.0, 3.0]);
}

#[test]
fn factors_lie_between_0_and_1() {
    let cases = [
        (
            [0.0, 0.5],
            "invalid smoothing factor. Expected: 0 < sf < 1, got: 0.000000",
        ),
        (
            [0.5, 1.0],
            "invalid trend factor. Expected: 0 < tf < 1, got: 1.000000",
        ),
        (
            [f64::INFINITY, 0.5],
            "invalid smoothing factor. Expected: 0 < sf < 1, got: +Inf",
        ),
    ];
    for (scalars, expected) in cases {
        let (bump, pace) = (Bump::new(), Pace::default());
        let call = Call {
            scalars: &scalars,
            ..Call::at(5_000, 5_000, "holt_winters", OLD)
        };
        let env = env(&bump, &pace, &call);
        let range = || vec![samples(&bump, "m", &[(1_000, 1.0), (2_000, 2.0)])];
        let error = run(&env, &call, range(), 1 << 20).0.unwrap_err();
        assert_eq!(error, EvalError::Execution(expected.to_owned()));
        // Without a sample nobody looks.
        let none = Call {
            grid: Grid::instant(90_000),
            ..call
        };
        assert!(run(&env, &none, range(), 1 << 20).0.unwrap().is_empty());
    }
}

#[test]
fn names_are_dropped_and_may_not_meet() {
    let (bump, pace) = (Bump::new(), Pace::default());
    let both = || {
        let floats = [(1_000, 1.0), (2_000, 3.0)];
        vec![samples(&bump, "a", &floats), samples(&bump, "b", &floats)]
    };
    let call = Call::at(5_000, 5_000, "sum_over_time", NEW);
    let env_ = env(&bump, &pace, &call);
    // Out of order, too.
    let mut three = both();
    let other = Label {
        name: "z",
        value: "1",
    };
    three[0].labels = bump.alloc_slice_copy(&[three[0].labels[0], other]);
    three.push(both().remove(0));
    assert!(run(&env_, &call, three, 1 << 20).0.is_err());
    let error = run(&env_, &call, both(), 1 << 20).0.unwrap_err();
    let text = "vector cannot contain metrics with the same labelset";
    assert_eq!(error, EvalError::Execution(text.to_owned()));
    for function in ["last_over_time", "first_over_time"] {
        let call = Call {
            function,
            ..Call::at(5_000, 5_000, "", NEW)
        };
        let made = run(&env_, &call, both(), 1 << 20).0.unwrap();
        let names: Vec<&str> = made.iter().map(|one| one.labels[0].value).collect();
        assert_eq!(names, ["a", "b"], "{function}");
    }
    let mut one = both();
    one.truncate(1);
    let made = run(&env_, &call, one, 1 << 20).0.unwrap();
    assert!(made[0].labels.is_empty());
}

#[test]
fn annotations() {
    let counter = "PromQL info: metric might not be a counter, name does not end in \
                   _total/_sum/_count/_bucket: \"m\"";
    let quantile = "PromQL warning: quantile value should be between 0 and 1, got 1.5";
    type Row<'t> = (&'t str, &'t [f64], &'t str, (u32, u32), &'t [&'t str]);
    let cases: &[Row<'_>] = &[
        ("rate", &[], "m", NEW, &[counter]),
        ("increase", &[], "m", NEW, &[counter]),
        ("rate", &[], "m", OLD, &[]),
        ("rate", &[], "m_count", NEW, &[]),
        ("delta", &[], "m", NEW, &[]),
        ("quantile_over_time", &[1.5], "m", NEW, &[quantile]),
        ("quantile_over_time", &[1.5], "m", OLD, &[]),
        ("quantile_over_time", &[0.5], "m", NEW, &[]),
    ];
    for (function, scalars, name, dialect, expected) in cases {
        let (bump, pace) = (Bump::new(), Pace::default());
        let call = Call {
            scalars,
            ..Call::at(5_000, 5_000, function, *dialect)
        };
        let env = env(&bump, &pace, &call);
        let range = vec![samples(&bump, name, &[(1_000, 1.0), (2_000, 2.0)])];
        run(&env, &call, range, 1 << 20).0.unwrap();
        let notes = env.notes.take();
        let notes = [notes.warnings, notes.infos].concat();
        assert_eq!(notes, *expected, "{function} {name} {dialect:?}");
    }
}

/// A histogram with so many observations in one bucket.
fn histogram<'a>(bump: &'a Bump, count: u32) -> &'a Histogram<'a> {
    let text = format!(
        r#"{{"count":"{count}","sum":"{}","buckets":[[0,"1","2","{count}"]]}}"#,
        count * 2
    );
    Histogram::read(bump, bump.alloc_str(&text).as_bytes()).unwrap()
}

/// What a function makes of histograms at 10 s distance: the written histogram, or the float.
fn of_histograms(call: &Call<'_>, counts: &[u32], floats: &[(i64, f64)]) -> (String, Vec<String>) {
    let (bump, pace) = (Bump::new(), Pace::default());
    let env = env(&bump, &pace, call);
    let all: Vec<_> = (1..)
        .zip(counts)
        .map(|(at, count)| (at * 10_000, histogram(&bump, *count)))
        .collect();
    let range = Samples {
        histograms: bump.alloc_slice_copy(&all),
        ..samples(&bump, "m", floats)
    };
    let made = run(&env, call, vec![range], 1 << 20).0.unwrap();
    let shown = match made.first() {
        None => "none".to_owned(),
        Some(one) => match one.column.histogram(0) {
            Some(histogram) => format!("{} {}", histogram.count(), histogram.sum()),
            None => format!("{}", one.column.floats[0]),
        },
    };
    let notes = env.notes.take();
    (shown, [notes.warnings, notes.infos].concat())
}

#[test]
fn histograms() {
    // Function, counts, what 2.42 makes of them, what 3.5 does.
    let cases: &[(&str, &[u32], &str, &str)] = &[
        ("increase", &[4, 6, 10], "9 18", "9 18"),
        ("increase", &[4], "none", "none"),
        ("delta", &[4, 6, 2], "-3 -6", "-3 -6"),
        // 2 - 4 + 6.
        ("increase", &[4, 6, 2], "6 12", "6 12"),
        // Right after the first: 8.
        ("increase", &[4, 2, 8], "12 24", "12 24"),
        ("irate", &[4, 6, 10], "0", "0.4 0.8"),
        ("irate", &[4, 6, 5], "0", "0.5 1"),
        ("idelta", &[4, 6, 5], "0", "-1 -2"),
        ("sum_over_time", &[4, 6, 10], "0", "20 40"),
        ("avg_over_time", &[4, 6, 11], "0", "7 14"),
        ("max_over_time", &[4, 6, 10], "0", "none"),
        ("stddev_over_time", &[4, 6, 10], "0", "none"),
        ("deriv", &[4, 6, 10], "0", "none"),
        ("changes", &[4, 4, 10], "0", "1"),
        ("resets", &[4, 3, 10], "0", "1"),
        ("count_over_time", &[4, 6, 10], "3", "3"),
        ("present_over_time", &[4], "1", "1"),
        ("last_over_time", &[4, 6], "0", "6 12"),
        ("first_over_time", &[4, 6], "0", "4 8"),
    ];
    for (function, counts, old, new) in cases {
        for (dialect, expected) in [(OLD, old), (NEW, new)] {
            let call = Call::at(35_000, 30_000, function, dialect);
            let (found, _) = of_histograms(&call, counts, &[]);
            assert_eq!(found, **expected, "{function} {counts:?} {dialect:?}");
        }
    }
}

#[test]
fn floats_and_histograms_mixed() {
    let mix = "PromQL warning: encountered a mix of histograms and floats for metric name \"m\"";
    let ignored = "PromQL info: ignored histograms in a range containing both floats and \
                   histograms for metric name \"m\"";
    let gauge = "PromQL warning: this native histogram metric is not a gauge: \"m\"";
    let one: &[(i64, f64)] = &[(15_000, 7.0)];
    type Row<'t> = (&'t str, &'t [(i64, f64)], &'t str, &'t [&'t str]);
    let cases: &[Row<'_>] = &[
        ("rate", one, "none", &[mix]),
        ("sum_over_time", one, "none", &[mix]),
        ("avg_over_time", one, "none", &[mix]),
        ("max_over_time", one, "7", &[ignored]),
        ("stdvar_over_time", one, "0", &[ignored]),
        ("count_over_time", one, "3", &[]),
        ("changes", one, "2", &[]),
        ("resets", one, "2", &[]),
        ("last_over_time", one, "6 12", &[]),
        ("last_over_time", &[(25_000, 1.0)], "1", &[]),
        ("first_over_time", one, "4 8", &[]),
        ("irate", one, "none", &[mix]),
        ("delta", &[], "5 10", &[gauge]),
        ("idelta", &[], "2 4", &[gauge]),
    ];
    for (function, floats, expected, notes) in cases {
        let call = Call::at(25_000, 25_000, function, NEW);
        let (found, said) = of_histograms(&call, &[4, 6], floats);
        assert_eq!(found, *expected, "{function}");
        assert_eq!(said, *notes, "{function}");
    }
}

/// However long a window is, no turn is longer than its budget and a chunk.
#[test]
fn long_windows_take_many_turns() {
    let floats: Vec<(i64, f64)> = (1..=50_000).map(|at| (at, (at % 77) as f64)).collect();
    for function in [
        "sum_over_time",
        "quantile_over_time",
        "changes",
        "rate",
        "mad_over_time",
    ] {
        let (bump, pace) = (Bump::new(), Pace::default());
        let call = Call {
            scalars: if function == "quantile_over_time" {
                &[0.5]
            } else {
                &[]
            },
            ..Call::at(50_000, 50_000, function, NEW)
        };
        let env = env(&bump, &pace, &call);
        let range = vec![samples(&bump, "m_total", &floats)];
        let (made, turns) = run(&env, &call, range, 8 * 1024);
        assert_eq!(made.unwrap().len(), 1);
        assert!(turns > 20, "{function}: {turns}");
    }
}

/// Ranks found bit by bit are those of the sorted values.
#[test]
fn selecting_agrees_with_sorting() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut floats = Vec::new();
    for at in 0..3_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = match at % 10 {
            0 => f64::NAN,
            1 => f64::from_bits(state),
            _ => (state % 1_000) as f64 - 500.0,
        };
        floats.push((at, value));
    }
    let mut sorted: Vec<f64> = floats.iter().map(|(_, value)| *value).collect();
    sorted.sort_by(|a, b| {
        let order = a.partial_cmp(b);
        order.unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
    });
    let (bump, pace) = (Bump::new(), Pace::default());
    let env = env(&bump, &pace, &Call::at(0, 0, "", NEW));
    for quantile in [0.0, 0.05, 0.0999, 0.2, 0.37, 0.5, 0.93, 0.999, 1.0] {
        let same = |value: f64| value;
        let mut work = pin!(rank::quantile(&env, &floats, quantile, &same));
        let found = drive(&pace, work.as_mut(), 1 << 30).unwrap().unwrap();
        let rank = quantile * 2_999.0;
        let (low, weight) = (rank.floor(), rank - rank.floor());
        let low_at = low as usize;
        let high = sorted[(low_at + 1).min(2_999)];
        let expected = sorted[low_at] * (1.0 - weight) + high * weight;
        assert_near(Some(found), Some(expected), &format!("{quantile}"));
    }
}
