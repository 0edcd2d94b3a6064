//! Blocks `alb.discovery`, and what their templates must be. Contract: autodiscovery page, 2.4, 2.6 and 5.

use std::collections::HashSet;
use std::sync::Arc;

use ringway_shards::plan::{BackendId, Mechanism, PoolId};
use serde_json::Value as Json;

use super::{Entry as Discoverer, query, required};
use crate::compile::context::Context;
use crate::compile::graph::Graph;
use crate::compile::pools::pool_id;
use crate::compile::roster::{Entry, Live, Role, Roster};
use crate::config::alb::Alb;
use crate::config::discovery::query::AlbDiscovery as Written;
use crate::config::{Caution, Fault, Path, defaults, schema};
use crate::discovery::settings::{AlbDiscovery, HealthMode, Query};

/// The blocks of all ALBs, each with the index of its discoverer among all entries.
pub(super) fn compile(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    graph: &Graph,
    discoverers: &[Discoverer<'_>],
) -> Vec<(PoolId, AlbDiscovery)> {
    let mut albs = Vec::new();
    let mut templates = Templates::default();
    for (id, live, entry) in roster.live() {
        let Some(alb) = entry.written.alb.as_ref().filter(|_| live == Live::Alb) else {
            continue;
        };
        let Some(written) = &alb.discovery else {
            let at = block(entry.name).key("health_mode");
            context.warn_no_effect(&at, "this ALB discovers no members");
            continue;
        };
        // Refused as a whole, where the ALB's other keys are.
        if graph.pool(id).map(|pool| pool.mechanism) == Some(Mechanism::UserRouter) {
            continue;
        }
        let compiled = discovery(
            context,
            (roster, graph, discoverers),
            (id, entry),
            (alb, written),
            &mut templates,
        );
        albs.extend(compiled.map(|compiled| (pool_id(roster, id), compiled)));
    }
    templates.check_routers(context, roster, graph);
    for name in roster.names() {
        let is_template = roster.get(name).map(|entry| entry.role) == Some(Role::Template);
        if is_template && !templates.named.contains(name) {
            let at = Path::of(&["backends", name, "is_template"]);
            context.warn_key(&at, Caution::UnusedTemplate);
        }
    }
    albs
}

fn block(alb: &str) -> Path {
    Path::of(&["backends", alb, "alb"])
}

fn discovery(
    context: &mut Context<'_>,
    (roster, graph, discoverers): (&Roster<'_>, &Graph, &[Discoverer<'_>]),
    (id, entry): (BackendId, &Entry<'_>),
    (alb, written): (&Alb, &Written),
    templates: &mut Templates,
) -> Option<AlbDiscovery> {
    let at = block(entry.name).key("discovery");
    let discoverer = discoverer(context, &at, written, discoverers);
    let template = template(context, roster, &at, written);
    let flavour = discoverer.and_then(|index| discoverers[index].flavour);
    let query = query(context, &at, written, flavour);
    if let Some((name, live)) = template {
        let grouped = query.as_ref().is_some_and(|query| {
            let label = query.replica_group_label.as_ref();
            label.is_some()
        });
        check_merges(context, (roster, graph), (id, entry), (name, live), grouped);
        templates.named.insert(name.to_owned());
        templates.used.push((id, name.to_owned(), live));
    }
    let min_members = context.pick(
        &at.key("min_members"),
        written.min_members,
        defaults::MIN_MEMBERS,
    );
    let policy = context.pick_text(
        &at.key("startup_policy"),
        written.startup_policy.as_deref(),
        defaults::STARTUP_POLICY,
    );
    let max_shrink_percent = context.pick(
        &at.key("max_shrink"),
        written.max_shrink,
        defaults::MAX_SHRINK,
    );
    let debounce_window = context.pick(
        &at.key("debounce_window"),
        written.debounce_window,
        defaults::DEBOUNCE_WINDOW,
    );
    note_health_mode(context, entry, alb, written);
    Some(AlbDiscovery {
        alb_name: entry.name.into(),
        discoverer: discoverer?,
        template: template?.0.into(),
        query: Arc::new(query?),
        min_members: usize::try_from(min_members).unwrap_or(usize::MAX),
        max_shrink_percent,
        debounce_window: debounce_window.0,
        startup_must_work: policy == "fail",
        health_mode: health_mode(alb),
    })
}

/// The entry that is named, by its index.
fn discoverer(
    context: &mut Context<'_>,
    at: &Path,
    written: &Written,
    discoverers: &[Discoverer<'_>],
) -> Option<usize> {
    let place = at.key("discoverer_name");
    let name = written.discoverer_name.as_ref();
    let name = required(context, &place, name, "discoverer_name")?;
    let found = discoverers.iter().position(|known| known.name == &*name);
    if found.is_none() {
        let hint = schema::hint(&name, discoverers.iter().map(|known| known.name));
        let name = name.into();
        context.fail_value(&place, Fault::UnknownDiscoverer { name, hint });
    }
    found
}

/// The template that is named, and what it is; `None` when it is refused.
fn template<'a>(
    context: &mut Context<'_>,
    roster: &Roster<'a>,
    at: &Path,
    written: &Written,
) -> Option<(&'a str, Live)> {
    let place = at.key("template_backend");
    let name = written.template_backend.as_ref();
    let name = required(context, &place, name, "template_backend")?;
    let fault = match roster.get(&name).map(|entry| (entry.role, entry)) {
        Some((Role::Template, entry)) => {
            // An ALB cannot be one, which is said at it.
            return entry.template_live().map(|live| (entry.name, live));
        }
        Some((Role::Broken, _)) => return None,
        Some(_) => Fault::NotTemplate { name: name.into() },
        None => Fault::UnknownMember {
            hint: schema::hint(&name, roster.names()),
            member: name.into(),
        },
    };
    context.fail_value(&place, fault);
    None
}

fn query(
    context: &mut Context<'_>,
    at: &Path,
    written: &Written,
    flavour: Option<query::Flavour>,
) -> Option<Query> {
    let place = at.key("query");
    let Some(written) = &written.query else {
        let what = "query";
        context.fail_key(&place, Fault::Required { what });
        return None;
    };
    if context.document.keys_at(&place).is_empty() {
        context.note_written(&place, Json::Object(serde_json::Map::new()));
    }
    Some(query::compile(context, &place, written, flavour?))
}

/// Members of a merge are of the provider whose answers it reads, however they get there.
fn check_merges(
    context: &mut Context<'_>,
    (roster, graph): (&Roster<'_>, &Graph),
    (id, entry): (BackendId, &Entry<'_>),
    (template, live): (&str, Live),
    grouped: bool,
) {
    if live == Live::Prometheus {
        return;
    }
    let at = block(entry.name).key("discovery");
    let fault = |why: String| Fault::TemplateCannotMerge {
        why,
        template: template.to_owned(),
        provider: live.name(),
    };
    for (above, _, other) in roster.live() {
        let mechanism = graph.pool(above).map(|pool| pool.mechanism);
        if mechanism == Some(Mechanism::TimeSeriesMerge) && graph.leads_to(above, id) {
            let why = match above == id {
                true => "mechanism tsm".to_owned(),
                false => format!("ALB {}, a time series merge that leads here,", other.name),
            };
            context.fail_value(&at.key("template_backend"), fault(why));
            break;
        }
    }
    if grouped {
        let place = at.key("query").key("replica_group_label");
        context.fail_key(&place, fault("replica_group_label".to_owned()));
    }
}

/// Under the newer spelling and the older one.
fn written_mode(alb: &Alb) -> [Option<&str>; 2] {
    let own = alb.discovery.as_ref();
    let own = own.and_then(|own| own.health_mode.as_deref());
    [own, alb.health_mode.as_deref()]
}

/// Who decides on health, under either spelling.
fn health_mode(alb: &Alb) -> HealthMode {
    match written_mode(alb).into_iter().flatten().next() {
        Some("provider") => HealthMode::Provider,
        _ => HealthMode::Probe,
    }
}

fn note_health_mode(context: &mut Context<'_>, entry: &Entry<'_>, alb: &Alb, written: &Written) {
    let block = block(entry.name);
    let older = block.key("health_mode");
    let places = [
        (
            block.key("discovery").key("health_mode"),
            written.health_mode.clone(),
        ),
        (older.clone(), alb.health_mode.clone()),
    ];
    let preset = defaults::Preset {
        value: defaults::HEALTH_MODE.value.to_owned(),
        contract: defaults::HEALTH_MODE.contract,
    };
    context.pick_first(&places, preset);
    if let [Some(own), Some(alias)] = written_mode(alb)
        && own != alias
    {
        let other = own.to_owned();
        context.fail_value(&older, Fault::HealthModes { other });
    }
}

/// The template of an ALB whose discovered members are judged by probes that it does not ask for.
pub(in crate::compile) fn unprobed_template<'a>(
    roster: &Roster<'a>,
    entry: &Entry<'_>,
) -> Option<&'a str> {
    let alb = entry.written.alb.as_ref()?;
    let name = alb.discovery.as_ref()?.template_backend.as_ref()?;
    let template = roster.get(name)?;
    let check = template.written.healthcheck.as_ref();
    let interval = check.and_then(|check| check.interval);
    let is_probed = interval.is_some_and(|interval| !interval.0.is_zero());
    let is_asked = health_mode(alb) == HealthMode::Probe && template.role == Role::Template;
    (is_asked && !is_probed).then_some(template.name)
}

/// Templates that ALBs name.
#[derive(Default)]
struct Templates {
    named: HashSet<String>,
    /// ALB, template, what it is.
    used: Vec<(BackendId, String, Live)>,
}

impl Templates {
    /// All ways of a user router end at one provider, those through discovered members too.
    fn check_routers(&self, context: &mut Context<'_>, roster: &Roster<'_>, graph: &Graph) {
        if self.used.is_empty() {
            return;
        }
        for (router, _, entry) in roster.live() {
            let mechanism = graph.pool(router).map(|pool| pool.mechanism);
            if mechanism != Some(Mechanism::UserRouter) {
                continue;
            }
            let first = graph.first_origin(roster, router);
            let mut first = first.map(|(id, live)| (roster.name(id).to_owned(), live));
            for (alb, template, live) in &self.used {
                if !graph.leads_to(router, *alb) {
                    continue;
                }
                let (other, known) = first.get_or_insert_with(|| (template.clone(), *live));
                if known != live {
                    let name = roster.name(*alb);
                    let fault = Fault::RouterProviders {
                        way: format!("{} > {name} > template {template}", entry.name),
                        provider: live.name(),
                        other: format!("{other} is of {}", known.name()),
                    };
                    let at = block(name).key("discovery").key("template_backend");
                    context.fail_value(&at, fault);
                }
            }
        }
    }
}
