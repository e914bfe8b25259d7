//! A bucket with faults on demand: requests that fail from the n-th on, or the n-th alone, or
//! each once, that stall, or that may only read.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use gimlet::storage::Path;
use tempfile::TempDir;

use super::s3::S3;
use super::server::{Ending, Reply, Request, Server};
use super::{environment, path};

/// The fault, with requests counted from when it is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// From this request on, connections break, as if the process, or its link, had died then.
    From(usize),
    /// Only this request is answered by 503.
    Only(usize),
    /// This request is served, and the connection breaks before the answer.
    LostAnswer(usize),
    /// The first of equal requests is answered by 503.
    EachOnce,
    /// The first of equal requests is served, and the connection breaks before the answer.
    EachAnswerOnce,
    /// The answer to this request begins and never ends.
    Stall(usize),
    /// Writing requests are forbidden.
    ReadOnly,
    /// Reading files is forbidden, for copies as well.
    NoRead,
    /// Listing is forbidden.
    NoList,
    /// Sending files in parts is forbidden.
    NoParts,
    /// Copying is forbidden.
    NoCopies,
    /// Removing is forbidden.
    NoDelete,
    /// Conditions of writes are not known: 501.
    NoConditions,
    /// Does not know conditions of replacing an unchanged object, and replaces it in any case.
    IgnoresChanges,
}

/// Method, target and body of a request.
type Tried = (String, String, Vec<u8>);

/// A bucket with its settings in the environment while it lives.
pub struct Bucket {
    name: String,
    fault: Arc<Mutex<Fault>>,
    count: Arc<AtomicUsize>,
    /// The requests that were made while each fails once.
    tried: Arc<Mutex<BTreeSet<Tried>>>,
    /// The folder in which the server keeps the files.
    pub root: std::path::PathBuf,
    server: Server,
    _environment: MutexGuard<'static, ()>,
}

impl Bucket {
    pub fn new() -> Self {
        static BUCKETS: AtomicUsize = AtomicUsize::new(0);
        let name = format!("bucket-{}", BUCKETS.fetch_add(1, Ordering::SeqCst));
        let s3 = S3::new(&name, Some(("key", "secret")));
        let root = s3.root.path().join(&name);
        std::fs::remove_file(root.join("public.txt")).unwrap();
        let (fault, count) = (Arc::new(Mutex::new(Fault::None)), Arc::new(AtomicUsize::new(0)));
        let writing = Mutex::new(());
        let tried: Arc<Mutex<BTreeSet<Tried>>> = Arc::default();
        let (set, counted, attempts) = (fault.clone(), count.clone(), tried.clone());
        let server = Server::start(move |request| {
            // Between its check of a condition and its write this server may serve another request.
            let _one = (request.method == "PUT").then(|| writing.lock().unwrap());
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let fault = match *set.lock().unwrap() {
                Fault::EachOnce if is_first(&attempts, request) => Fault::Only(number),
                Fault::EachAnswerOnce if is_first(&attempts, request) => Fault::LostAnswer(number),
                fault => fault,
            };
            let reply = fail(fault, number, request).unwrap_or_else(|| s3.answer(request));
            match fault {
                Fault::Stall(stalled) if number == stalled => reply.ending(Ending::StallAfter(0)),
                Fault::LostAnswer(lost) if number == lost => reply.ending(Ending::Silence),
                // This server mistakes parts that are joined already for another user's.
                _ if joins_parts(request) && reply.status == 403 => no_such_upload(),
                _ => reply,
            }
        });
        let environment = environment(&[
            ("AWS_ENDPOINT_URL", &server.url("")),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ]);
        Self { name, fault, count, tried, root, server, _environment: environment }
    }

    /// A folder of the bucket.
    pub fn path(&self, folder: &str) -> Path {
        path(&format!("s3://{}/{folder}", self.name))
    }

    /// The requests since the start.
    pub fn requests(&self) -> Vec<Request> {
        self.server.requests()
    }

    /// Restarts the count of requests, some of which fail.
    pub fn set(&self, fault: Fault) {
        self.count.store(0, Ordering::SeqCst);
        self.tried.lock().unwrap().clear();
        *self.fault.lock().unwrap() = fault;
    }

    /// Returns the number of requests since then.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Returns the number of different requests that have failed once.
    pub fn num_tried(&self) -> usize {
        self.tried.lock().unwrap().len()
    }

    /// Copies all objects aside.
    pub fn copied(&self) -> TempDir {
        let copied = tempfile::tempdir().unwrap();
        copy_tree(self.folder(), copied.path());
        copied
    }

    /// Replaces all objects by those copied aside.
    pub fn put_back(&self, copied: &TempDir) {
        for entry in std::fs::read_dir(self.folder()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
                .unwrap();
        }
        copy_tree(copied.path(), self.folder());
    }

    /// The folder of the server's files: objects, and what it remembers of them beside the bucket.
    fn folder(&self) -> &std::path::Path {
        self.root.parent().unwrap()
    }

    /// Makes an object look as if it was written long ago.
    pub fn age(&self, key: &str) {
        self.set_written(key, SystemTime::UNIX_EPOCH);
    }

    /// Makes an object look as if it was written at that time.
    pub fn set_written(&self, key: &str, time: SystemTime) {
        let file = std::fs::File::options().write(true).open(self.root.join(key)).unwrap();
        file.set_modified(time).unwrap();
    }
}

fn copy_tree(from: &std::path::Path, to: &std::path::Path) {
    let contents = from.join(".");
    let copied = Command::new("cp").arg("-a").args([contents.as_path(), to]).status().unwrap();
    assert!(copied.success());
}

/// Whether no such request was made before. Removals of several objects differ in their bodies only.
fn is_first(tried: &Mutex<BTreeSet<Tried>>, request: &Request) -> bool {
    let request = (request.method.clone(), request.target.clone(), request.body.clone());
    tried.lock().unwrap().insert(request)
}

/// Whether the request joins the parts of a file.
pub fn joins_parts(request: &Request) -> bool {
    request.method == "POST" && request.target.contains("uploadId=")
}

/// Returns Amazon's answer for parts that do not exist, or no longer.
pub fn no_such_upload() -> Reply {
    let said = "<Error><Code>NoSuchUpload</Code><Message>no such upload</Message></Error>";
    Reply { body: said.into(), ..Reply::status(404) }
}

fn fail(fault: Fault, number: usize, request: &Request) -> Option<Reply> {
    let denied = || Some(Reply::status(403));
    let is_condition = |name| request.header(name).is_some() && request.method == "PUT";
    let lists = request.target.contains("list-type");
    let reads = ["GET", "HEAD"].contains(&request.method.as_str()) && !lists;
    let removes = request.method == "DELETE" || request.target.contains("?delete");
    match fault {
        Fault::From(first) if number >= first => Some(Reply::status(200).ending(Ending::Silence)),
        Fault::Only(only) if number == only => Some(Reply::status(503)),
        Fault::ReadOnly if !["GET", "HEAD"].contains(&request.method.as_str()) => denied(),
        Fault::NoList if lists => denied(),
        Fault::NoRead if reads || request.header("x-amz-copy-source").is_some() => denied(),
        Fault::NoDelete if removes && !request.target.contains("uploadId") => denied(),
        Fault::NoParts if request.target.contains("uploads") => denied(),
        Fault::NoCopies if request.header("x-amz-copy-source").is_some() => denied(),
        Fault::NoConditions if is_condition("if-match") || is_condition("if-none-match") => {
            Some(Reply::status(501))
        }
        Fault::IgnoresChanges if is_condition("if-match") => {
            Some(Reply::status(200).with("etag", "\"new\""))
        }
        _ => None,
    }
}
