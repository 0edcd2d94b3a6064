//! Table tests of the planner: one row per kind of query.

use super::PlanWarning::*;
use super::Sharing::{Always, Conflicts, Differences, Ignored};
use super::*;
use crate::strategy::Strategy::{self, Dedup, Group, Max, Mean, Min, Pick, Sum};

fn instant(query: &str) -> Plan {
    plan(&Endpoint::Query, Some(query), &PlanOptions::default())
}

fn range(query: &str) -> Plan {
    plan(&Endpoint::QueryRange, Some(query), &PlanOptions::default())
}

const PROVABLE: &[(&str, Strategy, Sharing)] = &[
    ("up", Dedup, Conflicts),
    ("up[5m]", Dedup, Conflicts),
    ("{job=~\"a.*\"} offset 5m", Dedup, Conflicts),
    ("((up))", Dedup, Conflicts),
    ("+up", Dedup, Conflicts),
    ("-up", Dedup, Conflicts),
    ("-{job=\"x\"}", Dedup, Always),
    ("{job=\"x\"} > 1", Dedup, Conflicts),
    ("1 < up", Dedup, Conflicts),
    ("up == bool 1", Dedup, Conflicts),
    ("up * (1 + scalar(vector(2)))", Dedup, Conflicts),
    ("time() - up", Dedup, Conflicts),
    ("up and on() (hour() > 1)", Dedup, Conflicts),
    ("up unless on() vector(1)", Dedup, Conflicts),
    ("rate(up[5m])", Dedup, Differences),
    ("rate({__name__=~\"a|b\"}[5m])", Dedup, Always),
    ("rate({__name__=\"a\",x!=\"\"}[5m])", Dedup, Differences),
    ("last_over_time({job=\"x\"}[5m])", Dedup, Differences),
    (
        "max_over_time(rate(up[1m])[10m:1m] @ start())",
        Dedup,
        Differences,
    ),
    ("clamp(up, 0, 1)", Dedup, Conflicts),
    (
        "label_replace(up, \"a\", \"$1\", \"b\", \"(.*)\")",
        Dedup,
        Always,
    ),
    ("label_join(up, \"a\", \"\", \"b\")", Dedup, Always),
    ("holt_winters(up[10m], 0.3, 0.1)", Dedup, Differences),
    ("timestamp(up)", Dedup, Conflicts),
    ("year(up)", Dedup, Conflicts),
    ("sum(up)", Sum, Ignored),
    ("(SUM(up) BY (job))", Sum, Ignored),
    ("sum without () (rate(up[5m]))", Sum, Ignored),
    ("sum(up > 1)", Sum, Ignored),
    ("count by (job) (up == 0)", Sum, Ignored),
    ("count_values(\"v\", up)", Sum, Ignored),
    ("sum({__name__=~\"a.*\"})", Sum, Ignored),
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

/// Exact plans: no warning.
#[test]
fn provable_queries_carry_no_warning() {
    for &(query, strategy, sharing) in PROVABLE {
        let plan = instant(query);
        assert_eq!(plan.warnings, [], "{query}");
        assert_eq!(plan.strategy, strategy, "{query}");
        assert_eq!(plan.sharing, sharing, "{query}");
        let ask = if strategy == Pick {
            Ask::AnyGroup
        } else {
            Ask::EveryGroup
        };
        assert_eq!(plan.ask, ask, "{query}");
        assert_eq!(plan.strips_injected_labels, strategy != Dedup, "{query}");
    }
}

const DOUBTFUL: &[(&str, Strategy, PlanWarning)] = &[
    ("topk(3, up)", Dedup, Aggregation { operator: "topk" }),
    (
        "quantile(0.5, up)",
        Dedup,
        Aggregation {
            operator: "quantile",
        },
    ),
    ("stddev(up)", Dedup, Aggregation { operator: "stddev" }),
    (
        "sum(max by (a) (up))",
        Sum,
        NestedAggregation {
            operator: "sum",
            inner: "max",
        },
    ),
    (
        "avg(sum(up) / 2)",
        Mean,
        NestedAggregation {
            operator: "avg",
            inner: "sum",
        },
    ),
    ("sum(a / b)", Sum, BinaryInput { operator: "sum" }),
    ("max(a or absent(b))", Max, BinaryInput { operator: "max" }),
    ("sum(up) or vector(1)", Dedup, AggregationInBinary),
    (
        "sum by (a) (up) or on() vector(0)",
        Dedup,
        AggregationInBinary,
    ),
    (
        "sum without (a) (up) or on() vector(0)",
        Dedup,
        AggregationInBinary,
    ),
    ("min(up) or vector(0)", Dedup, AggregationInBinary),
    (
        "sum(max(up)) or vector(0)",
        Sum,
        NestedAggregation {
            operator: "sum",
            inner: "max",
        },
    ),
    ("sum(a) / sum(b)", Dedup, AggregationInBinary),
    ("sum(a) > 5", Dedup, AggregationInBinary),
    ("abs(sum(a))", Dedup, InnerAggregation { operator: "sum" }),
    ("-sum(a)", Dedup, InnerAggregation { operator: "sum" }),
    ("a / b", Dedup, VectorBinary),
    ("a or b", Dedup, VectorBinary),
    ("a or vector(0)", Dedup, VectorBinary),
    ("vector(1) and up", Dedup, VectorBinary),
    ("up + vector(1)", Dedup, VectorBinary),
    ("absent(up)", Dedup, Function { function: "absent" }),
    (
        "absent_over_time(up[5m])",
        Dedup,
        Function {
            function: "absent_over_time",
        },
    ),
    (
        "histogram_quantile(0.9, x)",
        Dedup,
        Function {
            function: "histogram_quantile",
        },
    ),
    ("sort(up)", Dedup, Function { function: "sort" }),
    ("up * scalar(x)", Dedup, Function { function: "scalar" }),
    ("scalar(up)", Pick, Function { function: "scalar" }),
    ("1 + scalar(sum(up))", Pick, AggregationInBinary),
    ("vector(scalar(x))", Dedup, Function { function: "scalar" }),
    (
        "predict_linear(x[5m], scalar(y))",
        Dedup,
        Function { function: "scalar" },
    ),
    ("count({job=\"x\"})", Sum, AnyName { operator: "count" }),
    (
        "avg({__name__=~\".+\",job=\"x\"} > 1)",
        Mean,
        AnyName { operator: "avg" },
    ),
    (
        "sum(rate(x[5m] offset 1h))",
        Sum,
        Earlier { operator: "sum" },
    ),
    (
        "count_values(\"v\", x @ end())",
        Sum,
        Earlier {
            operator: "count_values",
        },
    ),
    (
        "sum(max_over_time(x[5m:1m] offset 1h))",
        Sum,
        Earlier { operator: "sum" },
    ),
    ("sum(rate({job=\"x\"}[5m]))", Sum, Clash),
    (
        "sum(label_replace(up, \"a\", \"\", \"\", \"\"))",
        Sum,
        Clash,
    ),
    (
        "label_replace(up, \"a\", \"\", \"\", \"\") > 1",
        Dedup,
        Clash,
    ),
    ("-{job=\"x\"} > 1", Dedup, Clash),
    ("rate((-{job=\"x\"})[5m:1m])", Dedup, Clash),
];

/// Warnings W1 to W7 and those of decision 25: none silently.
#[test]
fn doubtful_queries_say_why() {
    for (query, strategy, warning) in DOUBTFUL {
        let plan = instant(query);
        assert_eq!(&plan.warnings[..], std::slice::from_ref(warning), "{query}");
        assert_eq!(plan.strategy, *strategy, "{query}");
    }
    let function = FunctionInput {
        operator: "sum",
        function: "absent",
    };
    assert_eq!(instant("sum(absent(up))").warnings, [function]);
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
        "\u{0}",
    ] {
        let plan = instant(query);
        assert!(matches!(plan.warnings[..], [Unplanned { .. }]), "{query}");
        assert_eq!(
            plan.variants,
            [Variant {
                name: "",
                query: None,
                window: None,
            }]
        );
    }
}

/// Contract: `sort` orders instant answers only.
#[test]
fn sort_has_no_effect_on_ranges() {
    assert_eq!(range("sort(up)").warnings, []);
    assert_eq!(range("sort_desc(rate(up[5m]))").warnings, []);
    assert_eq!(instant("sort_desc(rate(up[5m]))").warnings.len(), 1);
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
        assert_eq!(
            plan.variants,
            [
                Variant {
                    name: "avg-sum",
                    query: Some(sum.to_owned()),
                    window: None,
                },
                Variant {
                    name: "avg-count",
                    query: Some(count.to_owned()),
                    window: None,
                },
            ]
        );
        assert_eq!(plan.warnings, []);
        assert!(!plan.may_bypass());
    }
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
