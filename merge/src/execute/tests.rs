//! Whole executions: parts of several windows, the query as it was written, budgets, refusals.

use super::*;
use crate::document::Trim;
use crate::limits::ARENA_BYTES_DEFAULT;
use crate::plan::{Clock, Dialect, Endpoint, Grid, PlanOptions, Window, plan};

const NOON: i64 = 1_700_000_000_000;

fn planned(query: &str) -> Plan {
    let options = PlanOptions {
        clock: Some(Clock {
            grid: Grid::instant(NOON),
            end_ms: NOON,
            dialect: Dialect {
                major: 2,
                minor: 42,
            },
            interval_ms: 60_000,
            lookback_ms: 300_000,
        }),
        ..PlanOptions::default()
    };
    plan(&Endpoint::Query, Some(query), &options)
}

/// Executes for two groups; `say` gives the answer of a group to a variant.
fn executed(
    plan: &Plan,
    options: &MergeOptions,
    say: impl Fn(usize, usize) -> (u16, String),
) -> (Merged, String) {
    let groups = [GroupSpec::single("a"), GroupSpec::single("b")];
    let arena = Arena::new(ARENA_BYTES_DEFAULT, Execution::slots(plan, groups.len()));
    let mut execution = Execution::new(&arena, plan, &groups, options);
    for variant in 0..plan.variants.len() {
        for group in 0..groups.len() {
            let slot = Slot {
                group,
                member: 0,
                variant,
            };
            let (status, body) = say(group, variant);
            execution.add(slot, Answer::new(status, body.into_bytes()));
            while execution.step(1) == Progress::More {}
        }
    }
    assert_eq!(execution.step(1), Progress::Done);
    let merged = execution.finish();
    let text = String::from_utf8(merged.body.concat()).unwrap();
    (merged, text)
}

fn vector(series: &str) -> (u16, String) {
    let body =
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#);
    (200, body)
}

fn one(value: usize) -> (u16, String) {
    vector(&format!(
        r#"{{"metric":{{}},"value":[1700000000,"{value}"]}}"#
    ))
}

#[test]
fn parts_are_merged_and_the_rest_is_evaluated() {
    let plan = planned("sum(a) / sum(b)");
    let (merged, text) = executed(&plan, &MergeOptions::default(), |group, variant| {
        one([[6, 2], [4, 3]][group][variant])
    });
    assert_eq!((merged.status, merged.inexact.len()), (200, 0));
    assert_eq!(
        text,
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000,"2"]}]}}"#
    );
    assert_eq!((merged.series, merged.samples), (4, 4));
}

#[test]
fn stats_of_all_parts_are_added_up() {
    let plan = planned("sum(a) / sum(b)");
    let (_, text) = executed(&plan, &MergeOptions::default(), |group, variant| {
        let (status, body) = one(1);
        let samples = 10 * group + variant;
        let stats = format!(r#"],"stats":{{"samples":{{"peakSamples":{samples}}}}}}}}}"#);
        (status, body.replace("]}}", &stats))
    });
    assert_eq!(
        text,
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000,"1"]}],"stats":{"timings":{},"samples":{"peakSamples":22}}}}"#
    );
}

/// Windows of one part follow each other, and a series may miss from any.
#[test]
fn windows_are_joined() {
    let plan = planned("count_over_time(sum by (x) (a)[10h:1s])");
    let windows: Vec<Grid> = plan
        .variants
        .iter()
        .filter_map(|variant| match variant.window {
            Some(Window::Range(grid)) => Some(grid),
            _ => None,
        })
        .collect();
    assert_eq!(windows.len(), 4);
    let (_, text) = executed(&plan, &MergeOptions::default(), |group, variant| {
        let seconds = windows[variant].start_ms / 1000;
        let series =
            |name: &str| format!(r#"{{"metric":{{"x":"{name}"}},"values":[[{seconds},"1"]]}}"#);
        let all = match (group, variant) {
            (0, 1) => format!("{},{}", series("1"), series("2")),
            (0, _) => series("1"),
            _ => String::new(),
        };
        let body =
            format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":[{all}]}}}}"#);
        (200, body)
    });
    assert!(
        text.contains(r#"{"metric":{"x":"1"},"value":[1700000000,"4"]}"#),
        "{text}"
    );
    assert!(
        text.contains(r#"{"metric":{"x":"2"},"value":[1700000000,"1"]}"#),
        "{text}"
    );
}

/// What a server refuses of the query as it was written is the answer; its data are not.
#[test]
fn a_server_judges_what_is_not_plain() {
    let plan = planned("limitk(1, a)");
    let refused = r#"{"status":"error","errorType":"bad_data","error":"no limitk"}"#;
    let limited = r#"{"status":"error","errorType":"execution","error":"too much"}"#;
    let (merged, text) = executed(
        &plan,
        &MergeOptions::default(),
        |_, variant| match variant {
            0 => one(1),
            _ => (400, refused.to_owned()),
        },
    );
    assert_eq!((merged.status, text.as_str()), (400, refused));
    let (merged, text) = executed(&plan, &MergeOptions::default(), |group, variant| {
        match (group, variant) {
            (0, 0) => one(1),
            (_, 0) => vector(""),
            _ => (422, limited.to_owned()),
        }
    });
    assert_eq!((merged.status, merged.partial), (200, false), "{text}");
}

/// The error of a part is the answer's.
#[test]
fn a_part_that_fails_fails_the_query() {
    let plan = planned("sum(a) / sum(b)");
    let error = r#"{"status":"error","errorType":"timeout","error":"too slow"}"#;
    let (merged, text) = executed(
        &plan,
        &MergeOptions::default(),
        |_, variant| match variant {
            0 => one(1),
            _ => (503, error.to_owned()),
        },
    );
    assert_eq!((merged.status, text.as_str()), (503, error));
}

#[test]
fn budgets_hold_over_all_parts_and_steps() {
    let plan = planned("topk(1, a) + topk(1, b)");
    for (series_max, status) in [(4, 200), (3, 422)] {
        let options = MergeOptions {
            series_max,
            ..MergeOptions::default()
        };
        let (merged, text) = executed(&plan, &options, |group, _| {
            vector(&format!(
                r#"{{"metric":{{"g":"{group}"}},"value":[1700000000,"1"]}}"#
            ))
        });
        assert_eq!(merged.status, status, "{text}");
        assert_eq!(
            text.contains("raise alb.tsm.max_series"),
            status == 422,
            "{text}"
        );
        assert_eq!(
            text.contains("topk needs its series"),
            status == 422,
            "{text}"
        );
    }
    // A few samples at many steps.
    let plan = planned("max_over_time(sum(a)[1h:1s])");
    for (samples_max, status) in [(3601, 200), (3600, 422)] {
        let options = MergeOptions {
            samples_max,
            ..MergeOptions::default()
        };
        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1699999999,"1"]]}]}}"#;
        let (merged, text) = executed(&plan, &options, |_, _| (200, matrix.to_owned()));
        assert_eq!(merged.status, status, "{text}");
        assert_eq!(
            text.contains("raise alb.tsm.max_samples"),
            status == 422,
            "{text}"
        );
    }
}

#[test]
fn a_refused_plan_asks_nobody() {
    let plan = planned("max_over_time(sum(a)[100d:1s])");
    let (merged, text) = executed(&plan, &MergeOptions::default(), |_, _| one(1));
    assert_eq!(merged.status, 422);
    assert!(text.contains("range requests, more than"), "{text}");
}

/// Doubts of a part are the answer's, and so is its wish for a second plan.
#[test]
fn doubts_of_parts_are_kept() {
    let plan = planned("sum(a) > 0");
    let options = MergeOptions {
        aggregates_histograms: true,
        ..MergeOptions::default()
    };
    let native = r#"{"metric":{},"histogram":[1700000000,{"count":"1","sum":"1"}]}"#;
    let (merged, text) = executed(&plan, &options, |_, _| vector(native));
    assert_eq!(
        merged.retry,
        Some(crate::merge::Retry::Histograms),
        "{text}"
    );
    assert_eq!(
        (merged.inexact.len(), merged.warnings.len()),
        (1, 1),
        "{text}"
    );
}

/// What each slot was read of is told by it, and what is missing in words.
#[test]
fn reads_and_gaps_are_told() {
    let plan = planned("sum(a) / sum(b)");
    let (merged, _) = executed(&plan, &MergeOptions::default(), |group, variant| {
        match (group, variant) {
            (1, 1) => (500, "no".to_owned()),
            _ => one(1),
        }
    });
    let mut slots: Vec<(usize, usize)> = merged
        .reads
        .iter()
        .map(|read| (read.slot.variant, read.slot.group))
        .collect();
    slots.sort_unstable();
    assert_eq!(slots, [(0, 0), (0, 1), (1, 0)]);
    assert!(
        merged
            .reads
            .iter()
            .all(|read| (read.series, read.samples) == (1, 1))
    );
    assert_eq!(merged.missing.len(), 1);
    assert!(merged.missing[0].starts_with("partial answer: replica group b"));
}

/// A limit is of the whole answer and not of its parts.
#[test]
fn a_limit_cuts_what_is_evaluated() {
    let plan = planned("a * on (n) b");
    let series = |n: usize| format!(r#"{{"metric":{{"n":"{n}"}},"value":[1700000000,"2"]}}"#);
    let say = |group: usize, _| vector(&format!("{},{}", series(2 * group), series(2 * group + 1)));
    for (limit, expected, is_cut) in [(None, 4, false), (Some(3), 3, true), (Some(4), 4, false)] {
        let options = MergeOptions {
            trim: Trim {
                limit,
                ..Trim::default()
            },
            ..MergeOptions::default()
        };
        let (merged, text) = executed(&plan, &options, say);
        assert_eq!(text.matches("\"metric\"").count(), expected, "{text}");
        let warning = merged
            .warnings
            .iter()
            .any(|text| text == "results truncated due to limit");
        assert_eq!(warning, is_cut, "{text}");
    }
}

/// Only what stands in a window differs with the version of the servers.
#[test]
fn windows_that_are_evaluated_here_are_known() {
    for (query, expected) in [
        ("sum(a)", false),
        ("sum(a) / sum(b)", false),
        ("rate(a[5m]) / rate(b[5m])", false),
        ("max_over_time(sum(a)[5m:1m])", true),
    ] {
        assert_eq!(planned(query).evaluates_windows(), expected, "{query}");
    }
}

/// Where the last bits of sums in parts decide, a second plan is asked for, and only there.
#[test]
fn ties_of_sums_in_parts_ask_for_a_second_plan() {
    // What each group says to each variant.
    type Said<'s> = [&'s [&'s str]; 2];
    let halves: Said<'_> = [&["0.1", "0.15"], &["0.2", "0.15"]];
    let whole: Said<'_> = [&["1", "2"], &["3", "2"]];
    let far: Said<'_> = [&["0.1", "0.2"], &["0.2", "0.4"]];
    let nothing: Said<'_> = [&["0", "0"], &["0", "0"]];
    let cases: [(&str, Said<'_>, bool); 29] = [
        ("sum(a) > 0.3", halves, true),
        ("sum(a) >= bool 0.3", halves, true),
        ("0.3 < sum(a)", halves, true),
        ("sum(a) == 0.3", halves, true),
        ("sum(a) > 0.31", halves, false),
        ("sum(a) > 0", nothing, false),
        ("sum(a) <= 4", whole, false),
        ("sum(a) > sum(b)", halves, true),
        ("sum(a) < bool sum(b)", halves, true),
        ("sum(a) < sum(b)", whole, false),
        ("sum(a) < sum(b)", far, false),
        ("scalar(sum(a)) < bool scalar(sum(b))", halves, true),
        ("sum(a) + -1 * sum(b)", halves, true),
        ("sum(a) + sum(b)", halves, false),
        ("sum(a) - 0.29999995", halves, true),
        ("sum(a) - 0.29", halves, false),
        ("1 - sum(a) / sum(b)", halves, true),
        ("1 - sum(a) / sum(b)", far, false),
        ("ln(sum(a) / sum(b))", halves, true),
        ("ln(sum(a) / sum(b))", far, false),
        ("minute(sum(a) * 600)", halves, true),
        ("minute(sum(a) * 601)", halves, false),
        ("minute(sum(a) * 60)", whole, false),
        // The second variant is the count.
        ("avg(a) > 0.15", [&["0.1", "1"], &["0.2", "1"]], true),
        ("avg(a) > 2.5", [&["2", "1"], &["3", "1"]], true),
        ("avg(a) < 1", [&["1", "1"], &["2", "2"]], false),
        ("count(a) > 4", whole, false),
        // Added up here: there is nothing to doubt.
        ("round(sum(a)) > 1", [&["0.5"], &["0.5"]], false),
        ("sum(a) - sum(b)", [&["0.1", "0.1"], &["0.1", "0.1"]], false),
    ];
    for (query, said, expected) in cases {
        let plan = planned(query);
        let (merged, text) = executed(&plan, &MergeOptions::default(), |group, variant| {
            let value = said[group][variant];
            vector(&format!(
                r#"{{"metric":{{}},"value":[1700000000,"{value}"]}}"#
            ))
        });
        assert_eq!(merged.status, 200, "{query} {text}");
        let retry = expected.then_some(Retry::Tie);
        assert_eq!(merged.retry, retry, "{query} {text}");
        assert_eq!(merged.inexact.len(), usize::from(expected), "{query}");
        assert_eq!(text.contains("last bits of sums"), expected, "{query}");
    }
}

/// Equal values compete where groups have put the series in an order of their own.
#[test]
fn order_that_decides_asks_for_a_second_plan() {
    let cases: [(&str, [&str; 3], bool); 12] = [
        ("topk(2, sum by (a) (x))", ["1", "1", "1"], true),
        ("bottomk(2, sum by (a) (x))", ["1", "1", "1"], true),
        ("topk(2, sum by (a) (x))", ["3", "2", "1"], false),
        ("topk(2, sum by (a) (x))", ["3", "3", "1"], false),
        ("topk(2, sum by (a) (x))", ["3", "1", "1"], true),
        ("topk(3, sum by (a) (x))", ["1", "1", "1"], false),
        ("topk(1, max by (a) (x) + 1)", ["2", "NaN", "NaN"], false),
        ("topk(1, max by (a) (x) + 1)", ["NaN", "NaN", "NaN"], true),
        ("limitk(2, count by (a) (x))", ["3", "2", "1"], true),
        ("limitk(3, count by (a) (x))", ["3", "2", "1"], false),
        // The order of selectors is that of their labels.
        ("topk(2, x)", ["1", "1", "1"], false),
        ("topk(2, rate(x[5m]) * 2)", ["1", "1", "1"], false),
    ];
    for (query, values, expected) in cases {
        let plan = planned(query);
        let (merged, text) = executed(&plan, &MergeOptions::default(), |group, _| {
            let series = values.iter().zip(["p", "q", "r"]).map(|(value, label)| {
                format!(r#"{{"metric":{{"a":"{label}"}},"value":[1700000000,"{value}"]}}"#)
            });
            let series: Vec<String> = series.collect();
            vector(
                if group == 0 { &series[..] } else { &[] }
                    .join(",")
                    .as_str(),
            )
        });
        assert_eq!(merged.status, 200, "{query} {text}");
        let retry = expected.then_some(Retry::Order);
        assert_eq!(merged.retry, retry, "{query} {values:?} {text}");
        assert_eq!(text.contains("equal values compete"), expected, "{query}");
    }
}

/// The same of the steps of ranges, and among series.
#[test]
fn ties_in_ranges_ask_for_a_second_plan() {
    let series = |label: &str, values: [&str; 3]| {
        let [a, b, c] = values;
        format!(
            r#"{{"metric":{{"a":"{label}"}},"values":[[1699999860,"{a}"],[1699999920,"{b}"],[1699999980,"{c}"]]}}"#
        )
    };
    let cases = [
        // 0.1 + 0.2 is not 0.3.
        (
            "delta(sum(a)[3m:1m])",
            ["0.1", "0.1", "0.1"],
            ["0.2", "0.2", "0.2"],
            false,
        ),
        (
            "delta(sum(a)[3m:1m])",
            ["0.1", "0.15", "0.3"],
            ["0.2", "0.15", "0.3"],
            true,
        ),
        (
            "deriv(sum(a)[3m:1m])",
            ["0.1", "0.15", "0.3"],
            ["0.2", "0.15", "0.3"],
            true,
        ),
        (
            "deriv(sum(a)[3m:1m])",
            ["0.1", "0.2", "0.3"],
            ["0.2", "0.15", "0.3"],
            false,
        ),
        (
            "stddev_over_time(sum(a)[3m:1m])",
            ["0.1", "0.15", "0.3"],
            ["0.2", "0.15", "0.3"],
            true,
        ),
        (
            "max_over_time(sum(a)[3m:1m])",
            ["0.1", "0.15", "0.3"],
            ["0.2", "0.15", "0.3"],
            false,
        ),
    ];
    for (query, first, second, expected) in cases {
        let plan = planned(query);
        let (merged, text) = executed(&plan, &MergeOptions::default(), |group, _| {
            let series = series("1", if group == 0 { first } else { second });
            let data = format!(r#"{{"resultType":"matrix","result":[{series}]}}"#);
            (200, format!(r#"{{"status":"success","data":{data}}}"#))
        });
        assert_eq!(merged.status, 200, "{query} {text}");
        let retry = expected.then_some(Retry::Tie);
        assert_eq!(merged.retry, retry, "{query} {text}");
    }
    let plan = planned("stddev(sum by (a) (x))");
    let pair = |first: &str, second: &str| {
        let one = |label: &str, value: &str| {
            format!(r#"{{"metric":{{"a":"{label}"}},"value":[1700000000,"{value}"]}}"#)
        };
        vector(&format!("{},{}", one("1", first), one("2", second)))
    };
    for (other, expected) in [("0.15", Some(Retry::Tie)), ("0.2", None)] {
        let (merged, _) = executed(&plan, &MergeOptions::default(), |group, _| match group {
            0 => pair("0.1", "0.15"),
            _ => pair("0.2", other),
        });
        assert_eq!(merged.retry, expected, "{other}");
    }
}

/// With care nothing is added up in parts, so that nothing asks again.
#[test]
fn a_careful_plan_has_no_ties() {
    let options = PlanOptions {
        care: Retry::Tie.care(),
        clock: planned("sum(a) > 1").local.map(|local| local.clock),
        ..PlanOptions::default()
    };
    let plan = plan(&Endpoint::Query, Some("sum(a) > 0.3"), &options);
    let (merged, text) = executed(&plan, &MergeOptions::default(), |group, _| {
        let value = ["0.1", "0.2"][group];
        vector(&format!(
            r#"{{"metric":{{"g":"{group}"}},"value":[1700000000,"{value}"]}}"#
        ))
    });
    assert_eq!((merged.status, merged.retry), (200, None), "{text}");
    assert!(merged.inexact.is_empty());
}
