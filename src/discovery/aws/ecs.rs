//! ECS tasks, by `ListTasks` and `DescribeTasks`. Contract: autodiscovery page, 12.3.

use std::collections::{BTreeMap, HashMap, HashSet};

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::json;

use super::{Call, Inner, PAGES_MAX};
use crate::discovery::cloud::{
    Host, Sorted, joined, last_segment, not_understood, or_default, too_many_pages,
};
use crate::discovery::settings::Query;
use crate::discovery::{Exclusion, Failure, Readiness};

/// Tasks of a page: the most that ECS gives.
pub const PAGE_SIZE: usize = 100;
/// Most tasks that ECS describes at once.
pub const BATCH_MAX: usize = 100;
const LIST: &str = "ecs ListTasks";
const DESCRIBE: &str = "ecs DescribeTasks";
const LIST_TARGET: &str = "AmazonEC2ContainerServiceV20141113.ListTasks";
const DESCRIBE_TARGET: &str = "AmazonEC2ContainerServiceV20141113.DescribeTasks";

pub(super) async fn read(inner: &Inner, query: &Query) -> Result<Sorted, Failure> {
    let arns = list(inner, query).await?;
    let mut sorted = Sorted::default();
    for batch in arns.chunks(BATCH_MAX) {
        let mut body = json!({"tasks": batch, "include": ["TAGS"]});
        if let Some(cluster) = &query.cluster {
            body["cluster"] = json!(cluster);
        }
        let answer = inner.send(&call(DESCRIBE, DESCRIBE_TARGET, &body)).await?;
        let described = parse_described(&answer)?;
        for task in &described.tasks {
            sort(task, query, &mut sorted);
        }
        sorted.excluded.extend(missing(batch, &described));
    }
    Ok(sorted)
}

async fn list(inner: &Inner, query: &Query) -> Result<Vec<String>, Failure> {
    let mut body = json!({"desiredStatus": "RUNNING", "maxResults": inner.page_size});
    if let Some(cluster) = &query.cluster {
        body["cluster"] = json!(cluster);
    }
    if let Some(service) = &query.service {
        body["serviceName"] = json!(service);
    }
    let mut arns = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = parse_list(&inner.send(&call(LIST, LIST_TARGET, &body)).await?)?;
        arns.extend(page.task_arns);
        if page.next_token.is_empty() {
            return Ok(arns);
        }
        body["nextToken"] = json!(page.next_token);
    }
    Err(too_many_pages(LIST, PAGES_MAX))
}

fn call(what: &'static str, target: &'static str, body: &serde_json::Value) -> Call {
    let json = HeaderValue::from_static("application/x-amz-json-1.1");
    let target_name = HeaderName::from_static("x-amz-target");
    Call {
        what,
        service: "ecs",
        headers: HeaderMap::from_iter([
            (CONTENT_TYPE, json),
            (target_name, HeaderValue::from_static(target)),
        ]),
        body: body.to_string().into(),
    }
}

/// One page of task ARNs.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List {
    /// The ARNs.
    pub task_arns: Vec<String>,
    /// What the next page is asked for with; empty: there is none.
    #[serde(default, deserialize_with = "or_default")]
    pub next_token: String,
}

/// Tasks, and those that could not be described.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "ECS's own names")]
pub struct Described {
    pub tasks: Vec<Task>,
    #[serde(default, deserialize_with = "or_default")]
    pub failures: Vec<TaskFailure>,
}

/// Why a task could not be described.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "ECS's own names")]
pub struct TaskFailure {
    #[serde(deserialize_with = "or_default")]
    pub arn: String,
    #[serde(deserialize_with = "or_default")]
    pub reason: String,
    #[serde(deserialize_with = "or_default")]
    pub detail: String,
}

/// What is read of a task. Absent and null are empty.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "ECS's own names")]
pub struct Task {
    #[serde(deserialize_with = "or_default")]
    pub task_arn: String,
    #[serde(deserialize_with = "or_default")]
    pub cluster_arn: String,
    #[serde(deserialize_with = "or_default")]
    pub task_definition_arn: String,
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    #[serde(deserialize_with = "or_default")]
    pub last_status: String,
    #[serde(deserialize_with = "or_default")]
    pub health_status: String,
    #[serde(deserialize_with = "or_default")]
    pub launch_type: String,
    #[serde(deserialize_with = "or_default")]
    pub availability_zone: String,
    #[serde(deserialize_with = "or_default")]
    pub attachments: Vec<Attachment>,
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub tags: Vec<Tag>,
}

/// Something attached to a task, such as its network interface.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "ECS's own names")]
pub struct Attachment {
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    #[serde(deserialize_with = "or_default")]
    pub details: Vec<Detail>,
}

/// Something that is said of an attachment.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "ECS's own names")]
pub struct Detail {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub value: String,
}

/// A container of a task.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "ECS's own names")]
pub struct Container {
    #[serde(deserialize_with = "or_default")]
    pub network_interfaces: Vec<Interface>,
}

/// A network interface of a container.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "ECS's own names")]
pub struct Interface {
    #[serde(deserialize_with = "or_default")]
    pub private_ipv4_address: String,
}

/// A tag of a task.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "ECS's own names")]
pub struct Tag {
    #[serde(deserialize_with = "or_default")]
    pub key: String,
    #[serde(deserialize_with = "or_default")]
    pub value: String,
}

/// Reads a page of ARNs.
///
/// # Errors
/// When it is none.
pub fn parse_list(body: &[u8]) -> Result<List, Failure> {
    serde_json::from_slice(body).map_err(|error| not_understood(LIST, &error))
}

/// Reads descriptions of tasks.
///
/// # Errors
/// When they are none.
pub fn parse_described(body: &[u8]) -> Result<Described, Failure> {
    serde_json::from_slice(body).map_err(|error| not_understood(DESCRIBE, &error))
}

/// Whether a task serves; `None`: it is leaving. States and healths that are not known do not serve.
pub fn readiness(last_status: &str, health_status: &str) -> Option<Readiness> {
    match last_status {
        "DEACTIVATING" | "STOPPING" | "DEPROVISIONING" | "STOPPED" => None,
        // Tasks without a health check would never serve otherwise.
        "RUNNING" if matches!(health_status, "HEALTHY" | "UNKNOWN" | "") => Some(Readiness::Ready),
        _ => Some(Readiness::NotReady),
    }
}

/// What was listed and is not described: a task that ended in between.
fn missing(asked: &[String], described: &Described) -> Vec<Exclusion> {
    let mut reasons: BTreeMap<&str, String> = BTreeMap::new();
    let found: HashSet<&str> = described.tasks.iter().map(|task| &*task.task_arn).collect();
    for arn in asked.iter().filter(|arn| !found.contains(&***arn)) {
        reasons.insert(arn, "it was listed, but not described".to_owned());
    }
    for failure in &described.failures {
        let said = joined(&failure.reason, &failure.detail);
        reasons.insert(&failure.arn, format!("ECS does not describe it: {said}"));
    }
    let exclusion = |(arn, reason)| Exclusion {
        name: last_segment(arn).into(),
        reason,
    };
    reasons.into_iter().map(exclusion).collect()
}

fn sort(task: &Task, query: &Query, sorted: &mut Sorted) {
    let tags: HashMap<&str, &str> = task
        .tags
        .iter()
        .map(|tag| (&*tag.key, &*tag.value))
        .collect();
    if !query.tags.iter().all(|tag| tags.contains_key(&**tag)) {
        return;
    }
    let Some(ready) = readiness(&task.last_status, &task.health_status) else {
        return;
    };
    let task_id = last_segment(&task.task_arn);
    let name = tags.get("Name").copied().filter(|name| !name.is_empty());
    let name = name.unwrap_or(task_id);
    let Some(address) = address(task) else {
        let has_started = !matches!(&*task.last_status, "PROVISIONING" | "PENDING");
        // Before, its interface may just not be there yet.
        if has_started {
            let reason = "it has no network interface of its own: only awsvpc mode is supported";
            sorted.exclude(name, reason);
        }
        return;
    };
    let tag = |key: &Option<Box<str>>| tags.get(key.as_deref()?).copied();
    let host = Host {
        name,
        address: Some(address),
        port: tag(&query.port_label),
        replica_group: tag(&query.replica_group_label),
        ready,
        labels: vec![
            ("task_arn", &task.task_arn),
            ("task_id", task_id),
            ("cluster", last_segment(&task.cluster_arn)),
            ("task_definition", last_segment(&task.task_definition_arn)),
            ("group", &task.group),
            ("launch_type", &task.launch_type),
            ("availability_zone", &task.availability_zone),
            ("task_status", &task.last_status),
            ("health_status", &task.health_status),
        ],
        own_labels: ("tag_", tags.into_iter().collect()),
    };
    sorted.add(host.member(query));
}

fn address(task: &Task) -> Option<&str> {
    let attachments = task.attachments.iter();
    let details = attachments
        .filter(|attachment| attachment.kind == "ElasticNetworkInterface")
        .flat_map(|attachment| &attachment.details)
        .filter(|detail| detail.name == "privateIPv4Address")
        .map(|detail| &*detail.value);
    let containers = task.containers.iter();
    let interfaces = containers
        .flat_map(|container| &container.network_interfaces)
        .map(|interface| &*interface.private_ipv4_address);
    details.chain(interfaces).find(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
