//! Metrics of discovery. Contract: autodiscovery page, 17.

use super::{Families, Scene};
use crate::control::run::discover::DiscovererRow;
use crate::utc::unix_seconds;

/// Puts all of them into `families`.
pub(super) fn collect(scene: &Scene<'_>, families: &mut Families) {
    for row in scene.discovered {
        let labels = [("alb_name", &*row.alb), ("discoverer", &*row.discoverer)];
        families.gauge(
            "trickster_alb_discovery_members",
            "Discovered members of an ALB's pool",
            &labels,
            row.members as f64,
        );
        for (event, count) in [("add", row.tally.added), ("remove", row.tally.removed)] {
            families.counter(
                "trickster_alb_discovery_member_changes_total",
                "Discovered members that came and left",
                &[labels[0], labels[1], ("event", event)],
                count as f64,
            );
        }
        for (result, count) in [
            ("applied", row.tally.applied),
            ("unchanged", row.tally.unchanged),
            ("rejected", row.tally.rejected),
            ("partial", row.tally.partial),
        ] {
            families.counter(
                "trickster_alb_discovery_snapshots_total",
                "What became of the memberships that a source reported",
                &[labels[0], labels[1], ("result", result)],
                count as f64,
            );
        }
        families.gauge(
            "trickster_alb_discovery_last_refresh_success_time_seconds",
            "When the source of an ALB's members last answered",
            &labels,
            row.refreshed.map_or(0.0, unix_seconds),
        );
        families.gauge(
            "ringway_discovery_excluded",
            "What the source names and cannot be a member",
            &labels,
            row.excluded as f64,
        );
    }
    spreads(scene, families);
    for row in scene.discoverers {
        discoverer(row, families);
    }
}

fn spreads(scene: &Scene<'_>, families: &mut Families) {
    let spreads = scene.spreads;
    for (name, help, value) in [
        (
            "ringway_discovery_spread_seconds_sum",
            "Time from news of a source until every shard served it, summed up",
            spreads.sum.as_secs_f64(),
        ),
        (
            "ringway_discovery_spread_seconds_count",
            "Changes of members that every shard serves",
            spreads.count as f64,
        ),
    ] {
        families.counter(name, help, &[], value);
    }
    families.gauge(
        "ringway_discovery_spread_seconds_max",
        "The longest of those times since start",
        &[],
        spreads.longest.as_secs_f64(),
    );
}

fn discoverer(row: &DiscovererRow, families: &mut Families) {
    let labels = [("discoverer", &*row.discoverer), ("provider", row.provider)];
    families.counter(
        "trickster_discovery_refresh_errors_total",
        "Readings of a source that failed",
        &labels,
        row.failures as f64,
    );
    families.gauge(
        "ringway_discovery_refresh_duration_seconds",
        "How long the last reading of a source took; of one that waits for news, the wait too",
        &labels,
        row.took.as_secs_f64(),
    );
}
