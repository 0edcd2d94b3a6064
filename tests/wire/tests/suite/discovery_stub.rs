//! What the stand-ins of clouds, engines and clusters share: state that a test changes while it is asked, and answers.

#![expect(
    clippy::disallowed_types,
    reason = "a stand-in is a thread per connection over one state, and no shard"
)]

use std::sync::{Arc, Mutex};

use ringway_wire::{Conn, Origin, Request};
use serde_json::Value;

/// State of a stand-in, in the hands of the test too.
#[derive(Debug, Default)]
pub(crate) struct Board<T>(Arc<Mutex<T>>);

impl<T> Clone for Board<T> {
    fn clone(&self) -> Self {
        Board(Arc::clone(&self.0))
    }
}

impl<T> Board<T> {
    pub(crate) fn new(state: T) -> Self {
        Board(Arc::new(Mutex::new(state)))
    }

    /// Looks at the state, or changes it.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.0.lock().expect("no stand-in panics"))
    }
}

/// The target of a request, taken apart and decoded.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pairs: Vec<(String, String)>,
}

impl Asked {
    pub(crate) fn of(target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Asked {
            path: path.to_owned(),
            pairs: form(query),
        }
    }

    /// The value of a parameter.
    pub(crate) fn pair(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(key, _)| key == name)?;
        Some(&found.1)
    }
}

/// The pairs of a query or a form.
pub(crate) fn form(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut digit = || char::from(bytes.next().unwrap_or(b'?')).to_digit(16);
        plain.push(match byte {
            b'+' => b' ',
            b'%' => match (digit(), digit()) {
                (Some(high), Some(low)) => u8::try_from(high * 16 + low).expect("two digits"),
                _ => b'?',
            },
            other => other,
        });
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// An answer of JSON.
pub(crate) fn json_of(status: u16, document: &Value) -> Vec<u8> {
    text_of(status, &document.to_string())
}

/// An answer whose body may be no JSON.
pub(crate) fn text_of(status: u16, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json; charset=UTF-8\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The same answer, broken off: it says that it is longer than it is, and is the last of its connection.
pub(crate) fn broken_off(answer: &[u8]) -> Vec<u8> {
    longer(answer, "Connection: close\r\n")
}

/// The same answer, stuck: it says that it is longer than it is, and the connection stays open.
pub(crate) fn stuck(answer: &[u8]) -> Vec<u8> {
    longer(answer, "")
}

fn longer(answer: &[u8], header: &str) -> Vec<u8> {
    let answer = String::from_utf8_lossy(answer);
    let length = format!("{header}Content-Length: 9");
    answer.replacen("Content-Length: ", &length, 1).into_bytes()
}

/// Whether the connection ends after this answer.
pub(crate) fn is_last(answer: &[u8]) -> bool {
    String::from_utf8_lossy(answer).contains("Connection: close\r\n")
}

/// Answers requests of a connection until an answer that is its last. One without a byte is none at all.
pub(crate) fn answer_all(conn: &mut Conn, answer: impl Fn(&Request) -> Vec<u8>) {
    while let Some(request) = conn.request() {
        let answer = answer(&request);
        if !conn.send(&answer) || is_last(&answer) {
            return;
        }
    }
}

/// Whether a request has this bearer token.
pub(crate) fn has_token(request: &Request, token: &str) -> bool {
    request.header("authorization") == Some(&format!("Bearer {token}"))
}

/// An origin at one port of every loopback address, which answers the address it was asked at: many members at once.
pub(crate) fn everywhere() -> Origin {
    Origin::start_everywhere(|conn: &mut Conn| {
        let own = conn.local_address().ip().to_string();
        while conn.request().is_some() {
            if !conn.send(ringway_wire::ok(&own)) {
                break;
            }
        }
    })
}
