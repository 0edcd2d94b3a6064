//! The running product: its ports, log, memory and end.

#![expect(
    clippy::print_stderr,
    reason = "a failing test shows the log of what it started"
)]

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::answer::Answer;
use crate::client::Client;
use crate::patience::{eventually, patience};
use crate::ports::Port;

/// The binary under test: `RINGWAY_BIN`, else the one beside the test executables.
///
/// # Panics
/// When it is not there: `cargo test` alone does not build it.
#[track_caller]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("RINGWAY_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("cargo's layout");
    let path = profile.join("ringway");
    assert!(
        path.is_file(),
        "{} is not there: run `cargo build` first",
        path.display()
    );
    path
}

/// How a short-lived run of the binary ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit status, `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs the binary to its end with these arguments.
#[track_caller]
pub fn run<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Finished {
    run_in(Path::new("."), arguments)
}

/// The same in this folder, which names of files in configurations are relative to.
#[track_caller]
pub fn run_in<S: AsRef<std::ffi::OsStr>>(folder: &Path, arguments: &[S]) -> Finished {
    let output = Command::new(binary())
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    let output = output.expect("the binary can be run");
    Finished {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A started product; stopped when dropped.
#[derive(Debug)]
pub struct Ringway {
    child: Option<Child>,
    ports: [Port; 4],
    head: String,
    folder: PathBuf,
}

impl Ringway {
    pub(crate) fn new(child: Child, ports: [Port; 4], head: String, folder: PathBuf) -> Self {
        Self {
            child: Some(child),
            ports,
            head,
            folder,
        }
    }

    /// Where requests go.
    pub fn address(&self) -> SocketAddr {
        self.ports[0].address()
    }

    /// Where requests under TLS go.
    pub fn tls_address(&self) -> SocketAddr {
        self.ports[1].address()
    }

    /// The metrics and health listener.
    pub fn metrics_address(&self) -> SocketAddr {
        self.ports[2].address()
    }

    /// The management listener.
    pub fn mgmt_address(&self) -> SocketAddr {
        self.ports[3].address()
    }

    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// `GET path` on a new connection.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.client().get(path)
    }

    /// Everything logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// The folder with its configuration.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file it was started with.
    pub fn config_path(&self) -> PathBuf {
        self.folder.join("ringway.yaml")
    }

    /// Writes the configuration anew, with the same listeners and shards; nothing is reloaded yet.
    pub fn write_config(&self, sections: &str) {
        let text = format!("{}{sections}", self.head);
        std::fs::write(self.config_path(), text).expect("the folder is ours");
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("not stopped yet");
        kill_process(Pid::from_child(child), signal).expect("the process is ours and not reaped");
    }

    /// Resident memory now and at most so far, in KiB.
    pub fn resident_kib(&self) -> (u64, u64) {
        let child = self.child.as_ref().expect("not stopped yet");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("the process runs");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number
                .and_then(|number| number.parse().ok())
                .expect("the kernel says")
        };
        (field("VmRSS:"), field("VmHWM:"))
    }

    /// The sum of a metric's series that carry all of `labels`; `None` when there is none.
    #[track_caller]
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let text = Client::connect(self.metrics_address())
            .get("/metrics")
            .text();
        let mut sum = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
            let (found, rest) = series.split_once('{').unwrap_or((series, ""));
            let wanted = |(key, value): &(&str, &str)| rest.contains(&format!("{key}=\"{value}\""));
            if found == name && labels.iter().all(wanted) {
                *sum.get_or_insert(0.0) += value.parse::<f64>().expect("a sample is a number");
            }
        }
        sum
    }

    /// Waits for the end of a process that was told to stop.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let child = self.child.as_mut().expect("not stopped yet");
        let status = eventually("the process ends", || {
            child.try_wait().expect("it is our child")
        });
        self.child = None;
        status
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        let child = self.child.as_mut().expect("not stopped yet");
        child.try_wait().expect("it is our child").is_none()
    }

    /// Stops it as an operator does, and checks that it ended well and never panicked.
    #[track_caller]
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(
            status.code(),
            Some(0),
            "{:?}\n{}",
            status.signal(),
            self.log()
        );
        self.assert_no_panic();
    }

    #[track_caller]
    fn assert_no_panic(&self) {
        let log = self.log();
        assert!(!log.contains("panicked at"), "a panic was logged:\n{log}");
    }

    /// Waits for the first pong.
    #[track_caller]
    pub(crate) fn wait_until_serving(&self) {
        let id = self.child.as_ref().expect("just started").id();
        eventually("the product serves", || {
            let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let ended = state
                .rsplit(')')
                .next()
                .is_some_and(|rest| rest.starts_with(" Z"));
            assert!(!ended, "it ended at once:\n{}", self.log());
            let mut client = Client::try_connect(self.address()).ok()?;
            client
                .try_send("GET /trickster/ping HTTP/1.1\r\nHost: test\r\n\r\n")
                .ok()?;
            let answer = client.try_answer_to("GET").ok()?;
            (answer.status == 200).then_some(())
        });
    }
}

impl Drop for Ringway {
    fn drop(&mut self) {
        let ended = self
            .child
            .take()
            .is_none_or(|child| end(child, &self.folder));
        if std::thread::panicking() {
            eprintln!(
                "configuration and log are in {}\n{}",
                self.folder.display(),
                self.log()
            );
            return;
        }
        assert!(ended, "it did not stop within patience:\n{}", self.log());
        self.assert_no_panic();
        // What cannot be removed now goes with the target folder.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Stops a process, the hard way when it has to be; whether it went by itself.
fn end(mut child: Child, folder: &Path) -> bool {
    // A process that has ended meanwhile needs no signal.
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    let until = std::time::Instant::now() + patience();
    while std::time::Instant::now() < until {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return true;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(2));
    }
    eprintln!("killing {} of {}", child.id(), folder.display());
    drop(child.kill());
    drop(child.wait());
    false
}
