//! The order of a run, from looking for programs to the table.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::launch::{Place, Share};
use super::placement::{Layout, raise_file_limit};
use super::process::Process;
use super::proxy::{Kind, Program, Setup, beside_this};
use super::results::{Machine, Results, Row, set_ratios, unix_now};
use super::tail::Tail;
use super::{Options, churn, compare, idle, members, report, tail};

/// How long the origin may take to prepare its answers.
const ORIGIN_PATIENCE: Duration = Duration::from_secs(10);

/// Above this load average at the start somebody else wants the CPUs too.
const BUSY_LOAD_AVERAGE: f64 = 1.0;
/// A proxy that used less of its core in the closed loop was not the bottleneck.
const SATURATED_PERCENT: f64 = 85.0;

/// The time a run may take.
pub(super) struct Budget {
    until: Instant,
}

impl Budget {
    fn new(budget: Duration) -> Self {
        Self {
            until: Instant::now() + budget,
        }
    }

    /// Whether nothing more may begin.
    pub(super) fn is_spent(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// A directory for configurations and logs that goes away with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("ringway-bench-{}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory left in the temporary files is no reason to fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs the scenarios, prints the table, writes the JSON.
pub fn run(options: &Options) -> Result<ExitCode> {
    let budget = Budget::new(options.budget);
    raise_file_limit()?;
    let layout = Layout::of_this_machine()?;
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut results = Results {
        began_unix: unix_now(),
        machine: Machine::this(cpus),
        path: options.path.clone(),
        connections: options.connections,
        open_rate: None,
        rows: Vec::new(),
        tail: None,
        churn: None,
        members: None,
        notes: Vec::new(),
    };
    if !layout.proxy_is_alone() {
        results
            .notes
            .push("one CPU for proxy, load and origin: do not compare".to_owned());
    }
    if results.machine.load_average > BUSY_LOAD_AVERAGE {
        results.notes.push(format!(
            "others were at work on this machine (load average {:.1}): trust the ratios more than \
             the figures, and neither much",
            results.machine.load_average
        ));
    }
    let programs = find_programs(options, &mut results.notes);
    let scratch = Scratch::new()?;
    let place = Place {
        cpu: Some(layout.origin),
        share: Share::Nice(options.nice),
    };
    let (_origin, origin) = start_origin(0, "origin", place, &scratch.0)?;
    let setup = Setup {
        dir: &scratch.0,
        layout,
        nice: options.nice,
        origin,
    };
    run_scenarios(options, &programs, &setup, &budget, &mut results);
    report::print(&results)?;
    report::write_json(&results, &options.json)?;
    report::progress(&format!("all figures: {}", options.json.display()));
    let measured = results
        .rows
        .iter()
        .any(|row| row.closed.is_some() || row.idle.is_some());
    let others = [
        results.tail.is_some(),
        results.churn.is_some(),
        results.members.is_some(),
    ];
    let any = measured || others.contains(&true);
    let lost = results.churn.as_ref().is_some_and(|churn| churn.lost() > 0);
    Ok(if any && !lost {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn find_programs(options: &Options, notes: &mut Vec<String>) -> Vec<Program> {
    let mut programs = Vec::new();
    for kind in &options.proxies {
        match Program::find(*kind, options.binary.as_deref()) {
            Some(program) => programs.push(program),
            None => notes.push(format!("{}: not found, skipped", kind.name())),
        }
    }
    programs
}

fn run_scenarios(
    options: &Options,
    programs: &[Program],
    setup: &Setup<'_>,
    budget: &Budget,
    results: &mut Results,
) {
    if options.compare {
        let (entries, open_rate) =
            compare::compare(options, programs, setup, budget, &mut results.notes);
        results.open_rate = open_rate;
        results.rows = entries.into_iter().map(Row::of).collect();
        set_ratios(&mut results.rows);
    } else {
        let empty = |program: &Program| Row::empty(program.kind.name(), &program.version);
        results.rows = programs.iter().map(empty).collect();
    }
    for row in &results.rows {
        if let Some(failure) = &row.failure {
            results
                .notes
                .push(format!("{}: not comparable: {failure}", row.name));
        }
    }
    note_unsaturated(results);
    if options.idle {
        run_idle(options, programs, setup, budget, results);
    }
    if options.tail {
        results.tail = run_tail(options, programs, setup, budget, &mut results.notes);
    }
    if options.churn {
        results.churn = run_own(
            "churn",
            programs,
            &mut results.notes,
            |ringway| churn::churn(options, ringway, setup),
            churn::Churn::lines,
        );
    }
    if options.members {
        results.members = run_own(
            "members",
            programs,
            &mut results.notes,
            |ringway| members::members(ringway, setup),
            members::Members::lines,
        );
    }
}

/// Says so where the closed loop did not find a proxy's limit.
fn note_unsaturated(results: &mut Results) {
    for row in &results.rows {
        let closed = row
            .closed
            .and_then(|closed| closed.cpu_percent.zip(closed.cpu_wait_percent));
        if let Some((used, waited)) = closed.filter(|(used, _)| *used < SATURATED_PERCENT) {
            results.notes.push(format!(
                "{}: its requests/s are not its limit: it used {used:.0} % of its core, and for \
                 {waited:.0} % of the time somebody else did while it was ready to run",
                row.name
            ));
        }
    }
}

fn run_idle(
    options: &Options,
    programs: &[Program],
    setup: &Setup<'_>,
    budget: &Budget,
    results: &mut Results,
) {
    for program in programs {
        let name = program.kind.name();
        if budget.is_spent() {
            results
                .notes
                .push(format!("{name}: no idle scenario, the time is up"));
            continue;
        }
        report::progress(&format!(
            "{} idle connections: {name}",
            options.idle_connections
        ));
        match idle::idle(program, setup, options.idle_connections) {
            Ok(found) => {
                let row = results.rows.iter_mut().find(|row| row.name == name);
                row.expect("every program has a row").idle = Some(found);
            }
            Err(error) => results
                .notes
                .push(format!("{name}: idle scenario: {error:#}")),
        }
    }
}

fn run_tail(
    options: &Options,
    programs: &[Program],
    setup: &Setup<'_>,
    budget: &Budget,
    notes: &mut Vec<String>,
) -> Option<Tail> {
    let ringway = programs
        .iter()
        .find(|program| program.kind == Kind::Ringway)?;
    if budget.is_spent() {
        notes.push("ringway: no tail scenario, the time is up".to_owned());
        return None;
    }
    report::progress("small requests alone, then beside merging: ringway");
    match tail::tail(options, ringway, setup) {
        Ok(found) => {
            let worst = found
                .merging
                .failed_share()
                .max(found.beside.failed_share());
            if worst > compare::FAILED_SHARE_MAX {
                notes.push(format!(
                    "tail scenario: {:.1} % of requests failed",
                    worst * 100.0
                ));
            }
            Some(found)
        }
        Err(error) => {
            notes.push(format!("ringway: tail scenario: {error:#}"));
            None
        }
    }
}

/// A scenario of ringway alone: what it found, said at once; `None` where it cannot run.
fn run_own<T>(
    name: &str,
    programs: &[Program],
    notes: &mut Vec<String>,
    scenario: impl FnOnce(&Program) -> Result<T>,
    lines: impl FnOnce(&T) -> Vec<String>,
) -> Option<T> {
    let ringway = programs
        .iter()
        .find(|program| program.kind == Kind::Ringway)?;
    match scenario(ringway) {
        Ok(found) => {
            lines(&found).iter().for_each(|line| report::progress(line));
            Some(found)
        }
        Err(error) => {
            notes.push(format!("ringway: {name} scenario: {error:#}"));
            None
        }
    }
}

/// Starts an origin on a free port.
pub(super) fn start_origin(
    number: usize,
    name: &str,
    place: Place,
    dir: &Path,
) -> Result<(Process, SocketAddr)> {
    let program = beside_this("ringway-origin").context("ringway-origin is not beside this")?;
    let arguments = ["--number".to_owned(), number.to_string()];
    let mut process = Process::start(name, place, &program, &arguments, dir)?;
    let address = process.wait_until(ORIGIN_PATIENCE, |log| {
        let text = fs::read_to_string(log).ok()?;
        text.lines()
            .next()?
            .strip_prefix("listening on ")?
            .parse()
            .ok()
    })?;
    Ok((process, address))
}
