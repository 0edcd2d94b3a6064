//! What a merge finds in the samples: doubts that a second plan settles, budgets, groups left out.

use super::*;
use crate::document::Trim;

/// What the samples show to be inexact asks for a careful second plan.
#[test]
fn some_samples_ask_for_a_second_plan() {
    let float = |value: &str| format!(r#"{{"metric":{{}},"value":[1,"{value}"]}}"#);
    let native = r#"{"metric":{},"histogram":[1,{"count":"1"}]}"#;
    let options = MergeOptions {
        aggregates_histograms: true,
        ..MergeOptions::default()
    };
    let retry = |query: &str, first: &str, second: &str| {
        let plan = plan(&Endpoint::Query, Some(query), &PlanOptions::default());
        let mut reports = Vec::new();
        for series in [first, second] {
            reports.extend(plan.variants.iter().map(|_| Vector(series)));
        }
        merge_with(&plan, &two(), options.clone(), &reports, 1)
            .0
            .retry
    };
    let (one, zero, minus, huge) = (float("1"), float("0"), float("-0"), float("1e+308"));
    assert_eq!(retry("sum(x)", &one, native), Some(Retry::Histograms));
    assert_eq!(retry("x", &one, native), None);
    assert_eq!(retry("sum(x)", &one, &one), None);
    assert_eq!(retry("avg(x)", &huge, &huge), Some(Retry::Overflow));
    assert_eq!(retry("max(x)", &zero, &minus), Some(Retry::Zeros));
    assert_eq!(retry("min(x)", &minus, &zero), Some(Retry::Zeros));
    assert_eq!(retry("max(x)", &zero, &zero), None);
    assert_eq!(retry("max(x)", &minus, &one), None);
    // The second answer is the count as well: one number is its own mean.
    let means = |first: &str, second: &str, counts: [&str; 2]| {
        let plan = plan(&Endpoint::Query, Some("avg(x)"), &PlanOptions::default());
        let counts = counts.map(float);
        let reports = [
            Vector(first),
            Vector(&counts[0]),
            Vector(second),
            Vector(&counts[1]),
        ];
        merge_with(&plan, &two(), options.clone(), &reports, 1)
            .0
            .retry
    };
    assert_eq!(means(&minus, &minus, ["1", "1"]), Some(Retry::Zeros));
    assert_eq!(means(&minus, &zero, ["1", "1"]), None);
    let least = float("5e-324");
    assert_eq!(means(&least, &zero, ["1", "1"]), Some(Retry::Zeros));
    assert_eq!(means(&minus, &one, ["1", "1"]), None);
    let (large, gone) = (float("10000000000000000"), float("-10000000000000000"));
    assert_eq!(retry("sum(x)", &large, &gone), Some(Retry::Cancelled));
    assert_eq!(retry("sum(x)", &large, &one), None);
    // Sums of whole numbers lose nothing, those of others may have.
    assert_eq!(retry("sum(x)", &float("5"), &float("-5")), None);
    assert_eq!(
        retry("sum(x)", &float("0.5"), &float("-0.5")),
        Some(Retry::Cancelled)
    );
}

/// Servers before 2.44 have no sum of floats and native histograms, but a mean.
#[test]
fn a_count_without_a_sum_asks_for_a_second_plan() {
    let float = r#"{"metric":{},"value":[1,"1"]}"#;
    let plan = plan(&Endpoint::Query, Some("avg(x)"), &PlanOptions::default());
    for (aggregates_histograms, expected) in [(true, Some(Retry::Histograms)), (false, None)] {
        let options = MergeOptions {
            aggregates_histograms,
            ..MergeOptions::default()
        };
        let reports = [Vector(""), Vector(float), Vector(float), Vector(float)];
        let (merged, _) = merge_with(&plan, &two(), options, &reports, 1);
        assert_eq!(merged.retry, expected);
    }
}

/// Sums of what is not whole may differ in their last bits from one server's.
#[test]
fn rounded_sums_are_told() {
    let told = |query: &str, [first, second]: [&str; 2]| {
        let float = |value: &str| format!(r#"{{"metric":{{}},"value":[1,"{value}"]}}"#);
        let plan = plan(&Endpoint::Query, Some(query), &PlanOptions::default());
        let mut reports = Vec::new();
        let (first, second) = (float(first), float(second));
        for series in [&first, &second] {
            reports.extend(plan.variants.iter().map(|_| Vector(series)));
        }
        let (merged, _) = merge_with(&plan, &two(), MergeOptions::default(), &reports, 1);
        merged.has_rounded_sum
    };
    for query in ["sum(x)", "avg(x)"] {
        assert!(told(query, ["0.5", "1"]), "{query}");
        assert!(!told(query, ["1", "1"]), "{query}");
    }
    assert!(!told("max(x)", ["0.5", "1"]));
}

/// The same of rows that are read many at a time.
#[test]
fn sums_of_a_range_that_cancel_out_ask_for_a_second_plan() {
    let range =
        |last: &str| format!(r#"{{"metric":{{}},"values":[[1,"1.5"],[2,"2.5"],[3,"{last}"]]}}"#);
    for (first, second, expected) in [
        ("1.5", "2.5", None),
        (
            "10000000000000000",
            "-10000000000000000",
            Some(Retry::Cancelled),
        ),
        ("7", "-7", None),
        ("7.25", "-7.25", Some(Retry::Cancelled)),
    ] {
        let plan = plan(
            &Endpoint::QueryRange,
            Some("sum(x)"),
            &PlanOptions::default(),
        );
        let (first, second) = (range(first), range(second));
        let reports = [Matrix(&first), Matrix(&second)];
        let (merged, _) = merge_with(&plan, &two(), MergeOptions::default(), &reports, 1);
        assert_eq!(merged.retry, expected, "{first} {second}");
    }
}

/// A group's server that left out a mix of floats and histograms does not show what it left out.
#[test]
fn a_told_mix_asks_for_a_second_plan() {
    let body = r#"{"status":"success","data":{"resultType":"vector","result":[]},"warnings":["PromQL warning: encountered a mix of histograms and floats for aggregation"]}"#;
    let float = r#"{"metric":{},"value":[1,"1"]}"#;
    for (aggregates_histograms, expected) in [(true, Some(Retry::Histograms)), (false, None)] {
        let plan = plan(&Endpoint::Query, Some("sum(x)"), &PlanOptions::default());
        let options = MergeOptions {
            aggregates_histograms,
            ..MergeOptions::default()
        };
        let reports = [Body(200, body), Vector(float)];
        let (merged, _) = merge_with(&plan, &two(), options, &reports, 1);
        assert_eq!(merged.retry, expected);
    }
}

/// Budgets hold at their bound and refuse beyond it.
#[test]
fn answers_beyond_a_budget_are_refused() {
    let series = r#"{"metric":{"a":"1"},"values":[[1,"1"],[2,"2"]]},{"metric":{"a":"2"},"values":[[1,"1"]]}"#;
    let cases = [(4, 6, 200), (3, 6, 422), (4, 5, 422)];
    for (series_max, samples_max, status) in cases {
        let plan = plan(&Endpoint::QueryRange, Some("x"), &PlanOptions::default());
        let options = MergeOptions {
            series_max,
            samples_max,
            ..MergeOptions::default()
        };
        let reports = [Matrix(series), Matrix(series)];
        let (merged, text) = merge_with(&plan, &two(), options, &reports, 1);
        assert_eq!(merged.status, status, "{text}");
        assert_eq!((merged.series, merged.samples), (4, 6));
        assert_eq!(text.contains("alb.tsm.max_"), status == 422, "{text}");
    }
}

/// Groups that a plan does not ask are not missed.
#[test]
fn groups_that_are_not_asked_are_not_missed() {
    let label = |value: &str| vec![("region".to_owned(), value.to_owned())];
    let options = PlanOptions {
        clock: Some(crate::plan::Clock::default()),
        injected_labels: vec![label("us"), label("eu")],
        ..PlanOptions::default()
    };
    let plan = plan(&Endpoint::Query, Some("x{region=\"eu\"}"), &options);
    let one = r#"{"metric":{"region":"eu"},"value":[1,"1"]}"#;
    let reports = [Vector(one), Region("eu", &Vector(one))];
    let (merged, text) = merge_with(&plan, &two(), MergeOptions::default(), &reports, 1);
    assert_eq!((merged.status, merged.partial), (200, false), "{text}");
    assert_eq!(merged.series, 1, "{text}");
    assert_eq!(merged.events.len(), 1);
}

/// Of a series in two groups, the sample that was taken last.
#[test]
fn the_freshest_sample_counts() {
    let options = PlanOptions {
        clock: Some(crate::plan::Clock::default()),
        care: crate::plan::Care::Samples,
        ..PlanOptions::default()
    };
    let plan = plan(&Endpoint::Query, Some("x"), &options);
    let part = &plan.local.as_ref().unwrap().parts[0].plan;
    let series = |name: &str, value: &str| {
        format!(r#"{{"metric":{{"__name__":"x","a":"{name}"}},"value":[9,"{value}"]}}"#)
    };
    let (old, new) = (series("1", "5"), series("1", "7"));
    let (earlier, later) = (series("1", "2"), series("1", "4"));
    let cases = [
        // First group's value and time, second group's, the answer's value, doubts.
        ([&old, &earlier, &new, &later], &new, 0),
        ([&new, &later, &old, &earlier], &new, 0),
        ([&old, &later, &old, &later], &old, 0),
        ([&old, &later, &new, &later], &old, 1),
    ];
    for (said, expected, doubts) in cases {
        let reports: Vec<Report<'_>> = said.iter().map(|series| Vector(series)).collect();
        let (merged, text) = merge_with(part, &two(), MergeOptions::default(), &reports, 1);
        assert!(text.contains(expected.as_str()), "{text}");
        assert_eq!(merged.inexact.len(), doubts, "{text}");
    }
}

/// The parameter `limit` of a query cuts the merged series off, and says so as a server does.
#[test]
fn a_limit_cuts_queries_only() {
    let series = |job: &str| format!(r#"{{"metric":{{"job":"{job}"}},"value":[1,"1"]}}"#);
    let (one, two_) = (series("a"), series("b"));
    let plan = plan(&Endpoint::Query, Some("x"), &PlanOptions::default());
    for (limit, expected) in [(None, 2), (Some(1), 1), (Some(2), 2)] {
        let options = MergeOptions {
            trim: Trim {
                limit,
                ..Trim::default()
            },
            ..MergeOptions::default()
        };
        let (merged, text) = merge_with(&plan, &two(), options, &[Vector(&two_), Vector(&one)], 1);
        assert_eq!(text.matches("\"metric\"").count(), expected, "{text}");
        assert_eq!(merged.warnings.len(), 2 - expected, "{text}");
    }
}
