//! From a request to the backend that answers it: the route, then hops through virtual backends.

use std::sync::Arc;

use ringway_io::net::http1::{Method, RequestHead, TargetForm};

use crate::limits::HOPS_MAX;
use crate::metrics::Count;
use crate::plan::{Backend, BackendId, BackendKind, Listener, Mechanism};
use crate::respond::Failure;
use crate::shard::View;

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Routed {
    /// First backend.
    pub(crate) backend: BackendId,
    /// Bytes of the path that the route used up.
    pub(crate) strip: usize,
}

/// Who answers.
pub(crate) enum Terminal<'v> {
    /// An origin.
    Origin(&'v Arc<Backend>),
    /// All members of this ALB's pool, merged.
    Merge(&'v Arc<Backend>),
    /// All members of this ALB's pool, of whose answers one is chosen.
    Choice(&'v Arc<Backend>),
}

/// Finds the first backend of a request. Contract: config page, 5.
pub(crate) fn route(
    listener: &Listener,
    head: &RequestHead,
    bytes: &[u8],
) -> Result<Routed, Failure> {
    if head.method() == Method::Connect {
        return Err(Failure::Method);
    }
    if head.target_form() == TargetForm::Asterisk {
        return Err(Failure::Target);
    }
    let routes = &listener.routes;
    if !routes.hosts.is_empty() {
        let host = head.authority(bytes).map(host_key).unwrap_or_default();
        if let Some(route) = routes.hosts.get(host.as_str()) {
            return Ok(Routed {
                backend: route.backend,
                strip: 0,
            });
        }
    }
    let path = head.path(bytes);
    if let Some(name) = first_segment(path)
        && let Some(route) = routes.names.get(name)
    {
        return Ok(Routed {
            backend: route.backend,
            strip: name.len() + 1,
        });
    }
    match routes.default {
        Some(route) => Ok(Routed {
            backend: route.backend,
            strip: 0,
        }),
        None => Err(Failure::NoRoute),
    }
}

/// Lower case, without port; an IPv6 address keeps its brackets.
fn host_key(authority: &[u8]) -> String {
    let text = String::from_utf8_lossy(authority).to_ascii_lowercase();
    if text.starts_with('[') {
        return text
            .split_inclusive(']')
            .next()
            .unwrap_or_default()
            .to_owned();
    }
    text.split(':').next().unwrap_or_default().to_owned()
}

fn first_segment(path: &[u8]) -> Option<&str> {
    let rest = path.strip_prefix(b"/")?;
    let segment = rest.split(|&byte| byte == b'/').next()?;
    std::str::from_utf8(segment)
        .ok()
        .filter(|segment| !segment.is_empty())
}

/// Follows virtual backends to the one that answers, taking one turn of each pool on the way. Members in
/// `tried` are passed over where their pool has another.
pub(crate) fn resolve<'v>(
    view: &'v View,
    first: BackendId,
    tried: &[BackendId],
) -> Result<Terminal<'v>, Failure> {
    let mut backend = view.active.plan.backend(first);
    for _ in 0..HOPS_MAX {
        let alb = match &backend.kind {
            BackendKind::Origin(_) => return Ok(Terminal::Origin(backend)),
            BackendKind::Alb(alb) => alb,
        };
        match alb.mechanism {
            Mechanism::TimeSeriesMerge => return Ok(Terminal::Merge(backend)),
            Mechanism::RoundRobin => {
                let member = view.table.pool(alb.pool).next_member_but(tried);
                let member = member.ok_or_else(|| Failure::NoLiveMember {
                    alb: backend.name.clone(),
                })?;
                backend = &member.backend;
                view.active.cells(backend.id).selected.bump();
            }
            Mechanism::FirstResponse
            | Mechanism::FirstGoodResponse
            | Mechanism::NewestLastModified => return Ok(Terminal::Choice(backend)),
            Mechanism::UserRouter => return Err(Failure::Internal),
        }
    }
    Err(Failure::TooManyHops { hops_max: HOPS_MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_compared_without_case_and_port() {
        assert_eq!(host_key(b"Example.COM:8480"), "example.com");
        assert_eq!(host_key(b"[::1]:8480"), "[::1]");
        assert_eq!(host_key(b"a"), "a");
    }

    #[test]
    fn the_first_segment_names_the_backend() {
        assert_eq!(first_segment(b"/web/a/b"), Some("web"));
        assert_eq!(first_segment(b"/web"), Some("web"));
        assert_eq!(first_segment(b"/"), None);
        assert_eq!(first_segment(b""), None);
    }
}
