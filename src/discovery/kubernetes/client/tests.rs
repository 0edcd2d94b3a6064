//! Settings, limits and words, without a server.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;

use super::super::connect;
use super::super::tests::ConfigFile;
use super::*;

fn refused(text: &str) -> Failure {
    let file = ConfigFile::new(text);
    connect(&file.settings()).unwrap_err()
}

#[test]
fn a_kubeconfig_must_make_sense() {
    let none = connect(&Kubernetes {
        kubeconfig: Some("/nonexistent/kubeconfig".into()),
        ..ConfigFile::new("").settings()
    });
    let reason = none.unwrap_err().reason;
    assert!(
        reason.starts_with("kubeconfig /nonexistent/kubeconfig: "),
        "{reason}"
    );
    for text in [
        "users: [{name: me, user: {token: s3cr3t}}",
        "users: {token: s3cr3t}",
        "current-context: s3cr3t: x",
        "{}",
        "current-context: here",
    ] {
        let reason = refused(text).reason;
        assert!(reason.starts_with("kubeconfig "), "{reason}");
        assert!(!reason.contains("s3cr3t"), "{reason}");
    }
}

#[test]
fn a_service_account_must_be_there() {
    // No test runs in a pod.
    let settings = Kubernetes {
        kubeconfig: None,
        ..ConfigFile::new("").settings()
    };
    let reason = connect(&settings).unwrap_err().reason;
    assert!(reason.contains("set kubernetes.kubeconfig"), "{reason}");
}

#[test]
fn a_user_agent_must_be_a_header() {
    let file = ConfigFile::new(&kubeconfig("http://127.0.0.1:1", json!({})));
    let settings = Kubernetes {
        user_agent: "a\nb".into(),
        ..file.settings()
    };
    let reason = connect(&settings).unwrap_err().reason;
    assert_eq!(reason, "kubernetes.user_agent: not a header value");
}

#[test]
fn connections_serve_equal_settings() {
    let file = ConfigFile::new(&kubeconfig("http://127.0.0.1:1", json!({})));
    let settings = file.settings();
    let connection = connect(&settings).unwrap();
    assert!(connection.serves(&settings));
    let others = [
        Kubernetes {
            qps: 3.0,
            ..settings.clone()
        },
        Kubernetes {
            burst: 3,
            ..settings.clone()
        },
        Kubernetes {
            timeout: Duration::from_secs(1),
            ..settings.clone()
        },
        Kubernetes {
            user_agent: "other".into(),
            ..settings.clone()
        },
        Kubernetes {
            kubeconfig: None,
            ..settings
        },
    ];
    for other in others {
        assert!(!connection.serves(&other), "{other:?}");
    }
}

#[tokio::test]
async fn tls_is_ready_with_an_own_authority() {
    let CertifiedKey { cert, .. } = generate_simple_self_signed(["sim".to_owned()]).unwrap();
    let encoded = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(cert.pem())
    };
    // Port 1 of the loopback address: nobody is there.
    let more = json!({"certificate-authority-data": encoded, "tls-server-name": "sim"});
    let file = ConfigFile::new(&kubeconfig("https://127.0.0.1:1", more));
    let connection = connect(&file.settings()).unwrap();
    let failed = super::super::preflight::preflight(&connection)
        .await
        .unwrap_err();
    assert!(failed.reason.contains("refused"), "{failed}");
}

fn kubeconfig(server: &str, more: serde_json::Value) -> String {
    let mut cluster = more;
    cluster["server"] = server.into();
    json!({
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "me", "namespace": "n"}}],
        "users": [{"name": "me", "user": {}}],
    })
    .to_string()
}

#[test]
fn tokens_come_at_the_rate_after_the_burst() {
    let bucket = Bucket::new(2.0, 3);
    let begin = Instant::now();
    let mut level = (3.0, begin);
    let mut take = |after_ms| bucket.reserve(&mut level, begin + Duration::from_millis(after_ms));
    for _ in 0..3 {
        assert_eq!(take(0), Duration::ZERO);
    }
    assert_eq!(take(0), Duration::from_millis(500));
    assert_eq!(take(0), Duration::from_millis(1000));
    // One came, two are owed.
    assert_eq!(take(500), Duration::from_millis(1000));
    // However long nothing is asked, there are no more than the burst.
    for _ in 0..3 {
        assert_eq!(take(1_000_000), Duration::ZERO);
    }
    assert_eq!(take(1_000_000), Duration::from_millis(500));
}

#[test]
fn refusals_say_what_the_server_says() {
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
    let status = br#"{"kind":"Status","message":"no  such\nthing","code":404}"#;
    let refused = Refused::answer(StatusCode::NOT_FOUND, &headers, status);
    assert_eq!(refused.reason, "404 Not Found: no such thing");
    assert_eq!(refused.retry_after, None);
    let refused = Refused::answer(StatusCode::SERVICE_UNAVAILABLE, &headers, b"<html>");
    assert_eq!(refused.reason, "503 Service Unavailable: <html>");
    assert_eq!(refused.retry_after, Some(Duration::from_secs(7)));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("99999999"));
    let refused = Refused::answer(StatusCode::TOO_MANY_REQUESTS, &headers, b"");
    assert_eq!(refused.reason, "429 Too Many Requests");
    assert_eq!(refused.retry_after, Some(RETRY_AFTER_MAX));
}

/// A body of these pieces.
struct Pieces(Vec<Bytes>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.pop().map(|piece| Ok(Frame::data(piece))))
    }
}

async fn streamed(pieces: Vec<Bytes>) -> Result<usize, BoxError> {
    let service = Piecemeal(pieces);
    let client = kube::Client::new(service, "n");
    let request = Request::new(Body::empty());
    let body = client.send(request).await?.into_body();
    let events = Events {
        body,
        unfinished: 0,
        alive: Arc::new(|| {}),
    };
    Ok(events.collect().await?.to_bytes().len())
}

/// Answers with these pieces, the last first.
struct Piecemeal(Vec<Bytes>);

impl Service<Request<Body>> for Piecemeal {
    type Response = Response<Pieces>;
    type Error = BoxError;
    type Future = std::future::Ready<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        std::future::ready(Ok(Response::new(Pieces(std::mem::take(&mut self.0)))))
    }
}

#[tokio::test]
async fn events_are_bounded() {
    let long = Bytes::from(vec![b'x'; EVENT_BYTES_MAX]);
    let line = Bytes::from_static(b"\nx");
    // As long as may be, and then again.
    let twice = vec![line.clone(), long.slice(1..), line.clone(), long.clone()];
    let most = 2 * EVENT_BYTES_MAX + 3;
    assert_eq!(streamed(twice).await.unwrap(), most);
    let error = streamed(vec![line.slice(1..), long]).await.unwrap_err();
    assert!(error.is::<TooLong>(), "{error}");
}
