//! SeqIO's sources of files that a function reads, for the supported functions.

use std::collections::BTreeMap;

use super::file::Format;
use super::parse::RecordParser;
use super::patterns::{FilePattern, pattern_source};
use super::split::FileReading;
use super::tf_source::{FeatureDescription, parser_of};
use crate::error::DataError;
use gimlet_gin::{Configurable, Ref};

/// Files that a TensorFlow function reads. Source: SeqIO `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.FileDataSource",
    alias = "seqio.dataset_providers.FileDataSource",
    ignored(
        caching_permitted = "caching is asked for by `CacheDatasetPlaceholder`",
        file_shuffle_buffer_size = "all files are shuffled at once",
        performs_internal_shuffling = "examples are shuffled by the task"
    )
)]
pub struct FileDataSource {
    /// The function that reads a file: `@tf.data.TextLineDataset`, whose lines become `{'text':
    /// line}`.
    pub read_file_fn: Ref<ReadFileFn>,
    /// Split to a glob or a list of globs, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// Options of reading its files.
    #[gin(flatten)]
    pub reading: FileReading,
}

/// A function that reads a file.
trait ReadFile {
    fn format(&self) -> Result<Format, DataError>;
}

gimlet_gin::slot! {
    /// Any function that `FileDataSource.read_file_fn` can name, as a bare reference.
    pub enum ReadFileFn: ReadFile {
        TextLineDataset,
        TfRecordDataset,
    }
}

/// The lines of a file. Source: TensorFlow `data/ops/readers.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "tf.data.TextLineDataset",
    ignored(
        compression_type = "files say how they are compressed",
        buffer_size = "files are read ahead as fits them",
        num_parallel_reads = "`cycle_length` says how many"
    )
)]
pub struct TextLineDataset;

/// The records of a TFRecord file, which only a decoding function converts to examples. Source:
/// TensorFlow `data/ops/readers.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "tf.data.TFRecordDataset",
    ignored(
        compression_type = "files say how they are compressed",
        buffer_size = "files are read ahead as fits them",
        num_parallel_reads = "`cycle_length` says how many"
    )
)]
pub struct TfRecordDataset;

impl ReadFile for TextLineDataset {
    fn format(&self) -> Result<Format, DataError> {
        Ok(Format::Text)
    }
}

impl ReadFile for TfRecordDataset {
    fn format(&self) -> Result<Format, DataError> {
        Err(DataError::Config(
            "`FileDataSource.read_file_fn = @tf.data.TFRecordDataset` gives serialized protos, of which \
             no examples can be made: name `seqio.ProtoDataSource` with its `decode_proto_fn`, or \
             `seqio.TFExampleDataSource`"
                .to_string(),
        ))
    }
}

impl FileDataSource {
    fn format(&self) -> Result<Format, DataError> {
        self.read_file_fn.0.spec().format()
    }

    fn header_lines(&self) -> u64 {
        0
    }

    fn parser(&self) -> Result<RecordParser, DataError> {
        Ok(RecordParser::of_columns(None))
    }
}

pattern_source!(FileDataSource);

/// Protos in TFRecord files, which a function decodes. Source: SeqIO `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.ProtoDataSource",
    alias = "seqio.dataset_providers.ProtoDataSource",
    ignored(
        reader_cls = "files are TFRecords, however they are compressed",
        caching_permitted = "caching is asked for by `CacheDatasetPlaceholder`",
        file_shuffle_buffer_size = "all files are shuffled at once"
    )
)]
pub struct ProtoDataSource {
    /// Split to a glob or a list of globs, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// The function that converts a proto to an example: `@tf.io.parse_single_example`.
    pub decode_proto_fn: Ref<ParseSingleExample>,
    /// Options of reading its files.
    #[gin(flatten)]
    pub reading: FileReading,
}

/// Decodes a `tf.Example`. Source: TensorFlow `python/ops/parsing_ops.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "tf.io.parse_single_example", ignored(example_names = "errors name the record"))]
pub struct ParseSingleExample {
    /// Feature to its description, in the format of
    /// `seqio.TFExampleDataSource.feature_description`.
    pub features: BTreeMap<String, FeatureDescription>,
}

impl ProtoDataSource {
    fn format(&self) -> Result<Format, DataError> {
        Ok(Format::TfRecord)
    }

    fn header_lines(&self) -> u64 {
        0
    }

    fn parser(&self) -> Result<RecordParser, DataError> {
        parser_of(&self.decode_proto_fn.0.features)
    }
}

pattern_source!(ProtoDataSource);
