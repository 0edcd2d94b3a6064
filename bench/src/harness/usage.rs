//! What a process and its children have used: CPU time and memory, from `/proc`.
//!
//! CPU time is the sum of the first field of `/proc/PID/task/TID/schedstat` over all threads: time on
//! a CPU in nanoseconds, user and kernel together, softirq work done in the thread's context
//! included. The second field is the time spent waiting for a CPU. `/proc/PID/stat` has the same sum in ticks of 10 ms; it also keeps the threads that
//! have ended and is reported as a check.

use std::fs;

use anyhow::{Context, Result};
use rustix::param::clock_ticks_per_second;

/// What a process tree has used until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// CPU time of the threads that are alive, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Time that the threads were ready to run but had to wait for a CPU, in nanoseconds.
    pub(super) wait_ns: u64,
    /// CPU time by ticks, in nanoseconds.
    pub(super) cpu_by_ticks_ns: u64,
    /// Resident memory. Pages that parent and child share count for both.
    pub(super) rss_bytes: u64,
}

/// CPU time in nanoseconds of the threads of `pid` that are no shards, and of those that are.
pub(super) fn thread_cpu_ns(pid: u32) -> Result<(u64, u64)> {
    let (mut others, mut shards) = (0, 0);
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = task?.path();
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        let text = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        let (cpu, _) = cpu_and_wait_ns(&text).unwrap_or((0, 0));
        match name.starts_with("shard-") {
            true => shards += cpu,
            false => others += cpu,
        }
    }
    Ok((others, shards))
}

impl Usage {
    /// Reads the usage of `pid` and of all its descendants.
    pub(super) fn of_tree(pid: u32) -> Result<Self> {
        let mut total = Self::default();
        for pid in tree(pid) {
            let one = Self::of_process(pid);
            // A child may have ended meanwhile; the root must be there.
            let Ok(one) = one else { continue };
            total.cpu_ns += one.cpu_ns;
            total.wait_ns += one.wait_ns;
            total.cpu_by_ticks_ns += one.cpu_by_ticks_ns;
            total.rss_bytes += one.rss_bytes;
        }
        if total.rss_bytes == 0 {
            anyhow::bail!("process {pid} is gone");
        }
        Ok(total)
    }

    fn of_process(pid: u32) -> Result<Self> {
        let (mut cpu_ns, mut wait_ns) = (0, 0);
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end between being listed and being read.
            let path = task?.path().join("schedstat");
            let text = fs::read_to_string(path).unwrap_or_default();
            let (cpu, wait) = cpu_and_wait_ns(&text).unwrap_or((0, 0));
            cpu_ns += cpu;
            wait_ns += wait;
        }
        let stat = Stat::read(pid)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let tick_ns = 1_000_000_000 / clock_ticks_per_second();
        Ok(Self {
            cpu_ns,
            wait_ns,
            cpu_by_ticks_ns: stat.cpu_ticks * tick_ns,
            rss_bytes: rss_bytes(&status).context("no VmRSS: not a user process")?,
        })
    }
}

/// Returns `pid` and all that descend from it.
pub(super) fn tree(pid: u32) -> Vec<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Ok(stat) = Stat::read(pid) {
            parents.push((pid, stat.parent));
        }
    }
    let mut members = vec![pid];
    let mut at = 0;
    while let Some(&member) = members.get(at) {
        members.extend(
            parents
                .iter()
                .filter(|(_, p)| *p == member)
                .map(|(pid, _)| *pid),
        );
        at += 1;
    }
    members
}

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    cpu_ticks: u64,
}

impl Stat {
    fn read(pid: u32) -> Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::parse(&text).context("unexpected form of /proc/PID/stat")
    }

    fn parse(text: &str) -> Option<Self> {
        // The name is in parentheses and may contain anything, parentheses and spaces too.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // proc_pid_stat(5) counts from 1 and state is field 3, so field N stands at N - 3.
        let user: u64 = fields.get(14 - 3)?.parse().ok()?;
        let system: u64 = fields.get(15 - 3)?.parse().ok()?;
        Some(Self {
            parent: fields.get(4 - 3)?.parse().ok()?,
            cpu_ticks: user + system,
        })
    }
}

fn cpu_and_wait_ns(schedstat: &str) -> Option<(u64, u64)> {
    let mut fields = schedstat.split_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn rss_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read_by_their_layout() {
        let text = "7 (a) b (c) S 5 7 7 0 -1 4194304 1 2 3 4 600 70 8 9 20 0 1 0 5 6 7";
        assert_eq!(
            Stat::parse(text),
            Some(Stat {
                parent: 5,
                cpu_ticks: 670
            })
        );
        assert_eq!(Stat::parse("7 (a) S 5"), None);
        assert_eq!(cpu_and_wait_ns("123456 789 3\n"), Some((123_456, 789)));
        assert_eq!(
            rss_bytes("Name:\tx\nVmRSS:\t    2048 kB\nThreads: 1\n"),
            Some(2 << 20)
        );
        assert_eq!(rss_bytes("Name:\tkthread\n"), None);
    }

    #[test]
    fn work_shows_as_cpu_time_of_all_threads_and_children() {
        let before = Usage::of_tree(std::process::id()).unwrap();
        let busy = |until_ns: u64| while crate::clock::now_ns() < until_ns {};
        let until_ns = crate::clock::now_ns() + 50_000_000;
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            busy(until_ns);
            // The thread must be alive when it is counted.
            let _ = wait.recv();
        });
        let mut child = std::process::Command::new("sleep")
            .arg("10")
            .spawn()
            .unwrap();
        busy(until_ns);
        let members = tree(std::process::id());
        let after = Usage::of_tree(std::process::id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        drop(stop);
        thread.join().unwrap();
        assert!(members.contains(&child.id()), "{members:?}");
        // On a crowded machine the two threads share a CPU: at least 20 ms of the 100 were theirs.
        assert!(
            after.cpu_ns - before.cpu_ns > 20_000_000,
            "{before:?} {after:?}"
        );
        assert!(Usage::of_tree(u32::MAX).is_err());
    }
}
