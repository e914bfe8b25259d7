//! A checkpoint of a folder by a name: `DIR:best`, `DIR:last`, `DIR:1000`.

use std::collections::BTreeMap;

use gimlet_storage::Path;

use super::error::CheckpointError;
use super::find::{every, latest};
use super::marks::{TRAINER_BEST, best_trainer_file, step_of, step_of_bundle, step_of_trainer};
use super::ranking::Ranking;
use super::steps::committed;

/// The folder of the best model in a MODEL_DIR.
pub const BEST_DIR: &str = "best";

/// A checkpoint among those of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Best,
    Last,
    Step(u64),
}

/// Returns the checkpoint that a path with `:best`, `:last` or `:STEP` at its end names; any other path stays as it is, and so does
/// one that exists.
///
/// # Errors
/// The folder has no such checkpoint, or cannot be read.
pub fn chosen(path: &Path) -> Result<Path, CheckpointError> {
    let Some((folder, choice)) = split(path.as_str()) else { return Ok(path.clone()) };
    if path.exists()? || path.is_dir()? {
        return Ok(path.clone());
    }
    let folder = Path::parse(folder)?;
    let refused =
        |reason: String| Err(CheckpointError::NotACheckpoint { path: path.to_string(), reason });
    if !folder.is_dir()? {
        return refused(format!("`{folder}` is not a folder"));
    }
    let found = match choice {
        Choice::Best => best(&folder)?,
        Choice::Last => latest(&folder)?,
        Choice::Step(step) => by_step(&folder)?.remove(&step),
    };
    let steps = || -> Result<String, CheckpointError> {
        let steps: Vec<String> = by_step(&folder)?.keys().map(u64::to_string).collect();
        Ok(if steps.is_empty() { "none".to_string() } else { steps.join(", ") })
    };
    match (found, choice) {
        (Some(found), _) => Ok(found),
        (None, Choice::Best) => refused(format!(
            "the run has marked no model as its best one, which it does with train.best = @gimlet.BestModel(); the steps that were \
             saved are {}",
            steps()?
        )),
        (None, _) => refused(format!("the steps that were saved are {}", steps()?)),
    }
}

/// Returns the folder and the choice, if the last part of a path ends with one.
fn split(path: &str) -> Option<(&str, Choice)> {
    let (folder, choice) = path.rsplit_once(':').filter(|(folder, _)| !folder.is_empty())?;
    let is_number = !choice.is_empty() && choice.bytes().all(|byte| byte.is_ascii_digit());
    Some((
        folder,
        match choice {
            "best" => Choice::Best,
            "last" => Choice::Last,
            digits if is_number => Choice::Step(digits.parse().ok()?),
            _ => return None,
        },
    ))
}

/// Returns the model that a run has saved as its best one, or the checkpoint with the best metric of those that it ranks.
///
/// # Errors
/// The folder cannot be read.
pub fn best(model_dir: &Path) -> Result<Option<Path>, CheckpointError> {
    if let Some((_, saved)) = committed(&model_dir.join(BEST_DIR))?.pop_last() {
        return Ok(Some(saved));
    }
    for saved in [best_trainer_file(model_dir), model_dir.join(TRAINER_BEST)] {
        if saved.exists()? || saved.is_dir()? {
            return Ok(Some(saved));
        }
    }
    let mut saved = committed(model_dir)?;
    let ranking = Ranking::of(model_dir)?;
    Ok(ranking.and_then(|ranking| saved.remove(&ranking.best_of(saved.keys())?)))
}

/// Returns the checkpoints of a folder by step.
fn by_step(folder: &Path) -> Result<BTreeMap<u64, Path>, CheckpointError> {
    let step = |path: &Path| {
        let name = path.file_name();
        step_of(path).or_else(|| step_of_trainer(name)).or_else(|| step_of_bundle(name))
    };
    Ok(every(folder)?.into_iter().filter_map(|path| Some((step(&path)?, path))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Path) {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Path::try_from(scratch.path()).unwrap();
        (scratch, folder)
    }

    fn save(folder: &Path, step: u64, record: &str) {
        let dir = folder.join(&format!("checkpoint_{step}"));
        dir.join("gimlet").create_dir_all().unwrap();
        dir.join("gimlet/run.json").write_atomic(record.as_bytes()).unwrap();
        dir.join("checkpoint").write_atomic(b"\x80").unwrap();
    }

    fn at(folder: &Path, choice: &str) -> Result<String, String> {
        let path = Path::parse(&format!("{folder}:{choice}")).unwrap();
        let found = chosen(&path).map_err(|error| error.to_string())?;
        Ok(found.relative_to(folder).to_string())
    }

    #[test]
    fn a_step_and_the_last_one_are_found() {
        let (_scratch, folder) = folder();
        assert!(at(&folder, "last").is_err());
        [5, 10].into_iter().for_each(|step| save(&folder, step, "{}"));
        assert_eq!(at(&folder, "last").unwrap(), "checkpoint_10");
        assert_eq!(at(&folder, "5").unwrap(), "checkpoint_5");
        let message = at(&folder, "7").unwrap_err();
        assert!(message.contains("the steps that were saved are 5, 10"), "{message}");
        let message = at(&folder.join("x"), "last").unwrap_err();
        assert!(message.contains("x` is not a folder"), "{message}");
    }

    #[test]
    fn the_best_is_the_one_that_was_saved_as_such_or_has_the_best_metric() {
        let (_scratch, folder) = folder();
        save(&folder, 5, "{}");
        let message = at(&folder, "best").unwrap_err();
        assert!(
            message.contains("gimlet.BestModel") && message.contains("saved are 5"),
            "{message}"
        );
        let record = r#"{"ranked_by": {"metric": "train/loss", "higher_is_better": false},
            "monitored": {"3": 0.5, "5": 1.0, "10": null}}"#;
        save(&folder, 10, record);
        assert_eq!(at(&folder, "best").unwrap(), "checkpoint_5", "step 3 was removed");
        folder.join("model_best.pth").write_atomic(b"x").unwrap();
        assert_eq!(at(&folder, "best").unwrap(), "model_best.pth");
        save(&folder.join("best"), 7, "{}");
        assert_eq!(at(&folder, "best").unwrap(), "best/checkpoint_7");
    }

    #[test]
    fn a_folder_of_trainers_files_ranks_none() {
        let (_scratch, folder) = folder();
        folder.join("model_3.pth").write_atomic(b"x").unwrap();
        let message = at(&folder, "best").unwrap_err();
        assert!(message.contains("has marked no model"), "{message}");
    }

    #[test]
    fn other_paths_stay_as_they_are() {
        for path in
            ["gs://bucket/run", "run:latest", "run:best/checkpoint_5", "s3://host:9000/run", ":5"]
        {
            assert_eq!(split(path), None, "{path}");
        }
    }
}
