//! The curves of a run: those of training from `train/metrics.jsonl`, those of evaluations from event files and the
//! JSON lines of loggers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use crate::storage::{Path, StorageError};
use crate::telemetry::{Ending, Logged, read_events};

use super::series::Series;

/// The longest line of JSON that is read, in bytes.
pub const MAX_LINE: u64 = 16 << 20;

/// The start of the names of TensorBoard's event files.
const EVENTS: &str = "events.out.tfevents";

/// The prefix of TensorBoardLogger's tags.
const EVAL_PREFIX: &str = "eval/";

/// Curves by the name of their metric.
pub type Curves = BTreeMap<String, Series>;

/// The curves of a folder by task, and a notice for each part that could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskCurves {
    /// Curves by task.
    pub tasks: BTreeMap<String, Curves>,
    /// Parts that were skipped.
    pub skipped: Vec<String>,
}

/// Returns the curves of the training itself. A run of T5X has only event files.
///
/// # Errors
/// The storage fails.
pub fn training(folder: &Path, skipped: &mut Vec<String>) -> Result<Curves, StorageError> {
    let mut curves = Curves::new();
    let lines = folder.join("metrics.jsonl");
    match lines.open() {
        Ok(file) => read_lines(file, &lines, &mut curves, skipped)?,
        Err(error) if error.is_not_found() => {
            for file in files_below(folder)? {
                read_event_file(&file, &mut curves, skipped)?;
            }
        }
        Err(error) => return Err(error),
    }
    Ok(curves)
}

/// Returns the curves of a folder of evaluations, by task. JSON lines of a task come before its event files, which
/// contain the same.
///
/// # Errors
/// The storage fails.
pub fn evaluation(folder: &Path) -> Result<TaskCurves, StorageError> {
    let mut found = TaskCurves::default();
    let files = files_below(folder)?;
    for file in &files {
        if let Some(task) = file.relative_to(folder).strip_suffix("-metrics.jsonl") {
            let curves = found.tasks.entry(task.to_string()).or_default();
            read_lines(open(file)?, file, curves, &mut found.skipped)?;
        }
    }
    let from_lines: Vec<String> = found.tasks.keys().cloned().collect();
    for file in files.iter().filter(|file| file.file_name().starts_with(EVENTS)) {
        let task = file.parent().expect("it lies in a folder").relative_to(folder).to_string();
        if !from_lines.contains(&task) {
            let curves = found.tasks.entry(task).or_default();
            read_event_file(file, curves, &mut found.skipped)?;
        }
    }
    Ok(found)
}

/// Lists all files below a folder; none if there is no folder. Runs delete files meanwhile.
pub fn files_below(folder: &Path) -> Result<Vec<Path>, StorageError> {
    match folder.walk() {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        files => files,
    }
}

/// Opens a file for reading; one that was deleted meanwhile is empty.
pub fn open(file: &Path) -> Result<Box<dyn Read + Send>, StorageError> {
    match file.open() {
        Err(error) if error.is_not_found() => Ok(Box::new(std::io::empty())),
        opened => opened,
    }
}

fn read_lines(
    file: impl Read,
    path: &Path,
    curves: &mut Curves,
    skipped: &mut Vec<String>,
) -> Result<(), StorageError> {
    let (mut number, mut bad) = (0, Vec::new());
    for_each_line(file, path, |line| {
        number += 1;
        if add_line(line, curves).is_none() {
            bad.push(number);
        }
        true
    })?;
    if let Some(first) = bad.first() {
        let (lines, are) = if bad.len() == 1 { ("line", "is") } else { ("lines", "are") };
        let count = bad.len();
        skipped.push(format!(
            "{path}: {count} {lines}, the first at {first}, {are} not an object with a `step`; skipped"
        ));
    }
    Ok(())
}

/// Passes the lines of a file to `each`, until it returns false.
///
/// # Errors
/// The file cannot be read.
pub fn for_each_line(
    file: impl Read,
    path: &Path,
    mut each: impl FnMut(&[u8]) -> bool,
) -> Result<(), StorageError> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        match read.map_err(|error| StorageError::new("read", path, error))? {
            0 => return Ok(()),
            _ if each(line.trim_ascii_end()) => {}
            _ => return Ok(()),
        }
    }
}

fn add_line(line: &[u8], curves: &mut Curves) -> Option<()> {
    let Ok(Value::Object(object)) = serde_json::from_slice(line) else { return None };
    let step = object.get("step")?.as_i64()?;
    for (tag, value) in object.into_iter().filter(|(tag, _)| tag != "step") {
        match value {
            Value::Number(number) => push(curves, tag, step, number.as_f64().unwrap_or(f64::NAN)),
            Value::Null => push(curves, tag, step, f64::NAN),
            _ => {}
        }
    }
    Some(())
}

fn push(curves: &mut Curves, tag: String, step: i64, value: f64) {
    curves.entry(tag).or_default().push(step, value);
}

fn read_event_file(
    file: &Path,
    curves: &mut Curves,
    skipped: &mut Vec<String>,
) -> Result<(), StorageError> {
    let ending = read_events(BufReader::new(open(file)?), |logged| match logged {
        Logged::Restart { step } => curves.values_mut().for_each(|series| series.drop_from(step)),
        Logged::Scalar { step, tag, value } => {
            let tag = tag.strip_prefix(EVAL_PREFIX).map(str::to_string).unwrap_or(tag);
            push(curves, tag, step, value);
        }
    });
    match ending.map_err(|error| StorageError::new("read", file, error))? {
        Ending::Whole => {}
        Ending::CutOff => skipped.push(format!("{file} ends within an event; that one is skipped")),
        Ending::Damaged { at } => {
            skipped.push(format!("{file} is damaged at byte {at}; the rest of it is skipped"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::EventWriter;

    fn scratch() -> (tempfile::TempDir, Path) {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap();
        (dir, path)
    }

    fn points(curves: &Curves, tag: &str) -> Vec<(i64, f64)> {
        curves[tag].points(100)
    }

    #[test]
    fn a_half_written_line_is_skipped_with_a_notice() {
        let (_scratch, dir) = scratch();
        let text = "{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"loss\":null}\n{\"step\":3,\"lo";
        dir.join("metrics.jsonl").write_atomic(text.as_bytes()).unwrap();
        let mut skipped = Vec::new();
        let curves = training(&dir, &mut skipped).unwrap();
        assert_eq!(points(&curves, "loss"), [(1, 2.5)]);
        assert_eq!(curves["loss"].first_not_finite(), Some(2));
        assert!(skipped.len() == 1 && skipped[0].contains("1 line, the first at 3, is"));
    }

    #[test]
    fn event_files_give_the_same_without_lines() {
        let (_scratch, dir) = scratch();
        for (first_step, loss) in [(0, 1.0), (10, 2.0)] {
            let mut writer = EventWriter::new(dir.clone(), Some(first_step));
            writer.scalars(first_step + 10, [("loss", loss)]);
            writer.scalars(first_step + 20, [("loss", loss)]);
        }
        let curves = training(&dir, &mut Vec::new()).unwrap();
        assert_eq!(points(&curves, "loss"), [(10, 1.0), (20, 2.0), (30, 2.0)]);
    }

    #[test]
    fn evaluations_are_read_by_task() {
        let (_scratch, dir) = scratch();
        EventWriter::new(dir.join("sums/easy"), None).scalars(5, [("eval/accuracy", 0.5)]);
        EventWriter::new(dir.join("names"), None).scalars(5, [("eval/accuracy", 0.25)]);
        dir.join("names-metrics.jsonl").write_atomic(b"{\"step\":5,\"accuracy\":0.75}\n").unwrap();
        let found = evaluation(&dir).unwrap();
        assert_eq!(points(&found.tasks["sums/easy"], "accuracy"), [(5, 0.5)]);
        assert_eq!(points(&found.tasks["names"], "accuracy"), [(5, 0.75)]);
        assert_eq!(found.skipped, [""; 0]);
        assert_eq!(evaluation(&dir.join("missing")).unwrap(), TaskCurves::default());
    }
}
