//! The enum of all preprocessors.

use super::bert::BertMasking;
use super::chunks::{
    ConcatenateAndSplitToFixedLength, ReduceConcatTokens, SplitTokens, SplitTokensToInputsLength,
    SplitTokensToRandomLength, SplitTokensToTargetsLength,
};
use super::closed_book::{
    MaskSalientSpans, NaturalQuestionsNocontext, QuestionAnswers, SampleAnswer,
};
use super::converter::ApplyFeatureConverter;
use super::denoise::Denoise;
use super::few_shot::FewshotPreprocessor;
use super::lm::{FullLm, IidDenoising, PrefixLm, TargetsForPrefixLmObjective, Unsupervised};
use super::prefix_lm_packing::{PackPrefixLmDecoderOnly, PackPrefixLmEncoderDecoder};
use super::python::PythonPreprocessor;
use super::random_chunk::SelectRandomChunk;
use super::sentinels::{AddSentinels, AppendEosAfterTrimAndPreserve};
use super::span_corruption::SpanCorruption;
use super::take::Take;
use super::text::{
    ApplyTemplate, CollectAnswers, CutText, DefinitePronounResolutionSimple, FillInTheBlank,
    FillInTheBlankSized, FilterByStringLength, FilterByValue, FilterTydiqaByLanguage,
    FormatFeatures, Glue, Lm, MapLabels, MultiTranslate, NeighboringPairs, NextSentencePrediction,
    PadNonspacedLanguages, ParseTsv, PreprocessTensorflowExamples, PreprocessTsv, PrintDataset,
    ProcessMnli, ProcessXnli, RandomSplitText, RankClassification, RankClassificationFormatter,
    Record, Rekey, RemoveFirstTextToken, ReplaceText, SetFeature, SplitTextToWords, Squad,
    SquadSpanSpaceTokenized, Stsb, Summarize, Translate, TriviaQa, Unidecode, Wikiann, WnliSimple,
    Wsc, WscSimple, Xquad,
};
use super::tokens::{
    AddSentinelToBeginning, AppendEos, AppendEosAfterTrim, PrependBos, PrependPrompt, Tokenize,
    TokenizeAndAppendEos, TruncateInputsLeft,
};
use super::trim::{TrimAndPadDataset, TrimTokensAtFront, TriviaQaTruncateInputs};
use super::{Context, Preprocess, Step};
use crate::error::DataError;
use gimlet_gin::{Configurable, Slot};

gimlet_gin::slot! {
    /// Any preprocessor of a task, in called form: `@seqio.preprocessors.tokenize()`.
    pub enum Preprocessor: Preprocess {
        AddSentinelToBeginning,
        AddSentinels,
        AppendEos,
        AppendEosAfterTrim,
        AppendEosAfterTrimAndPreserve,
        ApplyFeatureConverter,
        ApplyTemplate,
        BertMasking,
        CacheDatasetPlaceholder,
        CollectAnswers,
        ConcatenateAndSplitToFixedLength,
        CutText,
        DefinitePronounResolutionSimple,
        Denoise,
        FewshotPreprocessor,
        FillInTheBlank,
        FillInTheBlankSized,
        FilterByStringLength,
        FilterByValue,
        FilterTydiqaByLanguage,
        FormatFeatures,
        FullLm,
        Glue,
        IidDenoising,
        Lm,
        MapLabels,
        MaskSalientSpans,
        MultiTranslate,
        NaturalQuestionsNocontext,
        NeighboringPairs,
        NextSentencePrediction,
        PackPrefixLmDecoderOnly,
        PackPrefixLmEncoderDecoder,
        PadNonspacedLanguages,
        ParseTsv,
        PrefixLm,
        PrependBos,
        PrependPrompt,
        PreprocessTensorflowExamples,
        PreprocessTsv,
        PrintDataset,
        ProcessMnli,
        ProcessXnli,
        PythonPreprocessor,
        QuestionAnswers,
        RandomSplitText,
        RankClassification,
        RankClassificationFormatter,
        Record,
        ReduceConcatTokens,
        Rekey,
        RemoveFirstTextToken,
        ReplaceText,
        SampleAnswer,
        SelectRandomChunk,
        SetFeature,
        SpanCorruption,
        SplitTextToWords,
        SplitTokens,
        SplitTokensToInputsLength,
        SplitTokensToRandomLength,
        SplitTokensToTargetsLength,
        Squad,
        SquadSpanSpaceTokenized,
        Stsb,
        Summarize,
        Take,
        TargetsForPrefixLmObjective,
        Tokenize,
        TokenizeAndAppendEos,
        Translate,
        TrimAndPadDataset,
        TrimTokensAtFront,
        TriviaQa,
        TriviaQaTruncateInputs,
        TruncateInputsLeft,
        Unidecode,
        Unsupervised,
        Wikiann,
        WnliSimple,
        Wsc,
        WscSimple,
        Xquad,
    }
}

impl Preprocessor {
    /// The steps of the preprocessor, for a task and its lengths.
    pub(crate) fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        self.spec().steps(cx)
    }

    /// Whether the steps depend on `task_feature_lengths`.
    pub(crate) fn needs_lengths(&self) -> bool {
        self.spec().needs_lengths()
    }

    /// The name of the preprocessor in errors.
    pub fn name(&self) -> &'static str {
        self.schema_of().short_name()
    }
}

/// Marks the point up to which a task can be preprocessed ahead of time. Source: SeqIO
/// `dataset_providers.py`.
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
