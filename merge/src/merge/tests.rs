//! One row per contract sentence of the merge.

mod doubts;
mod stats;

use super::*;
use crate::limits::ARENA_BYTES_DEFAULT;
use crate::plan::{PlanOptions, plan};

/// What each slot reports: a body under status 200, a body under another, or nothing.
#[derive(Clone, Copy)]
enum Report<'t> {
    Vector(&'t str),
    Matrix(&'t str),
    Body(u16, &'t str),
    Fails,
    /// A report of a backend with this label `region`.
    Region(&'t str, &'t Report<'t>),
}
use Report::{Body, Fails, Matrix, Region, Vector};

fn body_of(kind: &str, series: &str) -> Vec<u8> {
    format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":[{series}]}}}}"#)
        .into_bytes()
}

fn group(name: &str, members: usize) -> GroupSpec {
    let members = (0..members)
        .map(|at| MemberSpec {
            is_first: at == 0,
            ..MemberSpec::new(&format!("{name}{at}"))
        })
        .collect();
    GroupSpec {
        name: name.to_owned(),
        members,
    }
}

/// Merges reports given in slot order.
fn merge_with(
    plan: &Plan,
    groups: &[GroupSpec],
    options: MergeOptions,
    reports: &[Report<'_>],
    units: usize,
) -> (Merged, String) {
    let arena = Arena::new(ARENA_BYTES_DEFAULT, reports.len());
    let mut merge = Merge::new(&arena, plan, groups, options);
    let mut reports = reports.iter();
    for (group, spec) in groups.iter().enumerate() {
        for member in 0..spec.members.len() {
            for variant in 0..plan.variants.len() {
                let slot = Slot {
                    group,
                    member,
                    variant,
                };
                let mut report = reports.next().expect("a report for every slot");
                let mut injected_labels = Vec::new();
                if let Region(region, inner) = report {
                    injected_labels.push(("region".to_owned(), (*region).to_owned()));
                    report = inner;
                }
                let answer = match report {
                    Vector(series) => Some(Answer::new(200, body_of("vector", series))),
                    Matrix(series) => Some(Answer::new(200, body_of("matrix", series))),
                    Body(status, body) => Some(Answer::new(*status, body.as_bytes().to_vec())),
                    Fails | Region(..) => None,
                };
                match answer {
                    Some(answer) => merge.add(
                        slot,
                        Answer {
                            injected_labels,
                            ..answer
                        },
                    ),
                    None => merge.fail(slot, MemberFailure::Unreachable),
                }
                while merge.step(units) == Progress::More {}
            }
        }
    }
    assert_eq!(merge.step(units), Progress::Done);
    let mut merged = merge.finish();
    let text = String::from_utf8(std::mem::take(&mut merged.body).concat()).unwrap();
    (merged, text)
}

fn merge(query: &str, groups: &[GroupSpec], reports: &[Report<'_>]) -> (Merged, String) {
    let plan = plan(&Endpoint::Query, Some(query), &PlanOptions::default());
    merge_with(&plan, groups, MergeOptions::default(), reports, 1)
}

/// Returns what stands between the brackets of `result`.
fn result(query: &str, groups: &[GroupSpec], reports: &[Report<'_>]) -> String {
    let (merged, text) = merge(query, groups, reports);
    assert_eq!(merged.status, 200, "{text}");
    let start = text.find("\"result\":[").expect("a result") + "\"result\":[".len();
    let end = text[start..].find("]}").map_or(text.len(), |_| {
        text.rfind("]}").expect("an end of the result")
    });
    let end = text.find("]},\"warnings\"").unwrap_or(end);
    text[start..end].to_owned()
}

fn two() -> [GroupSpec; 2] {
    [group("a", 1), group("b", 1)]
}

// === value rules across groups ===

#[test]
fn strategies_combine_equal_label_sets() {
    let cases = [
        ("sum(x)", "1", "2", "3"),
        ("sum(x)", "0.1", "0.2", "0.30000000000000004"),
        ("sum(x)", "NaN", "2", "NaN"),
        ("sum(x)", "+Inf", "-Inf", "NaN"),
        ("sum(x)", "-0", "-0", "-0"),
        ("sum(x)", "1e+21", "1e-07", "1e+21"),
        ("count(x)", "3", "4", "7"),
        ("count_values(\"v\", x)", "3", "4", "7"),
        ("min(x)", "1", "2", "1"),
        ("min(x)", "NaN", "2", "2"),
        ("min(x)", "NaN", "NaN", "NaN"),
        ("max(x)", "1", "2", "2"),
        ("max(x)", "2", "NaN", "2"),
        ("max(x)", "-Inf", "-1.5", "-1.5"),
        ("group(x)", "1", "1", "1"),
        ("x", "1", "2", "1"),
        ("time()", "NaN", "2", "2"),
        ("time()", "NaN", "NaN", "NaN"),
    ];
    for (query, first, second, expected) in cases {
        let series = |value| format!(r#"{{"metric":{{"a":"b"}},"value":[1,"{value}"]}}"#);
        let found = result(
            query,
            &two(),
            &[Vector(&series(first)), Vector(&series(second))],
        );
        assert_eq!(found, series(expected), "{query} of {first} and {second}");
    }
}

#[test]
fn ranges_combine_per_timestamp() {
    let first = r#"{"metric":{},"values":[[1,"1"],[2,"2"],[3.500,"3"]]}"#;
    let second = r#"{"metric":{},"values":[[2,"10"],[3.500,"NaN"],[4,"20"]]}"#;
    let cases = [
        ("sum(x)", r#"[[1,"1"],[2,"12"],[3.500,"NaN"],[4,"20"]]"#),
        ("max(x)", r#"[[1,"1"],[2,"10"],[3.500,"3"],[4,"20"]]"#),
        ("min(x)", r#"[[1,"1"],[2,"2"],[3.500,"3"],[4,"20"]]"#),
        ("x", r#"[[1,"1"],[2,"2"],[3.500,"3"],[4,"20"]]"#),
    ];
    for (query, expected) in cases {
        let found = result(query, &two(), &[Matrix(first), Matrix(second)]);
        assert_eq!(
            found,
            format!(r#"{{"metric":{{}},"values":{expected}}}"#),
            "{query}"
        );
    }
}

#[test]
fn mean_is_sum_over_count() {
    let at = |value: &str| format!(r#"{{"metric":{{}},"value":[1,"{value}"]}}"#);
    let (three, four, one) = (at("3"), at("4"), at("1"));
    let reports = [Vector(&three), Vector(&one), Vector(&three), Vector(&four)];
    assert_eq!(result("avg(x)", &two(), &reports), at("1.2"));
    let (merged, _) = merge("avg(x)", &two(), &reports);
    assert_eq!(merged.warnings, [] as [&str; 0]);

    // A series without its count is left out, with a warning (W10).
    let reports = [Vector(&three), Vector(""), Vector(&three), Vector(&four)];
    assert_eq!(result("avg(x)", &two(), &reports), at("0.75"));
    let (merged, _) = merge("avg(x)", &two(), &reports);
    assert_eq!(merged.warnings.len(), 1, "{:?}", merged.warnings);
    assert!(!merged.partial);

    // A count of 0 is no mean; nothing is left then.
    let zero = at("0");
    let reports = [Vector(&zero), Vector(&zero), Vector(""), Vector("")];
    assert_eq!(result("avg(x)", &two(), &reports), "");

    // An infinite sum may be an overflow.
    let (large, two_of) = (at("1.7e+308"), at("2"));
    let reports = [
        Vector(&large),
        Vector(&two_of),
        Vector(&large),
        Vector(&two_of),
    ];
    let (merged, _) = merge("avg(x)", &two(), &reports);
    assert!(
        merged.warnings[0].contains("infinite"),
        "{:?}",
        merged.warnings
    );
}

/// Contract: a member contributes to avg only where both of its variants have the point.
#[test]
fn mean_pairs_members_before_coalescing() {
    let groups = [group("a", 2)];
    let sums = [
        r#"{"metric":{},"values":[[1,"2"],[2,"4"]]}"#,
        r#"{"metric":{},"values":[[1,"9"],[3,"9"]]}"#,
    ];
    let counts = [
        r#"{"metric":{},"values":[[2,"2"]]}"#,
        r#"{"metric":{},"values":[[1,"3"],[2,"1"],[3,"3"]]}"#,
    ];
    let reports = [
        Matrix(sums[0]),
        Matrix(counts[0]),
        Matrix(sums[1]),
        Matrix(counts[1]),
    ];
    let expected = r#"{"metric":{},"values":[[1,"3"],[2,"2"],[3,"3"]]}"#;
    assert_eq!(result("avg(x)", &groups, &reports), expected);
    // A member of which one variant failed does not count at all.
    let reports = [Matrix(sums[0]), Fails, Matrix(sums[1]), Matrix(counts[1])];
    let expected = r#"{"metric":{},"values":[[1,"3"],[3,"3"]]}"#;
    assert_eq!(result("avg(x)", &groups, &reports), expected);
}

// === replica groups ===

#[test]
fn replicas_coalesce_before_groups_reduce() {
    let groups = [group("a", 2), group("b", 1)];
    let reports = [
        Matrix(r#"{"metric":{},"values":[[1,"1"],[2,"2"]]}"#),
        Matrix(
            r#"{"metric":{},"values":[[2,"7"],[3,"3"]]},{"metric":{"a":"b"},"values":[[1,"5"]]}"#,
        ),
        Matrix(r#"{"metric":{},"values":[[1,"10"],[2,"20"],[3,"30"]]}"#),
    ];
    let expected = concat!(
        r#"{"metric":{},"values":[[1,"11"],[2,"22"],[3,"33"]]},"#,
        r#"{"metric":{"a":"b"},"values":[[1,"5"]]}"#
    );
    assert_eq!(result("sum(x)", &groups, &reports), expected);
    let (merged, _) = merge("sum(x)", &groups, &reports);
    let first = GroupEvents {
        attempted: 1,
        suppressed: 1,
        conflicts: 1,
        ..GroupEvents::default()
    };
    let second = GroupEvents {
        group: 1,
        attempted: 1,
        ..GroupEvents::default()
    };
    assert_eq!(merged.events, [first, second]);
    assert_eq!((merged.partial, merged.warnings.len()), (false, 0));
}

/// Contract: a failed replica covered by another leaves no trace in status or marker.
#[test]
fn a_covered_failure_leaves_no_trace() {
    let groups = [group("a", 2), group("b", 1)];
    let one = r#"{"metric":{},"value":[1,"1"]}"#;
    for failed in [
        Fails,
        Body(503, "<html>"),
        Body(200, "{"),
        Body(200, r#"{"status":"error"}"#),
    ] {
        let (merged, text) = merge("sum(x)", &groups, &[failed, Vector(one), Vector(one)]);
        assert!(text.contains(r#"[1,"2"]"#), "{text}");
        assert_eq!(
            (merged.status, merged.partial, merged.warnings.len()),
            (200, false, 0)
        );
        let event = GroupEvents {
            attempted: 1,
            fallback: 1,
            ..GroupEvents::default()
        };
        assert_eq!(merged.events[0], event);
        assert_eq!(merged.failures.len(), 1);
        assert_eq!(
            merged.leader,
            Some(Slot {
                group: 0,
                member: 1,
                variant: 0
            })
        );
    }
    // The first configured member is not live: the other one is a fallback.
    let members = vec![MemberSpec {
        is_first: false,
        ..MemberSpec::new("a1")
    }];
    let groups = [
        GroupSpec {
            name: "a".to_owned(),
            members,
        },
        group("b", 1),
    ];
    let (merged, _) = merge("sum(x)", &groups, &[Vector(one), Vector(one)]);
    assert_eq!((merged.events[0].fallback, merged.partial), (1, false));
}

/// Contract W9, W8: a group without a usable member marks the response partial, with a warning.
#[test]
fn a_missing_group_makes_the_answer_partial() {
    let one = r#"{"metric":{},"value":[1,"1"]}"#;
    let (merged, text) = merge("sum(x)", &two(), &[Vector(one), Fails]);
    assert_eq!((merged.status, merged.partial), (200, true));
    assert!(text.ends_with(
        r#"]},"warnings":["ringway: partial answer: replica group b gave no usable answer: unreachable"]}"#
    ), "{text}");
    assert_eq!(merged.events[1].failed, 1);
    let (merged, text) = merge("sum(x)", &[group("a", 1), group("b", 0)], &[Vector(one)]);
    assert!(merged.partial);
    assert!(
        text.contains("1 of 2 replica groups are live; missing: b"),
        "{text}"
    );
    assert_eq!(
        (merged.events[1].attempted, merged.events[1].failed),
        (0, 1)
    );
    // One of two variants is enough to lose the group.
    let (merged, _) = merge(
        "avg(x)",
        &two(),
        &[Vector(one), Vector(one), Vector(one), Fails],
    );
    assert!(
        merged.partial && merged.warnings[0].contains("avg-count"),
        "{:?}",
        merged.warnings
    );
    // A constant needs one group only.
    let (merged, _) = merge("vector(1)", &two(), &[Fails, Vector(one)]);
    assert_eq!((merged.partial, merged.warnings.len()), (false, 0));
}

#[test]
fn lists_warn_of_missing_groups_too() {
    for endpoint in [
        Endpoint::Labels,
        Endpoint::Series,
        Endpoint::LabelValues("a".to_owned()),
    ] {
        let plan = plan(&endpoint, None, &PlanOptions::default());
        let reports = [Body(200, r#"{"status":"success","data":[]}"#), Fails];
        let (merged, text) = merge_with(&plan, &two(), MergeOptions::default(), &reports, 1);
        assert!(merged.partial);
        assert!(
            text.starts_with(r#"{"status":"success","data":[],"warnings":["#),
            "{text}"
        );
    }
}

// === labels ===

#[test]
fn injected_labels_follow_the_strategy() {
    let native = r#"{"metric":{"region":"native"},"value":[1,"1"]}"#;
    let reports = [Region("us", &Vector(native)), Region("eu", &Vector(native))];
    let expected = concat!(
        r#"{"metric":{"region":"eu"},"value":[1,"1"]},"#,
        r#"{"metric":{"region":"us"},"value":[1,"1"]}"#
    );
    assert_eq!(result("x", &two(), &reports), expected);
    // Stripped where values combine: a native label of the same name survives.
    let expected = r#"{"metric":{"region":"native"},"value":[1,"2"]}"#;
    assert_eq!(result("sum(x)", &two(), &reports), expected);
}

#[test]
fn labels_of_whoever_answered_are_those_of_its_series() {
    let reports = [
        Region("eu", &Vector(r#"{"metric":{},"value":[1,"1"]}"#)),
        Vector(r#"{"metric":{},"value":[1,"1"]}"#),
    ];
    let (_, text) = merge("x", &two(), &reports);
    let expected = r#"[{"metric":{},"value":[1,"1"]},{"metric":{"region":"eu"},"value":[1,"1"]}]"#;
    assert!(text.contains(expected), "{text}");
}

#[test]
fn metadata_lists_are_sorted_unions() {
    let cases = [
        (
            Endpoint::Labels,
            r#"["a","z"]"#,
            r#"["b","z"]"#,
            r#"["a","b","region","z"]"#,
        ),
        (Endpoint::Labels, "[]", r#"["b"]"#, r#"["b"]"#),
        (
            Endpoint::LabelValues("region".to_owned()),
            "[]",
            r#"["eu"]"#,
            r#"["eu","us"]"#,
        ),
        (
            Endpoint::LabelValues("a".to_owned()),
            r#"["2","1"]"#,
            r#"["1","\n"]"#,
            r#"["\n","1","2"]"#,
        ),
        (
            Endpoint::Series,
            r#"[{"a":"2"},{"a":"1"}]"#,
            r#"[{"a":"1"}]"#,
            r#"[{"a":"1"},{"a":"1","region":"us"},{"a":"2","region":"us"}]"#,
        ),
    ];
    for (endpoint, first, second, expected) in cases {
        let plan = plan(&endpoint, None, &PlanOptions::default());
        let wrap = |data| format!(r#"{{"status":"success","data":{data}}}"#);
        let (first, second) = (wrap(first), wrap(second));
        let reports = [Region("us", &Body(200, &first)), Body(200, &second)];
        let (_, text) = merge_with(&plan, &two(), MergeOptions::default(), &reports, 1);
        assert_eq!(text, wrap(expected), "{endpoint:?}");
    }
}

#[test]
fn series_are_sorted_label_by_label() {
    let first =
        r#"{"metric":{"a":"1","b":"x"},"value":[1,"1"]},{"metric":{"a":"1!"},"value":[1,"2"]}"#;
    let second = r#"{"metric":{"z":"1"},"value":[1,"3"]},{"metric":{"a":"1"},"value":[1,"4"]}"#;
    let found = result("x", &two(), &[Vector(first), Vector(second)]);
    let values: Vec<_> = found
        .matches("[1,\"")
        .zip(found.split("[1,\"").skip(1))
        .map(|(_, rest)| &rest[..1])
        .collect();
    assert_eq!(values, ["4", "1", "2", "3"]);
    // A single answer keeps its upstream order; so does one group's instant answer.
    let groups = [group("a", 2)];
    let found = result("sort(x)", &groups, &[Vector(second), Vector(first)]);
    assert!(found.starts_with(r#"{"metric":{"z":"1"}"#), "{found}");
    assert_eq!(found.matches("metric").count(), 4);
    let (merged, _) = merge("sort(x)", &groups, &[Vector(second), Fails]);
    assert_eq!(
        merged.warnings,
        [] as [&str; 0],
        "one group alone is always exact"
    );
}

// === errors ===

const BAD_DATA: &str = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
const EXECUTION: &str = r#"{"status":"error","errorType":"execution","error":"vector cannot contain metrics with the same labelset"}"#;
const TIMEOUT: &str = r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#;

#[test]
fn without_any_success_the_most_telling_error_is_answered() {
    let cases = [
        (
            [Body(400, BAD_DATA), Body(400, BAD_DATA)],
            400,
            "parse error",
        ),
        (
            [Body(503, TIMEOUT), Body(400, BAD_DATA)],
            400,
            "parse error",
        ),
        ([Body(503, TIMEOUT), Body(422, EXECUTION)], 422, "labelset"),
        (
            [Body(500, "oops"), Body(503, TIMEOUT)],
            503,
            "query timed out",
        ),
        ([Body(500, "oops"), Body(404, "no")], 500, "HTTP status 500"),
        ([Fails, Body(403, "no")], 403, "HTTP status 403"),
        ([Fails, Fails], 502, "unreachable"),
        ([Body(200, "{"), Fails], 502, "malformed"),
        ([Body(200, BAD_DATA), Fails], 502, "parse error"),
    ];
    for (reports, status, message) in cases {
        let (merged, text) = merge("x", &two(), &reports);
        assert_eq!(merged.status, status, "{text}");
        assert!(
            text.starts_with(r#"{"status":"error","errorType":""#) && text.contains(message),
            "{text}"
        );
        assert!(!merged.partial);
    }
    let (merged, text) = merge("x", &[group("a", 0)], &[]);
    assert_eq!(merged.status, 502, "{text}");
}

/// One server with all the data fails where a part of it already does.
#[test]
fn a_label_clash_on_one_group_is_the_answer() {
    let one = r#"{"metric":{},"value":[1,"1"]}"#;
    let (merged, text) = merge("abs(x)", &two(), &[Vector(one), Body(422, EXECUTION)]);
    assert_eq!((merged.status, text.as_str()), (422, EXECUTION));
    let factor = EXECUTION.replace("same labelset", "invalid smoothing factor");
    assert_ne!(factor, EXECUTION);
    let (merged, text) = merge("abs(x)", &two(), &[Vector(""), Body(422, &factor)]);
    assert_eq!((merged.status, text), (422, factor));
    // Other errors leave a partial answer.
    let (merged, _) = merge("x", &two(), &[Vector(one), Body(400, BAD_DATA)]);
    assert_eq!((merged.status, merged.partial), (200, true));
}

#[test]
fn answers_of_the_wrong_kind_fail_their_slot() {
    let one = r#"{"metric":{},"value":[1,"1"]}"#;
    let (merged, _) = merge("x", &two(), &[Vector(one), Matrix("")]);
    assert!(merged.partial);
    let (merged, _) = merge(
        "x",
        &two(),
        &[Vector(one), Body(200, r#"{"status":"success","data":[]}"#)],
    );
    assert!(merged.partial);
    let labels = plan(&Endpoint::Labels, None, &PlanOptions::default());
    let (merged, _) = merge_with(
        &labels,
        &two(),
        MergeOptions::default(),
        &[Vector(one), Fails],
        1,
    );
    assert_eq!(merged.status, 502);
}

// === warnings ===

#[test]
fn member_warnings_come_first_and_once() {
    let body = |text: &str| {
        format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[]}},"warnings":["{text}","same"],"infos":["i"]}}"#
        )
    };
    let (first, second) = (body("one"), body("two"));
    let (merged, text) = merge(
        "absent(x)",
        &two(),
        &[Body(200, &first), Body(200, &second)],
    );
    assert_eq!(merged.warnings[..3], ["one", "same", "two"]);
    assert_eq!(merged.warnings.len(), 4);
    assert!(text.ends_with(r#"],"infos":["i"]}"#), "{text}");
}

/// Decision 25: a dedup of doubtful series says so, and only then.
#[test]
fn shared_series_are_doubtful_where_they_may_be_wrong() {
    let series = |samples: &str| format!(r#"{{"metric":{{"a":"b"}},"values":[{samples}]}}"#);
    let (whole, early, late, other) = (
        series(r#"[1,"1"],[2,"2"]"#),
        series(r#"[1,"1"]"#),
        series(r#"[2,"2"]"#),
        series(r#"[2,"3"]"#),
    );
    let cases = [
        ("x", &whole, &whole, false),
        ("x", &early, &late, false),
        ("x", &whole, &late, false),
        ("x", &whole, &other, true),
        ("rate(x[5m])", &whole, &whole, false),
        ("rate(x[5m])", &whole, &late, true),
        ("rate(x[5m])", &early, &late, true),
    ];
    for (query, first, second, is_doubtful) in cases {
        let (merged, text) = merge(query, &two(), &[Matrix(first), Matrix(second)]);
        assert_eq!(
            merged.warnings.len(),
            usize::from(is_doubtful),
            "{query}: {text}"
        );
    }
    let (merged, _) = merge("x", &two(), &[Matrix(&whole), Matrix(&other)]);
    assert_eq!(merged.group_conflicts, 1);
    // What a partition keeps apart is never shared.
    let options = PlanOptions {
        partition_labels: vec!["c".to_owned()],
        ..PlanOptions::default()
    };
    let joint = plan(&Endpoint::QueryRange, Some("max by (c) (x)"), &options);
    let reports = [Matrix(&whole), Matrix(&whole)];
    let (merged, _) = merge_with(&joint, &two(), MergeOptions::default(), &reports, 1);
    assert_eq!((merged.warnings.len(), merged.inexact.len()), (1, 1));
}

/// Decision 22: the histogram is kept as it is, first in pool order, with a warning.
#[test]
fn histograms_are_kept() {
    let float = r#"{"metric":{},"value":[1,"5"]}"#;
    let native = r#"{"metric":{},"histogram":[1,{"count":"1"}]}"#;
    let other = r#"{"metric":{},"histogram":[1.0,{"count":"2"}]}"#;
    assert_eq!(
        result("sum(x)", &two(), &[Vector(float), Vector(native)]),
        native
    );
    assert_eq!(
        result("sum(x)", &two(), &[Vector(native), Vector(other)]),
        native
    );
    let (merged, _) = merge("sum(x)", &two(), &[Vector(native), Vector(other)]);
    assert_eq!(merged.warnings.len(), 1);
    assert_eq!(result("x", &two(), &[Vector(native), Vector("")]), native);
    let floats = r#"{"metric":{},"values":[[1,"1"],[3,"3"]]}"#;
    let natives = r#"{"metric":{},"histograms":[[2,{"count":"2"}],[3,{"count":"3"}]]}"#;
    let expected =
        r#"{"metric":{},"values":[[1,"1"]],"histograms":[[2,{"count":"2"}],[3,{"count":"3"}]]}"#;
    assert_eq!(
        result("x", &two(), &[Matrix(floats), Matrix(natives)]),
        expected
    );
}

#[test]
fn scalars_and_strings_are_picked() {
    let body = |kind: &str, text: &str| {
        format!(
            r#"{{"status":"success","data":{{"resultType":"{kind}","result":[1.5,"{text}"]}}}}"#
        )
    };
    let (nan, two_text) = (body("scalar", "NaN"), body("scalar", "2"));
    let (_, text) = merge("time()", &two(), &[Body(200, &nan), Body(200, &two_text)]);
    assert_eq!(text, two_text);
    let (_, text) = merge("time()", &two(), &[Body(400, BAD_DATA), Body(200, &nan)]);
    assert_eq!(text, nan);
    let string = body("string", "NaN");
    let (_, text) = merge("\"NaN\"", &two(), &[Body(200, &string), Body(200, &string)]);
    assert_eq!(text, string);
}

#[test]
fn tolerance_drops_the_repeats_of_other_members() {
    let plan = plan(&Endpoint::QueryRange, Some("x"), &PlanOptions::default());
    let options = MergeOptions {
        dedup_tolerance_ms: 1000,
        ..MergeOptions::default()
    };
    let groups = [group("a", 2)];
    let reports = [
        Matrix(r#"{"metric":{},"values":[[10,"1"],[10.500,"2"],[30,"3"]]}"#),
        Matrix(r#"{"metric":{},"values":[[11,"9"],[20,"4"],[29.500,"5"]]}"#),
    ];
    let (_, text) = merge_with(&plan, &groups, options, &reports, 1);
    let expected = r#""values":[[10,"1"],[10.500,"2"],[20,"4"],[29.500,"5"]]"#;
    assert!(text.contains(expected), "{text}");
}

#[test]
fn reports_out_of_place_are_ignored() {
    let plan = plan(&Endpoint::Query, Some("x"), &PlanOptions::default());
    let groups = two();
    let arena = Arena::new(ARENA_BYTES_DEFAULT, 2);
    let mut merge = Merge::new(&arena, &plan, &groups, MergeOptions::default());
    let slot = Slot {
        group: 0,
        member: 0,
        variant: 0,
    };
    assert_eq!(merge.step(1), Progress::Starved);
    merge.add(slot, Answer::new(200, body_of("vector", "")));
    merge.add(slot, Answer::new(400, Vec::new()));
    merge.fail(slot, MemberFailure::TimedOut);
    merge.fail(Slot { group: 9, ..slot }, MemberFailure::TimedOut);
    merge.fail(Slot { member: 9, ..slot }, MemberFailure::TimedOut);
    merge.fail(Slot { variant: 9, ..slot }, MemberFailure::TimedOut);
    while merge.step(1) == Progress::More {}
    assert_eq!(merge.step(1), Progress::Starved);
    let merged = merge.finish();
    assert_eq!((merged.status, merged.partial), (200, true));
    assert_eq!(merged.failures.len(), 1);
    assert_eq!(merged.failures[0].reason, MemberFailure::Unreachable);
}

/// No step does more than its budget: reading, sorting, joining and writing all stop in time.
#[test]
fn work_is_cut_into_steps() {
    let series: Vec<String> = (0..2000)
        .rev()
        .map(|n| format!(r#"{{"metric":{{"n":"{n}"}},"values":[[1,"{n}"],[2,"0.5"],[3,"NaN"]]}}"#))
        .collect();
    let long: Vec<String> = (1..11_000).map(|n| format!(r#"[{n},"{n}"]"#)).collect();
    let long = format!(r#"{{"metric":{{}},"values":[{}]}}"#, long.join(","));
    let groups = two();
    for (body, query) in [
        (series.join(","), "x"),
        (series.join(","), "sum(x)"),
        (long, "sum(x)"),
    ] {
        let plan = plan(&Endpoint::QueryRange, Some(query), &PlanOptions::default());
        let arena = Arena::new(ARENA_BYTES_DEFAULT, 2);
        let mut merge = Merge::new(&arena, &plan, &groups, MergeOptions::default());
        let body = body_of("matrix", &body);
        for group in 0..2 {
            let slot = Slot {
                group,
                member: 0,
                variant: 0,
            };
            merge.add(slot, Answer::new(200, body.clone()));
        }
        let mut steps = 1;
        while merge.step(STEP_UNITS_MIN) == Progress::More {
            steps += 1;
        }
        assert!(
            steps >= 2 * body.len() / STEP_UNITS_MIN,
            "{query}: {steps} steps"
        );
        let merged = merge.finish();
        assert_eq!((merged.status, merged.partial), (200, false));
    }
}

#[test]
fn one_body_goes_all_the_way() {
    let body = body_of("vector", r#"{"metric":{},"value":[1,"2"]}"#);
    for (query, expected) in [
        ("sum(x)", "[1,\"4\"]"),
        ("avg(x)", "[1,\"1\"]"),
        ("x", "[1,\"2\"]"),
    ] {
        let merged = merge_one(&Endpoint::Query, Some(query), 200, &body);
        let text = String::from_utf8(merged.body.concat()).unwrap();
        assert!(text.contains(expected), "{query}: {text}");
    }
    for bad in [&b""[..], b"{", b"\xff", b"{\"status\":\"error\"}"] {
        assert!(merge_one(&Endpoint::Query, Some("x"), 200, bad).status >= 500);
    }
}

/// A limit cuts after merging, in the order of the answer, and says so as Prometheus does.
#[test]
fn answers_are_cut_after_merging() {
    let cut = |endpoint: &Endpoint, query: Option<&str>, limit: u64, bodies: [&str; 2]| {
        let plan = plan(endpoint, query, &PlanOptions::default());
        let groups = [group("a", 1), group("b", 1)];
        let options = MergeOptions {
            trim: crate::Trim {
                limit: Some(limit),
                ..crate::Trim::default()
            },
            ..MergeOptions::default()
        };
        let reports = bodies.map(|body| Body(200, body));
        merge_with(&plan, &groups, options, &reports, STEP_UNITS_MIN).1
    };
    let lists = [
        r#"{"status":"success","data":["a","d"]}"#,
        r#"{"status":"success","data":["c","a"],"warnings":["results truncated due to limit"]}"#,
    ];
    let warned = r#","warnings":["results truncated due to limit"]}"#;
    for endpoint in [Endpoint::Labels, Endpoint::LabelValues("x".to_owned())] {
        let expected = format!(r#"{{"status":"success","data":["a","c"]{warned}"#);
        assert_eq!(cut(&endpoint, None, 2, lists), expected);
    }
    let silent = [lists[0], r#"{"status":"success","data":["c"]}"#];
    let whole = cut(&Endpoint::Labels, None, 3, silent);
    assert_eq!(whole, r#"{"status":"success","data":["a","c","d"]}"#);
    let series = |label: &str| format!(r#"{{"status":"success","data":[{{"a":"{label}"}}]}}"#);
    let found = cut(&Endpoint::Series, None, 1, [&series("2"), &series("1")]);
    assert_eq!(
        found,
        format!(r#"{{"status":"success","data":[{{"a":"1"}}]{warned}"#)
    );
    let vector = |label: &str| {
        let series = format!(
            r#"{{"metric":{{"a":"{label}"}},"value":[1,"1"]}},{{"metric":{{"a":"0"}},"value":[1,"1"]}}"#
        );
        String::from_utf8(body_of("vector", &series)).unwrap()
    };
    let found = cut(
        &Endpoint::Query,
        Some("sum by (a) (x)"),
        1,
        [&vector("2"), &vector("1")],
    );
    let sum = r#"{"metric":{"a":"0"},"value":[1,"2"]}"#;
    assert_eq!(
        found,
        format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[{sum}]}}{warned}"#
        )
    );
}
