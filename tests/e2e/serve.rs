//! `gimlet serve` over the loopback address: answers, limits, bad input, and its end.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::command::{Ended, Train};
use crate::folder::Folder;
use crate::generate::gimlet;
use crate::resume::send as signal;

/// Threads of libtorch.
const THREADS: usize = 2;

/// A server that runs, killed when dropped.
pub struct Server {
    child: Option<Child>,
    /// Its address, without the protocol.
    pub address: String,
    stderr: Option<thread::JoinHandle<String>>,
}

impl Server {
    /// Starts it with these flags, and waits until it listens.
    pub fn start(folder: &Folder, words: &[&str]) -> Self {
        let words = [&["serve", "--port=0"][..], words].concat();
        let mut command = gimlet(folder, &words).num_threads(THREADS).command();
        let mut child = command.stderr(Stdio::piped()).spawn().expect("gimlet starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut said = String::new();
        let address = loop {
            let start = said.len();
            assert!(stderr.read_line(&mut said).expect("it is text") > 0, "it ended:\n{said}");
            if let Some((_, rest)) = said[start..].split_once("http://") {
                break rest.split(';').next().expect("split yields one part").to_string();
            }
        };
        let stderr = thread::spawn(move || {
            stderr.read_to_string(&mut said).expect("it is text");
            said
        });
        Self { child: Some(child), address, stderr: Some(stderr) }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).expect("it listens")
    }

    /// Sends a request with further lines of a header, and returns the status, the head and the body.
    pub fn request(&self, line: &str, header: &str, body: &[u8]) -> (u16, String, String) {
        read(self.send(line, header, body))
    }

    /// Sends a request, and returns the connection.
    fn send(&self, line: &str, header: &str, body: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        let length = body.len();
        let head = format!(
            "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{header}\r\n"
        );
        // A server that refuses a large body does not read it all.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        stream
    }

    /// Sends a body of JSON, and returns the status and the answer.
    pub fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let (status, _, body) = self.request(
            &format!("POST {path}"),
            "Content-Type: application/json\r\n",
            body.as_bytes(),
        );
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Asks for a path, and returns the status and the body.
    pub fn get(&self, path: &str) -> (u16, String) {
        let (status, _, body) = self.request(&format!("GET {path}"), "", b"");
        (status, body)
    }

    /// Asks it to end, and returns its status and standard error.
    pub fn ends(mut self) -> Ended {
        let mut child = self.child.take().expect("it runs");
        signal(&child, libc::SIGTERM);
        let status = child.wait().expect("it ends").code();
        let stderr = self.stderr.take().expect("it is read").join().expect("it is text");
        Ended { status, stdout: String::new(), stderr }
    }

    /// Kilobytes in memory.
    fn resident(&self) -> u64 {
        let id = self.child.as_ref().expect("it runs").id();
        let text = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let line =
            text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads an answer to its end: the status, the head and the body.
fn read(mut stream: TcpStream) -> (u16, String, String) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head.to_ascii_lowercase(), body.to_string())
}

#[test]
fn answers_are_those_of_the_command_line_and_bad_input_harms_nobody() {
    let folder = Folder::pretrained();
    let server = Server::start(
        &folder,
        &["--checkpoint=pretrained", "--max_body_bytes=100000", "--max_wait_ms=20"],
    );
    let ask = |text: &str| json!({"inputs": text, "temperature": 0, "max_tokens": 7}).to_string();
    let words = ["generate", "--checkpoint=pretrained", "--temperature=0", "--max_tokens=7"];
    let texts = ["a", "a longer text", "b c", "d"];
    let expected = gimlet(&folder, &[&words[..], &texts].concat()).succeeds().stdout;

    // Requests that never end, that break off, and that lie about themselves.
    let mut slow: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"POST /v1/generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"inp").expect("it listens");
    }
    drop(slow.split_off(10));
    let clients_of = (&server, &ask);
    let found: Vec<String> = thread::scope(|scope| {
        let (server, ask) = clients_of;
        let clients =
            texts.map(|text| scope.spawn(move || server.post("/v1/generate", &ask(text))));
        clients
            .map(|client| {
                let (status, answer) = client.join().expect("the client ends");
                assert_eq!(status, 200, "{answer}");
                answer["results"][0]["predictions"][0]["text"].as_str().expect("a text").to_string()
            })
            .into()
    });
    assert_eq!(found.join("\n") + "\n", expected);
    let (_, several) = server.post(
        "/v1/generate",
        &json!({"inputs": texts, "temperature": 0, "max_tokens": 7}).to_string(),
    );
    assert_eq!(several["results"][3]["predictions"][0]["text"], found[3].as_str());

    refuse_bad_input(&server, &ask("a"));
    let (status, scores) =
        server.post("/v1/score", &json!({"inputs": "a", "targets": "bc"}).to_string());
    assert_eq!(status, 200, "{scores}");
    let alone = gimlet(&folder, &["score", "--checkpoint=pretrained", "a", "bc"]).succeeds().stdout;
    let (score, alone) = (
        scores["scores"][0].as_f64().expect("a number"),
        alone.trim().parse::<f64>().expect("a number"),
    );
    assert!((score - alone).abs() < 1e-4, "{score} {alone}");

    // The parts of a stream are the whole.
    let body =
        json!({"inputs": "a", "temperature": 0, "max_tokens": 7, "stream": true}).to_string();
    let (status, head, body) =
        server.request("POST /v1/generate", "Content-Type: application/json\r\n", body.as_bytes());
    assert!(status == 200 && head.contains("text/event-stream"), "{head}");
    let events: Vec<Value> = body
        .lines()
        .filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).expect("JSON")))
        .collect();
    let parts: String = events.iter().filter_map(|event| event["text"].as_str()).collect();
    let whole = events.last().expect("there are events")["predictions"][0]["text"].clone();
    assert_eq!((parts.as_str(), &whole), (found[0].as_str(), &json!(found[0])));

    assert_eq!(server.get("/healthz"), (200, "ok\n".to_string()));
    assert!(server.get("/").1.contains("<textarea"));
    let (_, metrics) = server.get("/metrics");
    assert!(
        metrics.contains("gimlet_requests_total{path=\"/v1/generate\",status=\"413\"} 1"),
        "{metrics}"
    );
    drop(slow);
    let ended = server.ends();
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("all texts that waited are answered"), "{}", ended.stderr);
}

/// Sends a byte at a time, until the server closes the connection, and returns its answer.
fn drip(mut stream: TcpStream, start: &str) -> String {
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("it is not zero");
    stream.write_all(start.as_bytes()).expect("it listens");
    let (mut answer, since) = (Vec::new(), Instant::now());
    loop {
        let mut bytes = [0; 1024];
        match stream.read(&mut bytes) {
            Ok(0) => return String::from_utf8(answer).expect("it is text"),
            Ok(count) => answer.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert!(since.elapsed() < Duration::from_secs(30), "the server waits for ever");
            }
            // The server did not read the last bytes.
            Err(_) => return String::from_utf8(answer).expect("it is text"),
        }
        let _ = stream.write_all(b"a");
    }
}

/// Checks that what is wrong with requests is told; `good` is one that is right.
fn refuse_bad_input(server: &Server, good: &str) {
    let refused = |body: &str, status: u16, part: &str| {
        let (found, answer) = server.post("/v1/generate", body);
        assert_eq!(found, status, "{answer}");
        assert!(answer["error"].as_str().is_some_and(|said| said.contains(part)), "{answer}");
    };
    refused("{\"inputs\": ", 400, "the body is not JSON");
    refused("{\"inputs\": 3}", 400, "`inputs` is a number");
    refused("{\"inputs\": \"a\", \"beam\": 2, \"topk\": 2}", 400, "give those of one of both");
    refused("{\"inputs\": \"a\", \"max_tokens\": 1000000000}", 400, "max_tokens");
    refused(&json!({"inputs": "x".repeat(10 << 20)}).to_string(), 413, "100000 bytes");
    refused(&"[".repeat(50_000), 400, "not JSON");
    let (status, _, body) = server.request("POST /v1/generate", "", good.as_bytes());
    assert!(status == 415 && body.contains("there is no header `Content-Type`"), "{body}");
    let (status, _, body) =
        server.request("POST /v1/score", "Content-Type: text/plain\r\n", good.as_bytes());
    assert!(
        status == 415
            && body.contains("is `text/plain`, expected `Content-Type: application/json`"),
        "{body}"
    );
    for (path, expected) in [("/v1/generate", 405), ("/elsewhere", 404)] {
        let (status, body) = server.get(path);
        assert_eq!(status, expected, "{body}");
        let said = format!("there is no `GET {path}`, expected POST /v1/generate, POST /v1/score");
        assert!(body.contains("POST /v1/completions, GET /v1/models, GET /healthz"), "{body}");
        assert!(body.contains(&said), "{body}");
    }
}

#[test]
fn limits_refuse_a_token_is_asked_for_and_the_end_answers_those_who_wait() {
    let folder = Folder::pretrained();
    folder.write("token", "secret\n");
    let flags = [
        "--checkpoint=pretrained",
        "--token_file=token",
        "--queue=2",
        "--timeout_secs=2",
        "--batch_size=1",
    ];
    let server = Server::start(&folder, &flags);
    let header = "Content-Type: application/json\r\nAuthorization: Bearer secret\r\n";
    let long =
        json!({"inputs": "a", "temperature": 0, "max_tokens": 2048, "num_decodes": 64}).to_string();
    let short = json!({"inputs": "a", "max_tokens": 2}).to_string();
    assert_eq!(server.post("/v1/generate", &short).0, 401);
    assert_eq!(server.get("/healthz").0, 200);
    let three = json!({"inputs": ["a", "b", "c"]}).to_string();
    let (status, head, _) = server.request("POST /v1/generate", header, three.as_bytes());
    assert!(status == 429 && head.contains("retry-after: 1"), "{head}");

    // Meanwhile neither headers nor a body that come slowly hold a connection.
    let slow =
        ["X: a".to_string(), format!("{header}Content-Length: 90000\r\n\r\n{{\"a")].map(|rest| {
            let stream = server.connect();
            thread::spawn(move || {
                drip(stream, &format!("POST /v1/generate HTTP/1.1\r\nHost: x\r\n{rest}"))
            })
        });
    let start = Instant::now();
    assert_eq!(server.request("POST /v1/generate", header, long.as_bytes()).0, 504);
    assert!(start.elapsed() < Duration::from_secs(6));
    let [of_headers, of_body] = slow.map(|client| client.join().expect("it ends"));
    assert!(!of_headers.contains("200 OK"), "{of_headers}");
    assert!(of_body.starts_with("HTTP/1.1 504 "), "{of_body}");
    // The decoding that nobody waits for has ended.
    assert_eq!(server.request("POST /v1/generate", header, short.as_bytes()).0, 200);
    assert_eq!(server.ends().status, Some(0));
}

/// Seconds of the load; ten minutes unless the variable says otherwise.
fn soak_time() -> Duration {
    let seconds = std::env::var("GIMLET_SOAK_SECS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(600))
}

/// Tokens a second, as `gimlet generate` tells with -v.
fn offline(folder: &Folder, flags: &[&str]) -> f64 {
    let words =
        [&["generate", "--checkpoint=pretrained", "-v", "--file=texts.txt"][..], flags].concat();
    let said = gimlet(folder, &words).num_threads(THREADS).succeeds().stderr;
    let line = said.lines().find(|line| line.contains(" tokens in ")).expect("it is told");
    line.split(", ").last().and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number")
}

/// Tokens of all answers so far.
fn answered_tokens(server: &Server) -> f64 {
    let (_, metrics) = server.get("/metrics");
    let line = metrics.lines().find_map(|line| line.strip_prefix("gimlet_generated_tokens_total "));
    line.expect("it is counted").parse().expect("a number")
}

/// Tokens a second that 64 clients get who ask for the texts.
fn online(server: &Server, path: &str, ask: Ask, texts: &[String]) -> f64 {
    let (next, before, start) = (AtomicUsize::new(0), answered_tokens(server), Instant::now());
    thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                while let Some(text) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (status, answer) = server.post(path, &ask(text).to_string());
                    assert_eq!(status, 200, "{answer}");
                }
            });
        }
    });
    (answered_tokens(server) - before) / start.elapsed().as_secs_f64()
}

/// The numbers of requests that were answered whole, streamed to their end, and dropped by the client.
type Counts = [usize; 3];

/// 64 clients ask for the texts through both interfaces at once. An eighth of the requests is streamed, an eighth is dropped at once,
/// and an eighth is a stream that is dropped when it has begun.
fn mixed(server: &Server, texts: &[String]) -> Counts {
    let (next, counts) = (AtomicUsize::new(0), [0; 3].map(AtomicUsize::new));
    let client = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(text) = texts.get(index) else { return };
        let (path, ask) = ASKED[index % 2];
        let [is_streamed, is_dropped] =
            [[0, 1], [1, 2]].map(|those| those.contains(&(index / 2 % 8)));
        let mut body = ask(text);
        body["stream"] = json!(is_streamed);
        let body = body.to_string();
        let mut stream = server.send(
            &format!("POST {path}"),
            "Content-Type: application/json\r\n",
            body.as_bytes(),
        );
        let kind = if is_dropped { 2 } else { usize::from(is_streamed) };
        counts[kind].fetch_add(1, Ordering::Relaxed);
        match is_dropped {
            true if is_streamed => drop(stream.read(&mut [0; 64])),
            true => (),
            false => {
                let (status, _, answer) = read(stream);
                let end = ["\"predictions\"", "data: [DONE]"][index % 2];
                let is_whole = !is_streamed || answer.contains(end);
                assert!(status == 200 && is_whole && !answer.contains("\"error\""), "{answer}");
            }
        }
    };
    thread::scope(|scope| (0..64).for_each(|_| drop(scope.spawn(client))));
    counts.map(AtomicUsize::into_inner)
}

/// Makes a request for a text.
type Ask = fn(&str) -> Value;

/// The paths that clients ask, and their requests for a text.
const ASKED: [(&str, Ask); 2] = [
    ("/v1/generate", |text| json!({"inputs": text, "temperature": 0, "max_tokens": 32})),
    (
        "/v1/completions",
        |text| json!({"model": "pretrained", "prompt": text, "temperature": 0, "max_tokens": 32}),
    ),
];

#[test]
#[ignore = "takes ten minutes: `make soak`"]
fn sixty_four_clients_are_served_as_fast_as_a_file_and_memory_does_not_grow() {
    let folder = Folder::new();
    // A step takes long enough that the model is what is measured, and not the clients beside it.
    let dimensions = [("emb_dim", 512), ("mlp_dim", 2048), ("num_heads", 8), ("head_dim", 64)];
    let train = folder.pretrain(1).bind_text("MODEL_DIR", "pretrained");
    let bound = |train: Train, (name, value): (&str, usize)| {
        train.bind(&format!("network.T5Config.{name}"), value)
    };
    dimensions.into_iter().fold(train, bound).succeeds();
    let texts: Vec<String> =
        (0..512).map(|i| format!("text {i} {}", "and more ".repeat(i * 7 % 5))).collect();
    folder.write("texts.txt", texts.join("\n"));
    let flags = ["--temperature=0", "--max_tokens=32", "--batch_size=32"];
    let server = Server::start(&folder, &["--checkpoint=pretrained", "--batch_size=32"]);
    let end = Instant::now() + soak_time();
    let (mut ratios, mut resident) = (ASKED.map(|_| Vec::new()), Vec::new());
    let mut counts = Counts::default();
    while Instant::now() < end {
        let alone = offline(&folder, &flags);
        for ((path, ask), ratios) in ASKED.iter().zip(&mut ratios) {
            let online = online(&server, path, *ask, &texts);
            ratios.push(online / alone);
            resident.push(server.resident());
            let kilobytes = server.resident();
            eprintln!("{path}: {online:.0} tokens/s, {alone:.0} from a file, {kilobytes} kB");
            counts[0] += texts.len();
        }
        counts.iter_mut().zip(mixed(&server, &texts)).for_each(|(sum, more)| *sum += more);
        resident.push(server.resident());
        let [whole, streamed, dropped] = counts;
        eprintln!(
            "{whole} answers, {streamed} streams, {dropped} dropped, {:?} kB",
            resident.last()
        );
    }
    for ((path, _), ratios) in ASKED.iter().zip(&mut ratios) {
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        eprintln!(
            "{path}: {median:.2} of a file's tokens, median of {}, {ratios:.2?}",
            ratios.len()
        );
        assert!(median >= 0.9, "{path} is slower than a file: {ratios:?}");
    }
    // Memory grows while batches of new sizes come, for which oneDNN keeps code.
    let middle: u64 = resident[resident.len() / 2];
    let last = *resident.last().expect("there was time for one round");
    assert!(last < middle + middle / 10, "memory grows: {resident:?} kB");
    assert_eq!(server.ends().status, Some(0));
}
