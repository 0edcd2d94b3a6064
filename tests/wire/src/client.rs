//! A client that sends exactly the bytes it is told to, and reads answers strictly.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use crate::answer::{Answer, Framing, Head, Reader, bad, cut, declared};
use crate::patience::patience;

/// One connection in the clear.
pub type Client = Wire<TcpStream>;
/// One connection under TLS.
pub type TlsClient = Wire<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>;

/// One connection.
#[derive(Debug)]
pub struct Wire<S> {
    stream: S,
    reader: Reader,
}

impl Client {
    /// Connects.
    ///
    /// # Panics
    /// When nobody listens.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Self {
        match Self::try_connect(address) {
            Ok(client) => client,
            Err(error) => panic!("cannot connect to {address}: {error}"),
        }
    }

    /// Connects, or says why not.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience())?;
        stream.set_read_timeout(Some(patience()))?;
        stream.set_write_timeout(Some(patience()))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    /// Ends the sending direction.
    #[track_caller]
    pub fn half_close(&self) {
        self.stream
            .shutdown(Shutdown::Write)
            .expect("the connection is open");
    }

    /// Ends the connection with a reset instead of an orderly close.
    pub fn reset(self) {
        let linger = Some(std::time::Duration::ZERO);
        socket2::SockRef::from(&self.stream)
            .set_linger(linger)
            .expect("the socket is open");
    }

    /// A second handle, to write while the first reads.
    pub fn writer(&self) -> TcpStream {
        self.stream.try_clone().expect("the socket is open")
    }

    /// The address of this end.
    pub fn local_address(&self) -> SocketAddr {
        self.stream.local_addr().expect("the socket is open")
    }
}

impl TlsClient {
    /// Connects under TLS, asking for `name`; the handshake is made with the first bytes.
    ///
    /// # Panics
    /// When nobody listens.
    #[track_caller]
    pub fn connect_tls(
        address: SocketAddr,
        name: &str,
        config: &Arc<rustls::ClientConfig>,
    ) -> Self {
        let socket = Client::connect(address).stream;
        let name = rustls::pki_types::ServerName::try_from(name.to_owned()).expect("a valid name");
        let session = rustls::ClientConnection::new(Arc::clone(config), name);
        Self::over(rustls::StreamOwned::new(
            session.expect("a valid configuration"),
            socket,
        ))
    }

    /// The certificate that the other side showed.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        let chain = self.stream.conn.peer_certificates()?;
        chain.first().map(|certificate| certificate.as_ref())
    }
}

impl<S: Read + Write> Wire<S> {
    /// Speaks over a stream that is already there.
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            reader: Reader::new(),
        }
    }

    /// Reads to an end that must be announced, not merely a cut: under TLS by its closing message.
    #[track_caller]
    pub fn rest_until_proper_end(&mut self) -> Vec<u8> {
        while self
            .reader
            .fill(&mut self.stream)
            .map_err(late)
            .expect("an announced end")
            > 0
        {}
        std::mem::take(&mut self.reader.buffer)
    }

    /// The stream below.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        if let Err(error) = self.try_send(bytes) {
            panic!("cannot send: {error}");
        }
        self
    }

    /// Sends bytes as they are; the other side may have closed already.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Sends `GET path` and reads its answer.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"))
            .answer()
    }

    /// Reads a final answer to anything but HEAD, skipping interim ones.
    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        self.answer_to("GET")
    }

    /// Reads a final answer, skipping interim ones.
    #[track_caller]
    pub fn answer_to(&mut self, method: &str) -> Answer {
        match self.try_answer_to(method) {
            Ok(answer) => answer,
            Err(error) => panic!("no answer to {method}: {error}"),
        }
    }

    /// Reads a final answer, or says what was wrong.
    pub fn try_answer_to(&mut self, method: &str) -> io::Result<Answer> {
        loop {
            let head = self.try_head()?;
            let status = status_of(&head)?;
            if status >= 200 || status == 101 {
                return self.body_of(head, status, method);
            }
        }
    }

    /// Reads one head, interim or final, and nothing of its body.
    #[track_caller]
    pub fn head(&mut self) -> (u16, Head) {
        let head = self
            .try_head()
            .unwrap_or_else(|error| panic!("no head: {error}"));
        (status_of(&head).expect("an answer has a status"), head)
    }

    fn try_head(&mut self) -> io::Result<Head> {
        let head = self.reader.head(&mut self.stream).map_err(late)?;
        head.ok_or_else(|| cut("the connection was closed"))
    }

    fn body_of(&mut self, head: Head, status: u16, method: &str) -> io::Result<Answer> {
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
            trailers: Vec::new(),
            framing: Framing::None,
        };
        if method == "HEAD" || matches!(status, 101 | 204 | 304) {
            return Ok(answer);
        }
        match declared(&answer.head.headers)? {
            Some((Framing::Length, length)) => {
                answer.framing = Framing::Length;
                answer.body = self
                    .reader
                    .exactly(&mut self.stream, length)
                    .map_err(late)?;
            }
            Some((framing, _)) => {
                answer.framing = framing;
                (answer.body, answer.trailers) =
                    self.reader.chunked(&mut self.stream).map_err(late)?;
            }
            None => {
                answer.framing = Framing::Close;
                answer.body = self.try_rest()?;
            }
        }
        Ok(answer)
    }

    /// Reads exactly `count` bytes.
    #[track_caller]
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let bytes = self.reader.exactly(&mut self.stream, count).map_err(late);
        bytes.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads one chunk of a chunked body; empty for the last.
    #[track_caller]
    pub fn chunk(&mut self) -> Vec<u8> {
        let chunk = self.reader.chunk(&mut self.stream).map_err(late);
        chunk.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads and counts bytes until `count` are there, keeping none.
    #[track_caller]
    pub fn skip(&mut self, count: u64) {
        let mut seen = 0;
        loop {
            seen += self.reader.buffer.len() as u64;
            self.reader.buffer.clear();
            if seen >= count {
                assert_eq!(seen, count, "more bytes than expected");
                return;
            }
            let read = self
                .reader
                .fill(&mut self.stream)
                .map_err(late)
                .expect("more bytes come");
            assert!(read > 0, "the stream ended after {seen} of {count} bytes");
        }
    }

    /// Reads to the end of the connection; a reset ends it too.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        self.try_rest().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reads to the end of the connection, or says that it never came.
    pub fn try_rest(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.reader.fill(&mut self.stream) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if ended(&error) => break,
                Err(error) => return Err(late(error)),
            }
        }
        Ok(std::mem::take(&mut self.reader.buffer))
    }

    /// Checks that the other side has closed and sent nothing more.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        let rest = self.rest();
        assert!(
            rest.is_empty(),
            "bytes before the close: {:?}",
            String::from_utf8_lossy(&rest)
        );
    }
}

/// A reset, or a TLS stream closed without its closing message, ends a connection as well.
fn ended(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe
    )
}

/// Names a read that took too long for what it is.
fn late(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => io::Error::new(
            ErrorKind::TimedOut,
            "nothing came within the test's patience",
        ),
        _ => error,
    }
}

/// The status of an answer's head.
fn status_of(head: &Head) -> io::Result<u16> {
    let mut words = head.start.splitn(3, ' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().unwrap_or_default();
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || status.len() != 3 {
        return Err(bad(&format!("status line {:?}", head.start)));
    }
    status
        .parse()
        .map_err(|_| bad(&format!("status line {:?}", head.start)))
}
