//! Settings of ALBs: which keys a mechanism has, and what they come to.

use ringway_shards::plan::{Alb, BackendId, Mechanism, Retry};
use serde_json::Value as Json;

use super::context::Context;
use super::graph::{Graph, pool_path};
use super::pools::pool_id;
use super::roster::{Entry, Roster};
use super::{merging, unless_zero, user_router};
use crate::config::alb::{Alb as Written, PoolEntry};
use crate::config::backends::Backend;
use crate::config::defaults::Preset;
use crate::config::units::{Period, parse_codes};
use crate::config::{Fault, Path, defaults};

/// Keys that only some mechanisms have, and these in words. Anywhere else they are errors.
const OWN_KEYS: &[(&str, &[Mechanism], &str)] = &[
    ("pool", POOLED, "mechanisms with a pool"),
    ("healthy_floor", POOLED, "mechanisms with a pool"),
    ("discovery", POOLED, "mechanisms with a pool"),
    ("tsm", &[Mechanism::TimeSeriesMerge], "mechanism tsm"),
    (
        "output_format",
        &[Mechanism::TimeSeriesMerge],
        "mechanism tsm",
    ),
    ("fgr", &[Mechanism::FirstGoodResponse], "mechanism fgr"),
    (
        "fgr_status_codes",
        &[Mechanism::FirstGoodResponse],
        "mechanism fgr",
    ),
    ("nlm", &[Mechanism::NewestLastModified], "mechanism nlm"),
    ("user_router", &[Mechanism::UserRouter], "mechanism ur"),
    (
        "retry",
        &[Mechanism::RoundRobin, Mechanism::UserRouter],
        "mechanisms rr and ur",
    ),
];

const POOLED: &[Mechanism] = &[
    Mechanism::RoundRobin,
    Mechanism::TimeSeriesMerge,
    Mechanism::FirstResponse,
    Mechanism::FirstGoodResponse,
    Mechanism::NewestLastModified,
];

/// The settings of one ALB, with the capture cap of its members; `None` when it is refused.
pub(super) fn alb(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    graph: &Graph,
    id: BackendId,
    entry: &Entry<'_>,
) -> Option<(Alb, u64)> {
    let at = Path::of(&["backends", entry.name]);
    let block = at.key("alb");
    let written = entry.written.alb.as_ref()?;
    let mechanism = graph.pool(id)?.mechanism;
    refuse_keys_of_others(context, &block, mechanism);
    warn_of_idle_keys(context, entry.name, written, mechanism);
    let (capture_bytes, fanout_bytes) =
        capture_caps(context, roster, entry.name, entry.written, written);
    let timeout = context.pick_or_derive(
        &block.key("timeout"),
        written.timeout,
        Period(graph.timeout(roster, id)),
        "the largest timeout of its members",
    );
    let range = context.pick(
        &at.key("max_query_range"),
        entry.written.max_query_range,
        defaults::QUERY_RANGE,
    );
    let merges = mechanism == Mechanism::TimeSeriesMerge;
    let router = written.user_router.as_ref();
    let router = router.filter(|_| mechanism == Mechanism::UserRouter);
    let alb = Alb {
        mechanism,
        pool: pool_id(roster, id),
        fanout_bytes_max: (fanout_bytes > 0).then_some(fanout_bytes),
        timeout: timeout.0,
        query_range_max: unless_zero(range).filter(|_| merges),
        concurrency_max: concurrency(context, &block, written, mechanism),
        good_status: match mechanism {
            Mechanism::FirstGoodResponse => good_status(context, &block, written),
            _ => None,
        },
        retry: retry(context, &block, written, mechanism),
        user_router: router.map(|router| user_router::compile(context, roster, entry.name, router)),
        tsm: match merges {
            true => Box::new(merging::compile(context, &block, written)),
            false => Box::default(),
        },
    };
    // Of the backend, too.
    let capture_bytes = match capture_bytes {
        0 => defaults::CAPTURE_BYTES.value,
        bytes => bytes,
    };
    Some((alb, capture_bytes))
}

/// Whether all members are asked at once.
fn fans_out(mechanism: Mechanism) -> bool {
    !matches!(mechanism, Mechanism::RoundRobin | Mechanism::UserRouter)
}

fn refuse_keys_of_others(context: &mut Context<'_>, block: &Path, mechanism: Mechanism) {
    for (key, mechanisms, allowed) in OWN_KEYS {
        let at = block.key(key);
        if !mechanisms.contains(&mechanism) && context.document.written_at(&at).is_some() {
            let mechanism = mechanism.name();
            context.fail_key(&at, Fault::WrongMechanism { mechanism, allowed });
        }
    }
}

/// Bounds that cannot be met under this mechanism are harmless, but probably not meant.
fn warn_of_idle_keys(
    context: &mut Context<'_>,
    name: &str,
    written: &Written,
    mechanism: Mechanism,
) {
    let at = Path::of(&["backends", name]);
    let block = at.key("alb");
    if !fans_out(mechanism) {
        let reason = "one member is asked and its answer not captured";
        context.warn_no_effect(&block.key("max_capture_bytes"), reason);
        context.warn_no_effect(&block.key("max_fanout_capture_bytes"), reason);
    }
    if mechanism != Mechanism::TimeSeriesMerge {
        let reason = "only a time series merge keeps it";
        context.warn_no_effect(&at.key("max_query_range"), reason);
    }
    let reason = match mechanism {
        Mechanism::RoundRobin | Mechanism::UserRouter => return,
        Mechanism::TimeSeriesMerge => "a time series merge asks every member once",
        _ => "every member is asked once",
    };
    for (index, member) in written.pool.iter().flatten().enumerate() {
        if matches!(
            member,
            PoolEntry::Weighted {
                weight: Some(2..),
                ..
            }
        ) {
            let weight = pool_path(name).item(index).key("weight");
            context.warn_no_effect(&weight, reason);
        }
    }
}

/// What one answer, and one fan-out, may capture: of the ALB, else of its backend, else of `default`.
fn capture_caps(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    name: &str,
    own: &Backend,
    written: &Written,
) -> (u64, u64) {
    let at = Path::of(&["backends", name]);
    let common = roster.common_caps();
    let mut pick = |key: &str, values: [Option<u64>; 3], preset| {
        let [block, backend, default] = values;
        let places = [
            // 0 stands for "not set" here. Contract: ALB page, 2.1.
            (at.key("alb").key(key), block.filter(|bytes| *bytes > 0)),
            (at.key(key), backend),
            (Path::of(&["backends", "default", key]), default),
        ];
        context.pick_first(&places, preset)
    };
    let capture_bytes = pick(
        "max_capture_bytes",
        [
            written.max_capture_bytes,
            own.max_capture_bytes,
            common.and_then(|backend| backend.max_capture_bytes),
        ],
        defaults::CAPTURE_BYTES,
    );
    let fanout_bytes = pick(
        "max_fanout_capture_bytes",
        [
            written.max_fanout_capture_bytes,
            own.max_fanout_capture_bytes,
            common.and_then(|backend| backend.max_fanout_capture_bytes),
        ],
        defaults::FANOUT_BYTES,
    );
    (capture_bytes, fanout_bytes)
}

/// Members in flight at once; `None`: all. Contract: ALB page, 2.1; decisions, 14.
fn concurrency(
    context: &mut Context<'_>,
    block: &Path,
    written: &Written,
    mechanism: Mechanism,
) -> Option<u32> {
    let (limit, times) = match mechanism {
        Mechanism::TimeSeriesMerge => {
            let own = written.tsm.clone().unwrap_or_default();
            (
                own.query_concurrency_limit,
                own.query_concurrency_multiplier,
            )
        }
        Mechanism::FirstGoodResponse => {
            let own = written.fgr.clone().unwrap_or_default();
            (
                own.query_concurrency_limit,
                own.query_concurrency_multiplier,
            )
        }
        Mechanism::NewestLastModified => {
            let own = written.nlm.clone().unwrap_or_default();
            (
                own.query_concurrency_limit,
                own.query_concurrency_multiplier,
            )
        }
        Mechanism::FirstResponse | Mechanism::RoundRobin | Mechanism::UserRouter => return None,
    };
    let at = block.key(mechanism.name());
    let limit = context.pick(
        &at.key("query_concurrency_limit"),
        limit,
        defaults::CONCURRENCY,
    );
    let times = context.pick(
        &at.key("query_concurrency_multiplier"),
        times,
        defaults::CONCURRENCY_MULTIPLIER,
    );
    (limit > 0).then(|| limit.saturating_mul(times))
}

/// Codes of a good answer; `None`: all below 400. The older key counts only where the newer is empty.
fn good_status(context: &mut Context<'_>, block: &Path, written: &Written) -> Option<Vec<u16>> {
    let listed = |codes: &Option<Vec<String>>| codes.clone().filter(|codes| !codes.is_empty());
    let at = block.key("fgr").key("status_codes");
    let newer = written
        .fgr
        .as_ref()
        .and_then(|fgr| listed(&fgr.status_codes));
    let older = listed(&written.fgr_status_codes);
    let is_listed = newer.is_some() || older.is_some();
    let places = [(at, newer), (block.key("fgr_status_codes"), older)];
    let preset = Preset {
        value: vec![defaults::GOOD_STATUS.value.to_owned()],
        contract: defaults::GOOD_STATUS.contract,
    };
    let codes = context.pick_first(&places, preset);
    let ranges = codes.iter().filter_map(|code| parse_codes(code));
    let mut codes: Vec<u16> = ranges.flatten().collect();
    codes.sort_unstable();
    codes.dedup();
    is_listed.then_some(codes)
}

/// When another member is asked.
fn retry(
    context: &mut Context<'_>,
    block: &Path,
    written: &Written,
    mechanism: Mechanism,
) -> Retry {
    let attempts = match mechanism {
        Mechanism::RoundRobin => defaults::RETRY_ATTEMPTS,
        Mechanism::UserRouter => defaults::ROUTER_RETRY_ATTEMPTS,
        _ => return Retry::NONE,
    };
    let at = block.key("retry");
    let own = written.retry.clone().unwrap_or_default();
    let attempts_max = context.pick(&at.key("attempts"), own.attempts, attempts);
    if attempts_max == 0 {
        let reason = "attempts is 0";
        for key in [
            "budget_percent",
            "floor_per_second",
            "max_body_bytes",
            "try_timeout",
        ] {
            context.warn_no_effect(&at.key(key), reason);
        }
        return Retry::NONE;
    }
    if let Some(time) = own.try_timeout {
        context.note_written(&at.key("try_timeout"), Json::from(time.to_string()));
    }
    Retry {
        attempts_max,
        budget_percent: context.pick(
            &at.key("budget_percent"),
            own.budget_percent,
            defaults::RETRY_BUDGET_PERCENT,
        ),
        floor_per_second: context.pick(
            &at.key("floor_per_second"),
            own.floor_per_second,
            defaults::RETRY_FLOOR_PER_SECOND,
        ),
        body_bytes_max: context.pick(
            &at.key("max_body_bytes"),
            own.max_body_bytes,
            defaults::RETRY_BODY_BYTES,
        ),
        try_timeout: own.try_timeout.map(|time| time.0),
    }
}
