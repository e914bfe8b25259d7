//! A web server of the test's own: it answers as instructed, also with the faults of real servers.
//! One thread a connection, kept alive.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the first and last requested byte.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub ending: Ending,
}

/// The end of a transfer.
#[derive(Clone, Debug)]
pub enum Ending {
    /// With its last byte.
    Whole,
    /// With a closed connection instead of an answer.
    Silence,
    /// With a closed connection after so many bytes.
    CutAfter(usize),
    /// Never: after its last byte spaces follow until the client stops reading.
    Endless,
    /// Never: after so many bytes no more come.
    StallAfter(usize),
    /// With its last byte, at the pace of a link.
    #[allow(dead_code, reason = "only the benchmark has a slow link")]
    Over(Arc<Link>),
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), ending: Ending::Whole }
    }

    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::status(200) }
    }

    /// Answers with a file, or the requested part of it.
    pub fn file(request: &Request, bytes: &[u8]) -> Self {
        let Some((first, last)) = request.range() else { return Self::ok(bytes) };
        let size = bytes.len();
        if first >= size {
            return Self::status(416).with("Content-Range", &format!("bytes */{size}"));
        }
        let end = (last + 1).min(size);
        let range = format!("bytes {first}-{}/{size}", end - 1);
        let part = Self { body: bytes[first..end].to_vec(), ..Self::status(206) };
        part.with("Content-Range", &range)
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }

    pub fn ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }
}

/// A link of limited speed that all transfers of a server share.
#[derive(Debug)]
pub struct Link {
    pub latency: Duration,
    pub bytes_per_second: f64,
    free: Mutex<Instant>,
}

impl Link {
    #[allow(dead_code, reason = "only the benchmark has a slow link")]
    pub fn new(latency: Duration, bytes_per_second: f64) -> Arc<Self> {
        Arc::new(Self { latency, bytes_per_second, free: Mutex::new(Instant::now()) })
    }

    /// Waits until the link has carried so many bytes more.
    fn carry(&self, bytes: usize) {
        let arrives = {
            let mut free = self.free.lock().unwrap();
            let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
            *free = (*free).max(Instant::now()) + takes;
            *free
        };
        std::thread::sleep(arrives.saturating_duration_since(Instant::now()));
    }
}

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

/// A server on its own port, until the process ends.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    /// Whether connections are refused.
    is_away: Arc<AtomicBool>,
    /// Every connection that was accepted.
    streams: Arc<Mutex<Vec<TcpStream>>>,
    /// Whether a handler panicked, which a client would see as a broken link.
    has_panicked: Arc<AtomicBool>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let has_panicked = self.has_panicked.load(Ordering::SeqCst);
        assert!(!has_panicked || std::thread::panicking(), "the server's handler panicked");
    }
}

impl Server {
    pub fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let handler: Arc<Handler> = Arc::new(handler);
        let [is_away, has_panicked] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (seen, away, panicked) = (requests.clone(), is_away.clone(), has_panicked.clone());
        let streams = Arc::new(Mutex::new(Vec::new()));
        let accepted = streams.clone();
        std::thread::spawn(move || {
            let mut listener = listener;
            loop {
                let (stream, _) = listener.accept().unwrap();
                if away.load(Ordering::SeqCst) {
                    drop((stream, listener));
                    while away.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    listener = TcpListener::bind(address).unwrap();
                    continue;
                }
                accepted.lock().unwrap().push(stream.try_clone().unwrap());
                let (handler, seen, panicked) = (handler.clone(), seen.clone(), panicked.clone());
                std::thread::spawn(move || {
                    // A client that disconnects in the middle is part of the tests.
                    let serve = || drop(serve(stream, &*handler, &seen));
                    if catch_unwind(AssertUnwindSafe(serve)).is_err() {
                        panicked.store(true, Ordering::SeqCst);
                    }
                });
            }
        });
        Self { address, requests, is_away, streams, has_panicked }
    }

    /// Closes all connections and refuses new ones for some time, as a machine that restarts does.
    #[allow(dead_code, reason = "only the long proofs need it")]
    pub fn away_for(&self, time: Duration) {
        self.is_away.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts connections.
        drop(TcpStream::connect(self.address));
        for stream in self.streams.lock().unwrap().drain(..) {
            // Many were closed by the client.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        std::thread::sleep(time);
        self.is_away.store(false, Ordering::SeqCst);
    }

    /// `http://127.0.0.1:PORT`, followed by a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, handler: &Handler, seen: &Mutex<Vec<Request>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = read_request(&mut reader)? {
        seen.lock().unwrap().push(request.clone());
        let reply = handler(&request);
        if !write_reply(&stream, &request, reply)? {
            break;
        }
    }
    Ok(())
}

fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_string);
    let method = words.next().unwrap();
    let mut request =
        Request { method, target: words.next().unwrap_or_default(), ..Request::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.insert(name.to_ascii_lowercase(), value.trim().to_string());
    }
    let length = request.header("content-length").map_or(0, |text| text.parse().unwrap());
    request.body = vec![0; length];
    reader.read_exact(&mut request.body)?;
    Ok(Some(request))
}

/// Writes the reply; returns whether the connection continues.
fn write_reply(mut stream: &TcpStream, request: &Request, reply: Reply) -> std::io::Result<bool> {
    let mut head = format!("HTTP/1.1 {} X\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let has_length =
        reply.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    if !has_length && reply.status != 204 {
        let is_endless = matches!(reply.ending, Ending::Endless);
        let length = if is_endless { usize::MAX >> 1 } else { reply.body.len() };
        head += &format!("Content-Length: {length}\r\n");
    }
    if let Ending::Silence = reply.ending {
        stream.shutdown(std::net::Shutdown::Both)?;
        return Ok(false);
    }
    if let Ending::Over(link) = &reply.ending {
        std::thread::sleep(link.latency);
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    if request.method == "HEAD" {
        return Ok(true);
    }
    let body = &reply.body;
    match reply.ending {
        Ending::Whole | Ending::Silence => stream.write_all(body)?,
        Ending::Endless => {
            stream.write_all(body)?;
            loop {
                stream.write_all(&[b' '; 64 << 10])?;
            }
        }
        Ending::CutAfter(count) => {
            stream.write_all(&body[..count.min(body.len())])?;
            stream.shutdown(std::net::Shutdown::Both)?;
            return Ok(false);
        }
        Ending::StallAfter(count) => {
            stream.write_all(&body[..count.min(body.len())])?;
            // Until the client gives up.
            let _ = stream.read(&mut [0]);
            return Ok(false);
        }
        Ending::Over(link) => {
            for chunk in body.chunks(64 << 10) {
                link.carry(chunk.len());
                stream.write_all(chunk)?;
            }
        }
    }
    Ok(true)
}
