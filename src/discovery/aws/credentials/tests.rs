//! Where region and credentials come from, as far as it is ours, and the library's HTTP through our client.

use std::sync::Arc;

use ringway_shards::plan::Secret;

use super::*;
use crate::discovery::settings::AwsService;
use crate::discovery::stub::{self, Fault, Reply, Stub};

fn settings(endpoint: &str) -> Aws {
    Aws {
        http: stub::http(endpoint),
        service: AwsService::Ec2,
        region: Some("eu-west-1".into()),
        keys: Some(("AKID0".into(), Arc::new(Secret::new("hunter2")))),
        profile: None,
        role_arn: None,
    }
}

#[tokio::test]
async fn configured_keys_and_region_are_used_as_they_are() {
    let chain = Chain::new(&settings("")).unwrap();
    let account = chain.account().await.unwrap();
    assert_eq!(&*account.region, "eu-west-1");
    assert_eq!(account.lease.value.access_key_id(), "AKID0");
    assert_eq!(account.lease.value.secret_access_key(), "hunter2");
    let shown = format!("{account:?} {chain:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(chain.is_fixed());
    let role = Aws {
        role_arn: Some("arn:aws:iam::000000000000:role/reader".into()),
        ..settings("")
    };
    assert!(!Chain::new(&role).unwrap().is_fixed());
}

#[tokio::test]
async fn a_region_that_is_no_host_name_is_refused() {
    let odd = Aws {
        region: Some("evil.example/".into()),
        ..settings("")
    };
    let failure = Chain::new(&odd).unwrap().account().await.unwrap_err();
    assert!(failure.reason.contains("region"), "{failure}");
    assert!(check_region("us-gov-west-1").is_ok());
    assert!(check_region("").is_err());
    assert!(check_region(&"a".repeat(64)).is_err());
}

#[test]
fn renewal_is_spread_over_minutes() {
    let early = early();
    assert!(early >= EARLY_MAX / 2 && early <= EARLY_MAX);
}

#[test]
fn only_this_machine_and_its_link_go_around_proxies() {
    let rows = [
        ("http://169.254.169.254/latest", true),
        ("http://169.254.170.2/v2", true),
        ("http://[fd00:ec2::254]/latest", true),
        ("http://[::1]:80/", true),
        ("http://127.0.0.1:1338/", true),
        ("http://localhost:1338/", true),
        ("https://sts.amazonaws.com/", false),
        ("http://10.0.0.1/", false),
        ("http://[2001:db8::1]/", false),
    ];
    for (url, wanted) in rows {
        assert_eq!(is_nearby(&Url::parse(url).unwrap()), wanted, "{url}");
    }
}

fn wire(endpoint: &str) -> Wire {
    let http = stub::http(endpoint);
    Wire {
        outside: Client::new(&http).unwrap(),
        nearby: Client::direct(&http).unwrap(),
        limits: (None, None),
    }
}

#[tokio::test]
async fn the_library_asks_through_our_client() {
    let mut stub = Stub::start(|_| Reply::new(404, "gone").header("x-a", "b")).await;
    let mut request = HttpRequest::new("body".into());
    request.set_method("PUT").unwrap();
    request
        .set_uri(format!("{}/x?y=z", stub.endpoint()))
        .unwrap();
    request.headers_mut().insert("x-ttl", "60");
    let answer = wire(&stub.endpoint()).call(request).await.unwrap();
    assert_eq!(answer.status().as_u16(), 404);
    assert_eq!(answer.headers().get("x-a"), Some("b"));
    assert_eq!(answer.body().bytes(), Some(&b"gone"[..]));
    let seen = stub.next_seen().await;
    assert_eq!((seen.method.as_str(), &*seen.target()), ("PUT", "/x?y=z"));
    assert_eq!(seen.header("x-ttl"), Some("60"));
    assert_eq!(seen.body, "body");
}

#[tokio::test]
async fn what_the_library_reads_is_bounded() {
    let stub = Stub::start(|_| Reply::ok("").fault(Fault::Oversize(TOKEN_BYTES_MAX + 1))).await;
    let mut request = HttpRequest::new("".into());
    request.set_uri(stub.endpoint()).unwrap();
    let error = wire(&stub.endpoint()).call(request).await.unwrap_err();
    assert!(error.is_io(), "{error:?}");
    let silent = Stub::start(|_| Reply::ok("").fault(Fault::Delay(Duration::from_secs(600)))).await;
    let hasty = Wire {
        limits: (
            Some(Duration::from_millis(10)),
            Some(Duration::from_millis(10)),
        ),
        ..wire(&silent.endpoint())
    };
    let mut request = HttpRequest::new("".into());
    request.set_uri(silent.endpoint()).unwrap();
    let error = hasty.call(request).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}
