//! The command line of `ringway-load`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;

use super::target::Target;
use crate::args::{self, Request};

/// Printed by `ringway-load --help`.
pub const HELP: &str = "\
ringway-load: offers HTTP/1.1 load to one URL and reports latencies free of coordinated omission

Usage: ringway-load URL [options]

  -c, --connections N     keep-alive connections (default 64)
  -r, --rate R            open loop: R requests per second in total, whatever the server does.
                          Latency counts from the time a request was due.
                          Without it: closed loop, each connection sends when it was answered.
  -d, --duration D        how long to measure (default 10s)
      --warmup D          offered before the measurement and not recorded (default 1s)
      --timeout D         a request without an answer after D is an error (default 10s)
  -X, --method M          request method (default GET, or POST with --body)
  -H, --header 'N: V'     adds a request header; may be repeated
      --body FILE         sends the content of FILE with every request
      --expected-interval D
                          closed loop: how often a connection would send if the server never
                          stalled; the corrected histogram is built with it (default: the median)
      --cpu N             runs on this CPU only
      --nice N            runs at this niceness
      --json              prints the summary as JSON
  -h, --help              prints this

Exit code: 0, 1 when no request at all was answered, 2 for a mistake on the command line.

Examples:
  How does it answer at 5,000 requests per second?
    ringway-load http://127.0.0.1:8480/ --connections 64 --rate 5000 --duration 10s
  How much can it do?
    ringway-load http://127.0.0.1:8480/ --connections 64
  One heavy query after the other:
    ringway-load 'http://127.0.0.1:8480/prom/api/v1/query?query=up' -c 1 -d 30s --timeout 60s
  A POST with a form, as JSON for a script:
    ringway-load http://127.0.0.1:8480/api/v1/query --body form.txt \\
      -H 'Content-Type: application/x-www-form-urlencoded' --json
";

/// What to offer, to whom, for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Where the requests go.
    pub target: Target,
    /// Keep-alive connections.
    pub connections: usize,
    /// Requests per second in total; `None` is the closed loop.
    pub rate: Option<f64>,
    /// The measured time.
    pub duration: Duration,
    /// Time before it.
    pub warmup: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Request method; `None` is GET, or POST with a body.
    pub method: Option<String>,
    /// Extra request headers as written.
    pub headers: Vec<String>,
    /// File with the request body.
    pub body: Option<PathBuf>,
    /// See the help text.
    pub expected_interval: Option<Duration>,
    /// CPU to run on.
    pub cpu: Option<usize>,
    /// Niceness to run at.
    pub nice: Option<i32>,
    /// Whether the summary is printed as JSON.
    pub json: bool,
}

impl Options {
    /// The defaults of the help text.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self {
            target,
            connections: 64,
            rate: None,
            duration: Duration::from_secs(10),
            warmup: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            method: None,
            headers: Vec::new(),
            body: None,
            expected_interval: None,
            cpu: None,
            nice: None,
            json: false,
        }
    }
}

/// Reads the command line, without the program's name.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Request<Options>> {
    let mut parser = lexopt::Parser::from_args(arguments);
    // The URL may come last, so the options are gathered under a stand-in first.
    let mut options = Options::new(Target::placeholder());
    let mut url = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Value(value) if url.is_none() => url = Some(value.string()?),
            Short('h') | Long("help") => return Ok(Request::Help),
            argument => {
                let name = written(&argument);
                apply(&mut options, &name, &mut parser).with_context(|| name)?;
            }
        }
    }
    options.target = Target::parse(&url.context("no URL given")?)?;
    if options.duration.is_zero() {
        bail!("--duration must be greater than zero");
    }
    if options.rate.is_some() && options.expected_interval.is_some() {
        bail!("--expected-interval belongs to the closed loop: leave out --rate");
    }
    Ok(Request::Run(options))
}

/// The argument as the user wrote it.
fn written(argument: &lexopt::Arg<'_>) -> String {
    match argument {
        Short(letter) => format!("-{letter}"),
        Long(name) => format!("--{name}"),
        Value(value) => value.to_string_lossy().into_owned(),
    }
}

fn apply(options: &mut Options, name: &str, parser: &mut lexopt::Parser) -> Result<()> {
    let mut value = || -> Result<String> { Ok(parser.value()?.string()?) };
    match name {
        "-c" | "--connections" => {
            let count: usize = value()?.parse()?;
            if count == 0 {
                bail!("needs at least 1");
            }
            options.connections = count;
        }
        "-r" | "--rate" => options.rate = Some(args::count(&value()?)?),
        "-d" | "--duration" => options.duration = args::duration(&value()?)?,
        "--warmup" => options.warmup = args::duration(&value()?)?,
        "--timeout" => options.timeout = args::duration(&value()?)?,
        "-X" | "--method" => options.method = Some(value()?),
        "-H" | "--header" => options.headers.push(header(value()?)?),
        "--body" => options.body = Some(PathBuf::from(value()?)),
        "--expected-interval" => {
            options.expected_interval = Some(args::duration(&value()?)?);
        }
        "--cpu" => options.cpu = Some(value()?.parse()?),
        "--nice" => options.nice = Some(value()?.parse()?),
        "--json" => options.json = true,
        _ => bail!("unknown argument"),
    }
    Ok(())
}

/// A header must not be able to break the request into two.
fn header(text: String) -> Result<String> {
    let well_formed = text
        .split_once(':')
        .is_some_and(|(name, _)| !name.trim().is_empty());
    if !well_formed || text.contains(['\r', '\n']) {
        bail!("{text:?} is not a header: write 'Name: value'");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request<Options>> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_option_lands_in_its_field() {
        let Request::Run(options) = parsed(
            "http://127.0.0.1:8480/x?y=1 -c 8 --rate 5k -d 3s --warmup 10ms --timeout 2s -X PUT \
             -H A:b --header C:d --cpu 1 --nice 5 --json",
        )
        .unwrap() else {
            panic!("asked for help")
        };
        assert_eq!(options.target.path, "/x?y=1");
        assert_eq!(options.connections, 8);
        assert_eq!(options.rate, Some(5000.0));
        assert_eq!(options.duration, Duration::from_secs(3));
        assert_eq!(options.warmup, Duration::from_millis(10));
        assert_eq!(options.timeout, Duration::from_secs(2));
        assert_eq!(options.method.as_deref(), Some("PUT"));
        assert_eq!(options.headers, ["A:b", "C:d"]);
        assert_eq!(
            (options.cpu, options.nice, options.json),
            (Some(1), Some(5), true)
        );
    }

    #[test]
    fn the_url_may_come_last_and_defaults_hold() {
        let Request::Run(options) = parsed("--connections=2 http://[::1]:80/").unwrap() else {
            panic!("asked for help")
        };
        let mut expected = Options::new(Target::parse("http://[::1]:80/").unwrap());
        expected.connections = 2;
        assert_eq!(options, expected);
        assert_eq!(parsed("--help").unwrap(), Request::Help);
    }

    #[test]
    fn mistakes_name_the_argument() {
        for (line, part) in [
            ("", "no URL"),
            ("http://a --rate 0", "--rate"),
            ("http://a --connections 0", "--connections"),
            ("http://a --duration 10", "--duration"),
            ("http://a -d 0s", "--duration"),
            ("http://a --nonsense", "--nonsense"),
            ("http://a http://b", "http://b"),
            ("http://a -H nothing", "-H"),
            (
                "http://a --rate 5 --expected-interval 1ms",
                "--expected-interval",
            ),
            ("https://a", "https"),
        ] {
            let error = format!("{:#}", parsed(line).unwrap_err());
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
