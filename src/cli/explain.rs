//! `ringway explain`: how a time series merge would answer a query.
//!
//! Without `--run` it reads the configuration and says the plan, and asks nobody; with it, it has a ringway that runs
//! carry the query out and say what each part of the plan took. Called by `main`; calls `compile` and the planner, which
//! lies behind `ringway_shards::explain`.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use ringway_shards::explain::{Question, explain};
use ringway_shards::plan::{Backend, BackendKind, Generation, Mechanism};

use super::{EXIT_INVALID, EXIT_OK, EXIT_USAGE};
use crate::compile::{Compiled, Host, build};
use crate::config::{Environment, LoadOptions};
use crate::health::probe::user_agent;

/// How long an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(120);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What is to be explained.
#[derive(Clone, Debug, Default)]
pub struct Explain {
    /// The configuration.
    pub load: LoadOptions,
    /// The ALB; where there is one alone it need not be named.
    pub backend: Option<String>,
    /// The query.
    pub query: String,
    /// `time`, or `start`, `end` and `step`, as the API takes them.
    pub times: Vec<(&'static str, String)>,
    /// JSON in place of text.
    pub json: bool,
    /// Where a ringway runs that is to carry the query out.
    pub url: Option<String>,
}

/// Why nothing is explained, and the exit status.
#[derive(Debug, thiserror::Error)]
enum Unexplained {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Failed(String),
}

/// Explains: to `out`, problems to `err`.
///
/// # Errors
/// When a line cannot be written.
pub fn run(
    asked: &Explain,
    environment: &Environment,
    host: &Host,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> io::Result<u8> {
    let explained = match &asked.url {
        Some(url) => carried_out(asked, url),
        None => match build(&asked.load, environment, host, Generation(1)) {
            Ok(compiled) => planned(asked, &compiled),
            Err(problems) => {
                for problem in &problems {
                    writeln!(err, "{problem}")?;
                }
                return Ok(EXIT_INVALID);
            }
        },
    };
    match explained {
        Ok(text) => {
            out.write_all(text.as_bytes())?;
            if !text.ends_with('\n') {
                writeln!(out)?;
            }
            Ok(EXIT_OK)
        }
        Err(error) => {
            writeln!(err, "ringway: {error}")?;
            Ok(match error {
                Unexplained::Usage(_) => EXIT_USAGE,
                Unexplained::Failed(_) => EXIT_INVALID,
            })
        }
    }
}

/// The plan, from the configuration alone.
fn planned(asked: &Explain, compiled: &Compiled) -> Result<String, Unexplained> {
    let backend = chosen(asked, compiled)?;
    let question = Question {
        parameters: parameters(asked),
        is_range: is_range(asked),
        json: asked.json,
    };
    explain(&compiled.plan, backend, &question)
        .map_err(|error| Unexplained::Usage(error.to_string()))
}

fn merges(backend: &Backend) -> bool {
    matches!(&backend.kind, BackendKind::Alb(alb) if alb.mechanism == Mechanism::TimeSeriesMerge)
}

/// The ALB that is meant.
fn chosen<'c>(asked: &Explain, compiled: &'c Compiled) -> Result<&'c Backend, Unexplained> {
    let backends = || compiled.plan.backends.iter().map(|backend| &**backend);
    let albs: Vec<&Backend> = backends().filter(|backend| merges(backend)).collect();
    let names: Vec<&str> = albs.iter().map(|backend| &*backend.name).collect();
    let known = match names.is_empty() {
        true => "the configuration has no ALB of mechanism tsm".to_owned(),
        false => format!("ALBs of mechanism tsm are {}", names.join(", ")),
    };
    match (&asked.backend, albs.as_slice()) {
        (None, [only]) => Ok(only),
        (None, _) => Err(Unexplained::Usage(format!("--backend is needed: {known}"))),
        (Some(name), _) => match albs.iter().find(|backend| *backend.name == **name) {
            Some(backend) => Ok(backend),
            None => {
                let text = match backends().any(|backend| *backend.name == **name) {
                    true => format!("backend {name} merges nothing: {known}"),
                    false => format!("no backend is called {name:?}: {known}"),
                };
                Err(Unexplained::Usage(text))
            }
        },
    }
}

fn is_range(asked: &Explain) -> bool {
    asked.times.iter().any(|(name, _)| *name != "time")
}

fn parameters(asked: &Explain) -> Vec<(String, String)> {
    let query = ("query".to_owned(), asked.query.clone());
    let times = asked.times.iter();
    let times = times.map(|(name, value)| ((*name).to_owned(), value.clone()));
    std::iter::once(query).chain(times).collect()
}

/// The plan and what it took, from a ringway that runs.
fn carried_out(asked: &Explain, url: &str) -> Result<String, Unexplained> {
    let (authority, prefix) = http_url(url)?;
    let path = match is_range(asked) {
        true => "/api/v1/query_range",
        false => "/api/v1/query",
    };
    let mut target = format!("{prefix}{path}?explain=");
    target.push_str(if asked.json { "run-json" } else { "run" });
    for (name, value) in parameters(asked) {
        target.push_str(&format!("&{name}={}", encoded(&value)));
    }
    let failed = |error: io::Error| Unexplained::Failed(format!("{url}: {error}"));
    let answer = get(&authority, &target).map_err(failed)?;
    let cut = answer.find("\r\n\r\n");
    let (head, body) = cut.map_or((&*answer, ""), |at| (&answer[..at], &answer[at + 4..]));
    let status = head.split(' ').nth(1).unwrap_or_default();
    let is_explained = head.to_ascii_lowercase().contains("\r\nx-ringway-explain:");
    match (status, is_explained) {
        ("200", true) => Ok(body.to_owned()),
        ("200", false) => Err(Unexplained::Failed(format!(
            "{url} does not explain: is it an ALB of mechanism tsm?"
        ))),
        _ => Err(Unexplained::Failed(format!(
            "{url}: HTTP status {status}: {body}"
        ))),
    }
}

/// Authority and path of a plain HTTP URL.
fn http_url(url: &str) -> Result<(String, &str), Unexplained> {
    let unusable = || {
        Unexplained::Usage(format!(
            "{url:?} is not usable; write --url http://HOST:PORT or http://HOST:PORT/BACKEND"
        ))
    };
    let rest = url.strip_prefix("http://").ok_or_else(unusable)?;
    let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if authority.is_empty() || !is_plain(rest) || rest.contains(['?', '#', '@']) {
        return Err(unusable());
    }
    let has_port = authority
        .rsplit(':')
        .next()
        .is_some_and(|port| port.parse::<u16>().is_ok());
    let authority = match has_port && authority.contains(':') {
        true => authority.to_owned(),
        false => format!("{authority}:80"),
    };
    Ok((authority, prefix.trim_end_matches('/')))
}

/// Asks once, by HTTP/1.0, so that the answer has no chunks: it ends where it says so, or with the connection.
fn get(authority: &str, target: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    let agent = user_agent();
    let head = format!(
        "GET {target} HTTP/1.0\r\nHost: {authority}\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = [0; 16 * 1024];
    while !is_whole(&answer) && answer.len() < ANSWER_BYTES_MAX {
        match stream.read(&mut piece)? {
            0 => break,
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether an answer that declares its length has come to it.
fn is_whole(answer: &[u8]) -> bool {
    const END: &[u8] = b"\r\n\r\n";
    let Some(end) = answer.windows(END.len()).position(|part| part == END) else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let mut lines = head.split("\r\n");
    let declared = lines.find_map(|line| line.strip_prefix("content-length:"));
    let declared: Option<usize> = declared.and_then(|text| text.trim().parse().ok());
    declared.is_some_and(|length| answer.len() - end - END.len() >= length)
}

/// Percent-encoded for a query.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_plain_http() {
        for (url, expected) in [
            ("http://127.0.0.1:8480", Some(("127.0.0.1:8480", ""))),
            ("http://a/", Some(("a:80", ""))),
            ("http://[::1]:1/all/", Some(("[::1]:1", "/all"))),
            ("https://a", None),
            ("http://", None),
            ("a:80", None),
            ("http://a b", None),
            ("http://a/?x", None),
        ] {
            let found = http_url(url).ok();
            let found = found
                .as_ref()
                .map(|(authority, path)| (authority.as_str(), *path));
            assert_eq!(found, expected, "{url}");
        }
    }

    #[test]
    fn an_answer_ends_where_it_says() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert!(is_whole(whole));
        assert!(!is_whole(&whole[..whole.len() - 1]));
        assert!(!is_whole(b"HTTP/1.0 200 OK\r\n\r\nok"));
        assert!(!is_whole(b""));
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(
            encoded("sum(a{b=\"ü\"})"),
            "sum%28a%7Bb%3D%22%C3%BC%22%7D%29"
        );
    }
}
