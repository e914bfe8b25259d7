//! Configurables of Mesh TensorFlow without a counterpart here. Files may bind their parameters, as its
//! `defaults.gin` does; a run that uses one is refused.

use std::sync::LazyLock;

use gimlet_gin::{Registry, Schema};

/// Full names, each with the reason.
const NAMES: [(&str, &str); 25] = [
    ("t5.models.mtf_model.MtfModel", "the flags of the API mode give the run"),
    ("optimize.AdamWeightDecayOptimizer", "the optimizer of Mesh TensorFlow's runs is Adafactor"),
    ("optimize.SgdOptimizer", "the optimizer of Mesh TensorFlow's runs is Adafactor"),
    ("optimize.MomentumOptimizer", "the optimizer of Mesh TensorFlow's runs is Adafactor"),
    (
        "transformer.adaptive_softmax.AdaptiveSoftmaxVocabEmbedding",
        "logits are those of one matrix",
    ),
    ("transformer.moe.MoE1D", "there are no mixtures of experts"),
    ("transformer.moe.MoE2D", "there are no mixtures of experts"),
    ("transformer.transformer.StudentTeacher", "there is no distillation"),
    ("transformer.transformer.make_bi_student_teacher", "there is no distillation"),
    ("transformer.transformer.get_vocab_embedding_cls", "there is one kind of embedding"),
    ("transformer.transformer.sublayer_annealed_dropout", "dropout has one rate"),
    ("transformer.transformer.sublayer_rezero", "sublayers are T5's"),
    ("transformer.transformer.sublayer_true_layer_norm", "sublayers are T5's"),
    ("transformer.transformer_layers.BranchedEncDecAttention", "attention is T5's"),
    ("transformer.transformer_layers.BranchedSelfAttention", "attention is T5's"),
    ("transformer.transformer_layers.GeneralBilinearEncDecAttention", "attention is T5's"),
    ("transformer.transformer_layers.GeneralBilinearSelfAttention", "attention is T5's"),
    ("transformer.transformer_layers.LocalSelfAttention", "attention is T5's"),
    ("transformer.transformer_layers.Synthesizer", "attention is T5's"),
    ("transformer.transformer_layers.TalkingHeadsEncDecAttention", "attention is T5's"),
    ("transformer.transformer_layers.TalkingHeadsSelfAttention", "attention is T5's"),
    ("transformer.transformer_layers.TransparentEncDecAttention", "attention is T5's"),
    ("transformer.utils.decode", "`gimlet generate` decodes texts"),
    (
        "transformer.utils.init_checkpoint_variable_mapping",
        "`gimlet checkpoint convert` renames arrays",
    ),
    ("transformer.vocab_embeddings.MixtureOfSoftmaxes", "logits are those of one matrix"),
];

static SCHEMAS: LazyLock<Vec<Schema>> = LazyLock::new(|| {
    let schema = |(name, reason): &(&'static str, &'static str)| Schema {
        name: full_name(name),
        doc: reason,
        declared_in: module_path!(),
        takes_any: true,
        ..Schema::default()
    };
    NAMES.iter().map(schema).collect()
});

/// Returns the name with its package.
fn full_name(name: &'static str) -> &'static str {
    match name.starts_with("t5.") {
        true => name,
        false => Box::leak(format!("mesh_tensorflow.{name}").into_boxed_str()),
    }
}

/// Adds them to a registry.
pub fn add(mut registry: Registry) -> Registry {
    for schema in SCHEMAS.iter() {
        registry.add(schema);
    }
    registry
}
