//! Names that need no server: `localhost` and all below it, and `invalid`, are the resolver's own.

use super::*;
use std::net::Ipv4Addr;

fn lookup(token: u64, host: &str) -> Lookup {
    Lookup {
        token,
        host: host.into(),
        known_alone: false,
    }
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn ip(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

/// A question that ended so, in the place of the one that runs.
fn done(host: &str, result: Result<&[IpAddr], Failure>, valid_for: Duration) -> Done {
    let found = |addresses: &[IpAddr]| dns::Found {
        addresses: addresses.to_vec(),
        valid_for,
    };
    Done {
        host: host.into(),
        result: result.map(found),
    }
}

fn unanswered() -> Failure {
    Failure::Unanswered("no answer".into())
}

fn nothing() -> Failure {
    Failure::Nothing("no such name".into())
}

/// What is answered at once.
fn at_once(lookups: &mut Lookups, host: &str, now: Instant) -> Option<Found> {
    let answer = lookups.begin(ShardId(0), lookup(1, host), now)?;
    Some(answer.found)
}

#[tokio::test]
async fn all_shards_that_ask_share_one_question() {
    let (mut lookups, mut ended) = Lookups::new();
    let now = Instant::now();
    for shard in 0..3 {
        let asked = lookups.begin(ShardId(shard), lookup(7, "abc.localhost"), now);
        assert_eq!(asked, None);
    }
    let answers = lookups.end(ended.recv().await.expect("it ends"), now);
    assert_eq!(answers.len(), 3);
    for (shard, answer) in (0..).zip(&answers) {
        assert_eq!((answer.shard, answer.token), (ShardId(shard), 7));
        let addresses = &answer.found.addresses;
        assert!(!addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback));
        assert_eq!(answer.found.valid_for, KEPT[1]);
    }
    // The next one costs no question, and is told what is left of the time.
    let later = now + secs(100);
    let found = at_once(&mut lookups, "abc.localhost", later).expect("it is known");
    assert_eq!(found.valid_for, KEPT[1] - secs(100));
    assert_eq!(lookups.tally().ok, 1);
}

#[tokio::test]
async fn a_shard_without_room_is_told_what_others_have_found() {
    let (mut lookups, mut ended) = Lookups::new();
    let now = Instant::now();
    let at_once = |lookups: &mut Lookups, now| {
        let asked = Lookup {
            known_alone: true,
            ..lookup(9, "abc.localhost")
        };
        let answer = lookups.begin(ShardId(1), asked, now);
        answer.expect("it never waits").found
    };
    assert_eq!(at_once(&mut lookups, now), nobody_looked());
    assert_eq!((lookups.tally().refused, lookups.running), (1, 0));
    lookups.begin(ShardId(0), lookup(7, "abc.localhost"), now);
    lookups.end(ended.recv().await.expect("it ends"), now);
    assert!(!at_once(&mut lookups, now).addresses.is_empty());
    // When their time is over too, for a while.
    let found = at_once(&mut lookups, now + KEPT[1]);
    assert_eq!(
        (found.addresses.is_empty(), found.valid_for),
        (false, STALE_KEPT)
    );
}

#[tokio::test]
async fn a_name_without_addresses_is_known_as_such_for_a_while() {
    let (mut lookups, mut ended) = Lookups::new();
    let now = Instant::now();
    assert_eq!(at_once(&mut lookups, "abc.invalid", now), None);
    let answers = lookups.end(ended.recv().await.expect("it ends"), now);
    let none = Found {
        addresses: Arc::default(),
        valid_for: NOTHING_KEPT,
    };
    assert_eq!(answers[0].found, none);
    assert_eq!(at_once(&mut lookups, "abc.invalid", now), Some(none));
    assert_eq!(
        at_once(&mut lookups, "abc.invalid", now + NOTHING_KEPT),
        None
    );
    assert_eq!(lookups.tally().failed, 1);
}

#[tokio::test]
async fn what_is_no_host_name_is_not_asked_for() {
    let (mut lookups, _ended) = Lookups::new();
    let long_label = "a".repeat(64);
    let long_name = ["a"; 128].join(".");
    for host in [
        "",
        ".",
        "a..b",
        "a b",
        "a\n",
        "a/b",
        "é",
        &long_label,
        &long_name,
    ] {
        let found = at_once(&mut lookups, host, Instant::now());
        assert_eq!(found, Some(nobody_looked()), "{host:?}");
    }
    assert_eq!((lookups.tally().refused, lookups.running), (9, 0));
}

#[tokio::test]
async fn questions_are_bounded_and_do_not_wait_for_ever() {
    let (mut lookups, _ended) = Lookups::new();
    let now = Instant::now();
    let host = |n: usize| format!("{n}.localhost");
    for n in 0..LOOKUPS_AT_ONCE + LOOKUPS_WAITING_MAX {
        assert_eq!(at_once(&mut lookups, &host(n), now), None);
    }
    let over = at_once(&mut lookups, "over.localhost", now);
    assert_eq!(over, Some(nobody_looked()));
    assert_eq!(lookups.running, LOOKUPS_AT_ONCE);
    // Who waits for one that runs needs no room.
    assert_eq!(at_once(&mut lookups, &host(0), now), None);
    let first = lookups.end(done(&host(0), Ok(&[ip(1)]), secs(60)), now);
    assert_eq!(first.len(), 2);
    assert_eq!(lookups.waiting.len(), LOOKUPS_WAITING_MAX - 1);
    let late = now + dns::LOOKUP_MAX + secs(1);
    let rest = lookups.end(done(&host(1), Err(unanswered()), secs(0)), late);
    assert_eq!(rest.len(), LOOKUPS_WAITING_MAX);
    assert!(
        rest[1..]
            .iter()
            .all(|answer| answer.found == nobody_looked())
    );
    assert_eq!(lookups.tally().refused, LOOKUPS_WAITING_MAX as u64);
    assert_eq!(lookups.asked.len(), LOOKUPS_AT_ONCE - 1);
}

#[tokio::test]
async fn the_time_to_live_is_followed_within_its_bounds() {
    let (mut lookups, _ended) = Lookups::new();
    let now = Instant::now();
    for (n, (ttl, kept)) in [(0, 5), (5, 5), (60, 60), (86_400, 300)]
        .into_iter()
        .enumerate()
    {
        let host = format!("{n}.localhost");
        assert_eq!(at_once(&mut lookups, &host, now), None);
        let answers = lookups.end(done(&host, Ok(&[ip(1)]), secs(ttl)), now);
        assert_eq!(answers[0].found.valid_for, secs(kept), "ttl {ttl}");
    }
}

#[tokio::test]
async fn the_last_addresses_stay_until_the_resolver_says_that_there_are_none() {
    let (mut lookups, _ended) = Lookups::new();
    let mut now = Instant::now();
    let mut ask = |result, now| {
        assert_eq!(at_once(&mut lookups, "a.localhost", now), None);
        let answers = lookups.end(done("a.localhost", result, secs(60)), now);
        answers[0].found.addresses.to_vec()
    };
    assert_eq!(ask(Err(unanswered()), now), Vec::<IpAddr>::new());
    for (result, expected) in [
        (Ok(&[ip(1), ip(2)][..]), vec![ip(1), ip(2)]),
        (Err(unanswered()), vec![ip(1), ip(2)]),
        (Err(unanswered()), vec![ip(1), ip(2)]),
        (Ok(&[ip(3)][..]), vec![ip(3)]),
        (Err(nothing()), vec![]),
        (Err(unanswered()), vec![]),
    ] {
        now += KEPT[1] + STALE_MAX;
        assert_eq!(ask(result, now), expected);
    }
}

#[tokio::test]
async fn nobody_waits_for_a_name_in_use() {
    let (mut lookups, _ended) = Lookups::new();
    let mut now = Instant::now();
    assert_eq!(at_once(&mut lookups, "a.localhost", now), None);
    lookups.end(done("a.localhost", Ok(&[ip(1)]), secs(60)), now);
    let stale = |addresses: &[IpAddr]| {
        Some(Found {
            addresses: addresses.into(),
            valid_for: STALE_KEPT,
        })
    };
    now += secs(60);
    for _ in 0..3 {
        assert_eq!(at_once(&mut lookups, "a.localhost", now), stale(&[ip(1)]));
    }
    assert_eq!(lookups.running, 1, "it is asked for anew, once");
    // The resolver is away: again and again the last addresses serve.
    for _ in 0..10 {
        let answers = lookups.end(done("a.localhost", Err(unanswered()), secs(0)), now);
        assert_eq!(answers, []);
        now += STALE_MAX;
        assert_eq!(at_once(&mut lookups, "a.localhost", now), stale(&[ip(1)]));
    }
    lookups.end(done("a.localhost", Ok(&[ip(2)]), secs(60)), now);
    let found = at_once(&mut lookups, "a.localhost", now).expect("it is known");
    assert_eq!(*found.addresses, [ip(2)]);
    // One that was not in use is waited for.
    now += secs(60) + STALE_MAX;
    assert_eq!(at_once(&mut lookups, "a.localhost", now), None);
}

#[test]
fn addresses_are_each_there_once_and_not_too_many() {
    assert_eq!(*first_few(vec![ip(1), ip(2), ip(1)]), [ip(1), ip(2)]);
    let many = first_few((0..=255).map(ip).collect());
    assert_eq!(many.len(), ADDRESSES_MAX);
    assert_eq!(many[0], ip(0));
}

#[tokio::test]
async fn failures_are_told_once_a_second() {
    let (mut lookups, _ended) = Lookups::new();
    let now = Instant::now();
    for _ in 0..5 {
        at_once(&mut lookups, "a b", now);
    }
    assert_eq!((lookups.said, lookups.unsaid), (Some(now), 4));
    at_once(&mut lookups, "a b", now + SAY_EVERY);
    assert_eq!((lookups.said, lookups.unsaid), (Some(now + SAY_EVERY), 0));
}
