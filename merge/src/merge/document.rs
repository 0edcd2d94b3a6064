//! What of a merge is particular to documents, and to answers that are cut short.

use super::conclude::LIMIT_WARNING;
use super::{Merge, Phase, Slot, SlotState};
use crate::document::{self, Document, Joining};
use crate::error::MemberFailure;
use crate::labels::Label;
use crate::parse;
use crate::plan::Endpoint;
use crate::series::Parsed;

/// Reads one answer, of either kind.
#[derive(Debug)]
pub(super) enum Reader<'a> {
    Series(Box<parse::Reader<'a>>),
    Document(document::Reader<'a>),
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        endpoint: &Endpoint,
        body: &'a [u8],
        bump: &'a bumpalo::Bump,
        injected: &'a [Label<'a>],
    ) -> Self {
        match endpoint {
            Endpoint::Document(document) => {
                Self::Document(document::Reader::new(*document, body, bump, injected))
            }
            _ => Self::Series(Box::new(parse::Reader::new(body, bump, injected))),
        }
    }

    pub(super) fn step(&mut self, units: usize) -> Result<(usize, bool), MemberFailure> {
        match self {
            Self::Series(reader) => reader.step(units),
            Self::Document(reader) => reader.step(units),
        }
    }

    pub(super) fn finish(self, status: u16) -> Result<Parsed<'a>, MemberFailure> {
        match self {
            Self::Series(reader) => reader.finish(status),
            Self::Document(reader) => reader.finish(status),
        }
    }
}

impl<'a> Merge<'a> {
    /// The document that is asked for, if it is one.
    pub(super) fn document(&self) -> Option<Document> {
        match self.plan.endpoint {
            Endpoint::Document(document) => Some(document),
            _ => None,
        }
    }

    /// Begins the answer with the documents of the groups' first usable members.
    pub(super) fn begin_documents(&mut self, document: Document, leaders: &[Slot]) {
        if !document.is_text() {
            self.output.put(b"{\"status\":\"success\",\"data\":");
        }
        let mut parts = Vec::with_capacity(leaders.len());
        for slot in leaders {
            let index = self.index_of(*slot);
            if let SlotState::Usable(parsed, _) = &mut self.slots[index] {
                parts.push(std::mem::take(&mut parsed.part));
            }
        }
        let joining = Joining::new(document, &self.options.trim, parts);
        self.phase = Phase::Documents(Box::new(joining));
    }

    /// Goes on joining documents. Returns units used.
    pub(super) fn join_documents(&mut self, units: usize) -> usize {
        let Phase::Documents(joining) = &mut self.phase else {
            return 0;
        };
        let (used, is_done) = joining.step(&mut self.output, units);
        if is_done {
            let warnings = joining.warnings();
            warnings.iter().for_each(|text| self.warn(text));
            self.close_envelope();
        }
        used
    }

    /// Whether the label sets that may be told are; that there are more is said then.
    pub(super) fn is_cut_short(&mut self) -> bool {
        let limit = self.options.trim.limit.unwrap_or(u64::MAX);
        if self.label_sets < limit {
            return false;
        }
        if !self.warnings.iter().any(|text| text == LIMIT_WARNING) {
            self.warnings.push(LIMIT_WARNING.to_owned());
        }
        true
    }
}
