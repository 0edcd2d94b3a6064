//! Core lists and thread affinity.
//!
//! The door to `core_affinity`. Called by the shards' spawn code and by the control core at start.

/// Processors this process may run on, in ascending order; empty when the kernel will not say.
pub fn usable_cpus() -> Vec<usize> {
    let mut cpus: Vec<usize> = core_affinity::get_core_ids()
        .unwrap_or_default()
        .into_iter()
        .map(|core| core.id)
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Pins the calling thread to one processor. False when the kernel refused.
pub fn pin_current(cpu: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: cpu })
}
