//! Service principals of Azure: the place that knows them has a fixed name, so ringway is sent there through a proxy
//! that leads to a stand-in.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use ringway_wire::{Authority, Origin, Port, Request, Ringway, Setup, eventually, server_tls};
use serde_json::json;

use crate::discovery_azure::{Azure, SUBSCRIPTION, machines};
use crate::discovery_stub::{Asked, Board, everywhere, form, json_of};
use crate::discovery_support::{becomes, errors, is_logged, reload, sections, stays};

const HOST: &str = "login.microsoftonline.com";
const TENANT: &str = "11111111-1111-1111-1111-111111111111";
const CLIENT: &str = "22222222-2222-2222-2222-222222222222";

/// Who is let in.
struct Login {
    /// Name and value of what proves it.
    proof: (&'static str, String),
    /// The token it gives out.
    token: String,
}

impl Login {
    fn answer(&self, request: &Request) -> Vec<u8> {
        let asked = Asked::of(&request.target);
        let pairs = form(&request.text());
        let is = |name: &str, value: &str| pairs.iter().any(|(key, v)| key == name && v == value);
        let refused = |code: &str, said: &str| {
            let document = json!({
                "error": code, "error_description": said, "error_codes": [7_000_215],
                "trace_id": "0", "correlation_id": "0",
            });
            json_of(401, &document)
        };
        let is_request = request.method == "POST"
            && asked.path == format!("/{TENANT}/oauth2/v2.0/token")
            && is("grant_type", "client_credentials")
            && is("client_id", CLIENT)
            && is("scope", "https://management.azure.com/.default");
        if !is_request {
            return refused("invalid_request", "AADSTS900144: not a request for a token");
        }
        let (name, value) = &self.proof;
        if !is(name, value) {
            return refused(
                "invalid_client",
                "AADSTS7000215: Invalid client secret provided.",
            );
        }
        let document = json!({
            "token_type": "Bearer", "expires_in": 3599, "ext_expires_in": 3599, "access_token": self.token,
        });
        json_of(200, &document)
    }
}

/// A proxy that leads to `target`, whatever host is asked for, as long as it is the right one.
fn proxy(target: SocketAddr) -> Port {
    let (port, listener) = Port::claim_listening();
    thread::spawn(move || accept(&listener, target));
    port
}

fn accept(listener: &TcpListener, target: SocketAddr) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { return };
        // A connection that breaks is the affair of who asked.
        thread::spawn(move || drop(tunnel(stream, target)));
    }
}

fn tunnel(mut stream: TcpStream, target: SocketAddr) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    let wanted = format!("CONNECT {HOST}:443 HTTP/1.1\r\n");
    if !head.starts_with(wanted.as_bytes()) {
        return stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    }
    let other = TcpStream::connect(target)?;
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let (from, to) = (stream.try_clone()?, other.try_clone()?);
    thread::spawn(move || drop(pass(from, to)));
    pass(other, stream)
}

fn pass(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    io::copy(&mut from, &mut to)?;
    to.shutdown(Shutdown::Write)
}

/// Azure with a place to log in.
struct World {
    azure: Azure,
    login: Board<Login>,
    _origin: Origin,
    proxy: Port,
    authority: Authority,
}

impl World {
    fn start(octets: &[u8], port: u16, proof: (&'static str, &str)) -> World {
        let azure = Azure::start(machines(octets, port));
        let login = Board::new(Login {
            proof: (proof.0, proof.1.to_owned()),
            token: "eyJ.login".to_owned(),
        });
        azure
            .subscription
            .with(|own| own.token = "eyJ.login".to_owned());
        let authority = Authority::new();
        let identity = authority.issue(&[HOST]);
        let own = login.clone();
        let origin = Origin::start_tls(server_tls(&identity, None), move |conn| {
            while let Some(request) = conn.request() {
                if !conn.send(own.with(|own| own.answer(&request))) {
                    break;
                }
            }
        });
        World {
            azure,
            login,
            proxy: proxy(origin.address()),
            _origin: origin,
            authority,
        }
    }

    fn sections(&self, folder: &Path, keys: &str) -> String {
        let authority = self.authority.write(folder);
        let id = SUBSCRIPTION.rsplit('/').next().unwrap_or_default();
        let discoverer = format!(
            "provider: azure, azure: {{service: vm, subscription_id: {id}, tenant_id: {TENANT}, client_id: {CLIENT}, \
             {keys}}}, http: {{endpoint: 'http://{}', interval: 1s, tls: {{certificate_authority_paths: [{}]}}}}",
            self.azure.origin.address(),
            authority.display()
        );
        sections(&discoverer, "query: {port_label: web-port}")
    }

    fn ringway(&self, keys: &str, prepare: impl FnOnce(&Path)) -> Ringway {
        let setup = Setup::new("");
        prepare(setup.folder());
        let yaml = self.sections(setup.folder(), keys);
        let proxy = format!("http://{}", self.proxy.address());
        setup
            .section(&yaml)
            .environment("HTTPS_PROXY", &proxy)
            .environment("NO_PROXY", "")
            .start()
    }
}

#[test]
fn a_secret_gets_a_token_and_a_wrong_one_a_failure() {
    let origin = everywhere();
    let port = origin.address().port();
    let world = World::start(&[2], port, ("client_secret", "the~secret+1"));
    let ringway = world.ringway("client_secret: not-the-secret", |_| {});
    eventually("it is refused", || (errors(&ringway) > 0.0).then_some(()));
    stays(&ringway, &["502"]);
    is_logged(&ringway, "AADSTS7000215");
    ringway.write_config(&world.sections(ringway.folder(), "client_secret: the~secret+1"));
    reload(&ringway);
    becomes(&ringway, &["127.0.0.2"]);
    let log = ringway.log();
    for secret in ["not-the-secret", "the~secret", "eyJ"] {
        assert!(!log.contains(secret), "{log}");
    }
    ringway.stop();
}

#[test]
fn a_federated_token_is_read_anew_for_each_token() {
    let origin = everywhere();
    let port = origin.address().port();
    let world = World::start(&[2], port, ("client_assertion", "first.assertion"));
    let ringway = world.ringway("federated_token_file: token", |folder| {
        std::fs::write(folder.join("token"), "first.assertion\n").expect("the folder is ours");
    });
    becomes(&ringway, &["127.0.0.2"]);
    assert_eq!(errors(&ringway), 0.0);
    // Everything is replaced: what proves who asks, and the token that was given for it.
    let file = ringway.folder().join("token");
    std::fs::write(file, "second.assertion\n").expect("the folder is ours");
    world.login.with(|login| {
        login.proof.1 = "second.assertion".to_owned();
        login.token = "eyJ.second".to_owned();
    });
    world.azure.subscription.with(|own| {
        own.token = "eyJ.second".to_owned();
        own.machines = machines(&[3], port);
    });
    becomes(&ringway, &["127.0.0.3"]);
    assert!(errors(&ringway) <= 1.0, "{}", ringway.log());
    for secret in ["first.assertion", "second.assertion", "eyJ"] {
        assert!(!ringway.log().contains(secret), "{}", ringway.log());
    }
    ringway.stop();
}
