//! T5's pretraining objective (Raffel et al. 2020, arXiv:1910.10683).

use super::chunks::{concat_targets, split_targets};
use super::denoise::{Denoise, MAX_DOCUMENT_TOKENS, NoiseMask, RandomChunk};
use super::{Context, Preprocess, Step};
use crate::data::error::DataError;
use crate::gin::Configurable;

/// Spans of tokens are replaced by sentinels, and the targets restore them. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.span_corruption", open)]
pub struct SpanCorruption {
    /// Mean number of tokens of a masked span.
    #[gin(default = 3.0)]
    pub mean_noise_span_length: f64,
    /// Share of tokens that are masked.
    #[gin(default = 0.15)]
    pub noise_density: f64,
    /// The feature that gets the corrupted tokens.
    #[gin(default = "inputs".to_string())]
    pub input_feature_key: String,
    /// Joins documents, so that examples fill their length.
    #[gin(default = true)]
    pub merge_examples_to_reduce_padding: bool,
    /// Makes examples shorter than the inputs' length by so many tokens, for packing.
    #[gin(default = None)]
    pub reserved_for_packing: Option<usize>,
    /// Features kept as they are; only without merging.
    #[gin(default = None)]
    pub passthrough_feature_keys: Option<Vec<String>>,
}

impl Preprocess for SpanCorruption {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let passthrough = self.passthrough_feature_keys.clone().unwrap_or_default();
        if self.merge_examples_to_reduce_padding && !passthrough.is_empty() {
            return Err(DataError::Config(
                "`span_corruption.passthrough_feature_keys` needs \
                 `merge_examples_to_reduce_padding = False`"
                    .to_string(),
            ));
        }
        let mask = NoiseMask::RandomSpans { mean_noise_span_length: self.mean_noise_span_length };
        let denoise = Denoise::new(cx, &self.input_feature_key, self.noise_density, mask)?;
        let max_tokens = self.tokens_length(cx)?;
        let chunk =
            RandomChunk { max_tokens: MAX_DOCUMENT_TOKENS, passthrough: passthrough.clone() };
        let mut steps = vec![Step::Map(Box::new(chunk))];
        if self.merge_examples_to_reduce_padding {
            steps.push(concat_targets());
        }
        steps.push(split_targets(max_tokens, &passthrough));
        steps.push(Step::Map(Box::new(Denoise { passthrough, ..denoise })));
        Ok(steps)
    }
}

impl SpanCorruption {
    /// Tokens of an uncorrupted example, so that the corrupted one fits its lengths.
    fn tokens_length(&self, cx: &Context<'_>) -> Result<usize, DataError> {
        let inputs = cx.length(&self.input_feature_key)?;
        let configured = cx.length("targets")?;
        let room = inputs.saturating_sub(self.reserved_for_packing.unwrap_or(0));
        if room < 3 {
            return Err(DataError::Config(format!(
                "span corruption needs an '{}' length of 3 or more, found {room}",
                self.input_feature_key
            )));
        }
        if !(0.0..1.0).contains(&self.noise_density) || self.mean_noise_span_length < 1.0 {
            return Err(DataError::Config(format!(
                "span corruption needs 0 <= noise_density < 1 and mean_noise_span_length >= 1, \
                 found {} and {}",
                self.noise_density, self.mean_noise_span_length
            )));
        }
        let (tokens, needed) =
            random_spans_helper(room, self.noise_density, self.mean_noise_span_length);
        match configured < needed {
            true => Err(DataError::TargetsTooShort { needed, configured, inputs }),
            false => Ok(tokens),
        }
    }
}

/// `(tokens, targets)`: how many tokens make corrupted inputs of at most `inputs_length` with EOS,
/// and how long their targets then are with EOS. One sentinel replaces each span.
pub fn random_spans_helper(
    inputs_length: usize,
    noise_density: f64,
    mean_noise_span_length: f64,
) -> (usize, usize) {
    let corrupted = |tokens: usize| {
        // Python's `round` takes halves to even.
        let noise = (tokens as f64 * noise_density).round_ties_even();
        let spans = (noise / mean_noise_span_length).round_ties_even() as usize;
        let noise = noise as usize;
        (tokens - noise + spans + 1, noise + spans + 1)
    };
    let mut tokens = inputs_length - 1;
    while corrupted(tokens + 1).0 <= inputs_length {
        tokens += 1;
    }
    let (inputs, mut targets) = corrupted(tokens);
    // At half noise t5 makes targets no longer than inputs, which are likely a round number.
    if noise_density == 0.5 && targets > inputs {
        tokens -= 1;
        targets -= 1;
    }
    (tokens, targets)
}
