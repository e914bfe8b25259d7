//! TFRecords of `tf.Example`s and `tf.SequenceExample`s.

use std::collections::BTreeMap;

use super::file::Format;
use super::parse::RecordParser;
use super::patterns::{FilePattern, pattern_source};
use super::split::FileReading;
use super::tf_example::{Partition, TfFeature, TfKind, TfShape};
use crate::error::DataError;
use crate::value::Value;
use gimlet_gin::{Configurable, Evaluator, FromGin, Registry, Reported, Slot, ValueKind};

/// `tf.Example`s in TFRecord files, plain, gzip, zlib or zstd, each verified by its checksum.
/// Source: SeqIO `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.TFExampleDataSource",
    alias = "seqio.dataset_providers.TFExampleDataSource",
    ignored(
        reader_cls = "files are TFRecords, however they are compressed",
        caching_permitted = "caching is asked for by `CacheDatasetPlaceholder`",
        file_shuffle_buffer_size = "all files are shuffled at once"
    )
)]
pub struct TfExampleDataSource {
    /// Split to a glob or a list of globs, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// Feature to its description: `@tf.io.FixedLenFeature()` or a similar configurable, a dtype
    /// ('int64', 'float32', 'string') for one value, or ('int64', 3) for three; (dtype, None) for
    /// any number.
    pub feature_description: BTreeMap<String, FeatureDescription>,
    /// Features with a value at each step; with them the records are `tf.SequenceExample`s.
    /// Gimlet's own.
    #[gin(default = None)]
    pub sequence_feature_description: Option<BTreeMap<String, FeatureDescription>>,
    /// Options of reading its files.
    #[gin(flatten)]
    pub reading: FileReading,
}

impl TfExampleDataSource {
    fn format(&self) -> Result<Format, DataError> {
        Ok(Format::TfRecord)
    }

    fn header_lines(&self) -> u64 {
        0
    }

    fn parser(&self) -> Result<RecordParser, DataError> {
        let Some(by_step) = &self.sequence_feature_description else {
            return parser_of(&self.feature_description);
        };
        let mut features = features_of(&self.feature_description)?;
        for (name, description) in by_step {
            let feature = description.feature(name)?;
            features.push(TfFeature { by_step: true, shape: TfShape::List, ..feature });
        }
        Ok(RecordParser::of_sequence_examples(features))
    }
}

pattern_source!(TfExampleDataSource);

/// A parser of `tf.Example`s with these features.
pub(super) fn parser_of(
    descriptions: &BTreeMap<String, FeatureDescription>,
) -> Result<RecordParser, DataError> {
    features_of(descriptions).map(RecordParser::of_tf_examples)
}

fn features_of(
    descriptions: &BTreeMap<String, FeatureDescription>,
) -> Result<Vec<TfFeature>, DataError> {
    descriptions.iter().map(|(name, description)| description.feature(name)).collect()
}

/// The types of a `tf.Example`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum TfDtype {
    /// Whole numbers.
    Int64,
    /// Real numbers.
    Float32,
    /// Text.
    String,
}

impl TfDtype {
    fn kind(self) -> TfKind {
        match self {
            Self::Int64 => TfKind::Ints,
            Self::Float32 => TfKind::Floats,
            Self::String => TfKind::Texts,
        }
    }
}

/// A feature with a fixed number of values. Source: TensorFlow `parsing_config.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "tf.io.FixedLenFeature")]
pub struct FixedLenFeature {
    /// `[]` for one value, `[n]` for a list of n, `[m, n]` for m rows of n.
    pub shape: Vec<usize>,
    /// Type of the values.
    pub dtype: TfDtype,
    /// The value of a missing feature; None makes a missing feature an error.
    #[gin(default = None)]
    pub default_value: Option<gimlet_gin::Value>,
}

/// A feature with any number of values, none if it is missing. Source: TensorFlow
/// `parsing_config.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "tf.io.VarLenFeature")]
pub struct VarLenFeature {
    /// Type of the values.
    pub dtype: TfDtype,
}

/// A feature with any number of values, or one at each step of a `tf.SequenceExample`. Source:
/// TensorFlow `parsing_config.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "tf.io.FixedLenSequenceFeature",
    ignored(default_value = "nothing is padded", allow_missing = "a missing list is empty")
)]
pub struct FixedLenSequenceFeature {
    /// The shape of each value: `[]` for a number or text, `[n]` for a row of n.
    pub shape: Vec<usize>,
    /// Type of the values.
    pub dtype: TfDtype,
}

/// A description of a feature in gin.
trait Describe {
    fn feature(&self, name: &str) -> Result<TfFeature, DataError>;
}

gimlet_gin::slot! {
    /// Any description of a feature that has a configurable.
    pub enum FeatureSpec: Describe {
        FixedLenFeature,
        VarLenFeature,
        FixedLenSequenceFeature,
    }
}

/// A description of a feature, in any notation.
#[derive(Clone, Debug, PartialEq)]
pub enum FeatureDescription {
    /// `@tf.io.FixedLenFeature()`
    Spec(FeatureSpec),
    /// 'int64', or ('int64', 3).
    Short {
        /// Type of the values.
        dtype: TfDtype,
        /// Number of values: one, a given number, or any.
        length: ShortLength,
    },
}

/// The number of values in a short description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortLength {
    /// One value, of rank 0.
    One,
    /// A list of this length.
    Fixed(usize),
    /// A list of any length.
    Any,
}

impl FeatureDescription {
    fn feature(&self, name: &str) -> Result<TfFeature, DataError> {
        match self {
            Self::Spec(spec) => spec.spec().feature(name),
            Self::Short { dtype, length } => {
                let shape = match length {
                    ShortLength::One => TfShape::One,
                    ShortLength::Fixed(length) => TfShape::Fixed(*length),
                    ShortLength::Any => TfShape::List,
                };
                Ok(TfFeature::new(name, dtype.kind(), shape))
            }
        }
    }
}

impl Describe for FixedLenFeature {
    fn feature(&self, name: &str) -> Result<TfFeature, DataError> {
        let shape = match &self.shape[..] {
            [] => TfShape::One,
            [length] => TfShape::Fixed(*length),
            [count, inner @ ..] => TfShape::Rows { count: Some(*count), inner: uniform(inner) },
        };
        let default = self.default_value.as_ref().map(|value| self.default_of(name, value));
        let default = default.transpose()?;
        Ok(TfFeature { default, ..TfFeature::new(name, self.dtype.kind(), shape) })
    }
}

impl FixedLenFeature {
    fn default_of(&self, name: &str, value: &gimlet_gin::Value) -> Result<Value, DataError> {
        let json = gimlet_gin::to_json(value);
        let one = json.as_array().is_none();
        let items = json.as_array().cloned().unwrap_or_else(|| vec![json.clone()]);
        let (ints, floats, texts) = (
            items.iter().map(serde_json::Value::as_i64).collect::<Option<Vec<_>>>(),
            items.iter().map(serde_json::Value::as_f64).collect::<Option<Vec<_>>>(),
            items.iter().map(|item| item.as_str().map(String::from)).collect::<Option<Vec<_>>>(),
        );
        let list = match self.dtype {
            TfDtype::Int64 => ints.map(Value::of_longs),
            TfDtype::Float32 => floats.map(Value::Floats),
            TfDtype::String => texts.map(Value::Texts),
        };
        let fits = match self.shape[..] {
            [] => one,
            // TensorFlow repeats one value as often as the shape says, if it is one long.
            [length] => !one && items.len() == length,
            _ => false,
        };
        let unfit = || {
            DataError::Config(format!(
                "the `default_value` {json} of feature '{name}' is not of shape {:?} and type {}",
                self.shape,
                self.dtype.as_str()
            ))
        };
        let list = list.filter(|_| fits).ok_or_else(unfit)?;
        Ok(match (self.shape.is_empty(), list) {
            (true, Value::Ints(ids)) => Value::Int(ids[0].into()),
            (true, Value::Longs(longs)) => Value::Int(longs[0]),
            (true, Value::Floats(floats)) => Value::Float(floats[0]),
            (true, Value::Texts(mut texts)) => Value::Text(texts.remove(0)),
            (_, list) => list,
        })
    }
}

impl Describe for VarLenFeature {
    fn feature(&self, name: &str) -> Result<TfFeature, DataError> {
        Ok(TfFeature::new(name, self.dtype.kind(), TfShape::List))
    }
}

impl Describe for FixedLenSequenceFeature {
    fn feature(&self, name: &str) -> Result<TfFeature, DataError> {
        let shape = match &self.shape[..] {
            [] => TfShape::List,
            inner => TfShape::Rows { count: None, inner: uniform(inner) },
        };
        Ok(TfFeature::new(name, self.dtype.kind(), shape))
    }
}

fn uniform(shape: &[usize]) -> Vec<Partition> {
    shape.iter().map(|length| Partition::Uniform(*length)).collect()
}

impl FromGin for FeatureDescription {
    fn expected() -> String {
        format!("{}, a dtype, or a pair of a dtype and a length", FeatureSpec::expected())
    }

    fn from_gin(value: &gimlet_gin::Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(_) => {
                Ok(Self::Short { dtype: cx.read(value)?, length: ShortLength::One })
            }
            ValueKind::Tuple(_) | ValueKind::List(_) => {
                let (dtype, length) = cx.read::<(TfDtype, Option<usize>)>(value)?;
                let length = length.map_or(ShortLength::Any, ShortLength::Fixed);
                Ok(Self::Short { dtype, length })
            }
            _ => FeatureSpec::from_gin(value, cx).map(Self::Spec),
        }
    }

    fn register(registry: &mut Registry) {
        FeatureSpec::register_slot(registry);
    }
}
