//! Rules at work: one look at one part of a request, and where it goes then.
//!
//! [`pass`] runs a rule: its rewriters and its cases, in the order of the contract, and says where to go. Called by
//! `passage` for requests and for `ringway check --trace`. Pure; allocates nothing where nothing is decoded, matched
//! or changed. Bounds: [`MATCHED_BYTES_MAX`](crate::limits::MATCHED_BYTES_MAX) for what a regular expression looks at,
//! and so for captures. Contract: rule page, 8.

mod captures;
mod operation;
mod source;

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::plan::{Case, Check, Ends, Operation, Outcome, Redirect, Rule, Switch};
use crate::rewrite::{Request, TooMany, decoded, expand_with, sendable};

pub(crate) use captures::Captures;
use operation::{check, digest};

/// What a rule has decided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decision<'r> {
    /// The case that decides; `None`: no case matched.
    pub(crate) case: Option<&'r Case>,
    /// Cases whose rewriters have run, in that order: all that match, whichever decides.
    pub(crate) rewrote: Matched,
    /// Where to go.
    pub(crate) onward: Onward<'r>,
}

/// Where a request goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Onward<'r> {
    /// On, to a backend or to the routes.
    To(&'r Outcome),
    /// Back, with this status and `Location`.
    Back(u16, Vec<u8>),
    /// Back, but where to cannot be made of this request.
    Nowhere,
}

impl PartialEq for Case {
    fn eq(&self, other: &Case) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Case {}

/// Cases that match, in the order they do.
pub(crate) type Matched = SmallVec<[u16; 8]>;

/// Passes a request through a rule.
///
/// # Errors
/// When the request has met too many instructions.
pub(crate) fn pass<'r>(rule: &'r Rule, request: &mut Request<'_>) -> Result<Decision<'r>, TooMany> {
    if let Some(rewriter) = &rule.ingress {
        request.run(rewriter, None)?;
    }
    let mut captures = None;
    let mut decided: Option<u16> = None;
    let mut rewrote = Matched::new();
    match &rule.switch {
        Switch::Never => {}
        Switch::Ends(ends) => decided = by_ends(rule, ends, &input(rule, request)),
        Switch::Each(checks) => each(rule, checks, request, (&mut decided, &mut rewrote))?,
        Switch::Result(..) | Switch::Equal(..) => {
            let matched = looked_up(rule, request, &mut captures);
            for case in matched {
                if decided != Some(case) {
                    run_case((rule, case), request, captures.as_ref(), &mut rewrote)?;
                }
                decided = Some(case);
                if rule.first_decides {
                    break;
                }
            }
        }
    }
    let case = decided.map(|case| &rule.cases[usize::from(case)]);
    if case.is_none() {
        captures = None;
        if let Some(rewriter) = &rule.nomatch {
            request.run(rewriter, None)?;
        }
    }
    if let Some(rewriter) = &rule.egress {
        request.run(rewriter, captures.as_ref())?;
    }
    let outcome = case.and_then(|case| case.outcome.as_ref());
    let onward = match outcome.unwrap_or(&rule.default) {
        Outcome::Redirect(redirect) => match location(redirect, request, captures.as_ref()) {
            Some(location) => Onward::Back(redirect.status, location),
            None => {
                request.note_dropped();
                Onward::Nowhere
            }
        },
        other => Onward::To(other),
    };
    Ok(Decision {
        case,
        rewrote,
        onward,
    })
}

fn run_case(
    (rule, case): (&Rule, u16),
    request: &mut Request<'_>,
    captures: Option<&Captures<'_>>,
    rewrote: &mut Matched,
) -> Result<(), TooMany> {
    if let Some(rewriter) = &rule.cases[usize::from(case)].rewriter {
        rewrote.push(case);
        request.run(rewriter, captures)?;
    }
    Ok(())
}

/// Checks value after value. What a case's rewriter changes, later checks see. Contract: rule page, 7 (C3).
fn each(
    rule: &Rule,
    checks: &[(Check, u16)],
    request: &mut Request<'_>,
    (decided, rewrote): (&mut Option<u16>, &mut Matched),
) -> Result<(), TooMany> {
    let may_change = rule.cases.iter().any(|case| case.rewriter.is_some());
    if !may_change {
        let input = input(rule, request);
        let holds = |found: &&(Check, u16)| is_true(&found.0, &input);
        // The last that matches decides, unless the first is to.
        let found = match rule.first_decides {
            true => checks.iter().find(holds),
            false => checks.iter().rev().find(holds),
        };
        *decided = found.map(|(_, case)| *case);
        return Ok(());
    }
    let mut done = u16::MAX;
    let mut seen = input(rule, request).into_owned();
    for (asked, case) in checks {
        if !is_true(asked, &seen) {
            continue;
        }
        // A case's values follow each other, and its rewriter runs once.
        if done != *case {
            run_case((rule, *case), request, None, rewrote)?;
            done = *case;
            seen = input(rule, request).into_owned();
        }
        *decided = Some(*case);
        if rule.first_decides {
            break;
        }
    }
    Ok(())
}

/// The case that decides of those whose values the input begins or ends with.
fn by_ends(rule: &Rule, ends: &Ends, input: &[u8]) -> Option<u16> {
    let lengths = ends
        .lengths
        .iter()
        .take_while(|length| **length <= input.len());
    let found = lengths.filter_map(|&length| {
        let end = match ends.at_end {
            true => &input[input.len() - length..],
            false => &input[..length],
        };
        ends.cases.get(end).copied()
    });
    match rule.first_decides {
        true => found.min(),
        false => found.max(),
    }
}

fn is_true(asked: &Check, input: &[u8]) -> bool {
    *check(asked, input) == *b"true"
}

/// The cases that a table has for the input.
fn looked_up<'r>(
    rule: &'r Rule,
    request: &Request<'_>,
    captures: &mut Option<Captures<'r>>,
) -> Matched {
    let input = input(rule, request);
    let found = match &rule.switch {
        Switch::Result(asked, cases) => {
            let matches = match &asked.operation {
                Operation::Matches(regex) if rule.captures => {
                    *captures = Captures::of(regex, &rule.source, &input);
                    captures.is_some()
                }
                _ => false,
            };
            let result: Cow<'_, [u8]> = match matches {
                true if asked.negated => b"false"[..].into(),
                true => b"true"[..].into(),
                false => check(asked, &input),
            };
            cases.get(&*result)
        }
        Switch::Equal(None, cases) => cases.get(&*input),
        Switch::Equal(Some(kind), cases) => cases.get(&*digest(*kind, &input)),
        Switch::Never | Switch::Each(_) | Switch::Ends(_) => None,
    };
    found
        .map(|cases| cases.iter().copied().collect())
        .unwrap_or_default()
}

/// What the rule looks at: the source, its piece, decoded. Contract: rule page, 4.
fn input<'q>(rule: &Rule, request: &'q Request<'_>) -> Cow<'q, [u8]> {
    let mut value = source::value(&rule.source, request);
    if let Some(split) = &rule.split {
        value = match value {
            Cow::Borrowed(text) => Cow::Borrowed(source::piece(text, split)),
            Cow::Owned(text) => Cow::Owned(source::piece(&text, split).to_vec()),
        };
    }
    match rule.is_base64 {
        true => Cow::Owned(source::from_base64(&value)),
        false => value,
    }
}

/// Where a client is sent, its tokens expanded; `None` when that is too long to be sent or was to be captured. Contract:
/// rule page, 14 (B9).
fn location(
    redirect: &Redirect,
    request: &Request<'_>,
    captures: Option<&Captures<'_>>,
) -> Option<Vec<u8>> {
    let query = request.query().unwrap_or_default();
    let mut tokens = redirect.location.tokens();
    let is_captured = |name| captures.is_some_and(|captures| captures.get(name).is_some());
    if captures.is_some_and(Captures::is_too_long) && tokens.any(is_captured) {
        return None;
    }
    let expanded = expand_with(&redirect.location, |name| {
        let captured = captures.and_then(|captures| captures.get_for_location(name));
        captured.or(match name {
            "path" => Some(request.path().into()),
            "query" => Some(query.into()),
            _ => None,
        })
    });
    let text = expanded?;
    if !redirect.location.has_tokens() {
        return Some(text.into_owned());
    }
    let mut text = sendable(&text);
    // `?${query}` of a request without one.
    if text.ends_with(b"?") && !redirect.location.written().ends_with('?') {
        text.pop();
    }
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    // `//host` would lead to another host, and a client chose the path.
    let written = redirect.location.written().as_bytes();
    if written.iter().take(2).filter(|byte| is_slash(byte)).count() == 2 {
        // The operator's own.
        return Some(text);
    }
    let slashes = text.iter().take_while(|byte| is_slash(byte)).count();
    Some(match slashes {
        0 | 1 => text,
        _ => [b"/", &text[slashes..]].concat(),
    })
}

/// A path as rules look at it.
fn path<'q>(request: &'q Request<'_>) -> Cow<'q, [u8]> {
    decoded(request.path())
}
