//! Answers that are no series: no panic, and what comes out is a whole document that merges to itself.

use ringway_merge::{Document, Endpoint, merge_one};

use super::Target;
use crate::random::Random;

/// See the module.
pub static TARGET: Target = Target {
    name: "documents",
    about: "rules, alerts, targets, metadata and the like, and text expositions, merged",
    count: 200_000,
    seeds: &[
        br#"{"status":"success","data":{"groups":[{"name":"g","file":"f","rules":[{"state":"firing","name":"a","query":"up == 0","duration":60,"labels":{"s":"x"},"alerts":[{"labels":{"i":"1"},"annotations":{},"state":"firing","value":"1e+00"}],"health":"err","lastError":"x","type":"alerting"}],"interval":60}]}}"#,
        br#"{"status":"success","data":{"alerts":[{"labels":{"a":"\u00e9"},"annotations":{"b":"c"},"state":"pending","value":"1"}]},"warnings":["w"],"infos":["i"]}"#,
        br#"{"status":"success","data":{"activeTargets":[{"discoveredLabels":{},"labels":{"i":"1"},"scrapePool":"p"}],"droppedTargets":[{"discoveredLabels":{}}],"droppedTargetCounts":{"p":1}}}"#,
        br#"{"status":"success","data":[{"target":{"i":"1"},"metric":"m","type":"gauge","help":"h","unit":""}]}"#,
        br#"{"status":"success","data":{"m":[{"type":"gauge","help":"h","unit":""}],"n":null}}"#,
        br#"{"status":"success","data":[{"seriesLabels":{"a":"1"},"exemplars":[{"labels":{"t":"x"},"value":"1","timestamp":1.5}]}]}"#,
        br#"{"status":"success","data":{"scrapePools":["a","b"]}}"#,
        br#"{"status":"success","data":{"activeAlertmanagers":[{"url":"a"}],"droppedAlertmanagers":[]}}"#,
        br#"{"status":"success","data":{"headStats":{"numSeries":1,"minTime":-5,"maxTime":9223372036854775807},"seriesCountByMetricName":[{"name":"m","value":2}]}}"#,
        br#"{"status":"success","data":{"version":"3.5.0"}}"#,
        br#"{"status":"error","errorType":"bad_data","error":"no \"such\" thing"}"#,
        b"# HELP a text\n# TYPE a untyped\na{x=\"1\",y=\"q\\\"\\n\"} 1 5\n{\"b.c\",\"d.e\"=\"f\"} NaN\n",
        b"# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
    ],
    words: &[
        b"{", b"}", b"[", b"]", b",", b":", b"\"", b"\\", b"\\u", b"null", b"1e400", b"-", b"\"status\":", b"\"data\":",
        b"\"labels\":", b"\"alerts\":", b"\"rules\":", b"\"groups\":", b"\"value\":", b"\"name\":", b" ", b"\n",
        b"\xff", b"\0", b"# TYPE ", b"# HELP ", b"+Inf", b"=\"", b"_sum",
    ],
    run,
};

const DOCUMENTS: [Document; 11] = [
    Document::Alertmanagers,
    Document::Alerts,
    Document::BuildInfo,
    Document::Exemplars,
    Document::Federate,
    Document::Metadata,
    Document::Rules,
    Document::ScrapePools,
    Document::Targets,
    Document::TargetsMetadata,
    Document::Tsdb,
];

fn run(input: &[u8], random: &mut Random) {
    // Text is read in one way only; it has its share.
    let document = if input.contains(&b'#') {
        Document::Federate
    } else {
        DOCUMENTS[random.below(DOCUMENTS.len())]
    };
    let endpoint = Endpoint::Document(document);
    let merged = merge_one(&endpoint, None, 200, input);
    assert!(
        (100..=599).contains(&merged.status),
        "an answer has an HTTP status"
    );
    let body = merged.body.concat();
    if document != Document::Federate {
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&body);
        let answer = parsed.expect("an answer is a JSON document");
        assert!(answer["status"].is_string(), "an answer has a status");
    }
    // What was joined is a document that a server might have sent; targets are never one, and sums add up.
    let adds_up = matches!(document, Document::Targets | Document::Tsdb);
    if merged.status == 200 && !adds_up {
        let again = merge_one(&endpoint, None, 200, &body);
        assert_eq!(again.body.concat(), body, "an answer merges to itself");
    }
}
