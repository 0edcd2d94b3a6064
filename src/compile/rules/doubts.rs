//! What of a rule can never come true, and so is most likely a mistake.

use std::collections::HashSet;

use ringway_shards::plan::{
    Case, Check, Digest, Operation, Outcome, Rewriter, Rule, Switch, Template,
};

use super::WrittenOperation;
use crate::compile::context::Context;
use crate::config::rules::Rule as Written;
use crate::config::{Caution, Path};

/// Tokens that redirects know besides captures. Contract: rule page, 14 (B9).
const OF_REDIRECTS: &[&str] = &["path", "query"];

/// Warns of operands that nothing compares with, and of cases that wait for what the operation never gives.
pub(super) fn of_values(
    context: &mut Context<'_>,
    at: &Path,
    written: &Written,
    (operation, check): (&WrittenOperation, &Check),
) {
    let operand = written.operation_arg.as_deref().unwrap_or_default();
    // What cannot be read is the empty text, which a case may wait for.
    let mut values = written
        .cases
        .iter()
        .flatten()
        .flat_map(|case| case.matches.iter().flatten());
    let waits = values.any(|value| value.is_empty());
    if !operand.is_empty() && matches!(check.operation, Operation::Unreadable) && !waits {
        let reason = format!("{operand:?} is no {}: no case matches", kind_of(operation));
        context.warn_key(&at.key("operation_arg"), Caution::NoEffect { reason });
        return;
    }
    // A digest is compared with values whether it is a result or not.
    let result = match operation.digest() {
        Some(kind) => Some(&Operation::Digest(kind)),
        None => Some(&check.operation).filter(|_| !operand.is_empty()),
    };
    let cases = written.cases.iter().flatten().enumerate();
    for (index, case) in cases {
        let matches_at = at.key("cases").item(index).key("matches");
        for (index, value) in case.matches.iter().flatten().enumerate() {
            let reason = match result {
                Some(result) => never_given(operation, result, value),
                None => unread(operation, value),
            };
            if let Some(reason) = reason {
                context.warn_key(&matches_at.item(index), Caution::NoEffect { reason });
            }
        }
    }
}

fn kind_of(operation: &WrittenOperation) -> &'static str {
    match (operation.kind.as_str(), operation.name.as_str()) {
        ("bool", _) => "truth such as true or 0",
        (_, "bt") => "range such as 1..5",
        _ => "number",
    }
}

/// Why a value that an input is compared with never matches.
fn unread(operation: &WrittenOperation, value: &str) -> Option<String> {
    if operation.kind == "string" {
        return None;
    }
    let check = operation.beside(value).ok()?;
    matches!(check.operation, Operation::Unreadable)
        .then(|| format!("{value:?} is no {}: it never matches", kind_of(operation)))
}

/// Why a value never is the result.
fn never_given(operation: &WrittenOperation, with: &Operation, value: &str) -> Option<String> {
    let name = &operation.name;
    // What cannot be read gives nothing.
    if value.is_empty() && operation.kind != "string" {
        return None;
    }
    let below = |divisor: u64, may_be_negative: bool| {
        let digits = value.strip_prefix('-').filter(|_| may_be_negative);
        let number = digits.unwrap_or(value).parse::<u64>().ok();
        let is_plain = number.is_some_and(|number| number.to_string() == digits.unwrap_or(value));
        let fits = is_plain && number.is_some_and(|number| number < divisor);
        (!fits).then(|| format!("{name} gives whole numbers below {divisor}, never {value:?}"))
    };
    match with {
        Operation::Unreadable => None,
        Operation::Digest(kind) => {
            let (length, what) = match kind {
                Digest::Md5 => (32, "32 hexadecimal digits"),
                Digest::Sha1 => (40, "40 hexadecimal digits"),
                Digest::Base64 => return None,
            };
            let is_one = value.len() == length
                && value
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            (!is_one).then(|| format!("{name} gives {what} in small letters, never {value:?}"))
        }
        Operation::Modulo(divisor) => below(divisor.unsigned_abs(), false),
        Operation::HashModulo(divisor) => below(*divisor, false),
        Operation::NumberModulo(divisor) => below(divisor.unsigned_abs(), true),
        _ => (!matches!(value, "true" | "false"))
            .then(|| format!("with an operation_arg {name} gives true or false, never {value:?}")),
    }
}

/// Warns of tokens that nothing is captured for.
pub(super) fn of_tokens(context: &mut Context<'_>, at: &Path, rule: &Rule) {
    let (known, nothing) = (Known::of(rule), Known::nothing());
    for (key, rewriter, known) in [
        ("ingress_req_rewriter_name", &rule.ingress, &nothing),
        ("egress_req_rewriter_name", &rule.egress, &known),
        ("nomatch_req_rewriter_name", &rule.nomatch, &nothing),
    ] {
        if let Some(rewriter) = rewriter {
            known.check_rewriter(context, &at.key(key), rewriter);
        }
    }
    known.check_redirect(context, at, Some(&rule.default));
    for case in &rule.cases {
        let known = match captures_for(rule, case) {
            true => &known,
            false => &nothing,
        };
        let at = at.key("cases").item(usize::from(case.place));
        if let Some(rewriter) = &case.rewriter {
            known.check_rewriter(context, &at.key("req_rewriter_name"), rewriter);
        }
        known.check_redirect(context, &at, case.outcome.as_ref());
    }
}

/// Whether something is captured when a case matches: not where it waits for an expression that does not match.
fn captures_for(rule: &Rule, case: &Case) -> bool {
    let Switch::Result(check, cases) = &rule.switch else {
        return false;
    };
    let result: &[u8] = if check.negated { b"false" } else { b"true" };
    let captured = cases.get(result);
    captured.is_some_and(|captured| captured.contains(&case.place))
}

/// Names that a rule's tokens may have.
pub(in crate::compile) struct Known<'c> {
    captured: HashSet<&'c str>,
    groups: usize,
}

impl<'c> Known<'c> {
    /// No capture at all.
    pub(in crate::compile) fn nothing() -> Self {
        Known {
            captured: HashSet::new(),
            groups: 0,
        }
    }

    /// What a rule captures.
    fn of(rule: &'c Rule) -> Self {
        match &rule.switch {
            Switch::Result(check, _) => match &check.operation {
                Operation::Matches(regex) => Known {
                    captured: regex.capture_names().flatten().collect(),
                    groups: regex.captures_len(),
                },
                _ => Known::nothing(),
            },
            Switch::Never | Switch::Each(_) | Switch::Equal(..) | Switch::Ends(_) => {
                Known::nothing()
            }
        }
    }

    fn is_known(&self, token: &str) -> bool {
        let number = token.parse::<usize>().ok();
        self.captured.contains(token) || number.is_some_and(|number| number < self.groups)
    }

    /// Warns where a rewriter has tokens that stay as they are written.
    pub(in crate::compile) fn check_rewriter(
        &self,
        context: &mut Context<'_>,
        at: &Path,
        rewriter: &Rewriter,
    ) {
        let instructions = rewriter.instructions.iter();
        let texts = instructions.flat_map(|instruction| instruction.texts());
        self.check(context, at, texts, &[]);
    }

    /// The same of the place that a redirect leads to.
    fn check_redirect(&self, context: &mut Context<'_>, at: &Path, outcome: Option<&Outcome>) {
        if let Some(Outcome::Redirect(redirect)) = outcome {
            let location = std::iter::once(&redirect.location);
            self.check(context, &at.key("redirect_url"), location, OF_REDIRECTS);
        }
    }

    fn check<'t>(
        &self,
        context: &mut Context<'_>,
        at: &Path,
        texts: impl Iterator<Item = &'t Template>,
        others: &[&str],
    ) {
        let tokens = texts.flat_map(|text| text.tokens());
        let unknown = tokens.filter(|name| !self.is_known(name) && !others.contains(name));
        let mut told = HashSet::new();
        for token in unknown.filter(|name| told.insert(*name)) {
            let token = token.to_owned();
            context.warn_key(at, Caution::UnknownToken { token });
        }
    }
}
