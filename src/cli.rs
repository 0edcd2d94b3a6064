//! Command line: which command, with which options, and what `check` prints.
//!
//! Flags may have one or two dashes and their value behind a space or `=`, as in the contract. Environment
//! variables of the contract count less than flags and more than files.

pub mod explain;
pub mod trace;

use std::io::{self, Write};
use std::path::PathBuf;

use ringway_shards::plan::Generation;

use crate::compile::{Host, build};
use crate::config::{Environment, LoadOptions, Override, schema};

/// Exit status of success.
pub const EXIT_OK: u8 = 0;
/// Exit status of a configuration that is refused.
pub const EXIT_INVALID: u8 = 1;
/// Exit status of a command line that is refused.
pub const EXIT_USAGE: u8 = 2;

/// What to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// Serve.
    Run(LoadOptions),
    /// Check the configuration.
    Check {
        /// What to check.
        load: LoadOptions,
        /// Print every value in force too.
        explain: bool,
    },
    /// Say which way a request would take.
    Trace(trace::Trace),
    /// Say how a query would be answered.
    Explain(explain::Explain),
    /// Serve the embedded demonstration; only the overrides count.
    Demo(LoadOptions),
    /// Print the version.
    Version,
    /// Print this text.
    Help(&'static str),
}

/// Why a command line is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// No such flag.
    #[error("unknown flag {flag}{hint}")]
    UnknownFlag {
        /// As given.
        flag: String,
        /// A near one.
        hint: String,
    },
    /// No such command.
    #[error("unknown command {command:?}{hint}")]
    UnknownCommand {
        /// As given.
        command: String,
        /// A near one.
        hint: String,
    },
    /// A flag without its value.
    #[error("flag -{flag} needs a value: -{flag} {form}")]
    MissingValue {
        /// The flag.
        flag: &'static str,
        /// What the value looks like.
        form: &'static str,
    },
    /// A flag with a value that takes none.
    #[error("flag -{flag} takes no value, or true or false")]
    UnexpectedValue {
        /// The flag.
        flag: &'static str,
    },
    /// A flag of another command.
    #[error("flag -{flag} is not for {command}")]
    WrongCommand {
        /// The flag.
        flag: &'static str,
        /// The command.
        command: &'static str,
    },
    /// `explain` without a query.
    #[error("a query is needed: ringway explain --config FILE 'QUERY'")]
    NoQuery,
    /// A flag that needs another one.
    #[error("flag -{flag} needs -{other} too")]
    Needs {
        /// The flag.
        flag: &'static str,
        /// The other one.
        other: &'static str,
    },
    /// Flags that exclude each other.
    #[error("flags -{flag} and -{other} exclude each other")]
    Excluded {
        /// The one.
        flag: &'static str,
        /// The other.
        other: &'static str,
    },
    /// A second word.
    #[error("unexpected argument {argument:?}; a configuration is given as --config {argument}")]
    UnexpectedArgument {
        /// As given.
        argument: String,
    },
}

/// A flag.
struct Flag {
    name: &'static str,
    /// What its value looks like; empty: none.
    form: &'static str,
    /// What the value sets, if that is a configuration key.
    keys: &'static [&'static str],
    /// The variable that sets the same.
    variable: &'static str,
}

const FLAGS: &[Flag] = &[
    flag("config", "FILE|DIR", &[], ""),
    flag("explain", "", &[], ""),
    flag("trace", "'METHOD URL'", &[], ""),
    flag("H", "'NAME: VALUE'", &[], ""),
    flag("backend", "NAME", &[], ""),
    flag("json", "", &[], ""),
    flag("time", "TIME", &[], ""),
    flag("start", "TIME", &[], ""),
    flag("end", "TIME", &[], ""),
    flag("step", "DURATION", &[], ""),
    flag("run", "", &[], ""),
    flag("url", "URL", &[], ""),
    flag("help", "", &[], ""),
    flag("h", "", &[], ""),
    flag("validate-config", "", &[], ""),
    flag("version", "", &[], ""),
    flag(
        "log-level",
        "LEVEL",
        &["logging", "log_level"],
        "TRK_LOG_LEVEL",
    ),
    flag("instance-id", "NUMBER", &["main", "instance_id"], ""),
    flag(
        "origin-url",
        "URL",
        &["backends", "default", "origin_url"],
        "TRK_ORIGIN_URL",
    ),
    flag(
        "provider",
        "PROVIDER",
        &["backends", "default", "provider"],
        "TRK_ORIGIN_TYPE",
    ),
    flag(
        "proxy-port",
        "PORT",
        &["listeners", "default", "port"],
        "TRK_PROXY_PORT",
    ),
    flag(
        "metrics-port",
        "PORT",
        &["listeners", "metrics", "port"],
        "TRK_METRICS_PORT",
    ),
];

const fn flag(
    name: &'static str,
    form: &'static str,
    keys: &'static [&'static str],
    variable: &'static str,
) -> Flag {
    Flag {
        name,
        form,
        keys,
        variable,
    }
}

/// Flags of `explain` alone.
const EXPLAIN_FLAGS: &[&str] = &[
    "backend", "json", "time", "start", "end", "step", "run", "url",
];

/// Flags of `check` alone.
const TRACE_FLAGS: &[&str] = &["trace", "H"];

const COMMANDS: &[&str] = &["run", "check", "explain", "demo", "version", "help"];

/// Reads the arguments behind the program's name.
///
/// # Errors
/// When they make no sense; the message says what would.
pub fn parse(arguments: &[String], environment: &Environment) -> Result<Command, UsageError> {
    let given = Given::read(arguments)?;
    let command = match given.command.as_deref() {
        Some("run") => "run",
        Some("check") => "check",
        Some("explain") => "explain",
        Some("demo") => "demo",
        Some("version") => "version",
        Some("help") => return Ok(Command::Help(help_of(given.topic.as_deref()))),
        Some(other) => {
            return Err(UsageError::UnknownCommand {
                command: other.to_owned(),
                hint: schema::hint(other, COMMANDS.iter().copied()),
            });
        }
        None if given.has("version") => "version",
        None if given.has("validate-config") => "check",
        None => "run",
    };
    if given.has("help") || given.has("h") {
        return Ok(Command::Help(help_of(given.command.as_deref())));
    }
    given.refuse_for(command)?;
    if command == "explain" {
        return given.explain(environment).map(Command::Explain);
    }
    if let Some(argument) = given.topic {
        return Err(UsageError::UnexpectedArgument { argument });
    }
    let load = given.load_options(environment);
    Ok(match command {
        "check" if TRACE_FLAGS.iter().any(|name| given.has(name)) => {
            Command::Trace(given.trace(load)?)
        }
        "check" => Command::Check {
            explain: given.has("explain"),
            load,
        },
        "run" if given.has("validate-config") => Command::Check {
            explain: false,
            load,
        },
        "demo" => Command::Demo(load),
        "version" => Command::Version,
        _ => Command::Run(load),
    })
}

/// The arguments, sorted.
#[derive(Default)]
struct Given {
    command: Option<String>,
    /// The word behind the command.
    topic: Option<String>,
    /// Flags in order, with their values.
    flags: Vec<(&'static Flag, String)>,
}

impl Given {
    fn read(arguments: &[String]) -> Result<Self, UsageError> {
        let mut given = Given::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some(bare) = argument.strip_prefix('-').filter(|bare| !bare.is_empty()) else {
                given.word(argument)?;
                continue;
            };
            let bare = bare.strip_prefix('-').unwrap_or(bare);
            let (name, value) = match bare.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (bare, None),
            };
            let Some(flag) = FLAGS.iter().find(|flag| flag.name == name) else {
                let names = FLAGS.iter().map(|flag| flag.name);
                return Err(UsageError::UnknownFlag {
                    flag: argument.clone(),
                    hint: match schema::nearest(name, names.filter(|name| name.len() > 1)) {
                        Some(name) => format!("; did you mean -{name}?"),
                        None => "; see ringway --help".to_owned(),
                    },
                });
            };
            let value = match (flag.form.is_empty(), value) {
                (true, value) => switch(flag, value.as_deref())?,
                (false, Some(value)) => Some(value),
                (false, None) => Some(rest.next().cloned().ok_or(UsageError::MissingValue {
                    flag: flag.name,
                    form: flag.form,
                })?),
            };
            given.flags.extend(value.map(|value| (flag, value)));
        }
        Ok(given)
    }

    fn word(&mut self, word: &str) -> Result<(), UsageError> {
        let place = match (&self.command, &self.topic) {
            (None, _) => &mut self.command,
            (Some(_), None) => &mut self.topic,
            (Some(_), Some(_)) => {
                return Err(UsageError::UnexpectedArgument {
                    argument: word.to_owned(),
                });
            }
        };
        *place = Some(word.to_owned());
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|(flag, _)| flag.name == name)
    }

    /// Flags that the command would ignore are refused.
    fn refuse_for(&self, command: &'static str) -> Result<(), UsageError> {
        for (flag, _) in &self.flags {
            let fits = match command {
                "run" => {
                    let others = [EXPLAIN_FLAGS, TRACE_FLAGS].concat();
                    flag.name != "explain" && !others.contains(&flag.name)
                }
                "check" => !EXPLAIN_FLAGS.contains(&flag.name),
                "explain" => {
                    let others = ["explain", "version", "validate-config"];
                    !others.contains(&flag.name) && !TRACE_FLAGS.contains(&flag.name)
                }
                "demo" => matches!(flag.name, "log-level" | "proxy-port" | "metrics-port"),
                _ => flag.name == "version",
            };
            if !fits {
                return Err(UsageError::WrongCommand {
                    flag: flag.name,
                    command,
                });
            }
        }
        Ok(())
    }

    /// The value of a flag; of several, the last.
    fn value(&self, name: &str) -> Option<String> {
        let mut flags = self.flags.iter().rev();
        let found = flags.find(|(flag, _)| flag.name == name);
        found.map(|(_, value)| value.clone())
    }

    fn explain(self, environment: &Environment) -> Result<explain::Explain, UsageError> {
        let needs = |flag, other| UsageError::Needs { flag, other };
        let is_range = ["start", "end", "step"].map(|name| (name, self.has(name)));
        if let Some((flag, _)) = is_range.iter().find(|(_, given)| *given) {
            if self.has("time") {
                let other = "time";
                return Err(UsageError::Excluded { flag, other });
            }
            if let Some((other, _)) = is_range.iter().find(|(_, given)| !*given) {
                return Err(needs(flag, other));
            }
        }
        if self.has("run") != self.has("url") {
            return Err(match self.has("run") {
                true => needs("run", "url"),
                false => needs("url", "run"),
            });
        }
        for other in ["backend", "config"] {
            if self.has("run") && self.has(other) {
                return Err(UsageError::Excluded { flag: "run", other });
            }
        }
        let times = ["time", "start", "end", "step"].into_iter();
        Ok(explain::Explain {
            load: self.load_options(environment),
            backend: self.value("backend"),
            times: times
                .filter_map(|name| Some((name, self.value(name)?)))
                .collect(),
            json: self.has("json"),
            url: self.value("url"),
            query: self.topic.ok_or(UsageError::NoQuery)?,
        })
    }

    /// The request that `check --trace` is about.
    fn trace(&self, load: LoadOptions) -> Result<trace::Trace, UsageError> {
        if self.has("explain") {
            let (flag, other) = ("trace", "explain");
            return Err(UsageError::Excluded { flag, other });
        }
        let asked = self.value("trace");
        let (flag, other) = ("H", "trace");
        let asked = asked.ok_or(UsageError::Needs { flag, other })?;
        let headers = self.flags.iter().filter(|(flag, _)| flag.name == "H");
        let headers = headers.map(|(_, text)| text.as_str());
        trace::Trace::of(load, &asked, headers).ok_or(UsageError::MissingValue {
            flag: "H",
            form: "'NAME: VALUE'",
        })
    }

    fn load_options(&self, environment: &Environment) -> LoadOptions {
        let mut options = LoadOptions::default();
        for flag in FLAGS.iter().filter(|flag| !flag.variable.is_empty()) {
            let value = environment.get(flag.variable);
            if let Some(text) = value.filter(|value| !value.is_empty()) {
                options.overrides.push(Override {
                    source: format!("environment variable {}", flag.variable),
                    keys: flag.keys,
                    text: text.to_owned(),
                });
            }
        }
        for (flag, value) in &self.flags {
            if flag.name == "config" {
                options.path = Some(PathBuf::from(value));
            } else if !flag.keys.is_empty() {
                options.overrides.push(Override {
                    source: format!("flag -{}", flag.name),
                    keys: flag.keys,
                    text: value.clone(),
                });
            }
        }
        options
    }
}

/// The value of a flag without one: on, unless it says false.
fn switch(flag: &'static Flag, value: Option<&str>) -> Result<Option<String>, UsageError> {
    match value {
        None | Some("true") => Ok(Some(String::new())),
        Some("false") => Ok(None),
        Some(_) => Err(UsageError::UnexpectedValue { flag: flag.name }),
    }
}

/// Checks a configuration: problems and warnings to `err`, one a line, the verdict to `out`.
///
/// # Errors
/// When a line cannot be written.
pub fn check(
    load: &LoadOptions,
    explain: bool,
    environment: &Environment,
    host: &Host,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> io::Result<u8> {
    match build(load, environment, host, Generation(1)) {
        Ok(compiled) => {
            for warning in &compiled.control.warnings {
                writeln!(err, "warning: {warning}")?;
            }
            if explain {
                out.write_all(compiled.control.effective.explain().as_bytes())?;
            }
            writeln!(out, "configuration is valid")?;
            Ok(EXIT_OK)
        }
        Err(problems) => {
            for problem in &problems {
                writeln!(err, "{problem}")?;
            }
            Ok(EXIT_INVALID)
        }
    }
}

/// The line of `version`.
pub fn version() -> String {
    format!("ringway {}", env!("CARGO_PKG_VERSION"))
}

fn help_of(command: Option<&str>) -> &'static str {
    match command {
        Some("run") => HELP_RUN,
        Some("check") => HELP_CHECK,
        Some("explain") => HELP_EXPLAIN,
        Some("demo") => HELP_DEMO,
        Some("version") => HELP_VERSION,
        _ => HELP,
    }
}

const HELP: &str = "\
ringway: a load-balancing HTTP proxy with exact federated PromQL

usage: ringway COMMAND [flags]

commands:
  run        serve a configuration (also without a command)
  check      check a configuration and say everything that is wrong with it
  explain    say how a time series merge would answer a query, and whether exactly
  demo       serve embedded origins, to look around
  version    print the version
  help       print this, or `ringway help COMMAND`

examples:
  ringway demo
  ringway check --config /etc/ringway/ringway.yaml
  ringway run --config /etc/ringway/ringway.yaml
  ringway -origin-url http://prometheus:9090 -provider prometheus

exit status: 0 success, 1 the configuration is refused, 2 the command line is refused
";

const HELP_RUN: &str = "\
usage: ringway run [--config FILE|DIR] [flags]

Serves until SIGTERM or SIGINT; SIGHUP reads the configuration again.
Without --config: /etc/ringway/ringway.yaml, else /etc/trickster/trickster.yaml.

flags, with one or two dashes (variable that sets the same):
  --config FILE|DIR      a file and its conf.d folder, or a folder of files
  --log-level LEVEL      error, warn, info or debug (TRK_LOG_LEVEL)
  --instance-id NUMBER   tells the log files of several processes apart
  --origin-url URL       origin of the backend named default (TRK_ORIGIN_URL)
  --provider PROVIDER    its provider: prometheus or reverseproxy (TRK_ORIGIN_TYPE)
  --proxy-port PORT      port of listener default, 8480 unless set (TRK_PROXY_PORT)
  --metrics-port PORT    port of listener metrics, 8481 unless set (TRK_METRICS_PORT)
  --validate-config      only check, as `ringway check`
  --version              only print the version

examples:
  ringway run --config /etc/ringway/ringway.yaml
  ringway run --config /etc/ringway/conf.d --log-level debug
  ringway run -origin-url http://127.0.0.1:8080 -provider reverseproxy -proxy-port 9000
";

const HELP_CHECK: &str = "\
usage: ringway check [--config FILE|DIR] [--explain] [flags of run]
       ringway check [--config FILE|DIR] --trace 'METHOD URL' [-H 'NAME: VALUE']...

Checks everything without serving. Each problem is one line on standard error:
file:line:column: key: what is wrong. Warnings begin with `warning: `. The second form
prints which rules, cases, rewriters and backends a request to listener default would pass; it is not sent.

flags:
  --config FILE|DIR   as for run
  --explain           print every value in force and where it came from
  --trace 'METHOD URL'
                      the request: GET http://example.com/path, or GET /path
  -H 'NAME: VALUE'    a header of it, as often as needed

examples:
  ringway check --config ringway.yaml
  ringway check --config ringway.yaml --explain | grep timeout
  ringway check --config ringway.yaml --trace 'GET /example/writer' -H 'X-Tenant: a'
";

const HELP_EXPLAIN: &str = "\
usage: ringway explain [--config FILE|DIR] [--backend NAME] [flags] 'QUERY'
       ringway explain --run --url URL [flags] 'QUERY'

Prints how an ALB of mechanism tsm answers a PromQL query: what each replica group is
asked, how the answers are merged, what is evaluated here, whether the answer is exact
and if not, why. The first form reads the configuration and asks nobody. The second has
a ringway that runs carry the query out, and adds series, samples, bytes and milliseconds
of each part. Any client gets the same of a query path with the parameter explain=1 (or
json, run, run-json).

flags:
  --config FILE|DIR   as for run
  --backend NAME      the ALB; needed where there are several
  --time TIME         of an instant query: seconds or RFC 3339; now unless set
  --start TIME --end TIME --step DURATION
                      of a range query
  --json              JSON in place of text
  --run --url URL     where ringway answers queries: http://HOST:PORT, or with /BACKEND

examples:
  ringway explain --config ringway.yaml 'sum by (job) (rate(http_requests_total[5m]))'
  ringway explain --config ringway.yaml --backend metrics --json 'a / b'
  ringway explain --config ringway.yaml --start 1700000000 --end 1700003600 --step 15s 'avg(up)'
  ringway explain --run --url http://127.0.0.1:8480/metrics 'sum(a) / sum(b)'
";

const HELP_DEMO: &str = "\
usage: ringway demo [--proxy-port PORT] [--metrics-port PORT] [--log-level LEVEL]

Serves two web origins behind a round robin and three metric origins behind a time
series merge, all in this process, and prints what to try. Ctrl-C ends it.

examples:
  ringway demo
  ringway demo --proxy-port 9000
";

const HELP_VERSION: &str = "\
usage: ringway version

Prints the version.

examples:
  ringway version
";

#[cfg(test)]
mod tests;
