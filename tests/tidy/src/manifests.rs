//! Which package may depend on which, as `Cargo.toml` says it.

use crate::files::{File, Finding};

/// The arrows: a package's manifest, and the packages of the workspace it may name.
const ARROWS: &[(&str, &[&str])] = &[
    ("Cargo.toml", &["ringway-shards", "ringway-io"]),
    ("shards/Cargo.toml", &["ringway-io", "ringway-merge"]),
    ("io/Cargo.toml", &[]),
    ("merge/Cargo.toml", &[]),
    (
        "bench/Cargo.toml",
        &["ringway", "ringway-shards", "ringway-io", "ringway-merge"],
    ),
    ("tests/tidy/Cargo.toml", &["ringway"]),
    ("tests/wire/Cargo.toml", &[]),
    (
        "tests/fuzz/Cargo.toml",
        &["ringway", "ringway-shards", "ringway-io", "ringway-merge"],
    ),
];

/// Libraries that only some packages may depend on.
const DOORS: &[(&[&str], &[&str])] = &[
    (
        &[
            "monoio",
            "monoio-rustls",
            "monoio-http",
            "glommio",
            "core_affinity",
            "io-uring",
        ],
        &["io/Cargo.toml"],
    ),
    (&["bumpalo", "promql-parser"], &["merge/Cargo.toml"]),
    (
        &["regex"],
        &[
            "Cargo.toml",
            "merge/Cargo.toml",
            "shards/Cargo.toml",
            "bench/Cargo.toml",
        ],
    ),
    // The bench measures it alone, as the mark the merge is held against.
    (&["simd-json"], &["merge/Cargo.toml", "bench/Cargo.toml"]),
    // The tests at the wire include a stand-in of an API server that the root package is tested with.
    (
        &["tokio", "hyper", "hyper-util"],
        &["Cargo.toml", "tests/wire/Cargo.toml"],
    ),
    (
        &[
            "tokio-rustls",
            "hickory-resolver",
            "serde_yaml",
            "prometheus",
        ],
        &["Cargo.toml"],
    ),
    (
        &["rustls"],
        &["io/Cargo.toml", "Cargo.toml", "tests/wire/Cargo.toml"],
    ),
    (
        &["anyhow"],
        &[
            "Cargo.toml",
            "bench/Cargo.toml",
            "tests/wire/Cargo.toml",
            "tests/fuzz/Cargo.toml",
        ],
    ),
];

/// One line of a dependency section.
struct Dependency<'a> {
    line: usize,
    name: &'a str,
    text: &'a str,
    of_workspace: bool,
}

/// Every dependency that a manifest names.
fn dependencies(file: &File) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut section = "";
    for (index, text) in file.text.lines().enumerate() {
        let text = text.trim();
        if let Some(header) = text.strip_prefix('[') {
            section = header.trim_end_matches(']');
            continue;
        }
        let of_workspace = section == "workspace.dependencies";
        let lists = of_workspace || section.ends_with("dependencies");
        let name = text.split(['.', '=', ' ']).next().unwrap_or_default();
        if lists && !name.is_empty() && !name.starts_with('#') {
            found.push(Dependency {
                line: index + 1,
                name,
                text,
                of_workspace,
            });
        }
    }
    found
}

fn manifests(files: &[File]) -> impl Iterator<Item = &File> {
    files
        .iter()
        .filter(|file| file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml"))
}

/// Packages of the workspace point one way.
pub fn arrows_are_kept(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in manifests(files) {
        let Some((_, allowed)) = ARROWS.iter().find(|(path, _)| *path == file.path) else {
            findings.push(Finding::new(
                file,
                1,
                "a package that the architecture does not have",
            ));
            continue;
        };
        for dependency in dependencies(file) {
            let ours = dependency.name == "ringway" || dependency.name.starts_with("ringway-");
            if ours && !dependency.of_workspace && !allowed.contains(&dependency.name) {
                let message = format!(
                    "must not depend on {}: crates point one way",
                    dependency.name
                );
                findings.push(Finding::new(file, dependency.line, message));
            }
        }
    }
    findings
}

/// Every outside library with a door is a dependency of that door's crate alone.
pub fn libraries_stay_in_their_crate(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in manifests(files) {
        for dependency in dependencies(file)
            .iter()
            .filter(|found| !found.of_workspace)
        {
            let door = DOORS
                .iter()
                .find(|(libraries, _)| libraries.contains(&dependency.name));
            let Some((_, doors)) = door else { continue };
            if !doors.contains(&file.path.as_str()) {
                let message = format!(
                    "{} may only be named in {}",
                    dependency.name,
                    doors.join(", ")
                );
                findings.push(Finding::new(file, dependency.line, message));
            }
        }
    }
    findings
}

/// Versions and lints stand in the root manifest only. The fuzz package is a workspace of its own.
pub fn versions_are_declared_once(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in manifests(files).filter(|file| !file.is_in("tests/fuzz")) {
        for dependency in dependencies(file)
            .iter()
            .filter(|found| !found.of_workspace)
        {
            if !dependency.text.contains("workspace = true") {
                let message = format!("{}: say `workspace = true`", dependency.name);
                findings.push(Finding::new(file, dependency.line, message));
            }
        }
        if !file.text.contains("[lints]\nworkspace = true") {
            findings.push(Finding::new(file, 1, "take the workspace's lints"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{arrows_are_kept, libraries_stay_in_their_crate, versions_are_declared_once};
    use crate::files::File;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    #[test]
    fn an_arrow_against_the_direction_is_found() {
        let good = File::new(
            "shards/Cargo.toml",
            "[dependencies]\nringway-io.workspace = true\n",
        );
        assert_eq!(arrows_are_kept(&[good]), []);
        for (path, name) in [
            ("io/Cargo.toml", "ringway-shards"),
            ("merge/Cargo.toml", "ringway-io"),
            ("shards/Cargo.toml", "ringway"),
        ] {
            for section in [
                "dependencies",
                "dev-dependencies",
                "target.'cfg(unix)'.dependencies",
            ] {
                let bad = File::new(path, &format!("[{section}]\n{name}.workspace = true\n"));
                let found = arrows_are_kept(&[bad]);
                assert_eq!((found.len(), found[0].line), (1, 2), "{path} {section}");
            }
        }
        assert_eq!(
            arrows_are_kept(&[File::new("common/Cargo.toml", "")]).len(),
            1
        );
    }

    #[test]
    fn a_library_outside_its_door_is_found() {
        let root =
            "[workspace.dependencies]\nmonoio = \"1\"\n[dependencies]\ntokio.workspace = true\n";
        assert_eq!(
            libraries_stay_in_their_crate(&[File::new("Cargo.toml", root)]),
            []
        );
        for (path, name) in [
            ("shards/Cargo.toml", "monoio"),
            ("io/Cargo.toml", "tokio"),
            ("Cargo.toml", "simd-json"),
            ("shards/Cargo.toml", "rustls"),
        ] {
            let text = format!("[dependencies]\n{name} = {{ workspace = true }}\n");
            assert_eq!(
                libraries_stay_in_their_crate(&[File::new(path, &text)]).len(),
                1,
                "{name}"
            );
        }
    }

    #[test]
    fn a_version_outside_the_root_is_found() {
        let good = format!("{LINTS}[dependencies]\nbytes.workspace = true\n");
        assert_eq!(
            versions_are_declared_once(&[File::new("io/Cargo.toml", &good)]),
            []
        );
        let bad = format!("{LINTS}[dependencies]\nbytes = \"1\"\n");
        assert_eq!(
            versions_are_declared_once(&[File::new("io/Cargo.toml", &bad)]).len(),
            1
        );
        assert_eq!(
            versions_are_declared_once(&[File::new("io/Cargo.toml", "")]).len(),
            1
        );
    }
}
