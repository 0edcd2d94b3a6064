//! A scripted origin: it answers, stalls, resets or misbehaves exactly as a test says, and reports what
//! it received, byte for byte.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;

use crate::answer::{Framing, Head, Headers, Reader, declared, header_of, headers_of};
use crate::patience::patience;
use crate::ports::Port;

/// What an origin saw.
#[derive(Debug)]
pub enum Event {
    /// A connection was accepted.
    Opened(usize),
    /// A request arrived whole.
    Request(Box<Request>),
    /// The other side closed or reset the connection, before the script did.
    ClosedByPeer(usize),
    /// What a script chose to report of the bytes it read.
    Heard(Vec<u8>),
    /// The script of a connection ended, and with it the connection.
    Ended(usize),
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    /// Number of the connection, from 0.
    pub connection: usize,
    /// First word of the request line.
    pub method: String,
    /// Second word.
    pub target: String,
    /// Third word.
    pub version: String,
    /// Its head.
    pub head: Head,
    /// Its body, without framing; empty until read.
    pub body: Vec<u8>,
    /// Trailer lines of a chunked body.
    pub trailers: Headers,
    /// How the body ended.
    pub framing: Framing,
}

impl Request {
    /// The one value of a header.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        header_of(&self.head.headers, name)
    }

    /// All values of a header.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        headers_of(&self.head.headers, name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// An answer of status 200 with a length.
pub fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// The socket, shared with the origin so that it can be ended from outside.
struct Socket(Arc<TcpStream>);

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One accepted connection, in the hands of the script.
pub struct Conn {
    /// Its number, from 0.
    pub number: usize,
    socket: Arc<TcpStream>,
    stream: Box<dyn Stream>,
    reader: Reader,
    events: Sender<Event>,
}

impl Conn {
    /// Reads a request whole and reports it; `None` when the connection has ended.
    pub fn request(&mut self) -> Option<Request> {
        let mut request = self.head()?;
        self.body(&mut request)?;
        self.report(Event::Request(Box::new(request.clone())));
        Some(request)
    }

    /// Reads the head of a request, without a report; `None` when the connection has ended.
    pub fn head(&mut self) -> Option<Request> {
        let Ok(Some(head)) = self.reader.head(&mut self.stream) else {
            self.report(Event::ClosedByPeer(self.number));
            return None;
        };
        let mut words = head.start.splitn(3, ' ').map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        Some(Request {
            connection: self.number,
            method: word(),
            target: word(),
            version: word(),
            head,
            body: Vec::new(),
            trailers: Vec::new(),
            framing: Framing::None,
        })
    }

    /// Reads the body that a head declares; `None` when the connection ended before the body did.
    pub fn body(&mut self, request: &mut Request) -> Option<()> {
        let read = match declared(&request.head.headers) {
            Ok(None) => return Some(()),
            Ok(Some((Framing::Length, length))) => {
                request.framing = Framing::Length;
                let body = self.reader.exactly(&mut self.stream, length);
                body.map(|body| request.body = body)
            }
            Ok(Some((framing, _))) => {
                request.framing = framing;
                let read = self.reader.chunked(&mut self.stream);
                read.map(|(body, trailers)| (request.body, request.trailers) = (body, trailers))
            }
            Err(error) => Err(error),
        };
        if read.is_err() {
            self.report(Event::ClosedByPeer(self.number));
        }
        read.ok()
    }

    /// Reports something to the test.
    pub fn report(&self, event: Event) {
        // The test may be over.
        drop(self.events.send(event));
    }

    /// Sends bytes as they are; false when the other side is gone.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok() && self.stream.flush().is_ok()
    }

    /// Reads once, whatever comes; empty at the end.
    pub fn some(&mut self) -> Vec<u8> {
        if self.reader.buffer.is_empty() {
            // An error ends the connection as much as its end does.
            drop(self.reader.fill(&mut self.stream));
        }
        std::mem::take(&mut self.reader.buffer)
    }

    /// Reads until the other side closes or resets, reports that and returns what came before.
    pub fn until_closed(&mut self) -> Vec<u8> {
        while matches!(self.reader.fill(&mut self.stream), Ok(1..)) {}
        self.report(Event::ClosedByPeer(self.number));
        std::mem::take(&mut self.reader.buffer)
    }

    /// The address that it was connected to.
    pub fn local_address(&self) -> SocketAddr {
        self.socket.local_addr().expect("the socket is open")
    }

    /// Ends the sending direction.
    pub fn half_close(&self) {
        // The other side may have closed already.
        drop(self.socket.shutdown(Shutdown::Write));
    }

    /// Makes the end of the script a reset.
    pub fn reset_at_end(&self) {
        let linger = Some(std::time::Duration::ZERO);
        // Only an invalid socket refuses this, and then there is nothing to reset.
        drop(socket2::SockRef::from(&*self.socket).set_linger(linger));
    }
}

type Script = Arc<dyn Fn(&mut Conn) + Send + Sync>;

/// A listening origin; it ends when dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    events: Receiver<Event>,
    seen: RefCell<VecDeque<Event>>,
    stop: Arc<AtomicU8>,
    _port: Option<Port>,
}

/// States of [`Origin::stop`].
const RUNS: u8 = 0;
const RETIRES: u8 = 1;
const ENDS: u8 = 2;

impl Origin {
    /// Runs `script` for every connection, each on its own thread.
    pub fn start(script: impl Fn(&mut Conn) + Send + Sync + 'static) -> Self {
        Self::listen(Port::claim_listening(), None, Arc::new(script))
    }

    /// As [`Origin::start`], on every address of this machine: 127.0.0.2 is then another origin of the same port.
    pub fn start_everywhere(script: impl Fn(&mut Conn) + Send + Sync + 'static) -> Self {
        Self::listen(Port::claim_listening_everywhere(), None, Arc::new(script))
    }

    /// As [`Origin::start`], at an address of this machine whose port the caller has claimed.
    ///
    /// # Panics
    /// When somebody listens there.
    pub fn start_at(
        address: SocketAddr,
        script: impl Fn(&mut Conn) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("the port is the caller's");
        Self::serve_on(address, listener, None, None, Arc::new(script))
    }

    /// As [`Origin::start`], under TLS.
    pub fn start_tls(
        config: Arc<rustls::ServerConfig>,
        script: impl Fn(&mut Conn) + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Port::claim_listening(), Some(config), Arc::new(script))
    }

    /// Answers every request with what `answer` says, connections kept alive.
    pub fn answering(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start(move |conn| {
            while let Some(request) = conn.request() {
                if !conn.send(answer(&request)) {
                    break;
                }
            }
        })
    }

    fn listen(
        (port, listener): (Port, TcpListener),
        tls: Option<Arc<rustls::ServerConfig>>,
        script: Script,
    ) -> Self {
        Self::serve_on(port.address(), listener, Some(port), tls, script)
    }

    fn serve_on(
        address: SocketAddr,
        listener: TcpListener,
        port: Option<Port>,
        tls: Option<Arc<rustls::ServerConfig>>,
        script: Script,
    ) -> Self {
        let (sender, events) = channel();
        let stop = Arc::new(AtomicU8::new(RUNS));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || accept(&listener, tls.as_ref(), &script, &sender, &stopped));
        Self {
            address,
            events,
            seen: RefCell::default(),
            stop,
            _port: port,
        }
    }

    /// Ends it as a server that is told to stop does: answers what it has begun, then closes its connections.
    pub fn retire(self) {
        self.stop.store(RETIRES, Ordering::SeqCst);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request.
    #[track_caller]
    pub fn next_request(&self) -> Request {
        self.next("a request", |event| match event {
            Event::Request(request) => Ok(*request),
            other => Err(other),
        })
    }

    /// Waits until the peer has closed a connection; returns its number.
    #[track_caller]
    pub fn next_close(&self) -> usize {
        self.next("a close by the peer", |event| match event {
            Event::ClosedByPeer(number) => Ok(number),
            other => Err(other),
        })
    }

    /// Waits for a connection; returns its number.
    #[track_caller]
    pub fn next_open(&self) -> usize {
        self.next("a connection", |event| match event {
            Event::Opened(number) => Ok(number),
            other => Err(other),
        })
    }

    /// The next bytes that a script reports.
    #[track_caller]
    pub fn next_heard(&self) -> Vec<u8> {
        self.next("bytes", |event| match event {
            Event::Heard(bytes) => Ok(bytes),
            other => Err(other),
        })
    }

    /// All requests that have arrived by now and were not taken yet.
    pub fn requests(&self) -> Vec<Request> {
        self.gather();
        let mut requests = Vec::new();
        self.seen.borrow_mut().retain(|event| match event {
            Event::Request(request) => {
                requests.push(Request::clone(request));
                false
            }
            _ => true,
        });
        requests
    }

    /// How many connections have been accepted by now and were not taken yet.
    pub fn opened(&self) -> usize {
        self.gather();
        self.seen
            .borrow()
            .iter()
            .filter(|event| matches!(event, Event::Opened(_)))
            .count()
    }

    fn gather(&self) {
        self.seen.borrow_mut().extend(self.events.try_iter());
    }

    #[track_caller]
    fn next<T>(&self, what: &str, take: impl Fn(Event) -> Result<T, Event>) -> T {
        self.gather();
        let mut seen = self.seen.borrow_mut();
        for _ in 0..seen.len() {
            let event = seen.pop_front().expect("counted");
            match take(event) {
                Ok(found) => return found,
                Err(event) => seen.push_back(event),
            }
        }
        loop {
            match self.events.recv_timeout(patience()) {
                Ok(event) => match take(event) {
                    Ok(found) => return found,
                    Err(event) => seen.push_back(event),
                },
                Err(_) => panic!("the origin never saw {what}; it saw {seen:?}"),
            }
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // Unless it retires.
        let _ = self
            .stop
            .compare_exchange(RUNS, ENDS, Ordering::SeqCst, Ordering::SeqCst);
        // Wakes the accept call; when that fails the thread has ended already.
        drop(TcpStream::connect(self.address));
    }
}

/// Accepts until told to stop, then ends every connection that is left.
fn accept(
    listener: &TcpListener,
    tls: Option<&Arc<rustls::ServerConfig>>,
    script: &Script,
    events: &Sender<Event>,
    stop: &AtomicU8,
) {
    let mut sockets: Vec<Weak<TcpStream>> = Vec::new();
    for (number, socket) in listener.incoming().enumerate() {
        let Ok(socket) = socket else { break };
        if stop.load(Ordering::SeqCst) != RUNS {
            break;
        }
        let socket = Arc::new(socket);
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(Arc::downgrade(&socket));
        let (script, events, tls) = (Arc::clone(script), events.clone(), tls.cloned());
        thread::spawn(move || serve(number, socket, tls, &script, events));
    }
    let what = match stop.load(Ordering::SeqCst) {
        RETIRES => Shutdown::Read,
        _ => Shutdown::Both,
    };
    for socket in sockets.iter().filter_map(Weak::upgrade) {
        // It may have ended by itself meanwhile.
        drop(socket.shutdown(what));
    }
}

fn serve(
    number: usize,
    socket: Arc<TcpStream>,
    tls: Option<Arc<rustls::ServerConfig>>,
    script: &Script,
    events: Sender<Event>,
) {
    socket.set_nodelay(true).expect("the socket is open");
    let stream: Box<dyn Stream> = match tls {
        None => Box::new(Socket(Arc::clone(&socket))),
        Some(config) => {
            let session =
                rustls::ServerConnection::new(config).expect("the configuration is valid");
            Box::new(rustls::StreamOwned::new(
                session,
                Socket(Arc::clone(&socket)),
            ))
        }
    };
    let mut conn = Conn {
        number,
        socket,
        stream,
        reader: Reader::new(),
        events,
    };
    conn.report(Event::Opened(number));
    script(&mut conn);
    let events = conn.events.clone();
    drop(conn);
    drop(events.send(Event::Ended(number)));
}
