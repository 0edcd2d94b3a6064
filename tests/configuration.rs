//! Configurations on disk: which files are read, in which order, and what `check` says of them.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use ringway::cli::{EXIT_INVALID, EXIT_OK, check};
use ringway::compile::{Compiled, Host, build};
use ringway::config::{Environment, LoadOptions, Override};
use ringway_shards::plan::{BackendKind, Generation};

/// A folder of its own for one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("ringway-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Lines without this folder's path.
    fn short(&self, text: &str) -> Vec<String> {
        let own = format!("{}/", self.0.display());
        text.lines().map(|line| line.replace(&own, "")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn host() -> Host {
    Host {
        name: "box".into(),
        cpus: vec![0, 1],
        any_address: Ipv4Addr::UNSPECIFIED.into(),
    }
}

fn options(path: &std::path::Path) -> LoadOptions {
    LoadOptions {
        path: Some(path.to_owned()),
        overrides: Vec::new(),
    }
}

/// Exit status, standard output and standard error of `check`.
fn checked(options: &LoadOptions, explain: bool) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let environment = Environment::default();
    let status = check(
        options,
        explain,
        &environment,
        &host(),
        (&mut out, &mut err),
    )
    .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status, text(out), text(err))
}

fn built(options: &LoadOptions) -> Compiled {
    build(options, &Environment::default(), &host(), Generation(1))
        .unwrap_or_else(|problems| panic!("{problems:?}"))
}

const ORIGIN: &str = "backends: {a: {provider: rp, origin_url: 'http://a', timeout: 1s}}\n";

#[test]
fn the_folder_beside_a_file_lies_over_it_in_byte_order() {
    let folder = Folder::new("confd");
    let main = folder.write("main.yaml", ORIGIN);
    folder.write(
        "conf.d/10.yaml",
        "backends: {a: {timeout: 2s, max_idle_conns: 7}}\n",
    );
    folder.write(
        "conf.d/9.YML",
        "backends: {a: {timeout: 3s, max_idle_conns: }}\n",
    );
    folder.write("conf.d/.hidden.yaml", "nonsense: 1\n");
    folder.write("conf.d/readme.txt", "nonsense: 1\n");
    folder.write("conf.d/sub.yaml/x.yaml", "nonsense: 1\n");
    let (status, out, err) = checked(&options(&main), true);
    assert_eq!((status, err.as_str()), (EXIT_OK, ""));
    let lines = folder.short(&out);
    assert!(
        lines.contains(&"backends.a.timeout = \"3s\"  # conf.d/9.YML:1:25".to_owned()),
        "{out}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("backends.a.max_idle_conns = 20  # default"))
    );
    assert_eq!(lines.last().unwrap(), "configuration is valid");
}

#[test]
fn a_named_include_folder_must_be_there() {
    let folder = Folder::new("include");
    let main = folder.write(
        "main.yaml",
        format!("main: {{config_include_directory: more}}\n{ORIGIN}"),
    );
    let (status, _, err) = checked(&options(&main), false);
    assert_eq!(status, EXIT_INVALID);
    let lines = folder.short(&err);
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].starts_with("main.yaml:1:34: main.config_include_directory: cannot read more"),
        "{err}"
    );
    folder.write("more/a.conf", "backends: {a: {timeout: 9s}}\n");
    let compiled = built(&options(&main));
    assert!(
        compiled
            .control
            .effective
            .explain()
            .contains("backends.a.timeout = \"9s\"")
    );
}

#[test]
fn a_folder_is_read_whole() {
    let folder = Folder::new("whole");
    folder.write("b.yaml", "backends: {a: {timeout: 2s}}\n");
    folder.write("a.yaml", ORIGIN);
    let compiled = built(&options(&folder.0));
    assert!(
        compiled
            .control
            .effective
            .explain()
            .contains("backends.a.timeout = \"2s\"")
    );
    folder.write("c.yaml", "main: {config_include_directory: x}\n");
    let (_, _, err) = checked(&options(&folder.0), false);
    assert_eq!(
        folder.short(&err),
        [
            "c.yaml:1:8: main.config_include_directory: not allowed when the configuration is a directory: all its files are read anyway"
        ]
    );
    let empty = Folder::new("empty");
    let (status, _, err) = checked(&options(&empty.0), false);
    assert_eq!(status, EXIT_INVALID);
    assert!(err.contains("no configuration file in"), "{err}");
}

#[test]
fn all_files_are_read_before_anything_is_said() {
    let folder = Folder::new("all");
    folder.write("a.yaml", "backends: [\n");
    folder.write("b.yaml", "x: 1\nx: 2\n");
    folder.write("c.yaml", [0xff, 0xfe, 0x00]);
    let (status, out, err) = checked(&options(&folder.0), false);
    assert_eq!((status, out.as_str()), (EXIT_INVALID, ""));
    let lines = folder.short(&err);
    assert_eq!(lines.len(), 3, "{err}");
    assert!(lines[0].starts_with("a.yaml:") && lines[0].contains("not valid YAML"));
    assert_eq!(
        lines[1],
        "b.yaml:2:1: key `x` is written twice in this mapping"
    );
    assert_eq!(lines[2], "c.yaml: the file is not UTF-8 text");
}

#[test]
fn a_file_that_is_asked_for_must_be_there() {
    let folder = Folder::new("absent");
    let (status, _, err) = checked(&options(&folder.0.join("none.yaml")), false);
    assert_eq!(status, EXIT_INVALID);
    assert!(err.contains("cannot read"), "{err}");
}

#[test]
fn flags_lie_over_files_and_are_named_in_problems() {
    let folder = Folder::new("flags");
    let main = folder.write("main.yaml", "listeners: {default: {port: 1}}\n");
    let set = |keys, text: &str| Override {
        source: "flag -x".into(),
        keys,
        text: text.into(),
    };
    let mut with = options(&main);
    with.overrides = vec![
        set(&["backends", "default", "origin_url"], "http://a"),
        set(&["backends", "default", "provider"], "rp"),
        set(&["listeners", "default", "port"], "8000"),
    ];
    assert_eq!(built(&with).plan.listeners[0].address.port(), 8000);
    with.overrides
        .push(set(&["listeners", "default", "port"], "x"));
    let (_, _, err) = checked(&with, false);
    assert_eq!(
        err,
        "flag -x: listeners.default.port: expected a port from 1 to 65535, 0 for off or `any` for a free one, found \"x\"\n"
    );
}

#[test]
fn the_fingerprint_changes_with_a_source() {
    let folder = Folder::new("print");
    let main = folder.write("main.yaml", ORIGIN);
    let first = built(&options(&main)).control.fingerprint;
    assert_eq!(built(&options(&main)).control.fingerprint, first);
    folder.write("conf.d/a.yaml", "main: {instance_id: 1}\n");
    assert_ne!(built(&options(&main)).control.fingerprint, first);
}

#[test]
fn unreadable_certificates_are_reported_at_their_keys() {
    let folder = Folder::new("tls");
    let main = folder.write(
        "main.yaml",
        "backends:\n  a:\n    provider: rp\n    origin_url: https://a\n    tls:\n      full_chain_cert_path: /none/c.pem\n      private_key_path: /none/k.pem\n      certificate_authority_paths: [/none/ca.pem]\n",
    );
    let (status, _, err) = checked(&options(&main), false);
    assert_eq!(status, EXIT_INVALID);
    let lines = folder.short(&err);
    assert_eq!(lines.len(), 3, "{err}");
    assert!(lines[0].starts_with(
        "main.yaml:6:29: backends.a.tls.full_chain_cert_path: cannot read /none/c.pem"
    ));
    assert!(lines[1].starts_with("main.yaml:7:25: backends.a.tls.private_key_path: cannot read"));
    assert!(
        lines[2].starts_with(
            "main.yaml:8:37: backends.a.tls.certificate_authority_paths[0]: cannot read"
        )
    );
}

/// The root of the clone that is tested, which may share its target folder with others.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

#[test]
fn certificates_make_a_second_listener_and_their_own_peers() {
    let root = root();
    let sample = root.join("tests/scenarios/tls.yaml");
    let Compiled { plan, control } = built(&options(&sample));
    let tls: Vec<bool> = plan.listeners.iter().map(|l| l.tls.is_some()).collect();
    assert_eq!(tls, [false, true]);
    let keys: Vec<&str> = plan
        .backends
        .iter()
        .map(|backend| match &backend.kind {
            BackendKind::Origin(origin) => &*origin.peer_key,
            BackendKind::Alb(_) | BackendKind::Rule(_) => "",
        })
        .collect();
    assert_ne!(keys[0], keys[1]);
    assert!(
        control
            .health_checks
            .iter()
            .all(|check| check.tls.is_some())
    );
}

#[test]
fn a_key_of_another_certificate_is_refused_at_its_backend() {
    let root = root();
    let text = fs::read_to_string(root.join("tests/scenarios/tls.yaml")).unwrap();
    let folder = Folder::new("mismatch");
    let main = folder.write(
        "main.yaml",
        text.replace("/edge-key.pem", "/client-key.pem"),
    );
    let (status, _, err) = checked(&options(&main), false);
    assert_eq!(status, EXIT_INVALID);
    assert_eq!(
        folder.short(&err),
        [
            "main.yaml:10:29: backends.secure.tls.full_chain_cert_path: not usable: secure: the private key does not belong to the certificate"
        ]
    );
}

#[test]
fn every_sample_is_valid() {
    let root = root();
    let mut samples = vec![root.join("packaging/ringway.example.yaml")];
    for entry in fs::read_dir(root.join("tests/scenarios")).unwrap() {
        samples.push(entry.unwrap().path());
    }
    for sample in samples
        .iter()
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
    {
        let (status, _, err) = checked(&options(sample), false);
        assert_eq!(status, EXIT_OK, "{}\n{err}", sample.display());
    }
}

#[test]
fn null_in_a_later_file_takes_a_backend_away() {
    let folder = Folder::new("null-backend");
    folder.write(
        "a.yaml",
        "backends:\n  one: {provider: reverseproxy, origin_url: 'http://h'}\n  two: {provider: reverseproxy, origin_url: 'http://h'}\n",
    );
    folder.write("b.yaml", "backends:\n  one: null\n");
    let compiled = built(&options(&folder.0));
    let names: Vec<&str> = compiled.plan.backends.iter().map(|b| &*b.name).collect();
    assert_eq!(names, ["two"]);
}

#[test]
fn a_user_router_has_as_many_targets_as_a_pool_has_members() {
    let folder = Folder::new("targets");
    let write = |count: usize| {
        let mut users =
            "backends: {r: {provider: alb, alb: {mechanism: ur, user_router: {users: {".to_owned();
        for n in 0..count {
            users += &format!("u{n}: {{to_backend: o{n}}}, ");
        }
        folder.write("a.yaml", users + "}}}}}\n");
        for part in 0..4 {
            let mut origins = "backends:\n".to_owned();
            for n in (part..count).step_by(4) {
                origins += &format!("  o{n}: {{provider: rp, origin_url: 'http://a'}}\n");
            }
            folder.write(&format!("b{part}.yaml"), origins);
        }
    };
    write(10_000);
    let compiled = built(&options(&folder.0));
    assert_eq!(compiled.plan.pools[0].members.len(), 10_000);
    write(10_001);
    let (status, _, err) = checked(&options(&folder.0), false);
    assert_eq!(status, EXIT_INVALID);
    assert_eq!(
        folder.short(&err),
        ["a.yaml:1:52: backends.r.alb.user_router: more than 10000 members in one pool"]
    );
}

#[test]
fn user_files_and_logs_are_looked_at_before_anything_starts() {
    let folder = Folder::new("users");
    let users = folder.write("users", "casey:secret\n");
    let log = folder.0.join("ringway.log");
    let main = folder.write(
        "main.yaml",
        format!(
            "logging: {{log_file: {}}}\nmain: {{instance_id: 3}}\nauthenticators: {{k: {{provider: basic, users_file: {}, users_file_format: htpasswd}}}}\n{ORIGIN}",
            log.display(),
            users.display()
        ),
    );
    let first = built(&options(&main)).control.fingerprint;
    assert!(!folder.0.join("ringway.3.log").exists(), "nothing is made");
    folder.write("users", "casey:other\n");
    assert_ne!(built(&options(&main)).control.fingerprint, first);
    folder.write("users", vec![b'x'; 16 * 1024 * 1024 + 1]);
    fs::create_dir(folder.0.join("ringway.3.log")).unwrap();
    let (status, _, err) = checked(&options(&main), false);
    assert_eq!(status, EXIT_INVALID);
    let lines = folder.short(&err);
    assert_eq!(lines.len(), 2, "{err}");
    assert_eq!(
        lines[0],
        "main.yaml:1:21: logging.log_file: cannot write ringway.3.log: it is a folder"
    );
    assert!(
        lines[1].ends_with("users_file: the file is larger than 16777216 bytes"),
        "{err}"
    );
}
