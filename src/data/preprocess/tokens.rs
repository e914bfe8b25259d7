//! SeqIO's preprocessors of token ids: tokenizing, EOS, truncation.

use super::{BuiltFeature, Context, ExamplePosition, MapStep, Preprocess, Step};
use crate::error::DataError;
use crate::example::Example;
use crate::value::Leaf;
use crate::value::{Key, Value};
use gimlet_gin::Configurable;

/// Encodes the output features with their vocabularies. Source: SeqIO `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.preprocessors.tokenize", alias = "t5.data.preprocessors.tokenize")]
pub struct Tokenize {
    /// Keeps the text as `NAME_pretokenized`.
    #[gin(default = true)]
    pub copy_pretokenized: bool,
    /// Appends EOS if `Feature.add_eos` is set.
    #[gin(default = false)]
    pub with_eos: bool,
}

/// Encodes the output features and appends EOS to those with `Feature.add_eos`. Source: SeqIO
/// `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.preprocessors.tokenize_and_append_eos")]
pub struct TokenizeAndAppendEos {
    /// Keeps the text as `NAME_pretokenized`.
    #[gin(default = true)]
    pub copy_pretokenized: bool,
}

/// Appends EOS to the output features with `Feature.add_eos`. Source: SeqIO `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.preprocessors.append_eos", alias = "t5.data.preprocessors.append_eos")]
pub struct AppendEos {}

/// As `append_eos`, after trimming so that EOS fits. Source: SeqIO `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.preprocessors.append_eos_after_trim",
    alias = "t5.data.preprocessors.append_eos_after_trim"
)]
pub struct AppendEosAfterTrim {}

/// Puts the token that begins a row before the tokens of some features, such as BERT's `[CLS]`. Before
/// `append_eos_after_trim`, whose lengths then include it.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.prepend_bos")]
pub struct PrependBos {
    /// The features, whose vocabularies have such a token.
    #[gin(default = vec!["inputs".to_string()])]
    pub keys: Vec<String>,
}

/// Puts the tokens of a text before those of some features, such as the mode of a denoiser. After the steps that cut or corrupt tokens,
/// and before `append_eos_after_trim`, whose lengths include them. Source: the paper of UL2 (Tay et al. 2022, arXiv:2205.05131).
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "gimlet.preprocessors.prepend_prompt")]
pub struct PrependPrompt {
    /// The text.
    pub prompt: String,
    /// The features.
    #[gin(default = vec!["inputs".to_string()])]
    pub keys: Vec<String>,
}

/// Puts a sentinel such as <extra_id_0>, by which a prompt of several tasks knows the task, before the tokens of a feature. Before
/// `append_eos_after_trim`, whose lengths then include it. Source: prompt-tuning `data/preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.data.preprocessors.add_sentinel_to_beginning")]
pub struct AddSentinelToBeginning {
    /// The feature: 'inputs' for prompts of several tasks.
    #[gin(default = "targets".to_string())]
    pub field: String,
    /// The number in the sentinel. That of 0 is the last id of the vocabulary, whatever piece it has.
    #[gin(default = 0)]
    pub offset: usize,
}

/// Keeps the last tokens of 'inputs' if there are too many. Source: SeqIO `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.preprocessors.truncate_inputs_left")]
pub struct TruncateInputsLeft {}

impl Preprocess for Tokenize {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let features = cx.features.values().map(|feature| FeatureTokenizer {
            feature: feature.clone(),
            pretokenized: self
                .copy_pretokenized
                .then(|| format!("{}_pretokenized", feature.key).into()),
            with_eos: self.with_eos && feature.add_eos,
        });
        Ok(vec![Step::Map(Box::new(Tokenizer(features.collect())))])
    }
}

impl Preprocess for TokenizeAndAppendEos {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        Tokenize { copy_pretokenized: self.copy_pretokenized, with_eos: true }.steps(cx)
    }
}

struct Tokenizer(Vec<FeatureTokenizer>);

struct FeatureTokenizer {
    feature: BuiltFeature,
    /// The name for the copy of the text.
    pretokenized: Option<Key>,
    with_eos: bool,
}

impl FeatureTokenizer {
    fn apply(&self, example: &mut Example) -> Result<(), String> {
        let Some(value) = example.take(&self.feature.key) else {
            return Ok(());
        };
        let mut tokens = self.encode(&value)?;
        if self.with_eos {
            self.feature.append_eos(&mut tokens, Rows::Last)?;
        }
        if let Some(pretokenized) = &self.pretokenized {
            example.set(pretokenized.clone(), value);
        }
        example.set(self.feature.key.clone(), tokens);
        Ok(())
    }

    /// The token ids of a text, or rows of token ids of a list of texts; a value that needs no
    /// encoding is unchanged.
    fn encode(&self, value: &Value) -> Result<Value, String> {
        let vocabulary = &self.feature.vocabulary;
        let expected = match (value, vocabulary.takes_ids()) {
            (Value::Text(text), false) => return Ok(Value::Ints(vocabulary.encode(text))),
            (Value::Texts(texts), false) => {
                let rows = texts.iter().map(|text| vocabulary.encode(text));
                return Ok(Value::IntRows(rows.collect()));
            }
            (Value::Lists(lists), false) if value.leaf() == Leaf::Texts => {
                let lists = lists.iter().map(|list| self.encode(list));
                return Ok(Value::Lists(lists.collect::<Result<_, _>>()?));
            }
            // A list without values has no type.
            (list, false) if list.len() == Some(0) => return Ok(Value::IntRows(Vec::new())),
            (Value::Text(_) | Value::Texts(_), true) => "token ids or numbers",
            (_, true) => return Ok(value.clone()),
            (_, false) => "text",
        };
        let (key, found, name) = (&self.feature.key, value.type_name(), vocabulary.name());
        Err(format!("'{key}' is {found}, and {name} takes {expected}"))
    }
}

/// The rows of a feature of rank 2 that get EOS.
#[derive(Clone, Copy, Debug)]
enum Rows {
    All,
    Last,
}

impl BuiltFeature {
    /// Appends EOS to the token ids of this feature.
    fn append_eos(&self, tokens: &mut Value, rows: Rows) -> Result<(), String> {
        match (tokens, rows) {
            (Value::Ints(ids), _) => ids.push(self.eos_id()?),
            (Value::IntRows(all), Rows::All) => {
                let eos = self.eos_id()?;
                all.iter_mut().for_each(|row| row.push(eos));
            }
            (Value::IntRows(all), Rows::Last) => {
                if let Some(last) = all.last_mut() {
                    last.push(self.eos_id()?);
                }
            }
            (other, _) => {
                let (key, found) = (&self.key, other.type_name());
                return Err(format!(
                    "'{key}' is {found}, expected token ids; set `seqio.Feature.add_eos = False` for \
                     a feature without EOS"
                ));
            }
        }
        Ok(())
    }
}

impl MapStep for Tokenizer {
    fn apply(
        &self,
        mut example: Example,
        _: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String> {
        for feature in &self.0 {
            feature.apply(&mut example)?;
        }
        Ok(Some(example))
    }
}

impl Preprocess for AppendEos {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        Ok(vec![eos_step(cx, |_| None)])
    }
}

impl Preprocess for AppendEosAfterTrim {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        Ok(vec![eos_step(cx, |feature| cx.lengths?.get(&*feature.key).copied())])
    }

    fn needs_lengths(&self) -> bool {
        true
    }
}

fn eos_step(cx: &Context<'_>, limit: impl Fn(&BuiltFeature) -> Option<usize>) -> Step {
    let features = cx.features.values().filter(|feature| feature.add_eos);
    let limited = features.map(|feature| (feature.clone(), limit(feature)));
    Step::Map(Box::new(EosAppender(limited.collect())))
}

/// Features that get EOS, each with the maximum length after it.
struct EosAppender(Vec<(BuiltFeature, Option<usize>)>);

impl MapStep for EosAppender {
    fn apply(
        &self,
        mut example: Example,
        _: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String> {
        for (feature, limit) in &self.0 {
            let Some(value) = example.get_mut(&feature.key) else { continue };
            let length = limit.map_or(usize::MAX, |limit| limit.saturating_sub(1));
            let is_cut = value.len().is_some_and(|found| found > length);
            if limit.is_some() {
                truncate_rows(value, length);
            }
            feature.append_eos(value, Rows::All)?;
            if is_cut {
                example.mark_cut(&feature.key);
            }
        }
        Ok(Some(example))
    }
}

/// Trims the last dimension.
fn truncate_rows(value: &mut Value, length: usize) {
    match value {
        Value::IntRows(rows) => rows.iter_mut().for_each(|row| row.truncate(length)),
        Value::FloatRows(rows) => rows.iter_mut().for_each(|row| row.truncate(length)),
        Value::Lists(lists) => lists.iter_mut().for_each(|list| truncate_rows(list, length)),
        other => other.truncate(length),
    }
}

impl Preprocess for AddSentinelToBeginning {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let begin = |key: &String| {
            let feature = cx.feature(key)?;
            let size = feature.vocabulary.vocab_size();
            let id = size.checked_sub(self.offset + 1).ok_or_else(|| {
                DataError::Config(format!(
                    "`add_sentinel_to_beginning.offset` is {}, and {} has {size} ids, expected less",
                    self.offset,
                    feature.vocabulary.name()
                ))
            })?;
            Ok((feature.key.clone(), vec![id as i32]))
        };
        prepended(std::slice::from_ref(&self.field), begin)
    }
}

impl Preprocess for PrependBos {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let begin = |key: &String| {
            let feature = cx.feature(key)?;
            let id = feature.vocabulary.bos_id().ok_or_else(|| {
                DataError::Config(format!(
                    "`prepend_bos` puts a token before '{key}', whose {} has none that begins a row; leave '{key}' out of \
                     `prepend_bos.keys`",
                    feature.vocabulary.name()
                ))
            })?;
            Ok((feature.key.clone(), vec![id]))
        };
        prepended(&self.keys, begin)
    }
}

impl Preprocess for PrependPrompt {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let begin = |key: &String| {
            let feature = cx.feature(key)?;
            if feature.vocabulary.takes_ids() {
                return Err(DataError::Config(format!(
                    "`prepend_prompt` encodes a text for '{key}', whose {} takes ids; leave '{key}' out of `prepend_prompt.keys`",
                    feature.vocabulary.name()
                )));
            }
            Ok((feature.key.clone(), feature.vocabulary.encode(&self.prompt)))
        };
        prepended(&self.keys, begin)
    }
}

/// The step that puts before each feature the ids that `begin` returns for it.
fn prepended(
    keys: &[String],
    begin: impl Fn(&String) -> Result<(Key, Vec<i32>), DataError>,
) -> Result<Vec<Step>, DataError> {
    let begins = keys.iter().map(begin).collect::<Result<Vec<_>, DataError>>()?;
    Ok(vec![Step::Map(Box::new(Prepender(begins)))])
}

/// Features with the ids that come before them.
struct Prepender(Vec<(Key, Vec<i32>)>);

impl MapStep for Prepender {
    fn apply(
        &self,
        mut example: Example,
        _: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String> {
        for (key, begin) in &self.0 {
            match example.get_mut(key) {
                Some(Value::Ints(ids)) => drop(ids.splice(..0, begin.iter().copied())),
                Some(other) => {
                    let found = other.type_name();
                    return Err(format!("'{key}' is {found}, expected token ids"));
                }
                None => {}
            }
        }
        Ok(Some(example))
    }
}

impl Preprocess for TruncateInputsLeft {
    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        Ok(match cx.lengths.and_then(|lengths| lengths.get("inputs")) {
            Some(&limit) => vec![Step::Map(Box::new(LeftTruncator { limit }))],
            None => Vec::new(),
        })
    }

    fn needs_lengths(&self) -> bool {
        true
    }
}

struct LeftTruncator {
    limit: usize,
}

impl MapStep for LeftTruncator {
    fn apply(
        &self,
        mut example: Example,
        _: ExamplePosition<'_>,
    ) -> Result<Option<Example>, String> {
        if let Some(inputs) = example.get_mut("inputs")
            && let Some(length) = inputs.len()
        {
            // In Python, the last 0 items are all items.
            let kept = if self.limit == 0 { length } else { self.limit };
            inputs.keep(length.saturating_sub(kept)..length);
            if kept < length {
                example.mark_cut("inputs");
            }
        }
        Ok(Some(example))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::feature::{Feature, FeatureDtype};
    use crate::preprocess::Features;
    use crate::random::StageSeed;
    use gimlet_vocab::{ByteVocabulary, VocabularySpec};

    fn features(add_eos: bool) -> Features {
        let vocabulary = VocabularySpec::Byte(ByteVocabulary::of(0));
        let feature =
            Feature { vocabulary, add_eos, required: true, dtype: FeatureDtype::Int32, rank: 1 };
        let built = BuiltFeature::new("inputs", &feature).unwrap();
        BTreeMap::from([("inputs".to_string(), built)])
    }

    fn run(spec: &dyn Preprocess, cx: &Context<'_>, value: Value) -> Result<Example, String> {
        let seed = StageSeed::new(0, "test");
        let mut example = Example::of("inputs".into(), value);
        for step in spec.steps(cx).map_err(|error| error.to_string())? {
            let Step::Map(map) = step else { panic!("a map was expected") };
            example =
                map.apply(example, ExamplePosition { seed: &seed, counter: 0 })?.expect("kept");
        }
        Ok(example)
    }

    #[test]
    fn tokenizing_keeps_the_text_and_adds_eos_where_asked() {
        let features = features(true);
        let cx = Context { features: &features, lengths: None };
        let text = Value::Text("ab".to_string());
        let spec = Tokenize { copy_pretokenized: true, with_eos: false };
        let example = run(&spec, &cx, text.clone()).unwrap();
        assert_eq!(example.ints("inputs"), Some(&[100, 101][..]));
        assert_eq!(example.text("inputs_pretokenized"), Some("ab"));
        let spec = TokenizeAndAppendEos { copy_pretokenized: false };
        let example = run(&spec, &cx, text).unwrap();
        assert_eq!(example.ints("inputs"), Some(&[100, 101, 1][..]));
        assert_eq!(example.names(), "'inputs'");
    }

    #[test]
    fn ids_cannot_be_tokenized() {
        let features = features(true);
        let cx = Context { features: &features, lengths: None };
        let spec = Tokenize { copy_pretokenized: true, with_eos: false };
        let error = run(&spec, &cx, Value::Ints(vec![1])).unwrap_err();
        assert_eq!(error, "'inputs' is a list of ints, and ByteVocabulary(extra_ids=0) takes text");
    }

    #[test]
    fn eos_after_trim_fits() {
        let lengths = BTreeMap::from([("inputs".to_string(), 3)]);
        for (add_eos, expected) in [(true, vec![5, 6, 1]), (false, vec![5, 6, 7, 8])] {
            let features = features(add_eos);
            let cx = Context { features: &features, lengths: Some(&lengths) };
            let example = run(&AppendEosAfterTrim {}, &cx, Value::Ints(vec![5, 6, 7, 8])).unwrap();
            assert_eq!(example.ints("inputs"), Some(&expected[..]));
        }
    }

    #[test]
    fn only_vocabularies_with_a_first_token_begin_rows() {
        let features = features(true);
        let cx = Context { features: &features, lengths: None };
        let of = |key: &str| PrependBos { keys: vec![key.to_string()] };
        let error = run(&of("inputs"), &cx, Value::Ints(vec![5])).unwrap_err();
        assert!(error.contains("leave 'inputs' out of `prepend_bos.keys`"), "{error}");
        let none = PrependBos { keys: Vec::new() };
        let example = run(&none, &cx, Value::Ints(vec![5])).unwrap();
        assert_eq!(example.ints("inputs"), Some(&[5][..]));
    }

    #[test]
    fn a_sentinel_comes_before_the_tokens() {
        let features = features(true);
        let cx = Context { features: &features, lengths: None };
        let size = features["inputs"].vocabulary.vocab_size();
        let of = |offset| AddSentinelToBeginning { field: "inputs".to_string(), offset };
        let example = run(&of(2), &cx, Value::Ints(vec![5])).unwrap();
        assert_eq!(example.ints("inputs"), Some(&[size as i32 - 3, 5][..]));
        let error = run(&of(size), &cx, Value::Ints(vec![5])).unwrap_err();
        assert!(error.contains("add_sentinel_to_beginning.offset"), "{error}");
    }

    #[test]
    fn a_prompt_comes_before_the_tokens() {
        let features = features(true);
        let cx = Context { features: &features, lengths: None };
        let spec = PrependPrompt { prompt: "ab".to_string(), keys: vec!["inputs".to_string()] };
        let example = run(&spec, &cx, Value::Ints(vec![5, 6])).unwrap();
        assert_eq!(example.ints("inputs"), Some(&[100, 101, 5, 6][..]));
        let error = run(&spec, &cx, Value::Text("cd".to_string())).unwrap_err();
        assert_eq!(error, "'inputs' is text, expected token ids");
    }

    #[test]
    fn left_truncation_keeps_the_end() {
        let lengths = BTreeMap::from([("inputs".to_string(), 2)]);
        let features = features(true);
        let cx = Context { features: &features, lengths: Some(&lengths) };
        let example = run(&TruncateInputsLeft {}, &cx, Value::Ints(vec![5, 6, 7])).unwrap();
        assert_eq!(example.ints("inputs"), Some(&[6, 7][..]));
    }
}
