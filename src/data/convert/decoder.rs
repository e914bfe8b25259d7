//! Decoder-only models: language models, and models that see a prefix at once.

use super::batch::BatchFeature;
use super::contract::{Convert, Field, Lengths, fields_of, take_ints};
use super::row::{Row, RowFeature};
use super::shift::shifted;
use crate::error::DataError;
use crate::example::Example;
use gimlet_gin::Configurable;

/// Converts 'targets' for a language model. Source: SeqIO `feature_converters.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(name = "seqio.LMFeatureConverter", alias = "seqio.feature_converters.LMFeatureConverter")]
pub struct LMFeatureConverter {}

/// Joins 'inputs' and 'targets'; the model sees all inputs at once, which
/// `decoder_causal_attention` marks, one position further for the first target. Source: SeqIO
/// `feature_converters.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "seqio.PrefixLMFeatureConverter",
    alias = "seqio.feature_converters.PrefixLMFeatureConverter"
)]
pub struct PrefixLMFeatureConverter {
    /// Whether inputs are excluded from the loss.
    #[gin(default = true)]
    pub loss_on_targets_only: bool,
    /// Whether inputs and targets fill rows of their own lengths, as for an encoder-decoder, before each row's are
    /// joined: the inputs of its first example, their targets, the inputs of its second. Mesh TensorFlow's
    /// `delimited_lm` has such rows; SeqIO's are denser.
    #[gin(default = false)]
    pub pack_before_joining: bool,
}

/// As the prefix language model, with 'suffixes' after the targets, which `target_suffix_weights`
/// marks; without suffixes it marks the targets. Source: SeqIO `feature_converters.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "seqio.PrefixSuffixLMFeatureConverter",
    alias = "seqio.feature_converters.PrefixSuffixLMFeatureConverter",
    ignored(loss_on_targets_only = "SeqIO's constructor drops it: inputs never count in the loss")
)]
pub struct PrefixSuffixLMFeatureConverter {}

/// One of the three others, chosen by whether the lengths name 'inputs' and 'suffixes'. Source:
/// SeqIO `feature_converters.py`.
#[derive(Clone, Debug, PartialEq, Eq, Configurable)]
#[gin(
    name = "seqio.DecoderFeatureConverter",
    alias = "seqio.feature_converters.DecoderFeatureConverter"
)]
pub struct DecoderFeatureConverter {
    /// Whether inputs are excluded from the loss.
    #[gin(default = true)]
    pub loss_on_targets_only: bool,
}

const LM_FEATURES: [&str; 3] =
    ["decoder_target_tokens", "decoder_input_tokens", "decoder_loss_weights"];
const PACKING_FEATURES: [&str; 2] = ["decoder_segment_ids", "decoder_positions"];
const WIDTH: &str = "inputs_width";
const SUFFIX_WEIGHTS: &str = "target_suffix_weights";

fn model_features(length: usize, is_packed: bool, more: &[&str]) -> Vec<Field> {
    let packing = if is_packed { &PACKING_FEATURES[..] } else { &[] };
    let names = LM_FEATURES.iter().chain(more).chain(packing);
    names.map(|name| Field::new(name, length)).collect()
}

/// Appends the features that a language model reads; the features between them belong to the
/// caller.
fn push_lm(targets: &RowFeature, bos_id: i32, out: &mut [BatchFeature]) {
    let (first, rest) = out.split_at_mut(LM_FEATURES.len());
    let [decoder_targets, decoder_inputs, weights] = first else {
        unreachable!("there are three features");
    };
    let decoder_targets = decoder_targets.push(&targets.tokens);
    weights.push_each(decoder_targets.iter().map(|&token| i32::from(token != 0)));
    match rest {
        [.., segments, positions] if *segments.name == *PACKING_FEATURES[0] => {
            let segments = segments.push_each(targets.segment_ids());
            positions.push(&targets.positions);
            decoder_inputs.push_each(shifted(decoder_targets, Some(segments), bos_id));
        }
        _ => {
            decoder_inputs.push_each(shifted(decoder_targets, None, bos_id));
        }
    }
}

impl Convert for LMFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        fields_of("a language model", &["targets"], lengths)
    }

    fn model_features(&self, fields: &[Field], is_packed: bool) -> Vec<Field> {
        model_features(fields[0].length, is_packed, &[])
    }

    fn push(&self, row: &Row, bos_id: i32, out: &mut [BatchFeature]) {
        push_lm(&row.features[0], bos_id, out);
    }
}

/// The fields of joined features: the tokens, and for each token the number of inputs.
fn joined_fields(fields: Vec<Field>, more: &[&str]) -> Vec<Field> {
    let length = fields.iter().map(|field| field.length).sum();
    let names = ["targets", WIDTH].into_iter().chain(more.iter().copied());
    names.map(|name| Field::new(name, length)).collect()
}

/// Joins the inputs and the tokens after them, and returns the number of inputs for each token. A
/// width of 0 is stored as -1, to distinguish it from padding.
fn join(inputs: Vec<i32>, mut rest: Vec<i32>) -> [Vec<i32>; 2] {
    if rest.is_empty() {
        // SeqIO gives an example without targets one padding token.
        rest.push(0);
    }
    let width = match inputs.len() {
        0 => -1,
        width => width as i32,
    };
    let joined: Vec<i32> = inputs.into_iter().chain(rest).collect();
    let widths = vec![width; joined.len()];
    [joined, widths]
}

/// Marks the inputs and the position after them; with `loss_on_targets_only`, removes the inputs
/// from the loss.
fn push_prefix(row: &Row, loss_on_targets_only: bool, out: &mut [BatchFeature]) {
    let (targets, widths) = (&row.features[0], &row.features[1]);
    let length = out[0].length;
    // Without packing a row is one example, and its positions continue through the padding.
    let is_packed = !targets.positions.is_empty();
    let position = |i: usize| match is_packed {
        true => targets.positions.get(i).copied().unwrap_or(0),
        false => i as i32,
    };
    let width =
        |i: usize| widths.tokens.get(i).map_or((0, 0), |&width| (width.max(0), width.max(0) + 1));
    let [_, _, weights, causal_attention, ..] = out else {
        unreachable!("there are four features");
    };
    causal_attention.push_each((0..length).map(|i| i32::from(position(i) < width(i).1)));
    if loss_on_targets_only {
        weights.change_last(|i, weight| {
            let is_input = position(i) < width(i).0;
            i32::from(is_input != (weight != 0))
        });
    }
}

/// Joins the inputs and the targets of each example of a row. Source: Mesh TensorFlow `transformer/utils.py`,
/// `_dynamic_text2self`.
fn join_row(row: &Row) -> Row {
    let [inputs, targets] = [0, 1].map(|feature| row.features[feature].examples());
    let is_packed = row.features.iter().any(|feature| !feature.positions.is_empty());
    let (mut tokens, mut widths) = (RowFeature::default(), RowFeature::default());
    for index in 0..inputs.len().max(targets.len()) {
        let [inputs, targets] =
            [&inputs, &targets].map(|examples| examples.get(index).copied().unwrap_or_default());
        let width = if inputs.is_empty() { -1 } else { inputs.len() as i32 };
        tokens.tokens.extend(inputs.iter().chain(targets));
        widths.tokens.resize(tokens.tokens.len(), width);
        if is_packed {
            tokens.positions.extend(0..(inputs.len() + targets.len()) as i32);
        }
    }
    Row { features: vec![tokens, widths], passed: None }
}

impl Convert for PrefixLMFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        let fields = fields_of("a prefix language model", &["inputs", "targets"], lengths)?;
        Ok(if self.pack_before_joining { fields } else { joined_fields(fields, &[]) })
    }

    fn prepare(&self, example: &mut Example, _: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
        let inputs = take_ints(example, "inputs")?;
        let targets = take_ints(example, "targets")?;
        Ok(if self.pack_before_joining {
            vec![inputs, targets]
        } else {
            join(inputs, targets).into()
        })
    }

    fn model_features(&self, fields: &[Field], is_packed: bool) -> Vec<Field> {
        let length = match self.pack_before_joining {
            true => fields.iter().map(|field| field.length).sum(),
            false => fields[0].length,
        };
        model_features(length, is_packed, &["decoder_causal_attention"])
    }

    fn push(&self, row: &Row, bos_id: i32, out: &mut [BatchFeature]) {
        let joined = self.pack_before_joining.then(|| join_row(row));
        let row = joined.as_ref().unwrap_or(row);
        push_lm(&row.features[0], bos_id, out);
        push_prefix(row, self.loss_on_targets_only, out);
    }

    fn joins(&self, _: &[Field]) -> bool {
        !self.pack_before_joining
    }
}

impl Convert for PrefixSuffixLMFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        let names = ["inputs", "targets", "suffixes"];
        let fields = fields_of("a prefix and suffix language model", &names, lengths)?;
        Ok(joined_fields(fields, &[SUFFIX_WEIGHTS]))
    }

    fn prepare(&self, example: &mut Example, _: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
        let inputs = take_ints(example, "inputs")?;
        let mut targets = take_ints(example, "targets")?;
        let suffixes = take_ints(example, "suffixes")?;
        // 2 marks the tokens that `target_suffix_weights` shows.
        let num_unmarked = match suffixes.is_empty() {
            true => inputs.len(),
            false => inputs.len() + targets.len(),
        };
        targets.extend(suffixes);
        let [joined, widths] = join(inputs, targets);
        let marks = (0..joined.len()).map(|i| if i < num_unmarked { 1 } else { 2 }).collect();
        Ok(vec![joined, widths, marks])
    }

    fn model_features(&self, fields: &[Field], is_packed: bool) -> Vec<Field> {
        let more = ["decoder_causal_attention", SUFFIX_WEIGHTS];
        model_features(fields[0].length, is_packed, &more)
    }

    fn push(&self, row: &Row, bos_id: i32, out: &mut [BatchFeature]) {
        push_lm(&row.features[0], bos_id, out);
        push_prefix(row, true, out);
        let marks = row.features[2].tokens.iter();
        out[4].push_each(marks.map(|&mark| i32::from(mark == 2)));
    }

    fn joins(&self, _: &[Field]) -> bool {
        true
    }
}

impl DecoderFeatureConverter {
    /// Returns the converter that makes these fields.
    fn delegate(&self, has_prefix: bool, has_suffix: bool) -> Box<dyn Convert> {
        match (has_prefix, has_suffix) {
            (_, true) => Box::new(PrefixSuffixLMFeatureConverter {}),
            (true, false) => {
                let loss_on_targets_only = self.loss_on_targets_only;
                Box::new(PrefixLMFeatureConverter {
                    loss_on_targets_only,
                    pack_before_joining: false,
                })
            }
            (false, false) => Box::new(LMFeatureConverter {}),
        }
    }

    fn by_fields(&self, num_fields: usize) -> Box<dyn Convert> {
        self.delegate(num_fields > 1, num_fields > 2)
    }
}

impl Convert for DecoderFeatureConverter {
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError> {
        let has = |name: &str| lengths.contains_key(name);
        self.delegate(has("inputs"), has("suffixes")).fields(lengths)
    }

    fn prepare(&self, example: &mut Example, fields: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
        self.by_fields(fields.len()).prepare(example, fields)
    }

    fn model_features(&self, fields: &[Field], is_packed: bool) -> Vec<Field> {
        self.by_fields(fields.len()).model_features(fields, is_packed)
    }

    fn push(&self, row: &Row, bos_id: i32, out: &mut [BatchFeature]) {
        self.by_fields(row.features.len()).push(row, bos_id, out);
    }

    fn joins(&self, fields: &[Field]) -> bool {
        self.by_fields(fields.len()).joins(fields)
    }
}
