//! Section `discovery` and the blocks `alb.discovery`. Contract: autodiscovery page, 2.
//!
//! Every entry is validated; those that no ALB uses are left out with a warning. Opens no file and asks nobody:
//! whether a source answers is found out when it is first asked.

mod albs;
mod clouds;
mod http;
mod query;
mod sources;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use ringway_shards::plan::Secret;
use serde_json::Value as Json;

use super::context::Context;
use super::effective::MASK;
use super::graph::Graph;
use super::roster::Roster;
use crate::config::discovery::Discoverer as Written;
use crate::config::files::Files;
use crate::config::{Caution, Fault, Path};
use crate::discovery::settings::{Discoverer, DiscoverySettings, Provider};
pub(super) use albs::unprobed_template;
pub(super) use query::Flavour;
#[cfg(test)]
pub(super) use query::{FIELDS, FLAVOURS};

/// Most entries of the section.
const DISCOVERERS_MAX: usize = 1_000;

/// Blocks of an entry, and the providers that have them.
const BLOCKS: &[(&str, &[&str])] = &[
    ("kubernetes", &["kubernetes"]),
    ("dns", &["dns_srv", "dns_a"]),
    ("file", &["file"]),
    ("http_sd", &["http_sd"]),
    ("consul", &["consul"]),
    ("nomad", &["nomad"]),
    ("aws", &["aws"]),
    ("gcp", &["gcp"]),
    ("azure", &["azure"]),
    ("docker", &["docker"]),
    (
        "http",
        &[
            "http_sd", "consul", "nomad", "aws", "gcp", "azure", "docker",
        ],
    ),
];

/// One entry of the section.
struct Entry<'a> {
    name: &'a str,
    /// What its queries may hold; `None` when that cannot be told.
    flavour: Option<Flavour>,
    /// `None` when it is refused.
    discoverer: Option<Discoverer>,
}

/// The discoverers in use, and who uses them for what.
pub(super) fn compile(
    context: &mut Context<'_>,
    roster: &Roster<'_>,
    graph: &Graph,
) -> DiscoverySettings {
    let section = Path::of(&["discovery"]);
    let document = context.document;
    let written = &document.written.discovery.0;
    if written.len() > DISCOVERERS_MAX {
        let discoverers_max = DISCOVERERS_MAX;
        context.fail_key(&section, Fault::TooManyDiscoverers { discoverers_max });
        return DiscoverySettings::default();
    }
    let mut entries = Vec::new();
    for (name, written) in written {
        entries.push(entry(context, name, written));
    }
    let mut albs = albs::compile(context, roster, graph, &entries);
    let mut settings = DiscoverySettings::default();
    for (index, entry) in entries.into_iter().enumerate() {
        let users = albs.iter_mut().filter(|(_, alb)| alb.discoverer == index);
        let users: Vec<_> = users.collect();
        if users.is_empty() {
            let discoverer = entry.name.to_owned();
            let caution = Caution::UnusedDiscoverer { discoverer };
            context.warn_key(&section.key(entry.name), caution);
            continue;
        }
        // Of those before it some may be left out, so its place can only be nearer to the front.
        let place = settings.discoverers.len();
        settings.discoverers.extend(entry.discoverer);
        for (pool, alb) in users {
            let mut alb = alb.clone();
            alb.discoverer = place;
            settings.albs.push((*pool, alb));
        }
    }
    settings.albs.sort_by_key(|(pool, _)| pool.0);
    settings
}

fn entry<'a>(context: &mut Context<'_>, name: &'a str, written: &Written) -> Entry<'a> {
    let at = Path::of(&["discovery", name]);
    let mut entry = Entry {
        name,
        flavour: None,
        discoverer: None,
    };
    let Some(word) = written.provider.as_deref() else {
        let what = "provider";
        context.fail_key(&at.key("provider"), Fault::Required { what });
        return entry;
    };
    context.note_written(&at.key("provider"), Json::from(word));
    refuse_foreign_blocks(context, &at, word);
    let aws = written.aws.as_ref();
    entry.flavour = Flavour::of(word, aws.and_then(|aws| aws.service.as_deref()));
    entry.discoverer = provider(context, &at, word, written).map(|provider| Discoverer {
        name: name.into(),
        fingerprint: fingerprint(written, context.inputs.files),
        provider,
    });
    entry
}

fn refuse_foreign_blocks(context: &mut Context<'_>, at: &Path, provider: &str) {
    let document = context.document;
    let keys = document.keys_at(at);
    for (block, providers) in BLOCKS {
        if keys.contains(block) && !providers.contains(&provider) {
            let fault = Fault::ProviderBlock {
                provider: provider.to_owned(),
                allowed: providers.join(", "),
            };
            context.fail_key(&at.key(block), fault);
        }
    }
}

fn provider(
    context: &mut Context<'_>,
    at: &Path,
    word: &str,
    written: &Written,
) -> Option<Provider> {
    let http = written.http.as_ref();
    match word {
        "kubernetes" => {
            let own = written.kubernetes.clone().unwrap_or_default();
            let compiled = sources::kubernetes(context, &at.key("kubernetes"), &own);
            Some(Provider::Kubernetes(compiled))
        }
        "dns_srv" | "dns_a" => {
            let own = written.dns.clone().unwrap_or_default();
            let dns = sources::dns(context, &at.key("dns"), &own);
            Some(match word {
                "dns_srv" => Provider::DnsSrv(dns),
                _ => Provider::DnsA(dns),
            })
        }
        "file" => {
            let own = written.file.clone().unwrap_or_default();
            let compiled = sources::file(context, &at.key("file"), &own);
            Some(Provider::File(compiled))
        }
        "http_sd" => {
            let own = written.http_sd.clone().unwrap_or_default();
            sources::http_sd(context, at, &own, http).map(Provider::HttpSd)
        }
        "consul" => {
            let own = written.consul.clone().unwrap_or_default();
            sources::consul(context, at, &own, http).map(Provider::Consul)
        }
        "nomad" => {
            let own = written.nomad.clone().unwrap_or_default();
            sources::nomad(context, at, &own, http).map(Provider::Nomad)
        }
        "aws" => {
            let own = written.aws.clone().unwrap_or_default();
            clouds::aws(context, at, &own, http).map(Provider::Aws)
        }
        "gcp" => {
            let own = written.gcp.clone().unwrap_or_default();
            clouds::gcp(context, at, &own, http).map(Provider::Gcp)
        }
        "azure" => {
            let own = written.azure.clone().unwrap_or_default();
            clouds::azure(context, at, &own, http).map(Provider::Azure)
        }
        _ => {
            let own = written.docker.clone().unwrap_or_default();
            sources::docker(context, at, &own, http).map(Provider::Docker)
        }
    }
}

/// Differs where a value does, or the content of a file that was read for it.
fn fingerprint(written: &Written, files: &Files) -> u64 {
    let mut hasher = DefaultHasher::new();
    written.hash(&mut hasher);
    let tls = written.http.as_ref().and_then(|http| http.tls.as_ref());
    let mut names: Vec<&String> = Vec::new();
    if let Some(tls) = tls {
        names.extend(&tls.client_cert_path);
        names.extend(&tls.client_key_path);
        names.extend(tls.certificate_authority_paths.iter().flatten());
    }
    let gcp = written.gcp.as_ref();
    names.extend(gcp.and_then(|gcp| gcp.credentials_file.as_ref()));
    for name in names {
        files.get(name).hash(&mut hasher);
    }
    hasher.finish()
}

/// A text, noted; an empty one counts as not written.
fn text(context: &mut Context<'_>, at: &Path, written: Option<&String>) -> Option<Box<str>> {
    let text = written.filter(|text| !text.is_empty())?;
    context.note_written(at, Json::from(text.as_str()));
    Some(text.as_str().into())
}

/// The same for a secret, which is noted without itself.
fn secret(context: &mut Context<'_>, at: &Path, written: Option<&String>) -> Option<Arc<Secret>> {
    let text = written.filter(|text| !text.is_empty())?;
    context.note_written(at, Json::from(MASK));
    Some(Arc::new(Secret::new(text.as_str())))
}

/// The same for a text without which nothing goes.
fn required(
    context: &mut Context<'_>,
    at: &Path,
    written: Option<&String>,
    what: &'static str,
) -> Option<Box<str>> {
    let found = text(context, at, written);
    if found.is_none() {
        context.fail_key(at, Fault::Required { what });
    }
    found
}
