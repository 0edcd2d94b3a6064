//! Small plans for the tests of the control core.

use std::sync::Arc;
use std::time::Duration;

use ringway_shards::plan::{
    Alb, Backend, BackendId, BackendKind, ForwardedHeaders, Generation, Mechanism, Origin,
    OriginProvider, PathRule, Plan, PoolId, PoolMember, PoolPlan, Retry, Scheme,
};

/// Builds a plan backend by backend.
#[derive(Default)]
pub(crate) struct Builder {
    backends: Vec<Backend>,
    pools: Vec<PoolPlan>,
}

impl Builder {
    /// Adds an origin; its replica group is its own name unless one follows a `/`.
    pub(crate) fn origin(mut self, name: &str, host: &str) -> Self {
        let (name, group) = name.split_once('/').unwrap_or((name, name));
        let kind = BackendKind::Origin(Box::new(origin(host)));
        self.push(name, group, "reverseproxy", kind);
        self
    }

    /// Adds an ALB over `(member, weight)`.
    pub(crate) fn alb(mut self, name: &str, floor: i8, members: &[(&str, u32)]) -> Self {
        let pool = PoolId(u32::try_from(self.pools.len()).unwrap());
        let members = members
            .iter()
            .map(|(member, weight)| PoolMember {
                backend: self.id(member),
                weight: *weight,
            })
            .collect();
        self.pools.push(PoolPlan {
            id: pool,
            alb_name: name.into(),
            members,
            healthy_floor: floor,
        });
        let alb = Alb {
            mechanism: Mechanism::RoundRobin,
            pool,
            fanout_bytes_max: None,
            timeout: Duration::from_secs(60),
            query_range_max: None,
            concurrency_max: None,
            good_status: None,
            retry: Retry::NONE,
            user_router: None,
            tsm: Box::default(),
        };
        self.push(name, name, "alb", BackendKind::Alb(alb));
        self
    }

    pub(crate) fn plan(self, generation: u64) -> Arc<Plan> {
        Arc::new(Plan {
            generation: Generation(generation),
            server_name: "test".into(),
            listeners: Arc::new([]),
            backends: self.backends.into_iter().map(Arc::new).collect(),
            authenticators: Arc::new([]),
            rewritten_hosts: Arc::new([]),
            pools: self.pools,
        })
    }

    /// Id of a backend added before, or of the next but `n` written as `+n`.
    fn id(&self, name: &str) -> BackendId {
        let index = match name.strip_prefix('+') {
            Some(ahead) => self.backends.len() + ahead.parse::<usize>().unwrap(),
            None => self
                .backends
                .iter()
                .position(|backend| &*backend.name == name)
                .unwrap(),
        };
        BackendId(u32::try_from(index).unwrap())
    }

    fn push(&mut self, name: &str, group: &str, provider: &'static str, kind: BackendKind) {
        self.backends.push(Backend {
            id: BackendId(u32::try_from(self.backends.len()).unwrap()),
            name: name.into(),
            provider_label: provider,
            replica_group: group.into(),
            capture_bytes_max: 1 << 20,
            paths: Arc::new([PathRule::all()]),
            latency: None,
            compressible_types: Arc::new([]),
            kind,
        });
    }
}

fn origin(host: &str) -> Origin {
    Origin {
        provider: OriginProvider::ReverseProxy,
        scheme: Scheme::Http,
        host: host.into(),
        port: 80,
        authority: host.into(),
        path_prefix: "".into(),
        tls: None,
        spare_tls: None,
        peer_key: host.into(),
        timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(10),
        keep_alive_timeout: Duration::from_secs(120),
        idle_max: 20,
        connections_max: 20,
        forwarded: ForwardedHeaders::Standard,
        injected_labels: Vec::new(),
    }
}

/// A compiled configuration from its text, by way of a file, as the binary reads it.
pub(crate) struct Configured {
    path: std::path::PathBuf,
}

impl Configured {
    pub(crate) fn new(yaml: &str) -> Self {
        // Threads of one process never make two of these in the same nanosecond by the same clock.
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let thread = format!("{:?}", std::thread::current().id());
        let digits: String = thread.chars().filter(char::is_ascii_digit).collect();
        let (process, nanos) = (std::process::id(), now.as_nanos());
        let file = format!("ringway-control-{process}-{digits}-{nanos}.yaml");
        let configured = Configured {
            path: std::env::temp_dir().join(file),
        };
        configured.write(yaml);
        configured
    }

    /// Changes the file.
    pub(crate) fn write(&self, yaml: &str) {
        std::fs::write(&self.path, yaml).unwrap();
    }

    /// What reads it.
    pub(crate) fn loader(&self) -> crate::control::run::Loader {
        use crate::compile::{Host, build};
        use crate::config::{Environment, LoadOptions};
        let load = LoadOptions {
            path: Some(self.path.clone()),
            ..LoadOptions::default()
        };
        let host = Host {
            name: "test".into(),
            cpus: vec![0, 1],
            any_address: std::net::Ipv4Addr::UNSPECIFIED.into(),
        };
        Box::new(move |generation| build(&load, &Environment::default(), &host, generation))
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
