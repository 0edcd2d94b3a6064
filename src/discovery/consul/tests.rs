//! What Consul answers, what it is asked, and what becomes of it.

use std::time::Duration;

use ringway_shards::plan::{Scheme, Secret};

use super::*;
use crate::discovery::stub::{Folder, Reply, Request, Stub, http};
use crate::discovery::{Again, Reading};

/// Two instances as an agent of version 1.8 sends them, with all it sends.
const TWO: &str = include_str!("two_instances.json");

fn settings(endpoint: &str) -> Consul {
    Consul {
        http: http(endpoint),
        datacenter: None,
        namespace: None,
        partition: None,
        wait: Duration::from_secs(300),
        allow_stale: false,
        only_passing: false,
        warning_is_ready: true,
    }
}

fn query() -> Query {
    Query {
        service: Some("prometheus".into()),
        ..Query::default()
    }
}

fn read(body: &str) -> Result<Vec<Member>, String> {
    members(body.as_bytes(), &query(), true, &mut Unchanged::default())
}

/// One instance whose `Checks` are these and whose weights are 7 and 3.
fn with_checks(checks: &str) -> String {
    format!(
        r#"[{{"Node": {{"Address": "192.0.2.1"}},
            "Service": {{"ID": "a", "Port": 80, "Weights": {{"Passing": 7, "Warning": 3}}}},
            "Checks": {checks}}}]"#
    )
}

/// One instance with these fields of `Service`.
fn with_service(fields: &str) -> String {
    format!(r#"[{{"Node": {{"Address": "192.0.2.1"}}, "Service": {{{fields}}}, "Checks": []}}]"#)
}

fn labels(member: &Member) -> Vec<(&str, &str)> {
    let pairs = member.labels.iter();
    pairs.map(|(name, value)| (&**name, &**value)).collect()
}

#[test]
fn instances_become_members() {
    let query = Query {
        scheme: Some(Scheme::Https),
        replica_group_label: Some("shard".into()),
        ..query()
    };
    let members = members(TWO.as_bytes(), &query, true, &mut Unchanged::default()).unwrap();
    let [first, second] = &members[..] else {
        panic!("{members:?}")
    };
    assert_eq!(&*first.name, "prometheus-a");
    assert_eq!(first.key(), "https://192.0.2.20:9090");
    assert_eq!(first.weight, 10);
    assert_eq!(&*first.replica_group, "s0");
    assert_eq!(first.ready, Readiness::Ready);
    assert_eq!(
        labels(first),
        [
            ("datacenter", "dc1"),
            ("meta_shard", "s0"),
            ("meta_version", "2"),
            ("node", "node-a"),
            ("service", "prometheus"),
            ("service_id", "prometheus-a"),
            ("status", "passing"),
            ("tags", ",production,blue,"),
        ]
    );
    // No address, tags, meta and weights of its own.
    assert_eq!(&*second.name, "prometheus-b");
    assert_eq!(second.key(), "https://[2001:db8::11]:9091");
    assert_eq!(second.weight, 1);
    assert_eq!(&*second.replica_group, "");
    assert_eq!(second.ready, Readiness::NotReady);
    assert_eq!(
        labels(second),
        [
            ("datacenter", "dc1"),
            ("node", "node-b"),
            ("service", "prometheus"),
            ("service_id", "prometheus-b"),
            ("status", "critical"),
        ]
    );
}

#[test]
fn the_worst_check_decides() {
    use Readiness::{NotReady, Ready};
    let node = r#"{"Node": "n", "CheckID": "serfHealth", "Status": "passing"}"#;
    for (checks, status, ready, ready_if_strict, weight) in [
        ("[]".to_owned(), "passing", Ready, Ready, 7),
        ("null".to_owned(), "passing", Ready, Ready, 7),
        (format!("[{node}]"), "passing", Ready, Ready, 7),
        (format!(r#"[{node}, {{"CheckID": "x", "Status": "warning"}}]"#), "warning", Ready, NotReady, 3),
        (format!(r#"[{{"CheckID": "x", "Status": "critical"}}, {node}]"#), "critical", NotReady, NotReady, 7),
        (
            r#"[{"CheckID": "x", "Status": "critical"}, {"CheckID": "y", "Status": "warning"}]"#.to_owned(),
            "critical", NotReady, NotReady, 7,
        ),
        (r#"[{"Status": "maintenance"}]"#.to_owned(), "maintenance", NotReady, NotReady, 7),
        (
            format!(r#"[{node}, {{"CheckID": "_service_maintenance:a", "Status": "critical"}}]"#),
            "maintenance", NotReady, NotReady, 7,
        ),
        (
            r#"[{"CheckID": "_node_maintenance", "Status": "critical"}, {"CheckID": "x", "Status": "critical"}]"#
                .to_owned(),
            "maintenance", NotReady, NotReady, 7,
        ),
        (
            r#"[{"CheckID": "x", "Status": "napping"}, {"CheckID": "y", "Status": "critical"}]"#.to_owned(),
            "napping", NotReady, NotReady, 7,
        ),
        (r#"[{"CheckID": null, "Status": null}]"#.to_owned(), "", NotReady, NotReady, 7),
        (r#"[{"CheckID": "x", "Status": "Passing"}]"#.to_owned(), "Passing", NotReady, NotReady, 7),
    ] {
        let body = with_checks(&checks);
        let lax = members(body.as_bytes(), &query(), true, &mut Unchanged::default()).unwrap();
        let strict = members(body.as_bytes(), &query(), false, &mut Unchanged::default()).unwrap();
        let label = lax[0].labels.get("status").map_or("", |text| text);
        assert_eq!(label, status, "{checks}");
        assert_eq!(lax[0].ready, ready, "{checks}");
        assert_eq!(strict[0].ready, ready_if_strict, "{checks}");
        assert_eq!(lax[0].weight, weight, "{checks}");
    }
}

#[test]
fn weights_that_say_nothing_are_none() {
    for (weights, weight) in [
        (r#""Weights": {"Passing": 0, "Warning": 5}"#, 0),
        (r#""Weights": {"Passing": -3, "Warning": 5}"#, 0),
        (r#""Weights": {}"#, 0),
        (r#""Weights": null"#, 0),
        (r#""Tags": []"#, 0),
        (
            r#""Weights": {"Passing": 9000000000000, "Warning": 1}"#,
            u32::MAX,
        ),
    ] {
        let body = with_service(&format!(r#""ID": "a", "Port": 1, {weights}"#));
        assert_eq!(read(&body).unwrap()[0].weight, weight, "{weights}");
    }
}

#[test]
fn without_an_id_the_service_is_the_name() {
    let body = with_service(r#""ID": "", "Service": "web", "Port": 1"#);
    assert_eq!(&*read(&body).unwrap()[0].name, "web");
}

#[test]
fn an_instance_that_cannot_be_a_member_fails_all() {
    for (fields, text) in [
        (
            r#""ID": "bad", "Address": "192.0.2.9", "Port": 0"#,
            "port 0",
        ),
        (r#""ID": "bad", "Address": "192.0.2.9"#, "instances"),
        (
            r#""ID": "bad", "Address": "192.0.2.9", "Port": 65536"#,
            "65536",
        ),
        (r#""ID": "bad", "Address": "192.0.2.9", "Port": -1"#, "-1"),
        (r#""ID": "bad", "Address": "a/../b", "Port": 80"#, "a/../b"),
        (
            r#""ID": "bad", "Address": "192.0.2.9", "Port": "80""#,
            "instances",
        ),
        (r#""ID": "bad", "Address": 5, "Port": 80"#, "instances"),
    ] {
        let good = r#"{"Node": {"Address": "192.0.2.1"}, "Service": {"ID": "a", "Port": 80}}"#;
        let bad = format!(r#"{{"Node": {{"Address": ""}}, "Service": {{{fields}}}}}"#);
        let error = read(&format!("[{good}, {bad}]")).unwrap_err();
        assert!(error.contains(text), "{error} has no {text:?}");
        if text != "instances" {
            assert!(error.contains("\"bad\""), "{error}");
        }
    }
    let nowhere =
        r#"[{"Node": {"Address": null}, "Service": {"ID": "a", "Address": null, "Port": 80}}]"#;
    assert!(read(nowhere).unwrap_err().contains("no address"));
    assert!(read(r#"[{"Node": null, "Service": null}]"#).is_err());
}

#[test]
fn what_is_no_list_is_no_answer() {
    assert_eq!(read("[]").unwrap(), []);
    for body in [
        "", "null", "{}", "[", "[null]", "[1]", "\u{0}", "[] []", "ok",
    ] {
        assert!(read(body).is_err(), "{body:?}");
    }
}

fn targets(query: &Query, change: impl FnOnce(&mut Consul)) -> String {
    let mut settings = settings("http://127.0.0.1:8500/prefix");
    change(&mut settings);
    let url = connect(&settings).unwrap().url(query);
    url.as_str()["http://127.0.0.1:8500".len()..].to_owned()
}

#[test]
fn what_is_asked_follows_the_configuration() {
    assert_eq!(
        targets(&query(), |_| ()),
        "/prefix/v1/health/service/prometheus"
    );
    let odd = Query {
        service: Some("a/b ?#%2f".into()),
        ..Query::default()
    };
    assert_eq!(
        targets(&odd, |_| ()),
        "/prefix/v1/health/service/a%2Fb%20%3F%23%252f"
    );
    let full = Query {
        tags: vec!["production".into(), "blue & green".into()],
        filter: Some("Service.Meta.version == \"2\"".into()),
        ..query()
    };
    let target = targets(&full, |settings| {
        settings.datacenter = Some("dc1".into());
        settings.namespace = Some("team".into());
        settings.partition = Some("part".into());
        settings.allow_stale = true;
        settings.only_passing = true;
    });
    assert_eq!(
        target,
        "/prefix/v1/health/service/prometheus?dc=dc1&ns=team&partition=part\
         &filter=Service.Meta.version+%3D%3D+%222%22&stale&passing=true&tag=production&tag=blue+%26+green"
    );
}

#[test]
fn the_silence_is_noticed_once() {
    let mut silence = Silence::default();
    let counts = [0, 2, 1, 0, 0, 3, 0];
    let noticed: Vec<bool> = counts.iter().map(|count| silence.fell(*count)).collect();
    assert_eq!(noticed, [false, false, false, true, false, false, false]);
}

#[test]
fn tokens_in_any_form_are_credentials() {
    let secret = || std::sync::Arc::new(Secret::new("s"));
    let mut http = http("http://127.0.0.1:1");
    assert!(!has_credentials(&http));
    http.headers = vec![("X-Other".into(), secret())];
    assert!(!has_credentials(&http));
    http.headers.push(("X-Consul-Token".into(), secret()));
    assert!(has_credentials(&http));
    http.headers.clear();
    http.auth = HttpAuth::Bearer(secret());
    assert!(has_credentials(&http));
}

#[tokio::test]
async fn a_rotated_token_is_sent() {
    let folder = Folder::new();
    let file = folder.write("token", "first\n");
    let mut stub = Stub::start(|_| Reply::ok("[]").header("X-Consul-Index", "1")).await;
    let mut settings = settings(&stub.endpoint());
    settings.http.auth = HttpAuth::BearerFile(file.clone());
    let mut source = connect(&settings).unwrap().source(Arc::new(query()));
    source.next().await.unwrap();
    folder.write("token", "second\n");
    source.next().await.unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(source.next().await.unwrap_err().reason.contains("token"));
    let seen = stub.seen();
    let tokens: Vec<_> = seen.iter().map(|r| r.header("authorization")).collect();
    assert_eq!(tokens, [Some("Bearer first"), Some("Bearer second")]);
}

fn names(reading: &Reading) -> Option<Vec<&str>> {
    let members = reading.members.as_ref()?;
    Some(members.iter().map(|member| &*member.name).collect())
}

fn answer(request: &Request) -> Reply {
    match request.pair("index").as_deref() {
        None => Reply::ok(TWO).header("X-Consul-Index", "17"),
        Some("17") => Reply::ok(with_checks("[]")).header("X-Consul-Index", "18"),
        Some(_) => Reply::ok("[]").header("X-Consul-Index", "19"),
    }
}

#[tokio::test]
async fn a_service_is_followed_until_it_is_empty() {
    let mut stub = Stub::start(answer).await;
    let connection = connect(&settings(&stub.endpoint())).unwrap();
    let mut source = connection.source(Arc::new(query()));
    let reading = source.next().await.unwrap();
    assert_eq!(names(&reading).unwrap(), ["prometheus-a", "prometheus-b"]);
    assert_eq!(names(&source.next().await.unwrap()).unwrap(), ["a"]);
    let reading = source.next().await.unwrap();
    assert_eq!(names(&reading).unwrap(), [""; 0]);
    assert_eq!(reading.again, Again::Now);
    assert_eq!(source.next().await.unwrap().members, None);
    let seen: Vec<String> = stub.seen().iter().map(Request::target).collect();
    let path = "/v1/health/service/prometheus";
    assert_eq!(seen[0], path);
    assert_eq!(seen[1], format!("{path}?index=17&wait=5m"));
}

#[tokio::test]
async fn what_consul_says_of_an_error_is_shown() {
    let stub = Stub::start(|_| Reply::new(403, "ACL not found")).await;
    let connection = connect(&settings(&stub.endpoint())).unwrap();
    let error = connection.source(Arc::new(query())).next().await;
    assert!(error.unwrap_err().reason.contains("ACL not found"));
}
