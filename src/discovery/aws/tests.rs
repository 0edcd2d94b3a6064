//! Calls of AWS services against a stub: refused credentials, throttling, forms of errors.

use std::sync::atomic::{AtomicU32, Ordering};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Providing;
use ringway_shards::plan::Secret;

use super::*;
use crate::discovery::stub::{self, Reply, Stub};

/// Settings of a discoverer with fixed keys that asks the stub.
pub(super) fn settings(stub: &Stub, service: AwsService) -> Aws {
    Aws {
        http: stub::http(&stub.endpoint()),
        service,
        region: Some("us-east-2".into()),
        keys: Some(("AKID0".into(), Arc::new(Secret::new("hunter2")))),
        profile: None,
        role_arn: None,
    }
}

/// The source of a query, with so many entries on a page.
pub(super) fn source(settings: &Aws, query: Query, page_size: usize) -> Box<dyn Source> {
    let chain = Chain::new(settings).unwrap();
    with_chain(settings, query, page_size, chain)
}

fn with_chain(settings: &Aws, query: Query, page_size: usize, chain: Chain) -> Box<dyn Source> {
    let inner = Inner {
        settings: settings.clone(),
        client: Client::new(&settings.http).unwrap(),
        chain,
        page_size,
    };
    let inner = Arc::new(inner);
    Connection { inner }.source(Arc::new(query))
}

/// Gives `key-1`, `key-2` and so on.
#[derive(Debug, Default)]
struct Rotating(AtomicU32);

impl aws_credential_types::provider::ProvideCredentials for Rotating {
    fn provide_credentials<'a>(&'a self) -> Providing<'a>
    where
        Self: 'a,
    {
        let n = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        let session = Some("session-0".to_owned());
        let keys = Credentials::new(format!("key-{n}"), "hunter2", session, None, "test");
        Providing::ready(Ok(keys))
    }
}

#[derive(Debug)]
struct Broken;

impl aws_credential_types::provider::ProvideCredentials for Broken {
    fn provide_credentials<'a>(&'a self) -> Providing<'a>
    where
        Self: 'a,
    {
        Providing::ready(Err(CredentialsError::not_loaded("nobody home")))
    }
}

const EMPTY: &str = "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>";

fn rejected(code: &str) -> Reply {
    let error = format!("<Error><Code>{code}</Code><Message>no longer good</Message></Error>");
    Reply::new(
        401,
        format!("<Response><Errors>{error}</Errors></Response>"),
    )
}

fn rotating(stub: &Stub) -> Box<dyn Source> {
    let settings = Aws {
        keys: None,
        ..settings(stub, AwsService::Ec2)
    };
    let chain = Chain::of(&settings, Rotating::default()).unwrap();
    with_chain(&settings, Query::default(), 5, chain)
}

#[tokio::test]
async fn refused_credentials_are_resolved_again_and_the_call_sent_once_more() {
    for code in REJECTED {
        let stub = Stub::start(move |request| {
            match request.header("authorization").unwrap().contains("key-1") {
                true => rejected(code),
                false => Reply::ok(EMPTY),
            }
        });
        let mut stub = stub.await;
        let mut source = rotating(&stub);
        let reading = source.next().await.unwrap();
        assert_eq!(reading.members, Some(Vec::new()), "{code}");
        let requests = stub.seen();
        let keys: Vec<_> = requests
            .iter()
            .map(|request| request.header("authorization").unwrap())
            .map(|text| text.split(['=', '/']).nth(1).unwrap().to_owned())
            .collect();
        assert_eq!(keys, ["key-1", "key-2"]);
        assert!(
            requests
                .iter()
                .all(|request| request.header("x-amz-security-token") == Some("session-0"))
        );
        source.next().await.unwrap();
        assert_eq!(stub.seen().len(), 1, "what works is kept");
    }
}

#[tokio::test]
async fn refused_twice_is_a_failure() {
    let mut stub = Stub::start(|_| rejected("ExpiredToken")).await;
    let mut source = rotating(&stub);
    let failure = source.next().await.unwrap_err();
    assert!(failure.reason.contains("ExpiredToken"), "{failure}");
    assert_eq!(stub.seen().len(), 2);
}

#[tokio::test]
async fn fixed_keys_and_other_codes_are_not_sent_again() {
    let mut stub = Stub::start(|_| rejected("ExpiredToken")).await;
    let mut source = source(&settings(&stub, AwsService::Ec2), Query::default(), 5);
    let failure = source.next().await.unwrap_err();
    assert!(failure.reason.contains("no longer good"), "{failure}");
    assert!(!failure.reason.contains("hunter2"), "{failure}");
    assert_eq!(stub.seen().len(), 1);
    stub.answer(|_| rejected("UnauthorizedOperation"));
    let mut source = rotating(&stub);
    source.next().await.unwrap_err();
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn without_credentials_nothing_is_sent() {
    let mut stub = Stub::start(|_| Reply::ok(EMPTY)).await;
    let settings = Aws {
        keys: None,
        ..settings(&stub, AwsService::Ec2)
    };
    let chain = Chain::of(&settings, Broken).unwrap();
    let mut source = with_chain(&settings, Query::default(), 5, chain);
    let failure = source.next().await.unwrap_err();
    assert!(failure.reason.contains("nobody home"), "{failure}");
    assert_eq!(stub.seen().len(), 0);
}

#[tokio::test]
async fn throttling_says_when_to_come_back() {
    let throttled = r#"{"__type":"ThrottlingException","message":"Rate exceeded"}"#;
    let stub = Stub::start(move |_| Reply::new(503, throttled).header("Retry-After", "7")).await;
    let mut source = source(&settings(&stub, AwsService::Ecs), Query::default(), 5);
    let failure = source.next().await.unwrap_err();
    assert_eq!(failure.retry_after, Some(std::time::Duration::from_secs(7)));
    assert!(failure.reason.contains("Rate exceeded"), "{failure}");
}

#[test]
fn every_form_of_error_is_read() {
    let rows = [
        (
            r#"<?xml version="1.0" encoding="UTF-8"?>
            <Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>a &amp; b</Message></Error>
            </Errors><RequestID>0</RequestID></Response>"#,
            Some(("InvalidInstanceID.NotFound", "a & b")),
        ),
        (
            r#"<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error><Type>Sender</Type>
            <Code>AuthFailure</Code><Message>no</Message></Error><RequestId>0</RequestId></ErrorResponse>"#,
            Some(("AuthFailure", "no")),
        ),
        (
            "<Response><Errors><Error><Code>A</Code></Error><Error><Code>B</Code></Error></Errors></Response>",
            Some(("A", "")),
        ),
        (
            r#"{"__type":"com.amazonaws.ecs#ClusterNotFoundException","message":"Cluster not found."}"#,
            Some(("ClusterNotFoundException", "Cluster not found.")),
        ),
        (
            r#"{"__type":"AccessDeniedException","Message":"no","message":null}"#,
            Some(("AccessDeniedException", "no")),
        ),
        ("<html><body>500</body></html>", None),
        ("<Response/>", None),
        ("{}", None),
        ("", None),
        ("\u{feff}", None),
    ];
    for (text, wanted) in rows {
        let fault = parse_error(text.as_bytes());
        let found = fault.as_ref().map(|fault| (&*fault.code, &*fault.message));
        assert_eq!(found, wanted, "{text}");
    }
    assert_eq!(parse_error(&[0xff, 0xfe]), None);
}

#[test]
fn endpoints_follow_the_region() {
    assert_eq!(
        endpoint("ec2", "eu-west-1"),
        "https://ec2.eu-west-1.amazonaws.com"
    );
    assert_eq!(
        endpoint("ecs", "cn-north-1"),
        "https://ecs.cn-north-1.amazonaws.com.cn"
    );
}
