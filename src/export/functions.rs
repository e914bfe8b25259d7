//! The functions and classes that `export_lib.save` calls. They build a TensorFlow SavedModel, so most of their
//! parameters have no effect here.

use crate::gin::Configurable;

/// The module around the model. Source: T5X `export_lib.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5x.export_lib.ExportableModule",
    ignored(
        preproc_tf_fn = "no SavedModel is written",
        model_tf_fn = "no SavedModel is written",
        postproc_tf_fn = "no SavedModel is written",
        params = "no SavedModel is written",
        batch_size = "no SavedModel is written",
        num_batch_threads = "no SavedModel is written",
        max_enqueued_batches = "no SavedModel is written",
        batch_timeout_micros = "no SavedModel is written",
        max_batch_size = "no SavedModel is written",
        allowed_batch_sizes = "no SavedModel is written",
        jit_compile = "nothing is compiled",
        use_batch_function = "no SavedModel is written",
        use_gpu = "no SavedModel is written",
        enable_large_batch_splitting = "no SavedModel is written"
    )
)]
pub struct ExportableModule {}

/// Tokenizes in the exported program. Source: T5X `export_lib.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5x.export_lib.create_preprocessor",
    ignored(
        batch_size = "the tokenizer of transformers takes any",
        output_features = "the tokenizer is that of the model's vocabulary",
        task_feature_lengths = "the tokenizer does not cut",
        tokenized_inputs = "`save` says it",
        input_tensor_name = "transformers name their inputs",
        split_separator = "no SavedModel is written",
        bucket_keys = "no SavedModel is written"
    )
)]
pub struct CreatePreprocessor {}

/// Preprocesses as a task does, in the exported program. Source: T5X `export_lib.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5x.export_lib.create_preprocessor_from_task",
    ignored(
        batch_size = "the tokenizer of transformers takes any",
        output_features = "the tokenizer is that of the model's vocabulary",
        task_feature_lengths = "the tokenizer does not cut",
        tokenized_inputs = "`save` says it",
        model = "the tokenizer is that of the model's vocabulary",
        task_name = "preprocessors of tasks are not exported",
        serialized_examples = "no SavedModel is written",
        run_precache = "no SavedModel is written",
        input_tensor_name = "transformers name their inputs"
    )
)]
pub struct CreatePreprocessorFromTask {}

/// Any preprocessor of an exported program.
#[derive(Clone, Debug, PartialEq, Configurable)]
pub enum ExportPreprocessor {
    /// Tokenizes.
    Plain(CreatePreprocessor),
    /// Preprocesses as a task does.
    OfTask(CreatePreprocessorFromTask),
}

/// Converts the model to TensorFlow. Source: T5X `export_lib.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5x.export_lib.create_inference_function",
    ignored(
        model = "`save` says it",
        inference_mode = "`save` says it",
        partitioner = "no SavedModel is written",
        train_state_initializer = "no SavedModel is written",
        decoding_state_callback_fn = "no SavedModel is written",
        enable_jax2tf = "no SavedModel is written",
        enable_xla = "nothing is compiled",
        polymorphic_shapes_inputs = "no SavedModel is written",
        native_lowering = "nothing is compiled",
        native_lowering_platforms = "nothing is compiled",
        model_fn_extra_kwargs = "no SavedModel is written",
        jax2tf_disable_platform_checks = "no SavedModel is written",
        output_len = "task_feature_lengths say it"
    )
)]
pub struct CreateInferenceFunction {}

/// Decodes in the exported program. Source: T5X `export_lib.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5x.export_lib.create_postprocessor",
    ignored(
        vocab = "the tokenizer is that of the model's vocabulary",
        inference_mode = "`save` says it",
        decode_outputs = "the tokenizer of transformers decodes",
        output_feature_names = "no SavedModel is written",
        add_token_length_to_output = "no SavedModel is written"
    )
)]
pub struct CreatePostprocessor {}

/// Describes shapes for XLA. Source: T5X `export_lib.py`.
#[derive(Clone, Debug, Default, PartialEq, Configurable)]
#[gin(
    name = "t5x.export_lib.create_batch_polymorphic_shapes",
    ignored(
        input_signature = "nothing is compiled",
        preprocessor = "nothing is compiled",
        create_fake_input_fn = "nothing is compiled",
        overrides = "nothing is compiled"
    )
)]
pub struct CreateBatchPolymorphicShapes {}

/// Writes warm-up examples. Source: T5X `export_lib.py`.
#[derive(Clone, Debug, PartialEq, Configurable)]
#[gin(
    name = "t5x.export_lib.write_warmup_examples",
    ignored(
        text_batch = "`save` says it",
        output_dir = "`save` says it",
        model_name = "`save` says it",
        signature_name = "`save` says it",
        batch_sizes = "`save` says it",
        generate_examples_fn = "a Python function; Python is never run",
        decoder_params_spec = "no SavedModel is written",
        request_to_prediction_log = "requests are written as JSON",
        input_tensor_dtype = "JSON distinguishes texts from numbers"
    )
)]
pub struct WriteWarmupExamples {
    /// Name of the texts in a request.
    #[gin(default = "text_batch".to_string())]
    pub input_tensor_name: String,
}

macro_rules! only {
    ($(#[$doc:meta])* $name:ident($member:ident)) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Configurable)]
        pub enum $name {
            /// T5X's own.
            Own($member),
        }
    };
}

only! {
    /// The class of the module.
    ExportedModule(ExportableModule)
}
only! {
    /// The converter of the model.
    InferenceFunction(CreateInferenceFunction)
}
only! {
    /// The postprocessor.
    ExportPostprocessor(CreatePostprocessor)
}
only! {
    /// The description of shapes.
    PolymorphicShapes(CreateBatchPolymorphicShapes)
}
only! {
    /// The writer of warm-up examples.
    WarmupWriter(WriteWarmupExamples)
}
