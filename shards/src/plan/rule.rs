//! Rules: what of a request is looked at, and where it goes then. Contract: rule page.

use std::collections::HashMap;
use std::sync::Arc;

use regex::bytes::Regex;

use super::backend::BackendId;
use super::rewriter::{Rewriter, Template};

/// One entry of `rules`, compiled. It never changes, so that backends may share it.
#[derive(Debug)]
pub struct Rule {
    /// Operator's name.
    pub name: Box<str>,
    /// Runs before anything is looked at.
    pub ingress: Option<Arc<Rewriter>>,
    /// Runs last.
    pub egress: Option<Arc<Rewriter>>,
    /// Runs when no case matches.
    pub nomatch: Option<Arc<Rewriter>>,
    /// What is looked at.
    pub source: Source,
    /// Takes one piece of it.
    pub split: Option<Split>,
    /// It is base64, which is undone.
    pub is_base64: bool,
    /// How cases are found.
    pub switch: Switch,
    /// The cases in written order.
    pub cases: Box<[Case]>,
    /// The first case that matches decides; else the last.
    pub first_decides: bool,
    /// Where requests go that no case takes.
    pub default: Outcome,
    /// Most rules that a request may pass which meets this one first.
    pub executions_max: u16,
    /// Somebody uses what is captured.
    pub captures: bool,
}

/// Which part of a request is looked at. Contract: rule page, 3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The whole URL.
    Url,
    /// The URL without its query.
    UrlWithoutQuery,
    /// Its scheme.
    Scheme,
    /// Host and port.
    Host,
    /// Host without port and brackets.
    Hostname,
    /// The port, also where it is the scheme's.
    Port,
    /// The path, percent-encoding undone.
    Path,
    /// The query as it is sent.
    Query,
    /// The first value of a parameter.
    Param(Box<str>),
    /// The first value of a header.
    Header(Box<str>),
    /// The method.
    Method,
}

/// One piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// What stands between the pieces; never empty.
    pub delimiter: Box<str>,
    /// Which one, from 0.
    pub index: usize,
}

/// How cases are found.
#[derive(Debug)]
pub enum Switch {
    /// There are none.
    Never,
    /// One check, and its result is looked up. Contract: rule page, 6 ("op-arg").
    Result(Check, HashMap<Box<[u8]>, Box<[u16]>>),
    /// One check for each value of a case, with the case. Contract: rule page, 6 ("case-arg").
    Each(Box<[(Check, u16)]>),
    /// As `Each` where all checks are for equality, no case changes the request and so all can be looked up. The
    /// digest is taken of the input first.
    Equal(Option<Digest>, HashMap<Box<[u8]>, Box<[u16]>>),
    /// As `Each` where all checks are for how a text begins, or ends, and no case changes the request.
    Ends(Ends),
}

/// How texts begin or end, looked up by length.
#[derive(Debug)]
pub struct Ends {
    /// They end so; else they begin so.
    pub at_end: bool,
    /// The case of each, that which decides of several.
    pub cases: HashMap<Box<[u8]>, u16>,
    /// All their lengths, from the shortest.
    pub lengths: Box<[usize]>,
}

/// An operation, perhaps turned round.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is asked.
    pub operation: Operation,
    /// True becomes false, and the other way.
    pub negated: bool,
}

/// What is asked of an input. Contract: rule page, 5.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A value that the operation cannot read: never an answer.
    Unreadable,
    /// It is this text.
    Equal(Box<str>),
    /// This text is in it.
    Contains(Box<str>),
    /// It begins so.
    Prefix(Box<str>),
    /// It ends so.
    Suffix(Box<str>),
    /// This matches somewhere in it.
    Matches(Box<Regex>),
    /// Its digest.
    Digest(Digest),
    /// Its digest is this text.
    DigestIs(Digest, Box<str>),
    /// The sum of its bytes by this, never 0.
    Modulo(i64),
    /// Its hash by this, never 0.
    HashModulo(u64),
    /// It is a number of which this is true.
    Number(Comparison, f64),
    /// It is a number from the one to the other.
    Between(f64, f64),
    /// The number by this, never 0.
    NumberModulo(i64),
    /// It is this truth.
    Bool(bool),
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Equal,
    /// Greater.
    Greater,
    /// Less.
    Less,
    /// Greater or equal.
    AtLeast,
    /// Less or equal.
    AtMost,
}

/// A text made of any bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// MD5 in hexadecimal.
    Md5,
    /// SHA-1 in hexadecimal.
    Sha1,
    /// Base64.
    Base64,
}

/// One case of a rule.
#[derive(Debug)]
pub struct Case {
    /// Its place in the rule, from 0.
    pub place: u16,
    /// Runs when it matches.
    pub rewriter: Option<Arc<Rewriter>>,
    /// Where requests go that it takes; `None`: as the rule says.
    pub outcome: Option<Outcome>,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To this backend.
    Backend(BackendId),
    /// To the main listener's routes once more.
    Frontend,
    /// Back to the client.
    Redirect(Redirect),
}

/// An answer that sends a client elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Where.
    pub location: Template,
}

impl Rule {
    /// Every backend that it leads to.
    pub fn targets(&self) -> impl Iterator<Item = BackendId> {
        self.outcomes().filter_map(|outcome| match outcome {
            Outcome::Backend(id) => Some(*id),
            Outcome::Frontend | Outcome::Redirect(_) => None,
        })
    }

    /// Where it may lead.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        let cases = self.cases.iter().filter_map(|case| case.outcome.as_ref());
        std::iter::once(&self.default).chain(cases)
    }
}
