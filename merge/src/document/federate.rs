//! `/federate`: the samples of all groups in one text exposition.
//!
//! Families are sorted by name, their samples by name and labels, as servers send them; what a family is
//! said to be is told once, as the first group has it. Of a series that several groups have the first
//! one's sample stays. A line is written as it came, unless labels are injected.

mod line;

use std::collections::BTreeMap;

use super::item::Reading;
use super::join::{Join, PIECE_UNITS};
use super::read::keep;
use super::{Entry, Item, Part};
use crate::error::MemberFailure;
use crate::labels::{self, Label};
use crate::limits::{LABELS_PER_SERIES_MAX, LINE_BYTES_MAX};
use crate::series::{Parsed, ResultKind};
use line::{Line, Value};

const FAMILIES: usize = 0;
const SAMPLES: usize = 1;

/// What is said of a family: its help, or its type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family<'a> {
    name: &'a str,
    /// The type, unless this is the help.
    kind: Option<&'a str>,
    line: &'a str,
}

/// Name and labels of a sample.
type SampleKey<'a> = (&'a str, &'a [Label<'a>]);

#[derive(Debug, Clone, Copy)]
pub(super) struct Sample<'a> {
    key: SampleKey<'a>,
    line: &'a str,
    /// With injected labels: all labels, empty ones too, and what follows them.
    changed: Option<(&'a [Label<'a>], Value<'a>)>,
}

impl Sample<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        match &self.changed {
            None => out.extend_from_slice(self.line.as_bytes()),
            Some((labels, value)) => line::write(out, self.key.0, labels, value),
        }
        out.push(b'\n');
    }
}

/// Reads one exposition.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    body: &'a [u8],
    at: usize,
    reading: Reading<'a>,
    part: Part<'a>,
    labels: Vec<Label<'a>>,
    broken: Option<MemberFailure>,
}

type Outcome<T> = Result<T, MemberFailure>;

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8], reading: Reading<'a>) -> Self {
        Self {
            body,
            at: 0,
            reading,
            part: Part::default(),
            labels: Vec::new(),
            broken: None,
        }
    }

    /// What breaks is told at the end, where the status is known.
    pub(super) fn step(&mut self, units: usize) -> Outcome<(usize, bool)> {
        let start = self.at;
        while self.at < self.body.len() {
            if self.at - start >= units {
                return Ok((self.at - start, false));
            }
            if let Err(failure) = self.line() {
                self.broken = Some(failure);
                break;
            }
        }
        Ok((self.at - start, true))
    }

    pub(super) fn finish(self, status: u16) -> Outcome<Parsed<'a>> {
        if !(200..300).contains(&status) {
            return Err(refusal(status, self.body));
        }
        match self.broken {
            Some(failure) => Err(failure),
            None => Ok(Parsed {
                kind: Some(ResultKind::Document),
                part: self.part,
                ..Parsed::default()
            }),
        }
    }

    fn line(&mut self) -> Outcome<()> {
        let malformed = |problem| MemberFailure::Malformed {
            at: self.at,
            problem,
        };
        let rest = &self.body[self.at..];
        let length = rest
            .iter()
            .take(LINE_BYTES_MAX)
            .position(|byte| *byte == b'\n');
        let Some(length) = length else {
            return Err(match rest.len() > LINE_BYTES_MAX {
                true => MemberFailure::Limit {
                    limit: "length of a line",
                },
                false => malformed("line without an end"),
            });
        };
        let text =
            std::str::from_utf8(&rest[..length]).map_err(|_| malformed("line is not UTF-8"))?;
        let bad = malformed("bad line of a text exposition");
        self.labels.clear();
        match line::read(text, &mut self.labels, self.reading.bump())? {
            Line::Nothing => {}
            Line::About { name, kind } => {
                let line = text;
                let family = self.reading.keep(Family { name, kind, line })?;
                keep(&mut self.part, FAMILIES, entry(Item::Family(family)))?;
            }
            Line::Sample { name, value } => self.sample(text, name, value)?,
            Line::Bad => return Err(bad),
        }
        self.at += length + 1;
        Ok(())
    }

    fn sample(&mut self, line: &'a str, name: &'a str, value: Value<'a>) -> Outcome<()> {
        if self.labels.len() > LABELS_PER_SERIES_MAX {
            return Err(MemberFailure::Limit {
                limit: "labels of one series",
            });
        }
        let injected = self.reading.injected();
        for label in injected {
            self.labels.retain(|own| own.name != label.name);
            self.labels.push(*label);
        }
        self.labels.sort_unstable();
        if self
            .labels
            .windows(2)
            .any(|pair| pair[0].name == pair[1].name)
        {
            return Err(MemberFailure::Malformed {
                at: self.at,
                problem: "label name twice",
            });
        }
        let bump = self.reading.bump();
        let changed = match injected {
            [] => None,
            _ => Some((labels::copy(bump, &self.labels)?, value)),
        };
        self.labels.retain(|label| !label.value.is_empty());
        let set = labels::copy(bump, &self.labels)?;
        let sample = self.reading.keep(Sample {
            key: (name, set),
            line,
            changed,
        })?;
        keep(&mut self.part, SAMPLES, entry(Item::Sample(sample)))
    }
}

fn entry(item: Item<'_>) -> Entry<'_> {
    Entry { parent: 0, item }
}

/// Longest text of a refusal that is passed on.
const REFUSAL_BYTES_MAX: usize = 1024;

/// A server refuses in plain text.
fn refusal(status: u16, body: &[u8]) -> MemberFailure {
    let first = body.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = &first[..first.len().min(REFUSAL_BYTES_MAX)];
    let message = String::from_utf8_lossy(first).trim().to_owned();
    if message.is_empty() || message.starts_with(['<', '{']) {
        return MemberFailure::Status { status };
    }
    MemberFailure::Api {
        status,
        kind: "bad_data".to_owned(),
        message,
    }
}

/// What is known of a family.
#[derive(Debug, Default)]
struct Known<'a> {
    help: Option<&'a str>,
    kind: Option<&'a str>,
    /// Its samples have names of their own, with suffixes.
    has_suffixes: bool,
}

/// Suffixes of the samples of a histogram or summary.
const SUFFIXES: [&str; 3] = ["_bucket", "_count", "_sum"];

#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    samples: BTreeMap<SampleKey<'a>, &'a Sample<'a>>,
    families: BTreeMap<&'a str, Known<'a>>,
    /// The samples by family: which they belong to shows when all families are known.
    sorted: BTreeMap<(&'a str, SampleKey<'a>), &'a Sample<'a>>,
    family: Option<&'a str>,
}

impl<'a> Join<'a> for Joined<'a> {
    fn take(&mut self, _: usize, entry: Entry<'a>) {
        match entry.item {
            Item::Family(family) => {
                let known = self.families.entry(family.name).or_default();
                match family.kind {
                    None => {
                        known.help.get_or_insert(family.line);
                    }
                    Some(kind) if known.kind.is_none() => {
                        known.kind = Some(family.line);
                        known.has_suffixes = matches!(kind, "histogram" | "summary");
                    }
                    Some(_) => {}
                }
            }
            Item::Sample(sample) => {
                self.samples.entry(sample.key).or_insert(sample);
            }
            _ => {}
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some((key, sample)) = self.samples.pop_first() {
            self.sorted.insert((self.family_of(key.0), key), sample);
            return true;
        }
        let Some(((family, _), sample)) = self.sorted.pop_first() else {
            return false;
        };
        if self.family != Some(family) {
            self.family = Some(family);
            let known = self.families.get(family);
            let lines = known.map(|known| [known.help, known.kind]);
            for line in lines.into_iter().flatten().flatten() {
                out.extend_from_slice(line.as_bytes());
                out.push(b'\n');
            }
        }
        sample.write(out);
        true
    }

    fn drop_next(&mut self) -> usize {
        let dropped = self.families.pop_first().is_some();
        usize::from(dropped) * PIECE_UNITS
    }
}

impl<'a> Joined<'a> {
    /// The family that samples of this name belong to.
    fn family_of(&self, name: &'a str) -> &'a str {
        if self.families.contains_key(name) {
            return name;
        }
        let bases = SUFFIXES
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix));
        let has_suffixes = |base: &&str| {
            let known = self.families.get(base);
            known.is_some_and(|known| known.has_suffixes)
        };
        bases.into_iter().find(has_suffixes).unwrap_or(name)
    }
}
