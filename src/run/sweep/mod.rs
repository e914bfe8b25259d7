//! `gimlet sweep`: runs a command once for each point of a `gimlet.Sweep`, here or as the tasks of an array.
//!
//! `spec` is the configurable, `points` combines its values, `record` remembers how a point ended, and `process` runs one.

mod points;
mod process;
mod record;
mod spec;

use std::env;

use anyhow::{Error, anyhow, bail};
use clap::Args;

use crate::gin::Request;
use crate::storage::Path;
use crate::telemetry;

use self::points::{Point, is_part};
use self::process::{End, Runner};
use self::record::{Record, State};
use super::checkpoint::parse_path;
use super::configure::evaluated;
use super::failure::Failure;
use super::library::Library;
use super::output::{counted, write};

pub use self::points::short;
pub use self::record::{Recorded, SWEEP_DIR, recorded};
pub use self::spec::Sweep;

/// Variables with the number of a task of an array: of SLURM, and of Kubernetes' indexed Jobs.
const INDEX_VARIABLES: [&str; 2] = ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"];
/// The text that stands for the folder of a point.
const FOLDER: &str = "{folder}";
/// The word that stands for the flags of a point.
const FLAGS: &str = "{flags}";
/// The text that stands for the name of a point.
const POINT: &str = "{point}";
/// The status of a command that is mistaken.
const MISTAKEN: u8 = 2;
/// Flags of commands that only describe a run, of which nothing is recorded.
const DESCRIBING: [&str; 7] =
    ["--dry_run", "--only_check_args", "--print_gin", "--help", "--helpshort", "--helpfull", "-h"];

/// Flags of `gimlet sweep`.
#[derive(Args, Debug)]
#[command(
    override_usage = "gimlet sweep [OPTIONS] SWEEP.gin COMMAND [FLAGS OF COMMAND]...",
    after_help = "Example: gimlet sweep lr.gin --folder=runs/lr train --gin_file=base.gin --gin.MODEL_DIR=\"'{folder}'\""
)]
pub struct SweepArgs {
    /// Gin file that binds `gimlet.Sweep`.
    #[arg(value_name = "SWEEP.gin")]
    file: String,
    /// More gin files for the sweep itself, such as one with the lists of its values.
    #[arg(long = "gin_file", value_name = "FILE")]
    gin_files: Vec<String>,
    /// Folder of the whole sweep, here or in a bucket. In the command `{folder}` stands for the folder of a point in it, and
    /// `{point}` for its name; the word `{flags}` is the place of its flags, which is else the end.
    #[arg(long = "folder", value_name = "DIR")]
    folder: String,
    /// Print the points, with their flags and folders, and run none.
    #[arg(long = "list")]
    list: bool,
    /// Run the point with this number alone, from 0; by default that of SLURM's array or of Kubernetes' indexed Job, and all without
    /// one.
    #[arg(long = "index", value_name = "N")]
    index: Option<usize>,
    /// The command, of any kind, and its flags.
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<String>,
}

/// A point and what runs for it.
struct Task {
    index: usize,
    point: Point,
    /// Its folder.
    folder: Path,
    /// The words of its command, without the program.
    words: Vec<String>,
    record: Record,
}

/// Runs the points, or lists them.
///
/// # Errors
/// Mistakes in the sweep, before a point runs; points that failed, after all have run.
pub(super) fn sweep_command(args: &SweepArgs, color: bool) -> Result<(), Failure> {
    let tasks = args.tasks(color)?;
    if args.list {
        return list(&tasks);
    }
    let describes =
        |word: &String| word.split('=').next().is_some_and(|flag| DESCRIBING.contains(&flag));
    let records = !args.command.iter().any(describes);
    match args.chosen(tasks.len())? {
        Some(index) => run_one(&tasks[index], records),
        None => run_all(&tasks, records),
    }
}

impl SweepArgs {
    fn tasks(&self, color: bool) -> Result<Vec<Task>, Failure> {
        let files = [std::slice::from_ref(&self.file), &self.gin_files].concat();
        let request = Request { files, fragment: true, ..Request::default() };
        let sweep: Sweep = evaluated(&request, &Library, color)?;
        let points = sweep.points().map_err(Failure::Usage)?;
        self.check_words(&points).map_err(Failure::Usage)?;
        let all = parse_path(&self.folder)?;
        let points = points.into_iter().enumerate();
        Ok(points.map(|(index, point)| self.task(index, point, &all)).collect())
    }

    fn task(&self, index: usize, point: Point, all: &Path) -> Task {
        let folder = all.join(&point.name);
        let parts = point.values.iter().filter(|(name, _)| is_part(name));
        let placed = |word: &String| {
            let word = word.replace(FOLDER, folder.as_str()).replace(POINT, &point.name);
            parts.clone().fold(word, |word, (name, value)| word.replace(name, value))
        };
        let mut words = self.command.clone();
        match words.iter().position(|word| word == FLAGS) {
            Some(place) => drop(words.splice(place..=place, point.flags.iter().cloned())),
            None => words.extend(point.flags.iter().cloned()),
        }
        let words = words.iter().map(placed).collect();
        Task { record: Record::new(all, &point.name), index, folder, words, point }
    }

    fn check_words(&self, points: &[Point]) -> Result<(), Error> {
        let has = |part: &str| self.command.iter().any(|word| word.contains(part));
        let names = points[0].values.iter().map(|(name, _)| name);
        if let Some(part) = names.into_iter().find(|name| is_part(name) && !has(name)) {
            bail!("the sweep gives values of `{part}`, and no word of the command has it");
        }
        let has_part = points[0].values.iter().any(|(name, _)| is_part(name));
        if points.len() > 1 && !has(FOLDER) && !has(POINT) && !has_part {
            bail!(
                "no word of the command has `{FOLDER}` or `{POINT}`, so all points would write into the same folder: add it, as in \
                 --gin.MODEL_DIR=\"'{FOLDER}'\""
            );
        }
        Ok(())
    }

    /// Returns the number of the only point to run, if there is one.
    fn chosen(&self, num_points: usize) -> Result<Option<usize>, Failure> {
        let variable =
            || INDEX_VARIABLES.into_iter().find_map(|name| Some((name, env::var(name).ok()?)));
        let (name, index) = match (self.index, variable()) {
            (Some(index), _) => ("--index", Ok(index)),
            (None, Some((name, text))) => (name, text.parse().map_err(|_| text)),
            (None, None) => return Ok(None),
        };
        match index {
            Ok(index) if index < num_points => Ok(Some(index)),
            Ok(index) => Err(Failure::Usage(anyhow!(
                "{name} is {index}, and the sweep has {}: expected a number from 0 to {}",
                counted(num_points, "point"),
                num_points - 1
            ))),
            Err(text) => {
                Err(Failure::Usage(anyhow!("{name} is `{text}`, expected the number of a point")))
            }
        }
    }
}

impl Task {
    /// Runs the command of the point, with a record of its end, and a log beside the terminal.
    fn run(&self, runner: &mut Runner, records: bool, logs: bool) -> Result<End, Failure> {
        if records {
            self.record.write(self, None)?;
        }
        let log = logs.then(|| self.record.log()).transpose()?;
        let end = runner.run(&self.words, log.as_ref())?;
        if let Some(log) = log {
            self.record.keep(log)?;
        }
        if records {
            self.record.write(self, Some(end))?;
        }
        Ok(end)
    }
}

/// Prints a line for each point.
fn list(tasks: &[Task]) -> Result<(), Failure> {
    let width = tasks.iter().map(|task| task.folder.as_str().len()).max().unwrap_or(0);
    let digits = tasks.len().saturating_sub(1).to_string().len();
    let mut lines = String::new();
    for task in tasks {
        let index = task.index;
        let flags: Vec<_> = task.point.flags.iter().map(|flag| quoted(flag)).collect();
        let state = task.record.state(&task.words)?;
        lines.push_str(&format!(
            "{index:>digits$}  {:<10}  {:<width$}  {}\n",
            state.to_string(),
            task.folder.as_str(),
            flags.join(" ")
        ));
    }
    write(&lines)
}

/// A word as a shell reads it; `=` needs no quotes, unlike what shlex thinks.
fn quoted(word: &str) -> String {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=+./:,@".contains(c));
    match shlex::try_quote(word) {
        Ok(quoted) if !is_plain => quoted.into_owned(),
        _ => word.to_string(),
    }
}

fn run_one(task: &Task, records: bool) -> Result<(), Failure> {
    let Task { index, point: Point { name, .. }, .. } = task;
    if records && task.record.state(&task.words)? == State::Finished {
        telemetry::notice(&format!("point {index}, {name}, has finished already"));
        return Ok(());
    }
    telemetry::notice(&format!("point {index}: {name}"));
    let end = task.run(&mut Runner::new()?, records, false)?;
    match end {
        End::Status(0) => Ok(()),
        End::Status(status) => Err(Failure::Status(status)),
        End::Interrupted(signal) => Err(Failure::Interrupted(signal)),
    }
}

fn run_all(tasks: &[Task], records: bool) -> Result<(), Failure> {
    let mut runner = Runner::new()?;
    let mut failed = Vec::new();
    let (mut num_skipped, mut num_run, mut num_mistaken) = (0, 0, 0);
    for task in tasks {
        let Task { index, point: Point { name, .. }, .. } = task;
        if records && task.record.state(&task.words)? == State::Finished {
            num_skipped += 1;
            continue;
        }
        telemetry::notice(&format!("point {index} (0 to {}): {name}", tasks.len() - 1));
        num_run += 1;
        match task.run(&mut runner, records, records)? {
            End::Status(0) => {}
            End::Status(status) => {
                let log = task.record.log_path();
                failed.push(format!("  {index}  {name}: status {status}, log {log}"));
                num_mistaken += usize::from(status == MISTAKEN);
            }
            End::Interrupted(signal) => return Err(Failure::Interrupted(signal)),
        }
        // The next ones would end likewise.
        if num_skipped == 0 && num_run == 2 && num_mistaken == 2 && tasks.len() > 2 {
            return Err(Failure::Usage(anyhow!(
                "the commands of the first two points are mistaken, as told above, so no other was begun; --index N runs one of \
                 them"
            )));
        }
    }
    if num_skipped > 0 {
        telemetry::notice(&format!("{} had finished before", counted(num_skipped, "point")));
    }
    if failed.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} of {} failed; the same command runs what failed again:\n{}",
        counted(failed.len(), "point"),
        tasks.len(),
        failed.join("\n")
    );
    Err(Failure::World(anyhow!(message)))
}
