//! T5's pretraining objective (Raffel et al. 2020, arXiv:1910.10683).

use super::chunks::{ReduceConcatTokens, SplitTokens};
use super::denoise::{
    Denoise, NoiseFn, NoiseMaskFn, NoiseSpanToUniqueSentinel, NonnoiseSpanToUniqueSentinel,
    RandomSpansNoiseMask,
};
use super::lm::in_a_row;
use super::random_chunk::SelectRandomChunk;
use super::{Context, Preprocess, Step};
use crate::error::DataError;
use gimlet_gin::{Configurable, Function, Value, ValueKind};

/// Replaces spans of tokens by sentinels in the inputs; the targets contain the spans. Source: t5
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
    /// Number of tokens by which examples are shorter than the inputs' length, for packing.
    #[gin(default = None)]
    pub reserved_for_packing: Option<usize>,
    /// Features kept unchanged; only without merging.
    #[gin(default = None)]
    pub passthrough_feature_keys: Option<Vec<String>>,
    /// The preprocessor that selects a chunk of each document.
    #[gin(method)]
    pub select_random_chunk: SelectRandomChunk,
    /// The function that chooses the noise.
    #[gin(method)]
    pub random_spans_noise_mask: RandomSpansNoiseMask,
    /// Replaces the noise in the inputs.
    #[gin(method)]
    pub noise_span_to_unique_sentinel: NoiseSpanToUniqueSentinel,
    /// Replaces the other tokens in the targets.
    #[gin(method)]
    pub nonnoise_span_to_unique_sentinel: NonnoiseSpanToUniqueSentinel,
}

impl Default for SpanCorruption {
    fn default() -> Self {
        Self {
            mean_noise_span_length: 3.0,
            noise_density: 0.15,
            input_feature_key: "inputs".to_string(),
            merge_examples_to_reduce_padding: true,
            reserved_for_packing: None,
            passthrough_feature_keys: None,
            select_random_chunk: SelectRandomChunk::default(),
            random_spans_noise_mask: RandomSpansNoiseMask::default(),
            noise_span_to_unique_sentinel: NoiseSpanToUniqueSentinel::default(),
            nonnoise_span_to_unique_sentinel: NonnoiseSpanToUniqueSentinel::default(),
        }
    }
}

impl Preprocess for SpanCorruption {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let passthrough = self.passthrough_feature_keys.as_ref();
        let chunk = self.select_random_chunk.of_document(passthrough);
        let split = SplitTokens {
            passthrough_feature_keys: passthrough.cloned(),
            ..SplitTokens::default().to(self.tokens_length(cx)?)
        };
        let denoise = self.denoise();
        if !self.merge_examples_to_reduce_padding {
            return in_a_row(&[&chunk, &split, &denoise], cx);
        }
        if passthrough.is_some_and(|keys| !keys.is_empty()) {
            return Err(DataError::Config(
                "`span_corruption.passthrough_feature_keys` needs \
                 `merge_examples_to_reduce_padding = False`"
                    .to_string(),
            ));
        }
        in_a_row(&[&chunk, &ReduceConcatTokens::default(), &split, &denoise], cx)
    }
}

impl SpanCorruption {
    fn denoise(&self) -> Denoise {
        let mask = RandomSpansNoiseMask {
            mean_noise_span_length: self.mean_noise_span_length,
            ..self.random_spans_noise_mask
        };
        Denoise {
            input_feature_key: self.input_feature_key.clone(),
            passthrough_feature_keys: self.passthrough_feature_keys.clone(),
            ..Denoise::new(
                self.noise_density,
                NoiseMaskFn::RandomSpansNoiseMask(mask),
                NoiseFn::NoiseSpanToUniqueSentinel(self.noise_span_to_unique_sentinel.clone()),
                NoiseFn::NonnoiseSpanToUniqueSentinel(
                    self.nonnoise_span_to_unique_sentinel.clone(),
                ),
            )
        }
    }

    /// Number of tokens of an uncorrupted example such that the corrupted one fits its lengths.
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
        let lengths = SpanLengths {
            noise_density: self.noise_density,
            mean_noise_span_length: self.mean_noise_span_length,
            inputs_per_span: 1,
            targets_per_span: 1,
        };
        if self.mean_noise_span_length < 1.0 || !lengths.are_bounded() {
            return Err(DataError::Config(format!(
                "span corruption needs 0 <= noise_density <= 1, mean_noise_span_length >= 1 and inputs \
                 that grow with the text, found {} and {}",
                self.noise_density, self.mean_noise_span_length
            )));
        }
        let (tokens, needed) = lengths.fitting(room);
        match configured < needed {
            true => Err(DataError::TargetsTooShort { needed, configured, inputs }),
            false => Ok(tokens),
        }
    }
}

/// `(tokens, targets)`: the number of tokens that make corrupted inputs of at most `inputs_length`
/// with EOS, and the length of their targets with EOS. One sentinel replaces each span.
pub fn random_spans_helper(
    inputs_length: usize,
    noise_density: f64,
    mean_noise_span_length: f64,
) -> (usize, usize) {
    let lengths = SpanLengths {
        noise_density,
        mean_noise_span_length,
        inputs_per_span: 1,
        targets_per_span: 1,
    };
    lengths.fitting(inputs_length)
}

/// The lengths of corrupted inputs and their targets.
struct SpanLengths {
    noise_density: f64,
    mean_noise_span_length: f64,
    /// Tokens that replace a noise span in the inputs.
    inputs_per_span: usize,
    /// Tokens that replace the text between noise spans in the targets.
    targets_per_span: usize,
}

impl SpanLengths {
    /// Whether inputs grow by at least a thousandth of a token for each token of the text:
    /// otherwise no text, or none of reasonable length, has inputs that are too long.
    fn are_bounded(&self) -> bool {
        let Self { noise_density: density, mean_noise_span_length: mean, .. } = *self;
        let growth = 1.0 - density + density / mean * self.inputs_per_span as f64;
        (0.0..=1.0).contains(&density) && mean > 0.0 && growth >= 1e-3
    }

    /// The lengths of inputs and targets, each with EOS, for a text of `tokens` tokens.
    fn corrupted(&self, tokens: usize) -> (usize, usize) {
        // Python's `round` rounds halves to even.
        let noise = (tokens as f64 * self.noise_density).round_ties_even();
        let spans = (noise / self.mean_noise_span_length).round_ties_even() as usize;
        let noise = noise as usize;
        let inputs = tokens.saturating_sub(noise) + spans * self.inputs_per_span + 1;
        (inputs, noise + spans * self.targets_per_span + 1)
    }

    /// The maximum number of tokens whose inputs fit, and the length of their targets.
    fn fitting(&self, inputs_length: usize) -> (usize, usize) {
        let mut tokens = inputs_length.saturating_sub(1);
        while self.corrupted(tokens + 1).0 <= inputs_length {
            tokens += 1;
        }
        let (inputs, mut targets) = self.corrupted(tokens);
        // At a noise density of 0.5 t5 makes targets no longer than inputs, whose length is
        // probably a round number.
        if self.noise_density == 0.5 && targets > inputs {
            tokens -= 1;
            targets -= 1;
        }
        (tokens, targets)
    }
}

/// `(tokens, targets)`: the number of tokens of an example from which `random_spans_noise_mask`
/// makes inputs of a given length, and the length of its targets, both with EOS. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5.data.preprocessors.random_spans_helper",
    open,
    ignored(verbose = "`gimlet task show` prints the lengths")
)]
pub struct RandomSpansHelper {
    /// Length of the inputs.
    pub inputs_length: usize,
    /// Share of tokens that are noise.
    pub noise_density: f64,
    /// Mean number of tokens of a noise span.
    pub mean_noise_span_length: f64,
    /// Tokens that replace a noise span in the inputs.
    pub extra_tokens_per_span_inputs: usize,
    /// Tokens that replace the text between noise spans in the targets.
    pub extra_tokens_per_span_targets: usize,
}

/// The number of tokens that an example needs, by `random_spans_helper`; for `split_tokens`.
/// Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.random_spans_tokens_length", open)]
pub struct RandomSpansTokensLength {
    /// The function that computes the lengths.
    #[gin(method)]
    pub random_spans_helper: RandomSpansHelper,
}

/// The length of targets, by `random_spans_helper`; for `task_feature_lengths`. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.random_spans_targets_length", open)]
pub struct RandomSpansTargetsLength {
    /// The function that computes the lengths.
    #[gin(method)]
    pub random_spans_helper: RandomSpansHelper,
}

impl RandomSpansHelper {
    fn lengths(&self) -> Result<(usize, usize), String> {
        let lengths = SpanLengths {
            noise_density: self.noise_density,
            mean_noise_span_length: self.mean_noise_span_length,
            inputs_per_span: self.extra_tokens_per_span_inputs,
            targets_per_span: self.extra_tokens_per_span_targets,
        };
        if lengths.are_bounded() {
            return Ok(lengths.fitting(self.inputs_length));
        }
        Err(format!(
            "`random_spans_helper` needs inputs that grow with the text, found noise_density {}, \
             mean_noise_span_length {} and extra_tokens_per_span_inputs {}",
            self.noise_density, self.mean_noise_span_length, self.extra_tokens_per_span_inputs
        ))
    }
}

fn int(length: usize) -> ValueKind {
    ValueKind::Int(length.into())
}

impl Function for RandomSpansHelper {
    fn call(self) -> Result<ValueKind, String> {
        let (tokens, targets) = self.lengths()?;
        Ok(ValueKind::Tuple([tokens, targets].map(|n| Value::unplaced(int(n))).to_vec()))
    }
}

impl Function for RandomSpansTokensLength {
    fn call(self) -> Result<ValueKind, String> {
        self.random_spans_helper.lengths().map(|(tokens, _)| int(tokens))
    }
}

impl Function for RandomSpansTargetsLength {
    fn call(self) -> Result<ValueKind, String> {
        self.random_spans_helper.lengths().map(|(_, targets)| int(targets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_that_never_grow_too_long_are_refused() {
        let helper = |noise_density, mean_noise_span_length, extra_tokens_per_span_inputs| {
            let extra_tokens_per_span_targets = 1;
            let inputs_length = 512;
            RandomSpansHelper {
                inputs_length,
                noise_density,
                mean_noise_span_length,
                extra_tokens_per_span_inputs,
                extra_tokens_per_span_targets,
            }
        };
        for (density, mean, extra) in [(1.0, 3.0, 0), (1.0, 1e9, 1), (1.5, 3.0, 1), (0.15, 0.0, 1)]
        {
            let error = helper(density, mean, extra).call().unwrap_err();
            let start = "`random_spans_helper` needs inputs that grow with the text, found";
            assert!(error.starts_with(start), "{error}");
        }
        assert_eq!(helper(1.0, 3.0, 1).lengths().map(|(tokens, _)| tokens > 512), Ok(true));
    }
}
