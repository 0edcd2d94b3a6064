//! A slow and obvious model of joining rules and metadata, and random inputs that must agree with it.

use std::collections::BTreeMap;

use super::tests::{Says, data, merge_in, text};
use super::*;
use crate::limits::STEP_UNITS_MIN;
use crate::random::Random;

impl Random {
    /// White space, mostly none.
    fn space(&mut self) -> &'static str {
        self.of(&["", "", "", "", " ", "\n\t"])
    }
}

fn object(random: &mut Random, members: &[String]) -> String {
    let (open, close) = (random.space(), random.space());
    format!(
        "{{{open}{}{close}}}",
        members.join(&format!("{},{}", random.space(), random.space()))
    )
}

fn list(random: &mut Random, items: &[String]) -> String {
    if items.is_empty() && random.below(2) == 0 {
        return "null".to_owned();
    }
    let (open, close) = (random.space(), random.space());
    format!(
        "[{open}{}{close}]",
        items.join(&format!("{},", random.space()))
    )
}

#[derive(Clone, PartialEq)]
struct Rule {
    name: &'static str,
    label: &'static str,
    state: usize,
    health: usize,
    /// Which of its alerts there are, and in which state.
    alerts: Vec<(&'static str, usize)>,
}

#[derive(Clone)]
struct Rules {
    file: &'static str,
    name: &'static str,
    rules: Vec<Rule>,
}

const STATES: [&str; 3] = ["inactive", "pending", "firing"];
const HEALTHS: [&str; 3] = ["ok", "unknown", "err"];

fn random_rules(random: &mut Random) -> Vec<Rules> {
    let mut groups: Vec<Rules> = Vec::new();
    for _ in 0..random.below(4) {
        let (file, name) = (random.of(&["b.yml", "a.yml"]), random.of(&["g", "h"]));
        if groups
            .iter()
            .any(|group| (group.file, group.name) == (file, name))
        {
            continue;
        }
        let rule = |random: &mut Random| Rule {
            name: random.of(&["r", "s"]),
            label: random.of(&["", "x", "y"]),
            state: random.below(3),
            health: random.below(3),
            alerts: ["q", "p", "o"]
                .into_iter()
                .map(|alert| (alert, random.below(6)))
                .filter(|(_, state)| *state < 3)
                .collect(),
        };
        let rules = (0..random.below(5)).map(|_| rule(random)).collect();
        groups.push(Rules { file, name, rules });
    }
    groups
}

fn alert_text((name, state): &(&str, usize)) -> String {
    format!(
        r#"{{"labels":{{"i":"{name}"}},"state":"{}"}}"#,
        STATES[*state]
    )
}

fn rule_text(rule: &Rule, alerts: &str) -> Vec<String> {
    vec![
        format!(r#""state":"{}""#, STATES[rule.state]),
        format!(r#""name":"{}""#, rule.name),
        format!(r#""labels":{{"l":"{}"}}"#, rule.label),
        format!(r#""alerts":{alerts}"#),
        format!(r#""health":"{}""#, HEALTHS[rule.health]),
    ]
}

fn rules_text(random: &mut Random, groups: &[Rules]) -> String {
    let mut texts = Vec::new();
    for group in groups {
        let mut rules = Vec::new();
        for rule in &group.rules {
            let alerts: Vec<String> = rule.alerts.iter().map(alert_text).collect();
            let alerts = list(random, &alerts);
            rules.push(object(random, &rule_text(rule, &alerts)));
        }
        let mut members = vec![
            format!(r#""name":"{}""#, group.name),
            format!(r#""file":"{}""#, group.file),
            format!(r#""rules":{}"#, list(random, &rules)),
        ];
        // Where the rules stand among the members does not matter.
        let place = random.below(3);
        members.swap(2, place);
        texts.push(object(random, &members));
    }
    format!(r#"{{"groups":{}}}"#, list(random, &texts))
}

/// Joins rules by looking at everything again and again.
fn join_rules(documents: &[Vec<Rules>]) -> Vec<Rules> {
    let mut joined: Vec<Rules> = Vec::new();
    for group in documents.iter().flatten() {
        let known = joined
            .iter_mut()
            .find(|known| (known.file, known.name) == (group.file, group.name));
        let Some(known) = known else {
            joined.push(group.clone());
            continue;
        };
        let mut taken = vec![false; known.rules.len()];
        for rule in &group.rules {
            let twin = (0..taken.len()).find(|at| {
                let other = &known.rules[*at];
                !taken[*at] && (other.name, other.label) == (rule.name, rule.label)
            });
            let Some(at) = twin else {
                known.rules.push(rule.clone());
                continue;
            };
            taken[at] = true;
            let other = &mut known.rules[at];
            other.state = other.state.max(rule.state);
            other.health = other.health.max(rule.health);
            other.alerts.extend(&rule.alerts);
        }
    }
    for rule in joined.iter_mut().flat_map(|group| &mut group.rules) {
        let mut worst = BTreeMap::new();
        for (name, state) in &rule.alerts {
            let known = worst.entry(*name).or_insert(*state);
            *known = *state.max(known);
        }
        rule.alerts = worst.into_iter().collect();
    }
    joined.sort_by_key(|group| (group.file, group.name));
    joined
}

/// Takes all white space out; no text of these tests has any.
fn dense(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn rules_are_joined_as_the_model_joins_them() {
    let mut random = Random(0x5eed);
    for round in 0..3000 {
        let documents: Vec<Vec<Rules>> = (0..1 + random.below(3))
            .map(|_| random_rules(&mut random))
            .collect();
        let says: Vec<Says<'_>> = documents
            .iter()
            .map(|document| data(&rules_text(&mut random, document)))
            .collect();
        let merged = merge_in(Document::Rules, &Trim::default(), &says, STEP_UNITS_MIN);
        let mut expected = Vec::new();
        for group in join_rules(&documents) {
            let rules = group.rules.iter().map(|rule| {
                let alerts: Vec<String> = rule.alerts.iter().map(alert_text).collect();
                sorted(&rule_text(rule, &format!("[{}]", alerts.join(","))))
            });
            let rules: Vec<String> = rules.collect();
            expected.push((group.file, group.name, rules));
        }
        assert_eq!(read_rules(&text(&merged)), expected, "round {round}");
    }
}

/// Members of a flat object in order of their names.
fn sorted(members: &[String]) -> String {
    let mut members = members.to_vec();
    members.sort();
    members.join(",")
}

/// Reads an answer back: file, name, and the members of each rule, sorted.
fn read_rules(answer: &str) -> Vec<(&'static str, &'static str, Vec<String>)> {
    use simd_json::prelude::*;
    let mut bytes = answer.as_bytes().to_vec();
    let value = simd_json::to_owned_value(&mut bytes).expect("an answer is JSON");
    let groups = value["data"]["groups"].as_array().expect("a list");
    let known = |text: &str| {
        let all = ["a.yml", "b.yml", "g", "h"];
        all.into_iter()
            .find(|known| *known == text)
            .expect("a known name")
    };
    groups
        .iter()
        .map(|group| {
            let rules = group["rules"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|rule| {
                    let members = rule.as_object().expect("an object").iter();
                    let members: Vec<String> = members
                        .map(|(name, value)| format!("\"{name}\":{}", ordered(name, value)))
                        .collect();
                    sorted(&members)
                });
            let text = |name: &str| known(group[name].as_str().expect("a text"));
            (text("file"), text("name"), rules.collect())
        })
        .collect()
}

/// A value as the model writes it.
fn ordered(name: &str, value: &simd_json::OwnedValue) -> String {
    use simd_json::prelude::*;
    if name != "alerts" {
        return value.encode();
    }
    let alerts = value.as_array().expect("a list").iter().map(|alert| {
        format!(
            r#"{{"labels":{},"state":{}}}"#,
            alert["labels"].encode(),
            alert["state"].encode()
        )
    });
    format!("[{}]", alerts.collect::<Vec<_>>().join(","))
}

type Statements = BTreeMap<&'static str, Vec<[&'static str; 2]>>;

fn statements_text(random: &mut Random, metrics: &Statements) -> String {
    let mut members = Vec::new();
    for (metric, statements) in metrics {
        let statements: Vec<String> = statements.iter().map(statement_text).collect();
        members.push(format!("\"{metric}\":{}", list(random, &statements)));
    }
    let last = members.len().saturating_sub(1);
    if !members.is_empty() {
        let place = random.below(members.len());
        members.swap(place, last);
    }
    object(random, &members)
}

fn statement_text([kind, help]: &[&str; 2]) -> String {
    format!(r#"{{"type":"{kind}","help":"{help}","unit":""}}"#)
}

#[test]
fn metadata_is_joined_as_the_model_joins_it() {
    let mut random = Random(0xcafe);
    for round in 0..3000 {
        let mut documents: Vec<Statements> = Vec::new();
        for _ in 0..1 + random.below(3) {
            let mut metrics = Statements::new();
            for metric in ["a", "b", "\\u00e9"] {
                let statement = |random: &mut Random| {
                    [random.of(&["gauge", "counter"]), random.of(&["x", "\\n"])]
                };
                let count = random.below(4);
                if count > 0 || random.below(2) == 0 {
                    let statements = (0..count).map(|_| statement(&mut random)).collect();
                    metrics.insert(metric, statements);
                }
            }
            documents.push(metrics);
        }
        let trim = Trim {
            limit: (random.below(2) == 0).then(|| random.below(4) as u64),
            limit_per_metric: (random.below(2) == 0).then(|| 1 + random.below(3) as u64),
            ..Trim::default()
        };
        let says: Vec<Says<'_>> = documents
            .iter()
            .map(|metrics| data(&statements_text(&mut random, metrics)))
            .collect();
        let mut joined = Statements::new();
        for (metric, statements) in documents.iter().flatten() {
            let known = joined.entry(*metric).or_default();
            for statement in statements {
                if !known.contains(statement) {
                    known.push(*statement);
                }
            }
        }
        let mut members = Vec::new();
        // The escaped name is sorted as what it stands for, which is last here too: `é` > `b`.
        let names = ["a", "b", "\\u00e9"]
            .into_iter()
            .filter(|name| joined.contains_key(name));
        for name in names.take(trim.limit.map_or(usize::MAX, |limit| limit as usize)) {
            let statements = joined[name].iter().map(statement_text);
            let most = trim
                .limit_per_metric
                .map_or(usize::MAX, |most| most as usize);
            let statements: Vec<String> = statements.take(most).collect();
            let name = name.replace("\\u00e9", "é");
            members.push(format!("\"{name}\":[{}]", statements.join(",")));
        }
        let expected = format!(r#"{{"status":"success","data":{{{}}}}}"#, members.join(","));
        let merged = merge_in(Document::Metadata, &trim, &says, STEP_UNITS_MIN);
        assert_eq!(dense(&text(&merged)), expected, "round {round}");
    }
}
