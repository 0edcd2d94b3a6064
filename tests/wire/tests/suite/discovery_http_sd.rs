//! Discovery by `http_sd`: both formats, validators, credentials, and answers that are none.

#![expect(
    clippy::disallowed_types,
    reason = "a server of a test is changed by the test while its own threads answer"
)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use ringway_wire::{Authority, Origin, Request, Ringway, Setup, eventually, ok, server_tls};

use crate::discovery_stub::{broken_off, is_last};
use crate::discovery_support::{
    all_named, becomes, errors, fails, garbage, is_logged, is_read, is_rejected, lines, list,
    named, outage, sections, sections_of, stays, tables,
};

/// A server of one document, which honours validators.
struct Endpoint {
    origin: Origin,
    document: Arc<Mutex<Document>>,
}

#[derive(Clone, Default)]
struct Document {
    /// 0 cuts the connection.
    status: u16,
    body: String,
    /// Sent as `ETag`.
    validator: Option<&'static str>,
    /// What `Authorization` must be.
    authorization: Option<&'static str>,
    is_broken_off: bool,
}

impl Document {
    fn answer(&self, request: &Request) -> Option<Vec<u8>> {
        let is_known =
            self.authorization.is_none() || request.header("authorization") == self.authorization;
        let is_held = self.validator.is_some() && request.header("if-none-match") == self.validator;
        let (status, body) = match (self.status, is_known, is_held) {
            (0, ..) => return None,
            (_, false, _) => (401, "who are you?"),
            (200, _, true) => (304, ""),
            (status, ..) => (status, &*self.body),
        };
        let mut head = format!("HTTP/1.1 {status} X\r\n");
        if let Some(validator) = self.validator {
            head.push_str(&format!("ETag: {validator}\r\n"));
        }
        if status == 302 {
            head.push_str("Location: /elsewhere\r\n");
        }
        if status != 304 {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let whole = format!("{head}\r\n{body}").into_bytes();
        Some(match self.is_broken_off {
            true => broken_off(&whole),
            false => whole,
        })
    }
}

impl Endpoint {
    fn new(body: impl Into<String>) -> Endpoint {
        let document = Arc::new(Mutex::new(Document {
            status: 200,
            body: body.into(),
            ..Document::default()
        }));
        let own = document.clone();
        let origin = Origin::start(move |conn| {
            while let Some(request) = conn.request() {
                let answer = own.lock().expect("no panic").answer(&request);
                let Some(answer) = answer else { return };
                if !conn.send(&answer) || is_last(&answer) {
                    return;
                }
            }
        });
        Endpoint { origin, document }
    }

    fn set(&self, change: impl FnOnce(&mut Document)) {
        change(&mut self.document.lock().expect("no panic"));
    }

    fn write(&self, body: impl Into<String>) {
        self.set(|document| document.body = body.into());
    }

    fn start(&self, http: &str, format: &str, query: &str) -> Ringway {
        self.start_in(Setup::new(""), http, format, query)
    }

    fn discoverer(&self, http: &str, format: &str) -> String {
        format!(
            "provider: http_sd, http: {{endpoint: 'http://{}/sd', interval: 1s, {http}}}, \
             http_sd: {{format: {format}}}",
            self.origin.address()
        )
    }

    fn start_in(&self, setup: Setup, http: &str, format: &str, query: &str) -> Ringway {
        let discoverer = self.discoverer(http, format);
        setup.section(&sections(&discoverer, query)).start()
    }
}

#[test]
fn members_come_change_and_leave() {
    let [a, b, c] = all_named(["a", "b", "c"]);
    let endpoint = Endpoint::new(list(&[a.address()]));
    let ringway = endpoint.start("", "trickster", "query: {path: /prod/web}");
    becomes(&ringway, &["a"]);
    let request = endpoint.origin.next_request();
    assert_eq!(request.target, "/sd/prod/web");
    let interval = request.header("x-prometheus-refresh-interval-seconds");
    assert_eq!(interval, Some("1"));
    endpoint.write(list(&[a.address(), b.address()]));
    becomes(&ringway, &["a", "b"]);
    endpoint.write(format!("- address: {}\n  name: yaml\n", c.address()));
    becomes(&ringway, &["c"]);
    endpoint.write("[]");
    becomes(&ringway, &["502"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn a_weak_validator_is_sent_back_as_it_came_and_304_changes_nothing() {
    a_validator_is_sent_back("trickster", "W/\"1\"");
}

#[test]
fn a_strong_validator_is_sent_back_with_a_list_of_prometheus() {
    a_validator_is_sent_back("prometheus", "\"x y\"");
}

/// A list of one member.
fn document(format: &str, address: SocketAddr) -> String {
    match format {
        "trickster" => list(&[address]),
        _ => format!("[{{\"targets\": [\"{address}\"], \"labels\": {{\"k\": \"v\"}}}}]"),
    }
}

#[track_caller]
fn a_validator_is_sent_back(format: &str, validator: &'static str) {
    let [a, b] = all_named(["a", "b"]);
    let document = |address| document(format, address);
    let endpoint = Endpoint::new(document(a.address()));
    endpoint.set(|document| document.validator = Some(validator));
    let ringway = endpoint.start("", format, "query: {}");
    becomes(&ringway, &["a"]);
    let first = endpoint.origin.next_request();
    assert_eq!(first.header("if-none-match"), None);
    let before = tables(&ringway);
    let next = endpoint.origin.next_request();
    assert_eq!(next.header("if-none-match"), Some(validator));
    let accept = next.header("accept");
    assert_eq!(accept == Some("application/json"), format == "prometheus");
    // The document has changed, but the server does not say so.
    endpoint.write(document(b.address()));
    is_read(&ringway);
    stays(&ringway, &["a"]);
    assert_eq!(tables(&ringway), before);
    endpoint.set(|document| document.validator = None);
    becomes(&ringway, &["b"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn the_validator_of_a_refused_document_is_not_kept() {
    let [a, b] = all_named(["a", "b"]);
    let endpoint = Endpoint::new(list(&[a.address()]));
    let ringway = endpoint.start("", "trickster", "query: {}");
    becomes(&ringway, &["a"]);
    endpoint.set(|document| {
        document.body = "[{}]".into();
        document.validator = Some("\"bad\"");
    });
    fails(&ringway, 2);
    stays(&ringway, &["a"]);
    endpoint.origin.requests();
    endpoint.write(list(&[b.address()]));
    becomes(&ringway, &["b"]);
    ringway.stop();
}

#[test]
fn a_scheme_label_of_a_target_counts_more_than_the_query() {
    let a = named("a");
    let identity = Authority::new().issue(&["127.0.0.1"]);
    let b = Origin::start_tls(server_tls(&identity, None), |conn| {
        while conn.request().is_some() && conn.send(ok("b")) {}
    });
    let endpoint = Endpoint::new(format!(
        "[{{\"targets\": [\"{}\"], \"labels\": {{\"__scheme__\": \"http\"}}}}, \
          {{\"targets\": [\"{}\"]}}]",
        a.address(),
        b.address()
    ));
    let template = "tls: {insecure_skip_verify: true}";
    let discoverer = endpoint.discoverer("", "prometheus");
    let yaml = sections_of(&discoverer, "query: {scheme: https}", template);
    let ringway = Setup::new(yaml).start();
    becomes(&ringway, &["a", "b"]);
    let documents = ["", "- targets: []"];
    garbage(&ringway, &["a", "b"], documents, |body| {
        endpoint.write(body);
    });
    ringway.stop();
}

#[test]
fn a_token_file_is_read_for_every_request() {
    let [a, b] = all_named(["a", "b"]);
    let endpoint = Endpoint::new(list(&[a.address()]));
    endpoint.set(|document| document.authorization = Some("Bearer first"));
    let setup = Setup::new("");
    let token = setup.folder().join("token");
    std::fs::write(&token, "first\n").expect("the folder is ours");
    let key = format!("bearer_token_file: {}", token.display());
    let ringway = endpoint.start_in(setup, &key, "trickster", "query: {}");
    becomes(&ringway, &["a"]);
    endpoint.set(|document| document.authorization = Some("Bearer second"));
    endpoint.write(list(&[b.address()]));
    fails(&ringway, 1);
    stays(&ringway, &["a"]);
    std::fs::write(&token, "second").expect("the folder is ours");
    becomes(&ringway, &["b"]);
    std::fs::write(&token, " \n").expect("the folder is ours");
    fails(&ringway, 1);
    stays(&ringway, &["b"]);
    is_logged(&ringway, "401 Unauthorized");
    let log = ringway.log();
    assert!(!log.contains("first") && !log.contains("second"), "{log}");
    ringway.stop();
}

#[test]
fn other_answers_change_nothing() {
    let [a, b] = all_named(["a", "b"]);
    let endpoint = Endpoint::new(list(&[a.address()]));
    let ringway = endpoint.start("", "trickster", "query: {}");
    becomes(&ringway, &["a"]);
    // Never another list with 200, however late this test gets its turn.
    garbage(&ringway, &["a"], [500, 302, 304], |status| {
        endpoint.set(|document| document.status = status);
        endpoint.write(list(&[b.address()]));
    });
    let redirected = endpoint.origin.requests();
    assert!(redirected.iter().all(|request| request.target == "/sd"));
    let large = format!("{}{}", list(&[b.address()]), " ".repeat(16 << 20));
    garbage(&ringway, &["a"], [large], |body| {
        endpoint.write(body);
        endpoint.set(|document| document.status = 200);
    });
    // The first may have been a 304 still.
    fails(&ringway, 2);
    stays(&ringway, &["a"]);
    endpoint.write(list(&[b.address()]));
    becomes(&ringway, &["b"]);
    ringway.stop();
}

#[test]
fn an_outage_is_told_once_and_an_empty_list_is_no_outage() {
    let [a] = all_named(["a"]);
    let endpoint = Endpoint::new(list(&[a.address()]));
    let ringway = endpoint.start("", "trickster", "query: {}, min_members: 1");
    becomes(&ringway, &["a"]);
    outage(
        &ringway,
        &["a"],
        || endpoint.set(|document| document.status = 0),
        || endpoint.set(|document| document.status = 200),
    );
    let failed = errors(&ringway);
    is_rejected(&ringway, || endpoint.write("[]"));
    stays(&ringway, &["a"]);
    assert_eq!(errors(&ringway), failed);
    ringway.stop();
}

#[test]
fn an_empty_list_of_prometheus_empties_the_pool() {
    let [a, b] = all_named(["a", "b"]);
    let endpoint = Endpoint::new(document("prometheus", a.address()));
    let ringway = endpoint.start("", "prometheus", "query: {}");
    becomes(&ringway, &["a"]);
    endpoint.write("[]");
    becomes(&ringway, &["502"]);
    endpoint.write(document("prometheus", b.address()));
    becomes(&ringway, &["b"]);
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

/// A list that breaks off behind its last member: all of the document has come, but not all of what was announced.
#[track_caller]
fn an_answer_that_breaks_off(format: &str) {
    let [a, b] = all_named(["a", "b"]);
    let endpoint = Endpoint::new(document(format, a.address()));
    let ringway = endpoint.start("", format, "query: {}");
    becomes(&ringway, &["a"]);
    outage(
        &ringway,
        &["a"],
        || {
            endpoint.set(|own| {
                own.is_broken_off = true;
                own.body = document(format, b.address());
            });
        },
        || {
            endpoint.set(|own| {
                own.is_broken_off = false;
                own.body = document(format, a.address());
            });
        },
    );
    assert_eq!(lines(&ringway, "the answer broke off"), 1);
    ringway.stop();
}

#[test]
fn a_list_that_breaks_off_changes_nothing() {
    an_answer_that_breaks_off("trickster");
}

#[test]
fn a_list_of_prometheus_that_breaks_off_changes_nothing() {
    an_answer_that_breaks_off("prometheus");
}

#[test]
fn a_source_that_is_down_at_the_start_is_asked_until_it_answers() {
    let [a] = all_named(["a"]);
    let endpoint = Endpoint::new(list(&[a.address()]));
    endpoint.set(|document| document.status = 0);
    let ringway = endpoint.start("", "trickster", "query: {}");
    eventually("it was asked", || (errors(&ringway) >= 1.0).then_some(()));
    stays(&ringway, &["502"]);
    endpoint.set(|document| document.status = 200);
    becomes(&ringway, &["a"]);
    ringway.stop();
}
