//! Errors between files and batches, with their place and a remedy.

use std::io;

use gimlet_storage::{Path, StorageError};
use gimlet_vocab::VocabError;

/// A data set that cannot be built or read.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// No task or mixture of that name is registered.
    #[error("no task or mixture is named `{name}`: {suggestion}")]
    UnknownTask {
        /// The name as written.
        name: String,
        /// "did you mean", or the known names.
        suggestion: String,
    },
    /// A mixture that cannot be used, with the place of its declaration.
    #[error("mixture `{mixture}` ({place}): {error}")]
    Mixture {
        /// The mixture.
        mixture: String,
        /// `file:line` of its first binding.
        place: String,
        /// The error of the mixture.
        error: Box<DataError>,
    },
    /// The task's source has no such split.
    #[error("`{task}` has no split '{split}'; it has {known}")]
    UnknownSplit {
        /// The task.
        task: String,
        /// The split asked for.
        split: String,
        /// The splits it has.
        known: String,
    },
    /// No file matches.
    #[error("no file of `{task}`, split '{split}', is found under `{pattern}`; {help}")]
    NoFiles {
        /// The task.
        task: String,
        /// The split asked for.
        split: String,
        /// The pattern or folder.
        pattern: String,
        /// A hint about what to check.
        help: String,
    },
    /// A file cannot be reached.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A vocabulary cannot be built.
    #[error(transparent)]
    Vocab(#[from] VocabError),
    /// Reading stopped within a file.
    #[error("cannot read `{file}` beyond record {line} (byte {offset}): {source}; is it complete?")]
    Read {
        /// The file.
        file: String,
        /// Lines or other records read before.
        line: u64,
        /// Uncompressed bytes read before.
        offset: u64,
        /// The system's or decoder's reason.
        source: io::Error,
    },
    /// A line that is not text.
    #[error(
        "{file}:{line}: not UTF-8 at byte {offset}; convert the file, for example with `iconv -t \
         UTF-8`"
    )]
    NotUtf8 {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The first byte that is not text, from 0, of the uncompressed file.
        offset: u64,
    },
    /// A line that is not a JSON object.
    #[error("{file}:{line} at byte {offset}: {reason}; each line is one JSON object")]
    Json {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The byte offset of the line in the uncompressed file.
        offset: u64,
        /// The mistake in the line.
        reason: String,
    },
    /// A file name that no reader supports.
    #[error(
        "`{file}` is of no known format: Parquet (.parquet), Arrow (.arrow), JSON (.json, .jsonl), \
         CSV (.csv, .tsv) and text (.txt) are read, also .gz and .zst"
    )]
    UnknownFormat {
        /// The file.
        file: String,
    },
    /// Files without examples, or preprocessors that drop them all.
    #[error("`{task}`, split '{split}', has no examples{detail}")]
    Empty {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// An explanation of how the examples were lost.
        detail: String,
    },
    /// An example that does not fit a preprocessor.
    #[error("task `{task}`, {step}: {reason} ({place})")]
    Preprocess {
        /// The task.
        task: String,
        /// The preprocessor.
        step: String,
        /// The example: file, line or record and byte, or its number.
        place: String,
        /// The value that was found, and the expected one.
        reason: String,
    },
    /// A function of the user's Python failed.
    #[error("task `{task}`, {place}: {reason}")]
    Python {
        /// The task.
        task: String,
        /// The example, or the first of those that were given; the split of a source.
        place: String,
        /// The function, and Python's traceback.
        reason: String,
    },
    /// The examples after preprocessing are not what `output_features` promises.
    #[error("task `{task}`, after preprocessing: {reason} ({place})")]
    Features {
        /// The task.
        task: String,
        /// The example: file, line or record and byte, or its number.
        place: String,
        /// The value that was found, and the expected one.
        reason: String,
    },
    /// The targets' length leaves no room for the result of span corruption.
    #[error(
        "expected targets length for span corruption ({needed}) is greater than configured \
         targets length ({configured}); set TASK_FEATURE_LENGTHS = {{'inputs': {inputs}, \
         'targets': {needed}}}"
    )]
    TargetsTooShort {
        /// Number of tokens that span corruption makes.
        needed: usize,
        /// `task_feature_lengths['targets']`.
        configured: usize,
        /// `task_feature_lengths['inputs']`.
        inputs: usize,
    },
    /// An example is longer than its feature may be.
    #[error(
        "task `{task}`, split '{split}', {place}: feature '{feature}' has {found} tokens, more \
         than its length of {limit}; raise TASK_FEATURE_LENGTHS['{feature}'], or bind \
         utils.DatasetConfig.trim_output_features = True"
    )]
    TooLong {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// The example: file, line or record and byte, or its number.
        place: String,
        /// The feature.
        feature: String,
        /// Its length.
        found: usize,
        /// The length allowed.
        limit: usize,
    },
    /// A token that the model has no embedding of.
    #[error(
        "task `{task}`, split '{split}', {place}: feature '{feature}' has the token id {id}, and \
         the model has those from 0 to {} (network.T5Config.vocab_size = {num_ids}): check the \
         task's vocabulary, or raise vocab_size", num_ids - 1
    )]
    UnknownId {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// The example: file, line or record and byte, or its number.
        place: String,
        /// The feature.
        feature: String,
        /// The id.
        id: i32,
        /// Ids that the model knows.
        num_ids: usize,
    },
    /// Inputs that do not begin with a token that names a task.
    #[error(
        "task `{task}`, split '{split}', {place}: feature 'inputs' begins with {found}, and the model has prompts of the tasks that \
         the ids from {} to {} name there: put such a token first, as \
         @prompt_tuning.data.preprocessors.add_sentinel_to_beginning() does with field = 'inputs', or set num_tasks of \
         multitask_prompts' prompt (NUM_TASKS) and sentinel_to_task.vocab_size", known.start, known.end - 1
    )]
    UnknownTaskToken {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// The example: file, line or record and byte, or its number.
        place: String,
        /// The first token.
        found: String,
        /// Ids that name tasks.
        known: std::ops::Range<i32>,
    },
    /// A bound value that does not fit the others.
    #[error("{0}")]
    Config(String),
    /// Cacheable tasks without their caches.
    #[error(
        "{missing}: {searched}; cache with {command}, or set `USE_CACHED_TASKS = False` to preprocess \
         on the fly"
    )]
    NotCached {
        /// The tasks.
        missing: String,
        /// The searched folders.
        searched: String,
        /// The command that makes the caches.
        command: String,
    },
    /// A complete cache of other values.
    #[error(
        "`{folder}` holds the cache of `{task}` with other values than it has now:{differences}\n`--overwrite` makes it \
         again, and another `--output_cache_dir` keeps both"
    )]
    OtherCache {
        /// The task.
        task: String,
        /// The task's folder.
        folder: String,
        /// A line for each value.
        differences: String,
    },
    /// Tasks that are to be cached and have no cache step.
    #[error(
        "no cache step in `{task}`: put `@seqio.CacheDatasetPlaceholder()` behind the preprocessors \
         to run ahead of time"
    )]
    NotCacheable {
        /// The task, or all of them.
        task: String,
    },
    /// Another process writes the same cache.
    #[error("`{folder}` is being written by another process: wait for it, or end it")]
    CacheBusy {
        /// The task's folder.
        folder: String,
    },
    /// Another of the processes that write a cache together does not go on.
    #[error(
        "process {rank} of {count} has written nothing into `{folder}` for {seconds} s: see its output, and start all \
         of them again, which continues; all hosts must see this folder"
    )]
    CacheProcess {
        /// The task's folder.
        folder: String,
        /// The number of that process, from 0.
        rank: usize,
        /// Number of processes.
        count: usize,
        /// The seconds for which it was waited.
        seconds: u64,
    },
    /// A cache in a store, whose parts on their disks hosts would have to exchange.
    #[error(
        "`{folder}` is in a store, and the processes run on several hosts: cache into a folder on a disk that they \
         share and copy it, or use the processes of one host"
    )]
    CacheOfHosts {
        /// The task's folder.
        folder: String,
    },
    /// Examples that one cache cannot hold.
    #[error(
        "task `{task}`, split '{split}', example {number}: {reason}; all examples of a cache have \
         the same features: keep those that you need with the source's `columns` or with `rekey`"
    )]
    MixedExamples {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// The example, from 1.
        number: u64,
        /// The difference.
        reason: String,
    },
    /// A cache whose description and files do not fit.
    #[error(
        "the cache `{folder}` cannot be used: {reason}; make it again with `gimlet cache --overwrite`"
    )]
    UnfitCache {
        /// The task's folder.
        folder: String,
        /// The mistake.
        reason: String,
    },
    /// A damaged record: its bytes are not those that were written.
    #[error(
        "`{file}`, record {number} at byte {offset}: {reason}; the file is damaged: fetch it again, or \
         make a cache again with `gimlet cache --overwrite`"
    )]
    TfRecord {
        /// The file.
        file: String,
        /// The record, from 1.
        number: u64,
        /// The byte offset of the record.
        offset: u64,
        /// The value that was found, and the expected one.
        reason: String,
    },
    /// A record that cannot be turned into an example.
    #[error("{place}: {reason}")]
    Record {
        /// File, record and, if known, byte.
        place: String,
        /// The value that was found, and the expected one.
        reason: String,
    },
    /// A bad record that may be skipped, but whose file cannot be read further.
    #[error(
        "{error}; one bad record may be skipped, and here the rest of the file cannot be read \
         either ({rest}): fetch the file again, or leave it out"
    )]
    RestOfFile {
        /// The error of the record.
        error: Box<DataError>,
        /// The amount of data that would be lost.
        rest: String,
    },
    /// A file whose content is not what its source expects.
    #[error("`{file}`: {reason}")]
    File {
        /// The file.
        file: String,
        /// The value that was found, and the expected one.
        reason: String,
    },
    /// More records than may be skipped.
    #[error(
        "task `{task}`, split '{split}', has {count} bad records, more than the {limit} of \
         `max_bad_records`; the last one: {last}"
    )]
    TooManyBadRecords {
        /// The task.
        task: String,
        /// The split.
        split: String,
        /// Bad records found.
        count: u64,
        /// Number of bad records that may be skipped.
        limit: u64,
        /// The error of the last one.
        last: String,
    },
    /// A data set that TFDS has not prepared on this machine.
    #[error(
        "the TFDS data set `{name}` is not found in `{folder}`: {there}; prepare it with TFDS, name \
         its folder with `--tfds_data_dir`, or map it with `--path_map tfds://{name}=DIR`, where \
         DIR is its version folder or holds the hub's files of the same data set"
    )]
    NotPrepared {
        /// The data set as the task names it.
        name: String,
        /// The folder that was searched.
        folder: String,
        /// The content of that folder.
        there: String,
    },
    /// The saved position belongs to another pipeline.
    #[error(
        "the saved data position does not fit this run: {reason}; restore with \
         `utils.RestoreCheckpointConfig.restore_dataset = False` to start the data over"
    )]
    State {
        /// The difference.
        reason: String,
    },
}

/// The result for a split; `None` if there is no such split.
pub(crate) fn if_split<T>(found: Result<T, DataError>) -> Result<Option<T>, DataError> {
    match found {
        Err(DataError::UnknownSplit { .. }) => Ok(None),
        found => found.map(Some),
    }
}

impl DataError {
    /// Whether a single record is wrong, so that skipping it helps: damaged bytes, a file that
    /// breaks off, or an example that a preprocessor cannot process.
    pub(crate) fn is_bad_record(&self) -> bool {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match self {
            Self::NotUtf8 { .. }
            | Self::Json { .. }
            | Self::TfRecord { .. }
            | Self::Record { .. }
            | Self::Preprocess { .. } => true,
            Self::Read { source, .. } => {
                matches!(source.kind(), InvalidData | InvalidInput | UnexpectedEof)
            }
            _ => false,
        }
    }

    /// Whether data are missing that may exist on another machine, such as the one on which a run is
    /// going to train. A cache is not among them: it is made before.
    pub fn is_of_machine(&self) -> bool {
        match self {
            Self::Storage(_)
            | Self::NoFiles { .. }
            | Self::NotPrepared { .. }
            | Self::Read { .. } => true,
            Self::Mixture { error, .. } => error.is_of_machine(),
            _ => false,
        }
    }

    /// Whether the user's input is wrong rather than the environment: exit status 2 instead of 1.
    pub fn is_users(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_users(),
            Self::Vocab(error) => error.is_users(),
            Self::RestOfFile { error, .. } | Self::Mixture { error, .. } => error.is_users(),
            Self::Read { .. }
            | Self::TfRecord { .. }
            | Self::CacheBusy { .. }
            | Self::CacheProcess { .. } => false,
            _ => true,
        }
    }
}

/// The error of a file whose content is not as expected.
pub(crate) fn file_error(path: &Path, reason: impl ToString) -> DataError {
    DataError::File { file: path.to_string(), reason: reason.to_string() }
}
