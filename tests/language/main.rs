//! Compares the gin language with gin-config itself: the texts that parse, their meaning, their
//! printed form, and the errors for other texts. `reference.py` makes the reference data.

mod accept;
mod block_layouts;
mod calls;
mod checks;
mod config_str;
mod derived;
mod editors;
mod errors;
mod flaxformer;
mod format;
mod golden;
mod growth;
mod guide;
mod hostile;
mod limits;
mod lsp;
mod mesh_tf;
mod modules;
mod names;
mod older;
mod open_slot;
mod play;
mod records;
mod rosetta;
mod schemas;
mod short_names;
mod t5_experiments;
mod values;
