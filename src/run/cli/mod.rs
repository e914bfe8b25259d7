//! The command line: T5X's flags as typed, and ours.
//!
//! [`parse`] reads it in two steps. `words` translates the words of scripts for T5X and SeqIO into
//! Gimlet's (absl's flags in `absl`, flag files in `flag_file`); clap reads those, as the structs
//! of this file declare.

mod absl;
mod flag_file;
mod misplaced;
mod parse;
mod words;

pub use flag_file::expand as expand_flag_files;
pub use parse::{parse, try_parse};

use clap::{Args, Parser, Subcommand};

use crate::gin::{Request, SkipUnknown};
use crate::telemetry::Verbosity;

use super::bench::BenchToolArgs;
use super::checkpoint::CheckpointToolArgs;
use super::gin::GinToolArgs;
use super::shell::{CompletionsArgs, ManArgs};
use super::shims::ShimsArgs;
use super::task::TaskToolArgs;
use super::vocab::VocabToolArgs;

/// Gin files fully describe a run; gimlet runs them.
#[derive(Debug, Parser)]
#[command(name = "gimlet", version, max_term_width = 100)]
// As with absl: of a flag that takes one value the last one counts.
#[command(args_override_self = true)]
#[command(
    after_help = "Bindings are gin: a text needs its own quotes, --gin.MODEL_DIR=\"'/tmp/run'\"."
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// Amount of output.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Amount of output on standard error.
#[derive(Args, Clone, Copy, Debug)]
pub struct OutputArgs {
    /// Print only errors: no notices and no progress.
    #[arg(short = 'q', long = "quiet", global = true, overrides_with = "verbose")]
    pub quiet: bool,
    /// Print more: the gin files that are read, the device, the data files that are opened.
    #[arg(short = 'v', long = "verbose", global = true, overrides_with = "quiet")]
    pub verbose: bool,
}

impl OutputArgs {
    /// Returns the verbosity that the flags select.
    pub fn verbosity(self) -> Verbosity {
        match self {
            OutputArgs { quiet: true, .. } => Verbosity::Quiet,
            OutputArgs { verbose: true, .. } => Verbosity::Verbose,
            _ => Verbosity::Normal,
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train the model that gin files describe, continuing from MODEL_DIR's newest checkpoint.
    Train(Box<TrainArgs>),
    /// Measure checkpoints with the metrics of a task or mixture, as T5X's eval.py does.
    Eval(Box<EvalArgs>),
    /// Measure the training step, the decoding or the data of the run that gin files describe.
    Bench(BenchToolArgs),
    /// Run tasks up to their `CacheDatasetPlaceholder` and write the caches for USE_CACHED_TASKS;
    /// takes the flags of SeqIO's script of that name.
    #[command(visible_alias = "seqio_cache_tasks")]
    Cache(Box<CacheArgs>),
    /// Say what this build and machine support, and what is missing.
    Doctor(DoctorArgs),
    /// Inspect, check and format gin files.
    Gin(GinToolArgs),
    /// Inspect, check and measure tasks and mixtures.
    Task(TaskToolArgs),
    /// List, show, compare, verify and convert checkpoints of any format.
    Checkpoint(CheckpointToolArgs),
    /// Train vocabularies, and show how they encode text.
    Vocab(VocabToolArgs),
    /// Write a folder of Python programs that replace T5X's and SeqIO's in scripts and run gimlet.
    Shims(ShimsArgs),
    /// Print the completions of this command line for a shell: bash, zsh, fish and others.
    Completions(CompletionsArgs),
    /// Write the pages of the manual.
    Man(ManArgs),
}

/// Arguments of `gimlet doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Folders, such as gs://BUCKET/runs: tries the operations of a run there, and says which
    /// permission is missing.
    #[arg(value_name = "PATH")]
    pub paths: Vec<String>,
}

/// Flags of `gimlet train`.
#[derive(Args, Debug)]
pub struct TrainArgs {
    /// The configuration.
    #[command(flatten)]
    pub gin: GinArgs,
    /// T5X's flags for running on many processes.
    #[command(flatten)]
    pub distributed: DistributedArgs,
    /// Train into a MODEL_DIR of a bucket even if another process seems to; only if that process
    /// is dead.
    #[arg(long = "take_over")]
    pub take_over: bool,
    /// Resolve everything, print sizes and shapes, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

/// Flags of `gimlet eval`, which are those of T5X's `eval.py`.
#[derive(Args, Debug)]
pub struct EvalArgs {
    /// The configuration.
    #[command(flatten)]
    pub gin: GinArgs,
    /// Write into an EVAL_OUTPUT_DIR of a bucket even if another process seems to; only if that
    /// process is dead.
    #[arg(long = "take_over")]
    pub take_over: bool,
    /// Resolve everything, print the checkpoints and data to evaluate, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

/// Flags of `gimlet cache`, which are those of `seqio_cache_tasks`.
#[derive(Args, Debug)]
pub struct CacheArgs {
    /// The task files, or a run's gin file, which imports its tasks.
    #[command(flatten)]
    pub gin: GinArgs,
    /// Module with tasks, as gin's `import` names it; may be repeated.
    #[arg(long = "module_import", value_name = "MODULE")]
    pub module_import: Vec<String>,
    /// Regular expressions that match whole names of the tasks to cache; all by default.
    #[arg(long = "tasks", value_name = "REGEX,...", value_delimiter = ',')]
    pub tasks: Vec<String>,
    /// Regular expressions that match whole names of tasks to leave out.
    #[arg(long = "excluded_tasks", value_name = "REGEX,...", value_delimiter = ',')]
    pub excluded_tasks: Vec<String>,
    /// Folder of caches to write into.
    #[arg(long = "output_cache_dir", value_name = "DIR")]
    pub output_cache_dir: String,
    /// Folders of caches; tasks with a cache in one of them are skipped.
    #[arg(long = "tasks_additional_cache_dirs", value_name = "DIR,...", value_delimiter = ',')]
    pub tasks_additional_cache_dirs: Vec<String>,
    /// Cache tasks that other folders have, too.
    #[arg(long = "ignore_other_caches")]
    pub ignore_other_caches: bool,
    /// Make complete caches again.
    #[arg(long = "overwrite")]
    pub overwrite: bool,
    /// Minimum number of files a split; the number of its source's files, if larger.
    #[arg(long = "min_shards", value_name = "N", default_value_t = 64)]
    pub min_shards: usize,
    /// Maximum number of files a split; 0 sets no limit.
    #[arg(long = "max_shards", value_name = "N", default_value_t = 0)]
    pub max_shards: usize,
    /// Seed of random preprocessors and of the order of examples.
    #[arg(long = "base_seed", value_name = "SEED", default_value_t = 0)]
    pub base_seed: u64,
    /// Count characters in stats.SPLIT.json, too; slow, since ids are decoded.
    #[arg(long = "enable_char_counts")]
    pub enable_char_counts: bool,
    /// The only format that is written.
    #[arg(long = "output_format", value_name = "FORMAT", default_value = "tfrecord")]
    pub output_format: String,
    /// SeqIO's flag for ArrayRecord, a format that Gimlet does not write.
    #[arg(long = "preserve_random_access", hide = true)]
    pub preserve_random_access: bool,
    /// Beam's options, without effect: this machine's cores do the work.
    #[arg(long = "pipeline_options", value_name = "OPTION,...", hide = true)]
    pub pipeline_options: Vec<String>,
    /// Print what would be written, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

/// Gin files and bindings, and options for reading them.
#[derive(Args, Debug)]
pub struct GinFileArgs {
    /// Gin file; may be repeated, later files win.
    #[arg(long = "gin_file", value_name = "FILE")]
    pub gin_file: Vec<String>,
    /// Bind X to V, which wins over every file; may be repeated: `--gin.TRAIN_STEPS=100`.
    // `words` rewrites these flags before clap sees them; here they are documented.
    #[arg(long = "gin.X", value_name = "V", require_equals = true)]
    pub gin_x: Option<String>,
    /// Gin statement that wins over every file; may be repeated. `--gin.X=V` is short for
    /// `--gin_bindings='X = V'`.
    #[arg(long = "gin_bindings", alias = "gin_param", value_name = "BINDING")]
    pub gin_bindings: Vec<String>,
    /// Folders in which gin files and task files are searched, after the working directory.
    #[arg(
        long = "gin_search_paths",
        value_name = "DIR,...",
        value_delimiter = ',',
        default_value = "."
    )]
    pub gin_search_paths: Vec<String>,
    /// Drop bindings of configurables that are not known: all, or those with these selectors.
    #[arg(
        long = "skip_unknown",
        value_name = "SELECTOR,...",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_delimiter = ','
    )]
    pub skip_unknown: Option<Vec<String>>,
}

/// Flags that make up the configuration of a run.
#[derive(Args, Debug)]
pub struct GinArgs {
    /// Gin files and bindings.
    #[command(flatten)]
    pub files: GinFileArgs,
    /// Folder of TFDS datasets.
    #[arg(long = "tfds_data_dir", value_name = "DIR")]
    pub tfds_data_dir: Option<String>,
    /// Folders with cached tasks.
    #[arg(long = "seqio_additional_cache_dirs", value_name = "DIR,...", value_delimiter = ',')]
    pub seqio_additional_cache_dirs: Vec<String>,
    /// Treat warnings as errors.
    #[arg(long = "strict")]
    pub strict: bool,
    /// Local folder to read instead of a bucket or hub dataset: gs://t5-data=DIR; for tfds:// a folder in
    /// any storage. May be repeated, and comes before those of the variable GIMLET_PATH_MAP.
    #[arg(long = "path_map", value_name = "PREFIX=DIR")]
    pub path_map: Vec<String>,
}

/// T5X's flags for running on many processes: accepted, and hidden while only one can run.
#[derive(Args, Debug, Clone)]
pub struct DistributedArgs {
    /// Join the processes named by the flags below.
    #[arg(long = "multiprocess_gpu", hide = true)]
    pub multiprocess_gpu: bool,
    /// HOST:PORT of process 0.
    #[arg(long = "coordinator_address", value_name = "HOST:PORT", hide = true)]
    pub coordinator_address: Option<String>,
    /// Number of processes.
    #[arg(long = "process_count", value_name = "N", hide = true)]
    pub process_count: Option<usize>,
    /// Index of this process.
    #[arg(long = "process_index", value_name = "I", hide = true)]
    pub process_index: Option<usize>,
    /// Seconds to wait for the other processes.
    #[arg(long = "initialization_timeout", value_name = "SECONDS", hide = true)]
    pub initialization_timeout: Option<u64>,
}

impl GinFileArgs {
    /// Returns the texts to load.
    pub fn request(&self) -> Request {
        Request {
            files: self.gin_file.clone(),
            bindings: self.bindings(),
            search_paths: self.gin_search_paths.clone(),
            skip_unknown: self.skip_unknown(),
            ..Request::default()
        }
    }

    /// `(flag as typed, statement)` of each binding, in order.
    pub fn bindings(&self) -> Vec<(String, String)> {
        self.gin_bindings.iter().map(|text| words::typed(text)).collect()
    }

    /// Converts the flag; without a value, it means all.
    fn skip_unknown(&self) -> SkipUnknown {
        match &self.skip_unknown {
            None => SkipUnknown::No,
            Some(names) if names.iter().all(String::is_empty) => SkipUnknown::All,
            Some(names) => SkipUnknown::Named(names.clone()),
        }
    }
}
