//! WRITTEN to COMPILED: defaults go in, names become ids, contradictions come out.
//!
//! [`compile`] is pure: it opens no file, binds no port, starts no thread, and reports every mistake of a
//! configuration in one run. [`build`] is the whole way from sources: load, read the files they name,
//! compile. First start, reload and `check` all use it.

mod admin;
mod albs;
mod authenticators;
mod backends;
mod context;
mod control;
mod discovery;
mod edits;
mod effective;
mod graph;
mod guards;
mod health;
mod listeners;
mod merging;
mod networks;
mod paths;
mod pools;
mod rewriters;
mod roster;
mod routes;
mod rules;
mod shards;
pub mod templates;
mod tls;
mod user_router;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

use ringway_shards::plan::{Generation, Plan};

pub use control::{
    AdminListener, AdminPage, AdminRoute, ControlSettings, HealthCheck, LogLevel, LogSettings,
    OriginName, PoolEjection, PoolFloor, ReloadSettings,
};
pub use effective::{Effective, Provenance, Row};

use crate::config::files::{self, Files};
use crate::config::units::Period;
use crate::config::{
    Document, Environment, Fault, LoadOptions, Path, Problem, defaults, load, logging,
};
use authenticators::Authenticators;
use context::Context;
use rewriters::Rewriters;
use roster::Roster;
use rules::Rules;

/// What the compiler must know of the machine.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name; default of `main.server_name`.
    pub name: String,
    /// Processors this process may use, ascending.
    pub cpus: Vec<usize>,
    /// Address that means all: IPv6 (which takes IPv4 too) where the machine has it.
    pub any_address: IpAddr,
}

impl Host {
    /// This machine.
    pub fn of_machine() -> Self {
        let uname = rustix::system::uname();
        // Bound at once and closed: only says whether the kernel has IPv6.
        let has_ipv6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
        Host {
            name: uname.nodename().to_string_lossy().into_owned(),
            cpus: ringway_io::pin::usable_cpus(),
            any_address: match has_ipv6 {
                true => Ipv6Addr::UNSPECIFIED.into(),
                false => Ipv4Addr::UNSPECIFIED.into(),
            },
        }
    }
}

/// What goes in beside the document.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Number of the plan to make.
    pub generation: Generation,
    /// The machine.
    pub host: &'a Host,
    /// Contents of the files that the document names.
    pub files: &'a Files,
}

/// A compiled configuration.
#[derive(Debug)]
pub struct Compiled {
    /// What shards serve by.
    pub plan: Plan,
    /// What the control core runs by.
    pub control: ControlSettings,
}

/// Loads, reads files and compiles.
///
/// # Errors
/// With all problems of the run, in the order of the sources.
pub fn build(
    options: &LoadOptions,
    environment: &Environment,
    host: &Host,
    generation: Generation,
) -> Result<Compiled, Vec<Problem>> {
    let document = load(options, environment)?;
    build_document(&document, host, generation)
}

/// Reads the files a document names and compiles it.
///
/// # Errors
/// With all problems of the run, in the order of the sources.
pub fn build_document(
    document: &Document,
    host: &Host,
    generation: Generation,
) -> Result<Compiled, Vec<Problem>> {
    let files = files::read(document);
    let inputs = Inputs {
        generation,
        host,
        files: &files,
    };
    compile(document, &inputs)
}

/// Compiles.
///
/// # Errors
/// With all problems of the document, its files and its meaning, in the order of the sources.
pub fn compile(document: &Document, inputs: &Inputs<'_>) -> Result<Compiled, Vec<Problem>> {
    let mut context = Context::new(document, inputs);
    let roster = Roster::new(&mut context);
    let rewriters = Rewriters::new(&mut context);
    let rules = Rules::new(&mut context, &roster, &rewriters);
    let graph = graph::Graph::new(&mut context, &roster, &rules);
    let main = main_settings(&mut context);
    let mut admin = admin::compile(&mut context);
    let shards = shards::compile(&mut context);
    let authenticators = Authenticators::new(&mut context);
    let named = backends::Named {
        authenticators: &authenticators,
        rewriters: &rewriters,
        rules: &rules,
    };
    let backends = backends::compile(&mut context, &roster, &graph, named);
    let templates = backends::templates(&mut context, &roster, named);
    let listeners = listeners::compile(&mut context, &roster, &mut admin);
    guards::check(
        &mut context,
        &roster,
        &graph,
        (&backends, &authenticators),
        &listeners,
    );
    let health_checks = health::compile(&mut context, &roster, &backends);
    let pools = pools::compile(&mut context, &roster, &graph, &health_checks);
    let discovery = discovery::compile(&mut context, &roster, &graph);
    rules.warn_of_unused(&mut context);
    rewriters.warn_of_unused(&mut context);
    if context.is_clean() && roster.live().next().is_none() {
        context.fail_key(&Path::of(&["backends"]), crate::config::Fault::NoBackends);
    }
    let (effective, warnings) = context.finish()?;
    let origins = backends.iter().filter_map(origin_name);
    let authenticators_written = document.written.authenticators.0.iter();
    let users_files = authenticators_written.filter_map(|(_, written)| written.users_file.as_ref());
    let control = ControlSettings {
        users_files: users_files
            .filter(|file| !file.is_empty())
            .map(Into::into)
            .collect(),
        admin: admin.listeners,
        log: main.log,
        reload: admin.reload,
        health_checks,
        templates,
        floors: pools.floors,
        ejections: pools.ejections,
        origins: origins.collect(),
        discovery,
        shards: shards.options,
        control_cpu: shards.control_cpu,
        fingerprint: document.fingerprint ^ inputs.files.fingerprint().rotate_left(1),
        effective,
        warnings,
    };
    let plan = Plan {
        generation: inputs.generation,
        server_name: main.server_name,
        listeners: listeners.into(),
        backends: backends.into_iter().map(std::sync::Arc::new).collect(),
        authenticators: authenticators.into_plan().into(),
        rewritten_hosts: rewriters.hosts().into(),
        pools: pools.plans,
    };
    Ok(Compiled { plan, control })
}

fn origin_name(backend: &ringway_shards::plan::Backend) -> Option<OriginName> {
    match &backend.kind {
        ringway_shards::plan::BackendKind::Origin(origin) => Some(OriginName {
            backend: backend.id,
            host: origin.host.clone(),
            port: origin.port,
        }),
        ringway_shards::plan::BackendKind::Alb(_) | ringway_shards::plan::BackendKind::Rule(_) => {
            None
        }
    }
}

struct MainSettings {
    server_name: Box<str>,
    log: LogSettings,
}

fn main_settings(context: &mut Context<'_>) -> MainSettings {
    let written = &context.document.written;
    let main = Path::of(&["main"]);
    let logging = Path::of(&["logging"]);
    let name = written.main.server_name.clone().filter(|n| !n.is_empty());
    let server_name = context.pick_or_derive(
        &main.key("server_name"),
        name,
        context.inputs.host.name.clone(),
        "the host's name",
    );
    // It goes into `Via` and `Forwarded` as it is.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if !server_name.chars().all(is_plain) {
        let name = server_name.clone();
        context.fail_value(&main.key("server_name"), Fault::ServerName { name });
    }
    let instance = context.pick(
        &main.key("instance_id"),
        written.main.instance_id,
        defaults::INSTANCE_ID,
    );
    let level = context.pick_text(
        &logging.key("log_level"),
        written.logging.log_level.as_deref(),
        defaults::LOG_LEVEL,
    );
    let file = context.pick_text(
        &logging.key("log_file"),
        written.logging.log_file.as_deref(),
        defaults::LOG_FILE,
    );
    MainSettings {
        server_name: server_name.into(),
        log: LogSettings {
            level: match level.as_str() {
                "error" | "fatal" => LogLevel::Error,
                "warn" => LogLevel::Warn,
                "debug" => LogLevel::Debug,
                _ => LogLevel::Info,
            },
            file: (!file.is_empty()).then(|| logging::file_name(&file, instance)),
        },
    }
}

/// A period that is off at 0.
fn unless_zero(period: Period) -> Option<std::time::Duration> {
    (!period.0.is_zero()).then_some(period.0)
}

#[cfg(test)]
pub(crate) mod tests;
