//! What is answered in place of a merged document: an answer that is partial where that is not wanted, one that may
//! not be exact where only exact ones are, a query that needs too much or too long.
//!
//! Pure decisions over what the merge gave, called by `gather`. All of them are error envelopes of the Prometheus API,
//! so that its clients show them. Contract: decisions, 24 and 25.

use ringway_merge::{MemberFailure, Merged, Plan, PlanWarning, error_body};

use super::gather::Outcome;
use super::request::ApiRequest;
use crate::plan::{Alb, TimeSeriesMerge};

/// Longest part of a query that an error repeats.
const QUERY_TOLD_CHARS_MAX: usize = 200;

/// An error in the API's own form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    status: u16,
    kind: &'static str,
    message: String,
}

impl Refusal {
    pub(super) fn into_outcome(self) -> Outcome {
        let status = crate::metrics::cache_status(self.status);
        Outcome {
            status: self.status,
            headers: Vec::new(),
            content_type: "application/json; charset=UTF-8",
            result: format!("engine=HTTPProxy; status={status}"),
            body: vec![error_body(self.kind, &self.message, &[])],
        }
    }

    /// Parameters in parts, which are not read here: without them the query would be another.
    pub(super) fn of_parts() -> Refusal {
        Refusal {
            status: 400,
            kind: "bad_data",
            message: "parameters in multipart/form-data are not read: send them as \
                      application/x-www-form-urlencoded, or in the URL"
                .to_owned(),
        }
    }

    /// Whoever set this limit on time gets what a server says then.
    pub(super) fn timed_out() -> Refusal {
        Refusal {
            status: 503,
            kind: "timeout",
            message: "query timed out in expression evaluation".to_owned(),
        }
    }
}

/// Whether an answer without every replica group is refused: as the request says, else as the ALB does.
pub(super) fn fails_partial(
    request: &ApiRequest,
    settings: &TimeSeriesMerge,
) -> Result<bool, Refusal> {
    const NAME: &str = "partial_response";
    match request.get(NAME) {
        None => Ok(settings.fails_partial),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(false),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(true),
        Some(_) => Err(Refusal {
            status: 400,
            kind: "bad_data",
            message: format!("invalid parameter \"{NAME}\": write true or false"),
        }),
    }
}

/// Why a strict ALB refuses the plan, without asking anybody. What is not understood here a server may call wrong.
pub(super) fn of_plan(plan: &Plan, groups: usize, settings: &TimeSeriesMerge) -> Option<Refusal> {
    let is_unread = |warning: &PlanWarning| matches!(warning, PlanWarning::Unplanned { .. });
    let is_settled = plan.warnings.is_empty() || plan.warnings.iter().any(is_unread);
    if !settings.is_strict || groups < 2 || is_settled {
        return None;
    }
    Some(inexact(plan.warnings.iter().map(ToString::to_string)))
}

fn inexact(reasons: impl Iterator<Item = String>) -> Refusal {
    let reasons: Vec<String> = reasons.collect();
    Refusal {
        status: 422,
        kind: "execution",
        message: format!(
            "the answer may not be exact, and alb.tsm.strict is set: {}",
            reasons.join("; ")
        ),
    }
}

/// Why what came out of a merge is not answered.
pub(super) fn of_merged(
    merged: &Merged,
    plan: &Plan,
    alb: &Alb,
    fails_partial: bool,
) -> Option<Refusal> {
    let settings = &alb.tsm;
    if let Some(bytes_max) = settings.budget.bytes_max.filter(|max| binds(*max, alb)) {
        let is_spent = |failure: &MemberFailure| *failure == MemberFailure::AggregateCap;
        if merged.failures.iter().any(|lost| is_spent(&lost.reason)) {
            return Some(too_much(plan, bytes_max));
        }
    }
    // An error says more than any of these.
    if !(200..300).contains(&merged.status) {
        return None;
    }
    if merged.partial && fails_partial {
        return Some(Refusal {
            status: 503,
            kind: "unavailable",
            message: merged.missing.join("; "),
        });
    }
    let doubts = || merged.inexact.iter().cloned();
    (settings.is_strict && !merged.inexact.is_empty()).then(|| inexact(doubts()))
}

/// Whether the query's own budget is less than that of the fan-out.
pub(super) fn binds(bytes_max: u64, alb: &Alb) -> bool {
    alb.fanout_bytes_max.is_none_or(|fanout| bytes_max < fanout)
}

fn too_much(plan: &Plan, bytes_max: u64) -> Refusal {
    let asked: Vec<&str> = plan
        .variants
        .iter()
        .filter_map(|variant| variant.query.as_deref())
        .collect();
    let mut message = format!(
        "query needs more than {bytes_max} bytes of the replica groups (alb.tsm.max_bytes)"
    );
    if !asked.is_empty() {
        let asked: String = asked
            .join(", ")
            .chars()
            .take(QUERY_TOLD_CHARS_MAX)
            .collect();
        message.push_str("; each is asked for ");
        message.push_str(&asked);
    }
    Refusal {
        status: 422,
        kind: "execution",
        message,
    }
}
