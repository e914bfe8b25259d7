//! Mistakes that are visible in a spec alone, found in milliseconds, before anything is built.

use crate::checkpoint::{
    Commit, RestoreCheckpointConfig, RestoreMode, SaveCheckpointConfig, SaveFormat, nameless,
};
use crate::data::DatasetConfig;
use crate::models::HUGGING_FACE;
use crate::models::hugging_face::feed_forward;
use crate::models::transformer::{LayerArrays, TransformerSpec};
use crate::nn::Activation;
use crate::session::check::{UnfitSpec, check_partitions, check_path, unfit};
use crate::session::loss_scaler::LossScaler;
use crate::telemetry::MlflowError;

use super::periods::Periods;
use super::spec::{ACTION_MODES, Train};

/// Finds the first mistake.
///
/// # Errors
/// The first mistake.
pub fn check(train: &Train) -> Result<(), UnfitSpec> {
    check_path("MODEL_DIR", &train.model_dir)?;
    train.model.check().and_then(|()| train.model.check_training()).map_err(UnfitSpec)?;
    check_batches(train)?;
    check_evaluations(train)?;
    if let Some(restore) = &train.checkpoint_cfg.restore {
        check_restore(restore)?;
    }
    if let Some(save) = &train.checkpoint_cfg.save {
        check_save(save)?;
        check_form(train, save)?;
    }
    check_loggers(train)?;
    check_partitions(&train.partitioner)?;
    let mut modes = train.actions.iter().flat_map(|actions| actions.keys());
    if let Some(mode) = modes.find(|mode| !ACTION_MODES.contains(&mode.as_str())) {
        let known = crate::gin::one_of(&ACTION_MODES);
        return unfit(format!("train.actions has a key '{mode}', expected {known}"));
    }
    let periods = Periods::of(train, 0, 0).validated(0);
    periods.map(drop).map_err(|error| UnfitSpec(error.to_string()))
}

fn check_batches(train: &Train) -> Result<(), UnfitSpec> {
    let configs: [(&str, Option<&DatasetConfig>); 4] = [
        ("train", Some(&train.train_dataset_cfg)),
        ("train_eval", train.train_eval_dataset_cfg.as_ref()),
        ("infer_eval", train.infer_eval_dataset_cfg.as_ref()),
        ("after_training", train.after_training_dataset_cfg.as_ref()),
    ];
    let empty =
        |config: Option<&DatasetConfig>| config.is_some_and(|config| config.batch_size == 0);
    if let Some((scope, _)) = configs.iter().find(|(_, config)| empty(*config)) {
        return unfit(format!(
            "{scope}/utils.DatasetConfig.batch_size is 0, expected at least 1: set BATCH_SIZE"
        ));
    }
    let packs = |config: Option<&DatasetConfig>| config.is_some_and(|config| config.pack);
    if let Some((scope, _)) = configs.iter().find(|(_, config)| packs(*config)) {
        let setting = format!("{scope}/utils.DatasetConfig.pack = True");
        let (network, names) = (train.model.transformer(), train.model.dimensions());
        network.check_packing(names, (&setting, "pack = False")).map_err(UnfitSpec)?;
    }
    let trainer = train.trainer_cls.0.trainer();
    train.trainer_cls.0.gradient_factor().map_err(UnfitSpec)?;
    trainer.learning_rate_fn.build().map_err(|error| UnfitSpec(error.to_string()))?;
    trainer.loss_scaler.as_ref().map_or(Ok(()), LossScaler::check).map_err(UnfitSpec)?;
    let (batch_size, parts) = (train.train_dataset_cfg.batch_size, trainer.num_microbatches());
    match batch_size % parts {
        0 => Ok(()),
        _ => unfit(format!(
            "batch size {batch_size} is not divided evenly by trainer.Trainer.num_microbatches = \
             {parts}"
        )),
    }
}

fn check_loggers(train: &Train) -> Result<(), UnfitSpec> {
    let wrong = |error: MlflowError| UnfitSpec(error.to_string());
    if let Some(logger) = &train.training_logger {
        logger.0.settings().map_err(wrong)?;
    }
    let loggers = &train.inference_evaluator_cls.0.logger_cls;
    loggers.iter().try_for_each(|logger| logger.0.check()).map_err(wrong)
}

fn check_evaluations(train: &Train) -> Result<(), UnfitSpec> {
    let evaluates = Periods::of(train, 0, 0).eval > 0 || train.run_eval_before_training;
    for (watcher, is_bound) in [
        ("train.best", train.best.is_some()),
        ("train.reduce_on_plateau", train.reduce_on_plateau.is_some()),
    ] {
        if is_bound && !evaluates {
            return unfit(format!(
                "{watcher} watches a metric of evaluations, and the run makes none: bind train.eval_period, and \
                 train.train_eval_dataset_cfg or train.infer_eval_dataset_cfg"
            ));
        }
    }
    if train.train_eval_dataset_cfg.is_some() && train.eval_steps == Some(0) {
        return unfit(
            "train.eval_steps is 0, expected at least 1: set EVAL_STEPS, or bind \
             train.train_eval_dataset_cfg = None"
                .to_string(),
        );
    }
    let Some(config) = &train.infer_eval_dataset_cfg else { return Ok(()) };
    let remedy = "bind train.infer_eval_dataset_cfg = None";
    let predictions = train.model.prediction_spec();
    predictions.map_err(|error| UnfitSpec(format!("{error}: {remedy}")))?;
    match config.pack {
        true => unfit(
            "predictions are made of single examples: bind \
             infer_eval/utils.DatasetConfig.pack = False"
                .to_string(),
        ),
        false => Ok(()),
    }
}

fn check_restore(config: &RestoreCheckpointConfig) -> Result<(), UnfitSpec> {
    if config.mode == RestoreMode::All {
        // T5X refuses this mode too, even if there is nothing to restore.
        return unfit(
            "restore mode 'all' is not supported in training: use 'specific' or 'latest' \
             (utils.RestoreCheckpointConfig.mode)"
                .to_string(),
        );
    }
    if config.mode == RestoreMode::Specific && config.nearest_steps.is_some() {
        return unfit(
            "utils.RestoreCheckpointConfig.nearest_steps chooses among the checkpoints of a folder: use \
             mode = 'latest'"
                .to_string(),
        );
    }
    match &config.path.0[..] {
        [] => Ok(()),
        [one] => check_path("utils.RestoreCheckpointConfig.path", one),
        several => unfit(format!(
            "training restores one checkpoint, found {} in utils.RestoreCheckpointConfig.path",
            several.len()
        )),
    }
}

fn check_save(config: &SaveCheckpointConfig) -> Result<(), UnfitSpec> {
    config.compression().map_err(UnfitSpec)?;
    config.numpy_files().map_err(UnfitSpec)?;
    match config.keep_best() {
        Some(keep) => check_monitored(&keep.metric),
        None => Ok(()),
    }
}

/// Refuses a model whose parameters have no names in a Trainer's file.
fn check_form(train: &Train, save: &SaveCheckpointConfig) -> Result<(), UnfitSpec> {
    if save.format == SaveFormat::T5x {
        return Ok(());
    }
    for (is_bound, parameter) in [
        (save.compression.is_some(), "compression"),
        (save.commit != Commit::default(), "commit"),
        (save.keep_dataset_checkpoints.is_some(), "keep_dataset_checkpoints"),
    ] {
        if is_bound {
            return unfit(format!(
                "utils.SaveCheckpointConfig.{parameter} is bound, which files of format = 'trainer' do not have: expected \
                 format = 't5x', or no such binding"
            ));
        }
    }
    let network =
        TransformerSpec { layer_arrays: LayerArrays::Joined, ..train.model.transformer() };
    let activations: Vec<&str> =
        network.last.dims.mlp_activations.iter().map(Activation::as_str).collect();
    feed_forward(&activations).map_err(|reason| {
        UnfitSpec(format!("utils.SaveCheckpointConfig.format is 'trainer', and {reason}"))
    })?;
    let tree = network.param_tree();
    let names: Vec<&str> = tree.iter().map(|param| &param.name[..]).collect();
    match nameless(HUGGING_FACE, &names) {
        Some(name) => unfit(format!(
            "utils.SaveCheckpointConfig.format is 'trainer', whose files hold a T5 of t5-experiments or transformers, and \
             these have no `{name}`: expected format = 't5x'"
        )),
        None => Ok(()),
    }
}

/// Refuses a metric that no run writes, with which every checkpoint would be kept without a
/// message.
fn check_monitored(metric: &str) -> Result<(), UnfitSpec> {
    let runs = ["train/", "training_eval/", "inference_eval/"];
    match runs.iter().any(|run| metric.starts_with(run)) {
        true => Ok(()),
        false => unfit(format!(
            "metric_name_to_monitor is '{metric}', expected run and tag as TensorBoard shows them, \
             such as 'train/accuracy' or 'inference_eval/TASK/eval/rouge1'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_restores_one_checkpoint_or_none() {
        for (mode, paths, expected) in [
            (RestoreMode::Latest, &[][..], ""),
            (RestoreMode::Specific, &["runs/a/checkpoint_3"], ""),
            (RestoreMode::Latest, &["runs/a", "runs/b"], "restores one checkpoint, found 2"),
            (RestoreMode::All, &["runs/a"], "'all' is not supported in training"),
            (RestoreMode::All, &[], "'all' is not supported in training"),
        ] {
            let config = RestoreCheckpointConfig::new(paths, mode);
            let found = check_restore(&config).map_or_else(|unfit| unfit.0, |()| String::new());
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
        }
    }
}
