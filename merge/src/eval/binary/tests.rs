//! Tables of queries, one row per rule.

use crate::eval::trial::{run, version};
use crate::plan::Dialect;

/// Three steps. The information `c` about series 1 changes at the last one.
const DATA: &str = "a{i=1,j=x} 1 2 3
a{i=2,j=x} 4 _ 6
b{i=1,j=x} 10 1 30
b{i=2,j=x} 40 50 _
c{i=1,v=p} 2 2 _
c{i=1,v=q} _ _ 2
d{i=1,k=p} 1 1 1
d{i=1,k=q} 2 2 _
e{i=1} 1 _ _
f{i=1} _ 7 _
g{i=1,k=p} 5 5 _
g{i=1,k=q} _ 6 _
n{i=1} NaN inf -inf
z{i=3,j=x} 0 -0 0";

fn check(dialect: Dialect, cases: &[(&str, &[&str])]) {
    for (query, expected) in cases {
        let (trial, _) = run(dialect, DATA, query);
        assert_eq!(trial.as_deref(), Ok(&to_strings(expected)[..]), "{query}");
    }
}

fn to_strings(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

fn fails(dialect: Dialect, cases: &[(&str, &str)]) {
    for (query, expected) in cases {
        let (trial, _) = run(dialect, DATA, query);
        assert_eq!(trial, Err((*expected).to_owned()), "{query}");
    }
}

#[test]
fn scalars() {
    check(
        Dialect::default(),
        &[
            ("1 + 2", &["3 3 3"]),
            ("7 % -4", &["3 3 3"]),
            ("-7 % 4", &["-3 -3 -3"]),
            ("1 % 0", &["NaN NaN NaN"]),
            ("2 ^ -1", &["0.5 0.5 0.5"]),
            ("NaN ^ 0", &["1 1 1"]),
            ("1 ^ NaN", &["1 1 1"]),
            ("(-8) ^ 0.5", &["NaN NaN NaN"]),
            ("0 / 0", &["NaN NaN NaN"]),
            ("1 > bool 2", &["0 0 0"]),
            ("NaN != bool NaN", &["1 1 1"]),
            ("-(3)", &["-3 -3 -3"]),
        ],
    );
}

#[test]
fn vector_and_scalar() {
    check(
        Dialect::default(),
        &[
            ("a * 2", &["{i=1, j=x} 2 4 6", "{i=2, j=x} 8 _ 12"]),
            ("10 - a", &["{i=1, j=x} 9 8 7", "{i=2, j=x} 6 _ 4"]),
            (
                "a > 2",
                &[
                    "{__name__=a, i=1, j=x} _ _ 3",
                    "{__name__=a, i=2, j=x} 4 _ 6",
                ],
            ),
            // The vector's values are kept, whichever side it is on.
            (
                "2 < a",
                &[
                    "{__name__=a, i=1, j=x} _ _ 3",
                    "{__name__=a, i=2, j=x} 4 _ 6",
                ],
            ),
            ("2 > bool a", &["{i=1, j=x} 1 0 0", "{i=2, j=x} 0 _ 0"]),
            ("a >= bool 2", &["{i=1, j=x} 0 1 1", "{i=2, j=x} 1 _ 1"]),
            ("n == n", &["{__name__=n, i=1} _ +Inf -Inf"]),
            ("n != 1", &["{__name__=n, i=1} NaN +Inf -Inf"]),
            ("-z", &["{i=3, j=x} -0 0 -0"]),
            ("1 / z", &["{i=3, j=x} +Inf -Inf +Inf"]),
            ("-a", &["{i=1, j=x} -1 -2 -3", "{i=2, j=x} -4 _ -6"]),
            ("a > 100", &[]),
        ],
    );
}

#[test]
fn one_to_one() {
    check(
        Dialect::default(),
        &[
            ("a + b", &["{i=1, j=x} 11 3 33", "{i=2, j=x} 44 _ _"]),
            ("a - on (i) b", &["{i=1} -9 1 -27", "{i=2} -36 _ _"]),
            ("a - ignoring (j) b", &["{i=1} -9 1 -27", "{i=2} -36 _ _"]),
            ("a > b", &["{__name__=a, i=1, j=x} _ 2 _"]),
            ("a > on (i) b", &["{i=1} _ 2 _"]),
            ("a > ignoring (j) b", &["{__name__=a, i=1} _ 2 _"]),
            ("a > ignoring (__name__) b", &["{i=1, j=x} _ 2 _"]),
            ("a > bool b", &["{i=1, j=x} 0 1 0", "{i=2, j=x} 0 _ _"]),
            (
                "a == on (i, __name__) a",
                &["{__name__=a, i=1} 1 2 3", "{__name__=a, i=2} 4 _ 6"],
            ),
            ("a * on (i, __name__) a", &["{i=1} 1 4 9", "{i=2} 16 _ 36"]),
            // One series of the other side at each step is enough.
            ("a * on (i) c", &["{i=1} 2 4 6"]),
            ("c * on (i) e", &["{i=1} 2 _ _"]),
            ("a + nosuch", &[]),
            ("nosuch + a", &[]),
            // Nothing is on the left at the step at which two are on the right.
            ("e + on (i) g", &["{i=1} 6 _ _"]),
        ],
    );
    let implicit = "multiple matches for labels: many-to-one matching must be explicit \
                    (group_left/group_right)";
    let two = "found duplicate series for the match group {i=\"1\"} on the right hand-side of the \
               operation: [{__name__=\"d\", i=\"1\", k=\"q\"}, {__name__=\"d\", i=\"1\", \
               k=\"p\"}];many-to-many matching not allowed: matching labels must be unique on one \
               side";
    let ambiguous = "found duplicate series for the match group {} on the right hand-side of the \
                     operation: [{__name__=\"b\", i=\"2\", j=\"x\"}, {__name__=\"b\", i=\"1\", \
                     j=\"x\"}];many-to-many matching not allowed: matching labels must be unique \
                     on one side";
    let dialect = Dialect::default();
    fails(
        dialect,
        &[
            ("d + on (i) a", implicit),
            ("a + on (i) d", two),
            ("a + on () b", ambiguous),
            ("f + on (i) g", &two.replace("\"d\"", "\"g\"")),
        ],
    );
}

#[test]
fn many_to_one() {
    check(
        Dialect::default(),
        &[
            (
                "d * on (i) group_left () a",
                &["{i=1, k=p} 1 2 3", "{i=1, k=q} 2 4 _"],
            ),
            (
                "a * on (i) group_right () d",
                &["{i=1, k=p} 1 2 3", "{i=1, k=q} 2 4 _"],
            ),
            (
                "a - on (i) group_right () d",
                &["{i=1, k=p} 0 1 2", "{i=1, k=q} -1 0 _"],
            ),
            // The left operand's value is kept.
            (
                "a > on (i) group_right () d",
                &["{__name__=d, i=1, k=p} _ 2 3"],
            ),
            (
                "d < on (i) group_left () a",
                &["{__name__=d, i=1, k=p} _ 1 1"],
            ),
            (
                "d < bool on (i) group_left () a",
                &["{i=1, k=p} 0 1 1", "{i=1, k=q} 0 0 _"],
            ),
            // A label of the one side comes with it, and changes with it.
            (
                "a * on (i) group_left (v) c",
                &["{i=1, j=x, v=p} 2 4 _", "{i=1, j=x, v=q} _ _ 6"],
            ),
            ("a * on (i) group_left (nosuch) c", &["{i=1, j=x} 2 4 6"]),
            // A label that the one side lacks is taken away.
            ("a * on (i) group_left (j) c", &["{i=1} 2 4 6"]),
            (
                "a * on (i) group_left (__name__) c",
                &["{__name__=c, i=1, j=x} 2 4 6"],
            ),
            (
                "a > bool on (i) group_left (__name__) e",
                &["{i=1, j=x} 0 _ _"],
            ),
            (
                "a < on (i) group_left (__name__) b",
                &[
                    "{__name__=b, i=1, j=x} 1 _ 3",
                    "{__name__=b, i=2, j=x} 4 _ _",
                ],
            ),
        ],
    );
    let left = "found duplicate series for the match group {i=\"1\"} on the left hand-side of the \
                operation: [{__name__=\"d\", i=\"1\", k=\"q\"}, {__name__=\"d\", i=\"1\", \
                k=\"p\"}];many-to-many matching not allowed: matching labels must be unique on one \
                side";
    fails(
        Dialect::default(),
        &[
            (
                "d * on (i) group_left (k) a",
                "multiple matches for labels: grouping labels must ensure unique matches",
            ),
            ("d * on (i) group_right () a", left),
        ],
    );
}

/// Whether samples that a comparison drops are matches changed with 3.9.
#[test]
fn dropped_matches() {
    let cases = [
        (
            "d > on (i) b",
            "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
        ),
        (
            "d > on (i) group_left (k) (b * 100)",
            "multiple matches for labels: grouping labels must ensure unique matches",
        ),
    ];
    for (query, problem) in cases {
        assert_eq!(
            run(version(3, 9), DATA, query).0,
            Err(problem.to_owned()),
            "{query}"
        );
    }
    check(
        version(3, 8),
        &[(cases[1].0, &[]), ("d > on (i) (b * 100)", &[])],
    );
}

#[test]
fn sets() {
    check(
        Dialect::default(),
        &[
            (
                "a and b",
                &[
                    "{__name__=a, i=1, j=x} 1 2 3",
                    "{__name__=a, i=2, j=x} 4 _ _",
                ],
            ),
            ("a unless b", &["{__name__=a, i=2, j=x} _ _ 6"]),
            ("a unless on (i) c", &["{__name__=a, i=2, j=x} 4 _ 6"]),
            ("a and on (i) d", &["{__name__=a, i=1, j=x} 1 2 3"]),
            ("a and nosuch", &[]),
            (
                "a unless on () nosuch",
                &[
                    "{__name__=a, i=1, j=x} 1 2 3",
                    "{__name__=a, i=2, j=x} 4 _ 6",
                ],
            ),
            (
                "e or f",
                &["{__name__=e, i=1} 1 _ _", "{__name__=f, i=1} _ 7 _"],
            ),
            (
                "a or b",
                &[
                    "{__name__=a, i=1, j=x} 1 2 3",
                    "{__name__=a, i=2, j=x} 4 _ 6",
                    "{__name__=b, i=2, j=x} _ 50 _",
                ],
            ),
            (
                "e or on () a",
                &[
                    "{__name__=e, i=1} 1 _ _",
                    "{__name__=a, i=1, j=x} _ 2 3",
                    "{__name__=a, i=2, j=x} _ _ 6",
                ],
            ),
            // Series of the same labels are one.
            (
                "a > 2 or a",
                &[
                    "{__name__=a, i=1, j=x} 1 2 3",
                    "{__name__=a, i=2, j=x} 4 _ 6",
                ],
            ),
            ("nosuch or a > 5", &["{__name__=a, i=2, j=x} _ _ 6"]),
        ],
    );
}

const SAME: &str = "vector cannot contain metrics with the same labelset";

/// Names are dropped; series that then have the same labels are one, unless at one step both have
/// a sample.
#[test]
fn equal_labels_after_names_are_dropped() {
    check(
        Dialect::default(),
        &[
            ("(e or f) * 2", &["{i=1} 2 14 _"]),
            ("(e or f) > bool 2", &["{i=1} 0 1 _"]),
            ("(e or f) > 2", &["{__name__=f, i=1} _ 7 _"]),
        ],
    );
    fails(
        Dialect::default(),
        &[
            ("(a or on (i, __name__) b) + 1", SAME),
            // The servers look at the whole range here.
            ("-(e or f)", SAME),
        ],
    );
    check(version(3, 9), &[("-(e or f)", &["{i=1} -1 -7 _"])]);
}

#[test]
fn atan2_kept_names_once() {
    check(
        version(2, 46),
        &[("e atan2 0", &["{__name__=e, i=1} 1.5707963267948966 _ _"])],
    );
    check(
        version(2, 47),
        &[("e atan2 0", &["{i=1} 1.5707963267948966 _ _"])],
    );
}

const HISTOGRAMS: &str = "h{i=1} h4 h6 _
o{i=1} h1 2 _
a{i=1} 2 2 2";

/// What is made of native histograms, by version; with the annotations that it brings.
#[test]
fn histograms() {
    let unknown = |operator: &str, left: &str, right: &str| {
        format!(
            "PromQL info: incompatible sample types encountered for binary operator \
             \"{operator}\": {left} {operator} {right}"
        )
    };
    let (old, middle, new) = (version(2, 42), version(2, 53), version(3, 5));
    let cases: [(Dialect, &str, &[&str], &[String]); 21] = [
        (new, "h * 2", &["{i=1} h8 h12 _"], &[]),
        (new, "2 * h", &["{i=1} h8 h12 _"], &[]),
        (new, "h / a", &["{i=1} h2 h3 _"], &[]),
        (new, "h + h", &["{i=1} h8 h12 _"], &[]),
        (
            new,
            "h - o",
            &["{i=1} h3 _ _"],
            &[unknown("-", "histogram", "float")],
        ),
        (
            new,
            "o + h",
            &["{i=1} h5 _ _"],
            &[unknown("+", "float", "histogram")],
        ),
        (new, "h == h", &["{__name__=h, i=1} h4 h6 _"], &[]),
        (new, "h != bool h", &["{i=1} 0 0 _"], &[]),
        (new, "h > h", &[], &[unknown(">", "histogram", "histogram")]),
        (new, "1 / h", &[], &[unknown("/", "float", "histogram")]),
        (
            new,
            "h > bool 1",
            &[],
            &[unknown(">", "histogram", "float")],
        ),
        (new, "-h", &["{i=1} h-4 h-6 _"], &[]),
        (new, "h and a", &["{__name__=h, i=1} h4 h6 _"], &[]),
        (new, "o or h", &["{__name__=o, i=1} h1 2 _"], &[]),
        (middle, "h * 2", &["{i=1} h8 h12 _"], &[]),
        (middle, "h + 1", &["{i=1} 1 1 _"], &[]),
        (old, "h * 2", &["{i=1} h4 h6 _"], &[]),
        (old, "h + h", &["{i=1} h8 h12 _"], &[]),
        (old, "h - h", &["{i=1} 0 0 _"], &[]),
        (old, "h * a", &[], &[]),
        (old, "-h", &["{i=1} h4 h6 _"], &[]),
    ];
    for (dialect, query, expected, infos) in cases {
        let (trial, notes) = run(dialect, HISTOGRAMS, query);
        assert_eq!(trial, Ok(to_strings(expected)), "{dialect:?} {query}");
        assert_eq!(notes.infos, infos, "{dialect:?} {query}");
    }
}
