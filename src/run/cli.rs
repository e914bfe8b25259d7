//! The command line: T5X's flags as typed, and ours.

use clap::{Args, Parser, Subcommand};

use crate::gin::{Request, SkipUnknown};

use super::bench::BenchToolArgs;
use super::checkpoint::CheckpointToolArgs;
use super::gin::GinToolArgs;
use super::task::TaskToolArgs;
use super::vocab::VocabToolArgs;

/// Marks, inside a `--gin_bindings` value, the flag that the user typed.
const TYPED_AS: char = '\u{1}';
/// The flags that absl also takes as `--noflag` and `--flag=True`.
const BOOLEANS: [&str; 5] =
    ["multiprocess_gpu", "ignore_other_caches", "overwrite", "enable_char_counts", "take_over"];

/// Gin files fully describe a run; gimlet runs them.
#[derive(Debug, Parser)]
#[command(name = "gimlet", version, max_term_width = 100)]
#[command(
    after_help = "Bindings are gin: a text needs its own quotes, --gin.MODEL_DIR=\"'/tmp/run'\"."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train the model that gin files describe, going on from MODEL_DIR's newest checkpoint.
    Train(Box<TrainArgs>),
    /// Measure checkpoints with the metrics of a task or mixture, as T5X's eval.py does.
    Eval(Box<EvalArgs>),
    /// Measure the training step, the decoding or the data of the run that gin files describe.
    Bench(BenchToolArgs),
    /// Run tasks up to their `CacheDatasetPlaceholder` and write what USE_CACHED_TASKS reads; takes
    /// the flags of SeqIO's script of that name.
    #[command(visible_alias = "seqio_cache_tasks")]
    Cache(Box<CacheArgs>),
    /// Say what this build and machine support, and what is missing.
    Doctor(DoctorArgs),
    /// Look into gin files, check them and lay them out.
    Gin(GinToolArgs),
    /// Look into tasks and mixtures, check and measure them.
    Task(TaskToolArgs),
    /// List, show, compare, verify and convert checkpoints of any format.
    Checkpoint(CheckpointToolArgs),
    /// Train vocabularies, and look at what they make of text.
    Vocab(VocabToolArgs),
}

/// Arguments of `gimlet doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Folders, such as gs://BUCKET/runs: tries there what a run does, and says which permission is
    /// missing.
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
    /// Train into a MODEL_DIR of a bucket though another process seems to: it is known to be dead.
    #[arg(long = "take_over", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
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
    /// Write into an EVAL_OUTPUT_DIR of a bucket though another process seems to: it is known to be dead.
    #[arg(long = "take_over", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    pub take_over: bool,
    /// Resolve everything, print what would be evaluated on what, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

/// Flags of `gimlet cache`, which are those of `seqio_cache_tasks`.
#[derive(Args, Debug)]
pub struct CacheArgs {
    /// The task files; a run's gin file serves, since it imports its tasks.
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
    /// Folders of caches; a task that one of them has is left out.
    #[arg(long = "tasks_additional_cache_dirs", value_name = "DIR,...", value_delimiter = ',')]
    pub tasks_additional_cache_dirs: Vec<String>,
    /// Cache tasks that other folders have, too.
    #[arg(long = "ignore_other_caches", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    pub ignore_other_caches: bool,
    /// Make caches anew that are complete.
    #[arg(long = "overwrite", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    pub overwrite: bool,
    /// Files a split at least; as many as its source has, if those are more.
    #[arg(long = "min_shards", value_name = "N", default_value_t = 64)]
    pub min_shards: usize,
    /// Files a split at most; 0 sets no limit.
    #[arg(long = "max_shards", value_name = "N", default_value_t = 0)]
    pub max_shards: usize,
    /// Seed of random preprocessors and of the order of examples.
    #[arg(long = "base_seed", value_name = "SEED", default_value_t = 0)]
    pub base_seed: u64,
    /// Count characters in stats.SPLIT.json, too; slow, since ids are decoded.
    #[arg(long = "enable_char_counts", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    pub enable_char_counts: bool,
    /// The only format that is written.
    #[arg(long = "output_format", value_parser = ["tfrecord"], default_value = "tfrecord")]
    pub output_format: String,
    /// Beam's options, of no effect: this machine's cores do the work.
    #[arg(long = "pipeline_options", value_name = "OPTION,...", hide = true)]
    pub pipeline_options: Vec<String>,
    /// absl's flag, of no effect: messages always go to standard error.
    #[arg(long = "alsologtostderr", hide = true)]
    pub alsologtostderr: bool,
    /// Say what would be written, and stop.
    #[arg(long = "dry_run")]
    pub dry_run: bool,
}

/// Gin files and bindings, and how they are read.
#[derive(Args, Debug)]
pub struct GinFileArgs {
    /// Gin file; may be repeated, later files win.
    #[arg(long = "gin_file", value_name = "FILE")]
    pub gin_file: Vec<String>,
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
    /// Take warnings for errors.
    #[arg(long = "strict")]
    pub strict: bool,
    /// Local folder to read instead of a bucket or hub dataset: gs://t5-data=DIR; for tfds:// a folder in
    /// any storage. May be repeated, and comes before those of the variable GIMLET_PATH_MAP.
    #[arg(long = "path_map", value_name = "PREFIX=DIR")]
    pub path_map: Vec<String>,
}

/// T5X's flags for running on many processes.
#[derive(Args, Debug, Clone)]
pub struct DistributedArgs {
    /// Join the processes named by the flags below.
    #[arg(long = "multiprocess_gpu", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    pub multiprocess_gpu: bool,
    /// HOST:PORT of process 0.
    #[arg(long = "coordinator_address", value_name = "HOST:PORT")]
    pub coordinator_address: Option<String>,
    /// Number of processes.
    #[arg(long = "process_count", value_name = "N")]
    pub process_count: Option<usize>,
    /// Index of this process.
    #[arg(long = "process_index", value_name = "I")]
    pub process_index: Option<usize>,
    /// Seconds to wait for the other processes.
    #[arg(long = "initialization_timeout", value_name = "SECONDS")]
    pub initialization_timeout: Option<u64>,
}

impl GinFileArgs {
    /// What is to be loaded.
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
        let split = |text: &String| match text.strip_prefix(TYPED_AS) {
            Some(marked) => {
                let (flag, statement) =
                    marked.split_once(TYPED_AS).expect("`rewrite` writes both marks");
                (flag.to_string(), statement.to_string())
            }
            None => ("--gin_bindings".to_string(), text.clone()),
        };
        self.gin_bindings.iter().map(split).collect()
    }

    /// Without a value, the flag stands for all.
    fn skip_unknown(&self) -> SkipUnknown {
        match &self.skip_unknown {
            None => SkipUnknown::No,
            Some(names) if names.iter().all(String::is_empty) => SkipUnknown::All,
            Some(names) => SkipUnknown::Named(names.clone()),
        }
    }
}

/// Rewrites `--gin.X=V` to `--gin_bindings=X = V`, as T5X's `rewrite_gin_args` does, and absl's
/// `--noflag` to `--flag=false`. Other words pass unchanged.
///
/// # Errors
/// `--gin.X` without `=`.
pub fn rewrite(args: impl Iterator<Item = String>) -> Result<Vec<String>, anyhow::Error> {
    args.map(|arg| {
        if let Some(flag) = boolean(&arg) {
            return Ok(flag);
        }
        let Some(binding) = arg.strip_prefix("--gin.") else { return Ok(arg) };
        let Some((name, value)) = binding.split_once('=') else {
            anyhow::bail!("gin bindings must be of the form '--gin.<param>=<value>', got: {arg}");
        };
        Ok(format!("--gin_bindings={TYPED_AS}--gin.{name}{TYPED_AS}{name} = {value}"))
    })
    .collect()
}

/// A boolean flag as clap takes it: `--flag=true` or `--flag=false`.
fn boolean(arg: &str) -> Option<String> {
    let word = arg.strip_prefix("--")?;
    if let Some(flag) = word.strip_prefix("no").filter(|flag| BOOLEANS.contains(flag)) {
        return Some(format!("--{flag}=false"));
    }
    let (flag, value) = word.split_once('=').filter(|(flag, _)| BOOLEANS.contains(flag))?;
    Some(format!("--{flag}={}", value.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bindings(args: &[&str]) -> Vec<(String, String)> {
        let words = ["gimlet", "train"].iter().chain(args).map(|word| word.to_string());
        let cli = Cli::parse_from(rewrite(words).expect("well formed"));
        let Command::Train(train) = cli.command else { panic!("parsed as train") };
        train.gin.files.bindings()
    }

    #[test]
    fn gin_dot_flags_become_bindings_in_order() {
        let found = bindings(&["--gin.a/f.x=1", "--gin_bindings=y = 2", "--gin.z={'k': 'a=b'}"]);
        let expected = [
            ("--gin.a/f.x", "a/f.x = 1"),
            ("--gin_bindings", "y = 2"),
            ("--gin.z", "z = {'k': 'a=b'}"),
        ];
        assert_eq!(found, expected.map(|(flag, text)| (flag.to_string(), text.to_string())));
    }

    #[test]
    fn gin_param_is_another_name_of_gin_bindings() {
        assert_eq!(bindings(&["--gin_param", "x = 1"])[0].1, "x = 1");
    }

    #[test]
    fn booleans_are_written_as_absl_takes_them() {
        let words = ["--nomultiprocess_gpu", "--overwrite=True", "--notes=True", "--overwrite"];
        let expected =
            ["--multiprocess_gpu=false", "--overwrite=true", "--notes=True", "--overwrite"];
        assert_eq!(rewrite(words.map(str::to_string).into_iter()).expect("well formed"), expected);
    }

    #[test]
    fn a_gin_flag_without_a_value_is_refused() {
        let error = rewrite(["--gin.test".to_string()].into_iter()).expect_err("has no value");
        assert!(error.to_string().ends_with("got: --gin.test"));
    }
}
