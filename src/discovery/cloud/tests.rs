//! Hosts, tokens and what is kept of them.

use std::cell::Cell;

use super::*;

fn query(label: Option<&str>, port: Option<u16>) -> Query {
    Query {
        port: port.map(Port::Number),
        port_label: label.map(Into::into),
        ..Query::default()
    }
}

#[test]
fn the_label_wins_over_the_static_port() {
    let both = query(Some("p"), Some(9090));
    let rows = [
        (Some("8080"), Ok(8080)),
        (Some(" 8080 "), Ok(8080)),
        (Some("1"), Ok(1)),
        (Some("65535"), Ok(65535)),
        (None, Ok(9090)),
        (Some(""), Ok(9090)),
        (Some("0"), Err(())),
        (Some("65536"), Err(())),
        (Some("http"), Err(())),
        (Some("-1"), Err(())),
    ];
    for (said, wanted) in rows {
        assert_eq!(port(said, &both).map_err(drop), wanted, "{said:?}");
    }
    let label_only = query(Some("p"), None);
    assert!(port(None, &label_only).unwrap_err().contains("\"p\""));
    let bad = port(Some("hunter2"), &label_only).unwrap_err();
    assert!(!bad.contains("hunter2"), "{bad}");
}

fn host<'a>(address: Option<&'a str>) -> Host<'a> {
    Host {
        name: "a",
        address,
        port: None,
        replica_group: Some("g"),
        ready: Readiness::Ready,
        labels: vec![("zone", "z"), ("empty", "")],
        own_labels: ("tag_", vec![("k", "v"), ("none", "")]),
    }
}

#[test]
fn a_host_is_a_member_only_at_an_address() {
    let query = query(None, Some(80));
    let member = host(Some("192.0.2.1")).member(&query).unwrap();
    assert_eq!(member.address(), "192.0.2.1:80");
    assert_eq!(&*member.replica_group, "g");
    assert_eq!(member.ready, Readiness::Ready);
    let labels: Vec<_> = member.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(labels, [("tag_k", "v"), ("zone", "z")]);
    let member = host(Some("2001:DB8::1")).member(&query).unwrap();
    assert_eq!(member.address(), "[2001:db8::1]:80");
    for bad in [None, Some(""), Some("localhost"), Some("192.0.2.1:9")] {
        let exclusion = host(bad).member(&query).unwrap_err();
        assert!(exclusion.reason.contains("address"), "{exclusion:?}");
    }
}

#[test]
fn a_segment_stays_one() {
    assert_eq!(segment("a-b.c_d~e:f"), "a-b.c_d~e:f");
    assert_eq!(segment("a/b?c#d e%ü"), "a%2Fb%3Fc%23d%20e%25%C3%BC");
}

#[test]
fn a_token_says_its_life_as_number_or_text() {
    let rows = [
        (r#"{"access_token":"t","expires_in":3599}"#, 3599),
        (r#"{"access_token":"t","expires_in":"86399"}"#, 86_399),
        (r#"{"access_token":"t","expires_in":null}"#, 300),
        (r#"{"access_token":"t","token_type":"Bearer"}"#, 300),
        (
            r#"{"access_token":"t","expires_in":18446744073709551615}"#,
            86_400,
        ),
    ];
    for (text, life) in rows {
        let token = parse_token("x", text.as_bytes()).unwrap();
        assert_eq!(token.value.expose(), "t");
        assert_eq!(token.life, Some(Duration::from_secs(life)), "{text}");
    }
}

#[test]
fn nothing_of_a_token_is_in_a_failure() {
    for text in [
        r#"{"access_token":["hunter2"]}"#,
        r#"{"access_token":"","refresh_token":"hunter2"}"#,
        r#"{"id_token":"hunter2"}"#,
        "hunter2",
    ] {
        let failure = parse_token("x", text.as_bytes()).unwrap_err();
        assert!(!failure.reason.contains("hunter2"), "{failure}");
    }
    let held = format!("{:?}", parse_token("x", br#"{"access_token":"hunter2"}"#));
    assert!(!held.contains("hunter2"), "{held}");
    assert!(bearer(&Secret::new("a\nb")).is_err());
    let value = bearer(&Secret::new("hunter2")).unwrap();
    assert!(!format!("{value:?}").contains("hunter2"));
}

#[test]
fn error_documents_give_code_and_message() {
    let rows = [
        (
            r#"{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED","errors":[]}}"#,
            Some("PERMISSION_DENIED: no"),
        ),
        (
            r#"{"error":{"code":"AuthorizationFailed","message":"no"}}"#,
            Some("AuthorizationFailed: no"),
        ),
        (r#"{"error":{"code":500,"message":null}}"#, Some("")),
        (r#"{"error":"x"}"#, None),
        ("<html>", None),
    ];
    for (text, wanted) in rows {
        assert_eq!(parse_error(text.as_bytes()).as_deref(), wanted, "{text}");
    }
}

/// A source that counts how often it is asked, what is kept of it, and a clock.
struct Bench {
    kept: Kept<u32>,
    asked: Cell<u32>,
    now: Cell<Instant>,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            kept: Kept::new(Duration::from_secs(120)),
            asked: Cell::new(0),
            now: Cell::new(Instant::now()),
        }
    }

    fn pass(&self, seconds: u64) {
        self.now.set(self.now.get() + Duration::from_secs(seconds));
    }

    async fn get(&self, life: Option<u64>) -> Result<Lease<u32>, Failure> {
        let resolve = async || {
            self.asked.set(self.asked.get() + 1);
            tokio::task::yield_now().await;
            let life = life.map(Duration::from_secs);
            let value = self.asked.get();
            Ok(Fresh { value, life })
        };
        self.kept.get_by(|| self.now.get(), resolve).await
    }

    async fn fail(&self) -> Result<Lease<u32>, Failure> {
        let resolve = async || {
            self.asked.set(self.asked.get() + 1);
            Err(Failure::new("down"))
        };
        self.kept.get_by(|| self.now.get(), resolve).await
    }
}

#[tokio::test]
async fn all_who_ask_at_once_share_one_answer() {
    let bench = Bench::new();
    let (a, b, c) = tokio::join!(bench.get(None), bench.get(None), bench.get(None));
    let values = [a, b, c].map(|lease| lease.unwrap().value);
    assert_eq!(values, [1, 1, 1]);
}

#[tokio::test]
async fn what_expires_is_renewed_early() {
    let bench = Bench::new();
    assert_eq!(bench.get(Some(600)).await.unwrap().value, 1);
    bench.pass(479);
    assert_eq!(bench.get(Some(600)).await.unwrap().value, 1);
    bench.pass(1);
    assert_eq!(bench.get(Some(600)).await.unwrap().value, 2);
}

#[tokio::test]
async fn a_short_life_is_used_for_half_of_it() {
    let bench = Bench::new();
    assert_eq!(bench.get(Some(60)).await.unwrap().value, 1);
    bench.pass(29);
    assert_eq!(bench.get(Some(60)).await.unwrap().value, 1);
    bench.pass(1);
    assert_eq!(bench.get(Some(60)).await.unwrap().value, 2);
}

#[tokio::test]
async fn a_failure_counts_a_while_and_is_then_forgotten() {
    let bench = Bench::new();
    assert!(bench.fail().await.is_err());
    bench.pass(4);
    assert_eq!(bench.get(None).await.unwrap_err().reason, "down");
    assert_eq!(bench.asked.get(), 1);
    bench.pass(1);
    assert_eq!(bench.get(None).await.unwrap().value, 2);
}

#[tokio::test]
async fn what_cannot_be_renewed_serves_until_its_end() {
    let bench = Bench::new();
    bench.get(Some(600)).await.unwrap();
    bench.pass(500);
    assert_eq!(bench.fail().await.unwrap().value, 1);
    assert_eq!(bench.asked.get(), 2);
    bench.pass(99);
    assert_eq!(bench.fail().await.unwrap().value, 1);
    bench.pass(1);
    assert!(bench.fail().await.is_err());
}

#[tokio::test]
async fn only_the_refused_one_is_dropped() {
    let bench = Bench::new();
    let first = bench.get(None).await.unwrap();
    bench.kept.forget(&first).await;
    assert_eq!(bench.get(None).await.unwrap().value, 2);
    bench.kept.forget(&first).await;
    assert_eq!(bench.get(None).await.unwrap().value, 2);
}

#[tokio::test]
async fn a_resolution_that_is_given_up_leaves_nothing() {
    let bench = Bench::new();
    let hung = std::future::pending::<Result<Fresh<u32>, Failure>>;
    let given_up = timeout(Duration::from_millis(1), bench.kept.get(hung)).await;
    assert!(given_up.is_err());
    assert_eq!(bench.get(None).await.unwrap().value, 1);
}
