//! Templates of discovered members: a backend and its probe, compiled but for whom they are for.
//!
//! Everything that can be wrong with a template is found when the configuration is compiled; what is left is what a
//! source says of a member. Called by `control::members` for each member that comes or changes. Contract:
//! autodiscovery page, 4.1.

use ringway_shards::plan::{Backend, BackendId, BackendKind, Origin, Scheme};

use super::control::HealthCheck;
use super::health::own_path;
use super::tls;
use crate::config::origin_url::{Authority, OriginUrl};
use crate::discovery::Member;

/// A backend with `is_template`.
#[derive(Debug)]
pub struct Template {
    /// As of nobody; its replica group is empty unless written.
    backend: Backend,
    origin: Origin,
    tls: tls::Client,
    probe: TemplateProbe,
}

/// The probe of a template's members.
#[derive(Debug)]
pub(super) struct TemplateProbe {
    pub(super) check: HealthCheck,
    /// Which parts of its place are written; the others are the member's.
    pub(super) has_scheme: bool,
    pub(super) has_host: bool,
    pub(super) has_path: bool,
}

impl Template {
    pub(super) fn new(
        backend: Backend,
        origin: Origin,
        tls: tls::Client,
        probe: TemplateProbe,
    ) -> Template {
        Template {
            backend,
            origin,
            tls,
            probe,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.backend.name
    }

    /// Whether its members are probed.
    pub fn is_probed(&self) -> bool {
        self.probe.check.interval.is_some()
    }

    /// The host that its members' probes go to, where they do not go to the members'.
    pub fn probe_host(&self) -> Option<&str> {
        (self.is_probed() && self.probe.has_host).then_some(&*self.probe.check.host)
    }

    /// The backend of a member, under this id and name.
    ///
    /// # Errors
    /// When what the source says of the member's place makes no origin; says why.
    pub fn backend(&self, id: BackendId, name: &str, member: &Member) -> Result<Backend, String> {
        let url = OriginUrl::parse(&member.key())?;
        let own = &self.backend;
        let prefix = match url.path_prefix.is_empty() {
            true => self.origin.path_prefix.clone(),
            false => url.path_prefix.as_str().into(),
        };
        let origin = Origin {
            scheme: url.scheme,
            host: url.authority.host.as_str().into(),
            port: url.port(),
            authority: url.host_header().into(),
            path_prefix: prefix,
            peer_key: self.tls.peer_key(&url).into(),
            tls: match url.scheme {
                Scheme::Http => None,
                Scheme::Https => self.tls.settings.clone(),
            },
            ..self.origin.clone()
        };
        let groups = [&member.replica_group, &own.replica_group];
        let group = groups.into_iter().find(|group| !group.is_empty());
        Ok(Backend {
            id,
            name: name.into(),
            provider_label: own.provider_label,
            replica_group: group.map_or_else(|| name.into(), Clone::clone),
            capture_bytes_max: own.capture_bytes_max,
            paths: own.paths.clone(),
            latency: own.latency,
            compressible_types: own.compressible_types.clone(),
            kind: BackendKind::Origin(Box::new(origin)),
        })
    }

    /// The probe of a backend that was made of this template.
    pub fn check(&self, backend: &Backend) -> HealthCheck {
        let TemplateProbe {
            check,
            has_scheme,
            has_host,
            has_path,
        } = &self.probe;
        let mut check = check.clone();
        check.backend = backend.id;
        check.backend_name = backend.name.clone();
        let BackendKind::Origin(origin) = &backend.kind else {
            return check;
        };
        if !has_scheme {
            check.scheme = origin.scheme;
        }
        if !has_host {
            let authority = Authority {
                host: origin.host.to_string(),
                port: Some(origin.port),
            };
            check.host = origin.host.clone();
            check.port = origin.port;
            check.authority = authority.host_header(check.scheme).into();
        }
        if !has_path {
            let query = check.target.split_once('?').map(|(_, query)| query);
            let path = own_path(origin);
            check.target = match query {
                Some(query) => format!("{path}?{query}").into(),
                None => path.into(),
            };
        }
        check.tls = match check.scheme {
            Scheme::Http => None,
            Scheme::Https => self.tls.settings.clone(),
        };
        check
    }
}

/// The origin of a template before anybody is known: one with TLS, so that its settings are checked and kept.
pub(super) fn url_of_nobody() -> OriginUrl {
    OriginUrl {
        scheme: Scheme::Https,
        authority: Authority {
            host: "template.invalid".to_owned(),
            port: None,
        },
        path_prefix: String::new(),
    }
}
