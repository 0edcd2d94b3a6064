//! Discovery: every sample loads, every cell of the query matrix, every refusal in its words.

mod refused;

use super::*;
use crate::compile::discovery::{FIELDS, FLAVOURS, Flavour};
use crate::discovery::settings::{
    AddressType, AlbDiscovery, AzureIdentity, Discoverer, DockerEngine, HealthMode, HttpAuth,
    KubernetesKind, ListFormat, Port, Provider, Query,
};

/// Templates of both providers.
const TEMPLATES: &str = "\
backends:
  prom-template: {provider: prometheus, is_template: true, healthcheck: {interval: 5s}}
  web-template: {provider: rp, is_template: true}
";

/// An ALB `web` with this query of discoverer `src`.
fn with_query(discoverer: &str, query: &str) -> String {
    format!(
        "discovery:\n  src: {discoverer}\n{TEMPLATES}  web: {{provider: alb, alb: {{discovery: \
         {{discoverer_name: src, template_backend: prom-template, query: {query}}}}}}}\n"
    )
}

fn only(text: &str) -> (Discoverer, AlbDiscovery) {
    let settings = valid(text).control.discovery;
    assert_eq!((settings.discoverers.len(), settings.albs.len()), (1, 1));
    let (_, alb) = settings.albs[0].clone();
    (settings.discoverers[0].clone(), alb)
}

fn provider(discoverer: &str, query: &str) -> (Provider, Query) {
    let (discoverer, alb) = only(&with_query(discoverer, query));
    (discoverer.provider, Query::clone(&alb.query))
}

/// The samples of the contract: section `discovery`, ALB `prom-alb`.
const SAMPLES: &[(&str, &str)] = &[
    (
        "in-cluster: {provider: kubernetes, kubernetes: {in_cluster: true}}",
        "{mechanism: tsmerge, discovery: {discoverer_name: in-cluster, template_backend: prom-template, query: {kind: endpointslices, namespace: monitoring, service: prometheus, port: web}}}",
    ),
    (
        "in-cluster: {provider: kubernetes, kubernetes: {in_cluster: true, qps: 20, burst: 40, timeout: 10s}}",
        "{mechanism: tsmerge, discovery: {discoverer_name: in-cluster, template_backend: prom-template, query: {kind: endpointslices, namespace: monitoring, service: prometheus, port: web, replica_group_label: prometheus/shard}}}",
    ),
    (
        "in-cluster: {provider: kubernetes}",
        "{mechanism: rr, pool: [static-member, {name: bigger-member, weight: 3}], discovery: {discoverer_name: in-cluster, template_backend: prom-template, query: {kind: service, namespace: monitoring, selector: {app: prometheus}, port: 9090}}}",
    ),
    (
        "in-cluster: {provider: kubernetes, kubernetes: {kubeconfig: /path/to/kubeconfig, user_agent: my-trickster/1}}",
        "{mechanism: tsm, discovery: {discoverer_name: in-cluster, template_backend: prom-template, query: {kind: pods, namespace: monitoring, selector: {app: prometheus}, port: web}}}",
    ),
    (
        "corp-dns: {provider: dns_srv, dns: {resolver: '10.0.0.53:53', interval: 30s}}",
        "{mechanism: rr, discovery: {discoverer_name: corp-dns, template_backend: prom-template, query: {srv_name: _prometheus._tcp.example.com}}}",
    ),
    (
        "corp-dns: {provider: dns_a}",
        "{mechanism: rr, discovery: {discoverer_name: corp-dns, template_backend: prom-template, query: {hostname: prometheus.service.consul, port: 9090}}}",
    ),
    (
        "external-sd: {provider: file}",
        "{mechanism: rr, discovery: {discoverer_name: external-sd, template_backend: prom-template, query: {path: /etc/trickster/members.yaml}}}",
    ),
    (
        "fleet: {provider: http_sd, http: {endpoint: 'https://sd.example.com', interval: 15s, bearer_token_file: /var/run/secrets/sd-token}, http_sd: {format: trickster}}",
        "{mechanism: tsm, discovery: {discoverer_name: fleet, template_backend: prom-template, query: {path: /pools/prometheus}}}",
    ),
    (
        "consul-dc1: {provider: consul, http: {endpoint: 'http://127.0.0.1:8500', bearer_token_file: /var/run/secrets/consul-token}, consul: {datacenter: dc1, wait: 5m, allow_stale: true}}",
        "{mechanism: tsm, health_mode: provider, discovery: {discoverer_name: consul-dc1, template_backend: prom-template, query: {service: prometheus, tags: [production], filter: 'Service.Meta.version == \"2\"', replica_group_label: shard}}}",
    ),
    (
        "nomad-eu: {provider: nomad, http: {endpoint: 'http://127.0.0.1:4646', bearer_token_file: /var/run/secrets/nomad-token}, nomad: {namespace: default, region: eu-1, wait: 5m, allow_stale: true}}",
        "{discovery: {discoverer_name: nomad-eu, template_backend: prom-template, query: {service: prometheus, tags: [production], filter: 'JobID == \"monitoring\"'}}}",
    ),
    (
        "fleet: {provider: aws, aws: {service: ec2, region: us-east-1}, http: {interval: 60s}}",
        "{discovery: {discoverer_name: fleet, template_backend: prom-template, query: {filters: {'tag:service': [prometheus], instance-state-name: [running]}, port_label: trickster-port, address_type: private, port: 9090, replica_group_label: shard}}}",
    ),
    (
        "tasks: {provider: aws, aws: {service: ecs, region: us-east-1}, http: {interval: 30s}}",
        "{discovery: {discoverer_name: tasks, template_backend: prom-template, query: {cluster: prod, service: prometheus, port_label: trickster-port}}}",
    ),
    (
        "fleet: {provider: gcp, gcp: {service: gce, project: my-project, credentials_file: /etc/trickster/sa.json}, http: {interval: 60s}}",
        "{discovery: {discoverer_name: fleet, template_backend: prom-template, query: {filter: 'labels.role = \"prometheus\" AND status = \"RUNNING\"', tags: [http-server], port_label: port, address_type: private}}}",
    ),
    (
        "fleet: {provider: azure, azure: {service: vm, subscription_id: 00000000-0000-0000-0000-000000000000, resource_group: prod-rg, cloud: public, power_state: false}, http: {interval: 60s}}",
        "{discovery: {discoverer_name: fleet, template_backend: prom-template, query: {tags: [prometheus], port_label: port}}}",
    ),
    (
        "containers: {provider: docker, docker: {}, http: {interval: 30s}}",
        "{discovery: {discoverer_name: containers, template_backend: prom-template, query: {filters: {label: [com.example.discover=yes]}}}}",
    ),
    (
        "containers: {provider: docker, http: {endpoint: 'tcp://dockerhost:2376', tls: {}}}",
        "{discovery: {discoverer_name: containers, template_backend: prom-template, query: {network: backend, port: 9090, address_type: private, replica_group_label: com.example.shard}}}",
    ),
];

#[test]
fn every_sample_of_the_contract_loads() {
    for (discoverer, alb) in SAMPLES {
        let text = format!(
            "discovery:\n  {discoverer}\nbackends:\n  prom-template: {{provider: prometheus, is_template: true, healthcheck: {{interval: 5s}}}}\n  \
             static-member: {{provider: prometheus, origin_url: 'http://a'}}\n  bigger-member: {{provider: prometheus, origin_url: 'http://b'}}\n  \
             prom-alb: {{provider: alb, alb: {alb}}}\n"
        );
        let (_, alb) = only(&text);
        assert_eq!(
            (&*alb.alb_name, &*alb.template),
            ("prom-alb", "prom-template")
        );
        let warnings = warnings(&text);
        let alias = "alb.health_mode: deprecated; write alb.discovery.health_mode";
        let is_known = |warning: &String| warning.contains(alias);
        assert!(warnings.iter().all(is_known), "{text}{warnings:?}");
    }
}

#[test]
fn dumps_of_samples_mean_the_same() {
    for (discoverer, alb) in SAMPLES.iter().filter(|(_, alb)| !alb.contains("pool")) {
        let text = format!(
            "discovery:\n  {discoverer}\n{TEMPLATES}  prom-alb: {{provider: alb, alb: {alb}}}\n"
        );
        let dump = valid(&text).control.effective.dump();
        let again = valid(&dump);
        assert_eq!(again.control.effective.dump(), dump);
        assert_eq!(again.control.discovery.albs.len(), 1);
    }
}

/// A discoverer of each flavour, and a query with what it needs.
fn base(flavour: Flavour) -> (&'static str, &'static [(&'static str, &'static str)]) {
    match flavour {
        Flavour::Kubernetes => ("{provider: kubernetes}", &[("service", "x")]),
        Flavour::DnsSrv => (
            "{provider: dns_srv}",
            &[("srv_name", "_x._tcp.example.com")],
        ),
        Flavour::DnsA => (
            "{provider: dns_a}",
            &[("hostname", "x.example.com"), ("port", "80")],
        ),
        Flavour::File => ("{provider: file}", &[("path", "/x")]),
        Flavour::HttpSd => ("{provider: http_sd, http: {endpoint: 'http://x'}}", &[]),
        Flavour::Consul => (
            "{provider: consul, http: {endpoint: 'http://x'}}",
            &[("service", "x")],
        ),
        Flavour::Nomad => (
            "{provider: nomad, http: {endpoint: 'http://x'}}",
            &[("service", "x")],
        ),
        Flavour::Ec2 => ("{provider: aws, aws: {service: ec2}}", &[("port", "80")]),
        Flavour::Ecs => ("{provider: aws, aws: {service: ecs}}", &[("port", "80")]),
        Flavour::Gcp => ("{provider: gcp, gcp: {service: gce}}", &[("port", "80")]),
        Flavour::Azure => (
            "{provider: azure, azure: {service: vm, subscription_id: x}}",
            &[("port", "80")],
        ),
        Flavour::Docker => ("{provider: docker}", &[]),
    }
}

fn sample_value(field: &str) -> &'static str {
    match field {
        "kind" => "endpointslices",
        "selector" => "{a: b}",
        "path" => "/x",
        "port" => "80",
        "address_type" => "public",
        "scheme" => "https",
        "tags" => "[a]",
        "filters" => "{a: [b]}",
        "srv_name" => "_x._tcp.example.com",
        _ => "x",
    }
}

#[test]
fn every_cell_of_the_query_matrix_is_as_it_says() {
    let (mut refused, mut needed) = (0, 0);
    for (flavour, provider) in FLAVOURS {
        let (discoverer, needs) = base(*flavour);
        for (field, uses) in FIELDS {
            assert_eq!(uses.len(), FLAVOURS.len(), "{field}");
            let others = needs.iter().filter(|(name, _)| name != field);
            let others: Vec<String> = others
                .map(|(name, text)| format!("{name}: {text}"))
                .collect();
            let mut with = others.clone();
            with.push(format!("{field}: {}", sample_value(field)));
            let with = with_query(discoverer, &format!("{{{}}}", with.join(", ")));
            let place = format!(": backends.web.alb.discovery.query.{field}: ");
            match uses.as_bytes()[*flavour as usize] {
                b'.' => {
                    let found = problems(&with);
                    assert_eq!(found.len(), 1, "{with}{found:?}");
                    let text = format!("not a query field of provider {provider}; it is for ");
                    assert!(found[0].contains(&(place + &text)), "{with}{found:?}");
                    refused += 1;
                }
                b'!' => {
                    valid(&with);
                    let without = with_query(discoverer, &format!("{{{}}}", others.join(", ")));
                    let found = problems(&without);
                    assert_eq!(found.len(), 1, "{without}{found:?}");
                    let text = format!("provider {provider} needs `{field}` in its query: ");
                    assert!(found[0].contains(&(place + &text)), "{without}{found:?}");
                    needed += 1;
                }
                b'o' => drop(valid(&with)),
                other => panic!("{field}: {other}"),
            }
        }
    }
    // As counted in the contract's table.
    assert_eq!((refused, needed), (146, 6));
}

#[test]
fn defaults_are_those_of_the_contract() {
    let (found, query) = provider("{provider: kubernetes}", "{service: x}");
    let Provider::Kubernetes(k8s) = found else {
        panic!("{found:?}");
    };
    assert_eq!(k8s.kubeconfig, None);
    assert_eq!((k8s.qps, k8s.burst), (20.0, 40));
    assert_eq!(k8s.timeout, Duration::from_secs(10));
    assert!(k8s.user_agent.starts_with("ringway/"), "{}", k8s.user_agent);
    assert_eq!(
        (query.kind, query.port),
        (KubernetesKind::EndpointSlices, None)
    );
    assert_eq!(query.scheme, None);

    let (found, _) = provider("{provider: dns_srv}", "{srv_name: x}");
    let Provider::DnsSrv(dns) = found else {
        panic!("{found:?}");
    };
    assert_eq!(
        (dns.resolver, dns.interval),
        (None, Duration::from_secs(30))
    );

    let (found, _) = provider("{provider: file}", "{path: x}");
    let Provider::File(file) = found else {
        panic!("{found:?}");
    };
    assert_eq!(file.poll_interval, Duration::from_secs(30));

    let (found, _) = provider("{provider: http_sd, http: {endpoint: 'http://x/y/'}}", "{}");
    let Provider::HttpSd(list) = found else {
        panic!("{found:?}");
    };
    assert_eq!(
        (list.format, &*list.http.endpoint),
        (ListFormat::Trickster, "http://x/y")
    );
    assert_eq!(list.http.interval, Duration::from_secs(30));
    assert_eq!(list.http.timeout, Duration::from_secs(10));
    assert!(matches!(list.http.auth, HttpAuth::None) && !list.http.follow_redirects);
}

#[test]
fn blocking_queries_outlast_their_wait() {
    let consul = |more: &str, http: &str| {
        let text = format!(
            "{{provider: consul, consul: {{{more}}}, http: {{endpoint: 'http://x'{http}}}}}"
        );
        let (found, _) = provider(&text, "{service: x}");
        match found {
            Provider::Consul(consul) => consul,
            other => panic!("{other:?}"),
        }
    };
    let own = consul("", "");
    assert_eq!(own.wait, Duration::from_secs(300));
    assert_eq!(own.http.timeout, Duration::from_millis(328_750));
    assert!(own.warning_is_ready && !own.only_passing && !own.allow_stale);
    let own = consul("wait: 16s", "");
    assert_eq!(own.http.timeout, Duration::from_secs(27));
    assert_eq!(
        consul("wait: 16s", ", timeout: 17s").http.timeout,
        Duration::from_secs(17)
    );
    let text = with_query(
        "{provider: nomad, nomad: {wait: 16s}, http: {endpoint: 'http://x', timeout: 16500ms}}",
        "{service: x}",
    );
    assert_eq!(
        warnings(&text),
        [
            "a.yaml:2:75: discovery.src.http.timeout: a blocking query may be answered wait/16 late; write at least 27s, or remove this key",
            "a.yaml:5:32: backends.web-template.is_template: no ALB makes members of this template",
        ]
    );
}

#[test]
fn docker_endpoints_have_the_forms_of_docker_host() {
    let url = |text: &str| DockerEngine::Url(text.into());
    for (http, expected) in [
        ("{}", DockerEngine::Unix("/var/run/docker.sock".into())),
        (
            "{endpoint: 'unix:///a/b.sock'}",
            DockerEngine::Unix("/a/b.sock".into()),
        ),
        ("{endpoint: 'tcp://h:2375'}", url("http://h:2375")),
        ("{endpoint: 'tcp://h:2376', tls: {}}", url("https://h:2376")),
        ("{endpoint: 'tcp://h'}", url("http://h:2375")),
        (
            "{endpoint: 'tcp://[::1]', tls: {insecure_skip_verify: true}}",
            url("https://[::1]:2376"),
        ),
        ("{endpoint: 'http://h:99/p/'}", url("http://h:99/p")),
        ("{endpoint: 'https://h'}", url("https://h")),
    ] {
        let (found, _) = provider(&format!("{{provider: docker, http: {http}}}"), "{}");
        let Provider::Docker(docker) = found else {
            panic!("{found:?}");
        };
        assert_eq!(docker.engine, expected, "{http}");
        assert_eq!(&*docker.api_version, "v1.41");
        assert_eq!(&*docker.http.endpoint, "");
    }
}

#[test]
fn queries_are_compiled() {
    let (_, query) = provider(
        "{provider: kubernetes, kubernetes: {kubeconfig: /k}}",
        "{kind: pods, selector: {b: c, a: ''}, port: http-2, scheme: https, namespace: n}",
    );
    assert_eq!(query.kind, KubernetesKind::Pods);
    assert_eq!(query.port, Some(Port::Name("http-2".into())));
    assert_eq!(query.scheme, Some(ringway_shards::plan::Scheme::Https));
    let selector: Vec<_> = query.selector.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(selector, [("a", ""), ("b", "c")]);
    let (_, query) = provider(
        "{provider: docker}",
        "{filters: {status: [running, paused], label: [x]}, port: 8080, address_type: ipv6, port_label: p}",
    );
    assert_eq!(
        query.filters["status"],
        [Box::<str>::from("running"), Box::from("paused")]
    );
    assert_eq!(query.port, Some(Port::Number(8080)));
    assert_eq!(query.address_type, AddressType::Ipv6);
    assert_eq!(query.port_label.as_deref(), Some("p"));
}

#[test]
fn credentials_are_read_and_shown_nowhere() {
    let secrets = "{provider: aws, aws: {service: ec2, access_key: AK, secret_key: '${TOKEN}'}}";
    let text = with_query(secrets, "{port: 1}");
    let (discoverer, _) = only(&text);
    let Provider::Aws(aws) = &discoverer.provider else {
        panic!("{discoverer:?}");
    };
    let (name, key) = aws.keys.as_ref().unwrap();
    assert_eq!((&**name, key.expose()), ("AK", "s3cret"));
    let http = with_query(
        "{provider: http_sd, http: {endpoint: 'http://x', username: u, password: '$TOKEN', headers: {X-Key: 'k ${TOKEN}'}}}",
        "{}",
    );
    let (list, _) = only(&http);
    let Provider::HttpSd(list) = list.provider else {
        panic!("{list:?}");
    };
    let HttpAuth::Basic(user, password) = &list.http.auth else {
        panic!("{:?}", list.http.auth);
    };
    assert_eq!((&**user, password.expose()), ("u", "s3cret"));
    assert_eq!(list.http.headers[0].1.expose(), "k s3cret");
    let bearer = with_query(
        "{provider: http_sd, http: {endpoint: 'http://x', bearer_token: '$TOKEN'}}",
        "{}",
    );
    let azure = with_query(
        "{provider: azure, azure: {service: vm, subscription_id: s, tenant_id: t, client_id: c, client_secret: '$TOKEN'}}",
        "{port: 1}",
    );
    let (found, _) = only(&azure);
    let Provider::Azure(found) = found.provider else {
        panic!("{found:?}");
    };
    assert!(
        matches!(&found.identity, AzureIdentity::Secret { secret, .. } if secret.expose() == "s3cret")
    );
    for text in [text, http, bearer, azure] {
        let compiled = valid(&text);
        let shown = [
            compiled.control.effective.dump(),
            compiled.control.effective.explain(),
            format!("{:?}", compiled.control),
            format!("{:?}", document(&text).written),
        ]
        .concat();
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("*****"), "{shown}");
    }
}

#[test]
fn a_key_in_the_query_of_a_path_is_not_shown() {
    let text = with_query(
        "{provider: http_sd, http: {endpoint: 'http://x'}}",
        "{path: '/pools/web?key=${TOKEN}'}",
    );
    let effective = valid(&text).control.effective;
    for shown in [effective.dump(), effective.explain()] {
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("/pools/web?*****"), "{shown}");
    }
}

fn document(text: &str) -> Document {
    let environment = Environment::of_pairs(&[("TOKEN", "s3cret")]);
    Document::of_text("a.yaml", text, &environment).unwrap()
}

#[test]
fn only_discoverers_in_use_come_out_and_are_found_by_index() {
    let text = format!(
        "discovery:\n  idle: {{provider: docker}}\n  files: {{provider: file}}\n  dns: {{provider: dns_a}}\n{TEMPLATES}  \
         one: {{provider: alb, alb: {{pool: [], discovery: {{discoverer_name: dns, template_backend: prom-template, query: {{hostname: h, port: 1}}}}}}}}\n  \
         two: {{provider: alb, alb: {{discovery: {{discoverer_name: files, template_backend: web-template, query: {{path: p}}, min_members: 2, max_shrink: 40, debounce_window: 3s, startup_policy: fail, health_mode: provider}}}}}}\n  \
         three: {{provider: alb, alb: {{discovery: {{discoverer_name: dns, template_backend: web-template, query: {{hostname: h, port: 1}}}}}}}}\n"
    );
    let compiled = valid(&text);
    let settings = compiled.control.discovery;
    let names: Vec<&str> = settings.discoverers.iter().map(|d| &*d.name).collect();
    assert_eq!(names, ["files", "dns"]);
    let albs: Vec<_> = settings
        .albs
        .iter()
        .map(|(pool, alb)| (pool.0, &*alb.alb_name, alb.discoverer, &*alb.template))
        .collect();
    assert_eq!(
        albs,
        [
            (0, "one", 1, "prom-template"),
            (1, "two", 0, "web-template"),
            (2, "three", 1, "web-template"),
        ]
    );
    let (_, one) = &settings.albs[0];
    assert_eq!((one.min_members, one.max_shrink_percent), (0, 100));
    assert!(one.debounce_window.is_zero() && !one.startup_must_work);
    assert_eq!(one.health_mode, HealthMode::Probe);
    let (_, two) = &settings.albs[1];
    assert_eq!((two.min_members, two.max_shrink_percent), (2, 40));
    assert_eq!(two.debounce_window, Duration::from_secs(3));
    assert!(two.startup_must_work);
    assert_eq!(two.health_mode, HealthMode::Provider);
    let warnings: Vec<String> = compiled
        .control
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        warnings,
        ["a.yaml:2:3: discovery.idle: no ALB uses discoverer idle: it is not started"]
    );
}

#[test]
fn fingerprints_differ_where_an_entry_or_its_files_do() {
    let entry = "{provider: http_sd, http: {endpoint: 'https://x', tls: {certificate_authority_paths: [ca.pem]}, password: p, username: u}}";
    let pem = |name: &str| {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        std::fs::read(root.join("tests/scenarios/tls").join(name)).unwrap()
    };
    let print = |discoverer: &str, ca: &str| {
        let mut files = Files::default();
        files.insert("ca.pem", &pem(ca));
        let compiled = compiled_with(&with_query(discoverer, "{}"), &files).unwrap();
        compiled.control.discovery.discoverers[0].fingerprint
    };
    let own = print(entry, "edge.pem");
    assert_eq!(print(entry, "edge.pem"), own);
    assert_ne!(print(entry, "client.pem"), own, "the content of a file");
    assert_ne!(
        print(&entry.replace("password: p", "password: q"), "edge.pem"),
        own
    );
    assert_ne!(
        print(&entry.replace("https://x", "https://y"), "edge.pem"),
        own
    );
}

#[test]
fn a_floor_of_one_needs_probes_of_the_template() {
    let alb = |template: &str, mode: &str| {
        format!(
            "discovery: {{src: {{provider: file}}}}\n{TEMPLATES}  web: {{provider: alb, alb: {{healthy_floor: 1, discovery: {{discoverer_name: src, \
             template_backend: {template}, query: {{path: p}}, health_mode: {mode}}}}}}}\n"
        )
    };
    for (template, mode, effective) in [
        ("prom-template", "probe", 1),
        ("web-template", "probe", 0),
        ("web-template", "provider", 1),
    ] {
        let compiled = valid(&alb(template, mode));
        let floor = &compiled.control.floors[0];
        assert_eq!(
            (floor.configured, floor.effective),
            (1, effective),
            "{template} {mode}"
        );
        assert_eq!(compiled.plan.pools[0].healthy_floor, effective);
    }
    let loud = "backends.web.alb.healthy_floor: healthy_floor 1 is reset to 0 for the whole ALB: without \
                healthcheck.interval these members would never be available: those discovered, made of template web-template";
    let said = warnings(&alb("web-template", "probe"));
    assert!(said.iter().any(|line| line.ends_with(loud)), "{said:?}");
}

#[test]
fn an_alb_waits_as_long_as_its_template() {
    let text = "discovery: {src: {provider: file}}\nbackends:\n  t: {provider: rp, is_template: true, timeout: 7m}\n  web: {provider: alb, alb: {discovery: {discoverer_name: src, template_backend: t, query: {path: p}}}}\n";
    let BackendKind::Alb(alb) = &valid(text).plan.backends[0].kind else {
        panic!("not an ALB");
    };
    assert_eq!(alb.timeout, Duration::from_secs(420));
}
