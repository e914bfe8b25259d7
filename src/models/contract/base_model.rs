//! The interface of models: what checks, estimates and loops ask of a model, whatever its family.

use super::fill_spec::{FillSpec, NoFilling};
use super::memory::{Estimate, Gradients, Held, StepShape};
use super::module_spec::ModuleSpec;
use super::network::HasNetwork;
use super::prediction_spec::{NoPredictions, PredictionSpec};
use crate::checkpoint::HuggingFaceOptions;
use crate::data::{ConverterClass, DataError, KnownIds, Lengths};
use crate::gin::AnySpec;
use crate::models::given_rows::Anchor;
use crate::models::heads::LossSpec;
use crate::models::parts::{LearnedRows, LoRA, StreamDims};
use crate::models::transformer::{DimensionNames, TransformerSpec};
use crate::nn::{Dtype, ParamSpec};
use crate::optim::OptimizerDef;
use crate::partition::LocalDevice;
use crate::vocab::VocabularySpec;

/// A model as gin binds it: network, vocabularies, optimizer and loss. With torch, [`HasNetwork`] has its tensors. Source: T5X
/// `models.py`, `BaseModel`.
pub trait BaseModel: HasNetwork + AnySpec {
    /// The module that describes the network.
    fn module(&self) -> &dyn ModuleSpec;

    /// Vocabularies by feature of a task.
    fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)>;

    /// Converter of a task's features into the model's inputs.
    fn feature_converter(&self) -> ConverterClass;

    /// Shape of a batch with so many rows.
    ///
    /// # Errors
    /// A length of a task's feature that the model reads is not bound, or is 0.
    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError>;

    /// Optimizer.
    fn optimizer_def(&self) -> &OptimizerDef;

    /// Parameters of the loss.
    fn loss_spec(&self) -> LossSpec;

    /// The predictions that it makes; `None` for a model that is only trained and measured. With torch, the network of a model
    /// that makes some returns itself as `Network::predicting`.
    fn predicts(&self) -> Option<PredictionSpec> {
        None
    }

    /// The predictions that it makes, for those who need some.
    ///
    /// # Errors
    /// It makes none.
    fn prediction_spec(&self) -> Result<PredictionSpec, NoPredictions> {
        let fills = self.fills().is_some();
        self.predicts().ok_or(NoPredictions { model: self.name(), fills })
    }

    /// The masked tokens that it restores; `None` for a model that restores none. With torch, the network of a model that does
    /// returns itself as `Network::filling`.
    fn fills(&self) -> Option<FillSpec> {
        None
    }

    /// The masked tokens that it restores, for those who ask for some.
    ///
    /// # Errors
    /// It restores none.
    fn fill_spec(&self) -> Result<FillSpec, NoFilling> {
        let predicts = self.predicts().is_some();
        self.fills().ok_or(NoFilling { model: self.name(), predicts })
    }

    /// The properties that its arrays do not show, for writing the model for Hugging Face's transformers.
    ///
    /// # Errors
    /// Transformers have no such model: what it has, and the remedy.
    fn hugging_face(&self) -> Result<HuggingFaceOptions, String> {
        Err(format!("transformers has no {}: convert --to t5x", self.name()))
    }

    /// The name under which messages mention the model.
    fn name(&self) -> &'static str {
        let name = self.own_schema().name;
        name.rfind(".models.").map_or(name, |start| &name[start + 1..])
    }

    /// Finds values with which the network cannot be made.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    fn check(&self) -> Result<(), String> {
        self.module().check()?;
        self.check_own()?;
        if let Some(predictions) = self.predicts() {
            predictions.check().map_err(|error| error.to_string())?;
        }
        self.transformer().check(self.dimensions())
    }

    /// Finds values of the model's own parameters with which the network cannot be made.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    fn check_own(&self) -> Result<(), String> {
        Ok(())
    }

    /// Finds values of the loss or the optimizer with which no training can succeed.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    fn check_training(&self) -> Result<(), String> {
        self.loss_spec().check(self.name())?;
        let tree = self.param_tree();
        let names = tree.iter().map(|param| &param.name[..]);
        let optimizer = self.optimizer_def();
        let checked = optimizer.check().and_then(|()| optimizer.check_updates(names));
        checked.map_err(|error| error.to_string())
    }

    /// Description of the network.
    fn transformer(&self) -> TransformerSpec {
        let spec = self.module().transformer().with_lora(self.lora());
        match self.learned_rows(spec.last.dims.stream()) {
            Some(rows) => TransformerSpec { learned_rows: Some(rows), ..spec },
            None => spec,
        }
    }

    /// The learned rows that it puts among the tokens of the network's encoder, if it has some.
    fn learned_rows(&self, _: StreamDims) -> Option<LearnedRows> {
        None
    }

    /// The additions of low rank to its kernels, if it has some.
    fn lora(&self) -> Option<&LoRA> {
        None
    }

    /// The parameters that set the network's dimensions, for messages.
    fn dimensions(&self) -> DimensionNames {
        self.module().dimensions()
    }

    /// Every parameter, sorted by name.
    fn param_tree(&self) -> Vec<ParamSpec> {
        self.transformer().param_tree()
    }

    /// Number of parameters.
    fn num_params(&self) -> u64 {
        self.param_tree().iter().map(ParamSpec::num_elements).sum()
    }

    /// Type of activations.
    fn dtype(&self) -> Dtype {
        self.transformer().last.dims.dtype
    }

    /// Number of token ids in the embedding.
    fn num_ids(&self) -> usize {
        self.transformer().tokens.vocab_size
    }

    /// The token ids that it knows.
    fn known_ids(&self) -> KnownIds {
        let rows = self.transformer().learned_rows;
        let first_of_inputs = rows.and_then(|rows| rows.task_tokens());
        KnownIds { count: self.num_ids(), first_of_inputs }
    }

    /// The term of its loss that keeps a parameter near given rows, if there is one.
    fn anchor(&self) -> Option<Anchor> {
        None
    }

    /// The id that a decoder reads before a sequence.
    fn bos_id(&self) -> i32 {
        self.predicts().map_or(0, |predictions| predictions.bos_id)
    }

    /// Estimates the memory of a training step on a device that holds some parts of the model.
    fn estimate(
        &self,
        held: Held,
        gradients: Gradients,
        shape: &StepShape,
        device: LocalDevice,
    ) -> Estimate {
        self.transformer().step_estimate(held, gradients, shape, device)
    }

    /// Operations of a training step over rows of that shape, padding included.
    fn train_step_flops(&self, shape: &StepShape) -> f64 {
        self.transformer().train_step_flops(shape, &*self.optimizer_def().choice())
    }
}
