//! The inputs and outputs of decoding, independent of the algorithm.

use std::ops::ControlFlow;
use std::sync::Arc;

use tch::{Device, Kind, Tensor};

use super::constraint::Constraint;
use super::spec::{DecodeError, DecodeFn, NEG_INF};
use crate::nn::largest_columns;

/// A model that extends hypotheses by one token at a time.
pub trait NextLogits {
    /// Logits of the token after `tokens`, the last of every hypothesis: int64 `[rows, 1]` to float32
    /// `[rows, vocab]`. Rows are `batch * num_decodes`, those of one input next to each other.
    fn next_logits(&mut self, tokens: &Tensor) -> Tensor;

    /// The most probable token after `tokens`, the first of equals: int64 `[rows]`.
    fn next_most_probable(&mut self, tokens: &Tensor) -> Tensor {
        largest_columns(&self.next_logits(tokens))
    }

    /// Continues row `i` from the past of row `indices[i]`, int64 `[rows]`.
    fn reorder(&mut self, indices: &Tensor);
}

/// Follows a decoding step by step, and may end it early.
pub trait Observer {
    /// Gets the tokens that a step has appended, int64 `[rows, 1]`, 0 in rows that have ended. A beam search
    /// gives none, since its hypotheses still change.
    fn observe(&mut self, tokens: Option<&Tensor>) -> ControlFlow<()>;
}

/// Observes nothing.
impl Observer for () {
    fn observe(&mut self, _: Option<&Tensor>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// The start of decoding.
#[derive(Debug)]
pub struct Prompt {
    /// int64 `[batch, length]`: 0, then tokens of the prompt, then 0 for tokens to find. Its
    /// length is that of the result.
    pub inputs: Tensor,
    /// The token that the decoder reads in place of the first 0.
    pub bos_id: i64,
    /// The token that ends a sequence.
    pub eos_id: i64,
    /// Sequences per input.
    pub num_decodes: i64,
    /// The position whose token is read first. All tokens up to it belong to the prompt, and the
    /// model has read those before it.
    pub start: i64,
    /// The inputs of an encoder, which are not copied or are preferred: int64 `[batch, inputs_length]`, 0 is padding.
    pub encoder_inputs: Option<Tensor>,
    /// The answers that are possible after the prompt; `None` for all.
    pub constraint: Option<Arc<Constraint>>,
}

impl Prompt {
    /// One sequence for each row of `inputs`, which begins with 0 and ends in 1.
    #[cfg(test)]
    pub fn of_answers(inputs: Tensor) -> Self {
        Self {
            inputs,
            bos_id: 0,
            eos_id: 1,
            num_decodes: 1,
            start: 0,
            encoder_inputs: None,
            constraint: None,
        }
    }
}

/// The decoded sequences, worst to best.
#[derive(Debug)]
pub struct Decodes {
    /// int64 `[batch, num_decodes, length]`, 0 after the end token.
    pub sequences: Tensor,
    /// float32 `[batch, num_decodes]`
    pub scores: Tensor,
}

impl DecodeFn {
    /// Decodes with `model`, whose cache is empty. Sampling draws from torch's generator.
    pub fn decode(
        &self,
        prompt: &Prompt,
        model: &mut dyn NextLogits,
    ) -> Result<Decodes, DecodeError> {
        self.decode_observed(prompt, model, &mut ())
    }

    /// Decodes in the same way, and tells `observer` about each step. If the observer ends the decoding, the
    /// result is that of the steps before.
    pub fn decode_observed(
        &self,
        prompt: &Prompt,
        model: &mut dyn NextLogits,
        observer: &mut dyn Observer,
    ) -> Result<Decodes, DecodeError> {
        tch::no_grad(|| match self {
            DecodeFn::BeamSearch(spec) => spec.decode(prompt, model, observer),
            DecodeFn::TemperatureSample(spec) => spec.decode(prompt, model, observer),
            DecodeFn::Generate(spec) => spec.decode(prompt, model, observer),
        })
    }
}

impl Decodes {
    /// Whether a sequence of this score is an answer: a search in a set of few answers finds fewer than it was asked for.
    pub fn is_answer(score: f64) -> bool {
        score > NEG_INF
    }

    /// The best sequence of each input `[batch, length]` and its score `[batch]`.
    pub fn best(&self) -> (Tensor, Tensor) {
        let last = self.scores.size()[1] - 1;
        (self.sequences.select(1, last), self.scores.select(1, last))
    }
}

/// Returns the number of steps after which the host checks whether everything has ended. A check
/// waits for a CUDA device, which then waits for the host; steps after the end change nothing.
pub(super) fn steps_between_looks(device: Device) -> i64 {
    if device.is_cuda() { 8 } else { 1 }
}

/// Whether ids are one of a few.
pub(super) fn is_one_of(ids: &Tensor, few: &[i64]) -> Tensor {
    let none = || ids.zeros_like().to_kind(Kind::Bool);
    few.iter()
        .map(|id| ids.eq(*id))
        .reduce(|one, other| one.logical_or(&other))
        .unwrap_or_else(none)
}

pub(super) fn truth(condition: &Tensor) -> bool {
    condition.int64_value(&[]) != 0
}

/// A model whose next logits depend on the last token alone: float32 `[vocab, vocab]`.
#[cfg(test)]
pub(super) struct Chain(pub Tensor);

#[cfg(test)]
impl Chain {
    pub fn new(vocab_size: i64) -> Self {
        let numbers = Tensor::arange(vocab_size * vocab_size, (Kind::Float, Device::Cpu));
        Self((numbers * 1.7).sin().view([vocab_size, vocab_size]) * 2.0)
    }
}

#[cfg(test)]
impl NextLogits for Chain {
    fn next_logits(&mut self, tokens: &Tensor) -> Tensor {
        self.0.index_select(0, &tokens.view(-1))
    }

    fn reorder(&mut self, _: &Tensor) {}
}
