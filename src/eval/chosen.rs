//! The checkpoints to evaluate, and their order.

use std::collections::BTreeSet;

use crate::checkpoint::{CheckpointError, RestoreCheckpointConfig, RestoreMode};
use crate::session::error::SessionError;
use crate::session::made_with::Values;
use crate::session::named_checkpoints::{named_checkpoints, step_in};
use crate::session::restored_params::RestoredParams;
use crate::storage::Path;

use super::done::DoneCheckpoints;
use super::record::EvalRecord;
use super::spec::Evaluate;

/// The checkpoints to evaluate.
#[derive(Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The paths, in the order of evaluation.
    pub paths: Vec<Path>,
    /// Number of checkpoints that are left out because they were evaluated before.
    pub num_done: usize,
    /// The record of the folder's results.
    pub record: EvalRecord,
}

/// Chooses the checkpoints that are left to evaluate. A typing error in the last of several paths
/// should not appear after hours, so all are checked as far as possible without their arrays. Those
/// of mode 'all' are checked in their turn, since a damaged one may be left out.
///
/// # Errors
/// A path that does not fit the mode, or that holds another model; a folder with results of others.
pub fn choose(
    spec: &Evaluate,
    values: &Values,
    done: &DoneCheckpoints,
    wanted: &RestoredParams,
) -> Result<Chosen, SessionError> {
    let config = &spec.restore_checkpoint_cfg;
    let (chosen, named) = meant(config, done)?;
    let is_all = config.mode == RestoreMode::All;
    let step = |path: &Path| match is_all {
        true => Ok(step_in(path).unwrap_or(0)),
        false => wanted.check(path),
    };
    let steps = chosen.paths.iter().map(|path| Ok((step(path)?, path)));
    let steps: Vec<(u64, &Path)> = steps.collect::<Result<_, SessionError>>()?;
    let record = EvalRecord::of(spec, values, &named, &steps)?;
    Ok(Chosen { record, ..chosen })
}

/// Returns the checkpoints that an evaluation would choose now.
///
/// # Errors
/// Those of the choice.
pub fn left_to_evaluate(spec: &Evaluate, values: &Values) -> Result<Chosen, SessionError> {
    let done = DoneCheckpoints::of(spec)?;
    choose(spec, values, &done, &RestoredParams::new(&spec.model, &spec.restore_checkpoint_cfg))
}

/// Returns the checkpoints that the mode selects: of all in a folder those that are not done, of named steps each.
/// The second part are all of them.
fn meant(
    config: &RestoreCheckpointConfig,
    done: &DoneCheckpoints,
) -> Result<(Chosen, BTreeSet<String>), CheckpointError> {
    let mut paths = named_checkpoints(config)?;
    let named = paths.iter().map(Path::to_string).collect();
    let num_found = paths.len();
    if config.mode == RestoreMode::All && config.nearest_steps.is_none() {
        paths.retain(|path| !done.holds(path));
    }
    let record = EvalRecord::default();
    Ok((Chosen { num_done: num_found - paths.len(), paths, record }, named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{CheckpointPaths, Steps};

    /// Creates folders `a` and `b` with a file `checkpoint` in each checkpoint of these names.
    fn folders(checkpoints: &[&str]) -> (tempfile::TempDir, Path) {
        let dir = tempfile::tempdir().unwrap();
        let root = Path::try_from(dir.path()).unwrap();
        for name in checkpoints {
            root.join(name).create_dir_all().unwrap();
            root.join(name).join("checkpoint").write_atomic(b"").unwrap();
        }
        (dir, root)
    }

    fn chosen(root: &Path, mode: RestoreMode, folders: &[&str]) -> Result<Vec<String>, String> {
        let paths = folders.iter().map(|folder| root.join(folder).to_string()).collect();
        let config = RestoreCheckpointConfig {
            path: CheckpointPaths(paths),
            ..RestoreCheckpointConfig::new(&[], mode)
        };
        let done = DoneCheckpoints::read(root, "task").unwrap();
        let (chosen, _) = meant(&config, &done).map_err(|error| error.to_string())?;
        Ok(chosen.paths.iter().map(|path| path.relative_to(root).to_string()).collect())
    }

    #[test]
    fn all_are_taken_by_step_over_folders_and_each_once() {
        let (_dir, root) = folders(&["a/checkpoint_10", "a/checkpoint_9", "b/checkpoint_2"]);
        let all = |folders: &[&str]| chosen(&root, RestoreMode::All, folders);
        let by_step = ["b/checkpoint_2", "a/checkpoint_9", "a/checkpoint_10"];
        assert_eq!(all(&["a", "b"]).unwrap(), by_step);
        assert_eq!(all(&["a", "b", "./a", "a/../b"]).unwrap().len(), 3);
        root.join("empty").create_dir_all().unwrap();
        assert_eq!(all(&["empty", "b"]).unwrap(), ["b/checkpoint_2"]);
        let mut done = DoneCheckpoints::read(&root, "task").unwrap();
        done.add(&root.join("a/checkpoint_9")).unwrap();
        assert_eq!(all(&["a"]).unwrap(), ["a/checkpoint_10"]);
        done.add(&root.join("a/checkpoint_10")).unwrap();
        assert_eq!(all(&["a"]).unwrap(), [""; 0]);
    }

    #[test]
    fn steps_choose_the_nearest_checkpoints_of_all_folders() {
        let (_dir, root) = folders(&["a/checkpoint_10", "a/checkpoint_30", "b/checkpoint_20"]);
        let nearest = |mode, steps: &[u64]| {
            let folders = ["a", "b"].map(|folder| root.join(folder).to_string());
            let config = RestoreCheckpointConfig {
                path: CheckpointPaths(folders.to_vec()),
                nearest_steps: Some(Steps(steps.to_vec())),
                ..RestoreCheckpointConfig::new(&[], mode)
            };
            let mut done = DoneCheckpoints::read(&root, "task").unwrap();
            done.add(&root.join("a/checkpoint_10")).unwrap();
            let (chosen, _) = meant(&config, &done).unwrap();
            chosen.paths.iter().map(|path| path.relative_to(&root).to_string()).collect::<Vec<_>>()
        };
        // Also one that was evaluated before.
        assert_eq!(nearest(RestoreMode::All, &[21, 8]), ["a/checkpoint_10", "b/checkpoint_20"]);
        assert_eq!(nearest(RestoreMode::Latest, &[21]), ["b/checkpoint_20"]);
    }

    #[test]
    fn tensorflow_s_are_taken_by_their_prefixes() {
        let (_dir, root) = folders(&[]);
        for file in ["model.ckpt-20.index", "model.ckpt-3.index", "checkpoint", "graph.pbtxt"] {
            root.join(file).write_atomic(b"").unwrap();
        }
        let found = chosen(&root, RestoreMode::All, &[""]).unwrap();
        assert_eq!(found, ["model.ckpt-3", "model.ckpt-20"]);
    }

    #[test]
    fn the_newest_is_that_of_the_first_folder_with_any() {
        let (_dir, root) = folders(&["a/checkpoint_10", "a/checkpoint_9", "b/checkpoint_20"]);
        root.join("empty").create_dir_all().unwrap();
        let latest = |folders: &[&str]| chosen(&root, RestoreMode::Latest, folders);
        assert_eq!(latest(&["empty", "a", "b"]).unwrap(), ["a/checkpoint_10"]);
        assert!(
            latest(&["empty"]).unwrap_err().contains("empty` is not a checkpoint: it holds no")
        );
    }

    #[test]
    fn what_is_no_folder_of_checkpoints_is_refused_with_the_mode() {
        let (_dir, root) = folders(&["a/checkpoint_10"]);
        let check = |folder: &str, expected: &str| {
            let refused = chosen(&root, RestoreMode::All, &[folder]).unwrap_err();
            assert!(refused.contains(expected), "{refused}");
        };
        check("none", "not a folder of checkpoints: mode = 'all' needs an existing folder");
        check(
            "a/checkpoint_10",
            "not a folder of checkpoints: it is one checkpoint; use mode = 'specific'",
        );
    }
}
