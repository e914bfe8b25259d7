//! Initial values of a prompt. Source: prompt-tuning `prompts.py`.

use crate::gin::{Configurable, Evaluator, FromGin, Ref, Registry, Reported, Value, ValueKind};
use crate::models::flaxformer::components::{InitFn, Normal, Uniform, VarianceScaling};
use crate::models::given_rows::{GivenRows, StoredArray};
use crate::nn::Initializer;
use crate::vocab::VocabularySpec;

/// Any initial values of a prompt.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum PromptInit {
    /// A Gaussian of one deviation.
    Normal(Normal),
    /// Flat above 0.
    Uniform(Uniform),
    /// A deviation that depends on the shape.
    VarianceScaling(VarianceScaling),
    /// Those of an array.
    Array(FromArray),
    /// Rows of an embedding.
    Sample(FromSampleOfEmbeddings),
    /// The embeddings of texts.
    List(FromEmbeddedList),
    /// The embeddings of one text's pieces.
    Text(FromEmbeddedString),
}

/// The rows of an array, such as a prompt that another run has learned.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.prompts.from_array")]
pub struct FromArray {
    /// The array, which has the length of the prompt.
    pub prompt: StoredArray,
}

/// Rows of an embedding, each at most once, as far as there are enough. The run's seed draws them.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.prompts.from_sample_of_embeddings")]
pub struct FromSampleOfEmbeddings {
    /// The embedding.
    pub embeddings: StoredArray,
    /// Number of the embedding's first rows that can be drawn, the most frequent pieces of most vocabularies; None is all.
    #[gin(default = None)]
    pub population_size: Option<usize>,
}

/// A row for each text, such as a label of a class: the mean of the embeddings of its pieces. Texts beyond the length of the
/// prompt are left out, with a warning.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.prompts.from_embedded_list")]
pub struct FromEmbeddedList {
    /// The embedding.
    pub embeddings: StoredArray,
    /// The vocabulary, which cuts texts into pieces.
    pub vocab: VocabularySpec,
    /// The texts.
    pub texts: Vec<String>,
    /// The values of the other rows; None is flax's `uniform`, from 0 to 0.01.
    #[gin(default = None)]
    pub initializer: Option<OtherRows>,
}

/// A row for each piece of a text, such as the description of a task: its embedding. Pieces beyond the length of the prompt are
/// left out, with a warning.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.prompts.from_embedded_string")]
pub struct FromEmbeddedString {
    /// The embedding.
    pub embeddings: StoredArray,
    /// The vocabulary, which cuts the text into pieces.
    pub vocab: VocabularySpec,
    /// The text.
    pub text: String,
    /// The values of the other rows; None is flax's `uniform`, from 0 to 0.01.
    #[gin(default = None)]
    pub initializer: Option<OtherRows>,
}

/// The values of rows that texts do not give.
#[derive(Clone, Debug, PartialEq)]
pub enum OtherRows {
    /// 0.
    Zeros,
    /// Others.
    Init(Box<PromptInit>),
}

/// Zeros. The initializer itself, without a call. Source: flax `linen/initializers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "flax.linen.initializers.zeros",
    alias = "jax.nn.initializers.zeros",
    ignored(
        key = "zeros are not drawn",
        shape = "the prompt gives it",
        dtype = "parameters are float32"
    )
)]
pub struct Zeros {}

impl FromGin for OtherRows {
    fn expected() -> String {
        format!("another one of the same kind, or {}", Ref::<Zeros>::expected())
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Reference(reference) if !reference.called => {
                Ref::<Zeros>::from_gin(value, cx).map(|_| Self::Zeros)
            }
            _ => PromptInit::from_gin(value, cx).map(|init| Self::Init(Box::new(init))),
        }
    }

    fn register(registry: &mut Registry) {
        PromptInit::register(registry);
        Ref::<Zeros>::register(registry);
    }
}

impl OtherRows {
    fn drawn(&self) -> Initializer {
        match self {
            Self::Zeros => Initializer::ZEROS,
            Self::Init(init) => init.drawn(),
        }
    }

    fn given(&self) -> Vec<GivenRows> {
        match self {
            Self::Zeros => Vec::new(),
            Self::Init(init) => init.given(),
        }
    }
}

impl PromptInit {
    /// flax's default of `uniform`.
    pub(super) fn uniform() -> Self {
        Self::Uniform(Uniform { scale: 0.01 })
    }

    /// The values of rows that nothing else gives.
    pub(in crate::models) fn drawn(&self) -> Initializer {
        match self {
            Self::Normal(spec) => InitFn::Normal(spec.clone()).initializer(),
            Self::Uniform(spec) => InitFn::Uniform(spec.clone()).initializer(),
            Self::VarianceScaling(spec) => InitFn::VarianceScaling(spec.clone()).initializer(),
            Self::Array(_) | Self::Sample(_) => Initializer::ZEROS,
            Self::List(FromEmbeddedList { initializer, .. })
            | Self::Text(FromEmbeddedString { initializer, .. }) => match initializer {
                Some(inner) => inner.drawn(),
                None => Self::uniform().drawn(),
            },
        }
    }

    /// The given values, those of all rows first.
    pub(in crate::models) fn given(&self) -> Vec<GivenRows> {
        let after = |initializer: &Option<OtherRows>, own| {
            let others = initializer.as_ref().map(OtherRows::given).unwrap_or_default();
            others.into_iter().chain([own]).collect()
        };
        match self.clone() {
            Self::Normal(_) | Self::Uniform(_) | Self::VarianceScaling(_) => Vec::new(),
            Self::Array(FromArray { prompt }) => vec![GivenRows::Array(prompt)],
            Self::Sample(FromSampleOfEmbeddings { embeddings, population_size }) => {
                vec![GivenRows::Sample { embeddings, population_size }]
            }
            Self::List(FromEmbeddedList { embeddings, vocab, texts, initializer }) => {
                after(&initializer, GivenRows::Texts { embeddings, vocab, texts })
            }
            Self::Text(FromEmbeddedString { embeddings, vocab, text, initializer }) => {
                after(&initializer, GivenRows::Text { embeddings, vocab, text })
            }
        }
    }
}
