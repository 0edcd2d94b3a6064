//! What a test wants started: its configuration and how the process runs.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ports::Port;
use crate::product::{Ringway, binary};

/// A configuration under construction.
///
/// The sections that every test needs (`listeners`, `shards`) are written here, with free ports and the
/// driver that `RINGWAY_TEST_DRIVER` names; the test adds the rest.
#[derive(Debug)]
pub struct Setup {
    sections: String,
    listener: Vec<String>,
    shards: Vec<String>,
    environment: Vec<(String, String)>,
    folder: PathBuf,
}

impl Setup {
    /// Begins with further top-level sections as YAML, mostly `backends`.
    pub fn new(sections: impl Into<String>) -> Self {
        static TURN: AtomicU32 = AtomicU32::new(0);
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let folder = scratch().join(format!("{}-{turn}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the target folder can be written");
        let shards = vec!["count: 2".to_owned(), "pin: false".to_owned()];
        let sections = sections.into();
        Self {
            sections,
            listener: Vec::new(),
            shards,
            environment: Vec::new(),
            folder,
        }
    }

    /// One reverse proxy backend as the default, with further keys of its own.
    pub fn web(origin: std::net::SocketAddr, keys: &str) -> Self {
        let mut yaml = format!(
            "backends:\n  web:\n    provider: reverseproxy\n    is_default: true\n    \
             origin_url: http://{origin}\n"
        );
        for key in keys.lines() {
            yaml.push_str(&format!("    {key}\n"));
        }
        Self::new(yaml)
    }

    /// Adds sections.
    pub fn section(mut self, yaml: &str) -> Self {
        self.sections.push_str(yaml);
        self
    }

    /// Adds a key to `listeners.default`.
    pub fn listener(mut self, key: &str) -> Self {
        self.listener.push(key.to_owned());
        self
    }

    /// Runs this many shards instead of two.
    pub fn shards(mut self, count: usize) -> Self {
        self.shards[0] = format!("count: {count}");
        self
    }

    /// Sets a variable of the process's environment.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The folder of this start, for certificates and the like; removed when the test passes.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// Starts the product and waits until it serves.
    ///
    /// # Panics
    /// When it ends or does not serve within patience.
    #[track_caller]
    pub fn start(self) -> Ringway {
        let ports = [Port::claim(), Port::claim(), Port::claim(), Port::claim()];
        let head = self.head(&ports);
        let config = self.folder.join("ringway.yaml");
        std::fs::write(&config, format!("{head}{}", self.sections)).expect("the folder is ours");
        let log = self.folder.join("log");
        let sink = std::fs::File::create(&log).expect("the folder is ours");
        let mut command = Command::new(binary());
        command
            .arg("run")
            .arg("--config")
            .arg(&config)
            .current_dir(&self.folder);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::null())
            .stderr(sink.try_clone().expect("an open file"));
        let child = command.stdout(sink).spawn().expect("the binary can be run");
        let ringway = Ringway::new(child, ports, head, self.folder);
        ringway.wait_until_serving();
        ringway
    }

    /// The sections of every test.
    fn head(&self, ports: &[Port; 4]) -> String {
        let [proxy, tls, metrics, mgmt] = ports.each_ref().map(Port::number);
        let mut yaml = format!(
            "listeners:\n  default:\n    address: 127.0.0.1\n    port: {proxy}\n    \
             tls_address: 127.0.0.1\n    tls_port: {tls}\n"
        );
        for key in &self.listener {
            yaml.push_str(&format!("    {key}\n"));
        }
        yaml.push_str(&format!(
            "  metrics:\n    address: 127.0.0.1\n    port: {metrics}\n  \
             mgmt:\n    address: 127.0.0.1\n    port: {mgmt}\nshards:\n"
        ));
        for key in &self.shards {
            yaml.push_str(&format!("  {key}\n"));
        }
        if let Ok(driver) = std::env::var("RINGWAY_TEST_DRIVER") {
            yaml.push_str(&format!("  driver: {driver}\n"));
        }
        yaml
    }
}

/// Where tests keep their files: beside the test executables, so that a clean build removes them.
fn scratch() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("cargo's layout");
    profile.join("wire-tests")
}
