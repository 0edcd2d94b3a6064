//! Whole readings of a project against a stub that checks signatures and tokens.

use serde_json::json;

use super::credentials::tests::{nowhere, service_key, verified};
use super::gce::tests::{instance, page};
use super::*;
use crate::discovery::settings::Port;
use crate::discovery::stub::{self, Fault, Folder, Reply, Request, Stub};

/// Google: a token endpoint that checks signatures, and what `api` answers to those who have its newest token.
async fn google(mut api: impl FnMut(&Request) -> Reply + Send + 'static) -> Stub {
    let mut given = 0;
    Stub::start(move |request| {
        if request.path == "/token" {
            verified(request);
            given += 1;
            let token = json!({"access_token": format!("token-{given}"), "expires_in": 3600});
            return Reply::ok(token.to_string());
        }
        let wanted = format!("Bearer token-{given}");
        match request.header("authorization") {
            Some(sent) if sent == wanted => api(request),
            _ => Reply::new(
                401,
                r#"{"error":{"code":401,"message":"x","status":"UNAUTHENTICATED"}}"#,
            ),
        }
    })
    .await
}

fn connection(stub: &Stub, folder: &Folder) -> Connection {
    let uri = format!("{}/token", stub.endpoint());
    let settings = Gcp {
        http: stub::http(&stub.endpoint()),
        project: None,
        credentials_file: Some(folder.write("key.json", &service_key(&uri))),
    };
    connect_within(&settings, nowhere()).unwrap()
}

fn query() -> Query {
    Query {
        port: Some(Port::Number(9090)),
        ..Query::default()
    }
}

async fn read(stub: &Stub, query: Query) -> Result<Reading, Failure> {
    let folder = Folder::new();
    connection(stub, &folder)
        .source(Arc::new(query))
        .next()
        .await
}

fn one(name: &str, next: Option<&str>) -> Reply {
    let zones = json!({"zones/a": {"instances": [instance(name, "RUNNING")]}});
    Reply::ok(page(zones, next))
}

#[tokio::test]
async fn all_pages_are_read_with_one_token() {
    let mut stub = google(|request| match request.pair("pageToken").as_deref() {
        None => one("a", Some("n/1")),
        Some("n/1") => one("b", None),
        _ => Reply::new(400, ""),
    })
    .await;
    let folder = Folder::new();
    let connection = connection(&stub, &folder);
    let filter = r#"labels.role = "prometheus" AND status = "RUNNING""#;
    let query = Query {
        filter: Some(filter.into()),
        ..query()
    };
    let (mut first, mut second) = (
        connection.source(Arc::new(query.clone())),
        connection.source(Arc::new(query)),
    );
    let (first, second) = tokio::join!(first.next(), second.next());
    let names = |reading: Reading| {
        let members = reading.members.unwrap().into_iter();
        members.map(|member| member.name).collect::<Vec<_>>()
    };
    assert_eq!(names(first.unwrap()), [Box::from("a"), Box::from("b")]);
    assert_eq!(names(second.unwrap()), [Box::from("a"), Box::from("b")]);
    let seen = stub.seen();
    let asked = seen.iter().filter(|request| request.path != "/token");
    assert_eq!(asked.clone().count(), 4);
    assert_eq!(seen.len(), 5, "one token for both");
    for request in asked {
        assert_eq!(
            request.path,
            "/compute/v1/projects/p-0/aggregated/instances"
        );
        assert_eq!(
            request.pair("returnPartialSuccess").as_deref(),
            Some("true")
        );
        assert_eq!(request.pair("filter").as_deref(), Some(filter));
    }
}

#[tokio::test]
async fn all_pages_or_nothing() {
    let bad: [fn() -> Reply; 6] = [
        || Reply::new(500, ""),
        || Reply::new(204, ""),
        || Reply::ok("{}"),
        || one("b", None).fault(Fault::HalfBody),
        || one("b", None).fault(Fault::Cut),
        || one("b", None).fault(Fault::Oversize(PAGE_BYTES_MAX + 1)),
    ];
    for reply in bad {
        let stub = google(move |request| match request.pair("pageToken") {
            None => one("a", Some("n")),
            Some(_) => reply(),
        });
        read(&stub.await, query()).await.unwrap_err();
    }
    let mut stub = google(|_| one("a", Some("n"))).await;
    let failure = read(&stub, query()).await.unwrap_err();
    assert!(failure.reason.contains("100 pages"), "{failure}");
    assert_eq!(stub.seen().len(), PAGES_MAX + 1);
}

#[tokio::test]
async fn refusals_show_what_google_says() {
    let rows = [
        (403, "PERMISSION_DENIED", None),
        (429, "RESOURCE_EXHAUSTED", Some(9)),
    ];
    for (status, code, wait) in rows {
        let stub = google(move |_| {
            let error = json!({"error": {"code": status, "message": "not so", "status": code, "errors": []}});
            Reply::new(status, error.to_string()).header("Retry-After", "9")
        });
        let failure = read(&stub.await, query()).await.unwrap_err();
        assert!(
            failure.reason.contains(&format!("{code}: not so")),
            "{failure}"
        );
        assert!(!failure.reason.contains("token-"), "{failure}");
        assert_eq!(failure.retry_after.map(|wait| wait.as_secs()), wait);
    }
}

#[tokio::test]
async fn a_token_that_is_refused_is_not_kept() {
    let stub = google(|_| Reply::new(401, "")).await;
    let folder = Folder::new();
    let connection = connection(&stub, &folder);
    let mut source = connection.source(Arc::new(query()));
    source.next().await.unwrap_err();
    let mut given = 7;
    stub.answer(move |request| match &*request.path {
        "/token" => {
            given += 1;
            Reply::ok(json!({"access_token": format!("token-{given}")}).to_string())
        }
        _ if request.header("authorization") == Some("Bearer token-8") => one("a", None),
        _ => Reply::new(401, ""),
    });
    source.next().await.unwrap();
}

#[tokio::test]
async fn a_key_file_of_another_type_is_refused_at_once_and_a_missing_one_later() {
    let folder = Folder::new();
    let settings = |file| Gcp {
        http: stub::http(""),
        project: Some("p".into()),
        credentials_file: Some(file),
    };
    let user = folder.write("user.json", r#"{"type":"authorized_user"}"#);
    assert!(connect_within(&settings(user), nowhere()).is_err());
    let odd = folder.write("odd.json", r#"{"type":"external_account"}"#);
    let failure = connect_within(&settings(odd), nowhere()).unwrap_err();
    assert!(failure.reason.contains("external_account"), "{failure}");
    let missing = connect_within(&settings(folder.join("none.json")), nowhere()).unwrap();
    let failure = missing.source(Arc::new(query())).next().await.unwrap_err();
    assert!(failure.reason.contains("none.json"), "{failure}");
}
