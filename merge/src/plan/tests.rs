//! Table tests of the planner: one row per kind of query.

use super::Sharing::{Conflicts, Differences, Ignored};
use super::*;
use crate::merge::GroupSpec;
use crate::strategy::Strategy::{Dedup, Group, Max, Mean, Min, Pick, Sum};

const NOON: i64 = 1_700_000_000_000;

fn clock(grid: Grid) -> Clock {
    Clock {
        grid,
        end_ms: grid.end_ms(),
        dialect: Dialect {
            major: 2,
            minor: 42,
        },
        interval_ms: 60_000,
        lookback_ms: 300_000,
    }
}

fn at_noon() -> PlanOptions {
    PlanOptions {
        clock: Some(clock(Grid::instant(NOON))),
        ..PlanOptions::default()
    }
}

fn for_an_hour() -> PlanOptions {
    PlanOptions {
        clock: Some(clock(Grid::range(NOON, NOON + 3_600_000, 60_000))),
        ..PlanOptions::default()
    }
}

fn instant(query: &str) -> Plan {
    plan(&Endpoint::Query, Some(query), &at_noon())
}

fn range(query: &str) -> Plan {
    plan(&Endpoint::QueryRange, Some(query), &for_an_hour())
}

/// Strategy and text of each part.
fn parts(plan: &Plan) -> Vec<(Strategy, Vec<&str>)> {
    let local = plan.local.as_ref().expect("evaluated here");
    let texts = |part: &'_ Part| {
        let first = part.first_variant;
        let of_part = &plan.variants[first..first + part.plan.variants.len()];
        of_part
            .iter()
            .map(|variant| variant.query.as_deref().unwrap_or("as it was"))
            .collect()
    };
    local
        .parts
        .iter()
        .map(|part| (part.plan.strategy, texts(part)))
        .collect()
}

const WHOLE: &[(&str, Strategy, Sharing)] = &[
    ("up", Dedup, Conflicts),
    ("up[5m]", Dedup, Conflicts),
    ("{job=~\"a.*\"} offset 5m", Dedup, Conflicts),
    ("((up))", Dedup, Conflicts),
    ("+up", Dedup, Conflicts),
    ("-up", Dedup, Conflicts),
    ("{job=\"x\"} > 1", Dedup, Conflicts),
    ("1 < up", Dedup, Conflicts),
    ("up == bool 1", Dedup, Conflicts),
    ("up * (1 + scalar(vector(2)))", Dedup, Conflicts),
    ("time() - up", Dedup, Conflicts),
    ("up and on() (hour() > 1)", Dedup, Conflicts),
    ("up unless on() vector(1)", Dedup, Conflicts),
    ("rate(up[5m])", Dedup, Differences),
    ("rate({__name__=\"a\",x!=\"\"}[5m])", Dedup, Differences),
    ("last_over_time({job=\"x\"}[5m])", Dedup, Differences),
    (
        "max_over_time(rate(up[1m])[10m:1m] @ start())",
        Dedup,
        Differences,
    ),
    ("clamp(up, 0, 1)", Dedup, Conflicts),
    ("holt_winters(up[10m], 0.3, 0.1)", Dedup, Differences),
    ("timestamp(up)", Dedup, Conflicts),
    ("year(up)", Dedup, Conflicts),
    ("sum(up)", Sum, Ignored),
    ("(SUM(up) BY (job))", Sum, Ignored),
    ("sum without () (rate(up[5m]))", Sum, Ignored),
    ("sum(up > 1)", Sum, Ignored),
    ("count by (job) (up == 0)", Sum, Ignored),
    ("count_values(\"v\", up @ end())", Sum, Ignored),
    ("sum({__name__=~\"a.*\"})", Sum, Ignored),
    ("sum(rate(x[5m] offset 1h))", Sum, Ignored),
    ("max({job=\"x\"} offset 5m)", Max, Ignored),
    ("up{a=`\\d\"`}", Dedup, Conflicts),
    ("min(up * 2)", Min, Ignored),
    ("max by (a) (time() - up)", Max, Ignored),
    ("group(up)", Group, Ignored),
    ("avg(up)", Mean, Ignored),
    ("sum(up) or vector(0)", Sum, Ignored),
    ("sum by (a) (up) or vector(0)", Sum, Ignored),
    ("count(up) or on() vector(0)", Sum, Ignored),
    ("1", Pick, Ignored),
    ("time() % 60", Pick, Ignored),
    ("vector(1) or vector(2)", Pick, Ignored),
    ("day_of_week()", Pick, Ignored),
    ("sum(vector(1))", Pick, Ignored),
    ("absent(vector(1))", Pick, Ignored),
    ("\"text\"", Pick, Ignored),
];

/// What decomposes as a whole is sent as it came, with the times of the request or without them.
#[test]
fn what_decomposes_is_sent_as_it_came() {
    for &(query, strategy, sharing) in WHOLE {
        let undated = plan(&Endpoint::Query, Some(query), &PlanOptions::default());
        for plan in [instant(query), undated] {
            assert_eq!(plan.warnings, [], "{query}");
            assert_eq!(plan.strategy, strategy, "{query}");
            assert_eq!(plan.sharing, sharing, "{query}");
            assert_eq!(plan.may_bypass(), strategy != Mean, "{query}");
            assert!(!plan.is_local(), "{query}");
            let ask = match strategy {
                Pick => Ask::AnyGroup,
                _ => Ask::EveryGroup,
            };
            assert_eq!(plan.ask, ask, "{query}");
            assert_eq!(plan.strips_injected_labels, strategy != Dedup, "{query}");
        }
    }
}

/// Strategy and texts of one part.
type Asked<'t> = (Strategy, &'t [&'t str]);

/// Queries that are cut, with what the groups are asked.
const CUT: &[(&str, &[Asked<'_>])] = &[
    ("topk(3, up)", &[(Dedup, &["up"])]),
    ("quantile(0.5, rate(up[5m]))", &[(Dedup, &["rate(up[5m])"])]),
    ("stddev(up)", &[(Dedup, &["up"])]),
    ("topk(scalar(x), up)", &[(Dedup, &["x"]), (Dedup, &["up"])]),
    ("sum(max by (a) (up))", &[(Max, &["max by (a) (up)"])]),
    ("avg(sum(up) / 2)", &[(Sum, &["sum(up)"])]),
    ("sum(a / b)", &[(Dedup, &["a"]), (Dedup, &["b"])]),
    ("sum(a) / sum(b)", &[(Sum, &["sum(a)"]), (Sum, &["sum(b)"])]),
    ("avg(a) > 5", &[(Mean, &["sum(a)", "count(a)"])]),
    ("sum(up) or vector(1)", &[(Sum, &["sum(up)"])]),
    ("min(up) or vector(0)", &[(Min, &["min(up)"])]),
    (
        "sum by (a) (up) or on() vector(0)",
        &[(Sum, &["sum by (a) (up)"])],
    ),
    ("abs(sum(a))", &[(Sum, &["sum(a)"])]),
    ("-sum(a)", &[(Sum, &["sum(a)"])]),
    ("a or b", &[(Dedup, &["a"]), (Dedup, &["b"])]),
    ("a or vector(0)", &[(Dedup, &["a"])]),
    // The same part is asked for once.
    ("a / ignoring(x) a", &[(Dedup, &["a"])]),
    (
        "sum(a) / (sum(a) + sum(b))",
        &[(Sum, &["sum(a)"]), (Sum, &["sum(b)"])],
    ),
    (
        "histogram_quantile(0.9, sum by (le) (rate(x[5m])))",
        &[(Sum, &["sum by (le) (rate(x[5m]))"])],
    ),
    ("sort(up)", &[(Dedup, &["up"])]),
    ("up * scalar(x)", &[(Dedup, &["up"]), (Dedup, &["x"])]),
    ("vector(scalar(x))", &[(Dedup, &["x"])]),
    // Presence, and no more, of what may be absent.
    ("absent(up{a=\"b\"})", &[(Group, &["group(up{a=\"b\"})"])]),
    (
        "absent_over_time({a=\"b\"}[5m])",
        &[(Group, &["group(last_over_time({a=\"b\"}[5m]))"])],
    ),
    ("absent(sum(up))", &[(Sum, &["sum(up)"])]),
    // Series of different groups may become alike: they are told apart here.
    ("-{job=\"x\"}", &[(Dedup, &["{job=\"x\"}"])]),
    ("abs({job=\"x\"}) > 1", &[(Dedup, &["{job=\"x\"}"])]),
    (
        "rate({__name__=~\"a|b\"}[5m])",
        &[(Dedup, &["{__name__=~\"a|b\"}[300001ms]"])],
    ),
    (
        "sum(rate({job=\"x\"}[5m] offset 1m))",
        &[(Dedup, &["{job=\"x\"}[300001ms]"])],
    ),
    (
        "label_replace(rate(up[5m]), \"a\", \"$1\", \"b\", \"(.*)\")",
        &[(Dedup, &["rate(up[5m])"])],
    ),
    (
        "sum(label_join(up, \"a\", \"\", \"b\"))",
        &[(Dedup, &["up"])],
    ),
    (
        "timestamp({job=\"x\"})",
        &[(Max, &["timestamp({job=\"x\"})"])],
    ),
    // Series of any name are often the same in all groups.
    ("count({job=\"x\"})", &[(Group, &["{job=\"x\"}"])]),
    (
        "avg({__name__=~\".+\",job=\"x\"} > 1)",
        &[(Dedup, &["{__name__=~\".+\",job=\"x\"} > 1.0"])],
    ),
    // Parameters that differ by step.
    (
        "quantile_over_time(scalar(x), m[5m])",
        &[(Dedup, &["x"]), (Dedup, &["m[300001ms]"])],
    ),
    (
        "clamp_max(up @ end(), scalar(x))",
        &[(Dedup, &["up @ 1700000000.000"]), (Dedup, &["x"])],
    ),
    ("max_over_time(sum(x)[5m:1m])", &[(Sum, &["sum(x)"])]),
    // The last bits of a sum count: it is added up in the order of one server.
    ("round(sum(up))", &[(Dedup, &["up"])]),
    ("sum(a) - sum(b)", &[(Dedup, &["a"]), (Dedup, &["b"])]),
    (
        "sum(a) - count(b)",
        &[(Sum, &["sum(a)"]), (Sum, &["count(b)"])],
    ),
    ("sum(a) == avg(b)", &[(Dedup, &["a"]), (Dedup, &["b"])]),
    ("changes(sum(a)[5m:1m])", &[(Dedup, &["a"])]),
    ("ceil(avg(up) * 10)", &[(Dedup, &["up"])]),
    (
        "ts_of_max_over_time(sum(a)[5m:1m])",
        &[(Dedup, &["a"]), (Pick, &["as it was"])],
    ),
    // Looked at when it is evaluated.
    (
        "sum(a) > avg(b)",
        &[(Sum, &["sum(a)"]), (Mean, &["sum(b)", "count(b)"])],
    ),
    ("sum(rate(a[5m])) > 100", &[(Sum, &["sum(rate(a[5m]))"])]),
    ("delta(sum(a)[5m:1m])", &[(Sum, &["sum(a)"])]),
    ("round(count(up) / 3)", &[(Sum, &["count(up)"])]),
    (
        "histogram_quantile(1, sum by (le) (rate(x[5m])))",
        &[(Dedup, &["rate(x[5m])"])],
    ),
    (
        "histogram_quantile(scalar(q), sum by (le) (rate(x[5m])))",
        &[(Dedup, &["q"]), (Dedup, &["rate(x[5m])"])],
    ),
    // Shown to a server as it was: not all of them know or allow it.
    ("limitk(2, up)", &[(Dedup, &["up"]), (Pick, &["as it was"])]),
    (
        "mad_over_time(up[5m]) + a",
        &[
            (Dedup, &["mad_over_time(up[5m])"]),
            (Dedup, &["a"]),
            (Pick, &["as it was"]),
        ],
    ),
];

#[test]
fn everything_else_is_cut_into_parts() {
    for (query, expected) in CUT {
        let plan = instant(query);
        assert_eq!(plan.warnings, [], "{query}");
        let found = parts(&plan);
        let expected: Vec<(Strategy, Vec<&str>)> = expected
            .iter()
            .map(|(strategy, texts)| (*strategy, texts.to_vec()))
            .collect();
        assert_eq!(found, expected, "{query}");
        assert!(!plan.may_bypass(), "{query}");
    }
}

/// Without the times of the request nothing can be cut, and with one group nothing needs to be.
#[test]
fn cutting_takes_times_and_groups() {
    for (query, _) in CUT {
        let undated = plan(&Endpoint::Query, Some(query), &PlanOptions::default());
        assert!(
            matches!(undated.warnings[..], [PlanWarning::Unplanned { .. }]),
            "{query}"
        );
        assert!(undated.may_bypass(), "{query}");
        let alone = PlanOptions {
            is_one_group: true,
            ..at_noon()
        };
        let alone = plan(&Endpoint::Query, Some(query), &alone);
        assert_eq!(
            (alone.warnings.len(), alone.may_bypass()),
            (0, true),
            "{query}"
        );
    }
}

#[test]
fn unreadable_text_is_sent_as_is_with_a_warning() {
    for query in [
        "sum(",
        "",
        "up{",
        "sum by (job) up",
        "no_such_function(up)",
        "a b",
        "1 or 2",
        "exp(1)",
        "up{a=\"b\" or a=\"c\"}",
        "\u{0}",
    ] {
        let plan = instant(query);
        assert!(
            matches!(plan.warnings[..], [PlanWarning::Unplanned { .. }]),
            "{query}"
        );
        assert_eq!(plan.variants, [Variant::default()], "{query}");
    }
}

/// What servers refuse of a range query whatever the data is theirs to refuse.
#[test]
fn what_has_no_range_is_asked_of_any_group() {
    for query in ["up[5m]", "\"text\"", "(a / b)[5m:1m]"] {
        let plan = range(query);
        assert_eq!(
            (plan.ask.clone(), plan.may_bypass()),
            (Ask::AnyGroup, true),
            "{query}"
        );
    }
    for (end, is_refused) in [(11_000, false), (11_001, true)] {
        let options = PlanOptions {
            clock: Some(clock(Grid::range(0, end, 1))),
            ..PlanOptions::default()
        };
        let plan = plan(&Endpoint::QueryRange, Some("sum(a)"), &options);
        assert_eq!(plan.ask == Ask::AnyGroup, is_refused, "{end}");
        assert_eq!(!plan.warnings.is_empty(), is_refused, "{end}");
    }
}

/// Contract: `sort` orders instant answers only.
#[test]
fn sort_has_no_effect_on_ranges() {
    for query in ["sort(up)", "sort_desc(rate(up[5m]))"] {
        assert!(!range(query).is_local(), "{query}");
        assert!(instant(query).is_local(), "{query}");
    }
    // But for what is chosen of series that `@` ties to one time.
    let chosen = range("limitk(1, sort_desc(up @ 0))");
    assert_eq!(parts(&chosen)[0].1, ["up @ 0.000"]);
}

/// Contract: two variants, the keyword replaced and the rest verbatim.
#[test]
fn avg_asks_for_sum_and_count() {
    let cases = [
        ("avg(up)", "sum(up)", "count(up)"),
        (
            "avg by (a) (up) # avg",
            "sum by (a) (up) # avg",
            "count by (a) (up) # avg",
        ),
        (
            " ( AVG(up{a=\"avg\"}) BY (a))",
            " ( sum(up{a=\"avg\"}) BY (a))",
            " ( count(up{a=\"avg\"}) BY (a))",
        ),
        (
            "# avg(\n((avg without() (up)))",
            "# avg(\n((sum without() (up)))",
            "# avg(\n((count without() (up)))",
        ),
    ];
    for (query, sum, count) in cases {
        let plan = instant(query);
        let asked: Vec<_> = plan
            .variants
            .iter()
            .map(|variant| (variant.name, variant.query_for(0)))
            .collect();
        assert_eq!(asked, [("avg-sum", Some(sum)), ("avg-count", Some(count))]);
        assert_eq!(plan.warnings, []);
    }
}

/// A careful plan leaves no aggregation to the groups that histograms, infinite sums or zeros of
/// both signs could spoil.
#[test]
fn a_careful_plan_aggregates_here() {
    let careful = PlanOptions {
        care: Care::Aggregates,
        ..at_noon()
    };
    for (query, text) in [
        ("sum(up)", "up"),
        ("avg by (a) (rate(up[5m]))", "rate(up[5m])"),
        ("min(up)", "up"),
        ("max(up) or vector(0)", "up"),
        ("sum(up) or vector(0)", "up"),
    ] {
        let plan = plan(&Endpoint::Query, Some(query), &careful);
        assert_eq!(parts(&plan), [(Dedup, vec![text])], "{query}");
    }
    let count = plan(&Endpoint::Query, Some("count(up)"), &careful);
    assert_eq!((count.strategy, count.is_local()), (Sum, false));
}

/// Which of equal values are chosen depends on the order of the series.
#[test]
fn a_careful_plan_keeps_the_order_of_what_is_chosen() {
    let careful = PlanOptions {
        care: Care::Aggregates,
        ..at_noon()
    };
    for operator in ["topk", "bottomk", "limitk"] {
        for inner in ["count by (a) (up)", "count_values(\"v\", up)"] {
            let query = format!("{operator}(2, {inner})");
            let plan = plan(&Endpoint::Query, Some(&query), &careful);
            let asked: Vec<&str> = parts(&plan).into_iter().flat_map(|part| part.1).collect();
            assert_eq!(asked[0], "up", "{query}");
        }
    }
    let free = plan(&Endpoint::Query, Some("topk(2, up) + count(up)"), &careful);
    assert_eq!(parts(&free)[1], (Sum, vec!["count(up)"]));
}

#[test]
fn labels_of_another_time_are_warned_of() {
    for (query, expected) in [
        ("info(x)", false),
        ("info(x, {__name__=\"y\"})", false),
        ("info(rate(x[5m] offset 1m))", true),
        ("sum(info(x @ 5))", true),
        ("x offset 1m", false),
    ] {
        let warnings = instant(query).warnings;
        let found = warnings.contains(&PlanWarning::InfoAtAnotherTime);
        assert_eq!(found, expected, "{query}");
    }
}

/// The second plan for series that turned out to lie in several groups.
#[test]
fn samples_of_shared_series_are_put_together_here() {
    let careful = PlanOptions {
        care: Care::Samples,
        ..at_noon()
    };
    let freshest =
        |text: &'static str, times: &'static str| (Strategy::Freshest, vec![text, times]);
    let x = freshest(
        "x",
        "label_replace(timestamp(x), \"__name__\", \"x\", \"\", \"\")",
    );
    let cases = [
        ("x", vec![x.clone()]),
        ("sum(x * 2)", vec![x.clone()]),
        ("rate(x[5m]) / x", vec![(Dedup, vec!["x[300001ms]"]), x]),
        ("timestamp(x)", vec![(Max, vec!["timestamp(x)"])]),
        ("{job=\"x\"}", vec![(Dedup, vec!["{job=\"x\"}"])]),
    ];
    for (query, expected) in cases {
        let plan = plan(&Endpoint::Query, Some(query), &careful);
        assert_eq!(parts(&plan), expected, "{query}");
    }
}

/// Where series move, no sum reaches back on the groups.
#[test]
fn earlier_samples_of_moving_series_are_not_added_up_by_groups() {
    let moving = PlanOptions {
        may_share: true,
        ..at_noon()
    };
    for query in [
        "sum(rate(x[5m] offset 1h))",
        "count_values(\"v\", x @ end())",
        "avg(max_over_time(x[5m:1m] offset 1h))",
    ] {
        assert!(!instant(query).is_local(), "{query}");
        assert!(
            plan(&Endpoint::Query, Some(query), &moving).is_local(),
            "{query}"
        );
    }
    for query in ["sum(x)", "max(x offset 1h)", "sum(rate(x[5m]))"] {
        assert!(
            !plan(&Endpoint::Query, Some(query), &moving).is_local(),
            "{query}"
        );
    }
}

// === windows ===

fn windows(plan: &Plan) -> Vec<Window> {
    plan.variants
        .iter()
        .filter_map(|variant| variant.window)
        .collect()
}

#[test]
fn parts_stand_on_the_steps_that_need_them() {
    let hour = Grid::range(NOON, NOON + 3_600_000, 60_000);
    assert_eq!(windows(&range("topk(1, a)")), [Window::Range(hour)]);
    assert_eq!(windows(&instant("topk(1, a)")), [Window::Instant(NOON)]);
    // The time of the request is 20 s after a whole minute.
    let inner = Grid::range(NOON - 260_000, NOON - 20_000, 60_000);
    assert_eq!(
        windows(&instant("max_over_time(sum(a)[5m:1m])")),
        [Window::Range(inner)]
    );
    // Raw samples: of all windows, from the first one's beginning to the last one's end.
    let raw = range("quantile_over_time(scalar(x), m[5m] offset 1m)");
    assert_eq!(raw.variants[1].query.as_deref(), Some("m[3900001ms]"));
    assert_eq!(
        raw.variants[1].window,
        Some(Window::Instant(NOON + 3_540_000))
    );
}

/// Servers give at most 11,000 steps at once.
/// Servers word a refusal by the endpoint that was asked.
#[test]
fn a_query_is_shown_to_a_server_at_its_own_endpoint() {
    let query = "mad_over_time(sum(a)[5m:1m])";
    let shown = |plan: &Plan| windows(plan).last().copied();
    assert_eq!(shown(&instant(query)), Some(Window::Instant(0)));
    assert_eq!(shown(&range(query)), Some(Window::Range(Grid::instant(0))));
}

#[test]
fn long_grids_are_cut() {
    let plan = instant("max_over_time(sum(a)[10h:1s])");
    let found = windows(&plan);
    let local = plan.local.as_ref().unwrap();
    assert_eq!(local.sources.len(), 1);
    assert_eq!(local.sources[0].parts, 0..found.len());
    let mut next = None;
    let mut steps = 0;
    for window in &found {
        let Window::Range(grid) = window else {
            panic!("{window:?}")
        };
        assert!(grid.count <= STEPS_MAX);
        assert!(next.is_none_or(|time| time == grid.start_ms));
        next = Some(grid.end_ms() + grid.step_ms);
        steps += grid.count;
    }
    assert_eq!((steps, found.len()), (36_001, 4));
    let refused = instant("max_over_time(sum(a)[100d:1s])");
    assert!(refused.refusal.is_some());
    assert_eq!(refused.variants, []);
}

/// A window without steps is not asked for.
#[test]
fn empty_windows_are_not_asked_for() {
    let plan = instant("max_over_time(sum(a)[1s:1h]) or b");
    assert_eq!(parts(&plan), [(Dedup, vec!["b"])]);
    assert_eq!(plan.local.unwrap().sources[0].parts.len(), 0);
}

// === labels that tell groups apart ===

#[test]
fn what_keeps_partitions_apart_is_left_to_the_groups() {
    let options = PlanOptions {
        partition_labels: vec!["cluster".to_owned()],
        ..at_noon()
    };
    for (query, strategy) in [
        ("a / b", Dedup),
        ("a / on(cluster, job) b", Dedup),
        ("a * on(cluster, job) group_left(x) b", Dedup),
        ("a and ignoring(x) b", Dedup),
        ("topk by (cluster) (1, sum by (cluster, job) (a))", Dedup),
        ("quantile by (cluster) (0.5, a)", Dedup),
        (
            "histogram_quantile(0.9, sum by (cluster, le) (rate(x[5m])))",
            Dedup,
        ),
        ("rate({job=\"x\"}[5m])", Dedup),
        ("sum(a / b)", Sum),
        ("sum(max by (cluster) (a))", Sum),
    ] {
        let found = plan(&Endpoint::QueryRange, Some(query), &options);
        assert_eq!(
            (found.strategy, found.is_local()),
            (strategy, false),
            "{query}"
        );
    }
    for query in [
        "a / on(job) b",
        "a / ignoring(cluster) b",
        "topk(1, a)",
        "topk by (job) (1, a)",
        "sum(a) / sum(b)",
        "label_replace(a, \"cluster\", \"x\", \"\", \"\") / b",
        "max without (cluster) (a) / b",
    ] {
        let found = plan(&Endpoint::QueryRange, Some(query), &options);
        assert!(found.is_local(), "{query}");
    }
}

fn regions() -> PlanOptions {
    let label = |value: &str| vec![("region".to_owned(), value.to_owned())];
    PlanOptions {
        injected_labels: vec![label("us"), label("eu"), label("us2")],
        ..at_noon()
    }
}

fn asked(plan: &Plan) -> Vec<Option<&str>> {
    let variant = &plan.variants[0];
    let text = |group| match variant.ask.includes(group) {
        true => Some(variant.query_for(group).unwrap_or("as it was")),
        false => None,
    };
    (0..3).map(text).collect()
}

/// Matchers on labels that only ringway knows choose the groups.
#[test]
fn injected_labels_choose_groups() {
    let cases: &[(&str, [Option<&str>; 3])] = &[
        ("up", [Some("as it was"); 3]),
        ("up{region=\"eu\"}", [None, Some("up"), None]),
        (
            "sum(rate(up{a=\"b\",region=~\"us.*\"}[5m]))",
            [
                Some("sum(rate(up{a=\"b\"}[5m]))"),
                None,
                Some("sum(rate(up{a=\"b\"}[5m]))"),
            ],
        ),
        ("{region=\"eu\"}", [None, Some("{__name__!=\"\"}"), None]),
        ("sum by (region, job) (up)", [Some("sum by (job) (up)"); 3]),
    ];
    for (query, expected) in cases {
        let plan = plan(&Endpoint::Query, Some(query), &regions());
        assert_eq!(asked(&plan), *expected, "{query}");
        assert_eq!(
            (plan.is_local(), plan.warnings.len()),
            (false, 0),
            "{query}"
        );
    }
}

#[test]
fn injected_labels_stay_where_an_aggregation_lists_them() {
    let keeps = |query: &str| {
        let plan = plan(&Endpoint::Query, Some(query), &regions());
        let local = plan.local.as_ref();
        local.map_or(plan.keeps.clone(), |local| {
            local.parts[0].plan.keeps.clone()
        })
    };
    let region = Keep::Listed(vec!["region".to_owned()]);
    assert_eq!(keeps("up"), Keep::All);
    assert_eq!(keeps("sum(up)"), Keep::Nothing);
    assert_eq!(keeps("sum without (a) (up)"), Keep::Nothing);
    assert_eq!(keeps("sum by (region) (up)"), region);
    // As an operand, what an aggregation does not drop stays.
    assert_eq!(keeps("sum without (a) (up) > on(region) b"), region);
    assert_eq!(keeps("sum without (a, region) (up) > b"), Keep::Nothing);
}

/// A label of one group each: series of two groups never match.
#[test]
fn injected_labels_keep_matches_together() {
    let plan_of = |query: &str| plan(&Endpoint::Query, Some(query), &regions());
    assert!(!plan_of("a / b").is_local());
    assert_eq!(plan_of("sum(a / ignoring(x) b)").strategy, Sum);
    assert!(plan_of("a / on(job) b").is_local());
    assert!(plan_of("a / ignoring(region) b").is_local());
    assert!(plan_of("label_replace(a, \"b\", \"$1\", \"region\", \"(.*)\")").is_local());
}

/// Patterns that take an engine are left to the servers, which do not have the label.
#[test]
fn what_cannot_be_decided_of_a_label_is_said() {
    let plan = plan(
        &Endpoint::Query,
        Some("up{region=~\"(us|eu)\"}"),
        &regions(),
    );
    let label = "region".to_owned();
    assert_eq!(plan.warnings, [PlanWarning::InjectedLabel { label }]);
}

/// Nobody is asked for what no group has.
#[test]
fn a_value_of_no_group_is_nobodys() {
    let plan = plan(&Endpoint::Query, Some("up{region=\"asia\"}"), &regions());
    assert_eq!(plan.variants, []);
    assert!(plan.is_local());
}

#[test]
fn metadata_paths_are_unions() {
    for endpoint in [
        Endpoint::Series,
        Endpoint::Labels,
        Endpoint::LabelValues("a".to_owned()),
    ] {
        let plan = plan(&endpoint, None, &PlanOptions::default());
        assert_eq!((plan.strategy, plan.strips_injected_labels), (Dedup, false));
        assert_eq!(plan.warnings, []);
        assert!(plan.may_bypass());
    }
}

// === explain ===

#[test]
fn plans_are_explained() {
    let groups = [GroupSpec::single("east"), GroupSpec::single("west")];
    let said = range("max_over_time(sum(a)[5m:1m]) / avg(b)").explain(&groups);
    let expected = "exact: yes
sub-query 1
  query: sum(a)
  times: from 1699999740.000 to 1700003580.000 every 60.000 s (65 steps)
  groups: east, west
  merge: sum
  why: max_over_time() is evaluated over all groups
sub-query 2
  avg-sum: sum(b)
  avg-count: count(b)
  times: from 1700000000.000 to 1700003600.000 every 60.000 s (61 steps)
  groups: east, west
  merge: avg
  why: / may match series of different groups
evaluated here
  /
    max_over_time()
      subquery [5m:1m]
        sub-query 1
    sub-query 2
";
    assert_eq!(said.to_string(), expected);
    let json = said.to_json();
    let mut bytes = json.clone().into_bytes();
    simd_json::to_tape(&mut bytes).expect("JSON");
    assert!(
        json.contains(r#""merge":"sum","why":"max_over_time() is"#),
        "{json}"
    );
    let as_is = instant("up{").explain(&groups);
    assert!(!as_is.is_exact());
    assert!(
        as_is
            .to_string()
            .starts_with("exact: not provably\n  query cannot be planned")
    );
}
