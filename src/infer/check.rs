//! Mistakes that are visible in the spec of an inference alone, found before anything is built.

use crate::session::check::{
    UnfitSpec, check_inputs, check_partitions, check_path, check_restore, unfit,
};

use super::spec::{Infer, WriteFn};

/// Finds the first mistake.
///
/// # Errors
/// The first mistake.
pub fn check(spec: &Infer) -> Result<(), UnfitSpec> {
    check_path("INFER_OUTPUT_DIR", &spec.output_dir)?;
    spec.model.check().map_err(UnfitSpec)?;
    spec.model.prediction_spec()?;
    check_examples(spec)?;
    check_shards(spec)?;
    check_files(spec)?;
    check_restore(&spec.restore_checkpoint_cfg, spec.fallback_init_rng, "infer")?;
    check_partitions(&spec.partitioner)
}

fn check_examples(spec: &Infer) -> Result<(), UnfitSpec> {
    let data = &spec.dataset_cfg;
    if data.batch_size == 0 {
        return unfit("utils.DatasetConfig.batch_size is 0, expected at least 1".to_string());
    }
    if spec.checkpoint_period == 0 {
        return unfit(
            "infer.checkpoint_period is 0 batches, expected at least 1: results are written after so many \
             batches"
                .to_string(),
        );
    }
    if data.pack {
        return unfit(
            "outputs are those of single examples: bind utils.DatasetConfig.pack = False"
                .to_string(),
        );
    }
    if data.task_feature_lengths.is_none() {
        return unfit(
            "utils.DatasetConfig.task_feature_lengths is None, expected a length for each feature: bind \
             TASK_FEATURE_LENGTHS"
                .to_string(),
        );
    }
    check_inputs(&spec.model, data.task_feature_lengths.as_ref())
}

fn check_shards(spec: &Infer) -> Result<(), UnfitSpec> {
    let Infer { shard_id, num_shards, .. } = *spec;
    match (num_shards, shard_id < num_shards) {
        (0, _) => unfit("infer.num_shards is 0, expected at least 1".to_string()),
        (_, true) => Ok(()),
        (_, false) => unfit(format!(
            "infer.shard_id is {shard_id}, expected a number below infer.num_shards, which is {num_shards}: shards \
             are counted from 0, and each run has its own"
        )),
    }
}

fn check_files(spec: &Infer) -> Result<(), UnfitSpec> {
    let WriteFn::Inferences(written) = &spec.write_fn.0;
    if written.include_all_inputs && written.input_fields_to_include.is_some() {
        return unfit(
            "write_inferences_to_file.include_all_inputs and input_fields_to_include are both bound: \
             drop one of them"
                .to_string(),
        );
    }
    let extension = &spec.file_extension;
    if extension.is_empty() || extension.contains('/') {
        return unfit(format!(
            "infer.file_extension is '{extension}', expected the ending of a file's name, such as 'jsonl'"
        ));
    }
    Ok(())
}
