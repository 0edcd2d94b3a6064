//! A slow and obvious model of the merge, and random inputs that must agree with it.

mod in_step;

use std::collections::{BTreeMap, BTreeSet};

use simd_json::prelude::*;

use super::*;
use crate::limits::ARENA_BYTES_DEFAULT;
use crate::number::write_float;
use crate::plan::{PlanOptions, plan};
use crate::random::Random;
use crate::strategy::Strategy;

type Labels = BTreeMap<String, String>;
type Samples = BTreeMap<i64, f64>;
type Data = BTreeMap<Labels, Samples>;

const LABEL_SETS: [&[(&str, &str)]; 7] = [
    &[],
    &[("a", "1")],
    &[("a", "1"), ("b", "x\"y\\z\n")],
    &[("a", "10")],
    &[("a", "2"), ("z", "日")],
    &[("b", "")],
    &[("__name__", "up"), ("a", "1!")],
];

const VALUES: [f64; 20] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.5,
    0.1,
    0.2,
    1e-7,
    123456.789,
    1e25,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    5e-324,
    57.12345678901234,
    -57.123456789012345,
    0.12345678901234567,
    9007199254740994.0,
    123456789012345680.0,
    1234567890123456.8,
];

fn random_data(random: &mut Random, is_vector: bool) -> Data {
    let mut data = Data::new();
    for set in LABEL_SETS {
        if random.one_in(3) {
            continue;
        }
        let labels: Labels = set
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let mut samples = Samples::new();
        for step in 0..if is_vector { 1 } else { 8 } {
            if is_vector || !random.one_in(3) {
                let half = if random.one_in(2) { 500 } else { 0 };
                // The seconds get another digit on the way.
                let time = match is_vector {
                    true => 7000,
                    false => 9_999_996_000 + step * 1000 + half,
                };
                samples.insert(time, VALUES[random.below(VALUES.len())]);
            }
        }
        data.insert(labels, samples);
    }
    data
}

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    write_string(&mut out, text);
    String::from_utf8(out).unwrap()
}

/// Writes data in one of the many forms that JSON allows.
fn render(random: &mut Random, data: &Data, is_vector: bool) -> Vec<u8> {
    let is_odd = random.one_in(3);
    let mut series: Vec<String> = Vec::new();
    for (labels, samples) in data {
        let mut pairs: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)))
            .collect();
        if random.one_in(4) {
            pairs.reverse();
        }
        let mut texts = Vec::new();
        for (time, value) in samples {
            let mut number = Vec::new();
            write_float(&mut number, *value);
            let number = String::from_utf8(number).unwrap();
            texts.push(match (is_odd && random.one_in(2), value.is_finite()) {
                (true, true) => format!("[ {}.{:03}0 , \"{value:e}\" ]", time / 1000, time % 1000),
                (true, false) => format!("[{}e-3,\"{number}\"]", time),
                _ if time % 1000 == 0 => format!("[{},\"{number}\"]", time / 1000),
                _ => format!("[{}.{:03},\"{number}\"]", time / 1000, time % 1000),
            });
        }
        let metric = format!("\"metric\":{{{}}}", pairs.join(","));
        let separator = if is_odd && random.one_in(2) {
            ", "
        } else {
            ","
        };
        let samples = match is_vector {
            true => format!("\"value\":{}", texts[0]),
            false => format!("\"values\":[{}]", texts.join(separator)),
        };
        series.push(match random.one_in(5) {
            true => format!("{{{samples},{metric}}}"),
            false => format!("{{{metric},{samples}}}"),
        });
    }
    if random.one_in(3) {
        series.reverse();
    }
    let kind = if is_vector { "vector" } else { "matrix" };
    let data = format!(
        "\"data\":{{\"resultType\":\"{kind}\",\"result\":[{}]}}",
        series.join(",")
    );
    match random.one_in(3) {
        true => format!("{{{data},\"status\":\"success\"}}"),
        false => format!("{{\"status\":\"success\",{data}}}"),
    }
    .into_bytes()
}

/// The model: what each member said, by group; `None` failed.
fn expected(strategy: Strategy, groups: &[Vec<Option<Data>>]) -> (Data, u64) {
    let mut conflicts = 0;
    let mut reduced: BTreeMap<Labels, BTreeMap<i64, Vec<f64>>> = BTreeMap::new();
    for members in groups {
        let mut coalesced = Data::new();
        let mut disputed = BTreeSet::new();
        for (labels, samples) in members.iter().flatten().flatten() {
            let kept = coalesced.entry(labels.clone()).or_default();
            for (time, value) in samples {
                let first = *kept.entry(*time).or_insert(*value);
                if first != *value && !(first.is_nan() && value.is_nan()) {
                    disputed.insert((labels.clone(), *time));
                }
            }
        }
        conflicts += disputed.len() as u64;
        for (labels, samples) in coalesced {
            for (time, value) in samples {
                reduced
                    .entry(labels.clone())
                    .or_default()
                    .entry(time)
                    .or_default()
                    .push(value);
            }
        }
    }
    let combine = |values: &[f64]| match strategy {
        Strategy::Sum => {
            let (mut sum, mut lost) = (values[0], 0.0);
            for value in &values[1..] {
                let total: f64 = sum + value;
                lost = match total.is_infinite() {
                    true => 0.0,
                    false if sum.abs() >= value.abs() => lost + ((sum - total) + value),
                    false => lost + ((value - total) + sum),
                };
                sum = total;
            }
            if lost == 0.0 { sum } else { sum + lost }
        }
        Strategy::Min => values
            .iter()
            .copied()
            .reduce(|a, b| if b < a || a.is_nan() { b } else { a })
            .unwrap(),
        Strategy::Max => values
            .iter()
            .copied()
            .reduce(|a, b| if b > a || a.is_nan() { b } else { a })
            .unwrap(),
        Strategy::Pick => values
            .iter()
            .copied()
            .find(|v| !v.is_nan())
            .unwrap_or(values[0]),
        Strategy::Dedup | Strategy::Group | Strategy::Mean | Strategy::Freshest => values[0],
    };
    let data = reduced
        .into_iter()
        .map(|(labels, samples)| {
            (
                labels,
                samples
                    .into_iter()
                    .map(|(time, values)| (time, combine(&values)))
                    .collect(),
            )
        })
        .collect();
    (data, conflicts)
}

/// Reads a merged body back, and checks its order.
fn read_back(body: &[u8], is_sorted: bool) -> Data {
    let mut bytes = body.to_vec();
    let value = simd_json::to_owned_value(&mut bytes).expect("valid JSON");
    let mut data = Data::new();
    let mut order = Vec::new();
    for series in value["data"]["result"].as_array().expect("a result") {
        let labels: Labels = series["metric"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
            .collect();
        order.push(labels.clone().into_iter().collect::<Vec<_>>());
        let samples = data.entry(labels).or_default();
        let pairs: Vec<_> = match series.get("value") {
            Some(pair) => vec![pair.clone()],
            None => series["values"].as_array().unwrap().to_vec(),
        };
        for pair in pairs {
            let time = (pair[0].cast_f64().unwrap() * 1000.0).round() as i64;
            let text = pair[1].as_str().unwrap();
            let value = crate::number::parse_float(text.as_bytes()).unwrap();
            assert!(samples.insert(time, value).is_none(), "time twice");
        }
    }
    assert!(!is_sorted || order.is_sorted(), "{order:?}");
    data
}

/// Random groups: each member's data, or `None` where it fails.
fn random_groups(random: &mut Random, is_vector: bool) -> (Vec<GroupSpec>, Vec<Vec<Option<Data>>>) {
    let (mut specs, mut groups) = (Vec::new(), Vec::new());
    for group in 0..=random.below(3) {
        let count = 1 + random.below(3);
        let mut spec = GroupSpec::single(&format!("g{group}"));
        spec.members.resize(count, MemberSpec::new("m"));
        specs.push(spec);
        let mut members: Vec<Option<Data>> = Vec::new();
        for member in 0..count {
            let repeats = member > 0 && random.one_in(3);
            members.push(match random.one_in(8) {
                true => None,
                false if repeats => members[member - 1].clone(),
                false => Some(random_data(random, is_vector)),
            });
        }
        groups.push(members);
    }
    (specs, groups)
}

/// Merges the groups' data, which arrive in any order and any form.
fn merge_shuffled(
    random: &mut Random,
    plan: &Plan,
    specs: &[GroupSpec],
    groups: &[Vec<Option<Data>>],
    is_vector: bool,
) -> Merged {
    merge_rendered(random, plan, specs, groups, is_vector, render)
}

/// The same in a given form.
fn merge_rendered(
    random: &mut Random,
    plan: &Plan,
    specs: &[GroupSpec],
    groups: &[Vec<Option<Data>>],
    is_vector: bool,
    render: fn(&mut Random, &Data, bool) -> Vec<u8>,
) -> Merged {
    let arena = Arena::new(ARENA_BYTES_DEFAULT, groups.iter().map(Vec::len).sum());
    let mut merge = Merge::new(&arena, plan, specs, MergeOptions::default());
    let mut order: Vec<(usize, usize)> = Vec::new();
    for (group, members) in groups.iter().enumerate() {
        order.extend((0..members.len()).map(|member| (group, member)));
    }
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
    for (group, member) in order {
        let slot = Slot {
            group,
            member,
            variant: 0,
        };
        match &groups[group][member] {
            Some(data) => merge.add(slot, Answer::new(200, render(random, data, is_vector))),
            None => merge.fail(slot, MemberFailure::TimedOut),
        }
        if random.one_in(2) {
            merge.step(1);
        }
    }
    merge.finish()
}

fn bits(data: &Data) -> Vec<(Labels, Vec<(i64, u64)>)> {
    let canonical = |value: f64| if value.is_nan() { f64::NAN } else { value };
    data.iter()
        .map(|(labels, samples)| {
            let samples = samples
                .iter()
                .map(|(time, value)| (*time, canonical(*value).to_bits()));
            (labels.clone(), samples.collect())
        })
        .collect()
}

#[test]
fn random_answers_agree_with_the_model() {
    let mut random = Random(0x1f3d_5b79_a2c4_e608);
    let queries = [
        "sum(x)",
        "count(x)",
        "min(x)",
        "max(x)",
        "group(x)",
        "x",
        "rate(x[5m])",
        "time()",
    ];
    for round in 0..3000 {
        let is_vector = random.one_in(3);
        let endpoint = if is_vector {
            Endpoint::Query
        } else {
            Endpoint::QueryRange
        };
        let query = queries[random.below(queries.len())];
        let plan = plan(&endpoint, Some(query), &PlanOptions::default());
        let (specs, groups) = random_groups(&mut random, is_vector);
        let usable = groups.iter().flatten().flatten().count();
        if usable == 0 {
            continue;
        }
        let merged = merge_shuffled(&mut random, &plan, &specs, &groups, is_vector);
        let body = merged.body.concat();
        let shown = String::from_utf8_lossy(&body);
        let (mut expected, conflicts) = expected(plan.strategy, &groups);
        expected.retain(|_, samples| !samples.is_empty());
        // One usable answer, and one group's instant answer, keep their upstream order.
        let is_sorted = usable > 1 && (groups.len() > 1 || !is_vector);
        let found = read_back(&body, is_sorted);
        assert_eq!(
            bits(&found),
            bits(&expected),
            "round {round}, {query}: {shown}"
        );
        let counted: u64 = merged.events.iter().map(|event| event.conflicts).sum();
        assert_eq!(counted, conflicts, "round {round}, {query}");
        let lost = groups
            .iter()
            .any(|members| members.iter().all(Option::is_none));
        assert_eq!(merged.partial, lost && query != "time()", "round {round}");
    }
}
