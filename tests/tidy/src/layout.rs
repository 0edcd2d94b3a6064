//! The shape of files: length, module documents, names, leftovers, unsafe code.

use crate::files::{File, Finding};
use crate::rust::parse;

/// Lines a source file may have.
const LINES_MAX: usize = 800;

fn rust_files(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.is_rust())
}

/// No source file is longer than 800 lines.
pub fn files_are_short(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust_files(files) {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            findings.push(Finding::new(
                file,
                lines,
                format!("{lines} lines: split at {LINES_MAX}"),
            ));
        }
    }
    findings
}

/// Every source file begins with what it is for.
pub fn modules_have_docs(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust_files(files) {
        let text = file
            .text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("//!"));
        let text = text.map(str::trim).unwrap_or_default();
        if text.is_empty() {
            findings.push(Finding::new(
                file,
                1,
                "begin with `//!` and what the file is for",
            ));
        } else if text.starts_with("To be written") {
            findings.push(Finding::new(file, 1, "a placeholder was left"));
        }
    }
    findings
}

/// A module is `name.rs` beside its folder.
pub fn no_mod_files(files: &[File]) -> Vec<Finding> {
    let named = rust_files(files).filter(|file| file.path.ends_with("/mod.rs"));
    named
        .map(|file| Finding::new(file, 1, "name the file after its module, beside the folder"))
        .collect()
}

/// Nothing unfinished is left.
pub fn no_leftovers(files: &[File]) -> Vec<Finding> {
    // Written in two parts, so that this file does not hold them.
    let markers = [
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("HA", "CK"),
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("#[ig", "nore"),
        concat!("```ig", "nore"),
        concat!("<<<", "<<<< "),
    ];
    let later = concat!("TO", "DO");
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !file.path.ends_with(".lock")) {
        for (index, line) in file.text.lines().enumerate() {
            for marker in markers.iter().filter(|marker| has_word(line, marker)) {
                findings.push(Finding::new(
                    file,
                    index + 1,
                    format!("{marker} was left behind"),
                ));
            }
            if has_word(line, later) && !line.contains(&format!("{later}(#")) {
                findings.push(Finding::new(
                    file,
                    index + 1,
                    format!("{later} must name an issue: {later}(#1)"),
                ));
            }
        }
    }
    findings
}

/// Whether `word` stands in `line` and is not part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_letter = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back().is_some_and(is_letter);
        let after = line[at + word.len()..]
            .chars()
            .next()
            .is_some_and(is_letter);
        let open = word.starts_with(is_letter);
        let close = word.ends_with(is_letter);
        !(open && before || close && after)
    })
}

/// Unsafe code only where the file says why, and every block says what keeps it sound.
pub fn unsafe_is_argued(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust_files(files) {
        let source = parse(&file.text);
        let used: Vec<_> = source
            .lines()
            .filter(|(_, code)| is_unsafe(code))
            .map(|(line, _)| line)
            .collect();
        let Some(first) = used.first() else { continue };
        if !file.text.contains("#![expect(unsafe_code, reason = \"")
            && !file.text.contains("#![expect(\n    unsafe_code,")
        {
            findings.push(Finding::new(
                file,
                *first,
                "unsafe without `#![expect(unsafe_code, reason = …)]`",
            ));
        }
        let arguments = file.text.matches("// SAFETY: ").count();
        if arguments < used.len() {
            let message = format!(
                "{} uses of unsafe, {arguments} `// SAFETY:` lines",
                used.len()
            );
            findings.push(Finding::new(file, *first, message));
        }
    }
    findings
}

/// `unsafe_code` and `unsafe fn` in a type are no use of it.
fn is_unsafe(code: &str) -> bool {
    has_word(code, "unsafe {") || has_word(code, "unsafe impl")
}

/// Nothing tracked speaks of the machine it was written on.
pub fn no_machine_paths(files: &[File]) -> Vec<Finding> {
    let places = [
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("Co-Auth", "ored-By"),
    ];
    let mut findings = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            for place in places.iter().filter(|place| line.contains(**place)) {
                findings.push(Finding::new(
                    file,
                    index + 1,
                    format!("{place} is not part of the project"),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{
        files_are_short, modules_have_docs, no_leftovers, no_machine_paths, no_mod_files,
        unsafe_is_argued,
    };
    use crate::files::File;

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(files_are_short(&[File::new("a.rs", &"\n".repeat(800))]), []);
        assert_eq!(
            files_are_short(&[File::new("a.rs", &"\n".repeat(801))]).len(),
            1
        );
    }

    #[test]
    fn a_file_without_a_module_document_is_found() {
        assert_eq!(
            modules_have_docs(&[File::new("a.rs", "//! What it is for.\n")]),
            []
        );
        for text in [
            "use a;\n//! Late.",
            "",
            "//!\n",
            concat!("//! To be", " written."),
        ] {
            assert_eq!(
                modules_have_docs(&[File::new("a.rs", text)]).len(),
                1,
                "{text}"
            );
        }
    }

    #[test]
    fn a_mod_file_is_found() {
        assert_eq!(
            no_mod_files(&[File::new("src/a.rs", ""), File::new("src/mod_a.rs", "")]),
            []
        );
        assert_eq!(no_mod_files(&[File::new("src/a/mod.rs", "")]).len(), 1);
    }

    #[test]
    fn a_leftover_is_found() {
        let rows = [
            concat!("// FIX", "ME later"),
            concat!("to", "do!()"),
            concat!("#[ig", "nore]"),
            concat!("// XX", "X"),
            concat!("// TO", "DO: some day"),
            concat!("unimpl", "emented!()"),
        ];
        for text in rows {
            assert_eq!(no_leftovers(&[File::new("a.rs", text)]).len(), 1, "{text}");
        }
        let fine = concat!("// TO", "DO(#12): with an issue\nXX", "XL PRE_FIX", "ME");
        assert_eq!(no_leftovers(&[File::new("a.rs", fine)]), []);
    }

    #[test]
    fn unsafe_without_an_argument_is_found() {
        let head = "#![expect(unsafe_code, reason = \"x\")]\n";
        let block = "fn f() { unsafe { g() } }\n";
        let argued = format!("{head}// SAFETY: because.\n{block}");
        assert_eq!(unsafe_is_argued(&[File::new("a.rs", &argued)]), []);
        assert_eq!(
            unsafe_is_argued(&[File::new("a.rs", &format!("{head}{block}"))]).len(),
            1
        );
        assert_eq!(
            unsafe_is_argued(&[File::new("a.rs", &format!("// SAFETY: x.\n{block}"))]).len(),
            1
        );
        assert_eq!(unsafe_is_argued(&[File::new("a.rs", "// unsafe { }")]), []);
    }

    #[test]
    fn a_path_of_the_machine_is_found() {
        assert_eq!(
            no_machine_paths(&[File::new("a.md", concat!("see /wo", "rk/a"))]).len(),
            1
        );
        assert_eq!(
            no_machine_paths(&[File::new("a.md", "see /etc/ringway")]),
            []
        );
    }
}
