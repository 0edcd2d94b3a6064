//! The rules of the control core, as lists of events.

use super::*;
use crate::control::fixture::Builder;
use std::time::{Duration, UNIX_EPOCH};

const ONE: Thresholds = Thresholds {
    failure: 1,
    recovery: 1,
};

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

fn plan(generation: u64) -> Arc<Plan> {
    Builder::default()
        .origin("a", "127.0.0.1")
        .origin("b", "b.test")
        .alb("lb", 0, &[("a", 1), ("b", 1)])
        .plan(generation)
}

fn adopt(state: &mut State, plan: &Arc<Plan>, probes: &[(&str, u64)]) -> Vec<Action> {
    adopt_with(state, plan, probes, Vec::new())
}

fn adopt_with(
    state: &mut State,
    plan: &Arc<Plan>,
    probes: &[(&str, u64)],
    ejection: Vec<(PoolId, Rule)>,
) -> Vec<Action> {
    let probes = probes.iter().map(|(name, id)| {
        let probed = Probed {
            probe: ProbeId(*id),
            thresholds: ONE,
        };
        ((*name).into(), probed)
    });
    state.apply(Event::Adopted {
        plan: plan.clone(),
        probes: probes.collect(),
        ejection,
        standings: HashMap::new(),
        at: at(1),
    })
}

/// A pool that ejects after two failures, for a minute.
fn adopt_ejecting(state: &mut State, plan: &Arc<Plan>, probes: &[(&str, u64)]) -> Vec<Action> {
    let rule = Rule {
        consecutive_failures: 2,
        time: Duration::from_secs(60),
    };
    adopt_with(state, plan, probes, vec![(PoolId(0), rule)])
}

fn unreached(state: &mut State, backend: &str, failures: u32, second: u64) -> Vec<Action> {
    state.apply(Event::Unreached {
        backend: backend.into(),
        answered: false,
        failures,
        now: Instant::now(),
        at: at(second),
    })
}

fn probed(state: &mut State, backend: &str, probe: u64, passed: bool, second: u64) -> Vec<Action> {
    let outcome = match passed {
        true => Outcome::Passed,
        false => Outcome::Failed("refused".into()),
    };
    state.apply(Event::Probed {
        backend: backend.into(),
        probe: ProbeId(probe),
        outcome,
        began: std::time::Instant::now(),
        at: at(second),
    })
}

fn live(state: &State) -> Vec<&str> {
    let pool = &state.table().unwrap().pools[0];
    pool.live
        .iter()
        .map(|member| &*member.backend.name)
        .collect()
}

#[test]
fn nothing_is_published_before_there_is_a_plan() {
    let mut state = State::new(at(0));
    assert!(probed(&mut state, "a", 1, false, 1).is_empty());
    let actions = state.apply(Event::Resolved {
        host: "b.test".into(),
        addresses: vec!["10.0.0.1".parse().unwrap()],
    });
    assert!(matches!(
        actions[..],
        [Action::Tell(Notice::Addresses { .. })]
    ));
    assert!(state.table().is_none());
}

#[test]
fn a_plan_is_committed_with_a_first_table_that_has_all_that_is_known() {
    let mut state = State::new(at(0));
    let address = "10.0.0.1".parse().unwrap();
    state.apply(Event::Resolved {
        host: "b.test".into(),
        addresses: vec![address],
    });
    let actions = adopt(&mut state, &plan(1), &[]);
    let [Action::Commit(table)] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(table.generation.0, 1);
    assert_eq!(table.version, 1);
    assert_eq!(
        *table.backends[0].addresses,
        ["127.0.0.1:80".parse().unwrap()]
    );
    assert_eq!(*table.backends[1].addresses, [SocketAddr::new(address, 80)]);
    assert_eq!(live(&state), ["a", "b"]);
}

#[test]
fn only_a_flip_publishes() {
    let mut state = State::new(at(0));
    adopt(&mut state, &plan(1), &[("a", 7)]);
    let actions = probed(&mut state, "a", 7, false, 5);
    assert!(
        matches!(&actions[..], [Action::Tell(Notice::Health { detail, .. }), Action::Publish(table)]
            if detail == "refused" && table.version == 2),
        "{actions:?}"
    );
    assert_eq!(live(&state), ["b"]);
    assert_eq!(state.last_change(), at(5));
    assert!(probed(&mut state, "a", 7, false, 6).is_empty());
    assert_eq!(state.last_change(), at(5));
    assert_eq!(probed(&mut state, "a", 7, true, 7).len(), 2);
    assert_eq!(live(&state), ["a", "b"]);
}

#[test]
fn results_of_replaced_probes_and_unknown_backends_do_not_count() {
    let mut state = State::new(at(0));
    adopt(&mut state, &plan(1), &[("a", 7)]);
    assert!(probed(&mut state, "a", 6, false, 5).is_empty());
    assert!(probed(&mut state, "b", 7, false, 5).is_empty());
    assert!(probed(&mut state, "ghost", 7, false, 5).is_empty());
    assert_eq!(live(&state), ["a", "b"]);
}

#[test]
fn a_reload_carries_health_addresses_and_rotation_over_by_name() {
    let mut state = State::new(at(0));
    adopt(&mut state, &plan(1), &[("a", 7)]);
    probed(&mut state, "a", 7, false, 5);
    state.apply(Event::Resolved {
        host: "b.test".into(),
        addresses: vec!["10.0.0.1".parse().unwrap()],
    });
    let before = state.table().unwrap().clone();
    before.pools[0].next_member();
    // Other ids, same names.
    let next = Builder::default()
        .origin("new", "127.0.0.9")
        .origin("b", "b.test")
        .origin("a", "127.0.0.1")
        .alb("lb", 0, &[("a", 1), ("b", 1)])
        .plan(2);
    let actions = adopt(&mut state, &next, &[("a", 8)]);
    assert!(matches!(actions[..], [Action::Commit(_)]), "{actions:?}");
    let table = state.table().unwrap();
    assert_eq!((table.generation.0, table.version), (2, 1));
    assert_eq!(live(&state), ["b"]);
    assert_eq!(table.backends[1].addresses.len(), 1);
    assert!(Arc::ptr_eq(&table.pools[0].tally, &before.pools[0].tally));
    assert!(
        probed(&mut state, "a", 7, true, 9).is_empty(),
        "the old prober"
    );
    assert_eq!(probed(&mut state, "a", 8, true, 9).len(), 2);
}

#[test]
fn a_backend_that_is_no_longer_probed_is_unknown_again() {
    let mut state = State::new(at(0));
    adopt(&mut state, &plan(1), &[("a", 7)]);
    probed(&mut state, "a", 7, false, 5);
    adopt(&mut state, &plan(2), &[]);
    assert_eq!(live(&state), ["a", "b"]);
}

#[test]
fn a_pool_that_empties_and_fills_is_told_once() {
    let mut state = State::new(at(0));
    adopt(&mut state, &plan(1), &[("a", 1), ("b", 2)]);
    probed(&mut state, "a", 1, false, 2);
    let actions = probed(&mut state, "b", 2, false, 3);
    let told = |actions: &[Action], wanted: &Notice| {
        actions
            .iter()
            .any(|action| matches!(action, Action::Tell(notice) if notice == wanted))
    };
    assert!(told(&actions, &Notice::PoolEmpty("lb".into())));
    let actions = probed(&mut state, "b", 2, true, 4);
    assert!(told(&actions, &Notice::PoolServes("lb".into())));
    let actions = probed(&mut state, "a", 1, true, 5);
    assert!(!told(&actions, &Notice::PoolServes("lb".into())));
}

#[test]
fn addresses_are_published_only_when_the_set_changes() {
    let mut state = State::new(at(0));
    adopt(&mut state, &plan(1), &[]);
    let mut resolve = |addresses: &[&str]| {
        state.apply(Event::Resolved {
            host: "b.test".into(),
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
        })
    };
    assert_eq!(resolve(&["10.0.0.1", "10.0.0.2"]).len(), 2);
    assert_eq!(resolve(&["10.0.0.2", "10.0.0.1"]).len(), 0);
    assert_eq!(resolve(&["10.0.0.3"]).len(), 2);
}

#[test]
fn a_failed_resolution_keeps_the_last_addresses_and_is_told_once_per_streak() {
    let mut state = State::new(at(0));
    adopt(&mut state, &plan(1), &[]);
    let fail = |state: &mut State| {
        state.apply(Event::ResolutionFailed {
            host: "b.test".into(),
            error: "timeout".into(),
        })
    };
    let resolve = |state: &mut State| {
        state.apply(Event::Resolved {
            host: "b.test".into(),
            addresses: vec!["10.0.0.1".parse().unwrap()],
        })
    };
    let actions = fail(&mut state);
    assert!(matches!(
        actions[..],
        [Action::Tell(Notice::Unresolved {
            keeps_last: false,
            ..
        })]
    ));
    assert!(fail(&mut state).is_empty());
    resolve(&mut state);
    let actions = fail(&mut state);
    assert!(matches!(
        actions[..],
        [Action::Tell(Notice::Unresolved {
            keeps_last: true,
            ..
        })]
    ));
    assert_eq!(state.table().unwrap().backends[1].addresses.len(), 1);
}

#[test]
fn hosts_of_the_plan_before_are_forgotten() {
    let mut state = State::new(at(0));
    adopt(&mut state, &plan(1), &[]);
    state.apply(Event::Resolved {
        host: "b.test".into(),
        addresses: vec!["10.0.0.1".parse().unwrap()],
    });
    let other = Builder::default().origin("a", "127.0.0.1").plan(2);
    adopt(&mut state, &other, &[]);
    assert!(state.addresses("b.test").is_empty());
}

#[test]
fn a_member_whose_connections_fail_leaves_its_pool_and_comes_back_in_time() {
    let mut state = State::new(at(0));
    adopt_ejecting(&mut state, &plan(1), &[]);
    assert!(unreached(&mut state, "a", 1, 4).is_empty());
    let actions = unreached(&mut state, "a", 1, 5);
    assert!(
        matches!(&actions[..], [Action::Tell(Notice::Ejected { alb, member, failures: 2, .. }), Action::Publish(_)]
            if **alb == *"lb" && **member == *"a"),
        "{actions:?}"
    );
    assert_eq!(live(&state), ["b"]);
    assert_eq!(
        state.table().unwrap().backends[0].health,
        Health::Unknown,
        "its health is not touched"
    );
    assert_eq!(state.last_change(), at(5));
    assert!(unreached(&mut state, "b", 9, 6).is_empty(), "the last one");
    let due = state.ejections().next_return().unwrap();
    let early = Event::Due {
        now: due - Duration::from_millis(1),
        at: at(64),
    };
    assert!(state.apply(early).is_empty());
    let actions = state.apply(Event::Due {
        now: due,
        at: at(65),
    });
    let back = Why::TimeIsUp;
    assert!(
        matches!(&actions[..], [Action::Tell(Notice::Returned { why, .. }), Action::Publish(_)]
            if *why == back),
        "{actions:?}"
    );
    assert_eq!(live(&state), ["a", "b"]);
}

#[test]
fn nobody_is_ejected_without_a_rule() {
    let mut state = State::new(at(0));
    adopt(&mut state, &plan(1), &[]);
    assert!(unreached(&mut state, "a", 1000, 4).is_empty());
    assert!(unreached(&mut state, "ghost", 1000, 4).is_empty());
    assert_eq!(live(&state), ["a", "b"]);
}

#[test]
fn a_passing_probe_brings_back_though_health_did_not_change() {
    let mut state = State::new(at(0));
    adopt_ejecting(&mut state, &plan(1), &[("a", 7)]);
    probed(&mut state, "a", 7, true, 2);
    unreached(&mut state, "a", 2, 3);
    assert_eq!(live(&state), ["b"]);
    let actions = probed(&mut state, "a", 7, true, 4);
    assert!(
        matches!(
            &actions[..],
            [
                Action::Tell(Notice::Returned {
                    why: Why::ProbePassed,
                    ..
                }),
                Action::Publish(_)
            ]
        ),
        "{actions:?}"
    );
    assert_eq!(live(&state), ["a", "b"]);
}

#[test]
fn a_member_comes_back_when_the_others_go_down() {
    let mut state = State::new(at(0));
    adopt_ejecting(&mut state, &plan(1), &[("b", 7)]);
    unreached(&mut state, "a", 2, 3);
    assert_eq!(live(&state), ["b"]);
    probed(&mut state, "b", 7, false, 4);
    assert_eq!(live(&state), ["a"], "an ejected one is better than none");
}

#[test]
fn a_reload_keeps_who_is_ejected() {
    let mut state = State::new(at(0));
    adopt_ejecting(&mut state, &plan(1), &[]);
    unreached(&mut state, "a", 2, 3);
    adopt_ejecting(&mut state, &plan(2), &[]);
    assert_eq!(live(&state), ["b"]);
    adopt(&mut state, &plan(3), &[]);
    assert_eq!(live(&state), ["a", "b"], "unless nobody ejects any more");
}
