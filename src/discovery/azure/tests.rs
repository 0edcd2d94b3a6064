//! Whole readings of a subscription against a stub that ignores what Azure ignores.

use serde_json::{Value, json};

use super::vm::tests::{interface, machine, public_address, state};
use super::*;
use crate::discovery::settings::{AzureCloud, AzureIdentity, Port};
use crate::discovery::stub::{self, Fault, Reply, Request, Stub};

const VERSIONS: [&str; 3] = ["2024-07-01", "2024-05-01", PROVIDER_API_VERSION];

/// What a subscription has, one list per kind.
#[derive(Clone, Default)]
struct Subscription {
    machines: Vec<Value>,
    interfaces: Vec<Value>,
    addresses: Vec<Value>,
    states: Vec<Value>,
    registered: &'static str,
}

/// A resource manager that refuses what the real one refuses and ignores what it ignores; one machine a page.
async fn azure(subscription: Subscription) -> Stub {
    Stub::start(move |request| answer(request, &subscription)).await
}

fn answer(request: &Request, subscription: &Subscription) -> Reply {
    if request.path == "/metadata/identity/oauth2/token" {
        return Reply::ok(r#"{"access_token":"token-0","expires_in":"3600"}"#);
    }
    if request.header("authorization") != Some("Bearer token-0") {
        return Reply::new(
            401,
            r#"{"error":{"code":"InvalidAuthenticationToken","message":"no"}}"#,
        );
    }
    let version = request.pair("api-version").unwrap_or_default();
    if !VERSIONS.contains(&&*version) {
        return Reply::new(
            400,
            r#"{"error":{"code":"MissingApiVersionParameter","message":"no"}}"#,
        );
    }
    let is_group = request.path.contains("/resourceGroups/");
    let wants_states = request.pair("statusOnly").is_some() && !is_group;
    let list = match request.path.rsplit('/').next().unwrap() {
        "virtualMachines" if wants_states => &subscription.states,
        "virtualMachines" => &subscription.machines,
        "networkInterfaces" => &subscription.interfaces,
        "publicIPAddresses" => &subscription.addresses,
        "Microsoft.Compute" => {
            let state = json!({"registrationState": subscription.registered, "namespace": "Microsoft.Compute"});
            return Reply::ok(state.to_string());
        }
        _ => return Reply::new(404, r#"{"error":{"code":"NotFound","message":"no"}}"#),
    };
    let at: usize = request
        .pair("$skiptoken")
        .map_or(0, |text| text.parse().unwrap());
    let mut page = json!({"value": list.iter().skip(at).take(1).collect::<Vec<_>>()});
    if at + 1 < list.len() {
        let host = request.header("host").unwrap();
        let (path, query) = (&request.path, format!("api-version={version}"));
        let states = if wants_states { "&statusOnly=true" } else { "" };
        page["nextLink"] =
            format!("http://{host}{path}?{query}{states}&$skiptoken={}", at + 1).into();
    }
    Reply::ok(page.to_string())
}

fn settings(stub: &Stub) -> Azure {
    Azure {
        http: stub::http(&stub.endpoint()),
        subscription_id: "sub-0".into(),
        resource_group: None,
        identity: AzureIdentity::Managed { client_id: None },
        cloud: AzureCloud::Public,
        power_state: false,
        compute_api_version: VERSIONS[0].into(),
        network_api_version: VERSIONS[1].into(),
    }
}

fn source(stub: &Stub, settings: &Azure, query: Query) -> Box<dyn Source> {
    let hosts = Hosts {
        metadata: stub.endpoint(),
        ..Hosts::of(settings.cloud)
    };
    connect_to(settings, hosts).unwrap().source(Arc::new(query))
}

fn query() -> Query {
    Query {
        port: Some(Port::Number(9090)),
        ..Query::default()
    }
}

fn two() -> Subscription {
    Subscription {
        machines: vec![machine("a"), machine("b")],
        interfaces: vec![interface("a", "192.0.2.1"), interface("b", "192.0.2.2")],
        addresses: vec![
            public_address("a", Some("198.51.100.1")),
            public_address("b", None),
        ],
        states: vec![
            state("a", &["PowerState/running"]),
            state("b", &["PowerState/stopped"]),
        ],
        registered: "Registered",
    }
}

/// Kinds and parameters of what was asked, without tokens and following pages.
fn asked(stub: &mut Stub) -> Vec<String> {
    let seen = stub.seen().into_iter();
    let first = seen.filter(|request| {
        request.path.starts_with("/subscriptions") && request.pair("$skiptoken").is_none()
    });
    first.map(|request| request.target()).collect()
}

#[tokio::test]
async fn two_lists_are_read_whole_and_joined() {
    let mut stub = azure(two()).await;
    let mut source = source(&stub, &settings(&stub), query());
    let reading = source.next().await.unwrap();
    let members = reading.members.unwrap();
    let addresses: Vec<_> = members.iter().map(|member| member.address()).collect();
    assert_eq!(addresses, ["192.0.2.1:9090", "192.0.2.2:9090"]);
    let all = stub.seen();
    assert_eq!(all.len(), 5, "a token, two pages of two lists");
    assert_eq!(all[1].header("accept"), Some("application/json"));
    source.next().await.unwrap();
    let wanted = [
        "/subscriptions/sub-0/providers/Microsoft.Compute/virtualMachines?api-version=2024-07-01",
        "/subscriptions/sub-0/providers/Microsoft.Network/networkInterfaces?api-version=2024-05-01",
    ];
    assert_eq!(asked(&mut stub), wanted);
}

#[tokio::test]
async fn a_group_narrows_all_but_the_power_states() {
    let mut stub = azure(two()).await;
    let settings = Azure {
        resource_group: Some("prod rg".into()),
        power_state: true,
        ..settings(&stub)
    };
    let query = Query {
        address_type: AddressType::Public,
        ..query()
    };
    let reading = source(&stub, &settings, query).next().await.unwrap();
    let members = reading.members.unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!(&*members[0].host, "198.51.100.1");
    assert_eq!(members[0].ready, crate::discovery::Readiness::Ready);
    let group = "/subscriptions/sub-0/resourceGroups/prod%20rg/providers";
    let wanted = [
        format!("{group}/Microsoft.Compute/virtualMachines?api-version=2024-07-01"),
        format!("{group}/Microsoft.Network/networkInterfaces?api-version=2024-05-01"),
        format!("{group}/Microsoft.Network/publicIPAddresses?api-version=2024-05-01"),
        "/subscriptions/sub-0/providers/Microsoft.Compute/virtualMachines?api-version=2024-07-01&statusOnly=true"
            .to_owned(),
    ];
    assert_eq!(asked(&mut stub), wanted);
}

#[tokio::test]
async fn without_any_instance_view_nothing_is_concluded() {
    let mut subscription = two();
    subscription.states = vec![machine("a"), state("b", &[])];
    let stub = azure(subscription.clone()).await;
    let settings = Azure {
        power_state: true,
        ..settings(&stub)
    };
    let failure = source(&stub, &settings, query()).next().await.unwrap_err();
    assert!(failure.reason.contains("instance view"), "{failure}");
    subscription.states = Vec::new();
    stub.answer(move |request| answer(request, &subscription));
    let reading = source(&stub, &settings, query()).next().await.unwrap();
    assert_eq!(reading.members.unwrap().len(), 2);
}

#[tokio::test]
async fn an_unregistered_subscription_is_named_once_asked() {
    let nothing = |registered| Subscription {
        registered,
        ..Subscription::default()
    };
    let mut stub = azure(nothing("NotRegistered")).await;
    let mut reader = source(&stub, &settings(&stub), query());
    for _ in 0..2 {
        let reading = reader.next().await.unwrap();
        assert_eq!(reading.members, Some(Vec::new()));
        assert!(
            reading.excluded[0]
                .reason
                .contains("az provider register -n Microsoft.Compute")
        );
    }
    let hint = "/subscriptions/sub-0/providers/Microsoft.Compute?api-version=2021-04-01";
    let count = |stub: &mut Stub| asked(stub).iter().filter(|target| *target == hint).count();
    assert_eq!(count(&mut stub), 1);
    stub.answer(|request| answer(request, &two()));
    assert_eq!(reader.next().await.unwrap().excluded, []);
    stub.answer(move |request| answer(request, &nothing("Registered")));
    assert_eq!(reader.next().await.unwrap().excluded, []);
    assert_eq!(count(&mut stub), 1);
    stub.answer(move |request| match request.target() == hint {
        true => Reply::new(403, ""),
        false => answer(request, &nothing("")),
    });
    let reading = source(&stub, &settings(&stub), query())
        .next()
        .await
        .unwrap();
    assert_eq!((reading.members, reading.excluded), (Some(vec![]), vec![]));
}

#[tokio::test]
async fn all_pages_of_all_lists_or_nothing() {
    let bad: [fn() -> Reply; 6] = [
        || Reply::new(500, ""),
        || Reply::ok("{}"),
        || Reply::ok(r#"{"value":null}"#),
        || Reply::ok(r#"{"value":[]}"#).fault(Fault::HalfBody),
        || Reply::ok("").fault(Fault::Cut),
        || Reply::ok("").fault(Fault::Oversize(PAGE_BYTES_MAX + 1)),
    ];
    for kind in ["virtualMachines", "networkInterfaces"] {
        for reply in bad {
            let fine = two();
            let stub = Stub::start(move |request| {
                let is_second = request.pair("$skiptoken").is_some();
                match is_second && request.path.ends_with(kind) {
                    true => reply(),
                    false => answer(request, &fine),
                }
            });
            let stub = stub.await;
            let mut reader = source(&stub, &settings(&stub), query());
            reader.next().await.unwrap_err();
        }
    }
}

#[tokio::test]
async fn a_token_goes_to_no_other_host() {
    let mut other = Stub::start(|_| Reply::ok(r#"{"value":[]}"#)).await;
    let elsewhere = other.endpoint();
    for next in [
        format!("{elsewhere}/x"),
        "no url".to_owned(),
        "/relative".to_owned(),
    ] {
        let page = json!({"value": [], "nextLink": next}).to_string();
        let stub = Stub::start(move |request| match &*request.path {
            "/metadata/identity/oauth2/token" => answer(request, &two()),
            _ => Reply::ok(page.clone()),
        });
        let stub = stub.await;
        let failure = source(&stub, &settings(&stub), query())
            .next()
            .await
            .unwrap_err();
        assert!(failure.reason.contains("next page"), "{failure}");
    }
    assert_eq!(other.seen().len(), 0);
}

#[tokio::test]
async fn pages_without_end_are_a_failure() {
    let mut stub = Stub::start(|request| match &*request.path {
        "/metadata/identity/oauth2/token" => answer(request, &two()),
        path => {
            let host = request.header("host").unwrap();
            Reply::ok(json!({"value": [], "nextLink": format!("http://{host}{path}")}).to_string())
        }
    })
    .await;
    let failure = source(&stub, &settings(&stub), query())
        .next()
        .await
        .unwrap_err();
    assert!(failure.reason.contains("200 pages"), "{failure}");
    assert_eq!(stub.seen().len(), PAGES_MAX + 1);
}

#[tokio::test]
async fn refusals_show_what_azure_says() {
    let throttled = r#"{"error":{"code":"TooManyRequests","message":"slow down"}}"#;
    let stub = Stub::start(move |request| match &*request.path {
        "/metadata/identity/oauth2/token" => answer(request, &two()),
        _ => Reply::new(429, throttled).header("Retry-After", "17"),
    })
    .await;
    let failure = source(&stub, &settings(&stub), query())
        .next()
        .await
        .unwrap_err();
    assert!(
        failure.reason.contains("TooManyRequests: slow down"),
        "{failure}"
    );
    assert!(!failure.reason.contains("token-0"), "{failure}");
    assert_eq!(
        failure.retry_after,
        Some(std::time::Duration::from_secs(17))
    );
}

#[tokio::test]
async fn a_token_that_is_refused_is_not_kept() {
    let stub = Stub::start(|request| match &*request.path {
        "/metadata/identity/oauth2/token" => Reply::ok(r#"{"access_token":"old"}"#),
        _ => answer(request, &two()),
    })
    .await;
    let mut reader = source(&stub, &settings(&stub), query());
    let failure = reader.next().await.unwrap_err();
    assert!(
        failure.reason.contains("InvalidAuthenticationToken"),
        "{failure}"
    );
    stub.answer(|request| answer(request, &two()));
    reader.next().await.unwrap();
}
