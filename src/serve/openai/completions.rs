//! Completions: prompts go to the queue, a sample is followed until its end, and answers are scored where log-probabilities
//! are asked for. Their model does not return them as it decodes, so an answer is scored once it is whole.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Json;
use axum::extract::{Request, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::future::try_join_all;
use futures::stream::{self, Stream, StreamExt};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_blocking;

use crate::interactive::{Continued, Decoding, Encoder, GivenPrompt};
use crate::serve::queue::{News, Work};
use crate::serve::refusal::Refusal;
use crate::serve::shared::{Limit, Shared, body, last, push};
use crate::session::forward::TokenScores;
use crate::vocab::PAD_ID;

use super::answer::{Envelope, Usage, choice};
use super::fault::Fault;
use super::growth::Growth;
use super::logprobs::{TokenTable, text_of};
use super::request::Completions;

/// The last event of a stream.
const DONE: &str = "[DONE]";

/// A request that is answered.
struct Asking {
    shared: Arc<Shared>,
    asked: Completions,
    prompts: Vec<Continued>,
    limit: Limit,
    envelope: Envelope,
}

/// A sample of the answers to a prompt.
struct Sample {
    /// The number of the prompt.
    prompt: usize,
    growth: Growth,
    text: String,
    /// Until the sample has ended.
    news: Option<UnboundedReceiver<News>>,
    /// The scores of the tokens that are not given, and of those of the sample.
    scores: Vec<TokenScores>,
}

/// Answers `POST /v1/completions`.
pub async fn completions(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Fault> {
    let (limit, encoder) = (Limit::new(shared.timeout), shared.encoder.answering()?);
    let asked = Completions::parse(&body(&shared, request, &limit).await?, &shared.about.name)?;
    if asked.echo && asked.logprobs.is_some() && encoder.joins_inputs() {
        let reason = "`echo` with `logprobs` asks for the log-probabilities of the prompt, and this model reads a prompt at \
                      once; expected one of them";
        return Err(Fault::field("echo", reason.to_string()));
    }
    if encoder.names_classes() {
        let (model, expected) = ("classifier", "POST /v1/generate");
        return Err(Refusal::OtherWork { model, expected }.into());
    }
    if asked.prompts.len().saturating_mul(asked.best_of) > shared.queue.capacity() {
        return Err(Refusal::Busy.into());
    }
    let room = asked.options.check_room(encoder.lengths()[1]);
    room.map_err(|reason| Fault::field("max_tokens", reason))?;
    let decoding = match asked.scores_given() {
        true => encoder.free_decoding(&asked.options),
        false => encoder.decoding(&asked.options),
    };
    let decoding = decoding.map_err(Refusal::Malformed)?;
    let prompts = continued(&shared, asked.prompts.clone()).await?;
    if decoding.prediction.constraint.is_some() && prompts.iter().any(|one| !one.begun().is_empty())
    {
        let reason = "`prompt` begins the answer, and this model answers within a set; expected no beginning, or a request for \
                      scores, with `echo` and `logprobs`";
        return Err(Fault::field("prompt", reason.to_string()));
    }
    let envelope = Envelope::new(&shared);
    let asking = Asking { shared, asked, prompts, limit, envelope };
    let samples = asking.start(&decoding)?;
    match asking.asked.stream {
        true if asking.asked.logprobs.is_none() => Ok(sent(Arc::new(asking).parts(samples))),
        is_stream => {
            let samples = asking.finish(samples).await?;
            let usage = asking.usage(samples.iter().map(|sample| sample.growth.ids.len()).sum());
            let choices = asking.choices(&asking.best(samples))?;
            Ok(asking.answer(choices, usage, is_stream))
        }
    }
}

/// Converts prompts to ids, beside the threads that serve.
async fn continued(
    shared: &Arc<Shared>,
    prompts: Vec<GivenPrompt>,
) -> Result<Vec<Continued>, Fault> {
    let shared = Arc::clone(shared);
    let convert = move || {
        let encoder = shared.encoder.answering()?;
        let convert =
            |(number, prompt)| encoder.continued(prompt).map_err(|bad| Fault::prompt(number, &bad));
        prompts.iter().enumerate().map(convert).collect()
    };
    spawn_blocking(convert).await.map_err(|error| Refusal::Failed(error.to_string()))?
}

impl Asking {
    fn encoder(&self) -> &Encoder {
        self.shared.encoder.answering().expect("the request was not refused")
    }

    /// Gives all samples of all prompts to the queue.
    fn start(&self, decoding: &Decoding) -> Result<Vec<Sample>, Refusal> {
        let (mut samples, mut texts) = (Vec::new(), Vec::new());
        for (number, prompt) in self.prompts.iter().enumerate() {
            for sample in 0..self.asked.best_of {
                let decoding = of_sample(decoding, prompt, sample);
                let waits = self.asked.max_tokens > 0 && !prompt.has_ended();
                if waits {
                    texts.push((prompt.to_answer(), Work::Generate(decoding.clone())));
                }
                let vocabulary = self.encoder().vocabulary();
                let growth = Growth::new(prompt, decoding, &self.asked.stop, vocabulary);
                samples.push((waits, number, growth));
            }
        }
        let mut news = push(&self.shared, texts, true)?.into_iter();
        let sample = |(waits, prompt, growth): (bool, usize, Growth)| Sample {
            prompt,
            growth,
            text: String::new(),
            news: if waits { news.next() } else { None },
            scores: Vec::new(),
        };
        Ok(samples.into_iter().map(sample).collect())
    }

    /// Waits for the end of samples, and for their scores if these are needed.
    async fn finish(&self, samples: Vec<Sample>) -> Result<Vec<Sample>, Refusal> {
        let whole = samples.into_iter().map(async |mut sample| {
            while sample.news.is_some() {
                let part = sample.next(self).await?;
                sample.text.push_str(&part);
            }
            Ok(sample)
        });
        let mut samples: Vec<Sample> = try_join_all(whole).await?;
        let Self { asked, .. } = self;
        if asked.logprobs.is_none() && asked.best_of == asked.n {
            return Ok(samples);
        }
        let work = Work::ScoreTokens(asked.logprobs.unwrap_or(0));
        let texts = samples.iter_mut().map(|sample| {
            // The ids of an answer end with its last token that is not padding.
            let was_decoded = asked.max_tokens > 0 && !self.prompts[sample.prompt].has_ended();
            if sample.growth.ids.is_empty() && was_decoded {
                sample.growth.ids.push(PAD_ID);
            }
            (self.prompts[sample.prompt].to_score(&sample.growth.ids), work.clone())
        });
        let news = push(&self.shared, texts.collect::<Vec<_>>(), false)?;
        for (sample, mut news) in samples.iter_mut().zip(news) {
            match last(&mut news, &self.limit).await? {
                News::TokenScores(scores) => sample.scores = scores,
                other => unreachable!("tokens to score are not {other:?}"),
            }
        }
        Ok(samples)
    }

    /// The answers among the samples: of each prompt those whose tokens are the most probable on average.
    fn best(&self, samples: Vec<Sample>) -> Vec<Sample> {
        let Completions { n, best_of, .. } = self.asked;
        let mut samples = samples.into_iter();
        let mut best = Vec::new();
        for _ in &self.prompts {
            let mut own: Vec<Sample> = samples.by_ref().take(best_of).collect();
            if best_of > n {
                own.sort_by(|one, other| other.mean_log_prob().total_cmp(&one.mean_log_prob()));
            }
            best.extend(own.into_iter().take(n));
        }
        best
    }

    fn choices(&self, answers: &[Sample]) -> Result<Vec<Value>, Refusal> {
        let choice = |(index, sample): (usize, &Sample)| {
            let before = self.echo(sample.prompt);
            let logprobs = match self.asked.logprobs {
                None => Value::Null,
                Some(_) => self.logprobs(sample, &before),
            };
            let reason = Some(sample.growth.finish_reason());
            choice(index, &(before + &sample.text), logprobs, reason)
        };
        Ok(answers.iter().enumerate().map(choice).collect())
    }

    fn logprobs(&self, sample: &Sample, before: &str) -> Value {
        let table = TokenTable {
            encoder: self.encoder(),
            prompt: &self.prompts[sample.prompt],
            ids: &sample.growth.ids,
            is_stopped: sample.growth.is_stopped(),
            scores: &sample.scores,
        };
        let num_chars = sample.text.chars().count();
        match self.asked.echo {
            true => table.of_all(before.chars().count(), num_chars),
            false => table.of_answer(num_chars),
        }
    }

    /// The text with which the answers to a prompt begin.
    fn echo(&self, prompt: usize) -> String {
        match &self.asked.prompts[prompt] {
            _ if !self.asked.echo => String::new(),
            GivenPrompt::Text(text) => text.clone(),
            GivenPrompt::Ids(_) => text_of(&self.prompts[prompt], self.encoder()),
        }
    }

    fn usage(&self, completion: usize) -> Usage {
        let prompt = self.prompts.iter().map(|prompt| prompt.ids.len()).sum();
        Usage { prompt, completion }
    }

    /// The answer as a whole, or each choice as one part of a stream.
    fn answer(&self, choices: Vec<Value>, usage: Usage, is_stream: bool) -> Response {
        if !is_stream {
            return Json(self.envelope.of(choices, Some(usage.json()))).into_response();
        }
        let include_usage = self.asked.include_usage;
        let part = |choice| self.envelope.of(vec![choice], include_usage.then_some(Value::Null));
        let mut parts: Vec<Value> = choices.into_iter().map(part).collect();
        parts.extend(include_usage.then(|| self.envelope.of(Vec::new(), Some(usage.json()))));
        sent(stream::iter(parts))
    }

    /// The parts of answers as they grow, and the usage if it is asked for.
    fn parts(self: Arc<Self>, samples: Vec<Sample>) -> impl Stream<Item = Value> + Send {
        let completion = Arc::new(AtomicUsize::new(0));
        let grow = |(index, sample): (usize, Sample)| {
            let (asking, completion) = (Arc::clone(&self), Arc::clone(&completion));
            let start = Some((self.echo(sample.prompt), sample));
            let next = move |state: Option<(String, Sample)>| {
                let (asking, completion) = (Arc::clone(&asking), Arc::clone(&completion));
                async move {
                    let (mut text, mut sample) = state?;
                    let value = match sample.next(&asking).await {
                        Ok(part) => {
                            text.push_str(&part);
                            asking.part(index, &text, &sample)
                        }
                        Err(refusal) => {
                            sample.news = None;
                            Fault::from(refusal).body()
                        }
                    };
                    if sample.news.is_some() {
                        return Some((value, Some((String::new(), sample))));
                    }
                    completion.fetch_add(sample.growth.ids.len(), Ordering::Relaxed);
                    Some((value, None))
                }
            };
            stream::unfold(start, next).boxed()
        };
        let parts = stream::select_all(samples.into_iter().enumerate().map(grow));
        let usage = stream::once(async move {
            let usage = self.usage(completion.load(Ordering::Relaxed)).json();
            self.asked.include_usage.then(|| self.envelope.of(Vec::new(), Some(usage)))
        });
        parts.chain(usage.filter_map(async |value| value))
    }

    fn part(&self, index: usize, text: &str, sample: &Sample) -> Value {
        let reason = sample.news.is_none().then(|| sample.growth.finish_reason());
        let choice = choice(index, text, Value::Null, reason);
        self.envelope.of(vec![choice], self.asked.include_usage.then_some(Value::Null))
    }
}

impl Sample {
    /// Waits for the next part of the text, which is the last one if there is no more news after it. A sample that has ended
    /// receives none, so that its batch ends once none of its texts is waited for.
    async fn next(&mut self, asking: &Asking) -> Result<String, Refusal> {
        let vocabulary = asking.encoder().vocabulary();
        while let Some(news) = &mut self.news {
            let part = match asking.limit.apply(news.recv()).await? {
                Some(News::Token(id)) => self.growth.push(id, vocabulary),
                Some(News::Answers(answers)) => {
                    self.news = None;
                    let ids = answers.first().map(|answer| &answer.ids[..]);
                    self.growth.finish(ids.unwrap_or_default(), vocabulary)
                }
                Some(News::Failed(reason)) => return Err(Refusal::Failed(reason)),
                _ => return Err(Refusal::Failed("the model has ended".to_string())),
            };
            if self.growth.is_stopped() {
                self.news = None;
            }
            if !part.is_empty() {
                return Ok(part);
            }
        }
        Ok(String::new())
    }

    fn mean_log_prob(&self) -> f64 {
        let ids = &self.growth.ids;
        let own = &self.scores[self.scores.len() - ids.len()..];
        own.iter().map(|places| places[0].1).sum::<f64>() / ids.len().max(1) as f64
    }
}

/// The decoding of one of the samples of a prompt. With a seed each has its own.
fn of_sample(decoding: &Decoding, prompt: &Continued, sample: usize) -> Decoding {
    let mut decoding = decoding.clone();
    decoding.seed = decoding.seed.map(|seed| seed.wrapping_add(sample as i64));
    let num_begun = prompt.begun().len();
    if num_begun > 0 {
        decoding.prediction.prompt_with_targets = true;
        decoding.max_tokens += num_begun;
    }
    decoding
}

/// Sends values as events, and the last event after them.
fn sent(values: impl Stream<Item = Value> + Send + 'static) -> Response {
    let texts = values.map(|value| value.to_string());
    let texts = texts.chain(stream::once(async { DONE.to_string() }));
    let events = texts.map(|text| Ok::<_, Infallible>(Event::default().data(text)));
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
