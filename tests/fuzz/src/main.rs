//! Seeded, structure-aware fuzzing of ringway's parsers, bounded to fit a CI run.
//!
//! Reads its arguments, runs each chosen target and reports. Which inputs an iteration sees is a
//! function of target, seed and iteration alone, so any failure can be seen again.

mod arguments;
mod mutate;
mod random;
mod run;
mod targets;

use std::process::ExitCode;

use arguments::{Arguments, Work};
use targets::{TARGETS, Target};

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("fuzz-smoke: {problem}\n\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    let chosen: Vec<&Target> = TARGETS
        .iter()
        .copied()
        .filter(|target| {
            arguments
                .target
                .as_ref()
                .is_none_or(|name| name == target.name)
        })
        .collect();
    if chosen.is_empty() {
        eprintln!("fuzz-smoke: no such target; --list shows them");
        return ExitCode::from(2);
    }
    match &arguments.work {
        Work::List => {
            for target in chosen {
                println!("{:<16} {:>7}  {}", target.name, target.count, target.about);
            }
            ExitCode::SUCCESS
        }
        Work::Help => {
            println!("{}", arguments::USAGE);
            ExitCode::SUCCESS
        }
        Work::Input(input) => run::one_input(chosen[0], arguments.seed, input),
        Work::Iteration(iteration) => run::one_iteration(chosen[0], arguments.seed, *iteration),
        Work::Count(count) => run::all(&chosen, arguments.seed, *count),
    }
}
