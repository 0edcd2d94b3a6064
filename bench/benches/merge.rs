//! How fast answers are merged, for each way of combining them.
//!
//! Models three origins of 8 MB each (1,000 series of 240 points): reading all three, combining, and
//! writing the answer, in steps as a shard does it. Bytes per second count what the origins sent.
//! `distinct` has other series in every origin, as shards of a fleet do; `equal` has the same series
//! everywhere, as the partial results of an aggregation and HA replicas do.
//!
//! Before the timings it prints how much CPU single steps took: the shard serves nobody else meanwhile,
//! and 500 us is what a step may take. CPU time, because on a shared machine the wall clock also
//! counts the steps in which somebody else ran.
//!
//! The sum on paper: 24 MB at 0.5 GB/s are 48 ms of one core: about 20 such queries per second.

use std::hint::black_box;
use std::io::Write;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ringway_bench::fixtures::RangeAnswer;
use ringway_merge::{
    Answer, Arena, Endpoint, GroupSpec, MemberSpec, Merge, MergeOptions, Merged, Plan, PlanOptions,
    Progress, Slot, limits, plan,
};
use rustix::time::{ClockId, clock_gettime};

const ORIGINS: usize = 3;

/// One way of combining.
struct Case {
    name: &'static str,
    query: &'static str,
    shared_labels: bool,
    /// Whether the origins are replicas of one group.
    replicas: bool,
}

const CASES: [Case; 8] = [
    Case::groups("dedup_distinct", "x", false),
    Case::groups("dedup_equal", "x", true),
    Case {
        replicas: true,
        ..Case::groups("coalesce_replicas", "x", true)
    },
    Case::groups("sum_equal", "sum by (instance) (x)", true),
    Case::groups("min_equal", "min by (instance) (x)", true),
    Case::groups("max_equal", "max by (instance) (x)", true),
    Case::groups("group_equal", "group by (instance) (x)", true),
    // Two variants: every origin answers twice.
    Case::groups("avg_equal", "avg by (instance) (x)", true),
];

impl Case {
    const fn groups(name: &'static str, query: &'static str, shared_labels: bool) -> Self {
        Self {
            name,
            query,
            shared_labels,
            replicas: false,
        }
    }

    fn plan(&self) -> Plan {
        let options = PlanOptions::default();
        plan(&Endpoint::QueryRange, Some(self.query), &options)
    }

    fn group_specs(&self) -> Vec<GroupSpec> {
        let name = |origin: usize| format!("origin{origin}");
        if !self.replicas {
            return (0..ORIGINS).map(|o| GroupSpec::single(&name(o))).collect();
        }
        let members = (0..ORIGINS).map(|origin| MemberSpec {
            is_first: origin == 0,
            ..MemberSpec::new(&name(origin))
        });
        vec![GroupSpec {
            name: "replicas".to_owned(),
            members: members.collect(),
        }]
    }

    /// What the origins answer, one for each slot.
    fn answers(&self, variants: usize) -> Vec<(Slot, Vec<u8>)> {
        let mut answers = Vec::new();
        for origin in 0..ORIGINS {
            let fixture = RangeAnswer {
                shared_labels: self.shared_labels,
                ..RangeAnswer::EIGHT_MB.of_origin(origin)
            };
            let body = fixture.json().into_bytes();
            let (group, member) = if self.replicas {
                (0, origin)
            } else {
                (origin, 0)
            };
            for variant in 0..variants {
                let slot = Slot {
                    group,
                    member,
                    variant,
                };
                answers.push((slot, body.clone()));
            }
        }
        answers
    }
}

/// Merges as a shard does; `stepped` is called after every step.
fn merge(
    plan: &Plan,
    groups: &[GroupSpec],
    answers: Vec<(Slot, Vec<u8>)>,
    mut stepped: impl FnMut(),
) -> Merged {
    let arena = Arena::new(limits::ARENA_BYTES_DEFAULT, answers.len());
    let mut merge = Merge::new(&arena, plan, groups, MergeOptions::default());
    for (slot, body) in answers {
        merge.add(slot, Answer::new(200, body));
    }
    while merge.step(limits::STEP_UNITS_DEFAULT) != Progress::Done {
        stepped();
    }
    stepped();
    merge.finish()
}

fn strategies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("merge_3x8MB");
    group.sample_size(10);
    for case in &CASES {
        let (plan, groups) = (case.plan(), case.group_specs());
        let answers = case.answers(plan.variants.len());
        let bytes: usize = answers.iter().map(|(_, body)| body.len()).sum();
        let merged = merge(&plan, &groups, answers.clone(), || {});
        assert_eq!(merged.status, 200, "{}: {:?}", case.name, merged.failures);
        assert!(!merged.partial, "{}: {:?}", case.name, merged.warnings);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(case.name, |bencher| {
            bencher.iter_batched(
                || answers.clone(),
                |answers| black_box(merge(&plan, &groups, answers, || {})),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Prints the times of single steps of every case.
fn steps(_: &mut Criterion) {
    let mut out = std::io::stdout();
    for case in &CASES {
        let (plan, groups) = (case.plan(), case.group_specs());
        let answers = case.answers(plan.variants.len());
        let mut took: Vec<Duration> = Vec::new();
        for _ in 0..3 {
            let answers = answers.clone();
            let mut began = thread_cpu_time();
            merge(&plan, &groups, answers, || {
                took.push(thread_cpu_time() - began);
                began = thread_cpu_time();
            });
        }
        took.sort();
        let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
        let _ = writeln!(
            out,
            "steps of {}: {} per merge, p50 {:?}, p99 {:?}, longest {:?}",
            case.name,
            took.len() / 3,
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
}

/// The time that this thread has been on a CPU.
fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |value: i64| u64::try_from(value).expect("CPU time is not negative");
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

criterion_group!(benches, steps, strategies);
criterion_main!(benches);
