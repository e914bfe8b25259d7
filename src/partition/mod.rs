//! L3: the processes of a run and the partitioning of a model over them: T5X's partitioner and logical
//! axis rules, and PyTorch's c10d.
//!
//! Each process drives one device. The [`Mesh`] decides which part of each array lies on a process.

mod error;
mod listed;
mod mesh;
mod misfit;
mod rules;
mod spec;

#[cfg(feature = "torch")]
mod device;
#[cfg(feature = "torch")]
mod joining;
#[cfg(feature = "torch")]
mod processes;

pub use error::ProcessError;
pub use listed::ListedRules;
pub use mesh::{LocalDevice, Mesh, MeshAxis, Process};
pub use misfit::Misfit;
pub use rules::{Rules, mesh_axes};
pub use spec::{
    ComputeNumModelPartitions, LogicalAxisRules, MoePjitPartitioner, MultiTaskAxisRules,
    Partitioner, PjitPartitioner, PromptAxisRules, StandardLogicalAxisRules, StandardMoeAxisRules,
};

#[cfg(feature = "torch")]
pub use joining::Endpoint;
#[cfg(feature = "torch")]
pub use processes::Processes;
