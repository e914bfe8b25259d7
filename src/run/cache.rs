//! `gimlet cache`: writes the caches of tasks. Source of its flags and rules: SeqIO
//! `scripts/cache_tasks_main.py`.

use std::collections::BTreeSet;
use std::env;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::anyhow;
use clap::Args;

use crate::data::{
    BadRecords, CacheFolder, CacheOptions, CacheProcess, Caches, DataError, Estimate, Task,
    TaskOrMixture, TaskProvider, estimate, split_plans, subtasks, write_cache,
};
use crate::gin::did_you_mean;
use crate::launch::DistributedArgs;
use crate::storage::Path;
use crate::telemetry::{
    Count, Verbosity, counted, duration, notice, set_verbosity, thousands, warn,
};

use super::configure::configure_tasks;
use super::failure::Failure;
use super::gin_flags::{GinArgs, parse_module};
use super::library::Library;
use super::output::{write, write_error};
use super::tasks::GinTasks;
use super::world::world;

/// Number of examples from which a dry run estimates the cache.
const SAMPLE: u64 = 100_000;

/// The variable with the seconds for which processes wait for each other.
const PROCESS_TIMEOUT: &str = "GIMLET_PROCESS_TIMEOUT_SECS";
/// These seconds by default.
const TIMEOUT_SECS: u64 = 600;

/// Flags of `gimlet cache`, which are those of `seqio_cache_tasks`.
#[derive(Args, Debug)]
pub struct CacheArgs {
    /// The task files, or a run's gin file, which imports its tasks.
    #[command(flatten)]
    pub gin: GinArgs,
    /// Module with tasks, as gin's `import` names it; may be repeated.
    #[arg(long = "module_import", value_name = "MODULE", value_parser = parse_module)]
    pub module_import: Vec<String>,
    /// Regular expressions that match whole names of the tasks to cache, or names of mixtures, whose
    /// tasks are cached; all tasks by default.
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

/// Runs the command.
///
/// # Errors
/// Mistakes in flags, task files and data; a full disk.
pub(super) fn cache_command(args: &CacheArgs, color: bool) -> Result<(), Failure> {
    refuse_array_records(args)?;
    let (tasks, warnings) = configure_tasks(&args.gin, &args.module_import, &Library, color)?;
    write_error(&warnings);
    let root = Path::parse(&args.output_cache_dir).map_err(Failure::usage)?;
    let process = process()?;
    if process.is_some_and(|process| process.rank > 0) {
        set_verbosity(Verbosity::Quiet);
    }
    let options = CacheOptions {
        min_shards: args.min_shards.max(1),
        max_shards: args.max_shards,
        base_seed: args.base_seed,
        enable_char_counts: args.enable_char_counts,
        overwrite: args.overwrite,
        num_threads: threads(),
        process: process.filter(|process| process.count > 1),
        ..CacheOptions::default()
    };
    let cacheable = cacheable(&selected(args, &tasks)?, &tasks)?;
    if !args.overwrite {
        // Before the first is written.
        for task in &cacheable {
            let cache = CacheFolder::of(&root, task.task_name());
            if cache.is_complete().map_err(failure)? {
                cache.check_recipe(task, &options).map_err(failure)?;
            }
        }
    }
    for task in cacheable {
        let cache = CacheFolder::of(&root, task.task_name());
        if is_there(args, &task, &cache).map_err(failure)? {
            continue;
        }
        match (args.dry_run, options.process) {
            (true, Some(process)) if process.rank > 0 => {}
            (true, _) => describe(&task, &cache, &options)?,
            (false, _) => make(args, &task, &cache, &options).map_err(failure)?,
        }
    }
    Ok(())
}

/// Reports mistakes in flags and task files before processes are started.
///
/// # Errors
/// The first mistake.
pub(super) fn check_cache(args: &CacheArgs, color: bool) -> Result<(), Failure> {
    refuse_array_records(args)?;
    let (tasks, _) = configure_tasks(&args.gin, &args.module_import, &Library, color)?;
    cacheable(&selected(args, &tasks)?, &tasks).map(|_| ())
}

/// Returns this process among those that a launcher has started.
fn process() -> Result<Option<CacheProcess>, Failure> {
    let world = world(&DistributedArgs::default())?;
    let timeout = env::var(PROCESS_TIMEOUT).ok().and_then(|text| text.parse().ok());
    Ok(world.map(|world| CacheProcess {
        rank: world.rank,
        count: world.size,
        is_on_one_host: world.is_on_one_host(),
        timeout_secs: timeout.unwrap_or(TIMEOUT_SECS),
    }))
}

/// Returns the number of threads of this process, which shares its host's cores with others.
fn threads() -> NonZeroUsize {
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = env::var("OMP_NUM_THREADS").ok().and_then(|text| text.parse().ok());
    threads.map_or(cores, |threads: NonZeroUsize| threads.min(cores))
}

/// Refuses other formats: caches are TFRecord files, which SeqIO and Gimlet can both read.
fn refuse_array_records(args: &CacheArgs) -> Result<(), Failure> {
    let format = &args.output_format;
    let message = match (format.as_str(), args.preserve_random_access) {
        ("tfrecord", false) => return Ok(()),
        ("tfrecord", true) => "--preserve_random_access is for ArrayRecord files only, which Gimlet neither writes nor \
                               reads: drop the flag; caches in TFRecord are shuffled by file and buffer"
            .to_string(),
        ("arrayrecord", _) => "--output_format=arrayrecord is not supported: Gimlet and SeqIO's cached tasks read \
                               TFRecord; drop the flag, or give --output_format=tfrecord"
            .to_string(),
        _ => format!("--output_format={format}: expected `tfrecord`"),
    };
    Err(Failure::usage(anyhow!(message)))
}

fn failure(error: DataError) -> Failure {
    if error.is_users() { Failure::usage(error) } else { Failure::world(error) }
}

/// The names that the flags select.
fn selected(args: &CacheArgs, tasks: &GinTasks) -> Result<Vec<String>, Failure> {
    let names = tasks.task_names();
    let matching = |patterns: &[String]| -> Result<BTreeSet<String>, Failure> {
        let mut found = BTreeSet::new();
        for pattern in patterns {
            let whole = fancy_regex::Regex::new(&format!("^(?:{pattern})$"))
                .map_err(|error| Failure::usage(anyhow!("`{pattern}`: {error}")))?;
            let matches =
                |name: &&String| *name == pattern || whole.is_match(name).unwrap_or(false);
            let matched: Vec<String> = names.iter().filter(matches).cloned().collect();
            found.extend(match matched.is_empty() {
                true => of_mixture(pattern, tasks, &names)?,
                false => matched,
            });
        }
        Ok(found)
    };
    let included = match args.tasks.is_empty() {
        true => names.iter().cloned().collect(),
        false => matching(&args.tasks)?,
    };
    let excluded = matching(&args.excluded_tasks)?;
    let selected: Vec<String> = included.difference(&excluded).cloned().collect();
    match selected.is_empty() {
        true => Err(unknown(tasks, format!("no task is selected, of {} declared", names.len()))),
        false => Ok(selected),
    }
}

/// The error of tasks that are not found: a mistake in a task file is a more likely cause than the name.
fn unknown(tasks: &GinTasks, otherwise: String) -> Failure {
    Failure::usage(anyhow!(tasks.mistakes().into_iter().next().unwrap_or(otherwise)))
}

/// Returns the names of a mixture's tasks.
fn of_mixture(name: &str, tasks: &GinTasks, known: &[String]) -> Result<Vec<String>, Failure> {
    if !tasks.mixture_names().iter().any(|mixture| mixture == name) {
        let known = did_you_mean(name, known.iter().map(String::as_str));
        return Err(unknown(tasks, format!("no task is named `{name}`: {known}")));
    }
    let all = subtasks(name, tasks).map_err(failure)?;
    Ok(all.iter().map(|task| task.task_name().to_string()).collect())
}

/// Returns the tasks with a cache step. The others are named; it is an error if no task has one.
fn cacheable(names: &[String], tasks: &GinTasks) -> Result<Vec<Arc<Task>>, Failure> {
    let mut found = Vec::new();
    let mut without = Vec::new();
    for name in names {
        let TaskOrMixture::Task(task) = tasks.get(name).map_err(failure)? else { continue };
        match task.supports_caching().map_err(failure)? {
            true => found.push(task),
            false => without.push(name.clone()),
        }
    }
    if found.is_empty() {
        let task = without.join("`, `");
        return Err(failure(DataError::NotCacheable { task }));
    }
    for name in without {
        notice(&format!("{name}: skipped, it has no cache step (`CacheDatasetPlaceholder`)"));
    }
    Ok(found)
}

/// Whether a task's cache is complete and must stay as it is.
fn is_there(args: &CacheArgs, task: &Task, cache: &CacheFolder) -> Result<bool, DataError> {
    let name = task.task_name();
    if !args.ignore_other_caches {
        let others = [&args.tasks_additional_cache_dirs, &args.gin.seqio_additional_cache_dirs];
        let folders = others.into_iter().flatten().cloned().collect();
        let others = Caches { folders, ..Caches::default() };
        if let Some(other) = others.find(name)?.filter(|other| other != cache) {
            let flag = "--ignore_other_caches caches it here, too";
            notice(&format!("{name}: skipped, it is cached in {}; {flag}", other.path()));
            return Ok(true);
        }
    }
    if cache.is_complete()? && !args.overwrite {
        let flag = "--overwrite makes it again";
        notice(&format!("{name}: skipped, it is cached in {}; {flag}", cache.path()));
        return Ok(true);
    }
    Ok(false)
}

fn make(
    args: &CacheArgs,
    task: &Task,
    cache: &CacheFolder,
    options: &CacheOptions,
) -> Result<(), DataError> {
    if args.overwrite && cache.is_complete()? {
        warn(&format!("overwriting {}", cache.path()));
        if options.process.is_none() {
            cache.clear()?;
        }
    }
    let name = task.task_name();
    let options = &CacheOptions { bad_records: BadRecords::default(), ..options.clone() };
    let mut shown: Option<(String, Count)> = None;
    write_cache(task, cache, options, &mut |split, written| {
        if shown.as_ref().is_none_or(|(current, _)| current != split) {
            shown = Some((split.to_string(), Count::new(&format!("{name} {split}"), None)));
        }
        if let Some((_, count)) = &mut shown {
            count.set_share(written.examples, written.share);
        }
    })?;
    drop(shown);
    notice(&format!("{name}: cached in {}", cache.path()));
    options.bad_records.tell(name);
    Ok(())
}

/// Prints on standard output what would be written.
fn describe(task: &Task, cache: &CacheFolder, options: &CacheOptions) -> Result<(), Failure> {
    write(&format!("{} -> {}\n", task.task_name(), cache.path()))?;
    for plan in split_plans(task, options).map_err(failure)? {
        let bytes: u64 = plan.files.iter().map(|(_, size)| size).sum();
        let size = bytes as f64 / f64::from(1 << 20);
        let (files, shards) = (plan.files.len(), plan.num_shards);
        let (files, shards) = (counted(files, "file"), counted(shards, "shard"));
        write(&format!("  {:<12} {files}, {size:.1} MiB -> {shards}\n", plan.split))?;
        let estimate = estimate(task, &plan, options, SAMPLE).map_err(failure)?;
        let Some(estimate) = estimate else { continue };
        let Estimate { num_sampled, num_examples, bytes, time } = estimate;
        write(&format!(
            "  {:<12} about {} examples, {:.1} MiB, {}, judging by {}\n",
            "",
            thousands(num_examples as f64),
            bytes as f64 / f64::from(1 << 20),
            duration(time.as_secs_f64()),
            thousands(num_sampled as f64),
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::cli::{Command, try_parse};
    use super::*;

    const TASKS: &str = r#"
lines/seqio.TextLineDataSource.split_to_filepattern = {"train": "FOLDER/lines.txt"}
lines/seqio.preprocessors.rekey.key_map = {"inputs": "text", "targets": "text"}
lines/seqio.Feature.vocabulary = @seqio.ByteVocabulary()
cached/seqio.Task:
  source = @lines/seqio.TextLineDataSource()
  preprocessors = [@lines/seqio.preprocessors.rekey(), @seqio.CacheDatasetPlaceholder()]
  output_features = {"inputs": @lines/seqio.Feature()}
plain/seqio.Task:
  source = @lines/seqio.TextLineDataSource()
  output_features = {"inputs": @lines/seqio.Feature()}
"#;

    /// A folder with `my_tasks.gin` and its data.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tasks = TASKS.replace("FOLDER", &folder.path().display().to_string());
        for (name, text) in [("my_tasks.gin", &tasks[..]), ("lines.txt", "a\nb\n")] {
            std::fs::write(folder.path().join(name), text).expect("it can be written");
        }
        folder
    }

    fn parse(words: &[&str]) -> Command {
        let words = ["gimlet"].iter().chain(words).map(ToString::to_string).collect();
        try_parse(words).expect("well formed").command
    }

    /// Runs `seqio_cache_tasks` over the folder's tasks into its `out`.
    fn run(folder: &tempfile::TempDir, flags: &[&str]) -> Result<(), String> {
        let path = folder.path().display();
        let (search, out) =
            (format!("--gin_search_paths={path}"), format!("--output_cache_dir={path}/out"));
        let own = ["seqio_cache_tasks", &search[..], "--module_import=my_tasks", &out[..]];
        let Command::Cache(args) = parse(&[&own[..], flags].concat()) else {
            panic!("parsed as cache")
        };
        cache_command(&args, false).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_dry_run_writes_nothing_and_a_run_the_cache() {
        let folder = folder();
        let out = folder.path().join("out");
        run(&folder, &["--dry_run", "--alsologtostderr"]).expect("it can be described");
        assert!(!out.exists());
        run(&folder, &["--min_shards=1", "--nooverwrite"]).expect("it can be written");
        assert!(out.join("cached/COMPLETED").exists());
        assert!(!out.join("plain").exists(), "it has no cache step");
    }

    #[test]
    fn only_overwrite_touches_a_complete_cache() {
        let folder = folder();
        let examples = || {
            let stats = std::fs::read_to_string(folder.path().join("out/cached/stats.train.json"));
            let stats: serde_json::Value =
                serde_json::from_str(&stats.expect("it was written")).expect("it is JSON");
            stats["examples"].as_u64()
        };
        run(&folder, &[]).expect("it can be written");
        std::fs::write(folder.path().join("lines.txt"), "a\nb\nc\n").expect("it can be written");
        run(&folder, &[]).expect("it is left alone");
        assert_eq!(examples(), Some(2));
        run(&folder, &["--overwrite=True"]).expect("it can be written");
        assert_eq!(examples(), Some(3));
    }

    #[test]
    fn a_cache_of_other_values_is_refused_with_them() {
        let folder = folder();
        run(&folder, &[]).expect("it can be written");
        let tasks = folder.path().join("my_tasks.gin");
        let text = std::fs::read_to_string(&tasks).expect("it is readable");
        std::fs::write(&tasks, text.replace("\"text\"", "\"line\"")).expect("it can be written");
        let refused = run(&folder, &[]).expect_err("its preprocessors differ");
        for words in
            ["holds the cache of `cached` with other values", "preprocessors[0]: ", "`--overwrite`"]
        {
            assert!(refused.contains(words), "{refused}");
        }
        assert!(
            run(&folder, &["--base_seed=3"])
                .expect_err("it differs")
                .contains("--base_seed: 0 -> 3")
        );
        std::fs::write(&tasks, text).expect("it can be written");
        run(&folder, &[]).expect("it is left alone");
    }

    #[test]
    fn tasks_are_selected_by_whole_names() {
        let folder = folder();
        for (flag, expected) in [
            ("--tasks=cache", "no task is named `cache`: did you mean `cached`?"),
            ("--tasks=pl.*", "no cache step in `plain`"),
            ("--tasks=(", "`(`: "),
            ("--excluded_tasks=.*", "no task is selected, of 2 declared"),
            ("--output_format=arrayrecord", "--output_format=arrayrecord is not supported: "),
            ("--preserve_random_access", "--preserve_random_access is for ArrayRecord files only"),
            ("--output_format=csv", "--output_format=csv: expected `tfrecord`"),
        ] {
            let error = run(&folder, &[flag]).expect_err("nothing fits");
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
