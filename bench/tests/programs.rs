//! The three programs as they are run: arguments in, output and exit code out.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ringway_bench::clock::pause;
use ringway_bench::load::Summary;

const LOAD: &str = env!("CARGO_BIN_EXE_ringway-load");
const ORIGIN: &str = env!("CARGO_BIN_EXE_ringway-origin");
const BENCH: &str = env!("CARGO_BIN_EXE_ringway-bench");

/// A child that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn output(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

/// Starts an origin. Returns its address too.
fn origin() -> (Running, String) {
    let mut child = Command::new(ORIGIN).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let address = line
        .trim()
        .strip_prefix("listening on ")
        .unwrap()
        .to_owned();
    (Running(child), address)
}

#[test]
fn load_and_origin_work_together() {
    let (_origin, address) = origin();
    let url = format!("http://{address}/bytes/100");
    let short = ["--warmup", "50ms", "--duration", "200ms", "-c", "2"];
    let json = output(LOAD, &[&[url.as_str(), "--json"], &short[..]].concat());
    assert!(json.status.success(), "{json:?}");
    let summary: Summary = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(summary.body_bytes_total, summary.answers_total * 100);
    let text = output(
        LOAD,
        &[&[url.as_str(), "--rate", "200"], &short[..]].concat(),
    );
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("200: 50") && text.contains("own lag"),
        "{text}"
    );
}

#[test]
fn every_program_explains_itself_and_refuses_nonsense() {
    for (program, mistake) in [
        (LOAD, "http://127.0.0.1:1 --nonsense"),
        (ORIGIN, "--listen nowhere"),
        (BENCH, "--proxies apache"),
    ] {
        let help = output(program, &["--help"]);
        let text = String::from_utf8(help.stdout).unwrap();
        assert!(help.status.success() && text.contains("Example"), "{text}");
        let words: Vec<&str> = mistake.split(' ').collect();
        let refused = output(program, &words);
        let text = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(
            text.starts_with("error: ") && text.contains("--help"),
            "{text}"
        );
    }
}

#[test]
fn load_without_a_server_fails_with_a_reason() {
    let refused = output(LOAD, &["http://127.0.0.1:1/", "--timeout", "100ms"]);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("127.0.0.1:1"), "{text}");
}

#[test]
fn bench_without_any_proxy_says_so_and_fails() {
    let json = std::env::temp_dir().join(format!("ringway-programs-{}.json", std::process::id()));
    let path = json.display().to_string();
    let arguments = [
        "--binary",
        "nowhere",
        "--proxies",
        "ringway",
        "--json",
        &path,
    ];
    let found = output(
        BENCH,
        &[&arguments[..], &["--scenarios", "idle,tail"]].concat(),
    );
    let text = String::from_utf8(found.stdout).unwrap();
    std::fs::remove_file(json).unwrap();
    assert_eq!(found.status.code(), Some(1), "{text}");
    assert!(text.contains("ringway: not found, skipped"), "{text}");
}

#[test]
fn what_the_harness_started_ends_when_it_is_killed() {
    // The shell stands for the harness: it launches a program and is killed without warning.
    let script = format!("{BENCH} launch $$ any 0 sleep 1000 & echo $!; wait");
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    let stdout = shell.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut pid).unwrap();
    let command_line = format!("/proc/{}/cmdline", pid.trim());
    let is_sleeping = || std::fs::read(&command_line).is_ok_and(|line| line.starts_with(b"sleep"));
    eventually(is_sleeping, "the program was launched");
    shell.kill().unwrap();
    shell.wait().unwrap();
    eventually(|| !is_sleeping(), "the program ended");
}

fn eventually(condition: impl Fn() -> bool, what: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < until, "not in time: {what}");
        pause(Duration::from_millis(5));
    }
}
