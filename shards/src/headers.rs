//! The heads ringway sends on: what of a received head passes, what stays, what is added.
//!
//! Hop-by-hop headers, and those `Connection` names, never pass. Framing headers are written anew from what
//! the codec decided, so that both sides read one length. Contract: config page, 5 (hop-by-hop, Forwarded,
//! Via); decisions, 23 (all values of a name are kept, in order). What rules of paths change is done last, so
//! that the operator has the final say about all but framing.

pub(crate) mod cors;
pub(crate) mod edits;
mod forwarded;
mod parties;

use std::net::IpAddr;

use ringway_io::net::http1::{
    BodyFraming, KnownHeader, RequestHead, ResponseHead, Trailers, Version, write,
};

use crate::clock::Clock;
use crate::compress::{self, Compressor, Lines, Places};
use crate::metrics::cache_status;
use crate::passage::{Credentials, Front, Passage};
use crate::plan::{ForwardedHeaders, Network, Origin};
use crate::respond::{self, Frame};
use parties::{address, forwarded_node, quoted_authority, quoted_unless_token};

pub(crate) use parties::{Sender, Server};

/// What of a request does not come from the client's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop<'a> {
    /// The head as the client sent it.
    pub(crate) received: (&'a RequestHead, &'a [u8]),
    /// This server.
    pub(crate) server: &'a Server,
    /// The client.
    pub(crate) client: &'a Sender,
    /// The client came over TLS.
    pub(crate) client_tls: bool,
    /// What becomes of what it says of hops in front of it.
    pub(crate) claims: Claims,
}

/// What becomes of the forwarding headers that a peer sends: its word for who is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claims {
    /// Earlier hops are kept, scheme and host are told anew: what a listener without `trusted_proxies` does.
    Keep,
    /// All of it is believed, scheme and host too: the peer is a trusted proxy.
    Believe,
    /// None of it passes: the peer is not.
    Drop,
}

impl Claims {
    /// Those of this peer.
    pub(crate) fn of(trusted: Option<&[Network]>, peer: IpAddr) -> Claims {
        match trusted {
            None => Claims::Keep,
            Some(networks) if networks.iter().any(|network| network.contains(peer)) => {
                Claims::Believe
            }
            Some(_) => Claims::Drop,
        }
    }
}

/// What a request to an origin asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'a [u8],
    /// Path after the route's prefix was cut, without the origin's.
    pub(crate) path: &'a [u8],
    pub(crate) query: Option<&'a [u8]>,
    pub(crate) framing: BodyFraming,
    /// Another protocol is asked for.
    pub(crate) upgrade: bool,
    /// The client waits for `100 Continue`.
    pub(crate) expect_continue: bool,
    /// Replaces what the client accepts, and what it said of its body, when a request is made anew.
    pub(crate) remade: Option<Remade<'a>>,
    /// What the rules it has passed change; `query` is changed already.
    pub(crate) passage: &'a Passage<'a>,
}

/// Headers of a request that ringway makes from the client's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remade<'a> {
    pub(crate) accept_encoding: &'a [u8],
    pub(crate) content_type: Option<&'a [u8]>,
    /// The media types that are asked for, where the client's wish does not matter.
    pub(crate) accept: Option<&'a [u8]>,
}

/// Appends the head of a request to `origin`.
pub(crate) fn request(
    out: &mut Vec<u8>,
    (head, head_bytes): (&RequestHead, &[u8]),
    origin: &Origin,
    hop: &Hop<'_>,
    asks: &Outgoing<'_>,
) {
    out.extend_from_slice(asks.method);
    out.push(b' ');
    out.extend_from_slice(origin.path_prefix.as_bytes());
    if asks.path.is_empty() && origin.path_prefix.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(asks.path);
    if let Some(query) = asks.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    // A rewriter's authority is that of `origin` already.
    let host = asks.passage.host().unwrap_or(&origin.authority);
    write::header(out, b"Host", host.as_bytes());
    let start = out.len();
    for header in head.headers(head_bytes) {
        let is_dropped = hop.claims == Claims::Drop && is_claim(header.known, header.name);
        if header.hop_by_hop || is_dropped || !passes(header.known, origin.forwarded, asks) {
            continue;
        }
        let is_named = |name: &[u8]| header.name.eq_ignore_ascii_case(name);
        let is_replaced = asks.remade.is_some_and(|remade| remade.accept.is_some());
        if header.known == KnownHeader::Other
            && (is_named(H2C_SETTINGS) || is_replaced && is_named(b"Accept"))
        {
            continue;
        }
        write::header(out, header.name, header.value);
    }
    if let Credentials::Replace(value) = &asks.passage.credentials
        && !asks.passage.passes_authorization()
    {
        write::header(out, b"Authorization", value.expose().as_bytes());
    }
    forwarding(out, (head, head_bytes), origin.forwarded, hop);
    out.extend_from_slice(hop.server.via(head.version()));
    if !asks.passage.is_plain() {
        edits::apply(out, start, asks.passage.request_headers(), |known| {
            is_editable_in_request(known, asks)
        });
    }
    if let Some(remade) = &asks.remade {
        write::header(out, b"Accept-Encoding", remade.accept_encoding);
        if let Some(content_type) = remade.content_type {
            write::header(out, b"Content-Type", content_type);
        }
        if let Some(accept) = remade.accept {
            write::header(out, b"Accept", accept);
        }
    }
    if asks.upgrade {
        write::header(out, b"Connection", b"upgrade");
        for protocol in protocols(head, head_bytes) {
            write::header(out, b"Upgrade", protocol);
        }
    }
    if asks.expect_continue {
        write::header(out, b"Expect", b"100-continue");
    }
    framing(out, asks.framing);
    write::end_of_head(out);
}

/// Names the settings of an upgrade to HTTP/2, which never passes.
const H2C_SETTINGS: &[u8] = b"HTTP2-Settings";

/// The protocols that a client offers to go over to. HTTP/2 is not among them: a tunnel would carry requests that
/// no rule has seen.
fn protocols<'b>(head: &RequestHead, bytes: &'b [u8]) -> impl Iterator<Item = &'b [u8]> {
    let offers = head
        .headers(bytes)
        .filter(|header| header.known == KnownHeader::Upgrade);
    let protocols = offers.flat_map(|header| header.value.split(|&byte| byte == b','));
    protocols
        .map(<[u8]>::trim_ascii)
        .filter(|protocol| !protocol.is_empty() && !protocol.eq_ignore_ascii_case(b"h2c"))
}

/// Whether a client offers a protocol that it may go over to.
pub(crate) fn offers_upgrade(head: &RequestHead, bytes: &[u8]) -> bool {
    head.upgrade() && protocols(head, bytes).next().is_some()
}

/// Whether a header is a peer's word about hops in front of it.
fn is_claim(known: KnownHeader, name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"X-Forwarded-";
    match known {
        KnownHeader::Forwarded
        | KnownHeader::XForwardedFor
        | KnownHeader::XForwardedHost
        | KnownHeader::XForwardedProto => true,
        KnownHeader::Other => name
            .get(..PREFIX.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX)),
        _ => false,
    }
}

/// Whether an end-to-end header of a request passes as it came.
fn passes(known: KnownHeader, forwarded: ForwardedHeaders, asks: &Outgoing<'_>) -> bool {
    match known {
        KnownHeader::Host | KnownHeader::ContentLength | KnownHeader::Expect => false,
        KnownHeader::Authorization => asks.passage.passes_authorization(),
        KnownHeader::AcceptEncoding => asks.remade.is_none(),
        KnownHeader::ContentType => asks
            .remade
            .is_none_or(|remade| remade.content_type.is_none()),
        KnownHeader::Forwarded => forwarded != ForwardedHeaders::X,
        KnownHeader::XForwardedFor | KnownHeader::XForwardedHost | KnownHeader::XForwardedProto => {
            forwarded == ForwardedHeaders::None
        }
        _ => true,
    }
}

/// Whether rules may change this header of a request. Host is written in front of all others; what a remade
/// request says of itself is what ringway can read.
fn is_editable_in_request(known: KnownHeader, asks: &Outgoing<'_>) -> bool {
    match known {
        KnownHeader::Host | KnownHeader::ContentLength | KnownHeader::Expect => false,
        KnownHeader::AcceptEncoding => asks.remade.is_none(),
        KnownHeader::ContentType => asks
            .remade
            .is_none_or(|remade| remade.content_type.is_none()),
        other => !other.is_hop_by_hop(),
    }
}

/// Whether rules may change this header of an answer.
pub(crate) fn is_editable_in_answer(known: KnownHeader) -> bool {
    known != KnownHeader::ContentLength && !known.is_hop_by_hop()
}

/// Whether the header is about the bytes of a body, and so means nothing beside another one.
pub(crate) fn describes_body(known: KnownHeader, name: &[u8]) -> bool {
    const OTHERS: [&[u8]; 7] = [
        b"etag",
        b"content-md5",
        b"content-range",
        b"content-digest",
        b"repr-digest",
        b"digest",
        b"accept-ranges",
    ];
    match known {
        KnownHeader::ContentEncoding | KnownHeader::LastModified => true,
        KnownHeader::Other => OTHERS.iter().any(|other| name.eq_ignore_ascii_case(other)),
        _ => false,
    }
}

/// Finishes the header lines `out[start..]` of an answer: what the rules on its way change, and what the backend
/// that the client speaks to adds. Those that give way ([`cors::gives_way`]) are not among them.
pub(crate) fn finish_answer(out: &mut Vec<u8>, start: usize, front: &Front<'_>) {
    cors::legacy(out, front);
    if !front.is_plain() {
        edits::apply(out, start, front.headers(), is_editable_in_answer);
    }
    cors::block(out, start, front);
    if let Some(latency) = front.latency {
        out.extend_from_slice(b"X-Simulated-Latency: ");
        write::decimal(out, u64::try_from(latency.as_millis()).unwrap_or(u64::MAX));
        out.extend_from_slice(b"ms\r\n");
    }
}

fn framing(out: &mut Vec<u8>, framing: BodyFraming) {
    match framing {
        BodyFraming::Length(length) => write::content_length(out, length),
        BodyFraming::Chunked => write::transfer_encoding_chunked(out),
        BodyFraming::None | BodyFraming::UntilClose => {}
    }
}

/// Contract: config page, 3.2 and 5. Earlier hops are kept; a `Forwarded` made of `X-Forwarded-For` keeps
/// them too, and the other way.
fn forwarding(
    out: &mut Vec<u8>,
    (head, bytes): (&RequestHead, &[u8]),
    wanted: ForwardedHeaders,
    hop: &Hop<'_>,
) {
    let host = head.authority(bytes).unwrap_or_default();
    let proto: &[u8] = if hop.client_tls { b"https" } else { b"http" };
    let keeps_hops = hop.claims != Claims::Drop;
    if matches!(wanted, ForwardedHeaders::Standard | ForwardedHeaders::Both) {
        out.extend_from_slice(b"Forwarded: ");
        if keeps_hops && head.first(bytes, KnownHeader::Forwarded).is_none() {
            earlier_hops(out, (head, bytes), hop.claims);
        }
        out.extend_from_slice(hop.server.by());
        out.extend_from_slice(hop.client.node());
        if !host.is_empty() {
            out.extend_from_slice(b";host=");
            quoted_authority(out, host);
        }
        out.extend_from_slice(b";proto=");
        out.extend_from_slice(proto);
        out.extend_from_slice(b"\r\n");
    }
    if matches!(wanted, ForwardedHeaders::X | ForwardedHeaders::Both) {
        x_forwarded(out, (head, bytes), (host, proto), hop);
    }
}

/// The older headers, for a request that came to `host` by `proto`. Where a peer only sent `Forwarded`, its hops
/// are told in this form.
fn x_forwarded(
    out: &mut Vec<u8>,
    (head, bytes): (&RequestHead, &[u8]),
    (host, proto): (&[u8], &[u8]),
    hop: &Hop<'_>,
) {
    let mut first = None;
    out.extend_from_slice(b"X-Forwarded-For: ");
    if hop.claims != Claims::Drop {
        for header in head
            .headers(bytes)
            .filter(|h| h.known == KnownHeader::XForwardedFor)
        {
            out.extend_from_slice(header.value);
            out.extend_from_slice(b", ");
        }
        if head.first(bytes, KnownHeader::XForwardedFor).is_none() {
            for element in forwarded::elements(head, bytes) {
                if let Some(client) = element.client {
                    address(out, client);
                    out.extend_from_slice(b", ");
                }
                first.get_or_insert(element);
            }
        }
    }
    out.extend_from_slice(hop.client.address());
    out.extend_from_slice(b"\r\n");
    let is_believed = hop.claims == Claims::Believe;
    let claimed = |known| head.first(bytes, known).filter(|_| is_believed);
    let first = first.filter(|_| is_believed).unwrap_or_default();
    let host = claimed(KnownHeader::XForwardedHost)
        .or(first.host.as_deref())
        .unwrap_or(host);
    if !host.is_empty() {
        write::header(out, b"X-Forwarded-Host", host);
    }
    let proto = claimed(KnownHeader::XForwardedProto)
        .or(first.proto.as_deref())
        .unwrap_or(proto);
    write::header(out, b"X-Forwarded-Proto", proto);
}

/// Hops that came as `X-Forwarded-For`, as elements of `Forwarded`; what is not an address is left out. What a
/// trusted proxy says of scheme and host is about the first of them.
fn earlier_hops(out: &mut Vec<u8>, (head, bytes): (&RequestHead, &[u8]), claims: Claims) {
    let mut said = match claims {
        Claims::Believe => [
            (
                &b";host="[..],
                head.first(bytes, KnownHeader::XForwardedHost),
            ),
            (
                &b";proto="[..],
                head.first(bytes, KnownHeader::XForwardedProto),
            ),
        ],
        Claims::Keep | Claims::Drop => [(&b""[..], None); 2],
    };
    for header in head
        .headers(bytes)
        .filter(|h| h.known == KnownHeader::XForwardedFor)
    {
        for hop in header.value.split(|&byte| byte == b',') {
            let hop = std::str::from_utf8(hop.trim_ascii()).ok();
            let hop = hop.map(|text| text.trim_start_matches('[').trim_end_matches(']'));
            if let Some(hop) = hop.and_then(|text| text.parse::<IpAddr>().ok()) {
                out.extend_from_slice(b"for=");
                forwarded_node(out, hop);
                for (name, value) in &mut said {
                    if let Some(value) = value.take() {
                        out.extend_from_slice(name);
                        quoted_unless_token(out, value);
                    }
                }
                out.extend_from_slice(b", ");
            }
        }
    }
}

/// How an answer reaches a client.
#[derive(Clone, Copy)]
pub(crate) struct Relay<'a> {
    /// Status towards the client.
    pub(crate) status: u16,
    /// Framing towards the client.
    pub(crate) framing: BodyFraming,
    /// `Content-Length` of an answer that has no body here (HEAD, 304).
    pub(crate) declared_length: Option<u64>,
    pub(crate) frame: Frame,
    /// Body in place of the origin's.
    pub(crate) body: Option<&'a [u8]>,
    /// The request.
    pub(crate) client: (&'a RequestHead, &'a [u8]),
    pub(crate) compressors: &'a Places,
    /// Changes of its head.
    pub(crate) front: Front<'a>,
}

/// Appends the head of an origin's final answer, whose body is to be compressed where that is returned.
pub(crate) fn response(
    out: &mut Vec<u8>,
    (head, bytes): (&ResponseHead, &[u8]),
    (server, clock): (&Server, &Clock),
    relay: &Relay<'_>,
) -> Option<Box<Compressor>> {
    if relay.status == head.status() {
        write::status_line_with_reason(out, relay.status, head.reason(bytes));
    } else {
        write::status_line(out, relay.status);
    }
    let start = out.len();
    let is_replaced = relay.body.is_some();
    pass(out, (head, bytes), |known, name| {
        let is_of_other_body = is_replaced && describes_body(known, name);
        !is_of_other_body && !cors::gives_way(&relay.front, known, name)
    });
    if head.first(bytes, KnownHeader::Date).is_none() {
        // Contract: RFC 9110, 6.6.1.
        write::header(out, b"Date", &clock.date());
    }
    out.extend_from_slice(server.via(head.version()));
    if head.find(bytes, b"X-Trickster-Result").is_none() {
        out.extend_from_slice(b"X-Trickster-Result: engine=HTTPProxy; status=");
        out.extend_from_slice(cache_status(head.status()).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    finish_answer(out, start, &relay.front);
    let compressor = compressed(out, start, (head, bytes), relay);
    let (length, body, keep) = match &compressor {
        None => (relay.declared_length, relay.framing, relay.frame.keep),
        Some(_) => match relay.frame.version {
            Version::Http11 => (None, BodyFraming::Chunked, relay.frame.keep),
            Version::Http10 => (None, BodyFraming::UntilClose, false),
        },
    };
    let frame = Frame {
        keep,
        ..relay.frame
    };
    respond::connection(out, frame);
    match length {
        Some(length) => write::content_length(out, length),
        None => framing(out, body),
    }
    write::end_of_head(out);
    compressor
}

/// Decides whether the answer is compressed; its header lines are `out[start..]`.
fn compressed(
    out: &mut Vec<u8>,
    start: usize,
    (head, bytes): (&ResponseHead, &[u8]),
    relay: &Relay<'_>,
) -> Option<Box<Compressor>> {
    if relay.front.compressible_types.is_empty() || relay.body.is_some() {
        return None;
    }
    let length = match relay.framing {
        BodyFraming::Length(length) => Some(length),
        _ => relay.declared_length,
    };
    let answer = compress::Answer {
        status: relay.status,
        length,
        types: relay.front.compressible_types,
        client: relay.client.0,
        client_bytes: relay.client.1,
        places: relay.compressors,
    };
    // What was parsed is faster to look through than what was written.
    let lines = if relay.front.changes_headers() {
        Lines::Written(start)
    } else {
        Lines::Head(head, bytes)
    };
    compress::begin(out, start, lines, &answer)
}

/// Appends an interim answer, such as 100 or 103.
pub(crate) fn interim(out: &mut Vec<u8>, (head, bytes): (&ResponseHead, &[u8])) {
    write::status_line_with_reason(out, head.status(), head.reason(bytes));
    pass(out, (head, bytes), |_, _| true);
    write::end_of_head(out);
}

/// Appends the answer that turns the connection into a tunnel.
pub(crate) fn switching(out: &mut Vec<u8>, (head, bytes): (&ResponseHead, &[u8]), server: &Server) {
    write::status_line_with_reason(out, head.status(), head.reason(bytes));
    pass(out, (head, bytes), |_, _| true);
    out.extend_from_slice(server.via(head.version()));
    write::header(out, b"Connection", b"upgrade");
    for header in head
        .headers(bytes)
        .filter(|h| h.known == KnownHeader::Upgrade)
    {
        write::header(out, b"Upgrade", header.value);
    }
    write::end_of_head(out);
}

/// Appends the end-to-end headers of an answer, those that `keep` wants.
fn pass(
    out: &mut Vec<u8>,
    (head, bytes): (&ResponseHead, &[u8]),
    keep: impl Fn(KnownHeader, &[u8]) -> bool,
) {
    for header in head.headers(bytes) {
        let is_ours = header.hop_by_hop || header.known == KnownHeader::ContentLength;
        if !is_ours && keep(header.known, header.name) {
            write::header(out, header.name, header.value);
        }
    }
}

/// Appends the end of a chunked body.
pub(crate) fn last_chunk(
    out: &mut Vec<u8>,
    trailers: Trailers<'_>,
    is_hop: impl Fn(&[u8]) -> bool,
) {
    out.extend_from_slice(write::LAST_CHUNK);
    for trailer in trailers {
        if !is_hop(trailer.name) {
            write::header(out, trailer.name, trailer.value);
        }
    }
    write::end_of_head(out);
}

#[cfg(test)]
pub(crate) mod tests;
