//! The other objectives of t5 over plain text, and the list of preprocessors that a run can choose.

use super::chunks::{ReduceConcatTokens, SplitTokens, SplitTokensToInputsLength};
use super::denoise::{
    Denoise, DropNoiseTokens, DropNonnoiseTokens, IidNoiseMask, NoiseFn, NoiseMaskFn,
    NoiseSpanToUniqueSentinel, NonnoiseSpanToUniqueSentinel, RandomPrefixNoiseMask,
};
use super::random_chunk::SelectRandomChunk;
use super::tokens::AppendEos;
use super::trim::TrimAndPadDataset;
use super::{Context, Preprocess, Preprocessor, Step};
use crate::error::DataError;
use gimlet_gin::{Configurable, Evaluator, FromGin, Registry, Reported, Slot, Value};

/// Makes a random prefix of each piece of text the inputs, and the rest the targets. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.prefix_lm", open)]
pub struct PrefixLm {
    /// Noise density. At 0.5 all prefix lengths are equally likely; below 0.5, short prefixes are
    /// not drawn.
    #[gin(default = 0.5)]
    pub noise_density: f64,
    /// The preprocessor that selects a chunk of each document.
    #[gin(method)]
    pub select_random_chunk: SelectRandomChunk,
    /// The preprocessor that cuts documents into pieces.
    #[gin(method)]
    pub split_tokens_to_inputs_length: SplitTokensToInputsLength,
}

/// Masks every token with probability 0.15. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.iid_denoising")]
pub struct IidDenoising {
    /// The preprocessor that selects a chunk of each document.
    #[gin(method)]
    pub select_random_chunk: SelectRandomChunk,
    /// The preprocessor that cuts documents into pieces.
    #[gin(method)]
    pub split_tokens_to_inputs_length: SplitTokensToInputsLength,
    /// Replaces masked tokens in the inputs.
    #[gin(method)]
    pub noise_span_to_unique_sentinel: NoiseSpanToUniqueSentinel,
    /// Replaces the other tokens in the targets.
    #[gin(method)]
    pub nonnoise_span_to_unique_sentinel: NonnoiseSpanToUniqueSentinel,
}

/// Documents with EOS, joined and cut to the targets' length; no inputs. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.full_lm")]
pub struct FullLm {
    /// The preprocessor that selects a chunk of each document.
    #[gin(method)]
    pub select_random_chunk: SelectRandomChunk,
    /// The preprocessor that cuts documents into pieces.
    #[gin(method)]
    pub split_tokens: SplitTokens,
}

/// Documents with EOS, joined, cut and padded to the targets' length, for
/// `pack_prefix_lm_encoder_decoder` and `pack_prefix_lm_decoder_only`. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.targets_for_prefix_lm_objective")]
pub struct TargetsForPrefixLmObjective {
    /// The preprocessor that joins and cuts documents.
    #[gin(method)]
    pub full_lm: FullLm,
}

/// Applies the token preprocessors that a run lists, in order: t5's way of choosing the objective
/// of the `c4_v020_unsupervised` tasks. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.unsupervised", open)]
pub struct Unsupervised {
    /// The preprocessors, each a reference without parentheses; None does nothing.
    #[gin(default = None, call(inherits))]
    pub preprocessors: Option<Vec<TokenPreprocessor>>,
}

/// A preprocessor named without parentheses: `@preprocessors.denoise`.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenPreprocessor(
    /// The preprocessor that the reference names.
    pub Box<Preprocessor>,
);

impl FromGin for TokenPreprocessor {
    /// A text without the names of all preprocessors, since they include `unsupervised` itself.
    fn expected() -> String {
        "a preprocessor without parentheses, such as @preprocessors.denoise".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        cx.referenced::<Box<Preprocessor>>(value).map(Self)
    }

    fn register(registry: &mut Registry) {
        Preprocessor::register_slot(registry);
    }
}

impl Default for PrefixLm {
    fn default() -> Self {
        Self {
            noise_density: 0.5,
            select_random_chunk: SelectRandomChunk::default(),
            split_tokens_to_inputs_length: SplitTokensToInputsLength::default(),
        }
    }
}

/// The steps of several preprocessors in sequence.
pub(super) fn in_a_row(
    parts: &[&dyn Preprocess],
    cx: &Context<'_>,
) -> Result<Vec<Step>, DataError> {
    let mut steps = Vec::new();
    for part in parts {
        steps.extend(part.steps(cx)?);
    }
    Ok(steps)
}

impl Preprocess for PrefixLm {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        // The prefix is the "noise", and the inputs contain only the noise.
        let denoise = Denoise::new(
            self.noise_density,
            NoiseMaskFn::RandomPrefixNoiseMask(RandomPrefixNoiseMask {}),
            NoiseFn::DropNonnoiseTokens(DropNonnoiseTokens {}),
            NoiseFn::DropNoiseTokens(DropNoiseTokens {}),
        );
        let chunk = self.select_random_chunk.of_document(None);
        in_a_row(&[&chunk, &self.split_tokens_to_inputs_length, &denoise], cx)
    }
}

impl Preprocess for IidDenoising {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let denoise = Denoise::new(
            0.15,
            NoiseMaskFn::IidNoiseMask(IidNoiseMask {}),
            NoiseFn::NoiseSpanToUniqueSentinel(self.noise_span_to_unique_sentinel.clone()),
            NoiseFn::NonnoiseSpanToUniqueSentinel(self.nonnoise_span_to_unique_sentinel.clone()),
        );
        let chunk = self.select_random_chunk.of_document(None);
        let concat = ReduceConcatTokens::default();
        in_a_row(&[&chunk, &concat, &self.split_tokens_to_inputs_length, &denoise], cx)
    }
}

impl Preprocess for FullLm {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let chunk = self.select_random_chunk.of_document(None);
        let split = self.split_tokens.to(cx.length("targets")?);
        in_a_row(&[&chunk, &AppendEos {}, &ReduceConcatTokens::default(), &split], cx)
    }
}

impl Preprocess for TargetsForPrefixLmObjective {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        in_a_row(&[&self.full_lm, &TrimAndPadDataset {}], cx)
    }
}

impl Preprocess for Unsupervised {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let mut steps = Vec::new();
        for TokenPreprocessor(preprocessor) in self.preprocessors.iter().flatten() {
            steps.extend(preprocessor.steps(cx)?);
        }
        Ok(steps)
    }
}
