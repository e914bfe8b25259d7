//! The steps from raw examples to token ids, under their names in SeqIO and t5.
//!
//! Gin files name a [`Preprocessor`]. For one task and one set of lengths it yields [`Step`]s: maps
//! of single examples, which run on many threads, and steps that need several examples.

mod bert;
mod chunks;
mod closed_book;
mod converter;
mod denoise;
mod few_shot;
mod lm;
mod prefix_lm_packing;
mod python;
mod random_chunk;
mod reference_tests;
mod sentinels;
mod span_corruption;
mod spec;
mod take;
#[cfg(test)]
mod testing;
mod text;
mod tokens;
mod trim;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::convert::FeatureConverter;
use super::error::DataError;
use super::example::Example;
use super::feature::{Feature, FeatureDtype};
use super::random::{Draw, StageSeed};
use super::value::Key;
use gimlet_vocab::{VocabError, Vocabulary, VocabularySpec};

pub use bert::BertMasking;
pub use chunks::{
    ConcatenateAndSplitToFixedLength, ReduceConcatTokens, SplitTokens, SplitTokensToInputsLength,
    SplitTokensToRandomLength, SplitTokensToTargetsLength,
};
pub use closed_book::{MaskSalientSpans, NaturalQuestionsNocontext, QuestionAnswers, SampleAnswer};
pub use converter::ApplyFeatureConverter;
pub use denoise::{
    Denoise, DropNoiseTokens, DropNonnoiseTokens, IidNoiseMask, NoiseFn, NoiseMaskFn,
    NoiseSpanToSentinel, NoiseSpanToUniqueSentinel, NoiseTokenToGatheredToken,
    NoiseTokenToRandomToken, NoiseTokenToRandomTokenOrSentinel, NoiseTokenToSentinel,
    NonnoiseSpanToSentinel, NonnoiseSpanToUniqueSentinel, PermuteNoiseTokens,
    RandomPrefixNoiseMask, RandomSpansNoiseMask, RegularNoiseMask, SentinelId,
};
pub use few_shot::FewshotPreprocessor;
pub use lm::{
    FullLm, IidDenoising, PrefixLm, TargetsForPrefixLmObjective, TokenPreprocessor, Unsupervised,
};
pub use prefix_lm_packing::{PackPrefixLmDecoderOnly, PackPrefixLmEncoderDecoder};
pub use python::{PythonOver, PythonPreprocessor};
pub use random_chunk::SelectRandomChunk;
pub use sentinels::{AddSentinels, AppendEosAfterTrimAndPreserve};
pub use span_corruption::{
    RandomSpansHelper, RandomSpansTargetsLength, RandomSpansTokensLength, SpanCorruption,
    random_spans_helper,
};
pub use spec::{CacheDatasetPlaceholder, Preprocessor};
pub use take::Take;
pub use text::{
    ApplyTemplate, CollectAnswers, Constant, CutText, DefinitePronounResolutionSimple, Equal,
    ExampleFn, FeatureFn, Fill, FillInTheBlank, FillInTheBlankSized, FilterByStringLength,
    FilterByValue, FilterTydiqaByLanguage, FormatFeatures, Formats, Glue, Lm, MapLabels,
    MultiTranslate, NeighboringPairs, NextSentencePrediction, OneHot, PadNonspacedLanguages,
    ParseTsv, PreprocessTensorflowExamples, PreprocessTsv, PrintDataset, ProcessMnli, ProcessXnli,
    RandomSplitText, RankClassification, RankClassificationFormatter, RankingMode, Record, Rekey,
    RemoveFirstTextToken, ReplaceText, SetFeature, SplitTextToWords, Squad,
    SquadSpanSpaceTokenized, Stsb, Summarize, Translate, TriviaQa, Unidecode, Wikiann, WnliSimple,
    Wsc, WscSimple, Xquad,
};
pub use tokens::{
    AppendEos, AppendEosAfterTrim, Tokenize, TokenizeAndAppendEos, TruncateInputsLeft,
};
pub use trim::{TrimAndPadDataset, TrimTokensAtFront, TriviaQaTruncateInputs};

/// An output feature with its vocabulary loaded.
#[derive(Clone, Debug)]
pub(crate) struct BuiltFeature {
    pub key: Key,
    pub vocabulary: Arc<dyn Vocabulary>,
    pub vocabulary_spec: VocabularySpec,
    pub add_eos: bool,
    pub required: bool,
    pub dtype: FeatureDtype,
    pub rank: usize,
}

impl BuiltFeature {
    /// Loads the feature's vocabulary.
    pub(crate) fn new(name: &str, feature: &Feature) -> Result<Self, VocabError> {
        Ok(Self {
            key: name.into(),
            vocabulary: feature.vocabulary.build()?,
            vocabulary_spec: feature.vocabulary.clone(),
            add_eos: feature.add_eos,
            required: feature.required,
            dtype: feature.dtype,
            rank: feature.rank,
        })
    }

    /// The EOS that preprocessors append, or an error if the vocabulary has none.
    fn eos_id(&self) -> Result<i32, String> {
        self.vocabulary.eos_id().ok_or_else(|| {
            let name = self.vocabulary.name();
            format!("{name} of '{}' has no EOS; set `seqio.Feature.add_eos = False`", self.key)
        })
    }
}

/// Output features by name.
pub(crate) type Features = BTreeMap<String, BuiltFeature>;

/// The properties of the task that a preprocessor needs.
pub(crate) struct Context<'a> {
    pub features: &'a Features,
    /// `task_feature_lengths`, if known.
    pub lengths: Option<&'a BTreeMap<String, usize>>,
}

impl Context<'_> {
    fn feature(&self, name: &str) -> Result<&BuiltFeature, DataError> {
        self.features
            .get(name)
            .ok_or_else(|| DataError::Config(format!("the task's `output_features` lack '{name}'")))
    }

    fn length(&self, feature: &str) -> Result<usize, DataError> {
        let length = self.lengths.and_then(|lengths| lengths.get(feature));
        length
            .copied()
            .ok_or_else(|| DataError::Config(format!("`task_feature_lengths` lacks '{feature}'")))
    }
}

/// A preprocessor that gin can name.
pub(crate) trait Preprocess {
    /// The steps of the preprocessor, for a task and its lengths.
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError>;

    /// Whether the steps depend on `task_feature_lengths`.
    fn needs_lengths(&self) -> bool {
        false
    }
}

/// One stage of a preprocessor.
pub(crate) enum Step {
    /// Changes or drops single examples.
    Map(Box<dyn MapStep>),
    /// Makes any number of examples from each example.
    FlatMap(Box<dyn FlatMapStep>),
    /// Makes one example from up to `num_examples`, in their order.
    Join { num_examples: usize, step: Box<dyn JoinStep> },
    /// Makes any number of examples from up to `num_examples`; the step may take long.
    Batch { num_examples: usize, step: Box<dyn BatchStep> },
    /// Cuts the token ids of a feature, across examples, into pieces of `length`.
    Rebatch { feature: Key, length: usize },
    /// Shuffles within a buffer of `buffer_size` examples.
    Shuffle { buffer_size: usize },
    /// Repeats the first examples; `None` does it forever.
    Take { num_examples: usize, num_passes: Option<u64> },
    /// Converts examples to a model's features, packed or not.
    Convert(FeatureConverter),
}

impl Step {
    /// A map that needs neither randomness nor state.
    fn map(apply: impl Fn(Example) -> Result<Example, String> + Send + Sync + 'static) -> Self {
        Self::Map(Box::new(PureMap(apply)))
    }
}

struct PureMap<F>(F);

impl<F> MapStep for PureMap<F>
where
    F: Fn(Example) -> Result<Example, String> + Send + Sync,
{
    fn apply(&self, example: Example, _: ExamplePosition<'_>) -> Result<Option<Example>, String> {
        (self.0)(example).map(Some)
    }
}

/// Makes examples from single examples, as a function of only the example and its place in the
/// stream.
pub(crate) trait FlatMapStep: Send + Sync {
    /// The examples made from the example, or a description of the mistake in it.
    fn apply(&self, example: Example, place: ExamplePosition<'_>) -> Result<Vec<Example>, String>;
}

/// Makes one example from several, as a function of only the examples and their place in the
/// stream.
pub(crate) trait JoinStep: Send + Sync {
    /// The example made from the examples (at least one), or a description of the mistake in them.
    fn apply(&self, examples: Vec<Example>, place: ExamplePosition<'_>) -> Result<Example, String>;
}

/// Makes examples from several, as a function of only the examples and their place in the stream.
pub(crate) trait BatchStep: Send + Sync {
    /// The results made from the examples, of which `first` is the number of the first one;
    /// otherwise the faulty example, if it is a single one, and the mistake.
    fn apply(
        &self,
        examples: Vec<Example>,
        seed: &StageSeed,
        first: u64,
    ) -> Result<Vec<Example>, (Option<usize>, String)>;
}

/// Changes single examples, as a function of only the example and its place in the stream.
pub(crate) trait MapStep: Send + Sync {
    /// The changed example, `None` to drop it, or a description of the mistake in it.
    fn apply(
        &self,
        example: Example,
        place: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String>;
}

/// The position of an example in the stream of one step: the source of its randomness.
#[derive(Clone, Copy)]
pub(crate) struct ExamplePosition<'a> {
    pub seed: &'a StageSeed,
    pub counter: u64,
}

impl ExamplePosition<'_> {
    /// The random values of this example.
    pub(crate) fn draw(self) -> Draw {
        self.seed.draw(self.counter)
    }
}

/// The message "lacks 'x', it has 'a', 'b'".
fn missing(example: &Example, key: &str) -> String {
    format!("the example lacks '{key}'; it has {}", example.names())
}

/// The text of a feature, or an error if there is none.
fn text_of<'a>(example: &'a Example, key: &str) -> Result<&'a str, String> {
    let value = example.get(key).ok_or_else(|| missing(example, key))?;
    example.text(key).ok_or_else(|| format!("'{key}' is {}, expected text", value.type_name()))
}

/// The token ids of a feature, or an error if there are none.
fn ids_of<'a>(example: &'a Example, key: &str) -> Result<&'a [i32], String> {
    let value = example.get(key).ok_or_else(|| missing(example, key))?;
    example.ints(key).ok_or_else(|| {
        format!("'{key}' is {}, expected token ids; tokenize it first", value.type_name())
    })
}
