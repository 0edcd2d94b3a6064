//! An account of AWS with instances and tasks, for what moto does not do: pages that fail, states to come, silence. And
//! ringway that asks a service, as all tests of `aws` start it.

use std::net::SocketAddr;

use ringway_wire::{Conn, Origin, Request, Ringway, Setup};
use serde_json::{Value, json};

use crate::discovery_stub::{Board, answer_all, form, json_of, text_of};
use crate::discovery_support::sections;

/// Ringway that asks a service at an address, with these keys of block `aws` and with nothing of the machine's own.
pub(crate) fn setup(address: SocketAddr, aws: &str, discovery: &str) -> Setup {
    setup_within("5s", address, aws, discovery)
}

fn setup_within(timeout: &str, address: SocketAddr, aws: &str, discovery: &str) -> Setup {
    let discoverer = format!(
        "provider: aws, aws: {{{aws}}}, http: {{endpoint: 'http://{address}', interval: 1s, timeout: {timeout}}}"
    );
    let setup = Setup::new(sections(&discoverer, discovery));
    let file = |name: &str| setup.folder().join(name).display().to_string();
    let (credentials, config) = (file("credentials"), file("config"));
    let mut setup = setup
        .environment("AWS_SHARED_CREDENTIALS_FILE", &credentials)
        .environment("AWS_CONFIG_FILE", &config)
        .environment("AWS_EC2_METADATA_DISABLED", "true")
        .environment("AWS_ENDPOINT_URL_STS", &format!("http://{address}"));
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        setup = setup.environment(name, "");
    }
    setup
}

pub(crate) const KEYS: &str = "access_key: AKIAEXAMPLE, secret_key: aws-secret";

/// Instances or tasks of a stand-in, and how it answers.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) hosts: Vec<Host>,
    pub(crate) page: usize,
    /// What is sent in place of pages from this one on.
    pub(crate) fault: Option<(usize, Vec<u8>)>,
    /// What is sent in place of descriptions.
    pub(crate) undescribed: Option<Vec<u8>>,
    /// Most ARNs that came at once.
    pub(crate) batch: usize,
    /// ARNs that are listed and cannot be described.
    pub(crate) missing: Vec<String>,
}

/// An instance or a task.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) octet: u8,
    pub(crate) state: &'static str,
    pub(crate) health: &'static str,
    pub(crate) port: Option<u16>,
    pub(crate) has_interface: bool,
    pub(crate) service: &'static str,
    /// Further tags of a task.
    pub(crate) tags: &'static [&'static str],
}

pub(crate) fn host(octet: u8, port: u16) -> Host {
    Host {
        octet,
        state: "",
        health: "UNKNOWN",
        port: Some(port),
        has_interface: true,
        service: "web",
        tags: &[],
    }
}

pub(crate) fn hosts(octets: impl IntoIterator<Item = u8>, port: u16) -> Vec<Host> {
    octets.into_iter().map(|octet| host(octet, port)).collect()
}

impl Host {
    fn instance(&self) -> String {
        let octet = self.octet;
        let state = match self.state {
            "" => "running",
            other => other,
        };
        let port = self.port.map_or(String::new(), |port| {
            format!("<item><key>web-port</key><value>{port}</value></item>")
        });
        format!(
            "<item><reservationId>r-{octet}</reservationId><ownerId>000000000000</ownerId><groupSet/><instancesSet><item>\
             <instanceId>i-{octet:017}</instanceId><imageId>ami-0</imageId>\
             <instanceState><code>16</code><name>{state}</name></instanceState><privateDnsName/><dnsName/><reason/>\
             <amiLaunchIndex>0</amiLaunchIndex><productCodes/><instanceType>t3.small</instanceType>\
             <launchTime>2026-01-02T03:04:05.000Z</launchTime>\
             <placement><availabilityZone>eu-west-1a</availabilityZone><groupName/></placement>\
             <privateIpAddress>127.0.0.{octet}</privateIpAddress><architecture>x86_64</architecture>\
             <tagSet><item><key>Name</key><value>web-{octet}</value></item>{port}</tagSet>\
             </item></instancesSet></item>"
        )
    }

    pub(crate) fn arn(&self) -> String {
        format!(
            "arn:aws:ecs:eu-west-1:000000000000:task/prod/{:032x}",
            self.octet
        )
    }

    fn task(&self) -> Value {
        let octet = self.octet;
        let state = match self.state {
            "" => "RUNNING",
            other => other,
        };
        let mut tags = vec![json!({"key": "Name", "value": format!("web-{octet}")})];
        tags.extend(
            self.port
                .map(|port| json!({"key": "web-port", "value": port.to_string()})),
        );
        tags.extend(self.tags.iter().map(|key| json!({"key": key, "value": ""})));
        let attachments = match self.has_interface {
            true => json!([{
                "id": "a", "type": "ElasticNetworkInterface", "status": "ATTACHED", "details": [
                    {"name": "subnetId", "value": "subnet-0"},
                    {"name": "privateIPv4Address", "value": format!("127.0.0.{octet}")},
                ],
            }]),
            // Bridge mode: its port is somewhere on the host.
            false => json!([]),
        };
        json!({
            "taskArn": self.arn(), "clusterArn": "arn:aws:ecs:eu-west-1:000000000000:cluster/prod",
            "taskDefinitionArn": "arn:aws:ecs:eu-west-1:000000000000:task-definition/web:1",
            "group": format!("service:{}", self.service), "lastStatus": state, "desiredStatus": "RUNNING",
            "healthStatus": self.health, "launchType": "FARGATE", "availabilityZone": "eu-west-1a",
            "attachments": attachments, "tags": tags, "createdAt": 1_767_225_600.5,
            "containers": [{"name": "web", "lastStatus": state, "networkInterfaces": [], "networkBindings": null}],
        })
    }
}

impl Account {
    fn fault_at(&self, at: usize) -> Option<Vec<u8>> {
        let (from, fault) = self.fault.as_ref()?;
        (at / self.page >= *from).then(|| fault.clone())
    }

    fn ec2(&self, request: &Request) -> Vec<u8> {
        let pairs = form(&request.text());
        let pair = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, v)| &**v);
        let is_asked =
            pair("Action") == Some("DescribeInstances") && pair("Version") == Some("2016-11-15");
        assert!(is_asked, "{pairs:?}");
        let at: usize = pair("NextToken").map_or(0, |text| text.parse().unwrap_or(0));
        if let Some(fault) = self.fault_at(at) {
            return fault;
        }
        let rest = self.hosts.get(at..).unwrap_or_default();
        let next = match self.page < rest.len() {
            true => format!("<nextToken>{}</nextToken>", at + self.page),
            false => String::new(),
        };
        ec2_page(&rest[..rest.len().min(self.page)], &next)
    }

    fn ecs(&mut self, request: &Request) -> Vec<u8> {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let target = request.header("x-amz-target").unwrap_or_default();
        match target.rsplit('.').next() {
            Some("ListTasks") => self.list(&body),
            Some("DescribeTasks") => self.describe(&body),
            _ => ecs_error("UnknownOperationException", ""),
        }
    }

    fn list(&self, body: &Value) -> Vec<u8> {
        let at = body["nextToken"]
            .as_str()
            .map_or(0, |text| text.parse().unwrap_or(0));
        if let Some(fault) = self.fault_at(at) {
            return fault;
        }
        let fits = |host: &&Host| {
            body["serviceName"]
                .as_str()
                .is_none_or(|name| name == host.service)
        };
        let arns: Vec<_> = self.hosts.iter().filter(fits).map(Host::arn).collect();
        let page: Vec<_> = arns.iter().skip(at).take(self.page).collect();
        let mut answer = json!({"taskArns": page});
        if at + self.page < arns.len() {
            answer["nextToken"] = (at + self.page).to_string().into();
        }
        json_of(200, &answer)
    }

    fn describe(&mut self, body: &Value) -> Vec<u8> {
        if let Some(fault) = &self.undescribed {
            return fault.clone();
        }
        let asked = body["tasks"].as_array().expect("a list");
        self.batch = self.batch.max(asked.len());
        if asked.len() > 100 {
            return ecs_error(
                "InvalidParameterException",
                "Tasks cannot be more than 100.",
            );
        }
        let is_asked = |arn: &String| asked.iter().any(|one| one == arn.as_str());
        let is_there = |host: &&Host| is_asked(&host.arn()) && !self.missing.contains(&host.arn());
        let mut tasks: Vec<_> = self.hosts.iter().filter(is_there).map(Host::task).collect();
        if body["include"] != json!(["TAGS"]) {
            for task in &mut tasks {
                task["tags"] = json!([]);
            }
        }
        let gone = self.missing.iter().filter(|arn| is_asked(arn));
        let failures: Vec<_> = gone
            .map(|arn| json!({"arn": arn, "reason": "MISSING"}))
            .collect();
        json_of(200, &json!({"tasks": tasks, "failures": failures}))
    }
}

pub(crate) fn ec2_page(hosts: &[Host], next: &str) -> Vec<u8> {
    let page: String = hosts.iter().map(Host::instance).collect();
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<DescribeInstancesResponse \
         xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>0</requestId>\
         <reservationSet>{page}</reservationSet>{next}</DescribeInstancesResponse>"
    );
    text_of(200, &body)
}

pub(crate) fn ecs_error(code: &str, message: &str) -> Vec<u8> {
    json_of(400, &json!({"__type": code, "message": message}))
}

pub(crate) fn ec2_error(status: u16, code: &str) -> Vec<u8> {
    let body = format!(
        "<?xml version=\"1.0\"?>\n<Response><Errors><Error><Code>{code}</Code><Message>as told</Message></Error></Errors>\
         <RequestID>0</RequestID></Response>"
    );
    text_of(status, &body)
}

/// The stand-in with these hosts, and ringway with a pool of them.
pub(crate) fn start(
    service: &str,
    hosts: Vec<Host>,
    discovery: &str,
) -> (Board<Account>, Origin, Ringway) {
    let account = account(hosts);
    let origin = Origin::start(serve(&account, service));
    let ringway = ringway(origin.address(), service, discovery);
    (account, origin, ringway)
}

pub(crate) fn account(hosts: Vec<Host>) -> Board<Account> {
    Board::new(Account {
        hosts,
        page: 100,
        ..Account::default()
    })
}

/// What a service of an account does with a connection.
pub(crate) fn serve(
    account: &Board<Account>,
    service: &str,
) -> impl Fn(&mut Conn) + Send + Sync + use<> {
    let own = account.clone();
    let is_ec2 = service == "ec2";
    let scope = format!("/eu-west-1/{service}/aws4_request");
    let answer = move |request: &Request| {
        let signed = request.header("authorization").unwrap_or_default();
        assert!(signed.contains(&scope), "{signed}");
        own.with(|own| match is_ec2 {
            true => own.ec2(request),
            false => own.ecs(request),
        })
    };
    move |conn| answer_all(conn, &answer)
}

/// Ringway with a pool of what a service at an address has.
pub(crate) fn ringway(address: SocketAddr, service: &str, discovery: &str) -> Ringway {
    let aws = format!("service: {service}, region: eu-west-1, {KEYS}");
    setup_within("2s", address, &aws, discovery).start()
}
