//! Which file may name which library, and what no file may hold.

use crate::files::{File, Finding};
use crate::rust::{Source, parse, without_unit_tests};

/// Libraries that one file, or one folder, is the door to. `Cargo.toml` holds the rest back.
const DOORS: &[(&[&str], &[&str])] = &[
    (
        &["serde_yaml"],
        &["src/config/document.rs", "src/config/document"],
    ),
    (
        &["prometheus"],
        &["src/admin/metrics.rs", "src/admin/metrics"],
    ),
    (&["core_affinity"], &["io/src/pin.rs"]),
    (
        &["crossbeam_queue", "crossbeam_channel"],
        &["io/src/cross.rs"],
    ),
    (&["monoio_rustls"], &["io/src/net", "io/src/net.rs"]),
    (
        &["brotli", "zstd"],
        &["shards/src/compress.rs", "shards/src/compress"],
    ),
    (&["promql_parser"], &["merge/src"]),
    (&["simd_json"], &["merge/src"]),
    (
        &["bcrypt", "sha_crypt"],
        &["src/password.rs", "src/password"],
    ),
    (
        &["md5"],
        &[
            "src/password.rs",
            "src/password",
            "shards/src/rule/operation.rs",
        ],
    ),
    (&["sha1", "xxhash_rust"], &["shards/src/rule/operation.rs"]),
    // Compiled in one place of the control core, run by what asks.
    (
        &["regex"],
        &[
            "merge/src",
            "shards/src/plan/rule.rs",
            "shards/src/rule",
            "src/compile/rules",
        ],
    ),
];

/// The product's own code: where no lock and no global may be.
const PRODUCT: &[&str] = &["src", "shards/src", "io/src", "merge/src"];

/// Whether `code` names the crate `name` as the root of a path.
fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        let after = code[at + name.len()..].trim_start();
        let starts = !before.is_alphanumeric() && before != '_' && before != ':' && before != '.';
        starts && (after.starts_with("::") || code.trim_start().starts_with(&format!("use {name}")))
    })
}

/// A library behind a door is named in its door file only.
pub fn doors_are_kept(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let outside = |file: &&File| file.is_rust() && !file.is_in("tests") && !file.is_in("bench");
    for file in files.iter().filter(outside) {
        let source = parse(&file.text);
        for (libraries, doors) in DOORS {
            if doors
                .iter()
                .any(|door| file.path == *door || file.is_in(door))
            {
                continue;
            }
            for (line, code) in source.lines() {
                for library in libraries
                    .iter()
                    .filter(|library| names_crate(code, library))
                {
                    let message = format!("{library} may only be named in {}", doors.join(", "));
                    findings.push(Finding::new(file, line, message));
                }
            }
        }
    }
    findings
}

/// Merging is pure: no files, sockets, threads or clocks.
pub fn merge_is_pure(files: &[File]) -> Vec<Finding> {
    let banned = [
        "std::fs",
        "std::net",
        "std::thread",
        "std::env",
        "std::process",
        "Instant::now",
        "SystemTime::now",
    ];
    let mut findings = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.is_rust() && file.is_in("merge/src"))
    {
        let source = parse(without_unit_tests(&file.text));
        findings.extend(mentions(
            file,
            &source,
            &banned,
            "merge does no I/O and reads no clock",
        ));
    }
    findings
}

/// No global state: it is passed in. No locks: only messages and snapshots cross threads.
pub fn no_shared_state(files: &[File]) -> Vec<Finding> {
    let stateful = ["Atomic", "Cell<", "Mutex", "RwLock", "OnceLock", "LazyLock"];
    let banned = ["static mut", "lazy_static!", "default_registry", "Condvar"];
    let product = |file: &&File| {
        let ours = PRODUCT.iter().any(|folder| file.is_in(folder));
        ours && file.is_rust() && !file.is_test()
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(product) {
        let source = parse(without_unit_tests(&file.text));
        findings.extend(mentions(
            file,
            &source,
            &banned,
            "no globals and no locks: pass it in",
        ));
        for (line, code) in source.lines() {
            let code = code.trim_start();
            let code = code.strip_prefix("pub ").unwrap_or(code);
            let code = code.strip_prefix("pub(crate) ").unwrap_or(code);
            let global =
                code.starts_with("static ") && stateful.iter().any(|word| code.contains(word));
            if global {
                findings.push(Finding::new(file, line, "a static with state: pass it in"));
            }
        }
    }
    findings
}

fn mentions(file: &File, source: &Source, words: &[&str], why: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code) in source.lines() {
        for word in words.iter().filter(|word| code.contains(**word)) {
            findings.push(Finding::new(file, line, format!("{word}: {why}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{doors_are_kept, merge_is_pure, no_shared_state};
    use crate::files::File;

    #[test]
    fn a_library_named_outside_its_door_is_found() {
        for text in [
            "use serde_yaml::Value;",
            "fn f() { serde_yaml::from_str(x) }",
            "use serde_yaml as yaml;",
        ] {
            assert_eq!(
                doors_are_kept(&[File::new("src/boot.rs", text)]).len(),
                1,
                "{text}"
            );
            assert_eq!(
                doors_are_kept(&[File::new("src/config/document.rs", text)]),
                []
            );
        }
        let harmless = "// serde_yaml::Value\nlet a = \"prometheus::x\"; let b = plan.prometheus; crate::prometheus::x();";
        assert_eq!(doors_are_kept(&[File::new("src/boot.rs", harmless)]), []);
    }

    #[test]
    fn a_clock_in_merge_is_found() {
        let bad = File::new("merge/src/plan.rs", "fn f() { std::time::Instant::now(); }");
        assert_eq!(merge_is_pure(&[bad]).len(), 1);
        let fine = "#[cfg(test)]\nmod tests {\n use std::fs;\n}";
        assert_eq!(merge_is_pure(&[File::new("merge/src/plan.rs", fine)]), []);
    }

    #[test]
    fn a_global_with_state_is_found() {
        for text in [
            "static A: AtomicU32 = AtomicU32::new(0);",
            "pub static A: Mutex<u8> = x;",
            "static mut A: u8 = 0;",
        ] {
            assert_eq!(
                no_shared_state(&[File::new("io/src/a.rs", text)]).len(),
                1,
                "{text}"
            );
            assert_eq!(no_shared_state(&[File::new("io/src/a/tests.rs", text)]), []);
        }
        let fine = "static NAMES: [&str; 2] = [\"a\", \"b\"];\nstruct A { n: AtomicU32 }";
        assert_eq!(no_shared_state(&[File::new("io/src/a.rs", fine)]), []);
    }
}
