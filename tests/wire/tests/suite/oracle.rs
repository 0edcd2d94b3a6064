//! Real Prometheus servers, split into three groups of which one is an HA pair, against one server that
//! holds everything: the oracle beside the repository asks both and compares.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringway_wire::{Port, Ringway, Setup};
use serde_json::Value;

/// Where the oracle lies, from the root of the repository.
const ORACLE: &str = "../shared/oracle";
const SERVERS: [&str; 6] = ["a1", "a2", "b", "c", "union", "exporter"];

fn oracle() -> PathBuf {
    // What cargo says now, not what it said when this was built: clones may share one target folder.
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let root = here.ancestors().nth(2).expect("two below the root");
    let path = std::env::var_os("RINGWAY_ORACLE").map_or_else(|| root.join(ORACLE), PathBuf::from);
    assert!(
        path.join("check.py").is_file(),
        "{} is missing; RINGWAY_ORACLE names another place",
        path.display()
    );
    path
}

/// Runs a program of the oracle; its standard output. What it says is shown when it fails.
#[track_caller]
fn python(script: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("python3")
        .arg(oracle().join(script))
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("python3 can be run");
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// The generated data, made once for each version of its generator and kept in the target folder.
fn data() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("cargo's layout");
    let generator = std::fs::read(oracle().join("gen.py")).expect("the generator is there");
    let version = generator
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let folder = profile.join("wire-oracle").join(format!("{version:016x}"));
    std::fs::create_dir_all(folder.parent().expect("it has one")).expect("the target is ours");
    // One process makes it, others wait; a half-made folder never has the final name.
    let lock = File::create(folder.with_extension("lock")).expect("the target is ours");
    lock.lock().expect("the file system can lock");
    if !folder.join("data.json").is_file() {
        let half = folder.with_extension("half");
        // Left by a run that was interrupted, or not there.
        drop(std::fs::remove_dir_all(&half));
        let out = half.to_string_lossy().into_owned();
        let (made, said) = python("gen.py", &["--out", &out, "--seed", "1", "--no-gaps"]);
        assert!(made, "gen.py failed: {said}");
        std::fs::rename(&half, &folder).expect("both are in the target");
    }
    folder
}

/// The servers; ended when dropped.
struct Servers {
    run: String,
    ports: Vec<Port>,
}

/// Ends servers of runs that were killed: a run's folder carries the number of its process.
fn end_leftovers(folder: &Path) {
    let Some(runs) = folder
        .parent()
        .and_then(|parent| std::fs::read_dir(parent).ok())
    else {
        return;
    };
    for run in runs.flatten() {
        let name = run.file_name().to_string_lossy().into_owned();
        let process = name.split('-').next().unwrap_or_default();
        let servers = run.path().join("servers");
        if servers.join("pids.json").is_file() && !Path::new("/proc").join(process).exists() {
            python("up.py", &["down", "--run", &servers.to_string_lossy()]);
        }
    }
}

impl Servers {
    fn start(data: &Path, run: &Path) -> Self {
        let ports: Vec<_> = SERVERS.iter().map(|_| Port::claim()).collect();
        let named: Vec<_> = SERVERS
            .iter()
            .zip(&ports)
            .map(|(name, port)| format!("{name}={}", port.number()))
            .collect();
        let run = run.to_string_lossy().into_owned();
        let data = data.to_string_lossy();
        let (up, said) = python(
            "up.py",
            &[
                "up",
                "--data",
                &data,
                "--run",
                &run,
                "--ports",
                &named.join(","),
                "--metadata",
            ],
        );
        assert!(up, "the Prometheus servers did not start: {said}");
        Self { run, ports }
    }

    fn url(&self, name: &str) -> String {
        let at = SERVERS
            .iter()
            .position(|server| *server == name)
            .expect("a known name");
        format!("http://{}", self.ports[at].address())
    }

    fn end(&self, name: &str) {
        assert!(python("up.py", &["drop", "--run", &self.run, name]).0);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        python("up.py", &["down", "--run", &self.run]);
    }
}

fn start(servers: &Servers, setup: Setup) -> Ringway {
    let mut yaml = String::new();
    for (name, group) in [("a1", "a"), ("a2", "a"), ("b", "b"), ("c", "c")] {
        let url = servers.url(name);
        yaml.push_str(&format!("  {name}:\n    provider: prometheus\n    origin_url: {url}\n    replica_group: {group}\n"));
    }
    yaml.push_str("  all:\n    provider: alb\n    is_default: true\n    alb:\n      mechanism: tsm\n      pool: [a1, a2, b, c]\n");
    setup.section(&yaml).start()
}

/// Compares, prints the counts per group, and returns the report.
#[expect(
    clippy::print_stdout,
    reason = "the counts per group are the result of the run"
)]
fn check(servers: &Servers, ringway: &Ringway, data: &Path, name: &str) -> Value {
    let report = ringway.folder().join("report.json");
    let (_, said) = python(
        "check.py",
        &[
            "--union",
            &servers.url("union"),
            "--proxy",
            &format!("http://{}", ringway.address()),
            "--manifest",
            &data.join("data.json").to_string_lossy(),
            "--skip-tags",
            "moved,overlap,dup,cancel",
            "--json",
            &report.to_string_lossy(),
        ],
    );
    println!("=== {name}\n{said}");
    let report = std::fs::read(report).expect("check.py wrote its report");
    serde_json::from_slice(&report).expect("check.py writes JSON")
}

/// No answer is silently wrong, errors are those that were asked for, and the groups that hold only
/// plain selectors and per-series functions are exact throughout.
#[track_caller]
fn assert_contract(report: &Value) {
    let groups = report["groups"].as_object().expect("counts per group");
    assert!(groups.len() > 20, "only {} groups ran", groups.len());
    for (name, counts) in groups {
        assert_eq!(counts["WRONG"], 0, "{name} has silently wrong answers");
        assert!(
            name == "expected_errors" || counts["ERROR"] == 0,
            "{name} has errors: {counts}"
        );
    }
    let queries = report["queries"].as_array().expect("every query");
    let plain: Vec<&Value> = queries.iter().filter(|query| is_plain(query)).collect();
    assert!(plain.len() > 150, "only {} plain queries ran", plain.len());
    for query in plain {
        assert_eq!(query["class"], "EXACT", "{query}");
    }
}

/// Groups of plain selectors, per-series functions of them, and aggregations.
const PLAIN: [&str; 6] = [
    "aggregators",
    "label_functions",
    "over_time",
    "rate_functions",
    "selectors",
    "time_functions",
];
/// Not plain: operations that are not merged yet, and series that lie on more than one shard.
const NOT_PLAIN: &[&str] = &[
    "absent",
    "avg(sum",
    "bottomk",
    "count(count",
    "edge_dup",
    "edge_moved",
    "edge_overlap",
    "limit",
    "quantile(",
    "quantile ",
    "stddev by",
    "stddev(",
    "stdvar by",
    "stdvar without",
    "stdvar(",
    "sum(count",
    "topk",
    "{__name__=~\".+\"}",
];

/// Whether the contract asks for an exact answer: the outermost operator is merged, over plain input.
fn is_plain(query: &Value) -> bool {
    let (group, text) = (query["group"].as_str(), query["query"].as_str());
    let (group, text) = (group.unwrap_or_default(), text.unwrap_or_default());
    PLAIN.contains(&group) && !NOT_PLAIN.iter().any(|word| text.contains(word))
}

#[test]
fn answers_equal_those_of_one_server_with_all_data_also_with_a_replica_down() {
    let data = data();
    let setup = Setup::new("backends:\n");
    end_leftovers(setup.folder());
    let servers = Servers::start(&data, &setup.folder().join("servers"));
    let ringway = start(&servers, setup);
    assert_contract(&check(&servers, &ringway, &data, "all servers up"));
    servers.end("a1");
    assert_contract(&check(&servers, &ringway, &data, "first replica down"));
    drop(servers);
    ringway.stop();
}
