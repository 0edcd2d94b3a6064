//! moto as a process: EC2, ECS, STS and IAM that are nobody's of ours.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use ringway_wire::{Client, Origin, Port, Request};
use serde_json::{Value, json};

use crate::discovery_stub::{Board, text_of};
use crate::discovery_support::is_missing;

/// The version that `get_moto.sh` fetches.
const VERSION: &str = "5.2.5";

/// The server; it ends when dropped.
pub(crate) struct Moto {
    child: Child,
    port: Port,
}

impl Drop for Moto {
    fn drop(&mut self) {
        // It keeps nothing, so it may end at once.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts moto; `None` where the set-up could not fetch it, which is said, and fails in CI. With `free`, signatures and
/// permissions are checked after so many calls.
#[track_caller]
pub(crate) fn moto(free: Option<usize>) -> Option<Moto> {
    let Some(program) = program() else {
        is_missing(
            "moto is missing, this test ran against nothing: .ci/setup.sh test fetches it from PyPI",
        );
        return None;
    };
    let port = Port::claim();
    let mut command = Command::new(program);
    command.args(["-H", "127.0.0.1", "-p", &port.number().to_string()]);
    if let Some(free) = free {
        command.env("INITIAL_NO_AUTH_ACTION_COUNT", free.to_string());
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("moto can be run");
    let said = child.stderr.take().expect("it is piped");
    let moto = Moto { child, port };
    // Loading its interpreter takes as long as a busy machine likes, which says nothing of ringway: no patience here.
    let mut said = BufReader::new(said).lines().map_while(Result::ok);
    let is_started = said.any(|line| line.contains("Running on"));
    assert!(is_started, "moto ended");
    // It says something of every request.
    thread::spawn(move || said.for_each(drop));
    Some(moto)
}

fn program() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty());
    let cache = cache.map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".cache"))
    })?;
    let folder = cache.join("ringway").join(format!("moto-{VERSION}"));
    folder
        .join("complete")
        .is_file()
        .then(|| folder.join("bin/moto_server"))
}

/// An address that passes everything on to moto, unless the test says that it is down. The addresses that moto gives
/// tasks, of 10/8 and at random, become those of loopback.
pub(crate) fn gateway(moto: SocketAddr) -> (Origin, Board<bool>) {
    let is_down = Board::new(false);
    let own = is_down.clone();
    let origin = Origin::answering(move |request| {
        if own.with(|down| *down) {
            return text_of(500, "");
        }
        let (status, text) = pass_on(moto, request, &request.body);
        text_of(
            status,
            &text.replace("\"value\": \"10.", "\"value\": \"127."),
        )
    });
    (origin, is_down)
}

/// An address that passes everything on to moto, except that pages are to have one reservation: moto takes minutes to
/// make as many as fill a page of EC2.
pub(crate) fn gateway_of_small_pages(moto: SocketAddr) -> Origin {
    Origin::answering(move |request| {
        let body = request.text().replace("MaxResults=1000", "MaxResults=0001");
        let (status, text) = pass_on(moto, request, body.as_bytes());
        text_of(status, &text)
    })
}

/// What moto answers to a request with this body, which is as long as its own.
fn pass_on(moto: SocketAddr, request: &Request, body: &[u8]) -> (u16, String) {
    let mut client = Client::connect(moto);
    client.send(&request.head.raw);
    client.send(body);
    let answer = client.answer();
    (answer.status, answer.text())
}

/// What stands between two texts for the first time.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let found = text
        .split_once(before)
        .and_then(|(_, rest)| rest.split_once(after));
    found.unwrap_or_else(|| panic!("no {before} in {text}")).0
}

impl Moto {
    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// One call. The service is told by what is signed for, the signature itself is none.
    fn call(&self, region: &str, service: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        let mut client = Client::connect(self.address());
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: {service}.{region}.amazonaws.com\r\nX-Amz-Date: 20260102T030405Z\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=AKID/20260102/{region}/{service}/aws4_request, \
             SignedHeaders=host, Signature=0\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        ));
        // A service is loaded at its first call, which takes long on a busy machine.
        let answer = (0..4).find_map(|_| client.try_answer_to("POST").ok());
        let answer = answer.expect("moto answers at last");
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        answer.text()
    }

    fn query(&self, region: &str, service: &str, version: &str, pairs: &[(&str, &str)]) -> String {
        let mut body = format!("Version={version}");
        for (name, value) in pairs {
            body.push_str(&format!("&{name}="));
            for byte in value.bytes() {
                body.push_str(&format!("%{byte:02X}"));
            }
        }
        let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
        self.call(region, service, kind, &body)
    }

    pub(crate) fn ec2(&self, region: &str, pairs: &[(&str, &str)]) -> String {
        self.query(region, "ec2", "2016-11-15", pairs)
    }

    pub(crate) fn ecs(&self, region: &str, action: &str, body: &Value) -> Value {
        let headers = format!(
            "Content-Type: application/x-amz-json-1.1\r\n\
             X-Amz-Target: AmazonEC2ContainerServiceV20141113.{action}\r\n"
        );
        let text = self.call(region, "ecs", &headers, &body.to_string());
        serde_json::from_str(&text).expect("JSON")
    }

    /// Has tasks stay in the state that they are in: otherwise each look at them moves them on.
    pub(crate) fn pin_tasks(&self) {
        let body = json!({
            "model_name": "ecs::task", "transition": {"progression": "manual", "times": 100_000},
        })
        .to_string();
        let length = body.len();
        let mut client = Client::connect(self.address());
        client.send(format!(
            "POST /moto-api/state-manager/set-transition HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ));
        assert!(client.answer().status < 300);
    }

    /// A network of loopback addresses in a region, so that its hosts can be reached.
    pub(crate) fn subnet(&self, region: &str, block: &str) -> String {
        let vpc = self.ec2(region, &[("Action", "CreateVpc"), ("CidrBlock", block)]);
        let vpc = between(&vpc, "<vpcId>", "<");
        // Without, it cannot give interfaces to tasks.
        let pairs = [
            ("Action", "ModifyVpcAttribute"),
            ("VpcId", vpc),
            ("EnableDnsHostnames.Value", "true"),
        ];
        self.ec2(region, &pairs);
        let block = block.replace("/16", "/24");
        let pairs = [
            ("Action", "CreateSubnet"),
            ("VpcId", vpc),
            ("CidrBlock", &*block),
        ];
        between(&self.ec2(region, &pairs), "<subnetId>", "<").to_owned()
    }

    /// An instance with an address and the tags that say what it is.
    pub(crate) fn instance(
        &self,
        region: &str,
        subnet: &str,
        address: &str,
        port: Option<u16>,
    ) -> String {
        let name = format!("web-{address}");
        let port = port.map(|port| port.to_string());
        let mut pairs = vec![
            ("Action", "RunInstances"),
            ("ImageId", "ami-12c6146b"),
            ("InstanceType", "t3.small"),
            ("MinCount", "1"),
            ("MaxCount", "1"),
            ("SubnetId", subnet),
            ("PrivateIpAddress", address),
            ("TagSpecification.1.ResourceType", "instance"),
            ("TagSpecification.1.Tag.1.Key", "Name"),
            ("TagSpecification.1.Tag.1.Value", &name),
            ("TagSpecification.1.Tag.2.Key", "role"),
            ("TagSpecification.1.Tag.2.Value", "web"),
        ];
        if let Some(port) = &port {
            pairs.push(("TagSpecification.1.Tag.3.Key", "web-port"));
            pairs.push(("TagSpecification.1.Tag.3.Value", port));
        }
        between(&self.ec2(region, &pairs), "<instanceId>", "<").to_owned()
    }

    pub(crate) fn tag(&self, region: &str, resource: &str, key: &str, value: &str) {
        let pairs = [
            ("Action", "CreateTags"),
            ("ResourceId.1", resource),
            ("Tag.1.Key", key),
            ("Tag.1.Value", value),
        ];
        self.ec2(region, &pairs);
    }

    /// A user who may do one thing; returns key and secret.
    pub(crate) fn user(&self, name: &str, action: &str) -> (String, String) {
        let iam = |pairs: &[(&str, &str)]| self.query("us-east-1", "iam", "2010-05-08", pairs);
        iam(&[("Action", "CreateUser"), ("UserName", name)]);
        let policy = json!({
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}],
        })
        .to_string();
        iam(&[
            ("Action", "PutUserPolicy"),
            ("UserName", name),
            ("PolicyName", "all"),
            ("PolicyDocument", &policy),
        ]);
        let key = iam(&[("Action", "CreateAccessKey"), ("UserName", name)]);
        let id = between(&key, "<AccessKeyId>", "<").to_owned();
        let secret = between(&key, "<SecretAccessKey>", "<").to_owned();
        (id, secret)
    }

    /// Cluster `prod` with a definition of tasks that have addresses of their own.
    pub(crate) fn cluster(&self, region: &str) {
        self.pin_tasks();
        self.ecs(region, "CreateCluster", &json!({"clusterName": "prod"}));
        let definition = json!({
            "family": "web", "networkMode": "awsvpc", "requiresCompatibilities": ["FARGATE"], "cpu": "256",
            "memory": "512", "containerDefinitions": [{"name": "web", "image": "web:1", "memory": 64}],
        });
        self.ecs(region, "RegisterTaskDefinition", &definition);
    }

    /// A task; returns its name and its address as the gateway passes that on.
    pub(crate) fn task(&self, region: &str, subnet: &str, port: Option<u16>) -> (String, String) {
        let mut tags = vec![json!({"key": "role", "value": "web"})];
        tags.extend(port.map(|port| json!({"key": "web-port", "value": port.to_string()})));
        let network = json!({
            "subnets": [subnet], "securityGroups": [], "assignPublicIp": "DISABLED",
        });
        let body = json!({
            "cluster": "prod", "taskDefinition": "web", "launchType": "FARGATE", "count": 1, "tags": tags,
            "networkConfiguration": {"awsvpcConfiguration": network},
        });
        let answer = self.ecs(region, "RunTask", &body);
        let task = &answer["tasks"][0];
        let details = task["attachments"][0]["details"].as_array();
        let mut details = details.expect("a list").iter();
        let address = details.find(|detail| detail["name"] == "privateIPv4Address");
        let address = address.expect("it has one")["value"].as_str();
        let (_, host) = address
            .and_then(|text| text.split_once('.'))
            .expect("an address");
        let arn = task["taskArn"].as_str().expect("text");
        (arn.to_owned(), format!("127.{host}"))
    }
}
