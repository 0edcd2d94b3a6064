//! Carries a plan out: one merge for each part, then the expression over them.
//!
//! A plan without anything to evaluate is one [`Merge`], whose answer goes out as it is made.
//! Called by `ringway-shards`, which reports answers and gives turns.

mod collect;
mod place;
#[cfg(test)]
mod tests;
mod write;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::arena::Arena;
use crate::document::Trim;
use crate::error::MemberFailure;
use crate::eval::env::Env;
use crate::eval::error::EvalError;
use crate::eval::pace::{Pace, drive};
use crate::eval::{PartData, Parts, evaluate};
use crate::merge::{Answer, GroupSpec, Merge, MergeOptions, Merged, Progress, Retry, Slot};
use crate::plan::{Local, Plan};
use crate::write::{error_body, write_texts};

/// The work on one request: take answers in any order, step until done, finish.
pub struct Execution<'a> {
    kind: Kind<'a>,
}

enum Kind<'a> {
    Direct(Box<Merge<'a>>),
    Local(Box<Evaluation<'a>>),
    Refused(&'a str),
}

/// An evaluation that is being driven.
type Work<'a> = Pin<Box<dyn Future<Output = Result<Said, EvalError>> + 'a>>;

/// What is said where the last bits of sums decide and nobody looks closer.
const TIE: &str = "the last bits of sums that the replica groups computed decide, and those may be \
                   others than one server's";

/// What is said where the order of series decides and nobody looks closer.
const ORDER: &str = "equal values compete, and which of them one server chooses depends on the order \
                     of its series";

/// A plan with parts.
struct Evaluation<'a> {
    arena: &'a Arena,
    local: &'a Local,
    groups: &'a [GroupSpec],
    options: MergeOptions,
    merges: Vec<Merge<'a>>,
    pace: Rc<Pace>,
    work: Option<Work<'a>>,
    merged: Merged,
    is_done: bool,
}

/// What an evaluation says.
struct Said {
    /// The last bits of sums that were computed in parts decide.
    has_tie: bool,
    /// The order of series that groups made decides.
    has_order_tie: bool,
    body: Vec<Vec<u8>>,
    warnings: Vec<String>,
    infos: Vec<String>,
}

impl std::fmt::Debug for Execution<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Execution").finish_non_exhaustive()
    }
}

impl<'a> Execution<'a> {
    /// Slots that the arena needs for `plan` over `members` in all.
    pub fn slots(plan: &Plan, members: usize) -> usize {
        plan.variants.len() * members + plan.local.as_ref().map_or(0, |local| local.parts.len())
    }

    /// Starts. `arena` is new or reset, with [`Execution::slots`].
    pub fn new(
        arena: &'a Arena,
        plan: &'a Plan,
        groups: &'a [GroupSpec],
        options: &MergeOptions,
    ) -> Self {
        let kind = match (&plan.refusal, &plan.local) {
            (Some(reason), _) => Kind::Refused(reason),
            (None, None) => {
                Kind::Direct(Box::new(Merge::new(arena, plan, groups, options.clone())))
            }
            (None, Some(local)) => {
                let mut evaluation = Evaluation::new(arena, local, groups, options);
                if groups.len() > 1 {
                    let warnings = plan.warnings.iter().map(ToString::to_string);
                    evaluation.merged.inexact.extend(warnings);
                }
                Kind::Local(Box::new(evaluation))
            }
        };
        Self { kind }
    }

    /// Takes the answer of a slot; its variant counts over all parts. See [`Merge::add`].
    pub fn add(&mut self, slot: Slot, answer: Answer) {
        match &mut self.kind {
            Kind::Refused(_) => {}
            Kind::Direct(merge) => merge.add(slot, answer),
            Kind::Local(evaluation) => {
                if let Some((part, slot)) = evaluation.part_of(slot) {
                    evaluation.merges[part].add(slot, answer);
                }
            }
        }
    }

    /// Reports that a slot gave no usable answer.
    pub fn fail(&mut self, slot: Slot, reason: MemberFailure) {
        match &mut self.kind {
            Kind::Refused(_) => {}
            Kind::Direct(merge) => merge.fail(slot, reason),
            Kind::Local(evaluation) => {
                if let Some((part, slot)) = evaluation.part_of(slot) {
                    evaluation.merges[part].fail(slot, reason);
                }
            }
        }
    }

    /// Works for about `units`.
    pub fn step(&mut self, units: usize) -> Progress {
        match &mut self.kind {
            Kind::Refused(_) => Progress::Done,
            Kind::Direct(merge) => merge.step(units),
            Kind::Local(evaluation) => evaluation.step(units),
        }
    }

    /// Returns the answer; work that is left is done at once.
    pub fn finish(self) -> Merged {
        match self.kind {
            Kind::Refused(reason) => Merged {
                status: 422,
                body: vec![error_body("execution", reason, &[])],
                ..Merged::default()
            },
            Kind::Direct(merge) => merge.finish(),
            Kind::Local(evaluation) => evaluation.finish(),
        }
    }
}

impl<'a> Evaluation<'a> {
    fn new(
        arena: &'a Arena,
        local: &'a Local,
        groups: &'a [GroupSpec],
        options: &MergeOptions,
    ) -> Self {
        let members: usize = groups.iter().map(|group| group.members.len()).sum();
        // Of the whole answer, not of its parts.
        let of_part = MergeOptions {
            trim: Trim::default(),
            ..options.clone()
        };
        let merge = |part: &'a crate::plan::Part| {
            let first = part.first_variant * members;
            Merge::with_slots(arena, first, &part.plan, groups, of_part.clone())
        };
        Self {
            arena,
            local,
            groups,
            options: options.clone(),
            merges: local.parts.iter().map(merge).collect(),
            pace: Rc::default(),
            work: None,
            merged: Merged::default(),
            is_done: false,
        }
    }

    fn part_of(&self, slot: Slot) -> Option<(usize, Slot)> {
        let index = self
            .local
            .parts
            .partition_point(|part| part.first_variant <= slot.variant)
            .checked_sub(1)?;
        let variant = slot.variant - self.local.parts[index].first_variant;
        Some((index, Slot { variant, ..slot }))
    }

    fn step(&mut self, units: usize) -> Progress {
        if self.is_done {
            return Progress::Done;
        }
        if self.work.is_none() {
            let mut all_done = true;
            for merge in &mut self.merges {
                match merge.step(units) {
                    Progress::More => return Progress::More,
                    Progress::Starved => all_done = false,
                    Progress::Done => {}
                }
            }
            if !all_done {
                return Progress::Starved;
            }
            self.begin();
        }
        if let Some(work) = &mut self.work
            && let Some(outcome) = drive(&self.pace, work.as_mut(), units)
        {
            self.conclude(outcome);
        }
        match self.is_done {
            true => Progress::Done,
            false => Progress::More,
        }
    }

    /// All parts are merged: starts to evaluate, unless one of them is an error.
    fn begin(&mut self) {
        let mut finished: Vec<Merged> = self.merges.drain(..).map(Merge::finish).collect();
        if let Some(check) = self.local.check {
            let shown = finished.remove(check);
            // What a server says of the query itself. Its data are of no interest.
            if shown.status == 400 {
                return self.answer(shown);
            }
        }
        let mut answers = Vec::with_capacity(finished.len());
        let mut are_rounded = Vec::with_capacity(finished.len());
        for (part, mut merged) in finished.into_iter().enumerate() {
            self.take_counts(part, &mut merged);
            if !(200..300).contains(&merged.status) {
                return self.answer(merged);
            }
            answers.push(merged.body);
            are_rounded.push(merged.has_rounded_sum);
        }
        if let Some(text) = self.crossed_budget() {
            self.merged.status = 422;
            self.merged.body = vec![error_body("execution", &text, &[])];
            self.is_done = true;
            return;
        }
        self.merged.status = self.merged.status.max(200);
        let (arena, local, pace) = (self.arena, self.local, self.pace.clone());
        let members: usize = self.groups.iter().map(|group| group.members.len()).sum();
        let variants = local.parts.iter().map(|part| part.plan.variants.len());
        let first_slot = members * variants.sum::<usize>();
        let options = self.options.clone();
        self.work = Some(Box::pin(async move {
            work(
                arena,
                first_slot,
                local,
                &pace,
                (answers, are_rounded, options),
            )
            .await
        }));
    }

    /// Answers what a part was answered.
    fn answer(&mut self, merged: Merged) {
        self.merged = Merged {
            status: merged.status,
            body: merged.body,
            leader: merged.leader,
            ..std::mem::take(&mut self.merged)
        };
        self.is_done = true;
    }

    fn take_counts(&mut self, part: usize, merged: &mut Merged) {
        let first = self.local.parts[part].first_variant;
        for event in &mut merged.events {
            event.variant += first;
        }
        for failure in &mut merged.failures {
            failure.slot.variant += first;
        }
        for read in &mut merged.reads {
            read.slot.variant += first;
        }
        self.merged.reads.append(&mut merged.reads);
        for text in merged.missing.drain(..) {
            if !self.merged.missing.contains(&text) {
                self.merged.missing.push(text);
            }
        }
        self.merged.events.append(&mut merged.events);
        self.merged.failures.append(&mut merged.failures);
        self.merged.partial |= merged.partial;
        self.merged.group_conflicts += merged.group_conflicts;
        self.merged.series += merged.series;
        self.merged.samples += merged.samples;
        self.merged.leader = self.merged.leader.or(merged.leader);
        self.merged.status = self.merged.status.max(merged.status);
        let retries = [self.merged.retry, merged.retry];
        self.merged.retry = retries
            .into_iter()
            .flatten()
            .max_by_key(|retry| retry.care());
        for reason in merged.inexact.drain(..) {
            if !self.merged.inexact.contains(&reason) {
                self.merged.inexact.push(reason);
            }
        }
    }

    /// Says which budget the answers of all parts together cross, if any.
    fn crossed_budget(&self) -> Option<String> {
        let MergeOptions {
            samples_max,
            series_max,
            ..
        } = self.options;
        let (what, found, max, key) = if self.merged.series > series_max {
            (
                "series",
                self.merged.series,
                series_max,
                "alb.tsm.max_series",
            )
        } else if self.merged.samples > samples_max {
            (
                "samples",
                self.merged.samples,
                samples_max,
                "alb.tsm.max_samples",
            )
        } else {
            return None;
        };
        let why = self.local.sources.first().map_or("", |source| &source.why);
        Some(format!(
            "the parts of the query hold {found} {what}, more than {max} ({why}): ask for less, or \
             raise {key}"
        ))
    }

    fn conclude(&mut self, outcome: Result<Said, EvalError>) {
        self.is_done = true;
        self.work = None;
        match outcome {
            Ok(mut said) => {
                self.merged.body = said.body;
                if said.has_tie {
                    self.merged.retry.get_or_insert(Retry::Tie);
                    self.merged.inexact.push(TIE.to_owned());
                }
                if said.has_order_tie {
                    self.merged.retry.get_or_insert(Retry::Order);
                    self.merged.inexact.push(ORDER.to_owned());
                }
                for reason in &self.merged.inexact {
                    let text = format!("{}{reason}", self.options.warning_prefix);
                    if !said.warnings.contains(&text) {
                        said.warnings.push(text);
                    }
                }
                let mut end = Vec::new();
                write_texts(&mut end, "warnings", &said.warnings);
                write_texts(&mut end, "infos", &said.infos);
                end.push(b'}');
                self.merged.body.push(end);
                self.merged.warnings = said.warnings;
            }
            Err(error) => {
                let (status, kind) = error.class();
                self.merged.status = status;
                self.merged.body = vec![error_body(kind, &error.to_string(), &[])];
            }
        }
    }

    fn finish(mut self) -> Merged {
        for merge in &mut self.merges {
            merge.give_up();
        }
        while self.step(crate::limits::STEP_UNITS_DEFAULT) != Progress::Done {}
        self.merged
    }
}

/// Annotations with their places in the query, each once.
fn placed(text: &str, annotations: &[String]) -> Vec<String> {
    let mut all = Vec::with_capacity(annotations.len());
    for annotation in annotations {
        let annotation = place::placed(text, annotation);
        if !all.contains(&annotation) {
            all.push(annotation);
        }
    }
    all
}

/// Reads the parts' answers, evaluates, and writes.
async fn work<'a>(
    arena: &'a Arena,
    first_slot: usize,
    local: &'a Local,
    pace: &Pace,
    (answers, are_rounded, options): (Vec<Vec<Vec<u8>>>, Vec<bool>, MergeOptions),
) -> Result<Said, EvalError> {
    let env = Env {
        bump: arena.bump(),
        pace,
        clock: local.clock,
        notes: std::cell::RefCell::default(),
        watch: Default::default(),
        order: Default::default(),
    };
    let mut read = Vec::with_capacity(answers.len());
    for (index, body) in answers.into_iter().enumerate() {
        read.push(collect::collect(&env, arena, first_slot + index, body).await?);
    }
    let mut parts = Parts::with_capacity(local.sources.len());
    for source in &local.sources {
        let samples = collect::join(&env, &read[source.parts.clone()]).await?;
        let points = samples.len() as u64 * source.steps as u64;
        let samples_max = options.samples_max;
        if points > samples_max {
            return Err(EvalError::Execution(format!(
                "{} series at {} steps make {points} samples, more than {samples_max} ({}): ask for \
                 less, or raise alb.tsm.max_samples",
                samples.len(),
                source.steps,
                source.why
            )));
        }
        parts.push(PartData {
            samples,
            windows: source.windows,
            is_in_parts: are_rounded[source.parts.clone()].contains(&true),
            is_aggregated: source.is_aggregated,
            is_fixed: source.is_fixed,
        });
    }
    let value = evaluate(&env, &parts, local.clock.grid, &local.tree).await?;
    let body = write::write(&env, local, value, options.trim.limit).await?;
    let notes = env.notes.take();
    Ok(Said {
        has_tie: env.watch.is_found(),
        has_order_tie: env.order.is_found(),
        body,
        warnings: placed(&local.text, &notes.warnings),
        infos: placed(&local.text, &notes.infos),
    })
}
