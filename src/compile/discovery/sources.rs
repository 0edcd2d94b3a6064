//! Providers that are no clouds: block by block. Contract: autodiscovery page, 2.2.

use hyper::header::HeaderValue;

use super::http::{self, Pace};
use super::text;
use crate::compile::context::Context;
use crate::config::discovery as written;
use crate::config::origin_url::Authority;
use crate::config::{Fault, Path, defaults};
use crate::discovery::settings::{
    Consul, Dns, Docker, File, HttpSd, Kubernetes, ListFormat, Nomad,
};
use crate::health::probe::user_agent;

pub(super) fn kubernetes(
    context: &mut Context<'_>,
    at: &Path,
    own: &written::Kubernetes,
) -> Kubernetes {
    let kubeconfig = text(context, &at.key("kubeconfig"), own.kubeconfig.as_ref());
    let place = at.key("in_cluster");
    let in_cluster = context.pick_or_derive(
        &place,
        own.in_cluster,
        kubeconfig.is_none(),
        "whether kubeconfig is missing",
    );
    match (in_cluster, &kubeconfig) {
        (true, Some(_)) => context.fail_value(&place, Fault::ClusterTwice),
        (false, None) => context.fail_value(&place, Fault::NoCluster),
        _ => {}
    }
    let place = at.key("user_agent");
    let agent = own.user_agent.clone().filter(|agent| !agent.is_empty());
    let from = "ringway's version and platform";
    let agent = context.pick_or_derive(&place, agent, user_agent(), from);
    if HeaderValue::from_str(&agent).is_err() {
        let name = "User-Agent".to_owned();
        context.fail_value(&place, Fault::HeaderValue { name });
    }
    Kubernetes {
        kubeconfig: kubeconfig.map(|file| String::from(file).into()),
        qps: context.pick(&at.key("qps"), own.qps, defaults::KUBERNETES_QPS) as f32,
        burst: context.pick(&at.key("burst"), own.burst, defaults::KUBERNETES_BURST),
        timeout: context
            .pick(
                &at.key("timeout"),
                own.timeout,
                defaults::KUBERNETES_TIMEOUT,
            )
            .0,
        user_agent: agent.into(),
    }
}

pub(super) fn dns(context: &mut Context<'_>, at: &Path, own: &written::Dns) -> Dns {
    let place = at.key("resolver");
    let resolver = text(context, &place, own.resolver.as_ref()).and_then(|text| {
        let parsed = Authority::parse(&text).and_then(|authority| match authority.port {
            Some(port) => Ok((authority.host.into(), port)),
            None => Err("it has no port".to_owned()),
        });
        parsed
            .map_err(|reason| {
                let text = text.into();
                context.fail_value(&place, Fault::Resolver { text, reason });
            })
            .ok()
    });
    Dns {
        resolver,
        interval: context
            .pick(&at.key("interval"), own.interval, defaults::DNS_INTERVAL)
            .0,
    }
}

pub(super) fn file(context: &mut Context<'_>, at: &Path, own: &written::File) -> File {
    let interval = context.pick(
        &at.key("poll_interval"),
        own.poll_interval,
        defaults::FILE_POLL_INTERVAL,
    );
    File {
        poll_interval: interval.0,
    }
}

pub(super) fn http_sd(
    context: &mut Context<'_>,
    at: &Path,
    own: &written::HttpSd,
    http: Option<&written::Http>,
) -> Option<HttpSd> {
    let format = context.pick_text(
        &at.key("http_sd").key("format"),
        own.format.as_deref(),
        defaults::LIST_FORMAT,
    );
    Some(HttpSd {
        http: http::of_registry(context, at, http, &Pace::Polled, "https://sd.example.com")?,
        format: match format.as_str() {
            "prometheus" => ListFormat::Prometheus,
            _ => ListFormat::Trickster,
        },
    })
}

pub(super) fn consul(
    context: &mut Context<'_>,
    entry: &Path,
    own: &written::Consul,
    http: Option<&written::Http>,
) -> Option<Consul> {
    let at = entry.key("consul");
    let wait = context.pick(&at.key("wait"), own.wait, defaults::BLOCKING_WAIT);
    let pace = Pace::Blocking("consul", wait);
    let http = http::of_registry(context, entry, http, &pace, "http://127.0.0.1:8500");
    let mut flag = |key: &str, written, preset| context.pick(&at.key(key), written, preset);
    let allow_stale = flag("allow_stale", own.allow_stale, defaults::ALLOW_STALE);
    let only_passing = flag("only_passing", own.only_passing, defaults::ONLY_PASSING);
    let warning_is_ready = flag(
        "warning_is_ready",
        own.warning_is_ready,
        defaults::WARNING_IS_READY,
    );
    Some(Consul {
        http: http?,
        datacenter: text(context, &at.key("datacenter"), own.datacenter.as_ref()),
        namespace: text(context, &at.key("namespace"), own.namespace.as_ref()),
        partition: text(context, &at.key("partition"), own.partition.as_ref()),
        wait: wait.0,
        allow_stale,
        only_passing,
        warning_is_ready,
    })
}

pub(super) fn nomad(
    context: &mut Context<'_>,
    entry: &Path,
    own: &written::Nomad,
    http: Option<&written::Http>,
) -> Option<Nomad> {
    let at = entry.key("nomad");
    let wait = context.pick(&at.key("wait"), own.wait, defaults::BLOCKING_WAIT);
    let pace = Pace::Blocking("nomad", wait);
    let http = http::of_registry(context, entry, http, &pace, "http://127.0.0.1:4646");
    let allow_stale = context.pick(
        &at.key("allow_stale"),
        own.allow_stale,
        defaults::ALLOW_STALE,
    );
    Some(Nomad {
        http: http?,
        namespace: text(context, &at.key("namespace"), own.namespace.as_ref()),
        region: text(context, &at.key("region"), own.region.as_ref()),
        wait: wait.0,
        allow_stale,
    })
}

pub(super) fn docker(
    context: &mut Context<'_>,
    entry: &Path,
    own: &written::Docker,
    http: Option<&written::Http>,
) -> Option<Docker> {
    let place = entry.key("docker").key("api_version");
    let own = own.api_version.as_deref().filter(|text| !text.is_empty());
    let version = context.pick_text(&place, own, defaults::DOCKER_API_VERSION);
    if !is_api_version(&version) {
        let found = version.clone();
        context.fail_value(&place, Fault::DockerVersion { found });
    }
    let (http, engine) = http::of_docker(context, entry, http)?;
    Some(Docker {
        http,
        engine,
        api_version: version.into(),
    })
}

/// `v<major>.<minor>`.
fn is_api_version(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let numbers = text.strip_prefix('v').and_then(|text| text.split_once('.'));
    numbers.is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}
