//! All converters, and the converter of a data set: that of an architecture, with the lengths and
//! the packing of a run.

use std::collections::BTreeMap;

use super::answers::ValidLabelOnlyEncDecFeatureConverter;
use super::batch::{Batch, BatchFeature};
use super::classes::ClassFeatureConverter;
use super::contract::{Convert, Field};
use super::decoder::{
    DecoderFeatureConverter, LMFeatureConverter, PrefixLMFeatureConverter,
    PrefixSuffixLMFeatureConverter,
};
use super::encoder::EncoderFeatureConverter;
use super::encoder_decoder::{EncDecFeatureConverter, PrePackedEncDecFeatureConverter};
use super::pass_through::{
    PassThroughFeatureConverter, PrePackedLMFeatureConverter, PrePackedPrefixLMFeatureConverter,
};
use super::row::{Row, RowFeature};
use crate::error::DataError;
use crate::example::Example;
use crate::feature::Feature;
use gimlet_gin::Slot;

/// Mesh TensorFlow's end of a sequence, for any vocabulary.
const EOS_ID: i32 = 1;

gimlet_gin::slot! {
    /// The converter of an architecture.
    pub enum ConverterClass: Convert {
        ClassFeatureConverter,
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
        ValidLabelOnlyEncDecFeatureConverter,
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

/// A converter for a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureConverter {
    class: ConverterClass,
    pub(super) packing: Packing,
    bos_id: i32,
    pub(super) fields: Vec<Field>,
    model_features: Vec<Field>,
    /// Whether full rows of a field end in EOS, for each field.
    ends_in_eos: Vec<bool>,
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
            let message =
                format!("`pack = True` is not allowed with {name}, whose rows are not joined");
            return Err(DataError::Config(message));
        }
        let fields = convert.fields(lengths)?;
        let model_features = convert.model_features(&fields, packing != Packing::None);
        let ends_in_eos = vec![false; fields.len()];
        Ok(Self { class: class.clone(), packing, bos_id, fields, model_features, ends_in_eos })
    }

    /// The same converter, which ends full rows of features with `add_eos` in EOS. Source: Mesh TensorFlow
    /// `transformer/dataset.py`, `ensure_dataset_eos`.
    ///
    /// # Errors
    /// Such a feature has no rows of its own.
    pub(crate) fn ending_in_eos(
        mut self,
        features: &BTreeMap<String, Feature>,
    ) -> Result<Self, DataError> {
        let is_joined = self.class.spec().joins(&self.fields);
        for (name, _) in features.iter().filter(|(_, feature)| feature.add_eos) {
            if is_joined {
                let class = self.class.schema_of().short_name();
                return Err(DataError::Config(format!(
                    "`ensure_eos = True` is not possible with {class}, whose rows hold '{name}' beside other \
                     features; use PrefixLMFeatureConverter with `pack_before_joining = True`"
                )));
            }
            let place = self.fields.iter().position(|field| *field.name == **name);
            place.into_iter().for_each(|place| self.ends_in_eos[place] = true);
        }
        Ok(self)
    }

    /// The same converter, whose rows of a feature are as long as the longest of these examples, if they were longer. Joined
    /// features keep their lengths.
    pub fn fitted(&self, feature: &str, examples: &[Example]) -> Self {
        let mut fitted = self.clone();
        if self.class.spec().joins(&self.fields) {
            return fitted;
        }
        let length = |example: &Example| example.ints(feature).map_or(0, <[i32]>::len);
        let longest = examples.iter().map(length).max().unwrap_or(0).max(1);
        for field in fitted.fields.iter_mut().filter(|field| *field.name == *feature) {
            field.length = field.length.min(longest);
        }
        let is_packed = self.packing != Packing::None;
        fitted.model_features = self.class.spec().model_features(&fitted.fields, is_packed);
        fitted
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
        // SeqIO counts the tokens of a packed feature that are not 0 and keeps as many from the left. Targets of an encoder may
        // be 0 where none is asked for: they keep their places beside the inputs.
        let kept = |tokens: &[i32]| tokens.iter().filter(|&&token| token != 0).count();
        let mut of_first = None;
        let feature = |(mut tokens, field): (Vec<i32>, &Field)| {
            tokens.truncate(field.length);
            if is_packed {
                let own = of_first.unwrap_or_else(|| kept(&tokens));
                of_first = convert.is_aligned().then_some(own);
                tokens.resize(own, 0);
            }
            let positions = if is_packed { (0..tokens.len() as i32).collect() } else { Vec::new() };
            RowFeature { tokens, positions }
        };
        let features = values.into_iter().zip(&self.fields).map(feature).collect();
        Ok(Row { features, passed: convert.passes_through().then_some(example) })
    }

    /// Whether `next` fits in `row` after its examples.
    pub(super) fn fits(&self, row: &Row, next: &Row) -> bool {
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
        while batch.rows < rows {
            self.push_row(&mut batch, &self.padding());
        }
        Ok(batch)
    }

    /// A row of padding.
    pub(crate) fn padding(&self) -> Row {
        Row { features: vec![RowFeature::default(); self.fields.len()], passed: None }
    }

    /// Appends a row to a batch of this converter.
    pub(crate) fn push_row(&self, batch: &mut Batch, row: &Row) {
        batch.rows += 1;
        let convert = self.class.spec();
        match self.with_eos(row) {
            Some(row) => convert.push(&row, self.bos_id, &mut batch.features),
            None => convert.push(row, self.bos_id, &mut batch.features),
        }
    }

    /// Returns the row with EOS as the last token of full features, if it has another one there.
    fn with_eos(&self, row: &Row) -> Option<Row> {
        let mut ended: Option<Row> = None;
        let features = row.features.iter().zip(&self.fields).enumerate();
        for (index, (feature, field)) in features.filter(|(index, _)| self.ends_in_eos[*index]) {
            let last = field.length - 1;
            if feature.tokens.get(last).is_some_and(|&token| token > EOS_ID) {
                let ended = ended.get_or_insert_with(|| row.clone());
                ended.features[index].tokens[last] = EOS_ID;
            }
        }
        ended
    }
}
