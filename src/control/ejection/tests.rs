//! Ejections as lists of what happens.

use super::*;
use crate::control::fixture::Builder;
use std::sync::Arc;

const POOL: PoolId = PoolId(0);
const TIME: Duration = Duration::from_secs(10);
const RULE: Rule = Rule {
    consecutive_failures: 3,
    time: TIME,
};

/// A pool of the first so many of `a`, `b`, `c`, …; the first is there twice, as a weight.
fn plan(members: usize) -> Arc<Plan> {
    let names = &["a", "b", "c", "d", "e"][..members];
    let builder = names.iter().fold(Builder::default(), |builder, name| {
        builder.origin(name, "127.0.0.1")
    });
    let mut pool: Vec<(&str, u32)> = names.iter().map(|name| (*name, 1)).collect();
    pool.push((names[0], 1));
    builder.alb("lb", 0, &pool).plan(1)
}

/// The machine, a clock, and who is down by health.
struct Rig {
    ejections: Ejections,
    plan: Arc<Plan>,
    start: Instant,
    down: Vec<u32>,
}

impl Rig {
    fn new(members: usize) -> Rig {
        let plan = plan(members);
        let mut ejections = Ejections::default();
        ejections.adopt(&plan, &[(POOL, RULE)]);
        Rig {
            ejections,
            plan,
            start: Instant::now(),
            down: Vec::new(),
        }
    }

    fn at(&self, second: u64) -> Instant {
        self.start + Duration::from_secs(second)
    }

    /// So many failures in a row, `answered` before them.
    fn fail(&mut self, member: u32, answered: bool, failures: u32, second: u64) -> Vec<What> {
        let now = self.at(second);
        let down = self.down.clone();
        let live = |_: PoolId, member: BackendId| !down.contains(&member.0);
        let member = BackendId(member);
        what(
            self.ejections
                .failed(member, answered, failures, now, &live),
        )
    }

    fn keep_halves(&mut self) -> Vec<What> {
        let down = self.down.clone();
        let live = |_: PoolId, member: BackendId| !down.contains(&member.0);
        what(self.ejections.keep_halves(&live))
    }

    fn time_passed(&mut self, second: u64) -> Vec<What> {
        let now = self.at(second);
        what(self.ejections.time_passed(now))
    }

    fn probe_passed(&mut self, member: u32, began: u64) -> Vec<What> {
        let began = self.at(began);
        what(self.ejections.probe_passed(BackendId(member), began))
    }

    fn out(&self) -> Vec<u32> {
        let ids = 0..self.plan.backends.len() as u32;
        ids.filter(|id| self.ejections.is_out(POOL, BackendId(*id)))
            .collect()
    }
}

fn what(changes: Vec<Change>) -> Vec<What> {
    assert!(changes.iter().all(|change| change.pool == POOL));
    changes.into_iter().map(|change| change.what).collect()
}

fn ejected(failures: u32, times: u32) -> Vec<What> {
    vec![What::Ejected {
        failures,
        time: TIME * times,
    }]
}

fn returned(why: Why) -> Vec<What> {
    vec![What::Returned(why)]
}

#[test]
fn only_failures_in_a_row_eject() {
    let mut rig = Rig::new(3);
    assert_eq!(rig.fail(0, false, 2, 0), []);
    assert_eq!(rig.fail(0, true, 2, 1), [], "an answer came between");
    assert_eq!(rig.fail(0, true, 0, 2), [], "only an answer");
    assert_eq!(rig.fail(0, false, 2, 3), []);
    assert_eq!(rig.fail(1, false, 1, 3), [], "another member");
    assert!(rig.out().is_empty());
    assert_eq!(rig.fail(0, false, 1, 4), ejected(3, 1));
    assert_eq!(rig.out(), [0]);
    assert_eq!(rig.ejections.next_return(), Some(rig.at(14)));
}

#[test]
fn reports_of_several_shards_add_up() {
    let mut rig = Rig::new(3);
    assert_eq!(rig.fail(2, true, 1, 0), [], "one shard");
    assert_eq!(rig.fail(2, false, 1, 0), [], "another");
    assert_eq!(rig.fail(2, false, 7, 0), ejected(9, 1));
}

#[test]
fn the_end_of_the_time_brings_back_and_counts_begin_anew() {
    let mut rig = Rig::new(3);
    rig.fail(0, false, 3, 0);
    assert_eq!(rig.fail(0, false, 9, 1), [], "requests from before it left");
    assert_eq!(rig.time_passed(9), []);
    assert_eq!(rig.time_passed(10), returned(Why::TimeIsUp));
    assert_eq!(rig.ejections.next_return(), None);
    assert_eq!(rig.fail(0, false, 2, 11), []);
    assert!(rig.out().is_empty());
}

#[test]
fn repeated_ejections_last_longer_up_to_a_bound() {
    let mut rig = Rig::new(3);
    let mut second = 0;
    for times in [1, 2, 3, 4, 5, 5] {
        assert_eq!(rig.fail(0, false, 3, second), ejected(3, times));
        second += u64::from(times) * 10;
        assert_eq!(rig.time_passed(second), returned(Why::TimeIsUp));
    }
    // It stays in for just less than long enough, then for long enough.
    second += 49;
    assert_eq!(rig.fail(0, false, 3, second), ejected(3, 5));
    second += 50;
    rig.time_passed(second);
    second += 50;
    assert_eq!(rig.fail(0, false, 3, second), ejected(3, 1));
}

#[test]
fn a_probe_that_began_later_brings_back() {
    let mut rig = Rig::new(3);
    rig.fail(0, false, 3, 5);
    assert_eq!(rig.probe_passed(0, 4), [], "it began before the failures");
    assert_eq!(rig.probe_passed(1, 6), [], "of another member");
    assert_eq!(rig.probe_passed(0, 6), returned(Why::ProbePassed));
    assert!(rig.out().is_empty());
}

#[test]
fn the_larger_half_of_the_members_stays() {
    for (members, ejectable) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)] {
        let mut rig = Rig::new(members);
        for member in 0..members as u32 {
            rig.fail(member, false, 3, 0);
        }
        assert_eq!(rig.out().len(), ejectable, "of {members}");
    }
}

#[test]
fn who_is_down_by_health_counts_as_away() {
    let mut rig = Rig::new(4);
    rig.down = vec![2, 3];
    assert_eq!(rig.fail(0, false, 3, 0), [], "half is away already");
    assert_eq!(rig.fail(2, false, 3, 0), [], "it gets no requests anyway");
    rig.down = vec![3];
    assert_eq!(rig.fail(0, false, 1, 1), ejected(4, 1), "now there is room");
}

#[test]
fn a_pool_that_loses_members_gets_ejected_ones_back() {
    let mut rig = Rig::new(4);
    rig.fail(0, false, 3, 0);
    rig.fail(1, false, 3, 1);
    assert_eq!(rig.keep_halves(), []);
    rig.down = vec![2];
    assert_eq!(rig.keep_halves(), returned(Why::PoolTooSmall));
    assert_eq!(rig.out(), [1], "who would have come back first did");
    rig.down = vec![2, 3, 1];
    assert_eq!(rig.keep_halves(), [], "who is down by health is of no help");
    assert_eq!(rig.out(), [1]);
}

#[test]
fn a_reload_keeps_ejections_by_name() {
    let mut rig = Rig::new(3);
    rig.fail(0, false, 3, 0);
    // Other ids, same names.
    let next = Builder::default()
        .origin("new", "127.0.0.1")
        .origin("b", "127.0.0.1")
        .origin("c", "127.0.0.1")
        .origin("a", "127.0.0.1")
        .alb("lb", 0, &[("a", 1), ("b", 1), ("new", 1)])
        .plan(2);
    rig.ejections.adopt(&next, &[(POOL, RULE)]);
    assert!(rig.ejections.is_out(POOL, BackendId(3)));
    assert!(!rig.ejections.is_out(POOL, BackendId(0)));
    let standings: Vec<Standing<'_>> = rig.ejections.standings().collect();
    let a = Standing {
        alb: "lb",
        member: "a",
        is_out: true,
        ejections: 1,
    };
    assert_eq!(standings.len(), 3);
    assert_eq!(standings[0], a);
    assert_eq!(rig.time_passed(10), returned(Why::TimeIsUp));
    // Without a rule nothing is known any more.
    rig.ejections.adopt(&next, &[]);
    assert_eq!(rig.ejections.standings().count(), 0);
    assert_eq!(rig.fail(3, false, 9, 11), []);
}
