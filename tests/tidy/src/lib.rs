//! House rules that lints cannot check: crate arrows, doors of outside libraries, layout, documents.
//!
//! Every check is a pure function from [`File`]s to [`Finding`]s, so that each has a test with a snippet
//! that breaks its rule; `tests/house_rules.rs` runs them over the repository.

mod documents;
mod doors;
mod files;
mod layout;
mod manifests;
mod rust;

pub use documents::{
    configuration_keys, keys_are_documented, links_lead_somewhere, metrics_have_rows,
};
pub use doors::{doors_are_kept, merge_is_pure, no_shared_state};
pub use files::{File, Finding, read_repository, report};
pub use layout::{
    files_are_short, modules_have_docs, no_leftovers, no_machine_paths, no_mod_files,
    unsafe_is_argued,
};
pub use manifests::{arrows_are_kept, libraries_stay_in_their_crate, versions_are_declared_once};
