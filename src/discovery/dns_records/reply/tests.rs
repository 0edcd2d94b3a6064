//! Replies of every kind, as bytes.

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_resolver::proto::op::{OpCode, Query as Question};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, SRV, TXT};

use super::*;

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn a(last: u8) -> RData {
    RData::A(A(Ipv4Addr::new(192, 0, 2, last)))
}

fn cname(target: &str) -> RData {
    RData::CNAME(CNAME(name(target)))
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> RData {
    RData::SRV(SRV::new(priority, weight, port, name(target)))
}

/// A reply to a question for addresses of `x.test.`, with these records.
fn reply(records: Vec<(&str, u32, RData)>) -> Message {
    let mut message = Message::response(7, OpCode::Query);
    message.add_query(Question::query(name("x.test."), RecordType::A));
    for (owner, ttl, data) in records {
        message.add_answer(Record::from_rdata(name(owner), ttl, data));
    }
    message
}

fn read_it(message: &Message) -> Result<Found, String> {
    read(&message.to_vec().unwrap(), &name("x.test."), RecordType::A)
}

fn found(records: Vec<(&str, u32, RData)>) -> (Vec<RData>, u64) {
    let found = read_it(&reply(records)).unwrap();
    (found.data, found.ttl.map_or(0, |ttl| ttl.as_secs()))
}

#[test]
fn records_of_the_name_and_type_are_the_answer() {
    let records = vec![
        ("x.test.", 60, a(1)),
        ("X.TEST.", 30, a(2)),
        ("y.test.", 1, a(3)),
        ("x.test.", 1, RData::AAAA(AAAA(Ipv6Addr::LOCALHOST))),
        ("x.test.", 1, RData::TXT(TXT::new(vec!["t".into()]))),
    ];
    assert_eq!(found(records), (vec![a(1), a(2)], 30));
    assert_eq!(found(vec![]), (vec![], 0));
    assert_eq!(found(vec![("y.test.", 1, a(3))]), (vec![], 0));
}

#[test]
fn aliases_are_followed_in_any_order_and_bound_the_time_to_live() {
    let chain = vec![
        ("z.test.", 60, a(1)),
        ("y.test.", 20, cname("z.test.")),
        ("x.test.", 40, cname("Y.test.")),
        ("w.test.", 1, cname("v.test.")),
    ];
    assert_eq!(found(chain), (vec![a(1)], 20));
    let dangling = vec![("x.test.", 40, cname("y.test.")), ("w.test.", 60, a(1))];
    assert_eq!(found(dangling), (vec![], 0));
}

#[test]
fn a_circle_of_aliases_ends() {
    for circle in [
        vec![("x.test.", 40, cname("x.test."))],
        vec![
            ("x.test.", 40, cname("y.test.")),
            ("y.test.", 40, cname("x.test.")),
        ],
    ] {
        let error = read_it(&reply(circle)).unwrap_err();
        assert!(error.contains("circle"), "{error}");
    }
}

#[test]
fn a_time_to_live_is_bounded() {
    for (ttl, seconds) in [
        (0, 0),
        (86_399, 86_399),
        (86_401, 86_400),
        (0x7fff_ffff, 86_400),
        (0x8000_0000, 0),
        (u32::MAX, 0),
    ] {
        assert_eq!(found(vec![("x.test.", ttl, a(1))]).1, seconds, "{ttl}");
    }
}

#[test]
fn codes_other_than_noerror_are_failures() {
    for (code, text) in [
        (ResponseCode::NXDomain, "NXDOMAIN"),
        (ResponseCode::ServFail, "SERVFAIL"),
        (ResponseCode::Refused, "REFUSED"),
        (ResponseCode::FormErr, "code 1"),
        (ResponseCode::Unknown(12), "code 12"),
    ] {
        let mut message = reply(vec![("x.test.", 60, cname("y.test."))]);
        message.metadata.response_code = code;
        let error = read_it(&message).unwrap_err();
        assert!(error.contains(text), "{error} has no {text}");
    }
}

#[test]
fn what_is_no_reply_to_the_question_is_refused() {
    let good = reply(vec![("x.test.", 60, a(1))]);
    let bytes = good.to_vec().unwrap();
    let other = |name_asked, kind| read(&bytes, &name(name_asked), kind).unwrap_err();
    assert_eq!(other("y.test.", RecordType::A), OTHER_QUESTION);
    assert_eq!(other("x.test.", RecordType::AAAA), OTHER_QUESTION);
    let mut without = good.clone();
    without.queries.clear();
    assert_eq!(read_it(&without).unwrap_err(), OTHER_QUESTION);
    let mut echo = good.clone();
    echo.metadata.message_type = MessageType::Query;
    assert!(read_it(&echo).unwrap_err().contains("no reply"));
    let mut cut = good.clone();
    cut.metadata.truncation = true;
    assert!(read_it(&cut).unwrap_err().contains("cut"));
    for end in 0..bytes.len() {
        let part = read(&bytes[..end], &name("x.test."), RecordType::A);
        assert!(part.is_err(), "{end} bytes");
    }
}

fn offered(data: Vec<RData>) -> Result<Vec<Member>, String> {
    let ttl = None;
    services(&Found { data, ttl }, Scheme::Https)
}

#[test]
fn only_the_lowest_priority_becomes_members() {
    let members = offered(vec![
        srv(20, 9, 9093, "d.test."),
        srv(10, 5, 9090, "A.Test."),
        srv(10, 0, 9091, "b.test."),
        srv(5, 1, 80, "."),
        srv(10, 65_535, 9092, "a.test."),
    ])
    .unwrap();
    let read: Vec<_> = members
        .iter()
        .map(|m| (&*m.name, m.key(), m.weight))
        .collect();
    let key = |text: &str| text.to_owned();
    assert_eq!(
        read,
        [
            ("a.test", key("https://a.test:9090"), 5),
            ("b.test", key("https://b.test:9091"), 0),
            ("a.test", key("https://a.test:9092"), 65_535),
        ]
    );
    for member in &members {
        let labels: Vec<_> = member.labels.iter().collect();
        assert_eq!(labels, [(&"priority".into(), &"10".into())]);
    }
}

#[test]
fn a_service_that_is_not_offered_has_no_members() {
    assert_eq!(offered(vec![srv(0, 0, 0, ".")]).unwrap(), []);
    assert_eq!(offered(vec![]).unwrap(), []);
}

#[test]
fn a_target_that_cannot_be_a_member_fails_all() {
    let odd = Name::from_labels([&b"a/b"[..], &b"test"[..]]).unwrap();
    for bad in [
        srv(1, 1, 0, "b.test."),
        RData::SRV(SRV::new(1, 1, 80, odd)),
        srv(1, 1, 80, "*.test."),
    ] {
        assert!(offered(vec![srv(1, 1, 80, "a.test."), bad]).is_err());
    }
    // Not of the tier that is used.
    let standby = srv(2, 1, 0, "b.test.");
    assert_eq!(
        offered(vec![srv(1, 1, 80, "a.test."), standby])
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn addresses_of_both_families_are_read() {
    let ttl = None;
    let data = vec![a(1), RData::AAAA(AAAA(Ipv6Addr::LOCALHOST)), cname("x.")];
    let addresses = addresses(&Found { data, ttl });
    let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    assert_eq!(texts, ["192.0.2.1", "::1"]);
}
