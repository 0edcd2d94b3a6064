//! What a merge is given and what it gives back: groups, slots, answers, progress, outcome.

use crate::document::Trim;
use crate::error::MemberFailure;
use crate::plan::Care;

/// A replica group of the pool, in pool order, with its live members in pool order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSpec {
    /// The group's name, as configured.
    pub name: String,
    /// The members that are asked; empty for a group without a live member.
    pub members: Vec<MemberSpec>,
}

impl GroupSpec {
    /// Returns a group of one member of the same name.
    pub fn single(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            members: vec![MemberSpec::new(name)],
        }
    }
}

/// A member of a replica group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSpec {
    /// The backend's name.
    pub name: String,
    /// Whether this is the group's first configured member (it may be missing here because it is
    /// not live); taking another one counts as a fallback.
    pub is_first: bool,
}

impl MemberSpec {
    /// Returns a first configured member.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_first: true,
        }
    }
}

/// What a merge may do; filled from the ALB's options.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// Another member's sample at most this long after a kept one is dropped; 0 compares times
    /// exactly. Applies to dedup only.
    pub dedup_tolerance_ms: i64,
    /// Put in front of every warning of ours.
    pub warning_prefix: &'static str,
    /// Native histograms are added up as servers do (decision 22, `aggregate`): an aggregation that
    /// meets one asks for a second, careful plan. Else the first group's is kept, with a warning.
    pub aggregates_histograms: bool,
    /// Most samples that one request may read or compute at once (`alb.tsm.max_samples`).
    pub samples_max: u64,
    /// Most series that one request may read (`alb.tsm.max_series`).
    pub series_max: u64,
    /// What the answer is cut down to.
    pub trim: Trim,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self {
            dedup_tolerance_ms: 0,
            warning_prefix: "ringway: ",
            aggregates_histograms: false,
            samples_max: crate::limits::SAMPLES_DEFAULT,
            series_max: crate::limits::SERIES_DEFAULT,
            trim: Trim::default(),
        }
    }
}

/// One request: a member asked for a variant. All three are indexes into the plan's and the
/// groups' lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// Index of the group.
    pub group: usize,
    /// Index of the member in its group.
    pub member: usize,
    /// Index of the plan's variant.
    pub variant: usize,
}

/// A complete HTTP answer of a member, its content coding undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Vec<u8>,
    /// `prometheus.labels` of the backend that answered, which may stand below the member.
    pub injected_labels: Vec<(String, String)>,
}

impl Answer {
    /// Returns an answer without injected labels.
    pub fn new(status: u16, body: Vec<u8>) -> Self {
        Self {
            status,
            body,
            injected_labels: Vec::new(),
        }
    }
}

/// What [`crate::Merge::step`] left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More work is at hand: yield, then step again.
    More,
    /// Nothing to do until another slot is reported.
    Starved,
    /// The answer is ready.
    Done,
}

/// Counts of one group and variant, for metrics and logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupEvents {
    /// Index of the group.
    pub group: usize,
    /// Index of the variant.
    pub variant: usize,
    /// 1 when any member was asked.
    pub attempted: u64,
    /// 1 when no member gave a usable answer.
    pub failed: u64,
    /// 1 when the leading usable member is not the first configured one.
    pub fallback: u64,
    /// Usable members beside the leading one.
    pub suppressed: u64,
    /// Samples where two members of the group disagree.
    pub conflicts: u64,
}

/// A slot that contributed nothing, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotFailure {
    /// Which slot.
    pub slot: Slot,
    /// Why.
    pub reason: MemberFailure,
}

/// What was read of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRead {
    /// Which slot.
    pub slot: Slot,
    /// Its series.
    pub series: u64,
    /// Its samples.
    pub samples: u64,
}

/// Why a request should be planned and asked a second time, carefully
/// ([`crate::PlanOptions::care`]): the samples show that what was left to the servers cannot
/// be combined exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Retry {
    /// An aggregation met native histograms.
    #[error("an aggregation met native histograms")]
    Histograms,
    /// The sum under an average is infinite, and the average may not be.
    #[error("the sum under an average overflowed")]
    Overflow,
    /// Sums of replica groups are much larger than their sum.
    #[error("sums of replica groups cancel out")]
    Cancelled,
    /// Sums of replica groups were compared, or the like, and their last bits decide.
    #[error("the last bits of a sum decide")]
    Tie,
    /// Smallest or largest of several zeros that differ in sign, where the first series' is due, or
    /// a mean of negative ones.
    #[error("the sign of a zero is in doubt")]
    Zeros,
    /// Equal values compete, and the order of series that groups made is not that of one server.
    #[error("the order of series decides between equal values")]
    Order,
    /// Several groups have a series, and each may have a part of its samples.
    #[error("several replica groups have samples of one series")]
    Shared,
}

impl Retry {
    /// How the second plan is made. It is of use where the first was less careful.
    pub fn care(self) -> Care {
        match self {
            Self::Histograms
            | Self::Overflow
            | Self::Cancelled
            | Self::Tie
            | Self::Zeros
            | Self::Order => Care::Aggregates,
            Self::Shared => Care::Samples,
        }
    }

    /// Whether the answer that asks is better than none, should the second plan fail: it differs by
    /// what rounding does, or has an equal value in place of another.
    pub fn may_fail(self) -> bool {
        matches!(self, Self::Tie | Self::Order)
    }
}

/// The outcome of a merge.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// HTTP status.
    pub status: u16,
    /// The JSON body, in order.
    pub body: Vec<Vec<u8>>,
    /// Whether some, but not all, groups are in the answer (`phit`).
    pub partial: bool,
    /// The slot whose headers lead the response: the first usable one, else the one whose error
    /// is answered; `None` when no member answered.
    pub leader: Option<Slot>,
    /// Why the answer may differ from one server's although all groups answered; `strict` turns
    /// these into an error (decision 25).
    pub inexact: Vec<String>,
    /// What is missing of a partial answer, in words.
    pub missing: Vec<String>,
    /// Set when a second plan would be exact where this answer may not be.
    pub retry: Option<Retry>,
    /// Whether sums of numbers that are not whole were added up, so that their last bits may be
    /// others than those of one server.
    pub has_rounded_sum: bool,
    /// All warnings in the body, the members' and ours.
    pub warnings: Vec<String>,
    /// Series read, over all answers.
    pub series: u64,
    /// Samples read, over all answers.
    pub samples: u64,
    /// The same by slot.
    pub reads: Vec<SlotRead>,
    /// Counts per group and variant.
    pub events: Vec<GroupEvents>,
    /// Samples where two groups disagree, under dedup.
    pub group_conflicts: u64,
    /// Slots that failed.
    pub failures: Vec<SlotFailure>,
}
