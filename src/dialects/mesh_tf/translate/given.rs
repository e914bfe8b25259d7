//! The facts that a translation takes from flags and from the task.

use crate::mesh_tf::read::Sentinels;

/// The facts that a translation needs beside the configuration.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The folder of the run.
    pub model_dir: String,
    /// Whether the command line has `--tpu`, without which activations are float32.
    pub tpu: bool,
    /// The number of processes that share the work.
    pub num_processes: u64,
    /// The vocabularies of the task.
    pub vocabularies: Vocabularies,
    /// The number of sentinels that the files bind.
    pub sentinels: Option<Sentinels>,
}

/// The vocabularies of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabularies {
    /// The vocabulary of the inputs; for tasks without inputs, that of the targets.
    pub inputs: Vocabulary,
    /// The vocabulary of the targets.
    pub targets: Vocabulary,
}

/// A vocabulary as gin text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// Full name of the configurable.
    pub configurable: String,
    /// Its bound parameters, with the values as gin writes them.
    pub parameters: Vec<(String, String)>,
    /// Number of ids.
    pub size: u64,
    /// Number of sentinels that it adds to its pieces.
    pub extra_ids: u64,
}
