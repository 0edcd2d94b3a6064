//! Discovered members: what a snapshot changes, and what it leaves alone.

use super::*;
use crate::compile::Compiled;
use crate::compile::tests::valid;
use crate::config::origin_url::OriginUrl;
use ringway_shards::plan::{BackendKind, Scheme};

const YAML: &str = "
discovery:
  d: {provider: file}
backends:
  s: {provider: prometheus, origin_url: 'http://192.0.2.1:9090'}
  t: {provider: prometheus, is_template: true, healthcheck: {interval: 5s, query: q=1}}
  lb:
    provider: alb
    alb:
      mechanism: tsm
      pool: [s]
      discovery: {discoverer_name: d, template_backend: t, query: {path: /x}, MORE}
";

struct Bed {
    base: Plan,
    members: Members,
}

impl Bed {
    fn new(more: &str) -> Bed {
        Bed::after(more, &Members::default())
    }

    fn after(more: &str, before: &Members) -> Bed {
        let Compiled { plan, control } = valid(&YAML.replace("MORE", more));
        let members = Members::new(&plan, Arc::new(control), before);
        Bed {
            base: plan,
            members,
        }
    }

    fn offer(&mut self, found: &[Member]) -> Verdict {
        self.members.offer(0, &Snapshot::new(found.to_vec()), false)
    }

    fn apply(&mut self, found: &[Member]) -> Difference {
        match self.offer(found) {
            Verdict::Applied(difference) => difference,
            other => panic!("{other:?}"),
        }
    }

    /// Name, origin and weight of each member of the pool, ids being checked.
    fn pool(&self) -> Vec<(String, String, u32)> {
        let plan = self.members.plan(&self.base);
        for (index, backend) in plan.backends.iter().enumerate() {
            assert_eq!(backend.id.index(), index, "{}", backend.name);
        }
        let shown = |member: &PoolMember| {
            let backend = plan.backend(member.backend);
            let BackendKind::Origin(origin) = &backend.kind else {
                panic!("{}", backend.name);
            };
            let at = format!("{}:{}{}", origin.host, origin.port, origin.path_prefix);
            (backend.name.to_string(), at, member.weight)
        };
        plan.pools[0].members.iter().map(shown).collect()
    }

    fn backend(&self, name: &str) -> Arc<Backend> {
        let plan = self.members.plan(&self.base);
        let found = plan.backends.iter().find(|backend| *backend.name == *name);
        found.unwrap().clone()
    }
}

fn member(name: &str, host: &str) -> Member {
    let mut member = Member::at(Scheme::Http, host, 80);
    member.name = name.into();
    member
}

fn named(list: &[(Box<str>, String)]) -> Vec<&str> {
    list.iter().map(|(name, _)| &**name).collect()
}

#[test]
fn discovered_members_come_behind_static_ones_by_name() {
    let mut bed = Bed::new("");
    assert_eq!(bed.pool().len(), 1);
    let difference = bed.apply(&[member("b", "192.0.2.3"), member("a", "192.0.2.4")]);
    assert_eq!(named(&difference.added), ["lb-b", "lb-a"]);
    let names: Vec<String> = bed.pool().into_iter().map(|(name, _, _)| name).collect();
    assert_eq!(names, ["s", "lb-a", "lb-b"]);
    assert_eq!(
        bed.offer(&[member("a", "192.0.2.4"), member("b", "192.0.2.3")]),
        Verdict::Unchanged
    );
    let difference = bed.apply(&[]);
    assert_eq!(named(&difference.removed), ["lb-a", "lb-b"]);
    assert_eq!(bed.pool().len(), 1);
}

#[test]
fn who_stays_keeps_its_backend_whoever_leaves() {
    let mut bed = Bed::new("");
    let all: Vec<Member> = (1..=5)
        .map(|n| member(&format!("m{n}"), &format!("192.0.2.{n}")))
        .collect();
    bed.apply(&all);
    let before: Vec<Arc<Backend>> = (1..=5).map(|n| bed.backend(&format!("lb-m{n}"))).collect();
    // The last takes the place of the first that left; the others are not touched.
    bed.apply(&all[1..]);
    for n in 2..=4 {
        assert!(
            Arc::ptr_eq(&before[n - 1], &bed.backend(&format!("lb-m{n}"))),
            "m{n}"
        );
    }
    assert_eq!(bed.backend("lb-m5").id, before[0].id);
    assert_eq!(bed.pool().len(), 5);
}

#[test]
fn a_change_of_address_or_group_rebuilds_in_place_and_a_change_of_weight_does_not() {
    let mut bed = Bed::new("");
    bed.apply(&[member("a", "192.0.2.4")]);
    let first = bed.backend("lb-a");

    let mut heavier = member("a", "192.0.2.4");
    heavier.weight = 7;
    heavier.ready = Readiness::Ready;
    heavier.label("zone", "z");
    assert_eq!(bed.apply(&[heavier.clone()]), Difference::default());
    assert!(Arc::ptr_eq(&first, &bed.backend("lb-a")));
    assert_eq!(bed.pool()[1].2, 7);

    let mut grouped = heavier.clone();
    grouped.replica_group = "g".into();
    let difference = bed.apply(&[grouped]);
    assert_eq!(named(&difference.rebuilt), ["lb-a"]);
    assert!(difference.added.is_empty() && difference.removed.is_empty());
    assert_eq!(
        (&*bed.backend("lb-a").replica_group, bed.backend("lb-a").id),
        ("g", first.id)
    );

    let difference = bed.apply(&[member("a", "192.0.2.5")]);
    assert_eq!(named(&difference.rebuilt), ["lb-a"]);
    assert_eq!(bed.pool()[1].1, "192.0.2.5:80");
    assert_eq!(&*bed.backend("lb-a").replica_group, "lb-a");
}

#[test]
fn another_member_at_an_address_is_not_taken_for_the_one_before() {
    let mut bed = Bed::new("");
    bed.apply(&[member("old", "192.0.2.1"), member("b", "192.0.2.2")]);
    let difference = bed.apply(&[member("new", "192.0.2.1"), member("b", "192.0.2.2")]);
    assert_eq!(named(&difference.added), ["lb-new"]);
    assert_eq!(named(&difference.removed), ["lb-old"]);
    // Both at once, each with the other's address.
    let difference = bed.apply(&[member("b", "192.0.2.1"), member("new", "192.0.2.2")]);
    assert_eq!(named(&difference.rebuilt), ["lb-b", "lb-new"]);
    assert!(difference.added.is_empty() && difference.removed.is_empty());
    let places = |bed: &Bed| {
        let pool = bed.pool().into_iter().skip(1);
        pool.map(|(name, at, _)| format!("{name} {at}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(places(&bed), ["lb-b 192.0.2.1:80", "lb-new 192.0.2.2:80"]);
    // Keys and names still belong together.
    let difference = bed.apply(&[member("b", "192.0.2.1")]);
    assert_eq!(named(&difference.removed), ["lb-new"]);
    assert_eq!(places(&bed), ["lb-b 192.0.2.1:80"]);
}

#[test]
fn a_place_that_makes_no_origin_fails_alone() {
    let mut bed = Bed::new("");
    let hostile = "h/../?x=\r\nHost: other";
    assert!(OriginUrl::parse(&format!("http://{hostile}")).is_err());
    let difference = bed.apply(&[member("a", "192.0.2.4"), member("b", hostile)]);
    assert_eq!(named(&difference.added), ["lb-a"]);
    assert_eq!(named(&difference.failed), ["lb-b"]);
    assert_eq!(bed.pool().len(), 2);
    // It is tried again with the next reading, though that says the same.
    let again = bed.apply(&[member("a", "192.0.2.4"), member("b", hostile)]);
    assert_eq!(named(&again.failed), ["lb-b"]);
}

#[test]
fn guard_rails_hold_a_snapshot_back() {
    let two = [member("a", "192.0.2.4"), member("b", "192.0.2.5")];
    let mut bed = Bed::new("min_members: 2");
    assert!(matches!(bed.offer(&two[..1]), Verdict::Rejected(why) if why.contains("min_members")));
    bed.apply(&two);
    assert!(matches!(bed.offer(&[]), Verdict::Rejected(_)));
    assert_eq!(bed.pool().len(), 3);

    let mut bed = Bed::new("max_shrink: 50");
    bed.apply(&two);
    assert!(matches!(bed.offer(&[]), Verdict::Rejected(why) if why.contains("max_shrink")));
    // Half may go; and what a reload reads again counts whatever it takes away.
    bed.apply(&two[..1]);
    let all_gone = bed.members.offer(0, &Snapshot::default(), true);
    assert!(matches!(all_gone, Verdict::Applied(_)));
}

#[test]
fn a_reload_carries_members_over_to_the_template_of_now() {
    let mut bed = Bed::new("");
    bed.apply(&[member("a", "192.0.2.4"), member("a", "192.0.2.5")]);
    let before = bed.pool();
    let after = Bed::after("min_members: 1", &bed.members);
    assert_eq!(after.pool(), before);
}

#[test]
fn probes_follow_the_member_but_for_what_is_written() {
    let mut bed = Bed::new("");
    let mut tls = member("a", "a.example");
    tls.scheme = Scheme::Https;
    tls.port = 9443;
    tls.path_prefix = "/p".into();
    bed.apply(&[tls]);
    let check = bed.members.check("lb-a").unwrap();
    assert_eq!(
        (&*check.host, check.port, check.scheme),
        ("a.example", 9443, Scheme::Https)
    );
    assert_eq!(
        (&*check.authority, &*check.target),
        ("a.example:9443", "/p/api/v1/query?q=1")
    );
    assert!(check.tls.is_some());
    assert_eq!(check.backend, bed.backend("lb-a").id);
}

#[test]
fn the_source_decides_where_it_was_told_to_and_says_anything() {
    let mut bed = Bed::new("health_mode: provider");
    let mut ready = member("a", "192.0.2.4");
    ready.ready = Readiness::Ready;
    bed.apply(&[ready, member("b", "192.0.2.5")]);
    assert!(bed.members.check("lb-a").is_none());
    assert!(bed.members.check("lb-b").is_some());
    assert!(bed.members.check_on_demand("lb-a").is_some());
    let standing = bed.members.standings()["lb-a"];
    assert_eq!(
        (standing.mode, standing.ready),
        (HealthMode::Provider, Readiness::Ready)
    );
}

#[test]
fn rotations_over_the_weights_of_a_source_stay_bounded() {
    let mut pool: Vec<PoolMember> = (0..100u32)
        .map(|n| PoolMember {
            backend: BackendId(n),
            weight: 1 + n * 999_983,
        })
        .collect();
    fit_rotation(&mut pool);
    assert!(rotation_length(pool.iter().map(|m| m.weight)) <= TURNS_MAX);
    assert!(pool.iter().all(|member| member.weight >= 1));
    assert!(pool[99].weight > 90 * pool[1].weight);
}
