//! Provider `http_sd` against a server of its own.

use std::time::Duration;

use super::*;
use crate::discovery::settings::{Http, HttpAuth};
use crate::discovery::stub::{Fault, Folder, Reply, Stub, http};
use ringway_shards::plan::{Scheme, Secret};

const TWO: &str = "- address: 192.0.2.1:9090\n- address: 192.0.2.2:9090\n";
const ONE: &str = "- address: 192.0.2.1:9090\n";

fn source(http: Http, format: ListFormat, path: Option<&str>) -> Box<dyn Source> {
    let query = Query {
        path: path.map(Into::into),
        scheme: Some(Scheme::Https),
        ..Query::default()
    };
    let connection = connect(&HttpSd { http, format }).unwrap();
    connection.source(Arc::new(query))
}

fn list_of(stub: &Stub) -> Box<dyn Source> {
    source(http(&stub.endpoint()), ListFormat::Trickster, None)
}

fn hosts(reading: &Reading) -> Vec<&str> {
    let members = reading.members.as_ref().unwrap();
    members.iter().map(|member| &*member.host).collect()
}

#[tokio::test]
async fn a_list_is_read_again_and_again() {
    let mut stub = Stub::start(|_| Reply::ok(ONE)).await;
    let mut source = list_of(&stub);
    let reading = source.next().await.unwrap();
    assert_eq!(hosts(&reading), ["192.0.2.1"]);
    assert_eq!(reading.members.unwrap()[0].scheme, Scheme::Https);
    assert_eq!(reading.again, Again::After(Duration::from_secs(30)));
    stub.answer(|_| Reply::ok(TWO));
    assert_eq!(
        hosts(&source.next().await.unwrap()),
        ["192.0.2.1", "192.0.2.2"]
    );
    stub.answer(|_| Reply::ok("[]"));
    assert_eq!(hosts(&source.next().await.unwrap()), [""; 0]);
    let requests = stub.seen();
    assert_eq!(requests.len(), 3);
    for request in requests {
        assert_eq!((request.method.as_str(), &*request.target()), ("GET", "/"));
        assert_eq!(
            request.header("x-prometheus-refresh-interval-seconds"),
            Some("30")
        );
        assert_eq!(request.header("if-none-match"), None);
    }
}

#[tokio::test]
async fn the_path_follows_the_endpoint_and_headers_go_along() {
    let mut stub = Stub::start(|_| Reply::ok("[]")).await;
    let mut settings = http(&format!("{}/sd/", stub.endpoint()));
    settings.interval = Duration::from_millis(1500);
    settings.headers = vec![("X-Tenant".into(), Arc::new(Secret::new("t1")))];
    settings.auth = HttpAuth::Basic("u".into(), Arc::new(Secret::new("p")));
    let mut source = source(settings, ListFormat::Prometheus, Some("/pools/a?x=1"));
    source.next().await.unwrap();
    let request = stub.next_seen().await;
    assert_eq!(request.target(), "/sd/pools/a?x=1");
    assert_eq!(
        request.header("x-prometheus-refresh-interval-seconds"),
        Some("1.5")
    );
    assert_eq!(request.header("accept"), Some("application/json"));
    assert_eq!(request.header("x-tenant"), Some("t1"));
    assert_eq!(request.header("authorization"), Some("Basic dTpw"));
}

#[tokio::test]
async fn a_validator_is_sent_as_it_came_until_it_is_withdrawn() {
    for validator in ["\"strong\"", "W/\"weak\"", "bare"] {
        let tag = validator.to_owned();
        let mut stub = Stub::start(move |request| match request.header("if-none-match") {
            Some(_) => Reply::new(304, ""),
            None => Reply::ok(ONE).header("etag", &tag),
        })
        .await;
        let mut source = list_of(&stub);
        assert!(source.next().await.unwrap().members.is_some());
        let same = source.next().await.unwrap();
        assert_eq!(same.members, None);
        assert_eq!(same.again, Again::After(Duration::from_secs(30)));
        stub.answer(|_| Reply::ok(TWO));
        assert!(source.next().await.unwrap().members.is_some());
        assert!(source.next().await.unwrap().members.is_some());
        let requests = stub.seen();
        let sent: Vec<_> = requests.iter().map(|r| r.header("if-none-match")).collect();
        assert_eq!(sent, [None, Some(validator), Some(validator), None]);
    }
}

#[tokio::test]
async fn a_refused_document_is_never_confirmed() {
    let mut stub = Stub::start(|_| Reply::ok("- adress: a:1").header("etag", "\"bad\"")).await;
    let mut source = list_of(&stub);
    for _ in 0..2 {
        let failure = source.next().await.unwrap_err();
        assert!(failure.reason.contains("entry [0]"), "{failure}");
    }
    stub.answer(|_| Reply::ok(ONE).header("etag", "\"good\""));
    source.next().await.unwrap();
    stub.answer(|_| Reply::ok("garbage").header("etag", "\"bad\""));
    source.next().await.unwrap_err();
    stub.answer(|_| Reply::new(304, ""));
    // What is confirmed is the last accepted document.
    assert_eq!(source.next().await.unwrap().members, None);
    let sent: Vec<_> = stub.seen();
    let sent: Vec<_> = sent.iter().map(|r| r.header("if-none-match")).collect();
    assert_eq!(sent, [None, None, None, Some("\"good\""), Some("\"good\"")]);
}

#[tokio::test]
async fn a_304_that_nothing_asked_for_is_a_failure() {
    let stub = Stub::start(|_| Reply::new(304, "")).await;
    let failure = list_of(&stub).next().await.unwrap_err();
    assert!(failure.reason.contains("304"), "{failure}");
}

#[tokio::test]
async fn only_200_is_a_list() {
    for status in [201, 204, 206, 301, 400, 401, 404, 500, 503] {
        let reply = move || match status {
            204 => Reply::new(status, ""),
            _ => Reply::new(status, ONE).header("etag", "\"x\""),
        };
        let mut stub = Stub::start(move |_| reply().header("location", "/other")).await;
        let mut source = list_of(&stub);
        let failure = source.next().await.unwrap_err();
        assert!(failure.reason.contains(&status.to_string()), "{failure}");
        source.next().await.unwrap_err();
        assert_eq!(stub.seen().last().unwrap().header("if-none-match"), None);
    }
}

#[tokio::test]
async fn a_server_may_ask_to_be_left_alone() {
    let stub = Stub::start(|_| Reply::new(429, "slowly").header("retry-after", "7")).await;
    let failure = list_of(&stub).next().await.unwrap_err();
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
    assert!(failure.reason.contains("slowly"), "{failure}");
}

#[tokio::test]
async fn what_goes_wrong_on_the_way_is_a_failure_and_the_next_reading_works() {
    let stub = Stub::start(|_| Reply::ok(TWO)).await;
    let mut settings = http(&stub.endpoint());
    settings.timeout = Duration::from_millis(500);
    let mut source = source(settings, ListFormat::Trickster, None);
    for (fault, said) in [
        (Fault::Cut, "127.0.0.1"),
        // Half of it would be a valid list of one.
        (Fault::HalfBody, "broke off"),
        (Fault::Oversize(BYTES_MAX + 1), "longer than 16777216 bytes"),
        (
            Fault::Delay(Duration::from_secs(60)),
            "no answer within 500ms",
        ),
    ] {
        stub.fault(Some(fault));
        let failure = source.next().await.unwrap_err();
        assert!(failure.reason.contains(said), "{fault:?}: {failure}");
        stub.fault(None);
        assert_eq!(hosts(&source.next().await.unwrap()).len(), 2, "{fault:?}");
    }
    drop(stub);
    source.next().await.unwrap_err();
}

#[tokio::test]
async fn formats_are_not_guessed() {
    let groups = r#"[{"targets":["192.0.2.1:9090"],"labels":{"env":"prod"}}]"#;
    let stub = Stub::start(move |_| Reply::ok(groups).header("content-type", "text/plain")).await;
    let settings = http(&stub.endpoint());
    let mut right = source(settings.clone(), ListFormat::Prometheus, None);
    let reading = right.next().await.unwrap();
    assert_eq!(&*reading.members.unwrap()[0].labels["env"], "prod");
    let mut wrong = source(settings.clone(), ListFormat::Trickster, None);
    wrong.next().await.unwrap_err();
    stub.answer(|_| Reply::ok(ONE));
    right.next().await.unwrap_err();
    stub.answer(|_| Reply::ok(""));
    right.next().await.unwrap_err();
    assert_eq!(hosts(&wrong.next().await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn a_token_in_a_file_is_read_for_each_request_and_is_in_no_error() {
    let folder = Folder::new();
    let token = folder.write("token", "one\n");
    let mut stub = Stub::start(|request| {
        let told = request.header("authorization").unwrap_or_default();
        match told {
            "Bearer two" => Reply::ok(ONE),
            _ => Reply::new(401, "who are you?"),
        }
    })
    .await;
    let mut settings = http(&stub.endpoint());
    settings.auth = HttpAuth::BearerFile(token.clone());
    let mut source = source(settings, ListFormat::Trickster, None);
    let failure = source.next().await.unwrap_err();
    assert!(failure.reason.contains("401"), "{failure}");
    assert!(!failure.reason.contains("one"), "{failure}");
    folder.write("token", "two");
    assert_eq!(hosts(&source.next().await.unwrap()), ["192.0.2.1"]);
    folder.write("token", " \n");
    let failure = source.next().await.unwrap_err();
    assert!(failure.reason.contains("empty"), "{failure}");
    std::fs::remove_file(&token).unwrap();
    source.next().await.unwrap_err();
    assert_eq!(stub.seen().len(), 2);
}
