//! The paths of the server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::stream::{self, Stream, StreamExt};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::{Instant as Deadline, timeout_at};

use crate::interactive::{Asked, Text};

use super::ask::{Generate, parse_fill, parse_score};
use super::metrics::Metrics;
use super::queue::{Job, News, Queue, Work};
use super::refusal::Refusal;
use super::served::ServedEncoder;

/// The page to type into, and the path that it asks.
const PAGE: &str = include_str!("page.html");
const PAGE_PATH: &str = "v1/generate";
/// Bytes of a body that is too large that are read, and forgotten, before its connection is closed.
const THROWN_AWAY: usize = 64 << 20;
/// The format of Prometheus' texts.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The parts that all requests share.
pub struct Shared {
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

type Answered = Result<Response, Refusal>;

/// Returns the service.
pub fn router(shared: Arc<Shared>) -> Router {
    let page = Html(PAGE.replace(PAGE_PATH, shared.encoder.path()));
    Router::new()
        .route("/v1/generate", post(generate))
        .route("/v1/score", post(score))
        .route("/v1/fill", post(fill))
        .route("/metrics", get(metrics))
        .route_layer(from_fn_with_state(Arc::clone(&shared), authorized))
        // A page that asks for the token, and the answer to a load balancer, need none.
        .route("/", get(|| async { page }))
        .route("/healthz", get(|| async { "ok\n" }))
        .fallback(|request: Request| async move { Refusal::no_path(&request) })
        .method_not_allowed_fallback(|request: Request| async move { Refusal::no_path(&request) })
        .with_state(shared)
}

/// Counts requests, and refuses those without the token.
async fn authorized(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let path = match request.uri().path() {
        "/v1/generate" => "/v1/generate",
        "/v1/score" => "/v1/score",
        "/v1/fill" => "/v1/fill",
        _ => "/metrics",
    };
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let is_allowed = shared.token.as_ref().is_none_or(|token| is_same(token, given));
    let response = match is_allowed {
        true => next.run(request).await,
        false => Refusal::Unauthorized.into_response(),
    };
    shared.metrics.request(path, response.status().as_u16(), start.elapsed());
    response
}

/// Compares in a time that does not depend on the place of the first difference.
fn is_same(token: &str, given: &str) -> bool {
    let differences = token.bytes().zip(given.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    token.len() == given.len() && differences == 0
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let text = shared.metrics.text(shared.queue.len());
    ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response()
}

async fn generate(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let (limit, encoder) = (Limit::new(shared.timeout), shared.encoder.answering()?);
    let ask = Generate::parse(&body(&shared, request, &limit).await?)?;
    // A set of answers may take a while to prepare.
    let decoding =
        block_in_place(|| encoder.requested(&ask.options)).map_err(Refusal::Malformed)?;
    let asked = encode(&shared, ask.texts).await?;
    let news = push(&shared, &asked, &Work::Generate(decoding), ask.stream)?;
    if ask.stream {
        let news = news.into_iter().next().expect("a stream has one text");
        return Ok(Sse::new(events(news, limit)).keep_alive(KeepAlive::default()).into_response());
    }
    let mut results = Vec::new();
    for (mut news, asked) in news.into_iter().zip(&asked) {
        match last(&mut news, &limit).await? {
            News::Answers(answers) => {
                let mut result = json!({"predictions": answers});
                if asked.is_cut {
                    result["is_cut"] = Value::Bool(true);
                }
                results.push(result);
            }
            other => unreachable!("a text to answer is not {other:?}"),
        }
    }
    Ok(Json(json!({"results": results})).into_response())
}

async fn score(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let limit = Limit::new(shared.timeout);
    shared.encoder.answering()?;
    let texts = parse_score(&body(&shared, request, &limit).await?)?;
    let asked = encode(&shared, texts).await?;
    let mut scores = Vec::new();
    for mut news in push(&shared, &asked, &Work::Score, false)? {
        match last(&mut news, &limit).await? {
            News::Score(score) => scores.push(score),
            other => unreachable!("a text to score is not {other:?}"),
        }
    }
    Ok(Json(json!({"scores": scores})).into_response())
}

async fn fill(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let limit = Limit::new(shared.timeout);
    shared.encoder.filling()?;
    let (texts, topk) = parse_fill(&body(&shared, request, &limit).await?)?;
    let asked = encode(&shared, texts).await?;
    let mut results = Vec::new();
    for mut news in push(&shared, &asked, &Work::Fill(topk), false)? {
        match last(&mut news, &limit).await? {
            News::Masks(masks) => results.push(json!({"masks": masks})),
            other => unreachable!("a text to fill is not {other:?}"),
        }
    }
    Ok(Json(json!({"results": results})).into_response())
}

/// The time at which a request is given up.
#[derive(Clone, Copy)]
struct Limit {
    at: Deadline,
    seconds: u64,
}

impl Limit {
    fn new(timeout: Duration) -> Self {
        Self { at: Deadline::now() + timeout, seconds: timeout.as_secs() }
    }

    async fn apply<T>(&self, work: impl Future<Output = T>) -> Result<T, Refusal> {
        timeout_at(self.at, work).await.map_err(|_| Refusal::Late { seconds: self.seconds })
    }
}

/// Reads a body of JSON within the limits. A page of another site cannot send this type unasked.
async fn body(shared: &Shared, request: Request<Body>, limit: &Limit) -> Result<Vec<u8>, Refusal> {
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

/// Converts texts to ids, beside the threads that serve: a long text takes a while.
async fn encode(shared: &Arc<Shared>, texts: Vec<Text>) -> Result<Vec<Asked>, Refusal> {
    let shared = Arc::clone(shared);
    let encoded = spawn_blocking(move || shared.encoder.encode(&texts)).await;
    encoded.map_err(|error| Refusal::Failed(error.to_string()))?
}

/// Lets texts wait for the model.
fn push(
    shared: &Shared,
    asked: &[Asked],
    work: &Work,
    streams: bool,
) -> Result<Vec<UnboundedReceiver<News>>, Refusal> {
    let job = |asked: &Asked| {
        let (news, received) = unbounded_channel();
        let job = Job {
            asked: asked.clone(),
            work: work.clone(),
            streams,
            news,
            arrived: Instant::now(),
        };
        (job, received)
    };
    let (jobs, received): (Vec<Job>, Vec<_>) = asked.iter().map(job).unzip();
    shared.queue.push(jobs).map(|()| received)
}

/// Waits for the last news about a text. If the client goes, this future is dropped, and the news with it.
async fn last(news: &mut UnboundedReceiver<News>, limit: &Limit) -> Result<News, Refusal> {
    loop {
        match limit.apply(news.recv()).await? {
            None => return Err(Refusal::Failed("the model has ended".to_string())),
            Some(News::Failed(reason)) => return Err(Refusal::Failed(reason)),
            Some(News::More(_)) => {}
            Some(last) => return Ok(last),
        }
    }
}

/// The events of an answer that grows: its parts, and then the whole.
fn events(
    news: UnboundedReceiver<News>,
    limit: Limit,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    stream::unfold(Some(news), move |news| async move {
        let mut news = news?;
        let refused = |refusal: Refusal| (json!({"error": refusal.message()}), true);
        let (value, is_last) = match limit.apply(news.recv()).await {
            Ok(Some(News::More(text))) => (json!({"text": text}), false),
            Ok(Some(News::Answers(answers))) => (json!({"predictions": answers}), true),
            Ok(Some(News::Failed(reason))) => refused(Refusal::Failed(reason)),
            Ok(_) => refused(Refusal::Failed("the model has ended".to_string())),
            Err(late) => refused(late),
        };
        let event = Event::default().data(value.to_string());
        Some((Ok(event), (!is_last).then_some(news)))
    })
}
