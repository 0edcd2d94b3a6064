//! Section `rules`: sources, operations and cases read, targets as ids. Contract: rule page.

mod dialect;
pub(super) mod doubts;
mod operations;

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use hyper::header::{HeaderName, HeaderValue};
use ringway_shards::limits::RULE_EXECUTIONS_MAX;
use ringway_shards::plan::{
    Case, Check, Ends, Outcome, Redirect, Rewriter, Rule, Source, Split, Switch, Template,
};
use serde_json::Value as Json;

use super::context::Context;
use super::graph::Member;
use super::rewriters::Rewriters;
use super::roster::{FRONTEND, Role, Roster};
use crate::config::rules::{Case as WrittenCase, Rule as Written};
use crate::config::{Caution, Fault, Path, defaults, schema};
use operations::Written as WrittenOperation;

/// Most entries of the section.
const RULES_MAX: usize = 1_000;
/// Most values over all cases of a rule that are looked through one after the other.
const LISTED_MAX: usize = 10_000;
/// Most of them that are looked up.
const LOOKED_UP_MAX: usize = 100_000;
/// Most bytes of a text that are hashed to look up how it begins: all different lengths of values together.
const ENDS_BYTES_MAX: usize = 32 * 1024;
/// Most cases of a rule.
const CASES_MAX: usize = 10_000;
/// Names that are not for rules.
const NOBODY: &[&str] = &["", "none"];

/// All entries of the section.
pub(super) struct Rules {
    /// By written order.
    names: Vec<Named>,
}

/// One entry.
struct Named {
    name: String,
    /// `None`: refused.
    compiled: Option<Compiled>,
    /// A backend has it.
    is_used: Cell<bool>,
}

/// A rule, and where it names backends.
#[derive(Clone)]
pub(super) struct Compiled {
    pub(super) rule: Arc<Rule>,
    /// Backends that it leads to, each at its first mention.
    pub(super) targets: Vec<Member>,
    /// Where it first says that it leads back to the routes, if it does.
    pub(super) to_routes: Option<Path>,
}

/// What every part of a rule's compilation needs.
struct Scene<'s, 'a> {
    roster: &'s Roster<'a>,
    rewriters: &'s Rewriters,
    targets: Vec<Member>,
    to_routes: Option<Path>,
}

impl Scene<'_, '_> {
    /// Notes where requests may go on to.
    fn leads_to(&mut self, outcome: &Outcome, at: &Path) {
        match outcome {
            Outcome::Backend(backend) => {
                if !self.targets.iter().any(|known| known.backend == *backend) {
                    self.targets.push(Member::at(*backend, at.clone()));
                }
            }
            Outcome::Frontend => {
                self.to_routes.get_or_insert_with(|| at.clone());
            }
            Outcome::Redirect(_) => {}
        }
    }
}

impl Rules {
    /// Reads the section.
    pub(super) fn new(
        context: &mut Context<'_>,
        roster: &Roster<'_>,
        rewriters: &Rewriters,
    ) -> Self {
        let document = context.document;
        let written = &document.written.rules.0;
        let mut all = Rules { names: Vec::new() };
        if written.len() > RULES_MAX {
            let reason = format!("more than {RULES_MAX} rules");
            context.fail_key(&Path::of(&["rules"]), Fault::Rule { reason });
            return all;
        }
        for (name, written) in written {
            let mut scene = Scene {
                roster,
                rewriters,
                targets: Vec::new(),
                to_routes: None,
            };
            let rule = rule(context, &mut scene, (name, written));
            let compiled = rule.map(|rule| Compiled {
                rule: Arc::new(rule),
                targets: scene.targets,
                to_routes: scene.to_routes,
            });
            all.names.push(Named {
                name: name.clone(),
                compiled,
                is_used: Cell::new(false),
            });
        }
        all
    }

    /// The rule of a backend.
    pub(super) fn of(&self, name: Option<&str>) -> Option<&Compiled> {
        self.named(name?)?.compiled.as_ref()
    }

    fn named(&self, name: &str) -> Option<&Named> {
        self.names.iter().find(|known| known.name == name)
    }

    /// Warns of those that no backend has.
    pub(super) fn warn_of_unused(&self, context: &mut Context<'_>) {
        for known in self.names.iter().filter(|known| !known.is_used.get()) {
            context.warn_key(&Path::of(&["rules", &known.name]), Caution::UnusedRule);
        }
    }

    /// As [`Rules::of`]; a name of no rule is a problem.
    pub(super) fn find(
        &self,
        context: &mut Context<'_>,
        at: &Path,
        written: Option<&str>,
    ) -> Option<&Compiled> {
        let Some(name) = written.filter(|name| !name.is_empty()) else {
            context.fail_key(at, Fault::Required { what: "rule_name" });
            return None;
        };
        context.note_written(at, Json::from(name));
        let Some(known) = self.named(name) else {
            let hint = schema::hint(name, self.names.iter().map(|known| known.name.as_str()));
            let name = name.to_owned();
            context.fail_value(at, Fault::UnknownRule { name, hint });
            return None;
        };
        known.is_used.set(true);
        known.compiled.as_ref()
    }
}

fn fail(context: &mut Context<'_>, at: &Path, reason: impl Into<String>) {
    let reason = reason.into();
    context.fail_value(at, Fault::Rule { reason });
}

fn rule(
    context: &mut Context<'_>,
    scene: &mut Scene<'_, '_>,
    (name, written): (&str, &Written),
) -> Option<Rule> {
    let at = Path::of(&["rules", name]);
    if NOBODY.contains(&name) {
        let name = name.to_owned();
        context.fail_key(&at, Fault::ReservedName { name });
        return None;
    }
    note(context, &at, written);
    let source = source(context, &at, written);
    let split = split(context, &at, written, source.as_ref());
    let is_base64 = encoding(context, &at, written)?;
    let [ingress, egress, nomatch] = [
        (
            "ingress_req_rewriter_name",
            &written.ingress_req_rewriter_name,
        ),
        (
            "egress_req_rewriter_name",
            &written.egress_req_rewriter_name,
        ),
        (
            "nomatch_req_rewriter_name",
            &written.nomatch_req_rewriter_name,
        ),
    ]
    .map(|(key, name)| scene.rewriters.find(context, &at.key(key), name.as_deref()));
    let default = default_outcome(context, scene, &at, written);
    let cases = cases(context, scene, &at, written);
    let first_decides = written.match_policy.as_deref() == Some("first");
    let switch = operation(context, &at, written).and_then(|operation| {
        let asked = match &source {
            Some(source @ (Source::Host | Source::Hostname))
                if written_type(written) == "string" =>
            {
                &of_hosts(written, source, &operation)
            }
            _ => written,
        };
        switch(context, &at, asked, (&operation, &cases))
    });
    let executions_max = match written.max_rule_executions.unwrap_or(0) {
        0 => defaults::RULE_EXECUTIONS.value,
        max => max.min(RULE_EXECUTIONS_MAX),
    };
    let uses = |rewriter: &Option<Arc<Rewriter>>| rewriter.as_ref().is_some_and(|r| r.has_tokens());
    let sends = |outcome: &Outcome| match outcome {
        Outcome::Redirect(redirect) => redirect.location.has_tokens(),
        Outcome::Backend(_) | Outcome::Frontend => false,
    };
    let outcomes = cases.iter().filter_map(|case| case.outcome.as_ref());
    // Of a case that only rewrites, the rule's own redirect is sent.
    let captures = uses(&egress)
        || cases.iter().any(|case| uses(&case.rewriter))
        || outcomes.chain(&default).any(sends);
    let rule = Rule {
        name: name.into(),
        ingress,
        egress,
        nomatch,
        source: source?,
        split,
        is_base64,
        switch: switch?,
        cases: cases.into(),
        first_decides,
        default: default?,
        executions_max,
        captures,
    };
    doubts::of_tokens(context, &at, &rule);
    Some(rule)
}

/// Says what is in force.
fn note(context: &mut Context<'_>, at: &Path, written: &Written) {
    let texts = [
        ("input_source", &written.input_source),
        ("input_key", &written.input_key),
        ("input_encoding", &written.input_encoding),
        ("operation", &written.operation),
        ("operation_arg", &written.operation_arg),
        ("next_route", &written.next_route),
        ("redirect_url", &written.redirect_url),
        ("redirect_code", &written.redirect_code),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            context.note_written(&at.key(key), Json::from(text.as_str()));
        }
    }
    context.pick_text(
        &at.key("input_type"),
        written.input_type.as_deref(),
        defaults::INPUT_TYPE,
    );
    context.pick_text(
        &at.key("match_policy"),
        written.match_policy.as_deref(),
        defaults::MATCH_POLICY,
    );
    let executions = written.max_rule_executions.filter(|max| *max > 0);
    context.pick(
        &at.key("max_rule_executions"),
        executions,
        defaults::RULE_EXECUTIONS,
    );
}

fn source(context: &mut Context<'_>, at: &Path, written: &Written) -> Option<Source> {
    let Some(word) = written.input_source.as_deref() else {
        let what = "input_source";
        context.fail_key(&at.key(what), Fault::Required { what });
        return None;
    };
    let key_at = at.key("input_key");
    let key = written.input_key.as_deref().filter(|key| !key.is_empty());
    if let (None, "param" | "header") = (key, word) {
        context.fail_key(&key_at, Fault::Required { what: "input_key" });
        return None;
    }
    if !matches!(word, "param" | "header") {
        context.warn_no_effect(&key_at, "only param and header have a key");
    }
    let key = key.unwrap_or_default();
    Some(match word {
        "url" => Source::Url,
        "url_no_params" => Source::UrlWithoutQuery,
        "scheme" => Source::Scheme,
        "host" => Source::Host,
        "hostname" => Source::Hostname,
        "port" => Source::Port,
        "path" => Source::Path,
        "params" => Source::Query,
        "param" => Source::Param(key.into()),
        "method" => Source::Method,
        _ if HeaderName::from_bytes(key.as_bytes()).is_err() => {
            let name = key.to_owned();
            context.fail_value(&key_at, Fault::HeaderName { name });
            return None;
        }
        _ => Source::Header(key.into()),
    })
}

fn split(
    context: &mut Context<'_>,
    at: &Path,
    written: &Written,
    source: Option<&Source>,
) -> Option<Split> {
    let delimiter = written.input_delimiter.as_deref();
    let delimiter = delimiter.filter(|text| !text.is_empty()).unwrap_or(" ");
    let index = usize::try_from(written.input_index.unwrap_or(-1)).ok();
    match index {
        Some(index) => {
            context.note_written(&at.key("input_index"), Json::from(index));
            if written.input_delimiter.is_some() {
                context.note_written(&at.key("input_delimiter"), Json::from(delimiter));
            }
            // Names of hosts are looked at in small letters.
            let delimiter = match source {
                Some(Source::Host | Source::Hostname) => delimiter.to_ascii_lowercase(),
                _ => delimiter.to_owned(),
            };
            Some(Split {
                delimiter: delimiter.into(),
                index,
            })
        }
        None => {
            let reason = "nothing is cut without an input_index";
            context.warn_no_effect(&at.key("input_delimiter"), reason);
            None
        }
    }
}

fn encoding(context: &mut Context<'_>, at: &Path, written: &Written) -> Option<bool> {
    let word = written.input_encoding.as_deref().unwrap_or_default();
    match word.to_ascii_lowercase().as_str() {
        "" => Some(false),
        "base64" => Some(true),
        _ => {
            let reason = format!("encoding {word:?} is unknown; known is base64");
            fail(context, &at.key("input_encoding"), reason);
            None
        }
    }
}

fn operation(context: &mut Context<'_>, at: &Path, written: &Written) -> Option<WrittenOperation> {
    let Some(word) = written.operation.as_deref().filter(|word| !word.is_empty()) else {
        let what = "operation";
        context.fail_key(&at.key(what), Fault::Required { what });
        return None;
    };
    match WrittenOperation::of(written_type(written), word) {
        Ok(operation) => Some(operation),
        Err(reason) => {
            fail(context, &at.key("operation"), reason);
            None
        }
    }
}

fn written_type(written: &Written) -> &str {
    let kind = written.input_type.as_deref();
    kind.unwrap_or(defaults::INPUT_TYPE.value)
}

/// The rule with texts that compare with names of hosts as those are looked at: in small letters, `hostname` without the
/// root's dot. What a result is compared with stays.
fn of_hosts(written: &Written, source: &Source, operation: &WrittenOperation) -> Written {
    let mut written = written.clone();
    let may_end = *source == Source::Hostname;
    let as_looked_at = |text: &mut String| {
        text.make_ascii_lowercase();
        let is_end = matches!(operation.name.as_str(), "eq" | "suffix");
        if may_end && is_end && text.len() > 1 && text.ends_with('.') {
            text.pop();
        }
    };
    match written
        .operation_arg
        .as_mut()
        .filter(|text| !text.is_empty())
    {
        Some(operand) => match operation.name.as_str() {
            // Small letters would make other classes.
            "rmatch" => operand.insert_str(0, "(?i)"),
            "eq" | "contains" | "prefix" | "suffix" => as_looked_at(operand),
            _ => {}
        },
        None if operation.name != "base64" => {
            let cases = written.cases.iter_mut().flatten();
            let values = cases.flat_map(|case| case.matches.iter_mut().flatten());
            values.for_each(as_looked_at);
        }
        None => {}
    }
    written
}

/// Where the default leads. A redirect wins over a route.
fn default_outcome(
    context: &mut Context<'_>,
    scene: &mut Scene<'_, '_>,
    at: &Path,
    written: &Written,
) -> Option<Outcome> {
    let keys = (
        &written.next_route,
        &written.redirect_url,
        &written.redirect_code,
    );
    let outcome = outcome(context, scene, at, keys);
    if let Ok(None) = outcome {
        let what = "next_route or redirect_url";
        context.fail_key(at, Fault::Required { what });
    }
    outcome.ok().flatten()
}

/// Where something leads; `Ok(None)`: it does not say.
fn outcome(
    context: &mut Context<'_>,
    scene: &mut Scene<'_, '_>,
    at: &Path,
    (route, url, code): (&Option<String>, &Option<String>, &Option<String>),
) -> Result<Option<Outcome>, ()> {
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (route, url) = (filled(route), filled(url));
    if url.is_none() {
        context.warn_no_effect(&at.key("redirect_code"), "there is no redirect_url");
    }
    let route_at = at.key("next_route");
    let target = route.map(|name| target(context, scene.roster, &route_at, &name));
    let Some(url) = url else {
        let target = target.transpose()?;
        if let Some(outcome) = &target {
            scene.leads_to(outcome, &route_at);
        }
        return Ok(target);
    };
    if target.is_some() {
        context.warn_no_effect(&route_at, "redirect_url wins");
    }
    if HeaderValue::from_str(&url).is_err() || !url.is_ascii() {
        let reason = "it has characters that no URL may have: percent-encode them";
        fail(context, &at.key("redirect_url"), reason);
        return Err(());
    }
    let status = code.as_deref().and_then(|code| code.parse().ok());
    Ok(Some(Outcome::Redirect(Redirect {
        status: status.unwrap_or(defaults::REDIRECT_CODE.value),
        location: Template::of(&url),
    })))
}

/// The backend of a route.
fn target(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    at: &Path,
    name: &str,
) -> Result<Outcome, ()> {
    if name == FRONTEND {
        return Ok(Outcome::Frontend);
    }
    let member = name.to_owned();
    let fault = match roster.get(name).map(|entry| entry.role) {
        Some(Role::Live(backend, _)) => return Ok(Outcome::Backend(backend)),
        Some(Role::Broken) => return Err(()),
        Some(Role::Template) => Fault::TemplateMember { member },
        Some(Role::CommonCaps) => Fault::MemberDefaultsOnly { member },
        None => {
            let known = roster.names().chain([FRONTEND]);
            let hint = schema::hint(name, known);
            Fault::UnknownMember { member, hint }
        }
    };
    context.fail_value(at, fault);
    Err(())
}

fn cases(
    context: &mut Context<'_>,
    scene: &mut Scene<'_, '_>,
    at: &Path,
    written: &Written,
) -> Vec<Case> {
    let at = at.key("cases");
    let written = written.cases.as_deref().unwrap_or_default();
    if written.len() > CASES_MAX {
        fail(context, &at, format!("more than {CASES_MAX} cases"));
        return Vec::new();
    }
    let mut cases = Vec::new();
    for (index, written) in written.iter().enumerate() {
        let here = at.item(index);
        let place = u16::try_from(index).unwrap_or(u16::MAX);
        cases.push(case(context, scene, (&here, place), written));
    }
    cases
}

fn case(
    context: &mut Context<'_>,
    scene: &mut Scene<'_, '_>,
    (at, place): (&Path, u16),
    written: &WrittenCase,
) -> Case {
    let matches_at = at.key("matches");
    let matches = written.matches.as_deref().unwrap_or_default();
    if matches.is_empty() && !context.was_refused_within(&matches_at) {
        context.fail_key(&matches_at, Fault::EmptyList { what: "value" });
    }
    context.note_written(&matches_at, Json::from(matches.to_vec()));
    let name = written.req_rewriter_name.as_deref();
    let rewriter = scene
        .rewriters
        .find(context, &at.key("req_rewriter_name"), name);
    let keys = (
        &written.next_route,
        &written.redirect_url,
        &written.redirect_code,
    );
    let outcome = outcome(context, scene, at, keys);
    if let (Ok(None), None) = (&outcome, name) {
        let reason = "a case needs next_route, redirect_url or req_rewriter_name";
        context.fail_key(
            at,
            Fault::Rule {
                reason: reason.into(),
            },
        );
    }
    for (key, text) in [
        ("next_route", &written.next_route),
        ("redirect_url", &written.redirect_url),
        ("redirect_code", &written.redirect_code),
    ] {
        if let Some(text) = text {
            context.note_written(&at.key(key), Json::from(text.as_str()));
        }
    }
    Case {
        place,
        rewriter,
        outcome: outcome.ok().flatten(),
    }
}

/// How the cases are found.
fn switch(
    context: &mut Context<'_>,
    at: &Path,
    written: &Written,
    (operation, cases): (&WrittenOperation, &[Case]),
) -> Option<Switch> {
    let listed = written.cases.as_deref().unwrap_or_default();
    let places = (0_u16..).zip(listed);
    let values = places.flat_map(|(place, case)| {
        let values = case.matches.iter().flatten();
        values.map(move |value| (value.as_str(), place))
    });
    let values: Vec<(&str, u16)> = values.collect();
    let operand = written.operation_arg.as_deref().unwrap_or_default();
    let changes = cases.iter().any(|case| case.rewriter.is_some());
    let is_quick = || lengths(&values).iter().sum::<usize>() <= ENDS_BYTES_MAX;
    let ends = operation.is_of_ends().filter(|_| !changes && is_quick());
    let is_one_of = !changes && (operation.is_equality() || operation.digest().is_some());
    let is_looked_up = !operand.is_empty() || is_one_of || ends.is_some();
    let values_max = if is_looked_up {
        LOOKED_UP_MAX
    } else {
        LISTED_MAX
    };
    if values.len() > values_max {
        let reason = format!("more than {values_max} values in the cases of this rule");
        fail(context, &at.key("cases"), reason);
        return None;
    }
    let operand_at = at.key("operation_arg");
    // Read where there is nothing to compare too, so that a mistake is said.
    let checked = match operand.is_empty() {
        true => operation.beside(values.first().map_or("", |(value, _)| value)),
        false => operation.with(operand),
    };
    let check = match checked {
        Ok(check) => check,
        Err(reason) => {
            match context.document.written_at(&operand_at) {
                Some(_) => fail(context, &operand_at, reason),
                None => context.fail_key(&operand_at, Fault::Rule { reason }),
            }
            return None;
        }
    };
    doubts::of_values(context, at, written, (operation, &check));
    if values.is_empty() {
        return Some(Switch::Never);
    }
    Some(if !operand.is_empty() {
        Switch::Result(check, table(&values))
    } else if let Some(at_end) = ends {
        let first_decides = written.match_policy.as_deref() == Some("first");
        Switch::Ends(of_ends(at_end, &values, first_decides))
    } else if is_one_of {
        Switch::Equal(operation.digest(), table(&values))
    } else {
        let check = |(value, place): &(&str, u16)| Some((operation.beside(value).ok()?, *place));
        Switch::Each(
            values
                .iter()
                .filter_map(check)
                .collect::<Vec<(Check, u16)>>()
                .into(),
        )
    })
}

/// All lengths of values, from the shortest.
fn lengths(values: &[(&str, u16)]) -> BTreeSet<usize> {
    values.iter().map(|(value, _)| value.len()).collect()
}

/// Values by their lengths; of a value that several cases have, that which decides.
fn of_ends(at_end: bool, values: &[(&str, u16)], first_decides: bool) -> Ends {
    let mut cases: HashMap<Box<[u8]>, u16> = HashMap::new();
    for (value, place) in values {
        let known = cases.entry(value.as_bytes().into()).or_insert(*place);
        *known = match first_decides {
            true => (*known).min(*place),
            false => (*known).max(*place),
        };
    }
    Ends {
        at_end,
        cases,
        lengths: lengths(values).into_iter().collect(),
    }
}

/// The cases of each value, in written order.
fn table(values: &[(&str, u16)]) -> HashMap<Box<[u8]>, Box<[u16]>> {
    let mut table: HashMap<&str, Vec<u16>> = HashMap::new();
    for (value, place) in values {
        let cases = table.entry(value).or_default();
        if cases.last() != Some(place) {
            cases.push(*place);
        }
    }
    let boxed = table.into_iter();
    boxed
        .map(|(value, cases)| (value.as_bytes().into(), cases.into()))
        .collect()
}
