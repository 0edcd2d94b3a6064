//! Section `shards`: which processors the shards and the control thread get.

use ringway_shards::spawn::{DriverChoice, ShardOptions};
use serde_json::Value as Json;

use super::context::Context;
use super::effective::Provenance;
use crate::config::units::parse_cpus;
use crate::config::{Caution, Fault, Path, defaults};

/// Shards as compiled.
pub(super) struct Shards {
    pub(super) options: ShardOptions,
    pub(super) control_cpu: Option<usize>,
}

/// `auto` is all usable processors, less the control thread's where there are more than two.
pub(super) fn compile(context: &mut Context<'_>) -> Shards {
    let at = Path::of(&["shards"]);
    let written = &context.document.written.shards;
    let pin = context.pick(&at.key("pin"), written.pin, defaults::SHARD_PIN);
    let driver = context.pick_text(
        &at.key("driver"),
        written.driver.as_deref(),
        defaults::SHARD_DRIVER,
    );
    let listed = written.cpus.as_deref().and_then(parse_cpus);
    if let Some(cpus) = &listed {
        check_cpus(context, &at.key("cpus"), cpus);
        context.note_written(&at.key("cpus"), Json::from(cpus.clone()));
    }
    let control_cpu = control_cpu(context, &at.key("control_cpu"), listed.as_deref());
    let cpus = listed.unwrap_or_else(|| {
        let own = |cpu: &usize| Some(*cpu) != control_cpu;
        context
            .inputs
            .host
            .cpus
            .iter()
            .copied()
            .filter(own)
            .collect()
    });
    let count = match written.count.as_deref().map(str::parse::<usize>) {
        Some(Ok(count)) => {
            context.note_written(&at.key("count"), Json::from(count));
            count
        }
        // `auto`, written or not.
        _ => {
            let count = cpus.len().max(1);
            let from = Provenance::Derived("auto: one for each processor".into());
            context.note(&at.key("count"), Json::from(count), from);
            count
        }
    };
    let cpus = places(context, &at, count, pin, &cpus);
    Shards {
        options: ShardOptions {
            cpus,
            driver: match driver.as_str() {
                "io_uring" => DriverChoice::IoUring,
                "epoll" => DriverChoice::Epoll,
                _ => DriverChoice::Auto,
            },
        },
        control_cpu: control_cpu.filter(|_| pin),
    }
}

/// Listed processors must be usable and different.
fn check_cpus(context: &mut Context<'_>, at: &Path, cpus: &[usize]) {
    for (index, cpu) in cpus.iter().enumerate() {
        check_usable(context, at, *cpu);
        if cpus[..index].contains(cpu) {
            context.fail_value(at, Fault::CpuTwice { cpu: *cpu });
        }
    }
}

fn check_usable(context: &mut Context<'_>, at: &Path, cpu: usize) {
    let usable = &context.inputs.host.cpus;
    // Where the kernel does not say, nothing can be checked.
    if usable.is_empty() || usable.contains(&cpu) {
        return;
    }
    let usable: Vec<String> = usable.iter().map(usize::to_string).collect();
    let usable = usable.join(",");
    context.fail_value(at, Fault::UnknownCpu { cpu, usable });
}

/// The written one, or the first that is not listed where there are more than two.
fn control_cpu(context: &mut Context<'_>, at: &Path, listed: Option<&[usize]>) -> Option<usize> {
    if let Some(cpu) = context.document.written.shards.control_cpu {
        check_usable(context, at, cpu);
        if listed.is_some_and(|cpus| cpus.contains(&cpu)) {
            context.fail_value(at, Fault::ControlCpuTaken { cpu });
        }
        context.note_written(at, Json::from(cpu));
        return Some(cpu);
    }
    let usable = &context.inputs.host.cpus;
    let free = |cpu: &&usize| !listed.unwrap_or_default().contains(cpu);
    let cpu = match usable.len() {
        0..=2 => None,
        _ => usable.iter().find(free).copied(),
    };
    if let Some(cpu) = cpu {
        let from = Provenance::Derived("the first processor without a shard".into());
        context.note(at, Json::from(cpu), from);
    }
    cpu
}

/// A processor for each shard.
fn places(
    context: &mut Context<'_>,
    at: &Path,
    count: usize,
    pin: bool,
    cpus: &[usize],
) -> Vec<Option<usize>> {
    if !pin || cpus.is_empty() {
        return vec![None; count];
    }
    if count > cpus.len() {
        let (at, listed) = (at.key("count"), at.key("cpus"));
        let cpus = cpus.len();
        if context.document.written_at(&listed).is_some() {
            context.fail_value(&at, Fault::TooFewCpus { count, cpus });
        } else {
            context.warn_key(&at, Caution::SharedCpus { count, cpus });
        }
    }
    cpus.iter().copied().map(Some).cycle().take(count).collect()
}
