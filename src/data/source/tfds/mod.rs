//! Data sets of TensorFlow Datasets on disk.
//!
//! `c4/en:2.2.0` is the folder `c4/en/2.2.0` of the TFDS data folder, or the folder in `--path_map
//! tfds://c4/en:2.2.0=DIR`: such a version folder, or one with the hub's files of the same data
//! set.

mod features;
mod folder;
mod info;
mod splits;

use gimlet_gin::Configurable;

use super::bad::BadRecordPolicy;
use super::contract::Source;
use super::hugging_face::HuggingFaceDataSource;
use super::parse::RecordParser;
use super::slices::slice_files;
use super::split::{FileReading, SplitFiles};
use crate::error::DataError;
use folder::{Found, TfdsName};
use info::Info;

pub use folder::set_tfds_data_dir;
pub use splits::TfdsSplits;

/// A data set of TensorFlow Datasets on disk, prepared by TFDS itself or by
/// `tfds.folder_dataset.write_metadata`. Source: SeqIO `dataset_providers.py`, TFDS `core`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.TfdsDataSource",
    alias = "seqio.dataset_providers.TfdsDataSource",
    ignored(
        caching_permitted = "caching is asked for by `CacheDatasetPlaceholder`",
        decoders = "features are decoded as the data set describes them",
        tfds_builder_kwargs = "nothing is built: the data set lies prepared on disk",
        read_only = "data sets are never written"
    )
)]
pub struct TfdsDataSource {
    /// `NAME:VERSION` or `NAME/CONFIG:VERSION`; `2.*.*` takes the highest version on disk.
    pub tfds_name: String,
    /// The splits: all splits of the data set if None, those listed, or the task's name of each
    /// split to its part of the data set, such as 'train[:90%]' or 'train+validation'.
    #[gin(default = None)]
    pub splits: Option<TfdsSplits>,
    /// The TFDS data folder; None takes `--tfds_data_dir`, else `TFDS_DATA_DIR`, else
    /// `tensorflow_datasets` in the home folder.
    #[gin(default = None)]
    pub tfds_data_dir: Option<String>,
    /// Handling of records that cannot be read.
    #[gin(flatten)]
    pub bad_records: BadRecordPolicy,
}

impl TfdsDataSource {
    fn find(&self) -> Result<Found, DataError> {
        TfdsName::parse(&self.tfds_name)?.find(self.tfds_data_dir.as_deref())
    }

    /// The source of the hub's files of the same data set.
    fn hub(&self, folder: String) -> HuggingFaceDataSource {
        HuggingFaceDataSource {
            split: self.splits.clone(),
            reading: FileReading { bad_records: self.bad_records, ..FileReading::default() },
            ..HuggingFaceDataSource::new(&folder)
        }
    }
}

impl Source for TfdsDataSource {
    fn splits(&self, task: &str) -> Result<Vec<String>, DataError> {
        if let Some(splits) = &self.splits {
            return Ok(splits.names());
        }
        match self.find()? {
            Found::Version(folder) => Ok(Info::read(&folder)?.names()),
            Found::Hub(folder) => self.hub(folder).splits(task),
        }
    }

    fn split(&self, task: &str, split: &str) -> Result<SplitFiles, DataError> {
        let wanted = TfdsSplits::of(self.splits.as_ref(), task, split)?;
        let folder = match self.find()? {
            Found::Version(folder) => folder,
            Found::Hub(folder) => return self.hub(folder).split(task, split),
        };
        let info = Info::read(&folder)?;
        let files = slice_files(task, wanted, &info)?;
        let features = features::read(&folder)?;
        Ok(SplitFiles {
            bad_records: self.bad_records,
            ..SplitFiles::new(files, RecordParser::of_tf_examples(features))
        })
    }

    fn num_input_examples(&self, split: &str) -> Option<u64> {
        let wanted = TfdsSplits::of(self.splits.as_ref(), "", split).ok()?;
        let folder = match self.find().ok()? {
            Found::Version(folder) => folder,
            Found::Hub(folder) => return self.hub(folder).num_input_examples(split),
        };
        let info = Info::read(&folder).ok()?;
        let files = slice_files("", wanted, &info).ok()?;
        let count = |file: &super::file::SourceFile| file.records.as_ref().map(|r| r.end - r.start);
        files.iter().map(count).sum()
    }
}
