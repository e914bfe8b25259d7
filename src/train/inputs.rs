//! The inputs of a run's model: options of its data, and shapes of its batches, from the spec
//! alone.

use crate::data::{DataError, DatasetConfig, DatasetOptions, FeatureConverter, Lengths, Packing};
use crate::models::Model;
use crate::models::memory::StepShape;
use crate::session::check::UnfitSpec;
use crate::session::seeds::{Purpose, derive};

use super::spec::Train;

/// Returns the options with which a run with this seed reads its training data, from their
/// beginning.
pub fn training_options(spec: &Train, seed: u64) -> DatasetOptions {
    DatasetOptions {
        converter: spec.model.feature_converter(),
        bos_id: spec.model.bos_id(),
        // Without a seed of its own, the data uses the run's.
        seed: Some(derive(seed, Purpose::Data, &[])),
        known_ids: Some(spec.model.known_ids()),
        ..DatasetOptions::default()
    }
}

/// Returns the shape of a training batch.
///
/// # Errors
/// A length is not bound, or is 0, or is that of a feature that the model does not take.
pub fn training_shape(spec: &Train) -> Result<StepShape, UnfitSpec> {
    // The converter knows the names of features. It reports a misspelled one before the one that is then missing.
    if let Some(lengths) = &spec.train_dataset_cfg.task_feature_lengths {
        let class = spec.model.feature_converter();
        FeatureConverter::new(&class, lengths, Packing::None, 0).map_err(unfit_lengths)?;
    }
    shape(&spec.model, &spec.train_dataset_cfg, &spec.train_dataset_cfg)
}

/// Returns the shape of a decoded batch: that of the evaluation by decoding, if there is one.
/// Lengths that it does not bind are those of training.
///
/// # Errors
/// A length is not bound, or is 0.
pub fn decoding_shape(spec: &Train) -> Result<StepShape, UnfitSpec> {
    let config = spec.infer_eval_dataset_cfg.as_ref().unwrap_or(&spec.train_dataset_cfg);
    shape(&spec.model, config, &spec.train_dataset_cfg)
}

fn shape(
    model: &Model,
    config: &DatasetConfig,
    otherwise: &DatasetConfig,
) -> Result<StepShape, UnfitSpec> {
    let none = Lengths::new();
    let bound = config.task_feature_lengths.as_ref().or(otherwise.task_feature_lengths.as_ref());
    model.step_shape(config.batch_size, bound.unwrap_or(&none)).map_err(unfit_lengths)
}

fn unfit_lengths(error: DataError) -> UnfitSpec {
    UnfitSpec(format!(
        "{error}: bind TASK_FEATURE_LENGTHS, such as {{'inputs': 512, 'targets': 114}}"
    ))
}
