//! Places where a configuration of Mesh TensorFlow means something else than its reader expects.

use gimlet::run::translate_mesh_tf;

use super::{file, translated, value, values};

#[test]
fn either_name_of_the_first_checkpoint_is_honoured() {
    let path = "t5x.utils.RestoreCheckpointConfig.path";
    assert_eq!(value(path, &[]), "'/t5/base/model.ckpt-999900'");
    let newer = ["tpu_estimator_model_fn.init_checkpoint = None", "run.init_checkpoint = '/other'"];
    assert_eq!(value(path, &newer), "'/other'");
    assert_eq!(value("t5x.utils.RestoreCheckpointConfig.mode", &newer), "'latest'");
    let Err(error) = translated(&["run.init_checkpoint = '/other'"]) else { panic!("they differ") };
    assert!(error.contains("`run.init_checkpoint` is '/other'"), "{error}");
    assert!(error.contains("a training starts from one checkpoint"), "{error}");
}

#[test]
fn tokens_per_batch_acts_only_through_the_macro() {
    assert_eq!(value("BATCH_SIZE", &["tokens_per_batch = 1048576"]), "2048");
    let literal = ["run.batch_size = ('tokens_per_batch', 16384)", "tokens_per_batch = 1048576"];
    assert_eq!(value("BATCH_SIZE", &literal), "32");
}

#[test]
fn without_tpu_activations_are_float32() {
    let dtype = "t5x.examples.t5.network.T5Config.dtype";
    assert_eq!(value(dtype, &[]), "'float32'");
    let base = format!("--gin_file={}", file(super::BASE));
    let words = [
        &base,
        "--tpu=a",
        "--gin_param=tpu_topology = 'v3-8'",
        "--gin_param=init_checkpoint = None",
    ];
    let translated = translate_mesh_tf(&words).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(values(&translated)[dtype], "'bfloat16'");
}

#[test]
fn a_prefix_lm_of_the_paper_is_trained_as_bound_with_a_warning() {
    let exchanged = [
        "denoise.noise_mask_fn = @preprocessors.random_prefix_noise_mask",
        "denoise.inputs_fn = @preprocessors.drop_noise_tokens",
        "denoise.targets_fn = @preprocessors.drop_nonnoise_tokens",
    ];
    let translated = translated(&exchanged).expect("it can be translated");
    assert!(
        translated.warnings.contains("the inputs are the second part of a text"),
        "{}",
        translated.warnings
    );
    let inputs = &values(&translated)["t5.data.preprocessors.denoise.inputs_fn"];
    assert_eq!(inputs, "@t5.data.preprocessors.drop_noise_tokens");
}

#[test]
fn sentinels_are_those_of_the_task() {
    let translated =
        translated(&["SentencePieceVocabulary.extra_ids = 0"]).expect("it can be translated");
    let expected = "the task's vocabulary has 100 sentinels, and 0 are bound here";
    assert!(translated.warnings.contains(expected), "{}", translated.warnings);
    assert_eq!(values(&translated)["t5x.examples.t5.network.T5Config.vocab_size"], "32128");
}

#[test]
fn a_scope_of_a_reference_replaces_that_of_its_stack() {
    let adapters = [
        "encoder/make_layer_stack.layers = [@SelfAttention, @DenseReluDense, ('task_adapter', @task_adapter/DenseReluDense)]",
        "decoder/make_layer_stack.layers = [@SelfAttention, @EncDecAttention, @DenseReluDense, ('task_adapter', @task_adapter/DenseReluDense)]",
        "task_adapter/DenseReluDense.hidden_size = 64",
        // In the scope of the adapter alone, neither of these is seen.
        "encoder/DenseReluDense.hidden_size = 3072",
        "task_adapter/DenseReluDense.dropout_rate = 0.1",
    ];
    let width = "t5x.examples.t5.network.T5Config.adapter_dim";
    assert_eq!(value(width, &adapters), "64");
}

#[test]
fn a_learning_rate_of_zero_stays_zero() {
    let zero = [
        "run.learning_rate_schedule = @learning_rate_schedules.learning_rate_schedule_noam",
        "learning_rate_schedule_noam.multiplier = 0.0",
        "learning_rate_schedule_noam.linear_decay_fraction = 0.0",
    ];
    let base = "t5x.utils.create_learning_rate_scheduler.base_learning_rate";
    assert_eq!(value(base, &zero), "0.0");
    let library = include_str!("../../../gin/gimlet/mesh_tf/train.gin");
    assert!(library.contains("min_learning_rate = 0.0"));
}

#[test]
fn files_of_2019_that_name_lm_join_inputs_and_targets() {
    let lm = [
        "run.model_type = 'lm'",
        "make_layer_stack.layers = [@SelfAttention, @DenseReluDense]",
        "make_layer_stack.num_layers = 12",
        "SelfAttention.relative_attention_type = 'bias_shared'",
        "SelfAttention.num_heads = 12",
        "DenseReluDense.hidden_size = 3072",
        "Unitransformer.positional_embedding = False",
        "Unitransformer.input_full_attention = True",
        "dropout_rate = 0.1",
    ];
    let bidirectional = "t5x.models.DecoderOnlyModel.inputs_bidirectional_attention";
    assert_eq!(value(bidirectional, &lm), "True");
    assert_eq!(value("seqio.PrefixLMFeatureConverter.loss_on_targets_only", &lm), "False");
}

#[test]
fn names_on_t5s_list_are_skipped_and_others_are_not() {
    translated(&["maybe_print_dataset.should_print = False"]).expect("it is on the list");
    let Err(error) = translated(&["maybe_prnt_dataset.x = False"]) else { panic!("it is unknown") };
    assert!(error.contains("no configurable is named `maybe_prnt_dataset`"), "{error}");
}

#[test]
fn a_vocabulary_of_a_skipped_name_is_that_of_the_task() {
    let old = ["run.vocabulary = @configurable_vocabulary()", "configurable_vocabulary.x = 1"];
    let notices = translated(&old).expect("the task has a vocabulary").notices;
    assert_eq!(notices, ["unknown names are skipped: `configurable_vocabulary`"]);
    let Err(error) = translated(&["run.optimizer = @configurable_vocabulary()"]) else {
        panic!("there is no optimizer")
    };
    assert!(error.contains("no configurable is named `configurable_vocabulary`"), "{error}");
    // A later value replaces the skipped one.
    let replaced = [
        "run.optimizer = @configurable_vocabulary()",
        "run.optimizer = @optimize.AdafactorOptimizer",
    ];
    assert!(translated(&replaced).is_ok());
}

#[test]
fn a_perplexity_is_the_cross_entropy_alone() {
    let perplexity = [
        "run.mode = 'perplexity_eval'",
        "run.eval_dataset_fn = @t5.models.mesh_transformer.mesh_eval_dataset_fn",
        "mesh_eval_dataset_fn.mixture_or_task_name = %MIXTURE_NAME",
    ];
    let values = values(&translated(&perplexity).expect("it is an evaluation"));
    assert_eq!(values["Z_LOSS"], "0.0");
    assert_eq!(values["t5x.models.EncoderDecoderModel.loss_normalizing_factor"], "None");
    assert_eq!(values["t5x.utils.get_training_eval_datasets.eval_steps"], "100");
}

#[test]
fn old_files_write_steps_as_floats_and_initial_values_that_t5_has() {
    let old = [
        "run.learning_rate_schedule = @learning_rate_schedules.truncated_rsqrt",
        "truncated_rsqrt.warmup_steps = 500.0",
        "VarianceScalingInitializer.mode = 'fan_in'",
    ];
    let values = values(&translated(&old).expect("T5 has them"));
    let mut steps =
        values.iter().filter(|(name, _)| name.ends_with("truncated_rsqrt.warmup_steps"));
    assert_eq!(steps.next().map(|(_, steps)| steps.as_str()), Some("500"));
    for (line, reason) in [
        ("VarianceScalingInitializer.scale = 2.0", "T5's variance"),
        ("unit_scaling_convention.value = True", "T5's scale"),
        ("truncated_rsqrt.warmup_steps = 0.5", "expected an int of 0 or more"),
    ] {
        let Err(error) = translated(&[old[0], line]) else { panic!("`{line}` is not T5's") };
        assert!(error.contains(reason), "{error}");
    }
}
