//! From task features to model features. Source: SeqIO `feature_converters.py`, `utils.py`.
//!
//! Every architecture has a converter. It defines the fields of a row and the model features made
//! from them; trimming, packing and batching are the same for all.

mod batch;
mod decoder;
mod encoder;
mod encoder_decoder;
mod pass_through;
mod row;

use std::collections::BTreeMap;

use super::error::DataError;
use super::example::{Example, Key, Value};
use gimlet_gin::Slot;

pub use batch::{Batch, BatchFeature, BatchValues};
pub use decoder::{
    DecoderFeatureConverter, LMFeatureConverter, PrefixLMFeatureConverter,
    PrefixSuffixLMFeatureConverter,
};
pub use encoder::EncoderFeatureConverter;
pub use encoder_decoder::{EncDecFeatureConverter, PrePackedEncDecFeatureConverter};
pub use pass_through::{
    PassThroughFeatureConverter, PrePackedLMFeatureConverter, PrePackedPrefixLMFeatureConverter,
};

pub(crate) use row::{Row, RowFeature, Rows};

/// Feature to its length in tokens.
pub type Lengths = BTreeMap<String, usize>;

gimlet_gin::slot! {
    /// The converter of an architecture.
    pub enum ConverterClass: Convert {
        DecoderFeatureConverter,
        EncDecFeatureConverter,
        EncoderFeatureConverter,
        LMFeatureConverter,
        PassThroughFeatureConverter,
        PrePackedEncDecFeatureConverter,
        PrePackedLMFeatureConverter,
        PrePackedPrefixLMFeatureConverter,
        PrefixLMFeatureConverter,
        PrefixSuffixLMFeatureConverter,
    }
}

impl Default for ConverterClass {
    fn default() -> Self {
        Self::EncDecFeatureConverter(EncDecFeatureConverter {})
    }
}

/// Whether and how several examples share a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// One example a row.
    #[default]
    None,
    /// In order, a row at a time, as SeqIO packs without its custom ops.
    Greedy,
    /// Into the fullest of many open rows.
    Dense,
}

/// Converts a task's features into the model's inputs.
pub(crate) trait Convert {
    /// The fields of a row and their lengths, or an error about missing lengths.
    fn fields(&self, lengths: &Lengths) -> Result<Vec<Field>, DataError>;

    /// The values of the fields, in their order, for one example.
    fn prepare(&self, example: &mut Example, fields: &[Field]) -> Result<Vec<Vec<i32>>, DataError> {
        fields.iter().map(|field| take_ints(example, &field.name)).collect()
    }

    /// The model features of rows with these fields.
    fn model_features(&self, fields: &[Field], is_packed: bool) -> Vec<Field>;

    /// Appends a row to the model features.
    fn push(&self, row: &Row, bos_id: i32, out: &mut [BatchFeature]);

    /// Whether rows may hold several examples.
    fn packs(&self) -> bool {
        true
    }

    /// Whether the model gets the features unchanged.
    fn passes_through(&self) -> bool {
        false
    }
}

/// A feature with its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub name: Key,
    pub length: usize,
}

impl Field {
    fn new(name: &str, length: usize) -> Self {
        Self { name: name.into(), length }
    }
}

/// A converter for a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureConverter {
    class: ConverterClass,
    packing: Packing,
    bos_id: i32,
    fields: Vec<Field>,
    model_features: Vec<Field>,
}

impl FeatureConverter {
    /// The converter for tasks of these feature lengths. `bos_id` is the decoder's first input.
    ///
    /// # Errors
    /// Lengths that are missing or that the architecture does not use, or packing that it does not
    /// support.
    pub fn new(
        class: &ConverterClass,
        lengths: &BTreeMap<String, usize>,
        packing: Packing,
        bos_id: i32,
    ) -> Result<Self, DataError> {
        let convert = class.spec();
        if packing != Packing::None && !convert.packs() {
            let name = class.schema_of().short_name();
            let message = format!("`pack = True` is not allowed with {name}: its rows are made");
            return Err(DataError::Config(message));
        }
        let fields = convert.fields(lengths)?;
        let model_features = convert.model_features(&fields, packing != Packing::None);
        Ok(Self { class: class.clone(), packing, bos_id, fields, model_features })
    }

    /// A description of the converter and its lengths, which a saved position must match.
    pub(crate) fn description(&self) -> String {
        let lengths: Vec<String> =
            self.fields.iter().map(|field| format!("{} {}", field.name, field.length)).collect();
        let packed = match self.packing {
            Packing::None => "",
            Packing::Greedy => " packed",
            Packing::Dense => " packed densely",
        };
        format!("{}{packed}", lengths.join(" "))
    }

    /// A row that holds one example, trimmed to the lengths.
    pub(crate) fn row(&self, mut example: Example) -> Result<Row, DataError> {
        let convert = self.class.spec();
        let is_packed = self.packing != Packing::None;
        let values = convert.prepare(&mut example, &self.fields)?;
        let feature = |(mut tokens, field): (Vec<i32>, &Field)| {
            tokens.truncate(field.length);
            if is_packed {
                // SeqIO counts the tokens that are not 0 and keeps as many from the left.
                tokens.truncate(tokens.iter().filter(|&&token| token != 0).count());
            }
            let positions = if is_packed { (0..tokens.len() as i32).collect() } else { Vec::new() };
            RowFeature { tokens, positions }
        };
        let features = values.into_iter().zip(&self.fields).map(feature).collect();
        Ok(Row { features, passed: convert.passes_through().then_some(example) })
    }

    /// Whether `next` fits in `row` after its examples.
    fn fits(&self, row: &Row, next: &Row) -> bool {
        let features = row.features.iter().zip(&next.features).zip(&self.fields);
        let mut sums = features
            .map(|((row, next), field)| row.tokens.len() + next.tokens.len() <= field.length);
        sums.all(|fits| fits)
    }

    /// An empty batch with room for `rows`.
    pub fn empty_batch(&self, rows: usize) -> Batch {
        let feature = |field: &Field| BatchFeature::new(field.name.clone(), field.length, rows);
        Batch { rows: 0, features: self.model_features.iter().map(feature).collect() }
    }

    /// Makes one unpacked row for each example, in order; the rows up to `rows` are padding.
    ///
    /// # Errors
    /// An example without a required feature; longer features are trimmed.
    pub fn batch(&self, examples: &[Example], rows: usize) -> Result<Batch, DataError> {
        let mut batch = self.empty_batch(rows);
        for example in examples {
            self.push_row(&mut batch, &self.row(example.clone())?);
        }
        let padding =
            Row { features: vec![RowFeature::default(); self.fields.len()], passed: None };
        while batch.rows < rows {
            self.push_row(&mut batch, &padding);
        }
        Ok(batch)
    }

    /// Appends a row to a batch of this converter.
    pub(crate) fn push_row(&self, batch: &mut Batch, row: &Row) {
        batch.rows += 1;
        self.class.spec().push(row, self.bos_id, &mut batch.features);
    }
}

/// Takes the token ids of a feature out of an example.
fn take_ints(example: &mut Example, key: &str) -> Result<Vec<i32>, DataError> {
    match example.take(key) {
        Some(Value::Ints(tokens)) => Ok(tokens),
        Some(other) => {
            let found = other.type_name();
            let message = format!("the model needs token ids in '{key}', found {found}");
            Err(DataError::Config(message))
        }
        None => {
            let found = example.names();
            let message = format!("the model needs the feature '{key}', found {found}");
            Err(DataError::Config(message))
        }
    }
}

/// A field for each of these task features; the lengths must name no others.
fn fields_of(class: &str, names: &[&str], lengths: &Lengths) -> Result<Vec<Field>, DataError> {
    if let Some(extra) = lengths.keys().find(|key| !names.contains(&&key[..])) {
        let takes: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        return Err(DataError::Config(format!(
            "`task_feature_lengths` has '{extra}', which {class} does not take; it takes {}",
            takes.join(" and ")
        )));
    }
    names.iter().map(|name| Ok(Field::new(name, feature_length(name, lengths)?))).collect()
}

/// The length that is bound for a task feature.
pub fn feature_length(name: &str, lengths: &Lengths) -> Result<usize, DataError> {
    match lengths.get(name) {
        Some(&length) if length > 0 => Ok(length),
        found => Err(DataError::Config(format!(
            "`task_feature_lengths` needs a positive length for '{name}', found {}",
            found.map_or("none".to_string(), usize::to_string)
        ))),
    }
}

/// The decoder's inputs for these targets: shifted right by one, with `bos_id` at the beginning and
/// wherever `sequence_id` changes.
pub fn make_autoregressive_inputs(
    targets: &[i32],
    sequence_id: Option<&[i32]>,
    bos_id: i32,
) -> Vec<i32> {
    shifted(targets, sequence_id, bos_id).collect()
}

fn shifted<'a>(
    targets: &'a [i32],
    sequence_id: Option<&'a [i32]>,
    bos_id: i32,
) -> impl Iterator<Item = i32> + 'a {
    let begins = move |i: usize| i == 0 || sequence_id.is_some_and(|ids| ids[i] != ids[i - 1]);
    (0..targets.len()).map(move |i| if begins(i) { bos_id } else { targets[i - 1] })
}
