//! The interface of models: what checks, estimates and loops ask of a model, whatever its family.

use std::fmt::Debug;

use super::decoding::Prediction;
use super::loss::LossSpec;
use super::memory::{Estimate, Gradients, Held, StepShape};
use super::transformer::{DimensionNames, TransformerSpec};
use crate::data::{ConverterClass, DataError, Lengths};
use crate::nn::{Dtype, ParamSpec};
use crate::optim::OptimizerDef;
use crate::partition::LocalDevice;
use crate::vocab::VocabularySpec;

/// A model as gin binds it: network, vocabularies, optimizer, loss and decoding. Source: T5X
/// `models.py`, `BaseModel`.
pub trait BaseModel: Debug {
    /// Finds values with which the network cannot be made.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    fn check(&self) -> Result<(), String>;

    /// Finds values of the loss or the optimizer with which no training can succeed.
    ///
    /// # Errors
    /// The first such value, with the expected ones.
    fn check_training(&self) -> Result<(), String>;

    /// The parameters that set the network's dimensions, for messages.
    fn dimensions(&self) -> DimensionNames;

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
        self.transformer().decoder.dims.dtype
    }

    /// Number of token ids in the embedding.
    fn num_ids(&self) -> usize {
        self.transformer().vocab_size
    }

    /// Vocabularies by feature of a task.
    fn vocabularies(&self) -> Vec<(&'static str, &VocabularySpec)>;

    /// Vocabulary of predictions.
    fn output_vocabulary(&self) -> &VocabularySpec;

    /// Converter of a task's features into the model's inputs.
    fn feature_converter(&self) -> ConverterClass;

    /// The id that the decoder reads before a sequence.
    fn bos_id(&self) -> i32 {
        0
    }

    /// Converter for predictions, whose rows hold one example each.
    fn prediction_converter(&self) -> ConverterClass;

    /// Shape of a batch with so many rows.
    ///
    /// # Errors
    /// A length of a task's feature that the model reads is not bound, or is 0.
    fn step_shape(&self, rows: usize, lengths: &Lengths) -> Result<StepShape, DataError>;

    /// Optimizer.
    fn optimizer_def(&self) -> &OptimizerDef;

    /// Parameters of the loss.
    fn loss_spec(&self) -> LossSpec;

    /// Options for decoding sequences that end in `eos_id`, the output vocabulary's end token, unless the model has its
    /// own.
    fn prediction(&self, eos_id: i64) -> Prediction;

    /// Whether predictions are all sequences of an input instead of the best.
    fn returns_all_decodes(&self) -> bool;

    /// Whether scores come with those of each target.
    fn returns_intermediates(&self) -> bool;

    /// Description of the network.
    fn transformer(&self) -> TransformerSpec;

    /// Estimates the memory of a training step on a device that holds some parts of the model.
    fn estimate(
        &self,
        held: Held,
        gradients: Gradients,
        shape: StepShape,
        device: LocalDevice,
    ) -> Estimate {
        self.transformer().step_estimate(held, gradients, shape, device)
    }

    /// Operations of a training step over rows of that shape, padding included.
    fn train_step_flops(&self, shape: StepShape) -> f64 {
        self.transformer().train_step_flops(shape)
    }
}
