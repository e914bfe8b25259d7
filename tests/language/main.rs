//! The gin language against gin-config itself: what parses, what it means, how it prints, and what
//! a user is told when it does not. `reference.py` makes the reference data.

mod accept;
mod checks;
mod config_str;
mod derived;
mod editors;
mod errors;
mod format;
mod golden;
mod growth;
mod guide;
mod hostile;
mod limits;
mod lsp;
mod modules;
mod names;
mod play;
mod records;
mod schemas;
mod short_names;
mod values;
