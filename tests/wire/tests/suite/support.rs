//! The test support against itself: a client and an origin with nothing between them.

use ringway_wire::{Client, Framing, Origin, eventually, ok};

#[test]
fn an_answer_is_read_by_its_framing() {
    let origin = Origin::start(|conn| {
        while let Some(request) = conn.request() {
            let answer: &[u8] = match request.target.as_str() {
                "/length" => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
                "/chunked" => {
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\nT: v\r\n\r\n"
                }
                "/none" => b"HTTP/1.1 103 Hint\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
                _ => b"HTTP/1.1 200 OK\r\n\r\nab",
            };
            conn.send(answer);
            if request.target == "/close" {
                return;
            }
        }
    });
    let mut client = Client::connect(origin.address());
    assert_eq!(client.get("/length").text(), "ab");
    let chunked = client.get("/chunked");
    assert_eq!(
        (chunked.text().as_str(), chunked.framing),
        ("ab", Framing::Chunked)
    );
    assert_eq!(chunked.trailers, [("T".to_owned(), "v".to_owned())]);
    assert_eq!(client.get("/none").status, 204);
    let last = client.get("/close");
    assert_eq!((last.text().as_str(), last.framing), ("ab", Framing::Close));
    client.assert_closed();
    assert_eq!(origin.requests().len(), 4);
}

#[test]
fn an_origin_reports_what_it_saw() {
    let origin = Origin::answering(|request| ok(&request.body));
    let mut client = Client::connect(origin.address());
    client.send("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n");
    assert_eq!(client.answer().text(), "ab");
    let request = origin.next_request();
    assert_eq!(
        (request.method.as_str(), request.framing),
        ("POST", Framing::Chunked)
    );
    client.reset();
    assert_eq!(origin.next_close(), 0);
    let address = origin.address();
    drop(origin);
    eventually("the origin stops listening", || {
        Client::try_connect(address).err()
    });
}
