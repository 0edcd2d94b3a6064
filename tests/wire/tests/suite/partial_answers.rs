//! What is answered when a replica group is missing, when the answer may not be exact, and when a query needs too much:
//! with a warning, or as an error where that is wanted.

use ringway_wire::{Answer, Ringway};
use serde_json::Value;

use crate::fake_prometheus::{Server, encode, start, success, vector};

const UP: &str = r#""__name__":"up","job":"a""#;

fn body(answer: &Answer) -> Value {
    let text = answer.text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

fn query(ringway: &Ringway, query: &str, more: &str) -> Answer {
    let query = encode(query);
    ringway.get(&format!(
        "/api/v1/query?time=1700000000&query={query}{more}"
    ))
}

/// The answer is partial and says so in these words.
#[track_caller]
fn assert_partial(answer: &Answer, words: &[&str]) {
    let body = body(answer);
    assert_eq!((answer.status, &body["status"]), (200, &"success".into()));
    let warnings = body["warnings"].to_string();
    for word in words {
        assert!(warnings.contains(word), "{word} in {warnings}");
    }
    let result = answer.header("x-trickster-result").unwrap_or_default();
    assert!(result.contains("phit"), "{result}");
}

/// The answer is an error of this kind, in these words.
#[track_caller]
fn assert_refused(answer: &Answer, (status, kind): (u16, &str), words: &[&str]) {
    let body = body(answer);
    assert_eq!(answer.status, status, "{body}");
    assert_eq!(
        (&body["status"], &body["errorType"]),
        (&"error".into(), &kind.into())
    );
    let text = body["error"].as_str().expect("a text");
    for word in words {
        assert!(text.contains(word), "{word} in {text}");
    }
    let content_type = answer.header("content-type").unwrap_or_default();
    assert!(
        content_type.starts_with("application/json"),
        "{content_type}"
    );
}

fn one_of_two() -> [Server; 2] {
    let one = Server::new("one", |path, _| match path {
        "/api/v1/labels" => (200, success(r#"["job"]"#)),
        _ => (200, vector(&[(UP, "1")])),
    });
    let two = Server::new("two", |_, _| (500, "no".into()));
    [one, two]
}

#[test]
fn a_group_that_is_expected_and_unknown_makes_every_answer_partial() {
    for (key, words) in [
        (
            "tsm: {expected_groups: [one, two, three]}",
            ["three", "2 of 3"],
        ),
        ("tsm: {expected_groups: 3}", ["unknown group 1", "2 of 3"]),
    ] {
        let servers = ["one", "two"].map(|name| Server::saying(name, vector(&[(UP, "1")])));
        let ringway = start(&servers, &[key]);
        assert_partial(&query(&ringway, "up", ""), &words);
        ringway.stop();
    }
}

#[test]
fn one_live_member_is_not_all_of_an_answer_when_more_is_expected() {
    let servers = [Server::saying("one", vector(&[(UP, "1")]))];
    let ringway = start(&servers, &["tsm: {expected_groups: [one, lost]}"]);
    assert_partial(&query(&ringway, "up", ""), &["missing: lost"]);
    ringway.stop();
}

#[test]
fn groups_that_are_all_there_are_expected_without_a_word() {
    let servers = ["one", "two"].map(|name| Server::saying(name, vector(&[(UP, "1")])));
    let ringway = start(&servers, &["tsm: {expected_groups: [two, one]}"]);
    let answer = query(&ringway, "up", "");
    assert_eq!(body(&answer)["warnings"], Value::Null);
    ringway.stop();
}

#[test]
fn a_partial_answer_is_an_error_where_the_alb_or_the_request_says_so() {
    let refusal = (503, "unavailable");
    let servers = one_of_two();
    let ringway = start(&servers, &["tsm: {partial_response: fail}"]);
    let words = ["partial answer", "replica group two", "500"];
    assert_refused(&query(&ringway, "up", ""), refusal, &words);
    assert_partial(&query(&ringway, "up", "&partial_response=true"), &["two"]);
    let list = ringway.get("/api/v1/labels");
    assert_refused(&list, refusal, &["replica group two"]);
    ringway.stop();

    let ringway = start(&servers, &[]);
    assert_partial(&query(&ringway, "up", ""), &["two"]);
    for said in ["0", "f", "false"] {
        let more = format!("&partial_response={said}");
        assert_refused(&query(&ringway, "up", &more), refusal, &["two"]);
    }
    let unread = query(&ringway, "up", "&partial_response=maybe");
    assert_refused(&unread, (400, "bad_data"), &["partial_response"]);
    ringway.stop();
}

#[test]
fn an_error_of_all_groups_stays_their_error_whatever_partial_answers_are() {
    let error = r#"{"status":"error","errorType":"bad_data","error":"no such thing"}"#;
    let servers = ["one", "two"].map(|name| Server::new(name, move |_, _| (400, error.into())));
    let ringway = start(&servers, &["tsm: {partial_response: fail, strict: true}"]);
    let answer = query(&ringway, "up", "");
    assert_refused(&answer, (400, "bad_data"), &["no such thing"]);
    ringway.stop();
}

#[test]
fn strict_refuses_a_plan_that_may_not_be_exact_and_asks_nobody_the_query() {
    let servers = ["one", "two"].map(|name| {
        Server::new(name, |path, _| match path {
            "/api/v1/query" => (200, vector(&[(UP, "1")])),
            _ => (404, String::new()),
        })
    });
    let ringway = start(&servers, &["tsm: {strict: true}"]);
    assert_eq!(query(&ringway, "sum(up)", "").status, 200);
    servers[0].origin.requests();
    // Of servers that do not say their version.
    let answer = query(&ringway, "max_over_time(sum(up)[5m:1m])", "");
    let words = ["alb.tsm.strict", "no server says its version"];
    assert_refused(&answer, (422, "execution"), &words);
    for request in servers[0].origin.requests() {
        assert!(
            request.target.starts_with("/api/v1/status/"),
            "{}",
            request.target
        );
    }
    ringway.stop();
}

#[test]
fn strict_leaves_it_to_the_servers_to_call_a_query_wrong() {
    let error = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
    for (status, body_, refusal, word) in [
        (400, error.to_owned(), (400, "bad_data"), "parse error"),
        (200, vector(&[]), (422, "execution"), "cannot be planned"),
    ] {
        let servers = ["one", "two"].map(|name| {
            let body = body_.clone();
            Server::new(name, move |_, _| (status, body.clone()))
        });
        let ringway = start(&servers, &["tsm: {strict: true}"]);
        assert_refused(&query(&ringway, "up{", ""), refusal, &[word]);
        ringway.stop();
    }
}

#[test]
fn strict_refuses_an_answer_that_turns_out_to_be_doubtful() {
    let servers = [
        Server::saying("one", vector(&[(UP, "1")])),
        Server::saying("two", vector(&[(UP, "2")])),
    ];
    let keys = "tsm: {shared_series: false, strict: true}";
    let ringway = start(&servers, &[keys]);
    let answer = query(&ringway, "up", "");
    assert_refused(&answer, (422, "execution"), &["same labels"]);
    ringway.stop();
    let ringway = start(&servers, &["tsm: {shared_series: false}"]);
    let answer = body(&query(&ringway, "up", ""));
    assert!(
        answer["warnings"].to_string().contains("same labels"),
        "{answer}"
    );
    ringway.stop();
}

#[test]
fn a_query_that_needs_more_bytes_than_it_may_is_an_error_of_its_own() {
    let long: Vec<String> = (0..100).map(|at| format!(r#""job":"{at}""#)).collect();
    let samples: Vec<(&str, &str)> = long.iter().map(|labels| (labels.as_str(), "1")).collect();
    let text = vector(&samples);
    let servers = ["one", "two"].map(|name| Server::saying(name, text.clone()));
    let most = text.len() + text.len() / 2;
    let ringway = start(&servers, &[&format!("tsm: {{max_bytes: {most}}}")]);
    let answer = query(&ringway, "up", "");
    assert_refused(
        &answer,
        (422, "execution"),
        &["alb.tsm.max_bytes", &most.to_string()],
    );
    ringway.stop();
    // A smaller bound of the fan-out is met first: it fails members.
    let keys = [
        format!("tsm: {{max_bytes: {most}}}"),
        format!("max_fanout_capture_bytes: {}", most - 1),
    ];
    let ringway = start(&servers, &[&keys[0], &keys[1]]);
    assert_partial(&query(&ringway, "up", ""), &["capture budget"]);
    ringway.stop();
}
