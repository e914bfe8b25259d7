//! Sources of raw examples, and readers of their files.
//!
//! A source ([`DataSource`]) lists the files of a split with their format; reading them,
//! interleaved, sharded and for several epochs, is the same for all ([`Reader`]). Each format has a
//! [`read::RecordReader`], which cuts a file into records and knows its position. Records become
//! examples ([`RecordParser`]) later, on many threads.

mod arrow_source;
mod bad;
mod bert_dataset;
mod blended_dataset;
mod column_type;
mod concatenated;
mod contract;
mod counts;
mod csv_source;
mod deal;
mod few_shot;
mod file;
mod file_part;
mod file_source;
mod function;
mod generated;
mod generator;
mod hub_files;
mod hub_listing;
mod hugging_face;
mod interleave;
mod length;
mod megatron;
mod parse;
mod patterns;
mod read;
mod reader;
mod reader_position;
mod readme;
mod row_options;
mod saved;
mod slices;
mod spec;
mod split;
mod text_sources;
mod tf_encode;
mod tf_example;
mod tf_source;
mod tf_values;
mod tfds;
mod truncated;
mod wire;

pub use arrow_source::{ArrowDataSource, ParquetDataSource};
pub use bad::{BadPlaces, BadRecordPolicy, BadRecords, OnBadRecord};
pub use bert_dataset::BertDataset;
pub use blended_dataset::{BlendableDataset, MixtureDataset};
pub use column_type::ColumnType;
pub use concatenated::ConcatenatedDataSource;
pub use csv_source::CsvDataSource;
pub use few_shot::{FewshotDataSource, OriginalSource};
pub use file_source::{
    FileDataSource, ParseSingleExample, ProtoDataSource, ReadFileFn, TextLineDataset,
    TfRecordDataset,
};
pub use function::FunctionDataSource;
pub use generator::{GeneratedDataSource, GeneratedKind, LengthDistribution};
pub use hugging_face::HuggingFaceDataSource;
pub use megatron::MegatronDataSource;
pub use patterns::FilePattern;
pub use read::FrameStart;
pub use spec::DataSource;
pub use text_sources::{JsonLinesDataSource, TextLineDataSource};
pub use tf_source::{
    FeatureDescription, FeatureSpec, FixedLenFeature, FixedLenSequenceFeature, ShortLength,
    TfDtype, TfExampleDataSource, VarLenFeature,
};
pub use tfds::{TfdsDataSource, TfdsSplits, set_tfds_data_dir};
pub use truncated::TruncatedDatasetProvider;

pub(crate) use bad::BadRecordGuard;
pub(crate) use contract::unknown_split;
pub(crate) use deal::Deal;
pub(crate) use file::{Format, SourceFile};
pub(crate) use file_part::FilePart;
pub(crate) use interleave::ReadPlan;
pub(crate) use length::Length;
pub(crate) use parse::RecordParser;
pub(crate) use read::{Body, Record, RecordPosition, frame, open_records};
pub(crate) use reader::{Reader, SharedReads};
pub use split::FileReading;
pub(crate) use split::SplitFiles;
pub(crate) use tf_encode::{encode, ragged_lengths};
pub(crate) use tf_example::{Partition, TfFeature, TfKind, TfShape};
