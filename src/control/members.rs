//! Discovered members: from a snapshot to backends, and from backends to a plan.
//!
//! Owns, for each ALB with discovery, the snapshot that is applied and the backend of each of its members. Pure: no
//! I/O and no clock. Called by `control::run::discover`, which starts and stops what belongs to a member. Promises:
//! a failed reading never gets here; a snapshot is applied whole or not at all; a member that stays keeps its backend
//! as it is, and its name over a change of address. Bounds a pool by [`MEMBERS_MAX`]. Contract: autodiscovery page, 4.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ringway_shards::plan::{Backend, BackendId, Plan, PoolMember, PoolPlan};

use super::publish::{TURNS_MAX, rotation_length};
use crate::compile::templates::Template;
use crate::compile::{ControlSettings, HealthCheck};
use crate::discovery::settings::{AlbDiscovery, HealthMode};
use crate::discovery::snapshot::{Snapshot, names};
use crate::discovery::{Member, Readiness};
use crate::health::Standing;

/// Most members that one ALB may discover.
pub const MEMBERS_MAX: usize = 10_000;

/// All discovered members under one configuration.
#[derive(Debug, Default)]
pub struct Members {
    settings: Option<Arc<ControlSettings>>,
    /// How many backends the configuration itself has; their ids come first.
    statics: usize,
    static_pools: Vec<PoolPlan>,
    /// Names that members may not have.
    reserved: HashSet<Box<str>>,
    /// In the order of `settings.discovery.albs`.
    albs: Vec<AlbMembers>,
    /// Of each discovered backend, by id from `statics` on: its ALB and its name.
    places: Vec<(usize, Box<str>)>,
}

/// The members of one ALB.
#[derive(Debug)]
struct AlbMembers {
    name: Box<str>,
    applied: Snapshot,
    known: BTreeMap<Box<str>, Known>,
}

#[derive(Clone, Debug)]
struct Known {
    member: Member,
    backend: Arc<Backend>,
}

/// What became of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in force already.
    Unchanged,
    /// It is not applied; says why.
    Rejected(String),
    /// It is in force from the next plan on.
    Applied(Difference),
}

/// What a snapshot changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Names of new backends, and where they are.
    pub added: Vec<(Box<str>, String)>,
    /// Names of backends that are gone, and where they were.
    pub removed: Vec<(Box<str>, String)>,
    /// Names of backends that were made anew in place, and where they are now.
    pub rebuilt: Vec<(Box<str>, String)>,
    /// Members that could not be made, and why.
    pub failed: Vec<(Box<str>, String)>,
}

/// A discovered backend, as others need to know it.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Name of its ALB.
    pub alb: &'a str,
    /// Name of the discoverer.
    pub discoverer: &'a str,
    /// What the source says of it.
    pub member: &'a Member,
}

impl Members {
    /// The members under the configuration of `plan`, which has none yet: those of `before` whose ALB still discovers,
    /// made anew by the template of now. So a pool is never empty for a reload.
    pub fn new(plan: &Plan, settings: Arc<ControlSettings>, before: &Members) -> Members {
        let mut reserved: HashSet<Box<str>> =
            plan.backends.iter().map(|b| b.name.clone()).collect();
        reserved.extend(settings.templates.iter().map(|t| t.name().into()));
        let albs = settings.discovery.albs.iter().map(|(_, alb)| AlbMembers {
            name: alb.alb_name.clone(),
            applied: Snapshot::default(),
            known: BTreeMap::new(),
        });
        let mut members = Members {
            albs: albs.collect(),
            settings: Some(settings),
            statics: plan.backends.len(),
            static_pools: plan.pools.clone(),
            reserved,
            places: Vec::new(),
        };
        for index in 0..members.albs.len() {
            let name = &members.albs[index].name;
            let known = before.albs.iter().find(|alb| alb.name == *name);
            let snapshot = known.map(|alb| alb.applied.clone()).unwrap_or_default();
            let names: HashMap<String, Box<str>> = known
                .into_iter()
                .flat_map(|alb| &alb.known)
                .map(|(name, known)| (known.member.key(), name.clone()))
                .collect();
            members.fill(index, &snapshot, &names);
        }
        members
    }

    /// Offers a snapshot of what an ALB's query found. `is_first` says that nothing of this query was applied yet, so
    /// that how much it takes away says nothing.
    pub fn offer(&mut self, alb: usize, snapshot: &Snapshot, is_first: bool) -> Verdict {
        let Some(settings) = self.alb_settings(alb) else {
            return Verdict::Unchanged;
        };
        let own = &self.albs[alb];
        let is_whole = own.known.len() == own.applied.members().len();
        if own.applied == *snapshot && is_whole {
            return Verdict::Unchanged;
        }
        if let Some(why) = refusal(own, snapshot, settings, is_first) {
            return Verdict::Rejected(why);
        }
        Verdict::Applied(self.fill(alb, snapshot, &HashMap::new()))
    }

    /// Index of the ALB of this name among those that discover.
    pub fn alb(&self, name: &str) -> Option<usize> {
        self.albs.iter().position(|alb| *alb.name == *name)
    }

    /// How many members an ALB has applied.
    pub fn count(&self, alb: usize) -> usize {
        self.albs.get(alb).map_or(0, |alb| alb.known.len())
    }

    /// `base` with the members of now. Everything but backends and pools is shared with it.
    pub fn plan(&self, base: &Plan) -> Plan {
        let mut backends: Vec<Arc<Backend>> = base.backends[..self.statics].to_vec();
        backends.extend(
            self.places
                .iter()
                .map(|(alb, name)| self.albs[*alb].known[name].backend.clone()),
        );
        let mut pools = self.static_pools.clone();
        for (index, alb) in self.albs.iter().enumerate() {
            let Some((pool, _)) = self
                .settings
                .as_ref()
                .and_then(|s| s.discovery.albs.get(index))
            else {
                continue;
            };
            let pool = &mut pools[pool.0 as usize];
            let found = alb.known.values().map(|known| PoolMember {
                backend: known.backend.id,
                weight: known.member.weight.max(1),
            });
            pool.members.extend(found);
            fit_rotation(&mut pool.members);
        }
        Plan {
            generation: base.generation,
            server_name: base.server_name.clone(),
            listeners: base.listeners.clone(),
            backends,
            authenticators: base.authenticators.clone(),
            rewritten_hosts: base.rewritten_hosts.clone(),
            pools,
        }
    }

    /// The probe of a discovered backend, if anybody probes it: the source decides where it was told to and says
    /// anything. Decisions, 34.
    pub fn check(&self, name: &str) -> Option<HealthCheck> {
        let (alb, known) = self.known(name)?;
        let settings = self.alb_settings(alb)?;
        let by_probe = match settings.health_mode {
            HealthMode::Probe => true,
            HealthMode::Provider => known.member.ready == Readiness::Unknown,
        };
        let template = self.template(alb)?;
        let check = by_probe.then(|| template.check(&known.backend))?;
        check.interval.is_some().then_some(check)
    }

    /// The check of a discovered backend on demand, whoever decides on its health.
    pub fn check_on_demand(&self, name: &str) -> Option<HealthCheck> {
        let (alb, known) = self.known(name)?;
        Some(self.template(alb)?.check(&known.backend))
    }

    /// Names of all discovered backends.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|(_, name)| &**name)
    }

    /// What the source says of a backend; `None` for a configured one.
    pub fn found(&self, name: &str) -> Option<Found<'_>> {
        let (alb, known) = self.known(name)?;
        let settings = self.alb_settings(alb)?;
        let all = self.settings.as_ref()?;
        Some(Found {
            alb: &self.albs[alb].name,
            discoverer: &all.discovery.discoverers.get(settings.discoverer)?.name,
            member: &known.member,
        })
    }

    /// What sources say, by backend.
    pub fn standings(&self) -> BTreeMap<Box<str>, Standing> {
        let mut standings = BTreeMap::new();
        for (index, alb) in self.albs.iter().enumerate() {
            let Some(settings) = self.alb_settings(index) else {
                continue;
            };
            let mode = settings.health_mode;
            standings.extend(alb.known.iter().map(|(name, known)| {
                let ready = known.member.ready;
                (name.clone(), Standing { mode, ready })
            }));
        }
        standings
    }

    fn known(&self, name: &str) -> Option<(usize, &Known)> {
        let found =
            |(index, alb): (usize, &'_ AlbMembers)| alb.known.contains_key(name).then_some(index);
        let index = self.albs.iter().enumerate().find_map(found)?;
        Some((index, self.albs[index].known.get(name)?))
    }

    fn alb_settings(&self, alb: usize) -> Option<&AlbDiscovery> {
        let settings = self.settings.as_ref()?;
        settings.discovery.albs.get(alb).map(|(_, alb)| alb)
    }

    fn template(&self, alb: usize) -> Option<&Template> {
        let settings = self.settings.as_ref()?;
        let name = &self.alb_settings(alb)?.template;
        settings.templates.iter().find(|t| *t.name() == **name)
    }

    /// Makes the members of one ALB those of `snapshot`. `named` are names that keys had before.
    fn fill(
        &mut self,
        alb: usize,
        snapshot: &Snapshot,
        named: &HashMap<String, Box<str>>,
    ) -> Difference {
        let before = std::mem::take(&mut self.albs[alb].known);
        let keys: HashMap<&Box<str>, String> = before
            .iter()
            .map(|(name, known)| (name, known.member.key()))
            .collect();
        let held: HashMap<&str, &String> = named.iter().map(|(key, name)| (&**name, key)).collect();
        let holder = |name: &str| {
            let name: Box<str> = name.into();
            let key = keys.get(&name).or_else(|| held.get(&*name).copied());
            key.cloned()
        };
        let taken = |name: &str| {
            let others = self.albs.iter().any(|alb| alb.known.contains_key(name));
            others || self.reserved.contains(name)
        };
        let names = names(&self.albs[alb].name, snapshot, holder, taken);
        let mut difference = Difference::default();
        let mut known: BTreeMap<Box<str>, Known> = BTreeMap::new();
        for (member, name) in snapshot.members().iter().zip(names) {
            let old = before.get(&name);
            match self.entry(alb, &name, member, old, &mut difference) {
                Ok(entry) => {
                    known.insert(name, entry);
                }
                Err(why) => difference.failed.push((name, why)),
            }
        }
        for (name, gone) in &before {
            if !known.contains_key(name) {
                difference.removed.push((name.clone(), gone.member.key()));
            }
        }
        self.albs[alb].known = known;
        self.albs[alb].applied = snapshot.clone();
        self.settle_places(alb, &difference);
        difference
    }

    /// The entry of a member: the old one's backend where nothing that it is made of has changed.
    fn entry(
        &self,
        alb: usize,
        name: &str,
        member: &Member,
        old: Option<&Known>,
        difference: &mut Difference,
    ) -> Result<Known, String> {
        let stays = old.filter(|old| {
            old.member.key() == member.key() && old.member.replica_group == member.replica_group
        });
        if let Some(old) = stays {
            return Ok(Known {
                member: member.clone(),
                backend: old.backend.clone(),
            });
        }
        let template = self.template(alb).ok_or("its template is gone")?;
        // A new one gets its id with its place.
        let id = old.map_or(BackendId(u32::MAX), |old| old.backend.id);
        let backend = Arc::new(template.backend(id, name, member)?);
        let list = match old {
            Some(_) => &mut difference.rebuilt,
            None => &mut difference.added,
        };
        list.push((name.into(), member.key()));
        Ok(Known {
            member: member.clone(),
            backend,
        })
    }

    /// Ids have no holes: the last take the places of those that are gone, and new ones come behind.
    fn settle_places(&mut self, alb: usize, difference: &Difference) {
        let gone: HashSet<&str> = difference.removed.iter().map(|(name, _)| &**name).collect();
        let mut index = 0;
        while index < self.places.len() {
            let (owner, name) = &self.places[index];
            if *owner == alb && gone.contains(&**name) {
                self.places.swap_remove(index);
            } else {
                index += 1;
            }
        }
        let new = difference.added.iter().map(|(name, _)| (alb, name.clone()));
        self.places.extend(new);
        for (index, (owner, name)) in self.places.iter().enumerate() {
            let id = BackendId(u32::try_from(self.statics + index).unwrap_or(u32::MAX));
            if let Some(known) = self.albs[*owner].known.get_mut(name)
                && known.backend.id != id
            {
                known.backend = Arc::new(moved(&known.backend, id));
            }
        }
    }
}

/// Why a snapshot is not applied, if it is not.
fn refusal(
    own: &AlbMembers,
    snapshot: &Snapshot,
    settings: &AlbDiscovery,
    is_first: bool,
) -> Option<String> {
    let (before, now) = (own.known.len(), snapshot.members().len());
    if now > MEMBERS_MAX {
        return Some(format!("{now} members, more than {MEMBERS_MAX}"));
    }
    if now < settings.min_members {
        return Some(format!(
            "{now} members, fewer than min_members ({})",
            settings.min_members
        ));
    }
    if is_first || settings.max_shrink_percent >= 100 {
        return None;
    }
    let keys: HashSet<String> = snapshot.members().iter().map(Member::key).collect();
    let gone = own
        .known
        .values()
        .filter(|known| !keys.contains(&known.member.key()));
    let gone = gone.count();
    let percent = usize::from(settings.max_shrink_percent);
    (gone * 100 > before * percent).then(|| {
        format!(
            "{gone} of {before} members would leave at once, more than max_shrink ({percent} %); a reload of the \
             configuration applies it"
        )
    })
}

/// The same backend under another id.
fn moved(backend: &Backend, id: BackendId) -> Backend {
    use ringway_shards::plan::BackendKind;
    Backend {
        id,
        name: backend.name.clone(),
        provider_label: backend.provider_label,
        replica_group: backend.replica_group.clone(),
        capture_bytes_max: backend.capture_bytes_max,
        paths: backend.paths.clone(),
        latency: backend.latency,
        compressible_types: backend.compressible_types.clone(),
        kind: match &backend.kind {
            BackendKind::Origin(origin) => BackendKind::Origin(origin.clone()),
            BackendKind::Alb(_) | BackendKind::Rule(_) => {
                unreachable!("only origins are discovered")
            }
        },
    }
}

/// Weights of a source are not checked when the configuration is: where a rotation over them would be too long, they
/// are made smaller in proportion.
fn fit_rotation(members: &mut [PoolMember]) {
    let length = rotation_length(members.iter().map(|member| member.weight));
    if length <= TURNS_MAX {
        return;
    }
    // Whole turns of at least 1 each: so those of the heavy share what the light ones leave.
    let room = TURNS_MAX.saturating_sub(members.len() as u64).max(1);
    let total: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
    for member in members {
        let share = u64::from(member.weight) * room / total;
        member.weight = u32::try_from(share.max(1)).unwrap_or(1);
    }
}

#[cfg(test)]
mod tests;
