//! Metrics of the control core: health, pools, reloads, shards, process.

use ringway_shards::plan::BackendKind;

use super::{Counts, Families, PROBE_BUCKETS_S, Scene};
use crate::control::reload::DURATION_BUCKETS_S;
use crate::utc::unix_seconds;

/// Puts all of them into `families`.
pub(super) fn collect(scene: &Scene<'_>, families: &mut Families) {
    health(scene, families);
    floors(scene, families);
    pools(scene, families);
    reloads(scene, families);
    passwords(scene, families);
    lookups(scene, families);
    shards(scene, families);
    process(scene, families);
}

fn health(scene: &Scene<'_>, families: &mut Families) {
    let Some(table) = scene.state.table() else {
        return;
    };
    for (backend, _) in scene.state.backends() {
        let state = table.backend(backend.id);
        let labels = [("backend_name", &*backend.name)];
        families.gauge(
            "ringway_healthcheck_target_state",
            "Health of a backend: -1 unavailable, 0 unknown, 1 available",
            &labels,
            f64::from(state.health.value()),
        );
        if matches!(backend.kind, BackendKind::Origin(_)) {
            families.gauge(
                "ringway_backend_addresses",
                "Addresses an origin's host name resolves to",
                &labels,
                state.addresses.len() as f64,
            );
        }
    }
    for (name, counts) in scene.probes {
        families.histogram(
            "trickster_healthcheck_probe_latency_seconds",
            "How long probes took",
            &[("backend_name", name)],
            &Counts {
                bounds: &PROBE_BUCKETS_S,
                buckets: &counts.duration_buckets,
                sum: counts.duration_sum_s,
            },
        );
        for (result, count) in [("pass", counts.passed), ("fail", counts.failed)] {
            families.counter(
                "ringway_healthcheck_probes_total",
                "Probes by result",
                &[("backend_name", name), ("result", result)],
                count as f64,
            );
        }
        families.counter(
            "trickster_healthcheck_probe_panic_recovered_total",
            "Probes ended by a panic that was caught",
            &[("backend_name", name)],
            counts.panicked as f64,
        );
    }
}

fn floors(scene: &Scene<'_>, families: &mut Families) {
    for floor in scene.settings.iter().flat_map(|settings| &settings.floors) {
        let labels = [("backend_name", &*floor.alb_name)];
        families.gauge(
            "trickster_alb_pool_admits_failing",
            "1 when an ALB's healthy_floor admits members whose probes fail",
            &labels,
            f64::from(u8::from(floor.admits_failing())),
        );
        families.gauge(
            "trickster_alb_pool_floor_reset",
            "1 when an ALB's healthy_floor was reset to 0 because members are not probed",
            &labels,
            f64::from(u8::from(floor.was_reset())),
        );
        families.gauge(
            "ringway_alb_effective_floor",
            "Lowest health a member of an ALB's pool may have",
            &labels,
            f64::from(floor.effective),
        );
    }
}

fn pools(scene: &Scene<'_>, families: &mut Families) {
    let (Some(plan), Some(table)) = (scene.state.plan(), scene.state.table()) else {
        return;
    };
    for backend in &plan.backends {
        let BackendKind::Alb(alb) = &backend.kind else {
            continue;
        };
        let labels = [
            ("backend_name", &*backend.name),
            ("mechanism", alb.mechanism.name()),
        ];
        families.gauge(
            "ringway_alb_live_members",
            "Members of an ALB's pool that get requests",
            &labels,
            table.pool(alb.pool).live.len() as f64,
        );
        families.gauge(
            "ringway_alb_configured_members",
            "Members of an ALB's pool as configured",
            &labels,
            plan.pools[alb.pool.0 as usize].members.len() as f64,
        );
    }
    for standing in scene.state.ejections().standings() {
        let labels = [("alb_name", standing.alb), ("member", standing.member)];
        families.gauge(
            "ringway_alb_member_ejected",
            "1 while a pool leaves a member out because its connections fail",
            &labels,
            f64::from(u8::from(standing.is_out)),
        );
        families.counter(
            "trickster_alb_member_ejections_total",
            "How often a pool began to leave a member out",
            &labels,
            standing.ejections as f64,
        );
    }
    families.gauge(
        "ringway_plan_generation",
        "Number of the configuration in force, counted since start",
        &[],
        plan.generation.0 as f64,
    );
    families.counter(
        "ringway_pool_tables_total",
        "Pool tables published under the configuration in force",
        &[],
        table.version as f64,
    );
}

fn reloads(scene: &Scene<'_>, families: &mut Families) {
    let reloads = scene.reloads;
    families.gauge(
        "trickster_config_last_reload_successful",
        "1 when the last configuration read was taken into force",
        &[],
        f64::from(u8::from(reloads.last_successful == Some(true))),
    );
    families.gauge(
        "trickster_config_last_reload_success_time_seconds",
        "When a configuration was last taken into force",
        &[],
        reloads.last_success.map_or(0.0, unix_seconds),
    );
    for (name, help, count) in [
        (
            "trickster_config_reload_attempts_total",
            "Configurations read, the first included",
            reloads.successes + reloads.failures,
        ),
        (
            "trickster_config_reload_successes_total",
            "Configurations taken into force, the first included",
            reloads.successes,
        ),
        (
            "trickster_config_reload_failures_total",
            "Configurations refused",
            reloads.failures,
        ),
    ] {
        families.counter(name, help, &[], count as f64);
    }
    families.histogram(
        "trickster_config_reload_duration_seconds",
        "Time from reading a configuration to serving or refusing it",
        &[],
        &Counts {
            bounds: &DURATION_BUCKETS_S,
            buckets: &reloads.duration_buckets,
            sum: reloads.duration_sum_s,
        },
    );
}

fn passwords(scene: &Scene<'_>, families: &mut Families) {
    let tally = scene.passwords;
    for (result, count) in [
        ("match", tally.matched),
        ("mismatch", tally.mismatched),
        ("busy", tally.turned_away),
    ] {
        families.counter(
            "ringway_password_checks_total",
            "Passwords compared with hashes, by result",
            &[("result", result)],
            count as f64,
        );
    }
}

fn lookups(scene: &Scene<'_>, families: &mut Families) {
    let tally = scene.lookups;
    for (result, count) in [
        ("ok", tally.ok),
        ("failed", tally.failed),
        ("refused", tally.refused),
    ] {
        families.counter(
            "ringway_lookups_total",
            "Hosts made by rewriters that the resolver was asked for, by result",
            &[("result", result)],
            count as f64,
        );
    }
}

fn shards(scene: &Scene<'_>, families: &mut Families) {
    for (id, driver) in scene.drivers.iter().enumerate() {
        let Some(driver) = driver else { continue };
        families.gauge(
            "ringway_shard_driver_info",
            "1 for the driver that moves a shard's bytes",
            &[("shard", &id.to_string()), ("driver", driver.name())],
            1.0,
        );
    }
    families.gauge(
        "ringway_shards",
        "Shards of this process",
        &[],
        scene.drivers.len() as f64,
    );
    families.gauge(
        "ringway_scrape_shards_missing",
        "Shards that did not answer this scrape in time; their counts are not in it",
        &[],
        scene.drivers.len().saturating_sub(scene.shards.len()) as f64,
    );
    let plan = scene.state.plan();
    let limits = plan
        .iter()
        .flat_map(|plan| plan.listeners.iter())
        .filter_map(|listener| listener.connections_limit);
    families.gauge(
        "trickster_proxy_max_connections",
        "Sum of the connection limits of all listeners that have one",
        &[],
        limits.map(f64::from).sum(),
    );
}

fn process(scene: &Scene<'_>, families: &mut Families) {
    families.gauge(
        "trickster_build_info",
        "1, labelled with what is running",
        &[
            ("goversion", ""),
            ("revision", option_env!("RINGWAY_REVISION").unwrap_or("")),
            ("version", env!("CARGO_PKG_VERSION")),
        ],
        1.0,
    );
    families.counter(
        "ringway_log_dropped_lines_total",
        "Log lines dropped because the sink was too slow",
        &[],
        scene.log_lines_dropped as f64,
    );
    families.gauge(
        "process_start_time_seconds",
        "When the process started",
        &[],
        unix_seconds(scene.started),
    );
    let process = &scene.process;
    if let Some(seconds) = process.cpu_seconds {
        families.counter(
            "process_cpu_seconds_total",
            "User and system time of all threads",
            &[],
            seconds,
        );
    }
    for (name, help, value) in [
        (
            "process_resident_memory_bytes",
            "Resident memory",
            process.resident_bytes,
        ),
        (
            "process_virtual_memory_bytes",
            "Address space",
            process.virtual_bytes,
        ),
        ("process_open_fds", "Open descriptors", process.open_fds),
        ("process_max_fds", "Most descriptors", process.max_fds),
        ("process_threads", "Threads", process.threads),
    ] {
        if let Some(value) = value {
            families.gauge(name, help, &[], value as f64);
        }
    }
}
