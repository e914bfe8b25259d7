//! The root of a precompilation: T5X's `precompile` with all its parameters.

use crate::data::DatasetConfig;
use crate::gin::Configurable;
use crate::models::Model;
use crate::partition::Partitioner;

/// Checks shapes and memory of a training step, without data. Source: T5X `precompile.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.precompile.precompile",
    ignored(
        model_dir = "nothing is compiled, so there is nothing to write",
        random_seed = "nothing is drawn",
        get_dataset_fn = "no example is read",
        verify_matching_vocabs_fn = "vocabularies of task and model are always compared"
    )
)]
pub struct Precompile {
    /// The model: module, vocabularies and optimizer.
    pub model: Model,
    /// The batches of the training; no example is read.
    pub train_dataset_cfg: DatasetConfig,
    /// Partitioning of the model over devices.
    pub partitioner: Partitioner,
}
