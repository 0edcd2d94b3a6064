//! How fast answers are merged, for each way of combining them.
//!
//! Models three origins of 8 MB each (1,000 series of 240 points): reading all three, combining, and
//! writing the answer, in steps as a shard does it. Bytes per second count what the origins sent.
//! `distinct` has other series in every origin, as shards of a fleet do; `equal` has the same series
//! everywhere, as the partial results of an aggregation and HA replicas do, and `identical` has the
//! same values too, as groups that scrape the same targets mostly do. Of `dedup_equal` the first round is measured: of
//! series that groups share with other values a shard asks for the times too, and merges again.
//!
//! Before the timings it prints figures for each case: the median CPU time of a merge, beside a copy
//! of the same bytes (the least that touching them can cost) and simd-json building its tapes of
//! them; how long single steps took; and the peak of memory over the bytes received. CPU time,
//! because on a shared machine the wall clock also counts what somebody else ran. A step may take
//! 500 us: the shard serves nobody else meanwhile. `-- --figures [CASE]` prints these alone, and
//! `-- --once [CASE]` merges once and prints nothing, for profilers.
//!
//! The allocator keeps freed memory, as it does in the product.
//!
//! The sum on paper: 24 MB at 0.7 GB/s are 35 ms of one core: about 28 such queries per second.

#[path = "merge/memory.rs"]
mod memory;

use std::hint::black_box;
use std::io::Write;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group};
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
    /// Whether every origin has the same values.
    same_values: bool,
    /// Whether the origins are replicas of one group.
    replicas: bool,
}

const CASES: [Case; 9] = [
    Case::groups("dedup_distinct", "x", false),
    Case::groups("dedup_equal", "x", true),
    Case {
        same_values: true,
        ..Case::groups("dedup_identical", "x", true)
    },
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
            same_values: false,
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
                ..RangeAnswer::EIGHT_MB.of_origin(if self.same_values { 0 } else { origin })
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
#[inline(never)]
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

/// Merges once, and makes sure that all of it was merged.
fn check(case: &Case, plan: &Plan, groups: &[GroupSpec], answers: Vec<(Slot, Vec<u8>)>) {
    let merged = merge(plan, groups, answers, || {});
    assert_eq!(merged.status, 200, "{}: {:?}", case.name, merged.failures);
    assert!(!merged.partial, "{}: {:?}", case.name, merged.warnings);
}

fn strategies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("merge_3x8MB");
    group.sample_size(10);
    for case in &CASES {
        let (plan, groups) = (case.plan(), case.group_specs());
        let answers = case.answers(plan.variants.len());
        let bytes: usize = answers.iter().map(|(_, body)| body.len()).sum();
        check(case, &plan, &groups, answers.clone());
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

/// Prints the figures of the cases whose name contains `filter`.
fn figures(runs: usize, filter: &str) {
    for case in CASES.iter().filter(|case| case.name.contains(filter)) {
        let (plan, groups) = (case.plan(), case.group_specs());
        let answers = case.answers(plan.variants.len());
        if runs == 1 {
            check(case, &plan, &groups, answers);
            continue;
        }
        check(case, &plan, &groups, answers.clone());
        let bytes: usize = answers.iter().map(|(_, body)| body.len()).sum();
        let merging = median_cpu(
            runs,
            || answers.clone(),
            |answers| merge(&plan, &groups, answers, || {}),
        );
        let mut out = std::io::stdout();
        let _ = writeln!(
            out,
            "{}: CPU {:.1} ms per merge, {:.2} GB/s",
            case.name,
            merging.as_secs_f64() * 1e3,
            bytes as f64 / merging.as_secs_f64() / 1e9
        );
        let mut target: Vec<Vec<u8>> = answers.iter().map(|(_, body)| body.clone()).collect();
        let copying = median_cpu(
            runs,
            || (),
            |()| {
                for (to, (_, from)) in target.iter_mut().zip(&answers) {
                    black_box(&mut to[..]).copy_from_slice(black_box(from));
                }
            },
        );
        let taping = median_cpu(
            runs,
            || answers.clone(),
            |mut answers| {
                for (_, body) in &mut answers {
                    black_box(simd_json::to_tape(body).expect("the fixture is JSON"));
                }
            },
        );
        let received = answers.clone();
        let (peak, _) = memory::peak(|| merge(&plan, &groups, received, || {}));
        let _ = writeln!(
            out,
            "  memcpy {:.1} ms, simd-json tape {:.1} ms; peak memory {:.2} of the bytes received",
            copying.as_secs_f64() * 1e3,
            taping.as_secs_f64() * 1e3,
            1.0 + peak as f64 / bytes as f64
        );
        print_steps(&mut out, &plan, &groups, &answers);
    }
}

/// The median CPU time of `work`, each time on new input.
fn median_cpu<I, O>(runs: usize, input: impl Fn() -> I, mut work: impl FnMut(I) -> O) -> Duration {
    let mut took: Vec<Duration> = Vec::with_capacity(runs);
    for _ in 0..runs {
        let input = input();
        let began = thread_cpu_time();
        let output = work(input);
        took.push(thread_cpu_time() - began);
        black_box(output);
    }
    took.sort();
    took[took.len() / 2]
}

/// Prints how long single steps took, in five runs.
fn print_steps(
    out: &mut impl Write,
    plan: &Plan,
    groups: &[GroupSpec],
    answers: &[(Slot, Vec<u8>)],
) {
    let mut took: Vec<Duration> = Vec::new();
    let mut longest: Vec<Duration> = Vec::new();
    for _ in 0..5 {
        let answers = answers.to_vec();
        let first = took.len();
        let mut began = thread_cpu_time();
        merge(plan, groups, answers, || {
            took.push(thread_cpu_time() - began);
            began = thread_cpu_time();
        });
        longest.extend(took[first..].iter().max());
    }
    took.sort();
    longest.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    let _ = writeln!(
        out,
        "  steps: {} per merge, p50 {:?}, p99 {:?}; longest of a run {:?} (median), {:?} (most)",
        took.len() / 5,
        at(0.5),
        at(0.99),
        longest[longest.len() / 2],
        at(1.0)
    );
}

/// The time that this thread has been on a CPU.
fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |value: i64| u64::try_from(value).expect("CPU time is not negative");
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

criterion_group!(benches, strategies);

fn main() {
    ringway_io::memory::keep_freed();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_given = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let runs = if is_given("--once") { 1 } else { 15 };
    figures(runs, filter.map_or("", String::as_str));
    if runs > 1 && !is_given("--figures") {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
