//! Queries against the stub server.

mod failures;
mod mapping;
mod watches;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::apisim::ApiSim;
use super::{Connection, connect_for};
use crate::discovery::settings::{Kubernetes, KubernetesKind, Query};
use crate::discovery::{Failure, Member, Reading, Source};

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/monitoring/endpointslices";
const SERVICES: &str = "/api/v1/namespaces/monitoring/services";
const PODS: &str = "/api/v1/namespaces/monitoring/pods";

/// Longest that anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A kubeconfig file of a test.
pub(super) struct ConfigFile(PathBuf);

impl ConfigFile {
    pub(super) fn new(text: &str) -> ConfigFile {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ringway-kube-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        ConfigFile(path)
    }

    pub(super) fn settings(&self) -> Kubernetes {
        Kubernetes {
            kubeconfig: Some(self.0.clone()),
            qps: 100.0,
            burst: 100,
            timeout: Duration::from_secs(5),
            user_agent: "ringway-test/1".into(),
        }
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A server and a way to it.
struct World {
    sim: ApiSim,
    connection: Connection,
    _file: ConfigFile,
}

impl World {
    async fn new() -> World {
        World::with_user(&json!({})).await
    }

    async fn with_user(user: &Value) -> World {
        World::with(user, |_| {}).await
    }

    async fn with(user: &Value, change: impl FnOnce(&mut Kubernetes)) -> World {
        let sim = ApiSim::start().await;
        let file = ConfigFile::new(&sim.kubeconfig(Some("monitoring"), user));
        let mut settings = file.settings();
        change(&mut settings);
        World {
            connection: connect_for(&settings, 240..=295).unwrap(),
            sim,
            _file: file,
        }
    }

    fn source(&self, query: Query) -> Box<dyn Source> {
        self.connection.source(Arc::new(query))
    }
}

fn slices_query() -> Query {
    Query {
        service: Some("prometheus".into()),
        ..Query::default()
    }
}

fn pods_query() -> Query {
    Query {
        kind: KubernetesKind::Pods,
        selector: [("app".into(), "prometheus".into())].into(),
        ..Query::default()
    }
}

/// A slice of Service `prometheus`, with ready endpoints of Pods `pod-<last octet>`.
fn slice(name: &str, octets: &[u8]) -> Value {
    let endpoints: Vec<_> = octets.iter().map(|octet| endpoint(*octet, true)).collect();
    slice_of(name, &endpoints)
}

fn slice_of(name: &str, endpoints: &[Value]) -> Value {
    json!({
        "metadata": {
            "name": name,
            "generation": 1,
            "labels": {"kubernetes.io/service-name": "prometheus"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "prometheus", "uid": "u"}],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "web", "protocol": "TCP", "port": 9090, "appProtocol": "http"}],
    })
}

fn endpoint(octet: u8, is_ready: bool) -> Value {
    json!({
        "addresses": [format!("192.0.2.{octet}")],
        "conditions": {"ready": is_ready, "serving": is_ready, "terminating": false},
        "targetRef": {
            "kind": "Pod", "namespace": "monitoring",
            "name": format!("pod-{octet}"), "uid": format!("pod-uid-{octet}"),
        },
        "nodeName": "node-a",
        "zone": "a",
    })
}

fn pod(octet: u8) -> Value {
    json!({
        "metadata": {
            "name": format!("pod-{octet}"),
            "uid": format!("pod-uid-{octet}"),
            "labels": {"app": "prometheus", "shard": format!("shard-{}", octet % 2)},
        },
        "spec": {"nodeName": "node-a", "containers": [
            {"name": "main", "image": "i", "ports": [{"name": "web", "containerPort": 9090, "protocol": "TCP"}]},
            {"name": "side", "image": "i", "ports": null},
        ]},
        "status": {
            "phase": "Running", "podIP": format!("192.0.2.{octet}"), "podIPs": [],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": null}],
        },
    })
}

/// One reading, whatever it is.
async fn read(source: &mut Box<dyn Source>) -> Result<Reading, Failure> {
    let reading = tokio::time::timeout(PATIENCE, source.next()).await;
    reading.expect("a reading in time")
}

/// The next members; there may be no failure before.
async fn members(source: &mut Box<dyn Source>) -> Vec<Member> {
    loop {
        if let Some(members) = read(source).await.unwrap().members {
            return members;
        }
    }
}

/// The names of the next members.
async fn names(source: &mut Box<dyn Source>) -> Vec<String> {
    names_of(&members(source).await)
}

fn names_of(members: &[Member]) -> Vec<String> {
    members
        .iter()
        .map(|member| member.name.to_string())
        .collect()
}

/// Reads until these members are there; how many failures came before.
async fn until_names(source: &mut Box<dyn Source>, wanted: &[&str]) -> usize {
    let mut failures = 0;
    loop {
        let found = match read(source).await {
            Ok(reading) => reading.members,
            Err(_) => {
                failures += 1;
                continue;
            }
        };
        if found.is_some_and(|found| names_of(&found) == wanted) {
            return failures;
        }
    }
}

/// The next failure, before which there may be no members.
async fn failure(source: &mut Box<dyn Source>) -> Failure {
    loop {
        match read(source).await {
            Ok(reading) => assert_eq!(reading.members, None),
            Err(failure) => return failure,
        }
    }
}

#[tokio::test]
async fn members_come_change_and_go() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let mut source = world.source(slices_query());
    let first = members(&mut source).await;
    assert_eq!(names_of(&first), ["pod-1"]);
    assert_eq!(first[0].key(), "http://192.0.2.1:9090");
    world.sim.put(SLICES, slice("b", &[2]));
    assert_eq!(names(&mut source).await, ["pod-1", "pod-2"]);
    world.sim.put(SLICES, slice_of("b", &[endpoint(2, false)]));
    let changed = members(&mut source).await;
    assert_eq!(changed[1].ready, crate::discovery::Readiness::NotReady);
    world.sim.delete(SLICES, "a");
    assert_eq!(names(&mut source).await, ["pod-2"]);
    world.sim.delete(SLICES, "b");
    assert_eq!(names(&mut source).await, [""; 0]);
}

#[tokio::test]
async fn nothing_is_an_answer() {
    let world = World::new().await;
    let mut source = world.source(slices_query());
    let reading = read(&mut source).await.unwrap();
    assert_eq!(reading.members, Some(vec![]));
    assert_eq!(reading.excluded, []);
    assert_eq!(reading.again, crate::discovery::Again::Now);
}

#[tokio::test]
async fn only_what_matters_is_a_change() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, ["pod-1"]);
    world.sim.until("a stream", |store| store.open == 1).await;
    let mut same = slice("a", &[1]);
    same["metadata"]["annotations"] = json!({"touched": "again"});
    world.sim.put(SLICES, same);
    // The event shows that all is well, and no more.
    assert_eq!(read(&mut source).await.unwrap().members, None);
}

#[tokio::test]
async fn services_are_found_by_name_and_by_label() {
    let world = World::new().await;
    let service = |name: &str, ip: &str| {
        json!({
            "metadata": {"name": name, "labels": {"app": "prometheus"}},
            "spec": {"clusterIP": ip, "type": "ClusterIP", "ports": [{"port": 9090, "targetPort": "web"}]},
        })
    };
    world.sim.put(SERVICES, service("one", "198.51.100.1"));
    world.sim.put(SERVICES, service("two", "198.51.100.2"));
    let named = Query {
        kind: KubernetesKind::Service,
        service: Some("two".into()),
        ..Query::default()
    };
    let labelled = Query {
        kind: KubernetesKind::Service,
        ..pods_query()
    };
    let mut source = world.source(named);
    assert_eq!(names(&mut source).await, ["two"]);
    world.sim.look(|store| {
        let list = &store.seen[0];
        assert_eq!(list.path, SERVICES);
        assert_eq!(list.parameter("fieldSelector"), "metadata.name=two");
        assert_eq!(list.parameter("labelSelector"), "");
    });
    let mut source = world.source(Query {
        selector: [("app".into(), "prometheus".into())].into(),
        ..labelled
    });
    let found = members(&mut source).await;
    assert_eq!(names_of(&found), ["one", "two"]);
    assert_eq!(found[0].key(), "http://198.51.100.1:9090");
}

#[tokio::test]
async fn pods_leave_when_they_begin_to_stop() {
    let world = World::new().await;
    world.sim.put(PODS, pod(1));
    world.sim.put(PODS, pod(2));
    let mut source = world.source(pods_query());
    assert_eq!(names(&mut source).await, ["pod-1", "pod-2"]);
    let mut stopping = pod(2);
    stopping["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:35Z".into();
    world.sim.put(PODS, stopping);
    let reading = loop {
        let reading = read(&mut source).await.unwrap();
        if reading.members.is_some() {
            break reading;
        }
    };
    assert_eq!(names_of(&reading.members.unwrap()), ["pod-1"]);
    assert_eq!(reading.excluded, []);
    // An object that the selector no longer fits is deleted, to this watch.
    let mut other = pod(1);
    other["metadata"]["labels"]["app"] = "another".into();
    world.sim.put(PODS, other);
    assert_eq!(names(&mut source).await, [""; 0]);
}

#[tokio::test]
async fn the_server_is_asked_as_agreed() {
    let world = World::with_user(&json!({"token": "t0k3n"})).await;
    let mut source = world.source(Query {
        selector: [("b".into(), "2".into()), ("a".into(), "1".into())].into(),
        ..slices_query()
    });
    assert_eq!(names(&mut source).await, [""; 0]);
    world.sim.until("a stream", |store| store.open == 1).await;
    world.sim.look(|store| {
        let [list, watch] = store.seen.as_slice() else {
            panic!("{:?}", store.seen);
        };
        for seen in [list, watch] {
            assert_eq!(seen.path, SLICES);
            let selector = seen.parameter("labelSelector");
            assert_eq!(selector, "kubernetes.io/service-name=prometheus,a=1,b=2");
            assert_eq!(seen.authorization.as_deref(), Some("Bearer t0k3n"));
            assert_eq!(seen.user_agent.as_deref(), Some("ringway-test/1"));
        }
        assert_eq!(list.parameter("limit"), "500");
        assert_eq!(watch.parameter("resourceVersion"), "100");
        assert_eq!(watch.parameter("allowWatchBookmarks"), "true");
        let seconds: u32 = watch.parameter("timeoutSeconds").parse().unwrap();
        assert!((240..=295).contains(&seconds), "{seconds}");
    });
}

#[tokio::test]
async fn a_namespace_is_needed() {
    let sim = ApiSim::start().await;
    let file = ConfigFile::new(&sim.kubeconfig(None, &json!({})));
    let connection = connect_for(&file.settings(), 240..=295).unwrap();
    let mut source = connection.source(Arc::new(slices_query()));
    let failure = read(&mut source).await.unwrap_err();
    assert!(failure.reason.contains("set query.namespace"), "{failure}");
    let mut source = connection.source(Arc::new(Query {
        namespace: Some("monitoring".into()),
        ..slices_query()
    }));
    assert_eq!(names(&mut source).await, [""; 0]);
}
