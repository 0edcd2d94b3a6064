//! Tasks: mapping, states, exclusions, pages, batches, against a stub that refuses what ECS refuses.

use super::*;
use crate::discovery::Reading;
use crate::discovery::aws::tests::{settings, source};
use crate::discovery::settings::{AwsService, Port};
use crate::discovery::stub::{Fault, Reply, Request, Stub};

fn arn(n: usize) -> String {
    format!("arn:aws:ecs:us-east-2:000000000000:task/prod/{n:032x}")
}

/// Shape of the API reference, most of it also seen from moto; fields that are ignored are among it.
fn task(n: usize, status: &str) -> serde_json::Value {
    json!({
        "taskArn": arn(n),
        "clusterArn": "arn:aws:ecs:us-east-2:000000000000:cluster/prod",
        "taskDefinitionArn": "arn:aws:ecs:us-east-2:000000000000:task-definition/web:3",
        "group": "service:web", "lastStatus": status, "desiredStatus": "RUNNING",
        "healthStatus": "HEALTHY", "launchType": "FARGATE", "availabilityZone": "us-east-2a",
        "connectivity": "CONNECTED", "cpu": "256", "createdAt": 1767225600.5, "overrides": {}, "version": 4,
        "attachments": [
            {"id": "0", "type": "ServiceConnect", "status": "ATTACHED", "details": null},
            {"id": "1", "type": "ElasticNetworkInterface", "status": "ATTACHED", "details": [
                {"name": "subnetId", "value": "subnet-0"},
                {"name": "privateDnsName", "value": "ip-192-0-2-20.internal"},
                {"name": "privateIPv4Address", "value": "192.0.2.20"}]}],
        "containers": [{"name": "web", "networkBindings": [], "networkInterfaces": [
            {"attachmentId": "1", "privateIpv4Address": "192.0.2.99"}]}],
        "tags": [{"key": "port", "value": "8080"}, {"key": "shard", "value": "s1"}]
    })
}

fn query() -> Query {
    Query {
        port: Some(Port::Number(9090)),
        port_label: Some("port".into()),
        replica_group_label: Some("shard".into()),
        ..Query::default()
    }
}

fn sorted(task: serde_json::Value, query: &Query) -> Sorted {
    let body = json!({"tasks": [task], "failures": []}).to_string();
    let mut sorted = Sorted::default();
    sort(
        &parse_described(body.as_bytes()).unwrap().tasks[0],
        query,
        &mut sorted,
    );
    sorted
}

#[test]
fn a_task_becomes_a_member() {
    let member = &sorted(task(1, "RUNNING"), &query()).members[0];
    let id = format!("{:032x}", 1);
    assert_eq!(&*member.name, &*id);
    assert_eq!(member.key(), "http://192.0.2.20:8080");
    assert_eq!(&*member.replica_group, "s1");
    assert_eq!(member.ready, Readiness::Ready);
    let arn = arn(1);
    let wanted = [
        ("availability_zone", "us-east-2a"),
        ("cluster", "prod"),
        ("group", "service:web"),
        ("health_status", "HEALTHY"),
        ("launch_type", "FARGATE"),
        ("tag_port", "8080"),
        ("tag_shard", "s1"),
        ("task_arn", &arn),
        ("task_definition", "web:3"),
        ("task_id", &id),
        ("task_status", "RUNNING"),
    ];
    let labels: Vec<_> = member.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(labels, wanted);
    let mut named = task(1, "RUNNING");
    named["tags"] = json!([{"key": "Name", "value": "web-1"}, {"key": "empty", "value": null}]);
    let member = &sorted(named, &query()).members[0];
    assert_eq!((&*member.name, member.port), ("web-1", 9090));
}

#[test]
fn status_and_health_decide_who_serves_and_who_leaves() {
    let (ready, not_ready) = (Some(Readiness::Ready), Some(Readiness::NotReady));
    let rows = [
        ("RUNNING", "HEALTHY", ready),
        ("RUNNING", "UNKNOWN", ready),
        ("RUNNING", "", ready),
        ("RUNNING", "UNHEALTHY", not_ready),
        ("RUNNING", "DIZZY", not_ready),
        ("PROVISIONING", "UNKNOWN", not_ready),
        ("PENDING", "UNKNOWN", not_ready),
        ("ACTIVATING", "HEALTHY", not_ready),
        ("HIBERNATING", "HEALTHY", not_ready),
        ("DEACTIVATING", "HEALTHY", None),
        ("STOPPING", "HEALTHY", None),
        ("DEPROVISIONING", "UNKNOWN", None),
        ("STOPPED", "UNKNOWN", None),
    ];
    for (status, health, wanted) in rows {
        assert_eq!(readiness(status, health), wanted, "{status} {health}");
        let mut task = task(1, status);
        task["healthStatus"] = json!(health);
        let sorted = sorted(task, &query());
        let found: Vec<_> = sorted.members.iter().map(|member| member.ready).collect();
        assert_eq!(found, Vec::from_iter(wanted), "{status} {health}");
        assert_eq!(sorted.excluded, []);
    }
}

#[test]
fn tags_are_a_matter_of_presence() {
    let mut tagged = task(1, "RUNNING");
    tagged["tags"] = json!([{"key": "role", "value": ""}, {"key": "env", "value": "prod"}]);
    for (wanted_tags, count) in [
        (vec![], 1),
        (vec!["role"], 1),
        (vec!["env", "role"], 1),
        (vec!["role", "tier"], 0),
        (vec!["Role"], 0),
        (vec!["prod"], 0),
    ] {
        let query = Query {
            tags: wanted_tags.iter().map(|tag| Box::from(*tag)).collect(),
            ..query()
        };
        let sorted = sorted(tagged.clone(), &query);
        let found = (sorted.members.len(), sorted.excluded.len());
        assert_eq!(found, (count, 0), "{wanted_tags:?}");
    }
}

#[test]
fn a_container_may_know_the_address_too() {
    let mut bare = task(1, "RUNNING");
    bare["attachments"] = json!([]);
    let member = &sorted(bare, &query()).members[0];
    assert_eq!(&*member.host, "192.0.2.99");
}

#[test]
fn tasks_without_a_network_interface_are_excluded_once_they_run() {
    let bridge = |status| {
        let mut task = task(1, status);
        task["attachments"] = json!(null);
        task["containers"] =
            json!([{"networkBindings": [{"hostPort": 32768}], "networkInterfaces": null}]);
        sorted(task, &query())
    };
    let running = bridge("RUNNING");
    assert_eq!(running.members, []);
    assert!(running.excluded[0].reason.contains("awsvpc"));
    for early in ["PROVISIONING", "PENDING"] {
        let early = bridge(early);
        assert_eq!((early.members, early.excluded), (vec![], vec![]));
    }
}

/// ECS with `count` tasks in pages of `page`, none of them described whose number is in `lost`.
fn ecs(count: usize, page: usize, lost: &'static [usize]) -> impl FnMut(&Request) -> Reply {
    move |request| {
        assert_eq!(
            request.header("content-type"),
            Some("application/x-amz-json-1.1")
        );
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        match request.header("x-amz-target").unwrap() {
            LIST_TARGET => {
                let from = body["nextToken"].as_str().map_or(0, |t| t.parse().unwrap());
                let until = (from + page).min(count);
                let arns: Vec<_> = (from..until).map(arn).collect();
                let next = (until < count).then(|| until.to_string());
                Reply::ok(json!({"taskArns": arns, "nextToken": next}).to_string())
            }
            DESCRIBE_TARGET => {
                assert_eq!(body["include"], json!(["TAGS"]));
                let arns = body["tasks"].as_array().unwrap();
                if arns.len() > 100 {
                    let error =
                        json!({"__type": "InvalidParameterException", "message": "too many"});
                    return Reply::new(400, error.to_string());
                }
                let number = |arn: &serde_json::Value| {
                    usize::from_str_radix(last_segment(arn.as_str().unwrap()), 16).unwrap()
                };
                let (gone, found): (Vec<_>, Vec<_>) =
                    arns.iter().partition(|arn| lost.contains(&number(arn)));
                let tasks: Vec<_> = found
                    .iter()
                    .map(|arn| task(number(arn), "RUNNING"))
                    .collect();
                let failures: Vec<_> = gone
                    .iter()
                    .map(|arn| json!({"arn": arn, "reason": "MISSING"}))
                    .collect();
                Reply::ok(json!({"tasks": tasks, "failures": failures}).to_string())
            }
            other => panic!("{other}"),
        }
    }
}

async fn read_from(stub: &Stub, query: Query) -> Result<Reading, Failure> {
    source(&settings(stub, AwsService::Ecs), query, 100)
        .next()
        .await
}

#[tokio::test]
async fn many_tasks_are_described_in_batches() {
    let mut stub = Stub::start(ecs(250, 90, &[])).await;
    let reading = read_from(&stub, query()).await.unwrap();
    assert_eq!(reading.members.unwrap().len(), 250);
    let calls = stub.seen();
    let described = |request: &&Request| request.header("x-amz-target") == Some(DESCRIBE_TARGET);
    assert_eq!(calls.iter().filter(described).count(), 3);
    assert_eq!(calls.len(), 6);
}

#[tokio::test]
async fn cluster_and_service_are_asked_for() {
    let mut stub = Stub::start(ecs(1, 10, &[])).await;
    let query = Query {
        cluster: Some("prod".into()),
        service: Some("web".into()),
        ..query()
    };
    read_from(&stub, query).await.unwrap();
    let bodies: Vec<serde_json::Value> = stub
        .seen()
        .iter()
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect();
    let list = json!({"desiredStatus": "RUNNING", "maxResults": 100, "cluster": "prod", "serviceName": "web"});
    let describe = json!({"tasks": [arn(0)], "include": ["TAGS"], "cluster": "prod"});
    assert_eq!(bodies, [list, describe]);
}

#[tokio::test]
async fn no_tasks_are_an_answer() {
    let mut stub = Stub::start(ecs(0, 10, &[])).await;
    let reading = read_from(&stub, query()).await.unwrap();
    assert_eq!(reading.members, Some(Vec::new()));
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn tasks_that_went_in_between_are_named() {
    let stub = Stub::start(ecs(4, 10, &[1, 3])).await;
    let reading = read_from(&stub, query()).await.unwrap();
    assert_eq!(reading.members.unwrap().len(), 2);
    assert_eq!(reading.excluded.len(), 2);
    assert_eq!(*reading.excluded[0].name, format!("{:032x}", 1));
    assert!(reading.excluded[0].reason.contains("MISSING"));
    let described = Described {
        tasks: Vec::new(),
        failures: Vec::new(),
    };
    assert_eq!(missing(&[arn(7)], &described).len(), 1);
}

#[tokio::test]
async fn one_bad_answer_fails_all_of_it() {
    let bad: [fn() -> Reply; 6] = [
        || Reply::ok("{}"),
        || Reply::ok("[]"),
        || Reply::ok("<html>"),
        || Reply::ok(r#"{"tasks": []"#),
        || Reply::ok(r#"{"tasks": []}"#).fault(Fault::HalfBody),
        || {
            Reply::new(
                400,
                r#"{"__type":"ClusterNotFoundException","message":"none"}"#,
            )
        },
    ];
    for target in [LIST_TARGET, DESCRIBE_TARGET] {
        for reply in bad {
            let mut fine = ecs(2, 10, &[]);
            let answer = move |request: &Request| match request.header("x-amz-target") {
                Some(asked) if asked == target => reply(),
                _ => fine(request),
            };
            let stub = Stub::start(answer).await;
            read_from(&stub, query()).await.unwrap_err();
        }
    }
    let stub = Stub::start(|_| Reply::ok(r#"{"taskArns": [], "nextToken": "a"}"#)).await;
    let failure = read_from(&stub, query()).await.unwrap_err();
    assert!(failure.reason.contains("100 pages"), "{failure}");
}
