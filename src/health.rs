//! Active health checks: what a probe found out, and what that makes of a backend.
//!
//! [`Record`] is the state machine of one backend, pure and without a clock. `probe` asks an origin once,
//! `schedule` decides when, `on_demand` how often an operator may, `page` shows what is known. The record itself lives in `control::state`.
//! Contract: health page, 3.

use std::time::SystemTime;

use ringway_shards::snapshot::Health;

use crate::discovery::Readiness;
use crate::discovery::settings::HealthMode;

pub mod on_demand;
pub mod page;
pub mod probe;
pub mod schedule;

/// Most bytes of an answer a probe reads; a longer body fails where a body is expected.
pub const PROBE_BODY_BYTES_MAX: usize = 64 * 1024;

/// How many results in a row make a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Failures in a row that make a backend unavailable, at least 1.
    pub failure: u32,
    /// Passes in a row that make a backend available, at least 1.
    pub recovery: u32,
}

/// What one probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer was as expected.
    Passed,
    /// It was not, or there was none; says why.
    Failed(String),
}

/// A change of health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    /// Before.
    pub from: Health,
    /// From now on.
    pub to: Health,
    /// How many results in a row it took.
    pub threshold: u32,
}

/// Who decides on a discovered member, and what its source says now. Contract: autodiscovery page, 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Probes or the source.
    pub mode: HealthMode,
    /// What the source says.
    pub ready: Readiness,
}

/// What is known of the health of one backend.
#[derive(Clone, Debug)]
pub struct Record {
    thresholds: Option<Thresholds>,
    standing: Option<Standing>,
    /// A newcomer that its source did not call ready: out until its first pass. Decisions, 32.
    waits: bool,
    health: Health,
    passes: u32,
    failures: u32,
    down_since: Option<SystemTime>,
    detail: String,
}

impl Record {
    /// A backend nothing is known of; `None` where it is not probed, which stays so for ever.
    pub fn new(thresholds: Option<Thresholds>) -> Self {
        Record {
            thresholds,
            standing: None,
            waits: false,
            health: Health::Unknown,
            passes: 0,
            failures: 0,
            down_since: None,
            detail: String::new(),
        }
    }

    /// A discovered member nothing else is known of.
    pub fn discovered(thresholds: Option<Thresholds>, standing: Standing) -> Self {
        let mut record = Record::new(thresholds);
        record.standing = Some(standing);
        match (standing.mode, standing.ready, thresholds) {
            // Nobody would ever find out more: unchecked.
            (HealthMode::Probe, _, None) => {}
            (HealthMode::Probe, Readiness::Ready, Some(_)) => record.health = Health::Available,
            (HealthMode::Probe, _, Some(_)) => record.waits = true,
            (HealthMode::Provider, ready, _) => record.report(ready),
        }
        record
    }

    /// What is known of a discovered member goes on under what its source says now; the flip that makes, if it does.
    pub fn stand(
        &mut self,
        thresholds: Option<Thresholds>,
        standing: Standing,
        at: SystemTime,
    ) -> Option<Flip> {
        let before = self.standing.replace(standing);
        let is_watched = thresholds.is_some() == self.thresholds.is_some();
        if before.map(|before| before.mode) != Some(standing.mode) || !is_watched {
            let from = self.health;
            *self = Record::discovered(thresholds, standing);
            return self.flip_from(from, at);
        }
        self.thresholds = thresholds;
        if before == Some(standing) {
            return None;
        }
        let from = self.health;
        match (standing.mode, standing.ready) {
            // Its own probes have not said anything yet.
            (HealthMode::Probe, Readiness::Ready) if self.waits && self.failures == 0 => {
                self.waits = false;
                self.health = Health::Available;
            }
            (HealthMode::Probe, _) => {}
            (HealthMode::Provider, ready) => self.report(ready),
        }
        self.flip_from(from, at)
    }

    /// Takes over what the source says.
    fn report(&mut self, ready: Readiness) {
        let (health, detail) = match ready {
            Readiness::Ready => (Health::Available, ""),
            Readiness::NotReady => (Health::Unavailable, "reported not ready by its source"),
            Readiness::Unknown => (Health::Unknown, ""),
        };
        self.health = health;
        self.detail = detail.to_owned();
    }

    fn flip_from(&mut self, from: Health, at: SystemTime) -> Option<Flip> {
        let to = self.health;
        if from == to {
            return None;
        }
        self.down_since = (to == Health::Unavailable).then_some(at);
        Some(Flip {
            from,
            to,
            threshold: 1,
        })
    }

    /// The record of the same backend under a new configuration: a verdict is kept, counts begin anew.
    pub fn carried_over(&self, thresholds: Option<Thresholds>) -> Self {
        let mut next = Record::new(thresholds);
        next.standing = self.standing;
        if thresholds.is_some() || self.standing.is_some() {
            next.waits = self.waits && thresholds.is_some();
            next.health = self.health;
            next.down_since = self.down_since;
            next.detail.clone_from(&self.detail);
        }
        next
    }

    /// Takes in one result; the flip it caused, if it did.
    pub fn observe(&mut self, outcome: &Outcome, at: SystemTime) -> Option<Flip> {
        let thresholds = self.thresholds?;
        let (to, threshold) = match outcome {
            Outcome::Passed => {
                self.failures = 0;
                self.passes = self.passes.saturating_add(1);
                let enters = std::mem::take(&mut self.waits);
                if self.passes < thresholds.recovery && !enters {
                    return None;
                }
                let needed = if enters { 1 } else { thresholds.recovery };
                (Health::Available, needed)
            }
            Outcome::Failed(detail) => {
                self.passes = 0;
                self.failures = self.failures.saturating_add(1);
                self.detail.clone_from(detail);
                if self.failures < thresholds.failure {
                    return None;
                }
                (Health::Unavailable, thresholds.failure)
            }
        };
        if to == Health::Available {
            self.detail.clear();
            self.down_since = None;
        }
        if to == self.health {
            return None;
        }
        if to == Health::Unavailable {
            self.down_since = Some(at);
        }
        let from = std::mem::replace(&mut self.health, to);
        Some(Flip {
            from,
            to,
            threshold,
        })
    }

    /// The verdict so far. Who is not yet admitted counts as unavailable, whatever the floor but -1.
    pub fn health(&self) -> Health {
        match self.waits {
            true => Health::Unavailable,
            false => self.health,
        }
    }

    /// Whether it is not yet admitted, and nothing is known against it.
    pub fn is_initializing(&self) -> bool {
        self.waits && self.health == Health::Unknown
    }

    /// Whether anybody says anything of this backend: its probes or its source.
    pub fn is_checked(&self) -> bool {
        let by_source = self.standing.is_some_and(|standing| {
            standing.mode == HealthMode::Provider && standing.ready != Readiness::Unknown
        });
        self.thresholds.is_some() || by_source
    }

    /// Since when it is unavailable.
    pub fn down_since(&self) -> Option<SystemTime> {
        self.down_since
    }

    /// Why the last failed probe failed; empty when it is available.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    const THREE: Thresholds = Thresholds {
        failure: 3,
        recovery: 3,
    };

    /// `+` passes, `-` fails; the health as a number after each result.
    fn walk(record: &mut Record, results: &str) -> Vec<i8> {
        let mut seen = Vec::new();
        for (n, result) in results.chars().enumerate() {
            let outcome = match result {
                '+' => Outcome::Passed,
                _ => Outcome::Failed(format!("failure {n}")),
            };
            let at = UNIX_EPOCH + Duration::from_secs(n as u64);
            record.observe(&outcome, at);
            seen.push(record.health().value());
        }
        seen
    }

    #[test]
    fn transitions_follow_the_contract() {
        let rows: &[(&str, &str, &[i8])] = &[
            (
                "start: passes below the threshold stay unknown",
                "++",
                &[0, 0],
            ),
            (
                "start: recovery_threshold passes make available",
                "+++",
                &[0, 0, 1],
            ),
            (
                "start: failure_threshold failures make unavailable",
                "---",
                &[0, 0, -1],
            ),
            ("start: mixed results stay unknown", "++--++--", &[0; 8]),
            (
                "available: failures below the threshold change nothing",
                "+++--+--",
                &[0, 0, 1, 1, 1, 1, 1, 1],
            ),
            (
                "available: the threshold makes unavailable",
                "+++---",
                &[0, 0, 1, 1, 1, -1],
            ),
            (
                "unavailable: passes below the threshold change nothing",
                "---++-++",
                &[0, 0, -1, -1, -1, -1, -1, -1],
            ),
            (
                "unavailable: the threshold makes available",
                "---+++",
                &[0, 0, -1, -1, -1, 1],
            ),
        ];
        for (name, results, expected) in rows {
            let mut record = Record::new(Some(THREE));
            assert_eq!(walk(&mut record, results), *expected, "{name}");
        }
    }

    #[test]
    fn a_backend_without_probes_stays_unknown() {
        let mut record = Record::new(None);
        assert_eq!(walk(&mut record, "----++++"), [0; 8]);
        assert!(!record.is_checked());
    }

    #[test]
    fn thresholds_count_apart() {
        let mut record = Record::new(Some(Thresholds {
            failure: 1,
            recovery: 2,
        }));
        assert_eq!(walk(&mut record, "+-++-"), [0, -1, -1, 1, -1]);
    }

    #[test]
    fn down_since_is_the_flip_and_detail_the_last_failure() {
        let mut record = Record::new(Some(THREE));
        walk(&mut record, "-----");
        assert_eq!(
            record.down_since(),
            Some(UNIX_EPOCH + Duration::from_secs(2))
        );
        assert_eq!(record.detail(), "failure 4");
        walk(&mut record, "+++");
        assert_eq!(record.down_since(), None);
        assert_eq!(record.detail(), "");
    }

    #[test]
    fn only_a_change_is_a_flip() {
        let mut record = Record::new(Some(THREE));
        let pass = Outcome::Passed;
        assert_eq!(record.observe(&pass, UNIX_EPOCH), None);
        assert_eq!(record.observe(&pass, UNIX_EPOCH), None);
        assert_eq!(
            record.observe(&pass, UNIX_EPOCH),
            Some(Flip {
                from: Health::Unknown,
                to: Health::Available,
                threshold: 3
            })
        );
        assert_eq!(record.observe(&pass, UNIX_EPOCH), None);
    }

    const PROBE: HealthMode = HealthMode::Probe;
    const PROVIDER: HealthMode = HealthMode::Provider;

    fn found(mode: HealthMode, ready: Readiness, probed: bool) -> Record {
        Record::discovered(probed.then_some(THREE), Standing { mode, ready })
    }

    fn stands(record: &mut Record, mode: HealthMode, ready: Readiness, probed: bool) -> i8 {
        let standing = Standing { mode, ready };
        record.stand(probed.then_some(THREE), standing, UNIX_EPOCH);
        record.health().value()
    }

    #[test]
    fn newcomers_enter_as_their_source_and_their_mode_say() {
        use Readiness::{NotReady, Ready, Unknown};
        for (mode, ready, probed, health, initializing) in [
            (PROBE, Ready, true, 1, false),
            (PROBE, NotReady, true, -1, true),
            (PROBE, Unknown, true, -1, true),
            (PROBE, Ready, false, 0, false),
            (PROBE, NotReady, false, 0, false),
            (PROVIDER, Ready, false, 1, false),
            (PROVIDER, NotReady, false, -1, false),
            (PROVIDER, Unknown, false, 0, false),
            (PROVIDER, Unknown, true, 0, false),
        ] {
            let record = found(mode, ready, probed);
            let seen = (record.health().value(), record.is_initializing());
            assert_eq!(seen, (health, initializing), "{mode:?} {ready:?} {probed}");
        }
    }

    #[test]
    fn who_waits_enters_with_its_first_pass() {
        let mut record = found(PROBE, Readiness::Unknown, true);
        assert_eq!(walk(&mut record, "-+-+"), [-1, 1, 1, 1]);
        // Down first: the first pass admits it all the same, then thresholds count.
        let mut record = found(PROBE, Readiness::NotReady, true);
        assert_eq!(walk(&mut record, "---+---+"), [-1, -1, -1, 1, 1, 1, -1, -1]);
    }

    #[test]
    fn a_source_that_changes_its_mind_admits_only_whom_no_probe_has_seen() {
        use Readiness::{NotReady, Ready};
        let mut record = found(PROBE, NotReady, true);
        assert_eq!(stands(&mut record, PROBE, Ready, true), 1);
        assert_eq!(stands(&mut record, PROBE, NotReady, true), 1);
        let mut record = found(PROBE, NotReady, true);
        walk(&mut record, "-");
        assert_eq!(stands(&mut record, PROBE, Ready, true), -1);

        let mut record = found(PROVIDER, Ready, false);
        assert_eq!(stands(&mut record, PROVIDER, NotReady, false), -1);
        assert_eq!(record.detail(), "reported not ready by its source");
        assert!(record.down_since().is_some());
        assert_eq!(stands(&mut record, PROVIDER, Ready, false), 1);
        assert_eq!(record.detail(), "");
    }

    #[test]
    fn a_reload_keeps_the_verdict_but_not_the_counts() {
        let mut record = Record::new(Some(THREE));
        walk(&mut record, "---++");
        let mut next = record.carried_over(Some(THREE));
        assert_eq!(next.health(), Health::Unavailable);
        assert_eq!(next.down_since(), record.down_since());
        assert_eq!(walk(&mut next, "++"), [-1, -1]);
        assert_eq!(record.carried_over(None).health(), Health::Unknown);
    }
}
