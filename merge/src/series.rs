//! What one member answered, in the arena.

use crate::document::Part;
use crate::labels::LabelSet;
use crate::sample::{Histogram, Points};
use crate::stats::Stats;

/// One series of an answer. The metadata paths use it too: a label set without samples, or a
/// string as the value of one label without a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series<'a> {
    pub(crate) set: LabelSet<'a>,
    pub(crate) points: Points<'a>,
    pub(crate) histograms: &'a [Histogram<'a>],
}

/// `data.resultType`, or the shape of a metadata answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultKind {
    Matrix,
    Vector,
    Scalar,
    Text,
    /// `data` is a list.
    List,
    /// `data` is joined item by item.
    Document,
}

impl ResultKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Matrix => "matrix",
            Self::Vector => "vector",
            Self::Scalar => "scalar",
            Self::Text => "string",
            Self::List | Self::Document => "",
        }
    }
}

/// A whole answer.
#[derive(Debug, Default)]
pub(crate) struct Parsed<'a> {
    pub(crate) kind: Option<ResultKind>,
    pub(crate) series: Vec<Series<'a>>,
    /// Whether the series are sorted by labels, as servers send them.
    pub(crate) is_sorted: bool,
    /// The text of a scalar or string result: `[time,"value"]`.
    pub(crate) pair: Option<Pair<'a>>,
    /// Samples of all series.
    pub(crate) samples: u64,
    pub(crate) warnings: Vec<String>,
    pub(crate) infos: Vec<String>,
    /// Boxed, since few ask for it.
    pub(crate) stats: Option<Box<Stats>>,
    /// The items of a document.
    pub(crate) part: Part<'a>,
}

/// A scalar or string result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) is_nan: bool,
}
