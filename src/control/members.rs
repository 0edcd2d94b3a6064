//! Discovered members: from a snapshot to backends, and from backends to a plan.
//!
//! Owns, for each ALB with discovery, the snapshot that is applied and the backend of each of its members. Pure: no
//! I/O and no clock. Called by `control::run::discover`, which starts and stops what belongs to a member. Promises:
//! a failed reading never gets here; a snapshot is applied whole or not at all; a member that stays keeps its backend
//! as it is, and its name over a change of address. Bounds a pool by [`MEMBERS_MAX`]. Contract: autodiscovery page, 4.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use ringway_shards::plan::{Backend, BackendId, Plan, PoolMember, PoolPlan};

use super::publish::{TURNS_MAX, rotation_length};
use crate::compile::templates::Template;
use crate::compile::{ControlSettings, HealthCheck};
use crate::discovery::settings::{AlbDiscovery, HealthMode};
use crate::discovery::snapshot::{Changes, Entry, Snapshot, backend_name};
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
    /// Of each discovered backend, by id from `statics` on.
    places: Vec<Place>,
}

/// A discovered backend.
#[derive(Debug)]
struct Place {
    alb: usize,
    backend: Arc<Backend>,
}

/// The members of one ALB.
#[derive(Debug)]
struct AlbMembers {
    name: Box<str>,
    applied: Snapshot,
    /// By name of the backend.
    known: BTreeMap<Box<str>, Known>,
    /// Names by key.
    names: HashMap<Box<str>, Box<str>>,
}

#[derive(Debug)]
struct Known {
    entry: Arc<Entry>,
    /// Index of its backend in [`Members::places`].
    place: usize,
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
            names: HashMap::new(),
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
            if let Some(known) = before.albs.iter().find(|alb| alb.name == *name) {
                members.fill(index, &known.applied, &known.names);
            }
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
        if own.applied == *snapshot && own.is_whole() {
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
        backends.extend(self.places.iter().map(|place| place.backend.clone()));
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
                backend: self.places[known.place].backend.id,
                weight: known.entry.member.weight.max(1),
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
        let template = self.template(alb)?;
        let is_probed = template.is_probed() && is_by_probe(settings, known);
        is_probed.then(|| template.check(self.backend(known)))
    }

    /// All discovered backends, and whether each is probed.
    pub fn probed(&self) -> impl Iterator<Item = (&str, bool)> {
        let albs = self.albs.iter().enumerate();
        let settled = albs.filter_map(|(index, alb)| {
            let is_probed = self.template(index)?.is_probed();
            Some((alb, self.alb_settings(index)?, is_probed))
        });
        settled.flat_map(|(alb, settings, is_probed)| {
            let known = alb.known.iter();
            known.map(move |(name, known)| (&**name, is_probed && is_by_probe(settings, known)))
        })
    }

    /// Hosts that probes of discovered backends go to, where a template names one for all of them.
    pub fn probe_hosts(&self) -> impl Iterator<Item = &str> {
        let albs = self.albs.iter().enumerate();
        let in_use = albs.filter(|(_, alb)| !alb.known.is_empty());
        in_use.filter_map(|(index, _)| self.template(index)?.probe_host())
    }

    /// The check of a discovered backend on demand, whoever decides on its health.
    pub fn check_on_demand(&self, name: &str) -> Option<HealthCheck> {
        let (alb, known) = self.known(name)?;
        Some(self.template(alb)?.check(self.backend(known)))
    }

    /// Names of all discovered backends.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|place| &*place.backend.name)
    }

    /// What the source says of a backend; `None` for a configured one.
    pub fn found(&self, name: &str) -> Option<Found<'_>> {
        let (alb, known) = self.known(name)?;
        let settings = self.alb_settings(alb)?;
        let all = self.settings.as_ref()?;
        Some(Found {
            alb: &self.albs[alb].name,
            discoverer: &all.discovery.discoverers.get(settings.discoverer)?.name,
            member: &known.entry.member,
        })
    }

    /// What sources say, by backend.
    pub fn standings(&self) -> HashMap<Box<str>, Standing> {
        let mut standings = HashMap::new();
        for (index, alb) in self.albs.iter().enumerate() {
            let Some(settings) = self.alb_settings(index) else {
                continue;
            };
            let mode = settings.health_mode;
            standings.extend(alb.known.iter().map(|(name, known)| {
                let ready = known.entry.member.ready;
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

    fn backend(&self, known: &Known) -> &Backend {
        &self.places[known.place].backend
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

    /// Makes the members of one ALB those of `snapshot`. `wished` are names of keys from before.
    fn fill(
        &mut self,
        alb: usize,
        snapshot: &Snapshot,
        wished: &HashMap<Box<str>, Box<str>>,
    ) -> Difference {
        let mut difference = Difference::default();
        let own = &self.albs[alb];
        let applied = own.applied.clone();
        let changes = match own.is_whole() {
            true => snapshot.changes_since(&applied),
            // Who could not be made is tried again.
            false => Changes {
                gone: snapshot.changes_since(&applied).gone,
                come: snapshot.entries().iter().collect(),
            },
        };
        // Another name at an address is another member: addresses are used again. Names of those that are gone are free
        // for newcomers.
        let is_renamed = |entry: &&&Arc<Entry>| {
            let known = own
                .names
                .get(&entry.key)
                .and_then(|name| own.known.get(name));
            known.is_some_and(|known| known.entry.member.name != entry.member.name)
        };
        let renamed = changes.come.iter().filter(is_renamed);
        let keys = changes.gone.iter().chain(renamed).map(|entry| &entry.key);
        let mut gone: BTreeSet<Box<str>> =
            keys.filter_map(|key| own.names.get(key)).cloned().collect();
        for entry in changes.come {
            let name = self.albs[alb].stays_as(entry);
            match name {
                Some(name) => self.stay(alb, &name, entry, &mut difference),
                None => {
                    let name = self.name(alb, entry, wished, &gone);
                    gone.remove(&name);
                    self.come(alb, &name, entry, &mut difference);
                }
            }
        }
        for name in gone {
            self.leave(alb, &name, &mut difference);
        }
        self.albs[alb].applied = snapshot.clone();
        difference
    }

    /// A name for a newcomer: its plain one, unless somebody has that who stays.
    fn name(
        &self,
        alb: usize,
        entry: &Entry,
        wished: &HashMap<Box<str>, Box<str>>,
        gone: &BTreeSet<Box<str>>,
    ) -> Box<str> {
        let is_taken = |name: &str| {
            let is_held = |(index, other): (usize, &AlbMembers)| {
                other.known.contains_key(name) && !(index == alb && gone.contains(name))
            };
            self.reserved.contains(name) || self.albs.iter().enumerate().any(is_held)
        };
        let wish = wished.get(&entry.key).filter(|name| !is_taken(name));
        let alb = &self.albs[alb].name;
        wish.cloned()
            .unwrap_or_else(|| backend_name(alb, entry, is_taken))
    }

    /// A member at a place where it was before.
    fn stay(&mut self, alb: usize, name: &str, entry: &Arc<Entry>, difference: &mut Difference) {
        let Some(known) = self.albs[alb].known.get_mut(name) else {
            return;
        };
        if Arc::ptr_eq(&known.entry, entry) {
            return;
        }
        if known.entry.member.replica_group == entry.member.replica_group {
            known.entry = entry.clone();
            return;
        }
        self.come(alb, name, entry, difference);
    }

    /// A member that is new, or that is made anew under its name.
    fn come(&mut self, alb: usize, name: &str, entry: &Arc<Entry>, difference: &mut Difference) {
        let old = self.albs[alb].known.get(name);
        let place = old.map_or(self.places.len(), |old| old.place);
        let backend = match self.make(alb, place, name, &entry.member) {
            Ok(backend) => backend,
            Err(why) => {
                // What it was before is not what the source names now.
                self.leave(alb, name, difference);
                difference.failed.push((name.into(), why));
                return;
            }
        };
        let (key, at) = (entry.key.clone(), entry.key.to_string());
        let known = Known {
            entry: entry.clone(),
            place,
        };
        let own = &mut self.albs[alb];
        let list = match own.known.insert(name.into(), known) {
            Some(old) => {
                own.forget(&old.entry.key, name);
                self.places[place].backend = backend;
                &mut difference.rebuilt
            }
            None => {
                self.places.push(Place { alb, backend });
                &mut difference.added
            }
        };
        self.albs[alb].names.insert(key, name.into());
        list.push((name.into(), at));
    }

    /// A member is gone. Ids have no holes: the last backend takes its place.
    fn leave(&mut self, alb: usize, name: &str, difference: &mut Difference) {
        let own = &mut self.albs[alb];
        let Some(known) = own.known.remove(name) else {
            return;
        };
        own.forget(&known.entry.key, name);
        let removed = (name.into(), known.entry.key.to_string());
        difference.removed.push(removed);
        self.places.swap_remove(known.place);
        let Some(moved) = self.places.get(known.place) else {
            return;
        };
        let mut backend = Backend::clone(&moved.backend);
        backend.id = self.id(known.place);
        let (owner, name) = (moved.alb, moved.backend.name.clone());
        self.places[known.place].backend = Arc::new(backend);
        if let Some(other) = self.albs[owner].known.get_mut(&name) {
            other.place = known.place;
        }
    }

    /// The backend of a member at a place.
    fn make(
        &self,
        alb: usize,
        place: usize,
        name: &str,
        member: &Member,
    ) -> Result<Arc<Backend>, String> {
        let template = self.template(alb).ok_or("its template is gone")?;
        let backend = template.backend(self.id(place), name, member)?;
        Ok(Arc::new(backend))
    }

    fn id(&self, place: usize) -> BackendId {
        BackendId(u32::try_from(self.statics + place).unwrap_or(u32::MAX))
    }
}

impl AlbMembers {
    /// Whether all that was applied could be made.
    fn is_whole(&self) -> bool {
        self.known.len() == self.applied.entries().len()
    }

    /// The name that the member of this entry has and keeps.
    fn stays_as(&self, entry: &Entry) -> Option<Box<str>> {
        let name = self.names.get(&entry.key)?;
        let known = self.known.get(name)?;
        (known.entry.member.name == entry.member.name).then(|| name.clone())
    }

    /// A key is no longer this name's; it may be another's already.
    fn forget(&mut self, key: &str, name: &str) {
        if self.names.get(key).is_some_and(|holder| **holder == *name) {
            self.names.remove(key);
        }
    }
}

/// Whether probes decide on a member.
fn is_by_probe(settings: &AlbDiscovery, known: &Known) -> bool {
    match settings.health_mode {
        HealthMode::Probe => true,
        HealthMode::Provider => known.entry.member.ready == Readiness::Unknown,
    }
}

/// Why a snapshot is not applied, if it is not.
fn refusal(
    own: &AlbMembers,
    snapshot: &Snapshot,
    settings: &AlbDiscovery,
    is_first: bool,
) -> Option<String> {
    let (before, now) = (own.known.len(), snapshot.entries().len());
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
    let gone = before.saturating_sub(now);
    let percent = usize::from(settings.max_shrink_percent);
    (gone * 100 > before * percent).then(|| {
        format!(
            "{before} members would become {now} at once, more than max_shrink ({percent} %); a reload of the \
             configuration applies it"
        )
    })
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
