//! Entry point of the `ringway` binary: command line to command; the only place that ends the process.

use std::io::{self, Write};
use std::process::ExitCode;

use ringway::boot::{self, BootError};
use ringway::cli::{self, Command, EXIT_INVALID, EXIT_OK, EXIT_USAGE};
use ringway::compile::{Host, build};
use ringway::config::{Environment, LoadOptions};
use ringway::control::run::Serving;
use ringway::demo;

/// Exit status after a stop that did not wait for running requests.
const EXIT_CUT: u8 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let environment = Environment::of_process();
    if let [demo, flag] = &arguments[..]
        && demo == "demo"
        && flag.trim_start_matches('-') == "print-config"
    {
        return ExitCode::from(print(&demo::example_configuration()));
    }
    let command = match cli::parse(&arguments, &environment) {
        Ok(command) => command,
        Err(error) => {
            let _ = writeln!(io::stderr(), "ringway: {error}\ntry: ringway --help");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let status = match command {
        Command::Run(load) => {
            let source = match &load.path {
                Some(path) => path.display().to_string(),
                None => "default".to_owned(),
            };
            serve(load, environment, &source, |_| {})
        }
        Command::Check { load, explain } => {
            let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
            let host = Host::of_machine();
            cli::check(&load, explain, &environment, &host, (&mut out, &mut err))
                .unwrap_or(EXIT_INVALID)
        }
        Command::Trace(asked) => {
            let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
            let host = Host::of_machine();
            cli::trace::run(&asked, &environment, &host, (&mut out, &mut err))
                .unwrap_or(EXIT_INVALID)
        }
        Command::Explain(asked) => {
            let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
            let host = Host::of_machine();
            cli::explain::run(&asked, &environment, &host, (&mut out, &mut err))
                .unwrap_or(EXIT_INVALID)
        }
        Command::Demo(load) => serve_demo(load, environment),
        Command::Version => print(&format!("{}\n", cli::version())),
        Command::Help(text) => print(text),
    };
    ExitCode::from(status)
}

fn serve(
    load: LoadOptions,
    environment: Environment,
    source: &str,
    serving: impl FnOnce(&Serving) + Send + 'static,
) -> u8 {
    let host = Host::of_machine();
    let loader = Box::new(move |generation| build(&load, &environment, &host, generation));
    let Err(error) = boot::run(loader, source, serving) else {
        return EXIT_OK;
    };
    let mut err = io::stderr().lock();
    if let BootError::Invalid(problems) = &error {
        for problem in problems {
            let _ = writeln!(err, "{problem}");
        }
    }
    let _ = writeln!(err, "ringway: {error}");
    match error {
        BootError::Cut => EXIT_CUT,
        _ => EXIT_INVALID,
    }
}

/// The demo's configuration is a file like any other; it goes when the demo does.
fn serve_demo(mut load: LoadOptions, environment: Environment) -> u8 {
    let demo = match demo::prepare() {
        Ok(demo) => demo,
        Err(error) => {
            let _ = writeln!(io::stderr(), "ringway: cannot start the demo: {error}");
            return EXIT_INVALID;
        }
    };
    load.path = Some(demo.config.clone());
    let source = demo.config.display().to_string();
    let origins = demo.origins;
    let status = serve(load, environment, &source, move |serving| {
        let _ = print(&origins.tour(serving));
    });
    let _ = std::fs::remove_file(&demo.config);
    status
}

fn print(text: &str) -> u8 {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => EXIT_OK,
        Err(_) => EXIT_INVALID,
    }
}
