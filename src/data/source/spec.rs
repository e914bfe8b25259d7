//! What gin says about sources.

use std::collections::BTreeMap;

use crate::gin::{Configurable, Evaluator, FromGin, Registry, Reported, Value, ValueKind};

/// Any source of a task.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum DataSource {
    /// One text a line.
    TextLine(TextLineDataSource),
    /// One JSON object a line.
    JsonLines(JsonLinesDataSource),
    /// A data set in the hub's layout.
    HuggingFace(HuggingFaceDataSource),
}

/// Lines of text files, plain or gzip, as `{'text': line}`. Source: SeqIO `dataset_providers.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.TextLineDataSource",
    alias = "seqio.dataset_providers.TextLineDataSource",
    ignored(
        caching_permitted = "caching is asked for by `CacheDatasetPlaceholder`",
        file_shuffle_buffer_size = "all files are shuffled at once"
    )
)]
pub struct TextLineDataSource {
    /// Split to a glob or a list of globs, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// Lines dropped at the beginning of each file.
    #[gin(default = 0)]
    pub skip_header_lines: u64,
    /// Split to its number of examples, where known.
    #[gin(default = None)]
    pub num_input_examples: Option<BTreeMap<String, u64>>,
    /// Files read in turn.
    #[gin(default = 16)]
    pub cycle_length: usize,
    /// Lines taken from a file before the next one's turn.
    #[gin(default = 16)]
    pub block_length: usize,
}

/// Lines of JSON objects, plain or gzip: strings, numbers and lists of them become features, and
/// nested objects are flattened (`answers/text`). Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(name = "seqio.JsonLinesDataSource")]
pub struct JsonLinesDataSource {
    /// Split to a glob or a list of globs, in any storage.
    pub split_to_filepattern: BTreeMap<String, FilePattern>,
    /// Features to keep; all if None.
    #[gin(default = None)]
    pub columns: Option<Vec<String>>,
    /// Split to its number of examples, where known.
    #[gin(default = None)]
    pub num_input_examples: Option<BTreeMap<String, u64>>,
    /// Files read in turn.
    #[gin(default = 16)]
    pub cycle_length: usize,
    /// Lines taken from a file before the next one's turn.
    #[gin(default = 16)]
    pub block_length: usize,
}

/// A data set of the Hugging Face hub: JSON-lines or text files found as its `load_dataset` does,
/// by split names in folders and files (`data/train-00000-of-00002.jsonl.gz`, `valid.json`). It
/// stands in for the `FunctionDataSource` over `load_dataset` of Python tasks. Gimlet's own.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "seqio.HuggingFaceDataSource",
    ignored(
        streaming = "files are always streamed",
        use_auth_token = "credentials come from the environment"
    )
)]
pub struct HuggingFaceDataSource {
    /// Name on the hub (`dumitrescustefan/rlm`), read at `hf://datasets/NAME`; or any folder, with
    /// its scheme or beginning in `/` or `.`.
    pub path: String,
    /// A folder within it (the hub's `data_dir`).
    #[gin(default = None)]
    pub data_dir: Option<String>,
    /// Split to globs below it, where names do not tell.
    #[gin(default = None)]
    pub data_files: Option<BTreeMap<String, FilePattern>>,
    /// Features to keep; all if None.
    #[gin(default = None)]
    pub columns: Option<Vec<String>>,
    /// Split to its number of examples, where known.
    #[gin(default = None)]
    pub num_input_examples: Option<BTreeMap<String, u64>>,
    /// Files read in turn.
    #[gin(default = 16)]
    pub cycle_length: usize,
    /// Lines taken from a file before the next one's turn.
    #[gin(default = 16)]
    pub block_length: usize,
}

impl DataSource {
    /// `(cycle_length, block_length)`, each at least 1.
    pub(crate) fn interleaving(&self) -> (usize, usize) {
        let (cycle, block) = match self {
            Self::TextLine(spec) => (spec.cycle_length, spec.block_length),
            Self::JsonLines(spec) => (spec.cycle_length, spec.block_length),
            Self::HuggingFace(spec) => (spec.cycle_length, spec.block_length),
        };
        (cycle.max(1), block.max(1))
    }

    /// Number of raw examples of a split, where the task says it.
    pub fn num_input_examples(&self, split: &str) -> Option<u64> {
        let counts = match self {
            Self::TextLine(spec) => &spec.num_input_examples,
            Self::JsonLines(spec) => &spec.num_input_examples,
            Self::HuggingFace(spec) => &spec.num_input_examples,
        };
        counts.as_ref()?.get(split).copied()
    }

    /// Lines to drop at the beginning of each file.
    pub(crate) fn skip_header_lines(&self) -> u64 {
        match self {
            Self::TextLine(spec) => spec.skip_header_lines,
            Self::JsonLines(_) | Self::HuggingFace(_) => 0,
        }
    }

    /// The features to keep; all if None.
    pub(crate) fn columns(&self) -> Option<&[String]> {
        match self {
            Self::TextLine(_) => None,
            Self::JsonLines(spec) => spec.columns.as_deref(),
            Self::HuggingFace(spec) => spec.columns.as_deref(),
        }
    }
}

/// One glob or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePattern(
    /// The globs, in the order given.
    pub Vec<String>,
);

impl FromGin for FilePattern {
    fn expected() -> String {
        "a str or a list of str".to_string()
    }

    fn from_gin(value: &Value, cx: &mut Evaluator<'_>) -> Result<Self, Reported> {
        match &value.kind {
            ValueKind::Str(pattern) => Ok(Self(vec![pattern.clone()])),
            ValueKind::List(_) | ValueKind::Tuple(_) => cx.read(value).map(Self),
            _ => Err(cx.mismatch(value, &Self::expected())),
        }
    }

    fn register(_: &mut Registry) {}
}
