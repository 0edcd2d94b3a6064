//! Provider `kubernetes`: endpoints of a Service, Services, or Pods, by list and watch of an API server.
//!
//! A [`Connection`] is the way to one API server. It owns the watches, each shared by all sources that ask the same,
//! and ended with the last of these. Nothing is asked before a source is. Contract: autodiscovery page, 7.

mod client;
mod objects;
mod pods;
mod preflight;
mod services;
mod slices;
mod source;
mod watch;

#[cfg(test)]
mod apisim;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::sync::Arc;

use self::client::Access;
use self::objects::{Pod, Service, Slice};
use self::preflight::Checked;
use self::source::{Impossible, Watched, Watching};
use self::watch::{Registry, Scope, WATCH_SECONDS};
use super::settings::{Kubernetes, KubernetesKind, Query};
use super::{Failure, Source};

/// Label by which slices name their Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The way to one API server, cheap to clone.
///
/// Discoverers with equal settings in one configuration may share one, and then share its watches; see
/// [`serves`](Connection::serves).
#[derive(Clone, Debug)]
pub struct Connection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Kubernetes,
    access: Arc<Access>,
    slices: Registry<Slice>,
    services: Registry<Service>,
    pods: Registry<Pod>,
    /// How long streams are asked for, in seconds.
    watch_seconds: RangeInclusive<u32>,
}

/// Makes ready to ask the API server that the settings name; reads the files they name, asks nobody.
///
/// # Errors
/// When there is no usable kubeconfig or service account.
pub fn connect(settings: &Kubernetes) -> Result<Connection, Failure> {
    connect_for(settings, WATCH_SECONDS)
}

fn connect_for(
    settings: &Kubernetes,
    watch_seconds: RangeInclusive<u32>,
) -> Result<Connection, Failure> {
    Ok(Connection(Arc::new(Inner {
        settings: settings.clone(),
        access: Arc::new(Access::new(settings)?),
        slices: Registry::default(),
        services: Registry::default(),
        pods: Registry::default(),
        watch_seconds,
    })))
}

impl Connection {
    /// Whether a discoverer with these settings may use it too. Files they name are not compared.
    pub fn serves(&self, settings: &Kubernetes) -> bool {
        let own = &self.0.settings;
        own.kubeconfig == settings.kubeconfig
            && own.qps.to_bits() == settings.qps.to_bits()
            && own.burst == settings.burst
            && own.timeout == settings.timeout
            && own.user_agent == settings.user_agent
    }

    /// The members of a query. Its watch waits, tries again and paces itself whether the source is asked or not: a
    /// pause after a failed reading delays only what is told.
    pub fn source(&self, query: Arc<Query>) -> Box<dyn Source> {
        let named = query.namespace.as_deref();
        let Some(namespace) = named.or(self.0.access.namespace()) else {
            return Box::new(Impossible(Failure::new(
                "the context of the kubeconfig names no namespace: set query.namespace",
            )));
        };
        let connection = self.clone();
        let scope = |labels, fields| Scope {
            namespace: namespace.to_owned(),
            labels,
            fields,
        };
        match query.kind {
            KubernetesKind::EndpointSlices => {
                let joined = query.replica_group_label.as_ref();
                let watched = Watched {
                    scope: scope(slice_selector(&query), None),
                    pods: joined.map(|_| scope(None, None)),
                    registry: |inner| &inner.slices,
                    map: slices::map,
                };
                Box::new(Watching::new(connection, query, watched))
            }
            KubernetesKind::Service => {
                let named = query.service.as_ref();
                let fields = named.map(|name| format!("metadata.name={name}"));
                let watched = Watched {
                    scope: scope(selector(&query), fields),
                    pods: None,
                    registry: |inner| &inner.services,
                    map: services::map,
                };
                Box::new(Watching::new(connection, query, watched))
            }
            KubernetesKind::Pods => {
                let watched = Watched {
                    scope: scope(selector(&query), None),
                    pods: None,
                    registry: |inner| &inner.pods,
                    map: pods::map,
                };
                Box::new(Watching::new(connection, query, watched))
            }
        }
    }

    /// The same for a start that depends on it: nothing is watched before the server has told its version. Contract:
    /// seed of autodiscovery, "Startup Preflight".
    pub fn checked_source(&self, query: Arc<Query>) -> Box<dyn Source> {
        Box::new(Checked::new(self.clone(), self.source(query)))
    }
}

/// The query's labels as a selector, sorted by key.
fn selector(query: &Query) -> Option<String> {
    let terms: Vec<_> = query
        .selector
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    (!terms.is_empty()).then(|| terms.join(","))
}

/// The selector of a Service's slices.
fn slice_selector(query: &Query) -> Option<String> {
    let service = query.service.as_deref().unwrap_or_default();
    let own = format!("{SERVICE_LABEL}={service}");
    Some(match selector(query) {
        None => own,
        Some(more) => format!("{own},{more}"),
    })
}
