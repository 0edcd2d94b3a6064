//! `ringway-bench`: compares ringway with its peers. See [`ringway_bench::harness`].

use std::process::ExitCode;

use ringway_bench::{args, harness};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments
        .next_if(|first| first == harness::LAUNCH)
        .is_some()
    {
        let request = Ok(args::Request::Run(arguments));
        return args::main_with(harness::HELP, request, |rest| {
            match harness::launch(rest)? {}
        });
    }
    args::main_with(harness::HELP, harness::parse(arguments), |options| {
        harness::run(&options)
    })
}
