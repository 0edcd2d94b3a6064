//! Section `request_rewriters`: texts to instructions, chains in the place of their names. Contract: rewriters page.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hyper::header::{HeaderName, HeaderValue};
use ringway_io::net::http1::KnownHeader;
use ringway_shards::plan::{Instruction, Replacement, Rewriter, Template};
use serde_json::Value as Json;

use super::context::Context;
use super::edits::FRAMING;
use super::effective::MASK;
use super::rules::doubts;
use crate::config::origin_url::Authority;
use crate::config::rewriters::Rewriter as Written;
use crate::config::{Caution, Fault, Path, schema};

/// Most entries of the section.
const REWRITERS_MAX: usize = 1_000;
/// Most instructions of one rewriter, those it chains to among them.
const INSTRUCTIONS_MAX: usize = 1_024;
/// Most chains below one another. Contract: rewriters page, 8.
const DEPTH_MAX: usize = 32;
/// Names that are not for rewriters: nothing, and "switched off".
const NOBODY: &[&str] = &["", "none"];

/// What may stand in an instruction.
const KNOWN: &[(&str, &[&str])] = &[
    ("header", &["set", "append", "replace", "delete"]),
    ("param", &["set", "append", "replace", "delete"]),
    ("params", &["set", "replace"]),
    ("path", &["set", "replace"]),
    ("method", &["set"]),
    ("host", &["set", "replace"]),
    ("hostname", &["set", "replace"]),
    ("port", &["set", "replace", "delete"]),
    ("scheme", &["set"]),
    ("chain", &["exec"]),
];

/// All entries of the section.
pub(super) struct Rewriters {
    /// By written order.
    names: Vec<Named>,
}

/// One entry.
struct Named {
    name: String,
    /// `None`: refused.
    rewriter: Option<Arc<Rewriter>>,
    /// Something runs it.
    is_used: Cell<bool>,
}

/// An instruction as it was read.
#[derive(Clone)]
enum Step {
    Does(Instruction),
    /// Another rewriter does more, named here.
    Chains(String, Path),
}

impl Rewriters {
    /// Reads the section.
    pub(super) fn new(context: &mut Context<'_>) -> Self {
        let document = context.document;
        let written = &document.written.request_rewriters.0;
        let mut all = Rewriters { names: Vec::new() };
        if written.len() > REWRITERS_MAX {
            let reason = format!("more than {REWRITERS_MAX} rewriters");
            context.fail_key(
                &Path::of(&["request_rewriters"]),
                Fault::Rewriter { reason },
            );
            return all;
        }
        let steps: Vec<(&str, Option<Vec<Step>>)> = written
            .iter()
            .map(|(name, written)| (name.as_str(), steps(context, name, written)))
            .collect();
        let all_steps = steps.iter().flat_map(|(_, steps)| steps.iter().flatten());
        let chained: HashSet<&str> = all_steps
            .filter_map(|step| match step {
                Step::Chains(other, _) => Some(other.as_str()),
                Step::Does(_) => None,
            })
            .collect();
        let places = written.iter().zip(0..);
        let mut chains = Chains {
            places: places
                .map(|((name, _), place)| (name.as_str(), place))
                .collect(),
            flat: steps.iter().map(|_| None).collect(),
            steps: &steps,
            way: Vec::new(),
        };
        for (place, (name, _)) in written.iter().enumerate() {
            let instructions = chains
                .flatten(context, place)
                .map(|flat| &flat.instructions);
            let rewriter = instructions.map(|instructions| {
                Arc::new(Rewriter {
                    name: name.as_str().into(),
                    instructions: instructions.as_slice().into(),
                })
            });
            all.names.push(Named {
                name: name.clone(),
                rewriter,
                is_used: Cell::new(chained.contains(name.as_str())),
            });
        }
        all
    }

    /// The one of this name; `None` when there is to be none, or it is refused.
    pub(super) fn find(
        &self,
        context: &mut Context<'_>,
        at: &Path,
        written: Option<&str>,
    ) -> Option<Arc<Rewriter>> {
        let name = written?;
        context.note_written(at, Json::from(name));
        if NOBODY.contains(&name) {
            return None;
        }
        match self.names.iter().find(|known| known.name == name) {
            Some(known) => {
                known.is_used.set(true);
                known.rewriter.clone()
            }
            None => {
                let hint = schema::hint(name, self.names.iter().map(|known| known.name.as_str()));
                let name = name.to_owned();
                context.fail_value(at, Fault::UnknownRewriter { name, hint });
                None
            }
        }
    }

    /// As [`Rewriters::find`], for a place where nothing is captured.
    pub(super) fn find_outside_rules(
        &self,
        context: &mut Context<'_>,
        at: &Path,
        written: Option<&str>,
    ) -> Option<Arc<Rewriter>> {
        let rewriter = self.find(context, at, written)?;
        doubts::Known::nothing().check_rewriter(context, at, &rewriter);
        Some(rewriter)
    }

    /// Warns of those that nothing runs.
    pub(super) fn warn_of_unused(&self, context: &mut Context<'_>) {
        for known in self.names.iter().filter(|known| !known.is_used.get()) {
            let at = Path::of(&["request_rewriters", &known.name]);
            context.warn_key(&at, Caution::UnusedRewriter);
        }
    }

    fn instructions(&self) -> impl Iterator<Item = &Instruction> {
        let rewriters = self
            .names
            .iter()
            .filter_map(|known| known.rewriter.as_ref());
        rewriters.flat_map(|rewriter| rewriter.instructions.iter())
    }

    /// Whether one of them may turn a request to HTTPS.
    pub(super) fn may_turn_to_https(&self) -> bool {
        self.instructions().any(|instruction| match instruction {
            Instruction::SchemeSet(scheme) => scheme.plain().is_none_or(|plain| plain == "https"),
            _ => false,
        })
    }

    /// Host names that they write out, for the control core to resolve.
    pub(super) fn hosts(&self) -> Vec<Box<str>> {
        let written = self
            .instructions()
            .filter_map(|instruction| match instruction {
                Instruction::HostSet(text) | Instruction::HostnameSet(text) => text.plain(),
                _ => None,
            });
        let parsed = written.filter_map(|text| Authority::parse(text).ok());
        let names = parsed.filter(|known| known.host.parse::<std::net::IpAddr>().is_err());
        let mut hosts: Vec<Box<str>> = names.map(|known| known.host.into()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }
}

/// The steps of one entry; `None` when something in it is refused.
fn steps(context: &mut Context<'_>, name: &str, written: &Written) -> Option<Vec<Step>> {
    let at = Path::of(&["request_rewriters", name]);
    if NOBODY.contains(&name) {
        let name = name.to_owned();
        context.fail_key(&at, Fault::ReservedName { name });
    }
    let at = at.key("instructions");
    let mut is_whole = !context.was_refused_within(&at);
    let mut steps = Vec::new();
    let mut shown = Vec::new();
    for (index, texts) in written.instructions.iter().flatten().enumerate() {
        let here = at.item(index);
        if context.was_refused(&here) {
            continue;
        }
        shown.push(Json::from(masked(texts)));
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match step(&texts, &here) {
            Ok(step) => steps.push(step),
            Err(reason) => {
                context.fail_value(&here, Fault::Rewriter { reason });
                is_whole = false;
            }
        }
    }
    context.note_written(&at, Json::Array(shown));
    is_whole.then_some(steps)
}

/// An instruction as dumps show it: values of headers and parameters may be credentials.
fn masked(texts: &[String]) -> Vec<String> {
    let secret_from = match texts.first().map(String::as_str) {
        Some("header" | "param") => 3,
        Some("params") => 2,
        _ => usize::MAX,
    };
    let shown = |(at, text): (usize, &String)| match at >= secret_from {
        true => MASK.to_owned(),
        false => text.clone(),
    };
    texts.iter().enumerate().map(shown).collect()
}

/// Puts what rewriters chain to in the place of the chains.
struct Chains<'s, 'a> {
    /// By written order; `None` for those with a mistake.
    steps: &'s [(&'a str, Option<Vec<Step>>)],
    places: HashMap<&'a str, usize>,
    /// What came of them: `Some(None)` where one cannot be.
    flat: Vec<Option<Option<Flat>>>,
    /// Those that are being put together, each for the one before.
    way: Vec<usize>,
}

/// A rewriter without chains.
struct Flat {
    instructions: Vec<Instruction>,
    /// Instructions and chains: some chains that do nothing would take for ever else.
    passed: usize,
    /// Chains below one another.
    depth: usize,
}

impl Chains<'_, '_> {
    /// The rewriter at a place; `None`, and the problem is reported, when it cannot be.
    fn flatten(&mut self, context: &mut Context<'_>, place: usize) -> Option<&Flat> {
        if self.flat[place].is_none() {
            self.way.push(place);
            let flat = self.put_together(context, place);
            self.way.pop();
            self.flat[place] = Some(flat);
        }
        self.flat[place].as_ref()?.as_ref()
    }

    fn put_together(&mut self, context: &mut Context<'_>, place: usize) -> Option<Flat> {
        let all = self.steps;
        let (name, steps) = &all[place];
        let mut flat = Flat {
            instructions: Vec::new(),
            passed: 0,
            depth: 0,
        };
        let mut is_whole = true;
        for step in steps.as_ref()? {
            flat.passed += 1;
            let (next, at) = match step {
                Step::Does(instruction) => {
                    flat.instructions.push(instruction.clone());
                    continue;
                }
                Step::Chains(next, at) => (next.as_str(), at),
            };
            match self.next(context, next) {
                Ok(Some(below)) => {
                    flat.passed += below.passed;
                    flat.depth = flat.depth.max(below.depth + 1);
                    flat.instructions.extend_from_slice(&below.instructions);
                }
                Ok(None) => is_whole = false,
                Err(reason) => {
                    context.fail_value(at, Fault::Rewriter { reason });
                    is_whole = false;
                }
            }
            if flat.passed > INSTRUCTIONS_MAX {
                break;
            }
        }
        let reason = if flat.passed > INSTRUCTIONS_MAX {
            format!("more than {INSTRUCTIONS_MAX} instructions, chains included")
        } else if flat.depth > DEPTH_MAX {
            format!("more than {DEPTH_MAX} rewriters chained one below the other")
        } else {
            return is_whole.then_some(flat);
        };
        let at = Path::of(&["request_rewriters", name]);
        context.fail_key(&at, Fault::Rewriter { reason });
        None
    }

    /// What a chain leads to; `None` when that is refused elsewhere.
    fn next(&mut self, context: &mut Context<'_>, name: &str) -> Result<Option<&Flat>, String> {
        let Some(place) = self.places.get(name).copied() else {
            let hint = schema::hint(name, self.steps.iter().map(|(name, _)| *name));
            return Err(format!("unknown rewriter {name:?}{hint}"));
        };
        if let Some(from) = self.way.iter().position(|known| *known == place) {
            let names = self.way[from..].iter().map(|known| self.steps[*known].0);
            let cycle: Vec<&str> = names.chain([name]).collect();
            let cycle = cycle.join(" > ");
            return Err(format!("these rewriters chain back to themselves: {cycle}"));
        }
        Ok(self.flatten(context, place))
    }
}

/// Reads one instruction.
fn step(texts: &[&str], at: &Path) -> Result<Step, String> {
    let [kind, operation, rest @ ..] = texts else {
        return Err("an instruction is a list of type, operation and texts".into());
    };
    if let ("chain", "exec", [name]) = (*kind, *operation, rest) {
        return Ok(Step::Chains((*name).to_owned(), at.clone()));
    }
    let instruction = match *kind {
        "header" | "param" => of_values(kind, operation, rest)?,
        "params" | "path" => of_target(kind, operation, rest)?,
        _ => of_authority(kind, operation, rest)?,
    };
    let instruction = instruction.ok_or_else(|| unfit(kind, operation))?;
    let is_end = |byte| matches!(byte, b'\r' | b'\n' | b'\0');
    if instruction
        .texts()
        .any(|text| text.written().bytes().any(is_end))
    {
        return Err("no part of a request has ends of lines or NUL in it".into());
    }
    Ok(Step::Does(instruction))
}

/// What is wrong with an instruction that has no such form.
fn unfit(kind: &str, operation: &str) -> String {
    let Some((_, operations)) = KNOWN.iter().find(|(known, _)| *known == kind) else {
        let kinds: Vec<&str> = KNOWN.iter().map(|(kind, _)| *kind).collect();
        let hint = schema::hint(kind, kinds.iter().copied());
        return format!(
            "type {kind:?} is unknown{hint}; known are {}",
            kinds.join(", ")
        );
    };
    if !operations.contains(&operation) {
        let hint = schema::hint(operation, operations.iter().copied());
        let known = operations.join(", ");
        return format!(
            "operation {operation:?} of type {kind} is unknown{hint}; known are {known}"
        );
    }
    format!(
        "{kind} {operation} takes other texts: {}",
        form(kind, operation)
    )
}

/// What an instruction looks like.
fn form(kind: &str, operation: &str) -> &'static str {
    match (kind, operation) {
        ("header", "delete") => "[header, delete, NAME] or [header, delete, NAME, PART]",
        ("param", "delete") => "[param, delete, NAME] or [param, delete, NAME, VALUE]",
        ("header" | "param", "replace") => "[header|param, replace, NAME, SEARCH, REPLACEMENT]",
        ("header" | "param", _) => "[header|param, set|append, NAME, VALUE]",
        ("path", "set") => "[path, set, /PATH] or [path, set, SEGMENT, DEPTH]",
        ("path", _) => "[path, replace, SEARCH, REPLACEMENT] and perhaps a depth",
        ("chain", _) => "[chain, exec, NAME]",
        ("port", "delete") => "[port, delete]",
        (_, "set") => "[TYPE, set, VALUE]",
        _ => "[TYPE, replace, SEARCH, REPLACEMENT] and perhaps a count",
    }
}

fn replacement(search: &str, with: &str, count: Option<u32>) -> Result<Replacement, String> {
    if search.is_empty() {
        return Err("an empty text cannot be looked for".into());
    }
    Ok(Replacement {
        search: Template::of(search),
        with: Template::of(with),
        count,
    })
}

/// Instructions about headers and parameters.
fn of_values(kind: &str, operation: &str, rest: &[&str]) -> Result<Option<Instruction>, String> {
    let is_header = kind == "header";
    if let Some(name) = rest.first() {
        match is_header {
            true => check_header(name, rest.get(1).copied().filter(|_| rest.len() == 2))?,
            false if name.is_empty() => return Err("a parameter has a name".into()),
            false => {}
        }
    }
    let of = Template::of;
    Ok(Some(match (operation, rest) {
        ("set" | "append", [name, value]) => {
            let (name, value) = ((*name).into(), of(value));
            match (is_header, operation) {
                (true, "set") => Instruction::HeaderSet { name, value },
                (true, _) => Instruction::HeaderAppend { name, value },
                (false, "set") => Instruction::ParamSet { name, value },
                (false, _) => Instruction::ParamAppend { name, value },
            }
        }
        ("replace", [name, search, with]) => {
            let (name, change) = (of(name), replacement(search, with, None)?);
            match is_header {
                true => Instruction::HeaderReplace { name, change },
                false => Instruction::ParamReplace { name, change },
            }
        }
        ("delete", [name, value @ ..]) if value.len() <= 1 => {
            let (name, value) = (of(name), value.first().map(|value| of(value)));
            match is_header {
                true => Instruction::HeaderDelete { name, part: value },
                false => Instruction::ParamDelete { name, value },
            }
        }
        _ => return Ok(None),
    }))
}

/// Whether a rewriter may change this header, and to this.
fn check_header(name: &str, value: Option<&str>) -> Result<(), String> {
    if Template::of(name).has_tokens() {
        return Ok(());
    }
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(format!("header {name:?} is not valid"));
    }
    let is_own = |other: &&str| name.eq_ignore_ascii_case(other);
    let is_of_connection = KnownHeader::classify(name.as_bytes()).is_hop_by_hop();
    if is_of_connection || FRAMING.iter().any(&is_own) || is_own(&"expect") {
        return Err(format!(
            "header {name} belongs to the connection: ringway writes it itself"
        ));
    }
    if is_own(&"host") {
        return Err(
            "Host follows the origin: write [host, set, NAME] for another origin, or request_headers \
             of a path for another name"
                .into(),
        );
    }
    let fits = value.is_none_or(|value| HeaderValue::from_str(value).is_ok());
    match fits {
        true => Ok(()),
        false => Err(format!(
            "the value of header {name} has characters that no header may have"
        )),
    }
}

/// A place or a number of times.
fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    let fits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| fits);
    number.ok_or_else(|| format!("{text:?} is not a {what}: write a whole number from 0"))
}

/// How often at most; negative: always.
fn count(text: &str) -> Result<Option<u32>, String> {
    match text.strip_prefix('-') {
        Some(digits) => number::<u32>(digits, "count").map(|_| None),
        None => number(text, "count").map(Some),
    }
}

/// Instructions about the path and the query.
fn of_target(kind: &str, operation: &str, rest: &[&str]) -> Result<Option<Instruction>, String> {
    let depth = |text: &str| number::<u16>(text, "depth");
    Ok(Some(match (kind, operation, rest) {
        ("params", "set", [query]) => Instruction::ParamsSet(Template::of(query)),
        ("params", "replace", [search, with]) => {
            Instruction::ParamsReplace(replacement(search, with, None)?)
        }
        ("params", "replace", [search, with, times]) => {
            Instruction::ParamsReplace(replacement(search, with, count(times)?)?)
        }
        ("path", "set", [value, place @ ..]) if place.len() <= 1 => Instruction::PathSet {
            value: Template::of(value),
            depth: place.first().map(|text| depth(text)).transpose()?,
        },
        ("path", "replace", [search, with, place @ ..]) if place.len() <= 1 => {
            Instruction::PathReplace {
                change: replacement(search, with, None)?,
                depth: place.first().map(|text| depth(text)).transpose()?,
            }
        }
        _ => return Ok(None),
    }))
}

/// Instructions about the method and who is asked.
fn of_authority(kind: &str, operation: &str, rest: &[&str]) -> Result<Option<Instruction>, String> {
    // Whatever else stands there counts for nothing: contract, rewriters page, 2.
    if let ("port", "delete", _) = (kind, operation, rest) {
        return Ok(Some(Instruction::PortDelete));
    }
    if let ("set", [value]) = (operation, rest) {
        let template = Template::of(value);
        if template.plain().is_some() {
            check_plain(kind, value)?;
        }
        return Ok(Some(match kind {
            "method" => Instruction::MethodSet(template),
            "host" => Instruction::HostSet(template),
            "hostname" => Instruction::HostnameSet(template),
            "port" => Instruction::PortSet(template),
            "scheme" => Instruction::SchemeSet(template),
            _ => return Ok(None),
        }));
    }
    let ("replace", [search, with, times @ ..]) = (operation, rest) else {
        return Ok(None);
    };
    let of = match kind {
        "host" => Instruction::HostReplace,
        "hostname" => Instruction::HostnameReplace,
        "port" => Instruction::PortReplace,
        _ => return Ok(None),
    };
    if times.len() > 1 {
        return Ok(None);
    }
    let times = times.first().map(|text| count(text)).transpose()?;
    Ok(Some(of(replacement(search, with, times.flatten())?)))
}

/// Whether a text without tokens can stand there. Contract: rewriters page, 9 (B9).
fn check_plain(kind: &str, value: &str) -> Result<(), String> {
    match kind {
        "method" => {
            let is_token = HeaderName::from_bytes(value.as_bytes()).is_ok();
            if !is_token {
                return Err(format!("{value:?} is not a method"));
            }
            match value {
                "CONNECT" | "HEAD" => Err(format!(
                    "method {value} cannot be set: its answers end otherwise than the client expects"
                )),
                _ => Ok(()),
            }
        }
        "scheme" if !matches!(value, "http" | "https") => {
            Err(format!("{value:?} is not a scheme; write http or https"))
        }
        "port" => match number::<u16>(value, "port") {
            Ok(1..) if !value.starts_with('0') => Ok(()),
            _ if value.is_empty() => Ok(()),
            _ => Err(format!("{value:?} is not a port from 1 to 65535")),
        },
        "host" | "hostname" => {
            let is_address = value.parse::<std::net::Ipv6Addr>().is_ok();
            let authority = Authority::parse(value);
            match authority {
                _ if is_address => Ok(()),
                Ok(authority) if kind == "hostname" && authority.port.is_some() => Err(format!(
                    "{value:?} has a port; write [host, set, {value:?}]"
                )),
                Ok(_) => Ok(()),
                Err(reason) => Err(format!("{value:?} is not a host: {reason}")),
            }
        }
        _ => Ok(()),
    }
}
