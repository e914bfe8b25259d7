//! Names of T5X's Python modules that do not exist here, with the remedy: code that T5X's own code calls, so that a
//! binding has no effect in T5X either, and classes for programs in Python. docs/t5x.md lists them in short.

use crate::gin::Absent;

const LOSS: &str = "the loss is the model's: bind `label_smoothing`, `z_loss` and `loss_normalizing_factor` of \
                    models.EncoderDecoderModel or models.DecoderOnlyModel";
const METRICS: &str = "docs/logs.md lists the metrics of every run; `trainer.Trainer.weight_metrics_computer = \
                       @trainer.WeightMetricsComputer()` adds those of each parameter";
const UPDATE: &str =
    "the update is that of @trainer.Trainer: bind its `num_microbatches` and `learning_rate_fn`";
const ACTIONS: &str = "`train.actions` is a dict from 'TRAIN', 'TRAIN_EVAL' and 'INFER_EVAL' to lists of \
                       @trainer.TerminateOnNanAction() and @trainer.EarlyStoppingAction()";
const OPTIMIZERS: &str = "each optimizer of optax has its own name, such as @optimizers.adamw(), and @optimizers.chain() \
                          puts clipping before it";
const FACTORS: &str =
    "parameters are told apart by their logical axes: bind `logical_factor_rules`";
const MESH: &str = "the mesh follows from the number of processes: bind `num_partitions` and `logical_axis_rules` of \
                    partitioning.PjitPartitioner";
const CHECKPOINTS: &str = "bind utils.SaveCheckpointConfig and utils.RestoreCheckpointConfig; `gimlet checkpoint` lists, \
                           shows, verifies and converts";
const CHECKPOINT_NAMES: &str =
    "checkpoints are always named `checkpoint_N`, under which T5X looks for them";
const OWN_PART: &str =
    "Gimlet has its own code for this part, which needs no binding: omit the line";
const SHAPES: &str =
    "no batch is made for a compiler: `gimlet precompile` checks shapes and memory without data";
const DECODING: &str =
    "it is an inner part of decoding.beam_search or decoding.temperature_sample: bind those";
const PYTHON_API: &str = "it is for programs in Python; `gimlet generate`, `score` and `serve` answer texts, and \
                          docs/generate.md has a table of InteractiveModel's methods";
const EXPORT: &str = "no SavedModel is written: `gimlet export` writes a folder for transformers";
const COMMAND_LINE: &str = "the command line does this: `gimlet --help`";
const PROMPT_OF_ENCODER: &str = "prompts are those of an encoder: use @layers.PromptEncoderDecoder() with @layers.PromptEncoder";
const FIDDLE: &str = "runs are described by gin files, not by Fiddle";

/// T5X's names.
pub(super) const T5X: &[Absent] = &[
    Absent::module("t5x.losses", LOSS),
    Absent::module("t5x.metrics", METRICS),
    Absent::module(
        "t5x.train_state",
        "the state of a training is not a value of gin: `gimlet checkpoint show` prints it",
    ),
    Absent::module("t5x.binary_search", "bind `topk` or `topp` of decoding.temperature_sample"),
    Absent::module(
        "t5x.checkpoint_importer",
        "checkpoints of TensorFlow are recognized at any path that names one",
    ),
    Absent::module("t5x.checkpoint_utils", CHECKPOINTS),
    Absent::module("t5x.checkpoints_utils", CHECKPOINT_NAMES),
    Absent::module("t5x.config_utils", FIDDLE),
    Absent::module("t5x.fiddle_configs", FIDDLE),
    Absent::names(
        "prompt_tuning.extended.perceptron.train.models",
        &["ValidLabelsOnlyEncoderDecoderModel"],
        "it is an inner part of CrossEntropyEncoderDecoderModel and PerceptronLossEncoderDecoderModel: bind one of those",
    ),
    Absent::names(
        "prompt_tuning.extended.perceptron.train.models",
        &["fold", "shape_fold", "unfold"],
        OWN_PART,
    ),
    Absent::names(
        "prompt_tuning.extended.train.wayward",
        &["squared_l2"],
        "bind `distance` of wayward.WaywardPromptEncoderDecoderModel: @wayward.squared_l2_distance",
    ),
    Absent::names(
        "prompt_tuning.extended.train.per_layer",
        &["PromptDecoderLayer"],
        PROMPT_OF_ENCODER,
    ),
    Absent::names(
        "prompt_tuning.extended.masks",
        &["prompt_decoder_attention_mask", "summarize_attention"],
        PROMPT_OF_ENCODER,
    ),
    Absent::names(
        "prompt_tuning.extended.multitask_prompts",
        &[
            "MultiTaskPrompt",
            "add_shared_and_tasks",
            "concat_features_shared_and_tasks",
            "concat_shared_and_tasks",
            "input_features",
            "match_shared",
            "project_shared_with_tasks",
            "projection_size",
            "shared_features_attr_or_input_features",
            "task_features_or_match_shared",
            "task_length_attr_or_match_shared",
        ],
        "the classes have these functions: use @multitask_prompts.AddMultiTaskPrompt(), ConcatMultiTaskPrompt(), \
         ConcatFeaturesMultiTaskPrompt() or ProjectMultiTaskPrompt()",
    ),
    Absent::module("prompt_tuning.train.models", PROMPT_OF_ENCODER),
    Absent::names(
        "prompt_tuning.train.layers",
        &["PromptDecoder", "PromptDecoderOnly"],
        PROMPT_OF_ENCODER,
    ),
    Absent::names("prompt_tuning.masks", &["create_prompt_decoder_only_mask"], PROMPT_OF_ENCODER),
    Absent::names(
        "prompt_tuning.prompts",
        &["InferenceOnlyPrompt"],
        "use @prompts.Prompt() with prompts.from_array: commands read the file where the checkpoint has no prompt",
    ),
    Absent::names("prompt_tuning.prompts", &["expand_to_batch"], OWN_PART),
    Absent::names(
        "prompt_tuning.train.utils",
        &["MultiOptimizer"],
        "use @t5x.optimizers.MultiOptimizer(), whose optimizers keep T5X's state",
    ),
    Absent::names("prompt_tuning.train.utils", &["np_save"], OWN_PART),
    Absent::module("t5x.main", COMMAND_LINE),
    Absent::module("t5x.test_utils", "it is for T5X's own tests"),
    Absent::module("t5x.contrib.calm", "early exits from a decoder (CALM) are not implemented"),
    Absent::module(
        "t5x.scripts.xm_launch",
        "XManager is not supported: `gimlet launch` starts processes",
    ),
    Absent::names(
        "t5x.scripts.convert_tf_checkpoint",
        &["convert_checkpoint"],
        "`gimlet checkpoint convert FROM TO` does this, without a gin file",
    ),
    Absent::names("t5x.train", &["run_actions"], ACTIONS),
    Absent::names(
        "t5x.eval",
        &["InferenceEvaluator"],
        "bind `evaluate.inference_evaluator_cls`: @seqio.Evaluator or None",
    ),
    Absent::names(
        "t5x.infer",
        &["FailFastThreadPoolExecutor", "update_measurement_series"],
        OWN_PART,
    ),
    Absent::names(
        "t5x.trainer",
        &[
            "MetricsManager",
            "merge_metrics",
            "ArrayMapFuture",
            "MetricValueMapFuture",
            "TimeFuture",
        ],
        METRICS,
    ),
    Absent::names(
        "t5x.trainer",
        &[
            "BaseTrainer",
            "accumulate_grads_microbatched",
            "apply_grads",
            "eval_step",
            "train_with_lr",
        ],
        UPDATE,
    ),
    Absent::names("t5x.trainer", &["ActionMode", "BaseAction", "PreemptionError"], ACTIONS),
    Absent::names(
        "t5x.models",
        &["BaseModel", "BaseTransformerModel"],
        "use @models.EncoderDecoderModel() or @models.DecoderOnlyModel()",
    ),
    Absent::names(
        "t5x.models",
        &["PrefixLanguageModel"],
        "T5X has renamed it: use @models.DecoderOnlyModel() with `inputs_bidirectional_attention = True`",
    ),
    Absent::names(
        "t5x.models",
        &[
            "compute_base_metrics",
            "compute_metrics",
            "compute_weighted_accuracy",
            "count_packed_examples",
        ],
        METRICS,
    ),
    Absent::names("t5x.models", &["remove_prefix"], OWN_PART),
    Absent::names(
        "t5x.optimizers",
        &[
            "Optimizer",
            "OptimizerDef",
            "OptimizerState",
            "OptaxStatePartitionRules",
            "OptaxWrapper",
            "wrap_optax_optimizer",
        ],
        OPTIMIZERS,
    ),
    Absent::names(
        "t5x.adafactor",
        &["FactorDim", "HeuristicRule", "factor_name_to_factordim"],
        FACTORS,
    ),
    Absent::names(
        "t5x.partitioning",
        &[
            "AxisNames",
            "BasePartitioner",
            "BasePjitPartitioner",
            "DataLayout",
            "LocalChunkInfo",
            "LocalChunker",
            "PjittedFnWithContext",
            "bounds_from_last_device",
            "default_mesh",
            "get_coords",
            "get_cpu_mesh",
            "get_gpu_mesh",
            "get_mesh",
            "global_mesh_defined",
            "host_local_array_to_global_array",
            "with_sharding_constraint",
        ],
        MESH,
    ),
    Absent::names(
        "t5x.checkpoints",
        &[
            "all_dataset_checkpoint_steps",
            "all_steps",
            "get_checkpoint_dir",
            "get_checkpoint_prefix",
            "get_step_from_checkpoint_dir",
            "latest_step",
        ],
        CHECKPOINT_NAMES,
    ),
    Absent::names(
        "t5x.checkpoints",
        &[
            "DatasetArgs",
            "DatasetCheckpointHandler",
            "fake_param_info",
            "find_checkpoint",
            "get_local_data",
            "load_t5x_checkpoint",
            "populate_metrics_for_steps",
            "register_ts_spec_for_serialization",
        ],
        CHECKPOINTS,
    ),
    Absent::names(
        "t5x.utils",
        &["get_zeros_batch_like_dataset", "get_zeros_batch_like_spec"],
        SHAPES,
    ),
    Absent::names(
        "t5x.utils",
        &[
            "LegacyCheckpointManager",
            "LegacyCheckpointer",
            "create_checkpoint_manager_and_restore",
            "create_orbax_checkpoint_manager",
            "get_fallback_state",
            "get_first_valid_restore_config_and_paths",
            "restore",
        ],
        CHECKPOINTS,
    ),
    Absent::names(
        "t5x.utils",
        &["override_params_axes_names"],
        "bind `logical_axis_rules` of partitioning.PjitPartitioner",
    ),
    Absent::names(
        "t5x.utils",
        &["round_vocab_size_to_multiple"],
        "write the number: the vocabulary's size, rounded up to a multiple of 128",
    ),
    Absent::names("t5x.utils", &["import_module"], "write an `import` statement"),
    Absent::names("t5x.utils", &["run_main"], COMMAND_LINE),
    Absent::names(
        "t5x.utils",
        &[
            "ShardedDatasetIterator",
            "TrainStateInitializer",
            "find_first_checkpoint_step",
            "find_next_checkpoint_step",
            "flatten_dict_string_keys",
            "get_dataset",
            "get_dataset_inner",
            "get_infer_fn",
            "get_vocabulary",
            "log_model_info",
            "multihost_assert_equal",
            "prepare_train_iter",
            "set_hardware_rng_ops",
            "sync_global_devices",
            "verify_matching_vocabs",
        ],
        OWN_PART,
    ),
    Absent::names(
        "t5x.state_utils",
        &[
            "flatten_state_dict",
            "get_name_tree",
            "intersect_state",
            "merge_state",
            "tensorstore_leaf",
        ],
        "bind `assignment_map` and `fallback_to_scratch` of utils.RestoreCheckpointConfig",
    ),
    Absent::names(
        "t5x.gin_utils",
        &["get_gin_config_str"],
        "config.gin has gin's layout; `gimlet gin explain` says where each value comes from",
    ),
    Absent::names("t5x.gin_utils", &["parse_gin_flags", "rewrite_gin_args"], COMMAND_LINE),
    Absent::names(
        "t5x.decoding",
        &[
            "BeamState",
            "DecodingState",
            "SamplingLoopState",
            "add_beam_dim",
            "beam_init",
            "brevity_penalty",
            "cache_gather_beams",
            "cache_map",
            "flat_batch_beam_expand",
            "flatten_beam_dim",
            "gather_beams",
            "gather_topk_beams",
            "top_k_two_stage",
            "unflatten_beam_dim",
        ],
        DECODING,
    ),
    Absent::names(
        "t5x.export_lib",
        &[
            "CustomInferenceMode",
            "PreprocessorFnFromTask",
            "bucketize_tokenized_input",
            "create_decoder_preprocessor",
            "create_dual_encoder_preprocessor",
            "create_fake_input",
            "create_preprocessor_with_decoder_params",
            "create_single_tensor_input_signature",
            "flatten",
            "generate_examples_with_sequence_lengths",
            "get_train_state_initializer",
            "load_params_from_checkpoint",
            "truncate_and_pad_tokenized_input",
        ],
        EXPORT,
    ),
    Absent::names(
        "t5x.interactive_model",
        &[
            "InferenceType",
            "T5XScriptType",
            "get_batches_from_seqio",
            "get_dataset_from_natural_text_examples",
            "get_gin_config_from_interactive_model",
            "get_seqio_task_from_examples",
        ],
        PYTHON_API,
    ),
];

#[cfg(test)]
mod tests {
    use super::super::configure::registry;

    #[test]
    fn no_absent_name_is_that_of_a_configurable() {
        let registry = registry();
        let clash = registry.names().find(|name| {
            let (module, short) = name.rsplit_once('.').unwrap_or(("", name));
            registry.modules.remedy(module, short).is_some()
        });
        assert_eq!(clash, None);
    }
}
