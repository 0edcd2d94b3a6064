//! What the tests of `fr`, `fgr` and `nlm` have in common: pools of scripted origins.

use std::net::SocketAddr;

use ringway_wire::{Conn, Gate, Origin, Request, Setup};

/// Origins as backends `a`, `b`, … behind an ALB of this mechanism, which is the default backend. `lines` are further
/// lines under `alb`.
pub(crate) fn pool(mechanism: &str, origins: &[&Origin], lines: &[&str]) -> Setup {
    let names = names(origins.len());
    let mut yaml = "backends:\n".to_owned();
    for (name, origin) in names.iter().zip(origins) {
        yaml.push_str(&backend(name, origin.address()));
    }
    let members = format!("pool: [{}]", names.join(", "));
    let mut all = vec![members.as_str()];
    all.extend(lines);
    yaml.push_str(&alb("all", mechanism, &all));
    Setup::new(yaml + "    is_default: true\n")
}

/// `a`, `b`, …, then `a1`, …
pub(crate) fn names(count: usize) -> Vec<String> {
    let name = |index: usize| {
        let letter = char::from(b'a' + u8::try_from(index % 26).expect("below 26"));
        match index / 26 {
            0 => letter.to_string(),
            round => format!("{letter}{round}"),
        }
    };
    (0..count).map(name).collect()
}

/// An origin as a backend.
pub(crate) fn backend(name: &str, address: SocketAddr) -> String {
    format!("  {name}:\n    provider: reverseproxy\n    origin_url: http://{address}\n")
}

/// An ALB as a backend.
pub(crate) fn alb(name: &str, mechanism: &str, lines: &[&str]) -> String {
    let mut yaml =
        format!("  {name}:\n    provider: alb\n    alb:\n      mechanism: {mechanism}\n");
    for line in lines {
        yaml.push_str(&format!("      {line}\n"));
    }
    yaml
}

/// An answer with this status, these header lines and this body.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} Status\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// Takes requests and never answers.
pub(crate) fn silent() -> Origin {
    Origin::start(|conn| {
        if conn.request().is_some() {
            conn.until_closed();
        }
    })
}

/// Sends these bytes for an answer and ends the connection.
pub(crate) fn breaking(bytes: &'static [u8], reset: bool) -> Origin {
    Origin::start(move |conn| {
        if conn.request().is_some() {
            conn.send(bytes);
            if reset {
                conn.reset_at_end();
            }
        }
    })
}

/// Answers each request as `answer` says once the gate opens for it.
pub(crate) fn gated(
    gate: &Gate,
    answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn| {
        while let Some(request) = conn.request() {
            gate.pass();
            if !conn.send(answer(&request)) {
                break;
            }
        }
    })
}

/// Sends a head and then blocks of a body of this length for as long as the other side takes them; true when it
/// took all.
pub(crate) fn pour(conn: &mut Conn, head: &str, mut length: u64) -> bool {
    let block = vec![b'x'; 256 << 10];
    let mut goes_on = conn.send(head);
    while goes_on && length > 0 {
        let step = length.min(block.len() as u64);
        goes_on = conn.send(&block[..usize::try_from(step).expect("a block")]);
        length -= step;
    }
    goes_on
}
