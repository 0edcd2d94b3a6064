//! Histograms as the API writes them, in and out.

use bumpalo::Bump;

use super::layout::{bound, fraction, index_of, reduced};
use super::{Accumulator, Clash, Histogram};
use crate::plan::Dialect;

const OLD: Dialect = Dialect {
    major: 2,
    minor: 42,
};
const NEW: Dialect = Dialect { major: 3, minor: 5 };

/// The object that the API writes, from `count sum | rule lower upper count | …`.
fn object(short: &str) -> String {
    let mut parts = short
        .split(" | ")
        .map(|part| part.split(' ').collect::<Vec<_>>());
    let (mut head, mut buckets) = (String::new(), Vec::new());
    if let Some([count, sum]) = parts.next().as_deref() {
        head = format!(r#"{{"count":"{count}","sum":"{sum}""#);
    }
    for part in parts {
        if let [rule, lower, upper, count] = part[..] {
            buckets.push(format!(r#"[{rule},"{lower}","{upper}","{count}"]"#));
        }
    }
    match buckets.is_empty() {
        true => head + "}",
        false => format!(r#"{head},"buckets":[{}]}}"#, buckets.join(",")),
    }
}

fn read<'a>(bump: &'a Bump, text: &str) -> &'a Histogram<'a> {
    Histogram::read(bump, bump.alloc_str(text).as_bytes()).unwrap()
}

fn written(histogram: &Histogram<'_>) -> String {
    let mut out = Vec::new();
    histogram.write(&mut out);
    String::from_utf8(out).unwrap()
}

/// Writes it from its numbers.
fn rewritten(histogram: &Histogram<'_>) -> String {
    written(&Histogram {
        text: None,
        ..*histogram
    })
}

const PLAIN: &str = "10 7.5 | 1 -2 -1 1 | 3 -0.001 0.001 2 | 0 0.5 1 3 | 0 2 4 4";

fn plain() -> String {
    object(PLAIN)
}

#[test]
fn reads_and_writes_the_same() {
    let texts = [
        plain(),
        object("0 0"),
        object("NaN NaN"),
        object("5 3 | 3 -0 0 5"),
        object("1 1.5 | 0 1 1.0905077326652577 1"),
        object("3 +Inf | 0 1.7976931348623157e+308 +Inf 3"),
        object("2 1e+300 | 0 8.98846567431158e+307 1.7976931348623157e+308 2"),
        object("4 9 | 3 -Inf -5 1 | 0 0 7 1 | 2 7 +Inf 2"),
        object("-4 -9 | 0 1 2 -4"),
    ];
    for text in texts {
        let bump = Bump::new();
        let histogram = read(&bump, &text);
        assert_eq!(written(histogram), text);
        assert_eq!(rewritten(histogram), text);
    }
}

#[test]
fn refuses_what_is_no_histogram() {
    let bump = Bump::new();
    let cases = [
        "",
        "{}",
        "[]",
        r#"{"count":"1"}"#,
        r#"{"count":1,"sum":"1"}"#,
        r#"{"count":"x","sum":"1"}"#,
        r#"{"count":"1","sum":"1","buckets":{}}"#,
        r#"{"count":"1","sum":"1","buckets":[[0,"1","2"]]}"#,
        r#"{"count":"1","sum":"1","buckets":[[0,"1","2","3","4"]]}"#,
        r#"{"count":"1","sum":"1","buckets":[[4,"1","2","1"]]}"#,
        r#"{"count":"1","sum":"1","buckets":[["0","1","2","1"]]}"#,
        r#"{"count":"1","sum":"1","buckets":[[0,"2","1","1"]]}"#,
        r#"{"count":"1","sum":"1","buckets":[[0,"NaN","1","1"]]}"#,
        r#"{"count":"1","sum":"1","buckets":[[0,"1","3","1"],[0,"2","4","1"]]}"#,
        r#"{"count":"1","sum":"1","buckets":[[3,"-1","1","1"],[0,"2","5","1"]]}"#,
        r#"{"count":"1","sum":"1","buckets":[[3,"-1","1","1"],[3,"-1","1","1"]]}"#,
    ];
    for text in cases {
        assert!(Histogram::read(&bump, text.as_bytes()).is_err(), "{text}");
    }
    let text = format!(r#"{{"count":"1","sum":"1","x":"{}"}}"#, "y".repeat(1 << 20));
    assert!(Histogram::read(&bump, text.as_bytes()).is_err());
}

#[test]
fn custom_bounds_are_told_from_exponential_ones() {
    let bump = Bump::new();
    let cases = [
        (plain(), false),
        (object("1 1 | 0 1 2 1 | 0 2 3 1"), true),
        (object("1 1 | 0 0 0.5 1"), true),
        (object("1 1 | 2 10 +Inf 1"), true),
        (object("1 1 | 1 -4 -1 1 | 0 1 4 1"), false),
    ];
    for (text, expected) in cases {
        assert_eq!(read(&bump, &text).has_custom_bounds(), expected, "{text}");
    }
}

/// Entries of the servers' table.
#[test]
fn bounds_are_those_of_the_servers() {
    let cases = [
        (1, 1, std::f64::consts::FRAC_1_SQRT_2.next_down()),
        (2, 3, 0.8408964152537144),
        (3, 5, 0.7711054127039704),
        (5, 27, 0.8973545375015533),
        (7, 37, 0.6109230164863786),
        (7, 127, 0.9945994234836328),
        (8, 1, 0.5013556375251013),
        (8, 103, 0.6608266388015788),
    ];
    for (schema, at, expected) in cases {
        assert_eq!(fraction(schema, at), expected, "{schema} {at}");
    }
    let bounds = [
        (0, 0, 1.0),
        (0, -3, 0.125),
        (1, 1, std::f64::consts::SQRT_2.next_down()),
        (1, -1, std::f64::consts::FRAC_1_SQRT_2.next_down()),
        (-2, 1, 16.0),
        (-2, -1, 0.0625),
        (0, 1024, f64::MAX),
        (-4, 64, f64::MAX),
        (8, 1024 << 8, f64::MAX),
        (8, (1024 << 8) + 1, f64::INFINITY),
        (0, -1074, 5e-324),
        (0, -1075, 0.0),
    ];
    for (schema, index, expected) in bounds {
        assert_eq!(bound(schema, index), expected, "{schema} {index}");
        if expected.is_finite() && expected > 1e-300 {
            assert_eq!(index_of(schema, expected), Some(index), "{schema} {index}");
        }
    }
    for (index, coarser, expected) in [
        (2, 1, 1),
        (1, 1, 1),
        (3, 1, 2),
        (0, 1, 0),
        (-1, 1, 0),
        (-2, 1, -1),
    ] {
        assert_eq!(reduced(index, coarser), expected, "{index}");
    }
}

/// Left, right, their sum, their difference.
const SUMS: [[&str; 4]; 6] = [
    [
        PLAIN,
        "3 1 | 0 1 2 2 | 0 2 4 1",
        "13 8.5 | 1 -2 -1 1 | 3 -0.001 0.001 2 | 0 0.5 1 3 | 0 1 2 2 | 0 2 4 5",
        "7 6.5 | 1 -2 -1 1 | 3 -0.001 0.001 2 | 0 0.5 1 3 | 0 1 2 -2 | 0 2 4 3",
    ],
    // The lower resolution wins.
    [
        "2 3 | 0 1 4 2",
        "5 9 | 0 1 1.414213562373095 1 | 0 2 2.82842712474619 1 | 0 4 5.65685424949238 3",
        "7 12 | 0 1 4 4 | 0 4 16 3",
        "-3 -6 | 0 4 16 -3",
    ],
    // The wider zero bucket takes in what it covers.
    [
        "3 0 | 3 -0.25 0.25 2 | 0 0.5 1 1",
        "4 0 | 3 -0.5 0.5 4",
        "7 0 | 3 -0.5 0.5 6 | 0 0.5 1 1",
        "-1 0 | 0 0.5 1 1",
    ],
    // It is widened to the end of a bucket that it cuts.
    [
        "3 0 | 1 -1 -0.5 2 | 0 0.5 1 1 | 0 1 2 0",
        "4 0 | 3 -0.75 0.75 4",
        "7 0 | 3 -1 1 7",
        "-1 0",
    ],
    // Buckets that cancel out are gone.
    [
        PLAIN,
        PLAIN,
        "20 15 | 1 -2 -1 2 | 3 -0.001 0.001 4 | 0 0.5 1 6 | 0 2 4 8",
        "0 0",
    ],
    // Custom bounds.
    [
        "3 2 | 3 -Inf 5 1 | 0 7 9 2",
        "3 2 | 3 -Inf 5 1 | 2 9 +Inf 2",
        "6 4 | 3 -Inf 5 2 | 0 7 9 2 | 2 9 +Inf 2",
        "0 0 | 0 7 9 2 | 2 9 +Inf -2",
    ],
];

#[test]
fn adds_and_subtracts() {
    for [left, right, sum, difference] in SUMS.map(|row| row.map(object)) {
        let bump = Bump::new();
        let (one, two) = (read(&bump, &left), read(&bump, &right));
        assert_eq!(one.clash(two), None);
        assert_eq!(
            written(one.add(two, &bump).unwrap()),
            sum,
            "{left} + {right}"
        );
        assert_eq!(
            written(one.sub(two, &bump).unwrap()),
            difference,
            "{left} - {right}"
        );
        assert_eq!(
            rewritten(two.add(one, &bump).unwrap()),
            sum,
            "{right} + {left}"
        );
    }
}

#[test]
fn some_do_not_add() {
    let bump = Bump::new();
    let custom = |upper: &str| object(&format!("1 1 | 0 0 {upper} 1"));
    let (one, two) = (custom("5"), custom("6"));
    let (one, two, other) = (read(&bump, &one), read(&bump, &two), plain());
    let other = read(&bump, &other);
    assert_eq!(one.clash(two), Some(Clash::Bounds));
    assert_eq!(one.clash(other), Some(Clash::Scales));
    assert_eq!(one.clash(one), None);
    assert!(one.add(two, &bump).is_err());
    let mut sum = Accumulator::new();
    assert_eq!(sum.add(one), Ok(()));
    assert_eq!(sum.add(other), Err(Clash::Scales));
    assert_eq!(written(sum.finish(&bump).unwrap()), written(one));
}

#[test]
fn scales_and_divides() {
    let bump = Bump::new();
    let text = object("4 6 | 3 -1 1 1 | 0 1 2 3");
    let one = read(&bump, &text);
    let twice = object("8 12 | 3 -1 1 2 | 0 1 2 6");
    assert_eq!(written(one.scale(2.0, &bump).unwrap()), twice);
    assert_eq!(written(one.divide(0.5, &bump).unwrap()), twice);
    // A zero bucket of a negative count is not shown.
    let negated = object("-4 -6 | 0 1 2 -3");
    assert_eq!(written(one.negate(&bump).unwrap()), negated);
    let by_zero = object("+Inf +Inf | 3 -1 1 +Inf");
    assert_eq!(written(one.divide(0.0, &bump).unwrap()), by_zero);
    assert_eq!(written(one.scale(0.0, &bump).unwrap()), object("0 0"));
}

#[test]
fn equality_looks_at_numbers() {
    let bump = Bump::new();
    let one = plain();
    let spaced = one.replace(',', ", ");
    let (one, spaced) = (read(&bump, &one), read(&bump, &spaced));
    assert!(one.equals(spaced));
    for (from, to) in [
        ("\"10\"", "\"11\""),
        ("7.5", "7"),
        ("0.001", "0.002"),
        ("\"3\"]", "\"4\"]"),
    ] {
        let other = plain().replace(from, to);
        assert!(!one.equals(read(&bump, &other)), "{from}");
    }
    let fewer = object("10 7.5 | 3 -0.001 0.001 2");
    assert!(!one.equals(read(&bump, &fewer)));
}

#[test]
fn quantiles() {
    let positive = || object("8 9 | 0 1 2 4 | 0 2 4 4");
    let around = || object("8 0 | 1 -4 -2 4 | 3 -1 1 2 | 0 2 4 2");
    let zero_and_above = || object("4 2 | 3 -1 1 2 | 0 1 2 2");
    let custom = || object("8 9 | 3 -Inf 2 4 | 0 2 3 2 | 2 3 +Inf 2");
    let nan = || object("8 NaN | 0 1 2 4");
    let sqrt = std::f64::consts::SQRT_2;
    // text, φ, before 3.0, since
    let cases = [
        (positive(), -0.1, f64::NEG_INFINITY, f64::NEG_INFINITY),
        (positive(), 1.1, f64::INFINITY, f64::INFINITY),
        (positive(), f64::NAN, f64::NAN, f64::NAN),
        (object("0 0"), 0.5, f64::NAN, f64::NAN),
        (positive(), 0.0, 1.0, 1.0),
        (positive(), 1.0, 4.0, 4.0),
        (positive(), 0.25, 1.5, sqrt),
        (positive(), 0.75, 3.0, 2.0 * sqrt),
        (around(), 0.25, -3.0, -2.0 * sqrt),
        (around(), 0.625, 0.0, 0.0),
        (zero_and_above(), 0.25, 0.5, 0.5),
        (custom(), 0.25, 1.0, 1.0),
        (custom(), 0.625, 2.5, 2.5),
        (custom(), 0.9, 3.0, 3.0),
        (nan(), 0.9, 2.0, 2.0),
    ];
    for (text, quantile, old, new) in cases {
        let bump = Bump::new();
        let histogram = read(&bump, &text);
        for (dialect, expected) in [(OLD, old), (NEW, new)] {
            let found = histogram.quantile(quantile, dialect);
            let is_near = (found - expected).abs() < 1e-12 || found == expected;
            assert!(
                is_near || found.is_nan() && expected.is_nan(),
                "{text} {quantile}: {found}"
            );
        }
    }
}

#[test]
fn fractions() {
    let text = || object("8 9 | 1 -4 -2 2 | 3 -1 1 2 | 0 2 4 4");
    let sqrt = std::f64::consts::SQRT_2;
    let cases = [
        (f64::NAN, 1.0, f64::NAN, f64::NAN),
        (1.0, 1.0, 0.0, 0.0),
        (f64::NEG_INFINITY, f64::INFINITY, 1.0, 1.0),
        (0.0, 2.0, 0.125, 0.125),
        (2.0, 3.0, 0.25, 0.5 * 1.5f64.log2()),
        (2.0, 2.0 * sqrt, 0.5 * (sqrt - 1.0), 0.25),
        (-2.0 * sqrt, -1.0, 0.25 * (sqrt - 1.0), 0.125),
        (5.0, 9.0, 0.0, 0.0),
    ];
    for (lower, upper, old, new) in cases {
        let (bump, text) = (Bump::new(), text());
        let histogram = read(&bump, &text);
        for (dialect, expected) in [(OLD, old), (NEW, new)] {
            let found = histogram.fraction(lower, upper, dialect);
            let is_near = (found - expected).abs() < 1e-12;
            assert!(
                is_near || found.is_nan() && expected.is_nan(),
                "{lower} {upper}: {found}"
            );
        }
    }
    // To the last bit: the count is multiplied first, then divided by the width.
    let (bump, text) = (Bump::new(), object("3 1 | 0 0 3 3"));
    let found = read(&bump, &text).fraction(-1.0, 0.1, OLD);
    assert_eq!(found, 0.033_333_333_333_333_34);
}

#[test]
fn mean_and_variance() {
    let (bump, text) = (Bump::new(), object("4 6 | 3 -1 1 2 | 0 1 4 2"));
    let histogram = read(&bump, &text);
    assert_eq!(
        (histogram.count(), histogram.sum(), histogram.avg()),
        (4.0, 6.0, 1.5)
    );
    // Two at 0 and two at 2, around 1.5.
    assert_eq!(histogram.stdvar(), (2.0 * 2.25 + 2.0 * 0.25) / 4.0);
    assert_eq!(histogram.stddev(), histogram.stdvar().sqrt());
    let text = object("2 5 | 0 1 2 1 | 0 2 5 1");
    // Custom bounds: 1.5 and 3.5 around 2.5.
    assert_eq!(read(&bump, &text).stdvar(), 1.0);
}

/// The histogram before.
const BEFORE: &str = "6 9 | 3 -0.5 0.5 1 | 0 1 2 2 | 0 2 4 3";

/// A later histogram, and whether it tells of a reset.
const LATER: [(&str, bool); 11] = [
    (BEFORE, false),
    ("7 1 | 3 -0.5 0.5 1 | 0 1 2 3 | 0 2 4 3", false),
    ("5 9 | 3 -0.5 0.5 1 | 0 1 2 1 | 0 2 4 3", true),
    // A bucket shrinks, vanishes, the zero bucket shrinks.
    ("9 9 | 3 -0.5 0.5 5 | 0 1 2 1 | 0 2 4 3", true),
    ("9 9 | 3 -0.5 0.5 1 | 0 1 2 8", true),
    ("9 9 | 0 1 2 6 | 0 2 4 3", true),
    // Narrower zero bucket, finer buckets.
    ("9 9 | 3 -0.25 0.25 4 | 0 1 2 2 | 0 2 4 3", true),
    (
        "9 9 | 3 -0.5 0.5 4 | 0 1 1.414213562373095 2 | 0 2 2.82842712474619 3",
        true,
    ),
    // Coarser buckets and a wider zero bucket hold as much.
    ("9 9 | 3 -0.5 0.5 4 | 0 1 4 5", false),
    ("9 9 | 3 -2 2 6 | 0 2 4 3", false),
    ("9 9 | 3 -3 3 9", true),
];

#[test]
fn resets() {
    for (text, expected) in LATER {
        let bump = Bump::new();
        let (before, now) = (object(BEFORE), object(text));
        let found = read(&bump, &now).is_reset_after(read(&bump, &before));
        assert_eq!(found, expected, "{text}");
    }
}
