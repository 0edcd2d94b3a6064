//! Real Prometheus servers, split into three groups of which one is an HA pair, against one server that
//! holds everything: the oracle beside the repository asks both and compares. Replicas hold the same data; of the
//! corpus a spread sample is asked, all of it with RINGWAY_ORACLE_EVERY=1.

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

/// How ringway is put in front of the servers.
struct Arrangement {
    name: &'static str,
    /// Members of the pool.
    pool: &'static str,
    /// Of so many queries one is asked; with RINGWAY_ORACLE_EVERY of that many.
    every: usize,
}

const IN_ORDER: Arrangement = Arrangement {
    name: "all servers up",
    pool: "a1, a2, b, c",
    every: 2,
};
const REVERSED: Arrangement = Arrangement {
    name: "pool in reverse order",
    pool: "c, b, a2, a1",
    every: 5,
};
/// The replicas behind a round robin, which is one member.
const NESTED: Arrangement = Arrangement {
    name: "replicas behind a nested rr",
    pool: "pair, b, c",
    every: 5,
};
const ONE_DOWN: Arrangement = Arrangement {
    name: "first replica down",
    pool: "a1, a2, b, c",
    every: 5,
};

fn start(servers: &Servers, arrangement: &Arrangement) -> Ringway {
    let mut yaml = String::new();
    for (name, group) in [("a1", "a"), ("a2", "a"), ("b", "b"), ("c", "c")] {
        let url = servers.url(name);
        yaml.push_str(&format!("  {name}:\n    provider: prometheus\n    origin_url: {url}\n    replica_group: {group}\n"));
    }
    yaml.push_str("  pair:\n    provider: alb\n    alb: {mechanism: rr, pool: [a1, a2]}\n");
    yaml.push_str(&format!(
        "  all:\n    provider: alb\n    is_default: true\n    alb:\n      mechanism: tsm\n      pool: [{}]\n      tsm: {{native_histograms: aggregate}}\n",
        arrangement.pool
    ));
    Setup::new("backends:\n").section(&yaml).start()
}

/// Every so many-th query of the corpus, over all of its files, as files in `folder`.
fn sample(every: usize, folder: &Path) -> PathBuf {
    let every = std::env::var("RINGWAY_ORACLE_EVERY").map_or(every, |text| {
        text.parse().expect("RINGWAY_ORACLE_EVERY is a number")
    });
    let to = folder.join("queries");
    std::fs::create_dir_all(&to).expect("the folder is ours");
    let from = std::fs::read_dir(oracle().join("queries")).expect("the corpus is there");
    let mut files: Vec<PathBuf> = from
        .map(|entry| entry.expect("it is read").path())
        .collect();
    files.sort();
    let mut count = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("it is text");
        let mut kept = String::new();
        for line in text.lines() {
            // Lines keep their numbers.
            if !line.trim().is_empty() && !line.starts_with('#') {
                count += 1;
                if count % every.max(1) == 0 {
                    kept.push_str(line);
                }
            }
            kept.push('\n');
        }
        let name = file.file_name().expect("a file has a name");
        std::fs::write(to.join(name), kept).expect("the folder is ours");
    }
    to
}

/// Compares, prints the counts per group, and returns the report.
#[expect(
    clippy::print_stdout,
    reason = "the counts per group are the result of the run"
)]
fn check(servers: &Servers, data: &Path, arrangement: &Arrangement) -> Value {
    let ringway = start(servers, arrangement);
    let report = ringway.folder().join("report.json");
    let queries = sample(arrangement.every, ringway.folder());
    let (_, said) = python(
        "check.py",
        &[
            "--union",
            &servers.url("union"),
            "--proxy",
            &format!("http://{}", ringway.address()),
            "--manifest",
            &data.join("data.json").to_string_lossy(),
            "--queries",
            &queries.to_string_lossy(),
            "--strict",
            "--with",
            "exp,native",
            "--skip-tags",
            "moved,overlap,dup,cancel",
            "--json",
            &report.to_string_lossy(),
        ],
    );
    println!("=== {}\n{said}", arrangement.name);
    let report = std::fs::read(report).expect("check.py wrote its report");
    ringway.stop();
    serde_json::from_slice(&report).expect("check.py writes JSON")
}

/// Every answer is what one server with all data says, and none warns without need.
#[track_caller]
fn assert_exact(report: &Value, arrangement: &Arrangement) {
    let name = arrangement.name;
    let queries = report["queries"].as_array().expect("every query");
    let least = 800 / arrangement.every;
    assert!(queries.len() >= least, "{name}: only {}", queries.len());
    let warns = |evaluation: &Value| evaluation["overwarned"] == true;
    let is_wrong = |query: &&Value| {
        let evaluations = query["evaluations"].as_array().expect("all of them");
        let overwarned = evaluations.iter().any(warns);
        query["class"] != "EXACT" || overwarned
    };
    let wrong: Vec<&Value> = queries.iter().filter(is_wrong).collect();
    let texts: Vec<&Value> = wrong.iter().map(|query| &query["query"]).collect();
    assert!(
        wrong.is_empty(),
        "{name}: {} of {}: {texts:?}",
        wrong.len(),
        queries.len()
    );
}

#[test]
fn answers_equal_those_of_one_server_with_all_data_also_with_a_replica_down() {
    let data = data();
    let setup = Setup::new("backends:\n");
    end_leftovers(setup.folder());
    let servers = Servers::start(&data, &setup.folder().join("servers"));
    for arrangement in [IN_ORDER, REVERSED, NESTED] {
        assert_exact(&check(&servers, &data, &arrangement), &arrangement);
    }
    servers.end("a1");
    assert_exact(&check(&servers, &data, &ONE_DOWN), &ONE_DOWN);
}
