//! The environment of a run, beside its spec.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::data::TaskProvider;
use crate::nn::Axes;
use crate::partition::{Mesh, Processes};
use crate::storage::Path;
use crate::telemetry::{self, Verbosity};

use super::made_with::Values;
use super::start_record::StartRecord;

/// The environment of a run, beside its spec.
pub struct Context<'a> {
    /// Finds tasks by name.
    pub tasks: &'a dyn TaskProvider,
    /// `config.gin` of the run.
    pub config_text: &'a str,
    /// The values that the root gets, by their paths.
    pub values: Values,
    /// Returns the differences between an earlier run's `config.gin` and this run's, a line each.
    pub changes: &'a dyn Fn(&Path) -> Vec<String>,
    /// The bindings of the configuration by name, for loggers.
    pub params: BTreeMap<String, String>,
    /// The facts of this start, for `starts.jsonl`.
    pub start: StartRecord,
    /// The division of the model over processes, and the device of this one.
    pub mesh: Mesh,
    /// The processes along the axes of the mesh.
    pub axes: Axes,
    /// The processes of the run.
    pub processes: Arc<Processes>,
    /// The amount of output of every process, once it has a place for it.
    pub verbosity: Verbosity,
    /// A flag that requests a checkpoint and the end of the run.
    pub stop: &'a AtomicBool,
}

/// Reports that a mesh larger than the available devices runs on those.
pub fn say_partitions(mesh: &Mesh) {
    let (asked, count) = (mesh.asked(), mesh.process().count);
    if asked > mesh.model().size {
        let holds = match count {
            1 => "there is 1 process".to_string(),
            _ => format!("each of {count} processes holds the whole model"),
        };
        telemetry::notice_once(&format!(
            "num_partitions = {asked}, and {holds}: the model is not partitioned"
        ));
    }
}
