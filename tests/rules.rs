//! Rules and rewriters against `tests/golden/rules.yaml`, which says what becomes of requests.
//!
//! Configurations are compiled as they are for serving, and the ways of requests are found by the code that serves.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ringway::compile::{Compiled, Host, build_document};
use ringway::config::{Document, Environment};
use ringway_shards::plan::Generation;
use ringway_shards::trace::{End, Question, Step, Trace, trace};
use serde::Deserialize;

/// Fewest cases that the file must have.
const CASES_MIN: usize = 150;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    about: String,
    rule: Option<String>,
    rewriters: Option<String>,
    instructions: Option<String>,
    config: Option<String>,
    refused: Option<String>,
    #[serde(default)]
    requests: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    send: String,
    #[serde(default)]
    with: BTreeMap<String, String>,
    goes: Option<String>,
    asks: Option<String>,
    case: Option<serde_json::Value>,
    runs: Option<Vec<String>>,
    status: Option<u16>,
    location: Option<String>,
    #[serde(default)]
    shows: BTreeMap<String, Option<String>>,
    method: Option<String>,
    dropped: Option<u32>,
}

impl Group {
    /// The configuration it is about.
    fn text(&self) -> String {
        if let Some(config) = &self.config {
            return config.clone();
        }
        let indented = |text: &str| {
            text.lines()
                .map(|line| format!("  {line}\n"))
                .collect::<String>()
        };
        if let Some(instructions) = &self.instructions {
            return format!(
                "request_rewriters:\n  r: {{instructions: {instructions}}}\n\
                 backends:\n  origin: {{provider: rp, origin_url: 'http://origin.example.com:9090/base', \
                 is_default: true, req_rewriter_name: r}}\n"
            );
        }
        let rewriters = self.rewriters.as_deref().map(indented).unwrap_or_default();
        let mut text = format!("rules:\n  r: {}\n", self.rule.as_deref().unwrap());
        if !rewriters.is_empty() {
            text.push_str(&format!("request_rewriters:\n{rewriters}"));
        }
        text.push_str("backends:\n  start: {provider: rule, rule_name: r, is_default: true}\n");
        for name in ["hit", "other", "miss"] {
            text.push_str(&format!(
                "  {name}: {{provider: rp, origin_url: 'http://{name}.test'}}\n"
            ));
        }
        text
    }

    fn compile(&self) -> Result<Compiled, String> {
        let host = Host {
            name: "box".into(),
            cpus: vec![0],
            any_address: Ipv4Addr::UNSPECIFIED.into(),
        };
        let lines = |problems: Vec<ringway::config::Problem>| {
            let lines = problems.iter().map(ToString::to_string);
            lines.collect::<Vec<_>>().join("\n")
        };
        let text = self.text();
        let document =
            Document::of_text("a.yaml", &text, &Environment::default()).map_err(lines)?;
        build_document(&document, &host, Generation(1)).map_err(lines)
    }
}

impl Row {
    fn question(&self) -> Question {
        let (method, url) = self.send.split_once(' ').unwrap_or(("GET", &self.send));
        let headers = self.with.iter();
        Question {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: headers
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }
    }

    /// What is not as it should be.
    fn differences(&self, found: &Trace) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut expect = |what: &str, expected: String, found: String| {
            if expected != found {
                wrong.push(format!("{what}: expected {expected}, found {found}"));
            }
        };
        let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
        if let Some(case) = &self.case {
            let mut rules = found.steps.iter().filter_map(|step| match step {
                Step::Rule { case, .. } => Some(*case),
                _ => None,
            });
            let expected = case.as_u64().map(|place| place as u16);
            expect("case", text(&Some(expected)), text(&rules.next()));
        }
        if let Some(runs) = &self.runs {
            let mut rules = found.steps.iter().filter_map(|step| match step {
                Step::Rule { rewriters, .. } => Some(rewriters),
                _ => None,
            });
            expect("runs", text(&Some(runs)), text(&rules.next()));
        }
        if let Some(dropped) = self.dropped {
            expect("dropped", dropped.to_string(), found.dropped.to_string());
        }
        let (goes, asks, asked_by, headers) = match &found.end {
            End::Origin {
                backend,
                method,
                url,
                headers,
            } => (Some(backend), Some(url), Some(method), headers.as_slice()),
            End::Pool { backend, .. } => (Some(backend), None, None, &[][..]),
            End::Answer {
                status, location, ..
            } => {
                expect("status", text(&self.status), text(&Some(*status)));
                expect("location", text(&self.location), text(location));
                (None, None, None, &[][..])
            }
        };
        for (what, expected, found) in [
            ("goes", &self.goes, goes),
            ("asks", &self.asks, asks),
            ("method", &self.method, asked_by),
        ] {
            if expected.is_some() || (what == "goes" && found.is_none() != self.status.is_some()) {
                expect(what, text(&expected.as_ref()), text(&found));
            }
        }
        for (name, value) in &self.shows {
            let named = headers
                .iter()
                .filter(|(known, _)| known.eq_ignore_ascii_case(name));
            let values: Vec<&str> = named.map(|(_, value)| value.as_str()).collect();
            let expected: Vec<&str> = value.iter().map(String::as_str).collect();
            expect(name, text(&expected), text(&values));
        }
        wrong
    }
}

#[test]
fn requests_go_where_the_file_says() {
    let groups: Vec<Group> = serde_yaml::from_str(include_str!("golden/rules.yaml")).unwrap();
    let mut cases = 0;
    let mut wrong = Vec::new();
    for group in &groups {
        let compiled = group.compile();
        match (&group.refused, compiled) {
            (Some(part), Err(problems)) => {
                cases += 1;
                if !problems.contains(part.as_str()) {
                    wrong.push(format!("{}: said\n{problems}", group.about));
                }
            }
            (Some(_), Ok(_)) => wrong.push(format!("{}: accepted", group.about)),
            (None, Err(problems)) => wrong.push(format!("{}: refused\n{problems}", group.about)),
            (None, Ok(compiled)) => {
                assert!(!group.requests.is_empty(), "{}: no request", group.about);
                for row in &group.requests {
                    cases += 1;
                    let found = trace(&compiled.plan, &row.question());
                    let differences = match &found {
                        Ok(found) => row.differences(found),
                        Err(reason) => vec![reason.clone()],
                    };
                    if !differences.is_empty() {
                        let differences = differences.join("; ");
                        wrong.push(format!("{}: {}: {differences}", group.about, row.send));
                    }
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {cases}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(cases >= CASES_MIN, "only {cases} cases");
}
