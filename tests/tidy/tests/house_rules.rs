//! The house rules over this repository; see `docs/architecture.md` for what they keep.

use ringway_tidy as tidy;
use ringway_tidy::{read_repository, report};

#[test]
fn crates_point_one_way() {
    report(&tidy::arrows_are_kept(&read_repository()));
}

#[test]
fn every_library_has_one_door() {
    let files = read_repository();
    report(&tidy::libraries_stay_in_their_crate(&files));
    report(&tidy::doors_are_kept(&files));
}

#[test]
fn versions_and_lints_are_declared_once() {
    report(&tidy::versions_are_declared_once(&read_repository()));
}

#[test]
fn merge_does_no_io() {
    report(&tidy::merge_is_pure(&read_repository()));
}

#[test]
fn nothing_is_global() {
    report(&tidy::no_shared_state(&read_repository()));
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let files = read_repository();
    report(&tidy::files_are_short(&files));
    report(&tidy::modules_have_docs(&files));
    report(&tidy::no_mod_files(&files));
}

#[test]
fn nothing_unfinished_is_left() {
    report(&tidy::no_leftovers(&read_repository()));
}

#[test]
fn unsafe_code_says_why_it_is_sound() {
    report(&tidy::unsafe_is_argued(&read_repository()));
}

#[test]
fn files_speak_of_the_project_alone() {
    report(&tidy::no_machine_paths(&read_repository()));
}

#[test]
fn every_metric_is_documented() {
    report(&tidy::metrics_have_rows(&read_repository()));
}

#[test]
fn every_configuration_key_is_documented() {
    let files = read_repository();
    let keys = tidy::configuration_keys(&files);
    assert!(
        keys.len() > 50,
        "only {} keys were found: has the table moved?",
        keys.len()
    );
    report(&tidy::keys_are_documented(&files, &keys));
}

#[test]
fn every_link_leads_somewhere() {
    report(&tidy::links_lead_somewhere(&read_repository()));
}
