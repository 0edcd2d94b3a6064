//! Shared watches: one cache and one stream for all queries that ask the server the same.
//!
//! `kube`'s watcher lists (all pages), watches, goes on from the last version or bookmark, lists again after an
//! ERROR event 410, and gives up on silent peers. What it leaves open is here: waiting after failures and how long,
//! listing again where a stream cannot be trusted any more (an HTTP 410 or 504 on its start, two ERROR events in a
//! row, an event that is not understood), and what of all this counts as a failure. While nothing can be had, the
//! cache stays as it was.

use std::collections::HashMap;
use std::error::Error;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::Api;
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use super::client::{Access, Alive, Guard, Refused, TooLong, refusal};
use super::objects::{Kind, Objects, identity, trim};
use crate::discovery::Failure;

/// Objects in a page of a list.
const PAGE_OBJECTS: u32 = 500;
/// How long a server is asked to keep a watch up, in seconds: not all watches shall end at once.
pub(super) const WATCH_SECONDS: RangeInclusive<u32> = 240..=295;
/// Least wait after a failure, whatever the server says.
const WAIT_MIN: Duration = Duration::from_millis(800);
/// ERROR events in a row after which the list is read again.
const ERRORS_BEFORE_LIST: u32 = 2;

/// What the server is asked for, beside the kind of object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Scope {
    pub(super) namespace: String,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
}

/// The running watches of one kind.
pub(super) type Registry<K> = Mutex<HashMap<Scope, Weak<Shared<K>>>>;

/// What a watch knows.
#[derive(Clone, Debug)]
pub(super) struct State<K> {
    pub(super) objects: Arc<Objects<K>>,
    /// Grows with each change of the objects. 0: they were never listed.
    pub(super) changes: u64,
    /// Grows with each sign of life.
    pub(super) signs: u64,
    /// Grows with each failure.
    pub(super) failures: u64,
    /// The last failure, unless something worked after it.
    pub(super) failure: Option<Failure>,
}

impl<K> State<K> {
    fn new() -> State<K> {
        State {
            objects: Arc::default(),
            changes: 0,
            signs: 0,
            failures: 0,
            failure: None,
        }
    }

    fn live(&mut self) {
        self.signs += 1;
        self.failure = None;
    }

    fn fail(&mut self, failure: Failure) {
        self.failures += 1;
        self.failure = Some(failure);
    }
}

/// A running watch. It ends with the last that holds it.
#[derive(Debug)]
pub(super) struct Shared<K> {
    state: watch::Receiver<State<K>>,
    task: JoinHandle<()>,
}

#[cfg(test)]
impl<K> Shared<K> {
    /// Ends it as a mistake of ours would.
    pub(super) fn break_down(&self) {
        self.task.abort();
    }
}

impl<K> Drop for Shared<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The watch of a scope: the running one, or a new one.
pub(super) async fn join<K: Kind>(
    registry: &Registry<K>,
    access: &Arc<Access>,
    scope: &Scope,
    seconds: RangeInclusive<u32>,
) -> Follower<K> {
    let mut running = registry.lock().await;
    running.retain(|_, shared| shared.strong_count() > 0);
    let there = running.get(scope).and_then(Weak::upgrade);
    let shared = match there.filter(|shared| !shared.task.is_finished()) {
        Some(shared) => shared,
        None => {
            let (sender, state) = watch::channel(State::new());
            let watch = Watch {
                access: Arc::clone(access),
                scope: scope.clone(),
                seconds,
                state: Arc::new(sender),
            };
            let task = tokio::spawn(watch.run());
            let shared = Arc::new(Shared { state, task });
            running.insert(scope.clone(), Arc::downgrade(&shared));
            shared
        }
    };
    Follower::new(shared)
}

/// One query's place in a watch.
#[derive(Debug)]
pub(super) struct Follower<K> {
    state: watch::Receiver<State<K>>,
    changes: u64,
    signs: u64,
    failures: u64,
    /// Holds the watch.
    _shared: Arc<Shared<K>>,
}

impl<K> Follower<K> {
    fn new(shared: Arc<Shared<K>>) -> Follower<K> {
        let state = shared.state.clone();
        let failures = {
            let now = state.borrow();
            // Who joins while it fails hears of that too.
            now.failures - u64::from(now.failure.is_some())
        };
        Follower {
            state,
            changes: 0,
            signs: 0,
            failures,
            _shared: shared,
        }
    }

    /// Whether there was a whole list.
    pub(super) fn is_listed(&self) -> bool {
        self.state.borrow().changes > 0
    }

    /// Whether objects changed since [`objects`](Self::objects).
    pub(super) fn has_changed(&self) -> bool {
        self.state.borrow().changes != self.changes
    }

    /// Whether it works and showed so since [`objects`](Self::objects).
    pub(super) fn has_signs(&self) -> bool {
        let state = self.state.borrow();
        state.failure.is_none() && state.signs != self.signs
    }

    /// A failure that lasts and was not told yet. Those that passed meanwhile are never told.
    pub(super) fn failure(&mut self) -> Option<Failure> {
        let state = self.state.borrow();
        let Some(failure) = &state.failure else {
            self.failures = state.failures;
            return None;
        };
        if self.failures == state.failures {
            return None;
        }
        self.failures += 1;
        Some(failure.clone())
    }

    /// All objects, as of now.
    pub(super) fn objects(&mut self) -> Arc<Objects<K>> {
        let state = self.state.borrow();
        self.changes = state.changes;
        self.signs = state.signs;
        Arc::clone(&state.objects)
    }

    /// Waits until there is something new.
    ///
    /// # Errors
    /// When the watch itself came to an end, which is a mistake of ours.
    pub(super) async fn news(&mut self) -> Result<(), Failure> {
        let changed = self.state.changed().await;
        changed.map_err(|_| Failure::new("the watch broke down"))
    }
}

/// A watch at work.
struct Watch<K> {
    access: Arc<Access>,
    scope: Scope,
    seconds: RangeInclusive<u32>,
    state: Arc<watch::Sender<State<K>>>,
}

/// What to do about an error of `kube`'s watcher.
#[derive(Debug)]
struct Verdict {
    /// What to count.
    failure: Option<Failure>,
    /// Whether the watcher shall start over with a list.
    lists_again: bool,
    /// Whether to go on at once.
    at_once: bool,
}

impl<K: Kind> Watch<K> {
    async fn run(self) {
        let state = Arc::clone(&self.state);
        let alive: Alive = Arc::new(move || state.send_modify(State::live));
        let client = Guard::client(&self.access, alive);
        let api: Api<K> = Api::namespaced(client, &self.scope.namespace);
        let mut pause = DefaultBackoff::default();
        let mut course = Course::default();
        loop {
            let events = watcher::watcher(api.clone(), self.config());
            let mut events = pin!(events);
            let mut listed = Objects::new();
            while let Some(event) = events.next().await {
                let error = match event {
                    Ok(event) => {
                        course.went_well(&event);
                        self.take(event, &mut listed);
                        continue;
                    }
                    Err(error) => error,
                };
                let verdict = self.judge(&error, &mut course);
                if self.settle(&verdict, &mut pause).await {
                    break;
                }
            }
        }
    }

    fn config(&self) -> Config {
        Config {
            label_selector: self.scope.labels.clone(),
            field_selector: self.scope.fields.clone(),
            timeout: Some(any_of(&self.seconds)),
            page_size: Some(PAGE_OBJECTS),
            ..Config::default()
        }
    }

    fn take(&self, event: Event<K>, listed: &mut Objects<K>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                let (key, object) = kept(object);
                listed.insert(key, object);
            }
            Event::InitDone => {
                let listed = Arc::new(std::mem::take(listed));
                self.state.send_modify(|state| {
                    state.live();
                    if state.changes == 0 || state.objects != listed {
                        state.changes += 1;
                        state.objects = listed;
                    }
                });
            }
            Event::Apply(object) => {
                let (key, object) = kept(object);
                self.state.send_if_modified(|state| {
                    if state.objects.get(&key) == Some(&object) {
                        return false;
                    }
                    Arc::make_mut(&mut state.objects).insert(key, object);
                    state.changes += 1;
                    true
                });
            }
            Event::Delete(object) => {
                let key = identity(object.meta());
                self.state.send_if_modified(|state| {
                    let is_there = state.objects.contains_key(&key);
                    if is_there {
                        Arc::make_mut(&mut state.objects).remove(&key);
                        state.changes += 1;
                    }
                    is_there
                });
            }
        }
    }

    fn judge(&self, error: &watcher::Error, course: &mut Course) -> Verdict {
        use watcher::Error::{
            InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
        };
        match error {
            InitialListFailed(error) => match refusal(error) {
                gone if is_gone(&gone) => course.expired(),
                refused => self.counted("list", refused, false),
            },
            WatchStartFailed(error) => match refusal(error) {
                gone if is_gone(&gone) => course.expired(),
                refused => {
                    // 504: the server knows no version as late as ours; it was set back.
                    let is_ahead = refused.status.is_some_and(|status| status == 504);
                    self.counted("watch", refused, is_ahead)
                }
            },
            WatchError(status) if status.code == 410 => course.expired(),
            WatchError(status) => {
                let refused = refusal(&kube::Error::Api(status.clone()));
                let many = course.errors_in_a_row();
                self.counted("watch", refused, many >= ERRORS_BEFORE_LIST)
            }
            // The stream broke off. The next one goes on where it ended.
            WatchFailed(kube::Error::ReadEvents(error)) if !is_too_long(error) => Verdict {
                failure: None,
                lists_again: false,
                at_once: false,
            },
            // An event is lost.
            WatchFailed(error) => match refusal(error) {
                gone if is_gone(&gone) => course.expired(),
                refused => self.counted("watch", refused, true),
            },
            NoResourceVersion => {
                let refused = "an answer without resourceVersion".to_owned();
                self.counted_text("watch", &refused, None, true)
            }
        }
    }

    fn counted(&self, verb: &str, refused: Refused, lists_again: bool) -> Verdict {
        self.counted_text(verb, &refused.reason, refused.retry_after, lists_again)
    }

    fn counted_text(
        &self,
        verb: &str,
        reason: &str,
        retry_after: Option<Duration>,
        lists_again: bool,
    ) -> Verdict {
        let kind = K::plural(&());
        let namespace = &self.scope.namespace;
        Verdict {
            failure: Some(Failure {
                reason: format!("{verb} {kind} in namespace {namespace}: {reason}"),
                retry_after,
            }),
            lists_again,
            at_once: false,
        }
    }

    /// Tells and waits. Whether to start over.
    async fn settle(&self, verdict: &Verdict, pause: &mut DefaultBackoff) -> bool {
        let mut asked = None;
        if let Some(failure) = &verdict.failure {
            asked = failure.retry_after;
            // The waiting is done here, once for all queries.
            let told = Failure::new(failure.reason.clone());
            self.state.send_modify(|state| state.fail(told));
        }
        if !verdict.at_once {
            let own = pause.next().unwrap_or(WAIT_MIN);
            tokio::time::sleep(asked.unwrap_or(own).max(WAIT_MIN)).await;
        }
        verdict.lists_again
    }
}

/// How it went lately.
#[derive(Debug, Default)]
struct Course {
    /// ERROR events since the last good event or list.
    errors: u32,
    /// Whether a version was too old since the last good event.
    has_expired: bool,
}

impl Course {
    fn went_well<K>(&mut self, event: &Event<K>) {
        match event {
            Event::Apply(_) | Event::Delete(_) => *self = Course::default(),
            Event::InitDone => self.errors = 0,
            Event::Init | Event::InitApply(_) => {}
        }
    }

    fn errors_in_a_row(&mut self) -> u32 {
        self.errors += 1;
        self.errors
    }

    /// A version was too old, which is nobody's failure: once, the list is read again at once.
    fn expired(&mut self) -> Verdict {
        Verdict {
            failure: None,
            lists_again: true,
            at_once: !std::mem::replace(&mut self.has_expired, true),
        }
    }
}

fn is_gone(refused: &Refused) -> bool {
    refused.status.is_some_and(|status| status == 410)
}

/// Whether an event was refused for its length.
fn is_too_long(error: &std::io::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if inner.is::<TooLong>() {
            return true;
        }
        cause = inner.source();
    }
    false
}

fn kept<K: Kind>(mut object: K) -> (String, Arc<K>) {
    trim(object.meta_mut());
    (identity(object.meta()), Arc::new(object))
}

/// Any number of a range.
fn any_of(range: &RangeInclusive<u32>) -> u32 {
    use std::hash::{BuildHasher as _, RandomState};
    let width = u64::from(range.end() - range.start()) + 1;
    let offset = RandomState::new().hash_one(range) % width;
    range.start() + u32::try_from(offset).unwrap_or_default()
}
