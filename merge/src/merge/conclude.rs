//! What a merge says when all slots are settled: which groups count, status, warnings, envelope.
//!
//! Contract: time series merge, building the answer; warning conditions W8 to W10 and W12; error
//! envelopes where no group gave a usable answer.

use super::{GroupEvents, GroupSpec, Merge, Phase, Retry, Slot, SlotFailure, SlotState};
use crate::document::Document;
use crate::error::MemberFailure;
use crate::limits::WARNINGS_MAX;
use crate::plan::{Ask, Sharing};
use crate::reduce::{Reducer, Rules};
use crate::series::ResultKind;
use crate::strategy::Strategy;
use crate::write::{error_body, write_texts};

use super::order::Run;

/// Texts of `execution` errors that one server gives whenever a part of its series would: a label
/// set that is there twice stays so when there are more series.
const MONOTONE_ERRORS: [&str; 5] = [
    "same labelset",
    "duplicate series",
    "multiple matches",
    // Of arguments, wherever there is a series to use them for.
    "invalid smoothing factor",
    "invalid trend factor",
];

/// What a server says when the parameter `limit` cuts its answer off.
pub(crate) const LIMIT_WARNING: &str = "results truncated due to limit";

impl<'a> Merge<'a> {
    /// All slots are settled: takes stock and begins the answer. Returns units used.
    pub(super) fn conclude_reading(&mut self) -> usize {
        self.agree_on_kind();
        self.note_failures();
        let usable: Vec<usize> = (0..self.groups.len())
            .filter(|group| self.leader_of(*group).is_some())
            .collect();
        self.count_events();
        if let Some(text) = self.crossed_budget() {
            self.refuse(&text);
        } else if usable.is_empty() && self.plan.ask != Ask::Groups(Vec::new()) {
            self.answer_error(None);
        } else if let Some(failure) = self.monotone_error() {
            self.answer_error(Some(failure));
        } else {
            self.begin_answer(&usable);
        }
        // Counting walks over slots, not over series.
        self.slots.len() + 1
    }

    // === groups ===

    pub(super) fn index_of(&self, slot: Slot) -> usize {
        self.starts[slot.group] + slot.member * self.plan.variants.len() + slot.variant
    }

    fn is_usable(&self, slot: Slot) -> bool {
        matches!(self.slots[self.index_of(slot)], SlotState::Usable(..))
    }

    /// Returns the first slot of the first member that answered all variants.
    fn leader_of(&self, group: usize) -> Option<Slot> {
        let members = self.groups[group].members.len();
        (0..members)
            .map(|member| Slot {
                group,
                member,
                variant: 0,
            })
            .find(|slot| self.is_whole(*slot))
    }

    /// Whether the slot's member answered all variants.
    fn is_whole(&self, slot: Slot) -> bool {
        (0..self.plan.variants.len()).all(|variant| self.is_usable(Slot { variant, ..slot }))
    }

    /// The first usable answer says what kind the result has; others of another kind fail.
    fn agree_on_kind(&mut self) {
        let mut agreed = None;
        for state in &mut self.slots {
            let SlotState::Usable(parsed, _) = state else {
                continue;
            };
            let kind = parsed.kind.unwrap_or(ResultKind::Vector);
            if *agreed.get_or_insert(kind) != kind {
                *state = SlotState::Failed(MemberFailure::Malformed {
                    at: 0,
                    problem: "result type differs from the other groups'",
                });
            }
        }
        self.kind = agreed.unwrap_or(ResultKind::Vector);
    }

    fn note_failures(&mut self) {
        for (index, state) in self.slots.iter().enumerate() {
            if let SlotState::Failed(reason) = state {
                let slot = self.slot_at(index);
                self.merged.failures.push(SlotFailure {
                    slot,
                    reason: reason.clone(),
                });
            }
        }
    }

    fn count_events(&mut self) {
        for group in 0..self.groups.len() {
            let members = &self.groups[group].members;
            if !self.plan.ask.includes(group) {
                continue;
            }
            for variant in 0..self.plan.variants.len() {
                let usable: Vec<usize> = (0..members.len())
                    .filter(|member| {
                        self.is_usable(Slot {
                            group,
                            member: *member,
                            variant,
                        })
                    })
                    .collect();
                let first = usable.first();
                let is_fallback = first.is_some_and(|at| !(*at == 0 && members[0].is_first));
                self.merged.events.push(GroupEvents {
                    group,
                    variant,
                    attempted: u64::from(!members.is_empty()),
                    failed: u64::from(first.is_none()),
                    fallback: u64::from(is_fallback),
                    suppressed: usable.len().saturating_sub(1) as u64,
                    conflicts: 0,
                });
            }
        }
    }

    // === success ===

    fn begin_answer(&mut self, usable: &[usize]) {
        self.merged.leader = usable.first().and_then(|group| self.leader_of(*group));
        self.merged.status = usable
            .iter()
            .filter_map(|group| self.leader_of(*group))
            .filter_map(|slot| match &self.slots[self.index_of(slot)] {
                SlotState::Usable(_, status) => Some(*status),
                _ => None,
            })
            .min()
            .unwrap_or(200);
        self.collect_member_texts();
        if self.groups.len() > 1 {
            let warnings: Vec<String> =
                self.plan.warnings.iter().map(ToString::to_string).collect();
            warnings.into_iter().for_each(|text| self.doubt(&text));
        }
        self.note_missing_groups(usable.len());
        if let Some(document) = self.document() {
            let leaders = usable.iter().filter_map(|group| self.leader_of(*group));
            return self.begin_documents(document, &leaders.collect::<Vec<_>>());
        }
        self.output.put(b"{\"status\":\"success\",\"data\":");
        if matches!(self.kind, ResultKind::Scalar | ResultKind::Text) {
            return self.answer_pair();
        }
        self.begin_runs(usable);
        if self.kind == ResultKind::List {
            self.output.put(b"[");
        } else {
            let kind = self.kind.name();
            self.output
                .put(format!("{{\"resultType\":\"{kind}\",\"result\":[").as_bytes());
        }
        self.reducer = Reducer::new(
            Rules {
                strategy: self.plan.strategy,
                is_vector: self.kind == ResultKind::Vector,
                tolerance_ms: self.options.dedup_tolerance_ms,
            },
            self.groups.len(),
        );
        self.sort_from(0);
    }

    fn begin_runs(&mut self, usable: &[usize]) {
        for group in usable {
            for member in 0..self.groups[*group].members.len() {
                let slot = Slot {
                    group: *group,
                    member,
                    variant: 0,
                };
                // A member counts only with all its variants.
                if self.is_whole(slot) {
                    let first = self.index_of(slot);
                    let variants = self.plan.variants.len();
                    self.runs.extend((first..first + variants).map(Run::new));
                }
            }
        }
        // One group's instant answer keeps the order that its server chose, such as that of sort().
        let is_one_group = self.groups.len() == 1 && self.plan.variants.len() == 1;
        if is_one_group && self.kind == ResultKind::Vector {
            self.leading_run = Some(0);
        }
        // One answer alone stays as it came.
        if self.runs.len() == 1 {
            self.leading_run = Some(0);
        }
    }

    /// Collects the members' warnings and infos, in pool order, each text once, and their stats.
    fn collect_member_texts(&mut self) {
        let Self {
            slots,
            warnings,
            infos,
            stats,
            ..
        } = self;
        for state in slots.iter_mut() {
            let SlotState::Usable(parsed, _) = state else {
                continue;
            };
            for (from, to) in [
                (&mut parsed.warnings, &mut *warnings),
                (&mut parsed.infos, &mut *infos),
            ] {
                for text in from.drain(..) {
                    if to.len() < WARNINGS_MAX && !to.contains(&text) {
                        to.push(text);
                    }
                }
            }
            if let Some(of_member) = parsed.stats.take() {
                stats.get_or_insert_default().add_all(&of_member);
            }
        }
    }

    /// Warns that the answer may not be what one server would say.
    fn doubt(&mut self, text: &str) {
        self.warn(text);
        if !self.merged.inexact.iter().any(|known| known == text) {
            self.merged.inexact.push(text.to_owned());
        }
    }

    pub(super) fn warn(&mut self, text: &str) {
        let text = format!("{}{text}", self.options.warning_prefix);
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Something is missing of the answer.
    fn miss(&mut self, text: String) {
        self.warn(&text);
        self.merged.missing.push(text);
    }

    fn note_missing_groups(&mut self, usable: usize) {
        let is_asked = |group: &usize| self.plan.ask.includes(*group);
        let configured = (0..self.groups.len()).filter(is_asked).count();
        if usable == configured || self.plan.ask == Ask::AnyGroup {
            return;
        }
        self.merged.partial = true;
        let is_dead = |group: &&GroupSpec| group.members.is_empty();
        let asked = (0..self.groups.len()).filter(is_asked);
        let dead: Vec<String> = asked
            .map(|group| &self.groups[group])
            .filter(is_dead)
            .map(|group| group.name.clone())
            .collect();
        if !dead.is_empty() {
            let live = configured - dead.len();
            let names = dead.join(", ");
            self.miss(format!(
                "partial answer: {live} of {configured} replica groups are live; missing: {names}"
            ));
        }
        for group in 0..self.groups.len() {
            let is_asked = self.plan.ask.includes(group);
            let has_members = !self.groups[group].members.is_empty();
            if !is_asked || !has_members || self.leader_of(group).is_some() {
                continue;
            }
            let failure = self.merged.failures.iter().find(|f| f.slot.group == group);
            let reason = failure.map_or_else(String::new, |f| f.reason.to_string());
            let variant = failure.map_or("", |f| self.plan.variants[f.slot.variant].name);
            let name = &self.groups[group].name;
            let text = match variant {
                "" => {
                    format!("partial answer: replica group {name} gave no usable answer: {reason}")
                }
                _ => format!(
                    "partial answer: replica group {name} gave no usable answer to {variant}: {reason}"
                ),
            };
            self.miss(text);
        }
    }

    /// Answers a scalar or a string: the first that is not NaN in pool order, else the first.
    fn answer_pair(&mut self) {
        let pairs = || {
            self.slots.iter().filter_map(|state| match state {
                SlotState::Usable(parsed, _) => parsed.pair,
                _ => None,
            })
        };
        let chosen = pairs().find(|pair| !pair.is_nan).or_else(|| pairs().next());
        let kind = self.kind.name();
        self.output
            .put(format!("{{\"resultType\":\"{kind}\",\"result\":").as_bytes());
        if let Some(pair) = chosen {
            self.output.put(pair.text);
        }
        self.close_data();
        self.close_envelope();
    }

    /// All label sets are written: ends the answer.
    pub(super) fn conclude_writing(&mut self) {
        self.output.put(b"]");
        if self.kind != ResultKind::List {
            self.close_data();
        }
        self.note_doubts();
        self.merged.group_conflicts = self.reducer.doubts.group_conflicts;
        for event in &mut self.merged.events {
            if event.variant == 0 {
                event.conflicts = self
                    .reducer
                    .conflicts
                    .get(event.group)
                    .copied()
                    .unwrap_or(0);
            }
        }
        self.close_envelope();
    }

    fn note_doubts(&mut self) {
        let doubts = self.reducer.doubts;
        if doubts.has_unpaired_mean && self.plan.strategy == Strategy::Mean {
            self.doubt("avg: samples without both a sum and a count were left out");
            // Servers before 2.44 have no sum of floats and native histograms, but a mean.
            if self.options.aggregates_histograms {
                self.merged.retry = Some(Retry::Histograms);
            }
        }
        if doubts.has_infinite_mean {
            self.doubt("avg: a sum is infinite; the mean may be finite");
            self.merged.retry = Some(Retry::Overflow);
        }
        let has_several = self.groups.len() > 1;
        self.merged.has_rounded_sum = doubts.has_rounded_sum && has_several;
        if doubts.has_cancelled_sum && has_several {
            self.doubt(&format!(
                "{}: sums of replica groups cancel out, and what each has lost may show",
                self.plan.strategy.name()
            ));
            self.merged.retry = Some(Retry::Cancelled);
        }
        if doubts.has_mixed_zeros && has_several {
            self.merged.retry = Some(Retry::Zeros);
        }
        let is_mean = self.plan.strategy == Strategy::Mean;
        if (doubts.has_histogram || self.has_mixed_samples()) && (has_several || is_mean) {
            if doubts.has_histogram {
                self.doubt(&format!(
                    "{} met native histograms: the first replica group's is kept as it is",
                    self.plan.strategy.name()
                ));
            }
            if self.options.aggregates_histograms {
                self.merged.retry = Some(Retry::Histograms);
            }
        }
        let is_doubtful = match self.plan.sharing {
            Sharing::Ignored => false,
            Sharing::Conflicts => doubts.group_conflicts > 0,
            Sharing::Differences => doubts.is_shared_unevenly,
            Sharing::Always => doubts.is_shared,
        };
        let takes_one = matches!(self.plan.strategy, Strategy::Dedup | Strategy::Freshest);
        if is_doubtful && takes_one {
            if self.plan.settles_sharing {
                self.merged.retry = Some(Retry::Shared);
            }
            self.doubt(
                "several replica groups have series with the same labels: the first one's samples \
                 are kept, which one server with all the data may not answer",
            );
        }
    }

    /// Whether a member said that it left out samples of a mix of floats and histograms, which
    /// only one of the groups may see.
    fn has_mixed_samples(&self) -> bool {
        let is_mix = |text: &String| text.contains("mix of histograms and floats");
        self.plan.strategy.is_numeric() && self.warnings.iter().any(is_mix)
    }

    /// Says which budget the answers cross, if any.
    fn crossed_budget(&self) -> Option<String> {
        let (what, found, max, key) = if self.merged.series > self.options.series_max {
            let max = self.options.series_max;
            ("series", self.merged.series, max, "alb.tsm.max_series")
        } else if self.merged.samples > self.options.samples_max {
            let max = self.options.samples_max;
            ("samples", self.merged.samples, max, "alb.tsm.max_samples")
        } else {
            return None;
        };
        Some(format!(
            "the replica groups' answers hold {found} {what}, more than {max}: ask for less, or raise {key}"
        ))
    }

    /// Answers an error of our own.
    fn refuse(&mut self, text: &str) {
        self.merged.status = 422;
        self.output.put(&error_body("execution", text, &[]));
        self.phase = Phase::Done;
    }

    /// Ends `data`, an object.
    fn close_data(&mut self) {
        let room = self.output.room();
        if let Some(stats) = &self.stats {
            stats.write(room);
        }
        room.push(b'}');
    }

    pub(super) fn close_envelope(&mut self) {
        if !self.document().is_some_and(Document::is_text) {
            let room = self.output.room();
            write_texts(room, "warnings", &self.warnings);
            write_texts(room, "infos", &self.infos);
            room.push(b'}');
        }
        self.merged.warnings = std::mem::take(&mut self.warnings);
        self.phase = Phase::Done;
    }

    // === errors ===

    /// Returns the failure of a group whose error one server with all the data would give too.
    fn monotone_error(&self) -> Option<usize> {
        if !self.plan.warnings.is_empty() {
            return None;
        }
        let is_monotone = |failure: &SlotFailure| match &failure.reason {
            MemberFailure::Api {
                status: 422,
                message,
                ..
            } => MONOTONE_ERRORS.iter().any(|text| message.contains(text)),
            _ => false,
        };
        self.merged.failures.iter().position(|failure| {
            self.leader_of(failure.slot.group).is_none() && is_monotone(failure)
        })
    }

    /// Answers the error of failure number `chosen`, or the most telling one.
    fn answer_error(&mut self, chosen: Option<usize>) {
        let failures = &self.merged.failures;
        let chosen = chosen
            .or_else(|| (0..failures.len()).min_by_key(|at| (rank(&failures[*at].reason), *at)));
        let failure = chosen.map(|at| failures[at].clone());
        self.merged.leader = failure
            .as_ref()
            .filter(|f| f.reason.status().is_some())
            .map(|f| f.slot);
        let name = |slot: Slot| self.groups[slot.group].name.as_str();
        let (status, kind, message) = match failure {
            None => (
                502,
                "unavailable".to_owned(),
                "no replica group has a live member".to_owned(),
            ),
            Some(SlotFailure {
                reason:
                    MemberFailure::Api {
                        status,
                        kind,
                        message,
                    },
                ..
            }) => (error_status(status), kind, message),
            // What a server says whose own time is up.
            Some(SlotFailure {
                slot,
                reason: MemberFailure::TimedOut,
            }) => (
                503,
                "timeout".to_owned(),
                format!(
                    "query timed out: no replica group answered in time ({})",
                    name(slot)
                ),
            ),
            Some(SlotFailure { slot, reason }) => {
                let status = reason.status().map_or(502, error_status);
                let kind = match status {
                    400..=403 | 405..=499 => "bad_data",
                    404 => "not_found",
                    500 => "internal",
                    504 => "timeout",
                    _ => "unavailable",
                };
                let message = format!(
                    "no replica group gave a usable answer; {}: {reason}",
                    name(slot)
                );
                (status, kind.to_owned(), message)
            }
        };
        self.merged.status = status;
        if self.document().is_some_and(Document::is_text) {
            self.output.put(message.as_bytes());
            self.output.put(b"\n");
        } else {
            self.output.put(&error_body(&kind, &message, &[]));
        }
        self.phase = Phase::Done;
    }
}

/// Orders failures by how much they tell the client: a query that the servers refuse is refused
/// everywhere, an envelope says more than a bare status, an answer more than none.
fn rank(failure: &MemberFailure) -> (u8, u16) {
    match failure {
        MemberFailure::Api { status: 400, .. } => (0, 0),
        MemberFailure::Api { status: 422, .. } => (1, 0),
        MemberFailure::Api { status, .. } if (400..500).contains(status) => (2, *status),
        MemberFailure::Api { status, .. } => (3, 1000 - (*status).min(1000)),
        MemberFailure::Status { status } => (4, 1000 - (*status).min(1000)),
        MemberFailure::Malformed { .. } | MemberFailure::Limit { .. } => (5, 0),
        _ => (6, 0),
    }
}

/// An error envelope under a status that is no error is answered as a bad gateway.
fn error_status(status: u16) -> u16 {
    if (400..600).contains(&status) {
        status
    } else {
        502
    }
}
