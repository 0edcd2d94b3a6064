//! `ringway check` on files of the repository. Each of `tests/scenarios/invalid` has one mistake, found where it is and
//! said in words.
//!
//! Such a file begins with what must be said of it, one comment a line: `# expect: LINE:COL: key: how the message begins`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ringway_wire::{Finished, run_in};

/// Fewer files would mean that they are looked for in the wrong place.
const SCENARIOS_MIN: usize = 100;

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.ancestors().nth(2);
    root.expect("this package is two folders below").to_owned()
}

/// Runs `check` on a file of the repository, from its root.
fn check(file: &Path, more: &[&str]) -> Finished {
    let mut arguments = vec![
        OsStr::new("check"),
        OsStr::new("--config"),
        file.as_os_str(),
    ];
    arguments.extend(more.iter().map(OsStr::new));
    run_in(&root(), &arguments)
}

fn scenarios() -> Vec<PathBuf> {
    let folder = root().join("tests/scenarios/invalid");
    let entries = std::fs::read_dir(&folder).expect("the folder is part of the repository");
    let files = entries.map(|entry| entry.expect("it can be read").path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    files
}

/// What is wrong with the verdict on one file; nothing when it is as expected.
fn verdict(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).expect("it can be read");
    let expected: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix("# expect: "))
        .collect();
    if expected.is_empty() {
        return Err("it does not say what to expect".into());
    }
    let finished = check(file, &[]);
    let said = &finished.err;
    if finished.code != Some(1) {
        return Err(format!("exit status {:?}\n{said}", finished.code));
    }
    if !finished.out.is_empty() {
        return Err(format!("standard output has\n{}", finished.out));
    }
    let prefix = format!("{}:", file.display());
    let found: Vec<&str> = said
        .lines()
        .map(|line| line.strip_prefix(&prefix).unwrap_or(line))
        .collect();
    let fits = found.len() == expected.len()
        && found
            .iter()
            .zip(&expected)
            .all(|(found, begin)| found.starts_with(begin));
    match fits {
        true => Ok(()),
        false => Err(format!("expected {expected:#?}, found {found:#?}")),
    }
}

#[test]
fn every_wrong_configuration_is_refused_where_it_is_wrong() {
    let files = scenarios();
    assert!(files.len() >= SCENARIOS_MIN, "only {} files", files.len());
    let mut wrong = String::new();
    for file in files {
        if let Err(reason) = verdict(&file) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            wrong += &format!("{name}: {reason}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn explain_shows_every_key_and_no_secret() {
    let finished = check(
        &root().join("tests/scenarios/user_router.yaml"),
        &["--explain"],
    );
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for line in [
        "authenticators.staff.users_file = \"tests/scenarios/users.csv\"  #",
        "authenticators.staff.users = {\"robin\":\"*****\"}  #",
        "authenticators.staff.config.realm = \"Reports\"  #",
        "backends.reports.authenticator_name = \"staff\"  #",
        "backends.reports.paths[0].match_type = \"exact\"  # default",
        "backends.reports.alb.user_router.no_route_status_code = 401  #",
        "backends.reports.alb.user_router.users.casey.to_user = \"reader\"  #",
        "backends.reports.alb.user_router.users.casey.to_credential = \"*****\"  #",
        "backends.reports.alb.retry.attempts = 0  # default",
    ] {
        let found = finished.out.lines().any(|found| found.starts_with(line));
        assert!(found, "{line} is not in\n{}", finished.out);
    }
    let shown = format!("{}{}", finished.out, finished.err);
    for secret in ["-secret", "$6$"] {
        assert!(!shown.contains(secret), "{secret} is in\n{shown}");
    }
}
