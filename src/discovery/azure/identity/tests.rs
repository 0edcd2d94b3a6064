//! Each way to a token, and what the requests hold.

use super::*;
use crate::discovery::stub::{self, Folder, Reply, Request, Stub};

fn identity(stub: &Stub, configured: AzureIdentity) -> Identity {
    let settings = Azure {
        http: stub::http(""),
        subscription_id: "s".into(),
        resource_group: None,
        identity: configured,
        cloud: AzureCloud::China,
        power_state: false,
        compute_api_version: "2024-07-01".into(),
        network_api_version: "2024-05-01".into(),
    };
    let hosts = Hosts {
        login: stub.endpoint(),
        metadata: stub.endpoint(),
        ..Hosts::of(settings.cloud)
    };
    Identity::new(&settings, hosts).unwrap()
}

/// Gives a token to a managed identity, with a text for its life as the metadata service does, and to others.
fn tokens(request: &Request) -> Reply {
    match &*request.path {
        METADATA_PATH if request.header("metadata") != Some("true") => Reply::new(
            400,
            r#"{"error":"bad_request_102","error_description":"Required metadata header"}"#,
        ),
        METADATA_PATH => Reply::ok(
            r#"{"access_token":"token-m","client_id":"c","expires_in":"86399","expires_on":"1","token_type":"Bearer"}"#,
        ),
        "/t-0/oauth2/v2.0/token" => Reply::ok(
            r#"{"token_type":"Bearer","expires_in":3599,"ext_expires_in":3599,"access_token":"token-p"}"#,
        ),
        _ => Reply::new(404, ""),
    }
}

#[tokio::test]
async fn a_managed_identity_asks_the_metadata_service() {
    let mut stub = Stub::start(tokens).await;
    for client_id in [None, Some("c-0")] {
        let configured = AzureIdentity::Managed {
            client_id: client_id.map(Into::into),
        };
        let found = identity(&stub, configured).token().await.unwrap();
        assert_eq!(found.value.expose(), "token-m");
        assert_eq!(found.life, Some(Duration::from_secs(86_399)));
        let seen = stub.next_seen().await;
        assert_eq!(seen.pair("api-version").as_deref(), Some("2018-02-01"));
        let resource = seen.pair("resource");
        assert_eq!(
            resource.as_deref(),
            Some("https://management.chinacloudapi.cn/")
        );
        assert_eq!(seen.pair("client_id").as_deref(), client_id);
    }
}

#[tokio::test]
async fn a_principal_shows_its_secret_to_the_login_host() {
    let mut stub = Stub::start(tokens).await;
    let configured = AzureIdentity::Secret {
        tenant_id: "t-0".into(),
        client_id: "c-0".into(),
        secret: Arc::new(Secret::new("hunter 2&")),
    };
    let identity = identity(&stub, configured);
    assert!(!format!("{identity:?}").contains("hunter"));
    let found = identity.token().await.unwrap();
    assert_eq!(found.value.expose(), "token-p");
    assert_eq!(found.life, Some(Duration::from_secs(3599)));
    let wanted = [
        ("grant_type", "client_credentials"),
        ("client_id", "c-0"),
        ("scope", "https://management.chinacloudapi.cn/.default"),
        ("client_secret", "hunter 2&"),
    ];
    let seen = stub.next_seen().await;
    assert_eq!(seen.method, "POST");
    assert_eq!(
        seen.form(),
        wanted.map(|(name, value)| (name.into(), value.into()))
    );
    let refused =
        r#"{"error":"invalid_client","error_description":"AADSTS7000215: bad","echo":"hunter 2&"}"#;
    stub.answer(move |_| Reply::new(401, refused));
    let failure = identity.token().await.unwrap_err();
    assert!(
        failure.reason.contains("invalid_client: AADSTS7000215"),
        "{failure}"
    );
    assert!(!failure.reason.contains("hunter"), "{failure}");
}

#[tokio::test]
async fn the_token_of_the_platform_is_read_each_time() {
    let mut stub = Stub::start(tokens).await;
    let folder = Folder::new();
    let file = folder.join("token");
    let configured = AzureIdentity::Federated {
        tenant_id: "t-0".into(),
        client_id: "c-0".into(),
        token_file: file.clone(),
    };
    let identity = identity(&stub, configured);
    let failure = identity.token().await.unwrap_err();
    assert!(
        failure.reason.contains(&file.display().to_string()),
        "{failure}"
    );
    for text in ["jwt-1", "jwt-2"] {
        folder.write("token", &format!("{text}\n"));
        identity.token().await.unwrap();
        let form = stub.next_seen().await.form();
        assert!(form.contains(&("client_assertion_type".into(), ASSERTION.into())));
        assert!(form.contains(&("client_assertion".into(), text.into())));
        assert!(form.iter().all(|pair| pair.0 != "client_secret"));
    }
    assert!(stub.seen().is_empty(), "nothing without the file");
}

#[tokio::test]
async fn what_is_configured_and_fails_leads_nowhere_else() {
    let mut stub = Stub::start(|request| match &*request.path {
        METADATA_PATH => Reply::ok(r#"{"access_token":"token-m"}"#),
        _ => Reply::new(503, "<html>").header("Retry-After", "3"),
    })
    .await;
    let configured = AzureIdentity::Secret {
        tenant_id: "t-0".into(),
        client_id: "c-0".into(),
        secret: Arc::new(Secret::new("hunter2")),
    };
    let failure = identity(&stub, configured).token().await.unwrap_err();
    assert_eq!(failure.retry_after, Some(Duration::from_secs(3)));
    let paths: Vec<_> = stub
        .seen()
        .into_iter()
        .map(|request| request.path)
        .collect();
    assert_eq!(paths, ["/t-0/oauth2/v2.0/token"]);
}

#[test]
fn each_cloud_has_its_hosts() {
    let rows = [
        (
            AzureCloud::Public,
            "management.azure.com",
            "login.microsoftonline.com",
        ),
        (
            AzureCloud::UsGovernment,
            "management.usgovcloudapi.net",
            "login.microsoftonline.us",
        ),
        (
            AzureCloud::China,
            "management.chinacloudapi.cn",
            "login.chinacloudapi.cn",
        ),
    ];
    for (cloud, manager, login) in rows {
        let hosts = Hosts::of(cloud);
        assert_eq!(hosts.resource_manager, format!("https://{manager}"));
        assert_eq!(hosts.login, format!("https://{login}"));
    }
}
