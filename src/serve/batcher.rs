//! The thread with the model: takes batches of texts from the queue, and sends news to their clients.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::interactive::{Asked, Decoding, Engine, Filler};
use crate::session::error::SessionError;
use crate::telemetry;

use super::metrics::Metrics;
use super::queue::{Job, News, Work};
use super::served::Served;
use super::shared::Shared;

/// Answers batches until the queue is closed and empty. A text waits so long for others.
pub fn answer_all(served: &Served<'_>, shared: &Shared, max_wait: Duration) {
    let metrics = &shared.metrics;
    while let Some(jobs) = shared.queue.next(served.spec().batch_size, max_wait) {
        let done = match (served, jobs[0].work.clone()) {
            (Served::Answers(engine), Work::Generate(decoding)) => {
                generate(engine, &jobs, &decoding, metrics)
            }
            (Served::Answers(engine), Work::Score) => score(engine, &jobs, metrics),
            (Served::Answers(engine), Work::ScoreTokens(count)) => {
                score_tokens(engine, &jobs, count, metrics)
            }
            (Served::Fills(filler), Work::Fill(topk)) => fill(filler, &jobs, topk, metrics),
            (_, other) => unreachable!("requests of other work are refused: {other:?}"),
        };
        if let Err(error) = done {
            telemetry::warn(&format!("a batch of {} texts failed: {error}", jobs.len()));
            jobs.iter().for_each(|job| send(job, News::Failed(error.to_string())));
        }
    }
}

fn generate(
    engine: &Engine<'_>,
    jobs: &[Job],
    decoding: &Decoding,
    metrics: &Metrics,
) -> Result<(), SessionError> {
    if let Some(seed) = decoding.seed {
        tch::manual_seed(seed);
    }
    let asked: Vec<&Asked> = jobs.iter().map(|job| &job.asked).collect();
    let mut watch = |tokens: &[Option<i32>]| {
        for (job, token) in jobs.iter().zip(tokens) {
            if let Some(token) = token.filter(|_| job.streams && decoding.streams()) {
                send(job, News::Token(token));
            }
        }
        // Nobody is left who waits for the rest.
        match jobs.iter().all(|job| job.news.is_closed()) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let answers = engine.generate(&asked, decoding, &mut watch)?;
    let num_tokens = answers.iter().flatten().map(|answer| answer.ids.len()).sum();
    metrics.batch(jobs.len(), num_tokens);
    jobs.iter().zip(answers).for_each(|(job, answers)| send(job, News::Answers(answers)));
    Ok(())
}

fn score(engine: &Engine<'_>, jobs: &[Job], metrics: &Metrics) -> Result<(), SessionError> {
    let asked: Vec<&Asked> = jobs.iter().map(|job| &job.asked).collect();
    let scores = engine.score(&asked)?;
    metrics.batch(jobs.len(), 0);
    jobs.iter().zip(scores).for_each(|(job, score)| send(job, News::Score(score)));
    Ok(())
}

fn score_tokens(
    engine: &Engine<'_>,
    jobs: &[Job],
    count: usize,
    metrics: &Metrics,
) -> Result<(), SessionError> {
    let asked: Vec<&Asked> = jobs.iter().map(|job| &job.asked).collect();
    let scores = engine.score_tokens(&asked, count)?;
    metrics.batch(jobs.len(), 0);
    jobs.iter().zip(scores).for_each(|(job, scores)| send(job, News::TokenScores(scores)));
    Ok(())
}

fn fill(
    filler: &Filler<'_>,
    jobs: &[Job],
    topk: usize,
    metrics: &Metrics,
) -> Result<(), SessionError> {
    let asked: Vec<&Asked> = jobs.iter().map(|job| &job.asked).collect();
    let filled = filler.fill(&asked, topk)?;
    metrics.batch(jobs.len(), 0);
    jobs.iter().zip(filled).for_each(|(job, masks)| send(job, News::Masks(masks)));
    Ok(())
}

/// Sends news; a client that has gone needs none.
fn send(job: &Job, news: News) {
    let _ = job.news.send(news);
}
