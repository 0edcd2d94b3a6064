//! What the servers of a pool are: their version of PromQL, how long a sample stands for its series, and how often
//! they evaluate. What is evaluated here has to be done their way.
//!
//! Asked on need, on the way of the very request that needs it (so with the same rules, credentials and connections),
//! and kept by each shard for as long as the same members are live, at most [`KEPT`]. A query that the servers
//! evaluate never waits for it. Called by `gather`. Bounds: [`MEMBERS_MAX`] members, [`ANSWER_BYTES_MAX`] bytes and
//! [`TIME_MAX`] for all answers, and of requests that need the same only one asks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use ringway_io::task;
use ringway_merge::{Clock, Dialect, Grid, MemberFailure};

use super::gather::{Asking, ask_member};
use super::request::ApiRequest;
use super::times;
use crate::capture::Budget;
use crate::fanout::{Answer, Fanout, Fetched};
use crate::plan::{Alb, BackendId, PoolId, TimeSeriesMerge};
use crate::snapshot::{Member, Pool};

/// How long answers are believed.
const KEPT: Duration = Duration::from_secs(300);
/// How long it is believed that there is no answer.
const KEPT_UNKNOWN: Duration = Duration::from_secs(10);
/// Most time that asking takes.
const TIME_MAX: Duration = Duration::from_secs(3);
/// How often a request looks whether another one has the answers.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Most members that are asked, the first of the pool.
const MEMBERS_MAX: usize = 16;
/// Most bytes of all answers; a configuration may be long.
const ANSWER_BYTES_MAX: u64 = 32 << 20;
/// Bytes of an answer that are looked at: what is looked for stands near its beginning.
const LOOKED_AT_BYTES: usize = 64 * 1024;

/// Lookback of a server that does not say.
const LOOKBACK_MS: i64 = 300_000;
/// Evaluation interval of a server that does not say.
const INTERVAL_MS: i64 = 60_000;
/// The first version that heeds the parameter `lookback_delta`.
const HEEDS_LOOKBACK: (u32, u32) = (2, 43);

const VERSION: &str = "/api/v1/status/buildinfo";
const FLAGS: &str = "/api/v1/status/flags";
const CONFIG: &str = "/api/v1/status/config";

/// What is known of a pool's servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Version of the first that says one.
    pub(super) version: Option<Dialect>,
    /// A version of another major number, of another member.
    pub(super) other: Option<Dialect>,
    lookback_ms: Option<i64>,
    interval_ms: Option<i64>,
}

impl Facts {
    /// What times mean in a request. Settings of the ALB count more than what servers say.
    pub(super) fn clock(
        &self,
        (grid, end_ms): (Grid, i64),
        request: &ApiRequest,
        settings: &TimeSeriesMerge,
    ) -> Clock {
        let dialect = settings.promql_version.or(self.version);
        let dialect = dialect.unwrap_or_default();
        let (major, minor) = HEEDS_LOOKBACK;
        let asked = request.span("lookback_delta");
        let asked = asked.filter(|_| dialect.is_at_least(major, minor));
        let asked = asked.map(times::Span::milliseconds).filter(|ms| *ms > 0);
        Clock {
            grid,
            end_ms,
            dialect,
            interval_ms: ms(settings.evaluation_interval)
                .or(self.interval_ms)
                .unwrap_or(INTERVAL_MS),
            lookback_ms: asked
                .or(ms(settings.lookback_delta))
                .or(self.lookback_ms)
                .unwrap_or(LOOKBACK_MS),
        }
    }

    /// Takes in what one member says.
    fn learn(&mut self, path: &str, body: &[u8]) {
        let text = &body[..body.len().min(LOOKED_AT_BYTES)];
        match path {
            VERSION => match (self.version, version(text)) {
                (None, found) => self.version = found,
                (Some(first), Some(other)) if first.major != other.major => {
                    self.other.get_or_insert(other);
                }
                _ => {}
            },
            FLAGS => {
                let found = member(text, "query.lookback-delta");
                self.lookback_ms = self.lookback_ms.or(found.and_then(period_ms));
            }
            _ => {
                let found = setting(text, "evaluation_interval");
                self.interval_ms = self.interval_ms.or(found.and_then(period_ms));
            }
        }
    }

    /// What a merge that is itself a member says on `path`: as much as is looked for.
    pub(super) fn said(&self, path: &str) -> Option<Fetched> {
        let text = match path {
            VERSION => format!("\"version\":\"{}\"", self.version?),
            FLAGS => format!("\"query.lookback-delta\":\"{}ms\"", self.lookback_ms?),
            _ => format!(
                "\"yaml\":\"global:\\n  evaluation_interval: {}ms\\n\"",
                self.interval_ms?
            ),
        };
        Some(Fetched {
            status: 200,
            body: format!("{{\"status\":\"success\",\"data\":{{{text}}}}}").into_bytes(),
            ..Fetched::default()
        })
    }

    /// The same with what the ALB's settings say.
    pub(super) fn under(&self, settings: &TimeSeriesMerge) -> Facts {
        Facts {
            version: settings.promql_version.or(self.version),
            other: self.other.filter(|_| settings.promql_version.is_none()),
            lookback_ms: ms(settings.lookback_delta).or(self.lookback_ms),
            interval_ms: ms(settings.evaluation_interval).or(self.interval_ms),
        }
    }

    fn is_whole(&self) -> bool {
        self.version.is_some() && self.lookback_ms.is_some() && self.interval_ms.is_some()
    }
}

fn ms(period: Option<Duration>) -> Option<i64> {
    period.and_then(|period| i64::try_from(period.as_millis()).ok())
}

fn period_ms(text: &str) -> Option<i64> {
    let span = times::span(text).map(times::Span::milliseconds);
    span.filter(|ms| *ms > 0)
}

/// The version of PromQL that a build information names. That of another product than Prometheus says nothing of it.
fn version(text: &[u8]) -> Option<Dialect> {
    let is_prometheus = member(text, "application").is_none_or(|name| name == "Prometheus");
    let found = Dialect::parse(member(text, "version")?)?;
    // Products that count from 0 count for themselves.
    (is_prometheus && found.major >= 2).then_some(found)
}

/// The text that a member of this name of a JSON object has, the first in the document.
fn member<'t>(text: &'t [u8], name: &str) -> Option<&'t str> {
    let quoted = format!("\"{name}\"");
    let after = find(text, quoted.as_bytes())? + quoted.len();
    let rest = text[after..].trim_ascii_start().strip_prefix(b":")?;
    let rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// The value of a key of a YAML document that stands in a JSON text.
fn setting<'t>(text: &'t [u8], key: &str) -> Option<&'t str> {
    let after = find(text, format!("{key}:").as_bytes())? + key.len() + 1;
    let rest = text[after..].trim_ascii_start();
    let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric())?;
    std::str::from_utf8(&rest[..end]).ok()
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

/// What this shard knows of the servers of each pool of one plan.
#[derive(Debug, Default)]
pub(crate) struct Known(RefCell<HashMap<PoolId, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    /// Somebody asks.
    is_asking: bool,
    answers: Option<Answers>,
}

#[derive(Clone, Debug)]
struct Answers {
    facts: Rc<Facts>,
    /// Who was live then.
    members: Vec<BackendId>,
    until_ms: u64,
}

impl Known {
    /// What is known of the members that are live now.
    fn get(&self, pool: PoolId, members: &[BackendId], now_ms: u64) -> Option<Rc<Facts>> {
        let entries = self.0.borrow();
        let answers = entries.get(&pool)?.answers.as_ref()?;
        let is_current = answers.members == members && now_ms < answers.until_ms;
        is_current.then(|| answers.facts.clone())
    }

    /// Begins to ask, unless somebody does.
    fn begin(&self, pool: PoolId) -> Option<Turn<'_>> {
        let mut entries = self.0.borrow_mut();
        let entry = entries.entry(pool).or_default();
        if std::mem::replace(&mut entry.is_asking, true) {
            return None;
        }
        Some(Turn { known: self, pool })
    }
}

/// The right to ask; given back when dropped, since a client may leave.
struct Turn<'k> {
    known: &'k Known,
    pool: PoolId,
}

impl Turn<'_> {
    fn keep(&self, answers: Answers) {
        let mut entries = self.known.0.borrow_mut();
        entries.entry(self.pool).or_default().answers = Some(answers);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut entries = self.known.0.borrow_mut();
        entries.entry(self.pool).or_default().is_asking = false;
    }
}

/// What is known of the servers, without asking.
pub(super) fn known(asking: &Asking<'_>, alb: &Alb) -> Option<Rc<Facts>> {
    if is_told(&alb.tsm) {
        return Some(Rc::default());
    }
    let pool = asking.task.view.table.pool(alb.pool);
    let now_ms = asking.task.shard.dog.now_ms();
    let known = &asking.task.view.active.servers;
    known.get(alb.pool, &ids(pool), now_ms)
}

/// Whether the settings leave nothing to ask.
fn is_told(settings: &TimeSeriesMerge) -> bool {
    settings.promql_version.is_some()
        && settings.lookback_delta.is_some()
        && settings.evaluation_interval.is_some()
}

/// What is known of the servers, asking where nobody has.
pub(super) async fn ask(asking: &Asking<'_>, alb: &Alb) -> Rc<Facts> {
    let task = asking.task;
    let active = &task.view.active;
    let began_ms = task.shard.dog.now_ms();
    let turn = loop {
        if let Some(facts) = known(asking, alb) {
            return facts;
        }
        match active.servers.begin(alb.pool) {
            Some(turn) => break turn,
            None if waited(began_ms, task.shard.dog.now_ms()) => return Rc::default(),
            None => task::sleep(LOOK_EVERY).await,
        }
    };
    let pool = task.view.table.pool(alb.pool);
    let facts = Rc::new(learn(asking, alb, pool).await);
    let kept = match facts.is_whole() {
        true => KEPT,
        false => KEPT_UNKNOWN,
    };
    let kept_ms = u64::try_from(kept.as_millis()).unwrap_or(u64::MAX);
    turn.keep(Answers {
        facts: facts.clone(),
        members: ids(pool),
        until_ms: task.shard.dog.now_ms().saturating_add(kept_ms),
    });
    facts
}

/// Whether whoever asks must have ended.
fn waited(began_ms: u64, now_ms: u64) -> bool {
    Duration::from_millis(now_ms.saturating_sub(began_ms)) > TIME_MAX * 2
}

fn ids(pool: &Pool) -> Vec<BackendId> {
    pool.live.iter().map(|member| member.backend.id).collect()
}

type Come = (usize, &'static str, Result<Fetched, MemberFailure>);

/// Asks the members.
async fn learn(asking: &Asking<'_>, alb: &Alb, pool: &Pool) -> Facts {
    let requests = [VERSION, FLAGS, CONFIG].map(ApiRequest::about_server);
    let asking = &Asking {
        by_form: false,
        ..*asking
    };
    let budget = &Budget::new(Some(ANSWER_BYTES_MAX));
    let mut members: Vec<Answer<'_, Come>> = Vec::new();
    for (place, member) in distinct(pool).into_iter().take(MEMBERS_MAX).enumerate() {
        for request in &requests {
            members.push(Box::pin(async move {
                let path = request.path().unwrap_or_default();
                let said = ask_member(asking, alb, member, request, budget.clone()).await;
                (place, path, said)
            }));
        }
    }
    let at_once = alb.concurrency_max.map_or(usize::MAX, |max| max as usize);
    let mut fanout = Fanout::new(members, at_once);
    let mut said: Vec<(usize, &'static str, Vec<u8>)> = Vec::new();
    let gather = async {
        while let Some((place, path, come)) = fanout.next().await {
            if let Ok(fetched) = come
                && fetched.status == 200
            {
                said.push((place, path, fetched.body));
            }
        }
    };
    // What has come until then counts.
    let _ = task::within(TIME_MAX.min(alb.timeout), gather).await;
    // The first of the pool counts, not the fastest.
    said.sort_by_key(|(place, ..)| *place);
    let mut facts = Facts::default();
    for (_, path, body) in &said {
        facts.learn(path, body);
    }
    facts
}

/// Members, each once.
fn distinct(pool: &Pool) -> Vec<&Member> {
    let mut members: Vec<&Member> = Vec::new();
    for member in &pool.live {
        let is_new = |other: &&Member| other.backend.id != member.backend.id;
        if members.iter().all(is_new) {
            members.push(member);
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_merge::Endpoint;

    const BUILD: &[u8] = br#"{"status":"success","data":{"version": "2.42.0","revision":"x"}}"#;

    fn dialect(major: u32, minor: u32) -> Dialect {
        Dialect { major, minor }
    }

    #[test]
    fn what_servers_say_is_found_in_their_answers() {
        let mut facts = Facts::default();
        facts.learn(VERSION, BUILD);
        facts.learn(FLAGS, br#"{"data":{"query.lookback-delta":"2m"}}"#);
        let config = br#"{"data":{"yaml":"global:\n  scrape_interval: 15s\n  evaluation_interval: 30s\nrule_files: []"}}"#;
        facts.learn(CONFIG, config);
        let expected = Facts {
            version: Some(dialect(2, 42)),
            other: None,
            lookback_ms: Some(120_000),
            interval_ms: Some(30_000),
        };
        assert_eq!(facts, expected);
        assert!(facts.is_whole());
        for path in [VERSION, FLAGS, CONFIG] {
            let mut again = facts.clone();
            match path {
                VERSION => again.version = None,
                FLAGS => again.lookback_ms = None,
                _ => again.interval_ms = None,
            }
            let said = facts.said(path).expect("it is known");
            again.learn(path, &said.body);
            assert_eq!(again, facts, "{path}");
        }
    }

    #[test]
    fn nonsense_and_other_products_say_nothing() {
        for body in [
            &b""[..],
            b"{}",
            b"{\"version\"",
            b"{\"version\":3}",
            b"{\"version\":\"x\"}",
            b"{\"version\":\"0.34.1\"}",
            b"{\"application\":\"Grafana Mimir\",\"version\":\"2.10\"}",
            b"\"version\":\"3.5",
            b"query.lookback-delta\":\"0s\"",
            b"\"query.lookback-delta\":\"-1s\"",
            b"evaluation_interval:",
            b"evaluation_interval: x\n",
        ] {
            for path in [VERSION, FLAGS, CONFIG] {
                let mut facts = Facts::default();
                facts.learn(path, body);
                assert_eq!(facts, Facts::default(), "{}", String::from_utf8_lossy(body));
                assert!(facts.said(path).is_none());
            }
        }
    }

    #[test]
    fn the_first_member_counts_and_another_major_version_is_noted() {
        let mut facts = Facts::default();
        for version in ["2.42.0", "2.53.1", "3.5.0", "4.0"] {
            facts.learn(VERSION, format!("{{\"version\":\"{version}\"}}").as_bytes());
        }
        assert_eq!(facts.version, Some(dialect(2, 42)));
        assert_eq!(facts.other, Some(dialect(3, 5)));
        let settings = TimeSeriesMerge {
            promql_version: Some(dialect(3, 0)),
            ..TimeSeriesMerge::default()
        };
        let under = facts.under(&settings);
        assert_eq!((under.version, under.other), (Some(dialect(3, 0)), None));
    }

    #[test]
    fn settings_count_more_than_servers_and_the_request_more_than_both() {
        let text = b"query=a&time=0&lookback_delta=7s";
        let request = ApiRequest::read(Endpoint::Query, text, b"").expect("few");
        let plain = ApiRequest::read(Endpoint::Query, b"query=a&time=0", b"").expect("few");
        let said = |version| Facts {
            version: Some(version),
            lookback_ms: Some(1_000),
            interval_ms: Some(2_000),
            other: None,
        };
        let grid = Grid::instant(0);
        let told = TimeSeriesMerge {
            lookback_delta: Some(Duration::from_secs(3)),
            evaluation_interval: Some(Duration::from_secs(4)),
            ..TimeSeriesMerge::default()
        };
        let untold = TimeSeriesMerge::default();
        let cases = [
            (Facts::default(), &plain, &untold, (300_000, 60_000)),
            (said(dialect(3, 5)), &plain, &untold, (1_000, 2_000)),
            (said(dialect(3, 5)), &plain, &told, (3_000, 4_000)),
            (said(dialect(3, 5)), &request, &told, (7_000, 4_000)),
            (said(dialect(2, 42)), &request, &told, (3_000, 4_000)),
        ];
        for (facts, request, settings, expected) in cases {
            let clock = facts.clock((grid, 0), request, settings);
            assert_eq!((clock.lookback_ms, clock.interval_ms), expected);
        }
    }

    #[test]
    fn answers_are_of_the_members_they_came_from_and_one_request_asks() {
        let (known, pool) = (Known::default(), PoolId(0));
        let members = [BackendId(1), BackendId(2)];
        let turn = known.begin(pool).expect("nobody asks");
        assert!(known.begin(pool).is_none());
        turn.keep(Answers {
            facts: Rc::default(),
            members: members.to_vec(),
            until_ms: 100,
        });
        drop(turn);
        assert!(known.begin(pool).is_some());
        assert!(known.get(pool, &members, 99).is_some());
        assert!(known.get(pool, &members, 100).is_none());
        assert!(known.get(pool, &members[..1], 99).is_none());
    }
}
