//! L5: `gimlet export`: T5X's `export_lib.save`, whose bindings here make a folder that transformers load.

mod check;
mod functions;
mod run;
mod spec;
mod vocabulary;

pub use check::{check, checkpoint, preflight};
pub use run::export;
pub use spec::Save;
pub use vocabulary::state_vocabulary;
