//! Tables of queries, one row per rule.

use crate::eval::trial::{run, version};
use crate::plan::Dialect;

const DATA: &str = "a{g=x,i=1} 1 5 NaN
a{g=x,i=2} 2 _ 2
a{g=y,i=3} 3 3 _
a{g=y,i=4} 3 9 _
b{i=1} 1e308 inf NaN
b{i=2} 1e308 1 1
c{i=1} 1e100 _ _
c{i=2} 1 _ _
c{i=3} -1e100 _ _
d{i=1} inf NaN 1
t{i=1} 1 1 1
t{i=2} 2 1 1
t{i=3} 2 1 1
t{i=4} 1 1 1
t{i=5} 3 1 1";

fn check(dialect: Dialect, cases: &[(&str, &[&str])]) {
    for (query, expected) in cases {
        let (trial, _) = run(dialect, DATA, query);
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(trial, Ok(expected), "{query}");
    }
}

#[test]
fn groups() {
    check(
        Dialect::default(),
        &[
            ("sum(a)", &["{} 9 17 NaN"]),
            ("sum by () (a)", &["{} 9 17 NaN"]),
            ("sum by (g) (a)", &["{g=x} 3 5 NaN", "{g=y} 6 12 _"]),
            (
                "sum by (g, nosuch, g) (a)",
                &["{g=x} 3 5 NaN", "{g=y} 6 12 _"],
            ),
            ("sum without (i) (a)", &["{g=x} 3 5 NaN", "{g=y} 6 12 _"]),
            ("sum without (g, i) (a)", &["{} 9 17 NaN"]),
            ("sum by (__name__) (a)", &["{__name__=a} 9 17 NaN"]),
            ("count by (g) (a)", &["{g=x} 2 1 2", "{g=y} 2 2 _"]),
            ("group by (g) (a)", &["{g=x} 1 1 1", "{g=y} 1 1 _"]),
            ("min by (g) (a)", &["{g=x} 1 5 2", "{g=y} 3 3 _"]),
            ("max by (g) (a)", &["{g=x} 2 5 2", "{g=y} 3 9 _"]),
            ("avg by (g) (a)", &["{g=x} 1.5 5 NaN", "{g=y} 3 6 _"]),
            ("stdvar by (g) (a)", &["{g=x} 0.25 0 NaN", "{g=y} 0 9 _"]),
            ("stddev by (g) (a)", &["{g=x} 0.5 0 NaN", "{g=y} 0 3 _"]),
            (
                "quantile by (g) (0.5, a)",
                &["{g=x} 1.5 5 NaN", "{g=y} 3 6 _"],
            ),
            ("sum(nosuch)", &[]),
            ("min(d)", &["{} +Inf NaN 1"]),
        ],
    );
}

/// Means that would overflow as sums, and what infinities make of them.
#[test]
fn means() {
    for dialect in [version(2, 42), version(2, 55), version(3, 5)] {
        check(dialect, &[("avg(b) / 1e308", &["{} 1 +Inf NaN"])]);
    }
}

#[test]
fn sums_are_compensated_from_2_54_on() {
    check(version(2, 53), &[("sum(c)", &["{} 0 _ _"])]);
    check(version(2, 54), &[("sum(c)", &["{} 1 _ _"])]);
}

#[test]
fn spread_of_a_single_infinity() {
    check(version(2, 53), &[("stddev(d)", &["{} 0 0 0"])]);
    check(version(3, 0), &[("stddev(d)", &["{} NaN NaN 0"])]);
}

#[test]
fn top() {
    check(
        Dialect::default(),
        &[
            (
                "topk(1, a)",
                &[
                    "{__name__=a, g=x, i=2} _ _ 2",
                    "{__name__=a, g=y, i=3} 3 _ _",
                    "{__name__=a, g=y, i=4} _ 9 _",
                ],
            ),
            (
                "bottomk by (g) (1, a)",
                &[
                    "{__name__=a, g=x, i=1} 1 5 _",
                    "{__name__=a, g=x, i=2} _ _ 2",
                    "{__name__=a, g=y, i=3} 3 3 _",
                ],
            ),
            ("topk(0.9, a)", &[]),
            ("topk(-1, a)", &[]),
            (
                "topk(2, t)",
                &[
                    "{__name__=t, i=1} _ 1 1",
                    "{__name__=t, i=2} 2 1 1",
                    "{__name__=t, i=5} 3 _ _",
                ],
            ),
            (
                "limitk(2, t)",
                &["{__name__=t, i=1} 1 1 1", "{__name__=t, i=2} 2 1 1"],
            ),
            (
                "limitk by (g) (1, a)",
                &[
                    "{__name__=a, g=x, i=1} 1 5 NaN",
                    "{__name__=a, g=y, i=3} 3 3 _",
                ],
            ),
        ],
    );
}

/// An instant result is sorted; which of equal values is in it depends on the version.
#[test]
fn top_of_an_instant() {
    let data = "t{i=1} 1\nt{i=2} 1\nt{i=3} 1\nt{i=4} 2\nt{i=5} 2\nt{i=6} 3\nt{i=7} NaN";
    let top = |dialect, query: &str| -> String {
        let lines = run(dialect, data, query).0.expect("there is a result");
        let series = lines.iter().map(|line| line.replace("{__name__=t, i=", ""));
        series.map(|line| line[..1].to_owned()).collect()
    };
    for (query, new, old) in [
        ("topk(5, t)", "64523", "65423"),
        ("topk(3, t)", "645", "654"),
        ("topk(1, t)", "6", "6"),
        ("bottomk(2, t)", "12", "12"),
        ("bottomk(9, t)", "2135467", "2135467"),
        ("topk(9, t)", "6452137", "6452137"),
    ] {
        assert_eq!(top(version(3, 5), query), new, "{query}");
        assert_eq!(top(version(2, 42), query), old, "{query}");
    }
    // Of nothing but NaN the old ones keep the last.
    let data = "t{i=1} NaN\nt{i=2} NaN\nt{i=3} NaN\nt{i=4} NaN";
    let top = |dialect, query: &str| -> Vec<String> { run(dialect, data, query).0.unwrap() };
    for (query, new, old) in [("topk(1, t)", "1", "4"), ("bottomk(1, t)", "1", "4")] {
        for (dialect, expected) in [(version(2, 43), new), (version(2, 42), old)] {
            let expected = format!("{{__name__=t, i={expected}}} NaN");
            assert_eq!(top(dialect, query), [expected], "{query}");
        }
    }
}

/// What `@` ties to one time is evaluated at the first step alone, with the parameter of that step.
#[test]
fn what_is_fixed_is_evaluated_once() {
    let data = "a{i=1} 1 1 1\na{i=2} 2 2 2\na{i=3} 3 3 3";
    let cases: [(&str, &[&str]); 7] = [
        ("topk(1 + time(), a @ 0)", &["{__name__=a, i=3} 3 3 3"]),
        ("quantile(time() / 2, a @ 0)", &["{} 1 1 1"]),
        ("1 + quantile(time() / 2, a @ 0 + 1)", &["{} 3 3 3"]),
        ("quantile(time() / 2, a)", &["{} 1 2 3"]),
        ("quantile(time() / 2, a @ 0 + time())", &["{} 1 3 5"]),
        ("max(a @ 0) + time()", &["{} 3 4 5"]),
        (
            "bottomk(1 + time(), (a @ 0)) or a",
            &[
                "{__name__=a, i=1} 1 1 1",
                "{__name__=a, i=2} 2 2 2",
                "{__name__=a, i=3} 3 3 3",
            ],
        ),
    ];
    for (query, expected) in cases {
        for dialect in [version(2, 42), version(3, 5)] {
            assert_eq!(run(dialect, data, query).0.unwrap(), expected, "{query}");
        }
    }
}

#[test]
fn parameters_that_are_none() {
    let cases = [
        (
            (2, 42),
            "topk(NaN, a)",
            Err("Scalar value NaN overflows int64"),
        ),
        (
            (2, 42),
            "topk(NaN, nosuch)",
            Err("Scalar value NaN overflows int64"),
        ),
        ((3, 5), "topk(NaN, nosuch)", Ok(())),
        (
            (3, 5),
            "topk(NaN, a)",
            Err("Scalar value NaN overflows int64"),
        ),
        ((3, 6), "topk(NaN, nosuch)", Err("Parameter value is NaN")),
        (
            (2, 42),
            "topk(-1e30, a)",
            Err("Scalar value -1e+30 overflows int64"),
        ),
        ((3, 5), "topk(-1e30, a)", Ok(())),
        (
            (3, 5),
            "bottomk(Inf, a)",
            Err("Scalar value +Inf overflows int64"),
        ),
        (
            (3, 6),
            "bottomk(1e30, a)",
            Err("Scalar value 1e+30 overflows int64"),
        ),
        ((3, 5), "limit_ratio(NaN, a)", Err("Ratio value NaN is NaN")),
        ((3, 5), "limit_ratio(NaN, nosuch)", Ok(())),
        (
            (3, 6),
            "limit_ratio(NaN, nosuch)",
            Err("Ratio value is NaN"),
        ),
        (
            (2, 42),
            "count_values(\"a.b\", a)",
            Err("invalid label name \"a.b\""),
        ),
        ((3, 0), "count_values(\"a.b\", a)", Ok(())),
        (
            (3, 0),
            "count_values(\"\", a)",
            Err("invalid label name \"\""),
        ),
    ];
    for ((major, minor), query, expected) in cases {
        let (trial, _) = run(version(major, minor), DATA, query);
        let expected = expected.map_err(str::to_owned);
        assert_eq!(trial.map(|_| ()), expected, "{major}.{minor} {query}");
    }
}

#[test]
fn warnings() {
    let cases: [((u32, u32), &str, &[&str]); 6] = [
        ((2, 42), "quantile(2, a)", &[]),
        (
            (3, 5),
            "quantile(2, a)",
            &["quantile value should be between 0 and 1, got 2"],
        ),
        (
            (3, 5),
            "quantile(NaN, a)",
            &["quantile value should be between 0 and 1, got NaN"],
        ),
        (
            (2, 53),
            "quantile(-0.5, a)",
            &["quantile value should be between 0 and 1, got -0.5"],
        ),
        (
            (3, 5),
            "limit_ratio(1.5, a)",
            &["ratio value should be between -1 and 1, got 1.5, capping to 1"],
        ),
        (
            (3, 5),
            "limit_ratio(-3, a)",
            &["ratio value should be between -1 and 1, got -3, capping to -1"],
        ),
    ];
    for ((major, minor), query, expected) in cases {
        let (_, notes) = run(version(major, minor), DATA, query);
        let expected: Vec<String> = expected
            .iter()
            .map(|text| format!("PromQL warning: {text}"))
            .collect();
        assert_eq!(notes.warnings, expected, "{major}.{minor} {query}");
    }
}

#[test]
fn values_are_counted() {
    check(
        Dialect::default(),
        &[
            (
                "count_values(\"v\", a)",
                &[
                    "{v=1} 1 _ _",
                    "{v=5} _ 1 _",
                    "{v=NaN} _ _ 1",
                    "{v=2} 1 _ 1",
                    "{v=3} 2 1 _",
                    "{v=9} _ 1 _",
                ],
            ),
            (
                "count_values by (g) (\"g\", a)",
                &[
                    "{g=1} 1 _ _",
                    "{g=5} _ 1 _",
                    "{g=NaN} _ _ 1",
                    "{g=2} 1 _ 1",
                    "{g=3} 2 1 _",
                    "{g=9} _ 1 _",
                ],
            ),
            ("count_values without (i) (\"i\", d)", &["{} 1 1 1"]),
            (
                "count_values without () (\"i\", d)",
                &["{i=+Inf} 1 _ _", "{i=NaN} _ 1 _", "{i=1} _ _ 1"],
            ),
            ("count_values without (i) (\"__name__\", t)", &["{} 5 5 5"]),
            (
                "count_values(\"__name__\", d)",
                &[
                    "{__name__=+Inf} 1 _ _",
                    "{__name__=NaN} _ 1 _",
                    "{__name__=1} _ _ 1",
                ],
            ),
        ],
    );
}

/// The two halves of a vector, and that all of it is in them.
#[test]
fn ratios_complement_each_other() {
    let dialect = Dialect::default();
    let chosen = |query: &str| run(dialect, DATA, query).0.expect("there is a result");
    let (some, others) = (
        chosen("limit_ratio(0.4, t)"),
        chosen("limit_ratio(-0.6, t)"),
    );
    let mut all: Vec<String> = some.iter().chain(&others).cloned().collect();
    all.sort_unstable();
    assert_eq!(all, chosen("t"));
    assert!(!some.is_empty() && !others.is_empty());
}

const HISTOGRAMS: &str = "m{i=1} h4 h6 _ 3
m{i=2} h2 1 h5 1";

/// What is made of native histograms, by version; with the annotation that it brings.
#[test]
fn histograms() {
    let mixed = "PromQL warning: encountered a mix of histograms and floats for aggregation";
    let ignored =
        |operator: &str| format!("PromQL info: ignored histogram in {operator} aggregation");
    let (old, new) = (version(2, 42), version(3, 5));
    let cases: [(Dialect, &str, &[&str], &[String]); 18] = [
        (new, "sum(m)", &["{} h6 _ h5 4"], &[mixed.to_owned()]),
        (new, "avg(m)", &["{} h3 _ h5 2"], &[mixed.to_owned()]),
        (new, "count(m)", &["{} 2 2 1 2"], &[]),
        (new, "group(m)", &["{} 1 1 1 1"], &[]),
        (new, "min(m)", &["{} _ 1 _ 1"], &[ignored("min")]),
        (new, "stddev(m)", &["{} _ 0 _ 1"], &[ignored("stddev")]),
        (
            new,
            "quantile(1, m)",
            &["{} _ 1 _ 3"],
            &[ignored("quantile")],
        ),
        (
            new,
            "topk(1, m)",
            &["{__name__=m, i=1} _ _ _ 3", "{__name__=m, i=2} _ 1 _ _"],
            &[ignored("topk")],
        ),
        (
            new,
            "limitk(1, m)",
            &["{__name__=m, i=1} h4 h6 _ 3", "{__name__=m, i=2} _ _ h5 _"],
            &[],
        ),
        (
            new,
            "count_values(\"v\", m)",
            &[
                "{v={count:4, sum:4, (1,2]:4}} 1 _ _ _",
                "{v={count:6, sum:6, (1,2]:6}} _ 1 _ _",
                "{v=3} _ _ _ 1",
                "{v={count:2, sum:2, (1,2]:2}} 1 _ _ _",
                "{v=1} _ 1 _ 1",
                "{v={count:5, sum:5, (1,2]:5}} _ _ 1 _",
            ],
            &[],
        ),
        (version(2, 53), "stddev(m)", &["{} 0 0.5 0 1"], &[]),
        (old, "sum(m)", &["{} h6 _ h5 4"], &[]),
        (old, "avg(m)", &["{} 0 0.5 0 2"], &[]),
        (old, "count(m)", &["{} 2 2 1 2"], &[]),
        (old, "max(m)", &["{} 0 1 0 3"], &[]),
        (old, "quantile(1, m)", &["{} 0 1 0 3"], &[]),
        (
            old,
            "topk(1, m)",
            &["{__name__=m, i=1} 0 _ _ 3", "{__name__=m, i=2} _ 1 0 _"],
            &[],
        ),
        (
            old,
            "count_values(\"v\", m)",
            &["{v=0} 2 1 1 _", "{v=3} _ _ _ 1", "{v=1} _ 1 _ 1"],
            &[],
        ),
    ];
    for (dialect, query, expected, notes) in cases {
        let (trial, mut found) = run(dialect, HISTOGRAMS, query);
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(trial, Ok(expected), "{dialect:?} {query}");
        found.warnings.append(&mut found.infos);
        assert_eq!(found.warnings, notes, "{dialect:?} {query}");
    }
}
