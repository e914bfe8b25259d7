//! A source that runs a function of the user's Python.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::contract::{Source, unknown_split};
use super::file::PythonSource;
use super::file::{Format, SourceFile};
use super::parse::RecordParser;
use super::split::SplitFiles;
use crate::error::DataError;
use gimlet_gin::{Configurable, Value};
use gimlet_python::{PythonFunction, PythonWorkers};
use gimlet_storage::Path;

/// A Python function `dataset_fn(split, shuffle_files)` that returns a `tf.data.Dataset` or any
/// other iterable of dicts, read by the user's Python (`docs/python_tasks.md`); files are never
/// shuffled. Source: SeqIO `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.FunctionDataSource",
    alias = "seqio.dataset_providers.FunctionDataSource",
    ignored(caching_permitted = "caching is asked for by `CacheDatasetPlaceholder`")
)]
pub struct FunctionDataSource {
    /// The module that Python imports; the working directory is searched first.
    #[gin(default = None)]
    pub module: Option<String>,
    /// The function's name within the module; dots lead into classes.
    #[gin(default = None)]
    pub dataset_fn: Option<String>,
    /// A task, instead of `dataset_fn`, that the module registers with SeqIO; its source, of any
    /// class, is read.
    #[gin(default = None)]
    pub task: Option<String>,
    /// The splits of the source.
    #[gin(default = Vec::new())]
    pub splits: Vec<String>,
    /// Split to its number of examples, if known.
    #[gin(default = None)]
    pub num_input_examples: Option<BTreeMap<String, u64>>,
    /// Further arguments of the function, by name.
    #[gin(default = BTreeMap::new())]
    pub kwargs: BTreeMap<String, Value>,
    /// The Python that runs it.
    #[gin(method)]
    pub workers: PythonWorkers,
}

impl Source for FunctionDataSource {
    fn splits(&self, _: &str) -> Result<Vec<String>, DataError> {
        Ok(self.splits.clone())
    }

    fn split(&self, task: &str, split: &str) -> Result<SplitFiles, DataError> {
        if !self.splits.iter().any(|known| known == split) {
            return Err(unknown_split(task, split, self.splits.iter().cloned()));
        }
        let Some(module) = self.module.clone() else {
            return Err(DataError::Config(format!(
                "the source of task `{task}` is a Python function (`seqio.FunctionDataSource`): bind its \
                 `module` and `dataset_fn`, both as text, for your own Python to read it, or name the \
                 data instead, for example with `seqio.HuggingFaceDataSource` or \
                 `seqio.JsonLinesDataSource`"
            )));
        };
        let function = PythonFunction {
            module,
            function: self.dataset_fn.clone(),
            task: self.task.clone(),
            part: "source",
            index: 0,
            kwargs: self.kwargs.clone(),
        };
        let source = PythonSource {
            task: task.to_string(),
            split: split.to_string(),
            function,
            workers: self.workers.clone(),
        };
        // The path appears as the place of each record.
        let path = Path::parse(&format!("python/{}/{split}", source.name()))?;
        let num_examples = super::contract::given_count(&self.num_input_examples, split);
        let format = Format::Python { source: Arc::new(source), num_examples };
        Ok(SplitFiles::new(vec![SourceFile::new(path, format)], RecordParser::of_columns(None)))
    }

    fn num_input_examples(&self, split: &str) -> Option<u64> {
        super::contract::given_count(&self.num_input_examples, split)
    }
}
