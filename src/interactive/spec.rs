//! The root of commands that answer: T5X's `InteractiveModel`.

use crate::checkpoint::{RestoreCheckpointConfig, RestoreDtype, RestoreMode};
use crate::data::Lengths;
use crate::gin::Configurable;
use crate::models::Model;
use crate::partition::{LocalDevice, Mesh, Partitioner, PjitPartitioner, Process};
use crate::session::check::{UnfitSpec, check_partitions, check_path, unfit};

/// The greatest number of tokens of inputs if no length is bound.
const DEFAULT_INPUTS: usize = 512;

/// The greatest number of tokens of an answer if no length is bound.
const DEFAULT_TARGETS: usize = 128;

/// A model that answers texts. `gimlet generate`, `score`, `fill` and `serve` run it. Source: T5X `interactive_model.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.interactive_model.InteractiveModel",
    ignored(
        output_dir = "answers go to standard output, and nothing is trained",
        input_shapes = "parameters are read from the checkpoint into the model's tree",
        input_types = "parameters are read from the checkpoint into the model's tree",
        eval_names = "`gimlet eval` measures checkpoints"
    )
)]
pub struct InteractiveModel {
    /// The model: module, vocabularies and decoding. Its optimizer has no effect.
    pub model: Model,
    /// The checkpoint, in any format; only its parameters are read.
    pub checkpoint_path: String,
    /// 'specific' reads `checkpoint_path` itself, 'latest' the newest checkpoint in it.
    #[gin(default = RestoreMode::Specific)]
    pub restore_mode: RestoreMode,
    /// Greatest numbers of tokens of 'inputs', which are cut there, and of 'targets', which are the answers. None
    /// means 512 and 128.
    #[gin(default = None)]
    pub task_feature_lengths: Option<Lengths>,
    /// Greatest number of texts that are decoded at once.
    #[gin(default = 32)]
    pub batch_size: usize,
    /// Partitioning of the model over devices.
    #[gin(default = Partitioner::Pjit(PjitPartitioner::default()))]
    pub partitioner: Partitioner,
    /// Type to which parameters are rounded; None keeps the checkpoint's.
    #[gin(default = None)]
    pub dtype: Option<RestoreDtype>,
    /// Seed of samples.
    #[gin(default = 42)]
    pub init_random_seed: i64,
    /// Whether the end token follows inputs and targets. None means yes, except after the inputs of a decoder alone,
    /// which continues them.
    #[gin(default = None)]
    pub add_eos: Option<bool>,
}

impl InteractiveModel {
    /// Finds the first mistake that is visible in the spec alone.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self) -> Result<(), UnfitSpec> {
        self.model.check().map_err(UnfitSpec)?;
        if self.checkpoint_path.is_empty() {
            return unfit(
                "no checkpoint is named, expected one: give --checkpoint=PATH".to_string(),
            );
        }
        check_path("--checkpoint (InteractiveModel.checkpoint_path)", &self.checkpoint_path)?;
        if self.restore_mode == RestoreMode::All {
            return unfit(
                "InteractiveModel.restore_mode is 'all', expected one checkpoint: 'specific' or 'latest'"
                    .to_string(),
            );
        }
        if self.batch_size == 0 {
            return unfit("InteractiveModel.batch_size is 0, expected at least 1".to_string());
        }
        if let Some((name, _)) = self.task_feature_lengths.iter().flatten().find(|(_, n)| **n == 0)
        {
            return unfit(format!(
                "InteractiveModel.task_feature_lengths['{name}'] is 0, expected at least 1"
            ));
        }
        check_partitions(&self.partitioner)
    }

    /// Returns the options of reading the parameters.
    pub fn restore_config(&self) -> RestoreCheckpointConfig {
        RestoreCheckpointConfig {
            dtype: self.dtype,
            ..RestoreCheckpointConfig::new(&[&self.checkpoint_path], RestoreMode::Specific)
        }
    }

    /// Returns the mesh of the one process that answers.
    pub fn mesh(&self, process: Process, device: LocalDevice) -> Mesh {
        Mesh::of_replicas(&self.partitioner, process, device)
    }

    /// Greatest number of tokens of inputs.
    pub fn inputs_length(&self) -> usize {
        self.length("inputs").unwrap_or(DEFAULT_INPUTS)
    }

    /// Greatest number of tokens of an answer, if a request says nothing else.
    pub fn targets_length(&self) -> usize {
        self.length("targets").unwrap_or(DEFAULT_TARGETS)
    }

    fn length(&self, feature: &str) -> Option<usize> {
        self.task_feature_lengths.as_ref()?.get(feature).copied()
    }
}
