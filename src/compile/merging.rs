//! Settings of the time series merge.

use std::time::Duration;

use ringway_shards::plan::{Dialect, ExpectedGroups, QueryBudget, TimeSeriesMerge};
use serde_json::Value as Json;

use super::context::Context;
use crate::config::alb::{Alb as Written, ExpectedGroups as WrittenGroups};
use crate::config::units::Period;
use crate::config::{Fault, Path, defaults};

/// The oldest major version whose PromQL is known.
const MAJOR_MIN: u32 = 2;

/// What the block comes to.
pub(super) fn compile(
    context: &mut Context<'_>,
    block: &Path,
    written: &Written,
) -> TimeSeriesMerge {
    let at = block.key("output_format");
    let format = context.pick_text(
        &at,
        written.output_format.as_deref(),
        defaults::OUTPUT_FORMAT,
    );
    if format != defaults::OUTPUT_FORMAT.value {
        context.fail_value(&at, Fault::OutputFormat { format });
    }
    let tsm = written.tsm.clone().unwrap_or_default();
    let at = block.key("tsm");
    let mut text = |key: &str, written: Option<String>, preset| {
        context.pick_text(&at.key(key), written.as_deref(), preset)
    };
    let partial = text(
        "partial_response",
        tsm.partial_response,
        defaults::PARTIAL_RESPONSE,
    );
    let histograms = text(
        "native_histograms",
        tsm.native_histograms,
        defaults::NATIVE_HISTOGRAMS,
    );
    let mut number = |key: &str, written, preset| context.pick(&at.key(key), written, preset);
    let limit = |number: u64| (number > 0).then_some(number);
    TimeSeriesMerge {
        dedup_tolerance_ms: number(
            "dedup_tolerance_ms",
            tsm.dedup_tolerance_ms,
            defaults::DEDUP_TOLERANCE_MS,
        ),
        budget: QueryBudget {
            series_max: limit(number("max_series", tsm.max_series, defaults::QUERY_SERIES)),
            samples_max: limit(number(
                "max_samples",
                tsm.max_samples,
                defaults::QUERY_SAMPLES,
            )),
            bytes_max: limit(number("max_bytes", tsm.max_bytes, defaults::QUERY_BYTES)),
        },
        promql_version: version(context, &at.key("promql_version"), tsm.promql_version),
        lookback_delta: period(context, &at.key("lookback_delta"), tsm.lookback_delta),
        evaluation_interval: period(
            context,
            &at.key("evaluation_interval"),
            tsm.evaluation_interval,
        ),
        partition_labels: labels(context, &at.key("partition_labels"), tsm.partition_labels),
        may_share: context.pick(
            &at.key("shared_series"),
            tsm.shared_series,
            defaults::SHARED_SERIES,
        ),
        is_strict: context.pick(&at.key("strict"), tsm.strict, defaults::STRICT),
        fails_partial: partial == "fail",
        expected_groups: groups(context, &at.key("expected_groups"), tsm.expected_groups),
        adds_histograms: histograms == "aggregate",
    }
}

/// Without one the servers are asked; nothing is in force then.
fn version(context: &mut Context<'_>, at: &Path, written: Option<String>) -> Option<Dialect> {
    let found = written?;
    context.note_written(at, Json::from(found.clone()));
    let version = Dialect::parse(&found).filter(|version| version.major >= MAJOR_MIN);
    if version.is_none() {
        context.fail_value(at, Fault::PromqlVersion { found });
    }
    version
}

fn period(context: &mut Context<'_>, at: &Path, written: Option<Period>) -> Option<Duration> {
    let period = written?;
    context.note_written(at, Json::from(period.to_string()));
    Some(period.0)
}

fn labels(context: &mut Context<'_>, at: &Path, written: Option<Vec<String>>) -> Vec<String> {
    let labels = context.pick_texts(at, written, defaults::PARTITION_LABELS);
    for (index, label) in labels.iter().enumerate() {
        // Such a name may hold anything, since Prometheus 3.
        if label.trim().is_empty() || label == "__name__" {
            let found = label.clone();
            context.fail_value(&at.item(index), Fault::PartitionLabel { found });
        }
    }
    labels
}

fn groups(context: &mut Context<'_>, at: &Path, written: Option<WrittenGroups>) -> ExpectedGroups {
    let names = match written {
        None => return ExpectedGroups::Known,
        Some(WrittenGroups::Count(count)) => {
            context.note_written(at, Json::from(count));
            return ExpectedGroups::Count(count);
        }
        Some(WrittenGroups::Names(names)) => names,
    };
    context.note_written(at, Json::from(names.clone()));
    if names.is_empty() {
        context.fail_value(at, Fault::NoGroups);
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            let name = name.clone();
            context.fail_value(&at.item(index), Fault::GroupTwice { name });
        }
    }
    ExpectedGroups::Named(names)
}
