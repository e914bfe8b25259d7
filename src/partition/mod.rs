//! L3: how a model lies over devices: T5X's partitioner and logical axis rules.
//!
//! One process drives one device; a mesh larger than what there is falls back to what there is.

mod rules;
mod spec;

pub use rules::{Rules, mesh_axes};
pub use spec::{LogicalAxisRules, Partitioner, PjitPartitioner, StandardLogicalAxisRules};
