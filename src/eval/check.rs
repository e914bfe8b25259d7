//! Mistakes that are visible in the spec of an evaluation alone, found before anything is built.

use crate::checkpoint::RestoreCheckpointConfig;
use crate::session::check::{UnfitSpec, check_partitions, check_path, unfit};

use super::spec::{Evaluate, TrainEvalDatasets};

/// Finds the first mistake.
///
/// # Errors
/// The first mistake.
pub fn check(spec: &Evaluate) -> Result<(), UnfitSpec> {
    check_path("EVAL_OUTPUT_DIR", &spec.output_dir)?;
    spec.model.check().map_err(UnfitSpec)?;
    check_examples(spec)?;
    check_evaluators(spec)?;
    check_restore(&spec.restore_checkpoint_cfg, spec.fallback_init_rng)?;
    check_partitions(&spec.partitioner)
}

fn check_examples(spec: &Evaluate) -> Result<(), UnfitSpec> {
    if spec.dataset_cfg.batch_size == 0 {
        return unfit("utils.DatasetConfig.batch_size is 0, expected at least 1".to_string());
    }
    if spec.dataset_cfg.pack && spec.inference_evaluator_cls.is_some() {
        return unfit(
            "predictions are made of single examples: bind utils.DatasetConfig.pack = False"
                .to_string(),
        );
    }
    Ok(())
}

fn check_evaluators(spec: &Evaluate) -> Result<(), UnfitSpec> {
    if spec.training_evaluator_cls.is_none() {
        return match &spec.inference_evaluator_cls {
            Some(_) => Ok(()),
            None => unfit(
                "evaluate.inference_evaluator_cls and training_evaluator_cls are both None, which \
                 measures nothing: bind inference_evaluator_cls = @seqio.Evaluator"
                    .to_string(),
            ),
        };
    }
    let TrainEvalDatasets::Training(datasets) = &spec.train_eval_get_dataset_fn.0;
    match datasets.eval_steps {
        None | Some(0) => unfit(
            "evaluate.training_evaluator_cls needs a number of batches: bind \
             evaluate.train_eval_get_dataset_fn = @utils.get_training_eval_datasets and \
             utils.get_training_eval_datasets.eval_steps = 20"
                .to_string(),
        ),
        Some(_) => Ok(()),
    }
}

fn check_restore(config: &RestoreCheckpointConfig, seed: Option<i64>) -> Result<(), UnfitSpec> {
    if config.path.0.is_empty() {
        return unfit(
            "utils.RestoreCheckpointConfig.path is [], expected a checkpoint, a folder of them or a \
             list: bind CHECKPOINT_PATH"
                .to_string(),
        );
    }
    for path in &config.path.0 {
        check_path("utils.RestoreCheckpointConfig.path (CHECKPOINT_PATH)", path)?;
    }
    match config.fallback_to_scratch && seed.is_none() {
        true => unfit(
            "utils.RestoreCheckpointConfig.fallback_to_scratch initializes parameters, which needs a \
             seed: bind evaluate.fallback_init_rng = 0"
                .to_string(),
        ),
        false => Ok(()),
    }
}
