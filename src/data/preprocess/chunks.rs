//! Joining documents and cutting them into pieces. Source: t5 `preprocessors.py`.

use super::random_chunk::{check_length, check_overlap, length_of};
use super::{Context, ExamplePosition, FlatMapStep, JoinStep, Preprocess, Step, ids_of};
use crate::error::DataError;
use crate::example::Example;
use crate::value::{Key, Value};
use gimlet_gin::Configurable;

/// Joins the token ids of a feature over a number of examples, so that splitting them wastes no
/// padding; drops other features and every 0. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.reduce_concat_tokens", open)]
pub struct ReduceConcatTokens {
    /// The feature.
    #[gin(default = "targets".to_string())]
    pub feature_key: String,
    /// Examples that are joined.
    #[gin(default = 128)]
    pub batch_size: usize,
}

/// Cuts each example into several. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.split_tokens", open)]
pub struct SplitTokens {
    /// Minimum number of tokens of a piece: each example's length of pieces is drawn from it on,
    /// with a uniform logarithm; None always takes the maximum.
    #[gin(default = None)]
    pub min_tokens_per_segment: Option<usize>,
    /// Maximum number of tokens of a piece. Required, except where another preprocessor supplies
    /// it.
    #[gin(default = None)]
    pub max_tokens_per_segment: Option<usize>,
    /// The feature.
    #[gin(default = "targets".to_string())]
    pub feature_key: String,
    /// Features of the same length that are cut at the same places.
    #[gin(default = None)]
    pub additional_feature_keys: Option<Vec<String>>,
    /// Features that every piece gets whole; all others are dropped.
    #[gin(default = None)]
    pub passthrough_feature_keys: Option<Vec<String>>,
}

/// `split_tokens` to pieces that fit the length of 'inputs', with EOS if it is added. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.split_tokens_to_inputs_length", open)]
pub struct SplitTokensToInputsLength {
    /// The preprocessor that cuts.
    #[gin(method)]
    pub split_tokens: SplitTokens,
}

/// `split_tokens` to pieces that fit the length of 'targets', with EOS if it is added. Source: t5
/// `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.split_tokens_to_targets_length", open)]
pub struct SplitTokensToTargetsLength {
    /// The preprocessor that cuts.
    #[gin(method)]
    pub split_tokens: SplitTokens,
}

/// `split_tokens` to pieces of random lengths from 8 tokens to the number that fits the length of
/// 'inputs', with EOS if it is added. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.split_tokens_to_random_length", open)]
pub struct SplitTokensToRandomLength {
    /// The preprocessor that cuts.
    #[gin(method)]
    pub split_tokens: SplitTokens,
}

/// Cuts the tokens of all examples in a row into pieces that fit the feature's length, with EOS if
/// it is added; pieces cross from one example to the next. Source: t5 `preprocessors.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "t5.data.preprocessors.concatenate_and_split_to_fixed_length", open)]
pub struct ConcatenateAndSplitToFixedLength {
    /// The feature; all others are dropped.
    #[gin(default = "targets".to_string())]
    pub feature_key: String,
}

impl Default for ReduceConcatTokens {
    fn default() -> Self {
        Self { feature_key: "targets".to_string(), batch_size: 128 }
    }
}

impl Default for SplitTokens {
    fn default() -> Self {
        Self {
            min_tokens_per_segment: None,
            max_tokens_per_segment: None,
            feature_key: "targets".to_string(),
            additional_feature_keys: None,
            passthrough_feature_keys: None,
        }
    }
}

impl SplitTokens {
    /// The same preprocessor with pieces of at most `max_tokens` tokens.
    pub(super) fn to(&self, max_tokens: usize) -> Self {
        Self { max_tokens_per_segment: Some(max_tokens), ..self.clone() }
    }
}

impl Preprocess for ReduceConcatTokens {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let num_examples = match self.batch_size {
            0 => {
                let message = "`reduce_concat_tokens.batch_size` is at least 1, found 0";
                return Err(DataError::Config(message.to_string()));
            }
            size => size,
        };
        let step = Box::new(Concat { feature: self.feature_key.as_str().into() });
        Ok(vec![Step::Join { num_examples, step }])
    }
}

struct Concat {
    feature: Key,
}

impl JoinStep for Concat {
    fn apply(&self, examples: Vec<Example>, _: ExamplePosition<'_>) -> Result<Example, String> {
        let mut num_tokens = 0;
        for example in &examples {
            num_tokens += ids_of(example, &self.feature)?.len();
        }
        let mut joined = Vec::with_capacity(num_tokens);
        for example in &examples {
            let ids = ids_of(example, &self.feature)?;
            match ids.contains(&0) {
                true => joined.extend(ids.iter().filter(|&&id| id != 0)),
                false => joined.extend_from_slice(ids),
            }
        }
        Ok(Example::of(self.feature.clone(), Value::Ints(joined)))
    }
}

impl Preprocess for SplitTokens {
    fn steps(&self, _: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let additional = self.additional_feature_keys.clone().unwrap_or_default();
        let passthrough = self.passthrough_feature_keys.clone().unwrap_or_default();
        check_overlap("split_tokens", &self.feature_key, &additional, &passthrough)?;
        let Some(max_tokens) = self.max_tokens_per_segment else {
            let message = "`split_tokens.max_tokens_per_segment` is required and has no value";
            return Err(DataError::Config(message.to_string()));
        };
        let min_tokens = self.min_tokens_per_segment;
        if max_tokens == 0 || min_tokens.is_some_and(|least| !(1..=max_tokens).contains(&least)) {
            return Err(DataError::Config(format!(
                "`split_tokens` needs 1 <= min_tokens_per_segment <= max_tokens_per_segment, found {} \
                 and {max_tokens}",
                min_tokens.map_or("None".to_string(), |least| least.to_string())
            )));
        }
        let mut divided = vec![Key::from(self.feature_key.as_str())];
        divided.extend(additional.into_iter().map(Key::from));
        Ok(vec![Step::FlatMap(Box::new(Split { min_tokens, max_tokens, divided, passthrough }))])
    }
}

struct Split {
    min_tokens: Option<usize>,
    max_tokens: usize,
    /// The features that are cut, the leading one first.
    divided: Vec<Key>,
    passthrough: Vec<String>,
}

impl Split {
    fn length(&self, place: ExamplePosition<'_>) -> usize {
        let Some(least) = self.min_tokens else { return self.max_tokens };
        let (low, high) = ((least as f64).ln(), (self.max_tokens as f64).ln());
        let length = (low + place.draw().unit() * (high - low)).exp() as usize;
        length.clamp(least, self.max_tokens)
    }
}

impl FlatMapStep for Split {
    fn apply(
        &self,
        mut example: Example,
        place: ExamplePosition<'_>,
    ) -> Result<Vec<Example>, String> {
        let leading = &self.divided[0];
        let num_tokens = length_of(&example, leading)?;
        for key in &self.divided[1..] {
            check_length(&example, (leading, num_tokens), key)?;
        }
        if example.get(leading).is_some_and(Value::is_empty) {
            return Ok(Vec::new());
        }
        let length = self.length(place);
        example.retain(|key| {
            self.divided.iter().any(|divided| **divided == *key)
                || self.passthrough.iter().any(|kept| kept == key)
        });
        if num_tokens <= length {
            return Ok(vec![example]);
        }
        let mut divided = Vec::with_capacity(self.divided.len());
        for key in &self.divided {
            let pieces = example.take(key).map(|value| value.pieces(length));
            divided.push((key, pieces.unwrap_or_default().into_iter()));
        }
        let piece = |_| {
            let mut piece = example.clone();
            for (key, pieces) in &mut divided {
                piece.set(key.clone(), pieces.next().expect("all are of one length"));
            }
            piece
        };
        Ok((0..num_tokens.div_ceil(length)).map(piece).collect())
    }
}

/// Number of tokens of a feature that fit its length with the EOS added later.
pub(super) fn tokens_that_fit(cx: &Context<'_>, feature: &str) -> Result<usize, DataError> {
    let eos = usize::from(cx.feature(feature)?.add_eos);
    match cx.length(feature)?.saturating_sub(eos) {
        0 => Err(DataError::Config(format!("the length of '{feature}' leaves no room for tokens"))),
        tokens => Ok(tokens),
    }
}

impl Preprocess for SplitTokensToInputsLength {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        self.split_tokens.to(tokens_that_fit(cx, "inputs")?).steps(cx)
    }
}

impl Preprocess for SplitTokensToTargetsLength {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        self.split_tokens.to(tokens_that_fit(cx, "targets")?).steps(cx)
    }
}

impl Preprocess for SplitTokensToRandomLength {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let split = self.split_tokens.to(tokens_that_fit(cx, "inputs")?);
        SplitTokens { min_tokens_per_segment: Some(8), ..split }.steps(cx)
    }
}

impl Preprocess for ConcatenateAndSplitToFixedLength {
    fn needs_lengths(&self) -> bool {
        true
    }

    fn steps(&self, cx: &Context<'_>) -> Result<Vec<Step>, DataError> {
        let length = tokens_that_fit(cx, &self.feature_key)?;
        Ok(vec![Step::Rebatch { feature: self.feature_key.as_str().into(), length }])
    }
}
