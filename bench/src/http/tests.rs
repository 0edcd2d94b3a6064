//! Every message is fed whole and byte by byte: both must give the same answer.

use super::*;

fn answers(text: &str, head_only: bool) -> Vec<Result<Option<Answer>, String>> {
    let feed = |step: usize| {
        let mut reader = AnswerReader::new(head_only);
        let mut last = Ok(None);
        for piece in text.as_bytes().chunks(step) {
            last = reader.feed(piece).map_err(|e| e.to_string());
            if last != Ok(None) {
                break;
            }
        }
        if last == Ok(None) {
            reader.end().map_err(|e| e.to_string())
        } else {
            last
        }
    };
    vec![feed(1), feed(7), feed(usize::MAX)]
}

fn expect_answer(text: &str, head_only: bool, status: u16, body_bytes: u64, close: bool) {
    for found in answers(text, head_only) {
        assert_eq!(
            found,
            Ok(Some(Answer {
                status,
                body_bytes,
                close
            })),
            "{text:?}"
        );
    }
}

#[test]
fn an_answer_ends_where_its_framing_says() {
    expect_answer(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        false,
        200,
        5,
        false,
    );
    expect_answer(
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        false,
        200,
        0,
        false,
    );
    expect_answer("HTTP/1.1 204 No Content\r\n\r\n", false, 204, 0, false);
    expect_answer(
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        false,
        304,
        0,
        false,
    );
    expect_answer(
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
        true,
        200,
        0,
        false,
    );
    expect_answer("HTTP/1.1 200 OK\r\n\r\nuntil close", false, 200, 11, true);
    expect_answer(
        "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        false,
        200,
        1,
        true,
    );
    expect_answer(
        "HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
        false,
        503,
        1,
        true,
    );
    expect_answer(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        false,
        200,
        1,
        false,
    );
}

#[test]
fn chunks_extensions_and_trailers_are_framing() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                5;a=b\r\nhello\r\n1F\r\n0123456789012345678901234567890\r\n0\r\nX-Sum: 1\r\n\r\n";
    expect_answer(text, false, 200, 36, false);
}

#[test]
fn a_broken_answer_is_an_error() {
    for text in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
    ] {
        for found in answers(text, false) {
            assert!(found.is_err(), "{text:?} gave {found:?}");
        }
    }
    let mut reader = AnswerReader::new(false);
    assert!(
        reader
            .feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy")
            .is_err()
    );
    assert!(
        AnswerReader::new(false)
            .feed(&[b'a'; HEAD_BYTES_MAX])
            .is_err()
    );
}

#[test]
fn pipelined_requests_with_bodies_come_out_in_order() {
    let text = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n\
                POST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc\
                POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n\
                HEAD /d HTTP/1.1\r\nConnection: close\r\n\r\n";
    for step in [1, 10, usize::MAX] {
        let mut reader = RequestReader::default();
        let mut requests = Vec::new();
        for piece in text.as_bytes().chunks(step) {
            reader.feed(piece, &mut requests).unwrap();
        }
        let targets: Vec<_> = requests.iter().map(|r| r.target.as_str()).collect();
        assert_eq!(targets, ["/a", "/b", "/c", "/d"]);
        assert!(requests[3].head_only && requests[3].close && !requests[0].close);
    }
}
