//! Providers of clouds: block by block. Contract: autodiscovery page, 2.2, 12.1, 13 and 14.1.

use serde_json::Value as Json;

use super::{http, required, secret, text};
use crate::compile::context::Context;
use crate::config::discovery as written;
use crate::config::{Fault, Path, defaults};
use crate::discovery::settings::{Aws, AwsService, Azure, AzureCloud, AzureIdentity, Gcp};

pub(super) fn aws(
    context: &mut Context<'_>,
    entry: &Path,
    own: &written::Aws,
    http: Option<&written::Http>,
) -> Option<Aws> {
    let at = entry.key("aws");
    let service = service(context, &at, own.service.as_ref(), "service (ec2 or ecs)");
    let place = at.key("region");
    let region = text(context, &place, own.region.as_ref());
    if let Some(region) = &region
        && !region
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    {
        let found = region.to_string();
        context.fail_value(&place, Fault::Region { found });
    }
    let access_key = text(context, &at.key("access_key"), own.access_key.as_ref());
    let secret_key = secret(context, &at.key("secret_key"), own.secret_key.as_ref());
    let keys = match (access_key, secret_key) {
        (Some(access), Some(secret)) => {
            let reason = "access_key and secret_key are set";
            context.warn_no_effect(&at.key("profile"), reason);
            Some((access, secret))
        }
        (None, None) => None,
        (Some(_), None) => {
            let needs = "secret_key";
            context.fail_key(&at.key("access_key"), Fault::HalfKeys { needs });
            None
        }
        (None, Some(_)) => {
            let needs = "access_key";
            context.fail_key(&at.key("secret_key"), Fault::HalfKeys { needs });
            None
        }
    };
    let profile = text(context, &at.key("profile"), own.profile.as_ref());
    let role_arn = text(context, &at.key("role_arn"), own.role_arn.as_ref());
    let http = http::of_cloud(context, entry, http);
    Some(Aws {
        http: http?,
        service: match service?.as_str() {
            "ecs" => AwsService::Ecs,
            _ => AwsService::Ec2,
        },
        region,
        keys,
        profile,
        role_arn,
    })
}

pub(super) fn gcp(
    context: &mut Context<'_>,
    entry: &Path,
    own: &written::Gcp,
    http: Option<&written::Http>,
) -> Option<Gcp> {
    let at = entry.key("gcp");
    let service = service(context, &at, own.service.as_ref(), "service (gce)");
    let project = text(context, &at.key("project"), own.project.as_ref());
    let place = at.key("credentials_file");
    let file = text(context, &place, own.credentials_file.as_ref());
    // One that is not there yet is read later.
    let content = file
        .as_ref()
        .and_then(|file| context.inputs.files.get(file));
    if let Some(Err(reason)) = content.map(service_account) {
        context.fail_value(&place, Fault::CredentialsFile { reason });
    }
    let http = http::of_cloud(context, entry, http);
    service?;
    Some(Gcp {
        http: http?,
        project,
        credentials_file: file.map(|file| String::from(file).into()),
    })
}

/// Any other type may name an address or a program of its own to get tokens from.
fn service_account(content: &[u8]) -> Result<(), String> {
    let Ok(Json::Object(key)) = serde_json::from_slice(content) else {
        return Err("the file is no JSON object".into());
    };
    match key.get("type").and_then(Json::as_str) {
        Some("service_account") => Ok(()),
        Some(other) => Err(format!("its type is {other:?}")),
        None => Err("it has no type".into()),
    }
}

pub(super) fn azure(
    context: &mut Context<'_>,
    entry: &Path,
    own: &written::Azure,
    http: Option<&written::Http>,
) -> Option<Azure> {
    let at = entry.key("azure");
    let service = service(context, &at, own.service.as_ref(), "service (vm)");
    let subscription = required(
        context,
        &at.key("subscription_id"),
        own.subscription_id.as_ref(),
        "subscription_id",
    );
    let identity = identity(context, &at, own);
    let group = text(
        context,
        &at.key("resource_group"),
        own.resource_group.as_ref(),
    );
    let mut word = |key: &str, written: &Option<String>, preset| {
        let written = written.as_deref().filter(|text| !text.is_empty());
        context.pick_text(&at.key(key), written, preset)
    };
    let cloud = word("cloud", &own.cloud, defaults::AZURE_CLOUD);
    let compute = word(
        "compute_api_version",
        &own.compute_api_version,
        defaults::AZURE_COMPUTE_API,
    );
    let network = word(
        "network_api_version",
        &own.network_api_version,
        defaults::AZURE_NETWORK_API,
    );
    let power_state = context.pick(
        &at.key("power_state"),
        own.power_state,
        defaults::AZURE_POWER_STATE,
    );
    let http = http::of_cloud(context, entry, http);
    service?;
    Some(Azure {
        http: http?,
        subscription_id: subscription?,
        resource_group: group,
        identity: identity?,
        cloud: match cloud.as_str() {
            "usgovernment" => AzureCloud::UsGovernment,
            "china" => AzureCloud::China,
            _ => AzureCloud::Public,
        },
        power_state,
        compute_api_version: compute.into(),
        network_api_version: network.into(),
    })
}

/// Who asks; there is no chain of them.
fn identity(context: &mut Context<'_>, at: &Path, own: &written::Azure) -> Option<AzureIdentity> {
    let tenant_id = text(context, &at.key("tenant_id"), own.tenant_id.as_ref());
    let client_id = text(context, &at.key("client_id"), own.client_id.as_ref());
    let secret_at = at.key("client_secret");
    let token_at = at.key("federated_token_file");
    let secret = secret(context, &secret_at, own.client_secret.as_ref());
    let token_file = text(context, &token_at, own.federated_token_file.as_ref());
    let key = match (&secret, &token_file) {
        (Some(_), Some(_)) => {
            context.fail_key(&token_at, Fault::TwoIdentities);
            return None;
        }
        (Some(_), None) => secret_at,
        (None, Some(_)) => token_at,
        (None, None) => {
            let reason = "a managed identity has its own";
            context.warn_no_effect(&at.key("tenant_id"), reason);
            return Some(AzureIdentity::Managed { client_id });
        }
    };
    for (needs, found) in [("tenant_id", &tenant_id), ("client_id", &client_id)] {
        if found.is_none() {
            context.fail_key(&key, Fault::HalfIdentity { needs });
        }
    }
    let (tenant_id, client_id) = (tenant_id?, client_id?);
    Some(match (secret, token_file) {
        (Some(secret), _) => AzureIdentity::Secret {
            tenant_id,
            client_id,
            secret,
        },
        (None, file) => AzureIdentity::Federated {
            tenant_id,
            client_id,
            token_file: String::from(file?).into(),
        },
    })
}

/// Never guessed: a default would outlive the service that it was chosen for.
fn service(
    context: &mut Context<'_>,
    at: &Path,
    written: Option<&String>,
    what: &'static str,
) -> Option<String> {
    required(context, &at.key("service"), written, what).map(String::from)
}
