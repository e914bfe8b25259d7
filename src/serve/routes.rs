//! The paths of the server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::stream::{self, Stream, StreamExt};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_blocking;

use crate::interactive::{Asked, Decoding, DecodingOptions, Text, TextStream};

use super::ask::{Generate, parse_fill, parse_score};
use super::openai;
use super::queue::{News, Work};
use super::refusal::{Refusal, known_path};
use super::shared::{Limit, Shared, body, last, push};

/// The page to type into, the path that it asks, and the place of the model's name in it.
const PAGE: &str = include_str!("page.html");
const PAGE_PATH: &str = "v1/generate";
const PAGE_MODEL: &str = "<!-- model -->";
/// The format of Prometheus' texts.
const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Answered = Result<Response, Refusal>;

/// Returns the service.
pub fn router(shared: Arc<Shared>) -> Router {
    let page = PAGE.replace(PAGE_PATH, shared.encoder.path());
    let page = Html(page.replace(PAGE_MODEL, &escaped(&shared.about.to_string())));
    Router::new()
        .route("/v1/generate", post(generate))
        .route("/v1/score", post(score))
        .route("/v1/fill", post(fill))
        .route(openai::MODELS, get(openai::models))
        .route(openai::COMPLETIONS, post(openai::completions))
        .route("/metrics", get(metrics))
        .route_layer(from_fn_with_state(Arc::clone(&shared), authorized))
        // A page that asks for the token, and the answer to a load balancer, need none.
        .route("/", get(|| async { page }))
        .route("/healthz", get(|| async { "ok\n" }))
        .fallback(no_path)
        .method_not_allowed_fallback(no_path)
        .with_state(shared)
}

async fn no_path(request: Request) -> Response {
    refused(request.uri().path(), Refusal::no_path(&request))
}

/// The answer to a request that is refused, in the form of its path.
fn refused(path: &str, refusal: Refusal) -> Response {
    match openai::PATHS.contains(&path) {
        true => openai::Fault::from(refusal).into_response(),
        false => refusal.into_response(),
    }
}

/// A text in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Counts requests, and refuses those without the token.
async fn authorized(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let path = known_path(request.uri().path()).expect("routes have known paths");
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let is_allowed = shared.token.as_ref().is_none_or(|token| is_same(token, given));
    let response = match is_allowed {
        true => next.run(request).await,
        false => refused(path, Refusal::Unauthorized),
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

/// Fills the options of a request in, beside the threads that serve: a set of answers may take a while to prepare.
async fn decoding(
    shared: &Arc<Shared>,
    options: DecodingOptions,
    limit: &Limit,
) -> Result<Decoding, Refusal> {
    let shared = Arc::clone(shared);
    let fill = move || shared.encoder.answering()?.requested(&options).map_err(Refusal::Malformed);
    let filled = limit.apply(spawn_blocking(fill)).await?;
    filled.map_err(|error| Refusal::Failed(error.to_string()))?
}

async fn generate(State(shared): State<Arc<Shared>>, request: Request) -> Answered {
    let limit = Limit::new(shared.timeout);
    shared.encoder.answering()?;
    let ask = Generate::parse(&body(&shared, request, &limit).await?)?;
    let decoding = decoding(&shared, ask.options, &limit).await?;
    let asked = encode(&shared, ask.texts).await?;
    let work = Work::Generate(decoding);
    let news = push(&shared, with(&asked, &work), ask.stream)?;
    if ask.stream {
        let news = news.into_iter().next().expect("a stream has one text");
        let events = events(Arc::clone(&shared), news, limit);
        return Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response());
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
    for mut news in push(&shared, with(&asked, &Work::Score), false)? {
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
    for mut news in push(&shared, with(&asked, &Work::Fill(topk)), false)? {
        match last(&mut news, &limit).await? {
            News::Masks(masks) => results.push(json!({"masks": masks})),
            other => unreachable!("a text to fill is not {other:?}"),
        }
    }
    Ok(Json(json!({"results": results})).into_response())
}

/// The texts with the same work.
fn with(asked: &[Asked], work: &Work) -> Vec<(Asked, Work)> {
    asked.iter().map(|asked| (asked.clone(), work.clone())).collect()
}

/// Converts texts to ids, beside the threads that serve: a long text takes a while.
async fn encode(shared: &Arc<Shared>, texts: Vec<Text>) -> Result<Vec<Asked>, Refusal> {
    let shared = Arc::clone(shared);
    let encoded = spawn_blocking(move || shared.encoder.encode(&texts)).await;
    encoded.map_err(|error| Refusal::Failed(error.to_string()))?
}

/// The events of an answer that grows: its parts, and then the whole.
fn events(
    shared: Arc<Shared>,
    news: UnboundedReceiver<News>,
    limit: Limit,
) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    let start = Some((news, TextStream::default()));
    let values = stream::unfold(start, move |state| {
        let shared = Arc::clone(&shared);
        async move {
            let (mut news, mut text) = state?;
            let failed = |refusal: Refusal| (vec![json!({"error": refusal.message()})], true);
            let (values, is_last) = match limit.apply(news.recv()).await {
                Ok(Some(News::Token(id))) => {
                    let encoder = shared.encoder.answering().expect("an answer grows");
                    (part(text.push(id, encoder.vocabulary())), false)
                }
                Ok(Some(News::Answers(answers))) => {
                    let rest = answers.first().map(|answer| text.finish(&answer.text));
                    let whole = json!({"predictions": answers});
                    (part(rest.unwrap_or_default()).into_iter().chain([whole]).collect(), true)
                }
                Ok(Some(News::Failed(reason))) => failed(Refusal::Failed(reason)),
                Ok(_) => failed(Refusal::Failed("the model has ended".to_string())),
                Err(late) => failed(late),
            };
            Some((stream::iter(values), (!is_last).then_some((news, text))))
        }
    });
    values.flatten().map(|value| Ok(Event::default().data(value.to_string())))
}

fn part(text: String) -> Vec<Value> {
    if text.is_empty() { Vec::new() } else { vec![json!({"text": text})] }
}
