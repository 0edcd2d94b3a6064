//! Discovery by `kubernetes`: endpoints as they come and go, and a server that forgets, breaks off and refuses.

use ringway_wire::{Origin, Ringway, Setup, eventually, ok};
use serde_json::{Value, json};

use crate::apisim::{Faults, Refusal};
use crate::discovery_cluster::{
    Cluster, NAMESPACE, PODS, SERVICES, SLICES, endpoint, pod, ready, slice,
};
use crate::discovery_stub::everywhere;
use crate::discovery_support::{
    LEFT_OUT, becomes, errors, excluded, is_listed, is_logged, is_logged_times, is_rejected, lines,
    outage, reload, row, sections, sections_of, snapshots, stays, tables,
};

const QUERY: &str = "query: {service: web}";
const PODS_QUERY: &str = "query: {kind: pods, selector: {app: web}}";

/// Ringway with a pool of what this query finds in a cluster.
fn start(cluster: &Cluster, discovery: &str) -> Ringway {
    let setup = Setup::new("");
    let keys = cluster.discoverer(setup.folder(), &json!({}));
    setup.section(&sections(&keys, discovery)).start()
}

/// A cluster with Service `web` at a port of these addresses.
fn cluster_of(origin: &Origin, octets: &[u8]) -> Cluster {
    let cluster = Cluster::start();
    cluster.put_slice("web-a", origin.address().port(), &ready(octets));
    cluster
}

#[test]
fn endpoints_are_members_as_they_come_change_and_go() {
    let origin = everywhere();
    let port = origin.address().port();
    let cluster = cluster_of(&origin, &[2]);
    let ringway = start(&cluster, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    cluster.put_slice("web-a", port, &ready(&[2, 3]));
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    cluster.put_slice("web-b", port, &ready(&[4]));
    becomes(&ringway, &["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    cluster.put_slice("web-a", port, &ready(&[3]));
    becomes(&ringway, &["127.0.0.3", "127.0.0.4"]);
    cluster.sim().delete(SLICES, "web-b");
    becomes(&ringway, &["127.0.0.3"]);
    // A Service that nothing stands behind.
    let mut empty = slice("web-a", port, &[]);
    (empty["endpoints"], empty["ports"]) = (Value::Null, Value::Null);
    cluster.sim().put(SLICES, empty);
    becomes(&ringway, &["502"]);
    cluster.put_slice("web-a", port, &ready(&[2]));
    becomes(&ringway, &["127.0.0.2"]);
    assert_eq!(errors(&ringway), 0.0);
    assert_eq!(cluster.asked(SLICES), (1, 1), "one list, one stream");
    ringway.stop();
    cluster.until("its stream ends", |store| store.open == 0);
}

#[test]
fn a_start_that_depends_on_the_server_asks_for_its_version_before_it_watches() {
    let origin = everywhere();
    let paths = |policy: &str| {
        let cluster = cluster_of(&origin, &[2]);
        let ringway = start(&cluster, &format!("{QUERY}, startup_policy: {policy}"));
        becomes(&ringway, &["127.0.0.2"]);
        ringway.stop();
        let asked = |store: &crate::apisim::Store| {
            let paths = store.seen.iter().map(|seen| seen.path.clone());
            paths.collect::<Vec<_>>()
        };
        cluster.sim().look(asked)
    };
    let asked = paths("fail");
    assert_eq!(asked[0], "/version");
    assert!(!asked[1..].contains(&asked[0]), "once: {asked:?}");
    assert!(!paths("retry").contains(&asked[0]));
}

#[test]
fn services_and_pods_are_members_too() {
    let origin = everywhere();
    let port = origin.address().port();
    let cluster = Cluster::start();
    let service = |octet: u8| {
        json!({
            "metadata": {"name": format!("web-{octet}"), "labels": {"app": "web"}, "annotations": {}},
            "spec": {
                "clusterIP": format!("127.0.0.{octet}"), "type": "ClusterIP",
                "ports": [{"name": "http", "port": port, "protocol": "TCP", "targetPort": "http"}],
            },
            "status": {"loadBalancer": {}},
        })
    };
    cluster.sim().put(SERVICES, service(2));
    cluster.sim().put(PODS, pod(3, port));
    let ringway = start(
        &cluster,
        "query: {kind: service, selector: {app: web}, port: http}",
    );
    becomes(&ringway, &["127.0.0.2"]);
    cluster.sim().put(SERVICES, service(4));
    becomes(&ringway, &["127.0.0.2", "127.0.0.4"]);
    let keys = cluster.discoverer(ringway.folder(), &json!({}));
    ringway.write_config(&sections(&keys, PODS_QUERY));
    reload(&ringway);
    becomes(&ringway, &["127.0.0.3"]);
    // Whatever its labels no longer match is gone.
    cluster.sim().put(PODS, pod(5, port));
    becomes(&ringway, &["127.0.0.3", "127.0.0.5"]);
    let mut other = pod(3, port);
    other["metadata"]["labels"]["app"] = "other".into();
    cluster.sim().put(PODS, other);
    becomes(&ringway, &["127.0.0.5"]);
    ringway.stop();
}

#[test]
fn a_server_that_is_down_changes_nothing() {
    let origin = everywhere();
    let cluster = cluster_of(&origin, &[2, 3]);
    let ringway = start(&cluster, QUERY);
    let members = ["127.0.0.2", "127.0.0.3"];
    becomes(&ringway, &members);
    outage(&ringway, &members, || cluster.stop(), || cluster.resume());
    // The stream went on where it was: nothing was listed again.
    assert_eq!(cluster.asked(SLICES).0, 1);
    cluster.put_slice("web-a", origin.address().port(), &ready(&[4]));
    becomes(&ringway, &["127.0.0.4"]);
    ringway.stop();
}

/// A list that cannot be read, once everything has to be listed anew: members stay.
#[track_caller]
fn is_no_empty_list(fault: impl Fn(&mut Faults)) {
    let origin = everywhere();
    let cluster = cluster_of(&origin, &[2]);
    let ringway = start(&cluster, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    let before = tables(&ringway);
    cluster.sim().faults(|faults| fault(faults));
    // The server has forgotten where the stream was.
    cluster.sim().advance();
    cluster.sim().compact();
    cluster.sim().cut();
    cluster.until("it is listed", |store| store.asked(SLICES).0 >= 3);
    assert!(errors(&ringway) > 0.0);
    stays(&ringway, &["127.0.0.2"]);
    cluster.sim().faults(|faults| *faults = Faults::default());
    cluster.until("it works again", |store| store.open == 1);
    assert_eq!(tables(&ringway), before);
    cluster.put_slice("web-a", origin.address().port(), &ready(&[3]));
    becomes(&ringway, &["127.0.0.3"]);
    ringway.stop();
}

#[test]
fn a_list_that_is_no_json_empties_no_pool() {
    is_no_empty_list(|faults| faults.list_body = Some("not JSON".to_owned()));
}

#[test]
fn a_list_that_is_another_document_empties_no_pool() {
    let other = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#;
    is_no_empty_list(|faults| faults.list_body = Some(other.to_owned()));
}

#[test]
fn a_list_that_breaks_off_empties_no_pool() {
    is_no_empty_list(|faults| faults.half = true);
}

#[test]
fn a_list_that_is_forbidden_empties_no_pool() {
    is_no_empty_list(|faults| faults.list = Some(Refusal::with(403, usize::MAX)));
}

#[test]
fn nothing_is_rejected_below_min_members() {
    let origin = everywhere();
    let port = origin.address().port();
    let cluster = cluster_of(&origin, &[2, 3]);
    let ringway = start(&cluster, "min_members: 2, query: {service: web}");
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    is_rejected(&ringway, || cluster.sim().delete(SLICES, "web-a"));
    stays(&ringway, &["127.0.0.2", "127.0.0.3"]);
    is_logged_times(&ringway, 1, "fewer than min_members (2)");
    cluster.put_slice("web-a", port, &ready(&[4, 5]));
    becomes(&ringway, &["127.0.0.4", "127.0.0.5"]);
    ringway.stop();
}

#[test]
fn endpoints_are_as_well_as_their_conditions_say() {
    let origin = everywhere();
    let port = origin.address().port();
    let cluster = Cluster::start();
    let of = |conditions: [Value; 5]| -> Vec<Value> {
        let all = (2..).zip(&conditions);
        all.map(|(octet, one)| endpoint(octet, one)).collect()
    };
    let conditions = [
        json!({"ready": true, "serving": true, "terminating": false}),
        json!({"ready": false, "serving": false, "terminating": false}),
        json!({}),
        json!({"ready": false, "serving": true, "terminating": true}),
        // From a server of times to come.
        json!({"ready": false, "serving": true, "frozen": true, "phase": "Hibernating"}),
    ];
    cluster.put_slice("web-a", port, &of(conditions));
    let ringway = start(&cluster, "health_mode: provider, query: {service: web}");
    is_listed(&ringway, "lb-pod-2", "available");
    is_listed(&ringway, "lb-pod-3", "unavailable");
    is_listed(&ringway, "lb-pod-4", "available");
    is_listed(&ringway, "lb-pod-6", "unavailable");
    assert_eq!(row(&ringway, "lb-pod-5"), None);
    becomes(&ringway, &["127.0.0.2", "127.0.0.4"]);
    // Each change of readiness counts, and none makes a member anew.
    is_logged_times(&ringway, 4, "member added");
    let conditions = [
        json!({"ready": false}),
        json!({"ready": true}),
        json!({"ready": null, "serving": null, "terminating": null}),
        json!({"ready": false, "serving": true, "terminating": true}),
        json!({"ready": true, "frozen": false}),
    ];
    cluster.put_slice("web-a", port, &of(conditions));
    is_listed(&ringway, "lb-pod-2", "unavailable");
    becomes(&ringway, &["127.0.0.3", "127.0.0.4", "127.0.0.6"]);
    assert_eq!(lines(&ringway, "member added"), 4);
    assert_eq!(excluded(&ringway), 0.0, "who leaves is not left out");
    ringway.stop();
}

#[test]
fn pods_are_as_well_as_their_status_says() {
    let origin = everywhere();
    let port = origin.address().port();
    let cluster = Cluster::start();
    let with = |octet: u8, path: &str, value: Value| {
        let mut pod = pod(octet, port);
        *pod.pointer_mut(path).expect("such a field") = value;
        cluster.sim().put(PODS, pod);
    };
    cluster.sim().put(PODS, pod(2, port));
    with(
        3,
        "/status/conditions",
        json!([{"type": "Ready", "status": "False"}]),
    );
    with(
        4,
        "/status/conditions",
        json!([{"type": "Ready", "status": "Wavering"}]),
    );
    with(5, "/status/phase", "Pending".into());
    with(6, "/status/phase", "Hibernating".into());
    with(7, "/status/podIP", Value::Null);
    with(8, "/status/conditions", Value::Null);
    let ringway = start(
        &cluster,
        "health_mode: provider, query: {kind: pods, selector: {app: web}}",
    );
    is_listed(&ringway, "lb-pod-2", "available");
    for octet in [3, 4, 8] {
        is_listed(&ringway, &format!("lb-pod-{octet}"), "unavailable");
    }
    for octet in [5, 6, 7] {
        assert_eq!(row(&ringway, &format!("lb-pod-{octet}")), None);
    }
    with(5, "/status/phase", "Running".into());
    becomes(&ringway, &["127.0.0.2", "127.0.0.5"]);
    // A graceful deletion: first marked, later gone.
    let mut leaving = pod(2, port);
    leaving["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    leaving["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    cluster.sim().put(PODS, leaving);
    becomes(&ringway, &["127.0.0.5"]);
    cluster.sim().delete(PODS, "pod-2");
    assert_eq!(excluded(&ringway), 0.0, "{}", ringway.log());
    ringway.stop();
}

#[test]
fn who_is_left_out_is_counted_and_named_once_for_each_change() {
    let origin = everywhere();
    let port = origin.address().port();
    let cluster = cluster_of(&origin, &[2]);
    let with_two_ports = |name: &str, octets: &[u8]| {
        let mut slice = slice(name, port, &ready(octets));
        let more = json!({"name": "admin", "protocol": "TCP", "port": 1});
        slice["ports"].as_array_mut().expect("a list").push(more);
        cluster.sim().put(SLICES, slice);
    };
    with_two_ports("web-b", &[3]);
    let ringway = start(&cluster, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    assert_eq!(excluded(&ringway), 1.0);
    is_logged_times(&ringway, 1, LEFT_OUT);
    is_logged_times(&ringway, 1, "web-b: ");
    // The same are left out: nothing new is said.
    with_two_ports("web-b", &[3, 4]);
    cluster.put_slice("web-a", port, &ready(&[2, 5]));
    becomes(&ringway, &["127.0.0.2", "127.0.0.5"]);
    assert_eq!(lines(&ringway, LEFT_OUT), 1);
    with_two_ports("web-c", &[6]);
    eventually("one more is left out", || {
        (excluded(&ringway) == 2.0).then_some(())
    });
    is_logged_times(&ringway, 2, LEFT_OUT);
    for name in ["web-b", "web-c"] {
        cluster.put_slice(name, port, &ready(&[7]));
    }
    becomes(&ringway, &["127.0.0.2", "127.0.0.5", "127.0.0.7"]);
    assert_eq!(excluded(&ringway), 0.0);
    assert_eq!(lines(&ringway, LEFT_OUT), 2);
    ringway.stop();
}

#[test]
fn all_pages_of_a_list_are_members_or_none() {
    let origin = everywhere();
    let port = origin.address().port();
    let cluster = Cluster::start();
    for octet in 2..=6 {
        cluster.sim().put(PODS, pod(octet, port));
    }
    cluster.sim().faults(|faults| {
        faults.page_max = Some(2);
        // The second page of the first list is a 410.
        faults.compacts_after_page = true;
    });
    let ringway = start(&cluster, PODS_QUERY);
    let all = [2, 3, 4, 5, 6].map(|octet: u8| format!("127.0.0.{octet}"));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    becomes(&ringway, &all);
    is_logged_times(&ringway, 5, "member added");
    let pages = |cluster: &Cluster| {
        cluster.sim().look(|store| {
            let pages = store.seen.iter().filter(|seen| !seen.is_watch());
            pages
                .map(|seen| seen.parameter("continue").is_empty())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(pages(&cluster), [true, false, true, false, false]);
    let before = tables(&ringway);
    assert_eq!(snapshots(&ringway, "applied"), 1.0, "the pool came whole");
    // Listed once more, and broken off once more.
    cluster
        .sim()
        .faults(|faults| faults.compacts_after_page = true);
    cluster.sim().delete(PODS, "pod-6");
    becomes(&ringway, &all[..4]);
    cluster.sim().advance();
    cluster.sim().compact();
    cluster.sim().cut();
    cluster.until("a stream after the lists", |store| {
        let (lists, watches) = store.asked(PODS);
        lists == 4 && watches >= 2 && store.open == 1
    });
    stays(&ringway, &all[..4]);
    assert_eq!(tables(&ringway), before + 1.0);
    ringway.stop();
}

#[test]
fn a_wrong_token_is_a_failure_and_a_token_file_may_be_rotated() {
    let origin = everywhere();
    let port = origin.address().port();
    let cluster = cluster_of(&origin, &[2]);
    cluster
        .sim()
        .faults(|faults| faults.token = Some("first-token".into()));
    let setup = Setup::new("");
    let file = setup.folder().join("token");
    std::fs::write(&file, "wrong-token\n").expect("the folder is ours");
    let keys = cluster.discoverer(setup.folder(), &json!({"tokenFile": file}));
    let ringway = setup.section(&sections(&keys, QUERY)).start();
    eventually("it is refused", || (errors(&ringway) > 0.0).then_some(()));
    stays(&ringway, &["502"]);
    is_logged(&ringway, "401 Unauthorized");
    std::fs::write(&file, "first-token\n").expect("the folder is ours");
    becomes(&ringway, &["127.0.0.2"]);
    let before = errors(&ringway);
    cluster.until("it watches", |store| store.open == 1);
    // Both sides change: the next request is refused once, and then is not.
    std::fs::write(&file, "second-token\n").expect("the folder is ours");
    cluster
        .sim()
        .faults(|faults| faults.token = Some("second-token".into()));
    cluster.sim().end_streams();
    cluster.put_slice("web-a", port, &ready(&[3]));
    becomes(&ringway, &["127.0.0.3"]);
    assert_eq!(errors(&ringway), before, "{}", ringway.log());
    for secret in ["wrong-token", "first-token", "second-token"] {
        assert!(!ringway.log().contains(secret), "{}", ringway.log());
    }
    ringway.stop();
}

#[test]
fn who_may_not_list_keeps_trying() {
    let origin = everywhere();
    let cluster = cluster_of(&origin, &[2]);
    cluster
        .sim()
        .faults(|faults| faults.list = Some(Refusal::with(403, 2)));
    let ringway = start(&cluster, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    // One that is over before anybody asks is not counted.
    assert!(matches!(errors(&ringway), 1.0..=2.0), "{}", ringway.log());
    is_logged_times(&ringway, 1, "discovery fails");
    is_logged_times(&ringway, 1, "discovery works again");
    ringway.stop();
}

/// What happened while no stream was open is forgotten: the watch cannot go on.
#[track_caller]
fn is_listed_anew_after_410(as_status: bool) {
    let origin = everywhere();
    let cluster = cluster_of(&origin, &[2]);
    cluster
        .sim()
        .faults(|faults| faults.gone_as_status = as_status);
    let ringway = start(&cluster, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    cluster.stop();
    cluster.put_slice("web-a", origin.address().port(), &ready(&[3]));
    cluster.sim().delete(SLICES, "web-a");
    cluster.put_slice("web-b", origin.address().port(), &ready(&[4]));
    cluster.sim().compact();
    cluster.resume();
    becomes(&ringway, &["127.0.0.4"]);
    assert_eq!(cluster.asked(SLICES).0, 2);
    assert_eq!(lines(&ringway, "127.0.0.3"), 0, "{}", ringway.log());
    ringway.stop();
}

#[test]
fn a_version_that_is_gone_by_status_is_listed_anew() {
    is_listed_anew_after_410(true);
}

#[test]
fn a_version_that_is_gone_by_event_is_listed_anew() {
    is_listed_anew_after_410(false);
}

#[test]
fn a_stream_that_ends_goes_on_from_its_last_bookmark() {
    let origin = everywhere();
    let cluster = cluster_of(&origin, &[2]);
    let ringway = start(&cluster, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    let versions = || {
        cluster.sim().look(|store| {
            let watches = store.seen.iter().filter(|seen| seen.is_watch());
            let versions = watches.map(|seen| seen.parameter("resourceVersion").parse());
            versions.collect::<Result<Vec<u64>, _>>().expect("numbers")
        })
    };
    cluster.until("it watches", |store| store.open == 1);
    // Others change much; only the bookmark says how far this stream is.
    for _ in 0..5 {
        cluster.sim().advance();
    }
    cluster.sim().end_streams();
    cluster.sim().compact();
    eventually("it goes on", || (versions().len() == 2).then_some(()));
    let seen = versions();
    assert_eq!(seen[1], seen[0] + 5);
    cluster.put_slice("web-a", origin.address().port(), &ready(&[3]));
    becomes(&ringway, &["127.0.0.3"]);
    assert_eq!(cluster.asked(SLICES), (1, 2));
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

/// So many more ALBs, each with a discoverer's query for Service `web`.
fn albs(numbers: std::ops::Range<usize>, discoverer: &str) -> String {
    let one = |number| {
        format!(
            "  more-{number}: {{provider: alb, alb: {{mechanism: rr, discovery: {{discoverer_name: {discoverer}, \
             template_backend: tpl, query: {{service: web}}}}}}}}\n"
        )
    };
    numbers.map(one).collect()
}

fn members(ringway: &Ringway) -> f64 {
    let name = "trickster_alb_discovery_members";
    ringway.metric(name, &[]).unwrap_or_default()
}

#[test]
fn two_hundred_pools_of_two_discoverers_share_one_stream() {
    let origin = everywhere();
    let port = origin.address().port();
    let cluster = cluster_of(&origin, &[2, 3]);
    let setup = Setup::new("");
    let keys = cluster.discoverer(setup.folder(), &json!({}));
    let of = |more: &str| {
        let other = format!("discovery:\n  other: {{{keys}}}\n");
        let text = sections(&keys, QUERY).replace("discovery:\n", &other);
        format!("{text}{more}")
    };
    let two = of(&albs(0..1, "other"));
    let many = of(&(albs(0..1, "other") + &albs(1..199, "src")));
    let ringway = setup.section(&many).start();
    eventually("all pools have their members", || {
        (members(&ringway) == 400.0).then_some(())
    });
    assert_eq!(cluster.asked(SLICES), (1, 1));
    assert_eq!(cluster.sim().look(|store| store.open), 1);
    cluster.put_slice("web-a", port, &ready(&[3, 4, 5]));
    eventually("all pools have their members", || {
        (members(&ringway) == 600.0).then_some(())
    });
    // Fewer pools keep the stream; the last one ends it.
    ringway.write_config(&two);
    reload(&ringway);
    eventually("two pools are left", || {
        (members(&ringway) == 6.0).then_some(())
    });
    stays(&ringway, &["127.0.0.3", "127.0.0.4", "127.0.0.5"]);
    assert_eq!(cluster.asked(SLICES), (1, 1));
    ringway.write_config(&format!(
        "mgmt: {{reload_rate_limit: 0}}\nbackends: {{web: {{provider: reverseproxy, is_default: true, origin_url: \
         'http://{}'}}}}\n",
        origin.address()
    ));
    reload(&ringway);
    cluster.until("nobody watches", |store| store.open == 0);
    ringway.stop();
}

/// What a Prometheus says of its head.
const HEAD: &str = r#"{"status":"success","data":{"headStats":{"numSeries":5,"numLabelPairs":5,"chunkCount":5,"minTime":1,
"maxTime":2},"seriesCountByMetricName":[],"labelValueCountByLabelName":[],"memoryInBytesByLabelName":[],
"seriesCountByLabelValuePair":[]}}"#;

#[test]
fn an_endpoint_joins_its_group_when_its_pod_is_known() {
    let origin = Origin::start_everywhere(|conn| {
        while conn.request().is_some() {
            if !conn.send(ok(HEAD)) {
                break;
            }
        }
    });
    let port = origin.address().port();
    let cluster = cluster_of(&origin, &[2, 3]);
    cluster.sim().put(PODS, pod(2, port));
    let setup = Setup::new("");
    let keys = cluster.discoverer(setup.folder(), &json!({}));
    let query = "query: {service: web, replica_group_label: shard}";
    let yaml = sections_of(&keys, query, "")
        .replace("provider: reverseproxy", "provider: prometheus")
        .replace("mechanism: rr", "mechanism: tsm");
    let ringway = setup.section(&yaml).start();
    eventually("both are members", || {
        (members(&ringway) == 2.0).then_some(())
    });
    let series = || {
        let answer = ringway.get("/api/v1/status/tsdb").text();
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        answer["data"]["headStats"]["numSeries"].as_u64()
    };
    eventually("there are two shards", || {
        (series() == Some(10)).then_some(())
    });
    // Now both are replicas of one.
    cluster.sim().put(PODS, pod(3, port));
    eventually("there is one shard", || (series() == Some(5)).then_some(()));
    is_logged_times(&ringway, 1, "member changed in place");
    assert_eq!(lines(&ringway, "member removed"), 0);
    assert_eq!(cluster.asked(PODS), (1, 1), "{NAMESPACE} is watched once");
    ringway.stop();
}
