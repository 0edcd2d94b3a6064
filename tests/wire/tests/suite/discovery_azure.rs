//! Discovery by `azure`: a stand-in of the resource manager that refuses what the real one refuses and ignores what it
//! ignores, in the shape that its reference documents; no real one has confirmed it.

use ringway_wire::{Origin, Request, Ringway, Setup, eventually};
use serde_json::{Value, json};

use crate::discovery_stub::{Asked, Board, answer_all, everywhere, has_token, json_of, text_of};
use crate::discovery_support::{
    LEFT_OUT, becomes, breaks_off, errors, excluded, fails, garbage, is_listed, is_logged,
    is_logged_times, is_read, is_rejected, lines, outage, row, sections, silence, snapshots, stays,
    tables,
};

pub(crate) const SUBSCRIPTION: &str = "/subscriptions/00000000-0000-0000-0000-000000000000";
const COMPUTE: &str = "/providers/Microsoft.Compute";
const NETWORK: &str = "/providers/Microsoft.Network";

/// A subscription with one group of machines.
pub(crate) struct Subscription {
    pub(crate) machines: Vec<Machine>,
    /// Most entries of a page.
    page: usize,
    pub(crate) token: String,
    /// What is sent in place of pages of this kind, from this one on; kind `states` is of machines with their states.
    fault: Option<(&'static str, usize, Vec<u8>)>,
    registered: &'static str,
    /// Whether the list of states has any.
    has_views: bool,
    /// Host of the links to next pages, in place of its own.
    elsewhere: Option<String>,
    asked: Vec<String>,
    tokens: usize,
}

/// A machine with its interface.
#[derive(Clone)]
pub(crate) struct Machine {
    octet: u8,
    port: Option<u16>,
    /// Power state, where the list of states knows the machine.
    power: Option<&'static str>,
    has_interface: bool,
}

fn machine(octet: u8, port: u16) -> Machine {
    Machine {
        octet,
        port: Some(port),
        power: Some("PowerState/running"),
        has_interface: true,
    }
}

pub(crate) fn machines(octets: &[u8], port: u16) -> Vec<Machine> {
    octets.iter().map(|octet| machine(*octet, port)).collect()
}

impl Machine {
    /// The entry of a list of machines: the group's name is in another case than in the id of its interface.
    fn entry(&self) -> Value {
        let octet = self.octet;
        let mut tags = json!({"Role": "web"});
        if let Some(port) = self.port {
            tags["Web-Port"] = port.to_string().into();
        }
        // Of the first there is no word on which interface is primary, as of a lone one.
        let mut reference = json!({
            "id": format!("{SUBSCRIPTION}/resourceGroups/shop-rg{NETWORK}/networkInterfaces/nic-{octet}"),
        });
        if octet > 2 {
            reference["properties"] = json!({"primary": true, "deleteOption": "Delete"});
        }
        json!({
            "name": format!("web-{octet}"),
            "id": format!("{SUBSCRIPTION}/resourceGroups/SHOP-RG{COMPUTE}/virtualMachines/web-{octet}"),
            "type": "Microsoft.Compute/virtualMachines", "location": "westeurope", "zones": ["1"], "tags": tags,
            "properties": {
                "vmId": format!("00000000-0000-0000-0000-0000000000{octet:02}"), "provisioningState": "Succeeded",
                "timeCreated": "2026-01-02T03:04:05Z", "hardwareProfile": {"vmSize": "Standard_B2s"},
                "storageProfile": {}, "osProfile": {"adminUsername": "azure"},
                "networkProfile": {"networkInterfaces": [reference]},
            },
        })
    }

    fn interface(&self) -> Value {
        let octet = self.octet;
        let id =
            format!("{SUBSCRIPTION}/resourceGroups/Shop-RG{NETWORK}/networkInterfaces/NIC-{octet}");
        json!({
            "name": format!("nic-{octet}"), "id": id, "etag": "W/\"0\"", "location": "westeurope",
            "properties": {
                "provisioningState": "Succeeded", "primary": true,
                "ipConfigurations": [{
                    "name": "ipconfig1", "id": format!("{id}/ipConfigurations/ipconfig1"),
                    "properties": {
                        "privateIPAddress": format!("127.0.0.{octet}"), "privateIPAllocationMethod": "Dynamic",
                        "privateIPAddressVersion": "IPv4", "primary": true, "subnet": {"id": "s"},
                        "publicIPAddress": {"id": address_id(octet, "Shop-RG")},
                    },
                }],
                "virtualMachine": {"id": "v"},
            },
        })
    }

    fn address(&self) -> Value {
        let octet = self.octet;
        let mut address = json!({
            "name": format!("ip-{octet}"), "id": address_id(octet, "SHOP-rg"),
            "properties": {"provisioningState": "Succeeded", "publicIPAddressVersion": "IPv4"},
        });
        // Those of machines that were never started have none yet.
        if self.power == Some("PowerState/running") {
            address["properties"]["ipAddress"] = format!("127.0.1.{octet}").into();
        }
        address
    }

    fn state(&self) -> Option<Value> {
        let mut entry = self.entry();
        let power = self.power?;
        let mut statuses = vec![json!({"code": "ProvisioningState/succeeded", "level": "Info"})];
        if !power.is_empty() {
            statuses.push(json!({"code": power, "level": "Info", "displayStatus": "VM"}));
        }
        entry["properties"]["instanceView"] = json!({"statuses": statuses});
        Some(entry)
    }
}

fn address_id(octet: u8, group: &str) -> String {
    format!("{SUBSCRIPTION}/resourceGroups/{group}{NETWORK}/publicIPAddresses/ip-{octet}")
}

pub(crate) struct Azure {
    pub(crate) subscription: Board<Subscription>,
    pub(crate) origin: Origin,
}

impl Azure {
    pub(crate) fn start(machines: Vec<Machine>) -> Azure {
        let subscription = Board::new(Subscription {
            machines,
            page: 50,
            token: "eyJ.first".to_owned(),
            fault: None,
            registered: "Registered",
            has_views: true,
            elsewhere: None,
            asked: Vec::new(),
            tokens: 0,
        });
        let own = subscription.clone();
        let origin = Origin::start(move |conn| {
            answer_all(conn, |request| own.with(|own| own.answer(request)));
        });
        Azure {
            subscription,
            origin,
        }
    }

    fn has(&self, machines: Vec<Machine>) {
        self.subscription.with(|own| own.machines = machines);
    }

    fn fails(&self, kind: &'static str, page: usize, answer: Vec<u8>) {
        self.subscription
            .with(|own| own.fault = Some((kind, page, answer)));
    }

    /// Gives out these bytes in place of the first page of machines, or pages again.
    fn sends(&self, bytes: Option<Vec<u8>>) {
        let fault = bytes.map(|bytes| ("virtualMachines", 0, bytes));
        self.subscription.with(|own| own.fault = fault);
    }

    fn works(&self) {
        self.subscription.with(|own| own.fault = None);
    }
}

fn error(status: u16, code: &str, message: &str) -> Vec<u8> {
    json_of(
        status,
        &json!({"error": {"code": code, "message": message}}),
    )
}

impl Subscription {
    fn answer(&mut self, request: &Request) -> Vec<u8> {
        let asked = Asked::of(&request.target);
        if asked.path == "/metadata/identity/oauth2/token" {
            return self.token(request, &asked);
        }
        self.asked.push(request.target.clone());
        if !has_token(request, &self.token) {
            return error(
                401,
                "InvalidAuthenticationToken",
                "The access token is invalid.",
            );
        }
        if asked.pair("api-version").is_none() {
            let said =
                "The api-version query parameter (?api-version=) is required for all requests.";
            return error(400, "MissingApiVersionParameter", said);
        }
        let Some(below) = asked.path.strip_prefix(SUBSCRIPTION) else {
            return error(
                404,
                "SubscriptionNotFound",
                "The subscription could not be found.",
            );
        };
        let (is_group, below) = match below.strip_prefix("/resourceGroups/") {
            None => (false, below),
            Some(rest) => match rest.split_at(rest.find('/').unwrap_or(rest.len())) {
                (group, rest) if group.eq_ignore_ascii_case("shop-rg") => (true, rest),
                _ => return error(404, "ResourceGroupNotFound", "no such group"),
            },
        };
        if below == COMPUTE && !is_group {
            let document =
                json!({"namespace": "Microsoft.Compute", "registrationState": self.registered});
            return json_of(200, &document);
        }
        let kind = below.rsplit('/').next().unwrap_or_default();
        // The list of a group ignores that only states are asked for.
        let wants_states = asked.pair("statusOnly") == Some("true") && !is_group;
        let all: Vec<Value> = match kind {
            "virtualMachines" if wants_states => self.states(),
            "virtualMachines" => self.machines.iter().map(Machine::entry).collect(),
            "networkInterfaces" => {
                let with = self.machines.iter().filter(|one| one.has_interface);
                with.map(Machine::interface).collect()
            }
            "publicIPAddresses" => self.machines.iter().map(Machine::address).collect(),
            _ => return error(404, "InvalidResourceType", "no such resource"),
        };
        self.page(request, &asked, (kind, wants_states), &all)
    }

    fn states(&self) -> Vec<Value> {
        match self.has_views {
            true => self.machines.iter().filter_map(Machine::state).collect(),
            false => self.machines.iter().map(Machine::entry).collect(),
        }
    }

    fn page(
        &self,
        request: &Request,
        asked: &Asked,
        (kind, wants_states): (&str, bool),
        all: &[Value],
    ) -> Vec<u8> {
        let at: usize = asked
            .pair("$skiptoken")
            .map_or(0, |text| text.parse().unwrap_or(0));
        let kind = if wants_states { "states" } else { kind };
        if let Some((faulty, from, fault)) = &self.fault
            && *faulty == kind
            && at / self.page >= *from
        {
            return fault.clone();
        }
        let value: Vec<_> = all.iter().skip(at).take(self.page).collect();
        let mut page = json!({"value": value});
        if at + self.page < all.len() {
            let own = request.header("host").unwrap_or_default().to_owned();
            let host = self.elsewhere.clone().unwrap_or(own);
            let version = asked.pair("api-version").unwrap_or_default();
            let states = if wants_states { "&statusOnly=true" } else { "" };
            let next = at + self.page;
            let path = &asked.path;
            page["nextLink"] =
                format!("http://{host}{path}?api-version={version}{states}&%24skiptoken={next}")
                    .into();
        }
        json_of(200, &page)
    }

    fn token(&mut self, request: &Request, asked: &Asked) -> Vec<u8> {
        if request.header("metadata") != Some("true") {
            return json_of(400, &json!({"error": "invalid_request"}));
        }
        if asked.pair("resource") != Some("https://management.azure.com/") {
            return json_of(400, &json!({"error": "invalid_resource"}));
        }
        self.tokens += 1;
        let document = json!({
            "access_token": self.token, "client_id": "c", "expires_in": "86399", "expires_on": "1",
            "resource": "https://management.azure.com/", "token_type": "Bearer",
        });
        json_of(200, &document)
    }
}

const QUERY: &str = "query: {port_label: web-port}";

/// Ringway as on a machine of Azure with an identity of its own.
fn start(azure: &Azure, keys: &str, discovery: &str) -> Ringway {
    let address = azure.origin.address();
    let id = SUBSCRIPTION.rsplit('/').next().unwrap_or_default();
    let discoverer = format!(
        "provider: azure, azure: {{service: vm, subscription_id: {id}, {keys}}}, \
         http: {{endpoint: 'http://{address}', interval: 1s, timeout: 2s}}"
    );
    Setup::new(sections(&discoverer, discovery))
        .environment(
            "AZURE_POD_IDENTITY_AUTHORITY_HOST",
            &format!("http://{address}"),
        )
        .start()
}

#[test]
fn machines_are_members_as_they_come_change_and_go() {
    let origin = everywhere();
    let other = everywhere();
    let port = origin.address().port();
    let azure = Azure::start(machines(&[2], port));
    let query = "query: {tags: [ROLE], port_label: web-port}";
    let ringway = start(&azure, "resource_group: shop-rg", query);
    becomes(&ringway, &["127.0.0.2"]);
    azure.has(machines(&[3, 2], port));
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    let before = tables(&ringway);
    azure.has(machines(&[2, 3], port));
    is_read(&ringway);
    assert_eq!(tables(&ringway), before);
    azure.has(machines(&[2, 3], other.address().port()));
    eventually("they moved to the other port", || {
        ringway.get("/");
        (!other.requests().is_empty()).then_some(())
    });
    azure.has(machines(&[3], port));
    becomes(&ringway, &["127.0.0.3"]);
    azure.has(Vec::new());
    becomes(&ringway, &["502"]);
    assert_eq!(errors(&ringway), 0.0);
    assert_eq!(azure.subscription.with(|own| own.tokens), 1, "it is kept");
    ringway.stop();
}

#[test]
fn an_api_that_is_down_changes_nothing() {
    let origin = everywhere();
    let port = origin.address().port();
    let azure = Azure::start(machines(&[2, 3], port));
    let ringway = start(&azure, "", QUERY);
    let members = ["127.0.0.2", "127.0.0.3"];
    becomes(&ringway, &members);
    let down = error(
        500,
        "InternalServerError",
        "Encountered internal server error.",
    );
    outage(
        &ringway,
        &members,
        || azure.fails("networkInterfaces", 0, down),
        || azure.works(),
    );
    assert_eq!(lines(&ringway, "Encountered internal server error."), 1);
    azure.has(machines(&[4], port));
    becomes(&ringway, &["127.0.0.4"]);
    ringway.stop();
}

#[test]
fn answers_that_are_no_list_change_nothing() {
    let origin = everywhere();
    let azure = Azure::start(machines(&[2], origin.address().port()));
    let ringway = start(&azure, "", QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    let faults = [
        text_of(200, "{}"),
        text_of(200, r#"{"value": {}}"#),
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\n{".to_vec(),
    ];
    garbage(&ringway, &["127.0.0.2"], faults, |fault| {
        azure.fails("virtualMachines", 0, fault);
    });
    ringway.stop();
}

#[test]
fn an_answer_that_breaks_off_changes_nothing() {
    let origin = everywhere();
    let port = origin.address().port();
    let azure = Azure::start(machines(&[2], port));
    let ringway = start(&azure, "", QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    breaks_off(&ringway, &["127.0.0.2"], &page_of(3, port), |bytes| {
        azure.sends(bytes);
    });
    ringway.stop();
}

/// A whole list of one machine.
fn page_of(octet: u8, port: u16) -> Vec<u8> {
    json_of(200, &json!({"value": [machine(octet, port).entry()]}))
}

#[test]
fn an_api_that_never_answers_changes_nothing() {
    let origin = everywhere();
    let port = origin.address().port();
    let azure = Azure::start(machines(&[2], port));
    let ringway = start(&azure, "", QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    silence(&ringway, &["127.0.0.2"], &page_of(3, port), |bytes| {
        azure.sends(bytes);
    });
    ringway.stop();
}

#[test]
fn no_machines_are_rejected_below_min_members() {
    let origin = everywhere();
    let azure = Azure::start(machines(&[2], origin.address().port()));
    let ringway = start(&azure, "", &format!("min_members: 1, {QUERY}"));
    becomes(&ringway, &["127.0.0.2"]);
    is_rejected(&ringway, || azure.has(Vec::new()));
    stays(&ringway, &["127.0.0.2"]);
    ringway.stop();
}

#[test]
fn a_subscription_without_the_provider_is_told_so_once() {
    let azure = Azure::start(Vec::new());
    azure
        .subscription
        .with(|own| own.registered = "NotRegistered");
    let ringway = start(&azure, "", QUERY);
    let said = "az provider register -n Microsoft.Compute";
    is_logged_times(&ringway, 1, said);
    is_read(&ringway);
    assert_eq!((lines(&ringway, said), excluded(&ringway)), (1, 1.0));
    let asked = azure.subscription.with(|own| own.asked.clone());
    let of_it = asked
        .iter()
        .filter(|target| target.contains("Microsoft.Compute?"));
    assert_eq!(of_it.count(), 1, "{asked:?}");
    ringway.stop();
}

#[test]
fn all_pages_of_all_lists_are_members_or_none() {
    let origin = everywhere();
    let port = origin.address().port();
    let azure = Azure::start(machines(&[2, 3, 4, 5, 6], port));
    azure.subscription.with(|own| own.page = 2);
    let ringway = start(&azure, "", QUERY);
    let all = [
        "127.0.0.2",
        "127.0.0.3",
        "127.0.0.4",
        "127.0.0.5",
        "127.0.0.6",
    ];
    becomes(&ringway, &all);
    assert_eq!(snapshots(&ringway, "applied"), 1.0, "they came at once");
    for kind in ["virtualMachines", "networkInterfaces"] {
        let seen = errors(&ringway);
        azure.fails(kind, 1, error(429, "TooManyRequests", "slow down"));
        eventually("a later page fails", || {
            (errors(&ringway) > seen).then_some(())
        });
        stays(&ringway, &all);
    }
    azure.works();
    is_logged_times(&ringway, 1, "discovery works again");
    // A link to another host would carry the token there.
    let thief = Origin::answering(|_| text_of(200, r#"{"value": []}"#));
    let host = thief.address().to_string();
    azure.subscription.with(|own| own.elsewhere = Some(host));
    is_logged(&ringway, "its next page is elsewhere");
    stays(&ringway, &all);
    azure.subscription.with(|own| own.elsewhere = None);
    azure.has(machines(&[2, 5, 6], port));
    becomes(&ringway, &["127.0.0.2", "127.0.0.5", "127.0.0.6"]);
    assert_eq!(thief.opened(), 0);
    ringway.stop();
}

#[test]
fn with_power_states_only_what_runs_is_a_member() {
    let origin = everywhere();
    let port = origin.address().port();
    let of = |octet: u8, power| Machine {
        power,
        ..machine(octet, port)
    };
    let all = vec![
        of(2, Some("PowerState/running")),
        of(3, Some("PowerState/deallocated")),
        of(4, Some("PowerState/starting")),
        // From an API of times to come.
        of(5, Some("PowerState/hibernated")),
        // Made in between, and one whose view is empty of power.
        of(6, None),
        of(7, Some("")),
    ];
    let azure = Azure::start(all.clone());
    let keys = "power_state: true, resource_group: shop-rg";
    let ringway = start(&azure, keys, &format!("health_mode: provider, {QUERY}"));
    is_listed(&ringway, "lb-web-2", "available");
    for octet in [6, 7] {
        is_listed(&ringway, &format!("lb-web-{octet}"), "unchecked");
    }
    for octet in [3, 4, 5] {
        assert_eq!(row(&ringway, &format!("lb-web-{octet}")), None);
    }
    assert_eq!(excluded(&ringway), 0.0, "who leaves is not left out");
    let asked = azure.subscription.with(|own| own.asked.clone());
    let states: Vec<_> = asked
        .iter()
        .filter(|target| target.contains("statusOnly"))
        .collect();
    assert!(!states.is_empty());
    assert!(
        states
            .iter()
            .all(|target| !target.contains("resourceGroups")),
        "{states:?}"
    );
    // It is going down: it leaves while it is still there.
    let mut less = all.clone();
    less[0].power = Some("PowerState/stopping");
    less[1].power = Some("PowerState/running");
    azure.has(less);
    is_listed(&ringway, "lb-web-3", "available");
    assert_eq!(row(&ringway, "lb-web-2"), None);
    // Without any view nobody can tell who runs.
    let seen = errors(&ringway);
    azure.subscription.with(|own| own.has_views = false);
    eventually("it fails", || (errors(&ringway) > seen).then_some(()));
    assert!(row(&ringway, "lb-web-3").is_some());
    ringway.stop();
}

#[test]
fn power_states_of_all_pages_count_or_none() {
    let origin = everywhere();
    let mut all = machines(&[2, 3, 4, 5, 6], origin.address().port());
    // On the second and the third page.
    all[2].power = Some("PowerState/deallocated");
    all[4].power = Some("PowerState/stopped");
    let azure = Azure::start(all.clone());
    azure.subscription.with(|own| own.page = 2);
    let discovery = format!("health_mode: provider, {QUERY}");
    let ringway = start(&azure, "power_state: true", &discovery);
    let running = ["127.0.0.2", "127.0.0.3", "127.0.0.5"];
    becomes(&ringway, &running);
    for octet in [2, 3, 5] {
        is_listed(&ringway, &format!("lb-web-{octet}"), "available");
    }
    let asked = azure.subscription.with(|own| own.asked.clone());
    for token in ["skiptoken=2", "skiptoken=4"] {
        let is_further =
            |target: &String| target.contains("statusOnly=true") && target.contains(token);
        assert!(asked.iter().any(is_further), "{asked:?}");
    }
    // What the first page says counts only with the others.
    all[0].power = Some("PowerState/deallocated");
    azure.subscription.with(|own| {
        own.fault = Some(("states", 1, error(429, "TooManyRequests", "slow down")));
        own.machines = all;
    });
    fails(&ringway, 2);
    stays(&ringway, &running);
    azure.works();
    becomes(&ringway, &running[1..]);
    assert_eq!(excluded(&ringway), 0.0, "who leaves is not left out");
    ringway.stop();
}

#[test]
fn without_power_states_nobody_knows_whether_a_machine_runs() {
    let origin = everywhere();
    let azure = Azure::start(machines(&[2], origin.address().port()));
    let ringway = start(&azure, "", &format!("health_mode: provider, {QUERY}"));
    is_listed(&ringway, "lb-web-2", "unchecked");
    becomes(&ringway, &["127.0.0.2"]);
    ringway.stop();
}

#[test]
fn public_addresses_are_joined_whatever_the_case_of_their_ids() {
    let origin = everywhere();
    let port = origin.address().port();
    let stopped = Machine {
        power: Some("PowerState/deallocated"),
        ..machine(4, port)
    };
    let azure = Azure::start(vec![machine(2, port), machine(3, port), stopped]);
    let query = "query: {port_label: WEB-PORT, address_type: public}";
    let ringway = start(&azure, "", query);
    becomes(&ringway, &["127.0.1.2", "127.0.1.3"]);
    assert_eq!(excluded(&ringway), 1.0);
    is_logged(&ringway, "web-4: it has no public address");
    ringway.stop();
}

#[test]
fn who_is_left_out_is_counted_and_named_once_for_each_change() {
    let origin = everywhere();
    let port = origin.address().port();
    let some = |octets: &[u8]| {
        let mut all = machines(octets, port);
        all.push(Machine {
            port: None,
            ..machine(13, port)
        });
        all.push(Machine {
            has_interface: false,
            ..machine(14, port)
        });
        all
    };
    let azure = Azure::start(some(&[2]));
    let ringway = start(&azure, "", QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    assert_eq!(excluded(&ringway), 2.0);
    is_logged(&ringway, "web-13: it has no");
    is_logged(&ringway, "web-14: ");
    azure.has(some(&[2, 3]));
    becomes(&ringway, &["127.0.0.2", "127.0.0.3"]);
    assert_eq!(lines(&ringway, LEFT_OUT), 1, "the same are left out");
    let mut fewer = some(&[2]);
    fewer.pop();
    azure.has(fewer);
    becomes(&ringway, &["127.0.0.2"]);
    assert_eq!(excluded(&ringway), 1.0);
    is_logged_times(&ringway, 2, LEFT_OUT);
    ringway.stop();
}

#[test]
fn a_token_that_is_no_longer_good_is_replaced() {
    let origin = everywhere();
    let port = origin.address().port();
    let azure = Azure::start(machines(&[2], port));
    let ringway = start(&azure, "", QUERY);
    becomes(&ringway, &["127.0.0.2"]);
    azure.subscription.with(|own| {
        own.token = "eyJ.second".to_owned();
        own.machines = machines(&[3], port);
    });
    becomes(&ringway, &["127.0.0.3"]);
    assert!(errors(&ringway) <= 1.0, "{}", ringway.log());
    assert_eq!(azure.subscription.with(|own| own.tokens), 2);
    assert!(!ringway.log().contains("eyJ"), "{}", ringway.log());
    ringway.stop();
}
