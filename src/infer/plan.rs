//! The checkpoints of an inference, and the folder of each one's results.

use std::collections::BTreeMap;

use crate::checkpoint::RestoreMode;
use crate::session::check::unfit;
use crate::session::error::SessionError;
use crate::session::named_checkpoints::named_checkpoints;
use crate::session::restored_params::RestoredParams;
use crate::storage::Path;

use super::spec::Infer;

/// A checkpoint to infer with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCheckpoint {
    /// Its path.
    pub path: Path,
    /// The folder of its results: INFER_OUTPUT_DIR, or a folder in it where several checkpoints are asked for.
    pub folder: Path,
}

/// Returns the checkpoints. Those of a list, and all of a folder, have a folder of results each, named like the
/// checkpoint; T5X infers with one only. All are checked as far as possible without their arrays: a typing error
/// in the last of several paths should not appear after hours. Damage in mode 'all' is found in its turn, since the
/// checkpoint is then left out.
///
/// # Errors
/// A path that does not fit the mode or holds another model, and two checkpoints of one name.
pub fn planned(spec: &Infer) -> Result<Vec<PlannedCheckpoint>, SessionError> {
    let config = &spec.restore_checkpoint_cfg;
    let output_dir = Path::parse(&spec.output_dir)?;
    let paths = named_checkpoints(config)?;
    let wanted = RestoredParams::new(&spec.model, config);
    let is_all = config.mode == RestoreMode::All;
    paths.iter().try_for_each(|path| match wanted.check(path) {
        Err(error) if is_all && !error.is_users() => Ok(()),
        checked => checked.map(drop),
    })?;
    let are_several = is_all || paths.len() > 1;
    let mut by_name: BTreeMap<String, Path> = BTreeMap::new();
    let mut out = Vec::new();
    for path in paths {
        if !are_several {
            return Ok(vec![PlannedCheckpoint { path, folder: output_dir }]);
        }
        let name = path.file_name().to_string();
        if let Some(other) = by_name.insert(name.clone(), path.clone()) {
            return Ok(unfit(format!(
                "{other} and {path} have one name, and so would their folders of results: infer with each in a \
                 run of its own, with another INFER_OUTPUT_DIR"
            ))?);
        }
        out.push(PlannedCheckpoint { folder: output_dir.join(&name), path });
    }
    Ok(out)
}
