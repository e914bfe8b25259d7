//! Where raw examples come from: text lines, JSON lines, folders laid out like the hub's.
//!
//! A source lists its files; reading them, interleaved, sharded and epoch after epoch, is the same
//! for all ([`Reader`]). Records become examples ([`RecordParser`]) later, on many threads.

mod files;
mod interleave;
mod lines;
mod parse;
mod records;
mod spec;
mod split;
mod tf_example;
mod tf_record;

pub use spec::{
    DataSource, FilePattern, HuggingFaceDataSource, JsonLinesDataSource, TextLineDataSource,
};

pub(crate) use files::{Format, SourceFile, files_of, splits_of, unknown_split};
pub(crate) use interleave::{ReadPlan, Reader, Record};
pub(crate) use parse::RecordParser;
pub(crate) use split::SplitFiles;
pub(crate) use tf_example::{TfFeature, TfKind, encode};
pub(crate) use tf_record::frame;
