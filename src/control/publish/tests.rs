//! Tables from states: who is live, whose turn it is.

use super::*;
use crate::control::fixture::Builder;

use Health::{Available as Up, Unavailable as Down, Unknown};

fn table(plan: &Plan, health: &[Health]) -> PoolTable {
    let addresses = vec![Arc::default(); plan.backends.len()];
    let tallies = vec![Arc::default(); plan.pools.len()];
    let facts = Facts {
        health,
        addresses: &addresses,
        tallies: &tallies,
        hosts: Arc::default(),
        is_out: &|_, _| false,
    };
    pool_table(plan, &facts, 1)
}

fn names(pool: &Pool) -> Vec<&str> {
    pool.live
        .iter()
        .map(|member| &*member.backend.name)
        .collect()
}

fn picks(pool: &Pool, n: usize) -> Vec<&str> {
    (0..n)
        .map(|_| {
            pool.next_member()
                .map_or("none", |member| &member.backend.name)
        })
        .collect()
}

#[test]
fn floors_admit_by_health_in_configured_order() {
    let health = [Down, Unknown, Up, Unknown];
    for (floor, live) in [
        (-1, vec!["c", "a", "b"]),
        (0, vec!["c", "b"]),
        (1, vec!["c"]),
    ] {
        let plan = Builder::default()
            .origin("a", "a")
            .origin("b", "b")
            .origin("c", "c")
            .alb("lb", floor, &[("c", 1), ("a", 1), ("b", 1)])
            .plan(1);
        let table = table(&plan, &health);
        assert_eq!(names(&table.pools[0]), live, "floor {floor}");
    }
}

#[test]
fn any_window_of_the_total_weight_is_exact() {
    let plan = Builder::default()
        .origin("a", "a")
        .origin("b", "b")
        .origin("c", "c")
        .alb("lb", 0, &[("a", 1), ("b", 2), ("c", 3)])
        .plan(1);
    let table = table(&plan, &[Unknown; 4]);
    let seen = picks(&table.pools[0], 600);
    for window in seen.windows(6) {
        for (name, weight) in [("a", 1), ("b", 2), ("c", 3)] {
            assert_eq!(window.iter().filter(|pick| **pick == name).count(), weight);
        }
    }
}

#[test]
fn heavy_members_do_not_burst() {
    assert_eq!(*turns(&[1, 2, 3]), [2, 1, 0, 2, 1, 2]);
    assert_eq!(*turns(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
    assert_eq!(*turns(&[1, 1, 1]), [0, 1, 2]);
    assert_eq!(*turns(&[7]), [0]);
    assert_eq!(*turns(&[]), [0u32; 0]);
}

/// The rotation as it is defined, member after member at each turn.
fn turns_one_by_one(weights: &[u32]) -> Vec<u32> {
    let total: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
    let mut credit = vec![0; weights.len()];
    let turn = |_| {
        let mut first = 0;
        for (index, weight) in weights.iter().enumerate() {
            credit[index] += i64::from(*weight);
            if credit[index] > credit[first] {
                first = index;
            }
        }
        credit[first] -= total;
        u32::try_from(first).unwrap()
    };
    (0..total).map(turn).collect()
}

#[test]
fn members_of_one_weight_take_the_turns_that_are_theirs() {
    // Every pool of up to five members with weights up to four, and wider ones by a fixed generator.
    let mut pools: Vec<Vec<u32>> = vec![vec![]];
    for _ in 0..5 {
        let longer = pools
            .iter()
            .flat_map(|pool| (1..=4).map(|weight| [pool.as_slice(), &[weight]].concat()));
        let longer: Vec<Vec<u32>> = longer.collect();
        pools.extend(longer);
    }
    let mut seed = 1_u32;
    let mut next = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % below
    };
    for _ in 0..200 {
        let count = next(40);
        pools.push((0..count).map(|_| 1 + next(12)).collect());
    }
    for mut pool in pools {
        // The smallest common weight, so that both have as many turns.
        pool.push(1);
        assert_eq!(*turns(&pool), turns_one_by_one(&pool), "{pool:?}");
    }
}

#[test]
fn weights_are_reduced_by_their_divisor() {
    assert_eq!(rotation_length([100, 200, 300].into_iter()), 6);
    assert_eq!(turns(&[100, 200, 300]), turns(&[1, 2, 3]));
    assert_eq!(rotation_length(std::iter::empty()), 0);
    let widest = u64::from(u32::MAX) + u64::from(u32::MAX - 1);
    assert_eq!(
        rotation_length([u32::MAX, u32::MAX - 1].into_iter()),
        widest
    );
}

#[test]
fn the_longest_rotation_is_exact() {
    let heavy = u32::try_from(TURNS_MAX).unwrap() - 1;
    let turns = turns(&[heavy, 1]);
    assert_eq!(turns.len() as u64, TURNS_MAX);
    assert_eq!(turns.iter().filter(|member| **member == 1).count(), 1);
}

#[test]
fn longer_rotations_are_named() {
    let pool = |heavy| {
        Builder::default()
            .origin("a", "a")
            .origin("b", "b")
            .alb("lb", 0, &[("a", heavy), ("b", 1)])
            .plan(1)
    };
    let longest = u32::try_from(TURNS_MAX).unwrap() - 1;
    assert!(overlong_rotations(&pool(longest)).is_empty());
    let problems = overlong_rotations(&pool(longest + 1));
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].starts_with("backends.lb.alb.pool: "),
        "{problems:?}"
    );
}

#[test]
fn a_repeated_name_is_a_slot_each_time() {
    let plan = Builder::default()
        .origin("a", "a")
        .origin("b", "b")
        .alb("lb", 0, &[("a", 1), ("b", 1), ("a", 1)])
        .plan(1);
    let table = table(&plan, &[Unknown; 3]);
    assert_eq!(names(&table.pools[0]), ["a", "b", "a"]);
    assert_eq!(picks(&table.pools[0], 3), ["a", "b", "a"]);
}

#[test]
fn a_nested_alb_is_available_iff_a_member_below_is_live() {
    let plan = Builder::default()
        .origin("a", "a")
        .origin("b", "b")
        .alb("inner", 0, &[("a", 1)])
        .alb("middle", 1, &[("inner", 1)])
        .alb("outer", 0, &[("middle", 1), ("b", 1)])
        .plan(1);
    for (a, live) in [
        (Up, vec!["middle", "b"]),
        (Unknown, vec!["middle", "b"]),
        (Down, vec!["b"]),
    ] {
        let table = table(&plan, &[a, Unknown, Unknown, Unknown, Unknown]);
        assert_eq!(names(&table.pools[2]), live);
        let inner = if a == Down { Down } else { Up };
        assert_eq!(table.backends[2].health, inner);
        assert_eq!(table.backends[3].health, inner);
        assert_eq!(table.backends[4].health, Up);
    }
}

#[test]
fn a_member_may_be_configured_before_what_is_below_it() {
    let plan = Builder::default()
        .alb("outer", 1, &[("+1", 1)])
        .alb("inner", 0, &[("+1", 1)])
        .origin("a", "a")
        .plan(1);
    assert_eq!(names(&table(&plan, &[Unknown; 3]).pools[0]), ["inner"]);
    assert!(
        table(&plan, &[Unknown, Unknown, Down]).pools[0]
            .live
            .is_empty()
    );
}

#[test]
fn an_empty_pool_has_no_turns() {
    let plan = Builder::default()
        .origin("a", "a")
        .alb("lb", 0, &[("a", 1)])
        .plan(1);
    let table = table(&plan, &[Down, Unknown]);
    assert!(table.pools[0].turns.is_empty());
    assert_eq!(picks(&table.pools[0], 1), ["none"]);
}

#[test]
fn replica_groups_are_those_of_all_members_in_order() {
    let plan = Builder::default()
        .origin("a1/a", "h1")
        .origin("b", "h2")
        .origin("a2/a", "h3")
        .alb("lb", 0, &[("b", 1), ("a1", 1), ("a2", 1)])
        .plan(1);
    let table = table(&plan, &[Up, Down, Up, Unknown]);
    let pool = &table.pools[0];
    let groups: Vec<&str> = pool.groups.iter().map(|group| &*group.name).collect();
    assert_eq!(groups, ["b", "a"]);
    let members: Vec<(&str, u32)> = pool
        .live
        .iter()
        .map(|member| (&*member.backend.name, member.group))
        .collect();
    assert_eq!(members, [("a1", 1), ("a2", 1)]);
}
