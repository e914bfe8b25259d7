//! Metrics as JSON lines, which scripts read: `{"step": 100, "loss": 2.5, ...}`, one line for each step.
//!
//! They contain the same as the event files beside them. A resumed run drops the lines of steps
//! later than the one from which it continues, so that each step appears once, in order.

use serde_json::{Map, Value, json};

use super::console::warn_once;
use gimlet_storage::{GrowingFile, Path, StorageError, Unsent};

/// Writes one file of metrics. An error is reported once, and the next write tries again.
pub struct MetricLines {
    path: Path,
    /// The newest step that is written or, at first, one that an earlier process may have written.
    newest: i64,
    file: Option<GrowingFile>,
    last: Option<Line>,
}

/// A line, to which numbers of the same step are added.
struct Line {
    step: i64,
    /// The step and the metrics.
    object: Map<String, Value>,
    /// Its bytes in the file.
    length: usize,
}

impl Line {
    fn parse(text: &str) -> Option<Self> {
        let Value::Object(object) = serde_json::from_str(text).ok()? else { return None };
        Some(Self { step: object.get("step")?.as_i64()?, object, length: text.len() + 1 })
    }

    fn new(step: i64) -> Self {
        let object = Map::from_iter([("step".to_string(), json!(step))]);
        Self { step, object, length: 0 }
    }
}

impl MetricLines {
    /// Creates the file of a run that starts or resumes at `first_step`: the first write drops
    /// later lines of an earlier process.
    pub fn new(path: Path, first_step: i64) -> Self {
        Self { path, newest: first_step, file: None, last: None }
    }

    /// Writes numbers at a step: the last one, or a later one.
    pub fn scalars<T: Into<String>>(
        &mut self,
        step: i64,
        scalars: impl IntoIterator<Item = (T, f64)>,
    ) {
        // NaN and infinite values become `null`.
        let metrics = scalars.into_iter().map(|(tag, number)| (tag.into(), json!(number)));
        let written = self.write(step, metrics.collect());
        if written.is_err() {
            self.file = None;
        }
        // A store that refuses the lines is asked again later.
        let refused = self.file.as_ref().and_then(GrowingFile::failure);
        if let Some(error) = written.err().or(refused) {
            warn_once(&format!("cannot write metrics to {}: {error}", self.path));
        }
    }

    /// Bytes that a store may not have yet.
    pub fn unsent(&self) -> Option<Unsent> {
        self.file.as_ref().and_then(GrowingFile::unsent)
    }

    fn write(&mut self, step: i64, metrics: Map<String, Value>) -> Result<(), StorageError> {
        if self.file.is_none() {
            self.open()?;
        }
        let file = self.file.as_mut().expect("it is open");
        let last = self.last.take().filter(|last| last.step == step);
        let mut line = last.unwrap_or_else(|| Line::new(step));
        line.object.extend(metrics);
        let text = json!(line.object).to_string() + "\n";
        file.replace_end(line.length, text.as_bytes())?;
        self.newest = self.newest.max(step);
        self.last = Some(Line { length: text.len(), ..line });
        Ok(())
    }

    /// Opens the file with the remaining lines. Drops a line that a killed process has partly
    /// written.
    fn open(&mut self) -> Result<(), StorageError> {
        let earlier = match self.path.read() {
            Err(error) if error.is_not_found() => Vec::new(),
            read => read?,
        };
        let earlier = String::from_utf8_lossy(&earlier);
        let mut kept = String::new();
        for text in earlier.lines() {
            if let Some(line) = Line::parse(text).filter(|line| line.step <= self.newest) {
                kept.push_str(text);
                kept.push('\n');
                self.last = Some(line);
            }
        }
        self.path.parent().expect("it lies in a folder").create_dir_all()?;
        self.file = Some(self.path.grow_anew(kept.into_bytes())?);
        Ok(())
    }
}

/// Reports a store that refused the last lines.
impl Drop for MetricLines {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.file.take().map(GrowingFile::finish) {
            warn_once(&format!("cannot write metrics to {}: {error}", self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &Path, expected: &[Value]) {
        let text = path.read_to_string().unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, expected);
    }

    fn scratch() -> (tempfile::TempDir, Path) {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::try_from(dir.path()).unwrap().join("train/metrics.jsonl");
        (dir, path)
    }

    #[test]
    fn a_step_is_one_line_however_often_it_is_written() {
        let (_scratch, path) = scratch();
        let mut lines = MetricLines::new(path.clone(), 0);
        lines.scalars(0, [("timing/init", 0.123456789)]);
        lines.scalars(10, [("loss", 2.5), ("accuracy", f64::NAN)]);
        lines.scalars(10, [("timing/save", 1.0)]);
        lines.scalars(10, [("timing/save", 0.5)]);
        lines.scalars(20, [("loss", 2.0)]);
        let text = path.read_to_string().unwrap();
        assert!(text.starts_with("{\"step\":0,\"timing/init\":0.123456789}\n"), "{text}");
        check(
            &path,
            &[
                json!({"step": 0, "timing/init": 0.123456789}),
                json!({"step": 10, "loss": 2.5, "accuracy": null, "timing/save": 0.5}),
                json!({"step": 20, "loss": 2.0}),
            ],
        );
    }

    #[test]
    fn a_resumed_run_leaves_each_step_once() {
        let (_scratch, path) = scratch();
        let mut killed = MetricLines::new(path.clone(), 0);
        for step in [10, 20, 30] {
            killed.scalars(step, [("loss", step as f64)]);
        }
        drop(killed);
        let whole = path.read_to_string().unwrap();
        path.write_atomic(format!("{whole}{{\"step\":40,\"lo").as_bytes()).unwrap();
        let mut resumed = MetricLines::new(path.clone(), 20);
        check_starts(&path, &whole);
        resumed.scalars(20, [("timing/init", 1.0)]);
        resumed.scalars(30, [("loss", 31.0)]);
        check(
            &path,
            &[
                json!({"step": 10, "loss": 10.0}),
                json!({"step": 20, "loss": 20.0, "timing/init": 1.0}),
                json!({"step": 30, "loss": 31.0}),
            ],
        );
    }

    /// Checks that nothing is lost before the run writes.
    fn check_starts(path: &Path, whole: &str) {
        assert!(path.read_to_string().unwrap().starts_with(whole));
    }

    #[test]
    fn what_cannot_be_written_does_not_end_the_run() {
        let (_scratch, path) = scratch();
        path.create_dir_all().unwrap();
        let mut lines = MetricLines::new(path.clone(), 0);
        lines.scalars(10, [("loss", 1.0)]);
        path.remove_dir_all().unwrap();
        lines.scalars(20, [("loss", 2.0)]);
        check(&path, &[json!({"step": 20, "loss": 2.0})]);
    }
}
