//! Planning of PromQL: no panic, and what cannot be planned says so.

use ringway_merge::{Care, Clock, Dialect, Endpoint, Grid, Plan, PlanOptions, Strategy, plan};

use super::Target;
use crate::random::Random;

/// See the module.
pub static TARGET: Target = Target {
    name: "promql-plan",
    about: "plans of PromQL queries",
    count: 200_000,
    seeds: &[
        b"sum by (job) (rate(http_requests_total{code=~\"5..\"}[5m] offset 1h))",
        b"avg without (instance) (up == bool 1)",
        b"histogram_quantile(0.9, sum by (le) (rate(x_bucket[5m])))",
        b"max_over_time(rate(x[1m])[1h:30s] @ end())",
        b"count_values(\"v\", {__name__=~\"a|b\", c!=\"d\"})",
        b"label_replace(up, \"a\", \"$1\", \"b\", \"(.*)\") or on(a) vector(0)",
        b"-(time() - 1e3) ^ 2 # comment",
        b"topk(3, sum(a) / on(x) group_left(y) b)",
    ],
    words: &[
        b"(",
        b")",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b"sum",
        b"avg",
        b" by (a) ",
        b" without () ",
        b"[5m]",
        b"[1h:1m]",
        b" offset ",
        b" @ ",
        b"start()",
        b"end()",
        b"\"",
        b"'",
        b"`",
        b"=~",
        b"!~",
        b"!=",
        b" and ",
        b" or ",
        b" unless ",
        b" on(a) ",
        b" group_left ",
        b"NaN",
        b"Inf",
        b"0x1F",
        b"1e999",
        b"rate",
        b"time()",
        b"vector(",
        b"-",
        b"+",
        b"*",
        b"/",
        b"%",
        b"^",
        b"#",
        b"\n",
        b"\\",
    ],
    run,
};

fn run(input: &[u8], random: &mut Random) {
    let text = String::from_utf8_lossy(input);
    let grid = Grid::range(1_700_000_000_000, 1_700_003_600_000, 15_000);
    let mut dated = PlanOptions::default();
    dated.clock = Some(Clock {
        grid,
        end_ms: grid.end_ms(),
        dialect: [
            Dialect {
                major: 2,
                minor: 42,
            },
            Dialect::default(),
        ][random.below(2)],
        interval_ms: 60_000,
        lookback_ms: 300_000,
    });
    dated.care = [Care::Usual, Care::Aggregates, Care::Samples][random.below(3)];
    dated.fetches_only = random.below(4) == 0;
    for options in [PlanOptions::default(), dated] {
        for endpoint in [Endpoint::Query, Endpoint::QueryRange] {
            check(&plan(&endpoint, Some(&text), &options));
        }
    }
}

fn check(planned: &Plan) {
    let asks_nobody = planned.variants.is_empty();
    assert!(
        !asks_nobody || planned.is_local() || planned.refusal.is_some(),
        "somebody is asked something"
    );
    let rewritten = planned
        .variants
        .iter()
        .any(|variant| variant.query.is_some());
    assert!(
        !rewritten
            || planned.is_local()
            || planned.strategy != Strategy::Dedup
            || planned.variants.len() == 1,
        "only a merge of several variants asks for others"
    );
    assert!(!planned.explain(&[]).to_string().is_empty());
}
