//! Discovery by `dns_srv` and `dns_a`, with dnsmasq as the server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringway_wire::{Origin, Port, Ringway, Setup, eventually, ok};

use crate::discovery_support::{
    all_named, becomes, errors, fails, is_read, is_rejected, outage, picks, sections, stays, tables,
};

/// A dnsmasq in the foreground that knows all of zone `test`, which it does not ask others for.
struct Dnsmasq {
    port: Port,
    folder: PathBuf,
    is_authority: bool,
    child: Option<Child>,
}

impl Dnsmasq {
    fn start(setup: &Setup, records: &[String]) -> Dnsmasq {
        let mut server = Dnsmasq {
            port: Port::claim(),
            folder: setup.folder().to_owned(),
            is_authority: true,
            child: None,
        };
        server.serve(records);
        server
    }

    /// Starts it, or starts it anew, with these records.
    fn serve(&mut self, records: &[String]) {
        self.stop();
        let config = self.folder.join("dnsmasq.conf");
        let is_root = rustix::process::getuid().is_root();
        let text = format!(
            "port={}\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\n\
             pid-file={}\n{}{}{}\n",
            self.port.number(),
            self.folder.join("dnsmasq.pid").display(),
            // Without, it would become a user that cannot read our folder.
            if is_root { "user=root\n" } else { "" },
            if self.is_authority {
                "local=/test/\n"
            } else {
                ""
            },
            records.join("\n")
        );
        std::fs::write(&config, text).expect("the folder is ours");
        let child = Command::new(find())
            .arg("--keep-in-foreground")
            .arg("--log-facility=-")
            .arg(format!("--conf-file={}", config.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("dnsmasq can be run"));
        // It answers questions over TCP on the same port.
        eventually("dnsmasq listens", || {
            std::net::TcpStream::connect(self.port.address()).ok()
        });
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it is our child");
            child.wait().expect("it is our child");
        }
    }

    fn discoverer(&self, provider: &str) -> String {
        let resolver = self.port.address();
        format!("provider: {provider}, dns: {{resolver: '{resolver}', interval: 1s}}")
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Debian keeps it where only root looks.
fn find() -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin"]).map(PathBuf::from);
    let found = folders
        .map(|folder| folder.join("dnsmasq"))
        .find(|path| path.is_file());
    found.expect("dnsmasq is missing: run .ci/setup.sh test")
}

const SERVICE: &str = "_web._tcp.test";
const SRV_QUERY: &str = "query: {srv_name: _web._tcp.test}";

/// An SRV record of the service. Its target is resolved by the system, whose hosts file has `localhost`.
fn srv(origin: &Origin, priority: u16, weight: u16) -> String {
    let port = origin.address().port();
    format!("srv-host={SERVICE},localhost,{port},{priority},{weight}")
}

fn start(provider: &str, records: &[String], query: &str) -> (Ringway, Dnsmasq) {
    let setup = Setup::new("");
    let server = Dnsmasq::start(&setup, records);
    let ringway = setup.section(&sections(&server.discoverer(provider), query));
    (ringway.start(), server)
}

/// An origin of 127.0.0.0/8 that answers the address it was asked at.
fn everywhere() -> Origin {
    Origin::start_everywhere(|conn| {
        while conn.request().is_some() {
            let address = conn.local_address().ip().to_string();
            if !conn.send(ok(address)) {
                return;
            }
        }
    })
}

fn host(last: u8) -> String {
    format!("host-record=web.test,127.0.0.{last}")
}

fn a_query(hostname: &str, origin: &Origin, keys: &str) -> String {
    let port = origin.address().port();
    format!("query: {{hostname: {hostname}, port: {port}}}{keys}")
}

// === dns_a ===

#[test]
fn addresses_come_change_and_leave() {
    let origin = everywhere();
    let query = a_query("web.test", &origin, "");
    let (ringway, mut server) = start("dns_a", &[host(2)], &query);
    becomes(&ringway, &["127.0.0.2"]);
    server.serve(&[host(2), host(3)]);
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    server.serve(&[host(4), host(3)]);
    becomes(&ringway, &["127.0.0.3", "127.0.0.4"]);
    // There is such a name, but it has no address.
    server.serve(&["txt-record=web.test,nothing".to_owned()]);
    becomes(&ringway, &["502"]);
    ringway.stop();
}

#[test]
fn an_alias_is_followed() {
    let origin = everywhere();
    let query = a_query("alias.test", &origin, "");
    let alias = |to: &str| format!("cname=alias.test,{to}");
    let records = [alias("web.test"), host(2)];
    let (ringway, mut server) = start("dns_a", &records, &query);
    becomes(&ringway, &["127.0.0.2"]);
    let other = "host-record=other.test,127.0.0.3".to_owned();
    server.serve(&[
        alias("next.test"),
        "cname=next.test,other.test".to_owned(),
        host(2),
        other,
    ]);
    becomes(&ringway, &["127.0.0.3"]);
    ringway.stop();
}

#[test]
fn a_name_that_is_gone_is_a_failure_and_one_without_addresses_is_an_answer() {
    let origin = everywhere();
    let query = a_query("web.test", &origin, ", min_members: 1");
    let (ringway, mut server) = start("dns_a", &[host(2)], &query);
    becomes(&ringway, &["127.0.0.2"]);
    let before = tables(&ringway);
    server.serve(&[]);
    fails(&ringway, 1);
    stays(&ringway, &["127.0.0.2"]);
    eventually("the reason is logged", || {
        let log = ringway.log();
        (log.contains("NXDOMAIN") || log.contains("no such name")).then_some(())
    });
    server.serve(&[host(2)]);
    is_read(&ringway);
    let failed = errors(&ringway);
    is_rejected(&ringway, || {
        server.serve(&["txt-record=web.test,nothing".to_owned()]);
    });
    stays(&ringway, &["127.0.0.2"]);
    assert_eq!(tables(&ringway), before);
    assert!(errors(&ringway) <= failed + 1.0, "at most the restart");
    ringway.stop();
}

#[test]
fn a_server_that_is_down_changes_no_addresses() {
    let origin = everywhere();
    let records = [host(2), host(3)];
    let query = a_query("web.test", &origin, "");
    let (ringway, server) = start("dns_a", &records, &query);
    let members = ["127.0.0.2", "127.0.0.3"];
    becomes(&ringway, &members);
    let server = std::cell::RefCell::new(server);
    outage(
        &ringway,
        &members,
        || server.borrow_mut().stop(),
        || server.borrow_mut().serve(&records),
    );
    server.borrow_mut().serve(&[host(3)]);
    becomes(&ringway, &["127.0.0.3"]);
    ringway.stop();
}

#[test]
fn a_record_is_not_asked_for_again_before_its_time_to_live_is_over() {
    let origin = everywhere();
    let began = Instant::now();
    let lasting = |last| format!("{},4", host(last));
    let query = a_query("web.test", &origin, "");
    let (ringway, mut server) = start("dns_a", &[lasting(2)], &query);
    becomes(&ringway, &["127.0.0.2"]);
    server.serve(&[lasting(3)]);
    becomes(&ringway, &["127.0.0.3"]);
    // Waits vary by a tenth; the interval is 1 s.
    assert!(began.elapsed() > Duration::from_millis(3500));
    ringway.stop();
}

// === dns_srv ===

#[test]
fn services_come_change_and_leave() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let (ringway, mut server) = start("dns_srv", &[srv(&a, 10, 1)], SRV_QUERY);
    becomes(&ringway, &["a"]);
    server.serve(&[srv(&a, 10, 1), srv(&b, 10, 1)]);
    becomes(&ringway, &["a", "b"]);
    server.serve(&[srv(&c, 10, 1), srv(&b, 10, 1)]);
    becomes(&ringway, &["b", "c"]);
    // A target of "." says that the service is not offered.
    server.serve(&[format!("srv-host={SERVICE}")]);
    becomes(&ringway, &["502"]);
    ringway.stop();
}

/// The name of the service, which nobody offers.
fn no_service() -> String {
    format!("txt-record={SERVICE},nothing")
}

#[test]
fn a_service_that_is_gone_is_a_failure_and_one_without_records_is_an_answer() {
    let [a] = all_named(["a"]);
    let (ringway, mut server) = start("dns_srv", &[srv(&a, 1, 1)], SRV_QUERY);
    becomes(&ringway, &["a"]);
    server.serve(&[]);
    // The first may be of the restart.
    fails(&ringway, 2);
    stays(&ringway, &["a"]);
    server.serve(&[no_service()]);
    becomes(&ringway, &["502"]);
    server.serve(&[srv(&a, 1, 1)]);
    becomes(&ringway, &["a"]);
    ringway.stop();
}

#[test]
fn services_are_rejected_below_min_members() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let query = format!("{SRV_QUERY}, min_members: 2");
    let (ringway, mut server) = start("dns_srv", &[srv(&a, 1, 1), srv(&b, 1, 1)], &query);
    becomes(&ringway, &["a", "b"]);
    let before = tables(&ringway);
    is_rejected(&ringway, || server.serve(&[no_service()]));
    stays(&ringway, &["a", "b"]);
    is_rejected(&ringway, || server.serve(&[srv(&c, 1, 1)]));
    stays(&ringway, &["a", "b"]);
    assert_eq!(tables(&ringway), before);
    server.serve(&[srv(&c, 1, 1), srv(&b, 1, 1)]);
    becomes(&ringway, &["b", "c"]);
    ringway.stop();
}

#[test]
fn only_the_first_priority_counts_and_weights_share_it() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let records = [srv(&a, 10, 3), srv(&b, 10, 1), srv(&c, 20, 9)];
    let (ringway, mut server) = start("dns_srv", &records, SRV_QUERY);
    becomes(&ringway, &["a", "b"]);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pick in picks(&ringway, 40) {
        *counts.entry(pick).or_default() += 1;
    }
    assert_eq!((counts["a"], counts["b"]), (30, 10));
    let before = tables(&ringway);
    is_read(&ringway);
    assert_eq!(
        tables(&ringway),
        before,
        "the order of answers is no change"
    );
    server.serve(&[srv(&a, 30, 3), srv(&b, 30, 1), srv(&c, 20, 0)]);
    becomes(&ringway, &["c"]);
    ringway.stop();
}

#[test]
fn an_answer_that_is_cut_is_asked_for_again_over_tcp() {
    // 41 fit into the 1232 bytes that are asked for over UDP.
    let ports: Vec<Port> = (0..60).map(|_| Port::claim()).collect();
    let record = |port: &Port| format!("srv-host={SERVICE},localhost,{},1,1", port.number());
    let records: Vec<String> = ports.iter().map(record).collect();
    let (ringway, _server) = start("dns_srv", &records, SRV_QUERY);
    eventually("all are members", || {
        let members = ringway.metric("trickster_alb_discovery_members", &[("alb_name", "lb")]);
        (members == Some(60.0)).then_some(())
    });
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn a_server_that_is_down_or_refuses_changes_nothing() {
    let [a] = all_named(["a"]);
    let records = [srv(&a, 1, 1)];
    let (ringway, server) = start("dns_srv", &records, SRV_QUERY);
    becomes(&ringway, &["a"]);
    let server = std::cell::RefCell::new(server);
    outage(
        &ringway,
        &["a"],
        || server.borrow_mut().stop(),
        || server.borrow_mut().serve(&records),
    );
    // Now that it is not its zone, it would ask others, and has none.
    server.borrow_mut().is_authority = false;
    server.borrow_mut().serve(&[]);
    fails(&ringway, 1);
    stays(&ringway, &["a"]);
    eventually("the reason is logged", || {
        let log = ringway.log().to_lowercase();
        log.contains("refused").then_some(())
    });
    ringway.stop();
}
