//! The command line of `ringway-origin`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lexopt::prelude::*;

use crate::args::{self, Request};

/// Printed by `ringway-origin --help`.
pub const HELP: &str = "\
ringway-origin: a fast HTTP/1.1 server with prepared answers, to stand behind a proxy under test

Usage: ringway-origin [options]

      --listen ADDRESS    where to listen (default 127.0.0.1:0, which takes a free port);
                          the address taken is printed as 'listening on ADDRESS'
      --number N          which of several origins this is: it shows in the labels and values of
                          the Prometheus answer (default 0)
      --delay D           answers after this time (default 0s)
      --cpu N             runs on this CPU only
      --nice N            runs at this niceness
  -h, --help              prints this

Paths: /bytes/N answers N bytes, /api/v1/query_range an 8 MB Prometheus matrix (1,000 series of 240
points), anything else 200 bytes of JSON. Ends with SIGTERM or Ctrl-C.

Example:
  ringway-origin --listen 127.0.0.1:9000 &
  ringway-load http://127.0.0.1:9000/bytes/4096 --duration 5s
";

/// How to serve.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Which origin this is.
    pub number: usize,
    /// How long it takes to answer.
    pub delay: Duration,
    /// CPU to run on.
    pub cpu: Option<usize>,
    /// Niceness to run at.
    pub nice: Option<i32>,
}

/// Reads the command line, without the program's name.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Request<Options>> {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut options = Options {
        listen,
        number: 0,
        delay: Duration::ZERO,
        cpu: None,
        nice: None,
    };
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("listen") => {
                let text = parser.value()?.string()?;
                let hint = || format!("--listen {text:?}: write 127.0.0.1:9000");
                options.listen = text.parse().with_context(hint)?;
            }
            Long("number") => options.number = parser.value()?.parse()?,
            Long("delay") => options.delay = args::duration(&parser.value()?.string()?)?,
            Long("cpu") => options.cpu = Some(parser.value()?.parse()?),
            Long("nice") => options.nice = Some(parser.value()?.parse()?),
            Short('h') | Long("help") => return Ok(Request::Help),
            other => bail!(other.unexpected()),
        }
    }
    Ok(Request::Run(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_mistakes_refused() {
        let parsed = |line: &str| parse(line.split_whitespace().map(str::to_owned));
        let expected = Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 9000)),
            number: 2,
            delay: Duration::from_millis(20),
            cpu: Some(1),
            nice: Some(10),
        };
        let line = "--listen 127.0.0.1:9000 --number 2 --delay 20ms --cpu 1 --nice 10";
        assert_eq!(parsed(line).unwrap(), Request::Run(expected));
        assert_eq!(parsed("-h").unwrap(), Request::Help);
        for line in ["--listen 9000", "--cpu x", "--what", "stray"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
