//! Merging of Prometheus answers from several replica groups into one.
//!
//! [`plan`] reads the PromQL of a request and says what each replica group is asked and how the
//! answers combine. [`Merge`] takes the answers as they arrive and yields one response body.
//! Pure functions: no I/O, no clock, no runtime. Called by `ringway-shards`; calls nobody in the
//! workspace.
//!
//! Promises: no call works longer than its budget (a caller on a shard yields between
//! [`Merge::step`] calls); a hostile body fails its own slot and never panics; an answer that is
//! not provably what one server holding all the data would say carries a warning.
//!
//! Bounds: everything in [`limits`], and the arena bytes given to [`Arena::new`].
//!
//! ```
//! use ringway_merge::{Answer, Arena, Endpoint, GroupSpec, Merge, MergeOptions, PlanOptions};
//! use ringway_merge::{Progress, Slot, limits, plan};
//!
//! let plan = plan(&Endpoint::Query, Some("sum(up)"), &PlanOptions::default());
//! let groups = [GroupSpec::single("east"), GroupSpec::single("west")];
//! let arena = Arena::new(limits::ARENA_BYTES_DEFAULT, plan.variants.len() * groups.len());
//! let mut merge = Merge::new(&arena, &plan, &groups, MergeOptions::default());
//! for (group, value) in [(0, "2"), (1, "3")] {
//!     let body = format!(
//!         r#"{{"status":"success","data":{{"resultType":"vector","result":[
//!            {{"metric":{{}},"value":[1700000000,"{value}"]}}]}}}}"#
//!     );
//!     merge.add(Slot { group, member: 0, variant: 0 }, Answer::new(200, body.into_bytes()));
//! }
//! while merge.step(limits::STEP_UNITS_DEFAULT) != Progress::Done {}
//! let merged = merge.finish();
//! assert_eq!(merged.status, 200);
//! assert!(String::from_utf8(merged.body.concat()).unwrap().contains(r#"[1700000000,"5"]"#));
//! ```

mod arena;
mod document;
mod error;
mod eval;
mod execute;
mod kahan;
mod labels;
pub mod limits;
mod merge;
mod number;
mod parse;
mod plan;
pub mod query;
#[cfg(test)]
mod random;
mod reduce;
mod sample;
mod series;
mod split;
mod stats;
mod strategy;
mod write;

pub use arena::Arena;
pub use document::{Document, Trim};
pub use error::MemberFailure;
pub use execute::Execution;
pub use merge::{
    Answer, GroupEvents, GroupSpec, MemberSpec, Merge, MergeOptions, Merged, Progress, Retry, Slot,
    SlotFailure, SlotRead, merge_one,
};
pub use plan::{
    Ask, Care, Clock, Dialect, Endpoint, Explanation, Grid, Plan, PlanOptions, PlanWarning,
    Variant, Window, label_asked_for, plan,
};
pub use strategy::Strategy;
pub use write::{error_body, write_string};
