//! Checkpoints: the one to start from, and those to save.

use super::statements::Statements;
use crate::mesh_tf::read::Meaning;
use crate::mesh_tf::spec::{Run, TpuEstimatorModelFn};

const RESTORE: &str = "t5x.utils.RestoreCheckpointConfig";
const SAVE: &str = "t5x.utils.SaveCheckpointConfig";

/// Translates the checkpoints of a training.
pub fn translate(meaning: &Meaning, out: &mut Statements<'_>) {
    let run = &meaning.run;
    let period = ("", "save_checkpoints_steps");
    out.bind::<Run>(&format!("{SAVE}.period"), run.save_checkpoints_steps, period);
    let keep = run.keep_checkpoint_max.filter(|keep| *keep > 0);
    out.bind::<Run>(&format!("{SAVE}.keep"), keep, ("", "keep_checkpoint_max"));
    let given = |path: &Option<String>| path.clone().filter(|path| !path.is_empty());
    let own = given(&run.init_checkpoint);
    let older = given(&meaning.estimator.init_checkpoint);
    let path = match (own, older) {
        (Some(own), Some(older)) if own != older => {
            let message = format!(
                "`run.init_checkpoint` is '{own}' and `tpu_estimator_model_fn.init_checkpoint` is '{older}'"
            );
            let help =
                "a training starts from one checkpoint: bind both to it, or one of them to None";
            return out.refuse::<TpuEstimatorModelFn>(("", "init_checkpoint"), message, help);
        }
        (Some(own), _) => {
            out.bind::<Run>(&format!("{RESTORE}.path"), own.clone(), ("", "init_checkpoint"));
            own
        }
        (None, Some(older)) => {
            let key = format!("{RESTORE}.path");
            out.bind::<TpuEstimatorModelFn>(&key, older.clone(), ("", "init_checkpoint"));
            older
        }
        (None, None) => return,
    };
    let mode = if is_checkpoint(&path) { "'specific'" } else { "'latest'" };
    // Arrays that only one side has are left as they are.
    for (key, value) in [("mode", mode), ("strict", "False"), ("fallback_to_scratch", "True")] {
        out.write_from("init_checkpoint", &format!("{RESTORE}.{key}"), value);
    }
}

/// Whether a path is that of one checkpoint, `model.ckpt-1000` or `checkpoint_1000`, and not of a folder of them.
fn is_checkpoint(path: &str) -> bool {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let step = name.trim_end_matches(".index").rsplit(['-', '_']).next().unwrap_or_default();
    (name.starts_with("model.ckpt-") || name.starts_with("checkpoint_"))
        && step.bytes().all(|digit| digit.is_ascii_digit())
}
