//! No byte of one exchange ever reaches another, whatever clients and origins do in between.
//!
//! A fixed seed makes a run repeatable; `RINGWAY_TEST_SEED` tries others.

use std::thread;

use ringway_wire::{Conn, Origin, Request, Ringway, Setup};

/// Exchanges tried by each of the clients.
const EXCHANGES: u64 = 400;
/// Clients at once.
const CLIENTS: u64 = 8;

/// A small generator: xorshift64*.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % count
    }
}

/// What an origin does wrong, chosen by the request itself; false when the connection must end.
fn misbehave(conn: &mut Conn, request: &Request, kind: &str) -> bool {
    let id = request
        .header("x-id")
        .expect("every request has one")
        .to_owned();
    let body = format!("[{id}]").repeat(50);
    let head = format!("HTTP/1.1 200 OK\r\nX-Id: {id}\r\n");
    let length = body.len();
    match kind {
        "good" => conn.send(format!("{head}Content-Length: {length}\r\n\r\n{body}")),
        "chunked" => {
            let (one, two) = body.split_at(length / 3);
            conn.send(format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n",
                one.len()
            )) && conn.send(format!("{:x}\r\n{two}\r\n0\r\n\r\n", two.len()))
        }
        "short" => {
            conn.send(format!(
                "{head}Content-Length: {}\r\n\r\n{body}",
                length + 10
            ));
            false
        }
        "long" => conn.send(format!(
            "{head}Content-Length: {length}\r\n\r\n{body}HTTP/1.1 200 OK\r\n\r\nPOISON"
        )),
        "double" => {
            let poison = "HTTP/1.1 200 OK\r\nX-Id: POISON\r\nContent-Length: 6\r\n\r\nPOISON";
            conn.send(format!(
                "{head}Content-Length: {length}\r\n\r\n{body}{poison}"
            ))
        }
        "cut" => {
            conn.send(format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{}",
                &body[..30]
            ));
            false
        }
        "reset" => {
            conn.send(format!(
                "{head}Content-Length: {length}\r\n\r\n{}",
                &body[..30]
            ));
            conn.reset_at_end();
            false
        }
        _ => false,
    }
}

/// Answers by kind; `early` answers before the body has come.
fn origin() -> Origin {
    Origin::start(|conn| {
        while let Some(mut request) = conn.head() {
            let kind = request.header("x-kind").unwrap_or("good").to_owned();
            if kind == "early" {
                if !misbehave(conn, &request, "good") {
                    return;
                }
                // The answer has gone out; the body may still be on its way.
                if conn.body(&mut request).is_none() {
                    return;
                }
                continue;
            }
            if conn.body(&mut request).is_none() || !misbehave(conn, &request, &kind) {
                return;
            }
        }
    })
}

/// One exchange. Whatever comes back must be about this request and nothing else.
fn exchange(client: &mut ringway_wire::Client, dice: &mut Dice, id: &str) -> bool {
    let kinds = [
        "good", "good", "chunked", "short", "long", "double", "cut", "reset", "early", "silent",
    ];
    let kind = kinds[usize::try_from(dice.below(kinds.len() as u64)).expect("small")];
    let (method, body) = match dice.below(3) {
        0 => ("GET", String::new()),
        1 => ("POST", "Content-Length: 6\r\n\r\n<body>".to_owned()),
        _ => (
            "POST",
            "Transfer-Encoding: chunked\r\n\r\n6\r\n<body>\r\n0\r\n\r\n".to_owned(),
        ),
    };
    let end = if body.is_empty() { "\r\n" } else { "" };
    let request =
        format!("{method} / HTTP/1.1\r\nHost: a\r\nX-Id: {id}\r\nX-Kind: {kind}\r\n{end}{body}");
    if dice.below(10) == 0 {
        // Gone in the middle of the request.
        let part = usize::try_from(dice.below(request.len() as u64)).expect("small");
        drop(client.try_send(&request[..part]));
        return false;
    }
    if client.try_send(&request).is_err() {
        return false;
    }
    if dice.below(10) == 0 {
        // Gone before the answer.
        return false;
    }
    let Ok(answer) = client.try_answer_to(method) else {
        assert!(
            matches!(kind, "short" | "cut" | "reset"),
            "{id} {kind}: no whole answer"
        );
        return false;
    };
    if answer.status == 200 {
        assert_eq!(answer.header("x-id"), Some(id), "{kind}");
        assert_eq!(answer.text(), format!("[{id}]").repeat(50), "{kind}");
    } else {
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (502, ""),
            "{id} {kind}"
        );
        assert!(
            !matches!(kind, "good" | "chunked"),
            "{id}: a good answer became {}",
            answer.status
        );
    }
    answer.header("connection") != Some("close")
}

fn client(ringway: &Ringway, number: u64, seed: u64) {
    let mut dice = Dice::new(seed.wrapping_add(number));
    let mut connection = ringway.client();
    for turn in 0..EXCHANGES {
        if !exchange(&mut connection, &mut dice, &format!("{number}-{turn}")) {
            connection = ringway.client();
        }
    }
}

#[test]
fn every_answer_belongs_to_its_request_whatever_the_others_do() {
    let seed = std::env::var("RINGWAY_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    let origin = origin();
    let ringway = Setup::web(origin.address(), "").start();
    let shared = &ringway;
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            scope.spawn(move || client(shared, number, seed));
        }
    });
    ringway.stop();
}

#[test]
fn a_pipelining_client_gets_each_answer_once_and_in_order_whatever_origins_do() {
    let origin = origin();
    let ringway = Setup::web(origin.address(), "").start();
    let mut client = ringway.client();
    let kinds = ["good", "long", "chunked", "double", "good"];
    let mut requests = String::new();
    for turn in 0..100 {
        let kind = kinds[turn % kinds.len()];
        requests.push_str(&format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Id: {turn}\r\nX-Kind: {kind}\r\n\r\n"
        ));
    }
    client.send(&requests);
    for turn in 0..100 {
        let answer = client.answer();
        assert_eq!(answer.header("x-id"), Some(turn.to_string().as_str()));
        assert_eq!(answer.text(), format!("[{turn}]").repeat(50));
    }
    ringway.stop();
}
