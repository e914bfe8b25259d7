//! L3: the partitioning of a model over devices: T5X's partitioner and logical axis rules.
//!
//! One process drives one device; a mesh larger than the available devices runs on those.

mod rules;
mod spec;

pub use rules::{Rules, mesh_axes};
pub use spec::{LogicalAxisRules, Partitioner, PjitPartitioner, StandardLogicalAxisRules};
