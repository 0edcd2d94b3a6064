//! Carries a plan out: one merge for each part, then the expression over them.
//!
//! A plan without anything to evaluate is one [`Merge`], whose answer goes out as it is made.
//! Called by `ringway-shards`, which reports answers and gives turns.

mod collect;
mod write;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::arena::Arena;
use crate::error::MemberFailure;
use crate::eval::env::Env;
use crate::eval::error::EvalError;
use crate::eval::pace::{Pace, drive};
use crate::eval::{Parts, evaluate};
use crate::merge::{Answer, GroupSpec, Merge, MergeOptions, Merged, Progress, Slot};
use crate::plan::{Local, Plan};
use crate::write::{error_body, write_texts};

/// The work on one request: take answers in any order, step until done, finish.
pub struct Execution<'a> {
    kind: Kind<'a>,
}

enum Kind<'a> {
    Direct(Box<Merge<'a>>),
    Local(Box<Evaluation<'a>>),
}

/// A plan with parts.
struct Evaluation<'a> {
    arena: &'a Arena,
    local: &'a Local,
    groups: &'a [GroupSpec],
    merges: Vec<Merge<'a>>,
    pace: Rc<Pace>,
    work: Option<Pin<Box<dyn Future<Output = Result<Said, EvalError>> + 'a>>>,
    merged: Merged,
    is_done: bool,
}

/// What an evaluation says.
struct Said {
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
        let kind = match &plan.local {
            None => Kind::Direct(Box::new(Merge::new(arena, plan, groups, options.clone()))),
            Some(local) => Kind::Local(Box::new(Evaluation::new(arena, local, groups, options))),
        };
        Self { kind }
    }

    /// Takes the answer of a slot; its variant counts over all parts. See [`Merge::add`].
    pub fn add(&mut self, slot: Slot, answer: Answer) {
        match &mut self.kind {
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
            Kind::Direct(merge) => merge.step(units),
            Kind::Local(evaluation) => evaluation.step(units),
        }
    }

    /// Returns the answer; work that is left is done at once.
    pub fn finish(self) -> Merged {
        match self.kind {
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
        let merge = |part: &'a crate::plan::Part| {
            let first = part.first_variant * members;
            Merge::with_slots(arena, first, &part.plan, groups, options.clone())
        };
        Self {
            arena,
            local,
            groups,
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
        let mut answers = Vec::with_capacity(self.merges.len());
        for (part, merge) in self.merges.drain(..).enumerate() {
            let mut merged = merge.finish();
            for event in &mut merged.events {
                event.variant += self.local.parts[part].first_variant;
            }
            for failure in &mut merged.failures {
                failure.slot.variant += self.local.parts[part].first_variant;
            }
            self.merged.events.append(&mut merged.events);
            self.merged.failures.append(&mut merged.failures);
            self.merged.partial |= merged.partial;
            self.merged.group_conflicts += merged.group_conflicts;
            self.merged.leader = self.merged.leader.or(merged.leader);
            self.merged.status = self.merged.status.max(merged.status);
            let is_error = !(200..300).contains(&merged.status);
            if is_error {
                self.merged = Merged {
                    status: merged.status,
                    body: merged.body,
                    leader: merged.leader,
                    ..std::mem::take(&mut self.merged)
                };
                self.is_done = true;
                return;
            }
            answers.push(merged.body);
        }
        self.merged.status = self.merged.status.max(200);
        let (arena, local, pace) = (self.arena, self.local, self.pace.clone());
        let members: usize = self.groups.iter().map(|group| group.members.len()).sum();
        let slots: usize = local
            .parts
            .iter()
            .map(|part| part.plan.variants.len())
            .sum();
        let first_slot = members * slots;
        self.work = Some(Box::pin(async move {
            work(arena, first_slot, local, &pace, answers).await
        }));
    }

    fn conclude(&mut self, outcome: Result<Said, EvalError>) {
        self.is_done = true;
        self.work = None;
        match outcome {
            Ok(said) => {
                self.merged.body = said.body;
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

/// Reads the parts' answers, evaluates, and writes.
async fn work<'a>(
    arena: &'a Arena,
    first_slot: usize,
    local: &'a Local,
    pace: &Pace,
    answers: Vec<Vec<Vec<u8>>>,
) -> Result<Said, EvalError> {
    let env = Env {
        bump: arena.bump(),
        pace,
        clock: local.clock,
        notes: std::cell::RefCell::default(),
    };
    let mut parts = Parts::new();
    for (index, (body, part)) in answers.into_iter().zip(&local.parts).enumerate() {
        parts.push(collect::collect(&env, arena, first_slot + index, body, part).await?);
    }
    let value = evaluate(&env, &parts, local.clock.grid, &local.tree).await?;
    let body = write::write(&env, local, value).await?;
    let notes = env.notes.take();
    Ok(Said {
        body,
        warnings: notes.warnings,
        infos: notes.infos,
    })
}
