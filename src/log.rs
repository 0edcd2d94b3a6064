//! The log: structured lines, written by a thread of their own.
//!
//! Owns the one subscriber of `tracing` and the sink thread. Code anywhere in the control core logs through
//! `tracing`'s macros; the subscriber formats the line and puts it in a bounded queue, so that a slow disk or
//! a stopped terminal never holds up the control core: a full queue drops the line and counts it. Written here
//! and not taken from `tracing-subscriber`, because lines without spans are all that is needed: one visitor,
//! against a library of filters, layers and registries.
//!
//! A line is `time=… level=… event="…"` and the event's fields as `key=value`.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::compile::LogLevel;
use crate::utc::log_time;

/// Lines that may wait for the sink.
const QUEUE_LINES: usize = 4096;
/// Longest line; what is longer is cut.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// What is logged: `Error` only, up to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbosity(pub Level);

impl From<LogLevel> for Verbosity {
    fn from(level: LogLevel) -> Self {
        Verbosity(match level {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
        })
    }
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file of `logging.log_file` cannot be opened.
    #[error("logging.log_file: cannot open {file}: {source}", file = file.display())]
    Open {
        /// Its path.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No thread for the sink.
    #[error("cannot start the log thread: {0}")]
    Thread(io::Error),
}

enum Message {
    Line(String),
    Reopen(Sink),
    End,
}

#[derive(Debug)]
enum Sink {
    Stdout,
    File(File),
}

struct Shared {
    queue: SyncSender<Message>,
    level: AtomicU8,
    dropped: AtomicU64,
}

/// The running log.
pub struct Log {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl Log {
    /// Starts the sink thread and makes this the log of the process. A second log in one process, as in
    /// tests, gets no events.
    ///
    /// # Errors
    /// When the file cannot be opened or the thread not be started.
    pub fn start(file: Option<&Path>, verbosity: Verbosity) -> Result<Log, LogError> {
        let sink = open(file)?;
        let (queue, lines) = sync_channel(QUEUE_LINES);
        let shared = Arc::new(Shared {
            queue,
            level: AtomicU8::new(rank(verbosity.0)),
            dropped: AtomicU64::new(0),
        });
        let counts = shared.clone();
        let thread = std::thread::Builder::new()
            .name("log".into())
            .spawn(move || write_lines(&lines, sink, &counts.dropped))
            .map_err(LogError::Thread)?;
        let _ = tracing::subscriber::set_global_default(Lines(shared.clone()));
        Ok(Log { shared, thread })
    }

    /// Goes on under new settings; also opens the file again, for whoever rotates it.
    pub fn go_on(&self, sink: Prepared, verbosity: Verbosity) {
        self.shared
            .level
            .store(rank(verbosity.0), Ordering::Relaxed);
        // A full queue means that lines are being lost already: the old file stays until the next reload.
        let _ = self.shared.queue.try_send(Message::Reopen(sink.0));
    }

    /// Lines dropped since start because the queue was full.
    pub fn dropped_lines(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Writes what is queued and ends the thread.
    pub fn finish(self) {
        if self.shared.queue.send(Message::End).is_ok() {
            let _ = self.thread.join();
        }
    }
}

/// A sink that is open and not in use yet.
#[derive(Debug)]
pub struct Prepared(Sink);

/// Opens what a configuration wants logged to, before anything changes.
///
/// # Errors
/// When the file cannot be opened.
pub fn prepare(file: Option<&Path>) -> Result<Prepared, LogError> {
    open(file).map(Prepared)
}

fn open(file: Option<&Path>) -> Result<Sink, LogError> {
    let Some(file) = file else {
        return Ok(Sink::Stdout);
    };
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.map(Sink::File).map_err(|source| LogError::Open {
        file: file.to_owned(),
        source,
    })
}

fn write_lines(lines: &Receiver<Message>, mut sink: Sink, dropped: &AtomicU64) {
    let mut reported = 0;
    while let Ok(message) = lines.recv() {
        match message {
            Message::Line(line) => {
                sink.put(&line);
                let lost = dropped.load(Ordering::Relaxed);
                if lost > reported {
                    let time = log_time(SystemTime::now());
                    let lines = lost - reported;
                    sink.put(&format!(
                        "time={time} level=warn event=\"log lines dropped\" lines={lines}\n"
                    ));
                    reported = lost;
                }
            }
            Message::Reopen(next) => sink = next,
            Message::End => break,
        }
    }
}

impl Sink {
    /// A line that cannot be written is lost: there is nowhere left to say so.
    fn put(&mut self, line: &str) {
        let _ = match self {
            Sink::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(line.as_bytes()).and_then(|()| out.flush())
            }
            Sink::File(file) => file.write_all(line.as_bytes()),
        };
    }
}

/// The subscriber: events of ringway's own modules, no spans.
struct Lines(Arc<Shared>);

impl Subscriber for Lines {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // The level may change with a reload, so the answer must not be cached.
        match is_own(metadata) {
            true => Interest::sometimes(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && is_own(metadata)
            && rank(*metadata.level()) <= self.0.level.load(Ordering::Relaxed)
    }

    fn event(&self, event: &Event<'_>) {
        let line = line(SystemTime::now(), event);
        if let Err(TrySendError::Full(_)) = self.0.queue.try_send(Message::Line(line)) {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn is_own(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("ringway")
}

fn rank(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

fn line(at: SystemTime, event: &Event<'_>) -> String {
    let level = match *event.metadata().level() {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG | Level::TRACE => "debug",
    };
    let mut fields = Fields::default();
    event.record(&mut fields);
    let mut line = format!(
        "time={} level={level} event=\"{}\"{}",
        log_time(at),
        escaped(&fields.message),
        fields.rest
    );
    if line.len() > LINE_BYTES_MAX {
        let cut = line.floor_char_boundary(LINE_BYTES_MAX);
        line.truncate(cut);
        line.push_str("[cut]");
    }
    line.push('\n');
    line
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Fields {
    fn put(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
            return;
        }
        let plain = |c: char| c.is_ascii_graphic() && c != '"' && c != '=';
        let is_plain = !value.is_empty() && value.chars().all(plain);
        let _ = match is_plain {
            true => write!(self.rest, " {}={value}", field.name()),
            false => write!(self.rest, " {}=\"{}\"", field.name(), escaped(value)),
        };
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, &format!("{value:?}"));
    }
}

/// One line, whatever is in the text: a log line must not be forged by what an origin answers.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscriber(queue: usize, level: Level) -> (Arc<Shared>, Receiver<Message>, Lines) {
        let (queue, lines) = sync_channel(queue);
        let shared = Arc::new(Shared {
            queue,
            level: AtomicU8::new(rank(level)),
            dropped: AtomicU64::new(0),
        });
        (shared.clone(), lines, Lines(shared))
    }

    fn next_line(lines: &Receiver<Message>) -> String {
        match lines.try_recv() {
            Ok(Message::Line(line)) => line,
            _ => String::new(),
        }
    }

    #[test]
    fn a_line_has_time_level_event_and_fields() {
        let (_, lines, subscriber) = subscriber(8, Level::INFO);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(backend = "web a", count = 3, "member up");
        });
        let line = next_line(&lines);
        assert!(line.starts_with("time=2"), "{line}");
        assert!(
            line.ends_with(" level=info event=\"member up\" backend=\"web a\" count=3\n"),
            "{line}"
        );
    }

    #[test]
    fn foreign_text_cannot_forge_a_line() {
        let (_, lines, subscriber) = subscriber(8, Level::INFO);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(error = "x\"\nlevel=error", "probe failed");
        });
        let line = next_line(&lines);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert!(line.contains(r#"error="x\"\nlevel=error""#), "{line}");
    }

    #[test]
    fn levels_are_filtered_and_can_change() {
        let (shared, lines, subscriber) = subscriber(8, Level::WARN);
        tracing::subscriber::with_default(subscriber, || {
            for level in [Level::WARN, Level::DEBUG] {
                shared.level.store(rank(level), Ordering::Relaxed);
                tracing::debug!("detail");
                tracing::warn!("trouble");
            }
        });
        assert!(next_line(&lines).contains("trouble"));
        assert!(next_line(&lines).contains("detail"));
        assert!(next_line(&lines).contains("trouble"));
        assert_eq!(next_line(&lines), "");
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (shared, _lines, subscriber) = subscriber(2, Level::INFO);
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..5 {
                tracing::info!("again");
            }
        });
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_long_line_is_cut() {
        let (_, lines, subscriber) = subscriber(2, Level::INFO);
        let long = "é".repeat(LINE_BYTES_MAX);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(body = %long, "long");
        });
        let line = next_line(&lines);
        assert!(line.len() < LINE_BYTES_MAX + 16);
        assert!(line.ends_with("[cut]\n"));
    }
}
