//! The file `results.json` of T0's `run_eval.py`.

use std::collections::BTreeMap;

use gimlet_storage::{Path, StorageError};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::spec::T0ResultsLogger;

/// Its content, in its order.
#[derive(Serialize)]
struct Content<'a> {
    dataset_name: &'a str,
    dataset_config_name: Option<&'a str>,
    template_name: &'a str,
    evaluation: BTreeMap<&'a str, f64>,
}

/// Writes the file. Metrics other than the accuracy are not in it.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(
    folder: &Path,
    spec: &T0ResultsLogger,
    metrics: &BTreeMap<String, f64>,
) -> Result<(), StorageError> {
    // t5's accuracies are percentages, those of Hugging Face's `datasets` are not.
    let accuracy = metrics.get("accuracy").map(|percent| ("accuracy", percent / 100.0));
    let content = Content {
        dataset_name: &spec.dataset_name,
        dataset_config_name: spec.dataset_config_name.as_deref(),
        template_name: &spec.template_name,
        evaluation: accuracy.into_iter().collect(),
    };
    let mut text = Vec::new();
    let mut json = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
    content.serialize(&mut json).expect("texts and numbers become JSON");
    folder.create_dir_all()?;
    folder.join("results.json").write_atomic(&text)
}
