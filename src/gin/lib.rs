//! L0: the gin language, from text to specs.
//!
//! Text is cut into statements and parsed ([`ast`]), names are resolved against the [`Registry`]
//! into a [`Config`], and an [`Evaluator`] turns bindings into specs: plain structs that derive
//! [`Configurable`]. Nothing here touches tensors, devices, files or the network.

pub mod ast;
pub mod value;

mod check;
mod config;
mod configurable;
mod derived;
mod diagnostic;
mod dict;
mod dumps;
mod evaluate;
mod expression;
mod find;
mod format;
mod from_gin;
mod imports;
mod includes;
mod json;
mod key;
mod literal;
mod load;
mod loader;
mod mistakes;
mod module_name;
mod modules;
mod open;
mod parse;
mod pprint;
mod print;
mod query;
mod reach;
mod reference;
mod render;
mod repr;
mod resolve;
mod rows;
mod scan;
mod schema;
mod schema_file;
mod selectors;
mod slots;
mod source;
mod spellings;
mod suggest;
mod syntax;
mod tree;
mod untyped;
mod unused;

pub use config::{Bound, Config, Overridden};
pub use configurable::{Configurable, FromGin, Function, Slot, expected_slot};
pub use diagnostic::{BindingKey, Diagnostic, Diagnostics, Missing, Reported, Severity};
pub use dumps::Json;
pub use evaluate::Evaluator;
pub use expression::{Expression, Operator};
pub use find::{Finder, Found, LIBRARY, TASK_LIBRARY};
pub use format::{Unformatted, format};
pub use from_gin::{Nested, choose, one_of};
pub use gimlet_macros::Configurable;
pub use json::{from_json, to_json};
pub use load::{Loaded, Mention, Named, Request, Running, SkipUnknown, load, load_anyway};
pub use module_name::ModuleName;
pub use modules::{Absent, Modules};
pub use open::{Admits, Admitted, AnySpec, Fills, Open, OpenSlot, admit};
pub use parse::{lines, parse, parse_value};
pub use pprint::pformat;
pub use print::{config_str, operative_config_str};
pub use query::{Failed, bound, configurable, query};
pub use reach::{Reached, reach, reach_all};
pub use reference::reference;
pub use repr::{repr_bytes, repr_float, repr_str};
pub use rows::{Fields, Rows};
pub use scan::Line;
pub use schema::{Call, CallSite, Fallback, Param, REQUIRED, Registry, Schema};
pub use schema_file::{registry_of, registry_to_json};
pub use selectors::{Selector, selectors};
pub use slots::{Ref, Suppliable};
pub use source::{FileId, Source, SourceFile, SourceMap, Span};
pub use suggest::{did_you_mean, nearest};
pub use tree::tree;
pub use untyped::untyped;
pub use value::{MacroUse, Reference, Value, ValueKind};
