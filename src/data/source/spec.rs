//! The enum of all sources.

use super::arrow_source::{ArrowDataSource, ParquetDataSource};
use super::bert_dataset::BertDataset;
use super::blended_dataset::{BlendableDataset, MixtureDataset};
use super::concatenated::ConcatenatedDataSource;
use super::contract::Source;
use super::csv_source::CsvDataSource;
use super::few_shot::FewshotDataSource;
use super::file_source::{FileDataSource, ProtoDataSource};
use super::function::FunctionDataSource;
use super::generator::GeneratedDataSource;
use super::hugging_face::HuggingFaceDataSource;
use super::megatron::MegatronDataSource;
use super::split::SplitFiles;
use super::text_sources::{JsonLinesDataSource, TextLineDataSource};
use super::tf_source::TfExampleDataSource;
use super::tfds::TfdsDataSource;
use super::truncated::TruncatedDatasetProvider;
use crate::error::DataError;

gimlet_gin::slot! {
    /// Any source of a task.
    pub enum DataSource: Source {
        ArrowDataSource,
        BertDataset,
        BlendableDataset,
        ConcatenatedDataSource,
        CsvDataSource,
        FewshotDataSource,
        FileDataSource,
        FunctionDataSource,
        GeneratedDataSource,
        HuggingFaceDataSource,
        JsonLinesDataSource,
        MegatronDataSource,
        MixtureDataset,
        ParquetDataSource,
        ProtoDataSource,
        TextLineDataSource,
        TfExampleDataSource,
        TfdsDataSource,
        TruncatedDatasetProvider,
    }
}

impl DataSource {
    /// The splits, by their names in the task.
    pub(crate) fn splits(&self, task: &str) -> Result<Vec<String>, DataError> {
        self.spec().splits(task)
    }

    /// The names of the splits, if gin files contain them.
    pub fn written_splits(&self) -> Option<Vec<String>> {
        self.spec().written_splits()
    }

    /// The files of a split, and how to read them.
    pub(crate) fn split(&self, task: &str, split: &str) -> Result<SplitFiles, DataError> {
        self.spec().split(task, split)
    }

    /// The source as a few-shot source, if it joins examples of two splits.
    pub(crate) fn few_shot(&self) -> Option<&FewshotDataSource> {
        match self {
            Self::FewshotDataSource(source) => Some(source),
            _ => None,
        }
    }

    /// Number of raw examples of a split, if the task or the data set's description contains it.
    pub fn num_input_examples(&self, split: &str) -> Option<u64> {
        self.spec().num_input_examples(split)
    }
}
