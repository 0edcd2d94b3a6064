//! `ringway check --trace`: which rules, cases, rewriters and backends a request would pass.
//!
//! Nothing is sent and nobody is asked. Called by `main`; the way itself is found by `ringway_shards::trace`, with the
//! code that serves requests.

use std::io::{self, Write};

use ringway_shards::plan::Generation;
use ringway_shards::trace::{End, Question, Step, Trace as Way, trace};

use super::{EXIT_INVALID, EXIT_OK, EXIT_USAGE};
use crate::compile::{Host, build};
use crate::config::{Environment, LoadOptions};

/// What is to be traced.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The configuration.
    pub load: LoadOptions,
    /// The request.
    pub question: Question,
}

impl Trace {
    /// Reads `METHOD URL` and `NAME: VALUE` headers; `None` when one of these is something else. Without a method it is
    /// a GET.
    pub fn of<'t>(
        load: LoadOptions,
        asked: &str,
        headers: impl Iterator<Item = &'t str>,
    ) -> Option<Trace> {
        let asked = asked.trim();
        let (method, url) = asked.split_once(' ').unwrap_or(("GET", asked));
        let header = |text: &str| {
            let (name, value) = text.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        let question = Question {
            method: method.to_owned(),
            url: url.trim().to_owned(),
            headers: headers.map(header).collect::<Option<_>>()?,
        };
        Some(Trace { load, question })
    }
}

/// Traces: the way to `out`, problems to `err`.
///
/// # Errors
/// When a line cannot be written.
pub fn run(
    asked: &Trace,
    environment: &Environment,
    host: &Host,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> io::Result<u8> {
    let compiled = match build(&asked.load, environment, host, Generation(1)) {
        Ok(compiled) => compiled,
        Err(problems) => {
            for problem in &problems {
                writeln!(err, "{problem}")?;
            }
            return Ok(EXIT_INVALID);
        }
    };
    let found = match trace(&compiled.plan, &asked.question) {
        Ok(found) => found,
        Err(reason) => {
            writeln!(err, "ringway: not a request: {reason}")?;
            return Ok(EXIT_USAGE);
        }
    };
    show(&found, "", out)?;
    Ok(EXIT_OK)
}

/// Writes a way, each line behind `indent`.
fn show(found: &Way, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    for step in &found.steps {
        writeln!(out, "{indent}{}", line(step))?;
    }
    if found.dropped > 0 {
        writeln!(
            out,
            "{indent}{} instructions left out: what they made cannot be sent",
            found.dropped
        )?;
    }
    end(&found.end, indent, out)
}

fn line(step: &Step) -> String {
    match step {
        Step::Backend {
            name,
            provider,
            path,
        } => format!("backend {name} ({provider}), path {path}"),
        Step::Authenticator(name) => format!("authenticator {name}, as if it let the request pass"),
        Step::Rewriter(name) => format!("rewriter {name}"),
        Step::Rule {
            name,
            case,
            rewriters,
        } => {
            let case = match case {
                Some(place) => format!("cases[{place}]"),
                None => "no case".to_owned(),
            };
            match rewriters.as_slice() {
                [] => format!("rule {name}: {case}"),
                names => format!("rule {name}: {case}, rewriters {}", names.join(", ")),
            }
        }
    }
}

fn end(end: &End, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{indent}")?;
    match end {
        End::Origin {
            backend,
            method,
            url,
            headers,
        } => {
            writeln!(out, "=> {backend}: {method} {url}")?;
            for (name, value) in headers {
                writeln!(out, "{indent}   {name}: {}", shown(name, value))?;
            }
            Ok(())
        }
        End::Pool {
            backend,
            mechanism,
            members,
            ways,
        } => {
            let members_shown = members.join(", ");
            writeln!(
                out,
                "=> {backend} ({mechanism}): one or all of {members_shown}"
            )?;
            let below = format!("{indent}  ");
            for (member, way) in members.iter().zip(ways) {
                writeln!(out, "{below}by {member}:")?;
                show(way, &format!("{below}  "), out)?;
            }
            match members.len() - ways.len() {
                0 => Ok(()),
                more => writeln!(out, "{below}and {more} more, which are not followed"),
            }
        }
        End::Answer {
            status,
            location: Some(location),
            ..
        } => writeln!(out, "=> {status}, Location: {location}"),
        End::Answer { status, reason, .. } if reason.is_empty() => writeln!(out, "=> {status}"),
        End::Answer { status, reason, .. } => writeln!(out, "=> {status}: {reason}"),
    }
}

/// A header's value, unless it may be a credential.
fn shown<'v>(name: &str, value: &'v str) -> &'v str {
    let name = name.to_ascii_lowercase();
    let secret = ["auth", "cookie", "token", "secret", "key", "password"];
    match secret.iter().any(|word| name.contains(word)) {
        true => "***",
        false => value,
    }
}
