//! COMPILED section `discovery` and block `alb.discovery`: defaults are in, contradictions are out.
//!
//! `compile::discovery` fills these, providers only read them. Contract: autodiscovery page, 2.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringway_io::net::tls::ClientTls;
use ringway_shards::plan::{PoolId, Scheme, Secret};

/// Everything about discovery.
#[derive(Clone, Debug, Default)]
pub struct DiscoverySettings {
    /// Entries of `discovery` that an ALB uses, in written order.
    pub discoverers: Vec<Discoverer>,
    /// ALBs with discovered members, by their pools.
    pub albs: Vec<(PoolId, AlbDiscovery)>,
}

/// One entry of `discovery`.
#[derive(Clone, Debug)]
pub struct Discoverer {
    /// Its key in the section.
    pub name: Box<str>,
    /// Differs where anything of the entry, or of a file it names, does. A reload keeps what did not change.
    pub fingerprint: u64,
    /// Who is asked, and how.
    pub provider: Provider,
}

/// Who is asked, and how.
#[derive(Clone, Debug)]
pub enum Provider {
    /// List and watch of a Kubernetes API server.
    Kubernetes(Kubernetes),
    /// SRV records.
    DnsSrv(Dns),
    /// A and AAAA records.
    DnsA(Dns),
    /// Member list in a file.
    File(File),
    /// Member list from an HTTP endpoint.
    HttpSd(HttpSd),
    /// Consul's health endpoint.
    Consul(Consul),
    /// Nomad's service endpoint.
    Nomad(Nomad),
    /// EC2 instances or ECS tasks.
    Aws(Aws),
    /// Compute Engine instances.
    Gcp(Gcp),
    /// Azure virtual machines.
    Azure(Azure),
    /// Containers of a Docker Engine.
    Docker(Docker),
}

impl Provider {
    /// Its name in the configuration and in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Provider::Kubernetes(_) => "kubernetes",
            Provider::DnsSrv(_) => "dns_srv",
            Provider::DnsA(_) => "dns_a",
            Provider::File(_) => "file",
            Provider::HttpSd(_) => "http_sd",
            Provider::Consul(_) => "consul",
            Provider::Nomad(_) => "nomad",
            Provider::Aws(_) => "aws",
            Provider::Gcp(_) => "gcp",
            Provider::Azure(_) => "azure",
            Provider::Docker(_) => "docker",
        }
    }
}

/// Block `kubernetes`.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    /// The kubeconfig file; `None`: the service account of the pod ringway runs in.
    pub kubeconfig: Option<PathBuf>,
    /// Requests a second, at least 1.
    pub qps: f32,
    /// Requests at once.
    pub burst: u32,
    /// Limit of a request that is no watch.
    pub timeout: Duration,
    /// `User-Agent`.
    pub user_agent: Box<str>,
}

/// Block `dns`.
#[derive(Clone, Debug)]
pub struct Dns {
    /// Host name or address and port of the server to ask; `None`: those of the system's resolver file.
    pub resolver: Option<(Box<str>, u16)>,
    /// Least time between two questions.
    pub interval: Duration,
}

/// Block `file`.
#[derive(Clone, Debug)]
pub struct File {
    /// How often the content is read, whatever the kernel says.
    pub poll_interval: Duration,
}

/// Format of a member list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFormat {
    /// YAML or JSON list of members.
    Trickster,
    /// JSON list of target groups.
    Prometheus,
}

/// Provider `http_sd`.
#[derive(Clone, Debug)]
pub struct HttpSd {
    /// The shared block.
    pub http: Http,
    /// How answers are read.
    pub format: ListFormat,
}

/// Provider `consul`.
#[derive(Clone, Debug)]
pub struct Consul {
    /// The shared block; its interval is the wait after a failure.
    pub http: Http,
    /// Parameter `dc`.
    pub datacenter: Option<Box<str>>,
    /// Parameter `ns`.
    pub namespace: Option<Box<str>>,
    /// Parameter `partition`.
    pub partition: Option<Box<str>>,
    /// Longest wait of a blocking query.
    pub wait: Duration,
    /// Parameter `stale`.
    pub allow_stale: bool,
    /// Parameter `passing`.
    pub only_passing: bool,
    /// Whether a warning check counts as ready.
    pub warning_is_ready: bool,
}

/// Provider `nomad`.
#[derive(Clone, Debug)]
pub struct Nomad {
    /// The shared block; its interval is the wait after a failure.
    pub http: Http,
    /// Parameter `namespace`.
    pub namespace: Option<Box<str>>,
    /// Parameter `region`.
    pub region: Option<Box<str>>,
    /// Longest wait of a blocking query.
    pub wait: Duration,
    /// Parameter `stale`.
    pub allow_stale: bool,
}

/// What is asked of AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwsService {
    /// Instances.
    Ec2,
    /// Tasks.
    Ecs,
}

/// Provider `aws`.
#[derive(Clone, Debug)]
pub struct Aws {
    /// The shared block.
    pub http: Http,
    /// Instances or tasks.
    pub service: AwsService,
    /// Region; `None`: the chain's.
    pub region: Option<Box<str>>,
    /// Access key and secret key; `None`: the chain's.
    pub keys: Option<(Box<str>, Arc<Secret>)>,
    /// Profile of the shared configuration files.
    pub profile: Option<Box<str>>,
    /// Role to assume.
    pub role_arn: Option<Box<str>>,
}

/// Provider `gcp`.
#[derive(Clone, Debug)]
pub struct Gcp {
    /// The shared block.
    pub http: Http,
    /// Project; `None`: that of the credentials, else of the metadata server.
    pub project: Option<Box<str>>,
    /// Key file of a service account; `None`: application default credentials.
    pub credentials_file: Option<PathBuf>,
}

/// The cloud a subscription is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AzureCloud {
    /// The public one.
    Public,
    /// For the government of the United States.
    UsGovernment,
    /// In China.
    China,
}

/// Who ringway is to Azure.
#[derive(Clone, Debug)]
pub enum AzureIdentity {
    /// The managed identity of the machine; of several, the one with this client id.
    Managed {
        /// Client id of a user-assigned identity.
        client_id: Option<Box<str>>,
    },
    /// A service principal with a secret.
    Secret {
        /// Tenant.
        tenant_id: Box<str>,
        /// Client.
        client_id: Box<str>,
        /// Its secret.
        secret: Arc<Secret>,
    },
    /// A service principal that a token of the platform vouches for.
    Federated {
        /// Tenant.
        tenant_id: Box<str>,
        /// Client.
        client_id: Box<str>,
        /// File with the token, read whenever it is used.
        token_file: PathBuf,
    },
}

/// Provider `azure`.
#[derive(Clone, Debug)]
pub struct Azure {
    /// The shared block.
    pub http: Http,
    /// Subscription.
    pub subscription_id: Box<str>,
    /// Resource group; `None`: the whole subscription.
    pub resource_group: Option<Box<str>>,
    /// Who asks.
    pub identity: AzureIdentity,
    /// Where.
    pub cloud: AzureCloud,
    /// Whether power states are asked for.
    pub power_state: bool,
    /// Version of the compute API.
    pub compute_api_version: Box<str>,
    /// Version of the network API.
    pub network_api_version: Box<str>,
}

/// Provider `docker`.
#[derive(Clone, Debug)]
pub struct Docker {
    /// The shared block; its endpoint is unused.
    pub http: Http,
    /// Where the engine listens.
    pub engine: DockerEngine,
    /// First segment of every path, such as `v1.41`.
    pub api_version: Box<str>,
}

/// Where a Docker Engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DockerEngine {
    /// On a socket of this machine.
    Unix(PathBuf),
    /// At this base URL, `http` or `https`.
    Url(Box<str>),
}

/// The shared block `http`.
#[derive(Clone, Debug)]
pub struct Http {
    /// Base URL without a final `/`; empty: the provider's own.
    pub endpoint: Box<str>,
    /// Wait between two readings; of blocking queries, after a failure.
    pub interval: Duration,
    /// Limit of one request.
    pub timeout: Duration,
    /// TLS settings, also towards hosts that only give out tokens.
    pub tls: ClientTls,
    /// Request headers to add.
    pub headers: Vec<(Box<str>, Arc<Secret>)>,
    /// How requests are authenticated.
    pub auth: HttpAuth,
    /// Whether redirects are followed, without credentials to another host.
    pub follow_redirects: bool,
}

/// How requests are authenticated.
#[derive(Clone, Debug)]
pub enum HttpAuth {
    /// Not at all.
    None,
    /// User name and password.
    Basic(Box<str>, Arc<Secret>),
    /// A token.
    Bearer(Arc<Secret>),
    /// A token in a file that is read before each request.
    BearerFile(PathBuf),
}

/// Kind of Kubernetes object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KubernetesKind {
    /// The endpoints behind a service.
    #[default]
    EndpointSlices,
    /// Services.
    Service,
    /// Pods.
    Pods,
}

/// A port as a query names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Port {
    /// By number.
    Number(u16),
    /// By the name that the source has for it.
    Name(Box<str>),
}

/// Which address of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AddressType {
    /// Within its network.
    #[default]
    Private,
    /// From outside.
    Public,
    /// IPv6.
    Ipv6,
}

/// Block `query`: the vocabulary of all providers. Only fields of the discoverer's provider are set, and those it
/// needs are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Query {
    /// Kind of object.
    pub kind: KubernetesKind,
    /// Namespace.
    pub namespace: Option<Box<str>>,
    /// Labels that objects have.
    pub selector: BTreeMap<Box<str>, Box<str>>,
    /// Name of a service.
    pub service: Option<Box<str>>,
    /// Name of SRV records.
    pub srv_name: Option<Box<str>>,
    /// Name of address records.
    pub hostname: Option<Box<str>>,
    /// File, or path of a URL.
    pub path: Option<Box<str>>,
    /// Port.
    pub port: Option<Port>,
    /// Label, tag or metadata key that holds the port.
    pub port_label: Option<Box<str>>,
    /// Which address.
    pub address_type: AddressType,
    /// Scheme of members whose source does not say; `None`: not written, so `http`.
    pub scheme: Option<Scheme>,
    /// Label, tag or metadata key that holds the replica group.
    pub replica_group_label: Option<Box<str>>,
    /// Tags that members have, all of them.
    pub tags: Vec<Box<str>>,
    /// The source's own filter expression.
    pub filter: Option<Box<str>>,
    /// The source's own filters: names and values.
    pub filters: BTreeMap<Box<str>, Vec<Box<str>>>,
    /// ECS cluster.
    pub cluster: Option<Box<str>>,
    /// Docker network.
    pub network: Option<Box<str>>,
}

impl Query {
    /// Scheme of members whose source does not say.
    pub fn scheme(&self) -> Scheme {
        self.scheme.unwrap_or(Scheme::Http)
    }
}

/// What decides whether a discovered member gets requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthMode {
    /// The template's health check.
    Probe,
    /// What the source says.
    Provider,
}

/// Block `alb.discovery`.
#[derive(Clone, Debug)]
pub struct AlbDiscovery {
    /// Name of the ALB.
    pub alb_name: Box<str>,
    /// Index of the discoverer in the list of those in use.
    pub discoverer: usize,
    /// Name of the backend that members are made of.
    pub template: Box<str>,
    /// What is asked.
    pub query: Arc<Query>,
    /// Snapshots with fewer members are not applied; 0: off.
    pub min_members: usize,
    /// Largest share of the members, in per cent, that one snapshot may take away; 100: off. New in ringway.
    pub max_shrink_percent: u8,
    /// Later snapshots within this time after one replace one another.
    pub debounce_window: Duration,
    /// Whether the start fails unless the first reading works.
    pub startup_must_work: bool,
    /// Who decides on health.
    pub health_mode: HealthMode,
}
