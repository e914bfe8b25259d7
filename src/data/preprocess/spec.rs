//! The slot that all preprocessors fill.

use super::lm::{FullLm, IidDenoising, PrefixLm};
use super::span_corruption::SpanCorruption;
use super::text::{ParseTsv, PreprocessTsv, Rekey, Summarize, Translate};
use super::tokens::{
    AppendEos, AppendEosAfterTrim, Tokenize, TokenizeAndAppendEos, TruncateInputsLeft,
};
use super::{Context, Step};
use crate::data::error::DataError;
use crate::gin::Configurable;

/// Any preprocessor of a task, in called form: `@seqio.preprocessors.tokenize()`.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum Preprocessor {
    /// Renames features.
    Rekey(Rekey),
    /// Text to ids.
    Tokenize(Tokenize),
    /// Text to ids that end in EOS.
    TokenizeAndAppendEos(TokenizeAndAppendEos),
    /// EOS at the end.
    AppendEos(AppendEos),
    /// EOS at the end of what fits.
    AppendEosAfterTrim(AppendEosAfterTrim),
    /// The last tokens of the inputs.
    TruncateInputsLeft(TruncateInputsLeft),
    /// Marks what can be cached.
    Cache(CacheDatasetPlaceholder),
    /// T5's objective.
    SpanCorruption(SpanCorruption),
    /// A prefix predicts the rest.
    PrefixLm(PrefixLm),
    /// Single tokens are masked.
    IidDenoising(IidDenoising),
    /// Plain language modeling.
    FullLm(FullLm),
    /// A translation pair.
    Translate(Translate),
    /// An article and its summary.
    Summarize(Summarize),
    /// Fields of a delimited line.
    ParseTsv(ParseTsv),
    /// Fields of a delimited line, formatted.
    PreprocessTsv(PreprocessTsv),
}

/// Marks how far a task can be preprocessed ahead of time. Source: SeqIO `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.CacheDatasetPlaceholder",
    alias = "seqio.dataset_providers.CacheDatasetPlaceholder",
    ignored(file_shuffle_buffer_size = "all files are shuffled at once")
)]
pub struct CacheDatasetPlaceholder {
    /// Whether the task may only be read from its cache.
    #[gin(default = false)]
    pub required: bool,
}

impl Preprocessor {
    /// What it does, for a task and its lengths.
    pub(crate) fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        match self {
            Self::Rekey(spec) => Ok(spec.steps()),
            Self::Tokenize(spec) => Ok(spec.steps(cx)),
            Self::TokenizeAndAppendEos(spec) => Ok(spec.steps(cx)),
            Self::AppendEos(_) => Ok(AppendEos::steps(cx)),
            Self::AppendEosAfterTrim(_) => Ok(AppendEosAfterTrim::steps(cx)),
            Self::TruncateInputsLeft(_) => Ok(TruncateInputsLeft::steps(cx)),
            Self::Cache(_) => Ok(Vec::new()),
            Self::SpanCorruption(spec) => spec.steps(cx),
            Self::PrefixLm(spec) => spec.steps(cx),
            Self::IidDenoising(_) => IidDenoising::steps(cx),
            Self::FullLm(_) => FullLm::steps(cx),
            Self::Translate(spec) => spec.steps(),
            Self::Summarize(spec) => Ok(spec.steps()),
            Self::ParseTsv(spec) => Ok(spec.steps()),
            Self::PreprocessTsv(spec) => spec.steps(),
        }
    }

    /// Whether it looks at `task_feature_lengths`.
    pub(crate) fn needs_lengths(&self) -> bool {
        match self {
            Self::AppendEosAfterTrim(_)
            | Self::TruncateInputsLeft(_)
            | Self::SpanCorruption(_)
            | Self::PrefixLm(_)
            | Self::IidDenoising(_)
            | Self::FullLm(_) => true,
            Self::Rekey(_)
            | Self::Tokenize(_)
            | Self::TokenizeAndAppendEos(_)
            | Self::AppendEos(_)
            | Self::Cache(_)
            | Self::Translate(_)
            | Self::Summarize(_)
            | Self::ParseTsv(_)
            | Self::PreprocessTsv(_) => false,
        }
    }

    /// The name by which errors call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Rekey(_) => "rekey",
            Self::Tokenize(_) => "tokenize",
            Self::TokenizeAndAppendEos(_) => "tokenize_and_append_eos",
            Self::AppendEos(_) => "append_eos",
            Self::AppendEosAfterTrim(_) => "append_eos_after_trim",
            Self::TruncateInputsLeft(_) => "truncate_inputs_left",
            Self::Cache(_) => "CacheDatasetPlaceholder",
            Self::SpanCorruption(_) => "span_corruption",
            Self::PrefixLm(_) => "prefix_lm",
            Self::IidDenoising(_) => "iid_denoising",
            Self::FullLm(_) => "full_lm",
            Self::Translate(_) => "translate",
            Self::Summarize(_) => "summarize",
            Self::ParseTsv(_) => "parse_tsv",
            Self::PreprocessTsv(_) => "preprocess_tsv",
        }
    }
}
