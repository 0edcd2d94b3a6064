//! The proxies under test: where they are found, how they are configured and started.
//!
//! One entry per program; the configurations are the templates in `bench/peers/`, compiled in.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::launch::{Place, Share};
use super::measure::get_once;
use super::placement::Layout;
use super::process::Process;

/// How long a proxy may take until it answers.
const START_PATIENCE: Duration = Duration::from_secs(8);

/// A program that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// What this is about.
    Ringway,
    /// A peer.
    Haproxy,
    /// A peer.
    Nginx,
    /// A peer.
    Envoy,
}

/// A program that was found.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// Which it is.
    pub(super) kind: Kind,
    /// Where it is.
    pub(super) path: PathBuf,
    /// What it says of its version.
    pub(super) version: String,
}

/// A running proxy.
#[derive(Debug)]
pub(super) struct Proxy {
    /// Its process.
    pub(super) process: Process,
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// Where its metrics are, if it is ringway.
    pub(super) metrics: SocketAddr,
}

impl Kind {
    /// All, in the order of the table.
    pub(super) const ALL: [Self; 4] = [Self::Ringway, Self::Haproxy, Self::Nginx, Self::Envoy];

    /// The name in the table and on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ringway => "ringway",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Envoy => "envoy",
        }
    }

    /// Reads a name of the command line.
    pub(super) fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.with_context(|| format!("{name:?} is no proxy: use ringway, haproxy, nginx, envoy"))
    }

    fn template(self) -> &'static str {
        match self {
            Self::Ringway => include_str!("../../peers/ringway.yaml"),
            Self::Haproxy => include_str!("../../peers/haproxy.cfg"),
            Self::Nginx => include_str!("../../peers/nginx.conf"),
            Self::Envoy => include_str!("../../peers/envoy.yaml"),
        }
    }

    /// What its configuration is called; Envoy goes by the ending.
    fn config_name(self) -> &'static str {
        match self {
            Self::Ringway => "ringway.yaml",
            Self::Haproxy => "haproxy.cfg",
            Self::Nginx => "nginx.conf",
            Self::Envoy => "envoy.yaml",
        }
    }

    fn version_argument(self) -> &'static str {
        match self {
            Self::Ringway => "version",
            Self::Haproxy | Self::Nginx => "-v",
            Self::Envoy => "--version",
        }
    }

    fn arguments(self, config: &Path, dir: &Path) -> Vec<String> {
        let config = config.display().to_string();
        let words: Vec<String> = match self {
            Self::Ringway => vec!["run".into(), "--config".into(), config],
            // -db: in the foreground, one process.
            Self::Haproxy => vec!["-db".into(), "-f".into(), config],
            // -e: errors before the configuration is read go here and not to a system path.
            Self::Nginx => vec![
                "-p".into(),
                dir.display().to_string(),
                "-e".into(),
                dir.join("nginx-error.log").display().to_string(),
                "-c".into(),
                config,
            ],
            Self::Envoy => [
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "-l",
                "error",
                "-c",
            ]
            .into_iter()
            .map(str::to_owned)
            .chain([config])
            .collect(),
        };
        words
    }

    /// Where it runs. ringway pins its own threads, by its configuration; the others are pinned
    /// whole.
    fn cpu(self, layout: Layout) -> Option<usize> {
        match self {
            Self::Ringway => None,
            Self::Haproxy | Self::Nginx | Self::Envoy => Some(layout.proxy),
        }
    }
}

impl Program {
    /// Looks for a program. `binary` is where ringway was said to be.
    pub(super) fn find(kind: Kind, binary: Option<&Path>) -> Option<Self> {
        let path = match (kind, binary) {
            (Kind::Ringway, Some(binary)) => Some(binary.to_owned()).filter(|path| path.is_file()),
            (Kind::Ringway, None) => beside_this("ringway").filter(|path| path.is_file()),
            _ => on_path(kind.name()),
        }?;
        let version = version(kind, &path);
        Some(Self {
            kind,
            path,
            version,
        })
    }

    /// Starts it in front of the origin and waits until it answers.
    pub(super) fn start(&self, setup: &Setup<'_>) -> Result<Proxy> {
        self.start_with(self.kind.template(), setup, &[])
    }

    /// Starts it with another configuration, which may have more names to be filled in.
    pub(super) fn start_with(
        &self,
        template: &str,
        setup: &Setup<'_>,
        more: &[(&str, String)],
    ) -> Result<Proxy> {
        let [listen, metrics, mgmt] = free_ports()?;
        let mut values = BTreeMap::from([
            ("LISTEN_PORT", listen.to_string()),
            ("METRICS_PORT", metrics.to_string()),
            ("MGMT_PORT", mgmt.to_string()),
            ("ORIGIN_PORT", setup.origin.port().to_string()),
            ("PROXY_CPU", setup.layout.proxy.to_string()),
            ("LOAD_CPU", setup.layout.load.to_string()),
            ("DIR", setup.dir.display().to_string()),
        ]);
        values.extend(more.iter().cloned());
        let name = self.kind.name();
        let config = setup.dir.join(self.kind.config_name());
        fs::write(&config, fill_in(template, &values)?)
            .with_context(|| format!("cannot write {}", config.display()))?;
        let place = Place {
            cpu: self.kind.cpu(setup.layout),
            share: Share::Nice(setup.nice),
        };
        let arguments = self.kind.arguments(&config, setup.dir);
        let mut process = Process::start(name, place, &self.path, &arguments, setup.dir)?;
        let address = SocketAddr::from(([127, 0, 0, 1], listen));
        process.wait_until(START_PATIENCE, |_| {
            get_once(address, "/").ok().filter(|status| *status == 200)
        })?;
        Ok(Proxy {
            process,
            address,
            metrics: SocketAddr::from(([127, 0, 0, 1], metrics)),
        })
    }
}

/// What every proxy is started with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup<'a> {
    /// Where configurations and logs go.
    pub(super) dir: &'a Path,
    /// Which CPUs are whose.
    pub(super) layout: Layout,
    /// Niceness of all that is measured.
    pub(super) nice: i32,
    /// What stands behind the proxy.
    pub(super) origin: SocketAddr,
}

/// Replaces every `@NAME@`. A name without a value is a mistake in the template.
fn fill_in(template: &str, values: &BTreeMap<&str, String>) -> Result<String> {
    let mut text = String::with_capacity(template.len());
    for line in template.lines() {
        let is_comment = line.trim_start().starts_with('#');
        let mut parts = line.split('@');
        text.push_str(parts.next().unwrap_or_default());
        let mut rest = parts.peekable();
        while let Some(part) = rest.next() {
            let is_name = !part.is_empty()
                && part
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
            match values.get(part) {
                Some(value) if rest.peek().is_some() => {
                    text.push_str(value);
                    text.push_str(rest.next().unwrap_or_default());
                }
                None if is_name && rest.peek().is_some() && !is_comment => {
                    bail!("the template has an unknown name @{part}@");
                }
                _ => {
                    text.push('@');
                    text.push_str(part);
                }
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// The program of this name in the directory of the harness's own.
pub(super) fn beside_this(name: &str) -> Option<PathBuf> {
    Some(env::current_exe().ok()?.parent()?.join(name))
}

/// Looks along PATH and where Debian keeps servers, which users' PATHs often lack.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(more)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}

/// The version as `1.2.3`, or the first line that was printed.
fn version(kind: Kind, path: &Path) -> String {
    let output = Command::new(path)
        .arg(kind.version_argument())
        .stdin(Stdio::null())
        .output()
        .ok();
    let text = output.map_or(String::new(), |output| {
        // nginx prints its version to stderr.
        let both = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&both).into_owned()
    });
    version_in(&text)
}

fn version_in(text: &str) -> String {
    let is_version = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.split('.').count() >= 3
            && word
                .split('.')
                .take(2)
                .all(|part| part.parse::<u32>().is_ok())
    };
    let mut words = text.split(|c: char| c.is_whitespace() || c == '/' || c == '-');
    words
        .find(is_version)
        .unwrap_or("unknown version")
        .to_owned()
}

/// Takes ports that are free now. All are held until the last is known, so they differ.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
        *port = listener.local_addr().context("no free port")?.port();
        held.push(listener);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_in_and_unknown_names_refused() {
        let values = BTreeMap::from([("A", "1".to_owned()), ("B_2", "two".to_owned())]);
        let filled = fill_in("x @A@@B_2@ y\n# @NAME@ stays\n\"@type\": a@b\n", &values).unwrap();
        assert_eq!(filled, "x 1two y\n# @NAME@ stays\n\"@type\": a@b\n");
        let error = fill_in("port @C@\n", &values).unwrap_err().to_string();
        assert!(error.contains("@C@"), "{error}");
    }

    #[test]
    fn no_name_is_left_in_any_template() {
        let names = [
            "LISTEN_PORT",
            "METRICS_PORT",
            "MGMT_PORT",
            "ORIGIN_PORT",
            "PROXY_CPU",
        ];
        let names = names.into_iter().chain(["LOAD_CPU", "DIR"]);
        let values: BTreeMap<_, _> = names.map(|name| (name, "7".to_owned())).collect();
        for kind in Kind::ALL {
            let filled = fill_in(kind.template(), &values).unwrap();
            assert!(
                filled.contains("127.0.0.1:7") || filled.contains("port_value: 7"),
                "{filled}"
            );
        }
    }

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, version) in [
            (
                "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/",
                "2.6.12",
            ),
            ("nginx version: nginx/1.22.1", "1.22.1"),
            (
                "envoy  version: 0abc/1.40.0/Clean/RELEASE/BoringSSL",
                "1.40.0",
            ),
            ("ringway 0.1.0", "0.1.0"),
            ("no idea", "unknown version"),
        ] {
            assert_eq!(version_in(text), version);
        }
    }

    #[test]
    fn free_ports_differ() {
        let [a, b, c] = free_ports().unwrap();
        assert!(a != b && b != c && a != c);
    }
}
