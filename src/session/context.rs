//! The environment of a run, beside its spec.

use std::sync::atomic::AtomicBool;

use crate::data::TaskProvider;
use crate::partition::Mesh;
use crate::telemetry;

/// The environment of a run, beside its spec.
pub struct Context<'a> {
    /// Finds tasks by name.
    pub tasks: &'a dyn TaskProvider,
    /// `config.gin` of the run.
    pub config_text: &'a str,
    /// The processes of the run, and the device of this one.
    pub mesh: Mesh,
    /// A flag that requests a checkpoint and the end of the run.
    pub stop: &'a AtomicBool,
}

/// Reports that a mesh larger than the available devices runs on those.
pub fn say_partitions(mesh: &Mesh) {
    let (asked, count) = (mesh.asked(), mesh.process().count);
    if asked > mesh.model().size {
        telemetry::notice_once(&format!(
            "num_partitions = {asked}, and there is {count} process: the model is not partitioned"
        ));
    }
}
