//! Native histograms as numbers: reading, adding, scaling, asking.

use bumpalo::Bump;

use super::error::{EvalError, Outcome};

/// A native histogram sample with float counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Histogram<'a> {
    /// The object as a server wrote it, where it is unchanged.
    pub(crate) text: &'a [u8],
}

impl<'a> Histogram<'a> {
    /// Reads the object of a sample.
    pub(crate) fn read(bump: &'a Bump, text: &'a [u8]) -> Outcome<&'a Self> {
        bump.try_alloc(Self { text })
            .map(|histogram| &*histogram)
            .map_err(|_| EvalError::Limit("arena bytes"))
    }

    /// Writes the object of a sample.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.text);
    }
}
