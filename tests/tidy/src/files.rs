//! The files of the repository, and what is found wrong in them.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

/// A text file.
#[derive(Debug, Clone)]
pub struct File {
    /// From the repository's root, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl File {
    /// A file as a test writes it down.
    pub fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Whether it is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it lies in a folder.
    pub fn is_in(&self, folder: &str) -> bool {
        self.path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether it is only ever compiled into tests.
    pub fn is_test(&self) -> bool {
        self.is_in("tests")
            || ["/tests.rs", "/fixture.rs"]
                .iter()
                .any(|name| self.path.ends_with(name))
            || self.path.contains("/tests/")
    }
}

/// A broken rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong, and what to do instead.
    pub message: String,
}

impl Finding {
    pub(crate) fn new(file: &File, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: file.path.clone(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Fails with one line for each finding.
///
/// # Panics
/// When there is any.
#[track_caller]
pub fn report(findings: &[Finding]) {
    let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(
        findings.is_empty(),
        "{} house rules broken:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

/// All text files that are tracked, or would be by `git add .`.
///
/// # Panics
/// When this is not a git work tree.
pub fn read_repository() -> Vec<File> {
    let root = root();
    let listing = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(&root)
        .output()
        .expect("git can be run");
    assert!(
        listing.status.success(),
        "{}",
        String::from_utf8_lossy(&listing.stderr)
    );
    let names = String::from_utf8(listing.stdout).expect("file names are UTF-8");
    let mut files = Vec::new();
    for name in names.split_terminator('\0') {
        // A file that was deleted but not committed yet, or is no text, has nothing to check.
        if let Ok(text) = std::fs::read_to_string(root.join(name)) {
            files.push(File {
                path: name.to_owned(),
                text,
            });
        }
    }
    assert!(
        files.len() > 20,
        "only {} files in {}",
        files.len(),
        root.display()
    );
    files
}

fn root() -> PathBuf {
    // What cargo says now, not what it said when this was built: clones may share one target folder.
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.ancestors()
        .nth(2)
        .expect("tests/tidy lies two below the root")
        .to_owned()
}
