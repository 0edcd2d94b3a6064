//! Documents against the code: metrics, configuration keys, links.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{File, Finding};
use crate::rust::{parse, without_unit_tests};

const METRICS: &str = "docs/metrics.md";
const CONFIGURATION: &str = "docs/configuration.md";

fn find<'a>(files: &'a [File], path: &str) -> Result<&'a File, Vec<Finding>> {
    let missing = || {
        vec![Finding::new(
            &File::new(path, ""),
            1,
            "the document is missing",
        )]
    };
    files
        .iter()
        .find(|file| file.path == path)
        .ok_or_else(missing)
}

/// Every metric that the code names is a row of `docs/metrics.md`, and every row is in the code.
pub fn metrics_have_rows(files: &[File]) -> Vec<Finding> {
    let document = match find(files, METRICS) {
        Ok(document) => document,
        Err(findings) => return findings,
    };
    let mut rows = BTreeMap::new();
    for (index, line) in document.text.lines().enumerate() {
        let first = line
            .strip_prefix("| `")
            .and_then(|rest| rest.split('`').next());
        if let Some(name) = first.filter(|name| is_metric(name)) {
            rows.insert(name, index + 1);
        }
    }
    let mut findings = Vec::new();
    let mut named = BTreeSet::new();
    let product = |file: &&File| {
        file.is_rust() && !file.is_test() && (file.is_in("src") || file.is_in("shards/src"))
    };
    for file in files.iter().filter(product) {
        for (line, name) in parse(without_unit_tests(&file.text)).strings {
            if is_metric(&name) && !rows.contains_key(name.as_str()) {
                findings.push(Finding::new(
                    file,
                    line,
                    format!("{name} has no row in {METRICS}"),
                ));
            }
            named.insert(name);
        }
    }
    for (name, line) in rows.into_iter().filter(|(name, _)| !named.contains(*name)) {
        findings.push(Finding::new(
            document,
            line,
            format!("{name} is in no source file"),
        ));
    }
    findings
}

/// Whether a string can only be the name of a metric.
fn is_metric(text: &str) -> bool {
    let rest = text
        .strip_prefix("trickster_")
        .or_else(|| text.strip_prefix("ringway_"));
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(word))
}

/// The keys of the loader's table that hold a value and are built, as documents write them:
/// `backends.<name>.alb.pool[].weight`.
///
/// The table is read as text, so that this package needs nothing of the product: every `Key::new(` with a
/// literal path under `src/config`. `Key::later(` announces keys that are still refused.
pub fn configuration_keys(files: &[File]) -> Vec<String> {
    let mut keys = Vec::new();
    let table = |file: &&File| file.is_rust() && file.is_in("src/config") && !file.is_test();
    for file in files.iter().filter(table) {
        for row in without_unit_tests(&file.text).split("Key::new(").skip(1) {
            let literal = row
                .trim_start()
                .strip_prefix('"')
                .and_then(|rest| rest.split_once('"'));
            let Some((path, rest)) = literal else {
                continue;
            };
            let kind = rest.trim_start_matches([',', ' ', '\n']);
            let holds_nothing = ["Kind::Section", "Kind::Names", "Kind::PoolEntry"];
            if !holds_nothing.iter().any(|word| kind.starts_with(word)) {
                keys.push(path.replace(".*", ".<name>").replace(".[]", "[]"));
            }
        }
    }
    keys
}

/// Every configuration key is an entry `### path:` of `docs/configuration.md`, and every entry is a key.
pub fn keys_are_documented(files: &[File], keys: &[String]) -> Vec<Finding> {
    let document = match find(files, CONFIGURATION) {
        Ok(document) => document,
        Err(findings) => return findings,
    };
    let mut entries = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, line) in document.text.lines().enumerate() {
        let heading = line
            .strip_prefix("### ")
            .and_then(|rest| rest.split_once(':'));
        let Some((path, _)) = heading else { continue };
        if entries.insert(path.trim_matches('`'), index + 1).is_some() {
            findings.push(Finding::new(
                document,
                index + 1,
                format!("{path} is there twice"),
            ));
        }
    }
    let known: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
    for key in known.iter().filter(|key| !entries.contains_key(**key)) {
        findings.push(Finding::new(
            document,
            1,
            format!("no entry `### {key}: …`"),
        ));
    }
    for (entry, line) in entries.iter().filter(|(entry, _)| !known.contains(**entry)) {
        findings.push(Finding::new(
            document,
            *line,
            format!("{entry} is no key of the loader"),
        ));
    }
    findings
}

/// Every relative link of a document leads to a file of the repository.
pub fn links_lead_somewhere(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (index, line) in file.text.lines().enumerate() {
            for target in line
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split([')', '#', ' ']).next())
            {
                if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let path = resolve(folder, target);
                let exists = |file: &File| file.path == path || file.is_in(&path);
                if !files.iter().any(exists) {
                    findings.push(Finding::new(
                        file,
                        index + 1,
                        format!("{target} is not there"),
                    ));
                }
            }
        }
    }
    findings
}

/// A link's target from the root.
fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{configuration_keys, keys_are_documented, links_lead_somewhere, metrics_have_rows};
    use crate::files::File;

    #[test]
    fn a_metric_without_a_row_and_a_row_without_a_metric_are_found() {
        let code = "const A: &str = \"ringway_a_total\"; // \"ringway_b_total\"\n#[cfg(test)]\nmod tests {\n\"ringway_c_total\"}";
        let table = |names: &[&str]| {
            let rows: Vec<_> = names
                .iter()
                .map(|name| format!("| `{name}` | counter |\n"))
                .collect();
            File::new("docs/metrics.md", &rows.concat())
        };
        let source = File::new("shards/src/metrics.rs", code);
        assert_eq!(
            metrics_have_rows(&[source.clone(), table(&["ringway_a_total"])]),
            []
        );
        assert_eq!(metrics_have_rows(&[source.clone(), table(&[])]).len(), 1);
        let rows = table(&["ringway_a_total", "ringway_b_total"]);
        assert_eq!(metrics_have_rows(&[source.clone(), rows]).len(), 1);
        assert_eq!(metrics_have_rows(&[source]).len(), 1, "no document at all");
    }

    #[test]
    fn a_key_without_an_entry_and_an_entry_without_a_key_are_found() {
        let document = File::new(
            "docs/configuration.md",
            "### main.server_name: string\nText.\n",
        );
        let keys = ["main.server_name".to_owned()];
        assert_eq!(
            keys_are_documented(std::slice::from_ref(&document), &keys),
            []
        );
        assert_eq!(
            keys_are_documented(std::slice::from_ref(&document), &[]).len(),
            1
        );
        let more = ["main.server_name".to_owned(), "main.instance_id".to_owned()];
        assert_eq!(keys_are_documented(&[document], &more).len(), 1);
    }

    #[test]
    fn the_table_of_keys_is_read() {
        let table = r#"
            Key::new("a", Kind::Section), Key::new("a.*.b", Kind::Text),
            Key::new(
                "a.*.c.[].d",
                Kind::Int { min: 0, max: 1 },
            ).only(X), Key::later("a.e", "caching"), Key::new("a.c.[]", Kind::PoolEntry),"#;
        let keys = configuration_keys(&[
            File::new("src/config/a.rs", table),
            File::new("src/b.rs", table),
        ]);
        assert_eq!(keys, ["a.<name>.b", "a.<name>.c[].d"]);
    }

    #[test]
    fn a_dead_link_is_found() {
        let target = File::new("docs/b.md", "");
        let good = File::new(
            "docs/a.md",
            "[b](b.md#x) [root](../docs/b.md) [folder](../docs) [out](https://a.b/c)",
        );
        assert_eq!(links_lead_somewhere(&[target, good]), []);
        assert_eq!(
            links_lead_somewhere(&[File::new("docs/a.md", "[b](c.md)")]).len(),
            1
        );
    }
}
