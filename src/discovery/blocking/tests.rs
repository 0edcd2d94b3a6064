//! Each row of the cursor's rules, and the source that follows them against a server that can fail.

use tokio::sync::oneshot;

use super::*;
use crate::discovery::stub::{Fault, Reply, Stub, http};
use ringway_shards::plan::Scheme;

const INTERVAL: Duration = Duration::from_secs(7);
const MINUTE: Duration = Duration::from_secs(60);

fn cursor() -> Cursor {
    Cursor::new(5 * MINUTE, INTERVAL)
}

fn holding(index: u64) -> Cursor {
    let mut cursor = cursor();
    assert_eq!(cursor.accepted(index), Again::Now);
    cursor
}

fn parameters(index: &str) -> Option<(String, String)> {
    Some((index.to_owned(), "5m".to_owned()))
}

// === Unchanged ===

#[test]
fn entries_are_read_again_only_where_they_have_changed() {
    let mut unchanged = Unchanged::default();
    let mut read = |body: &str| {
        let mut seen = Vec::new();
        let members = unchanged.members(body.as_bytes(), |entry| {
            let text = String::from_utf8_lossy(entry).into_owned();
            let port = text.trim_matches(['{', '}']).len() as u16;
            seen.push(text);
            Ok((port > 0).then(|| Member::at(Scheme::Http, "a", port)))
        });
        let ports: Vec<u16> = members.unwrap().iter().map(|member| member.port).collect();
        (ports, seen.join(" "))
    };
    assert_eq!(
        read(r#"[{"a":1}, {"bb":2},{}]"#),
        (vec![5, 6], r#"{"a":1} {"bb":2} {}"#.into())
    );
    assert_eq!(
        read(r#" [ {"bb":2} , {"a":1},{}]"#),
        (vec![6, 5], String::new())
    );
    assert_eq!(
        read(r#"[{"a":1},{"ccc":3}]"#),
        (vec![5, 7], r#"{"ccc":3}"#.into())
    );
    assert_eq!(
        read(r#"[{"bb":2}]"#),
        (vec![6], r#"{"bb":2}"#.into()),
        "it was away"
    );
    assert_eq!(read(r#"[{"bb":2},{"bb":2}]"#), (vec![6, 6], String::new()));
    assert_eq!(read("[]"), (vec![], String::new()));
}

#[test]
fn what_is_no_list_is_refused() {
    let broken = [
        "", "null", "{}", "7", "[", "[,]", "[1,]", "[1 2]", "[1]]", "[1", "[1,", r#"["a]"#, "[1]x",
        "[}]",
    ];
    for body in broken {
        let read = Unchanged::default().members(body.as_bytes(), |_| Ok(None));
        assert!(
            read.unwrap_err().starts_with("not a list of instances: "),
            "{body:?}"
        );
    }
}

#[test]
fn an_entry_that_cannot_be_a_member_fails_the_answer_each_time() {
    let mut unchanged = Unchanged::default();
    for _ in 0..2 {
        let read = unchanged.members(b"[1,2]", |entry| match entry {
            b"2" => Err("no".into()),
            _ => Ok(None),
        });
        assert_eq!(read, Err("no".to_owned()));
        assert_eq!(unchanged.known.len(), 1, "no more than of one answer");
    }
}

// === Cursor ===

#[test]
fn the_first_request_is_a_plain_read() {
    assert_eq!(cursor().parameters(), None);
}

#[test]
fn an_index_is_held_and_waited_for() {
    assert_eq!(holding(12).parameters(), parameters("12"));
    assert_eq!(
        holding(u64::MAX).parameters(),
        parameters("18446744073709551615")
    );
}

#[test]
fn without_an_index_it_reads_plainly_each_interval() {
    let mut never = cursor();
    assert!(!never.stands_still(0));
    assert_eq!(never.accepted(0), Again::After(INTERVAL));
    assert_eq!(never.parameters(), None);
    let mut lost = holding(12);
    assert!(!lost.stands_still(0));
    assert_eq!(lost.accepted(0), Again::After(INTERVAL));
    assert_eq!(lost.parameters(), None);
}

#[test]
fn a_lower_index_is_read_and_forgotten_and_asked_again_at_once() {
    let mut cursor = holding(12);
    assert!(!cursor.stands_still(11));
    assert_eq!(cursor.accepted(11), Again::Now);
    assert_eq!(cursor.parameters(), None);
    assert!(!cursor.stands_still(11));
    assert_eq!(cursor.accepted(11), Again::Now);
    assert_eq!(cursor.parameters(), parameters("11"));
}

#[test]
fn an_equal_index_stands_still() {
    let cursor = holding(12);
    assert!(cursor.stands_still(12));
    assert_eq!(cursor.parameters(), parameters("12"));
}

#[test]
fn a_higher_index_is_held_only_when_its_answer_was_read() {
    let mut cursor = holding(12);
    assert!(!cursor.stands_still(13));
    assert_eq!(cursor.parameters(), parameters("12"));
    assert_eq!(cursor.accepted(13), Again::Now);
    assert_eq!(cursor.parameters(), parameters("13"));
}

#[test]
fn after_a_failure_everything_is_read() {
    let mut cursor = holding(12);
    cursor.failed();
    assert_eq!(cursor.parameters(), None);
    assert!(!cursor.stands_still(12));
}

#[test]
fn requests_start_at_least_a_tenth_of_a_second_apart() {
    let millis = Duration::from_millis;
    let mut cursor = cursor();
    let start = Instant::now();
    assert_eq!(cursor.pause(start), millis(0));
    cursor.started(start);
    assert_eq!(cursor.pause(start), millis(100));
    assert_eq!(cursor.pause(start + millis(30)), millis(70));
    assert_eq!(cursor.pause(start + millis(100)), millis(0));
    assert_eq!(cursor.pause(start + MINUTE), millis(0));
    cursor.failed();
    assert_eq!(cursor.pause(start), millis(100));
}

#[test]
fn a_request_that_is_not_held_has_a_shorter_limit() {
    let seconds = Duration::from_secs;
    let by_default = 5 * MINUTE + seconds(18) + seconds(10);
    assert_eq!(cursor().limit(by_default), seconds(28));
    assert_eq!(holding(1).limit(by_default), by_default);
    assert_eq!(cursor().limit(5 * MINUTE + seconds(1)), seconds(10));
    let short = Cursor::new(seconds(1), INTERVAL);
    assert_eq!(short.limit(seconds(2)), seconds(2));
}

#[test]
fn waits_are_whole_minutes_or_seconds() {
    for (millis, text) in [
        (1_000, "1s"),
        (1_500, "1s"),
        (59_000, "59s"),
        (60_000, "1m"),
        (90_000, "90s"),
        (300_000, "5m"),
        (600_000, "10m"),
    ] {
        assert_eq!(wait_text(Duration::from_millis(millis)), text);
    }
}

#[test]
fn an_index_that_is_none_counts_as_missing() {
    for (value, number) in [
        (None, 0),
        (Some("12"), 12),
        (Some(" 12 "), 12),
        (Some("18446744073709551615"), u64::MAX),
        (Some("18446744073709551616"), 0),
        (Some(""), 0),
        (Some("-1"), 0),
        (Some("0"), 0),
        (Some("12.5"), 0),
        (Some("twelve"), 0),
    ] {
        assert_eq!(index(value.map(str::as_bytes)), number, "{value:?}");
    }
    assert_eq!(index(Some(&[0xff, b'1'])), 0);
}

// === what both read ===

#[test]
fn addresses_are_hosts_with_a_port() {
    for host in [
        "192.0.2.1",
        "2001:db8::1",
        "a",
        "a-1.example.com",
        "db_1.internal",
    ] {
        assert_eq!(check_address(host, 65_535), Ok(65_535), "{host}");
    }
    for host in [
        "",
        "a b",
        "a/b",
        "a:80",
        "[2001:db8::1]",
        "user@a",
        "fe80::1%eth0",
        "ä",
        "a..b",
    ] {
        assert!(check_address(host, 1).is_err(), "{host:?}");
    }
    for port in [0, -1, 65_536, i64::MAX, i64::MIN] {
        assert!(check_address("a", port).is_err(), "{port}");
    }
}

#[test]
fn tags_are_bracketed_by_commas() {
    assert_eq!(tags_label(&[]), "");
    assert_eq!(tags_label(&["a".into()]), ",a,");
    assert_eq!(tags_label(&["a".into(), "b".into()]), ",a,b,");
}

// === Watch ===

/// Bodies are lists of ports.
fn read_ports(body: &[u8]) -> Result<Vec<Member>, String> {
    let ports: Vec<u16> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let member = |port: &u16| Member::at(Scheme::Http, "192.0.2.1", *port);
    Ok(ports.iter().map(member).collect())
}

fn watch(stub: &Stub) -> Watch {
    let mut settings = http(&stub.endpoint());
    settings.interval = INTERVAL;
    let client = Client::new(&settings).unwrap();
    Watch {
        url: client.url("/list", &[("filter", "x")]).unwrap(),
        client,
        index_header: "x-stub-index",
        cursor: Cursor::new(Duration::from_secs(2), INTERVAL),
        read: Box::new(read_ports),
    }
}

fn at(index: &str, body: &'static str) -> Reply {
    Reply::ok(body).header("X-Stub-Index", index)
}

fn ports(reading: &Reading) -> Option<Vec<u16>> {
    let members = reading.members.as_ref()?;
    Some(members.iter().map(|member| member.port).collect())
}

#[tokio::test]
async fn news_are_waited_for_with_the_last_index() {
    let (news, later) = oneshot::channel();
    let mut later = Some(later);
    let mut stub = Stub::start(move |request| match request.pair("index").as_deref() {
        None => at("5", "[1, 2]"),
        Some("5") => match later.take() {
            Some(later) => Reply::later(later),
            None => at("5", "never read"),
        },
        Some(_) => at("9", "[3]"),
    })
    .await;
    let mut watch = watch(&stub);
    let reading = watch.next().await.unwrap();
    assert_eq!(ports(&reading), Some(vec![1, 2]));
    assert_eq!(reading.again, Again::Now);
    assert_eq!(stub.next_seen().await.target(), "/list?filter=x");

    let (reading, ()) = tokio::join!(watch.next(), async {
        let parked = stub.next_seen().await;
        assert_eq!(parked.target(), "/list?filter=x&index=5&wait=2s");
        news.send(at("8", "[1, 2, 3]")).unwrap();
    });
    assert_eq!(ports(&reading.unwrap()), Some(vec![1, 2, 3]));

    let reading = watch.next().await.unwrap();
    assert_eq!(ports(&reading), Some(vec![3]));
    let asked = stub.next_seen().await;
    assert_eq!(asked.target(), "/list?filter=x&index=8&wait=2s");
}

#[tokio::test]
async fn an_answer_that_stands_still_is_not_even_decoded() {
    let stub = Stub::start(|request| match request.pair("index") {
        None => at("5", "[1]"),
        Some(_) => at("5", "no list"),
    })
    .await;
    let mut watch = watch(&stub);
    watch.next().await.unwrap();
    for _ in 0..3 {
        let reading = watch.next().await.unwrap();
        assert_eq!(reading.members, None);
        assert_eq!(reading.again, Again::Now);
    }
}

#[tokio::test]
async fn a_server_whose_state_began_anew_is_read_again_from_the_start() {
    let mut stub = Stub::start(|request| match request.pair("index") {
        None => at("20", "[1]"),
        Some(_) => at("3", "[2]"),
    })
    .await;
    let mut watch = watch(&stub);
    watch.next().await.unwrap();
    let reading = watch.next().await.unwrap();
    assert_eq!(ports(&reading), Some(vec![2]));
    assert_eq!(reading.again, Again::Now);
    watch.next().await.unwrap();
    let indexes: Vec<_> = stub.seen().iter().map(|r| r.pair("index")).collect();
    assert_eq!(indexes, [None, Some("20".to_owned()), None]);
}

#[tokio::test]
async fn a_server_without_indexes_is_asked_each_interval() {
    for reply in [|| Reply::ok("[1]"), || at("0", "[1]"), || at("x", "[1]")] {
        let mut stub = Stub::start(move |_| reply()).await;
        let mut watch = watch(&stub);
        for _ in 0..2 {
            let reading = watch.next().await.unwrap();
            assert_eq!(ports(&reading), Some(vec![1]));
            assert_eq!(reading.again, Again::After(INTERVAL));
        }
        let seen = stub.seen();
        assert!(seen.iter().all(|request| request.pair("index").is_none()));
    }
}

/// An answer that goes wrong.
type Failing = fn() -> Reply;

#[tokio::test]
async fn after_any_failure_the_next_request_is_a_plain_read() {
    let failures: [(Failing, &str); 8] = [
        (|| Reply::new(500, "No such field"), "No such field"),
        (|| Reply::new(403, "Permission denied"), "403"),
        (|| Reply::new(204, ""), "204"),
        (|| Reply::new(302, "").header("Location", "/other"), "302"),
        (|| at("6", "{\"a\": 1}"), "expected"),
        (|| at("6", "[1, 2]").fault(Fault::Cut), "/list"),
        (
            || Reply::ok(vec![b' '; 1 << 20]).fault(Fault::HalfBody),
            "broke off",
        ),
        (
            || at("6", "[]").fault(Fault::Oversize(BODY_BYTES_MAX + 1)),
            "longer than",
        ),
    ];
    for (failure, text) in failures {
        let mut stub = Stub::start(move |request| match request.pair("index") {
            None => at("5", "[1]"),
            Some(_) => failure(),
        })
        .await;
        let mut watch = watch(&stub);
        watch.next().await.unwrap();
        let error = watch.next().await.unwrap_err();
        assert!(error.reason.contains(text), "{error} has no {text:?}");
        assert!(error.reason.contains("/list"), "{error}");
        assert!(!error.reason.contains("filter"), "{error}");
        assert_eq!(ports(&watch.next().await.unwrap()), Some(vec![1]));
        let last = stub.seen().pop().unwrap();
        assert_eq!(last.pair("index"), None);
    }
}

#[tokio::test]
async fn a_server_that_wants_to_be_left_alone_is_heard() {
    let stub = Stub::start(|_| Reply::new(429, "slow down").header("Retry-After", "11")).await;
    let error = watch(&stub).next().await.unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_secs(11)));
}

#[tokio::test]
async fn a_storm_of_news_is_followed_at_the_pace() {
    let mut index = 0;
    let stub = Stub::start(move |_| {
        index += 1;
        at(&index.to_string(), "[1]")
    })
    .await;
    let mut watch = watch(&stub);
    let start = Instant::now();
    for _ in 0..4 {
        watch.next().await.unwrap();
    }
    // A lower bound, which a slow machine cannot break: three pauses between four starts.
    assert!(start.elapsed() >= 3 * PACE);
}

#[tokio::test]
async fn a_dropped_request_keeps_the_place() {
    let mut stub = Stub::start(|request| match request.pair("index") {
        None => at("5", "[1]"),
        Some(_) => at("6", "[2]").fault(Fault::Delay(MINUTE)),
    })
    .await;
    let mut watch = watch(&stub);
    watch.next().await.unwrap();
    stub.next_seen().await;
    tokio::select! {
        _ = watch.next() => panic!("there is no answer yet"),
        _ = stub.next_seen() => {}
    }
    stub.answer(|_| at("6", "[3]"));
    assert_eq!(ports(&watch.next().await.unwrap()), Some(vec![3]));
    assert_eq!(stub.next_seen().await.pair("index"), Some("5".to_owned()));
}
