//! The parts that all requests share, and the steps that each of them takes: its body within the limits, its texts in the queue,
//! and the news about them.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use futures::stream::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant as Deadline, timeout_at};

use crate::interactive::Asked;

use super::metrics::Metrics;
use super::queue::{Job, News, Queue, Work};
use super::refusal::Refusal;
use super::served::{ServedEncoder, ServedModel};

/// Bytes of a body that is too large that are read, and forgotten, before its connection is closed.
const THROWN_AWAY: usize = 64 << 20;

/// The parts that all requests share.
pub struct Shared {
    /// The start of the server, in seconds since 1970.
    pub started: u64,
    /// Number of requests for completions since then.
    pub num_asked: AtomicU64,
    /// The model, for those who ask what is served.
    pub about: ServedModel,
    /// Encodes texts.
    pub encoder: ServedEncoder,
    /// The texts that wait.
    pub queue: Queue,
    /// Counts.
    pub metrics: Metrics,
    /// The token that requests must carry, if there is one.
    pub token: Option<String>,
    /// The greatest time of a request.
    pub timeout: Duration,
    /// The greatest size of a request.
    pub max_body_bytes: usize,
}

/// The time at which a request is given up.
#[derive(Clone, Copy)]
pub struct Limit {
    at: Deadline,
    seconds: u64,
}

impl Limit {
    /// The limit of a request that begins now.
    pub fn new(timeout: Duration) -> Self {
        Self { at: Deadline::now() + timeout, seconds: timeout.as_secs() }
    }

    /// Waits until then.
    ///
    /// # Errors
    /// The time is over.
    pub async fn apply<T>(&self, work: impl Future<Output = T>) -> Result<T, Refusal> {
        timeout_at(self.at, work).await.map_err(|_| Refusal::Late { seconds: self.seconds })
    }
}

/// Reads a body of JSON within the limits. A page of another site cannot send this type unasked.
///
/// # Errors
/// It has another type, is too large, breaks off, or is too late.
pub async fn body(
    shared: &Shared,
    request: Request<Body>,
    limit: &Limit,
) -> Result<Vec<u8>, Refusal> {
    let kind =
        request.headers().get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let is_json =
        |kind: &str| kind.trim_start().to_ascii_lowercase().starts_with("application/json");
    if !kind.is_some_and(is_json) {
        return Err(Refusal::NotJson { found: kind.map(str::to_string) });
    }
    let most = shared.max_body_bytes;
    limit.apply(read(request.into_body(), most)).await?
}

/// Reads a body of at most so many bytes. More of it is thrown away as it comes: a connection that is closed on a
/// client that still sends would take the refusal with it.
async fn read(body: Body, most: usize) -> Result<Vec<u8>, Refusal> {
    let (mut bytes, mut seen) = (Vec::new(), 0);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk =
            chunk.map_err(|error| Refusal::Malformed(format!("the body breaks off: {error}")))?;
        seen += chunk.len();
        match seen {
            seen if seen > most.max(THROWN_AWAY) => break,
            seen if seen > most => bytes = Vec::new(),
            _ => bytes.extend_from_slice(&chunk),
        }
    }
    if seen > most { Err(Refusal::TooLarge { limit: most }) } else { Ok(bytes) }
}

/// Lets texts wait for the model, each with its work.
///
/// # Errors
/// There is no room, or the server is ending.
pub fn push(
    shared: &Shared,
    texts: impl IntoIterator<Item = (Asked, Work)>,
    streams: bool,
) -> Result<Vec<UnboundedReceiver<News>>, Refusal> {
    let job = |(asked, work)| {
        let (news, received) = unbounded_channel();
        (Job { asked, work, streams, news, arrived: Instant::now() }, received)
    };
    let (jobs, received): (Vec<Job>, Vec<_>) = texts.into_iter().map(job).unzip();
    shared.queue.push(jobs).map(|()| received)
}

/// Waits for the last news about a text. If the client goes, this future is dropped, and the news with it.
///
/// # Errors
/// The model fails, or the time is over.
pub async fn last(news: &mut UnboundedReceiver<News>, limit: &Limit) -> Result<News, Refusal> {
    loop {
        match limit.apply(news.recv()).await? {
            None => return Err(Refusal::Failed("the model has ended".to_string())),
            Some(News::Failed(reason)) => return Err(Refusal::Failed(reason)),
            Some(News::Token(_)) => {}
            Some(last) => return Ok(last),
        }
    }
}
