//! The slot that all preprocessors fill.

use super::bert::BertMasking;
use super::chunks::{
    ConcatenateAndSplitToFixedLength, ReduceConcatTokens, SplitTokens, SplitTokensToInputsLength,
    SplitTokensToRandomLength, SplitTokensToTargetsLength,
};
use super::denoise::Denoise;
use super::lm::{FullLm, IidDenoising, PrefixLm, TargetsForPrefixLmObjective, Unsupervised};
use super::prefix_lm_packing::{PackPrefixLmDecoderOnly, PackPrefixLmEncoderDecoder};
use super::random_chunk::SelectRandomChunk;
use super::span_corruption::SpanCorruption;
use super::text::{ParseTsv, PreprocessTsv, Rekey, Summarize, Translate};
use super::tokens::{
    AppendEos, AppendEosAfterTrim, Tokenize, TokenizeAndAppendEos, TruncateInputsLeft,
};
use super::trim::{TrimAndPadDataset, TrimTokensAtFront, TriviaQaTruncateInputs};
use super::{Context, Preprocess, Step};
use crate::data::error::DataError;
use crate::gin::{Configurable, Slot};

crate::gin::slot! {
    /// Any preprocessor of a task, in called form: `@seqio.preprocessors.tokenize()`.
    pub enum Preprocessor: Preprocess {
        AppendEos,
        AppendEosAfterTrim,
        BertMasking,
        CacheDatasetPlaceholder,
        ConcatenateAndSplitToFixedLength,
        Denoise,
        FullLm,
        IidDenoising,
        PackPrefixLmDecoderOnly,
        PackPrefixLmEncoderDecoder,
        ParseTsv,
        PrefixLm,
        PreprocessTsv,
        ReduceConcatTokens,
        Rekey,
        SelectRandomChunk,
        SpanCorruption,
        SplitTokens,
        SplitTokensToInputsLength,
        SplitTokensToRandomLength,
        SplitTokensToTargetsLength,
        Summarize,
        TargetsForPrefixLmObjective,
        Tokenize,
        TokenizeAndAppendEos,
        Translate,
        TrimAndPadDataset,
        TrimTokensAtFront,
        TriviaQaTruncateInputs,
        TruncateInputsLeft,
        Unsupervised,
    }
}

impl Preprocessor {
    /// What it does, for a task and its lengths.
    pub(crate) fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        self.spec().steps(cx)
    }

    /// Whether it looks at `task_feature_lengths`.
    pub(crate) fn needs_lengths(&self) -> bool {
        self.spec().needs_lengths()
    }

    /// The name by which errors call it.
    pub(crate) fn name(&self) -> &'static str {
        self.schema_of().short_name()
    }
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

impl Preprocess for CacheDatasetPlaceholder {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        Ok(Vec::new())
    }
}
