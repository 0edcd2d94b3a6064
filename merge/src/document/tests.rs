//! Tables: what each document of several replica groups becomes.

use super::*;
use crate::arena::Arena;
use crate::limits::{ARENA_BYTES_DEFAULT, ITEM_BYTES_MAX, LINE_BYTES_MAX, STEP_UNITS_MIN};
use crate::merge::{Answer, GroupSpec, MemberSpec, Merge, MergeOptions, Merged, Progress, Slot};
use crate::plan::{Endpoint, PlanOptions, plan};

/// What the members of a group say: status and body, and a label `region` of their backends.
pub(super) struct Says<'t> {
    pub(super) members: Vec<(u16, String)>,
    pub(super) region: Option<&'t str>,
}

/// One member that answers with these data.
pub(super) fn data(data: &str) -> Says<'static> {
    body(200, &format!(r#"{{"status":"success","data":{data}}}"#))
}

pub(super) fn body(status: u16, body: &str) -> Says<'static> {
    Says {
        members: vec![(status, body.to_owned())],
        region: None,
    }
}

fn in_region<'t>(region: &'t str, says: Says<'_>) -> Says<'t> {
    Says {
        region: Some(region),
        members: says.members,
    }
}

/// Merges what groups say, in steps of `units`.
pub(super) fn merge_in(
    document: Document,
    trim: &Trim,
    groups: &[Says<'_>],
    units: usize,
) -> Merged {
    let endpoint = Endpoint::Document(document);
    let plan = plan(&endpoint, None, &PlanOptions::default());
    let specs: Vec<GroupSpec> = groups
        .iter()
        .enumerate()
        .map(|(at, says)| GroupSpec {
            name: format!("g{at}"),
            members: says.members.iter().map(|_| MemberSpec::new("m")).collect(),
        })
        .collect();
    let slots = groups.iter().map(|says| says.members.len()).sum();
    let arena = Arena::new(ARENA_BYTES_DEFAULT, slots);
    let options = MergeOptions {
        trim: trim.clone(),
        ..MergeOptions::default()
    };
    let mut merge = Merge::new(&arena, &plan, &specs, options);
    for (group, says) in groups.iter().enumerate() {
        for (member, (status, body)) in says.members.iter().enumerate() {
            let slot = Slot {
                group,
                member,
                variant: 0,
            };
            let region = says
                .region
                .map(|region| ("region".to_owned(), region.to_owned()));
            merge.add(
                slot,
                Answer {
                    injected_labels: region.into_iter().collect(),
                    ..Answer::new(*status, body.clone().into_bytes())
                },
            );
            while merge.step(units) == Progress::More {}
        }
    }
    merge.finish()
}

pub(super) fn text(merged: &Merged) -> String {
    String::from_utf8(merged.body.concat()).expect("UTF-8")
}

/// The data of the answer, and its warnings.
#[track_caller]
fn join_with(document: Document, trim: &Trim, groups: &[Says<'_>]) -> (String, Vec<String>) {
    let merged = merge_in(document, trim, groups, STEP_UNITS_MIN);
    let body = text(&merged);
    assert_eq!(merged.status, 200, "{body}");
    let data = body.strip_prefix(r#"{"status":"success","data":"#);
    let data = data.unwrap_or_else(|| panic!("no success: {body}"));
    let end = data.rfind(r#","warnings":["#).unwrap_or(data.len() - 1);
    (data[..end].to_owned(), merged.warnings)
}

/// The data of an answer without warnings.
#[track_caller]
fn join(document: Document, groups: &[Says<'_>]) -> String {
    let (data, warnings) = join_with(document, &Trim::default(), groups);
    assert_eq!(warnings, Vec::<String>::new());
    data
}

#[test]
fn alerts_are_one_by_labels_and_annotations_and_the_worst_state_wins() {
    let alert = |labels: &str, state: &str, more: &str| {
        format!(r#"{{"labels":{{{labels}}},"annotations":{{}},"state":"{state}"{more}}}"#)
    };
    let list = |alerts: &[String]| data(&format!(r#"{{"alerts":[{}]}}"#, alerts.join(",")));
    let (x, y, z) = (r#""a":"x""#, r#""a":"y""#, r#""a":"z""#);
    let one = list(&[
        alert(z, "pending", ""),
        alert(x, "pending", r#","value":"1""#),
        alert(y, "firing", r#","keepFiringSince":"t","value":"1""#),
    ]);
    let two = list(&[
        alert(x, "firing", r#","value":"2","new":[{}]"#),
        alert(y, "pending", r#","value":"2""#),
        r#"{"state":"firing","labels":{"a":"z"},"annotations":{"b":"c"}}"#.to_owned(),
        alert(z, "pending", r#","later":1"#),
    ]);
    let expected = [
        alert(x, "firing", r#","value":"2","new":[{}]"#),
        alert(y, "firing", r#","keepFiringSince":"t","value":"1""#),
        alert(z, "pending", ""),
        r#"{"state":"firing","labels":{"a":"z"},"annotations":{"b":"c"}}"#.to_owned(),
    ];
    let expected = format!(r#"{{"alerts":[{}]}}"#, expected.join(","));
    assert_eq!(join(Document::Alerts, &[one, two]), expected);
}

#[test]
fn injected_labels_are_part_of_alerts() {
    let says = || {
        data(
            r#"{"alerts":[{"state":"firing","labels":{"z":"1","a\n":"","b":"\u00e9"},"value":"1"}]}"#,
        )
    };
    let merged = join(
        Document::Alerts,
        &[in_region("eu", says()), in_region("us", says())],
    );
    let alert = |region: &str| {
        format!(
            r#"{{"state":"firing","labels":{{"b":"é","region":"{region}","z":"1"}},"value":"1"}}"#
        )
    };
    assert_eq!(
        merged,
        format!(r#"{{"alerts":[{},{}]}}"#, alert("eu"), alert("us"))
    );
}

#[test]
fn the_first_usable_member_speaks_for_its_group() {
    let names =
        |names: &str| format!(r#"{{"status":"success","data":{{"scrapePools":[{names}]}}}}"#);
    let group = |members: &[(u16, String)]| Says {
        members: members.to_vec(),
        region: None,
    };
    let groups = [
        group(&[
            (500, String::new()),
            (200, names("\"b\"")),
            (200, names("\"x\"")),
        ]),
        group(&[(200, names("\"a\",\"b\"")), (200, names("\"y\""))]),
        group(&[
            (200, "{".to_owned()),
            (200, names("null")),
            (200, names("\"c\"")),
        ]),
    ];
    let expected = r#"{"scrapePools":["a","b","c"]}"#;
    assert_eq!(join(Document::ScrapePools, &groups), expected);
}

#[test]
fn targets_stand_by_scrape_pool_then_in_pool_order() {
    let target = |pool: &str, name: &str| {
        format!(
            r#"{{"discoveredLabels":{{"d":"<"}},"labels":{{"i":"{name}"}},"scrapePool":"{pool}"}}"#
        )
    };
    let one = format!(
        r#"{{"activeTargets":[{},{}],"droppedTargets":[{{"discoveredLabels":{{}}}}],"droppedTargetCounts":{{"a":1,"b":0}}}}"#,
        target("b", "1"),
        target("a", "2"),
    );
    let two = format!(
        r#"{{"activeTargets":[{},{}],"droppedTargets":null,"droppedTargetCounts":{{"c\n":2,"a":40}}}}"#,
        target("a", "3"),
        target("b", "1"),
    );
    let expected = format!(
        r#"{{"activeTargets":[{},{},{},{}],"droppedTargets":[{{"discoveredLabels":{{}}}}],"droppedTargetCounts":{{"a":41,"b":0,"c\n":2}}}}"#,
        target("a", "2"),
        target("a", "3"),
        target("b", "1"),
        target("b", "1"),
    );
    assert_eq!(join(Document::Targets, &[data(&one), data(&two)]), expected);
    // Older servers do not count, and injected labels go to the labels alone.
    let old = format!(
        r#"{{"activeTargets":[{}],"droppedTargets":[]}}"#,
        target("a", "1")
    );
    let expected = r#"{"activeTargets":[{"discoveredLabels":{"d":"<"},"labels":{"i":"1","region":"eu"},"scrapePool":"a"}],"droppedTargets":[]}"#;
    assert_eq!(
        join(Document::Targets, &[in_region("eu", data(&old))]),
        expected
    );
}

#[test]
fn metadata_of_targets_is_told_once() {
    let row = |target: &str, metric: &str, rest: &str| {
        format!(
            r#"{{"target":{{"i":"{target}"}},"metric":"{metric}","type":"counter","help":"h","unit":""{rest}}}"#
        )
    };
    let list = |rows: &[String]| data(&format!("[{}]", rows.join(",")));
    let groups = || {
        [
            list(&[row("2", "m", ""), row("1", "m", "")]),
            list(&[row("1", "m", r#","new":1"#), row("1", "k", "")]),
        ]
    };
    let all = [row("1", "k", ""), row("1", "m", ""), row("2", "m", "")];
    let joined = join(Document::TargetsMetadata, &groups());
    assert_eq!(joined, format!("[{}]", all.join(",")));
    for limit in [0, 1, 2, 3, 4] {
        let trim = Trim {
            limit: Some(limit),
            ..Trim::default()
        };
        let (joined, _) = join_with(Document::TargetsMetadata, &trim, &groups());
        let rows = &all[..all.len().min(limit as usize)];
        assert_eq!(joined, format!("[{}]", rows.join(",")));
    }
}

#[test]
fn metadata_is_united_by_metric() {
    let one = r#"{"b":[{"type":"gauge","help":"x","unit":""}],"a\u00e9":[],"c":[{"type":"counter","help":"<","unit":"","new":1}]}"#;
    let two = r#"{"a":[{"type":"gauge","help":"y","unit":""},{"help":"z","type":"gauge","unit":""}],"b":[{"type":"gauge","help":"y","unit":""},{"unit":"","help":"x","type":"gauge"}]}"#;
    let (b1, b2) = (
        r#"{"type":"gauge","help":"x","unit":""}"#,
        r#"{"type":"gauge","help":"y","unit":""}"#,
    );
    let (a1, a2) = (
        r#"{"type":"gauge","help":"y","unit":""}"#,
        r#"{"help":"z","type":"gauge","unit":""}"#,
    );
    let c = r#"{"type":"counter","help":"<","unit":"","new":1}"#;
    let groups = || [data(one), data(two)];
    let expected = format!(r#"{{"a":[{a1},{a2}],"aé":[],"b":[{b1},{b2}],"c":[{c}]}}"#);
    assert_eq!(join(Document::Metadata, &groups()), expected);
    let cases = [
        (Some(0), None, "{}".to_owned()),
        (Some(1), None, format!(r#"{{"a":[{a1},{a2}]}}"#)),
        (
            Some(3),
            Some(1),
            format!(r#"{{"a":[{a1}],"aé":[],"b":[{b1}]}}"#),
        ),
        (None, Some(5), expected),
    ];
    for (limit, limit_per_metric, expected) in cases {
        let trim = Trim {
            limit,
            limit_per_metric,
            ..Trim::default()
        };
        let (joined, warnings) = join_with(Document::Metadata, &trim, &groups());
        assert_eq!((joined, warnings.len()), (expected, 0));
    }
}

#[test]
fn exemplars_are_joined_by_series_and_stand_by_time() {
    let exemplar = |time: &str, trace: &str, value: &str| {
        format!(r#"{{"labels":{{"t":"{trace}"}},"value":"{value}","timestamp":{time}}}"#)
    };
    let series = |labels: &str, exemplars: &[String]| {
        format!(
            r#"{{"seriesLabels":{{{labels}}},"exemplars":[{}]}}"#,
            exemplars.join(",")
        )
    };
    let list = |series: &[String]| data(&format!("[{}]", series.join(",")));
    let (a, b) = (r#""__name__":"m","a":"1""#, r#""__name__":"m","b":"1""#);
    let one = list(&[
        series(b, &[exemplar("5", "x", "1")]),
        series(a, &[exemplar("10.25", "x", "1"), exemplar("9", "x", "1")]),
    ]);
    let two = list(&[series(
        a,
        &[
            exemplar("10.5", "x", "1"),
            exemplar("10.25", "x", "1"),
            exemplar("10.25", "y", "1"),
            exemplar("1e1", "x", "2"),
        ],
    )]);
    let expected = [
        series(
            a,
            &[
                exemplar("9", "x", "1"),
                exemplar("1e1", "x", "2"),
                exemplar("10.25", "x", "1"),
                exemplar("10.25", "y", "1"),
                exemplar("10.5", "x", "1"),
            ],
        ),
        series(b, &[exemplar("5", "x", "1")]),
    ];
    assert_eq!(
        join(Document::Exemplars, &[one, two]),
        format!("[{}]", expected.join(","))
    );
    let one = list(&[series(a, &[exemplar("5", "x", "1")])]);
    let labels = r#""__name__":"m","a":"1","region":"eu""#;
    let expected = series(labels, &[exemplar("5", "x", "1")]);
    assert_eq!(
        join(Document::Exemplars, &[in_region("eu", one)]),
        format!("[{expected}]")
    );
    // A query without a selector.
    assert_eq!(
        join(Document::Exemplars, &[body(204, ""), body(204, "")]),
        "[]"
    );
}

#[test]
fn alertmanagers_are_told_once_in_pool_order() {
    let one = r#"{"activeAlertmanagers":[{"url":"b"},{"url":"a"}],"droppedAlertmanagers":[]}"#;
    let two = r#"{"droppedAlertmanagers":[{"url":"a"}],"activeAlertmanagers":[{"url":"a"},{"url":"c","new":1}]}"#;
    let expected = r#"{"activeAlertmanagers":[{"url":"b"},{"url":"a"},{"url":"c","new":1}],"droppedAlertmanagers":[{"url":"a"}]}"#;
    assert_eq!(
        join(Document::Alertmanagers, &[data(one), data(two)]),
        expected
    );
}

#[test]
fn statistics_are_added_up_and_top_lists_cut_again() {
    let head = |series: u64, min: i64, max: i64| {
        format!(
            r#""headStats":{{"numSeries":{series},"minTime":{min},"maxTime":{max},"new":"{series}"}}"#
        )
    };
    let rows = |rows: &[(&str, u64)]| {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, value)| format!(r#"{{"name":"{name}","value":{value}}}"#))
            .collect();
        rows.join(",")
    };
    let document = |head: &str, top: &str| {
        data(&format!(
            r#"{{{head},"seriesCountByMetricName":[{top}],"memoryInBytesByLabelName":null}}"#
        ))
    };
    let one = || document(&head(u64::MAX, 5, 7), &rows(&[("b", 3), ("a\\n", 1)]));
    let two = || {
        document(
            &head(2, i64::MAX, i64::MIN),
            &rows(&[("c", 4), ("b", 2), ("d", 4)]),
        )
    };
    let answer = |top: &str| {
        format!(
            r#"{{"headStats":{{"numSeries":18446744073709551617,"minTime":5,"maxTime":7,"new":"{}"}},"seriesCountByMetricName":[{top}],"labelValueCountByLabelName":[],"memoryInBytesByLabelName":[],"seriesCountByLabelValuePair":[]}}"#,
            u64::MAX
        )
    };
    let (joined, warnings) = join_with(Document::Tsdb, &Trim::default(), &[one(), two()]);
    let all = rows(&[("b", 5), ("c", 4), ("d", 4), ("a\\n", 1)]);
    assert_eq!(joined, answer(&all));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let trim = Trim {
        limit: Some(3),
        ..Trim::default()
    };
    let (joined, warnings) = join_with(Document::Tsdb, &trim, &[one(), two()]);
    assert_eq!(joined, answer(&rows(&[("b", 5), ("c", 4), ("d", 4)])));
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[1].contains("seriesCountByMetricName may be too low"),
        "{warnings:?}"
    );
    // One group's numbers are what they are.
    let (_, warnings) = join_with(Document::Tsdb, &trim, &[two()]);
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn build_information_is_the_first_groups() {
    let says = |version: &str| data(&format!(r#"{{"version":"{version}","new":{{"a":[]}}}}"#));
    let groups = [says("2.42.0"), says("2.53.1")];
    let expected = r#"{"version":"2.42.0","new":{"a":[]}}"#;
    assert_eq!(join(Document::BuildInfo, &groups), expected);
    let groups = [body(500, ""), says("3.5.0"), says("2.42.0")];
    let merged = merge_in(
        Document::BuildInfo,
        &Trim::default(),
        &groups,
        STEP_UNITS_MIN,
    );
    assert!(text(&merged).contains("3.5.0"));
    assert!(!merged.partial, "any group can tell");
    assert_eq!(merged.warnings.len(), 1);
    assert!(merged.warnings[0].contains("2, 3"), "{:?}", merged.warnings);
}

#[test]
fn expositions_are_joined_by_family() {
    let one =
        "# TYPE b untyped\nb{x=\"2\",instance=\"\"} 1 5\nb{x=\"1\"} 2 5\n# TYPE a untyped\na 3\n";
    let two =
        "# HELP a text\n# TYPE a gauge\na{x=\"1\"} 4\na 9\n# a comment\n\nb{x=\"2\"} 7 6\nc 1\n";
    let expected = "# HELP a text\n# TYPE a untyped\na 3\na{x=\"1\"} 4\n# TYPE b untyped\nb{x=\"1\"} 2 5\n\
                    b{x=\"2\",instance=\"\"} 1 5\nc 1\n";
    let join = |groups: &[Says<'_>]| {
        let merged = merge_in(Document::Federate, &Trim::default(), groups, STEP_UNITS_MIN);
        (merged.status, text(&merged), merged.partial)
    };
    assert_eq!(
        join(&[body(200, one), body(200, two)]),
        (200, expected.to_owned(), false)
    );
    assert_eq!(
        join(&[body(200, ""), body(200, "")]),
        (200, String::new(), false)
    );
    let groups = [
        in_region("eu", body(200, one)),
        in_region("u\"s", body(200, "a{region=\"x\"} 3 1\n")),
    ];
    let expected = "# TYPE a untyped\na{region=\"eu\"} 3\na{region=\"u\\\"s\"} 3 1\n# TYPE b untyped\n\
                    b{region=\"eu\",x=\"1\"} 2 5\nb{instance=\"\",region=\"eu\",x=\"2\"} 1 5\n";
    assert_eq!(join(&groups), (200, expected.to_owned(), false));
    let histogram = "h_sum 1\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_count 1\nh_c 2\nhx 2\n";
    let sorted = "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_count 1\nh_sum 1\nh_c 2\nhx 2\n";
    assert_eq!(
        join(&[body(200, histogram), body(200, "h_sum 5\n")]),
        (200, sorted.to_owned(), false)
    );
}

#[test]
fn a_failing_exposition_is_told_by_status_or_marker() {
    let join = |groups: &[Says<'_>]| {
        let merged = merge_in(Document::Federate, &Trim::default(), groups, STEP_UNITS_MIN);
        (merged.status, text(&merged), merged.partial)
    };
    for broken in [
        "up",
        "up 1",
        "up{\n",
        "up \u{ff}\n",
        "{\"status\":\"success\"}\n",
    ] {
        let groups = [body(200, broken), body(200, "up 1\n")];
        assert_eq!(join(&groups), (200, "up 1\n".to_owned(), true), "{broken}");
    }
    let refused = [body(400, "bad matcher: x\nmore"), body(503, "<html>")];
    assert_eq!(join(&refused), (400, "bad matcher: x\n".to_owned(), false));
    assert_eq!(join(&[body(503, "<html>")]).0, 503);
    let long = |length: usize| format!("up{{a=\"{}\"}} 1\n", "x".repeat(length - 11));
    assert!(!join(&[body(200, &long(LINE_BYTES_MAX)), body(200, "")]).2);
    assert!(join(&[body(200, &long(LINE_BYTES_MAX + 1)), body(200, "")]).2);
}

/// A group of rules.
fn group(file: &str, name: &str, rules: &[String]) -> String {
    let rules = rules.join(",");
    format!(r#"{{"name":"{name}","file":"{file}","rules":[{rules}],"interval":60,"new":{{}}}}"#)
}

fn groups(groups: &[String]) -> Says<'static> {
    data(&format!(r#"{{"groups":[{}]}}"#, groups.join(",")))
}

fn alerting(name: &str, state: &str, alerts: &str, health: &str) -> String {
    format!(
        r#"{{"state":"{state}","name":"{name}","query":"up == 0","duration":60,"labels":{{"s":"x"}},"alerts":[{alerts}],{health},"type":"alerting"}}"#
    )
}

fn recording(name: &str, health: &str) -> String {
    format!(r#"{{"name":"{name}","query":"sum(up)","health":"{health}","type":"recording"}}"#)
}

const OK: &str = r#""health":"ok""#;
const ERR: &str = r#""health":"err","lastError":"no \"x\"""#;

#[test]
fn rules_are_united_by_group_and_identity() {
    let alert = |name: &str, state: &str| {
        format!(r#"{{"labels":{{"i":"{name}"}},"state":"{state}","value":"1"}}"#)
    };
    let (x1, x2, y) = (
        alert("x", "pending"),
        alert("x", "firing"),
        alert("y", "pending"),
    );
    let one = groups(&[
        group(
            "b.yml",
            "g",
            &[recording("r", "ok"), alerting("a", "pending", &x1, OK)],
        ),
        group("a.yml", "z", &[]),
    ]);
    let two = groups(&[
        group(
            "b.yml",
            "g",
            &[
                alerting("a", "firing", &format!("{y},{x2}"), ERR),
                recording("r", "unknown"),
                recording("r", "ok"),
                alerting("b", "inactive", "", OK),
            ],
        ),
        group("a.yml", "b", &[recording("r", "ok")]),
    ]);
    // The error of the second is new to the first one's fields.
    let united = alerting("a", "firing", &format!("{x2},{y}"), r#""health":"err""#);
    let united = format!(
        r#"{},"lastError":"no \"x\""}}"#,
        &united[..united.len() - 1]
    );
    let expected = [
        group("a.yml", "b", &[recording("r", "ok")]),
        group("a.yml", "z", &[]),
        group(
            "b.yml",
            "g",
            &[
                recording("r", "unknown"),
                united,
                recording("r", "ok"),
                alerting("b", "inactive", "", OK),
            ],
        ),
    ];
    let expected = format!(r#"{{"groups":[{}]}}"#, expected.join(","));
    assert_eq!(join(Document::Rules, &[one, two]), expected);
}

#[test]
fn rules_that_differ_in_what_defines_them_stay_apart() {
    let rule = |kind: &str, query: &str, labels: &str, duration: u32| {
        format!(
            r#"{{"name":"r","query":"{query}","type":"{kind}","labels":{{{labels}}},"duration":{duration}}}"#
        )
    };
    let base = rule("alerting", "up", "", 0);
    let others = [
        rule("recording", "up", "", 0),
        rule("alerting", "down", "", 0),
        rule("alerting", "up", r#""a":"b""#, 0),
        rule("alerting", "up", "", 1),
    ];
    let says = [
        groups(&[group("f", "g", std::slice::from_ref(&base))]),
        groups(&[group("f", "g", &others)]),
    ];
    let all: Vec<String> = std::iter::once(base).chain(others).collect();
    let expected = format!(r#"{{"groups":[{}]}}"#, group("f", "g", &all));
    assert_eq!(join(Document::Rules, &says), expected);
}

#[test]
fn injected_labels_stay_out_of_rules_and_metadata() {
    let alert = r#"{"labels":{"i":"x"},"state":"firing"}"#;
    let rules = || group("f", "g", &[alerting("a", "firing", alert, OK)]);
    let says = [
        in_region("eu", groups(&[rules()])),
        in_region("us", groups(&[rules()])),
    ];
    assert_eq!(
        join(Document::Rules, &says),
        format!(r#"{{"groups":[{}]}}"#, rules())
    );
}

#[test]
fn pages_of_rules_are_cut_after_merging() {
    let named = |name: &str| group("f", name, &[]);
    let says = || {
        [
            groups(&[named("a"), named("c")]),
            groups(&[named("b"), named("d")]),
        ]
    };
    let (mut from, mut pages) = (None, Vec::new());
    loop {
        let trim = Trim {
            groups: Some(3),
            from_group: from,
            ..Trim::default()
        };
        let (page, _) = join_with(Document::Rules, &trim, &says());
        let token = page
            .split_once(r#","groupNextToken":""#)
            .map(|(_, token)| token);
        let token = token.map(|token| token.trim_end_matches(['"', '}']).to_owned());
        pages.push(page);
        let Some(token) = token else { break };
        let get = |name: &str| match name {
            "group_limit" => Some("3"),
            "group_next_token" => Some(token.as_str()),
            _ => None,
        };
        from = Trim::of(&Endpoint::Document(Document::Rules), get).from_group;
        assert!(from.is_some(), "a token leads on");
    }
    let token = Trim::token("f", "d");
    let first = [named("a"), named("b"), named("c")].join(",");
    assert_eq!(
        pages,
        [
            format!(r#"{{"groups":[{first}],"groupNextToken":"{token}"}}"#),
            format!(r#"{{"groups":[{}]}}"#, named("d")),
        ]
    );
}

#[test]
fn missing_groups_and_warnings_are_told_as_for_series() {
    let ok = r#"{"status":"success","data":{"alerts":[]},"warnings":["w","w"],"infos":["i"]}"#;
    let groups = [body(200, ok), body(500, ""), body(200, ok)];
    let merged = merge_in(Document::Alerts, &Trim::default(), &groups, STEP_UNITS_MIN);
    let body_text = text(&merged);
    let expected = r#"{"status":"success","data":{"alerts":[]},"warnings":["w","ringway: partial answer: replica group g1 gave no usable answer: HTTP status 500"],"infos":["i"]}"#;
    assert_eq!((body_text.as_str(), merged.partial), (expected, true));
    let error = r#"{"status":"error","errorType":"bad_data","error":"no"}"#;
    let groups = [body(503, ""), body(400, error)];
    let merged = merge_in(Document::Rules, &Trim::default(), &groups, STEP_UNITS_MIN);
    assert_eq!((merged.status, text(&merged)), (400, error.to_owned()));
}

/// Documents that hold nothing, and broken ones.
const BROKEN: [(Document, &str, &[&str]); 9] = [
    (
        Document::Alerts,
        r#"{"alerts":[]}"#,
        &[
            r#"{"alerts":[{"state":"firing"}]}"#,
            r#"{"alerts":[{"labels":{"a":1}}]}"#,
            r#"{"alerts":{}}"#,
            "[]",
            r#"{"alerts":[{"labels":{},"x":nul}]}"#,
        ],
    ),
    (
        Document::Rules,
        r#"{"groups":[]}"#,
        &[
            r#"{"groups":[{"file":"x"}]}"#,
            r#"{"groups":[{"name":"x","rules":[{}]}]}"#,
            r#"{"groups":[{"name":"x","rules":[],"rules":[]}]}"#,
        ],
    ),
    (
        Document::Metadata,
        "{}",
        &[r#"{"a":{}}"#, r#"{"a":[{"type":1}]}"#],
    ),
    (
        Document::Exemplars,
        "[]",
        &[
            r#"[{"exemplars":[]}]"#,
            r#"[{"seriesLabels":{},"exemplars":[{"value":"1"}]}]"#,
        ],
    ),
    (
        Document::ScrapePools,
        r#"{"scrapePools":[]}"#,
        &[r#"{"scrapePools":[1]}"#],
    ),
    (
        Document::Alertmanagers,
        r#"{"activeAlertmanagers":[],"droppedAlertmanagers":[]}"#,
        &[r#"{"activeAlertmanagers":[{}]}"#],
    ),
    (
        Document::Targets,
        r#"{"activeTargets":[],"droppedTargets":[]}"#,
        &[
            r#"{"activeTargets":[{}]}"#,
            r#"{"droppedTargetCounts":{"a":1.5}}"#,
        ],
    ),
    (Document::TargetsMetadata, "[]", &[r#"[{"metric":"x"}]"#]),
    (
        Document::Tsdb,
        r#"{"headStats":{},"seriesCountByMetricName":[],"labelValueCountByLabelName":[],"memoryInBytesByLabelName":[],"seriesCountByLabelValuePair":[]}"#,
        &[
            r#"{"headStats":{"numSeries":"1"}}"#,
            r#"{"seriesCountByMetricName":[{"name":"x"}]}"#,
        ],
    ),
];

#[test]
fn a_broken_document_fails_its_group_alone() {
    for (document, empty, all) in BROKEN {
        for broken in all {
            let groups = [data(broken), data("{}"), data("[]"), data("null")];
            let (joined, warnings) = join_with(document, &Trim::default(), &groups);
            assert_eq!(joined, empty, "{document:?} {broken}");
            let told = |text: &String| text.contains("g0 gave no usable answer: malformed");
            assert!(
                warnings.iter().any(told),
                "{document:?} {broken}: {warnings:?}"
            );
        }
    }
}

#[test]
fn an_item_has_a_bound() {
    let target = |length: usize| {
        let rest = length - r#"{"labels":{},"x":[""]}"#.len();
        let (pieces, last) = (rest / 100_003, rest % 100_003);
        let piece = format!("\"{}\",", "x".repeat(100_000));
        let target = format!(
            r#"{{"labels":{{}},"x":[{}"{}"]}}"#,
            piece.repeat(pieces),
            "x".repeat(last)
        );
        assert_eq!(target.len(), length);
        data(&format!(r#"{{"activeTargets":[{target}]}}"#))
    };
    let merge = |length| {
        let groups = [target(length)];
        text(&merge_in(
            Document::Targets,
            &Trim::default(),
            &groups,
            STEP_UNITS_MIN,
        ))
    };
    assert!(merge(ITEM_BYTES_MAX).contains("success"));
    let answer = merge(ITEM_BYTES_MAX + 1);
    assert!(
        answer.contains("crosses a limit: length of an item"),
        "{answer}"
    );
}

/// Whatever the size of steps, the answer is the same.
#[test]
fn steps_of_any_size_give_the_same_answer() {
    let alerts = r#"{"alerts":[{"labels":{"a":"1"}},{"labels":{"a":"2"},"state":"firing"}]}"#;
    let groups = [data(alerts), data(alerts)];
    let whole = text(&merge_in(
        Document::Alerts,
        &Trim::default(),
        &groups,
        usize::MAX,
    ));
    let steps = text(&merge_in(
        Document::Alerts,
        &Trim::default(),
        &groups,
        STEP_UNITS_MIN,
    ));
    assert_eq!(whole, steps);
}
