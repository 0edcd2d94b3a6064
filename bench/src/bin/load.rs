//! `ringway-load`: offers HTTP load to one URL. See [`ringway_bench::load`].

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use ringway_bench::{args, harness, load};

fn main() -> ExitCode {
    args::main_with(load::HELP, load::parse(std::env::args().skip(1)), run)
}

fn run(options: load::Options) -> Result<ExitCode> {
    harness::place(options.cpu, options.nice)?;
    harness::raise_file_limit()?;
    let summary = load::run(&options)?;
    let mut stdout = std::io::stdout();
    if options.json {
        writeln!(stdout, "{}", serde_json::to_string_pretty(&summary)?)?;
    } else {
        write!(stdout, "{summary}")?;
    }
    Ok(if summary.answers_total == 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
