//! Bounds of a merge, and how they relate.
//!
//! Every structure that grows with outside bytes is bounded here; crossing one fails the slot (or
//! leaves the query unplanned) with an error that names the bound.

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Longest query text that is read for planning; a longer one is sent as is, with a warning.
pub const QUERY_BYTES_MAX: usize = 64 * KIB;
/// Longest text that the PromQL parser is given, regular expressions taken out: it cannot be
/// interrupted and takes about 0.1 us per byte.
pub const QUERY_PARSED_BYTES_MAX: usize = 8 * KIB;
/// Deepest nesting of brackets that is parsed for planning. The parser copies the inside of an
/// aggregation once per level, and trees are walked recursively.
pub const QUERY_DEPTH_MAX: usize = 64;
/// Most operators in a query that is parsed for planning: a chain `1+1+…` makes a tree as deep as
/// it is long, and the parser walks down all of it at each operator.
pub const QUERY_OPERATORS_MAX: usize = 150;

/// Most range and instant requests that one query is cut into, counted for each group.
pub const WINDOWS_MAX: usize = 512;
/// Longest regular expression that is compiled here, of a function's argument.
pub const PATTERN_BYTES_MAX: usize = 4 * KIB;
/// Most memory of a compiled regular expression, and of its cache.
pub const PATTERN_COMPILED_BYTES_MAX: usize = 512 * KIB;

/// Most replica groups of one merge.
pub const GROUPS_MAX: usize = 4096;
/// Most series that one answer may hold.
pub const SERIES_PER_ANSWER_MAX: usize = 4_000_000;
/// Most labels of one series.
pub const LABELS_PER_SERIES_MAX: usize = 1024;
/// Most bytes of one series' label object.
pub const LABEL_BYTES_MAX: usize = 256 * KIB;
/// Most bytes of one sample: its time and value, or a native histogram with all its buckets.
pub const SAMPLE_BYTES_MAX: usize = 128 * KIB;
/// Most native histogram samples of one series; a range query gives at most 11,000.
pub const HISTOGRAMS_PER_SERIES_MAX: usize = 100_000;
/// Most bytes of a string such as a warning, a label value in a list, or an error text.
pub const STRING_BYTES_MAX: usize = 256 * KIB;
/// Most bytes of a number that is read for itself, such as one of `data.stats`.
pub const NUMBER_BYTES_MAX: usize = 400;
/// Most distinct warnings (and infos) that an answer carries.
pub const WARNINGS_MAX: usize = 256;
/// Deepest nesting inside one histogram sample; Prometheus writes 4.
pub const SAMPLE_DEPTH_MAX: usize = 16;
/// Deepest nesting of a document such as rules or targets; Prometheus writes about 8.
pub const DOCUMENT_DEPTH_MAX: usize = 64;
/// Most members of an object that is taken apart, such as a rule or a target.
pub const FIELDS_PER_ITEM_MAX: usize = 4096;
/// Most bytes of one item that is written as a whole, such as a target or an alert: copied at once.
pub const ITEM_BYTES_MAX: usize = MIB;
/// Most items of one kind that one document may hold.
pub const ITEMS_PER_DOCUMENT_MAX: usize = 1_000_000;
/// Most bytes of one line of a text exposition.
pub const LINE_BYTES_MAX: usize = 256 * KIB;

/// Default of `max_samples`: samples that one request reads or computes at once, as many as
/// Prometheus allows a query.
pub const SAMPLES_DEFAULT: u64 = 50_000_000;
/// Default of `max_series`: series that one request reads, over all answers.
pub const SERIES_DEFAULT: u64 = 5_000_000;
/// Default bound of the arena: labels, series indexes and rewritten samples of one request.
pub const ARENA_BYTES_DEFAULT: usize = 512 * MIB;
/// Largest single body: offsets are kept in 32 bits.
pub const BODY_BYTES_MAX: usize = u32::MAX as usize;
/// Answer bodies are produced in chunks of about this size.
pub const CHUNK_BYTES: usize = 256 * KIB;

/// Default budget of one step. A unit is about the work of one byte read or written, at most about
/// 4 ns in a release build: 16 Ki units stay under 80 us: a small request on the same shard waits for
/// several steps, one at each of its turns.
pub const STEP_UNITS_DEFAULT: usize = 16 * KIB;
/// Smallest budget that a step honours: one sample or label object is never split.
pub const STEP_UNITS_MIN: usize = 4 * KIB;

const _: () = assert!(QUERY_PARSED_BYTES_MAX <= QUERY_BYTES_MAX);
const _: () = assert!(STEP_UNITS_MIN <= STEP_UNITS_DEFAULT);
const _: () = assert!(SAMPLE_BYTES_MAX <= LABEL_BYTES_MAX);
const _: () = assert!(STRING_BYTES_MAX <= ITEM_BYTES_MAX);
const _: () = assert!(ITEMS_PER_DOCUMENT_MAX < u32::MAX as usize);
const _: () = assert!(SERIES_PER_ANSWER_MAX < u32::MAX as usize);
