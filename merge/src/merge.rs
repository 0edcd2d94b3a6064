//! The merge of one client request as a state machine.
//!
//! Owns the state of every slot and the answer being written. Takes answers in any order, reads
//! them as they come, joins their series in pool order, writes one body. Called by the shards'
//! fan-out; calls [`crate::parse`], [`crate::reduce`] and [`crate::write`].

pub(crate) mod conclude;
mod contract;
mod document;
#[cfg(test)]
mod model;
mod order;
#[cfg(test)]
mod tests;

pub use contract::{
    Answer, GroupEvents, GroupSpec, MemberSpec, MergeOptions, Merged, Progress, Retry, Slot,
    SlotFailure, SlotRead,
};

use crate::arena::Arena;
use crate::document::{Document, Joining};
use crate::error::MemberFailure;
use crate::labels::{self, Label, LabelSet};
use crate::limits::STEP_UNITS_MIN;
use crate::plan::{Endpoint, Keep, Plan};
use crate::reduce::{Origin, Reducer, Rules};
use crate::sample::Points;
use crate::series::{Parsed, ResultKind, Series};
use crate::stats::Stats;
use crate::write::{Output, write_labels, write_string};
use document::Reader;
use order::{Run, Sorter};

/// Answers a request of two groups that both say `body` under `status`, in the smallest steps: the
/// whole path from outside bytes to an answer in one call, for fuzzing.
pub fn merge_one(endpoint: &Endpoint, query: Option<&str>, status: u16, body: &[u8]) -> Merged {
    let plan = crate::plan::plan(endpoint, query, &crate::plan::PlanOptions::default());
    let groups = [GroupSpec::single("a"), GroupSpec::single("b")];
    let variants = plan.variants.len();
    let arena = Arena::new(crate::limits::ARENA_BYTES_DEFAULT, groups.len() * variants);
    let mut merge = Merge::new(&arena, &plan, &groups, MergeOptions::default());
    for group in 0..groups.len() {
        for variant in 0..variants {
            let slot = Slot {
                group,
                member: 0,
                variant,
            };
            merge.add(slot, Answer::new(status, body.to_vec()));
            while merge.step(STEP_UNITS_MIN) == Progress::More {}
        }
    }
    merge.finish()
}

/// What is known of a slot.
#[derive(Debug)]
enum SlotState<'a> {
    Waiting,
    Reading(Box<Reader<'a>>, u16),
    Usable(Parsed<'a>, u16),
    Failed(MemberFailure),
    /// The group is not asked.
    Unasked,
}

#[derive(Debug)]
enum Phase<'a> {
    /// Answers come in and are read.
    Reading,
    /// Answers that are not sorted by labels are; the run being sorted.
    Sorting(usize, Sorter),
    /// Label sets are joined and written.
    Joining,
    /// Documents are.
    Documents(Box<Joining<'a>>),
    Done,
}

/// Units of one comparison of label sets.
const COMPARE_UNITS: usize = 24;

/// The merge of one client request: take answers in any order, step until done, finish.
#[derive(Debug)]
pub struct Merge<'a> {
    arena: &'a Arena,
    first_slot: usize,
    plan: &'a Plan,
    groups: &'a [GroupSpec],
    options: MergeOptions,
    /// By slot index: group by group, member by member, variant by variant.
    slots: Vec<SlotState<'a>>,
    /// Index of the first slot of each group.
    starts: Vec<usize>,
    /// Labels of whoever answered, sorted by name; by slot index.
    injected: Vec<&'a [Label<'a>]>,
    /// Slots being read, in order of arrival.
    reading: Vec<usize>,
    unreported: usize,
    phase: Phase<'a>,
    kind: ResultKind,
    runs: Vec<Run>,
    /// The run whose order the answer keeps; else the answer is sorted by labels.
    leading_run: Option<usize>,
    reducer: Reducer<'a>,
    joined: Vec<(Origin, Series<'a>)>,
    /// Label sets that are written, or being written.
    label_sets: u64,
    output: Output,
    merged: Merged,
    warnings: Vec<String>,
    infos: Vec<String>,
    stats: Option<Stats>,
}

impl<'a> Merge<'a> {
    /// Starts a merge. `arena` is new or reset, with a slot for every member and variant.
    pub fn new(
        arena: &'a Arena,
        plan: &'a Plan,
        groups: &'a [GroupSpec],
        options: MergeOptions,
    ) -> Self {
        Self::with_slots(arena, 0, plan, groups, options)
    }

    /// The same, with the arena's slots from `first_slot` on.
    pub(crate) fn with_slots(
        arena: &'a Arena,
        first_slot: usize,
        plan: &'a Plan,
        groups: &'a [GroupSpec],
        options: MergeOptions,
    ) -> Self {
        let variants = plan.variants.len();
        let mut starts = Vec::with_capacity(groups.len());
        let mut count = 0;
        for group in groups {
            starts.push(count);
            count += group.members.len() * variants;
        }
        let mut slots = Vec::with_capacity(count);
        let mut unreported = 0;
        for (index, group) in groups.iter().enumerate() {
            let is_asked = plan.ask.includes(index);
            for _ in 0..group.members.len() * variants {
                unreported += usize::from(is_asked);
                slots.push(match is_asked {
                    true => SlotState::Waiting,
                    false => SlotState::Unasked,
                });
            }
        }
        let rules = Rules {
            strategy: plan.strategy,
            is_vector: false,
            tolerance_ms: 0,
        };
        Self {
            arena,
            first_slot,
            plan,
            groups,
            options,
            slots,
            starts,
            injected: vec![&[]; count],
            reading: Vec::new(),
            unreported,
            phase: Phase::Reading,
            kind: ResultKind::Vector,
            runs: Vec::new(),
            leading_run: None,
            reducer: Reducer::new(rules, 0),
            joined: Vec::new(),
            label_sets: 0,
            output: Output::default(),
            merged: Merged::default(),
            warnings: Vec::new(),
            infos: Vec::new(),
            stats: None,
        }
    }

    /// Takes the answer of a slot. A slot is reported once, by `add` or [`Merge::fail`]; later
    /// reports, and slots that do not exist, are ignored.
    pub fn add(&mut self, slot: Slot, answer: Answer) {
        let Some(index) = self.waiting(slot) else {
            return;
        };
        let Answer {
            status,
            body,
            injected_labels,
        } = answer;
        // Where a query has no selector, servers have nothing to say of exemplars.
        let is_empty = status == 204 && self.document() == Some(Document::Exemplars);
        let (status, body) = match is_empty && body.is_empty() {
            true => (200, br#"{"status":"success","data":[]}"#.to_vec()),
            false => (status, body),
        };
        if body.len() > crate::limits::BODY_BYTES_MAX {
            return self.settle(index, SlotState::Failed(MemberFailure::Truncated));
        }
        match labels::copy_texts(self.arena.bump(), injected_labels) {
            Ok(labels) => self.injected[index] = labels,
            Err(failure) => return self.settle(index, SlotState::Failed(failure)),
        }
        let injected = match self.read_with(index) {
            Ok(labels) => labels,
            Err(failure) => return self.settle(index, SlotState::Failed(failure)),
        };
        let Some(body) = self.arena.keep(self.first_slot + index, body) else {
            return self.settle(index, SlotState::Failed(MemberFailure::Internal));
        };
        let reader = Reader::new(&self.plan.endpoint, body, self.arena.bump(), injected);
        self.settle(index, SlotState::Reading(Box::new(reader), status));
        self.reading.push(index);
    }

    /// Reports that a slot gave no usable answer.
    pub fn fail(&mut self, slot: Slot, reason: MemberFailure) {
        if let Some(index) = self.waiting(slot) {
            self.settle(index, SlotState::Failed(reason));
        }
    }

    /// Works for about `units` (bytes read or written), at least [`STEP_UNITS_MIN`].
    pub fn step(&mut self, units: usize) -> Progress {
        let mut left = units.max(STEP_UNITS_MIN);
        loop {
            let used = match self.phase {
                Phase::Done => return Progress::Done,
                Phase::Reading if !self.reading.is_empty() => self.read(left),
                Phase::Reading if self.unreported > 0 => return Progress::Starved,
                Phase::Reading => self.conclude_reading(),
                Phase::Sorting(..) => self.sort(left),
                Phase::Joining => self.join(left),
                Phase::Documents(..) => self.join_documents(left),
            };
            left = left.saturating_sub(used);
            if left == 0 && !matches!(self.phase, Phase::Done) {
                return Progress::More;
            }
        }
    }

    /// Returns the answer. Slots that were never reported count as unreachable; work that is left
    /// is done at once.
    pub fn finish(mut self) -> Merged {
        self.give_up();
        while self.step(crate::limits::STEP_UNITS_DEFAULT) != Progress::Done {}
        self.merged.body = self.output.finish();
        self.merged
    }

    // === slots ===

    /// Slots that were never reported count as unreachable.
    pub(crate) fn give_up(&mut self) {
        for index in 0..self.slots.len() {
            if matches!(self.slots[index], SlotState::Waiting) {
                self.settle(index, SlotState::Failed(MemberFailure::Unreachable));
            }
        }
    }

    fn waiting(&self, slot: Slot) -> Option<usize> {
        let group = self.groups.get(slot.group)?;
        let variants = self.plan.variants.len();
        if slot.member >= group.members.len() || slot.variant >= variants {
            return None;
        }
        let index = self.starts.get(slot.group)? + slot.member * variants + slot.variant;
        matches!(self.slots.get(index), Some(SlotState::Waiting)).then_some(index)
    }

    fn settle(&mut self, index: usize, state: SlotState<'a>) {
        debug_assert!(matches!(self.slots[index], SlotState::Waiting));
        self.slots[index] = state;
        self.unreported -= 1;
    }

    fn slot_at(&self, index: usize) -> Slot {
        let group = self
            .starts
            .partition_point(|start| *start <= index)
            .saturating_sub(1);
        // Groups without members start where the next one does: the last such start is ours.
        let within = index - self.starts[group];
        let variants = self.plan.variants.len();
        Slot {
            group,
            member: within / variants,
            variant: within % variants,
        }
    }

    /// Returns the labels that the reader adds to every label set of the slot.
    fn read_with(&self, index: usize) -> Result<&'a [Label<'a>], MemberFailure> {
        let is_list = matches!(
            self.plan.endpoint,
            Endpoint::Labels | Endpoint::LabelValues(_)
        );
        let injected = self.injected[index];
        match &self.plan.keeps {
            _ if is_list || self.plan.strips_injected_labels => Ok(&[]),
            Keep::Nothing => Ok(&[]),
            Keep::All => Ok(injected),
            Keep::Listed(names) => {
                let mut kept = injected.to_vec();
                kept.retain(|label| names.iter().any(|name| name == label.name));
                labels::copy(self.arena.bump(), &kept)
            }
        }
    }

    // === phases ===

    fn read(&mut self, units: usize) -> usize {
        let Some(&index) = self.reading.first() else {
            return 0;
        };
        let SlotState::Reading(reader, status) = &mut self.slots[index] else {
            self.reading.remove(0);
            return 0;
        };
        let status = *status;
        let (used, outcome) = match reader.step(units) {
            Ok((used, false)) => return used,
            Ok((used, true)) => (used, Ok(())),
            // A body that is no JSON beside an error status: the status says more.
            Err(_) if !(200..300).contains(&status) => (1, Err(MemberFailure::Status { status })),
            Err(failure) => (1, Err(failure)),
        };
        self.reading.remove(0);
        let state = std::mem::replace(&mut self.slots[index], SlotState::Waiting);
        let SlotState::Reading(reader, _) = state else {
            return used;
        };
        let parsed = outcome
            .and_then(|()| reader.finish(status))
            .and_then(|parsed| {
                if self.fits_endpoint(parsed.kind) {
                    Ok(parsed)
                } else {
                    Err(MemberFailure::Malformed {
                        at: 0,
                        problem: "data of another kind",
                    })
                }
            });
        self.slots[index] = match parsed.and_then(|parsed| self.with_injected(index, parsed)) {
            Ok(parsed) => {
                self.merged.series += parsed.series.len() as u64;
                self.merged.samples += parsed.samples;
                self.merged.reads.push(SlotRead {
                    slot: self.slot_at(index),
                    series: parsed.series.len() as u64,
                    samples: parsed.samples,
                });
                SlotState::Usable(parsed, status)
            }
            Err(failure) => SlotState::Failed(failure),
        };
        used
    }

    fn fits_endpoint(&self, kind: Option<ResultKind>) -> bool {
        match self.plan.endpoint {
            Endpoint::Query | Endpoint::QueryRange => !matches!(kind, Some(ResultKind::List)),
            Endpoint::Document(_) => matches!(kind, Some(ResultKind::Document)),
            _ => matches!(kind, Some(ResultKind::List)),
        }
    }

    /// Adds what injected labels mean for lists: their names to the label names of a member that
    /// has any, their value to the values of their label.
    fn with_injected(
        &self,
        index: usize,
        mut parsed: Parsed<'a>,
    ) -> Result<Parsed<'a>, MemberFailure> {
        for &Label { name, value } in self.injected[index] {
            let text = match &self.plan.endpoint {
                Endpoint::Labels if !parsed.series.is_empty() => name,
                Endpoint::LabelValues(wanted) if wanted == name => value,
                _ => continue,
            };
            let labels = labels::copy(
                self.arena.bump(),
                &[Label {
                    name: "",
                    value: text,
                }],
            )?;
            let set = LabelSet { labels, text: None };
            parsed.series.push(Series {
                set,
                points: Points::default(),
                histograms: &[],
            });
            parsed.is_sorted = false;
        }
        Ok(parsed)
    }

    fn sort(&mut self, units: usize) -> usize {
        let Phase::Sorting(run, sorter) = &mut self.phase else {
            return 0;
        };
        let run = *run;
        let SlotState::Usable(parsed, _) = &self.slots[self.runs[run].slot] else {
            return 0;
        };
        let comparisons = units / COMPARE_UNITS + 1;
        if let Some(order) = sorter.step(&parsed.series, comparisons) {
            self.runs[run].order = Some(order);
            self.sort_from(run + 1);
        }
        units
    }

    /// Sorts the first unsorted run from number `first` on, or goes on to joining.
    fn sort_from(&mut self, first: usize) {
        let needs_sort = |run: &usize| match &self.slots[self.runs[*run].slot] {
            SlotState::Usable(parsed, _) => !parsed.is_sorted && self.leading_run != Some(*run),
            _ => false,
        };
        self.phase = match (first..self.runs.len()).find(needs_sort) {
            Some(run) => Phase::Sorting(run, Sorter::new(self.series_of(run).len())),
            None => Phase::Joining,
        };
    }

    fn series_of(&self, run: usize) -> &[Series<'a>] {
        match &self.slots[self.runs[run].slot] {
            SlotState::Usable(parsed, _) => &parsed.series,
            _ => &[],
        }
    }

    fn join(&mut self, units: usize) -> usize {
        let mut used = 0;
        while used < units {
            if !self.reducer.is_idle() {
                used += self.reducer.step(&mut self.output, units - used);
                continue;
            }
            used += COMPARE_UNITS * self.runs.len().max(1);
            self.join_next();
            if self.joined.is_empty() || self.is_cut_short() {
                self.conclude_writing();
                return used;
            }
            self.label_sets += 1;
            if self.kind == ResultKind::List {
                used += self.write_listed();
            } else {
                self.reducer.begin(&self.joined);
            }
        }
        used
    }

    /// Gathers the series of the next label set, in pool order.
    fn join_next(&mut self) {
        self.joined.clear();
        let mut wanted = None;
        if let Some(run) = self.leading_run {
            wanted = self.head(run);
        }
        let is_led = wanted.is_some();
        if !is_led {
            for run in 0..self.runs.len() {
                let Some(head) = self.head(run) else { continue };
                let is_less = wanted.is_none_or(|best: Series<'a>| {
                    labels::compare(head.set.labels, best.set.labels).is_lt()
                });
                if is_less {
                    wanted = Some(head);
                }
            }
        }
        let Some(wanted) = wanted else { return };
        for run in 0..self.runs.len() {
            let slot = self.slot_at(self.runs[run].slot);
            let origin = Origin {
                group: u32::try_from(slot.group).unwrap_or(u32::MAX),
                member: u32::try_from(slot.member).unwrap_or(u32::MAX),
                variant: u32::try_from(slot.variant).unwrap_or(u32::MAX),
            };
            if is_led && self.leading_run != Some(run) {
                let Self { runs, slots, .. } = self;
                if let SlotState::Usable(parsed, _) = &slots[runs[run].slot]
                    && let Some(series) = runs[run].take_equal(&parsed.series, &wanted)
                {
                    self.joined.push((origin, series));
                }
                continue;
            }
            // An answer may hold a label set twice: floats and histograms apart.
            while let Some(head) = self.head(run) {
                if head.set.labels != wanted.set.labels {
                    break;
                }
                self.joined.push((origin, head));
                self.runs[run].advance();
                if is_led {
                    break;
                }
            }
        }
    }

    fn head(&mut self, run: usize) -> Option<Series<'a>> {
        let Self { runs, slots, .. } = self;
        match &slots[runs[run].slot] {
            SlotState::Usable(parsed, _) => runs[run].head(&parsed.series),
            _ => None,
        }
    }

    fn write_listed(&mut self) -> usize {
        let Some((_, series)) = self.joined.first() else {
            return 0;
        };
        let room = self.output.room();
        let before = room.len();
        if self.label_sets > 1 {
            room.push(b',');
        }
        match series.set.labels {
            [Label { name: "", value }] => write_string(room, value),
            _ => write_labels(room, &series.set),
        }
        room.len() - before
    }
}
