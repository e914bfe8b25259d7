//! `gimlet checkpoint ls`: lists the checkpoints in a folder.

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};

use crate::checkpoint::{Condition, Format, Listed, Ranking, best, list};
use crate::models::HUGGING_FACE;
use crate::run::failure::Failure;
use crate::run::output::write;
use crate::storage::Path;
use crate::telemetry::notice;

use super::arrays::size;
use super::open::{failure, parse_checkpoint, storage_failure};

/// Flags of `gimlet checkpoint ls`.
#[derive(Args, Debug)]
#[command(
    after_help = "Only names and sizes of files are checked; `gimlet checkpoint verify` reads the files.\n\
    Example: gimlet checkpoint ls gs://my-bucket/my_run"
)]
pub struct LsArgs {
    /// Folders of checkpoints, such as a MODEL_DIR, here or in a bucket.
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<String>,
    /// Print a JSON list with an entry for each checkpoint.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &LsArgs) -> Result<(), Failure> {
    let mut all = Vec::new();
    for dir in &args.dirs {
        let ranked = Ranked::read(&parse_checkpoint(dir)?)?;
        let found = &ranked.found;
        if found.is_empty() {
            notice(&format!("`{dir}` holds no checkpoints: no name `checkpoint_N`"));
        }
        if !args.json && !found.is_empty() {
            let gap = if all.is_empty() { "" } else { "\n" };
            write(&format!("{gap}{dir}\n{}", ranked.table(SystemTime::now())))?;
        }
        all.push(ranked);
    }
    if args.json {
        let entries: Vec<Value> = all.iter().flat_map(Ranked::as_json).collect();
        write(&format!("{:#}\n", Value::Array(entries)))?;
    }
    Ok(())
}

/// The checkpoints of a folder, with the metric by which its run ranks them.
struct Ranked {
    found: Vec<Listed>,
    ranking: Option<Ranking>,
    best: Option<Path>,
}

impl Ranked {
    /// Lists a folder, and the best model of a run, which has a folder of its own.
    fn read(dir: &Path) -> Result<Self, Failure> {
        let mut found = list(dir, HUGGING_FACE).map_err(failure)?;
        let (ranking, best) = if dir.is_dir().map_err(storage_failure)? {
            (Ranking::of(dir).map_err(failure)?, best(dir).map_err(failure)?)
        } else {
            (None, None)
        };
        let apart = best.iter().filter(|best| found.iter().all(|one| one.path != **best));
        let apart: Vec<Path> = apart.cloned().collect();
        for path in apart {
            found.extend(list(&path, HUGGING_FACE).map_err(failure)?);
        }
        Ok(Self { found, ranking, best })
    }

    fn is_best(&self, one: &Listed) -> bool {
        self.best.as_ref() == Some(&one.path)
    }

    /// The value of the metric in a checkpoint.
    fn metric(&self, one: &Listed) -> Option<(&str, f64)> {
        let ranking = self.ranking.as_ref()?;
        let known = one.step.and_then(|step| ranking.values.get(&step).copied());
        let value = known.or_else(|| ranking.best_value.filter(|_| self.is_best(one)))?;
        Some((&ranking.by.metric, value))
    }

    fn as_json(&self) -> Vec<Value> {
        let with_metric = |one: &Listed| {
            let mut value = as_json(one);
            value["best"] = json!(self.is_best(one));
            if let Some((name, metric)) = self.metric(one) {
                value["metric"] = json!({ "name": name, "value": metric });
            }
            value
        };
        self.found.iter().map(with_metric).collect()
    }

    fn table(&self, now: SystemTime) -> String {
        let mut out = String::new();
        for one in &self.found {
            let step = one.step.map_or_else(|| one.path.file_name().to_string(), |s| s.to_string());
            let format = one.format.map_or("-", Format::name);
            let age = one.modified.map_or("-".to_string(), |time| age(now, time));
            let pinned = if one.is_pinned { ", pinned" } else { "" };
            let best = if self.is_best(one) { ", the best" } else { "" };
            let metric = self.metric(one).map(|(name, value)| format!(", {name} {value}"));
            let metric = metric.unwrap_or_default();
            let condition = condition(&one.condition);
            let bytes = size(one.bytes);
            out += &format!(
                "  {step:>9}  {format:<15}  {bytes:>7}  {age:>4}  {condition}{best}{metric}{pinned}\n"
            );
        }
        out
    }
}

/// Describes the condition of a checkpoint.
pub fn condition(condition: &Condition) -> String {
    match condition {
        Condition::Whole => "whole".to_string(),
        Condition::HalfWritten => "half-written: being saved, or left by a killed run".to_string(),
        Condition::Damaged(reason) => format!("damaged: {reason}"),
        Condition::Unreadable(reason) => format!("not readable: {reason}"),
    }
}

/// Formats an age in its largest unit: `3d`, `12m`, `9s`.
fn age(now: SystemTime, time: SystemTime) -> String {
    let seconds = now.duration_since(time).unwrap_or_default().as_secs();
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, _) => format!("{hours}h"),
        (days, _, _) => format!("{days}d"),
    }
}

fn as_json(one: &Listed) -> Value {
    let (state, reason) = match &one.condition {
        Condition::Whole => ("whole", None),
        Condition::HalfWritten => ("half_written", None),
        Condition::Damaged(reason) => ("damaged", Some(reason)),
        Condition::Unreadable(reason) => ("not_readable", Some(reason)),
    };
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok().map(|t| t.as_secs());
    json!({
        "path": one.path.to_string(),
        "step": one.step,
        "format": one.format.map(Format::name),
        "files": one.num_files,
        "bytes": one.bytes,
        "modified": one.modified.and_then(seconds),
        "pinned": one.is_pinned,
        "state": state,
        "reason": reason,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn ages_are_told_in_their_largest_unit() {
        let found = [5, 65, 7_200, 200_000].map(|seconds| {
            let time = UNIX_EPOCH + Duration::from_secs(1_000_000);
            age(time + Duration::from_secs(seconds), time)
        });
        assert_eq!(found, ["5s", "1m", "2h", "2d"]);
    }
}
