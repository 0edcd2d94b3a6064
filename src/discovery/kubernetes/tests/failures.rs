//! Servers that refuse, garble, fall silent or are gone.

use super::super::apisim::Refusal;
use super::super::preflight::preflight;
use super::*;

/// Runs a test for all of these at once.
async fn for_each<T, const N: usize>(cases: [T; N], test: impl AsyncFn(T)) {
    futures_util::future::join_all(cases.map(|one| test(one))).await;
}

#[tokio::test]
async fn members_stay_while_the_server_is_away() {
    let mut world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, ["pod-1"]);
    world.sim.until("a stream", |store| store.open == 1).await;
    world.sim.stop().await;
    let first = failure(&mut source).await;
    assert!(
        first
            .reason
            .starts_with("watch endpointslices in namespace monitoring: "),
        "{first}"
    );
    assert!(first.reason.contains("refused"), "{first}");
    failure(&mut source).await;
    world.sim.put(SLICES, slice("b", &[2]));
    world.sim.listen().await;
    until_names(&mut source, &["pod-1", "pod-2"]).await;
    // It never had to list again.
    assert_eq!(world.sim.look(|store| store.asked(SLICES).0), 1);
}

#[tokio::test]
async fn a_recovery_without_news_is_told() {
    let mut world = World::new().await;
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, [""; 0]);
    world.sim.until("a stream", |store| store.open == 1).await;
    world.sim.stop().await;
    failure(&mut source).await;
    world.sim.listen().await;
    loop {
        if let Ok(reading) = read(&mut source).await {
            assert_eq!(reading.members, None);
            break;
        }
    }
}

#[tokio::test]
async fn a_server_that_comes_late_is_found() {
    let mut world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    world.sim.stop().await;
    let mut source = world.source(slices_query());
    let first = read(&mut source).await.unwrap_err();
    assert!(first.reason.starts_with("list endpointslices"), "{first}");
    // Who comes later hears of it at once.
    let mut other = world.source(slices_query());
    assert!(read(&mut other).await.is_err());
    world.sim.listen().await;
    until_names(&mut source, &["pod-1"]).await;
    until_names(&mut other, &["pod-1"]).await;
}

#[tokio::test]
async fn each_refused_list_is_one_failure() {
    for_each([400, 403, 404, 500, 503, 504], async |status| {
        let world = World::new().await;
        world.sim.put(SLICES, slice("a", &[1]));
        world
            .sim
            .faults(|faults| faults.list = Some(Refusal::with(status, 2)));
        let mut source = world.source(slices_query());
        let first = read(&mut source).await.unwrap_err();
        let status = status.to_string();
        assert!(first.reason.contains(&status), "{first}");
        assert!(first.reason.ends_with("refused for a test"), "{first}");
        assert_eq!(until_names(&mut source, &["pod-1"]).await, 1);
    })
    .await;
}

#[tokio::test]
async fn each_refused_watch_is_one_failure() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    world
        .sim
        .faults(|faults| faults.watch = Some(Refusal::with(403, 2)));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, ["pod-1"]);
    assert!(failure(&mut source).await.reason.contains("403"));
    assert!(failure(&mut source).await.reason.contains("403"));
    world.sim.until("a stream", |store| store.open == 1).await;
    world.sim.put(SLICES, slice("b", &[2]));
    assert_eq!(until_names(&mut source, &["pod-1", "pod-2"]).await, 0);
    assert_eq!(world.sim.look(|store| store.asked(SLICES)), (1, 3));
}

#[tokio::test]
async fn a_server_that_was_set_back_is_listed_again() {
    let world = World::new().await;
    world
        .sim
        .faults(|faults| faults.watch = Some(Refusal::with(504, 1)));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, [""; 0]);
    failure(&mut source).await;
    world.sim.until("a stream", |store| store.open == 1).await;
    assert_eq!(world.sim.look(|store| store.asked(SLICES)), (2, 2));
}

#[tokio::test]
async fn a_server_that_asks_for_time_gets_it() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let refusal = Refusal {
        status: 429,
        retry_after: Some(3),
        times: 1,
    };
    world.sim.faults(|faults| faults.list = Some(refusal));
    let mut source = world.source(slices_query());
    let failed = read(&mut source).await.unwrap_err();
    assert!(failed.reason.contains("429"), "{failed}");
    // The watch waits by itself.
    assert_eq!(failed.retry_after, None);
    let began = tokio::time::Instant::now();
    assert_eq!(names(&mut source).await, ["pod-1"]);
    assert!(began.elapsed() > Duration::from_secs(2));
}

#[tokio::test]
async fn garbage_is_a_failure() {
    for_each(
        [
            "{",
            "[]",
            "null",
            r#"{"items":[{"metadata":7}],"metadata":{}}"#,
            r#"{"metadata":{}}"#,
        ],
        async |body: &str| {
            let world = World::new().await;
            world.sim.put(SLICES, slice("a", &[1]));
            world
                .sim
                .faults(|faults| faults.list_body = Some(body.to_owned()));
            let mut source = world.source(slices_query());
            let failed = read(&mut source).await.unwrap_err();
            assert!(
                failed.reason.starts_with("list endpointslices"),
                "{body}: {failed}"
            );
            world.sim.faults(|faults| faults.list_body = None);
            until_names(&mut source, &["pod-1"]).await;
        },
    )
    .await;
}

#[tokio::test]
async fn pages_are_bounded() {
    let world = World::new().await;
    let list = r#"{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}"#;
    let padded = |bytes: usize| format!("{list}{}", " ".repeat(bytes - list.len()));
    let most = super::super::client::PAGE_BYTES_MAX;
    world
        .sim
        .faults(|faults| faults.list_body = Some(padded(most + 1)));
    let mut source = world.source(slices_query());
    let failed = read(&mut source).await.unwrap_err();
    assert!(
        failed.reason.contains("longer than 67108864 bytes"),
        "{failed}"
    );
    world
        .sim
        .faults(|faults| faults.list_body = Some(padded(most)));
    until_names(&mut source, &[]).await;
}

#[tokio::test]
async fn a_list_that_breaks_off_is_a_failure() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    world.sim.faults(|faults| faults.half = true);
    let mut source = world.source(slices_query());
    let failed = read(&mut source).await.unwrap_err();
    assert!(failed.reason.contains("broke off"), "{failed}");
    world.sim.faults(|faults| faults.half = false);
    until_names(&mut source, &["pod-1"]).await;
}

#[tokio::test]
async fn an_event_that_is_not_understood_lists_again() {
    for_each(
        [
            "garbage",
            r#"{"type":"NEW","object":{}}"#,
            r#"{"type":"MODIFIED","object":{"metadata":{"name":"x"}}}"#,
        ],
        async |line| {
            let world = World::new().await;
            world.sim.put(SLICES, slice("a", &[1]));
            let mut source = world.source(slices_query());
            assert_eq!(names(&mut source).await, ["pod-1"]);
            world.sim.until("a stream", |store| store.open == 1).await;
            world.sim.send_raw(line);
            let failed = failure(&mut source).await;
            assert!(
                failed.reason.starts_with("watch endpointslices"),
                "{failed}"
            );
            assert!(!failed.reason.contains("garbage"), "{failed}");
            world
                .sim
                .until("a list", |store| store.asked(SLICES) == (2, 2))
                .await;
            world.sim.until("a stream", |store| store.open == 1).await;
            world.sim.put(SLICES, slice("b", &[2]));
            assert_eq!(until_names(&mut source, &["pod-1", "pod-2"]).await, 0);
        },
    )
    .await;
}

#[tokio::test]
async fn two_errors_in_a_row_list_again() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, ["pod-1"]);
    world.sim.until("a stream", |store| store.open == 1).await;
    let error = json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "etcd is away", "reason": "InternalError", "code": 500,
    }});
    world.sim.send_raw(&error.to_string());
    let first = failure(&mut source).await;
    assert!(first.reason.ends_with("500: etcd is away"), "{first}");
    assert_eq!(world.sim.look(|store| store.asked(SLICES).0), 1);
    world.sim.send_raw(&error.to_string());
    failure(&mut source).await;
    world
        .sim
        .until("a list", |store| store.asked(SLICES).0 == 2)
        .await;
    world.sim.put(SLICES, slice("b", &[2]));
    until_names(&mut source, &["pod-1", "pod-2"]).await;
}

#[tokio::test]
async fn no_answer_in_time_is_a_failure() {
    let world = World::with(&json!({}), |settings| {
        settings.timeout = Duration::from_millis(200);
    })
    .await;
    world.sim.faults(|faults| faults.deaf = true);
    let mut source = world.source(slices_query());
    let failed = read(&mut source).await.unwrap_err();
    assert!(
        failed.reason.ends_with("no answer within 200ms"),
        "{failed}"
    );
    let failed = preflight(&world.connection).await.unwrap_err();
    assert!(failed.reason.contains("no answer within 200ms"), "{failed}");
}

#[tokio::test]
async fn a_source_can_be_dropped_while_it_asks() {
    let world = World::new().await;
    world.sim.faults(|faults| faults.deaf = true);
    let mut source = world.source(slices_query());
    let asked = world.sim.until("a request", |store| !store.seen.is_empty());
    tokio::select! {
        reading = source.next() => panic!("{reading:?}"),
        () = asked => {}
    }
    drop(source);
    world.sim.faults(|faults| faults.deaf = false);
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, [""; 0]);
    // The dropped one asked nothing more.
    assert_eq!(world.sim.look(|store| store.asked(SLICES).0), 2);
}

// === credentials ===

#[tokio::test]
async fn credentials_are_needed_and_must_be_right() {
    for user in [json!({}), json!({"token": "wr0ng"})] {
        let world = World::with_user(&user).await;
        world
            .sim
            .faults(|faults| faults.token = Some("t0k3n".to_owned()));
        let mut source = world.source(slices_query());
        let failed = read(&mut source).await.unwrap_err();
        assert!(failed.reason.contains("401 Unauthorized"), "{failed}");
        assert!(!failed.reason.contains("wr0ng"), "{failed}");
        world.sim.faults(|faults| faults.token = None);
        until_names(&mut source, &[]).await;
    }
}

#[tokio::test]
async fn a_rotated_token_is_no_failure() {
    is_no_failure("first", "second").await;
}

#[tokio::test]
async fn the_line_of_a_token_may_end() {
    is_no_failure("first\n", "second\r\n").await;
}

async fn is_no_failure(first: &str, second: &str) {
    let token = ConfigFile::new(first);
    let world = World::with_user(&json!({"tokenFile": token.0})).await;
    world
        .sim
        .faults(|faults| faults.token = Some("first".to_owned()));
    world.sim.put(SLICES, slice("a", &[1]));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, ["pod-1"]);
    world.sim.until("a stream", |store| store.open == 1).await;
    std::fs::write(&token.0, second).unwrap();
    world
        .sim
        .faults(|faults| faults.token = Some("second".to_owned()));
    world.sim.end_streams();
    world
        .sim
        .until("a refused watch", |store| store.asked(SLICES).1 >= 2)
        .await;
    world.sim.put(SLICES, slice("a", &[2]));
    assert_eq!(until_names(&mut source, &["pod-2"]).await, 0);
    world.sim.look(|store| {
        let last = store.seen.last().unwrap();
        assert_eq!(last.authorization.as_deref(), Some("Bearer second"));
    });
}

fn plugin(script: &str) -> Value {
    json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "command": "/bin/sh",
        "args": ["-c", script],
    }})
}

#[tokio::test]
async fn a_plugin_gives_the_token() {
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "fr0m-plugin", "expirationTimestamp": "2999-01-01T00:00:00Z"},
    });
    let world = World::with_user(&plugin(&format!("echo '{credential}'"))).await;
    world
        .sim
        .faults(|faults| faults.token = Some("fr0m-plugin".to_owned()));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, [""; 0]);
}

#[tokio::test]
async fn what_a_plugin_prints_is_not_told() {
    for script in [
        "echo s3cr3t; echo s3cr3t >&2; exit 3",
        "echo '{\"s3cr3t\": s3cr3t'",
    ] {
        let world = World::with_user(&plugin(script)).await;
        let mut source = world.source(slices_query());
        let failed = read(&mut source).await.unwrap_err();
        assert!(failed.reason.contains("credentials plugin"), "{failed}");
        assert!(!failed.reason.contains("s3cr3t"), "{failed}");
    }
}

// === preflight ===

#[tokio::test]
async fn the_preflight_asks_for_the_version() {
    let mut world = World::new().await;
    preflight(&world.connection).await.unwrap();
    world.sim.look(|store| {
        assert_eq!(store.seen.len(), 1);
        assert_eq!(store.seen[0].path, "/version");
        assert_eq!(store.seen[0].user_agent.as_deref(), Some("ringway-test/1"));
    });
    world.sim.stop().await;
    let failed = preflight(&world.connection).await.unwrap_err();
    assert!(failed.reason.starts_with("GET /version: "), "{failed}");
}

#[tokio::test]
async fn a_list_without_an_end_is_given_up() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let body = json!({
        "kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "items": [],
        "metadata": {"resourceVersion": "1", "continue": "more"},
    });
    world
        .sim
        .faults(|faults| faults.list_body = Some(body.to_string()));
    let mut source = world.source(slices_query());
    let failed = read(&mut source).await.unwrap_err();
    assert!(failed.reason.contains("more than 200 pages"), "{failed}");
    world.sim.faults(|faults| faults.list_body = None);
    until_names(&mut source, &["pod-1"]).await;
}
