//! Data sets in the formats of the Hugging Face hub and of `datasets`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::contract::{Source, given_count, unknown_split};
use super::counts::{Counted, count_by_reading};
use super::file::{Format, SourceFile};
use super::hub_files::{by_split_names, format_of, splits_in_names};
use super::parse::RecordParser;
use super::patterns::{FilePattern, Patterns};
use super::read::num_rows;
use super::readme::configs_of;
use super::row_options::RowOptions;
use super::saved::Saved;
use super::slices::{Beyond, SplitCounts, slice_files};
use super::split::{FileReading, SplitFiles};
use super::tfds::TfdsSplits;
use crate::error::{DataError, if_split};
use gimlet_gin::Configurable;
use gimlet_storage::Path;

/// A data set of the Hugging Face hub, or one that `datasets` saved (`save_to_disk`): Parquet,
/// Arrow, JSON, CSV or text files found as `load_dataset` finds them, by the README's `configs` or
/// by split names in folders and files (`data/train-00000-of-00002.parquet`, `valid.json`). It
/// replaces the `FunctionDataSource` over `load_dataset` of Python tasks. Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.HuggingFaceDataSource",
    ignored(
        streaming = "files are always streamed",
        trust_remote_code = "no code of a data set is ever run",
        token = "credentials come from the environment",
        use_auth_token = "credentials come from the environment"
    )
)]
pub struct HuggingFaceDataSource {
    /// Name on the hub (`dumitrescustefan/rlm`), read at `hf://datasets/NAME`; or any folder, with
    /// its scheme or beginning with `/` or `.`.
    pub path: String,
    /// The configuration (the hub's "subset"): one of the README's, otherwise the folder of that
    /// name.
    #[gin(default = None)]
    pub name: Option<String>,
    /// A folder within the data set (the hub's `data_dir`).
    #[gin(default = None)]
    pub data_dir: Option<String>,
    /// Split to globs below the folder, if file names do not contain the split.
    #[gin(default = None)]
    pub data_files: Option<BTreeMap<String, FilePattern>>,
    /// The task's splits: all if None, those listed, or each with its part of the data set, such as
    /// 'train+validation' or 'train[:90%]'; a bound beyond the end is the end. For a part, files
    /// other than Parquet are read once to count their examples.
    #[gin(default = None)]
    pub split: Option<TfdsSplits>,
    /// The commit, branch or tag on the hub.
    #[gin(default = None)]
    pub revision: Option<String>,
    /// The key whose value is the array of examples, in JSON files that are one object.
    #[gin(default = None)]
    pub field: Option<String>,
    /// Features to keep; all if None.
    #[gin(default = None)]
    pub columns: Option<Vec<String>>,
    /// Options of reading its files.
    #[gin(flatten)]
    pub reading: FileReading,
}

impl HuggingFaceDataSource {
    /// The whole data set.
    pub fn new(path: &str) -> Self {
        Self {
            path: path.to_string(),
            name: None,
            data_dir: None,
            data_files: None,
            split: None,
            revision: None,
            field: None,
            columns: None,
            reading: FileReading::default(),
        }
    }

    /// The root folder: `NAME` becomes `hf://datasets/NAME`; a path stays that folder.
    fn root(&self) -> Result<Path, DataError> {
        let is_path = self.path.contains("://") || self.path.starts_with(['/', '.']);
        let path = match &self.revision {
            Some(revision) if !is_path || self.path.starts_with("hf://datasets/") => {
                // In a path a branch like `refs/convert/parquet` is one component.
                let revision = revision.replace('/', "%2F");
                format!("{}@{revision}", self.path)
            }
            _ => self.path.clone(),
        };
        let path = if is_path { path } else { format!("hf://datasets/{path}") };
        let root = Path::parse(&path)?;
        Ok(self.data_dir.as_ref().map_or(root.clone(), |data_dir| root.join(data_dir)))
    }

    /// The layout of the data set: the source of its splits' file names.
    fn layout(&self) -> Result<SplitNames, DataError> {
        let root = self.root()?;
        if let Some(data_files) = &self.data_files {
            return Ok(SplitNames::Patterns { root, patterns: data_files.clone() });
        }
        if let Some(saved) = Saved::find(&root)? {
            return Ok(SplitNames::Saved(saved));
        }
        if self.data_dir.is_none()
            && let Some((folder, patterns)) = self.of_readme(&root)?
        {
            return Ok(match patterns {
                Some(patterns) => SplitNames::Patterns { root: folder, patterns },
                None => SplitNames::Names(folder),
            });
        }
        let Some(name) = &self.name else { return Ok(SplitNames::Names(root)) };
        let folder = root.join(name);
        match folder.is_dir()? {
            true => match Saved::find(&folder)? {
                Some(saved) => Ok(SplitNames::Saved(saved)),
                None => Ok(SplitNames::Names(folder)),
            },
            false if name == "default" => Ok(SplitNames::Names(root)),
            false => Err(DataError::Config(format!(
                "`{root}` has no configuration '{name}': its README.md lists none of that name, \
                 and there is no such folder; name its files with `data_files`"
            ))),
        }
    }

    /// The folder and files in the README's entry of the configuration.
    fn of_readme(&self, root: &Path) -> Result<Option<NamedFiles>, DataError> {
        let file = root.join("README.md");
        if !file.exists()? {
            return Ok(None);
        }
        let text = file.read_to_string()?;
        let configs = configs_of(&text).map_err(|reason| DataError::File {
            file: file.to_string(),
            reason: format!("its `configs`: {reason}"),
        })?;
        let wanted = match &self.name {
            Some(name) => configs.into_iter().find(|config| config.name == *name),
            None if configs.len() == 1 => configs.into_iter().next(),
            None if configs.is_empty() => None,
            None => {
                let names: Vec<String> =
                    configs.iter().map(|config| format!("'{}'", config.name)).collect();
                let default = configs.into_iter().find(|c| c.is_default || c.name == "default");
                let Some(default) = default else {
                    return Err(DataError::Config(format!(
                        "`{root}` has several configurations, and `name` does not select one: {}",
                        names.join(", ")
                    )));
                };
                Some(default)
            }
        };
        Ok(wanted.map(|config| {
            let folder = config.data_dir.map_or(root.clone(), |folder| root.join(&folder));
            let files = (!config.data_files.is_empty()).then_some(config.data_files);
            (folder, files)
        }))
    }

    /// The format of a file, by its name.
    fn format(&self, path: &Path, rows: &Arc<RowOptions>) -> Result<Format, DataError> {
        let format = format_of(path.file_name(), self.field.as_deref(), rows);
        format.ok_or_else(|| DataError::UnknownFormat { file: path.to_string() })
    }
}

/// Maximum number of files that are opened to count their examples.
const MOST_FILES_ASKED: usize = 100;

/// A folder, and the files of splits below it if they are listed.
type NamedFiles = (Path, Option<BTreeMap<String, FilePattern>>);

/// The source of the file names of a data set's splits.
enum SplitNames {
    /// Globs by split.
    Patterns { root: Path, patterns: BTreeMap<String, FilePattern> },
    /// A folder written by `save_to_disk`.
    Saved(Saved),
    /// The names of files and folders below a folder.
    Names(Path),
}

/// The splits of a data set of the hub.
struct HubSplits<'a> {
    spec: &'a HuggingFaceDataSource,
    task: &'a str,
    layout: SplitNames,
    rows: Arc<RowOptions>,
}

impl SplitCounts for HubSplits<'_> {
    fn names(&self) -> Result<Vec<String>, DataError> {
        match &self.layout {
            SplitNames::Patterns { patterns, .. } => Ok(patterns.keys().cloned().collect()),
            SplitNames::Saved(saved) => Ok(saved.splits()),
            SplitNames::Names(root) => splits_in_names(root, self.task),
        }
    }

    fn files(&self, split: &str) -> Result<Option<Vec<SourceFile>>, DataError> {
        let found = match &self.layout {
            SplitNames::Patterns { root, patterns } => {
                let patterns = Patterns { split_to_filepattern: patterns, root: Some(root) };
                patterns.paths(self.task, split)
            }
            SplitNames::Saved(saved) => saved.files(self.task, split),
            SplitNames::Names(root) => by_split_names(root, self.task, split),
        };
        let Some(paths) = if_split(found)? else { return Ok(None) };
        let file =
            |path: Path| Ok(SourceFile::new(path.clone(), self.spec.format(&path, &self.rows)?));
        paths.into_iter().map(file).collect::<Result<_, _>>().map(Some)
    }

    fn beyond(&self) -> Beyond {
        Beyond::Clipped
    }

    /// Counts the examples of files; only Parquet files are not read for that.
    fn count(&self, files: &[SourceFile]) -> Result<Vec<Arc<Counted>>, DataError> {
        let rows = |file: &SourceFile| match file.format {
            Format::Parquet(_) => {
                Some(num_rows(&file.path).map(|rows| Arc::new(Counted::of_records(rows))))
            }
            _ => None,
        };
        let told: Option<Result<Vec<_>, _>> = files.iter().map(rows).collect();
        told.unwrap_or_else(|| count_by_reading(files))
    }
}

impl HuggingFaceDataSource {
    fn splits_of<'a>(&'a self, task: &'a str) -> Result<HubSplits<'a>, DataError> {
        let rows = Arc::new(RowOptions::new(self.columns.as_deref()));
        Ok(HubSplits { spec: self, task, layout: self.layout()?, rows })
    }
}

impl Source for HuggingFaceDataSource {
    fn splits(&self, task: &str) -> Result<Vec<String>, DataError> {
        match &self.split {
            Some(splits) => Ok(splits.names()),
            None => self.splits_of(task)?.names(),
        }
    }

    fn split(&self, task: &str, split: &str) -> Result<SplitFiles, DataError> {
        let wanted = TfdsSplits::of(self.split.as_ref(), task, split)?;
        let splits = self.splits_of(task)?;
        // A task's split is a name, which may contain characters that slices do not allow.
        let files = match self.split {
            Some(_) => slice_files(task, wanted, &splits)?,
            None => match splits.files(wanted)? {
                Some(files) => files,
                None => return Err(unknown_split(task, split, splits.names()?.into_iter())),
            },
        };
        Ok(SplitFiles {
            cycle_length: self.reading.cycle_length.max(1),
            block_length: self.reading.block_length.max(1),
            bad_records: self.reading.bad_records,
            ..SplitFiles::new(files, RecordParser::of_columns(self.columns.as_deref()))
        })
    }

    /// The given number, otherwise the number in the footers of Parquet files, if there are not too
    /// many files.
    fn num_input_examples(&self, split: &str) -> Option<u64> {
        given_count(&self.reading.num_input_examples, split).or_else(|| {
            let files = Source::split(self, "", split).ok()?.files;
            let count = |file: &SourceFile| match (&file.records, &file.format) {
                (Some(records), _) => Some(records.end - records.start),
                (None, Format::Parquet(_)) => num_rows(&file.path).ok(),
                _ => None,
            };
            (files.len() <= MOST_FILES_ASKED).then(|| files.iter().map(count).sum())?
        })
    }
}
