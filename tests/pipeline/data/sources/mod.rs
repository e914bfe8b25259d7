//! Sources of every format, compared with their own libraries (`sources_reference.py`).

mod bad_records;
mod formats;
mod hub;
mod remote;
mod resume;

use gimlet::data::{BadRecords, DataError, ExampleOptions, task_examples};
use gimlet::gin::{Evaluator, Registry, Request, Source, load};

use super::*;

/// The one gin file of a test.
struct Text(String);

impl Source for Text {
    fn read(&self, _: &str) -> std::io::Result<Option<String>> {
        Ok(Some(self.0.clone()))
    }

    fn similar(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// Returns the task over a source, with these parameters.
fn task_over(source: &str, params: &[(&str, &str)]) -> Task {
    let bind = |(param, value): &(&str, &str)| format!("it/seqio.{source}.{param} = {value}\n");
    let text = format!(
        "it/seqio.Task:\n  source = @it/seqio.{source}()\n  output_features = {{}}\n\n{}",
        params.iter().map(bind).collect::<String>()
    );
    task_of(text)
}

/// The task `it` of a gin file.
fn task_of(text: String) -> Task {
    let registry = Registry::default().with::<Task>();
    let request = Request { files: vec!["it.gin".to_string()], ..Request::default() };
    let loaded = match load(&request, &Text(text), &registry) {
        Ok(loaded) => loaded,
        Err(diagnostics) => panic!("{}", diagnostics.render(false)),
    };
    let mut evaluator = Evaluator::new(&loaded.config, &registry);
    let task = evaluator.evaluate_in::<Task>("it");
    task.unwrap_or_else(|_| panic!("{:?}", evaluator.into_diagnostics()))
}

/// `{'train': FILES}` of files of the reference folder, or of another.
fn files(folder: &std::path::Path, name: &str) -> String {
    format!("{{'train': '{}/{name}'}}", folder.display())
}

fn folder() -> PathBuf {
    reference("sources")
}

fn options(split: &str) -> ExampleOptions {
    ExampleOptions { split: split.to_string(), ..ExampleOptions::default() }
}

/// The examples of a split as JSON objects.
fn read(task: &Task, options: &ExampleOptions) -> Result<Vec<serde_json::Value>, DataError> {
    let object = |example: gimlet::data::Example| {
        let feature = |(key, value): (&gimlet::data::Key, &gimlet::data::Value)| {
            (key.to_string(), serde_json::to_value(value).unwrap())
        };
        example.iter().map(feature).collect::<serde_json::Map<_, _>>().into()
    };
    task_examples(task, options)?.map(|example| example.map(object)).collect()
}

#[track_caller]
fn check(task: &Task, expected: &serde_json::Value) {
    assert_eq!(serde_json::json!(read(task, &options("train")).unwrap()), *expected);
}

#[track_caller]
fn check_error(task: &Task, split: &str, expected: &[&str]) {
    let error = read(task, &options(split)).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "{error}");
    }
}
