//! T5s whose prompt is kept near the embeddings of a text that describes the task (Khashabi et al. 2022, arXiv:2112.08348), and
//! functions of their gin files. Source: prompt-tuning `extended/train/wayward.py`.

use super::encoder_decoder::{EncoderDecoderParameters, PredictBatchWithAux, ScoreBatch};
use crate::data::{ConverterClass, DataError, Lengths};
use crate::gin::{Configurable, Function, Ref, Value, ValueKind};
use crate::models::contract::memory::StepShape;
use crate::models::contract::{BaseModel, ModuleSpec, PredictionSpec};
use crate::models::families::parameters::of_shared;
use crate::models::flaxformer::PromptInit;
use crate::models::given_rows::{Anchor, GivenRows};
use crate::models::heads::LossSpec;
use crate::nn::Initializer;
use crate::optim::OptimizerDef;
use crate::vocab::VocabularySpec;

/// An encoder-decoder model whose loss has a term more, which keeps a prompt near rows that do not change. Metrics are without it.
/// Source: prompt-tuning `extended/train/wayward.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.wayward.WaywardPromptEncoderDecoderModel")]
pub struct WaywardPromptEncoderDecoderModel {
    /// Parameters of every such model.
    #[gin(flatten)]
    pub shared: EncoderDecoderParameters,
    /// Weight of the term.
    #[gin(default = 0.01, limit = NonNegative)]
    pub gamma: f64,
    /// The term.
    #[gin(default = Ref(SquaredL2Distance {}))]
    pub distance: Ref<SquaredL2Distance>,
    /// The rows near which the prompt is kept.
    pub discrete_prompt: ExecuteInitializer,
    /// The prompt, a parameter of the network.
    #[gin(default = "encoder/prompt/prompt/prompt".to_string())]
    pub prompt_path: String,
    /// Parameters of decoding a batch.
    #[gin(method)]
    pub predict_batch_with_aux: PredictBatchWithAux,
    /// Parameters of scoring a batch.
    #[gin(method)]
    pub score_batch: ScoreBatch,
}

/// The sum of the squared differences of two arrays, divided by the number of their rows. Source: prompt-tuning
/// `extended/train/wayward.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "prompt_tuning.extended.train.wayward.squared_l2_distance",
    ignored(x = "the model gives it", y = "the model gives it")
)]
pub struct SquaredL2Distance {}

/// Rows that an initializer gives. Source: prompt-tuning `extended/train/wayward.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.wayward.execute_initializer")]
pub struct ExecuteInitializer {
    /// The initializer, of which no number is drawn.
    pub init: PromptInit,
    /// Only None is supported.
    pub rng: NoRng,
    /// Number of rows, and their width.
    pub shape: (usize, usize),
}

/// Number of items of a list. Source: prompt-tuning `extended/train/wayward.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.wayward.length")]
pub struct Length {
    /// The list.
    pub x: Vec<Value>,
}

/// The pieces of a text, a list. Source: prompt-tuning `extended/train/wayward.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "prompt_tuning.extended.train.wayward.encode_string")]
pub struct EncodeString {
    /// The text.
    pub s: String,
    /// The vocabulary.
    pub vocab: VocabularySpec,
    /// Only None is supported.
    #[gin(default = NoFormatValues)]
    pub format_values: NoFormatValues,
}

gimlet_gin::only! {
    /// No seed.
    NoRng = ValueKind::None, "rows that do not change are not drawn";
    /// A text as it is.
    NoFormatValues = ValueKind::None, "prompts.from_embedded_string reads the text as it is: write it with the values";
}

impl Function for Length {
    fn call(self) -> Result<ValueKind, String> {
        Ok(ValueKind::from(self.x.len() as i64))
    }
}

impl Function for EncodeString {
    fn call(self) -> Result<ValueKind, String> {
        let vocabulary = self.vocab.build().map_err(|error| error.to_string())?;
        if vocabulary.takes_ids() {
            return Err(format!(
                "{} has no pieces of texts, expected the vocabulary of the model: bind VOCABULARY",
                vocabulary.name()
            ));
        }
        let piece = |id| Value::unplaced(ValueKind::Str(vocabulary.piece(id)));
        Ok(ValueKind::List(vocabulary.encode(&self.s).into_iter().map(piece).collect()))
    }
}

impl WaywardPromptEncoderDecoderModel {
    /// Finds an initializer that draws, whose rows would be others in each run.
    fn check_init(&self) -> Result<(), String> {
        let init = &self.discrete_prompt.init;
        let (given, others) = (init.given(), init.drawn());
        let is_drawn = given.iter().any(|given| matches!(given, GivenRows::Sample { .. }));
        let is_whole = given.iter().any(|given| matches!(given, GivenRows::Array(_)));
        match is_drawn || (!is_whole && others != Initializer::ZEROS) {
            false => Ok(()),
            true => Err(
                "wayward.execute_initializer.init draws rows, expected @prompts.from_embedded_string() with initializer = \
                 @linen.initializers.zeros: rows near which a prompt is kept do not change"
                    .to_string(),
            ),
        }
    }
}

impl BaseModel for WaywardPromptEncoderDecoderModel {
    of_shared!();

    fn loss_spec(&self) -> LossSpec {
        self.shared.loss.spec(None)
    }

    fn anchor(&self) -> Option<Anchor> {
        Some(Anchor {
            name: self.prompt_path.clone(),
            shape: self.discrete_prompt.shape.into(),
            rows: self.discrete_prompt.init.given(),
            weight: self.gamma,
        })
    }

    fn check_own(&self) -> Result<(), String> {
        self.check_init()?;
        let (name, found) = (&self.prompt_path, self.discrete_prompt.shape);
        let tree = self.param_tree();
        let Some(param) = tree.iter().find(|param| param.name == *name) else {
            return Err(format!(
                "{}.prompt_path is '{name}', and the network has no such parameter, expected its prompt: \
                 'encoder/prompt/prompt/prompt'",
                self.name()
            ));
        };
        match param.shape == [found.0, found.1] {
            true => Ok(()),
            false => Err(format!(
                "wayward.execute_initializer.shape is {found:?}, and {name} has the shape {:?}, expected the same: \
                 (%PROMPT_LENGTH, %EMBED_DIM)",
                param.shape
            )),
        }
    }

    fn predicts(&self) -> Option<PredictionSpec> {
        let own = &self.predict_batch_with_aux;
        Some(PredictionSpec {
            num_decodes: own.num_decodes.unwrap_or(1),
            prompt_with_targets: own.prompt_with_targets,
            answers: own.answers.clone(),
            returns_all_decodes: own.return_all_decodes.unwrap_or(false),
            ..self.shared.predictions(&self.score_batch)
        })
    }
}
