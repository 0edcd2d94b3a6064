//! The cells behind [`ShardMetrics`](super::ShardMetrics): counting costs an add, no lock, no shared line.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use ringway_io::net::http1::Method;

use super::{
    AlbRow, DRAIN_BUCKETS_S, DURATION_BUCKETS_S, DrainRow, FanoutRow, FrontendRow, ListenerMetrics,
    MemberRow, RuleRow, ShardMetrics, UpstreamRow, UserRouteRow,
};
use crate::mechanism::user_router::Outcome;
use crate::plan::Backend;
use crate::retry::Budget;
use crate::streak::Streak;

/// The provider label of ALBs.
const ALB: &str = "alb";

/// Adds to a plain counter.
pub(crate) trait Count {
    /// One more.
    fn bump(&self) {
        self.add(1);
    }
    /// So many more.
    fn add(&self, count: u64);
}

impl Count for Cell<u64> {
    fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }
}

/// Counts per bucket; the last of `N` is above all bounds.
struct Histogram<const N: usize> {
    bounds: &'static [f64],
    buckets: [Cell<u64>; N],
    sum_us: Cell<u64>,
}

type Durations = Histogram<{ DURATION_BUCKETS_S.len() + 1 }>;
type Drains = Histogram<{ DRAIN_BUCKETS_S.len() + 1 }>;

impl<const N: usize> Histogram<N> {
    fn new(bounds: &'static [f64]) -> Histogram<N> {
        assert_eq!(bounds.len() + 1, N, "one bucket is above all bounds");
        Histogram {
            bounds,
            buckets: [const { Cell::new(0) }; N],
            sum_us: Cell::new(0),
        }
    }

    fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let index = self.bounds.iter().position(|&bound| seconds <= bound);
        self.buckets[index.unwrap_or(N - 1)].bump();
        self.sum_us
            .add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    fn counts(&self) -> [u64; N] {
        std::array::from_fn(|index| self.buckets[index].get())
    }

    fn sum_s(&self) -> f64 {
        self.sum_us.get() as f64 / 1e6
    }
}

/// Requests of one configured path.
struct PathCells {
    path: Box<str>,
    rows: Vec<FrontendCell>,
}

struct FrontendCell {
    method: Method,
    /// First digit of the status; 5 for all that is no status.
    class: u8,
    requests: Cell<u64>,
    written_bytes: Cell<u64>,
    durations: Durations,
}

struct UpstreamCell {
    method: Method,
    status: u16,
    requests: Cell<u64>,
    durations: Durations,
}

/// Counters of one backend name, kept over reloads.
pub(crate) struct BackendCells {
    name: Box<str>,
    provider: &'static str,
    frontend: RefCell<Vec<PathCells>>,
    upstream: RefCell<Vec<Rc<UpstreamCell>>>,
    fanout: RefCell<Vec<(FanoutKey, u64)>>,
    drains: RefCell<Vec<(&'static str, Drains)>>,
    pub(crate) selected: Cell<u64>,
    pub(crate) dialled: Cell<u64>,
    pub(crate) dial_failures: Cell<u64>,
    pub(crate) reused: Cell<u64>,
    /// Requests sent again on a fresh connection to this origin.
    pub(crate) resends: Cell<u64>,
    /// Requests that went to another member because of this one.
    pub(crate) retries: Cell<u64>,
    pub(crate) failovers: Cell<u64>,
    /// What this ALB's requests may be sent again.
    pub(crate) retry_budget: Budget,
    /// When it was said last that replicas disagree, on the watchdog's clock.
    pub(crate) conflict_said_ms: Cell<u64>,
    /// That its members are of different versions was reported.
    pub(crate) versions_said: Cell<bool>,
    /// Range queries that this ALB refused.
    pub(crate) ranges_refused: Cell<u64>,
    user_routes: [Cell<u64>; Outcome::ALL.len()],
    /// How often each case of this rule has decided, behind how often none has.
    rule_cases: RefCell<Vec<u64>>,
    /// Requests that this rule was one too many for.
    rule_stops: Cell<u64>,
    /// Instructions of rewriters that were left out, of requests that came to this backend first.
    pub(crate) dropped_rewrites: Cell<u64>,
    /// The last exchange failed, and when that was said, on the watchdog's clock.
    pub(crate) failing: Cell<bool>,
    pub(crate) said_ms: Cell<u64>,
    /// Failures in a row below HTTP.
    pub(crate) streak: Streak,
    pub(crate) idle: Cell<u64>,
    pub(crate) open: Cell<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct FanoutKey {
    mechanism: &'static str,
    variant: &'static str,
    kind: &'static str,
    label: &'static str,
}

/// Counters of one listener name.
#[derive(Default)]
pub(crate) struct ListenerCells {
    name: Box<str>,
    pub(crate) accepted: Cell<u64>,
    pub(crate) refused: Cell<u64>,
    pub(crate) closed: Cell<u64>,
    pub(crate) failed: Cell<u64>,
    pub(crate) active: Cell<u64>,
}

/// All cells of one shard.
#[derive(Default)]
pub(crate) struct Cells {
    backends: RefCell<HashMap<Box<str>, Rc<BackendCells>>>,
    listeners: RefCell<HashMap<Box<str>, Rc<ListenerCells>>>,
    /// Tasks that panicked inside their guard.
    pub(crate) panics: Cell<u64>,
    /// Heads and bodies of clients that were refused.
    pub(crate) bad_requests: Cell<u64>,
    /// Requests that no route took.
    pub(crate) unrouted: Cell<u64>,
    /// Messages to the control core that found its queue full.
    pub(crate) events_dropped: Cell<u64>,
    /// Requests to hosts that could not be asked for.
    pub(crate) refused_lookups: Cell<u64>,
    /// Clients that went away while their answer was being made.
    pub(crate) client_cancels: Cell<u64>,
    pub(crate) logins: Rc<LoginCells>,
}

/// Counters of authenticators.
#[derive(Default)]
pub(crate) struct LoginCells {
    /// Requests refused.
    pub(crate) refused: Cell<u64>,
    /// Requests whose password could not be checked because too many others were.
    pub(crate) turned_away: Cell<u64>,
}

impl Cells {
    /// The cells of this backend; the same for the same name.
    pub(crate) fn backend(&self, backend: &Backend) -> Rc<BackendCells> {
        let mut all = self.backends.borrow_mut();
        let known = all
            .get(&backend.name)
            .filter(|cells| cells.provider == backend.provider_label);
        if let Some(cells) = known {
            cells.retain_paths(backend);
            return cells.clone();
        }
        let cells = Rc::new(BackendCells::new(
            backend.name.clone(),
            backend.provider_label,
        ));
        all.insert(backend.name.clone(), cells.clone());
        cells
    }

    /// The cells of this listener; the same for the same name.
    pub(crate) fn listener(&self, name: &str) -> Rc<ListenerCells> {
        let mut all = self.listeners.borrow_mut();
        let make = || {
            Rc::new(ListenerCells {
                name: name.into(),
                ..ListenerCells::default()
            })
        };
        all.entry(name.into()).or_insert_with(make).clone()
    }

    /// Visits the cells of all backends.
    pub(crate) fn each_backend(&self, visit: impl FnMut(&Rc<BackendCells>)) {
        self.backends.borrow().values().for_each(visit);
    }

    /// Drops the cells of backends that a plan does not have any more.
    pub(crate) fn retain_backends(&self, keep: impl Fn(&str) -> bool) {
        self.backends.borrow_mut().retain(|name, _| keep(name));
    }

    /// A copy of everything.
    pub(crate) fn copy(&self) -> ShardMetrics {
        let mut copy = ShardMetrics::default();
        for cells in self.listeners.borrow().values() {
            copy.listeners.push(ListenerMetrics {
                name: cells.name.clone(),
                accepted: cells.accepted.get(),
                refused: cells.refused.get(),
                closed: cells.closed.get(),
                failed: cells.failed.get(),
                active: cells.active.get(),
            });
        }
        for cells in self.backends.borrow().values() {
            cells.copy_into(&mut copy);
        }
        copy.counters = vec![
            ("shard_panics_total", self.panics.get()),
            ("shard_bad_requests_total", self.bad_requests.get()),
            ("shard_unrouted_requests_total", self.unrouted.get()),
            ("shard_events_dropped_total", self.events_dropped.get()),
            ("shard_refused_lookups_total", self.refused_lookups.get()),
            ("shard_client_cancels_total", self.client_cancels.get()),
            ("shard_refused_logins_total", self.logins.refused.get()),
            (
                "shard_turned_away_logins_total",
                self.logins.turned_away.get(),
            ),
        ];
        copy
    }
}

impl BackendCells {
    pub(crate) fn new(name: Box<str>, provider: &'static str) -> BackendCells {
        BackendCells {
            name,
            provider,
            frontend: RefCell::default(),
            upstream: RefCell::default(),
            fanout: RefCell::default(),
            drains: RefCell::default(),
            selected: Cell::default(),
            dialled: Cell::default(),
            dial_failures: Cell::default(),
            reused: Cell::default(),
            resends: Cell::default(),
            retries: Cell::default(),
            failovers: Cell::default(),
            retry_budget: Budget::default(),
            conflict_said_ms: Cell::default(),
            versions_said: Cell::default(),
            ranges_refused: Cell::default(),
            user_routes: Default::default(),
            rule_cases: RefCell::default(),
            rule_stops: Cell::default(),
            dropped_rewrites: Cell::default(),
            failing: Cell::default(),
            said_ms: Cell::default(),
            streak: Streak::default(),
            idle: Cell::default(),
            open: Cell::default(),
        }
    }

    /// Whose they are.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Counts a request of a client that was routed to this backend, under the configured path that took it.
    pub(crate) fn count_frontend(
        &self,
        path: &str,
        (method, status): (Method, u16),
        took: Duration,
        bytes: u64,
    ) {
        let class = status_class(status);
        let mut paths = self.frontend.borrow_mut();
        let index = paths.iter().position(|cells| *cells.path == *path);
        let index = index.unwrap_or_else(|| {
            paths.push(PathCells {
                path: path.into(),
                rows: Vec::new(),
            });
            paths.len() - 1
        });
        let rows = &mut paths[index].rows;
        let index = rows
            .iter()
            .position(|row| row.method == method && row.class == class);
        let index = index.unwrap_or_else(|| {
            rows.push(FrontendCell {
                method,
                class,
                requests: Cell::default(),
                written_bytes: Cell::default(),
                durations: Durations::new(&DURATION_BUCKETS_S),
            });
            rows.len() - 1
        });
        let row = &rows[index];
        row.requests.bump();
        row.written_bytes.add(bytes);
        row.durations.observe(took);
    }

    /// Drops the rows of paths that the backend does not have any more.
    fn retain_paths(&self, backend: &Backend) {
        self.frontend.borrow_mut().retain(|cells| {
            cells.path.is_empty() || backend.paths.iter().any(|rule| rule.label == cells.path)
        });
    }

    /// Counts an exchange with this origin; status 0 when there was no answer.
    pub(crate) fn count_upstream(&self, method: Method, status: u16, took: Duration) {
        let mut rows = self.upstream.borrow_mut();
        let known = rows
            .iter()
            .find(|row| row.method == method && row.status == status);
        let row = match known {
            Some(row) => row,
            None => {
                rows.push(Rc::new(UpstreamCell {
                    method,
                    status,
                    requests: Cell::default(),
                    durations: Durations::new(&DURATION_BUCKETS_S),
                }));
                &rows[rows.len() - 1]
            }
        };
        row.requests.bump();
        row.durations.observe(took);
    }

    /// Counts the case of this rule that has decided; `None`: none has.
    pub(crate) fn count_rule(&self, case: Option<u16>) {
        let index = case.map_or(0, |case| usize::from(case) + 1);
        let mut counts = self.rule_cases.borrow_mut();
        if counts.len() <= index {
            counts.resize(index + 1, 0);
        }
        counts[index] += 1;
    }

    /// Counts a request that this rule was one too many for.
    pub(crate) fn count_rule_stop(&self) {
        self.rule_stops.bump();
    }

    /// Counts how a request fared at this user router.
    pub(crate) fn count_user_route(&self, outcome: Outcome) {
        self.user_routes[outcome as usize].bump();
    }

    /// Counts something about the fan-outs of this ALB.
    pub(crate) fn count_fanout(
        &self,
        mechanism: &'static str,
        variant: &'static str,
        (kind, label): (&'static str, &'static str),
        count: u64,
    ) {
        if count == 0 {
            return;
        }
        let key = FanoutKey {
            mechanism,
            variant,
            kind,
            label,
        };
        let mut rows = self.fanout.borrow_mut();
        match rows.iter_mut().find(|(known, _)| *known == key) {
            Some((_, total)) => *total += count,
            None => rows.push((key, count)),
        }
    }

    /// Counts a loser of a fan-out of this ALB: how long after the winner it was gone.
    pub(crate) fn observe_drain(&self, mechanism: &'static str, took: Duration) {
        let mut rows = self.drains.borrow_mut();
        if !rows.iter().any(|(known, _)| *known == mechanism) {
            rows.push((mechanism, Drains::new(&DRAIN_BUCKETS_S)));
        }
        let row = rows.iter().find(|(known, _)| *known == mechanism);
        if let Some((_, drains)) = row {
            drains.observe(took);
        }
    }

    fn copy_into(&self, copy: &mut ShardMetrics) {
        for cells in self.frontend.borrow().iter() {
            let rows = cells.rows.iter().map(|row| FrontendRow {
                backend: self.name.clone(),
                provider: self.provider,
                method: method_label(row.method),
                path: cells.path.clone(),
                status_class: class_label(row.class),
                requests: row.requests.get(),
                written_bytes: row.written_bytes.get(),
                duration_buckets: row.durations.counts(),
                duration_sum_s: row.durations.sum_s(),
            });
            copy.frontend.extend(rows);
        }
        for row in self.upstream.borrow().iter() {
            copy.upstream.push(UpstreamRow {
                backend: self.name.clone(),
                provider: self.provider,
                method: method_label(row.method),
                cache_status: cache_status(row.status),
                path: "proxy",
                status: row.status,
                requests: row.requests.get(),
                duration_buckets: row.durations.counts(),
                duration_sum_s: row.durations.sum_s(),
            });
        }
        copy.members.push(MemberRow {
            backend: self.name.clone(),
            selected: self.selected.get(),
            dialled: self.dialled.get(),
            dial_failures: self.dial_failures.get(),
            reused: self.reused.get(),
            resends: self.resends.get(),
            retries: self.retries.get(),
            failovers: self.failovers.get(),
            idle: self.idle.get(),
            open: self.open.get(),
        });
        self.copy_alb_into(copy);
    }

    /// What only an ALB counts.
    fn copy_alb_into(&self, copy: &mut ShardMetrics) {
        for (key, count) in self.fanout.borrow().iter() {
            copy.fanout.push(FanoutRow {
                alb: self.name.clone(),
                mechanism: key.mechanism,
                variant: key.variant,
                kind: key.kind,
                label: key.label,
                count: *count,
            });
        }
        for outcome in Outcome::ALL {
            let count = self.user_routes[outcome as usize].get();
            if count > 0 {
                copy.user_routes.push(UserRouteRow {
                    alb: self.name.clone(),
                    outcome: outcome.name(),
                    count,
                });
            }
        }
        let cases = self.rule_cases.borrow();
        let rule = RuleRow {
            backend: self.name.clone(),
            cases: cases.clone(),
            stops: self.rule_stops.get(),
            dropped: self.dropped_rewrites.get(),
        };
        if !rule.cases.is_empty() || rule.stops > 0 || rule.dropped > 0 {
            copy.rules.push(rule);
        }
        for (mechanism, drains) in self.drains.borrow().iter() {
            copy.drains.push(DrainRow {
                mechanism,
                buckets: drains.counts(),
                sum_s: drains.sum_s(),
            });
        }
        if self.provider == ALB {
            copy.albs.push(AlbRow {
                alb: self.name.clone(),
                retries: self.retry_budget.granted(),
                retries_refused: self.retry_budget.refused(),
                ranges_refused: self.ranges_refused.get(),
            });
        }
    }
}

fn status_class(status: u16) -> u8 {
    match status {
        100..200 => 1,
        200..300 => 2,
        300..400 => 3,
        400..500 => 4,
        _ => 5,
    }
}

/// A class of statuses as the front-side metrics write it.
fn class_label(class: u8) -> &'static str {
    match class {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

/// Contract: ALB page, 9.
pub(crate) fn cache_status(status: u16) -> &'static str {
    if (100..400).contains(&status) {
        "proxy-only"
    } else {
        "proxy-error"
    }
}

fn method_label(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Connect => "CONNECT",
        Method::Options => "OPTIONS",
        Method::Trace => "TRACE",
        Method::Patch => "PATCH",
        Method::Purge => "PURGE",
        Method::Other => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_one_per_method_and_class() {
        let cells = BackendCells::new("web".into(), "reverseproxy");
        cells.count_frontend("/", (Method::Get, 200), Duration::from_millis(1), 10);
        cells.count_frontend("/", (Method::Get, 204), Duration::from_secs(30), 5);
        cells.count_frontend("/", (Method::Get, 404), Duration::ZERO, 0);
        cells.count_frontend("/api", (Method::Get, 200), Duration::ZERO, 0);
        let mut copy = ShardMetrics::default();
        cells.copy_into(&mut copy);
        assert_eq!(copy.frontend.len(), 3);
        let good = &copy.frontend[0];
        assert_eq!((good.requests, good.written_bytes), (2, 15));
        assert_eq!(good.duration_buckets, [1, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn losers_are_counted_by_mechanism() {
        let cells = BackendCells::new("any".into(), "alb");
        cells.observe_drain("fr", Duration::ZERO);
        cells.observe_drain("fr", Duration::from_millis(20));
        cells.observe_drain("fgr", Duration::from_secs(60));
        let mut copy = ShardMetrics::default();
        cells.copy_into(&mut copy);
        let counts: Vec<_> = copy.drains.iter().map(|row| row.mechanism).collect();
        assert_eq!(counts, ["fr", "fgr"]);
        assert_eq!(copy.drains[0].buckets[0], 1);
        assert_eq!(copy.drains[0].buckets[3], 1);
        assert_eq!(copy.drains[1].buckets[DRAIN_BUCKETS_S.len()], 1);
    }
}
