//! The demo's answers.

use super::super::series::{Gaps, Group};
use super::*;

/// 2024-06-01 12:00:00 UTC: no origin has a gap in the minutes before.
const NOON_MS: i64 = 1_717_243_200_000;

fn get(store: &Store, path: &str, params: &[(&str, &str)]) -> (u16, Json) {
    let params: Vec<(String, String)> = params
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    answer(store, path, &params, NOON_MS)
}

fn ask(store: &Store, query: &str) -> Json {
    let (status, mut json) = get(store, "/api/v1/query", &[("query", query)]);
    assert_eq!(status, 200, "{query}: {json}");
    json["data"]["result"].take()
}

fn store(group: Group) -> Store {
    Store::new(group, Gaps::None)
}

#[test]
fn aggregations_are_right() {
    let a = store(Group::A);
    let at = NOON_MS / 1000;
    for (query, value) in [
        ("sum(demo_capacity)", "180"),
        ("avg(demo_capacity)", "90"),
        ("min(demo_capacity)", "80"),
        ("max (demo_capacity)", "100"),
        ("count(up)", "2"),
        ("group(up)", "1"),
        ("sum(rate(demo_requests_total[1m]))", "16"),
        ("sum(demo_capacity{instance=\"eu-1\"})", "100"),
        ("sum(demo_capacity{instance!=\"eu-1\"})", "80"),
        ("sum(demo_capacity{instance=~\"eu-1|eu-9\"})", "100"),
        ("sum(demo_capacity{instance=~'eu-.*'})", "180"),
        ("sum(demo_capacity{instance!~\".*-1\"})", "80"),
        ("sum({__name__=\"demo_capacity\"})", "180"),
        ("vector(1)", "1"),
    ] {
        let expected = json!([{"metric": {}, "value": [at, value]}]);
        assert_eq!(ask(&a, query), expected, "{query}");
    }
}

#[test]
fn groups_keep_their_labels_wherever_by_stands() {
    let c = store(Group::C);
    let at = NOON_MS / 1000;
    let expected = json!([
        {"metric": {"region": "ap"}, "value": [at, "50"]},
        {"metric": {"region": "eu"}, "value": [at, "40"]},
    ]);
    for query in [
        "sum by (region) (demo_capacity)",
        "sum by(region)(demo_capacity)",
        "sum(demo_capacity) by (region)",
        "sum without (instance, job) (demo_capacity)",
    ] {
        assert_eq!(ask(&c, query), expected, "{query}");
    }
}

#[test]
fn a_selector_answers_whole_series() {
    let at = NOON_MS / 1000;
    let labels = json!({
        "__name__": "demo_capacity", "instance": "ap-1", "job": "demo", "region": "ap",
    });
    assert_eq!(
        ask(&store(Group::C), "demo_capacity{region=\"ap\"}"),
        json!([{"metric": labels, "value": [at, "50"]}])
    );
    assert_eq!(ask(&store(Group::C), "nothing"), json!([]));
}

#[test]
fn a_scalar_is_a_scalar() {
    let (_, json) = get(
        &store(Group::A),
        "/api/v1/query",
        &[("query", "42"), ("time", "7.5")],
    );
    assert_eq!(
        json["data"],
        json!({"resultType": "scalar", "result": [7.5, "42"]})
    );
}

#[test]
fn replicas_have_gaps_at_different_times_and_agree_elsewhere() {
    let stores = [
        Store::new(Group::A, Gaps::First),
        Store::new(Group::A, Gaps::Second),
    ];
    let start = (NOON_MS / 1000).to_string();
    let end = (NOON_MS / 1000 + 3600).to_string();
    let points = stores.map(|store| {
        let (_, json) = get(
            &store,
            "/api/v1/query_range",
            &[
                ("query", "demo_temperature_celsius{instance=\"eu-1\"}"),
                ("start", &start),
                ("end", &end),
                ("step", "60s"),
            ],
        );
        json["data"]["result"][0]["values"]
            .as_array()
            .unwrap()
            .clone()
    });
    assert_eq!(points.each_ref().map(Vec::len), [51, 51]);
    let both: BTreeSet<String> = points.iter().flatten().map(Json::to_string).collect();
    assert_eq!(both.len(), 61);
}

#[test]
fn metadata_is_that_of_the_series() {
    let c = store(Group::C);
    let (_, json) = get(&c, "/api/v1/labels", &[]);
    assert_eq!(
        json["data"],
        json!(["__name__", "code", "instance", "job", "region"])
    );
    let (_, json) = get(&c, "/api/v1/label/region/values", &[]);
    assert_eq!(json["data"], json!(["ap", "eu"]));
    let (_, json) = get(&c, "/api/v1/series", &[("match[]", "up{region=\"eu\"}")]);
    assert_eq!(json["data"].as_array().unwrap().len(), 1);
    let (_, json) = get(&c, "/api/v1/status/buildinfo", &[]);
    assert_eq!(json["status"], "success");
}

#[test]
fn what_is_not_supported_is_refused_as_prometheus_refuses() {
    let a = store(Group::A);
    for query in [
        "",
        "sum(",
        "sum(up) + 1",
        "histogram_quantile(0.9, up)",
        "up{a=~\"[x]\"}",
        "up[5m]",
        "rate(up)",
        "{}",
        "up}",
        "sum by (region (up)",
    ] {
        let (status, json) = get(&a, "/api/v1/query", &[("query", query)]);
        assert_eq!(status, 400, "{query}");
        assert_eq!(json["status"], "error", "{query}");
        assert_eq!(json["errorType"], "bad_data", "{query}");
        assert!(json["error"].as_str().unwrap().len() > 10, "{query}");
    }
    let deep = format!("{}up{}", "(".repeat(200), ")".repeat(200));
    assert_eq!(get(&a, "/api/v1/query", &[("query", &deep)]).0, 400);
    assert_eq!(get(&a, "/api/v1/admin", &[]).0, 404);
}

#[test]
fn ranges_are_bounded_and_checked() {
    let a = store(Group::A);
    let range = |start: &str, end: &str, step: &str| {
        let params = [
            ("query", "up"),
            ("start", start),
            ("end", end),
            ("step", step),
        ];
        get(&a, "/api/v1/query_range", &params)
    };
    assert_eq!(range("100", "11100", "1").0, 200);
    assert_eq!(range("100", "11101", "1").0, 400);
    assert_eq!(range("100", "99", "1").0, 400);
    assert_eq!(range("100", "200", "0").0, 400);
    assert_eq!(range("100", "200", "x").0, 400);
    assert_eq!(
        range("1970-01-01T00:01:40Z", "1970-01-01T00:03:20.5Z", "1m").0,
        200
    );
    assert_eq!(range("yesterday", "200", "1").0, 400);
}
