//! Sharing, resuming and joining of watches.

use super::super::apisim::Refusal;
use super::*;

fn grouped() -> Query {
    Query {
        replica_group_label: Some("shard".into()),
        ..slices_query()
    }
}

#[tokio::test]
async fn equal_queries_share_a_stream_until_the_last_ends() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let mut one = world.source(slices_query());
    // The port is read here, not asked for there.
    let mut two = world.source(Query {
        port: Some(crate::discovery::settings::Port::Number(8080)),
        ..slices_query()
    });
    assert_eq!(names(&mut one).await, ["pod-1"]);
    assert_eq!(members(&mut two).await[0].port, 8080);
    world.sim.until("a stream", |store| store.open == 1).await;
    drop(one);
    world.sim.put(SLICES, slice("a", &[1, 2]));
    assert_eq!(names(&mut two).await, ["pod-1", "pod-2"]);
    assert_eq!(world.sim.look(|store| store.asked(SLICES)), (1, 1));
    drop(two);
    world.sim.until("no stream", |store| store.open == 0).await;
    // What comes later starts anew.
    let mut three = world.source(slices_query());
    assert_eq!(names(&mut three).await, ["pod-1", "pod-2"]);
    assert_eq!(world.sim.look(|store| store.asked(SLICES).0), 2);
}

#[tokio::test]
async fn other_selectors_have_their_own_stream() {
    let world = World::new().await;
    let mut one = world.source(slices_query());
    let mut two = world.source(Query {
        service: Some("another".into()),
        ..Query::default()
    });
    assert_eq!(names(&mut one).await, [""; 0]);
    assert_eq!(names(&mut two).await, [""; 0]);
    world
        .sim
        .until("two streams", |store| store.open == 2)
        .await;
    assert_eq!(world.sim.look(|store| store.asked(SLICES)), (2, 2));
}

#[tokio::test]
async fn a_member_is_regrouped_when_its_pod_appears() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1, 2]));
    world.sim.put(PODS, pod(1));
    let mut source = world.source(grouped());
    let groups = |members: &[Member]| -> Vec<String> {
        members
            .iter()
            .map(|member| member.replica_group.to_string())
            .collect()
    };
    assert_eq!(groups(&members(&mut source).await), ["shard-1", ""]);
    world.sim.put(PODS, pod(2));
    assert_eq!(groups(&members(&mut source).await), ["shard-1", "shard-0"]);
    // The successor of a Pod has its name, not its uid.
    world.sim.delete(PODS, "pod-2");
    let mut successor = pod(2);
    successor["metadata"]["uid"] = "another".into();
    successor["metadata"]["labels"]["shard"] = "another".into();
    world.sim.put(PODS, successor);
    assert_eq!(groups(&members(&mut source).await), ["shard-1", ""]);
}

#[tokio::test]
async fn the_first_reading_waits_for_both_lists() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    world.sim.put(PODS, pod(1));
    world
        .sim
        .faults(|faults| faults.list = Some(Refusal::with(500, 1)));
    let mut source = world.source(grouped());
    // Which of the two lists is refused does not matter.
    assert!(failure(&mut source).await.reason.contains("500"));
    let first = members(&mut source).await;
    assert_eq!(&*first[0].replica_group, "shard-1");
    let mut other = world.source(grouped());
    assert_eq!(members(&mut other).await.len(), 1);
    world
        .sim
        .until("two streams", |store| store.open == 2)
        .await;
    assert_eq!(world.sim.look(|store| store.asked(PODS).1), 1);
}

#[tokio::test]
async fn all_pages_are_read() {
    let world = World::new().await;
    for octet in 1..=5 {
        world.sim.put(SLICES, slice(&format!("s{octet}"), &[octet]));
    }
    world.sim.faults(|faults| faults.page_max = Some(2));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await.len(), 5);
    assert_eq!(world.sim.look(|store| store.asked(SLICES).0), 1);
}

#[tokio::test]
async fn a_list_that_expires_between_pages_starts_over() {
    let world = World::new().await;
    for octet in 1..=5 {
        world.sim.put(SLICES, slice(&format!("s{octet}"), &[octet]));
    }
    world.sim.faults(|faults| {
        faults.page_max = Some(2);
        faults.compacts_after_page = true;
    });
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await.len(), 5);
    assert_eq!(world.sim.look(|store| store.asked(SLICES).0), 2);
}

/// A stream breaks off, and what happened meanwhile is forgotten before the next one.
async fn version_too_old(gone_as_status: bool) {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, ["pod-1"]);
    world.sim.until("a stream", |store| store.open == 1).await;
    world
        .sim
        .faults(|faults| faults.gone_as_status = gone_as_status);
    world.sim.cut();
    world.sim.until("no stream", |store| store.open == 0).await;
    world.sim.put(SLICES, slice("b", &[2]));
    world.sim.delete(SLICES, "a");
    world.sim.compact();
    assert_eq!(until_names(&mut source, &["pod-2"]).await, 0);
    assert_eq!(world.sim.look(|store| store.asked(SLICES).0), 2);
    world.sim.until("a stream", |store| store.open == 1).await;
}

#[tokio::test]
async fn a_version_too_old_by_event_lists_again() {
    version_too_old(false).await;
}

#[tokio::test]
async fn a_version_too_old_by_status_lists_again() {
    version_too_old(true).await;
}

#[tokio::test]
async fn a_stream_goes_on_from_the_last_bookmark() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, ["pod-1"]);
    world.sim.until("a stream", |store| store.open == 1).await;
    world.sim.advance();
    world.sim.advance();
    world.sim.end_streams();
    world
        .sim
        .until("two watches", |store| store.asked(SLICES).1 == 2)
        .await;
    world.sim.look(|store| {
        let last = store.seen.last().unwrap();
        assert_eq!(last.parameter("resourceVersion"), "103");
    });
    world.sim.put(SLICES, slice("a", &[2]));
    assert_eq!(until_names(&mut source, &["pod-2"]).await, 0);
    assert_eq!(world.sim.look(|store| store.asked(SLICES).0), 1);
}

#[tokio::test]
async fn a_bookmark_shows_that_all_is_well() {
    let world = World::new().await;
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, [""; 0]);
    world.sim.until("a stream", |store| store.open == 1).await;
    world.sim.end_streams();
    let reading = read(&mut source).await.unwrap();
    assert_eq!(reading.members, None);
}

#[tokio::test]
async fn a_stream_cut_within_a_frame_goes_on() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, ["pod-1"]);
    world.sim.until("a stream", |store| store.open == 1).await;
    world.sim.cut();
    world.sim.until("no stream", |store| store.open == 0).await;
    world.sim.put(SLICES, slice("b", &[2]));
    assert_eq!(until_names(&mut source, &["pod-1", "pod-2"]).await, 0);
    assert_eq!(world.sim.look(|store| store.asked(SLICES)), (1, 2));
}

#[tokio::test]
async fn a_silent_stream_is_given_up() {
    let world = World::new().await;
    let connection = connect_for(&world._file.settings(), 1..=1).unwrap();
    world.sim.put(SLICES, slice("a", &[1]));
    world.sim.faults(|faults| faults.silent = true);
    let mut source = connection.source(Arc::new(slices_query()));
    assert_eq!(names(&mut source).await, ["pod-1"]);
    world.sim.until("a stream", |store| store.open == 1).await;
    world.sim.faults(|faults| faults.silent = false);
    // The old stream stays silent.
    world.sim.put(SLICES, slice("b", &[2]));
    assert_eq!(until_names(&mut source, &["pod-1", "pod-2"]).await, 0);
}

#[tokio::test]
async fn a_dropped_reading_is_not_lost() {
    let world = World::new().await;
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, [""; 0]);
    world.sim.until("a stream", |store| store.open == 1).await;
    world.sim.put(SLICES, slice("a", &[1]));
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_millis(20), source.next()).await;
    }
    world.sim.put(SLICES, slice("b", &[2]));
    until_names(&mut source, &["pod-1", "pod-2"]).await;
}

#[tokio::test]
async fn a_watch_that_broke_down_starts_anew() {
    let world = World::new().await;
    world.sim.put(SLICES, slice("a", &[1]));
    let mut source = world.source(slices_query());
    assert_eq!(names(&mut source).await, ["pod-1"]);
    for shared in world.connection.0.slices.lock().await.values() {
        shared.upgrade().unwrap().break_down();
    }
    let failed = failure(&mut source).await;
    assert_eq!(failed.reason, "the watch broke down");
    world.sim.put(SLICES, slice("b", &[2]));
    assert_eq!(until_names(&mut source, &["pod-1", "pod-2"]).await, 0);
}

#[tokio::test]
async fn exclusions_stay_until_they_are_mended() {
    let world = World::new().await;
    let mut other = slice("b", &[2]);
    other["ports"][0]["name"] = "other".into();
    world.sim.put(SLICES, slice("a", &[1]));
    world.sim.put(SLICES, other);
    let mut source = world.source(Query {
        port: Some(crate::discovery::settings::Port::Name("web".into())),
        ..slices_query()
    });
    let first = read(&mut source).await.unwrap();
    assert_eq!(names_of(&first.members.unwrap()), ["pod-1"]);
    assert_eq!(first.excluded.len(), 1);
    assert_eq!(&*first.excluded[0].name, "b");
    world.sim.until("a stream", |store| store.open == 1).await;
    world.sim.end_streams();
    let same = read(&mut source).await.unwrap();
    assert_eq!(same.members, None);
    assert_eq!(same.excluded, first.excluded);
    world.sim.put(SLICES, slice("b", &[2]));
    loop {
        let reading = read(&mut source).await.unwrap();
        if let Some(members) = reading.members {
            assert_eq!(names_of(&members), ["pod-1", "pod-2"]);
            assert_eq!(reading.excluded, []);
            break;
        }
    }
}
