//! Mistakes that are visible in the spec of an evaluation alone, found before anything is built.

use crate::session::check::{
    UnfitSpec, check_inputs, check_partitions, check_path, check_restore, unfit,
};

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
    check_restore(&spec.restore_checkpoint_cfg, spec.fallback_init_rng, "evaluate")?;
    check_partitions(&spec.partitioner)
}

fn check_examples(spec: &Evaluate) -> Result<(), UnfitSpec> {
    if spec.dataset_cfg.batch_size == 0 {
        return unfit("utils.DatasetConfig.batch_size is 0, expected at least 1".to_string());
    }
    check_inputs(&spec.model, spec.dataset_cfg.task_feature_lengths.as_ref())?;
    if spec.inference_evaluator_cls.is_none() {
        return Ok(());
    }
    spec.model.prediction_spec()?;
    match spec.dataset_cfg.pack {
        true => unfit(
            "predictions are made of single examples: bind utils.DatasetConfig.pack = False"
                .to_string(),
        ),
        false => Ok(()),
    }
}

fn check_evaluators(spec: &Evaluate) -> Result<(), UnfitSpec> {
    let loggers = spec.inference_evaluator_cls.iter().flat_map(|evaluator| &evaluator.0.logger_cls);
    for logger in loggers {
        logger.0.check().map_err(|error| UnfitSpec(error.to_string()))?;
    }
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
        Some(0) => unfit(
            "utils.get_training_eval_datasets.eval_steps is 0, expected at least 1, or None for all of one pass"
                .to_string(),
        ),
        _ => Ok(()),
    }
}
