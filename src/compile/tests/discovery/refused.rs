//! What discovery refuses, and in which words. Where it says so is tested with the files of `tests/scenarios/invalid`.

use super::*;

/// All that is said of a configuration, without lines and columns.
fn said(text: &str) -> Vec<String> {
    let lines = problems(text);
    let short = lines.iter().map(|line| {
        line.split_once(": ")
            .map_or(&**line, |(_, rest)| rest)
            .to_owned()
    });
    short.collect()
}

fn assert_said(rows: &[(&str, &[&'static str])], text: impl Fn(&str) -> String) {
    assert_rows(rows.iter().map(|(row, expected)| {
        let text = text(row);
        let found = said(&text);
        (text, found, expected.to_vec())
    }));
}

/// Entries of `discovery`, unused.
const ENTRIES: &[(&str, &[&str])] = &[
    ("{}", &["discovery.src.provider: provider is required"]),
    (
        "{provider: etcd}",
        &[
            "discovery.src.provider: expected one of kubernetes, dns_srv, dns_a, file, http_sd, consul, nomad, aws, gcp, azure, docker, found \"etcd\"",
        ],
    ),
    (
        "{provider: file, dns: {}, http: {}}",
        &[
            "discovery.src.dns: not a block of provider file; it is for dns_srv, dns_a",
            "discovery.src.http: not a block of provider file; it is for http_sd, consul, nomad, aws, gcp, azure, docker",
        ],
    ),
    (
        "{provider: kubernetes, kubernetes: {in_cluster: true, kubeconfig: /k, qps: 0, burst: 0, timeout: 1ms, user_agent: \"a\\nb\"}}",
        &[
            "discovery.src.kubernetes.in_cluster: in_cluster: true and kubeconfig exclude each other; remove one of them",
            "discovery.src.kubernetes.qps: expected a whole number from 1 to 1000000, found \"0\"",
            "discovery.src.kubernetes.burst: expected a whole number from 1 to 1000000, found \"0\"",
            "discovery.src.kubernetes.timeout: expected a duration such as 500ms, 10s, 1h30m or 2d, at least 100ms, found \"1ms\"",
            "discovery.src.kubernetes.user_agent: the value of header User-Agent has characters that no header may have",
        ],
    ),
    (
        "{provider: kubernetes, kubernetes: {in_cluster: false}}",
        &[
            "discovery.src.kubernetes.in_cluster: nothing is left to connect to; write kubeconfig, or remove this key",
        ],
    ),
    (
        "{provider: dns_a, dns: {resolver: 10.0.0.53, interval: 999ms}}",
        &[
            "discovery.src.dns.resolver: \"10.0.0.53\" is not a resolver: it has no port; write host:port, such as 10.0.0.53:53",
            "discovery.src.dns.interval: expected a duration such as 500ms, 10s, 1h30m or 2d, at least 1s, found \"999ms\"",
        ],
    ),
    (
        "{provider: dns_srv, dns: {resolver: 'a b:53'}}",
        &[
            "discovery.src.dns.resolver: \"a b:53\" is not a resolver: \"a b\" is not a part of a host name; write host:port, such as 10.0.0.53:53",
        ],
    ),
    (
        "{provider: file, file: {poll_interval: 0}}",
        &[
            "discovery.src.file.poll_interval: expected a duration such as 500ms, 10s, 1h30m or 2d, at least 1s, found \"0\"",
        ],
    ),
    (
        "{provider: http_sd, http_sd: {format: consul}}",
        &[
            "discovery.src.http.endpoint: an endpoint is required, such as https://sd.example.com",
            "discovery.src.http_sd.format: expected one of trickster, prometheus, found \"consul\"",
        ],
    ),
    (
        "{provider: consul}",
        &["discovery.src.http.endpoint: an endpoint is required, such as http://127.0.0.1:8500"],
    ),
    (
        "{provider: nomad, http: {}}",
        &["discovery.src.http.endpoint: an endpoint is required, such as http://127.0.0.1:4646"],
    ),
    (
        "{provider: consul, consul: {wait: 11m}, http: {endpoint: 'ftp://x', interval: 10ms, timeout: 99ms}}",
        &[
            "discovery.src.consul.wait: expected a duration such as 500ms, 10s, 1h30m or 2d, from 1s to 10m, found \"11m\"",
            "discovery.src.http.endpoint: scheme \"ftp\" is not supported; write it as http://host:port/prefix or https://…",
            "discovery.src.http.interval: expected a duration such as 500ms, 10s, 1h30m or 2d, at least 1s, found \"10ms\"",
            "discovery.src.http.timeout: expected a duration such as 500ms, 10s, 1h30m or 2d, at least 100ms, found \"99ms\"",
        ],
    ),
    (
        "{provider: nomad, nomad: {wait: 500ms}, http: {endpoint: 'http://:80'}}",
        &[
            "discovery.src.nomad.wait: expected a duration such as 500ms, 10s, 1h30m or 2d, from 1s to 10m, found \"500ms\"",
            "discovery.src.http.endpoint: the host is missing; write it as http://host:port/prefix or https://…",
        ],
    ),
    (
        "{provider: consul, consul: {wait: 1m}, http: {endpoint: 'http://x', timeout: 1m}}",
        &[
            "discovery.src.http.timeout: a request must outlast consul.wait, which is 1m; write at least 1m13s750ms, or remove this key",
        ],
    ),
    (
        "{provider: nomad, http: {endpoint: 'http://x', timeout: 10s}}",
        &[
            "discovery.src.http.timeout: a request must outlast nomad.wait, which is 5m; write at least 5m28s750ms, or remove this key",
        ],
    ),
    (
        "{provider: http_sd, http: {endpoint: 'http://x', username: u, bearer_token: t, bearer_token_file: f, headers: {authorization: x}}}",
        &[
            "discovery.src.http.bearer_token: username authenticates these requests already; remove one of the two",
            "discovery.src.http.bearer_token_file: username authenticates these requests already; remove one of the two",
            "discovery.src.http.headers.authorization: username authenticates these requests already; remove one of the two",
        ],
    ),
    (
        "{provider: http_sd, http: {endpoint: 'http://u:p@x', password: p, bearer_token: t, bearer_token_file: f}}",
        &[
            "discovery.src.http.endpoint: it must not hold credentials; write it as http://host:port/prefix or https://…",
            "discovery.src.http.password: a password needs a name; write username as well",
            "discovery.src.http.bearer_token_file: bearer_token authenticates these requests already; remove one of the two",
        ],
    ),
    (
        "{provider: http_sd, http: {endpoint: 'http://x', username: 'a:b', headers: {'a b': c, TE: d, X: \"e\\u0001\"}}}",
        &[
            "discovery.src.http.username: not a user's name: it has a colon, which ends the name in `Authorization: Basic`",
            "discovery.src.http.headers.\"a b\": header \"a b\" is not valid",
            "discovery.src.http.headers.TE: header TE belongs to the connection: ringway writes it itself",
            "discovery.src.http.headers.X: the value of header X has characters that no header may have",
        ],
    ),
    (
        "{provider: http_sd, http: {endpoint: 'https://x', tls: {client_cert_path: c.pem, full_chain_cert_path: x}}}",
        &[
            "discovery.src.http.tls.client_cert_path: client_key_path is needed as well: a certificate and its key go together",
            "discovery.src.http.tls.full_chain_cert_path: unknown key; it belongs at backends.<name>.tls.full_chain_cert_path",
        ],
    ),
    (
        "{provider: aws, aws: {access_key: a, region: US East}}",
        &[
            "discovery.src.aws.service: service (ec2 or ecs) is required",
            "discovery.src.aws.access_key: access_key and secret_key go together; write secret_key as well, or remove this key and use the credential chain",
            "discovery.src.aws.region: \"US East\" is not a region; write one such as us-east-1",
        ],
    ),
    (
        "{provider: aws, aws: {service: rds, secret_key: a}}",
        &[
            "discovery.src.aws.service: expected one of ec2, ecs, found \"rds\"",
            "discovery.src.aws.secret_key: access_key and secret_key go together; write access_key as well, or remove this key and use the credential chain",
        ],
    ),
    (
        "{provider: gcp}",
        &["discovery.src.gcp.service: service (gce) is required"],
    ),
    (
        "{provider: azure, azure: {cloud: germany}}",
        &[
            "discovery.src.azure.service: service (vm) is required",
            "discovery.src.azure.subscription_id: subscription_id is required",
            "discovery.src.azure.cloud: expected one of public, usgovernment, china, found \"germany\"",
        ],
    ),
    (
        "{provider: azure, azure: {service: vm, subscription_id: s, client_secret: x, federated_token_file: f}}",
        &[
            "discovery.src.azure.federated_token_file: client_secret and federated_token_file exclude each other; remove one of them",
        ],
    ),
    (
        "{provider: azure, azure: {service: vm, subscription_id: s, client_id: c, client_secret: x}}",
        &[
            "discovery.src.azure.client_secret: tenant_id is needed as well; or remove this key and use the managed identity",
        ],
    ),
    (
        "{provider: azure, azure: {service: vm, subscription_id: s, tenant_id: t, federated_token_file: x}}",
        &[
            "discovery.src.azure.federated_token_file: client_id is needed as well; or remove this key and use the managed identity",
        ],
    ),
    (
        "{provider: docker, docker: {api_version: '1.44'}, http: {endpoint: 'unix://', tls: {}}}",
        &[
            "discovery.src.docker.api_version: \"1.44\" is not a version of the engine's API; write one such as v1.41",
            "discovery.src.http.endpoint: a unix:// endpoint is the absolute path of a socket; write unix:///path/of/socket, tcp://host:port, http://host:port or https://host:port",
            "discovery.src.http.tls: a unix socket is spoken to without TLS; remove this block, or write a tcp:// or https:// endpoint",
        ],
    ),
    (
        "{provider: docker, http: {endpoint: 'tcp://:2375'}}",
        &[
            "discovery.src.http.endpoint: the host is missing; write unix:///path/of/socket, tcp://host:port, http://host:port or https://host:port",
        ],
    ),
    (
        "{provider: docker, http: {endpoint: 'npipe:////./pipe/docker_engine'}}",
        &[
            "discovery.src.http.endpoint: scheme \"npipe\" is not supported; write unix:///path/of/socket, tcp://host:port, http://host:port or https://host:port",
        ],
    ),
];

#[test]
fn entries_are_refused_though_nobody_uses_them() {
    assert_said(ENTRIES, |entry| {
        format!(
            "discovery:\n  src: {entry}\n{TEMPLATES}  a: {{provider: rp, origin_url: 'http://a'}}\n"
        )
    });
}

/// Queries, each of a discoverer.
const QUERIES: &[(&str, &[&str])] = &[
    (
        "{provider: kubernetes}|{}",
        &["query: kind endpointslices of provider kubernetes needs a service"],
    ),
    (
        "{provider: kubernetes}|{kind: service}",
        &["query: kind service of provider kubernetes needs selector or service"],
    ),
    (
        "{provider: kubernetes}|{kind: pods, service: x}",
        &[
            "query: kind pods of provider kubernetes needs a selector",
            "query.service: kind pods of provider kubernetes takes no service; select pods by selector, or write kind: endpointslices",
        ],
    ),
    (
        "{provider: kubernetes}|{kind: nodes, service: x, scheme: ftp, port: Web}",
        &[
            "query.kind: expected one of endpointslices, service, pods, found \"nodes\"",
            "query.scheme: expected one of http, https, found \"ftp\"",
            "query.port: \"Web\" is not a port of provider kubernetes; write a number from 1 to 65535, or a name of at most 15 lower-case letters, digits and -",
        ],
    ),
    (
        "{provider: dns_a}|{hostname: 'a b', port: 65536}",
        &[
            "query.hostname: \"a b\" is not a host name: \"a b\" is not a part of a host name",
            "query.port: \"65536\" is not a port of provider dns_a; write a number from 1 to 65535",
        ],
    ),
    (
        "{provider: dns_srv}|{srv_name: ''}",
        &[
            "query.srv_name: provider dns_srv needs `srv_name` in its query: the name of SRV records, such as _web._tcp.example.com",
        ],
    ),
    (
        "{provider: file}|{path: x, scheme: https}",
        &[
            "query.scheme: not a query field of provider file; it is for kubernetes, dns_srv, dns_a, http_sd, consul, nomad, aws (service ec2), aws (service ecs), gcp, azure, docker",
        ],
    ),
    (
        "{provider: http_sd, http: {endpoint: 'http://x'}}|{path: pools}",
        &[
            "query.path: \"pools\" is not a path of provider http_sd; write one that begins with `/`, percent-encoded, such as /pools/web",
        ],
    ),
    (
        "{provider: consul, http: {endpoint: 'http://x'}}|{tags: [a, '']}",
        &[
            "query.service: provider consul needs `service` in its query: the name of a service",
            "query.tags[1]: a tag must not be empty",
        ],
    ),
    (
        "{provider: aws, aws: {service: ec2}}|{filters: {a: []}}",
        &[
            "query.port: provider aws (service ec2) needs `port` in its query: its API tells machines without ports; write port, port_label or both",
            "query.filters.a: list at least one value",
        ],
    ),
    (
        "{provider: aws, aws: {service: ecs}}|{port: 1, filters: {a: [b]}, address_type: public}",
        &[
            "query.filters: not a query field of provider aws (service ecs); it is for aws (service ec2), docker",
            "query.address_type: not a query field of provider aws (service ecs); it is for aws (service ec2), gcp, azure, docker",
        ],
    ),
    (
        "{provider: gcp, gcp: {service: gce}}|{port: web}",
        &["query.port: \"web\" is not a port of provider gcp; write a number from 1 to 65535"],
    ),
    (
        "{provider: azure, azure: {service: vm, subscription_id: s}}|{address_type: v6}",
        &[
            "query.port: provider azure needs `port` in its query: its API tells machines without ports; write port, port_label or both",
            "query.address_type: expected one of private, public, ipv6, found \"v6\"",
        ],
    ),
    (
        "{provider: docker}|{tags: [a], prot: 80, filters: {'x': }}",
        &[
            "query.tags: not a query field of provider docker; it is for consul, nomad, aws (service ec2), aws (service ecs), gcp, azure",
            "query.prot: unknown key; did you mean \"port\"?",
            "query.filters.x: list at least one value",
        ],
    ),
];

#[test]
fn queries_are_refused_with_field_and_provider() {
    let text = |row: &str| {
        let (discoverer, query) = row.split_once('|').unwrap();
        with_query(discoverer, query)
    };
    assert_rows(QUERIES.iter().map(|(row, expected)| {
        let text = text(row);
        let at = "backends.web.alb.discovery.";
        let found = said(&text)
            .iter()
            .map(|line| line.replace(at, ""))
            .collect();
        (text, found, expected.to_vec())
    }));
}

/// ALBs, with a discoverer `src` of provider consul.
const ALBS: &[(&str, &[&str])] = &[
    (
        "web: {provider: alb, alb: {discovery: {}}}",
        &[
            "backends.web.alb.discovery.discoverer_name: discoverer_name is required",
            "backends.web.alb.discovery.query: query is required",
            "backends.web.alb.discovery.template_backend: template_backend is required",
        ],
    ),
    (
        "web: {provider: alb, alb: {discovery: {discoverer_name: scr, template_backend: web-tmplate, query: {service: x}}}}",
        &[
            "backends.web.alb.discovery.discoverer_name: \"scr\" is no entry of section discovery; did you mean \"src\"?",
            "backends.web.alb.discovery.template_backend: \"web-tmplate\" is not a configured backend; did you mean \"web-template\"?",
        ],
    ),
    (
        "web: {provider: alb, alb: {discovery: {discoverer_name: src, template_backend: one, query: {service: x}, min_members: -1, max_shrink: 0, debounce_window: -1s, startup_policy: wait, health_mode: both}}}",
        &[
            "backends.web.alb.discovery.template_backend: backend \"one\" is no template; set is_template: true there, or name another",
            "backends.web.alb.discovery.min_members: expected a whole number from 0 to 10000, found \"-1\"",
            "backends.web.alb.discovery.max_shrink: expected a whole number from 1 to 100, found \"0\"",
            "backends.web.alb.discovery.debounce_window: expected a duration such as 500ms, 10s, 1h30m or 2d, found \"-1s\"",
            "backends.web.alb.discovery.startup_policy: expected one of retry, fail, found \"wait\"",
            "backends.web.alb.discovery.health_mode: expected one of probe, provider, found \"both\"",
        ],
    ),
    (
        "web: {provider: alb, alb: {health_mode: probe, discovery: {discoverer_name: src, template_backend: web-template, query: {service: x}, health_mode: provider}}}",
        &[
            "backends.web.alb.health_mode: alb.discovery.health_mode says provider; remove this spelling",
        ],
    ),
    (
        "web: {provider: alb, alb: {mechanism: ur, user_router: {default_backend: one}, discovery: {discoverer_name: src, template_backend: web-template, query: {service: x}}}}",
        &[
            "backends.web.alb.discovery: not a key of mechanism ur; it is for mechanisms with a pool",
        ],
    ),
    (
        "web: {provider: alb, alb: {mechanism: tsm, discovery: {discoverer_name: src, template_backend: web-template, query: {service: x, replica_group_label: g}}}}",
        &[
            "backends.web.alb.discovery.template_backend: mechanism tsm needs a template of provider prometheus; template web-template is of provider reverseproxy",
            "backends.web.alb.discovery.query.replica_group_label: replica_group_label needs a template of provider prometheus; template web-template is of provider reverseproxy",
        ],
    ),
    (
        "web: {provider: alb, alb: {discovery: {discoverer_name: src, template_backend: web-template, query: {service: x}}}}\n  \
         mid: {provider: alb, alb: {pool: [web]}}\n  all: {provider: alb, alb: {mechanism: tsm, pool: [mid]}}",
        &[
            "backends.web.alb.discovery.template_backend: ALB all, a time series merge that leads here, needs a template of provider prometheus; template web-template is of provider reverseproxy",
        ],
    ),
    (
        "web: {provider: alb, alb: {discovery: {discoverer_name: src, template_backend: prom-template, query: {service: x}}}}\n  \
         all: {provider: alb, alb: {mechanism: ur, user_router: {default_backend: one, users: {u: {to_backend: web}}}}}",
        &[
            "backends.web.alb.discovery.template_backend: all routes of a user router end at one provider: all > web > template prom-template ends at prometheus, but one is of reverseproxy",
        ],
    ),
    (
        "t: {provider: alb, is_template: true, alb: {}}\n  \
         web: {provider: alb, alb: {discovery: {discoverer_name: src, template_backend: t, query: {service: x}}}}",
        &["backends.t.is_template: provider alb cannot be a template"],
    ),
    (
        "t: {provider: rp, is_template: true, is_default: true}\n  \
         web: {provider: alb, alb: {pool: [t], discovery: {discoverer_name: src, template_backend: t, query: {service: x}}}}",
        &[
            "backends.t.is_default: a template is never the default backend",
            "backends.web.alb.pool[0]: \"t\" is a template; only discovery makes members of it",
        ],
    ),
];

#[test]
fn albs_are_refused_with_what_they_name() {
    assert_said(ALBS, |albs| {
        format!(
            "discovery: {{src: {{provider: consul, http: {{endpoint: 'http://x'}}}}}}\n{TEMPLATES}  one: {{provider: rp, origin_url: 'http://a'}}\n  {albs}\n"
        )
    });
}

#[test]
fn a_credentials_file_is_looked_at_where_it_is_there() {
    let text = with_query(
        "{provider: gcp, gcp: {service: gce, credentials_file: key.json}}",
        "{port: 1}",
    );
    let found = |content: &str| {
        let mut files = Files::default();
        files.insert("key.json", content.as_bytes());
        compiled_with(&text, &files).map(drop)
    };
    assert_eq!(found("{\"type\": \"service_account\"}"), Ok(()));
    valid(&text);
    for (content, reason) in [
        (
            "{\"type\": \"external_account\", \"x\": \"s3cret\"}",
            "its type is \"external_account\"",
        ),
        ("{}", "it has no type"),
        ("s3cret", "the file is no JSON object"),
    ] {
        let line = format!(
            "a.yaml:2:62: discovery.src.gcp.credentials_file: not the key of a service account: {reason}; for other credentials remove this key and use application default credentials"
        );
        assert_eq!(found(content), Err(vec![line]));
    }
}

#[test]
fn what_does_nothing_is_warned_of() {
    for (discoverer, key, reason) in [
        (
            "{provider: aws, aws: {service: ec2, access_key: a, secret_key: b, profile: c}}",
            "aws.profile",
            "access_key and secret_key are set",
        ),
        (
            "{provider: gcp, gcp: {service: gce}, http: {bearer_token: t}}",
            "http.bearer_token",
            "the provider has credentials of its own",
        ),
        (
            "{provider: azure, azure: {service: vm, subscription_id: s, tenant_id: t}}",
            "azure.tenant_id",
            "a managed identity has its own",
        ),
        (
            "{provider: docker, http: {endpoint: 'http://x', tls: {insecure_skip_verify: true}}}",
            "http.tls.insecure_skip_verify",
            "the origin is spoken to without TLS",
        ),
    ] {
        let said = warnings(&with_query(discoverer, "{port: 1}"));
        let line = format!(": discovery.src.{key}: no effect: {reason}");
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].ends_with(&line), "{line} {said:?}");
    }
    let text = "backends:\n  a: {provider: rp, origin_url: 'http://a'}\n  w: {provider: alb, alb: {pool: [a], health_mode: probe}}\n";
    assert_eq!(
        warnings(text),
        [
            "a.yaml:3:39: backends.w.alb.health_mode: deprecated; write alb.discovery.health_mode",
            "a.yaml:3:39: backends.w.alb.health_mode: no effect: this ALB discovers no members",
        ]
    );
}
