//! Answers of members: no panic, and what comes out is a whole JSON document.

use ringway_merge::{Endpoint, merge_one};

use super::Target;
use crate::random::Random;

/// See the module.
pub static TARGET: Target = Target {
    name: "series-json",
    about: "answers of Prometheus servers, merged",
    count: 200_000,
    seeds: &[
        br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"2"]}]}}"#,
        br#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"x"},"values":[[1.5,"NaN"],[2,"+Inf"],[3,"-0"]]}]}}"#,
        br#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]},"warnings":["w"],"infos":["i"]}"#,
        br#"{"status":"error","errorType":"bad_data","error":"no \"such\" thing"}"#,
        br#"{"status":"success","data":["a","b\u0000","\ud83d\ude00"]}"#,
        br#"{"status":"success","data":[{"a":"b"},{"a":"c"}]}"#,
        br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"2","sum":"3","buckets":[[0,"1","2","2"]]}]}]}}"#,
    ],
    words: &[
        b"{", b"}", b"[", b"]", b",", b":", b"\"", b"\\", b"\\u", b"null", b"true", b"1e400", b"-", b"[1,\"2\"]",
        b"\"status\":", b"\"data\":", b"\"result\":", b"\"metric\":", b"\"value\":", b"\"values\":",
        b"\"histogram\":", b"\"resultType\":\"matrix\"", b"\"warnings\":", b" ", b"\n", b"\xff", b"\0",
    ],
    run,
};

fn run(input: &[u8], random: &mut Random) {
    let endpoints = [
        (Endpoint::Query, Some("sum by (a) (x)")),
        (Endpoint::Query, Some("x")),
        (Endpoint::QueryRange, Some("avg(x)")),
        (Endpoint::QueryRange, Some("x")),
        (Endpoint::Series, None),
        (Endpoint::Labels, None),
    ];
    let (endpoint, query) = &endpoints[random.below(endpoints.len())];
    let merged = merge_one(endpoint, *query, 200, input);
    let body = merged.body.concat();
    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&body);
    let document = parsed.expect("an answer is a JSON document");
    assert!(document["status"].is_string(), "an answer has a status");
    assert!(
        (100..=599).contains(&merged.status),
        "an answer has an HTTP status"
    );
}
