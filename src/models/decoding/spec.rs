//! The decoding functions as gin binds them.

use std::sync::Arc;

use thiserror::Error;

use super::constraint::Constraint;
use super::generate::Generate;
use crate::gin::Configurable;
use crate::vocab::Vocabulary;

/// Score below which a hypothesis is considered impossible. T5X `decoding.py`, `NEG_INF`.
pub const NEG_INF: f64 = -1e7;

/// Beam search with T5X's length normalization, `score / ((5 + length) / 6) ** alpha` (Wu et al. 2016,
/// arXiv:1609.08144). Source: T5X `decoding.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.decoding.beam_search",
    ignored(
        inputs = "the model gives it",
        cache = "the model gives it",
        tokens_to_logits = "the model gives it",
        decode_rng = "the model gives it",
        initial_index = "prompts are decoded from their first token",
        num_decodes = "the model supplies it: bind `predict_batch_with_aux.num_decodes`",
        eos_id = "the model supplies its output vocabulary's",
        cache_offset = "an axis of flax's cache, which has no counterpart here"
    )
)]
pub struct BeamSearch {
    /// Strength of the preference for longer sequences; 0 compares plain log-probabilities.
    #[gin(default = 0.6)]
    pub alpha: f64,
    /// Longest sequence, in tokens; by default the length of the decoder's inputs.
    #[gin(default = None)]
    pub max_decode_len: Option<usize>,
    /// Greatest number of steps of the search; 0 or less for no limit.
    #[gin(default = -1)]
    pub max_decode_step: i64,
    /// The search ends when no hypothesis has a log-probability above this.
    #[gin(default = NEG_INF)]
    pub min_log_prob: f64,
}

impl Default for BeamSearch {
    fn default() -> Self {
        Self { alpha: 0.6, max_decode_len: None, max_decode_step: -1, min_log_prob: NEG_INF }
    }
}

/// Sampling from the tempered distribution, or from its most probable tokens. Source: T5X
/// `decoding.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.decoding.temperature_sample",
    ignored(
        inputs = "the model gives it",
        cache = "the model gives it",
        tokens_to_logits = "the model gives it",
        decode_rng = "the model gives it",
        num_decodes = "the model supplies it: bind `predict_batch_with_aux.num_decodes`",
        eos_id = "the model supplies its output vocabulary's",
        cache_offset = "an axis of flax's cache, which has no counterpart here",
        initial_index = "prompts are decoded from their first token",
        state_callback_fn = "a Python function; Python is never run",
        logit_callback_fn = "a Python function; Python is never run"
    )
)]
pub struct TemperatureSample {
    /// Divisor of the logits; up to 0.0001 the most probable token is taken.
    #[gin(default = 1.0)]
    pub temperature: f64,
    /// Sample from this many most probable tokens only; 0 for all.
    #[gin(default = 1)]
    pub topk: usize,
    /// Sample from the most probable tokens that together have this probability; 0 for all. Needs
    /// `topk = 0`.
    #[gin(default = 0.0)]
    pub topp: f64,
    /// Greatest number of tokens after the prompt; by default as many as fit the decoder's inputs.
    #[gin(default = None)]
    pub max_decode_steps: Option<usize>,
    /// Upper limit of `max_decode_steps`.
    #[gin(default = None)]
    pub max_decode_steps_hard_limit: Option<usize>,
    /// Whether scores are those of the tempered and cut distribution, so that greedy ones are 0.
    #[gin(default = true)]
    pub rescale_log_probs: bool,
}

impl Default for TemperatureSample {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            topk: 1,
            topp: 0.0,
            max_decode_steps: None,
            max_decode_steps_hard_limit: None,
            rescale_log_probs: true,
        }
    }
}

/// Any decoding function.
// A program has few of them.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum DecodeFn {
    /// Beam search.
    BeamSearch(BeamSearch),
    /// Sampling.
    TemperatureSample(TemperatureSample),
    /// Any of transformers' decodings.
    Generate(Generate),
}

impl DecodeFn {
    /// The number of sequences of each input that are decoded at once, if the model's `num_decodes` is bound to this.
    pub fn num_decodes(&self, bound: usize) -> usize {
        match self {
            Self::Generate(spec) => bound.max(spec.num_beams).max(spec.num_return_sequences),
            _ => bound,
        }
    }

    /// Whether hypotheses are compared and change until the end.
    pub fn searches(&self) -> bool {
        match self {
            Self::BeamSearch(_) => true,
            Self::TemperatureSample(_) => false,
            Self::Generate(spec) => spec.num_beams > 1,
        }
    }

    /// Whether random numbers are drawn.
    pub fn draws(&self) -> bool {
        match self {
            Self::BeamSearch(_) => false,
            Self::TemperatureSample(sample) => sample.topk != 1 && sample.temperature > 0.0,
            Self::Generate(spec) => spec.do_sample,
        }
    }

    /// Whether each step sorts the whole vocabulary or draws from it, instead of only finding the
    /// largest logit.
    pub fn reads_whole_distributions(&self) -> bool {
        match self {
            Self::BeamSearch(_) => false,
            Self::TemperatureSample(sample) => sample.topk != 1,
            Self::Generate(spec) => spec.do_sample,
        }
    }
}

impl Default for DecodeFn {
    fn default() -> Self {
        Self::BeamSearch(BeamSearch::default())
    }
}

/// The options of decoding a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Beam search or sampling.
    pub decode_fn: DecodeFn,
    /// Sequences per input.
    pub num_decodes: usize,
    /// The token that the decoder reads first.
    pub bos_id: i64,
    /// The token that ends a sequence.
    pub eos_id: i64,
    /// Whether sequences begin with the batch's decoder inputs.
    pub prompt_with_targets: bool,
    /// The answers that are possible; `None` for all.
    pub constraint: Option<Arc<Constraint>>,
}

impl Prediction {
    /// The tokens that end a sequence.
    pub fn ends(&self) -> Vec<i64> {
        match &self.decode_fn {
            DecodeFn::Generate(spec) => spec.ends(self.eos_id),
            _ => vec![self.eos_id],
        }
    }

    /// Returns the text of a sequence. An end token of the model's own that stands for no text, such as the unknown piece or a
    /// sentinel, is no part of it.
    pub fn text_of(&self, ids: &[i32], vocabulary: &dyn Vocabulary) -> String {
        let ends = self.ends();
        let end = ids.iter().position(|id| ends.contains(&i64::from(*id)));
        let end = end.filter(|end| !vocabulary.stands_for_text(ids[*end]));
        vocabulary.decode(&ids[..end.unwrap_or(ids.len())])
    }
}

/// A decoding that contradicts itself or its inputs.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DecodeError {
    /// Both cuts were requested.
    #[error(
        "at most one of `topp` ({topp}) and `topk` ({topk}) may be non-zero; bind \
         `decoding.temperature_sample.topk = 0` to sample by `topp`"
    )]
    TwoCuts {
        /// As bound.
        topp: f64,
        /// As bound.
        topk: usize,
    },
    /// More tokens than positions.
    #[error(
        "`decoding.{param}` is {steps}, but targets have {length} positions; lower it or raise the \
         targets' feature length"
    )]
    TooManySteps {
        /// The parameter: `beam_search.max_decode_len`.
        param: &'static str,
        /// As bound.
        steps: usize,
        /// Positions of the decoder's inputs.
        length: usize,
    },
    /// A value that transformers' `generate` does not take either.
    #[error("`decoding.generate.{param}` is {found}, expected {expected}")]
    UnfitGenerate {
        /// The parameter.
        param: &'static str,
        /// As bound.
        found: String,
        /// The values that it may have.
        expected: &'static str,
    },
    /// The answers of a set are longer than decoding goes.
    #[error(
        "the shortest answer of the set (`choices` or `pattern`) has {needed} tokens with its end, and {room} are decoded; raise \
         the targets' feature length, or the decoding function's own limit"
    )]
    NoRoom {
        /// The tokens of the shortest answer.
        needed: usize,
        /// The positions of an answer.
        room: usize,
    },
    /// Inputs are compared with the answer, but the model has no encoder.
    #[error(
        "`decoding.generate.encoder_repetition_penalty` and `encoder_no_repeat_ngram_size` are for models with an \
         encoder; expected 1.0 and 0"
    )]
    NoEncoder,
}

impl TemperatureSample {
    /// Returns the limit of generated tokens for inputs of `length` positions, if one is bound.
    pub fn check(&self, length: usize) -> Result<Option<usize>, DecodeError> {
        if self.topp != 0.0 && self.topk != 0 {
            return Err(DecodeError::TwoCuts { topp: self.topp, topk: self.topk });
        }
        let hard_limit = self.max_decode_steps_hard_limit.filter(|&limit| limit > 0);
        let steps = self.max_decode_steps.map(|steps| steps.min(hard_limit.unwrap_or(steps)));
        match steps {
            Some(steps) if steps > length => {
                let param = "temperature_sample.max_decode_steps";
                Err(DecodeError::TooManySteps { param, steps, length })
            }
            _ => Ok(steps),
        }
    }
}

impl BeamSearch {
    /// The length of sequences for inputs of `length` positions.
    pub fn check(&self, length: usize) -> Result<usize, DecodeError> {
        match self.max_decode_len {
            Some(steps) if steps > length => {
                let param = "beam_search.max_decode_len";
                Err(DecodeError::TooManySteps { param, steps, length })
            }
            bound => Ok(bound.unwrap_or(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topp_needs_topk_off() {
        let both = TemperatureSample { topp: 0.9, ..TemperatureSample::default() };
        assert_eq!(both.check(8), Err(DecodeError::TwoCuts { topp: 0.9, topk: 1 }));
        let one = TemperatureSample { topk: 0, ..both };
        assert_eq!(one.check(8), Ok(None));
    }

    #[test]
    fn the_hard_limit_caps_the_steps() {
        let mut sample =
            TemperatureSample { max_decode_steps: Some(9), ..TemperatureSample::default() };
        assert!(matches!(
            sample.check(8),
            Err(DecodeError::TooManySteps { steps: 9, length: 8, .. })
        ));
        sample.max_decode_steps_hard_limit = Some(5);
        assert_eq!(sample.check(8), Ok(Some(5)));
    }
}
