//! A child process of the harness: started, asked to stop, ended by its id.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::launch::{self, Place};
use super::usage;
use crate::clock::pause;

/// How long a process may take to end after SIGTERM.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(5);
/// How much of the beginning and of the end of a log is shown when something went wrong.
const LOG_PART_CHARS: usize = 400;

/// A running child. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`; its output goes to `DIR/NAME.log`.
    pub(super) fn start(
        name: &str,
        place: Place,
        program: &Path,
        arguments: &[String],
        dir: &Path,
    ) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = launch::command(place, program)?
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone().context("cannot share the log")?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` returns something; an error if the process ends or time runs out.
    pub(super) fn wait_until<T>(
        &mut self,
        patience: Duration,
        mut ready: impl FnMut(&Path) -> Option<T>,
    ) -> Result<T> {
        let until = Instant::now() + patience;
        loop {
            if let Some(found) = ready(&self.log) {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait().context("cannot ask for the status")? {
                bail!("{} ended ({status}): {}", self.name, self.log_extract());
            }
            if Instant::now() > until {
                bail!(
                    "{} is not ready after {patience:?}: {}",
                    self.name,
                    self.log_extract()
                );
            }
            pause(POLL);
        }
    }

    /// Its output on one line.
    fn log_extract(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        extract(&String::from_utf8_lossy(&text))
    }
}

/// The beginning and the end of a log: programs name their mistake in either place.
fn extract(log: &str) -> String {
    let line: Vec<char> = log
        .lines()
        .collect::<Vec<_>>()
        .join(" | ")
        .chars()
        .collect();
    match line.len() {
        0 => "it printed nothing".to_owned(),
        length if length <= 2 * LOG_PART_CHARS => line.iter().collect(),
        length => {
            let (begin, end) = (&line[..LOG_PART_CHARS], &line[length - LOG_PART_CHARS..]);
            format!(
                "{} … {}",
                begin.iter().collect::<String>(),
                end.iter().collect::<String>()
            )
        }
    }
}

impl Drop for Process {
    /// Asks the process to stop, then ends it and what it started.
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        // Listed before the parent is gone: orphans have another parent.
        let members = usage::tree(self.pid());
        signal(self.pid(), Signal::TERM);
        let until = Instant::now() + STOP_PATIENCE;
        while Instant::now() < until {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            pause(POLL);
        }
        for pid in members {
            signal(pid, Signal::KILL);
        }
        // Reaps it; there is nobody to tell if that fails.
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that may have ended.
pub(super) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended in the meantime, which is what was wanted.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_shown_from_both_ends() {
        assert_eq!(extract(""), "it printed nothing");
        assert_eq!(extract("a\nb\n"), "a | b");
        let long = extract(&format!("first\n{}\nlast", "x".repeat(10_000)));
        assert!(
            long.starts_with("first | x") && long.ends_with("x | last"),
            "{long}"
        );
        assert_eq!(long.chars().count(), 2 * LOG_PART_CHARS + 3);
    }
}
