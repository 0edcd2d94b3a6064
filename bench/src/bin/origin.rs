//! `ringway-origin`: a fast server with prepared answers. See [`ringway_bench::origin`].

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use ringway_bench::origin::{self, Origin};
use ringway_bench::{args, harness};

fn main() -> ExitCode {
    args::main_with(origin::HELP, origin::parse(std::env::args().skip(1)), run)
}

fn run(options: origin::Options) -> Result<ExitCode> {
    harness::place(options.cpu, options.nice)?;
    harness::raise_file_limit()?;
    let origin = Origin::bind(options.listen, options.number)?.delayed(options.delay);
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on {}", origin.address()?)?;
    stdout.flush()?;
    match origin.serve()? {}
}
