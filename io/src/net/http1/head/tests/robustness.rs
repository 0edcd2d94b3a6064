//! Pieces, and damage.

use super::*;
use crate::net::http1::head::scan::next_control;

const SEEDS: [&[u8]; 5] = [
    b"GET /a?b=c HTTP/1.1\r\nHost: example.org:80\r\nConnection: keep-alive, x-y\r\nX-Y: z\r\n\r\n",
    b"\r\nPOST http://[::1]:9/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTE: a\r\n\r\n",
    b"PUT / HTTP/1.0\r\nContent-Length: 12\r\nExpect: 100-continue\r\nCookie: \xe9\t\xff\r\n\r\n",
    b"CONNECT host:443 HTTP/1.1\r\nHost: host:443\r\nProxy-Authorization: Basic eDp5\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nServer: s\r\nContent-Length: 12\r\nUpgrade: h\r\nConnection: upgrade\r\n\r\n",
];

/// Everything a request says, as text, or its error.
fn describe_request(head: &mut RequestHead, text: &[u8]) -> String {
    match head.parse(text, &HeadLimits::default()) {
        Ok(Parsed::Complete(length)) => {
            let buf = &text[..length];
            format!(
                "{length} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {} {} {}",
                head.method_text(buf),
                head.version(),
                head.target_form(),
                head.path(buf),
                head.query(buf),
                head.authority(buf),
                head.framing(),
                head.headers(buf).collect::<Vec<_>>(),
                head.keep_alive(),
                head.upgrade(),
                head.expect_continue(),
            )
        }
        other => format!("{other:?}"),
    }
}

fn describe_response(head: &mut ResponseHead, text: &[u8]) -> String {
    match head.parse(text, Method::Get, &HeadLimits::default()) {
        Ok(Parsed::Complete(length)) => {
            let buf = &text[..length];
            format!(
                "{length} {} {:?} {:?} {:?} {}",
                head.status(),
                head.reason(buf),
                head.framing(),
                head.headers(buf).collect::<Vec<_>>(),
                head.keep_alive(),
            )
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn every_split_gives_the_same() {
    for seed in SEEDS {
        let whole = describe_request(&mut RequestHead::new(), seed);
        let whole_response = describe_response(&mut ResponseHead::new(), seed);
        let mut bytewise = RequestHead::new();
        let mut bytewise_response = ResponseHead::new();
        for end in 0..seed.len() {
            let mut head = RequestHead::new();
            let first = describe_request(&mut head, &seed[..end]);
            let then = if first == "Ok(Partial)" {
                describe_request(&mut head, seed)
            } else {
                first
            };
            assert_eq!(then, whole, "cut at {end}: {}", seed.escape_ascii());
            if whole.starts_with(|c: char| c.is_ascii_digit()) {
                assert_eq!(describe_request(&mut bytewise, &seed[..end]), "Ok(Partial)");
            }
            if whole_response.starts_with(|c: char| c.is_ascii_digit()) {
                assert_eq!(
                    describe_response(&mut bytewise_response, &seed[..end]),
                    "Ok(Partial)"
                );
            }
        }
        if whole.starts_with(|c: char| c.is_ascii_digit()) {
            assert_eq!(describe_request(&mut bytewise, seed), whole);
        }
        if whole_response.starts_with(|c: char| c.is_ascii_digit()) {
            assert_eq!(
                describe_response(&mut bytewise_response, seed),
                whole_response
            );
        }
    }
}

#[test]
fn the_first_fault_is_named_wherever_the_input_is_cut() {
    // Found by fuzzing: too long for a start line, but that shows only in its 41st byte.
    let limits = HeadLimits {
        bytes_max: 100,
        start_line_max: 40,
        headers_max: 4,
    };
    let text = [b" ".to_vec(), vec![b'x'; 80]].concat();
    let expected = Err(HeadError::LeadingWhitespace { at: 0 });
    for cut in 1..text.len() {
        assert_eq!(
            RequestHead::new().parse(&text[..cut], &limits),
            expected,
            "{cut}"
        );
    }
}

#[test]
fn reset_forgets_a_begun_head() {
    let mut head = RequestHead::new();
    let limits = HeadLimits::default();
    assert_eq!(
        head.parse(b"GET / HTTP/1.1\r\nHost: aaaaaaaaaaaa", &limits),
        Ok(Parsed::Partial)
    );
    head.reset();
    let text = b"GET / HTTP/1.0\r\n\r\n";
    assert_eq!(head.parse(text, &limits), Ok(Parsed::Complete(text.len())));
    // A shorter buffer than before is a caller's bug, and still no reason to panic.
    assert_eq!(
        head.parse(b"GET / HTTP/1.1\r\nHost: aaaaaaaaaaaa", &limits),
        Ok(Parsed::Partial)
    );
    assert_eq!(head.parse(b"GET", &limits), Ok(Parsed::Partial));
}

#[test]
fn damaged_heads_never_panic_and_splits_agree() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut head = RequestHead::new();
    let mut response = ResponseHead::new();
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut text = SEEDS[round % SEEDS.len()].to_vec();
        for _ in 0..=random.below(3) {
            damage(&mut text, &mut random);
        }
        let whole = describe_request(&mut RequestHead::new(), &text);
        let cut = random.below(text.len() + 1);
        head.reset();
        let first = describe_request(&mut head, &text[..cut]);
        let then = if first == "Ok(Partial)" {
            describe_request(&mut head, &text)
        } else {
            first
        };
        assert_eq!(then, whole, "cut at {cut}: {}", text.escape_ascii());
        accepted += usize::from(whole.starts_with(|c: char| c.is_ascii_digit()));
        response.reset();
        describe_response(&mut response, &text);
    }
    assert!(
        accepted > 1_000,
        "damage so great that only refusals are tested: {accepted}"
    );
}

#[test]
fn control_bytes_are_found_like_a_plain_loop_finds_them() {
    let mut random = Random(7);
    for _ in 0..20_000 {
        let length = random.below(40);
        let mut text: Vec<u8> = (0..length)
            .map(|_| 0x20 + random.below(0xe0) as u8)
            .collect();
        for _ in 0..random.below(3) {
            if length > 0 {
                let at = random.below(length);
                text[at] = [0, 1, 9, 0x1f, 0x20, 0x7e, 0x7f, 0x80, 0x9f, 0xff][random.below(10)];
            }
        }
        let from = random.below(length + 1);
        let expected = (from..length).find(|&at| text[at] < 0x20 || text[at] == 0x7f);
        assert_eq!(next_control(&text, from), expected, "{text:x?} from {from}");
    }
}

fn damage(text: &mut Vec<u8>, random: &mut Random) {
    let pieces: [&[u8]; 8] = [
        b"\r\n",
        b"\n",
        b": ",
        b" ",
        b"Content-Length: 1\r\n",
        b"\0",
        b"chunked",
        b"Host: b\r\n",
    ];
    let at = random.below(text.len());
    match random.below(5) {
        0 => text[at] = random.below(256) as u8,
        1 => drop(text.remove(at)),
        2 => text.insert(at, random.below(256) as u8),
        3 => drop(text.splice(at..at, pieces[random.below(8)].iter().copied())),
        _ => text.swap(at, 0),
    }
}

/// A small generator (xorshift), so that every run sees the same input.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}
