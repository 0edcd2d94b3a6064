//! Section `discovery`: who is asked for members, and how. Contract: autodiscovery page, 2.1 to 2.3.
//!
//! Block `alb.discovery`, which says what is asked, is in [`query`].

pub mod query;

use std::collections::BTreeMap;

use serde::Deserialize;

use super::backends::Tls;
use super::schema::{Key, Kind};
use super::units::Period;

/// Values of `provider`.
pub const PROVIDERS: &[&str] = &[
    "kubernetes",
    "dns_srv",
    "dns_a",
    "file",
    "http_sd",
    "consul",
    "nomad",
    "aws",
    "gcp",
    "azure",
    "docker",
];

/// Time between two readings.
const PACE: Kind = Kind::Duration {
    min_ms: 1_000,
    max_ms: 0,
};
/// Limit of one request.
const LIMIT: Kind = Kind::Duration {
    min_ms: 100,
    max_ms: 0,
};
/// Longest wait of a blocking query.
const WAIT: Kind = Kind::Duration {
    min_ms: 1_000,
    max_ms: 600_000,
};
const RATE: Kind = Kind::Int {
    min: 1,
    max: 1_000_000,
};

/// Keys of the section.
pub const KEYS: &[Key] = &[
    Key::new("discovery", Kind::Names),
    Key::new("discovery.*", Kind::Section),
    Key::new("discovery.*.provider", Kind::Choice(PROVIDERS)),
    Key::new("discovery.*.kubernetes", Kind::Section),
    Key::new("discovery.*.kubernetes.in_cluster", Kind::Bool),
    Key::new("discovery.*.kubernetes.kubeconfig", Kind::Text),
    Key::new("discovery.*.kubernetes.qps", RATE),
    Key::new("discovery.*.kubernetes.burst", RATE),
    Key::new("discovery.*.kubernetes.timeout", LIMIT),
    Key::new("discovery.*.kubernetes.user_agent", Kind::Text),
    Key::new("discovery.*.dns", Kind::Section),
    Key::new("discovery.*.dns.resolver", Kind::Text),
    Key::new("discovery.*.dns.interval", PACE),
    Key::new("discovery.*.file", Kind::Section),
    Key::new("discovery.*.file.poll_interval", PACE),
    Key::new("discovery.*.http_sd", Kind::Section),
    Key::new(
        "discovery.*.http_sd.format",
        Kind::Choice(&["trickster", "prometheus"]),
    ),
    Key::new("discovery.*.consul", Kind::Section),
    Key::new("discovery.*.consul.datacenter", Kind::Text),
    Key::new("discovery.*.consul.namespace", Kind::Text),
    Key::new("discovery.*.consul.partition", Kind::Text),
    Key::new("discovery.*.consul.wait", WAIT),
    Key::new("discovery.*.consul.allow_stale", Kind::Bool),
    Key::new("discovery.*.consul.only_passing", Kind::Bool),
    Key::new("discovery.*.consul.warning_is_ready", Kind::Bool),
    Key::new("discovery.*.nomad", Kind::Section),
    Key::new("discovery.*.nomad.namespace", Kind::Text),
    Key::new("discovery.*.nomad.region", Kind::Text),
    Key::new("discovery.*.nomad.wait", WAIT),
    Key::new("discovery.*.nomad.allow_stale", Kind::Bool),
    Key::new("discovery.*.aws", Kind::Section),
    Key::new("discovery.*.aws.service", Kind::Choice(&["ec2", "ecs"])),
    Key::new("discovery.*.aws.region", Kind::Text),
    Key::new("discovery.*.aws.access_key", Kind::Text).env(),
    Key::new("discovery.*.aws.secret_key", Kind::Text)
        .env()
        .secret(),
    Key::new("discovery.*.aws.profile", Kind::Text),
    Key::new("discovery.*.aws.role_arn", Kind::Text),
    Key::new("discovery.*.gcp", Kind::Section),
    Key::new("discovery.*.gcp.service", Kind::Choice(&["gce"])),
    Key::new("discovery.*.gcp.project", Kind::Text),
    Key::new("discovery.*.gcp.credentials_file", Kind::Text),
    Key::new("discovery.*.azure", Kind::Section),
    Key::new("discovery.*.azure.service", Kind::Choice(&["vm"])),
    Key::new("discovery.*.azure.subscription_id", Kind::Text),
    Key::new("discovery.*.azure.resource_group", Kind::Text),
    Key::new("discovery.*.azure.tenant_id", Kind::Text),
    Key::new("discovery.*.azure.client_id", Kind::Text),
    Key::new("discovery.*.azure.client_secret", Kind::Text)
        .env()
        .secret(),
    Key::new("discovery.*.azure.federated_token_file", Kind::Text),
    Key::new(
        "discovery.*.azure.cloud",
        Kind::Choice(&["public", "usgovernment", "china"]),
    ),
    Key::new("discovery.*.azure.power_state", Kind::Bool),
    Key::new("discovery.*.azure.compute_api_version", Kind::Text),
    Key::new("discovery.*.azure.network_api_version", Kind::Text),
    Key::new("discovery.*.docker", Kind::Section),
    Key::new("discovery.*.docker.api_version", Kind::Text),
    Key::new("discovery.*.http", Kind::Section),
    Key::new("discovery.*.http.endpoint", Kind::Text),
    Key::new("discovery.*.http.interval", PACE),
    Key::new("discovery.*.http.timeout", LIMIT),
    Key::new("discovery.*.http.tls", Kind::Section),
    Key::new("discovery.*.http.tls.insecure_skip_verify", Kind::Bool),
    Key::new(
        "discovery.*.http.tls.certificate_authority_paths",
        Kind::Texts,
    ),
    Key::new("discovery.*.http.tls.client_cert_path", Kind::Text),
    Key::new("discovery.*.http.tls.client_key_path", Kind::Text),
    Key::new("discovery.*.http.headers", Kind::TextMap)
        .env()
        .secret(),
    Key::new("discovery.*.http.username", Kind::Text).env(),
    Key::new("discovery.*.http.password", Kind::Text)
        .env()
        .secret(),
    Key::new("discovery.*.http.bearer_token", Kind::Text)
        .env()
        .secret(),
    Key::new("discovery.*.http.bearer_token_file", Kind::Text),
    Key::new("discovery.*.http.follow_redirects", Kind::Bool),
];

/// One entry of the section as written. Hashing takes in every value, secrets too.
#[derive(Clone, Debug, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Discoverer {
    /// Who is asked.
    pub provider: Option<String>,
    /// Settings of provider kubernetes.
    pub kubernetes: Option<Kubernetes>,
    /// Settings of providers dns_srv and dns_a.
    pub dns: Option<Dns>,
    /// Settings of provider file.
    pub file: Option<File>,
    /// Settings of provider http_sd.
    pub http_sd: Option<HttpSd>,
    /// Settings of provider consul.
    pub consul: Option<Consul>,
    /// Settings of provider nomad.
    pub nomad: Option<Nomad>,
    /// Settings of provider aws.
    pub aws: Option<Aws>,
    /// Settings of provider gcp.
    pub gcp: Option<Gcp>,
    /// Settings of provider azure.
    pub azure: Option<Azure>,
    /// Settings of provider docker.
    pub docker: Option<Docker>,
    /// Settings of all providers that ask over HTTP.
    pub http: Option<Http>,
}

/// Block `kubernetes` as written.
#[derive(Clone, Debug, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// As the pod that ringway runs in.
    pub in_cluster: Option<bool>,
    /// As a kubeconfig file says.
    pub kubeconfig: Option<String>,
    /// Requests a second.
    pub qps: Option<u32>,
    /// Requests at once.
    pub burst: Option<u32>,
    /// Limit of a request that is no watch.
    pub timeout: Option<Period>,
    /// What ringway calls itself.
    pub user_agent: Option<String>,
}

/// Block `dns` as written.
#[derive(Clone, Debug, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// Server to ask.
    pub resolver: Option<String>,
    /// Least time between two questions.
    pub interval: Option<Period>,
}

/// Block `file` as written.
#[derive(Clone, Debug, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// How often the content is compared.
    pub poll_interval: Option<Period>,
}

/// Block `http_sd` as written.
#[derive(Clone, Debug, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct HttpSd {
    /// Form of the list.
    pub format: Option<String>,
}

/// Block `consul` as written.
#[derive(Clone, Debug, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Consul {
    /// Datacenter; the agent's.
    pub datacenter: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Partition.
    pub partition: Option<String>,
    /// Longest wait of a blocking query.
    pub wait: Option<Period>,
    /// Any server may answer.
    pub allow_stale: Option<bool>,
    /// Only passing instances are asked for.
    pub only_passing: Option<bool>,
    /// Whether a warning counts as ready.
    pub warning_is_ready: Option<bool>,
}

/// Block `nomad` as written.
#[derive(Clone, Debug, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Nomad {
    /// Namespace.
    pub namespace: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Longest wait of a blocking query.
    pub wait: Option<Period>,
    /// Any server may answer.
    pub allow_stale: Option<bool>,
}

/// Block `aws` as written.
#[derive(Clone, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Aws {
    /// What is asked.
    pub service: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Name of a fixed key.
    pub access_key: Option<String>,
    /// The key.
    pub secret_key: Option<String>,
    /// Profile of the shared files.
    pub profile: Option<String>,
    /// Role to assume.
    pub role_arn: Option<String>,
}

// Without the key.
impl std::fmt::Debug for Aws {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Aws")
            .field("service", &self.service)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// Block `gcp` as written.
#[derive(Clone, Debug, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Gcp {
    /// What is asked.
    pub service: Option<String>,
    /// Project.
    pub project: Option<String>,
    /// Key file of a service account.
    pub credentials_file: Option<String>,
}

/// Block `azure` as written.
#[derive(Clone, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Azure {
    /// What is asked.
    pub service: Option<String>,
    /// Subscription.
    pub subscription_id: Option<String>,
    /// Resource group.
    pub resource_group: Option<String>,
    /// Tenant of a service principal.
    pub tenant_id: Option<String>,
    /// Client.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// File with a token of the platform.
    pub federated_token_file: Option<String>,
    /// Which cloud.
    pub cloud: Option<String>,
    /// Whether power states are asked for.
    pub power_state: Option<bool>,
    /// Version of the compute API.
    pub compute_api_version: Option<String>,
    /// Version of the network API.
    pub network_api_version: Option<String>,
}

// Without the secret.
impl std::fmt::Debug for Azure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Azure")
            .field("service", &self.service)
            .field("subscription_id", &self.subscription_id)
            .finish_non_exhaustive()
    }
}

/// Block `docker` as written.
#[derive(Clone, Debug, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Docker {
    /// Version of the engine's API.
    pub api_version: Option<String>,
}

/// Block `http` as written.
#[derive(Clone, Default, Deserialize, Hash)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Base URL.
    pub endpoint: Option<String>,
    /// Time between two readings.
    pub interval: Option<Period>,
    /// Limit of one request.
    pub timeout: Option<Period>,
    /// TLS towards the endpoint; the certificates of the server's side are no keys here.
    pub tls: Option<Tls>,
    /// Request headers.
    pub headers: Option<BTreeMap<String, String>>,
    /// Name for basic authentication.
    pub username: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// Token.
    pub bearer_token: Option<String>,
    /// File with a token.
    pub bearer_token_file: Option<String>,
    /// Whether redirects are followed.
    pub follow_redirects: Option<bool>,
}

// Without what may be a secret.
impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http")
            .field("interval", &self.interval)
            .field("timeout", &self.timeout)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}
