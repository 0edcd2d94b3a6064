//! Every default, named once, with the contract it comes from.
//!
//! Pages are those of the contract; "ringway" marks what the contract leaves open.

use std::time::Duration;

use super::units::{Period, Port};

/// A default and its source.
#[derive(Clone, Copy, Debug)]
pub struct Preset<T> {
    /// The value.
    pub value: T,
    /// Which page it comes from.
    pub contract: &'static str,
}

const fn preset<T>(value: T, contract: &'static str) -> Preset<T> {
    Preset { value, contract }
}

const fn seconds(count: u64, contract: &'static str) -> Preset<Period> {
    preset(Period(Duration::from_secs(count)), contract)
}

const MIB: u64 = 1024 * 1024;

// Listeners.

/// Port of listener `default`.
pub const PROXY_PORT: Preset<Port> = preset(Port::Number(8480), "configuration, 2");
/// TLS port of listener `default`.
pub const PROXY_TLS_PORT: Preset<Port> = preset(Port::Number(8483), "configuration, 2");
/// Port of listener `metrics`.
pub const METRICS_PORT: Preset<Port> = preset(Port::Number(8481), "configuration, 1");
/// Port of listener `mgmt`.
pub const MGMT_PORT: Preset<Port> = preset(Port::Number(8484), "configuration, 1");
/// Port of other listeners.
pub const OTHER_PORT: Preset<Port> = preset(Port::Off, "configuration, 2");
/// Address of listeners; empty for all.
pub const ADDRESS: Preset<&str> = preset("", "configuration, 2");
/// Address of listener `mgmt`.
pub const MGMT_ADDRESS: Preset<&str> = preset("127.0.0.1", "configuration, 2");
/// Protocol of listeners.
pub const PROTOCOL: Preset<&str> = preset("http", "configuration, 2");
/// Most concurrent connections; 0: no limit.
pub const CONNECTIONS_LIMIT: Preset<u32> = preset(0, "configuration, 2");
/// Longest wait for a request head.
pub const READ_HEADER_TIMEOUT: Preset<Period> = seconds(10, "configuration, 2");
/// Longest wait for the next request of a connection.
pub const IDLE_TIMEOUT: Preset<Period> = seconds(120, "ringway");
/// Longest time without progress of a body.
pub const BODY_PROGRESS_TIMEOUT: Preset<Period> = seconds(30, "ringway");
/// Most bytes of a request body.
pub const REQUEST_BODY_BYTES: Preset<i64> = preset(10 * MIB as i64, "configuration, 2");
/// Refuse a larger body.
pub const TRUNCATE_REQUEST_BODY: Preset<bool> = preset(false, "configuration, 2");

// Administration.

/// Path of the configuration dump.
pub const CONFIG_PATH: Preset<&str> = preset("/trickster/config", "configuration, 2");
/// Listener of the configuration dump.
pub const CONFIG_LISTENER: Preset<&str> = preset("mgmt", "configuration, 2");
/// Path of the ping answer.
pub const PING_PATH: Preset<&str> = preset("/trickster/ping", "configuration, 2");
/// Path of the health page.
pub const HEALTH_PATH: Preset<&str> = preset("/trickster/health", "health, 4");
/// Path that reloads.
pub const RELOAD_PATH: Preset<&str> = preset("/trickster/config/reload", "configuration, 2");
/// Path of metrics; not configurable. Contract: metrics page.
pub const METRICS_PATH: &str = "/metrics";
/// What is added to the path of the configuration dump for the sanitized one: every dump of ringway is.
pub const SANITIZED_SUFFIX: &str = "/sanitized";
/// Life of replaced listeners and peers.
pub const RELOAD_DRAIN: Preset<Period> = seconds(30, "configuration, 2");
/// Shortest time between reloads.
pub const RELOAD_RATE: Preset<Period> = seconds(3, "configuration, 2");
/// How often sources are looked at; 0: never.
pub const AUTO_RELOAD: Preset<Period> = seconds(0, "configuration, 2");
/// Lowest level of the log.
pub const LOG_LEVEL: Preset<&str> = preset("info", "configuration, 2");
/// Log file; empty for standard output.
pub const LOG_FILE: Preset<&str> = preset("", "configuration, 2");
/// Number of this process among several.
pub const INSTANCE_ID: Preset<u32> = preset(0, "configuration, 2");

// Shards.

/// As many as fit.
pub const SHARD_COUNT: Preset<&str> = preset("auto", "ringway");
/// Whether shards stay on their processor.
pub const SHARD_PIN: Preset<bool> = preset(true, "ringway");
/// What moves bytes.
pub const SHARD_DRIVER: Preset<&str> = preset("auto", "ringway");

// Backends.

/// Listener of a backend.
pub const LISTENER_NAME: Preset<&str> = preset("default", "configuration, 2");
/// Whether `/<name>/` is not a route.
pub const PATH_ROUTING_DISABLED: Preset<bool> = preset(false, "configuration, 3.1");
/// Whole exchange.
pub const TIMEOUT: Preset<Period> = seconds(60, "configuration, 3.2");
/// Connect, and again handshake.
pub const CONNECT_TIMEOUT: Preset<Period> = seconds(10, "configuration, 3.2");
/// Life of an idle connection.
pub const KEEP_ALIVE_TIMEOUT: Preset<Period> = seconds(120, "configuration, 3.2");
/// Idle connections kept.
pub const IDLE_CONNECTIONS: Preset<u32> = preset(20, "configuration, 3.2");
/// Open connections.
pub const CONNECTIONS: Preset<u32> = preset(20, "configuration, 3.2");
/// Forwarding headers.
pub const FORWARDED_HEADERS: Preset<&str> = preset("standard", "configuration, 3.2");
/// Accept any certificate of an origin.
pub const INSECURE_SKIP_VERIFY: Preset<bool> = preset(false, "configuration, 3.5");
/// Most bytes captured of one answer.
pub const CAPTURE_BYTES: Preset<u64> = preset(256 * MIB, "ALB, 2.1");
/// Most bytes captured of one fan-out; 0: no limit.
pub const FANOUT_BYTES: Preset<u64> = preset(0, "ALB, 2.1");
/// Longest range of a query; 0: no limit.
pub const QUERY_RANGE: Preset<Period> = seconds(0, "configuration, 3.3");
/// Shortest simulated latency.
pub const LATENCY: Preset<Period> = seconds(0, "configuration, 3.4");
/// Content types that are compressed towards clients.
pub const COMPRESSIBLE_TYPES: Preset<&[&str]> = preset(
    &[
        "text/html",
        "text/javascript",
        "text/css",
        "text/plain",
        "text/xml",
        "text/json",
        "application/json",
        "application/javascript",
        "application/xml",
    ],
    "configuration, 3.4",
);

// Paths.

/// Path of an entry.
pub const PATH: Preset<&str> = preset("/", "configuration, 4");
/// How it is compared.
pub const MATCH_TYPE: Preset<&str> = preset("exact", "configuration, 4");
/// Methods it serves.
pub const METHODS: Preset<&[&str]> = preset(&["GET", "HEAD"], "configuration, 4");
/// Who answers, of a backend with an origin.
pub const HANDLER: Preset<&str> = preset("proxy", "configuration, 4");
/// Who answers, of an ALB.
pub const ALB_HANDLER: Preset<&str> = preset("alb", "ALB, 2.3");
/// Status of a local answer.
pub const RESPONSE_CODE: Preset<u16> = preset(200, "configuration, 4");
/// Body of an answer that refuses a part of the Prometheus API. Contract: time series page, 1.
pub const REFUSED_API_BODY: &str = "{\"status\":\"error\",\"errorType\":\"unavailable\",\"error\":\"this endpoint is not supported\"}";
/// Not counted.
pub const NO_METRICS: Preset<bool> = preset(false, "configuration, 4");
/// What a `cors` block does to the origin's headers.
pub const CORS_MODE: Preset<&str> = preset("replace", "configuration, 3.6");

// Authenticators.

/// Reads the user's name and checks nothing.
pub const OBSERVE_ONLY: Preset<bool> = preset(false, "configuration, 6");
/// Credentials go on to the origin.
pub const PROXY_PRESERVE: Preset<bool> = preset(false, "configuration, 6");
/// A refusal makes browsers ask for a password.
pub const SHOW_LOGIN_FORM: Preset<bool> = preset(false, "configuration, 6");

// ALBs.

/// How a member is chosen.
pub const MECHANISM: Preset<&str> = preset("rr", "ALB, 1");
/// Turns of a member per rotation.
pub const WEIGHT: Preset<u32> = preset(1, "ALB, 2.1");
/// Lowest health a member may have.
pub const HEALTHY_FLOOR: Preset<i8> = preset(0, "ALB, 2.1");
/// Provider whose answers a merge writes.
pub const OUTPUT_FORMAT: Preset<&str> = preset("prometheus", "ALB, 2.1");
/// Members in flight at once; 0: all.
pub const CONCURRENCY: Preset<u32> = preset(0, "decisions, 14");
/// Multiplies the limit.
pub const CONCURRENCY_MULTIPLIER: Preset<u32> = preset(1, "ALB, 2.1");
/// Points this close together count as one.
pub const DEDUP_TOLERANCE_MS: Preset<u64> = preset(0, "ALB, 2.1");
/// Labels by which series are spread over replica groups.
pub const PARTITION_LABELS: Preset<&[&str]> = preset(&[], "ringway");
/// Series may lie in several replica groups.
pub const SHARED_SERIES: Preset<bool> = preset(true, "ringway");
/// Refuse what is not provably exact.
pub const STRICT: Preset<bool> = preset(false, "decisions, 25");
/// What becomes of an answer without every replica group.
pub const PARTIAL_RESPONSE: Preset<&str> = preset("warn", "decisions, 24");
/// What becomes of native histograms in merges.
pub const NATIVE_HISTOGRAMS: Preset<&str> = preset("preserve", "decisions, 22");
/// Most series that the answers to one query hold; 0: no limit.
pub const QUERY_SERIES: Preset<u64> = preset(5_000_000, "ringway");
/// Most samples that they hold; 0: no limit. That of a Prometheus server.
pub const QUERY_SAMPLES: Preset<u64> = preset(50_000_000, "ringway");
/// Most bytes that they hold; 0: no limit.
pub const QUERY_BYTES: Preset<u64> = preset(1024 * MIB, "ringway");
/// Status codes of a good answer.
pub const GOOD_STATUS: Preset<&str> = preset("100-399", "ALB, 2.1");
/// Status of the answer when a user router can ask nobody.
pub const NO_ROUTE_STATUS: Preset<u16> = preset(502, "ALB, 2.2");
/// Members tried after the first.
pub const RETRY_ATTEMPTS: Preset<u8> = preset(10, "ringway");
/// The same of a user router, whose targets do not stand for one another.
pub const ROUTER_RETRY_ATTEMPTS: Preset<u8> = preset(0, "ringway");
/// Retries in flight, in percent of the requests in flight.
pub const RETRY_BUDGET_PERCENT: Preset<u8> = preset(20, "ringway");
/// Retries a second that are always granted.
pub const RETRY_FLOOR_PER_SECOND: Preset<u32> = preset(10, "ringway");
/// Longest body that is kept for sending it again.
pub const RETRY_BODY_BYTES: Preset<u64> = preset(64 * 1024, "ringway");
/// Failed requests in a row that eject a member; 0: never.
pub const EJECTION_FAILURES: Preset<u32> = preset(0, "ringway");
/// How long an ejected member is left out.
pub const EJECTION_TIME: Preset<Period> = seconds(30, "ringway");

// Discovery.

/// Requests a second to a Kubernetes API server.
pub const KUBERNETES_QPS: Preset<u32> = preset(20, "autodiscovery, 2.2");
/// Requests at once.
pub const KUBERNETES_BURST: Preset<u32> = preset(40, "autodiscovery, 2.2");
/// Limit of a request that is no watch.
pub const KUBERNETES_TIMEOUT: Preset<Period> = seconds(10, "autodiscovery, 2.2");
/// Least time between two questions to a resolver.
pub const DNS_INTERVAL: Preset<Period> = seconds(30, "autodiscovery, 2.2");
/// How often a file's content is compared.
pub const FILE_POLL_INTERVAL: Preset<Period> = seconds(30, "autodiscovery, 2.2");
/// Form of a member list.
pub const LIST_FORMAT: Preset<&str> = preset("trickster", "autodiscovery, 2.2");
/// Longest wait of a blocking query.
pub const BLOCKING_WAIT: Preset<Period> = seconds(300, "autodiscovery, 2.2");
/// Any server may answer.
pub const ALLOW_STALE: Preset<bool> = preset(false, "autodiscovery, 2.2");
/// Only passing instances are asked for.
pub const ONLY_PASSING: Preset<bool> = preset(false, "autodiscovery, 2.2");
/// A warning counts as ready.
pub const WARNING_IS_READY: Preset<bool> = preset(true, "autodiscovery, 2.2");
/// Which of Azure's clouds.
pub const AZURE_CLOUD: Preset<&str> = preset("public", "autodiscovery, 2.2");
/// Power states are asked for.
pub const AZURE_POWER_STATE: Preset<bool> = preset(false, "autodiscovery, 2.2");
/// Version of Azure's compute API.
pub const AZURE_COMPUTE_API: Preset<&str> = preset("2024-07-01", "autodiscovery, 2.2");
/// Version of Azure's network API.
pub const AZURE_NETWORK_API: Preset<&str> = preset("2024-05-01", "autodiscovery, 2.2");
/// Version of the Docker Engine's API.
pub const DOCKER_API_VERSION: Preset<&str> = preset("v1.41", "autodiscovery, 2.2");
/// Where a Docker Engine listens.
pub const DOCKER_ENDPOINT: Preset<&str> =
    preset("unix:///var/run/docker.sock", "autodiscovery, 15");
/// Time between two readings over HTTP.
pub const HTTP_INTERVAL: Preset<Period> = seconds(30, "autodiscovery, 2.3");
/// Limit of one request.
pub const HTTP_TIMEOUT: Preset<Period> = seconds(10, "autodiscovery, 2.3");
/// Redirects are followed.
pub const FOLLOW_REDIRECTS: Preset<bool> = preset(false, "autodiscovery, 2.3");
/// Fewest members of a reading; 0: off.
pub const MIN_MEMBERS: Preset<u32> = preset(0, "autodiscovery, 2.4");
/// Most members that one reading takes away, in per cent; 100: off.
pub const MAX_SHRINK: Preset<u8> = preset(100, "ringway");
/// Time within which later readings replace one another.
pub const DEBOUNCE_WINDOW: Preset<Period> = seconds(0, "autodiscovery, 2.4");
/// What becomes of the start when the first reading fails.
pub const STARTUP_POLICY: Preset<&str> = preset("retry", "autodiscovery, 2.4");
/// Who decides on health.
pub const HEALTH_MODE: Preset<&str> = preset("probe", "autodiscovery, 2.4");
/// Kind of Kubernetes object.
pub const QUERY_KIND: Preset<&str> = preset("endpointslices", "autodiscovery, 7.2");
/// Which address of a machine.
pub const ADDRESS_TYPE: Preset<&str> = preset("private", "autodiscovery, 2.5");

// Health checks.

/// Time between probes; 0: none.
pub const PROBE_INTERVAL: Preset<Period> = seconds(0, "health, 1");
/// Limit of a probe.
pub const PROBE_TIMEOUT: Preset<Period> = seconds(3, "health, 1");
/// Failures that make unavailable.
pub const FAILURE_THRESHOLD: Preset<u32> = preset(3, "health, 1");
/// Successes that make available.
pub const RECOVERY_THRESHOLD: Preset<u32> = preset(3, "health, 1");
/// Method of a probe.
pub const PROBE_VERB: Preset<&str> = preset("GET", "health, 1");
/// Path of the Prometheus probe, behind the origin's prefix.
pub const PROMETHEUS_PROBE_PATH: &str = "/api/v1/query";
/// Query of the Prometheus probe: a constant, since `up` grows with the number of targets and some
/// gateways refuse it. Contract: health, 1, beyond.
pub const PROMETHEUS_PROBE_QUERY: &str = "query=vector(1)";
/// Acceptable status of a probe.
pub const PROBE_CODE: Preset<u16> = preset(200, "health, 1");

// Rules.

/// As what the input of a rule is read.
pub const INPUT_TYPE: Preset<&str> = preset("string", "rule, 2");
/// Which of several cases that match decides.
pub const MATCH_POLICY: Preset<&str> = preset("last", "rule, 7");
/// Most rules that a request may pass.
pub const RULE_EXECUTIONS: Preset<u16> = preset(16, "rule, 2");
/// Status that sends a client elsewhere.
pub const REDIRECT_CODE: Preset<u16> = preset(302, "rule, 9");
/// Handler of paths of a rule.
pub const RULE_HANDLER: Preset<&str> = preset("rule", "rule, 1");
