//! What Nomad answers, what it is asked, and what becomes of it.

use std::time::Duration;

use ringway_shards::plan::{Scheme, Secret};

use super::*;
use crate::discovery::settings::HttpAuth;
use crate::discovery::stub::{Reply, Request, Stub, http};
use crate::discovery::{Again, Readiness};

/// Two instances in the shape of the API's documentation; no server was at hand to confirm it.
const TWO: &str = r#"[
  {
    "ID": "_nomad-task-0000000a-group-web-prometheus-http",
    "ServiceName": "prometheus",
    "Namespace": "default",
    "NodeID": "00000000-0000-0000-0000-00000000000a",
    "Datacenter": "dc1",
    "JobID": "monitoring",
    "AllocID": "0000000a-0000-0000-0000-000000000000",
    "Tags": ["production", "blue"],
    "Address": "192.0.2.20",
    "Port": 23456,
    "CreateIndex": 11,
    "ModifyIndex": 11
  },
  {
    "ID": "",
    "ServiceName": "prometheus",
    "Namespace": null,
    "NodeID": null,
    "Datacenter": "dc2",
    "JobID": "monitoring",
    "AllocID": "0000000b-0000-0000-0000-000000000000",
    "Tags": null,
    "Address": "2001:db8::20",
    "Port": 23457,
    "CreateIndex": 12,
    "ModifyIndex": 14
  }
]"#;

fn settings(endpoint: &str) -> Nomad {
    Nomad {
        http: http(endpoint),
        namespace: None,
        region: None,
        wait: Duration::from_secs(90),
        allow_stale: false,
    }
}

fn query() -> Query {
    Query {
        service: Some("prometheus".into()),
        ..Query::default()
    }
}

fn labels(member: &Member) -> Vec<(&str, &str)> {
    let pairs = member.labels.iter();
    pairs.map(|(name, value)| (&**name, &**value)).collect()
}

#[test]
fn instances_become_members() {
    let query = Query {
        scheme: Some(Scheme::Https),
        ..query()
    };
    let members = members(TWO.as_bytes(), &query, &mut Unchanged::default()).unwrap();
    let [first, second] = &members[..] else {
        panic!("{members:?}")
    };
    assert_eq!(
        &*first.name,
        "_nomad-task-0000000a-group-web-prometheus-http"
    );
    assert_eq!(first.key(), "https://192.0.2.20:23456");
    assert_eq!(first.weight, 0);
    assert_eq!(first.ready, Readiness::Unknown);
    assert_eq!(
        labels(first),
        [
            ("alloc_id", "0000000a-0000-0000-0000-000000000000"),
            ("datacenter", "dc1"),
            ("job_id", "monitoring"),
            ("namespace", "default"),
            ("node_id", "00000000-0000-0000-0000-00000000000a"),
            ("service", "prometheus"),
            (
                "service_id",
                "_nomad-task-0000000a-group-web-prometheus-http"
            ),
            ("tags", ",production,blue,"),
        ]
    );
    assert_eq!(&*second.name, "prometheus");
    assert_eq!(second.key(), "https://[2001:db8::20]:23457");
    assert_eq!(
        labels(second),
        [
            ("alloc_id", "0000000b-0000-0000-0000-000000000000"),
            ("datacenter", "dc2"),
            ("job_id", "monitoring"),
            ("service", "prometheus"),
        ]
    );
}

#[test]
fn all_tags_of_the_query_are_needed() {
    let count = |tags: &[&str]| {
        let query = Query {
            tags: tags.iter().map(|tag| (*tag).into()).collect(),
            ..query()
        };
        members(TWO.as_bytes(), &query, &mut Unchanged::default())
            .unwrap()
            .len()
    };
    assert_eq!(count(&[]), 2);
    assert_eq!(count(&["blue"]), 1);
    assert_eq!(count(&["blue", "production"]), 1);
    assert_eq!(count(&["blue", "green"]), 0);
    assert_eq!(count(&["Blue"]), 0);
}

fn with(fields: &str) -> String {
    let good = r#"{"ID": "good", "Tags": ["t"], "Address": "192.0.2.1", "Port": 80}"#;
    format!("[{good}, {{\"ID\": \"bad\", {fields}}}]")
}

#[test]
fn an_instance_that_cannot_be_a_member_fails_all_if_it_is_asked_for() {
    let tagged = Query {
        tags: vec!["t".into()],
        ..query()
    };
    for fields in [
        r#""Address": "192.0.2.9", "Port": 0"#,
        r#""Address": "192.0.2.9", "Port": 65536"#,
        r#""Address": "192.0.2.9""#,
        r#""Address": "", "Port": 80"#,
        r#""Address": null, "Port": 80"#,
        r#""Address": "a b", "Port": 80"#,
    ] {
        let body = with(fields);
        let error = members(body.as_bytes(), &query(), &mut Unchanged::default()).unwrap_err();
        assert!(error.contains("\"bad\""), "{error}");
        let others = members(body.as_bytes(), &tagged, &mut Unchanged::default()).unwrap();
        assert_eq!(others.len(), 1, "{fields}");
    }
    let typed = with(r#""Address": "192.0.2.9", "Port": "80""#);
    assert!(members(typed.as_bytes(), &tagged, &mut Unchanged::default()).is_err());
}

#[test]
fn what_is_no_list_is_no_answer() {
    assert_eq!(
        members(b"[]", &query(), &mut Unchanged::default()).unwrap(),
        []
    );
    for body in ["", "null", "{}", "[", "[null]", "[1]", "Permission denied"] {
        assert!(
            members(body.as_bytes(), &query(), &mut Unchanged::default()).is_err(),
            "{body:?}"
        );
    }
}

#[test]
fn what_is_asked_follows_the_configuration() {
    let mut settings = settings("http://127.0.0.1:4646");
    let target = |settings: &Nomad, query: &Query| {
        let url = connect(settings).unwrap().url(query);
        url.as_str()["http://127.0.0.1:4646".len()..].to_owned()
    };
    assert_eq!(target(&settings, &query()), "/v1/service/prometheus");
    settings.namespace = Some("team a".into());
    settings.region = Some("eu-1".into());
    settings.allow_stale = true;
    let full = Query {
        service: Some("a/b".into()),
        filter: Some("JobID == \"monitoring\"".into()),
        // Chosen by ringway, not by Nomad.
        tags: vec!["production".into()],
        ..Query::default()
    };
    assert_eq!(
        target(&settings, &full),
        "/v1/service/a%2Fb?namespace=team+a&region=eu-1&filter=JobID+%3D%3D+%22monitoring%22&stale"
    );
}

#[tokio::test]
async fn a_service_is_followed_with_the_token() {
    let mut stub = Stub::start(|request| {
        if request.header("authorization") != Some("Bearer s3cret") {
            return Reply::new(403, "Permission denied");
        }
        let (body, index) = match request.pair("index").as_deref() {
            None => (TWO, "14"),
            Some("14") => ("[]", "15"),
            Some(_) => ("never read", "15"),
        };
        Reply::ok(body)
            .header("X-Nomad-Index", index)
            .header("X-Nomad-KnownLeader", "true")
            .header("X-Nomad-LastContact", "0")
    })
    .await;
    let mut settings = settings(&stub.endpoint());
    let mut without = connect(&settings).unwrap().source(Arc::new(query()));
    let error = without.next().await.unwrap_err();
    assert!(error.reason.contains("Permission denied"), "{error}");

    let secret = Secret::new("s3cret");
    settings.http.auth = HttpAuth::Bearer(Arc::new(secret));
    let mut source = connect(&settings).unwrap().source(Arc::new(query()));
    assert_eq!(source.next().await.unwrap().members.unwrap().len(), 2);
    let empty = source.next().await.unwrap();
    assert_eq!(empty.members, Some(Vec::new()));
    assert_eq!(empty.again, Again::Now);
    assert_eq!(source.next().await.unwrap().members, None);
    let seen: Vec<String> = stub.seen().iter().map(Request::target).collect();
    assert_eq!(
        seen[2..],
        [
            "/v1/service/prometheus?index=14&wait=90s",
            "/v1/service/prometheus?index=15&wait=90s"
        ]
    );
}
