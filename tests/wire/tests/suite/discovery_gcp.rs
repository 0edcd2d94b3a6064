//! Discovery by `gcp`: a stand-in of Compute Engine with its pages, zones and tokens, in the shape that its reference
//! documents; no real one has confirmed it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ringway_wire::{Origin, Request, Ringway, Setup, eventually};
use rustls::SignatureScheme;
use serde_json::{Value, json};

use crate::discovery_stub::{
    Asked, Board, answer_all, everywhere, form, has_token, json_of, text_of,
};
use crate::discovery_support::{
    LEFT_OUT, becomes, breaks_off, errors, excluded, garbage, is_listed, is_logged,
    is_logged_times, is_read, is_rejected, lines, outage, row, sections, silence, snapshots, stays,
    tables,
};

/// Made for tests of the provider; opens nothing.
const KEY: &str = include_str!("../../../../src/discovery/gcp/credentials/key.pem");
const PUBLIC_KEY: &str = include_str!("../../../../src/discovery/gcp/credentials/key.pub.pem");
const SCOPE: &str = "https://www.googleapis.com/auth/compute.readonly";

/// A project.
struct Project {
    /// Instances, each with its zone.
    instances: Vec<(&'static str, Value)>,
    unreachables: Vec<&'static str>,
    /// Most instances of a page.
    page: usize,
    /// The token that is good now, and given out.
    token: String,
    /// What is sent in place of pages from this one on, counted from 0.
    fault: Option<(usize, Vec<u8>)>,
    /// Targets of lists.
    asked: Vec<String>,
    /// Claims of who asked for tokens with a key.
    claims: Vec<Value>,
    tokens: usize,
}

const ZONES: [&str; 3] = [
    "zones/europe-west4-a",
    "zones/europe-west4-b",
    "zones/us-east1-c",
];

struct Google {
    project: Board<Project>,
    origin: Origin,
}

impl Google {
    fn start(instances: Vec<(&'static str, Value)>) -> Google {
        let project = Board::new(Project {
            instances,
            unreachables: Vec::new(),
            page: 500,
            token: "ya29.first".to_owned(),
            fault: None,
            asked: Vec::new(),
            claims: Vec::new(),
            tokens: 0,
        });
        let own = project.clone();
        let origin = Origin::start(move |conn| {
            answer_all(conn, |request| own.with(|own| own.answer(request)));
        });
        Google { project, origin }
    }

    fn has(&self, instances: Vec<(&'static str, Value)>) {
        self.project.with(|project| project.instances = instances);
    }

    fn fails(&self, answer: Vec<u8>) {
        self.project
            .with(|project| project.fault = Some((0, answer)));
    }

    /// Gives out these bytes in place of pages, or pages again.
    fn sends(&self, bytes: Option<Vec<u8>>) {
        self.project
            .with(|project| project.fault = bytes.map(|bytes| (0, bytes)));
    }

    fn works(&self) {
        self.project.with(|project| project.fault = None);
    }
}

fn error(code: u16, status: &str, message: &str) -> Vec<u8> {
    let document = json!({"error": {
        "code": code, "message": message, "status": status,
        "errors": [{"message": message, "domain": "global", "reason": "any"}],
    }});
    json_of(code, &document)
}

impl Project {
    fn answer(&mut self, request: &Request) -> Vec<u8> {
        let asked = Asked::of(&request.target);
        match (&*request.method, &*asked.path) {
            ("POST", "/token") => self.grant(request),
            ("GET", path) if path.starts_with("/computeMetadata/v1/") => {
                if request.header("metadata-flavor") != Some("Google") {
                    return text_of(403, "Missing Metadata-Flavor:Google header.");
                }
                match path.strip_prefix("/computeMetadata/v1/") {
                    Some("instance/service-accounts/default/token") => self.token(),
                    Some("project/project-id") => text_of(200, "p-0"),
                    _ => text_of(404, "not found"),
                }
            }
            ("GET", "/compute/v1/projects/p-0/aggregated/instances") => self.page(request, &asked),
            _ => error(404, "NOT_FOUND", "no such resource"),
        }
    }

    fn token(&mut self) -> Vec<u8> {
        self.tokens += 1;
        json_of(
            200,
            &json!({"access_token": self.token, "expires_in": 3599, "token_type": "Bearer"}),
        )
    }

    fn grant(&mut self, request: &Request) -> Vec<u8> {
        let pairs = form(&request.text());
        let pair = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, v)| &**v);
        if pair("grant_type") != Some("urn:ietf:params:oauth:grant-type:jwt-bearer") {
            return json_of(400, &json!({"error": "unsupported_grant_type"}));
        }
        match pair("assertion").and_then(verified) {
            Some(claims) => {
                self.claims.push(claims);
                self.token()
            }
            None => json_of(
                400,
                &json!({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}),
            ),
        }
    }

    fn page(&mut self, request: &Request, asked: &Asked) -> Vec<u8> {
        self.asked.push(request.target.clone());
        if !has_token(request, &self.token) {
            return error(
                401,
                "UNAUTHENTICATED",
                "Request had invalid authentication credentials.",
            );
        }
        let at: usize = match asked.pair("pageToken").map(str::parse) {
            None => 0,
            Some(Ok(at)) => at,
            Some(Err(_)) => return error(400, "INVALID_ARGUMENT", "Invalid value for pageToken"),
        };
        if let Some((from, fault)) = &self.fault
            && at / self.page >= *from
        {
            return fault.clone();
        }
        let fits = |(_, instance): &&(&str, Value)| match asked.pair("filter") {
            None => true,
            Some(filter) => filter
                .strip_prefix("labels.role = ")
                .is_some_and(|role| instance["labels"]["role"] == role.trim_matches('"')),
        };
        let found: Vec<_> = self.instances.iter().filter(fits).collect();
        let mut items = serde_json::Map::new();
        for zone in ZONES {
            let own = found
                .iter()
                .skip(at)
                .take(self.page)
                .filter(|(of, _)| *of == zone);
            let own: Vec<_> = own.map(|(_, instance)| instance).collect();
            let entry = match own.is_empty() {
                false => json!({"instances": own}),
                true => json!({"warning": {
                    "code": "NO_RESULTS_ON_PAGE",
                    "message": format!("There are no results for scope '{zone}' on this page."),
                    "data": [{"key": "scope", "value": zone}],
                }}),
            };
            items.insert(zone.to_owned(), entry);
        }
        let mut page = json!({
            "kind": "compute#instanceAggregatedList", "id": "projects/p-0/aggregated/instances",
            "items": items, "selfLink": "https://www.googleapis.com/compute/v1/projects/p-0/aggregated/instances",
        });
        let partial = asked.pair("returnPartialSuccess") == Some("true");
        match (self.unreachables.is_empty(), partial) {
            (true, _) => {}
            (false, true) => page["unreachables"] = json!(self.unreachables),
            (false, false) => return error(503, "UNAVAILABLE", "a zone cannot be reached"),
        }
        if at + self.page < found.len() {
            page["nextPageToken"] = (at + self.page).to_string().into();
        }
        json_of(200, &page)
    }
}

/// The claims of a JWT whose signature is good.
fn verified(assertion: &str) -> Option<Value> {
    let (signed, signature) = assertion.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let body: String = PUBLIC_KEY
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let key = STANDARD.decode(body).expect("the key is ours");
    let known = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let mut known = known.mapping.iter();
    let (_, rs256) = known.find(|entry| entry.0 == SignatureScheme::RSA_PKCS1_SHA256)?;
    let is_good = rs256.iter().any(|one| {
        one.verify_signature(&key, signed.as_bytes(), &signature)
            .is_ok()
    });
    (is_good && header["alg"] == "RS256")
        .then(|| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok())?
}

/// An instance at 127.0.0.`octet` whose metadata name its port.
fn instance(octet: u8, port: u16) -> Value {
    let base = "https://www.googleapis.com/compute/v1/projects/p-0";
    json!({
        "kind": "compute#instance", "id": format!("40000000000000000{octet:02}"),
        "creationTimestamp": "2026-01-02T03:04:05.000-00:00",
        "name": format!("web-{octet}"), "status": "RUNNING",
        "zone": format!("{base}/zones/europe-west4-a"),
        "machineType": format!("{base}/zones/europe-west4-a/machineTypes/e2-small"),
        "tags": {"items": ["http-server"], "fingerprint": "AAAA"},
        "networkInterfaces": [{
            "kind": "compute#networkInterface", "name": "nic0", "stackType": "IPV4_ONLY",
            "network": format!("{base}/global/networks/default"), "networkIP": format!("127.0.0.{octet}"),
            "accessConfigs": [{"kind": "compute#accessConfig", "type": "ONE_TO_ONE_NAT", "name": "External NAT"}],
        }],
        "metadata": {"kind": "compute#metadata", "fingerprint": "AAAA", "items": [
            {"key": "startup-script", "value": "echo startup-secret"},
            {"key": "web-port", "value": port.to_string()},
        ]},
        "labels": {"role": "web"}, "labelFingerprint": "AAAA", "scheduling": {"preemptible": false},
    })
}

fn in_zones(instances: Vec<Value>) -> Vec<(&'static str, Value)> {
    ZONES.into_iter().cycle().zip(instances).collect()
}

fn fleet(octets: &[u8], port: u16) -> Vec<(&'static str, Value)> {
    in_zones(octets.iter().map(|octet| instance(*octet, port)).collect())
}

fn with(mut instance: Value, key: &str, value: Value) -> Value {
    instance[key] = value;
    instance
}

const QUERY: &str = "query: {port_label: web-port}";

/// Ringway as on an instance of Compute Engine: the metadata server says who it is.
fn start(google: &Google, discovery: &str) -> Ringway {
    let address = google.origin.address();
    let discoverer = format!(
        "provider: gcp, gcp: {{service: gce}}, http: {{endpoint: 'http://{address}', interval: 1s, timeout: 2s}}"
    );
    let setup = Setup::new(sections(&discoverer, discovery));
    let home = setup.folder().display().to_string();
    setup
        .environment("GCE_METADATA_HOST", &address.to_string())
        .environment("HOME", &home)
        .environment("CLOUDSDK_CONFIG", "")
        .environment("GOOGLE_APPLICATION_CREDENTIALS", "")
        .start()
}

#[test]
fn instances_are_members_as_they_come_change_and_go() {
    let origin = everywhere();
    let other = everywhere();
    let port = origin.address().port();
    let google = Google::start(fleet(&[2], port));
    let query =
        "query: {filter: 'labels.role = \"web\"', tags: [http-server], port_label: web-port}";
    let ringway = start(&google, query);
    becomes(&ringway, &["127.0.0.2"]);
    let stranger = with(instance(9, port), "labels", json!({"role": "other"}));
    let untagged = with(instance(8, port), "tags", json!({"fingerprint": "AAAA"}));
    google.has(in_zones(vec![
        stranger,
        instance(3, port),
        untagged,
        instance(2, port),
    ]));
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    let before = tables(&ringway);
    google.has(fleet(&[3, 2], port));
    is_read(&ringway);
    google.has(fleet(&[2, 3], other.address().port()));
    eventually("they moved to the other port", || {
        ringway.get("/");
        (!other.requests().is_empty()).then_some(())
    });
    assert!(tables(&ringway) <= before + 2.0);
    google.has(fleet(&[3], port));
    becomes(&ringway, &["127.0.0.3"]);
    google.has(Vec::new());
    becomes(&ringway, &["502"]);
    assert_eq!(errors(&ringway), 0.0);
    assert_eq!(
        google.project.with(|project| project.tokens),
        1,
        "it is kept"
    );
    assert!(!ringway.log().contains("startup-secret"));
    ringway.stop();
}

#[test]
fn an_api_that_is_down_changes_nothing() {
    let origin = everywhere();
    let port = origin.address().port();
    let google = Google::start(fleet(&[2, 3], port));
    let ringway = start(&google, QUERY);
    let members = ["127.0.0.2", "127.0.0.3"];
    becomes(&ringway, &members);
    let down = error(503, "UNAVAILABLE", "The service is currently unavailable.");
    outage(&ringway, &members, || google.fails(down), || google.works());
    assert_eq!(lines(&ringway, "The service is currently unavailable."), 1);
    google.has(fleet(&[4], port));
    becomes(&ringway, &["127.0.0.4"]);
    ringway.stop();
}

#[test]
fn answers_that_are_no_list_change_nothing() {
    let origin = everywhere();
    let google = Google::start(fleet(&[2], origin.address().port()));
    let ringway = start(&google, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    let faults = [
        text_of(200, "{}"),
        text_of(200, r#"{"items": {"zones/a": {"instances": 7}}}"#),
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\n{".to_vec(),
    ];
    garbage(&ringway, &["127.0.0.2"], faults, |fault| {
        google.fails(fault)
    });
    ringway.stop();
}

/// A whole list of one instance.
fn page_of(octet: u8, port: u16) -> Vec<u8> {
    let items = json!({ZONES[0]: {"instances": [instance(octet, port)]}});
    json_of(
        200,
        &json!({"kind": "compute#instanceAggregatedList", "items": items}),
    )
}

#[test]
fn an_answer_that_breaks_off_changes_nothing() {
    let origin = everywhere();
    let port = origin.address().port();
    let google = Google::start(fleet(&[2], port));
    let ringway = start(&google, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    breaks_off(&ringway, &["127.0.0.2"], &page_of(3, port), |bytes| {
        google.sends(bytes);
    });
    ringway.stop();
}

#[test]
fn an_api_that_never_answers_changes_nothing() {
    let origin = everywhere();
    let port = origin.address().port();
    let google = Google::start(fleet(&[2], port));
    let ringway = start(&google, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    silence(&ringway, &["127.0.0.2"], &page_of(3, port), |bytes| {
        google.sends(bytes);
    });
    ringway.stop();
}

#[test]
fn no_instances_are_rejected_below_min_members() {
    let origin = everywhere();
    let port = origin.address().port();
    let google = Google::start(fleet(&[2], port));
    let ringway = start(&google, &format!("min_members: 1, {QUERY}"));
    becomes(&ringway, &["127.0.0.2"]);
    is_rejected(&ringway, || google.has(Vec::new()));
    stays(&ringway, &["127.0.0.2"]);
    ringway.stop();
}

#[test]
fn all_pages_are_members_or_none() {
    let origin = everywhere();
    let port = origin.address().port();
    let google = Google::start(fleet(&[2, 3, 4, 5, 6], port));
    google.project.with(|project| project.page = 2);
    let ringway = start(&google, QUERY);
    let all = [
        "127.0.0.2",
        "127.0.0.3",
        "127.0.0.4",
        "127.0.0.5",
        "127.0.0.6",
    ];
    becomes(&ringway, &all);
    assert_eq!(snapshots(&ringway, "applied"), 1.0, "they came at once");
    let seen = errors(&ringway);
    google.project.with(|project| {
        project.instances.rotate_left(3);
        let late = error(429, "RESOURCE_EXHAUSTED", "Quota exceeded");
        project.fault = Some((1, late));
    });
    eventually("the second page fails", || {
        (errors(&ringway) > seen).then_some(())
    });
    stays(&ringway, &all);
    google.works();
    google.project.with(|project| project.instances.truncate(3));
    becomes(&ringway, &["127.0.0.2", "127.0.0.5", "127.0.0.6"]);
    ringway.stop();
}

#[test]
fn instances_are_as_well_as_their_status_says() {
    let origin = everywhere();
    let port = origin.address().port();
    let of = |octet: u8, status: &str| with(instance(octet, port), "status", status.into());
    let leaving = ["STOPPING", "SUSPENDING", "SUSPENDED", "TERMINATED"];
    let mut all = vec![
        of(2, "RUNNING"),
        of(3, "PROVISIONING"),
        of(4, "STAGING"),
        of(5, "REPAIRING"),
        // From an API of times to come.
        of(6, "HIBERNATING"),
    ];
    all.extend((7..).zip(leaving).map(|(octet, status)| of(octet, status)));
    let google = Google::start(in_zones(all));
    let ringway = start(&google, &format!("health_mode: provider, {QUERY}"));
    is_listed(&ringway, "lb-web-2", "available");
    for octet in 3..=6 {
        is_listed(&ringway, &format!("lb-web-{octet}"), "unavailable");
    }
    for octet in 7..=10 {
        assert_eq!(row(&ringway, &format!("lb-web-{octet}")), None);
    }
    assert_eq!(excluded(&ringway), 0.0, "who leaves is not left out");
    google.has(in_zones(vec![of(2, "STOPPING"), of(3, "RUNNING")]));
    becomes(&ringway, &["127.0.0.3"]);
    assert_eq!(row(&ringway, "lb-web-2"), None);
    ringway.stop();
}

#[test]
fn who_is_left_out_and_what_cannot_be_reached_is_named_once_for_each_change() {
    let origin = everywhere();
    let port = origin.address().port();
    let google = Google::start(fleet(&[2], port));
    let portless = with(
        instance(13, port),
        "metadata",
        json!({"fingerprint": "AAAA"}),
    );
    let homeless = with(instance(14, port), "networkInterfaces", Value::Null);
    let some = |octets: &[u8]| {
        let mut all: Vec<_> = octets.iter().map(|octet| instance(*octet, port)).collect();
        all.extend([portless.clone(), homeless.clone()]);
        in_zones(all)
    };
    google.has(some(&[2]));
    let ringway = start(&google, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    assert_eq!(excluded(&ringway), 2.0);
    is_logged(&ringway, "web-14: it has no private address");
    google.has(some(&[2, 3]));
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    assert_eq!(lines(&ringway, LEFT_OUT), 1, "the same are left out");
    // A zone goes: what is in it is gone, and that is said.
    google.project.with(|project| {
        project.unreachables = vec!["zones/us-east1-c"];
        project.instances = fleet(&[2], port);
    });
    becomes(&ringway, &["127.0.0.2"]);
    assert_eq!(excluded(&ringway), 1.0);
    is_logged_times(&ringway, 2, LEFT_OUT);
    is_logged(&ringway, "zones/us-east1-c: it cannot be reached");
    assert_eq!(errors(&ringway), 0.0);
    ringway.stop();
}

#[test]
fn a_token_that_is_no_longer_good_is_replaced() {
    let origin = everywhere();
    let port = origin.address().port();
    let google = Google::start(fleet(&[2], port));
    let ringway = start(&google, QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    google.project.with(|project| {
        project.token = "ya29.second".to_owned();
        project.instances = fleet(&[3], port);
    });
    becomes(&ringway, &["127.0.0.3"]);
    assert!(errors(&ringway) <= 1.0, "{}", ringway.log());
    assert_eq!(google.project.with(|project| project.tokens), 2);
    assert!(!ringway.log().contains("ya29"), "{}", ringway.log());
    ringway.stop();
}

/// A service account's key, as its file says it.
fn key_file(token_uri: &str, key: &str) -> String {
    json!({
        "type": "service_account", "project_id": "p-0", "private_key_id": "kid-0", "private_key": key,
        "client_email": "reader@p-0.example", "client_id": "0", "token_uri": token_uri,
        "auth_uri": "https://accounts.example/auth", "universe_domain": "googleapis.com",
    })
    .to_string()
}

#[test]
fn a_service_account_signs_for_its_tokens_and_its_key_file_may_come_late() {
    let origin = everywhere();
    let google = Google::start(fleet(&[2], origin.address().port()));
    let address = google.origin.address();
    let discoverer = format!(
        "provider: gcp, gcp: {{service: gce, credentials_file: key.json}}, http: {{endpoint: 'http://{address}', \
         interval: 1s}}"
    );
    let ringway = Setup::new(sections(&discoverer, QUERY)).start();
    eventually("there is no key yet", || {
        (errors(&ringway) > 0.0).then_some(())
    });
    let token_uri = format!("http://{address}/token");
    let file = ringway.folder().join("key.json");
    std::fs::write(file, key_file(&token_uri, KEY)).expect("the folder is ours");
    becomes(&ringway, &["127.0.0.2"]);
    let claims = google.project.with(|project| project.claims.clone());
    let [claims] = &*claims else {
        panic!("one token: {claims:?}")
    };
    let wanted = BTreeMap::from([
        ("iss", "reader@p-0.example"),
        ("scope", SCOPE),
        ("aud", &token_uri),
    ]);
    for (name, value) in wanted {
        assert_eq!(claims[name], value);
    }
    let seconds = |name: &str| claims[name].as_u64().expect("a number");
    assert!(seconds("exp") - seconds("iat") <= 3600);
    assert!(!ringway.log().contains("PRIVATE KEY"), "{}", ringway.log());
    ringway.stop();
}
