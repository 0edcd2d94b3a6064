//! The command line: `ringway check`, its verdicts and its messages, and the flags known from
//! Trickster.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use ringway_wire::{Finished, Setup, run};

/// A folder for configuration files, removed when the test passes.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        Self(Setup::new("").folder().to_owned())
    }

    fn write(&self, name: &str, yaml: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("the folder is ours");
        std::fs::write(&path, yaml).expect("the folder is ours");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // What cannot be removed now goes with the target folder.
            drop(std::fs::remove_dir_all(&self.0));
        }
    }
}

fn check(config: &Path) -> Finished {
    run(&[
        OsStr::new("check"),
        OsStr::new("--config"),
        config.as_os_str(),
    ])
}

fn said(finished: &Finished) -> String {
    format!("{}{}", finished.out, finished.err)
}

const GOOD: &str = "backends:
  a: {provider: reverseproxy, origin_url: 'http://127.0.0.1:1'}
  b: {provider: prometheus, origin_url: 'http://127.0.0.1:2', replica_group: g}
  pool: {provider: alb, is_default: true, alb: {mechanism: rr, pool: [a, {name: b, weight: 2}]}}
";

/// What is wrong, the file, and what the message must hold: line, path, and a word of the reason.
type Row = (&'static str, &'static str, u32, &'static str, &'static str);

const DOCUMENTS: &[Row] = &[
    ("not YAML", "backends: [\n", 0, "", ""),
    ("no mapping at the root", "- a\n", 1, "", ""),
    ("tab for indentation", "backends:\n\ta: 1\n", 2, "", ""),
    (
        "duplicate key",
        "main:\n  server_name: a\n  server_name: b\n",
        3,
        "",
        "server_name",
    ),
    ("unknown section", "backend: {}\n", 1, "backend", "backends"),
    (
        "unknown key",
        "main:\n  server_nam: a\n",
        2,
        "main.server_nam",
        "server_name",
    ),
    ("text for a section", "main: yes\n", 1, "main", ""),
    (
        "text for a number",
        "listeners:\n  default:\n    port: high\n",
        3,
        "listeners.default.port",
        "",
    ),
    (
        "port beyond 65535",
        "listeners:\n  default:\n    port: 65536\n",
        3,
        "listeners.default.port",
        "",
    ),
    (
        "negative port",
        "listeners:\n  default:\n    port: -5\n",
        3,
        "listeners.default.port",
        "",
    ),
    (
        "unknown log level",
        "logging:\n  log_level: loud\n",
        2,
        "logging.log_level",
        "",
    ),
    (
        "unknown driver",
        "shards:\n  driver: kqueue\n",
        2,
        "shards.driver",
        "io_uring",
    ),
    ("no shards", "shards:\n  count: 0\n", 2, "shards.count", ""),
    (
        "bad processor list",
        "shards:\n  cpus: 2-x\n",
        2,
        "shards.cpus",
        "",
    ),
    (
        "mysql",
        "listeners:\n  db:\n    protocol: mysql\n",
        3,
        "listeners.db.protocol",
        "mysql",
    ),
];

const BACKENDS: &[Row] = &[
    (
        "no provider",
        "backends:\n  a:\n    origin_url: http://x\n",
        2,
        "backends.a",
        "provider",
    ),
    (
        "unknown provider",
        "backends:\n  a:\n    provider: revproxy\n",
        3,
        "backends.a.provider",
        "reverseproxy",
    ),
    (
        "no origin",
        "backends:\n  a:\n    provider: rp\n",
        2,
        "backends.a",
        "origin_url",
    ),
    (
        "origin without a scheme",
        "backends:\n  a:\n    provider: rp\n    origin_url: x:80\n",
        4,
        "backends.a.origin_url",
        "",
    ),
    (
        "origin of another scheme",
        "backends:\n  a:\n    provider: rp\n    origin_url: ftp://x\n",
        4,
        "backends.a.origin_url",
        "",
    ),
    (
        "bare number as a duration",
        "backends:\n  a:\n    provider: rp\n    origin_url: http://x\n    timeout: 30\n",
        5,
        "backends.a.timeout",
        "10s",
    ),
    (
        "unknown unit",
        "backends:\n  a:\n    provider: rp\n    origin_url: http://x\n    timeout: 3 fortnights\n",
        5,
        "backends.a.timeout",
        "",
    ),
    (
        "unknown forwarding",
        "backends:\n  a:\n    provider: rp\n    origin_url: http://x\n    forwarded_headers: all\n",
        5,
        "backends.a.forwarded_headers",
        "both",
    ),
    (
        "unknown listener",
        "backends:\n  a:\n    provider: rp\n    origin_url: http://x\n    listener_name: side\n",
        5,
        "backends.a.listener_name",
        "side",
    ),
    (
        "two defaults",
        "backends:\n  a: {provider: rp, origin_url: 'http://x', is_default: true}\n  \
         b: {provider: rp, origin_url: 'http://x', is_default: true}\n",
        3,
        "backends.b",
        "default",
    ),
    (
        "one host for two",
        "backends:\n  a: {provider: rp, origin_url: 'http://x', hosts: [h]}\n  \
         b: {provider: rp, origin_url: 'http://x', hosts: [H]}\n",
        3,
        "backends.b.hosts",
        "",
    ),
    (
        "certificate without a key",
        "backends:\n  a:\n    provider: rp\n    origin_url: http://x\n    tls:\n      full_chain_cert_path: /none\n",
        0,
        "backends.a.tls",
        "",
    ),
    (
        "probe timeout beyond its bounds",
        "backends:\n  a:\n    provider: rp\n    origin_url: http://x\n    healthcheck:\n      timeout: 31s\n",
        6,
        "backends.a.healthcheck.timeout",
        "30s",
    ),
    (
        "alb keys elsewhere",
        "backends:\n  a:\n    provider: rp\n    origin_url: http://x\n    alb: {pool: [a]}\n",
        5,
        "backends.a.alb",
        "alb",
    ),
];

const POOLS: &[Row] = &[
    (
        "alb without its block",
        "backends:\n  p:\n    provider: alb\n",
        2,
        "backends.p",
        "alb",
    ),
    (
        "origin on an alb",
        "backends:\n  p:\n    provider: alb\n    origin_url: http://x\n    alb: {pool: []}\n",
        4,
        "backends.p.origin_url",
        "",
    ),
    (
        "unknown mechanism",
        "backends:\n  p:\n    provider: alb\n    alb:\n      mechanism: random\n      pool: []\n",
        5,
        "backends.p.alb.mechanism",
        "rr",
    ),
    (
        "unknown member",
        "backends:\n  p:\n    provider: alb\n    alb:\n      pool:\n        - nobody\n",
        6,
        "backends.p.alb.pool[0]",
        "nobody",
    ),
    (
        "negative weight",
        "backends:\n  a: {provider: rp, origin_url: 'http://x'}\n  p:\n    provider: alb\n    alb:\n      \
         pool:\n        - {name: a, weight: -1}\n",
        7,
        "backends.p.alb.pool[0].weight",
        "",
    ),
    (
        "a member of itself",
        "backends:\n  p:\n    provider: alb\n    alb:\n      pool: [p]\n",
        5,
        "backends.p.alb.pool",
        "p",
    ),
    (
        "a loop of two",
        "backends:\n  p: {provider: alb, alb: {pool: [q]}}\n  q: {provider: alb, alb: {pool: [p]}}\n",
        2,
        "backends.p.alb.pool",
        "p > q > p",
    ),
    (
        "floor out of range",
        "backends:\n  p:\n    provider: alb\n    alb:\n      pool: []\n      healthy_floor: 2\n",
        6,
        "backends.p.alb.healthy_floor",
        "1",
    ),
    (
        "merging what is not Prometheus",
        "backends:\n  a: {provider: rp, origin_url: 'http://x'}\n  p:\n    provider: alb\n    alb:\n      \
         mechanism: tsm\n      pool: [a]\n",
        7,
        "backends.p.alb.pool",
        "prometheus",
    ),
    (
        "output format elsewhere",
        "backends:\n  a: {provider: rp, origin_url: 'http://x'}\n  p:\n    provider: alb\n    alb:\n      \
         mechanism: rr\n      pool: [a]\n      output_format: prometheus\n",
        8,
        "backends.p.alb.output_format",
        "tsm",
    ),
    (
        "replica group on a web backend",
        "backends:\n  a:\n    provider: rp\n    origin_url: http://x\n    replica_group: g\n",
        5,
        "backends.a.replica_group",
        "",
    ),
    (
        "a key that is to come",
        "backends:\n  a:\n    provider: rp\n    origin_url: http://x\n    cache_name: c\n",
        5,
        "backends.a.cache_name",
        "",
    ),
];

#[track_caller]
fn all_refused(rows: &[Row]) {
    let folder = Folder::new();
    for (name, yaml, line, path, word) in rows {
        let config = folder.write("bad.yaml", yaml);
        let finished = check(&config);
        let said = said(&finished);
        assert_eq!(finished.code, Some(1), "{name}: {said}");
        let place = if *line == 0 {
            "bad.yaml:".to_owned()
        } else {
            format!("bad.yaml:{line}:")
        };
        let path = if path.is_empty() {
            String::new()
        } else {
            format!(": {path}")
        };
        let wanted =
            |text: &&str| text.contains(&place) && text.contains(&path) && text.contains(word);
        let found = said.lines().find(wanted);
        let found = found
            .unwrap_or_else(|| panic!("{name}: no line with {place} {path} {word} in\n{said}"));
        if *line > 0 {
            let rest = found.split_once(&place).map_or("", |(_, rest)| rest);
            let column = rest
                .split(':')
                .next()
                .and_then(|column| column.parse::<u32>().ok());
            assert!(
                column.is_some_and(|column| column > 0),
                "{name}: no column in {found}"
            );
        }
    }
}

#[test]
fn a_bad_document_or_section_is_refused_with_its_place() {
    all_refused(DOCUMENTS);
}

#[test]
fn a_bad_backend_is_refused_with_its_place() {
    all_refused(BACKENDS);
}

#[test]
fn a_bad_pool_is_refused_with_its_place() {
    all_refused(POOLS);
}

#[test]
fn a_good_configuration_is_accepted_with_exit_0() {
    let folder = Folder::new();
    let config = folder.write("good.yaml", GOOD);
    let finished = check(&config);
    assert_eq!(finished.code, Some(0), "{finished:?}");
}

#[test]
fn every_problem_is_reported_in_one_run() {
    let folder = Folder::new();
    let config = folder.write(
        "bad.yaml",
        "nonsense: 1\nbackends:\n  a:\n    provider: rp\n    origin_url: http://x\n    timeout: 3\n  \
         p:\n    provider: alb\n    alb:\n      pool: [nobody, noone]\n",
    );
    let finished = check(&config);
    let said = said(&finished);
    assert_eq!(finished.code, Some(1));
    for word in ["nonsense", "backends.a.timeout", "nobody", "noone"] {
        assert!(said.contains(word), "{word} is not named in\n{said}");
    }
}

#[test]
fn a_file_that_is_not_there_is_refused() {
    let folder = Folder::new();
    let finished = check(&folder.0.join("none.yaml"));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(said(&finished).contains("none.yaml"), "{finished:?}");
}

#[test]
fn a_folder_is_read_in_order_and_later_files_win() {
    let folder = Folder::new();
    folder.write("d/10-a.yaml", GOOD);
    folder.write("d/20-b.yml", "backends: {a: {timeout: soon}}\n");
    folder.write("d/.30-hidden.yaml", "nonsense: 1\n");
    folder.write("d/readme.txt", "nonsense: 1\n");
    let finished = check(&folder.0.join("d"));
    let text = said(&finished);
    assert_eq!(finished.code, Some(1), "{text}");
    assert!(
        text.contains("20-b.yml:1:") && !text.contains("nonsense"),
        "{text}"
    );
    folder.write("d/30-c.yaml", "backends: {a: {timeout: 5s}}\n");
    let finished = check(&folder.0.join("d"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let empty = folder.0.join("empty");
    std::fs::create_dir(&empty).expect("the folder is ours");
    assert_eq!(check(&empty).code, Some(1));
}

#[test]
fn files_of_conf_d_are_laid_over_the_file() {
    let folder = Folder::new();
    let config = folder.write("ringway.yaml", GOOD);
    folder.write("conf.d/a.yaml", "backends: {a: {timeout: soon}}\n");
    let finished = check(&config);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(said(&finished).contains("conf.d/a.yaml:1:"), "{finished:?}");
}

#[test]
fn known_flags_work_with_one_and_two_dashes() {
    let folder = Folder::new();
    let good = folder.write("good.yaml", GOOD);
    let bad = folder.write("bad.yaml", "nonsense: 1\n");
    let (good, bad) = (good.to_str().expect("UTF-8"), bad.to_str().expect("UTF-8"));
    for dashes in ["-", "--"] {
        let flag = |name: &str| format!("{dashes}{name}");
        let validate = flag("validate-config");
        assert_eq!(
            run(&[flag("config"), good.into(), validate.clone()]).code,
            Some(0),
            "{dashes}"
        );
        assert_eq!(
            run(&[validate.clone(), flag(&format!("config={good}"))]).code,
            Some(0),
            "{dashes}"
        );
        assert_eq!(
            run(&[flag("config"), bad.into(), validate.clone()]).code,
            Some(1),
            "{dashes}"
        );
        let loud = [
            flag("config"),
            good.into(),
            flag("log-level"),
            "debug".into(),
            validate.clone(),
        ];
        assert_eq!(run(&loud).code, Some(0), "{dashes}");
        let wrong = [
            flag("config"),
            good.into(),
            flag("log-level"),
            "loud".into(),
            validate,
        ];
        assert_ne!(run(&wrong).code, Some(0), "{dashes}");
        let version = run(&[flag("version")]);
        assert_eq!(version.code, Some(0), "{dashes}");
        assert!(version.out.contains("ringway"), "{version:?}");
    }
}

#[test]
fn version_and_help_are_answered_and_an_unknown_word_is_not() {
    let version = run(&["version"]);
    assert_eq!(version.code, Some(0));
    assert!(
        version.out.contains(env!("CARGO_PKG_VERSION")),
        "{version:?}"
    );
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    for word in ["run", "check", "demo", "version", "--config", "ringway run"] {
        assert!(help.out.contains(word), "{word} is not in\n{}", help.out);
    }
    for arguments in [
        &["nonsense"][..],
        &["--nonsense"],
        &["run", "--config"],
        &["check", "--nonsense"],
    ] {
        let finished = run(arguments);
        assert!(
            finished.code.is_some_and(|code| code != 0),
            "{arguments:?}: {finished:?}"
        );
        assert!(!finished.err.is_empty(), "{arguments:?}");
    }
}
