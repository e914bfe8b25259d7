//! Checkpoints that are left out when all of a folder are asked for: one that is damaged should not keep the others
//! from being read.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{CheckpointError, RestoreMode, index_of, is_unfinished};
use crate::partition::Processes;
use crate::storage::Path;
use crate::telemetry;

use super::agreement::of_all;
use super::error::SessionError;
use super::weights::{Restored, Weights};

/// Restores a checkpoint in all processes, or in none. In mode 'all' it may be left out.
///
/// # Errors
/// Those of [`Weights::restore`]; in mode 'all', except damage.
pub fn restore(
    weights: &Weights,
    path: &Path,
    mode: RestoreMode,
    processes: &Processes,
) -> Result<Result<Restored, SkippedCheckpoint>, SessionError> {
    let restored = match weights.restore(path) {
        Err(SessionError::Checkpoint(error)) if mode == RestoreMode::All => {
            Err(left_out(path, error)?)
        }
        restored => Ok(restored?),
    };
    let reason = restored.as_ref().err().cloned();
    let all = of_all(processes, &reason)?;
    Ok(SkippedCheckpoint::by_any(all).map_or(restored, Err))
}

/// The reason to leave out a checkpoint in mode 'all'.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SkippedCheckpoint {
    /// A run has deleted it in the meantime, which is no mistake.
    Deleted,
    /// It is damaged.
    Damaged(String),
}

impl SkippedCheckpoint {
    /// Returns the reason of all processes, if one of them has any: files that one finds damaged may be those
    /// that another sees deleted.
    fn by_any(reasons: Vec<Option<Self>>) -> Option<Self> {
        reasons.into_iter().flatten().min()
    }

    /// Tells the user, and returns the damage.
    pub fn said(self, path: &Path) -> Option<String> {
        match self {
            SkippedCheckpoint::Deleted => {
                telemetry::notice(&format!("{path} was deleted in the meantime; it is left out"));
                None
            }
            SkippedCheckpoint::Damaged(damage) => {
                telemetry::warn(&format!("{damage}; it is left out"));
                Some(damage)
            }
        }
    }
}

/// Returns the reason to leave out a checkpoint that was not restored.
///
/// # Errors
/// Any other error.
fn left_out(path: &Path, error: CheckpointError) -> Result<SkippedCheckpoint, SessionError> {
    let is_missing = matches!(&error, CheckpointError::Storage(missing) if missing.is_not_found());
    if (is_missing || error.is_damage()) && is_gone(path)? {
        return Ok(SkippedCheckpoint::Deleted);
    }
    let is_users = matches!(
        error,
        CheckpointError::OtherModel(_)
            | CheckpointError::OtherFacts { .. }
            | CheckpointError::Assignment(_)
    );
    // Temporary errors would be the same with the next checkpoint.
    if is_users || error.may_pass() {
        return Err(error.into());
    }
    Ok(SkippedCheckpoint::Damaged(error.to_string()))
}

/// Whether a run has removed a checkpoint, or is about to.
fn is_gone(path: &Path) -> Result<bool, CheckpointError> {
    // TensorFlow's checkpoints are files that share a prefix.
    let is_there = path.exists()? || index_of(path).exists()?;
    Ok(!is_there || is_unfinished(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_removes_meanwhile_is_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Path::try_from(dir.path()).unwrap();
        let check = |name: &str, is_told: bool| {
            let path = folder.join(name);
            let reason = "`x/0` is missing".to_string();
            let error = CheckpointError::Damaged { path: path.to_string(), reason };
            let left_out = left_out(&path, error).unwrap();
            assert_eq!(left_out != SkippedCheckpoint::Deleted, is_told, "{name}");
        };
        check("checkpoint_1", false);
        folder.join("checkpoint_2/gimlet").create_dir_all().unwrap();
        check("checkpoint_2", true);
        folder.join("checkpoint_2/gimlet/unfinished.json").write_atomic(b"{}").unwrap();
        check("checkpoint_2", false);
        folder.join("model.ckpt-3.index").write_atomic(b"").unwrap();
        check("model.ckpt-3", true);

        let other = CheckpointError::Assignment("no array matches".to_string());
        assert!(left_out(&folder.join("checkpoint_2"), other).is_err());
    }

    #[test]
    fn all_processes_leave_out_what_one_cannot_restore() {
        let damaged = || Some(SkippedCheckpoint::Damaged("broken".to_string()));
        assert_eq!(SkippedCheckpoint::by_any(vec![None, None]), None);
        assert_eq!(SkippedCheckpoint::by_any(vec![None, damaged()]), damaged());
        let deleted = Some(SkippedCheckpoint::Deleted);
        assert_eq!(SkippedCheckpoint::by_any(vec![damaged(), None, deleted.clone()]), deleted);
    }
}
