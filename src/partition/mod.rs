//! L3: the partitioning of a model over devices: T5X's partitioner and logical axis rules.
//!
//! One process drives one device; a mesh larger than the available devices runs on those. The
//! [`Mesh`] decides which part of each array lies on a process.

mod mesh;
mod rules;
mod spec;

#[cfg(feature = "torch")]
mod device;

pub use mesh::{LocalDevice, Mesh, MeshAxis, Process, Shard};
pub use rules::{Rules, mesh_axes};
pub use spec::{LogicalAxisRules, Partitioner, PjitPartitioner, StandardLogicalAxisRules};
