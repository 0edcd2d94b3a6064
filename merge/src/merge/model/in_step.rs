//! Answers on one grid, whose series mostly stand in step: the rows that are dealt with at once.

use super::*;

const STEPS: usize = 60;

/// What is the matter with a member's samples, compared with another's.
fn varied(random: &mut Random, samples: &Samples) -> Samples {
    let mut varied = samples.clone();
    let times: Vec<i64> = samples.keys().copied().collect();
    let at = random.below(times.len());
    match random.below(8) {
        // One is missing.
        0 => {
            varied.remove(&times[at]);
        }
        // It ends early, or begins late.
        1 => varied.retain(|time, _| *time < times[at]),
        2 => varied.retain(|time, _| *time >= times[at]),
        // It falls out of step in the middle.
        3 => {
            let early = varied.iter().filter(|(time, _)| **time < times[at]);
            let late = varied.iter().filter(|(time, _)| **time >= times[at]);
            let late = late.map(|(time, value)| (time + 250, *value));
            varied = early.map(|(t, v)| (*t, *v)).chain(late).collect();
        }
        4 => {}
        _ => {
            for value in varied.values_mut() {
                *value = match random.below(8) {
                    0 => -*value,
                    1 => VALUES[random.below(VALUES.len())],
                    2 => 100.0 * random.next() as f64 / (1u64 << 56) as f64,
                    // Neighbours differ in the last digits alone.
                    3 => f64::from_bits(value.to_bits() ^ 1),
                    _ => *value,
                };
            }
        }
    }
    varied
}

fn on_grid(random: &mut Random) -> Samples {
    let has_odd_values = random.one_in(3);
    // The seconds get another digit on the way.
    let times = (0..STEPS).map(|step| 9_999_999_700_000 + 15_000 * step as i64);
    times
        .map(|time| {
            let value = match has_odd_values && random.one_in(4) {
                true => VALUES[random.below(VALUES.len())],
                false => 100.0 * random.next() as f64 / (1u64 << 56) as f64,
            };
            (time, value)
        })
        .collect()
}

/// Writes a plain value with 17 digits, although fewer would do: as a number it is the same.
fn wordy(value: f64) -> Option<String> {
    let magnitude = value.abs();
    if !(1e-3..1e15).contains(&magnitude) {
        return None;
    }
    let decimals = (16 - magnitude.log10().floor().max(0.0) as i32).max(0) as usize;
    let text = format!("{value:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    (text.parse() == Ok(value)).then(|| text.to_owned())
}

fn render_plainly(random: &mut Random, data: &Data, _is_vector: bool) -> Vec<u8> {
    let is_wordy = random.one_in(2);
    let mut series = Vec::new();
    for (labels, samples) in data {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)))
            .collect();
        let mut texts = Vec::new();
        for (time, value) in samples {
            let mut head = b"[".to_vec();
            crate::number::write_time(&mut head, *time);
            let mut shortest = Vec::new();
            write_float(&mut shortest, *value);
            let wordy = wordy(*value).filter(|_| is_wordy && random.one_in(3));
            let value = wordy.unwrap_or(String::from_utf8(shortest).unwrap());
            texts.push(format!("{},\"{value}\"]", String::from_utf8(head).unwrap()));
        }
        series.push(format!(
            "{{\"metric\":{{{}}},\"values\":[{}]}}",
            labels.join(","),
            texts.join(",")
        ));
    }
    format!(
        "{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{}]}}}}",
        series.join(",")
    )
    .into_bytes()
}

/// Groups of members whose series are one grid's, with something the matter here and there.
fn groups_on_grid(random: &mut Random) -> (Vec<GroupSpec>, Vec<Vec<Option<Data>>>) {
    let (mut specs, mut groups) = (Vec::new(), Vec::new());
    let sets: Vec<Labels> = (0..3)
        .map(|at| Labels::from([("a".to_owned(), at.to_string())]))
        .collect();
    let original: Vec<Samples> = sets.iter().map(|_| on_grid(random)).collect();
    for group in 0..=random.below(3) {
        let count = 1 + random.below(3);
        let mut spec = GroupSpec::single(&format!("g{group}"));
        spec.members.resize(count, MemberSpec::new("m"));
        specs.push(spec);
        let mut members = Vec::new();
        for _ in 0..count {
            let mut data = Data::new();
            for (labels, samples) in sets.iter().zip(&original) {
                let samples = varied(random, samples);
                if !samples.is_empty() {
                    data.insert(labels.clone(), samples);
                }
            }
            members.push(Some(data));
        }
        groups.push(members);
    }
    (specs, groups)
}

/// The values of each point, one of each group that has it, in pool order.
fn by_point(groups: &[Vec<Option<Data>>]) -> Vec<Vec<f64>> {
    let mut points: BTreeMap<(Labels, i64), Vec<f64>> = BTreeMap::new();
    for members in groups {
        let mut own = BTreeMap::new();
        for (labels, samples) in members.iter().flatten().flatten() {
            for (time, value) in samples {
                own.entry((labels.clone(), *time)).or_insert(*value);
            }
        }
        for (point, value) in own {
            points.entry(point).or_default().push(value);
        }
    }
    points.into_values().collect()
}

fn differ(left: f64, right: f64) -> bool {
    left != right && !(left.is_nan() && right.is_nan())
}

#[test]
fn rows_in_step_agree_with_the_model() {
    let mut random = Random(0x7a3c_19e5_d084_b26f);
    let queries = ["sum(x)", "min(x)", "max(x)", "group(x)", "x"];
    let (mut disputed, mut doubtful) = (0, 0);
    for round in 0..1500 {
        let query = queries[random.below(queries.len())];
        let plan = plan(&Endpoint::QueryRange, Some(query), &PlanOptions::default());
        let (specs, groups) = groups_on_grid(&mut random);
        let merged = merge_rendered(&mut random, &plan, &specs, &groups, false, render_plainly);
        let body = merged.body.concat();
        let (expected, conflicts) = expected(plan.strategy, &groups);
        let found = read_back(&body, groups.iter().map(Vec::len).sum::<usize>() > 1);
        assert_eq!(bits(&found), bits(&expected), "round {round}, {query}");
        let counted: u64 = merged.events.iter().map(|event| event.conflicts).sum();
        assert_eq!(counted, conflicts, "round {round}, {query}");
        let points = by_point(&groups);
        if matches!(plan.strategy, Strategy::Dedup | Strategy::Group) {
            let is_disputed = |values: &&Vec<f64>| values.iter().any(|v| differ(*v, values[0]));
            let expected = points.iter().filter(is_disputed).count() as u64;
            assert_eq!(merged.group_conflicts, expected, "round {round}, {query}");
            disputed += expected;
        }
        if matches!(plan.strategy, Strategy::Min | Strategy::Max) {
            let best = |values: &[f64]| match plan.strategy {
                Strategy::Min => values.iter().copied().fold(f64::NAN, f64::min),
                _ => values.iter().copied().fold(f64::NAN, f64::max),
            };
            let has_both_zeros = points.iter().any(|values| {
                let zeros = values.iter().filter(|value| **value == 0.0);
                let signs: BTreeSet<bool> = zeros.map(|zero| zero.is_sign_negative()).collect();
                best(values) == 0.0 && signs.len() == 2
            });
            let is_doubted = merged.retry == Some(Retry::Zeros);
            assert_eq!(is_doubted, has_both_zeros, "round {round}, {query}");
            doubtful += u64::from(is_doubted);
        }
    }
    assert!(disputed > 1000 && doubtful > 3, "{disputed}, {doubtful}");
}
