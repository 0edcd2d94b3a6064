//! The command line of `ringway-bench`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;

use super::proxy::Kind;
use crate::args::{self, Request};

/// Printed by `ringway-bench --help`.
pub const HELP: &str = "\
ringway-bench: compares ringway with the proxies installed here, one core each, same origin

Usage: ringway-bench [options]

      --binary PATH       the ringway to measure (default: the one beside this program)
      --proxies A,B       only these of ringway,haproxy,nginx,envoy (default: all found)
      --scenarios A,B     only these of compare,idle,tail,churn,members
                          (default: all but churn)
  -c, --connections N     keep-alive connections of the load (default 64)
      --path P            what is asked of the origin (default / : 200 bytes; /bytes/N)
      --rounds N          turns that each proxy gets (default 3)
      --window D          measured time of each turn (default 2.5s)
      --rate R            open loop: requests per second
                          (default: 40 % of what the slowest proxy did in the closed loop)
      --idle N            idle keep-alive connections (default 1000)
      --tail-rate R       tail scenario: small requests per second (default 500)
      --tail-window D     tail scenario: measured time of each of its two parts (default 8s)
      --churn-rate R      churn scenario: requests per second, GET and POST together (default 2000)
      --churn-window D    churn scenario: how long (default 60s)
      --nice N            niceness of all that is measured (default 0). On a shared machine -15
                          keeps others out of the way; below 0 needs root
      --budget D          no turn begins after this much time (default 150s)
      --json PATH         where the figures go (default bench/results/latest.json)
  -h, --help              prints this

The churn scenario ends with code 1 when an idempotent request failed. A proxy that is not found is skipped with a line that says so. See bench/README.md for what each
scenario models and how the figures come about.

Examples:
  ringway-bench
  ringway-bench --binary ./target/release/ringway --scenarios compare --rounds 5
  ringway-bench --proxies haproxy,nginx --path /bytes/16384
  ringway-bench --scenarios idle --idle 5000
  ringway-bench --scenarios churn --churn-window 5m
  ringway-bench --scenarios members
";

/// What to measure, for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The ringway to measure.
    pub binary: Option<PathBuf>,
    /// The proxies to measure.
    pub(super) proxies: Vec<Kind>,
    /// Whether to run the comparison.
    pub(super) compare: bool,
    /// Whether to run the idle-connection scenario.
    pub(super) idle: bool,
    /// Whether to run the tail scenario.
    pub(super) tail: bool,
    /// Whether to run the churn scenario.
    pub(super) churn: bool,
    /// Whether to run the members scenario.
    pub(super) members: bool,
    /// Connections of the load.
    pub connections: usize,
    /// What is asked of the origin.
    pub path: String,
    /// Turns that each proxy gets.
    pub rounds: usize,
    /// Measured time of each turn.
    pub window: Duration,
    /// Rate of the open loop.
    pub rate: Option<f64>,
    /// Idle connections.
    pub idle_connections: usize,
    /// Small requests per second of the tail scenario.
    pub tail_rate: f64,
    /// Measured time of each part of the tail scenario.
    pub tail_window: Duration,
    /// Requests per second of the churn scenario.
    pub churn_rate: f64,
    /// Time of the churn scenario.
    pub churn_window: Duration,
    /// Niceness of all that is measured.
    pub nice: i32,
    /// No turn begins after this much time.
    pub budget: Duration,
    /// Where the figures go.
    pub json: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            binary: None,
            proxies: Kind::ALL.to_vec(),
            compare: true,
            idle: true,
            tail: true,
            churn: false,
            members: true,
            connections: 64,
            path: "/".to_owned(),
            rounds: 3,
            window: Duration::from_millis(2500),
            rate: None,
            idle_connections: 1000,
            tail_rate: 500.0,
            tail_window: Duration::from_secs(8),
            churn_rate: 2000.0,
            churn_window: Duration::from_secs(60),
            nice: 0,
            budget: Duration::from_secs(150),
            json: PathBuf::from("bench/results/latest.json"),
        }
    }
}

/// Reads the command line, without the program's name.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Request<Options>> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        let name = match argument {
            Short('h') | Long("help") => return Ok(Request::Help),
            Short('c') => "connections".to_owned(),
            Long(name) => name.to_owned(),
            other => bail!(other.unexpected()),
        };
        apply(&mut options, &name, &mut parser).with_context(|| format!("--{name}"))?;
    }
    Ok(Request::Run(options))
}

fn apply(options: &mut Options, name: &str, parser: &mut lexopt::Parser) -> Result<()> {
    let mut value = || -> Result<String> { Ok(parser.value()?.string()?) };
    match name {
        "binary" => options.binary = Some(PathBuf::from(value()?)),
        "proxies" => {
            options.proxies = value()?
                .split(',')
                .map(Kind::named)
                .collect::<Result<_>>()?;
        }
        "scenarios" => set_scenarios(options, &value()?)?,
        "connections" => options.connections = at_least_one(&value()?)?,
        "path" => {
            options.path = value()?;
            if !options.path.starts_with('/') {
                bail!("must begin with /");
            }
        }
        "rounds" => options.rounds = at_least_one(&value()?)?,
        "window" => options.window = some_time(&value()?)?,
        "rate" => options.rate = Some(args::count(&value()?)?),
        "idle" => options.idle_connections = at_least_one(&value()?)?,
        "tail-rate" => options.tail_rate = args::count(&value()?)?,
        "tail-window" => options.tail_window = some_time(&value()?)?,
        "churn-rate" => options.churn_rate = args::count(&value()?)?,
        "churn-window" => options.churn_window = some_time(&value()?)?,
        "nice" => options.nice = value()?.parse().context("must be a whole number")?,
        "budget" => options.budget = some_time(&value()?)?,
        "json" => options.json = PathBuf::from(value()?),
        _ => bail!("unknown argument"),
    }
    Ok(())
}

fn set_scenarios(options: &mut Options, text: &str) -> Result<()> {
    (options.compare, options.idle) = (false, false);
    (options.tail, options.churn) = (false, false);
    options.members = false;
    for name in text.split(',') {
        match name {
            "compare" => options.compare = true,
            "idle" => options.idle = true,
            "tail" => options.tail = true,
            "churn" => options.churn = true,
            "members" => options.members = true,
            _ => bail!("{name:?} is no scenario: use compare, idle, tail, churn, members"),
        }
    }
    Ok(())
}

fn at_least_one(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(0) | Err(_) => bail!("{text:?} must be a whole number of at least 1"),
        Ok(count) => Ok(count),
    }
}

fn some_time(text: &str) -> Result<Duration> {
    let duration = args::duration(text)?;
    if duration.is_zero() {
        bail!("must be greater than zero");
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request<Options>> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_option_lands_in_its_field() {
        let line = "--binary x/ringway --proxies nginx,ringway --scenarios idle,tail,churn,members -c 8 \
                    --path /bytes/9 --rounds 5 --window 1s --rate 2k --idle 10 --tail-rate 100 \
                    --tail-window 3s --churn-rate 50 --churn-window 9s --nice -5 --budget 1m --json out.json";
        let expected = Options {
            binary: Some(PathBuf::from("x/ringway")),
            proxies: vec![Kind::Nginx, Kind::Ringway],
            compare: false,
            idle: true,
            tail: true,
            churn: true,
            members: true,
            connections: 8,
            path: "/bytes/9".to_owned(),
            rounds: 5,
            window: Duration::from_secs(1),
            rate: Some(2000.0),
            idle_connections: 10,
            tail_rate: 100.0,
            tail_window: Duration::from_secs(3),
            churn_rate: 50.0,
            churn_window: Duration::from_secs(9),
            nice: -5,
            budget: Duration::from_secs(60),
            json: PathBuf::from("out.json"),
        };
        assert_eq!(parsed(line).unwrap(), Request::Run(expected));
        assert_eq!(parsed("").unwrap(), Request::Run(Options::default()));
        assert_eq!(parsed("--help").unwrap(), Request::Help);
    }

    #[test]
    fn mistakes_name_the_argument() {
        for (line, part) in [
            ("--rounds 0", "--rounds"),
            ("--proxies apache", "apache"),
            ("--scenarios all", "all"),
            ("--path x", "--path"),
            ("--window 0s", "--window"),
            ("--nonsense 1", "--nonsense"),
            ("stray", "stray"),
            ("--rate", "--rate"),
        ] {
            let error = format!("{:#}", parsed(line).unwrap_err());
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
