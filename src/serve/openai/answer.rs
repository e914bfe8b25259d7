//! The answer as JSON: a whole one, or the parts of a stream.

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::serve::shared::Shared;

/// The fields that an answer and all its parts share.
#[derive(Clone, Debug)]
pub struct Envelope {
    id: String,
    created: u64,
    model: String,
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Tokens of its prompts.
    pub prompt: usize,
    /// Tokens of all samples.
    pub completion: usize,
}

impl Envelope {
    /// The envelope of a new answer.
    pub fn new(shared: &Shared) -> Self {
        let number = shared.num_asked.fetch_add(1, Ordering::Relaxed);
        Self {
            id: format!("cmpl-{:x}-{number}", shared.started),
            created: unix_seconds(),
            model: shared.about.name.clone(),
        }
    }

    /// Puts choices into it. The usage is null in a part of a stream that does not count the tokens.
    pub fn of(&self, choices: Vec<Value>, usage: Option<Value>) -> Value {
        let Self { id, created, model } = self;
        let object = "text_completion";
        let mut answer = json!({
            "id": id, "object": object, "created": created, "model": model, "choices": choices
        });
        if let Some(usage) = usage {
            answer["usage"] = usage;
        }
        answer
    }
}

impl Usage {
    /// The counts as JSON.
    pub fn json(self) -> Value {
        let Self { prompt, completion } = self;
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        })
    }
}

/// One answer, or a part of it, which has no reason of its end yet.
pub fn choice(index: usize, text: &str, logprobs: Value, finish_reason: Option<&str>) -> Value {
    json!({"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish_reason})
}

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
