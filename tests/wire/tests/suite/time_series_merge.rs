//! Mechanism `tsm` over fake servers: what each is asked, how answers combine, and what is said when
//! something is missing.

use ringway_wire::{Answer, Gate, Origin, Ringway, eventually};
use serde_json::{Value, json};

use crate::fake_prometheus::{
    Parameters, Server, encode, matrix, start, start_with, success, vector,
};

#[track_caller]
fn body(answer: &Answer) -> Value {
    let text = answer.text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text:?}"))
}

#[track_caller]
fn instant(ringway: &Ringway, query: &str) -> Answer {
    ringway.get(&format!(
        "/api/v1/query?time=1700000000&query={}",
        encode(query)
    ))
}

#[track_caller]
fn range(ringway: &Ringway, query: &str) -> Answer {
    let query = encode(query);
    ringway.get(&format!(
        "/api/v1/query_range?start=1700000000&end=1700000030&step=15&query={query}"
    ))
}

/// Samples of an instant answer: labels and value.
#[track_caller]
fn samples(answer: &Answer) -> Vec<(Value, String)> {
    let body = body(answer);
    assert_eq!(body["status"], "success", "{body}");
    let result = body["data"]["result"].as_array().expect("a list").clone();
    let value = |series: &Value| {
        series["value"][1]
            .as_str()
            .expect("a number as text")
            .to_owned()
    };
    result
        .iter()
        .map(|series| (series["metric"].clone(), value(series)))
        .collect()
}

#[track_caller]
fn warnings(answer: &Answer) -> usize {
    body(answer)["warnings"].as_array().map_or(0, Vec::len)
}

#[track_caller]
fn marked_partial(answer: &Answer) -> bool {
    let result = answer.header("x-trickster-result").unwrap_or_default();
    result.contains("phit")
}

const A: &str = r#""job":"a""#;
const B: &str = r#""job":"b""#;

#[test]
fn plain_series_of_all_groups_come_together_sorted_by_labels() {
    let servers = [
        Server::saying("one", vector(&[(r#""__name__":"up","job":"b""#, "1")])),
        Server::saying("two", vector(&[(r#""__name__":"up","job":"a""#, "0")])),
    ];
    let ringway = start(&servers, &[]);
    let answer = instant(&ringway, "up");
    assert_eq!(answer.status, 200);
    let content_type = answer
        .header("content-type")
        .unwrap_or_default()
        .to_ascii_lowercase();
    assert!(
        content_type.starts_with("application/json"),
        "{content_type}"
    );
    let expected = [
        (json!({"__name__": "up", "job": "a"}), "0".to_owned()),
        (json!({"__name__": "up", "job": "b"}), "1".to_owned()),
    ];
    assert_eq!(samples(&answer), expected);
    assert_eq!((warnings(&answer), marked_partial(&answer)), (0, false));
    ringway.stop();
}

#[test]
fn each_aggregation_combines_by_its_own_rule() {
    let one = vector(&[(A, "0.1"), (B, "5")]);
    let two = vector(&[(A, "0.2"), (r#""job":"c""#, "-7")]);
    for (query, a) in [
        ("sum by (job) (x)", "0.30000000000000004"),
        ("count by (job) (x)", "0.30000000000000004"),
        ("min by (job) (x)", "0.1"),
        ("max by (job) (x)", "0.2"),
        ("MAX(x) by (job)", "0.2"),
        ("(sum(x) by (job))", "0.30000000000000004"),
    ] {
        let servers = [
            Server::saying("one", one.clone()),
            Server::saying("two", two.clone()),
        ];
        let ringway = start(&servers, &[]);
        let answer = instant(&ringway, query);
        let expected = [
            (json!({"job": "a"}), a.to_owned()),
            (json!({"job": "b"}), "5".to_owned()),
            (json!({"job": "c"}), "-7".to_owned()),
        ];
        assert_eq!(samples(&answer), expected, "{query}");
        assert_eq!(warnings(&answer), 0, "{query}");
        ringway.stop();
    }
}

#[test]
fn group_and_count_values_combine_by_their_own_rule() {
    let servers = || {
        [
            Server::saying("one", vector(&[(A, "1")])),
            Server::saying("two", vector(&[(A, "1")])),
        ]
    };
    for (query, value) in [
        ("group by (job) (x)", "1"),
        (r#"count_values("job", x)"#, "2"),
    ] {
        let servers = servers();
        let ringway = start(&servers, &[]);
        let answer = instant(&ringway, query);
        assert_eq!(
            samples(&answer),
            [(json!({"job": "a"}), value.to_owned())],
            "{query}"
        );
        assert_eq!(warnings(&answer), 0, "{query}");
        ringway.stop();
    }
}

#[test]
fn avg_is_asked_as_sum_and_count_and_weighted() {
    let script = |sum: &'static str, count: &'static str| {
        move |_: &str, parameters: &Parameters| {
            let query = parameters.get("query").unwrap_or_default();
            let value = if query.starts_with("sum") { sum } else { count };
            assert!(
                query.starts_with("sum") || query.starts_with("count"),
                "asked {query}"
            );
            (200, vector(&[(A, value)]))
        }
    };
    let servers = [
        Server::new("one", script("10", "1")),
        Server::new("two", script("20", "4")),
    ];
    let ringway = start(&servers, &[]);
    let answer = instant(&ringway, "avg by (job) (x)");
    assert_eq!(samples(&answer), [(json!({"job": "a"}), "6".to_owned())]);
    assert_eq!(warnings(&answer), 0);
    let mut asked: Vec<_> = servers[0].origin.requests().iter().map(query_of).collect();
    asked.sort();
    assert_eq!(asked.len(), 2);
    assert!(
        asked[0].starts_with("count") && asked[1].starts_with("sum"),
        "{asked:?}"
    );
    ringway.stop();
}

fn query_of(request: &ringway_wire::Request) -> String {
    Parameters::of(request)
        .get("query")
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn replicas_of_a_group_count_once_and_fill_each_others_gaps() {
    let servers = [
        Server::saying("a1", matrix(&[(A, r#"[1700000000,"1"],[1700000030,"3"]"#)])).group("a"),
        Server::saying(
            "a2",
            matrix(&[(A, r#"[1700000000,"9"],[1700000015,"2"],[1700000030,"9"]"#)]),
        )
        .group("a"),
        Server::saying("b", matrix(&[(A, r#"[1700000015,"10"]"#)])),
    ];
    let ringway = start(&servers, &[]);
    let answer = body(&range(&ringway, "sum by (job) (x)"));
    let values = json!([
        [1_700_000_000, "1"],
        [1_700_000_015, "12"],
        [1_700_000_030, "3"]
    ]);
    assert_eq!(
        answer["data"]["result"],
        json!([{"metric": {"job": "a"}, "values": values}])
    );
    assert_eq!(answer["data"]["resultType"], "matrix");
    let conflicts = ringway.metric(
        "trickster_alb_tsm_replica_events_total",
        &[("event", "conflict")],
    );
    assert_eq!(conflicts, Some(2.0));
    eventually("the disagreement is logged", || {
        let log = ringway.log();
        let line = log
            .lines()
            .find(|line| line.contains("replicas disagree"))?;
        let named = line.contains("alb=all groups=a ");
        (named && line.contains("level=warn")).then_some(())
    });
    ringway.stop();
}

#[test]
fn a_failed_replica_that_another_covers_leaves_no_trace() {
    let servers = [
        Server::new("a1", |_, _| (503, "down".to_owned())).group("a"),
        Server::saying("a2", vector(&[(A, "2")])).group("a"),
        Server::saying("b", vector(&[(A, "3")])),
    ];
    let ringway = start(&servers, &[]);
    let answer = instant(&ringway, "sum by (job) (x)");
    assert_eq!(samples(&answer), [(json!({"job": "a"}), "5".to_owned())]);
    assert_eq!(
        (answer.status, warnings(&answer), marked_partial(&answer)),
        (200, 0, false)
    );
    ringway.stop();
}

type MakeServer = fn() -> Server;

#[test]
fn a_group_without_an_answer_is_a_warning_and_marks_the_answer_partial() {
    let rows: [(&str, MakeServer); 4] = [
        ("503", || Server::new("b", |_, _| (503, "down".to_owned()))),
        ("no JSON", || Server::saying("b", "<html>")),
        ("cut JSON", || {
            Server::saying("b", &vector(&[(A, "3")])[..50])
        }),
        ("other JSON", || Server::saying("b", "[1,2,3]")),
    ];
    for (name, second) in rows {
        let servers = [Server::saying("a", vector(&[(A, "2")])), second()];
        let ringway = start(&servers, &[]);
        for query in ["sum by (job) (x)", "x"] {
            let answer = instant(&ringway, query);
            assert_eq!(answer.status, 200, "{name}");
            assert_eq!(
                samples(&answer),
                [(json!({"job": "a"}), "2".to_owned())],
                "{name}"
            );
            assert!(warnings(&answer) > 0, "{name}: {}", answer.text());
            assert!(
                marked_partial(&answer),
                "{name}: {:?}",
                answer.header("x-trickster-result")
            );
        }
        ringway.stop();
    }
}

#[test]
fn errors_of_all_members_become_one_error_in_prometheus_form() {
    let error = r#"{"status":"error","errorType":"bad_data","error":"parse error: x"}"#;
    let fails = move |_: &str, _: &Parameters| (400, error.to_owned());
    let servers = [Server::new("a", fails), Server::new("b", fails)];
    let ringway = start(&servers, &[]);
    let answer = instant(&ringway, "x");
    let envelope = body(&answer);
    assert_eq!(
        (answer.status, &envelope["status"], &envelope["errorType"]),
        (400, &json!("error"), &json!("bad_data"))
    );
    assert!(
        envelope["error"]
            .as_str()
            .is_some_and(|text| text.contains("parse error")),
        "{envelope}"
    );
    ringway.stop();
}

#[test]
fn with_no_member_reachable_the_answer_is_502() {
    let servers = [Server::saying("a", ""), Server::saying("b", "")];
    let ringway = start(&servers, &[]);
    drop(servers);
    eventually("both are gone", || {
        (instant(&ringway, "x").status == 502).then_some(())
    });
    let answer = instant(&ringway, "sum(x)");
    assert_eq!(answer.status, 502);
    assert_eq!(
        body(&answer)["status"],
        "error",
        "clients of the API read the envelope"
    );
    ringway.stop();
}

/// Servers read parameters of the URL and of forms; other bodies do not matter to them.
#[test]
fn bodies_that_are_no_forms_do_not_change_what_is_merged() {
    let servers = [
        Server::saying("a", vector(&[(A, "2")])),
        Server::saying("b", vector(&[(A, "3")])),
    ];
    let ringway = start(&servers, &[]);
    let target = format!("/api/v1/query?query={}&time=1", encode("sum by (job) (x)"));
    let mut client = ringway.client();
    for (method, headers, sent) in [
        ("POST", "", ""),
        ("POST", "Content-Type: application/json\r\n", ""),
        (
            "POST",
            "Content-Type: application/json\r\n",
            "{\"query\":\"up\"}",
        ),
        ("POST", "", "query=up"),
        (
            "GET",
            "Content-Type: application/x-www-form-urlencoded\r\n",
            "query=up",
        ),
    ] {
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: a\r\n{headers}Content-Length: {}\r\n\r\n{sent}",
            sent.len()
        ));
        let answer = client.answer();
        let expected = [(json!({"job": "a"}), "5".to_owned())];
        assert_eq!(samples(&answer), expected, "{method} {headers}{sent}");
    }
    let parts = "--x\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nsum(x)\r\n--x--\r\n";
    client.send(format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\n\
         Content-Length: {}\r\n\r\n{parts}",
        parts.len()
    ));
    let answer = client.answer();
    assert_eq!(
        (answer.status, &body(&answer)["errorType"]),
        (400, &json!("bad_data"))
    );
    assert!(
        answer.text().contains("multipart/form-data"),
        "{}",
        answer.text()
    );
    ringway.stop();
}

#[test]
fn both_query_endpoints_work_by_post_with_a_form_body() {
    let servers = [
        Server::saying("a", vector(&[(A, "2")])),
        Server::saying("b", vector(&[(A, "3")])),
    ];
    let ringway = start(&servers, &[]);
    let form = format!(
        "query={}&time=1700000000&timeout=7s",
        encode("sum by (job) (x)")
    );
    let mut client = ringway.client();
    client.send(format!(
        "POST /api/v1/query HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{form}",
        form.len()
    ));
    assert_eq!(
        samples(&client.answer()),
        [(json!({"job": "a"}), "5".to_owned())]
    );
    for server in &servers {
        let request = server.origin.next_request();
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("POST", "/api/v1/query")
        );
        assert_eq!(
            request.header("content-type"),
            Some("application/x-www-form-urlencoded")
        );
        let parameters = Parameters::of(&request);
        assert_eq!(parameters.all("query"), ["sum by (job) (x)"]);
        assert_eq!(parameters.all("time"), ["1700000000"]);
        assert_eq!(parameters.all("timeout"), ["7s"]);
    }
    // A form in chunks, with the query in the URL: the form's value wins.
    client.send("POST /api/v1/query?query=up&time=1 HTTP/1.1\r\nHost: a\r\n");
    client.send(
        "Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    client.send("7\r\nquery=x\r\n0\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    let parameters = Parameters::of(&servers[0].origin.next_request());
    assert_eq!(
        (parameters.all("query"), parameters.all("time")),
        (vec!["x"], vec!["1"])
    );
    ringway.stop();
}

#[test]
fn range_queries_pass_their_parameters_on_unchanged() {
    let servers = [
        Server::saying("a", matrix(&[])),
        Server::saying("b", matrix(&[])),
    ];
    let ringway = start(&servers, &[]);
    let answer = ringway.get("/api/v1/query_range?query=up&start=1700000001.123&end=2023-11-14T22:13:50Z&step=7s&lookback_delta=3m");
    assert_eq!(
        body(&answer)["data"],
        json!({"resultType": "matrix", "result": []})
    );
    for server in &servers {
        let parameters = Parameters::of(&server.origin.next_request());
        for (name, value) in [
            ("start", "1700000001.123"),
            ("end", "2023-11-14T22:13:50Z"),
            ("step", "7s"),
            ("lookback_delta", "3m"),
        ] {
            assert_eq!(parameters.all(name), [value], "{name}");
        }
    }
    ringway.stop();
}

#[test]
fn an_instant_query_without_a_time_is_stamped_once_for_all() {
    let servers = [
        Server::saying("a", vector(&[])),
        Server::saying("b", vector(&[])),
        Server::saying("c", vector(&[])),
    ];
    let ringway = start(&servers, &[]);
    assert_eq!(ringway.get("/api/v1/query?query=x").status, 200);
    let time = |server: &Server| {
        Parameters::of(&server.origin.next_request())
            .get("time")
            .map(str::to_owned)
    };
    let times: Vec<_> = servers.iter().map(time).collect();
    assert!(times[0].is_some(), "no time was added");
    assert!(times.iter().all(|time| time == &times[0]), "{times:?}");
    ringway.stop();
}

#[test]
fn labels_values_and_series_are_united() {
    let script = |own: &'static str| {
        move |path: &str, _: &Parameters| {
            let data = match path {
                "/api/v1/labels" => format!(r#"["job","{own}"]"#),
                "/api/v1/label/job/values" => format!(r#"["z","{own}","a"]"#),
                "/api/v1/series" => format!(r#"[{{"job":"x"}},{{"job":"{own}"}}]"#),
                other => panic!("asked {other}"),
            };
            (200, success(&data))
        }
    };
    let servers = [
        Server::new("one", script("m")),
        Server::new("two", script("b")),
    ];
    let ringway = start(&servers, &[]);
    assert_eq!(
        body(&ringway.get("/api/v1/labels"))["data"],
        json!(["b", "job", "m"])
    );
    assert_eq!(
        body(&ringway.get("/api/v1/label/job/values"))["data"],
        json!(["a", "b", "m", "z"])
    );
    let series = body(&ringway.get("/api/v1/series?match[]=up&match[]=x"));
    assert_eq!(
        series["data"],
        json!([{"job": "b"}, {"job": "m"}, {"job": "x"}]),
        "in the order of labels, as one server gives them"
    );
    let request = servers[0]
        .origin
        .requests()
        .pop()
        .expect("three were asked");
    assert_eq!(Parameters::of(&request).all("match[]"), ["up", "x"]);
    let mut client = ringway.client();
    for path in ["/api/v1/labels", "/api/v1/series"] {
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: 13\r\n\r\nmatch%5B%5D=x"
        ));
        let answer = client.answer();
        assert_eq!(
            (answer.status, body(&answer)["status"].as_str()),
            (200, Some("success")),
            "{path}"
        );
    }
    ringway.stop();
}

#[test]
fn compressed_answers_are_merged() {
    let servers = [
        Server::saying_gzip("one", &vector(&[(A, "2")])),
        Server::saying("two", vector(&[(A, "3")])),
    ];
    let ringway = start(&servers, &[]);
    assert_eq!(
        samples(&instant(&ringway, "sum by (job) (x)")),
        [(json!({"job": "a"}), "5".to_owned())]
    );
    ringway.stop();
}

#[test]
fn injected_labels_stay_on_plain_series_and_leave_aggregations() {
    let server = |name, region: &str| {
        let server = Server::new(name, |path, _| match path {
            "/api/v1/labels" => (200, success(r#"["job"]"#)),
            "/api/v1/label/region/values" => (200, success("[]")),
            _ => (200, vector(&[(A, "2")])),
        });
        server
            .key("prometheus:")
            .key("  labels:")
            .key(&format!("    region: {region}"))
    };
    let servers = [server("one", "eu"), server("two", "us")];
    let ringway = start(&servers, &[]);
    let expected = [
        (json!({"job": "a", "region": "eu"}), "2".to_owned()),
        (json!({"job": "a", "region": "us"}), "2".to_owned()),
    ];
    assert_eq!(samples(&instant(&ringway, "x")), expected);
    assert_eq!(
        samples(&instant(&ringway, "sum by (job) (x)")),
        [(json!({"job": "a"}), "4".to_owned())]
    );
    assert_eq!(
        body(&ringway.get("/api/v1/labels"))["data"],
        json!(["job", "region"])
    );
    assert_eq!(
        body(&ringway.get("/api/v1/label/region/values"))["data"],
        json!(["eu", "us"])
    );
    ringway.stop();
}

#[test]
fn an_answer_beyond_the_capture_cap_is_a_missing_member() {
    let large: Vec<_> = (0..500)
        .map(|number| (format!(r#""n":"{number}""#), "1"))
        .collect();
    let large: Vec<_> = large
        .iter()
        .map(|(labels, value)| (labels.as_str(), *value))
        .collect();
    let servers = [
        Server::saying("a", vector(&[(A, "2")])),
        Server::saying("b", vector(&large)),
    ];
    let ringway = start(&servers, &["max_capture_bytes: 4096"]);
    let answer = instant(&ringway, "x");
    assert_eq!(samples(&answer), [(json!({"job": "a"}), "2".to_owned())]);
    assert!(
        warnings(&answer) > 0 && marked_partial(&answer),
        "{}",
        answer.text()
    );
    let failures = ringway.metric(
        "trickster_alb_fanout_failures_total",
        &[("reason", "truncated")],
    );
    assert_eq!(failures, Some(1.0));
    ringway.stop();
}

#[test]
fn warnings_of_members_are_kept() {
    let with = r#"{"status":"success","warnings":["own words"],"data":{"resultType":"vector","result":[]}}"#;
    let servers = [Server::saying("a", vector(&[])), Server::saying("b", with)];
    let ringway = start(&servers, &[]);
    for query in ["x", "sum(x)"] {
        let answer = body(&instant(&ringway, query));
        let warnings = answer["warnings"].as_array().expect("there are warnings");
        assert!(warnings.contains(&json!("own words")), "{query}: {answer}");
    }
    ringway.stop();
}

#[test]
fn a_plan_that_is_not_exact_says_so() {
    let servers = [
        Server::saying("a", vector(&[(A, "2")])),
        Server::saying("b", vector(&[(B, "3")])),
    ];
    let ringway = start(&servers, &[]);
    // More operators than are planned, and a text that is none.
    let long = vec!["x"; 200].join(" + ");
    for query in [long.as_str(), "sum(x"] {
        let answer = instant(&ringway, query);
        assert_eq!(answer.status, 200, "{query}");
        assert!(warnings(&answer) > 0, "{query}: {}", answer.text());
    }
    ringway.stop();
}

#[test]
fn a_pool_of_one_passes_the_answer_through_byte_for_byte() {
    let odd = "{ \"status\":\"success\" ,\"data\":{\"resultType\":\"vector\",\"result\":[ ]},\"infos\":[\"i\"]}\n";
    let servers = [Server::saying("a", odd)];
    let ringway = start(&servers, &[]);
    assert_eq!(instant(&ringway, "x").text(), odd);
    ringway.stop();
}

#[test]
fn what_cannot_be_merged_goes_to_the_first_live_member_only() {
    let servers = [Server::saying("a", "first"), Server::saying("b", "second")];
    let ringway = start(&servers, &[]);
    for path in [
        "/api/v1/rules/x",
        "/api/v1/format_query?query=x",
        "/api/v1/status/flags",
        "/-/ready",
        "/",
    ] {
        assert_eq!(ringway.get(path).text(), "first", "{path}");
        assert_eq!(servers[0].origin.next_request().target, path);
    }
    assert!(servers[1].origin.requests().is_empty());
    ringway.stop();
}

#[test]
fn scalars_and_strings_are_answered_as_such() {
    let scalar = success(r#"{"resultType":"scalar","result":[1700000000,"2"]}"#);
    let servers = [
        Server::saying("a", scalar.clone()),
        Server::saying("b", scalar),
    ];
    let ringway = start(&servers, &[]);
    let answer = body(&instant(&ringway, "1 + 1"));
    assert_eq!(
        answer["data"],
        json!({"resultType": "scalar", "result": [1_700_000_000, "2"]})
    );
    ringway.stop();
}

#[test]
fn special_values_are_written_as_prometheus_writes_them() {
    let servers = [
        Server::saying("a", vector(&[(A, "NaN"), (B, "1e+21")])),
        Server::saying(
            "b",
            vector(&[
                (A, "1"),
                (B, "1e+21"),
                (r#""job":"c""#, "-Inf"),
                (r#""job":"d""#, "1e-7"),
            ]),
        ),
    ];
    let ringway = start(&servers, &[]);
    let values: Vec<_> = samples(&instant(&ringway, "sum by (job) (x)"))
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    assert_eq!(values, ["NaN", "2e+21", "-Inf", "1e-07"]);
    ringway.stop();
}

#[test]
fn a_client_that_goes_away_cancels_every_member() {
    let silent = || {
        Origin::start(|conn| {
            conn.request();
            conn.until_closed();
        })
    };
    let server = |name, origin| Server {
        name,
        group: None,
        keys: Vec::new(),
        origin,
    };
    let servers = [server("a", silent()), server("b", silent())];
    let ringway = start(&servers, &[]);
    let mut client = ringway.client();
    client.send("GET /api/v1/query?query=x&time=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    for server in &servers {
        server.origin.next_request();
    }
    drop(client);
    for server in &servers {
        server.origin.next_close();
    }
    ringway.stop();
}

#[test]
fn a_member_that_stalls_is_missing_at_the_deadline() {
    let gate = Gate::new();
    let wait = gate.clone();
    let servers = [
        Server::saying("a", vector(&[(A, "2")])),
        Server::new("b", move |_, _| {
            wait.pass();
            (200, vector(&[]))
        }),
    ];
    let ringway = start(&servers, &["timeout: 400ms"]);
    let answer = instant(&ringway, "x");
    assert_eq!(samples(&answer), [(json!({"job": "a"}), "2".to_owned())]);
    assert!(
        warnings(&answer) > 0 && marked_partial(&answer),
        "{}",
        answer.text()
    );
    gate.open();
    ringway.stop();
}

#[test]
fn a_range_beyond_its_limit_is_refused_with_400_and_reaches_no_member() {
    let target = |end: u32| format!("/api/v1/query_range?query=x&start=0&end={end}&step=60");
    let answer_to = |ringway: &Ringway, method: &str, target: &str, rest: &str| {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{rest}");
        ringway.client().send(request).answer()
    };
    for names in [&["a", "b"][..], &["a"]] {
        let servers: Vec<Server> = names
            .iter()
            .map(|name| Server::saying(name, matrix(&[])))
            .collect();
        let ringway = start_with(&servers, &[], &["max_query_range: 1h"]);
        let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 33\r\n\r\n\
                    query=x&start=0&end=3601&step=60\n";
        for (method, target, rest) in [
            ("GET", &*target(3601), "\r\n"),
            ("GET", &*target(3601), "Content-Length: 1\r\n\r\nx"),
            ("POST", &*target(3601), "Content-Length: 1\r\n\r\nx"),
            ("POST", "/api/v1/query_range", form),
            // However the path is written, and whatever only a server can read.
            (
                "GET",
                "/api/v1/query%5Frange?query=x&start=0&end=3601&step=60",
                "\r\n",
            ),
            (
                "GET",
                "//api/v1//query_range?query=x&start=0&end=3601&step=60",
                "\r\n",
            ),
            (
                "GET",
                "/api/v1/query_range?query=x&start=0&end=9_999&step=60",
                "\r\n",
            ),
            (
                "GET",
                "/api/v1/query_range?query=x&start=0&end=1e300&step=60",
                "\r\n",
            ),
        ] {
            let answer = answer_to(&ringway, method, target, rest);
            assert_eq!(answer.status, 400, "{names:?} {method} {target} {rest}");
            let text = answer.text();
            assert!(text.contains("1h"), "the limit is named: {text:?}");
        }
        let asked = |server: &Server| !server.origin.requests().is_empty();
        assert!(!servers.iter().any(asked), "{names:?}");
        assert_eq!(
            answer_to(&ringway, "GET", &target(3600), "\r\n").status,
            200
        );
        let refused = ringway.metric(
            "trickster_proxy_query_range_rejected_total",
            &[("backend", "all")],
        );
        assert_eq!(refused, Some(8.0));
        ringway.stop();
    }
}
