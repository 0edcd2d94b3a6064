//! All backends by name, with what each is and its id.

use std::collections::HashMap;

use ringway_shards::plan::BackendId;
use serde_json::Value as Json;

use super::context::Context;
use crate::config::backends::{Backend, PROVIDERS, Provider};
use crate::config::{Caution, Fault, Path, schema};

/// The entry that sets capture caps for all. Decisions, 5.
const DEFAULT_NAME: &str = "default";
/// What rules call the routes of the main listener; no backend's name.
pub(super) const FRONTEND: &str = "frontend";

/// All entries of `backends`.
pub(super) struct Roster<'a> {
    entries: Vec<Entry<'a>>,
    by_name: HashMap<&'a str, usize>,
    by_id: Vec<usize>,
}

/// One entry of `backends`.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) written: &'a Backend,
    pub(super) role: Role,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// In the plan under this id.
    Live(BackendId, Live),
    /// To be cloned by discovery.
    Template,
    /// Only the common capture caps.
    CommonCaps,
    /// Refused; the problem is reported.
    Broken,
}

/// What a live backend is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Live {
    Prometheus,
    ReverseProxy,
    Alb,
    Rule,
}

impl Live {
    /// The provider's canonical name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Live::Prometheus => "prometheus",
            Live::ReverseProxy => "reverseproxy",
            Live::Alb => "alb",
            Live::Rule => "rule",
        }
    }
}

impl Entry<'_> {
    /// What the members made of a template are; `None` when they cannot be.
    pub(super) fn template_live(&self) -> Option<Live> {
        match Provider::of(self.written.provider.as_deref()?) {
            Provider::Prometheus => Some(Live::Prometheus),
            Provider::ReverseProxy => Some(Live::ReverseProxy),
            _ => None,
        }
    }
}

impl<'a> Roster<'a> {
    /// Sorts the entries and gives ids to those that are served, in written order.
    pub(super) fn new(context: &mut Context<'a>) -> Self {
        let mut roster = Roster {
            entries: Vec::new(),
            by_name: HashMap::new(),
            by_id: Vec::new(),
        };
        for (name, written) in &context.document.written.backends.0 {
            let at = Path::of(&["backends", name]);
            let role = match live(context, &at, name, written) {
                Ok(live) => {
                    let next = u32::try_from(roster.by_id.len()).unwrap_or(u32::MAX);
                    roster.by_id.push(roster.entries.len());
                    Role::Live(BackendId(next), live)
                }
                Err(role) => role,
            };
            roster.by_name.insert(name, roster.entries.len());
            roster.entries.push(Entry {
                name,
                written,
                role,
            });
        }
        roster
    }

    /// All entries that are in the plan, by id.
    pub(super) fn live(&self) -> impl Iterator<Item = (BackendId, Live, &Entry<'a>)> {
        self.entries.iter().filter_map(|entry| match entry.role {
            Role::Live(id, live) => Some((id, live, entry)),
            _ => None,
        })
    }

    /// All templates that are origins.
    pub(super) fn templates(&self) -> impl Iterator<Item = (Live, &Entry<'a>)> {
        let templates = self.entries.iter().filter(|e| e.role == Role::Template);
        templates.filter_map(|entry| {
            let provider = entry.written.provider.as_deref().map(Provider::of);
            let live = match provider? {
                Provider::Prometheus => Live::Prometheus,
                Provider::ReverseProxy => Live::ReverseProxy,
                _ => return None,
            };
            Some((live, entry))
        })
    }

    /// The entry of a name.
    pub(super) fn get(&self, name: &str) -> Option<&Entry<'a>> {
        self.by_name.get(name).map(|index| &self.entries[*index])
    }

    /// The entry of an id.
    pub(super) fn entry(&self, id: BackendId) -> Option<&Entry<'a>> {
        self.by_id
            .get(id.index())
            .map(|index| &self.entries[*index])
    }

    /// The name of an id.
    pub(super) fn name(&self, id: BackendId) -> &'a str {
        self.entry(id).map_or("", |entry| entry.name)
    }

    /// All names.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|entry| entry.name)
    }

    /// The entry whose capture caps count for those without.
    pub(super) fn common_caps(&self) -> Option<&'a Backend> {
        self.get(DEFAULT_NAME).map(|entry| entry.written)
    }
}

/// What a served entry is; else the role it has instead.
fn live(context: &mut Context<'_>, at: &Path, name: &str, written: &Backend) -> Result<Live, Role> {
    if name.is_empty() {
        context.fail_key(at, Fault::EmptyName);
        return Err(Role::Broken);
    }
    if name == FRONTEND {
        let name = name.to_owned();
        context.fail_key(at, Fault::ReservedName { name });
        return Err(Role::Broken);
    }
    let provider = match &written.provider {
        Some(provider) => Provider::of(provider),
        None => Provider::Unset,
    };
    let live = match provider {
        Provider::Prometheus => Live::Prometheus,
        Provider::ReverseProxy => Live::ReverseProxy,
        Provider::Alb => Live::Alb,
        Provider::Rule => Live::Rule,
        _ => return Err(not_live(context, at, name, written, provider)),
    };
    if let Some("reverseproxycache" | "rpc") = written.provider.as_deref() {
        context.warn_key(&at.key("provider"), Caution::NotCached);
    }
    if written.is_template == Some(true) {
        template(context, at, written, live);
        return Err(Role::Template);
    }
    Ok(live)
}

fn not_live(
    context: &mut Context<'_>,
    at: &Path,
    name: &str,
    written: &Backend,
    provider: Provider<'_>,
) -> Role {
    let key = at.key("provider");
    match provider {
        Provider::Unset if name == DEFAULT_NAME && only_caps(context, at) => {
            return Role::CommonCaps;
        }
        Provider::Unset if name == DEFAULT_NAME && written.origin_url.is_none() => {
            context.fail_key(at, Fault::DefaultsOnly);
        }
        Provider::Unset => context.fail_key(&key, Fault::Required { what: "provider" }),
        Provider::Later(feature) => {
            let feature = feature.to_owned();
            context.fail_value(&key, Fault::ProviderNotBuilt { feature });
        }
        Provider::Unknown(provider) => context.fail_value(
            &key,
            Fault::UnknownProvider {
                provider: provider.to_owned(),
                hint: schema::hint(provider, PROVIDERS.iter().copied()),
            },
        ),
        Provider::Prometheus | Provider::ReverseProxy | Provider::Alb | Provider::Rule => {}
    }
    Role::Broken
}

/// Whether an entry writes capture caps and nothing else.
fn only_caps(context: &Context<'_>, at: &Path) -> bool {
    context
        .document
        .keys_at(at)
        .iter()
        .all(|key| *key == "max_capture_bytes" || *key == "max_fanout_capture_bytes")
}

/// Rules of templates. Contract: ALB page, 3.
fn template(context: &mut Context<'_>, at: &Path, written: &Backend, live: Live) {
    if matches!(live, Live::Alb | Live::Rule) {
        let provider = live.name().to_owned();
        context.fail_key(&at.key("is_template"), Fault::TemplateProvider { provider });
    }
    if written.is_default == Some(true) {
        context.fail_key(&at.key("is_default"), Fault::TemplateDefault);
    }
    context.warn_no_effect(
        &at.key("origin_url"),
        "a template's members bring their own",
    );
    note_template(context, at, written);
}

/// What makes an entry a template, without which a dump would name templates that it does not have.
fn note_template(context: &mut Context<'_>, at: &Path, written: &Backend) {
    if let Some(provider) = &written.provider {
        context.note_written(&at.key("provider"), Json::from(provider.as_str()));
    }
    context.note_written(&at.key("is_template"), Json::from(true));
}
