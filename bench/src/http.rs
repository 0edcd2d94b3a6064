//! HTTP/1.1 as the instruments need it: where a message ends, and its first line.
//!
//! [`AnswerReader`] serves the load generator, [`RequestReader`] the origin. Both are fed whatever a
//! read returned and keep bytes only while a head is incomplete. Bodies are counted, never stored.
//! Bounds: a head of [`HEAD_BYTES_MAX`] and [`HEADERS_MAX`] fields.

mod body;

use anyhow::{Result, bail};
use body::Body;

/// Longest head either reader accepts.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most header fields either reader accepts.
pub const HEADERS_MAX: usize = 128;

/// One complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The status of the final head; interim heads (1xx) are skipped.
    pub status: u16,
    /// Payload bytes, without chunk framing.
    pub body_bytes: u64,
    /// Whether the server ends the connection after this answer.
    pub close: bool,
}

/// Reads the answers of one connection, one at a time.
#[derive(Debug)]
pub struct AnswerReader {
    answers_head_only: bool,
    held: Vec<u8>,
    stage: Option<(Answer, Body)>,
}

impl AnswerReader {
    /// A reader at the start of a connection; `answers_head_only` when the requests are HEAD.
    #[must_use]
    pub fn new(answers_head_only: bool) -> Self {
        Self {
            answers_head_only,
            held: Vec::new(),
            stage: None,
        }
    }

    /// Takes what a read returned. Returns the answer when it is complete.
    ///
    /// Bytes after a complete answer are an error: the generator never has two requests in flight.
    pub fn feed(&mut self, input: &[u8]) -> Result<Option<Answer>> {
        let joined;
        let mut input = input;
        if self.stage.is_none() && !self.held.is_empty() {
            self.held.extend_from_slice(input);
            joined = std::mem::take(&mut self.held);
            input = &joined;
        }
        loop {
            if self.stage.is_none() {
                let Some((length, answer, body)) = parse_answer(input, self.answers_head_only)?
                else {
                    self.held.extend_from_slice(input);
                    return Ok(None);
                };
                input = &input[length..];
                if answer.status < 200 {
                    continue;
                }
                self.stage = Some((answer, body));
            }
            let Some((answer, body)) = &mut self.stage else {
                continue;
            };
            let taken = body.take(input)?;
            answer.body_bytes += taken.payload_bytes;
            if !taken.done {
                return Ok(None);
            }
            if taken.used < input.len() {
                bail!(
                    "{} bytes after the end of the answer",
                    input.len() - taken.used
                );
            }
            let answer = *answer;
            self.stage = None;
            return Ok(Some(answer));
        }
    }

    /// The server closed. Returns the answer that only the close could end.
    pub fn end(&mut self) -> Result<Option<Answer>> {
        match self.stage.take() {
            Some((answer, Body::UntilClose)) => Ok(Some(answer)),
            Some(_) => bail!("closed in the middle of a body"),
            None if self.held.is_empty() => Ok(None),
            None => bail!("closed in the middle of a head"),
        }
    }
}

/// Parses one answer head. `None` when it is incomplete.
fn parse_answer(input: &[u8], head_only: bool) -> Result<Option<(usize, Answer, Body)>> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let length = match head.parse(input)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial if input.len() >= HEAD_BYTES_MAX => bail!("head too long"),
        httparse::Status::Partial => return Ok(None),
    };
    let status = head.code.unwrap_or(0);
    let framing = body::framing(head.headers)?;
    let bodiless = head_only || status < 200 || status == 204 || status == 304;
    let body = if bodiless {
        Body::Length(0)
    } else {
        framing.unwrap_or(Body::UntilClose)
    };
    let keeps = body::keeps_alive(head.version == Some(1), head.headers);
    let close = !keeps || matches!(body, Body::UntilClose);
    Ok(Some((
        length,
        Answer {
            status,
            body_bytes: 0,
            close,
        },
        body,
    )))
}

/// What the origin needs of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The path and query as sent.
    pub target: String,
    /// Whether the answer must have no body.
    pub head_only: bool,
    /// Whether the client ends the connection after this exchange.
    pub close: bool,
}

/// Reads the requests of one connection; they may be pipelined.
#[derive(Debug, Default)]
pub struct RequestReader {
    held: Vec<u8>,
    stage: Option<(Request, Body)>,
}

impl RequestReader {
    /// Takes what a read returned and appends every request it completes.
    pub fn feed(&mut self, input: &[u8], requests: &mut Vec<Request>) -> Result<()> {
        let joined;
        let mut input = input;
        if self.stage.is_none() && !self.held.is_empty() {
            self.held.extend_from_slice(input);
            joined = std::mem::take(&mut self.held);
            input = &joined;
        }
        loop {
            if self.stage.is_none() {
                if input.is_empty() {
                    return Ok(());
                }
                let Some((length, request, body)) = parse_request(input)? else {
                    self.held.extend_from_slice(input);
                    return Ok(());
                };
                input = &input[length..];
                self.stage = Some((request, body));
            }
            let Some((_, body)) = &mut self.stage else {
                continue;
            };
            let taken = body.take(input)?;
            input = &input[taken.used..];
            if !taken.done {
                return Ok(());
            }
            requests.extend(self.stage.take().map(|(request, _)| request));
        }
    }
}

/// Parses one request head. `None` when it is incomplete.
fn parse_request(input: &[u8]) -> Result<Option<(usize, Request, Body)>> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let length = match head.parse(input)? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial if input.len() >= HEAD_BYTES_MAX => bail!("head too long"),
        httparse::Status::Partial => return Ok(None),
    };
    let body = body::framing(head.headers)?.unwrap_or(Body::Length(0));
    let request = Request {
        target: head.path.unwrap_or("/").to_owned(),
        head_only: head.method == Some("HEAD"),
        close: !body::keeps_alive(head.version == Some(1), head.headers),
    };
    Ok(Some((length, request, body)))
}

#[cfg(test)]
mod tests;
