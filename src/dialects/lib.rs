//! Configurations that are written for other projects than T5X, and their translation.
//!
//! A dialect is a folder: the other project's configurables as specs, the files and names that its
//! programs know, and a translation of its evaluated root into statements for Gimlet's own
//! configurables. A project without gin files has command lines instead, whose flags are translated.
//! Everything after these statements is the same for every dialect.

pub mod mesh_tf;
pub mod t5_experiments;

mod dialect;
mod statement;

pub use dialect::Dialect;
pub use statement::Statement;

/// Every dialect of gin files.
pub const DIALECTS: &[&dyn Dialect] = &[&mesh_tf::MeshTf];
