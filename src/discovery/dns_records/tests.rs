//! Questions to servers that answer, fail, lie and keep silent.

use hickory_resolver::proto::op::Message;
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME, NS, SOA, SRV};
use hickory_resolver::proto::rr::{RData, Record};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::*;
use crate::discovery::stub::Folder;

const INTERVAL: Duration = Duration::from_secs(30);

/// How a question came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Udp,
    Tcp,
}

/// Datagrams, or messages over TCP, that answer a question.
type Answers = Vec<Vec<u8>>;
type Handler = Box<dyn FnMut(&Message, Way) -> Answers + Send>;

/// A DNS server over UDP and TCP on one port, in one task that owns the handler; ends when dropped.
struct Server {
    address: SocketAddr,
    handlers: UnboundedSender<Handler>,
    seen: UnboundedReceiver<(Message, Way)>,
    task: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(handler: impl FnMut(&Message, Way) -> Answers + Send + 'static) -> Server {
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = tcp.local_addr().unwrap();
            if let Ok(udp) = UdpSocket::bind(address).await {
                break (tcp, udp);
            }
        };
        let address = tcp.local_addr().unwrap();
        let (handlers, inbox) = unbounded_channel();
        let (tell, seen) = unbounded_channel();
        let task = tokio::spawn(serve(tcp, udp, Box::new(handler), inbox, tell));
        Server {
            address,
            handlers,
            seen,
            task: task.abort_handle(),
        }
    }

    /// Answers so from now on.
    fn answer(&self, handler: impl FnMut(&Message, Way) -> Answers + Send + 'static) {
        assert!(self.handlers.send(Box::new(handler)).is_ok());
    }

    /// The questions since the last call.
    fn seen(&mut self) -> Vec<(Message, Way)> {
        let mut all = Vec::new();
        while let Ok(question) = self.seen.try_recv() {
            all.push(question);
        }
        all
    }

    fn connection(&self) -> Connection {
        let host = self.address.ip().to_string().into();
        connect(&Dns {
            resolver: Some((host, self.address.port())),
            interval: INTERVAL,
        })
        .unwrap()
    }

    fn source(&self, query: Query) -> Box<dyn Source> {
        self.connection().source(Arc::new(query))
    }
}

async fn serve(
    tcp: TcpListener,
    udp: UdpSocket,
    mut handler: Handler,
    mut handlers: UnboundedReceiver<Handler>,
    seen: UnboundedSender<(Message, Way)>,
) {
    let answer = |handler: &mut Handler, bytes: &[u8], way| {
        let question = Message::from_vec(bytes).unwrap();
        let answers = handler(&question, way);
        seen.send((question, way)).unwrap();
        answers
    };
    let mut buffer = vec![0; 65_536];
    loop {
        // A new handler comes before the questions asked after it was set.
        tokio::select! {
            biased;
            Some(new) = handlers.recv() => handler = new,
            received = udp.recv_from(&mut buffer) => {
                let (length, peer) = received.unwrap();
                for bytes in answer(&mut handler, &buffer[..length], Way::Udp) {
                    udp.send_to(&bytes, peer).await.unwrap();
                }
            }
            accepted = tcp.accept() => {
                let (mut stream, _) = accepted.unwrap();
                let mut bytes = vec![0; stream.read_u16().await.unwrap().into()];
                stream.read_exact(&mut bytes).await.unwrap();
                for bytes in answer(&mut handler, &bytes, Way::Tcp) {
                    let length = u16::try_from(bytes.len()).unwrap();
                    stream.write_u16(length).await.unwrap();
                    stream.write_all(&bytes).await.unwrap();
                }
            }
        }
    }
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn kind(question: &Message) -> RecordType {
    question.queries[0].query_type()
}

fn response(question: &Message, code: ResponseCode) -> Message {
    let mut message = question.clone().into_response();
    message.metadata.response_code = code;
    message
}

fn with(question: &Message, records: &[(&str, u32, RData)]) -> Message {
    let mut message = response(question, ResponseCode::NoError);
    for (owner, ttl, data) in records {
        message.add_answer(Record::from_rdata(name(owner), *ttl, data.clone()));
    }
    message
}

fn bytes(message: Message) -> Answers {
    vec![message.to_vec().unwrap()]
}

fn code(code: ResponseCode) -> impl FnMut(&Message, Way) -> Answers {
    move |question, _| bytes(response(question, code))
}

fn a(last: u8) -> RData {
    RData::A(A([192, 0, 2, last].into()))
}

fn aaaa(last: u16) -> RData {
    RData::AAAA(AAAA([0x2001, 0xdb8, 0, 0, 0, 0, 0, last].into()))
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> RData {
    RData::SRV(SRV::new(priority, weight, port, name(target)))
}

/// One address of each family, good for a minute and for two.
fn both(question: &Message, _: Way) -> Answers {
    bytes(match kind(question) {
        RecordType::A => with(question, &[("x.test.", 60, a(1))]),
        _ => with(question, &[("x.test.", 120, aaaa(1))]),
    })
}

fn hostname(text: &str) -> Query {
    Query {
        hostname: Some(text.into()),
        port: Some(Port::Number(9090)),
        ..Query::default()
    }
}

fn srv_name(text: &str) -> Query {
    Query {
        srv_name: Some(text.into()),
        ..Query::default()
    }
}

fn keys(reading: &Reading) -> Vec<String> {
    let members = reading.members.as_ref().unwrap();
    members.iter().map(Member::key).collect()
}

fn after(seconds: u64) -> Again {
    Again::After(Duration::from_secs(seconds))
}

async fn failure(source: &mut Box<dyn Source>) -> String {
    source.next().await.unwrap_err().reason
}

#[tokio::test]
async fn a_host_name_has_members_of_both_families() {
    let mut server = Server::start(both).await;
    let mut source = server.source(hostname("x.test"));
    let reading = source.next().await.unwrap();
    assert_eq!(
        keys(&reading),
        ["http://192.0.2.1:9090", "http://[2001:db8::1]:9090"]
    );
    let names = reading.members.iter().flatten().map(|member| &*member.name);
    assert_eq!(names.collect::<Vec<_>>(), ["192.0.2.1", "2001:db8::1"]);
    assert_eq!(reading.again, after(60));
    for (question, way) in server.seen() {
        assert_eq!(way, Way::Udp);
        assert_eq!(*question.queries[0].name(), name("x.test."));
        assert!(question.metadata.recursion_desired);
        assert_eq!(question.edns.unwrap().max_payload(), 1232);
    }
}

#[tokio::test]
async fn services_have_their_lowest_tier_as_members() {
    let server = Server::start(|question, _| {
        assert_eq!(kind(question), RecordType::SRV);
        let records = [
            ("_p._tcp.x.test.", 90, srv(20, 1, 9092, "c.test.")),
            ("_p._tcp.x.test.", 90, srv(10, 3, 9090, "a.test.")),
            ("_p._tcp.x.test.", 45, srv(10, 0, 9091, "b.test.")),
        ];
        let mut message = with(question, &records);
        // Addresses of targets are for others to resolve.
        message.add_additional(Record::from_rdata(name("a.test."), 1, a(1)));
        bytes(message)
    })
    .await;
    let mut source = server.source(srv_name("_p._tcp.x.test"));
    let reading = source.next().await.unwrap();
    assert_eq!(keys(&reading), ["http://a.test:9090", "http://b.test:9091"]);
    assert_eq!(reading.again, after(45));
}

#[tokio::test]
async fn the_interval_is_the_least_wait() {
    for (ttl, seconds) in [(0, 30), (29, 30), (31, 31)] {
        let server = Server::start(move |question, _| {
            let record = ("s.test.", ttl, srv(1, 1, 80, "a.test."));
            bytes(with(question, &[record]))
        })
        .await;
        let reading = server.source(srv_name("s.test.")).next().await.unwrap();
        assert_eq!(reading.again, after(seconds), "ttl {ttl}");
    }
}

#[tokio::test]
async fn aliases_are_followed_in_the_answer() {
    let alias = |target: &str| RData::CNAME(CNAME(name(target)));
    let mut server = Server::start(move |question, _| {
        let mut records = vec![
            ("x.test.", 300, alias("y.test.")),
            ("y.test.", 40, alias("z.test.")),
        ];
        if kind(question) == RecordType::A {
            records.push(("z.test.", 50, a(7)));
        }
        bytes(with(question, &records))
    })
    .await;
    let reading = server.source(hostname("x.test")).next().await.unwrap();
    assert_eq!(keys(&reading), ["http://192.0.2.7:9090"]);
    // The family without records has no part in it.
    assert_eq!(reading.again, after(40));
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_cut_answer_is_asked_for_again_over_tcp() {
    let mut server = Server::start(|question, way| {
        let mut message = response(question, ResponseCode::NoError);
        match way {
            Way::Udp => message.metadata.truncation = true,
            Way::Tcp => {
                for host in 0..500 {
                    let data = srv(1, 1, 80, &format!("host-{host}.test."));
                    message.add_answer(Record::from_rdata(name("s.test."), 60, data));
                }
            }
        }
        bytes(message)
    })
    .await;
    let reading = server.source(srv_name("s.test")).next().await.unwrap();
    assert_eq!(reading.members.unwrap().len(), 500);
    let ways: Vec<Way> = server.seen().iter().map(|seen| seen.1).collect();
    assert_eq!(ways, [Way::Udp, Way::Tcp]);
}

#[tokio::test]
async fn an_answer_that_is_cut_over_tcp_too_is_none() {
    let server = Server::start(|question, _| {
        let mut message = with(question, &[("s.test.", 60, srv(1, 1, 80, "a.test."))]);
        message.metadata.truncation = true;
        bytes(message)
    })
    .await;
    failure(&mut server.source(srv_name("s.test"))).await;
}

#[tokio::test]
async fn replies_to_something_else_are_not_taken() {
    let server = Server::start(|question, _| {
        let evil = || with(question, &[("s.test.", 60, srv(1, 1, 80, "evil.test."))]);
        let mut wrong_id = evil();
        wrong_id.metadata.id ^= 1;
        let mut wrong_name = evil();
        wrong_name.queries[0].set_name(name("t.test."));
        let good = with(question, &[("s.test.", 60, srv(1, 1, 80, "good.test."))]);
        [wrong_id, wrong_name, good]
            .iter()
            .map(|message| message.to_vec().unwrap())
            .collect()
    })
    .await;
    let reading = server.source(srv_name("s.test")).next().await.unwrap();
    assert_eq!(keys(&reading), ["http://good.test:80"]);
}

#[tokio::test]
async fn another_question_over_tcp_is_no_empty_answer() {
    let server = Server::start(|question, way| {
        let mut message = response(question, ResponseCode::NoError);
        message.metadata.truncation = way == Way::Udp;
        if way == Way::Tcp {
            message.queries[0].set_name(name("t.test."));
        }
        bytes(message)
    })
    .await;
    let error = failure(&mut server.source(srv_name("s.test"))).await;
    assert!(error.contains("another question"), "{error}");
}

#[tokio::test]
async fn garbage_and_echoes_are_failures() {
    let garbage: [fn(&Message) -> Vec<u8>; 3] = [
        |question| {
            let mut bytes = question.metadata.id.to_be_bytes().to_vec();
            bytes.extend([0xff; 40]);
            bytes
        },
        |question| {
            let answer = with(question, &[("s.test.", 60, srv(1, 1, 80, "a.test."))]);
            let mut bytes = answer.to_vec().unwrap();
            bytes.truncate(bytes.len() - 15);
            bytes
        },
        |question| question.to_vec().unwrap(),
    ];
    for reply in garbage {
        let server = Server::start(move |question, _| vec![reply(question)]).await;
        let error = failure(&mut server.source(srv_name("s.test"))).await;
        assert!(error.contains("SRV s.test"), "{error}");
        assert!(error.contains(&server.address.to_string()), "{error}");
    }
}

#[tokio::test]
async fn codes_are_failures_and_no_records_are_an_answer() {
    for (rcode, text) in [
        (ResponseCode::NXDomain, "NXDOMAIN"),
        (ResponseCode::ServFail, "SERVFAIL"),
        (ResponseCode::Refused, "REFUSED"),
        (ResponseCode::NotImp, "code 4"),
    ] {
        let server = Server::start(code(rcode)).await;
        for query in [srv_name("s.test"), hostname("s.test")] {
            let error = failure(&mut server.source(query)).await;
            assert!(error.contains(text), "{error} has no {text}");
        }
    }
    let server = Server::start(code(ResponseCode::NoError)).await;
    for query in [srv_name("s.test"), hostname("s.test")] {
        let reading = server.source(query).next().await.unwrap();
        assert_eq!(reading.members, Some(Vec::new()));
        assert_eq!(reading.again, after(30));
    }
}

#[tokio::test]
async fn no_records_is_told_from_a_referral() {
    let soa = || {
        let soa = SOA::new(name("ns.test."), name("admin.test."), 1, 1, 1, 1, 1);
        Record::from_rdata(name("test."), 300, RData::SOA(soa))
    };
    let ns = || Record::from_rdata(name("test."), 300, RData::NS(NS(name("ns.test."))));
    let server = Server::start(move |question, _| {
        let mut message = response(question, ResponseCode::NoError);
        message.add_authority(ns());
        message.add_authority(soa());
        bytes(message)
    })
    .await;
    let mut source = server.source(srv_name("s.test"));
    assert_eq!(source.next().await.unwrap().members, Some(Vec::new()));
    server.answer(move |question, _| {
        let mut message = response(question, ResponseCode::NoError);
        message.add_authority(ns());
        bytes(message)
    });
    let error = failure(&mut source).await;
    assert!(error.contains("refers"), "{error}");
}

#[tokio::test]
async fn an_alias_to_a_name_that_does_not_exist_is_a_failure() {
    let server = Server::start(|question, _| {
        let alias = RData::CNAME(CNAME(name("gone.test.")));
        let mut message = with(question, &[("x.test.", 60, alias)]);
        message.metadata.response_code = ResponseCode::NXDomain;
        bytes(message)
    })
    .await;
    let error = failure(&mut server.source(hostname("x.test"))).await;
    assert!(error.contains("NXDOMAIN"), "{error}");
}

#[tokio::test]
async fn a_family_that_fails_keeps_its_members() {
    let server = Server::start(both).await;
    let mut source = server.source(hostname("x.test"));
    source.next().await.unwrap();

    server.answer(|question, way| match kind(question) {
        RecordType::A => bytes(with(question, &[("x.test.", 600, a(2))])),
        _ => code(ResponseCode::ServFail)(question, way),
    });
    let reading = source.next().await.unwrap();
    assert_eq!(
        keys(&reading),
        ["http://192.0.2.2:9090", "http://[2001:db8::1]:9090"]
    );
    assert_eq!(reading.again, after(600));

    server.answer(|question, way| match kind(question) {
        RecordType::A => code(ResponseCode::NXDomain)(question, way),
        _ => bytes(response(question, ResponseCode::NoError)),
    });
    let reading = source.next().await.unwrap();
    assert_eq!(keys(&reading), ["http://192.0.2.2:9090"]);

    server.answer(|question, way| match kind(question) {
        RecordType::A => code(ResponseCode::Refused)(question, way),
        _ => code(ResponseCode::ServFail)(question, way),
    });
    let error = failure(&mut source).await;
    assert!(
        error.contains("REFUSED") && error.contains("SERVFAIL"),
        "{error}"
    );
}

#[tokio::test]
async fn a_family_that_never_answered_does_not_hold_up_the_other() {
    let server = Server::start(|question, way| match kind(question) {
        RecordType::A => bytes(with(question, &[("x.test.", 60, a(1))])),
        _ => code(ResponseCode::ServFail)(question, way),
    })
    .await;
    let reading = server.source(hostname("x.test")).next().await.unwrap();
    assert_eq!(keys(&reading), ["http://192.0.2.1:9090"]);
}

#[tokio::test]
async fn other_servers_are_tried_where_one_does_not_help() {
    let mut silent = Server::start(|_, _| Vec::new()).await;
    let mut broken = Server::start(code(ResponseCode::ServFail)).await;
    let good = Server::start(both).await;
    let mut connection = good.connection();
    connection.limit = Duration::from_secs(1);
    let host = name("x.test.");
    let servers = [silent.address, broken.address, good.address];
    let found = connection.ask(&servers, &host, RecordType::A).await;
    assert_eq!(reply::addresses(&found.unwrap()).len(), 1);
    assert!(!silent.seen().is_empty());
    assert!(!broken.seen().is_empty());

    let all_fail = connection.ask(&servers[..2], &host, RecordType::A).await;
    let error = all_fail.unwrap_err();
    assert!(error.contains("no answer within 1s"), "{error}");
    assert!(error.contains("SERVFAIL"), "{error}");
}

#[tokio::test]
async fn a_server_that_knows_that_there_is_no_such_name_is_believed() {
    let knows = Server::start(code(ResponseCode::NXDomain)).await;
    let mut other = Server::start(both).await;
    let servers = [knows.address, other.address];
    let connection = other.connection();
    let host = name("x.test.");
    let asked = connection.ask(&servers, &host, RecordType::A);
    assert!(asked.await.unwrap_err().contains("NXDOMAIN"));
    assert_eq!(other.seen().len(), 0);
}

#[tokio::test]
async fn names_that_resolvers_answer_by_themselves_are_asked_for_too() {
    for host in ["localhost", "a.localhost", "x.invalid", "x.onion", "single"] {
        let server = Server::start(move |question, way| match kind(question) {
            RecordType::A => bytes(with(question, &[(&format!("{host}."), 60, a(3))])),
            _ => code(ResponseCode::NoError)(question, way),
        })
        .await;
        let reading = server.source(hostname(host)).next().await.unwrap();
        assert_eq!(keys(&reading), ["http://192.0.2.3:9090"], "{host}");
    }
}

#[tokio::test]
async fn the_system_file_is_read_again_each_time() {
    let folder = Folder::new();
    let file = folder.join("resolv.conf");
    let mut connection = connect(&Dns {
        resolver: None,
        interval: INTERVAL,
    })
    .unwrap();
    connection.system_file.clone_from(&file);
    let error = connection.servers().await.unwrap_err();
    assert!(error.contains("resolv.conf"), "{error}");
    folder.write(
        "resolv.conf",
        "# by hand\nsearch example.com\nnameserver 192.0.2.1\noptions ndots:5\nnameserver 2001:db8::1\n",
    );
    let shown = |servers: Vec<SocketAddr>| -> Vec<String> {
        servers.iter().map(SocketAddr::to_string).collect()
    };
    assert_eq!(
        shown(connection.servers().await.unwrap()),
        ["192.0.2.1:53", "[2001:db8::1]:53"]
    );
    let many: String = (1..9)
        .map(|n| format!("nameserver 192.0.2.{n}\n"))
        .collect();
    folder.write("resolv.conf", &many);
    assert_eq!(connection.servers().await.unwrap().len(), SERVERS_MAX);
    folder.write("resolv.conf", "search example.com\n");
    assert!(connection.servers().await.is_err());
}

#[tokio::test]
async fn a_resolver_may_have_a_name() {
    let server = Server::start(both).await;
    let connection = connect(&Dns {
        resolver: Some(("localhost".into(), server.address.port())),
        interval: INTERVAL,
    })
    .unwrap();
    let mut source = connection.source(Arc::new(hostname("x.test")));
    assert_eq!(keys(&source.next().await.unwrap()).len(), 2);
}

#[tokio::test]
async fn what_is_no_name_is_a_failure() {
    let mut server = Server::start(both).await;
    let long = "a".repeat(64);
    let error = failure(&mut server.source(srv_name(&long))).await;
    assert!(error.contains("not a name"), "{error}");
    let mut source = server.source(Query {
        port: None,
        ..hostname("x.test")
    });
    assert!(failure(&mut source).await.contains("port"));
    assert_eq!(server.seen().len(), 0);
}
