//! How fast a range answer is read.
//!
//! Models one origin's answer of 8 MB (1,000 series of 240 points) that arrives whole. The merge waits for
//! a second origin that never comes, so what is timed is the reading of the first: cutting it into
//! series, labels and samples. Beside it, on the same bytes: simd-json building its tape, which is
//! the general road; and a copy, which is the least that touching them can cost.
//!
//! The sum on paper: three answers of 8 MB at 1 GB/s are 24 ms of one core, in 80 steps of 300 us.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ringway_bench::fixtures::RangeAnswer;
use ringway_merge::{
    Answer, Arena, Endpoint, GroupSpec, Merge, MergeOptions, PlanOptions, Progress, Slot, limits,
    plan,
};

/// The first of two groups.
const FIRST: Slot = Slot {
    group: 0,
    member: 0,
    variant: 0,
};

fn read_one_of_two(body: Vec<u8>, query: &str) {
    let plan = plan(&Endpoint::QueryRange, Some(query), &PlanOptions::default());
    let groups = [GroupSpec::single("first"), GroupSpec::single("never")];
    let arena = Arena::new(limits::ARENA_BYTES_DEFAULT, groups.len());
    let mut merge = Merge::new(&arena, &plan, &groups, MergeOptions::default());
    merge.add(FIRST, Answer::new(200, body));
    loop {
        match merge.step(limits::STEP_UNITS_DEFAULT) {
            Progress::More => {}
            Progress::Starved => break,
            Progress::Done => unreachable!("the second group has not been reported"),
        }
    }
    black_box(&merge);
}

fn parse(criterion: &mut Criterion) {
    let many_points = RangeAnswer::EIGHT_MB;
    // The same bytes in another shape: labels and per-series work weigh most.
    let many_series = RangeAnswer {
        series: 36_000,
        points: 1,
        ..RangeAnswer::EIGHT_MB
    };
    for (name, answer) in [("many_points", many_points), ("many_series", many_series)] {
        let text = answer.json().into_bytes();
        let mut group = criterion.benchmark_group(format!("parse_{name}"));
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.sample_size(10);
        for (kind, query) in [("dedup", "x"), ("sum", "sum by (instance) (x)")] {
            group.bench_function(format!("ringway_for_{kind}"), |bencher| {
                bencher.iter_batched(
                    || text.clone(),
                    |body| read_one_of_two(body, query),
                    BatchSize::PerIteration,
                );
            });
        }
        group.bench_function("simd_json_tape", |bencher| {
            bencher.iter_batched_ref(
                || text.clone(),
                |body| {
                    black_box(simd_json::to_tape(body).expect("the fixture is JSON"));
                },
                BatchSize::PerIteration,
            );
        });
        let mut target = vec![0; text.len()];
        group.bench_function("memcpy", |bencher| {
            bencher.iter(|| black_box(&mut target[..]).copy_from_slice(black_box(&text)));
        });
        group.finish();
    }
}

criterion_group!(benches, parse);
criterion_main!(benches);
