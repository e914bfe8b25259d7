//! The features that a task's examples end with.

use super::value::Leaf;
use gimlet_gin::{Configurable, Evaluator, Registry, Reported, Schema, Slot};
use gimlet_vocab::{PassThroughVocabulary, VocabularySpec};

/// One output feature of a task, declared in gin as `seqio.Feature` or `seqio.ContinuousFeature`.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    /// Turns text into ids.
    pub vocabulary: VocabularySpec,
    /// Whether the EOS preprocessors append EOS.
    pub add_eos: bool,
    /// Whether every example must have the feature.
    pub required: bool,
    /// Type of the values.
    pub dtype: FeatureDtype,
    /// Number of dimensions.
    pub rank: usize,
}

/// One output feature of a task. Source: SeqIO `utils.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.Feature",
    alias = "seqio.dataset_providers.Feature",
    alias = "seqio.utils.Feature"
)]
pub struct TokenFeature {
    /// Turns text into ids.
    pub vocabulary: VocabularySpec,
    /// Whether the EOS preprocessors append EOS.
    #[gin(default = true)]
    pub add_eos: bool,
    /// Whether every example must have the feature.
    #[gin(default = true)]
    pub required: bool,
    /// Type of the values.
    #[gin(default = FeatureDtype::Int32)]
    pub dtype: FeatureDtype,
    /// Number of dimensions: 1 for the ids of a text, 2 for those of a list of texts.
    #[gin(default = 1)]
    pub rank: usize,
}

/// One output feature of a task that holds numbers, which pass through as they are. Source: SeqIO
/// `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.ContinuousFeature", alias = "seqio.dataset_providers.ContinuousFeature")]
pub struct ContinuousFeature {
    /// Takes the numbers as they are.
    #[gin(default = VocabularySpec::PassThrough(PassThroughVocabulary { size: 0, eos_id: None }))]
    pub vocabulary: VocabularySpec,
    /// Whether the EOS preprocessors append EOS.
    #[gin(default = false)]
    pub add_eos: bool,
    /// Whether every example must have the feature.
    #[gin(default = true)]
    pub required: bool,
    /// Type of the values; as in SeqIO, fractional numbers need an explicit 'float32'.
    #[gin(default = FeatureDtype::Int32)]
    pub dtype: FeatureDtype,
    /// Number of dimensions.
    #[gin(default = 1)]
    pub rank: usize,
}

/// Type of a feature's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Configurable)]
pub enum FeatureDtype {
    /// Token ids.
    Int32,
    /// Token ids; held in 32 bits.
    Int64,
    /// Real numbers.
    Float32,
}

impl FeatureDtype {
    pub(crate) fn leaf(self) -> Leaf {
        match self {
            Self::Int32 | Self::Int64 => Leaf::Ints,
            Self::Float32 => Leaf::Floats,
        }
    }
}

impl From<TokenFeature> for Feature {
    fn from(feature: TokenFeature) -> Self {
        let TokenFeature { vocabulary, add_eos, required, dtype, rank } = feature;
        Self { vocabulary, add_eos, required, dtype, rank }
    }
}

impl From<ContinuousFeature> for Feature {
    fn from(feature: ContinuousFeature) -> Self {
        let ContinuousFeature { vocabulary, add_eos, required, dtype, rank } = feature;
        Self { vocabulary, add_eos, required, dtype, rank }
    }
}

impl Slot for Feature {
    fn schemas() -> Vec<&'static Schema> {
        vec![TokenFeature::schema(), ContinuousFeature::schema()]
    }

    fn schema_of(&self) -> &'static Schema {
        match &self.vocabulary {
            VocabularySpec::PassThrough(numbers) if numbers.size == 0 => {
                ContinuousFeature::schema()
            }
            _ => TokenFeature::schema(),
        }
    }

    fn evaluate_as(schema: &'static Schema, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match schema.name == ContinuousFeature::schema().name {
            true => ContinuousFeature::evaluate(cx).map(Self::from),
            false => TokenFeature::evaluate(cx).map(Self::from),
        }
    }

    fn register_slot(registry: &mut Registry) {
        TokenFeature::register_slot(registry);
        ContinuousFeature::register_slot(registry);
    }
}

gimlet_gin::read_slot!(Feature);
