//! Everything that can be wrong with a configuration, in the words an operator reads.

#![expect(
    missing_docs,
    reason = "the message of each variant says what it means"
)]

use std::path::PathBuf;

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    // YAML.
    #[error("not valid YAML: {reason}")]
    NotYaml { reason: String },
    #[error("the file is larger than {bytes_max} bytes")]
    FileTooLarge { bytes_max: u64 },
    #[error("the file is not UTF-8 text")]
    NotUtf8,
    #[error(
        "{name:?} cannot be a server name: write a host name, such as proxy-1.example.com, optionally with a port"
    )]
    ServerName { name: String },
    #[error("a configuration file is a mapping of sections such as `backends:`, not {found}")]
    RootNotMapping { found: &'static str },
    #[error("only one YAML document per file; put the second in its own file under conf.d")]
    SecondDocument,
    #[error("an alias must not refer to the value it stands in")]
    AliasCycle,
    #[error("tag {tag} is not supported; remove it")]
    UnknownTag { tag: String },
    #[error("more than {values_max} values in one file, aliases expanded")]
    TooManyValues { values_max: usize },
    #[error("more than {depth_max} levels of nesting")]
    TooDeep { depth_max: usize },
    #[error("a key must be a single value")]
    KeyNotScalar,
    #[error("a key must not be empty")]
    KeyEmpty,
    #[error("key `{key}` is written twice in this mapping")]
    DuplicateKey { key: String },
    #[error("`<<` takes a mapping or a list of mappings")]
    MergeNotMapping,

    // Files.
    #[error("cannot read {file}: {reason}", file = file.display())]
    ReadFile { file: PathBuf, reason: String },
    #[error("cannot write {file}: {reason}", file = file.display())]
    WriteFile { file: PathBuf, reason: String },
    #[error("no configuration file in {directory}; its names must end in .yaml, .yml or .conf", directory = directory.display())]
    NoEligibleFile { directory: PathBuf },
    #[error("more than {files_max} configuration files")]
    TooManyFiles { files_max: usize },
    #[error("not allowed when the configuration is a directory: all its files are read anyway")]
    IncludeOfDirectory,

    // Keys and values.
    #[error("unknown key{hint}")]
    UnknownKey { hint: String },
    #[error("not built yet: {feature}; remove this key")]
    NotBuilt { feature: String },
    #[error("not built yet: {feature}; known are prometheus, reverseproxy, alb and rule")]
    ProviderNotBuilt { feature: String },
    #[error("not a key of listener {listener}, which serves administration")]
    AdminListenerKey { listener: &'static str },
    #[error("not built yet: protocol {protocol}; only http is")]
    Protocol { protocol: String },
    #[error("a path begins with `/` and has no query or spaces")]
    BadPath,
    #[error("this path cannot be matched: {reason}")]
    RulePath { reason: &'static str },
    #[error("{path} is already the path of {other}")]
    PathTaken { path: String, other: &'static str },
    #[error("more than {listeners_max} listeners")]
    TooManyListeners { listeners_max: usize },
    #[error("{name:?} is not a label name")]
    LabelName { name: String },
    #[error("expected {expected}, found {found}")]
    WrongKind {
        expected: String,
        found: &'static str,
    },
    #[error("expected {expected}, found {found:?}")]
    BadValue { expected: String, found: String },
    #[error("not a key of provider {provider}; it is for {allowed}")]
    WrongProvider {
        provider: String,
        allowed: &'static str,
    },
    #[error("{reason}")]
    Decode { reason: String },
    #[error("{what} is required")]
    Required { what: &'static str },
    #[error("a name must not be empty")]
    EmptyName,
    #[error("the name `{name}` is reserved")]
    ReservedName { name: String },

    // Backends.
    #[error(
        "no backend is configured: add a `backends` section (docs/configuration.md shows one), \
         pass -origin-url with -provider, or try `ringway demo`"
    )]
    NoBackends,
    #[error(
        "provider {provider:?} is unknown{hint}; known are prometheus, reverseproxy, alb and rule"
    )]
    UnknownProvider { provider: String, hint: String },
    #[error(
        "without a provider the entry `default` may only set max_capture_bytes and max_fanout_capture_bytes"
    )]
    DefaultsOnly,
    #[error("{reason}; write it as http://host:port/prefix or https://…")]
    OriginUrl { reason: String },
    #[error("provider {provider} cannot be a template")]
    TemplateProvider { provider: String },
    #[error("a template is never the default backend")]
    TemplateDefault,
    #[error("unknown listener {listener:?}{hint}")]
    UnknownListener { listener: String, hint: String },
    #[error("listener {listener} is for administration; choose another")]
    ReservedListener { listener: String },
    #[error("{other} is already the default backend of listener {listener}")]
    SecondDefault { other: String, listener: String },
    #[error("{host:?} is already a host of backend {other} on listener {listener}")]
    SharedHost {
        host: String,
        other: String,
        listener: String,
    },
    #[error("{host:?} is not a host name: {reason}")]
    BadHost { host: String, reason: String },
    #[error(
        "replica_group is for backends of provider prometheus and for ALBs in a time series merge"
    )]
    GroupOnPlainOrigin,
    #[error("replica_group has no meaning here: this ALB is not a member of a time series merge")]
    GroupOutsideMerge,
    #[error("latency_max is less than latency_min")]
    LatencyOrder,
    #[error("{text:?} is not a content type; write one such as text/html or text/*")]
    ContentType { text: String },

    // Paths.
    #[error("more than {paths_max} paths of one backend")]
    TooManyPaths { paths_max: usize },
    #[error("{methods} of this path: already served by paths[{other}]")]
    PathTwice { methods: String, other: usize },
    #[error("list at least one {what}")]
    EmptyList { what: &'static str },
    #[error("handler {handler:?} is unknown{hint}; known are {known}")]
    UnknownHandler {
        handler: String,
        hint: String,
        known: &'static str,
    },
    #[error("a {code} answer has no body")]
    BodyOfEmptyAnswer { code: u16 },
    #[error("there is no name behind the `{sign}`")]
    EditWithoutName { sign: char },
    #[error("{name} is changed twice here")]
    EditTwice { name: String },
    #[error("header {name} belongs to the connection: ringway writes it itself")]
    FramingHeader { name: String },
    #[error("Host can only be set: every request has exactly one")]
    HostHeader,
    #[error("only Access-Control-* headers belong here, not {name}")]
    CorsHeader { name: String },
    #[error("mode {mode} takes no headers; write merge or replace, or remove them")]
    CorsHeaders { mode: String },

    // Rules and rewriters.
    #[error("unknown rule {name:?}{hint}")]
    UnknownRule { name: String, hint: String },
    #[error("unknown rewriter {name:?}{hint}")]
    UnknownRewriter { name: String, hint: String },
    #[error("{reason}")]
    Rule { reason: String },
    #[error("{reason}")]
    Rewriter { reason: String },

    // Authenticators.
    #[error("unknown authenticator {name:?}{hint}")]
    UnknownAuthenticator { name: String, hint: String },
    #[error("more than {authenticators_max} authenticators")]
    TooManyAuthenticators { authenticators_max: usize },
    #[error("no users: nobody could pass; write `users` or `users_file`, or `observe_only: true`")]
    NoUsers,
    #[error("more than {users_max} users")]
    TooManyUsers { users_max: usize },
    #[error("not a user's name: {reason}")]
    UserName { reason: &'static str },
    #[error("{reason}")]
    Password { reason: &'static str },
    #[error("line {line} of the file: {reason}")]
    UsersFile { line: usize, reason: String },
    #[error("a realm has only plain characters, no quotes and no backslashes")]
    Realm,
    #[error(
        "credentials are replaced only after they were checked: this ALB needs an authenticator_name, of one without observe_only"
    )]
    SwapUnchecked,

    // ALBs.
    #[error("a backend of provider alb needs an `alb` block")]
    AlbBlockMissing,
    #[error("mechanism {mechanism:?} is unknown{hint}; known are rr, tsm, fr, fgr, nlm and ur")]
    UnknownMechanism { mechanism: String, hint: String },
    #[error("not a key of mechanism {mechanism}; it is for {allowed}")]
    WrongMechanism {
        mechanism: &'static str,
        allowed: &'static str,
    },
    #[error("{member:?} is not a configured backend{hint}")]
    UnknownMember { member: String, hint: String },
    #[error("{member:?} is only the entry of common settings: it has no provider")]
    MemberDefaultsOnly { member: String },
    #[error("an ALB cannot be a member of its own pool")]
    SelfMember,
    #[error("a user router cannot route to itself")]
    SelfRoute,
    #[error("mechanism ur needs a `user_router` block")]
    RouterBlockMissing,
    #[error(
        "all routes of a user router end at one provider: {way} ends at {provider}, but {other}"
    )]
    RouterProviders {
        way: String,
        provider: &'static str,
        other: String,
    },
    #[error("these ALBs lead back to themselves: {cycle}")]
    Cycle { cycle: String },
    #[error(
        "a rule that is a member of an ALB, or below one, may not lead to the frontend, whose routes lead back to that ALB: {cycle}; name a backend, or let no route of listener default lead there, by name (path_routing_disabled), by hosts, as default or through others"
    )]
    CycleOfRoutes { cycle: String },
    #[error("ALBs are nested more than {levels_max} levels deep here")]
    TooManyHops { levels_max: usize },
    #[error("{member:?} is a template; only discovery makes members of it")]
    TemplateMember { member: String },
    #[error(
        "a time series merge needs members of provider prometheus; {leaf} is of provider {provider} (by way of {way})"
    )]
    MergeLeaf {
        leaf: String,
        provider: &'static str,
        way: String,
    },
    #[error("{format:?} cannot be merged; write prometheus or remove the key")]
    OutputFormat { format: String },
    #[error("{found:?} is not a version of Prometheus; write one such as \"2.53\"")]
    PromqlVersion { found: String },
    #[error("{found:?} cannot tell groups apart: name labels of series")]
    PartitionLabel { found: String },
    #[error("replica group {name:?} is named twice")]
    GroupTwice { name: String },
    #[error("no group: name some, or say how many, or remove the key")]
    NoGroups,
    #[error(
        "these weights make a rotation of {turns} turns, more than {turns_max}; write smaller ones"
    )]
    RotationTooLong { turns: u64, turns_max: u64 },
    #[error("more than {members_max} members in one pool")]
    PoolTooLarge { members_max: usize },

    // Listeners, TLS.
    #[error("{address} is already taken by listener {other}")]
    AddressTaken { address: String, other: String },
    #[error("{address:?} is not an address; write an IP address, or leave it out for all")]
    BadAddress { address: String },
    #[error("{text:?} is neither an address nor a network such as 10.0.0.0/8")]
    BadNetwork { text: String },
    #[error("TLS on listener {listener} is not built yet; remove this key")]
    AdminTls { listener: &'static str },
    #[error("{needs} is needed as well: a certificate and its key go together")]
    HalfPair { needs: &'static str },
    #[error("not usable: {reason}")]
    Tls { reason: String },

    // Discovery.
    #[error("more than {discoverers_max} discoverers")]
    TooManyDiscoverers { discoverers_max: usize },
    #[error("not a block of provider {provider}; it is for {allowed}")]
    ProviderBlock { provider: String, allowed: String },
    #[error("an endpoint is required, such as {example}")]
    Endpoint { example: &'static str },
    #[error("in_cluster: true and kubeconfig exclude each other; remove one of them")]
    ClusterTwice,
    #[error("nothing is left to connect to; write kubeconfig, or remove this key")]
    NoCluster,
    #[error("{text:?} is not a resolver: {reason}; write host:port, such as 10.0.0.53:53")]
    Resolver { text: String, reason: String },
    #[error(
        "a request must outlast {block}.wait, which is {wait}; write at least {instead}, or remove this key"
    )]
    TimeoutWithinWait {
        block: &'static str,
        wait: String,
        instead: String,
    },
    #[error("{other} authenticates these requests already; remove one of the two")]
    SecondAuthentication { other: &'static str },
    #[error("a password needs a name; write username as well")]
    PasswordWithoutUser,
    #[error(
        "a unix socket is spoken to without TLS; remove this block, or write a tcp:// or https:// endpoint"
    )]
    SocketTls,
    #[error(
        "{reason}; write unix:///path/of/socket, tcp://host:port, http://host:port or https://host:port"
    )]
    DockerEndpoint { reason: String },
    #[error("{found:?} is not a version of the engine's API; write one such as v1.41")]
    DockerVersion { found: String },
    #[error(
        "access_key and secret_key go together; write {needs} as well, or remove this key and use the credential chain"
    )]
    HalfKeys { needs: &'static str },
    #[error("{found:?} is not a region; write one such as us-east-1")]
    Region { found: String },
    #[error(
        "not the key of a service account: {reason}; for other credentials remove this key and use application default credentials"
    )]
    CredentialsFile { reason: String },
    #[error("client_secret and federated_token_file exclude each other; remove one of them")]
    TwoIdentities,
    #[error("{needs} is needed as well; or remove this key and use the managed identity")]
    HalfIdentity { needs: &'static str },
    #[error("{name:?} is no entry of section discovery{hint}")]
    UnknownDiscoverer { name: String, hint: String },
    #[error("backend {name:?} is no template; set is_template: true there, or name another")]
    NotTemplate { name: String },
    #[error(
        "{why} needs a template of provider prometheus; template {template} is of provider {provider}"
    )]
    TemplateCannotMerge {
        why: String,
        template: String,
        provider: &'static str,
    },
    #[error("alb.discovery.health_mode says {other}; remove this spelling")]
    HealthModes { other: String },
    #[error("not a query field of provider {provider}; it is for {allowed}")]
    QueryField { provider: String, allowed: String },
    #[error("provider {provider} needs `{field}` in its query: {what}")]
    QueryNeeds {
        provider: String,
        field: &'static str,
        what: &'static str,
    },
    #[error("kind {kind} of provider kubernetes needs {needs}")]
    KindNeeds {
        kind: &'static str,
        needs: &'static str,
    },
    #[error(
        "kind pods of provider kubernetes takes no service; select pods by selector, or write kind: endpointslices"
    )]
    ServiceOfPods,
    #[error("{found:?} is not a port of provider {provider}; write {expected}")]
    QueryPort {
        found: String,
        provider: String,
        expected: &'static str,
    },
    #[error(
        "{found:?} is not a path of provider http_sd; write one that begins with `/`, percent-encoded, such as /pools/web"
    )]
    QueryPath { found: String },
    #[error("{what} must not be empty")]
    EmptyItem { what: &'static str },

    // Health checks.
    #[error("header {name:?} is not valid")]
    HeaderName { name: String },
    #[error("the value of header {name} has characters that no header may have")]
    HeaderValue { name: String },

    // Shards.
    #[error("this machine has no usable processor {cpu}; usable are {usable}")]
    UnknownCpu { cpu: usize, usable: String },
    #[error("processor {cpu} is listed twice")]
    CpuTwice { cpu: usize },
    #[error("{count} shards cannot be pinned to {cpus} processors; list more or set `pin: false`")]
    TooFewCpus { count: usize, cpus: usize },
    #[error(
        "processor {cpu} is in `cpus`; the control thread needs its own, or leave this key out"
    )]
    ControlCpuTaken { cpu: usize },
}

/// What is accepted but probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Caution {
    #[error("deprecated; write {instead}")]
    Deprecated { instead: String },
    #[error("environment variable {name} is not set: nothing stands in its place")]
    UnsetVariable { name: String },
    #[error("no backend uses listener {listener}: it is not started")]
    UnusedListener { listener: String },
    #[error(
        "listener {listener} has no certificate: none of its backends has full_chain_cert_path and private_key_path; its TLS port is not started"
    )]
    NoCertificate { listener: String },
    #[error("no effect: {reason}")]
    NoEffect { reason: String },
    #[error(
        "caching is not built yet: every request goes to the origin, as with provider reverseproxy"
    )]
    NotCached,
    #[error(
        "healthy_floor 1 is reset to 0 for the whole ALB: without healthcheck.interval these members would never be available: {members}"
    )]
    FloorReset { members: String },
    #[error("members whose health checks fail get requests too")]
    AdmitsFailing,
    #[error(
        "no request reaches /{name}/: a path has no such segment; choose letters, digits and -"
    )]
    NameNotSegment { name: String },
    #[error("ringway answers {path} itself, and not from this backend")]
    NameOfOwnPath { path: String },
    #[error("{member} is listed before: mechanism {mechanism} asks each member once")]
    MemberTwice {
        member: String,
        mechanism: &'static str,
    },
    #[error(
        "the authenticator of {alb} does not guard {member}, which clients also reach {ways}: write {instead}"
    )]
    MemberUnguarded {
        alb: String,
        member: String,
        ways: String,
        instead: &'static str,
    },
    #[error("no ALB makes members of this template")]
    UnusedTemplate,
    #[error("no ALB uses discoverer {discoverer}: it is not started")]
    UnusedDiscoverer { discoverer: String },
    #[error(
        "a blocking query may be answered wait/16 late; write at least {instead}, or remove this key"
    )]
    TimeoutMargin { instead: String },
    #[error("these rules lead back to themselves, which only max_rule_executions ends: {cycle}")]
    RuleCircle { cycle: String },
    #[error("no route of listener default leads anywhere: requests are answered 404")]
    NoRoutes,
    #[error("no backend has this rule")]
    UnusedRule,
    #[error("nothing runs this rewriter")]
    UnusedRewriter,
    #[error("nothing is captured for token ${{{token}}} here: it is sent as it is written")]
    UnknownToken { token: String },
    #[error("the pool is empty: every request is answered 502")]
    EmptyPool,
    #[error("this is network {network}")]
    HostBits { network: String },
    #[error("the router has no route: every request is answered {status}")]
    EmptyRouter { status: u16 },
    #[error("longer than the interval: a slow probe delays the next")]
    ProbeTimeout,
    #[error("{count} shards share {cpus} processors")]
    SharedCpus { count: usize, cpus: usize },
    #[error("unix permissions of {file} let others read this private key", file = file.display())]
    OpenKey { file: PathBuf },
}
