//! What the kernel knows of this process, from `/proc`.
//!
//! Read at each scrape. A figure that cannot be read is left out.

use std::fs;

/// Clock ticks per second in `/proc`; fixed at 100 by the kernel's interface to user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// Figures of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process {
    /// User and system time in seconds, all threads.
    pub cpu_seconds: Option<f64>,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// Address space.
    pub virtual_bytes: Option<u64>,
    /// Open descriptors.
    pub open_fds: Option<u64>,
    /// Most descriptors.
    pub max_fds: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
}

impl Process {
    /// Reads them now.
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let max_fds = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Process {
            cpu_seconds: cpu_seconds(&stat),
            resident_bytes: kibibytes(&status, "VmRSS:"),
            virtual_bytes: kibibytes(&status, "VmSize:"),
            open_fds: fs::read_dir("/proc/self/fd")
                .map(|entries| entries.count() as u64)
                .ok(),
            max_fds,
            threads: number(&status, "Threads:"),
        }
    }
}

/// Fields 14 and 15, counted behind the command's name, which may contain blanks and brackets.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

fn kibibytes(status: &str, key: &str) -> Option<u64> {
    number(status, key).map(|kibibytes| kibibytes * 1024)
}

fn number(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(key))?;
    line[key.len()..]
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_figures() {
        let process = Process::read();
        assert!(process.resident_bytes > Some(100_000));
        assert!(process.virtual_bytes >= process.resident_bytes);
        assert!(process.open_fds > Some(2));
        assert!(process.threads >= Some(1));
        assert!(process.cpu_seconds.is_some());
    }

    #[test]
    fn a_command_with_brackets_is_no_trouble() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 1 0 0 0 150 50 0 0 20 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("garbage"), None);
    }
}
