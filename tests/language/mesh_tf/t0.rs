//! T0's commands as its authors type them, on a stand-in for the pretrained model's configuration.

use gimlet::run::translate_mesh_tf;

use super::{file, values};

/// Translates flags, after those that both commands have.
fn translated(flags: &[&str]) -> std::collections::BTreeMap<String, String> {
    let both = [
        "--tpu=my_tpu",
        "--gcp_project=my_project",
        "--tpu_zone=my_zone",
        "--model_dir=gs://bucket/t0",
        "--additional_task_cache_dirs=gs://bucket/cache",
        "--gin_param=utils.tpu_mesh_shape.tpu_topology = 'v3-512'",
        "--gin_param=pack_dataset.use_custom_ops = False",
        "--gin_param=run.sequence_length = {'inputs': 1024, 'targets': 256}",
        "--gin_param=model_info = 'gs://bucket/t0/model-info.txt'",
        "--gin_param=mesh_train_dataset_fn.use_cached = True",
        "--gin_param=serialize_num_microbatches.tokens_per_microbatch_per_replica = 2048",
        "--gin_param=MIXTURE_NAME = 'super_glue_v102_proportional'",
    ];
    let config = format!("--gin_file={}", file("t0_operative_config.gin"));
    let words: Vec<&str> = both.iter().chain(&[config.as_str()]).chain(flags).copied().collect();
    values(&translate_mesh_tf(&words).unwrap_or_else(|failure| panic!("{failure}")))
}

#[test]
fn the_training_has_1024_packed_sequences_a_batch_from_the_restored_step() {
    let values = translated(&[
        "--gin_file=dataset.gin",
        "--gin_file=learning_rate_schedules/constant_0_001.gin",
        "--gin_param=run.train_steps = 1112200",
        "--gin_param=tokens_per_batch=1048576",
        "--gin_param=tpu_mesh_shape.model_parallelism = 8",
    ]);
    for (key, value) in [
        ("BATCH_SIZE", "1024"),
        ("TRAIN_STEPS", "1112200"),
        ("TASK_FEATURE_LENGTHS", "{'inputs': 1024, 'targets': 256}"),
        ("USE_CACHED_TASKS", "True"),
        ("train/t5x.utils.DatasetConfig.pack", "True"),
        ("t5x.utils.create_learning_rate_scheduler.factors", "'constant'"),
        ("t5x.utils.create_learning_rate_scheduler.base_learning_rate", "0.001"),
        ("t5x.partitioning.PjitPartitioner.num_partitions", "8"),
        ("t5x.examples.t5.network.T5Config.dtype", "'bfloat16'"),
        (
            "t5x.utils.RestoreCheckpointConfig.path",
            "'gs://t5-data/pretrained_models/t5.1.1.lm100k.xxl/model.ckpt-1100000'",
        ),
    ] {
        assert_eq!(values[key], value, "{key}");
    }
}

#[test]
fn the_rank_evaluation_takes_the_nearest_step_and_256_sequences_a_batch() {
    let values = translated(&[
        "--gin_file=score_eval.gin",
        "--gin_param=run.batch_size = ('tokens_per_batch', 262144)",
        "--gin_param=mesh_eval_dataset_fn.use_cached = True",
        "--gin_param=tpu_mesh_shape.model_parallelism = 4",
        "--gin_param=eval_checkpoint_step = 1112200",
        "--gin_param=run.dataset_split = 'validation'",
    ]);
    for (key, value) in [
        ("BATCH_SIZE", "256"),
        ("EVAL_OUTPUT_DIR", "'gs://bucket/t0/validation_eval'"),
        ("CHECKPOINT_PATH", "'gs://bucket/t0'"),
        ("t5x.utils.RestoreCheckpointConfig.nearest_steps", "[1112200]"),
        ("t5x.utils.DatasetConfig.use_cached", "True"),
        ("t5x.utils.DatasetConfig.split", "'validation'"),
    ] {
        assert_eq!(values[key], value, "{key}");
    }
}
