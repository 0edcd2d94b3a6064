//! Starts a program on one CPU so that it ends when the harness does.
//!
//! The harness runs itself as `ringway-bench launch …`, which places itself, asks the kernel for
//! SIGTERM at its parent's death, and then becomes the program: same process, same id. That way a
//! harness that is killed leaves nothing behind, without any code between fork and exec.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::placement;

/// The first argument that means "launch".
pub const LAUNCH: &str = "launch";

/// Where and how a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The only CPU it may use; `None` leaves that to the program.
    pub(super) cpu: Option<usize>,
    /// How it shares it.
    pub(super) share: Share,
}

/// How a program shares its CPU with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// At this niceness.
    Nice(i32),
    /// Whatever the others leave, and it gives way at once: a nice program is still allowed to finish its
    /// slice, some 3 ms, while one that wakes beside it waits.
    Leftover,
}

/// How [`Share::Leftover`] is written on the command line.
const LEFTOVER: &str = "leftover";

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Share::Nice(nice) => nice.fmt(f),
            Share::Leftover => f.write_str(LEFTOVER),
        }
    }
}

impl std::str::FromStr for Share {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Share, Self::Err> {
        match text {
            LEFTOVER => Ok(Share::Leftover),
            nice => nice.parse().map(Share::Nice),
        }
    }
}

/// Returns the command that launches `program` at `place`.
pub(super) fn command(place: Place, program: &Path) -> Result<Command> {
    let this = std::env::current_exe().context("cannot find the harness's own program")?;
    let mut command = Command::new(this);
    let cpu = place.cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
    command.args([
        LAUNCH,
        &std::process::id().to_string(),
        &cpu,
        &place.share.to_string(),
    ]);
    command.arg(program);
    Ok(command)
}

/// Does what `launch PARENT CPU SHARE PROGRAM ARGUMENTS…` asks for. Returns only with an error.
pub fn launch(mut arguments: impl Iterator<Item = String>) -> Result<std::convert::Infallible> {
    let mut next = |what: &str| {
        arguments
            .next()
            .with_context(|| format!("launch: no {what}"))
    };
    let parent: i32 = next("parent")?.parse().context("launch: parent")?;
    let cpu = match next("cpu")?.as_str() {
        "any" => None,
        text => Some(text.parse().context("launch: cpu")?),
    };
    let share: Share = next("share")?.parse().context("launch: share")?;
    let program = next("program")?;
    match share {
        Share::Nice(nice) => placement::place(cpu, (nice != 0).then_some(nice))?,
        Share::Leftover => {
            placement::place(cpu, None)?;
            placement::take_only_what_is_left()?;
        }
    }
    set_parent_process_death_signal(Some(Signal::TERM)).context("launch: death signal")?;
    if getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(parent) {
        bail!("launch: the harness ended before {program} began");
    }
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {program}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_survives_the_command_line() {
        for share in [Share::Nice(-15), Share::Nice(0), Share::Leftover] {
            assert_eq!(share.to_string().parse(), Ok(share));
        }
        assert!("idle".parse::<Share>().is_err());
    }
}
