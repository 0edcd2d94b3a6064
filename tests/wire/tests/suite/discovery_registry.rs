//! A registry that speaks the protocol of blocking queries, as Consul and Nomad do: it holds a request that knows
//! the current index until there is a higher one or the wait is over.

#![expect(
    clippy::disallowed_types,
    reason = "a server of a test is changed by the test while its own threads answer"
)]

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ringway_wire::{Conn, Origin, Request};
use serde_json::Value;

use crate::discovery_stub::is_last;
use crate::fake_prometheus::Parameters;

/// Chooses entries by the parameters of a query.
pub(crate) type Select = fn(&[Value], &Parameters) -> Vec<Value>;

/// A started registry.
pub(crate) struct Registry {
    pub(crate) origin: Origin,
    shared: Arc<Shared>,
}

struct Shared {
    index_header: &'static str,
    select: Select,
    state: Mutex<State>,
    news: Condvar,
}

struct State {
    index: u64,
    entries: Vec<Value>,
    fault: Option<Fault>,
}

/// What every request gets instead of an answer.
enum Fault {
    /// The end of its connection.
    Cut,
    /// These bytes, or nothing at all.
    Bytes(Vec<u8>),
}

impl Registry {
    /// One without entries, at index 10.
    pub(crate) fn start(index_header: &'static str, select: Select) -> Registry {
        let shared = Arc::new(Shared {
            index_header,
            select,
            state: Mutex::new(State {
                index: 10,
                entries: Vec::new(),
                fault: None,
            }),
            news: Condvar::new(),
        });
        let own = shared.clone();
        let origin = Origin::start(move |conn| own.serve(conn));
        Registry { origin, shared }
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state());
        self.shared.news.notify_all();
    }

    /// Changes entries, which raises the index.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<Value>)) -> u64 {
        let mut index = 0;
        self.set(|state| {
            change(&mut state.entries);
            state.index += 1;
            index = state.index;
        });
        index
    }

    /// Raises the index for something that concerns no entry.
    pub(crate) fn change_nothing(&self) {
        self.change(|_| ());
    }

    /// Loses its state: the index begins anew. Requests that are held stay so until their wait is over.
    pub(crate) fn begin_anew(&self, entries: Vec<Value>) {
        self.set(|state| (state.index, state.entries) = (3, entries));
    }

    /// Gives everybody these bytes instead of answers, from now on. Without any, connections stay open and silent.
    pub(crate) fn fail(&self, bytes: impl Into<Vec<u8>>) {
        self.send(Some(bytes.into()));
    }

    /// Cuts the connection of everybody who asks, from now on.
    pub(crate) fn cut(&self) {
        self.set(|state| state.fault = Some(Fault::Cut));
    }

    /// Gives everybody these bytes in place of answers, or answers again.
    pub(crate) fn send(&self, bytes: Option<Vec<u8>>) {
        self.set(|state| state.fault = bytes.map(Fault::Bytes));
    }

    /// Answers again.
    pub(crate) fn recover(&self) {
        self.send(None);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn serve(&self, conn: &mut Conn) {
        while let Some(request) = conn.request() {
            let Some(answer) = self.answer(&request) else {
                return;
            };
            if !conn.send(&answer) || is_last(&answer) {
                return;
            }
        }
    }

    /// `None` ends the connection.
    fn answer(&self, request: &Request) -> Option<Vec<u8>> {
        let parameters = Parameters::of(request);
        let index = parameters.get("index");
        let index: u64 = index.map_or(0, |text| text.parse().expect("an index"));
        let wait = parameters
            .get("wait")
            .map_or(Duration::from_mins(5), duration);
        // Real ones answer up to a sixteenth late.
        let until = Instant::now() + wait + wait / 16;
        let mut state = self.state();
        while state.fault.is_none() && index > 0 && state.index <= index {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.news.wait_timeout(state, left);
            state = waited.expect("no panic").0;
        }
        match &state.fault {
            Some(Fault::Cut) => return None,
            Some(Fault::Bytes(bytes)) => return Some(bytes.clone()),
            None => {}
        }
        let body = Value::from((self.select)(&state.entries, &parameters)).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{}: {}\r\nContent-Length: {}",
            self.index_header,
            state.index,
            body.len()
        );
        Some(format!("{head}\r\n\r\n{body}").into_bytes())
    }
}

/// `5m` or `90s`.
fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    let number = number.parse().expect("a number");
    match unit {
        "m" => Duration::from_mins(number),
        "s" => Duration::from_secs(number),
        _ => panic!("a wait of {text}"),
    }
}
