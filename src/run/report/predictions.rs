//! Held-out examples with their targets and the predictions by step, as JSONLogger writes them: the first examples
//! of each task, at some of the steps.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::storage::{Path, StorageError};

use super::metrics::{files_below, for_each_line, open};

/// The number of examples that are shown of each task.
const MOST_EXAMPLES: usize = 8;

/// The number of steps whose predictions are shown, the first and the last among them.
const MOST_STEPS: usize = 8;

/// The number of characters that are shown of each text.
const MOST_CHARACTERS: usize = 400;

/// The features of an example that are its input, the first one found.
const INPUTS: [&str; 2] = ["inputs_pretokenized", "inputs"];

/// The predictions of a run, by task.
pub type Predictions = BTreeMap<String, Vec<Predicted>>;

/// An example, with the predictions for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// Its input.
    pub input: String,
    /// Its target.
    pub target: String,
    /// The prediction at each step.
    pub by_step: BTreeMap<u64, Prediction>,
}

/// A prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Its text.
    pub text: String,
    /// Whether it is equal to the target.
    pub is_target: bool,
}

/// Reads the predictions below the folder of inference evaluation.
///
/// # Errors
/// The storage fails.
pub fn predictions(folder: &Path, skipped: &mut Vec<String>) -> Result<Predictions, StorageError> {
    let mut files: BTreeMap<String, BTreeMap<u64, Path>> = BTreeMap::new();
    for file in files_below(folder)? {
        let name = file.relative_to(folder).strip_suffix(".jsonl");
        let parts = name.and_then(|name| name.rsplit_once('-'));
        if let Some((task, step)) = parts.and_then(|(task, step)| Some((task, step.parse().ok()?)))
        {
            files.entry(task.to_string()).or_default().insert(step, file);
        }
    }
    let mut found = Predictions::new();
    for (task, files) in files {
        let examples = found.entry(task).or_default();
        for (step, file) in spread(files) {
            add_step(step, &file, examples, skipped)?;
        }
    }
    Ok(found)
}

/// Chooses steps evenly, the first and the last among them.
fn spread(files: BTreeMap<u64, Path>) -> Vec<(u64, Path)> {
    let files: Vec<_> = files.into_iter().collect();
    let most = MOST_STEPS.min(files.len());
    let at = |index: usize| index * (files.len() - 1) / (most - 1).max(1);
    (0..most).map(|index| files[at(index)].clone()).collect()
}

fn add_step(
    step: u64,
    file: &Path,
    examples: &mut Vec<Predicted>,
    skipped: &mut Vec<String>,
) -> Result<(), StorageError> {
    let mut number = 0;
    for_each_line(open(file)?, file, |line| {
        number += 1;
        match serde_json::from_slice(line) {
            Ok(Value::Object(line)) => add_example(step, &Value::Object(line), examples),
            _ => skipped.push(format!("{file}: line {number} is not a JSON object; skipped")),
        }
        number < MOST_EXAMPLES
    })
}

fn add_example(step: u64, line: &Value, examples: &mut Vec<Predicted>) {
    let input = INPUTS.iter().find_map(|name| line["input"].get(name));
    let input = shown(input.unwrap_or(&Value::Null));
    let target = shown(&line["target"]);
    let prediction = ["prediction", "output", "score"].iter().find_map(|name| line.get(name));
    let Some(prediction) = prediction else { return };
    let is_target = *prediction == line["target"];
    let prediction = Prediction { text: shown(prediction), is_target };
    let known = examples.iter().position(|one| one.input == input && one.target == target);
    match known {
        Some(at) => {
            examples[at].by_step.insert(step, prediction);
        }
        None if examples.len() < MOST_EXAMPLES => {
            examples.push(Predicted { input, target, by_step: [(step, prediction)].into() });
        }
        None => {}
    }
}

/// Returns a value as text, cut if it is long.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    cut(&text, MOST_CHARACTERS)
}

/// Cuts a text after a number of characters.
pub fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_string(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn predictions_of_several_steps_stand_beside_their_target() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Path::try_from(dir.path()).unwrap();
        let line = |input: &str, prediction: &str| {
            json!({"input": {"inputs_pretokenized": input}, "target": "4", "prediction": prediction})
                .to_string()
                + "\n"
        };
        for step in 0..20 {
            let text = line("2+2", &step.to_string()) + &line("1+3", "4") + "{\"inp";
            let file = folder.join(&format!("my/sums-{step:06}.jsonl"));
            file.folder().create_dir_all().unwrap();
            file.write_atomic(text.as_bytes()).unwrap();
        }
        folder.join("my/sums-metrics.jsonl").write_atomic(b"{}").unwrap();
        let mut skipped = Vec::new();
        let found = predictions(&folder, &mut skipped).unwrap();
        let examples = &found["my/sums"];
        assert_eq!((found.len(), examples.len()), (1, 2));
        let steps: Vec<u64> = examples[0].by_step.keys().copied().collect();
        assert_eq!((steps.len(), steps[0], steps[7]), (MOST_STEPS, 0, 19));
        assert!(examples[1].by_step.values().all(|prediction| prediction.is_target));
        assert!(!examples[0].by_step[&19].is_target && skipped.len() == MOST_STEPS);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!((cut("äö", 2), cut("äöü", 2)), ("äö".to_string(), "äö…".to_string()));
    }
}
