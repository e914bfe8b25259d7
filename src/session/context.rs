//! The environment of a run, beside its spec.

use std::sync::atomic::AtomicBool;

use tch::Device;

use crate::data::TaskProvider;
use crate::partition::Partitioner;
use crate::telemetry;

/// The environment of a run, beside its spec.
pub struct Context<'a> {
    /// Finds tasks by name.
    pub tasks: &'a dyn TaskProvider,
    /// `config.gin` of the run.
    pub config_text: &'a str,
    /// The device of the model.
    pub device: Device,
    /// A flag that requests a checkpoint and the end of the run.
    pub stop: &'a AtomicBool,
}

/// Reports that a mesh larger than the available devices runs on those.
pub fn say_partitions(partitioner: &Partitioner) {
    let Partitioner::Pjit(partitioner) = partitioner;
    let asked = partitioner.requested_partitions().unwrap_or(1);
    if asked > 1 {
        telemetry::notice_once(&format!(
            "num_partitions = {asked}, and there is 1 process: the model is not partitioned"
        ));
    }
}
