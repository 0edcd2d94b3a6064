//! One query's view of the watches it needs.

use std::sync::Arc;
use std::time::Duration;

use super::objects::{Kind, Mapped, Objects, Pod};
use super::watch::{Follower, Registry, Scope, join};
use super::{Connection, Inner};
use crate::discovery::settings::Query;
use crate::discovery::{Again, Exclusion, Failure, Next, Reading, Source};

/// Changes within this time after one are told together.
const COALESCE: Duration = Duration::from_millis(250);

/// How objects, and the Pods behind them, become members.
pub(super) type Map<K> = fn(&Query, &Objects<K>, Option<&Objects<Pod>>) -> Mapped;

/// What is watched for a query.
pub(super) struct Watched<K: Kind> {
    pub(super) scope: Scope,
    /// Scope of the Pods that hold the groups, for those kinds that need them.
    pub(super) pods: Option<Scope>,
    pub(super) registry: fn(&Inner) -> &Registry<K>,
    pub(super) map: Map<K>,
}

/// A [`Source`] over one watch, or two.
pub(super) struct Watching<K: Kind> {
    connection: Connection,
    query: Arc<Query>,
    watched: Watched<K>,
    followers: Option<Followers<K>>,
    excluded: Vec<Exclusion>,
}

struct Followers<K> {
    main: Follower<K>,
    pods: Option<Follower<Pod>>,
    /// Whether there was a reading.
    has_read: bool,
}

/// What there is to say.
enum News {
    Nothing,
    Sign,
    Change,
    Failure(Failure),
}

impl<K: Kind> Watching<K> {
    pub(super) fn new(connection: Connection, query: Arc<Query>, watched: Watched<K>) -> Self {
        Watching {
            connection,
            query,
            watched,
            followers: None,
            excluded: Vec::new(),
        }
    }

    async fn read(&mut self) -> Result<Reading, Failure> {
        if self.followers.is_none() {
            self.followers = Some(self.join().await);
        }
        let Some(followers) = &mut self.followers else {
            return Err(Failure::new("no watch"));
        };
        match followers.wait().await {
            Ok(true) => {}
            Ok(false) => {
                // The same again, but known to be so.
                return Ok(self.reading(None));
            }
            Err(Stop::Failed(failure)) => return Err(failure),
            Err(Stop::Broken(failure)) => {
                self.followers = None;
                return Err(failure);
            }
        }
        followers.has_read = true;
        let objects = followers.main.objects();
        let pods = followers.pods.as_mut().map(Follower::objects);
        let mapped = (self.watched.map)(&self.query, &objects, pods.as_deref());
        self.excluded = mapped.excluded;
        Ok(self.reading(Some(mapped.members)))
    }

    fn reading(&self, members: Option<Vec<crate::discovery::Member>>) -> Reading {
        Reading {
            members,
            excluded: self.excluded.clone(),
            again: Again::Now,
        }
    }

    async fn join(&self) -> Followers<K> {
        let inner = &*self.connection.0;
        let seconds = || inner.watch_seconds.clone();
        let registry = (self.watched.registry)(inner);
        let main = join(registry, &inner.access, &self.watched.scope, seconds()).await;
        let pods = match &self.watched.pods {
            None => None,
            Some(scope) => Some(join(&inner.pods, &inner.access, scope, seconds()).await),
        };
        Followers {
            main,
            pods,
            has_read: false,
        }
    }
}

/// Why there is no reading.
enum Stop {
    /// A list or watch failed, and is tried again.
    Failed(Failure),
    /// A watch is no more.
    Broken(Failure),
}

impl<K> Followers<K> {
    /// Waits for something to say: a change, or only that there is none.
    async fn wait(&mut self) -> Result<bool, Stop> {
        // The first reading waits for nothing but the lists.
        let mut is_ripe = !self.has_read;
        loop {
            let news = self.news();
            match news {
                News::Failure(failure) => return Err(Stop::Failed(failure)),
                News::Change if is_ripe => return Ok(true),
                News::Sign if is_ripe => {
                    self.main.objects();
                    self.pods.as_mut().map(Follower::objects);
                    return Ok(false);
                }
                News::Change | News::Sign => {
                    tokio::time::sleep(COALESCE).await;
                    is_ripe = true;
                }
                News::Nothing => {
                    self.stir().await.map_err(Stop::Broken)?;
                    is_ripe = !self.has_read;
                }
            }
        }
    }

    fn news(&mut self) -> News {
        let is_listed = self.main.is_listed() && self.pods.as_ref().is_none_or(Follower::is_listed);
        let has_changed =
            self.main.has_changed() || self.pods.as_ref().is_some_and(Follower::has_changed);
        if is_listed && (has_changed || !self.has_read) {
            return News::Change;
        }
        let failure = self.main.failure();
        if let Some(failure) = failure.or_else(|| self.pods.as_mut()?.failure()) {
            return News::Failure(failure);
        }
        let has_signs =
            self.main.has_signs() || self.pods.as_ref().is_some_and(Follower::has_signs);
        match has_signs && is_listed {
            true => News::Sign,
            false => News::Nothing,
        }
    }

    async fn stir(&mut self) -> Result<(), Failure> {
        match &mut self.pods {
            None => self.main.news().await,
            Some(pods) => tokio::select! {
                news = self.main.news() => news,
                news = pods.news() => news,
            },
        }
    }
}

impl<K: Kind> Source for Watching<K> {
    fn next(&mut self) -> Next<'_> {
        Box::pin(self.read())
    }
}

/// A query that cannot be asked.
pub(super) struct Impossible(pub(super) Failure);

impl Source for Impossible {
    fn next(&mut self) -> Next<'_> {
        let failure = self.0.clone();
        Box::pin(async move { Err(failure) })
    }
}
