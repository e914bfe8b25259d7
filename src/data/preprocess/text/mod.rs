//! Preprocessors of records and text: from the features of a data set to 'inputs' and 'targets'.
//!
//! Nested features are named by their path: `answers/text`. Texts are processed as by TensorFlow's
//! kernels, which support only ASCII ([`strings`], [`re2`]).

mod answers;
mod blocks;
mod coreference;
mod example_fn;
mod glue;
mod jinja;
mod languages;
mod multilingual;
mod plain;
mod print;
mod prompt;
mod python_str;
mod question_answering;
mod ranking;
mod re2;
mod sentence_pairs;
mod strings;
mod tests;
mod translation;
mod transliterate;
mod tsv;
mod unsupervised;
mod wnli;

use super::{Context, ExamplePosition, FlatMapStep, MapStep, Preprocess, Step, missing, text_of};
use crate::example::Example;
use crate::value::{Key, Value};

pub use answers::{CollectAnswers, CutText};
pub use blocks::{FilterByValue, FormatFeatures, MapLabels, ReplaceText, SetFeature};
pub use coreference::{DefinitePronounResolutionSimple, Wsc, WscSimple};
pub use example_fn::{Constant, Equal, ExampleFn, Feature as FeatureFn, Fill, OneHot};
pub use glue::{Glue, Record, Stsb};
pub use multilingual::{FilterTydiqaByLanguage, ProcessMnli, ProcessXnli, Wikiann, Xquad};
pub use plain::{
    FilterByStringLength, Lm, PadNonspacedLanguages, Rekey, RemoveFirstTextToken, Summarize,
};
pub use print::PrintDataset;
pub use prompt::ApplyTemplate;
pub use question_answering::{Squad, SquadSpanSpaceTokenized, TriviaQa};
pub use ranking::{Formats, RankClassification, RankClassificationFormatter, RankingMode};
pub use sentence_pairs::{NeighboringPairs, NextSentencePrediction};
pub use translation::{MultiTranslate, Translate};
pub use transliterate::Unidecode;
pub use tsv::{ParseTsv, PreprocessTensorflowExamples, PreprocessTsv};
pub use unsupervised::{FillInTheBlank, FillInTheBlankSized, RandomSplitText, SplitTextToWords};
pub use wnli::WnliSimple;

/// A map or filter that may draw random values.
struct MapFn<F>(F);

impl<F> MapStep for MapFn<F>
where
    F: Fn(Example, ExamplePosition<'_>) -> Result<Option<Example>, String> + Send + Sync,
{
    fn apply(
        &self,
        example: Example,
        place: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String> {
        (self.0)(example, place)
    }
}

/// A map that may drop examples and draw random values.
pub(super) fn filter_map(
    apply: impl Fn(Example, ExamplePosition<'_>) -> Result<Option<Example>, String>
    + Send
    + Sync
    + 'static,
) -> Step {
    Step::Map(Box::new(MapFn(apply)))
}

/// Keeps the examples that `keep` accepts.
fn filter(keep: impl Fn(&Example) -> Result<bool, String> + Send + Sync + 'static) -> Step {
    filter_map(move |example, _| Ok(keep(&example)?.then_some(example)))
}

struct FlatMapFn<F>(F);

impl<F> FlatMapStep for FlatMapFn<F>
where
    F: Fn(Example, ExamplePosition<'_>) -> Result<Vec<Example>, String> + Send + Sync,
{
    fn apply(&self, example: Example, place: ExamplePosition<'_>) -> Result<Vec<Example>, String> {
        (self.0)(example, place)
    }
}

/// Makes any number of examples from each example.
pub(super) fn flat_map(
    apply: impl Fn(Example, ExamplePosition<'_>) -> Result<Vec<Example>, String> + Send + Sync + 'static,
) -> Step {
    Step::FlatMap(Box::new(FlatMapFn(apply)))
}

/// The keys that most of these preprocessors write; all examples share them.
#[derive(Clone)]
struct PairKeys {
    inputs: Key,
    targets: Key,
}

impl PairKeys {
    fn new() -> Self {
        Self { inputs: "inputs".into(), targets: "targets".into() }
    }

    /// An example of two texts.
    fn pair(&self, inputs: String, targets: String) -> Example {
        [(self.inputs.clone(), Value::Text(inputs)), (self.targets.clone(), Value::Text(targets))]
            .into_iter()
            .collect()
    }
}

/// The value of a feature, or an error if there is none.
pub(super) fn value_of<'a>(example: &'a Example, key: &str) -> Result<&'a Value, String> {
    example.get(key).ok_or_else(|| missing(example, key))
}

/// The texts of a feature, or an error if it has none. An empty list has no type.
pub(super) fn texts_of<'a>(example: &'a Example, key: &str) -> Result<&'a [String], String> {
    match value_of(example, key)? {
        Value::Texts(texts) => Ok(texts),
        Value::Ints(none) if none.is_empty() => Ok(&[]),
        Value::Floats(none) if none.is_empty() => Ok(&[]),
        value => Err(format!("'{key}' is {}, expected a list of texts", value.type_name())),
    }
}

/// The whole number of a feature, or an error if it is not one.
fn int_of(example: &Example, key: &str) -> Result<i64, String> {
    match value_of(example, key)? {
        Value::Int(number) => Ok(*number),
        value => Err(format!("'{key}' is {}, expected an int", value.type_name())),
    }
}

/// The whole numbers of a list, or an error if it has none.
pub(super) fn int_list_of(example: &Example, key: &str) -> Result<Vec<i64>, String> {
    match value_of(example, key)? {
        Value::Ints(ids) => Ok(ids.iter().copied().map(i64::from).collect()),
        Value::Longs(numbers) => Ok(numbers.clone()),
        Value::Floats(none) if none.is_empty() => Ok(Vec::new()),
        value => Err(format!("'{key}' is {}, expected a list of ints", value.type_name())),
    }
}

/// Copies a feature, or all features below it; an error if there are none.
fn copy_tree(from: &Example, key: &str, to: &mut Example) -> Result<(), String> {
    let below = |name: &str| {
        name == key || name.strip_prefix(key).is_some_and(|rest| rest.starts_with('/'))
    };
    let mut found = false;
    for (name, value) in from.iter().filter(|(name, _)| below(name)) {
        to.set(name.clone(), value.clone());
        found = true;
    }
    if found { Ok(()) } else { Err(missing(from, key)) }
}

/// The name of a label: `<unk>` for an unknown label, which data sets write as -1.
fn label_name(example: &Example, names: &[impl AsRef<str>]) -> Result<String, String> {
    let label = int_of(example, "label")?;
    if label == -1 {
        return Ok("<unk>".to_string());
    }
    let name = usize::try_from(label).ok().and_then(|label| names.get(label));
    name.map(|name| name.as_ref().to_string()).ok_or_else(|| {
        let count = names.len();
        format!("the label is {label}, expected -1 or one of the {count} of `label_names` from 0")
    })
}
