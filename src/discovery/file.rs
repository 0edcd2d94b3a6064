//! Provider `file`: a member list in a local file.
//!
//! Two ways to notice a change, neither of which trusts the other: the kernel tells of changes in the folders that
//! the path leads through, and the content is compared every `poll_interval`, which is all there is on network file
//! systems. Each check watches those folders anew before it reads, so that folders that were replaced are watched
//! again and no change falls between reading and watching. The first reading happens at once. Contract:
//! autodiscovery page, 9.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use ringway_shards::plan::Scheme;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::members::{self, BYTES_MAX};
use super::settings::{File, ListFormat, Query};
use super::{Again, Failure, Next, Reading, Source};

/// How long changes are gathered after the first, and how long an empty file is given to be filled.
const COALESCING: Duration = Duration::from_millis(250);
/// Most symbolic links in a row that are followed to find folders to watch.
const LINKS_MAX: usize = 16;

/// The file system.
#[derive(Clone, Debug)]
pub struct Connection {
    settings: File,
}

/// Takes the settings.
///
/// # Errors
/// Never; for the likeness with other providers.
pub fn connect(settings: &File) -> Result<Connection, Failure> {
    Ok(Connection {
        settings: settings.clone(),
    })
}

impl Connection {
    /// The list in file `query.path`.
    pub fn source(&self, query: Arc<Query>) -> Box<dyn Source> {
        Box::new(self.list(&query, true))
    }

    fn list(&self, query: &Query, is_watched: bool) -> List {
        let path = query.path.as_deref().unwrap_or_default();
        List {
            path: Path::new(path).into(),
            poll_interval: self.settings.poll_interval,
            is_watched,
            watch: None,
            is_late: false,
            changed: Arc::new(Notify::new()),
            checked: None,
            accepted: None,
        }
    }
}

/// What was accepted last.
struct Accepted {
    hash: u64,
    is_empty: bool,
}

struct List {
    path: Arc<Path>,
    poll_interval: Duration,
    /// False: the content is polled and nothing else.
    is_watched: bool,
    watch: Option<RecommendedWatcher>,
    /// Whether it was said that changes are seen late.
    is_late: bool,
    /// Told of each change in the watched folders.
    changed: Arc<Notify>,
    /// When the content was last read; `None`: never.
    checked: Option<Instant>,
    accepted: Option<Accepted>,
}

impl Source for List {
    fn next(&mut self) -> Next<'_> {
        Box::pin(async {
            if let Some(checked) = self.checked {
                self.wait(checked + self.poll_interval).await;
            }
            self.read().await
        })
    }
}

impl List {
    /// Waits for a change, and for those that follow it closely, or for the next poll.
    async fn wait(&self, poll: Instant) {
        if timeout_at(poll, self.changed.notified()).await.is_ok() {
            sleep(COALESCING).await;
            // What came meanwhile is part of it.
            let _ = timeout(Duration::ZERO, self.changed.notified()).await;
        }
    }

    async fn read(&mut self) -> Result<Reading, Failure> {
        self.checked = Some(Instant::now());
        let had_members = self.accepted.as_ref().is_some_and(|last| !last.is_empty);
        let first = self.content().await?;
        let content = settled(had_members, first, async || self.content().await).await?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&content);
        let hash = hasher.finish();
        let is_same = self.accepted.as_ref().is_some_and(|last| last.hash == hash);
        let members = match is_same {
            true => None,
            false => {
                let format = ListFormat::Trickster;
                let read = members::parse_aside(format, content, Scheme::Http).await;
                Some(read.map_err(|failure| self.failure(&failure.reason))?)
            }
        };
        if let Some(members) = &members {
            self.accepted = Some(Accepted {
                hash,
                is_empty: members.is_empty(),
            });
        }
        Ok(Reading {
            members,
            excluded: Vec::new(),
            again: Again::Now,
        })
    }

    /// Watches anew, then reads; on another thread, since network file systems may be slow.
    async fn content(&mut self) -> Result<Vec<u8>, Failure> {
        let changed = self.is_watched.then(|| self.changed.clone());
        let path = self.path.clone();
        let check = tokio::task::spawn_blocking(move || {
            let watch = changed.map(|changed| watch(&path, &changed));
            (watch, read(&path))
        });
        let checked = check.await;
        let (watch, content) = checked.map_err(|error| self.failure(&error.to_string()))?;
        let content = content.map_err(|error| self.failure(&error.to_string()));
        if let Some((watcher, error)) = watch {
            self.watch = watcher;
            if content.is_ok() {
                self.say_if_late(error);
            }
        }
        content
    }

    /// Says once that changes are seen late, until they are no longer.
    fn say_if_late(&mut self, error: Option<notify::Error>) {
        if let Some(error) = &error
            && !self.is_late
        {
            tracing::warn!(
                scope = "discovery",
                file = %self.path.display(),
                error = %error,
                "member file is not fully watched: a change may be seen only at the next poll"
            );
        }
        self.is_late = error.is_some();
    }

    fn failure(&self, reason: &str) -> Failure {
        Failure::new(format!("{}: {reason}", self.path.display()))
    }
}

/// Content to go by: an empty file that was not empty before is read again after a while, since a writer that
/// truncates first was more likely caught half-way than meant to empty the pool.
async fn settled(
    had_members: bool,
    content: Vec<u8>,
    again: impl AsyncFnOnce() -> Result<Vec<u8>, Failure>,
) -> Result<Vec<u8>, Failure> {
    if !had_members || !content.trim_ascii().is_empty() {
        return Ok(content);
    }
    sleep(COALESCING).await;
    again().await
}

/// Watches the folders that a path leads through, as many as can be, and says why not all.
fn watch(
    path: &Path,
    changed: &Arc<Notify>,
) -> (Option<RecommendedWatcher>, Option<notify::Error>) {
    let changed = changed.clone();
    let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if event.as_ref().map_or(true, is_change) {
            changed.notify_one();
        }
    });
    let mut watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => return (None, Some(error)),
    };
    let mut failed = None;
    for folder in folders(path) {
        if let Err(error) = watcher.watch(&folder, RecursiveMode::NonRecursive) {
            failed = Some(error);
        }
    }
    (Some(watcher), failed)
}

/// Our own reading is an event too, and must not lead to another.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

/// The folders of a path, of each link on its way, and of where it ends.
fn folders(path: &Path) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    let mut at = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for _ in 0..LINKS_MAX {
        let Some(folder) = at.parent().map(Path::to_owned) else {
            break;
        };
        let target = fs::read_link(&at);
        folders.insert(folder.clone());
        match target {
            Ok(target) => at = folder.join(target),
            Err(_) => break,
        }
    }
    if let Ok(end) = fs::canonicalize(path)
        && let Some(folder) = end.parent()
    {
        folders.insert(folder.to_owned());
    }
    folders
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for who writes to it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut content = Vec::new();
    let most = BYTES_MAX as u64 + 1;
    fs::File::open(path)?.take(most).read_to_end(&mut content)?;
    match content.len() > BYTES_MAX {
        true => Err(io::Error::other(format!("more than {BYTES_MAX} bytes"))),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests;
