//! Where raw examples come from: text lines, JSON lines, folders laid out like the hub's.
//!
//! A source lists its files; reading them, interleaved, sharded and epoch after epoch, is the same
//! for all ([`Reader`]). Lines become examples ([`LineParser`]) later, on many threads.

mod files;
mod interleave;
mod lines;
mod parse;
mod spec;

pub use spec::{
    DataSource, FilePattern, HuggingFaceDataSource, JsonLinesDataSource, TextLineDataSource,
};

pub(crate) use files::{SourceFile, files_of};
pub(crate) use interleave::{ReadPlan, Reader, Record};
pub(crate) use parse::LineParser;
