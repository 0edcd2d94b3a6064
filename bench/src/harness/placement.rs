//! Which CPU a process runs on, at which niceness, with how many files.

#![expect(
    unsafe_code,
    reason = "no safe library sets another scheduling policy than the niceness"
)]

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Puts this process on one CPU and at a niceness, as far as they are given.
///
/// Both are inherited by threads and processes that are started afterwards.
pub fn place(cpu: Option<usize>, nice: Option<i32>) -> Result<()> {
    if let Some(cpu) = cpu {
        if cpu >= CpuSet::MAX_CPU {
            bail!("CPU {cpu} is out of range");
        }
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).with_context(|| format!("cannot run on CPU {cpu}"))?;
    }
    if let Some(nice) = nice {
        setpriority_process(None, nice)
            .with_context(|| format!("cannot run at niceness {nice}"))?;
    }
    Ok(())
}

/// Lets this process run only while nobody else wants its CPU (the scheduler's idle policy, which needs no
/// privilege). Inherited like the rest.
pub fn take_only_what_is_left() -> Result<()> {
    // SAFETY: an all-zero `sched_param` is valid, and the kernel only reads it.
    let refused = unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) != 0
    };
    if refused {
        return Err(std::io::Error::last_os_error()).context("cannot take the idle policy");
    }
    Ok(())
}

/// Allows as many open files as the hard limit does; children inherit it.
pub fn raise_file_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )
    .context("cannot raise the limit of open files")
}

/// The CPUs of one comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The proxy under test, alone if there are two CPUs.
    pub proxy: usize,
    /// The load generator.
    pub load: usize,
    /// The origin; the load generator's when there are only two CPUs.
    pub origin: usize,
}

impl Layout {
    /// Spreads the three over the CPUs this process may use.
    pub fn of_this_machine() -> Result<Self> {
        let set = sched_getaffinity(None).context("cannot read the CPU affinity")?;
        let usable: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .collect();
        Self::of(&usable).context("no usable CPU")
    }

    fn of(usable: &[usize]) -> Option<Self> {
        let proxy = *usable.first()?;
        let load = usable.get(1).copied().unwrap_or(proxy);
        let origin = usable.get(2).copied().unwrap_or(load);
        Some(Self {
            proxy,
            load,
            origin,
        })
    }

    /// Whether the proxy has a CPU of its own; without, the figures mean little.
    #[must_use]
    pub fn proxy_is_alone(&self) -> bool {
        self.proxy != self.load
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_has_a_cpu_of_its_own_where_there_are_two() {
        let of = |usable: &[usize]| Layout::of(usable);
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[3]),
            Some(Layout {
                proxy: 3,
                load: 3,
                origin: 3
            })
        );
        assert_eq!(
            of(&[0, 1]),
            Some(Layout {
                proxy: 0,
                load: 1,
                origin: 1
            })
        );
        assert_eq!(
            of(&[2, 4, 6, 8]),
            Some(Layout {
                proxy: 2,
                load: 4,
                origin: 6
            })
        );
        assert!(!of(&[3]).unwrap().proxy_is_alone());
    }
}
