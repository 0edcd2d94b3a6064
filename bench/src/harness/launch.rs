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
    /// Its niceness.
    pub(super) nice: i32,
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
        &place.nice.to_string(),
    ]);
    command.arg(program);
    Ok(command)
}

/// Does what `launch PARENT CPU NICE PROGRAM ARGUMENTS…` asks for. Returns only with an error.
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
    let nice: i32 = next("niceness")?.parse().context("launch: niceness")?;
    let program = next("program")?;
    placement::place(cpu, (nice != 0).then_some(nice))?;
    set_parent_process_death_signal(Some(Signal::TERM)).context("launch: death signal")?;
    if getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(parent) {
        bail!("launch: the harness ended before {program} began");
    }
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {program}"))
}
